// Layer normalization of rows: y = z scale + offset with z = (x - mean) factor and
// factor = 1 / sqrt(variance + epsilon). The variance is the mean of (x - mean)^2, so that
// no digits cancel. With g = dy scale, the gradient is
// (g - mean(g) - z mean(g z)) factor. With RMS, 0 takes the place of the mean.
$rows

#if SCALE
#define SCALED(z) ((z) * OF(s, scale))
#else
#define SCALED(z) (z)
#endif
#if OFFSET
#define MOVED(z) ((z) + OF(o, offset))
#else
#define MOVED(z) (z)
#endif

#if CPU
// The sum of x - shift along a row, or with `square` that of (x - shift)^2.
static inline S sum_of(__global const S *restrict x, long n, S shift, int square) {
  T total = (T)(0), part = (T)(0);
  long begin = 0;
  int level = 0;
  while (begin + 4 * WIDTH <= n) {
    const long stop = min(n - 4 * WIDTH + 1, begin + LEVEL * 4 * WIDTH);
    T chunk[4] = {(T)(0), (T)(0), (T)(0), (T)(0)};
    for (; begin < stop; begin += 4 * WIDTH)
      _Pragma("unroll") for (int v = 0; v < 4; v++) {
        const T d = *(__global const T *)(x + begin + v * WIDTH) - shift;
        chunk[v] += square ? d * d : d;
      }
    part += (chunk[0] + chunk[1]) + (chunk[2] + chunk[3]);
    if (++level == LEVEL) total += part, part = (T)(0), level = 0;
  }
  EACH_OF(begin, x, shift, {
    const T d = value - shift;
    part += square ? d * d : d;
  })
  total += part;
  S sum = 0;
  for (int l = 0; l < WIDTH; l++) sum += total[l];
  return sum;
}
#endif

#if !BACK
#if FUSED
__kernel GROUPED void rows_region($arguments)
#else
__kernel GROUPED void layer_norm(__global const S *restrict x, __global S *restrict y,
                                 long rows, long n, long each,
                                 __global const S *restrict scale,
                                 __global const S *restrict offset, S epsilon)
#endif
{
#if CPU
  const long first = (long)get_global_id(0) * each, last = min(first + each, rows);
  for (long row = first; row < last; row++) {
    __global const S *restrict from = x + row * n;
    __global S *restrict to = y + row * n;
#if RMS
    const S mean = 0;
#else
    const S mean = sum_of(from, n, 0, 0) / n;
#endif
    const S factor = 1 / sqrt(sum_of(from, n, mean, 1) / n + epsilon);
    EACH_OF(0, from, 0, {
      T z = (value - mean) * factor;
      if (SCALE) z *= GET(scale, i, 0);
      if (OFFSET) z += GET(offset, i, 0);
      PUT(i, z);
    })
  }
#else
  PLACE
  PROLOGUE
  AT_ROW(x)
  AT_ROW(y)
  HOLD(e, x)
#if SCALE
  HOLD(s, scale)
#endif
#if OFFSET
  HOLD(o, offset)
#endif
  S mean = 0, factor = 0;
#if !RMS
  SUM(mean, OF(e, x))
  JOIN(0, mean, a + b)
  mean /= n;
#endif
  SUM(factor, (OF(e, x) - mean) * (OF(e, x) - mean))
  JOIN(1, factor, a + b)
  factor = 1 / sqrt(factor / n + epsilon);
  PUT_ROW(e, y, MOVED(SCALED((OF(e, x) - mean) * factor)))
#endif
}
#else
#if FUSED
__kernel GROUPED void rows_region($arguments)
#else
__kernel GROUPED void layer_norm_grad(__global const S *restrict x, __global S *restrict dx,
                                      long rows, long n, long each,
                                      __global const S *restrict dy,
                                      __global const S *restrict scale, S epsilon)
#endif
{
#if CPU
  const long first = (long)get_global_id(0) * each, last = min(first + each, rows);
  for (long row = first; row < last; row++) {
    __global const S *restrict from = x + row * n, *restrict back = dy + row * n;
    __global S *restrict to = dx + row * n;
    const S mean = sum_of(from, n, 0, 0) / n;
    const S factor = 1 / sqrt(sum_of(from, n, mean, 1) / n + epsilon);
    T g_total = (T)(0), gz_total = (T)(0), g_chunk = (T)(0), gz_chunk = (T)(0);
    int level = 0;
    EACH_OF(0, from, mean, {
      T g = GET(back, i, 0);
      if (SCALE) g *= GET(scale, i, 0);
      g_chunk += g;
      gz_chunk += g * ((value - mean) * factor);
      if (++level == LEVEL) {
        g_total += g_chunk, gz_total += gz_chunk;
        g_chunk = (T)(0), gz_chunk = (T)(0), level = 0;
      }
    })
    g_total += g_chunk, gz_total += gz_chunk;
    S g_mean = 0, gz_mean = 0;
    for (int l = 0; l < WIDTH; l++) g_mean += g_total[l], gz_mean += gz_total[l];
    g_mean /= n, gz_mean /= n;
    EACH_OF(0, from, 0, {
      T g = GET(back, i, 0);
      if (SCALE) g *= GET(scale, i, 0);
      PUT(i, (g - g_mean - (value - mean) * factor * gz_mean) * factor);
    })
  }
#else
  PLACE
  PROLOGUE
  AT_ROW(x)
  AT_ROW(dx)
  HOLD(e, x)
  AT_ROW(dy)
  HOLD(d, dy)
#if SCALE
  HOLD(s, scale)
#endif
  S mean = 0, factor = 0;
  SUM(mean, OF(e, x))
  JOIN(0, mean, a + b)
  mean /= n;
  SUM(factor, (OF(e, x) - mean) * (OF(e, x) - mean))
  JOIN(1, factor, a + b)
  factor = 1 / sqrt(factor / n + epsilon);
#define Z ((OF(e, x) - mean) * factor)
  S g_mean = 0, gz_mean = 0;
  SUM(g_mean, SCALED(OF(d, dy)))
  SUM(gz_mean, SCALED(OF(d, dy)) * Z)
  JOIN_SUMS(2, g_mean, 0, gz_mean)
  g_mean /= n, gz_mean /= n;
  PUT_ROW(d, dx, (SCALED(OF(d, dy)) - g_mean - Z * gz_mean) * factor)
#endif
}
#endif
