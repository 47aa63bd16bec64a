// y = finish(a b + bias) on a CPU; tiles.cl is for GPUs. An item computes ROWS rows by 16
// columns in registers. Element (i, l) of a is at i * a_row + l * a_step, or with TABLES at
// rows[i] + steps[l]: then the rows can be the windows of a convolution, without copying
// them. b consists of panels of 16 columns.
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
  long rest = get_global_id(0);
  // Consecutive items use the same GROUP_TILES tiles of a, which stay in the cache.
  const long z = rest / (tiles * panels * parts);
  rest -= z * tiles * panels * parts;
  const long part = rest / (tiles * panels);
  rest -= part * tiles * panels;
  const long first = rest / (GROUP_TILES * panels) * GROUP_TILES;
  const long in_group = min((long)GROUP_TILES, tiles - first);
  rest -= first * panels;
  const long panel = rest / in_group, tile = first + rest - panel * in_group;
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
    T added_bias = (T)(0);
#if BIAS
    for (int c = 0; c < WIDTH; c++)
      LANE(added_bias, c) = bias[panel * COLUMNS + min(v * WIDTH + c, count - 1)];
#endif
    EACH(int r = 0; r < ROWS; r++) {
      const T result = finish(total[r][v] + added_bias, alpha);
      __global S *to = y + min(tile * ROWS + r, m - 1) * y_row + v * WIDTH;
      if ((v + 1) * WIDTH <= count) *(__global T *)to = result;
      else
        for (int c = 0; c < count - v * WIDTH; c++) to[c] = LANE(result, c);
    }
  }
}
