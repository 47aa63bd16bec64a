// Of updates of one place the last one stays: number writes down which, settle writes it.
typedef $type S;
typedef $integer N;

// The place to which an index flattens; -1 if it is out of range in one of the axes of
// these sizes: then what is wrong is put into the flag.
static long place_of(__global const N *restrict index, __global const int *restrict sizes,
                     __global long *restrict flag, int check, int depth) {
  long place = 0;
  int good = 1;
  for (int k = 0; k < depth; k++) {
    const N at = index[k];
    if (at < 0 || (ulong)at >= (ulong)sizes[k]) {
      good = 0;
      flag[1] = at, flag[0] = check;  // whichever comes last
    }
    place = place * sizes[k] + (long)at;
  }
  return good ? place : -1;
}

__kernel GROUPED void places(__global const N *restrict index, __global long *restrict row,
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
    row[i] = place_of(index + i * depth, sizes, flag, check, depth);
}

// winner[place] is the greatest number of an update of it, from 1.
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
    const long place = place_of(index + i * depth, sizes, flag, check, depth);
    if (place >= 0) atomic_max(winner + place, (int)i + 1);
  }
}

__kernel GROUPED void settle(__global const S *restrict x, __global const S *restrict rows,
                             __global const int *restrict winner, __global S *restrict y,
                             long places, long width) {
#if CPU
  const long first = (long)get_global_id(0) * ITEMS, last = min(first + ITEMS, places);
  for (long place = first; place < last; place++) {
    const int from = winner[place];
    __global const S *restrict row = from ? rows + (from - 1) * width : x + place * width;
    for (long j = 0; j < width; j++) y[place * width + j] = row[j];
  }
#else
  const long item = get_global_id(0), place = item / width, j = item % width;
  if (place >= places) return;
  const int from = winner[place];
  y[item] = from ? rows[(from - 1) * width + j] : x[item];
#endif
}
