// Each element of the outputs y0, y1... is made of those of x0, x1..., which broadcast:
// rows of m elements lie together in the outputs; in a row, an input advances by one or
// stays. elementwise.py fills in the names.
$definitions

__kernel GROUPED void $name($arguments, long n$sizes) {
#if CPU
  long i = (long)get_global_id(0) * BLOCK;
  const long stop = min(i + BLOCK, n);
  while (i < stop) {
    const long row = i / $m, column = i - row * $m;
    const long count = min(stop - i, $m - column);
    $offsets
    $splats
    long j = 0;
    for (; j + WIDTH <= count; j += WIDTH) {
      $loads
      $work
      $stores
    }
#if WIDTH > 1
    if (j < count) {
      $tails
      $work
      for (int k = 0; k < count - j; k++) { $rests }
    }
#endif
    i += count;
  }
#else
  const long i = get_global_id(0);
  if (i >= n) return;
  const long row = i / $m, column = i - row * $m, j = 0;
  $offsets
  $splats
  $loads
  $work
  $stores
#endif
}
