// Pack b into panels of 16 columns, and fill up the last panel with zeros. Element (l, j)
// is at l * b_row + j * b_step, or with TABLES at rows[l] + j * b_step. With HALF, the
// panels are float32.
typedef $type S;
VECTOR(T, S);
$reading
#if TABLES
#define ROW(l) rows[l]
#else
#define ROW(l) ((l) * b_row)
#endif

__kernel GROUPED void pack(__global const B *restrict b, __global S *restrict y,
                           __global const int *restrict rows, long z, long n, long k,
                           long b_batch, long b_row, long b_step) {
  const long panels = (n + COLUMNS - 1) / COLUMNS;
  const long item = get_global_id(0);
  const long panel = item % panels, cut = item / panels % CUTS;
  const long batch = item / panels / CUTS;
  const int count = min((long)COLUMNS, n - panel * COLUMNS);
  b += batch * b_batch + panel * COLUMNS * b_step;
  y += (batch * panels + panel) * k * COLUMNS;
  const long end = k * (cut + 1) / CUTS;
  for (long l = k * cut / CUTS; l < end; l++) {
    __global const B *restrict from = b + ROW(l);
    __global S *restrict to = y + l * COLUMNS;
    if (b_step == 1 && count == COLUMNS)
      for (int c = 0; c < COLUMNS; c += WIDTH)
        *(__global T *)(to + c) = READ(from + c);
    else {
      for (int c = 0; c < count; c++) to[c] = READ1(from + c * b_step);
      for (int c = count; c < COLUMNS; c++) to[c] = 0;
    }
  }
}
