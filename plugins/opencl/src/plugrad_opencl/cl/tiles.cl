// y = finish(a b + bias) on a GPU. A work group computes a tile of ROWS by COLUMNS elements.
// Its items form SLICES slices of ITEMS_DOWN by ITEMS_ACROSS items. An item computes
// ITEM_ROWS by ITEM_COLUMNS elements in registers. Each DEEP steps along k are divided among
// the slices. The sums of the slices are added at the end, in a fixed order.
//
// The next DEEP steps are read into registers while the current ones are multiplied. Local
// memory has two stages, so that DEEP steps need only one barrier.
//
// Element (i, l) of a is at i * a_row + l * a_step, or with A_TABLES at rows[i] + steps[l].
// Both tables then also contain places, and an element whose place is outside of the image
// is 0. So the rows can be the windows of a convolution, without copying them.
// Element (l, j) of b is at l * b_row + j * b_step, or with B_TABLES at
// b_rows[l] + j * b_step.
//
// With A_ALONG_K, neighboring items read neighbors along k, else along i. An item reads
// A_VECTOR elements at once. The same applies to b, along k or j.
typedef $type S;
VECTOR(T, S);
VECTOR(I, $integer);
$functions
static inline S product(S a, S b, S sum) { return $product; }
static inline S finish(S y, $real alpha) { return $finish; }

#define EACH _Pragma("unroll") for
#if UNITS
// NVIDIA's matrix units: a warp computes ITEM_ROWS * 8 by ITEM_COLUMNS * 4 elements, in
// products of 16 by 8 by 8. The units read the upper 19 bits of float32 (TF32). With
// UNITS 1, only these bits count; with UNITS 3, two more products include the lower bits.
#define SLICE (WARPS_DOWN * WARPS_ACROSS * 32)
#define PAD 8
#else
#define SLICE (ITEMS_DOWN * ITEMS_ACROSS)
#define PAD 4
#endif
#define SLICES (GROUP / SLICE)
#define SHARE (DEEP / SLICES)  // steps of a slice
// In local memory, rows across k are contiguous. With matrix units, a matrix that is read
// along k is turned: its lines along k are contiguous.
#define A_TURNED (UNITS && A_ALONG_K)
#define B_TURNED (UNITS && B_ALONG_K)
#define A_LINE (A_TURNED ? DEEP + 4 : ROWS + PAD)
#define B_LINE (B_TURNED ? DEEP + 4 : COLUMNS + PAD)
#define A_PLACE(across, along) \
  (A_TURNED ? (across) * A_LINE + (along) : (along) * A_LINE + (across))
#define B_PLACE(across, along) \
  (B_TURNED ? (across) * B_LINE + (along) : (along) * B_LINE + (across))
#define A_PANEL ((A_TURNED ? ROWS : DEEP) * A_LINE)
#define STAGE (A_PANEL + (B_TURNED ? COLUMNS : DEEP) * B_LINE)
#define HALF (SLICES / 2 * ROWS * COLUMNS)
#define LOCAL_ELEMENTS (2 * STAGE > HALF ? 2 * STAGE : HALF)
#define A_READS (ROWS * DEEP / GROUP / A_VECTOR)
#define B_READS (COLUMNS * DEEP / GROUP / B_VECTOR)

// The position that item ``me`` reads in its turn ``r``, in a panel of LENGTH rows or
// columns.
#define ACROSS(along_k, vector, length, r) \
  ((along_k) ? (me + (r) * GROUP) / (DEEP / (vector)) \
             : (me + (r) * GROUP) % ((length) / (vector)) * (vector))
#define ALONG(along_k, vector, length, r) \
  ((along_k) ? (me + (r) * GROUP) % (DEEP / (vector)) * (vector) \
             : (me + (r) * GROUP) / ((length) / (vector)))

#if VECTORS
typedef $vector V;
#endif

// The elements of an item are four neighbors, or two groups of four that are half a tile
// apart. Therefore the items in a row of a warp read from different banks.
#define PLACE(s, items, item) ((s) / 4 * 4 * (items) + (item) * 4 + (s) % 4)

