// The index of the largest of x[a, :, m], or the smallest; NaN only if there is no other.
typedef $type S;
__kernel GROUPED void arg(__global const S *restrict x, __global int *restrict y, long n,
                          long m, long count) {
#if CPU
  const long first = (long)get_global_id(0) * ITEMS, last = min(first + ITEMS, count);
  for (long item = first; item < last; item++) {
#else
  const long item = get_global_id(0);
  if (item < count) {
#endif
    __global const S *restrict from = x + item / m * n * m + item % m;
    S best = from[0];
    int index = 0;
    for (long i = 1; i < n; i++) {
      const S next = from[i * m];
      if (next $sign best || (best != best && next == next)) best = next, index = i;
    }
    y[item] = index;
  }
}
