/* Products of bfloat16 matrices with sums in float32: y = a b, in float32 or rounded.

   Both matrices are packed in pairs along k: a word consists of two numbers. AVX512-BF16
   multiplies the pairs of two words, and adds both products to a float32 sum, in one
   operation. On other processors, the numbers of a word become two float32 numbers.

   a is packed as [panels][pairs][MR] before anything is multiplied. A task packs the
   columns of b that it needs as [panels][pairs][NR], for all of k, so that each element of
   y is summed in registers and rounded once.

   Contents: packing; micro-kernels; tasks. */
#include "bfloat16.h"
#include "gemm.h"

#include INTRINSICS

enum { ROWS = MR, COLUMNS = 2 * LANES, VECTORS = 2 };
/* The packed columns of a task: at most MAX_PACKED_WORDS, and TASK_WORDS if k allows it,
   which is half of a second-level cache of 1 MB. */
enum { MAX_PACKED_WORDS = 1 << 18, TASK_WORDS = 1 << 17, SCRATCH = 3 };
/* A task has at least TASK_MIN_ROWS rows, because it packs its columns. */
enum { TASK_MIN_ROWS = 8 * ROWS, TASKS_PER_THREAD = 4 };

typedef void Tile(const u32 *a, const u32 *b, u32 pairs, f32 *out);

typedef struct {
    const i32 *how; /* as for product_f32, in elements of two bytes */
    const u16 *a, *b;
    u32 *packed; /* a: [batches][panels of ROWS rows][pairs][ROWS] */
    void *y;
    bool rounds; /* y is bfloat16, or else float32 */
    u32 m, n, k, batches, pairs, panels;
    u32 height, width, down, across; /* panels of rows, and columns, of a task; tasks */
    Tile *tile;
} Product;

static const u16 *batch_start(const Product *s, const u16 *x, u32 batch, bool is_b) {
    const i32 *how = s->how;
    if (how[10]) return x + how[11 + (is_b ? s->batches : 0) + batch];
    return x + (i64)how[is_b ? 9 : 6] * batch;
}

/* --- packing --------------------------------------------------------------------- */

INLINE u32 word(const u16 *x, i32 step, bool is_whole) {
    return x[0] | (is_whole ? (u32)x[step] << 16 : 0);
}

/* Packs `lines` lines of k numbers as [pairs][high]; other lines are zeros. A line is a row
   of a or a column of b: `next` apart, and its numbers are `step` apart. */
INLINE void pack_panel(const u16 *x, i32 next, i32 step, u32 lines, u32 high, u32 k, u32 *to) {
    u32 q = 0, pairs = CEIL_DIV(k, 2);
    if (lines == high && step == 1 && high % 4 == 0) {
        for (; q + 4 <= k / 2; q += 4)
            for (u32 t = 0; t < high; t += 4) {
                const u16 *from = x + (i64)t * next + 2 * q;
                transpose4x4((const f32 *)from, (const f32 *)(from + next),
                             (const f32 *)(from + 2 * (i64)next),
                             (const f32 *)(from + 3 * (i64)next),
                             (f32 *)to + (size_t)q * high + t, high);
            }
    } else if (lines == high && next == 1) {
        for (; q < k / 2; q++) {
            const u16 *low = x + (i64)2 * q * step, *upper = low + step;
            u32 *row = to + (size_t)q * high;
            for (u32 t = 0; t < high; t++) row[t] = low[t] | (u32)upper[t] << 16;
        }
    }
    for (; q < pairs; q++)
        for (u32 t = 0; t < high; t++) {
            const u16 *from = x + (i64)t * next + (i64)2 * q * step;
            to[(size_t)q * high + t] = t < lines ? word(from, step, 2 * q + 1 < k) : 0;
        }
}

static void pack_rows(u32 begin, u32 end, void *ctx) {
    const Product *s = ctx;
    i32 next = s->how[4], step = s->how[5];
    for (u32 i = begin; i < end; i++) {
        u32 row = i % s->panels * ROWS;
        const u16 *a = batch_start(s, s->a, i / s->panels, false) + (i64)row * next;
        u32 *to = s->packed + (size_t)i * s->pairs * ROWS;
        pack_panel(a, next, step, MIN(ROWS, s->m - row), ROWS, s->k, to);
    }
}

/* --- micro-kernels --------------------------------------------------------------- */

#define UNROLLED _Pragma("clang loop unroll(full)")
#define EACH_SUM(r, v)                                                                   \
    UNROLLED for (u32 r = 0; r < ROWS; r++)                                              \
    UNROLLED for (u32 v = 0; v < VECTORS; v++)

static void multiply_tile(const u32 *a, const u32 *b, u32 pairs, f32 *out) {
    vec sums[ROWS][VECTORS];
    EACH_SUM(r, v) sums[r][v] = VEC(0);
    for (u32 q = 0; q < pairs; q++, a += ROWS, b += COLUMNS) {
        vec low[VECTORS], upper[VECTORS];
        UNROLLED for (u32 v = 0; v < VECTORS; v++) {
            vec words = VLOAD(b + v * LANES);
            low[v] = SHL(words, 16), upper[v] = AND(words, VINT((i32)0xffff0000));
        }
        UNROLLED for (u32 r = 0; r < ROWS; r++) {
            vec words = VINT((i32)a[r]);
            vec x = SHL(words, 16), x_upper = AND(words, VINT((i32)0xffff0000));
            UNROLLED for (u32 v = 0; v < VECTORS; v++)
                sums[r][v] = FMA(x_upper, upper[v], FMA(x, low[v], sums[r][v]));
        }
    }
    EACH_SUM(r, v) STORE(out + r * COLUMNS + v * LANES, sums[r][v]);
}

