// Move elements that lie side by side in columns in x, and in rows in y: tile by tile, so
// that both sides stay in the cache.
typedef $type S;

__kernel GROUPED void transpose(__global const S *restrict x, __global S *restrict y,
                                long x_start, long y_start, long rows, long columns,
                                long x_step, long y_step$sizes) {
  const long down = (rows + TILE - 1) / TILE, across = (columns + TILE - 1) / TILE;
#if CPU
  const long item = get_global_id(0);
  long rest = item / down;
  const long top = (item - rest * down) * TILE;
#else
  const long item = get_group_id(0);
  long rest = item / across;
  const long left = (item - rest * across) * TILE, tile = rest;
  rest /= down;
  const long top = (tile - rest * down) * TILE;
#endif
  long from = x_start, to = y_start;
  $offsets
  x += from;
  y += to;
#if CPU
  const long bottom = min(top + TILE, rows);
  for (long left = 0; left < columns; left += TILE) {
    const long right = min(left + TILE, columns);
    for (long i = top; i < bottom; i++)
      for (long j = left; j < right; j++) y[i * y_step + j] = x[j * x_step + i];
  }
#else
  __local S shared[TILE][TILE + 1];
  const int me = get_local_id(0), a = me % TILE, b = me / TILE;
  if (top + a < rows && left + b < columns)
    shared[b][a] = x[(left + b) * x_step + top + a];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (top + b < rows && left + a < columns)
    y[(top + b) * y_step + left + a] = shared[a][b];
#endif
}
