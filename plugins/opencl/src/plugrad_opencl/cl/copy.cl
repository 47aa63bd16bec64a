// Move elements of any dtype: rows of m, in an order of its own on each side.
typedef $type S;
VECTOR(T, S);

#if CPU
__kernel GROUPED void copy(__global const S *restrict x, __global S *restrict y, long n,
                           long x_start, long y_start, long m, long x_step,
                           long y_step$sizes) {
  long i = (long)get_global_id(0) * BLOCK;
  const long stop = min(i + BLOCK, n);
  while (i < stop) {
    long rest = i / m;
    const long column = i - rest * m, count = min(stop - i, m - column);
    long from = x_start, to = y_start;
    $offsets
    i += count;
#if CONTIGUOUS
    __global const S *restrict a = x + from + column;
    __global S *restrict b = y + to + column;
    long j = 0;
    for (; j + WIDTH <= count; j += WIDTH) *(__global T *)(b + j) = *(__global const T *)(a + j);
    for (; j < count; j++) b[j] = a[j];
#else
    from += column * x_step;
    to += column * y_step;
    for (long j = 0; j < count; j++) y[to + j * y_step] = x[from + j * x_step];
#endif
  }
}
#else
__kernel GROUPED void copy(__global const S *restrict x, __global S *restrict y, long n,
                           long x_start, long y_start, long m, long x_step,
                           long y_step$sizes) {
  const long i = get_global_id(0);
  if (i >= n) return;
  long rest = i / m;
  const long column = i - rest * m;
  long from = x_start + column * x_step, to = y_start + column * y_step;
  $offsets
  y[to] = x[from];
}
#endif
