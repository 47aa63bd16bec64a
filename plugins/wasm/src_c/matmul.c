/* BatchMatMul, and the product of blocks that convolutions use.

   Map: packing; blocks; few rows; the end of fused kernels; exports; other dtypes.
*/
#include "tile.h"
#include "mathematics.h"

/* --- packing --------------------------------------------------------------------- */

/* Blocks of A and B. On a processor several runs may be under way, so every thread of it
   has its own; and where rows of A are contiguous, they are read where they lie. */
#ifdef __wasm__
#ifdef THREADS
static _Alignas(64) f32 packed_a[MAX_THREADS][ROWS * DEPTH];
#else
static _Alignas(64) f32 packed_a[1][ROWS * DEPTH];
#endif
static _Alignas(64) f32 packed_b[DEPTH * COLUMNS];

static f32 *block_of_a(void) { return packed_a[thread_id()]; }
static f32 *block_of_b(void) { return packed_b; }
enum { DIRECT = 0, LEAST_WORK = 0, FEW_ROWS = 0 };
static u32 thread_count(void) { return 1; } /* of which nothing depends here */
#else
/* Products that are worth a thread, 5 us, and rows of A that B is packed for. */
enum { DIRECT = 1, LEAST_WORK = 1 << 19, FEW_ROWS = 64 };
static f32 *block_of_a(void) { return kept_memory(0, ROWS * DEPTH * sizeof(f32)); }
static f32 *block_of_b(void) { return kept_memory(1, DEPTH * COLUMNS * sizeof(f32)); }
#endif

static void pack_rows(const Gemm *g, const f32 *a, u32 i, u32 rows, u32 k, u32 depth,
                      f32 *block) {
    i32 row = g->a_row, column = g->a_column;
    u32 r = 0;
    for (; row == 1 && r + PANEL_A <= rows; r += PANEL_A) {
        const f32 *p = a + (i + r) + (i32)k * column;
        f32 *to = row_of_panel(block, r, depth);
        for (u32 q = 0; q < depth; q++, p += column, to += PANEL_A)
            memcpy(to, p, PANEL_A * sizeof(f32));
    }
    for (; r < rows; r += 4) {
        const f32 *p = a + (i32)(i + r) * row + (i32)k * column;
        f32 *to = row_of_panel(block, r, depth);
        u32 here = MIN(4, rows - r), q = 0;
        INSIDE(p, 4);
        INSIDE(p + (i32)(here - 1) * row + (i32)(depth - 1) * column, 4);
        if (here == 4 && column == 1)
            for (; q + 4 <= depth; q += 4, p += 4, to += 4 * PANEL_A)
                turn4(p, p + row, p + 2 * row, p + 3 * row, to, PANEL_A);
        for (; q < depth; q++, p += column, to += PANEL_A)
            for (u32 t = 0; t < 4; t++) to[t] = t < here ? p[(i32)t * row] : 0;
    }
}

/* One panel of B: columns j.., rows k.., as [k][PANEL_B]. */
static void pack_panel(const f32 *b, i32 row, i32 column, u32 here, u32 depth,
                       f32 *to) {
    u32 q = 0;
    INSIDE(b, 4);
    INSIDE(b + (i32)(here - 1) * column + (i32)(depth - 1) * row, 4);
    INSIDE(to, PANEL_B * depth * 4);
    if (here == PANEL_B && column == 1) {
        for (; q < depth; q++, b += row, to += PANEL_B) memcpy(to, b, PANEL_B * 4);
    } else if (here == PANEL_B && row == 1) {
        for (; q + 4 <= depth; q += 4, b += 4, to += 4 * PANEL_B)
            for (u32 t = 0; t < PANEL_B; t += 4) {
                const f32 *c = b + (i32)t * column;
                turn4(c, c + column, c + 2 * column, c + 3 * column, to + t, PANEL_B);
            }
    }
    for (; q < depth; q++, b += row, to += PANEL_B)
        for (u32 t = 0; t < PANEL_B; t++) to[t] = t < here ? b[(i32)t * column] : 0;
}

/* --- blocks ---------------------------------------------------------------------- */

/* What the threads work on: a block of B for some batches, and how C is cut. */
typedef struct {
    const Gemm *g;
    f32 *b;                          /* a block of B, packed */
    u32 batch, j, columns, k, depth; /* which: for batch and those after it */
    u32 panels;                      /* of B in a batch */
    u32 height, across;              /* rows and panels of a task */
    u32 down, tasks;                 /* tasks in a batch: down in a column, and all */
    bool own;      /* a task packs its B, which no other one reads */
    bool in_place; /* or nothing but the last panel: few rows do not pay for it */
} Blocks;

