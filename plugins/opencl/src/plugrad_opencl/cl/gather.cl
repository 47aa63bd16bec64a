// y[b, o, k, :] = x[b, o, index[b, k], :], and zeros for a bad index, which is put into
// the flag; if check is 0, another kernel has done so.
typedef $type S;
typedef $integer N;
__kernel GROUPED void gather(__global const S *restrict x, __global const N *restrict index,
                             __global S *restrict y, __global long *restrict flag,
                             long check, long n, long outer, long lookups, long width,
                             long count) {
#if CPU
  const long first = (long)get_global_id(0) * ITEMS, last = min(first + ITEMS, count);
  for (long row = first; row < last; row++) {
#else
  const long item = get_global_id(0), row = item / width;
  if (row < count) {
#endif
    const long line = row / lookups, k = row - line * lookups;
    const N found = index[line / outer * lookups + k];
    const int good = found >= 0 && (ulong)found < (ulong)n;
    if (!good && check) flag[1] = found, flag[0] = check;  // whichever comes last
    __global const S *restrict from = x + (line * n + (good ? (long)found : 0)) * width;
    __global S *restrict to = y + row * width;
#if CPU
    for (long j = 0; j < width; j++) to[j] = good ? from[j] : (S)0;
#else
    const long j = item - row * width;
    to[j] = good ? from[j] : (S)0;
#endif
  }
}

// y[s, :] = sum of x[i, :] where ids[i] = s, in the order of i: the same every time. Of
// floating numbers, what is lost in adding is added up too, in low, and added at the end.
#if EXACT
#define ADD(total, lost, value)                          \
  do {                                                   \
    const S old = total, next = value, sum = old + next; \
    const S part = sum - old;                            \
    lost += (old - (sum - part)) + (next - part);        \
    total = sum;                                         \
  } while (0)
#define WHOLE(total, lost) ((lost) == (lost) ? (total) + (lost) : (total))
#else
#define ADD(total, lost, value) total += value
#define WHOLE(total, lost) (total)
#endif

__kernel GROUPED void segment_sum(__global const S *restrict x,
                                  __global const N *restrict ids, __global S *restrict y,
                                  __global S *restrict low, long rows, long width,
                                  long segments, long parts) {
#if CPU  // an item has a range of segments
  const long part = get_global_id(0);
  const long first = segments * part / parts, last = segments * (part + 1) / parts;
  for (long j = first * width; j < last * width; j++) y[j] = 0, low[j] = 0;
  for (long i = 0; i < rows; i++) {
    const N id = ids[i];
    if (id < first || (ulong)id >= (ulong)last) continue;
    for (long j = 0; j < width; j++)
      ADD(y[id * width + j], low[id * width + j], x[i * width + j]);
  }
  for (long j = first * width; j < last * width; j++) y[j] = WHOLE(y[j], low[j]);
#else  // an item has an element
  const long item = get_global_id(0);
  if (item >= segments * width) return;
  const long segment = item / width, j = item - segment * width;
  S total = 0, lost = 0;
  for (long i = 0; i < rows; i++)
    if (ids[i] >= 0 && (ulong)ids[i] == (ulong)segment) ADD(total, lost, x[i * width + j]);
  y[item] = WHOLE(total, lost);
#endif
}
