// y is x with `value` around it. A row of y either contains `left` elements of padding, a
// row of x and more padding, or lies outside of x. For each axis before the rows, `axes`
// contains the size in y, the padding before x, and the size in x.
typedef $type S;
VECTOR(T, S);

#if CPU
static inline void fill(__global S *restrict y, long n, S value) {
  long i = 0;
  for (; i + WIDTH <= n; i += WIDTH) *(__global T *)(y + i) = (T)(value);
  for (; i < n; i++) y[i] = value;
}
#endif

__kernel GROUPED void pad(__global const S *restrict x, __global S *restrict y,
                          __global const int *restrict axes, int rank, long rows,
                          long wide, long m, long left, S value) {
#if CPU
  const long first = (long)get_global_id(0) * ITEMS, last = min(first + ITEMS, rows);
  for (long row = first; row < last; row++) {
#else
  const long item = get_global_id(0), row = item / wide, column = item % wide;
  if (row < rows) {
#endif
    long rest = row, from = 0, step = 1;
    int inside = 1;
    for (int k = rank - 1; k >= 0; k--) {
      const long index = rest % axes[3 * k] - axes[3 * k + 1];
      rest /= axes[3 * k];
      inside &= index >= 0 && index < axes[3 * k + 2];
      from += index * step;
      step *= axes[3 * k + 2];
    }
    __global const S *restrict a = x + from * m;
    __global S *restrict b = y + row * wide;
#if CPU
    if (!inside) {
      fill(b, wide, value);
      continue;
    }
    fill(b, left, value);
    b += left;
    long i = 0;
    for (; i + WIDTH <= m; i += WIDTH) *(__global T *)(b + i) = *(__global const T *)(a + i);
    for (; i < m; i++) b[i] = a[i];
    fill(b + m, wide - left - m, value);
#else
    inside &= column >= left && column < left + m;
    b[column] = inside ? a[column - left] : value;
#endif
  }
}