#ifdef DOT_BF16
WITH_DOT_BF16 static void dot_tile(const u32 *a, const u32 *b, u32 pairs, f32 *out) {
    vec sums[ROWS][VECTORS];
    EACH_SUM(r, v) sums[r][v] = VEC(0);
    for (u32 q = 0; q < pairs; q++, a += ROWS, b += COLUMNS) {
        vec words[VECTORS];
        UNROLLED for (u32 v = 0; v < VECTORS; v++) words[v] = VLOAD(b + v * LANES);
        EACH_SUM(r, v) sums[r][v] = (vec)DOT_BF16(sums[r][v], VINT((i32)a[r]), words[v]);
    }
    EACH_SUM(r, v) STORE(out + r * COLUMNS + v * LANES, sums[r][v]);
}
#else
#define dot_tile multiply_tile
static bool has_dot_bf16(void) { return false; }
#endif

/* --- tasks ----------------------------------------------------------------------- */

static void store_tile(const Product *s, u32 batch, u32 i, u32 j, u32 width, const f32 *tile) {
    u32 columns = MIN(COLUMNS, width);
    for (u32 r = 0; r < MIN(ROWS, s->m - i); r++, tile += COLUMNS) {
        size_t at = ((size_t)batch * s->m + i + r) * s->n + j;
        if (!s->rounds) {
            memcpy((f32 *)s->y + at, tile, columns * sizeof(f32));
            continue;
        }
        u16 row[COLUMNS];
        BY_16 for (u32 t = 0; t < COLUMNS; t++) row[t] = to_bfloat16(tile[t]);
        memcpy((u16 *)s->y + at, row, columns * sizeof(u16));
    }
}

static void run_tasks(u32 begin, u32 end, void *ctx) {
    const Product *s = ctx;
    i32 next = s->how[8], step = s->how[7];
    u32 *columns = thread_scratch(SCRATCH, MAX_PACKED_WORDS * sizeof(u32));
    size_t panel = (size_t)s->pairs * COLUMNS;
    for (u32 task = begin; task < end; task++) {
        u32 part = task % (s->down * s->across), batch = task / (s->down * s->across);
        u32 first = part % s->down * s->height, last = MIN(first + s->height, s->panels);
        u32 j = part / s->down * s->width, width = MIN(s->width, s->n - j);
        const u16 *b = batch_start(s, s->b, batch, true) + (i64)j * next;
        for (u32 t = 0; t < width; t += COLUMNS)
            pack_panel(b + (i64)t * next, next, step, MIN(COLUMNS, width - t), COLUMNS, s->k,
                       columns + t / COLUMNS * panel);
        for (u32 i = first; i < last; i++) {
            const u32 *a = s->packed + ((size_t)batch * s->panels + i) * s->pairs * ROWS;
            for (u32 t = 0; t < width; t += COLUMNS) {
                f32 tile[ROWS * COLUMNS];
                s->tile(a, columns + t / COLUMNS * panel, s->pairs, tile);
                store_tile(s, batch, i * ROWS, j + t, width - t, tile);
            }
        }
    }
}

/* Divides the columns and, if that gives too few tasks, the rows. */
static void partition(Product *s) {
    u32 most = MAX(TASK_WORDS / s->pairs / COLUMNS, 1), parts = CEIL_DIV(s->n, COLUMNS);
    u32 wanted = CEIL_DIV(TASKS_PER_THREAD * thread_count(), s->batches);
    u32 fair = CEIL_DIV(parts, MIN(wanted, parts));
    s->width = MIN(most, fair) * COLUMNS;
    s->across = CEIL_DIV(s->n, s->width);
    u32 down = CEIL_DIV(wanted, s->across);
    s->height = MAX(CEIL_DIV(s->panels, down), TASK_MIN_ROWS / ROWS);
    s->down = CEIL_DIV(s->panels, s->height);
}

/* Computes the product of matrices with any strides; `how` is that of product_f32. k is at
   most MAX_PACKED_WORDS * 2 / COLUMNS. `memory` has batches * (m + ROWS) * CEIL_DIV(k, 2)
   words. */
EXPORT("pairs_product_bf16")
void pairs_product_bf16(const i32 *how, const u16 *a, const u16 *b, void *y, u32 *memory,
                        u32 rounds) {
    Product s = {.how = how, .a = a, .b = b, .packed = memory, .y = y, .rounds = rounds,
                 .m = (u32)how[0], .n = (u32)how[1], .k = (u32)how[2],
                 .batches = (u32)how[3]};
    s.pairs = CEIL_DIV(s.k, 2), s.panels = CEIL_DIV(s.m, ROWS);
    s.tile = has_dot_bf16() ? dot_tile : multiply_tile;
    CHECK((u64)s.pairs * COLUMNS <= MAX_PACKED_WORDS, "the sums are too long");
    INSIDE(y, (u64)s.batches * s.m * s.n * (rounds ? 2 : 4));
    INSIDE(memory, (u64)s.batches * s.panels * ROWS * s.pairs * sizeof(u32));
    partition(&s);
    parallel_for(pack_rows, &s, s.batches * s.panels, (1 << 15) / (ROWS * s.pairs) + 1);
    u64 work = (u64)s.height * ROWS * s.width * s.k;
    parallel_for(run_tasks, &s, s.batches * s.across * s.down, (u32)((1 << 20) / work) + 1);
}
