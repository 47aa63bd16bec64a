// y[i] = op(a[i], b[i]...), where inputs broadcast: rows of m elements lie together in
// y; in a row, an input advances by one or stays. elementwise.py fills in the names.
$types
$functions
static inline Y op($parameters) { $body }

#if CPU
__kernel GROUPED void $name($arguments, __global SY *restrict y, long n$sizes) {
  long i = (long)get_global_id(0) * BLOCK;
  const long stop = min(i + BLOCK, n);
  while (i < stop) {
    const long row = i / $m, column = i - row * $m;
    const long count = min(stop - i, $m - column);
    __global SY *restrict to = y + i;
    $offsets
    $splats
    long j = 0;
    for (; j + WIDTH <= count; j += WIDTH) {
      $loads
      *(__global Y *)(to + j) = op($operands);
    }
#if WIDTH > 1
    if (j < count) {
      $tails
      const Y some = op($operands);
      for (int k = 0; k < count - j; k++) to[j + k] = some[k];
    }
#endif
    i += count;
  }
}
#else
__kernel GROUPED void $name($arguments, __global SY *restrict y, long n$sizes) {
  const long i = get_global_id(0);
  if (i >= n) return;
  const long row = i / $m, column = i - row * $m, j = 0;
  $offsets
  $splats
  $loads
  y[i] = op($operands);
}
#endif