static const f32 *part(const f32 *x, const i32 *at, u32 batch, i32 step) {
    return x + (at ? at[batch] : (i32)batch * step);
}

/* Panel i, counted through the batches. */
static void pack_number(const Blocks *s, u32 i, f32 *to) {
    const Gemm *g = s->g;
    u32 batch = i / s->panels, j = (i % s->panels) * PANEL_B;
    const f32 *b = part(g->b, g->b_at, s->batch + batch, g->b_batch);
    b += (i32)s->k * g->b_row + (i32)(s->j + j) * g->b_column;
    pack_panel(b, g->b_row, g->b_column, MIN(PANEL_B, s->columns - j), s->depth, to);
}

static void pack_panels(u32 begin, u32 end, void *ctx) {
    const Blocks *s = ctx;
    for (u32 i = begin; i < end; i++)
        pack_number(s, i, s->b + i * PANEL_B * s->depth);
}

/* The product of some rows of A and the panels of B from column j to `last`. */
static void multiply(const Blocks *s, Left a, u32 height, f32 *const *rows, Right b, u32 j,
                     u32 last, const Finish *f) {
    bool add = s->k > 0, quick = !f || f->activation <= RELU6;
    for (; j < last; j += PANEL_B, b.at += b.next) {
        u32 width = MIN(PANEL_B, s->columns - j);
        Left panel = a;
        if (width < PANEL_B) b.at = b.last, b.step = PANEL_B;
        for (u32 i = 0; i < height; i += PANEL_A, panel = next_panel(panel)) {
            u32 here = MIN(PANEL_A, height - i);
            if (here < PANEL_A && a.last) panel = (Left){PACKED, .at = a.last};
            tile(panel, s->depth, b, rows + i, here, s->j + j, width, add, quick ? f : 0);
            for (u32 r = 0; r < here && !quick; r++)
                finish(f, rows[i + r] + s->j + j, s->j + j, width);
        }
    }
}

/* The same, on processors with panels of A one after the other: C is written row by row,
   and B is read from a cache that is fast enough. */
static void multiply_rows(const Blocks *s, Left a, u32 height, f32 *const *rows, Right b,
                          u32 j, u32 last, const Finish *f) {
    u32 step = DIRECT ? PANEL_A : height;
    for (u32 i = 0; i < height; i += step, a = next_panel(a))
        multiply(s, a, MIN(step, height - i), rows + i, b, j, last, f);
}

/* The panels of B from column j on, which a task packs itself or reads where they lie. */
static Right panels_of_b(const Blocks *s, u32 batch, u32 j) {
    const Gemm *g = s->g;
    i64 size = PANEL_B * (i64)s->depth;
    u32 first = batch * s->panels, last = first + s->panels - 1;
    f32 *all = s->b + first * size;
    if (s->own) {
        all = block_of_b();
        u32 from = s->in_place ? s->panels - 1 : j / PANEL_B;
        for (u32 q = from; q < MIN(s->panels, j / PANEL_B + s->across); q++)
            pack_number(s, first + q, all + q * size);
    }
    Right packed = {all + j / PANEL_B * size, all + (last - first) * size, PANEL_B, size};
    if (!s->in_place) return packed;
    const f32 *b = part(g->b, g->b_at, s->batch + batch, g->b_batch);
    b += (i32)s->k * g->b_row + (i32)(s->j + j);
    return (Right){b, packed.last, g->b_row, PANEL_B};
}

/* Rows i.. of A, which are packed unless they can be read where they lie. */
static Left rows_of_a(const Blocks *s, const f32 *a, u32 i, u32 height) {
    const Gemm *g = s->g;
    f32 *block = block_of_a();
    if (DIRECT && g->starts && g->turned)
        return (Left){
            IN_COLUMNS, .at = a, .starts = g->starts + s->k, .places = g->places + i};
    if (DIRECT && g->starts)
        return (Left){
            INDEXED, .at = a, .starts = g->starts + i, .places = g->places + s->k};
    if (DIRECT && !g->pack && g->a_column == 1) {
        u32 rest = height % PANEL_A;
        if (rest) pack_rows(g, a, i + height - rest, rest, s->k, s->depth, block);
        a = a + (i32)i * g->a_row + s->k;
        return (Left){IN_ROWS, .at = a, .step = g->a_row, .last = block};
    }
    (g->pack ? g->pack : pack_rows)(g, a, i, height, s->k, s->depth, block);
    return (Left){PACKED, .at = block, .step = s->depth};
}