static inline void get(__local const S *restrict from, int items, int item, int count,
                       S *restrict to) {
  EACH(int s = 0; s < count; s += 4) {
#if VECTORS
    const V four = *(__local const V *)(from + PLACE(s, items, item));
    to[s] = four.s0, to[s + 1] = four.s1, to[s + 2] = four.s2, to[s + 3] = four.s3;
#else
    EACH(int t = 0; t < 4; t++) to[s + t] = from[PLACE(s + t, items, item)];
#endif
  }
}

static inline void load(__global const S *restrict from, int vector, S *restrict to) {
#if VECTORS
  if (vector == 4) {
    const V four = *(__global const V *)from;
    to[0] = four.s0, to[1] = four.s1, to[2] = four.s2, to[3] = four.s3;
    return;
  }
#endif
  to[0] = from[0];
}

static inline void put(__local S *restrict to, int step, int vector,
                       const S *restrict from) {
#if VECTORS
  if (vector == 4 && step == 1) {
    *(__local V *)to = (V)(from[0], from[1], from[2], from[3]);
    return;
  }
#endif
  EACH(int v = 0; v < vector; v++) to[v * step] = from[v];
}

#if A_TABLES
// Whether the sum of two places, y in the upper half and x in the lower one, is in the
// image.
static inline int inside(int place, int top, int left, int height, int width) {
  return (uint)((place >> 16) - top) < (uint)height &&
         (uint)((place & 0xffff) - left) < (uint)width;
}
#endif

#if UNITS
// Split a number into its upper 19 bits, rounded, and the rest, whose lower bits the units
// ignore. The rest of an infinity or NaN is NaN. With UNITS 1, no finite number may become
// infinite: numbers that would round up to infinity are first made smaller, by 2^-12. This
// multiplication also turns a NaN whose upper bits are those of infinity into a NaN that
// the units recognize.
static inline void split(float x, uint *high, uint *low) {
#if UNITS == 3
  *high = (as_uint(x) + 0x1000) & 0xffffe000;
  *low = as_uint(x - as_float(*high));
#else
  *high = fabs(x) < 0x1.ffep127f ? as_uint(x) + 0x1000 : as_uint(x * 0x1.ffep-1f);
#endif
}
// some[0, 1][2 t, 2 t + 1] += x w
#define MULTIPLY(x, w, t)                                                     \
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, " \
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                         \
      : "+f"(some[0][2 * (t)]), "+f"(some[0][2 * (t) + 1]),                   \
        "+f"(some[1][2 * (t)]), "+f"(some[1][2 * (t) + 1])                    \
      : "r"(x[0][0]), "r"(x[1][0]), "r"(x[0][1]), "r"(x[1][1]),               \
        "r"((w)[t][0]), "r"((w)[t][1]));
#endif

