// Copy elements whose columns are contiguous in x and whose rows are contiguous in y, tile
// by tile, so that both sides stay in the cache. A work group of a GPU copies a tile of
// DOWN rows and ACROSS columns through local memory. Columns in local memory are one
// element longer than those of the tile, so that neighboring items use different banks.
// Offsets on a GPU have the unsigned type N.
typedef $type S;
typedef $size L;
typedef $index N;

__kernel GROUPED void transpose(__global const S *restrict x, __global S *restrict y,
                                L x_start, L y_start, L rows, L columns, L x_step,
                                L y_step$sizes) {
#if CPU
  const long down = (rows + TILE - 1) / TILE;
  const long item = get_global_id(0);
  long rest = item / down;
  const long top = (item - rest * down) * TILE;
  long from = x_start, to = y_start;
  $offsets
  x += from;
  y += to;
  const long bottom = min(top + TILE, rows);
  for (long left = 0; left < columns; left += TILE) {
    const long right = min(left + TILE, columns);
    for (long i = top; i < bottom; i++)
      for (long j = left; j < right; j++) y[i * y_step + j] = x[j * x_step + i];
  }
#else
#define ITEM_ELEMENTS (DOWN * ACROSS / GROUP)
  const N down = ((N)rows + DOWN - 1) / DOWN, across = ((N)columns + ACROSS - 1) / ACROSS;
  const N item = get_group_id(0), tile = item / across;
  const N left = (item - tile * across) * ACROSS;
  N rest = tile / down;
  const N top = (tile - rest * down) * DOWN;
  N from = x_start, to = y_start;
  $offsets
  __local S shared[ACROSS * (DOWN + 1)];
  const int me = get_local_id(0);
  S value[ITEM_ELEMENTS];
  _Pragma("unroll") for (int k = 0; k < ITEM_ELEMENTS; k++) {
    const int id = me + k * GROUP;
    const N i = min(top + id % DOWN, (N)rows - 1), j = min(left + id / DOWN, (N)columns - 1);
    value[k] = x[from + j * (N)x_step + i];
  }
  _Pragma("unroll") for (int k = 0; k < ITEM_ELEMENTS; k++) {
    const int id = me + k * GROUP;
    shared[id / DOWN * (DOWN + 1) + id % DOWN] = value[k];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  _Pragma("unroll") for (int k = 0; k < ITEM_ELEMENTS; k++) {
    const int id = me + k * GROUP, a = id % ACROSS, b = id / ACROSS;
    if (top + b < (N)rows && left + a < (N)columns)
      y[to + (top + b) * (N)y_step + left + a] = shared[a * (DOWN + 1) + b];
  }
#endif
}