/* Rows i.. of C, at most ROWS, from column j to `last`. */
static void block(const Blocks *s, u32 which, u32 i, u32 height, u32 j, u32 last, Right b) {
    const Gemm *g = s->g;
    f32 *rows[ROWS], *c = g->c + (i32)which * g->c_batch;
    Left a = rows_of_a(s, part(g->a, g->a_at, which, g->a_batch), i, height);
    for (u32 r = 0; r < height; r++)
        rows[r] = c + (g->offset ? g->offset(g, i + r) : (i + r) * (u32)g->c_row);
    CHECK(height <= ROWS && s->depth <= DEPTH, "a block is too large");
    INSIDE(rows[0], g->n * 4);
    INSIDE(rows[height - 1], g->n * 4);
    Finish f, *end_of = 0;
    if (g->end && s->k + s->depth == g->k) {
        f = *g->end, end_of = &f;
        if (f.bias) f.bias += which * (u32)g->finish_batch;
        if (f.slopes) f.slopes += which * (u32)g->finish_batch;
    }
    multiply_rows(s, a, height, rows, b, j, last, end_of);
}

static void blocks(u32 begin, u32 end, void *ctx) {
    const Blocks *s = ctx;
    for (u32 task = begin; task < end; task++) {
        u32 batch = task / s->tasks, at = task % s->tasks;
        u32 i = (at % s->down) * s->height, j = (at / s->down) * s->across * PANEL_B;
        u32 below = MIN(s->g->m, i + s->height);
        u32 last = MIN(s->columns, j + s->across * PANEL_B);
        Right b = panels_of_b(s, batch, j);
        for (; i < below; i += ROWS)
            block(s, s->batch + batch, i, MIN(ROWS, below - i), j, last, b);
    }
}

/* Cuts C into tasks: strips of columns for threads that pack what they read of B, where A
   is read where it lies and is not much larger; or blocks of ROWS rows, or smaller ones so
   that there are enough. */
static void cut(Blocks *s, u32 m, u32 batches) {
    enum { ENOUGH = 8, LEAST = MAX(16, 2 * PANEL_A) };
    const Gemm *g = s->g;
    u32 threads = thread_count(), strip = s->panels * batches / (2 * threads);
    bool in_rows = DIRECT && !g->pack && !g->starts && g->a_column == 1;
    if (in_rows && threads > 1 && strip && m > FEW_ROWS && m <= 2 * s->columns) {
        s->height = m, s->down = 1, s->across = MIN(MIN(strip, 2), s->panels);
    } else {
        s->height = ROWS, s->across = s->panels;
        if (CEIL_DIV(m, ROWS) * batches < ENOUGH) {
            u32 fair = CEIL_DIV(m * batches, ENOUGH * PANEL_A) * PANEL_A;
            s->height = MIN(ROWS, MAX(LEAST, fair));
        }
        s->down = CEIL_DIV(m, s->height);
        u32 rest = CEIL_DIV(ENOUGH, s->down * batches);
        if (rest > 1) s->across = MAX(8, CEIL_DIV(s->panels, rest));
    }
    s->tasks = s->down * CEIL_DIV(s->panels, s->across);
}

/* Tells whether a block of B of some size is not worth packing for m rows. Threads that
   pack it together read the parts of the others from their caches. */
static bool is_few_for(u32 m, u32 size) {
    u32 most = size <= 1 << 14 ? 2 * FEW_ROWS : FEW_ROWS;
    return m <= most || (thread_count() > 1 && size <= 1 << 15);
}

static bool is_few(const Gemm *g);
static void few(const Gemm *g);

