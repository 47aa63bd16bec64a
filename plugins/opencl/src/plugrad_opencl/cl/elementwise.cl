// Each element of the outputs y0, y1... is made of those of x0, x1..., which broadcast:
// rows of m elements lie together in the outputs; in a row, an input advances by one or
// stays. elementwise.py fills in the names.
// Elements of an item on a GPU: to start an item takes as long as to read some.
#define PER_ITEM 4
#if RANK
#define LENGTH m  // of a row
#define ROW(i) ((i) / m)
#else
#define LENGTH n
#define ROW(i) 0
#endif
$definitions

__kernel GROUPED void $name($arguments, long n$sizes) {
#if CPU
  long i = (long)get_global_id(0) * BLOCK;
  const long stop = min(i + BLOCK, n);
  while (i < stop) {
    const long row = ROW(i), column = i - row * LENGTH;
    const long count = min(stop - i, LENGTH - column);
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
  const long first = (long)get_group_id(0) * GROUP * PER_ITEM + get_local_id(0);
  _Pragma("unroll") for (int k = 0; k < PER_ITEM; k++) {
    const long i = first + k * GROUP;
    if (i >= n) return;
    const long row = ROW(i), column = i - row * LENGTH, j = 0;
    $offsets
    $splats
    $loads
    $work
    $stores
  }
#endif
}
