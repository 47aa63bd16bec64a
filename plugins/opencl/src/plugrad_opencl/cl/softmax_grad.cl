// dx = dy y - y sum(dy y), or with LOG dy - e^y sum(dy), along rows as in softmax.cl. Each
// row of dx adds up to 0. If y or e^y of an element is close to 1, digits cancel, so this
// element is computed as minus the sum of the others. No matter how y was rounded, at most
// one element of a row is above DOMINANT_ABOVE.
#define DOMINANT_ABOVE (LOG ? (S)-0.5 : (S)0.6)
$rows

#if FUSED
__kernel GROUPED void rows_region($arguments)
#else
__kernel GROUPED void softmax_grad(__global const S *restrict y, __global S *restrict dx,
                                   long rows, long n, long each,
                                   __global const S *restrict dy)
#endif
{
#if CPU
  const long first = (long)get_global_id(0) * each, last = min(first + each, rows);
  for (long row = first; row < last; row++) {
    __global const S *restrict from = y + row * n, *restrict back = dy + row * n;
    __global S *restrict to = dx + row * n;
    T total = (T)(0), chunk = (T)(0);
    int level = 0;
    EACH_OF(0, from, 0, {
      chunk += LOG ? GET(back, i, 0) : GET(back, i, 0) * value;
      if (++level == LEVEL) total += chunk, chunk = (T)(0), level = 0;
    })
    total += chunk;
    S sum = 0;
    for (int l = 0; l < WIDTH; l++) sum += total[l];
    EACH_OF(0, from, 0, {
      const T g = GET(back, i, 0);
      PUT(i, LOG ? g - f_exp(value) * sum : g * value - value * sum);
    })
    total = (T)(0), chunk = (T)(0), level = 0;
    EACH_OF(0, from, 0, {
      chunk += value > DOMINANT_ABOVE ? (T)(0) : GET(to, i, 0);
      if (++level == LEVEL) total += chunk, chunk = (T)(0), level = 0;
    })
    total += chunk;
    sum = 0;
    for (int l = 0; l < WIDTH; l++) sum += total[l];
    EACH_OF(0, from, 0, { PUT(i, value > DOMINANT_ABOVE ? (T)(-sum) : GET(to, i, 0)); })
  }
#else
#define BACK (LOG ? OF(d, dy) - f_exp(OF(e, y)) * sum : OF(d, dy) * OF(e, y) - OF(e, y) * sum)
  PLACE
  PROLOGUE
  AT_ROW(y)
  AT_ROW(dx)
  AT_ROW(dy)
  HOLD(e, y)
  HOLD(d, dy)
  S sum = 0, others = 0;
  SUM(sum, LOG ? OF(d, dy) : OF(d, dy) * OF(e, y))
  JOIN(0, sum, a + b)
  SUM(others, OF(e, y) > DOMINANT_ABOVE ? (S)0 : KEEP(d, BACK))
  JOIN(1, others, a + b)
  PUT_ROW(d, dx, OF(e, y) > DOMINANT_ABOVE ? -others : AGAIN(d, BACK))
#endif
}
