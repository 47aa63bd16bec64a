// A stable radix sort of the rows of an array by their segments, for GPUs. Each pass sorts
// by 8 bits, beginning with the lowest bits. A work group sorts CHUNK rows. Rows whose id
// is out of range come last.
typedef $integer N;
#define DIGITS GROUP  // the number of values of 8 bits
#define KEY_AT(i) (FIRST_PASS ? segment_of(ids[i], segments) : keys[i])
#define ROW_AT(i) (FIRST_PASS ? (int)(i) : order[i])

static inline uint segment_of(N id, int segments) {
  return id >= 0 && (ulong)id < (ulong)segments ? (uint)id : (uint)segments;
}

// counts[digit, group] is the number of rows in the group that have the digit.
__kernel GROUPED void count(__global const N *restrict ids, __global const uint *restrict keys,
                            __global int *restrict counts, int rows, int segments, int shift,
                            int groups) {
  __local int counted[DIGITS];
  const int me = get_local_id(0), group = get_group_id(0);
  const long end = min((long)(group + 1) * CHUNK, (long)rows);
  counted[me] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (long i = (long)group * CHUNK + me; i < end; i += GROUP)
    atomic_inc(counted + ((KEY_AT(i) >> shift) & (DIGITS - 1)));
  barrier(CLK_LOCAL_MEM_FENCE);
  counts[me * groups + group] = counted[me];
}

// Replace each count by the position of the first of the counted rows. There is one work
// group.
__kernel GROUPED void starts(__global int *restrict counts, int groups) {
  __local int totals[DIGITS];
  const int me = get_local_id(0);
  __global int *restrict own = counts + me * groups;
  int total = 0, start = 0;
  for (int g = 0; g < groups; g++) total += own[g];
  totals[me] = total;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int digit = 0; digit < me; digit++) start += totals[digit];
  for (int g = 0; g < groups; g++) {
    const int count = own[g];
    own[g] = start;
    start += count;
  }
}

// Move each row to its position, GROUP rows at a time, so that rows with equal digits stay
// in order.
__kernel GROUPED void place(__global const N *restrict ids, __global const uint *restrict keys,
                            __global const int *restrict order,
                            __global const int *restrict counts,
                            __global uint *restrict new_keys,
                            __global int *restrict new_order, int rows, int segments,
                            int shift, int groups) {
  __local int next[DIGITS], digits[GROUP];
  const int me = get_local_id(0), group = get_group_id(0);
  const long end = min((long)(group + 1) * CHUNK, (long)rows);
  next[me] = counts[me * groups + group];
  for (long first = (long)group * CHUNK; first < end; first += GROUP) {
    const long i = first + me;
    const uint key = i < end ? KEY_AT(i) : 0;
    const int digit = i < end ? (int)((key >> shift) & (DIGITS - 1)) : -1;
    digits[me] = digit;
    barrier(CLK_LOCAL_MEM_FENCE);
    int before = 0, after = 0;
    for (int j = 0; j < GROUP; j++) {
      const int same = digits[j] == digit;
      before += same & (j < me);
      after |= same & (j > me);
    }
    const int slot = i < end ? next[digit] + before : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i < end) {
      if (!after) next[digit] = slot + 1;
      new_keys[slot] = key;
      new_order[slot] = ROW_AT(i);
    }
  }
}
