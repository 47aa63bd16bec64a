// y[b, o, k, :] = x[b, o, index[b, k], :]. A bad index gives zeros and is written to `flag`,
// unless `check` is 0: then the indices have been checked before. With WRAP, negative
// indices count from the end. Sizes have the type L. On a GPU, offsets have the unsigned
// type O, and an item reads all its elements before it writes.
typedef $type S;
typedef $integer N;
typedef $size L;
typedef $index O;
#define PER_ITEM $each

static inline long wrapped(N index, long n) {
  return WRAP && index < 0 ? index + n : index;
}

__kernel GROUPED void gather(__global const S *restrict x, __global const N *restrict index,
                             __global S *restrict y, __global long *restrict flag,
                             long check, long n, L outer, L lookups, L width, L count) {
#if CPU
  const long first = (long)get_global_id(0) * ITEMS, last = min(first + ITEMS, count);
  for (long row = first; row < last; row++) {
    const long line = row / lookups, k = row - line * lookups;
    const N found = index[line / outer * lookups + k];
    const long position = wrapped(found, n);
    const int good = (ulong)position < (ulong)n;
    if (!good && check) flag[1] = found, flag[0] = check;  // any one bad index suffices
    __global const S *restrict from = x + (line * n + (good ? position : 0)) * width;
    __global S *restrict to = y + row * width;
    for (long j = 0; j < width; j++) to[j] = good ? from[j] : (S)0;
  }
#else
  const O elements = (O)count * (O)width;
  const O first = (O)get_group_id(0) * (GROUP * PER_ITEM) + (O)get_local_id(0);
  N found[PER_ITEM];
  S value[PER_ITEM];
  O line[PER_ITEM], column[PER_ITEM];
  _Pragma("unroll") for (int e = 0; e < PER_ITEM; e++) {
    const O item = min(first + e * GROUP, elements - 1), row = item / (O)width;
    column[e] = item - row * (O)width;
    line[e] = row / (O)lookups;
    found[e] = index[line[e] / (O)outer * (O)lookups + (row - line[e] * (O)lookups)];
  }
  _Pragma("unroll") for (int e = 0; e < PER_ITEM; e++) {
    const long position = wrapped(found[e], n);
    const int good = (ulong)position < (ulong)n;
    if (!good && check) flag[1] = found[e], flag[0] = check;  // any one bad index suffices
    const O from = (line[e] * (O)n + (good ? (O)position : 0)) * (O)width + column[e];
    value[e] = x[from];
    if (!good) value[e] = (S)(0);
  }
  _Pragma("unroll") for (int e = 0; e < PER_ITEM; e++)
    if (first + e * GROUP < elements) y[first + e * GROUP] = value[e];
#endif
}
