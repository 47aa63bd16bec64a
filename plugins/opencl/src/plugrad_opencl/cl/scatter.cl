// If a row has several updates, the last one counts: `number` finds it, `settle` writes it.
typedef $type S;
typedef $integer N;

// Flatten an index to the number of a row. If a coordinate is out of range for the sizes of
// the axes, write it to `flag` and return -1.
static long target_of(__global const N *restrict index, __global const int *restrict sizes,
                     __global long *restrict flag, int check, int depth) {
  long target = 0;
  int good = 1;
  for (int k = 0; k < depth; k++) {
    const N coordinate = index[k];
    if (coordinate < 0 || (ulong)coordinate >= (ulong)sizes[k]) {
      good = 0;
      flag[1] = coordinate, flag[0] = check;  // any one bad index suffices
    }
    target = target * sizes[k] + (long)coordinate;
  }
  return good ? target : -1;
}

__kernel GROUPED void targets(__global const N *restrict index, __global long *restrict row,
                             __global const int *restrict sizes,
                             __global long *restrict flag, int check, long count,
                             int depth) {
#if CPU
  const long first = (long)get_global_id(0) * ITEMS, last = min(first + ITEMS, count);
  for (long i = first; i < last; i++)
#else
  const long i = get_global_id(0);
  if (i < count)
#endif
    row[i] = target_of(index + i * depth, sizes, flag, check, depth);
}

// winner[target] is the number of the last update of this row, counted from 1.
__kernel GROUPED void number(__global const N *restrict index,
                             volatile __global int *restrict winner,
                             __global const int *restrict sizes,
                             __global long *restrict flag, long check, long count,
                             int depth) {
#if CPU
  const long first = (long)get_global_id(0) * ITEMS, last = min(first + ITEMS, count);
  for (long i = first; i < last; i++) {
#else
  const long i = get_global_id(0);
  if (i < count) {
#endif
    const long target = target_of(index + i * depth, sizes, flag, check, depth);
    if (target >= 0) atomic_max(winner + target, (int)i + 1);
  }
}

__kernel GROUPED void settle(__global const S *restrict x, __global const S *restrict rows,
                             __global const int *restrict winner, __global S *restrict y,
                             long targets, long width) {
#if CPU
  const long first = (long)get_global_id(0) * ITEMS, last = min(first + ITEMS, targets);
  for (long target = first; target < last; target++) {
    const int from = winner[target];
    __global const S *restrict row = from ? rows + (from - 1) * width : x + target * width;
    for (long j = 0; j < width; j++) y[target * width + j] = row[j];
  }
#else
  const long item = get_global_id(0), target = item / width, j = item % width;
  if (target >= targets) return;
  const int from = winner[target];
  y[item] = from ? rows[(from - 1) * width + j] : x[item];
#endif
}

// Write each of a few updates into its row of y, unless a later one has the same target.
__kernel GROUPED void replace(__global const N *restrict index,
                              __global const S *restrict rows, __global S *restrict y,
                              __global const int *restrict sizes,
                              __global long *restrict flag, long check, long count,
                              long width, int depth) {
#if CPU
  const long first = (long)get_global_id(0) * ITEMS, last = min(first + ITEMS, count);
  for (long i = first; i < last; i++) {
#else
  const long item = get_global_id(0), i = item / width;
  if (i < count) {
#endif
    const long target = target_of(index + i * depth, sizes, flag, check, depth);
    int is_last = target >= 0;
    for (long k = i + 1; k < count && is_last; k++) {
      int same = 1;
      for (int d = 0; d < depth; d++) same &= index[k * depth + d] == index[i * depth + d];
      is_last = !same;
    }
#if CPU
    for (long j = 0; is_last && j < width; j++) y[target * width + j] = rows[i * width + j];
#else
    if (is_last) y[target * width + item % width] = rows[item];
#endif
  }
}
