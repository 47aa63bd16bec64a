// y = (x - mean) / sqrt(variance + epsilon) * scale + offset, along rows: first the mean,
// then that of the squares of what differs, so that no digits cancel out. The gradient is
// (g - mean(g) - z mean(g z)) / sqrt(variance + epsilon) with g = dy scale, and z, which is
// y without scale and offset.
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
  SUM(mean, OF(e, x))
  JOIN(0, mean, a + b)
  mean /= n;
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
    T total = (T)(0), part = (T)(0), some = (T)(0), others = (T)(0);
    int level = 0;
    EACH_OF(0, from, mean, {
      T g = GET(back, i, 0);
      if (SCALE) g *= GET(scale, i, 0);
      some += g;
      others += g * ((value - mean) * factor);
      if (++level == LEVEL) {
        total += some, part += others;
        some = (T)(0), others = (T)(0), level = 0;
      }
    })
    total += some, part += others;
    S by = 0, along = 0;
    for (int l = 0; l < WIDTH; l++) by += total[l], along += part[l];
    by /= n, along /= n;
    EACH_OF(0, from, 0, {
      T g = GET(back, i, 0);
      if (SCALE) g *= GET(scale, i, 0);
      PUT(i, (g - by - (value - mean) * factor * along) * factor);
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
  S by = 0, along = 0;
  SUM(by, SCALED(OF(d, dy)))
  SUM(along, SCALED(OF(d, dy)) * Z)
  JOIN_SUMS(2, by, 0, along)
  by /= n, along /= n;
  PUT_ROW(d, dx, (SCALED(OF(d, dy)) - by - Z * along) * factor)
#endif
}
#endif
