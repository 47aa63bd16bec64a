// The k largest of each row, by merging: equal ones stay in order, NaN is the largest.
typedef $type S;
static inline int before(S a, S b) { return a > b || (a != a && b == b); }

__kernel GROUPED void top(__global const S *restrict x, __global int *restrict scratch,
                          __global S *restrict values, __global int *restrict places,
                          long rows, int n, int k, int sorted) {
  const long row = get_global_id(0);
  if (row >= rows) return;
  x += row * n;
  __global int *a = scratch + row * 2 * n, *b = a + n;
  for (int i = 0; i < n; i++) a[i] = i;
  for (long run = 1; run < n; run *= 2) {
    for (long start = 0; start < n; start += 2 * run) {
      long i = start, j = min(start + run, (long)n);
      const long middle = j, end = min(start + 2 * run, (long)n);
      for (long to = start; to < end; to++)
        b[to] = j >= end || (i < middle && !before(x[a[j]], x[a[i]])) ? a[i++] : a[j++];
    }
    __global int *other = a;
    a = b;
    b = other;
  }
  if (!sorted) {  // in the order in which they stand in x
    for (int i = 0; i < n; i++) b[i] = 0;
    for (int i = 0; i < k; i++) b[a[i]] = 1;
    for (int i = 0, to = 0; i < n; i++)
      if (b[i]) a[to++] = i;
  }
  for (int i = 0; i < k; i++) {
    places[row * k + i] = a[i];
    values[row * k + i] = x[a[i]];
  }
}