__kernel GROUPED void tiles(
    __global const S *restrict a, __global const S *restrict b, __global S *restrict y,
    __global const int2 *restrict rows, __global const int2 *restrict steps,
    __global const int *restrict b_rows, __global const S *restrict bias, long m, long n,
    long k, long parts, long inner, long a_outer, long a_inner, long a_row, long a_step,
    long b_outer, long b_inner, long b_row, long b_step, long y_part, long y_outer,
    long y_inner, long y_row, int top, int left, int height, int width, $real alpha) {
  __local __attribute__((aligned(16))) S memory[LOCAL_ELEMENTS];
  const long down = (m + ROWS - 1) / ROWS, across = (n + COLUMNS - 1) / COLUMNS;
  long rest = get_group_id(0);
  // Consecutive groups use the same GROUP_TILES tiles of a, which stay in the cache.
  const long z = rest / (down * across * parts);
  rest -= z * down * across * parts;
  const long part = rest / (down * across);
  rest -= part * down * across;
  const long first = rest / (GROUP_TILES * across) * GROUP_TILES;
  const long in_group = min((long)GROUP_TILES, down - first);
  rest -= first * across;
  const long tile_column = rest / in_group * COLUMNS;
  const long tile_row = (first + rest % in_group) * ROWS;
  const long outer = z / inner, within = z - outer * inner;
  const long chunks = (k + DEEP - 1) / DEEP;
  const long begin = chunks * part / parts * DEEP;
  const long end = min(k, chunks * (part + 1) / parts * DEEP);
  a += outer * a_outer + within * a_inner;
  b += outer * b_outer + within * b_inner;
  y += outer * y_outer + within * y_inner + part * y_part;

  const int me = get_local_id(0), slice = me / SLICE, item = me % SLICE;
#if UNITS
  const int lane = item % 32, warp = item / 32;
  const int warp_row = warp / WARPS_ACROSS * (ITEM_ROWS * 8);
  const int warp_column = warp % WARPS_ACROSS * (ITEM_COLUMNS * 4);
#define ROW_OF(s) (warp_row + (s) * 8 + lane / 4)
#define COLUMN_OF(t) (warp_column + (t) / 2 * 8 + lane % 4 * 2 + (t) % 2)
#else
#if ITEMS_ACROSS % 8 == 0 && ITEMS_DOWN % 4 == 0  // a warp is 4 by 8 items
  const int warp = item / 32, lane = item % 32;
  const int item_column = lane % 8 + warp % (ITEMS_ACROSS / 8) * 8;
  const int item_row = lane / 8 + warp / (ITEMS_ACROSS / 8) * 4;
#else
  const int item_column = item % ITEMS_ACROSS, item_row = item / ITEMS_ACROSS;
#endif
#define ROW_OF(s) PLACE(s, ITEMS_DOWN, item_row)
#define COLUMN_OF(t) PLACE(t, ITEMS_ACROSS, item_column)
#endif

  S total[ITEM_ROWS][ITEM_COLUMNS];
  EACH(int s = 0; s < ITEM_ROWS; s++)
    EACH(int t = 0; t < ITEM_COLUMNS; t++) total[s][t] = (S)(0);

  // Rows and columns beyond the matrix read other elements, and are not written.
  S next_a[A_READS][A_VECTOR], next_b[B_READS][B_VECTOR];
#if A_TABLES
  int2 a_from[A_READS];
#else
  __global const S *restrict a_from[A_READS];
#endif
  __global const S *restrict b_from[B_READS];
  EACH(int r = 0; r < A_READS; r++) {
    const long i = tile_row + ACROSS(A_ALONG_K, A_VECTOR, ROWS, r);
    const long row = min(i, m - (A_ALONG_K ? 1 : A_VECTOR));
#if A_TABLES
    a_from[r] = rows[row];
#else
    a_from[r] = a + row * a_row + (begin + ALONG(A_ALONG_K, A_VECTOR, ROWS, r)) * a_step;
#endif
  }
  EACH(int r = 0; r < B_READS; r++) {
    const long j = tile_column + ACROSS(B_ALONG_K, B_VECTOR, COLUMNS, r);
    const long column = min(j, n - (B_ALONG_K ? 1 : B_VECTOR));
    b_from[r] = b + column * b_step;
#if !B_TABLES
    b_from[r] += (begin + ALONG(B_ALONG_K, B_VECTOR, COLUMNS, r)) * b_row;
#endif
  }

#if A_TABLES
#define ELEMENT_A(i, l)                                                           \
  (inside(rows[i].y + steps[l].y, top, left, height, width)                       \
       ? a[rows[i].x + steps[l].x]                                                \
       : (S)(0))
#define READ_A(r, l)                                                              \
  {                                                                               \
    const int2 place = a_from[r] + steps[l];                                      \
    if (inside(place.y, top, left, height, width))                                \
      load(a + place.x, A_VECTOR, next_a[r]);                                     \
    else                                                                          \
      EACH(int v = 0; v < A_VECTOR; v++) next_a[r][v] = (S)(0);                   \
  }
#else
#define ELEMENT_A(i, l) a[(i) * a_row + (l) * a_step]
#define READ_A(r, l) load(a_from[r], A_VECTOR, next_a[r]), a_from[r] += DEEP * a_step;
#endif
#if B_TABLES
#define ELEMENT_B(l, j) b[b_rows[l] + (j) * b_step]
#define READ_B(r, l) load(b_from[r] + b_rows[l], B_VECTOR, next_b[r]);
#else
#define ELEMENT_B(l, j) b[(l) * b_row + (j) * b_step]
#define READ_B(r, l) load(b_from[r], B_VECTOR, next_b[r]), b_from[r] += DEEP * b_row;
#endif
// Read the next steps from ``from`` on; elements of a and b beyond the end are 0.
#define READ(from)                                                                \
  EACH(int r = 0; r < A_READS; r++) {                                             \
    const long at = (from) + ALONG(A_ALONG_K, A_VECTOR, ROWS, r);                  \
    if ((from) + DEEP <= end || at < end) { READ_A(r, at) }                         \
    else EACH(int v = 0; v < A_VECTOR; v++) next_a[r][v] = (S)(0);                \
  }                                                                               \
  EACH(int r = 0; r < B_READS; r++) {                                             \
    const long at = (from) + ALONG(B_ALONG_K, B_VECTOR, COLUMNS, r);               \
    if ((from) + DEEP <= end || at < end) { READ_B(r, at) }                         \
    else EACH(int v = 0; v < B_VECTOR; v++) next_b[r][v] = (S)(0);                \
  }
#define WRITE(stage)                                                              \
  EACH(int r = 0; r < A_READS; r++)                                               \
    put(memory + (stage) * STAGE +                                                \
            A_PLACE(ACROSS(A_ALONG_K, A_VECTOR, ROWS, r),                         \
                    ALONG(A_ALONG_K, A_VECTOR, ROWS, r)),                         \
        A_ALONG_K && !A_TURNED ? A_LINE : 1, A_VECTOR, next_a[r]);                \
  EACH(int r = 0; r < B_READS; r++)                                               \
    put(memory + (stage) * STAGE + A_PANEL +                                      \
            B_PLACE(ACROSS(B_ALONG_K, B_VECTOR, COLUMNS, r),                      \
                    ALONG(B_ALONG_K, B_VECTOR, COLUMNS, r)),                      \
        B_ALONG_K && !B_TURNED ? B_LINE : 1, B_VECTOR, next_b[r]);

  int stage = 0;
  READ(begin)
  WRITE(0)
  barrier(CLK_LOCAL_MEM_FENCE);
  for (long l = begin; l < end; l += DEEP) {
    const int has_next = l + DEEP < end;
    if (has_next) { READ(l + DEEP) }
    __local const S *left_panel = memory + stage * STAGE;
    __local const S *right_panel = memory + stage * STAGE + A_PANEL;
#if UNITS
    // The units round sums towards zero. So they only add up SHARE steps, and their sums
    // are added to the total in float32.
    uint w[SHARE / 8][ITEM_COLUMNS / 2][2], w_low[SHARE / 8][ITEM_COLUMNS / 2][2];
    const int from = slice * SHARE + lane % 4;
    EACH(int step = 0; step < SHARE / 8; step++)
      EACH(int t = 0; t < ITEM_COLUMNS / 2; t++)
        EACH(int h = 0; h < 2; h++) {
          const int column = warp_column + t * 8 + lane / 4, along = from + step * 8 + h * 4;
          split(right_panel[B_PLACE(column, along)], &w[step][t][h], &w_low[step][t][h]);
        }
    EACH(int s = 0; s < ITEM_ROWS; s += 2) {
      S some[2][ITEM_COLUMNS];
      EACH(int t = 0; t < ITEM_COLUMNS; t++) some[0][t] = some[1][t] = 0;
      EACH(int step = 0; step < SHARE / 8; step++) {
        uint x[2][2], x_low[2][2];
        EACH(int e = 0; e < 2; e++)
          EACH(int h = 0; h < 2; h++) {
            const int row = warp_row + (s + e) * 8 + lane / 4;
            const int along = from + step * 8 + h * 4;
            split(left_panel[A_PLACE(row, along)], &x[e][h], &x_low[e][h]);
          }
        EACH(int t = 0; t < ITEM_COLUMNS / 2; t++) {
#if UNITS == 3
          MULTIPLY(x_low, w[step], t)
          MULTIPLY(x, w_low[step], t)
#endif
          MULTIPLY(x, w[step], t)
        }
      }
      EACH(int e = 0; e < 2; e++)
        EACH(int t = 0; t < ITEM_COLUMNS; t++) total[s + e][t] += some[e][t];
    }
#else
    EACH(int step = 0; step < SHARE; step++) {
      S x[ITEM_ROWS], w[ITEM_COLUMNS];
      const int along = slice * SHARE + step;
      get(left_panel + along * A_LINE, ITEMS_DOWN, item_row, ITEM_ROWS, x);
      get(right_panel + along * B_LINE, ITEMS_ACROSS, item_column, ITEM_COLUMNS, w);
      EACH(int s = 0; s < ITEM_ROWS; s++)
        EACH(int t = 0; t < ITEM_COLUMNS; t++)
          total[s][t] = product(x[s], w[t], total[s][t]);
    }
#endif
    stage ^= 1;
    if (has_next) { WRITE(stage) }
    barrier(CLK_LOCAL_MEM_FENCE);
  }

#if SLICES > 1
  // Add the upper half of the slices to the lower half, until one slice is left.
  for (int count = SLICES / 2; count; count /= 2) {
    __local S *slot = memory + (slice % count) * (ROWS * COLUMNS) + item;
    if (slice >= count && slice < 2 * count)
      EACH(int s = 0; s < ITEM_ROWS; s++)
        EACH(int t = 0; t < ITEM_COLUMNS; t++)
          slot[(s * ITEM_COLUMNS + t) * SLICE] = total[s][t];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slice < count)
      EACH(int s = 0; s < ITEM_ROWS; s++)
        EACH(int t = 0; t < ITEM_COLUMNS; t++)
          total[s][t] += slot[(s * ITEM_COLUMNS + t) * SLICE];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (slice) return;
#endif

  EACH(int s = 0; s < ITEM_ROWS; s++) {
    const long i = tile_row + ROW_OF(s);
    if (i >= m) continue;
#define NEIGHBOURS (UNITS ? 2 : 4)
    EACH(int t = 0; t < ITEM_COLUMNS; t += NEIGHBOURS) {
      const long j = tile_column + COLUMN_OF(t);
      S out[NEIGHBOURS];
      EACH(int v = 0; v < NEIGHBOURS; v++)
        out[v] = finish(total[s][t + v] + (BIAS ? bias[min(j + v, n - 1)] : (S)(0)), alpha);
      __global S *to = y + i * y_row + j;
#if Y_VECTOR == 4 && UNITS
      if (j < n) *(__global float2 *)to = (float2)(out[0], out[1]);
#elif Y_VECTOR == 4
      if (j < n) *(__global V *)to = (V)(out[0], out[1], out[2], out[3]);
#else
      EACH(int v = 0; v < NEIGHBOURS; v++)
        if (j + v < n) to[v] = out[v];
#endif
    }
  }
#if UNITS == 3
  // The rest of an infinity is NaN, and a large number may round to infinity. So results
  // that are not finite are computed again without the units.
  ulong wrong = 0;
  EACH(int s = 0; s < ITEM_ROWS; s++)
    EACH(int t = 0; t < ITEM_COLUMNS; t++)
      wrong |= (ulong)!isfinite(total[s][t]) << (s * ITEM_COLUMNS + t);
  for (int e = 0; wrong; e++, wrong >>= 1) {
    const long i = tile_row + ROW_OF(e / ITEM_COLUMNS);
    const long j = tile_column + COLUMN_OF(e % ITEM_COLUMNS);
    if (!(wrong & 1) || i >= m || j >= n) continue;
    S sum = 0;
    for (long l = begin; l < end; l++) sum = product(ELEMENT_A(i, l), ELEMENT_B(l, j), sum);
    y[i * y_row + j] = finish(sum + (BIAS ? bias[j] : (S)(0)), alpha);
  }
#endif
}
