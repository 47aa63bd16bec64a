// Compute each element of the outputs y0, y1, ... from elements of the inputs x0, x1, ...,
// which broadcast. Rows of m elements are contiguous in the outputs. In a row, an input
// advances by one element or not at all. walk.py fills in the names.
// A work item of a GPU computes PER_ITEM elements, because starting an item takes as long
// as reading several. In WIDE kernels these are neighbors, which are read and written at
// once; else they are one work group apart. Sizes have the type Size, offsets the type
// Offset.
#define PER_ITEM $each
typedef $size Size;
typedef $index Offset;
#if RANK
#define LENGTH ((Offset)m)  // of a row
#define ROW(i) ((i) / LENGTH)
#else
#define LENGTH n
#define ROW(i) 0
#endif
$definitions

__kernel GROUPED void $name($arguments, Size n$sizes) {
#if CPU
  long i = (long)get_global_id(0) * BLOCK;
  const long stop = min(i + BLOCK, n);
  while (i < stop) {
    const long row = ROW(i), column = i - row * LENGTH;
    const long count = min(stop - i, LENGTH - column);
    $offsets
    $splats
    long j = 0;
    for (; j + WIDTH <= count; j += WIDTH) {
      $loads
      $work
      $stores
    }
#if WIDTH > 1
    if (j < count) {
      $tails
      $work
      for (int k = 0; k < count - j; k++) { $rests }
    }
#endif
    i += count;
  }
#elif WIDE
  const Offset i = (Offset)get_global_id(0) * PER_ITEM;
  if (i >= (Offset)n) return;
  const Offset row = ROW(i), column = i - row * LENGTH;
  $offsets
  $splats
  if (i + PER_ITEM <= (Offset)n) {
    $wide_loads
#define ONE(slot) { $wide_parts $work $wide_results }
    $wide_each
    $wide_stores
  } else {
    for (Offset j = 0; i + j < (Offset)n; j++) {
      $loads
      $work
      $stores
    }
  }
#else
  const Offset first = (Offset)get_group_id(0) * GROUP * PER_ITEM + get_local_id(0);
  _Pragma("unroll") for (int k = 0; k < PER_ITEM; k++) {
    const Offset i = first + k * GROUP;
    if (i >= (Offset)n) return;
    const Offset row = ROW(i), column = i - row * LENGTH, j = 0;
    $offsets
    $splats
    $loads
    $work
    $stores
  }
#endif
}