void gemm(const Gemm *g) {
    if (is_few(g)) {
        few(g);
        return;
    }
    Blocks s = {.g = g, .b = block_of_b()};
    for (s.j = 0; s.j < g->n; s.j += COLUMNS) {
        s.columns = MIN(COLUMNS, g->n - s.j), s.panels = CEIL_DIV(s.columns, PANEL_B);
        u32 depth = DEPTH, room = DEPTH * COLUMNS / (s.panels * PANEL_B * MIN(DEPTH, g->k));
        if (DIRECT) depth = CEIL_DIV(CEIL_DIV(g->k, CEIL_DIV(g->k, DEPTH)), 8) * 8;
        for (s.batch = 0; s.batch < g->batches; s.batch += room) {
            u32 batches = MIN(room, g->batches - s.batch);
            cut(&s, g->m, batches);
            for (s.k = 0; s.k < g->k; s.k += depth) {
                s.depth = MIN(depth, g->k - s.k);
                bool is_matrix = !g->starts && !g->pack && s.columns >= PANEL_B;
                bool in_place = is_few_for(g->m, s.columns * s.depth);
                s.in_place = DIRECT && is_matrix && in_place && g->b_column == 1;
                s.own = DIRECT && (s.down == 1 || s.in_place);
                if (!s.own) parallel_for(pack_panels, &s, s.panels * batches, 16);
                u64 task = (u64)g->m * s.columns * s.depth / s.tasks;
                parallel_for(blocks, &s, s.tasks * batches, (u32)(LEAST_WORK / task) + 1);
            }
        }
    }
}

/* --- few rows -------------------------------------------------------------------- */

/* c = a b for one row a, without packing: b is read once, four rows at a time. */
#ifdef __wasm__
static void by_rows(const f32 *a, i32 step, const f32 *b, i32 row, u32 k, f32 *c,
                    u32 n) {
    memset(c, 0, n * sizeof(f32));
    u32 q = 0;
    for (; q + 4 <= k; q += 4, a += 4 * step, b += 4 * row) {
        const f32 *b1 = b + row, *b2 = b1 + row, *b3 = b2 + row;
        f32 a0 = a[0], a1 = a[step], a2 = a[2 * step], a3 = a[3 * step];
        v4 s0 = SPLAT(a0), s1 = SPLAT(a1), s2 = SPLAT(a2), s3 = SPLAT(a3);
        u32 j = 0;
        for (; j + 4 <= n; j += 4) {
            v4 y = FMA(s0, LOAD(b + j), LOAD(c + j));
            y = FMA(s1, LOAD(b1 + j), y), y = FMA(s2, LOAD(b2 + j), y);
            STORE(c + j, FMA(s3, LOAD(b3 + j), y));
        }
        for (; j < n; j++) c[j] += a0 * b[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j];
    }
    for (; q < k; q++, a += step, b += row)
        for (u32 j = 0; j < n; j++) c[j] += *a * b[j];
}

/* The same where the columns of b are contiguous, and a is. */
static void by_columns(const f32 *a, const f32 *b, i32 column, u32 k, f32 *c, u32 n) {
    for (u32 j = 0; j < n; j++, b += column) {
        v4 s0 = SPLAT(0), s1 = s0;
        u32 q = 0;
        for (; q + 8 <= k; q += 8) {
            s0 = FMA(LOAD(a + q), LOAD(b + q), s0);
            s1 = FMA(LOAD(a + q + 4), LOAD(b + q + 4), s1);
        }
        f32 sum = sum_of(ADD(s0, s1));
        for (; q < k; q++) sum += a[q] * b[q];
        c[j] = sum;
    }
}
#else
static void by_rows(const f32 *a, i32 step, const f32 *b, i32 row, u32 k, f32 *restrict c,
                    u32 n) {
#pragma clang fp contract(fast)
    memset(c, 0, n * sizeof(f32));
    u32 q = 0;
    for (; q + 4 <= k; q += 4, a += 4 * step, b += 4 * (i64)row) {
        const f32 *b1 = b + row, *b2 = b1 + row, *b3 = b2 + row;
        f32 a0 = a[0], a1 = a[step], a2 = a[2 * step], a3 = a[3 * step];
        for (u32 j = 0; j < n; j++)
            c[j] = a3 * b3[j] + (a2 * b2[j] + (a1 * b1[j] + (a0 * b[j] + c[j])));
    }
    for (; q < k; q++, a += step, b += row)
        for (u32 j = 0; j < n; j++) c[j] += *a * b[j];
}

