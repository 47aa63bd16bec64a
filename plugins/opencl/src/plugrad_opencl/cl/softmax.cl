// y = e^(x - most) / sum, along rows; with LOG its logarithm.
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
    // NaN is not the largest, but makes the sum NaN.
    T best[4];
    for (int v = 0; v < 4; v++) best[v] = (T)(-INFINITY);
    long seen = 0;
    for (; seen + 4 * WIDTH <= n; seen += 4 * WIDTH)
      _Pragma("unroll") for (int v = 0; v < 4; v++) {
        const T value = *(__global const T *)(from + seen + v * WIDTH);
        best[v] = value > best[v] ? value : best[v];
      }
    EACH_OF(seen, from, -INFINITY, best[0] = value > best[0] ? value : best[0];)
    S most = -INFINITY;
    for (int v = 0; v < 4; v++)
      for (int l = 0; l < WIDTH; l++) most = best[v][l] > most ? best[v][l] : most;
    T total = (T)(0), some = (T)(0);
    int level = 0;
    EACH_OF(0, from, -INFINITY, {
      const T e = f_exp(value - most);
      some += e;
      if (++level == LEVEL) total += some, some = (T)(0), level = 0;
      if (!LOG) PUT(i, e);
    })
    total += some;
    S sum = 0;
    for (int l = 0; l < WIDTH; l++) sum += total[l];
#if LOG
    const S shift = log(sum);
    EACH_OF(0, from, 0, PUT(i, value - most - shift);)
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
  S most = -INFINITY, total = 0;
  EACH(most = f_max(most, OF(e, x));)
  JOIN(0, most, f_max(a, b))
#if LOG
  SUM(total, f_exp(OF(e, x) - most))
  JOIN(1, total, a + b)
  const S shift = log(total);
  PUT_ROW(e, y, OF(e, x) - most - shift)
#else
  SUM(total, KEEP(e, f_exp(OF(e, x) - most)))
  JOIN(1, total, a + b)
  const S share = 1 / total;
  PUT_ROW(e, y, AGAIN(e, f_exp(OF(e, x) - most)) * share)
#endif
#endif
}
