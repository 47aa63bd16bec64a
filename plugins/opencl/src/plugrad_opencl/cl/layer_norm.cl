// y = (x - mean) / sqrt(variance + epsilon) * scale + offset, along rows: first the mean,
// then that of the squares of what differs, so that no digits cancel out.
$rows

#if CPU
// The sum of x - less along a row, or that of its squares.
static inline S sum_of(__global const S *restrict x, long n, S less, int square) {
  T total = (T)(0), part = (T)(0);
  long begin = 0;
  int level = 0;
  while (begin + 4 * WIDTH <= n) {
    const long stop = min(n - 4 * WIDTH + 1, begin + LEVEL * 4 * WIDTH);
    T some[4] = {(T)(0), (T)(0), (T)(0), (T)(0)};
    for (; begin < stop; begin += 4 * WIDTH)
      _Pragma("unroll") for (int v = 0; v < 4; v++) {
        const T d = *(__global const T *)(x + begin + v * WIDTH) - less;
        some[v] += square ? d * d : d;
      }
    part += (some[0] + some[1]) + (some[2] + some[3]);
    if (++level == LEVEL) total += part, part = (T)(0), level = 0;
  }
  EACH_OF(begin, x, less, {
    const T d = value - less;
    part += square ? d * d : d;
  })
  total += part;
  S sum = 0;
  for (int l = 0; l < WIDTH; l++) sum += total[l];
  return sum;
}
#endif

__kernel GROUPED void layer_norm(__global const S *restrict x, __global S *restrict y,
                                 long rows, long n, long each,
                                 __global const S *restrict scale,
                                 __global const S *restrict offset, S epsilon) {
#if CPU
  const long first = (long)get_global_id(0) * each, last = min(first + each, rows);
  for (long row = first; row < last; row++) {
    __global const S *restrict from = x + row * n;
    __global S *restrict to = y + row * n;
    const S mean = sum_of(from, n, 0, 0) / n;
    const S factor = 1 / sqrt(sum_of(from, n, mean, 1) / n + epsilon);
    EACH_OF(0, from, 0, {
      T z = (value - mean) * factor;
      if (SCALE) z *= GET(scale, i, 0);
      if (OFFSET) z += GET(offset, i, 0);
      PUT(i, z);
    })
  }
#else
  __local S shared[GROUP];
  const int me = get_local_id(0);
  x += get_group_id(0) * n;
  y += get_group_id(0) * n;
  S mean = 0, factor = 0;
  for (long i = me; i < n; i += GROUP) mean += x[i];
  JOIN(mean, a + b)
  mean /= n;
  for (long i = me; i < n; i += GROUP) factor += (x[i] - mean) * (x[i] - mean);
  JOIN(factor, a + b)
  factor = 1 / sqrt(factor / n + epsilon);
  for (long i = me; i < n; i += GROUP) {
    S z = (x[i] - mean) * factor;
    if (SCALE) z *= scale[i];
    if (OFFSET) z += offset[i];
    y[i] = z;
  }
#endif
}