/* The same where the columns of b are contiguous, and a is. */
static void by_columns(const f32 *a, const f32 *b, i32 column, u32 k, f32 *c, u32 n) {
#pragma clang fp contract(fast)
    enum { SUMS = 4 };
    for (u32 j = 0; j < n; j++, b += column) {
        Vector s[SUMS] = {0};
        u32 q = 0;
        for (; q + SUMS * WIDTH <= k; q += SUMS * WIDTH)
            for (u32 i = 0; i < SUMS; i++)
                s[i] += *(const Vector *)(a + q + i * WIDTH) *
                        *(const Vector *)(b + q + i * WIDTH);
        Vector all = (s[0] + s[1]) + (s[2] + s[3]);
        f32 sum = 0;
        for (u32 i = 0; i < WIDTH; i++) sum += all[i];
        for (; q < k; q++) sum += a[q] * b[q];
        c[j] = sum;
    }
}
#endif

enum { PIECE = 256 }; /* columns of a task */

static void pieces(u32 begin, u32 end, void *ctx) {
    const Gemm *g = ctx;
    u32 across = CEIL_DIV(g->n, PIECE);
    for (u32 task = begin; task < end; task++) {
        u32 batch = task / across, j = task % across * PIECE, n = MIN(PIECE, g->n - j);
        const f32 *b = part(g->b, g->b_at, batch, g->b_batch) + (i32)j * g->b_column;
        for (u32 i = 0; i < g->m; i++) {
            const f32 *a = part(g->a, g->a_at, batch, g->a_batch) + (i32)i * g->a_row;
            f32 *c = g->c + (i32)batch * g->c_batch + (i32)i * g->c_row + j;
            if (g->b_column == 1 || g->a_column != 1)
                by_rows(a, g->a_column, b, g->b_row, g->k, c, n);
            else
                by_columns(a, b, g->b_column, g->k, c, n);
            if (g->end) finish(g->end, c, (u32)(batch * g->finish_batch) + j, n);
        }
    }
}

/* Tells whether packing would cost more than it saves. */
static bool is_few(const Gemm *g) {
    if (g->pack || g->offset || g->starts) return false;
    if (g->n == 1) return g->c_row == 1 && g->b_row == 1;
    bool small = g->m < 4 || (u64)g->m * g->n * g->k <= 512;
    return small && (g->b_column == 1 || g->a_column == 1);
}

/* A column is taken for a row: cᵀ = bᵀ aᵀ. */
static void few(const Gemm *g) {
    Gemm t = *g;
    bool turn = g->n == 1;
    if (turn) {
        t.m = 1, t.n = g->m, t.end = 0;
        t.a = g->b, t.a_at = g->b_at, t.a_batch = g->b_batch, t.a_column = g->b_row;
        t.b = g->a, t.b_at = g->a_at, t.b_batch = g->a_batch;
        t.b_row = g->a_column, t.b_column = g->a_row;
    }
    u64 work = (u64)t.m * t.k * MIN(t.n, PIECE);
    u32 grain = (u32)MAX(1, 65536 / work);
    parallel_for(pieces, &t, t.batches * CEIL_DIV(t.n, PIECE), grain);
    if (turn && g->end)
        for (u32 i = 0; i < g->batches * g->m; i++)
            finish(g->end, g->c + i, i / g->m * (u32)g->finish_batch, 1);
}

/* --- the end of fused kernels ----------------------------------------------------- */

static v4 activated(Activation how, v4 y, v4 slope) { /* NaN stays NaN */
    v4 zero = SPLAT(0), below = wasm_f32x4_lt(y, zero);
    switch (how) {
    case RELU: return wasm_f32x4_pmax(y, zero);
    case RELU6: return wasm_f32x4_pmin(wasm_f32x4_pmax(y, zero), SPLAT(6));
    case LEAKY_RELU:
    case PRELU: return WHERE(below, MUL(y, slope), y);
    case ELU: return WHERE(below, expm1_4(y), y);
    case SIGMOID: return sigmoid4(y);
    default: return y;
    }
}

void finish(const Finish *f, f32 *y, u32 j, u32 n) {
    for (u32 i = 0; i < n; i += 4) {
        u32 here = MIN(4, n - i);
        v4 z = here == 4 ? LOAD(y + i) : load_few(y + i, here), slope = SPLAT(f->slope);
        const f32 *bias = f->bias + j + i, *slopes = f->slopes + j + i;
        if (f->bias) z = ADD(z, here == 4 ? LOAD(bias) : load_few(bias, here));
        if (f->activation == PRELU)
            slope = here == 4 ? LOAD(slopes) : load_few(slopes, here);
        z = activated(f->activation, z, slope);
        here == 4 ? STORE(y + i, z) : store_few(y + i, z, here);
    }
}

