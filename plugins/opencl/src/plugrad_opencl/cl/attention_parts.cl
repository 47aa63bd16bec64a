// What the kernels of attention on a GPU share.
#define EACH _Pragma("unroll") for

// The number of keys of a batch that are filled.
static inline long filled(__global const int *restrict lengths, long batch, long keys) {
  return LENGTHS ? clamp((long)lengths[LENGTHS > 1 ? batch : 0], 0L, keys) : keys;
}

// The number of keys that a row reads.
static inline long keys_of(long row, long rows, long queries, long length) {
  if (row >= rows) return 0;
  if (!CAUSAL) return length;
  return clamp(row % queries + 1 + (LENGTHS ? length - queries : 0), 0L, length);
}

// A score with the mask applied.
static inline float masked(float score, __global const $mask *restrict mask, long place) {
#if MASK == 1
  return mask[place] ? score : -INFINITY;
#elif MASK == 2
  return mask[place] == -INFINITY ? -INFINITY : score + mask[place];
#else
  return score;
#endif
}

// Copies `count` rows of `size` elements to local memory, and zeros for the others.
static inline void fetch(__local float *to, __global const float *restrict from, long count,
                         int size, int rows, int pitch) {
  for (int i = get_local_id(0); i < rows * size; i += GROUP) {
    const int row = i / size;
    to[row * pitch + i % size] = row < count ? from[i] : 0;
  }
}
