typedef $type S;
typedef $integer N;
// y[s, :] = sum of x[i, :] where ids[i] = s, always in the order of i. For floating-point
// numbers, the rounding errors are added up separately (in `low` or `lost`), and added to
// the sum at the end.
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
#if CPU  // an item computes a range of segments
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
#else  // an item computes an element
  const long item = get_global_id(0);
  if (item >= segments * width) return;
  const long segment = item / width, j = item - segment * width;
  S total = 0, lost = 0;
  for (long i = 0; i < rows; i++)
    if (ids[i] >= 0 && (ulong)ids[i] == (ulong)segment) ADD(total, lost, x[i * width + j]);
  y[item] = WHOLE(total, lost);
#endif
}

#if !CPU
static inline int lower_bound(__global const uint *restrict keys, int rows, uint segment) {
  int low = 0, high = rows;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (keys[middle] < segment) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The same for rows that are sorted by segment: `keys` are the segments in ascending order,
// and `order` contains the numbers of the rows. PARTS items of a group compute an element.
__kernel GROUPED void sorted_sum(__global const S *restrict x,
                                 __global const uint *restrict keys,
                                 __global const int *restrict order, __global S *restrict y,
                                 int rows, long width, long segments) {
  const int me = get_local_id(0), lanes = GROUP / PARTS, lane = me % lanes;
  const int part = me / lanes;
  const long element = (long)get_group_id(0) * lanes + lane, segment = element / width;
  const long j = element - segment * width;
  S total = 0, lost = 0;
  if (segment < segments) {
    const long start = lower_bound(keys, rows, (uint)segment);
    const long count = lower_bound(keys, rows, (uint)segment + 1) - start;
    const int begin = start + count * part / PARTS, end = start + count * (part + 1) / PARTS;
    for (int i = begin; i < end; i++) ADD(total, lost, x[order[i] * width + j]);
  }
#if PARTS > 1
  __local S totals[GROUP], all_lost[GROUP];
  totals[me] = total, all_lost[me] = lost;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (part) return;
  for (int k = lane + lanes; k < GROUP; k += lanes) {
    ADD(total, lost, totals[k]);
    lost += all_lost[k];
  }
#endif
  if (segment < segments) y[element] = WHOLE(total, lost);
}
#endif
