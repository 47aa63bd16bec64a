// Copy elements of any dtype, in rows of m elements, with separate steps for x and y. Sizes
// and steps have the type L. On a GPU, offsets have the unsigned type N; its arithmetic is
// modular, so negative steps work. An item reads all its elements before it writes.
typedef $type S;
typedef $size L;
typedef $index N;
VECTOR(T, S);

__kernel GROUPED void copy(__global const S *restrict x, __global S *restrict y, L n,
                           L x_start, L y_start, L m, L x_step, L y_step$sizes) {
#if CPU
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
#else
#define PER_ITEM $each
  const N first = (N)get_group_id(0) * (GROUP * PER_ITEM) + (N)get_local_id(0);
  S value[PER_ITEM];
  N target[PER_ITEM];
  _Pragma("unroll") for (int k = 0; k < PER_ITEM; k++) {
    const N i = min(first + k * GROUP, (N)(n - 1));
#if ROWS
    N rest = i / (N)m;
    const N column = i - rest * (N)m;
#else
    const N column = i;
#endif
    N from = (N)x_start + column * (N)x_step, to = (N)y_start + column * (N)y_step;
    $offsets
    value[k] = x[from];
    target[k] = to;
  }
  _Pragma("unroll") for (int k = 0; k < PER_ITEM; k++)
    if (first + k * GROUP < (N)n) y[target[k]] = value[k];
#endif
}
