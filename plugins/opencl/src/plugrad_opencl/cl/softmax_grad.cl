// dx = dy y - y sum(dy y), with LOG dy - e^y sum(dy), along rows, as in softmax.cl.
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
  for (long i = me; i < n; i += GROUP)
    dx[i] = LOG ? dy[i] - f_exp(y[i]) * sum : dy[i] * y[i] - y[i] * sum;
#endif
}
