// y = finish(a b + bias): an item on a CPU does ROWS rows by 16 columns in registers, a
// work group on a GPU 16 by 16 in local memory. Element (i, l) of a is at rows[i] +
// steps[l], with TABLES, else at i * a_row + l * a_step: the windows of a convolution are
// a matrix that is nowhere written down. Of b, 16 columns are together.
#define EACH _Pragma("unroll") for
typedef $type S;
VECTOR(T, S);
VECTOR(I, $integer);
$functions
static inline T product(T a, T b, T sum) { return $product; }
static inline T finish(T y, $real alpha) { return $finish; }

__kernel GROUPED void gemm(__global const S *restrict a, __global const S *restrict b,
                           __global S *restrict y, __global const int *restrict rows,
                           __global const int *restrict steps,
                           __global const S *restrict bias, long m, long n, long k,
                           long parts, long a_batch, long a_row, long a_step,
                           long b_batch, long b_panel, long b_row, long y_part,
                           long y_batch, long y_row, $real alpha) {
  const long tiles = (m + ROWS - 1) / ROWS, panels = (n + COLUMNS - 1) / COLUMNS;
#if CPU
  long rest = get_global_id(0);
#else
  long rest = get_group_id(0);
#endif
  // NEAR tiles of a stay in the cache while the panels of b pass by.
  const long z = rest / (tiles * panels * parts);
  rest -= z * tiles * panels * parts;
  const long part = rest / (tiles * panels);
  rest -= part * tiles * panels;
  const long first = rest / (NEAR * panels) * NEAR, near = min((long)NEAR, tiles - first);
  rest -= first * panels;
  const long panel = rest / near, tile = first + rest - panel * near;
  const long begin = k * part / parts, end = k * (part + 1) / parts;
  a += z * a_batch;
  b += z * b_batch + panel * b_panel + begin * b_row;
  y += z * y_batch + part * y_part + panel * COLUMNS;
#if TABLES
#define ROW(i) rows[i]
#define STEP(l) steps[l]
#else
#define ROW(i) ((i) * a_row)
#define STEP(l) ((l) * a_step)
#endif
#if CPU
#define VECTORS (COLUMNS / WIDTH)
  __global const S *restrict from[ROWS];
  T total[ROWS][VECTORS];
  EACH(int r = 0; r < ROWS; r++) {
    from[r] = a + ROW(min(tile * ROWS + r, m - 1));
    EACH(int v = 0; v < VECTORS; v++) total[r][v] = (T)(0);
  }
  for (long l = begin; l < end; l++, b += b_row) {
    const long step = STEP(l);
    T row[VECTORS];
    EACH(int v = 0; v < VECTORS; v++) row[v] = *(__global const T *)(b + v * WIDTH);
    EACH(int r = 0; r < ROWS; r++) {
      const T x = (T)(from[r][step]);
      EACH(int v = 0; v < VECTORS; v++) total[r][v] = product(x, row[v], total[r][v]);
    }
  }
  const int count = min((long)COLUMNS, n - panel * COLUMNS);
  EACH(int v = 0; v < VECTORS; v++) {
    T add = (T)(0);
#if BIAS
    for (int c = 0; c < WIDTH; c++)
      LANE(add, c) = bias[panel * COLUMNS + min(v * WIDTH + c, count - 1)];
#endif
    EACH(int r = 0; r < ROWS; r++) {
      const T some = finish(total[r][v] + add, alpha);
      __global S *to = y + min(tile * ROWS + r, m - 1) * y_row + v * WIDTH;
      if ((v + 1) * WIDTH <= count) *(__global T *)to = some;
      else
        for (int c = 0; c < count - v * WIDTH; c++) to[c] = LANE(some, c);
    }
  }
#else
  __local S left[COLUMNS][COLUMNS + 1], right[COLUMNS][COLUMNS + 1];
  const int me = get_local_id(0), r = me / COLUMNS, c = me % COLUMNS;
  const long i = tile * ROWS + r, j = panel * COLUMNS + c;
  const long row = ROW(min(i, m - 1));
  S total = 0;
  for (long l = begin; l < end; l += COLUMNS, b += COLUMNS * b_row) {
    left[r][c] = l + c < end ? a[row + STEP(l + c)] : (S)(0);
    right[r][c] = l + r < end ? b[r * b_row + c] : (S)(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int s = 0; s < min((long)COLUMNS, end - l); s++)
      total = product(left[r][s], right[s][c], total);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (i < m && j < n) y[i * y_row + c] = finish(total + (BIAS ? bias[j] : (S)(0)), alpha);
#endif
}
