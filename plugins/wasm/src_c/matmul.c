/* BatchMatMul, and the product of blocks that convolutions use.

   Map: the tile in registers; packing; blocks; few rows; other dtypes; exports.
*/
#include "gemm.h"
#include "mathematics.h"

/* --- a tile ---------------------------------------------------------------------- */

/* Written for what Cranelift (wasmtime 50) makes of it, which was measured: a constant
   offset outside of the load becomes an addition, hence assembly; load32_splat takes
   three instructions, a shuffle one; and all loads between two branches are moved to
   their beginning, so that without the exits in between registers are spilled. Of one,
   two and three steps a round, two are best on Zen 5, three by 4 % on Zen 4. */
#ifdef __wasm__
#define LOAD_AT(p, offset)                                                             \
    ({                                                                                 \
        v4 v_;                                                                         \
        __asm__("local.get %1\n\tv128.load " #offset ":p2align=2\n\tlocal.set %0"      \
                : "=r"(v_)                                                             \
                : "r"(p));                                                             \
        v_;                                                                            \
    })
#else
#define LOAD_AT(p, offset) LOAD((const char *)(p) + (offset))
#endif
#define LANE(v, i)                                                                     \
    wasm_i8x16_shuffle(v, v, 4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3, 4 * i, 4 * i + 1, \
                       4 * i + 2, 4 * i + 3, 4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3,   \
                       4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3)
#define STEP_ROW(i)                                                                    \
    {                                                                                  \
        v4 lane = LANE(as, i);                                                         \
        c##i##0 = FMA(lane, b0, c##i##0), c##i##1 = FMA(lane, b1, c##i##1);            \
    }
#define STEP(at_a, at_b0, at_b1)                                                       \
    {                                                                                  \
        v4 b0 = LOAD_AT(b, at_b0), b1 = LOAD_AT(b, at_b1), as = LOAD_AT(a, at_a);      \
        STEP_ROW(0) STEP_ROW(1) STEP_ROW(2) STEP_ROW(3)                                \
    }