EXPORT("matmul_f32")
void matmul_f32(const f32 *a, const f32 *b, f32 *c, u32 m, u32 n, u32 k, u32 turn_a,
                u32 turn_b, u32 batches, const i32 *offsets, const f32 *bias,
                const f32 *slopes, u32 activation, f64 slope) {
    Finish end = {bias, slopes, activation, (f32)slope};
    INSIDE(c, (u64)batches * m * n * sizeof(f32));
    Gemm g = {.m = m, .n = n, .k = k, .batches = batches, .a_at = offsets, .a = a,
              .b_at = offsets ? offsets + batches : 0,
              .a_row = turn_a ? 1 : (i32)k, .a_column = turn_a ? (i32)m : 1,
              .a_batch = (i32)(m * k), .b = b, .b_row = turn_b ? 1 : (i32)n,
              .b_column = turn_b ? (i32)k : 1, .b_batch = (i32)(k * n), .c = c,
              .c_row = (i32)n, .c_batch = (i32)(m * n)};
    if (bias || activation) g.end = &end;
    gemm(&g);
}

#ifndef __wasm__
/* Of matrices that lie in memory as `how` says: m, n, k, batches; the steps of a and of b
   from row to row, column to column and batch to batch; 1 if where batches begin follows,
   of a and of b, instead of steps. */
EXPORT("product_f32")
void product_f32(const i32 *how, const f32 *a, const f32 *b, f32 *c, const f32 *bias,
                 const f32 *slopes, u32 activation, f64 slope) {
    Finish end = {bias, slopes, activation, (f32)slope};
    u32 m = (u32)how[0], n = (u32)how[1];
    Gemm g = {.m = m, .n = n, .k = (u32)how[2], .batches = (u32)how[3], .a = a,
              .a_row = how[4], .a_column = how[5], .a_batch = how[6], .b = b,
              .b_row = how[7], .b_column = how[8], .b_batch = how[9], .c = c,
              .c_row = (i32)n, .c_batch = (i32)(m * n)};
    if (how[10]) g.a_at = how + 11, g.b_at = how + 11 + how[3];
    if (bias || activation) g.end = &end;
    gemm(&g);
}
#endif

/* --- other dtypes ----------------------------------------------------------------- */

#pragma STDC CX_LIMITED_RANGE ON

typedef struct {
    const void *a, *b;
    void *c;
    u32 m, n, k, turn_a, turn_b, batches;
    const i32 *offsets;
} Task;

#define MATMUL(T, name, HOW)                                                           \
    static void rows_##name(u32 begin, u32 end, void *ctx) {                           \
        const Task *s = ctx;                                                           \
        u32 m = s->m, n = s->n, k = s->k;                                              \
        for (u32 i = begin; i < end; i++) {                                            \
            u32 batch = i / m, row = i % m;                                            \
            u32 at_a = batch * m * k, at_b = batch * k * n;                            \
            if (s->offsets)                                                            \
                at_a = (u32)s->offsets[batch], at_b = (u32)s->offsets[s->batches + batch]; \
            const T *a = (const T *)s->a + at_a + row * (s->turn_a ? 1 : k);           \
            const T *b = (const T *)s->b + at_b;                                       \
            T *c = (T *)s->c + i * n;                                                  \
            memset(c, 0, n * sizeof(T));                                               \
            for (u32 q = 0; q < k; q++, a += s->turn_a ? m : 1)                        \
                if (s->turn_b)                                                         \
                    SMALL for (u32 j = 0; j < n; j++) c[j] += *a * b[j * k + q];       \
                else                                                                   \
                    HOW for (u32 j = 0; j < n; j++) c[j] += *a * b[q * n + j];         \
        }                                                                              \
    }                                                                                  \
    EXPORT("matmul_" #name)                                                            \
    void matmul_##name(const T *a, const T *b, T *c, u32 m, u32 n, u32 k, u32 turn_a,  \
                       u32 turn_b, u32 batches, const i32 *offsets) {                  \
        Task s = {a, b, c, m, n, k, turn_a, turn_b, batches, offsets};                 \
        parallel_for(rows_##name, &s, batches * m, 65536 / (n * (u64)k) + 1);          \
    }

MATMUL(f64, f64, )
MATMUL(u8, i8, SMALL)
MATMUL(u16, i16, SMALL)
MATMUL(u32, i32, )
MATMUL(u64, i64, SMALL)
MATMUL(c64, c64, SMALL)
MATMUL(c128, c128, SMALL)
