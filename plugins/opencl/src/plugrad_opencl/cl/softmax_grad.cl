// dx = dy y - y sum(dy y), with LOG dy - e^y sum(dy), along rows, as in softmax.cl. A row
// adds up to 0. An element whose y or e^y is next to 1 cancels, so it is minus the sum of
// the others. At most one element of a row is above the limit, however y was rounded.
#define DOMINANT_ABOVE (LOG ? (S)-0.5 : (S)0.6)
$rows
typedef S Y;
VECTOR(I, $integer);
$functions

__kernel GROUPED void softmax_grad(__global const S *restrict y, __global S *restrict dx,
                                   long rows, long n, long each,
                                   __global const S *restrict dy) {
#if CPU
  const long first = (long)get_global_id(0) * each, last = min(first + each, rows);
  for (long row = first; row < last; row++) {
    __global const S *restrict from = y + row * n, *restrict back = dy + row * n;
    __global S *restrict to = dx + row * n;
    T total = (T)(0), some = (T)(0);
    int level = 0;
    EACH_OF(0, from, 0, {
      some += LOG ? GET(back, i, 0) : GET(back, i, 0) * value;
      if (++level == LEVEL) total += some, some = (T)(0), level = 0;
    })
    total += some;
    S sum = 0;
    for (int l = 0; l < WIDTH; l++) sum += total[l];
    EACH_OF(0, from, 0, {
      const T by = GET(back, i, 0);
      PUT(i, LOG ? by - f_exp(value) * sum : by * value - value * sum);
    })
    total = (T)(0), some = (T)(0), level = 0;
    EACH_OF(0, from, 0, {
      some += value > DOMINANT_ABOVE ? (T)(0) : GET(to, i, 0);
      if (++level == LEVEL) total += some, some = (T)(0), level = 0;
    })
    total += some;
    sum = 0;
    for (int l = 0; l < WIDTH; l++) sum += total[l];
    EACH_OF(0, from, 0, { PUT(i, value > DOMINANT_ABOVE ? (T)(-sum) : GET(to, i, 0)); })
  }
#else
  __local S shared[GROUP];
  const int me = get_local_id(0);
  const long row = get_group_id(0);
  y += row * n;
  dx += row * n;
  dy += row * n;
  S sum = 0;
  for (long i = me; i < n; i += GROUP) sum += LOG ? dy[i] : dy[i] * y[i];
  JOIN(sum, a + b)
  S others = 0;
  for (long i = me; i < n; i += GROUP) {
    const S back = LOG ? dy[i] - f_exp(y[i]) * sum : dy[i] * y[i] - y[i] * sum;
    dx[i] = back;
    others += y[i] > DOMINANT_ABOVE ? (S)0 : back;
  }
  JOIN(others, a + b)
  for (long i = me; i < n; i += GROUP)
    if (y[i] > DOMINANT_ABOVE) dx[i] = -others;
#endif
}