#define FINISH_ROW(i)                                                                  \
    {                                                                                  \
        f32 *c = rows[i] + j;                                                          \
        if (add) c##i##0 = ADD(c##i##0, LOAD(c)), c##i##1 = ADD(c##i##1, LOAD(c + 4)); \
        if (f) {                                                                       \
            c##i##0 = wasm_f32x4_pmax(ADD(c##i##0, bias0), low);                       \
            c##i##1 = wasm_f32x4_pmax(ADD(c##i##1, bias1), low);                       \
            c##i##0 = wasm_f32x4_pmin(c##i##0, high);                                  \
            c##i##1 = wasm_f32x4_pmin(c##i##1, high);                                  \
        }                                                                              \
        STORE(c, c##i##0), STORE(c + 4, c##i##1);                                      \
    }

/* rows[i][j..j+8) (+)= a b; with f, plus bias, between the bounds of a ReLU, where NaN
   stays. */
static __attribute__((noinline)) void tile(u32 depth, const f32 *a, const f32 *b,
                                           f32 *const *rows, u32 j, bool add,
                                           const Finish *f) {
    v4 zero = wasm_f32x4_const_splat(0);
    v4 c00 = zero, c01 = zero, c10 = zero, c11 = zero;
    v4 c20 = zero, c21 = zero, c30 = zero, c31 = zero;
    for (;;) {
        STEP(0, 0, 16)
        if (--depth == 0) break;
        STEP(16, 32, 48)
        a += 2 * PANEL_A, b += 2 * PANEL_B;
        if (--depth == 0) break;
    }
    v4 bias0 = zero, bias1 = zero, low = SPLAT(-INFINITY), high = SPLAT(INFINITY);
    if (f) {
        if (f->bias) bias0 = LOAD(f->bias + j), bias1 = LOAD(f->bias + j + 4);
        if (f->activation != LINEAR) low = zero;
        if (f->activation == RELU6) high = wasm_f32x4_const_splat(6);
    }
    FINISH_ROW(0) FINISH_ROW(1) FINISH_ROW(2) FINISH_ROW(3)
}

/* --- packing --------------------------------------------------------------------- */

#ifdef THREADS
static _Alignas(64) f32 packed_a[MAX_THREADS][ROWS * DEPTH];
#else
static _Alignas(64) f32 packed_a[1][ROWS * DEPTH];
#endif
static _Alignas(64) f32 packed_b[DEPTH * COLUMNS];

static void pack_rows(const Gemm *g, const f32 *a, u32 i, u32 rows, u32 k, u32 depth,
                      f32 *to) {
    i32 row = g->a_row, column = g->a_column;
    for (u32 end = i + rows; i < end; i += PANEL_A) {
        const f32 *p = a + (i32)i * row + (i32)k * column;
        u32 here = MIN(PANEL_A, end - i), q = 0;
        INSIDE(p, 4);
        INSIDE(p + (i32)(here - 1) * row + (i32)(depth - 1) * column, 4);
        if (here == PANEL_A && column == 1)
            for (; q + 4 <= depth; q += 4, p += 4, to += 16)
                turn4(p, p + row, p + 2 * row, p + 3 * row, to, 4);
        else if (here == PANEL_A && row == 1)
            for (; q < depth; q++, p += column, to += 4) STORE(to, LOAD(p));
        for (; q < depth; q++, p += column, to += 4)
            for (u32 t = 0; t < PANEL_A; t++) to[t] = t < here ? p[(i32)t * row] : 0;
    }
}

/* One panel of B: columns j.., rows k.., as [k][8]. */
static void pack_panel(const f32 *b, i32 row, i32 column, u32 here, u32 depth,
                       f32 *to) {
    u32 q = 0;
    INSIDE(b, 4);
    INSIDE(b + (i32)(here - 1) * column + (i32)(depth - 1) * row, 4);
    INSIDE(to, PANEL_B * depth * 4);
    CHECK(to + PANEL_B * depth <= packed_b + DEPTH * COLUMNS, "too many panels");
    if (here == PANEL_B && column == 1) {
        for (; q < depth; q++, b += row, to += 8)
            STORE(to, LOAD(b)), STORE(to + 4, LOAD(b + 4));
    } else if (here == PANEL_B && row == 1) {
        const f32 *c = b + 4 * column;
        for (; q + 4 <= depth; q += 4, b += 4, c += 4, to += 32) {
            turn4(b, b + column, b + 2 * column, b + 3 * column, to, 8);
            turn4(c, c + column, c + 2 * column, c + 3 * column, to + 4, 8);
        }
    }
    for (; q < depth; q++, b += row, to += 8)
        for (u32 t = 0; t < PANEL_B; t++) to[t] = t < here ? b[(i32)t * column] : 0;
}

/* --- blocks ---------------------------------------------------------------------- */

/* What the threads work on: a block of B for some batches, and how C is cut. */
typedef struct {
    const Gemm *g;
    u32 batch, j, columns, k, depth; /* the block of B, for batch and those after it */
    u32 panels;                      /* of B in a batch */
    u32 height, across;              /* rows and panels of a task */
    u32 down, tasks;                 /* tasks in a batch: down in a column, and all */
} Blocks;

static const f32 *part(const f32 *x, const i32 *at, u32 batch, i32 step) {
    return x + (at ? at[batch] : (i32)batch * step);
}

static void pack_panels(u32 begin, u32 end, void *ctx) {
    const Blocks *s = ctx;
    const Gemm *g = s->g;
    for (u32 i = begin; i < end; i++) {
        u32 batch = i / s->panels, j = (i % s->panels) * PANEL_B;
        const f32 *b = part(g->b, g->b_at, s->batch + batch, g->b_batch);
        b += (i32)s->k * g->b_row + (i32)(s->j + j) * g->b_column;
        u32 here = MIN(PANEL_B, s->columns - j);
        f32 *to = packed_b + i * PANEL_B * s->depth;
        pack_panel(b, g->b_row, g->b_column, here, s->depth, to);
    }
}

/* A tile at the edge, of which `height` rows and `width` columns are C's. */
static void edge(u32 depth, const f32 *a, const f32 *b, f32 *const *rows, u32 height,
                 u32 j, u32 width, bool add) {
    f32 t[PANEL_A][PANEL_B], *to[PANEL_A] = {t[0], t[1], t[2], t[3]};
    tile(depth, a, b, to, 0, false, 0);
    for (u32 r = 0; r < height; r++)
        for (u32 q = 0; q < width; q++)
            rows[r][j + q] = add ? rows[r][j + q] + t[r][q] : t[r][q];
}

/* The product of `rows` rows of A, packed, and some panels of B. */
static void multiply(const Blocks *s, const f32 *a, u32 height, f32 *const *rows,
                     const f32 *b, u32 j, u32 last, const Finish *f) {
    bool add = s->k > 0, quick = !f || f->activation <= RELU6;
    for (; j < last; j += PANEL_B, b += PANEL_B * s->depth) {
        u32 width = MIN(PANEL_B, s->columns - j);
        for (u32 i = 0; i < height; i += PANEL_A) {
            u32 here = MIN(PANEL_A, height - i);
            const f32 *panel = a + i * s->depth;
            bool whole = here == PANEL_A && width == PANEL_B;
            if (whole)
                tile(s->depth, panel, b, rows + i, s->j + j, add, quick ? f : 0);
            else
                edge(s->depth, panel, b, rows + i, here, s->j + j, width, add);
            if (f && !(whole && quick))
                for (u32 r = 0; r < here; r++)
                    finish(f, rows[i + r] + s->j + j, s->j + j, width);
        }
    }
}

static void blocks(u32 begin, u32 end, void *ctx) {
    const Blocks *s = ctx;
    const Gemm *g = s->g;
    f32 *a = packed_a[thread_id()], *rows[ROWS];
    for (u32 task = begin; task < end; task++) {
        u32 batch = task / s->tasks, at = task % s->tasks;
        u32 i = (at % s->down) * s->height, j = (at / s->down) * s->across * PANEL_B;
        u32 height = MIN(s->height, g->m - i), which = s->batch + batch;
        const f32 *from = part(g->a, g->a_at, which, g->a_batch);
        (g->pack ? g->pack : pack_rows)(g, from, i, height, s->k, s->depth, a);
        f32 *c = g->c + (i32)which * g->c_batch;
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
        const f32 *b = packed_b + (batch * s->panels * PANEL_B + j) * s->depth;
        u32 last = MIN(s->columns, j + s->across * PANEL_B);
        multiply(s, a, height, rows, b, j, last, end_of);
    }
}

/* Cuts C into tasks: blocks of ROWS rows, or smaller ones so that there are enough. */
static void cut(Blocks *s, u32 m, u32 batches) {
    enum { ENOUGH = 8, LEAST = 16 };
    s->height = ROWS, s->across = s->panels;
    if (CEIL_DIV(m, ROWS) * batches < ENOUGH) {
        u32 fair = CEIL_DIV(m * batches, ENOUGH * PANEL_A) * PANEL_A;
        s->height = MIN(ROWS, MAX(LEAST, fair));
    }
    s->down = CEIL_DIV(m, s->height);
    u32 rest = CEIL_DIV(ENOUGH, s->down * batches);
    if (rest > 1) s->across = MAX(8, CEIL_DIV(s->panels, rest));
    s->tasks = s->down * CEIL_DIV(s->panels, s->across);
}

static bool is_few(const Gemm *g);
static void few(const Gemm *g);

void gemm(const Gemm *g) {
    if (is_few(g)) {
        few(g);
        return;
    }
    Blocks s = {.g = g};
    for (s.j = 0; s.j < g->n; s.j += COLUMNS) {
        s.columns = MIN(COLUMNS, g->n - s.j), s.panels = CEIL_DIV(s.columns, PANEL_B);
        u32 room = DEPTH * COLUMNS / (s.panels * PANEL_B * MIN(DEPTH, g->k));
        for (s.batch = 0; s.batch < g->batches; s.batch += room) {
            u32 batches = MIN(room, g->batches - s.batch);
            cut(&s, g->m, batches);
            for (s.k = 0; s.k < g->k; s.k += DEPTH) {
                s.depth = MIN(DEPTH, g->k - s.k);
                parallel_for(pack_panels, &s, s.panels * batches, 16);
                parallel_for(blocks, &s, s.tasks * batches, 1);
            }
        }
    }
}

/* --- few rows -------------------------------------------------------------------- */

/* c = a b for one row a, without packing: b is read once, four rows at a time. */
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
    if (g->pack || g->offset) return false;
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
