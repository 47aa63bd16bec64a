// The index of the largest element of x[a, :, m], or of the smallest: the first index if
// several are equal, and that of NaN only if all elements are NaN.
typedef $type S;
#define BETTER(next, best) (next $sign best || (best != best && next == next))
__kernel GROUPED void arg(__global const S *restrict x, __global int *restrict y, long n,
                          long m, long count) {
#if CPU
  const long first = (long)get_global_id(0) * ITEMS, last = min(first + ITEMS, count);
  for (long item = first; item < last; item++) {
    __global const S *restrict from = x + item / m * n * m + item % m;
    S best = from[0];
    int index = 0;
    for (long i = 1; i < n; i++) {
      const S next = from[i * m];
      if (BETTER(next, best)) best = next, index = i;
    }
    y[item] = index;
  }
#else
// LINES items of a group compute a result, as in reduce.cl.
#define RESULTS (GROUP / LINES)
  __local S values[GROUP];
  __local int indices[GROUP];
  const int me = get_local_id(0);
#if ROWS
#define STEP 1
  const int line = me % LINES, result = me / LINES;
#else
#define STEP RESULTS
  const int line = me / RESULTS, result = me % RESULTS;
#endif
  const long item = get_group_id(0) * (long)RESULTS + result, safe = min(item, count - 1);
  x += safe / m * n * m + safe % m;
  int index = min((long)line, n - 1);  // some items read the last element twice
  S best = x[index * m];
  for (long i = line + LINES; i < n; i += LINES) {
    const S next = x[i * m];
    if (BETTER(next, best)) best = next, index = i;
  }
  values[me] = best;
  indices[me] = index;
  for (int reach = LINES; reach > 1;) {
    const int to = reach >= 4 ? reach / 4 : 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (line < to) {
      for (int k = to; k < reach; k += to) {
        const S next = values[me + k * STEP];
        const int other = indices[me + k * STEP];
        const int worse = BETTER(best, next);
        if (BETTER(next, best) || (!worse && other < index)) best = next, index = other;
      }
      values[me] = best;
      indices[me] = index;
    }
    reach = to;
  }
  if (line == 0 && item < count) y[item] = index;
#endif
}
