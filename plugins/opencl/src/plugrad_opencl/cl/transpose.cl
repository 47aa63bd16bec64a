// Move elements that lie side by side in columns in x, and in rows in y: tile by tile, so
// that both sides stay in the cache. A group of a GPU moves a tile of DOWN rows and ACROSS
// columns through local memory, whose columns are one element longer than the tile's: so
// neighbouring items use different banks. Offsets are of the unsigned type N there.
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
#define EACH (DOWN * ACROSS / GROUP)
  const N down = ((N)rows + DOWN - 1) / DOWN, across = ((N)columns + ACROSS - 1) / ACROSS;
  const N item = get_group_id(0), tile = item / across;
  const N left = (item - tile * across) * ACROSS;
  N rest = tile / down;
  const N top = (tile - rest * down) * DOWN;
  N from = x_start, to = y_start;
  $offsets
  __local S shared[ACROSS * (DOWN + 1)];
  const int me = get_local_id(0);
  S value[EACH];
  _Pragma("unroll") for (int k = 0; k < EACH; k++) {
    const int at = me + k * GROUP;
    const N i = min(top + at % DOWN, (N)rows - 1), j = min(left + at / DOWN, (N)columns - 1);
    value[k] = x[from + j * (N)x_step + i];
  }
  _Pragma("unroll") for (int k = 0; k < EACH; k++) {
    const int at = me + k * GROUP;
    shared[at / DOWN * (DOWN + 1) + at % DOWN] = value[k];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  _Pragma("unroll") for (int k = 0; k < EACH; k++) {
    const int at = me + k * GROUP, a = at % ACROSS, b = at / ACROSS;
    if (top + b < (N)rows && left + a < (N)columns)
      y[to + (top + b) * (N)y_step + left + a] = shared[a * (DOWN + 1) + b];
  }
#endif
}
