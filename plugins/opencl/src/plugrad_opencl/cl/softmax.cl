// y = e^(x - max) / sum(e^(x - max)) along rows, or with LOG its logarithm.
$rows

#if FUSED
__kernel GROUPED void rows_region($arguments)
#else
__kernel GROUPED void softmax(__global const S *restrict x, __global S *restrict y,
                              long rows, long n, long each)
#endif
{
#if CPU
  const long first = (long)get_global_id(0) * each, last = min(first + each, rows);
  for (long row = first; row < last; row++) {
    __global const S *restrict from = x + row * n;
    __global S *restrict to = y + row * n;
    // NaN is never the maximum, but makes the sum NaN.
    T best[4];
    for (int v = 0; v < 4; v++) best[v] = (T)(-INFINITY);
    long done = 0;
    for (; done + 4 * WIDTH <= n; done += 4 * WIDTH)
      _Pragma("unroll") for (int v = 0; v < 4; v++) {
        const T value = *(__global const T *)(from + done + v * WIDTH);
        best[v] = value > best[v] ? value : best[v];
      }
    EACH_OF(done, from, -INFINITY, best[0] = value > best[0] ? value : best[0];)
    S largest = -INFINITY;
    for (int v = 0; v < 4; v++)
      for (int l = 0; l < WIDTH; l++) largest = best[v][l] > largest ? best[v][l] : largest;
    T total = (T)(0), chunk = (T)(0);
    int level = 0;
    EACH_OF(0, from, -INFINITY, {
      const T e = f_exp(value - largest);
      chunk += e;
      if (++level == LEVEL) total += chunk, chunk = (T)(0), level = 0;
      if (!LOG) PUT(i, e);
    })
    total += chunk;
    S sum = 0;
    for (int l = 0; l < WIDTH; l++) sum += total[l];
#if LOG
    const S shift = log(sum);
    EACH_OF(0, from, 0, PUT(i, value - largest - shift);)
#else
    const S share = 1 / sum;
    EACH_OF(0, to, 0, PUT(i, value * share);)
#endif
  }
#else
  PLACE
  PROLOGUE
  AT_ROW(x)
  AT_ROW(y)
  HOLD(e, x)
  S largest = -INFINITY, total = 0;
  EACH(largest = f_max(largest, OF(e, x));)
  JOIN(0, largest, f_max(a, b))
#if LOG
  SUM(total, f_exp(OF(e, x) - largest))
  JOIN(1, total, a + b)
  const S shift = log(total);
  PUT_ROW(e, y, OF(e, x) - largest - shift)
#else
  SUM(total, KEEP(e, f_exp(OF(e, x) - largest)))
  JOIN(1, total, a + b)
  const S share = 1 / total;
  PUT_ROW(e, y, AGAIN(e, f_exp(OF(e, x) - largest)) * share)
#endif
#endif
}
