/* 3 x 3 convolutions with 16 instead of 36 multiplications per 2 x 2 tile of outputs
   (Winograd; Lavin and Gray, 2016).

   For the 4 x 4 input d of a tile and a filter f, y = Aᵀ (G f Gᵀ · Bᵀ d B) A. The
   product in the middle is element-wise; summed over channels, each of its 16 elements
   is a matrix product [tiles, in] [in, out]. On WebAssembly, Bᵀ d B is computed while
   the operand A of the product is packed.

   Contents: filter transform; input transform; output transform; the convolution. */
#include "winograd.h"

typedef struct {
    const Axis *axes;
    Axis tiles[3]; /* only `outputs` is used */
    u32 in, out;
    const f32 *x, *filter;
    f32 *u, *m, *y; /* [16, in, out], [16, tiles, out] */
    u32 plane;      /* distance between the 16 matrices of m; not a power of two */
#if READS_IN_PLACE
    f32 *v; /* [16, tiles, in] */
    u32 v_plane; /* distance between the 16 matrices of v */
#endif
    u32 first;      /* the first tile in progress */
    const Epilogue *epilogue;
} WinogradConv;

/* The number of filter transforms that justify another thread. */
enum { TASK_MIN_FILTERS = WINOGRAD_THREAD_FILTERS };

/* --- filter transform ------------------------------------------------------------- */

static void transform_filter(u32 c, u32 end, void *ctx) {
    const WinogradConv *s = ctx;
    u32 out = s->out, far = s->in * out;
    v4 half = SPLAT(0.5f);
    for (u32 i = c * out; i < end * out; i += 4) {
        v4 t[4][3];
        for (u32 j = 0; j < 3; j++) {
            const f32 *f = s->filter + j * far + i;
            v4 a = LOAD(f), b = LOAD(f + 3 * far), d = LOAD(f + 6 * far), sum = ADD(a, d);
            t[0][j] = a, t[3][j] = d;
            t[1][j] = MUL(ADD(sum, b), half), t[2][j] = MUL(SUB(sum, b), half);
        }
        for (u32 j = 0; j < 4; j++) {
            f32 *u = s->u + 4 * j * far + i;
            v4 a = t[j][0], b = t[j][1], d = t[j][2], sum = ADD(a, d);
            STORE(u, a), STORE(u + 3 * far, d);
            STORE(u + far, MUL(ADD(sum, b), half));
            STORE(u + 2 * far, MUL(SUB(sum, b), half));
        }
    }
}

/* --- input transform -------------------------------------------------------------- */

static const f32 zeros[KC];
#if !READS_IN_PLACE
/* Row p of Bᵀ d is row first_row[p] of d plus signs[p] times row second_row[p]. */
static const i32 first_row[4] = {0, 1, 2, 1}, second_row[4] = {2, 2, 1, 3};
static const f32 signs[4] = {-1, 1, -1, -1};
#endif

static const f32 *tile_input(const WinogradConv *s, Output p, i32 row, i32 column, u32 k) {
    p.output[1] *= 2, p.output[2] *= 2;
    const i32 position[3] = {0, row, column};
    i32 element = input_element(s->axes, p, position);
    return element < 0 ? zeros : s->x + (u32)element * s->in + k;
}

#if !READS_IN_PLACE
/* Rows of A are tiles; `a - x` is the index of the matrix, from 0 to 15. */
static void pack_tiles(const Gemm *g, const f32 *a, u32 i, u32 rows, u32 k, u32 depth,
                       f32 *block) {
    const WinogradConv *s = g->context;
    u32 which = (u32)(a - s->x), p = which / 4, q = which % 4;
    v4 by_row = SPLAT(signs[p]), by_column = SPLAT(signs[q]);
    for (u32 r = 0; r < rows; r += 4) {
        const f32 *d[4][4];
        Output tile[4];
        four_outputs(s->tiles, s->first + i + r, s->first + i + rows, tile);
        for (u32 t = 0; t < 4; t++) {
            d[t][0] = tile_input(s, tile[t], first_row[p], first_row[q], k);
            d[t][1] = tile_input(s, tile[t], first_row[p], second_row[q], k);
            d[t][2] = tile_input(s, tile[t], second_row[p], first_row[q], k);
            d[t][3] = tile_input(s, tile[t], second_row[p], second_row[q], k);
        }
        f32 *to = packed_row(block, r, depth);
        for (u32 c = 0; c < depth; c += 4, to += 4 * PACKED_MR) {
            f32 v[4][4];
            for (u32 t = 0; t < 4; t++) {
                v4 first = FMA(LOAD(d[t][1] + c), by_column, LOAD(d[t][0] + c));
                v4 second = FMA(LOAD(d[t][3] + c), by_column, LOAD(d[t][2] + c));
                STORE(v[t], FMA(second, by_row, first));
            }
            transpose4x4(v[0], v[1], v[2], v[3], to, PACKED_MR);
        }
    }
}
#else
/* v[16, tiles, in] = Bᵀ d B. */
static void transform_input(u32 i, u32 end, void *ctx) {
    const WinogradConv *s = ctx;
    for (; i < end; i++) {
        Output tile = output_of(s->tiles, s->first + i);
        for (u32 k = 0; k < s->in; k += KC) {
            const f32 *d[4][4];
            for (i32 r = 0; r < 4; r++)
                for (i32 q = 0; q < 4; q++) d[r][q] = tile_input(s, tile, r, q, k);
            f32 *v = s->v + i * s->in + k;
            u32 n = MIN(KC, s->in - k), far = s->v_plane;
#pragma clang loop vectorize(assume_safety)
            for (u32 c = 0; c < n; c++) {
                f32 t[4][4];
#pragma clang loop unroll(full)
                for (u32 q = 0; q < 4; q++) {
                    f32 d1 = d[1][q][c], d2 = d[2][q][c];
                    t[0][q] = d[0][q][c] - d2, t[1][q] = d1 + d2;
                    t[2][q] = d2 - d1, t[3][q] = d1 - d[3][q][c];
                }
#pragma clang loop unroll(full)
                for (u32 r = 0; r < 4; r++) {
                    f32 *to = v + 4 * r * far + c;
                    to[0] = t[r][0] - t[r][2], to[far] = t[r][1] + t[r][2];
                    to[2 * far] = t[r][2] - t[r][1], to[3 * far] = t[r][1] - t[r][3];
                }
            }
        }
    }
}
#endif

/* --- output transform -------------------------------------------------------------- */

/* Computes four channels of an output directly. This is for inputs with infinities,
   which Winograd's algorithm would subtract from each other, giving NaN. */
static v4 direct_conv(const WinogradConv *s, Output p, u32 k) {
    v4 total = SPLAT(0);
    for (i32 i = 0; i < 9; i++) {
        const i32 position[3] = {0, i / 3, i % 3};
        i32 element = input_element(s->axes, p, position);
        const f32 *f = s->filter + (u32)i * s->in * s->out + k;
        for (u32 c = 0; element >= 0 && c < s->in; c++)
            total = FMA(SPLAT(s->x[(u32)element * s->in + c]), LOAD(f + c * s->out),
                        total);
    }
    return total;
}

/* Finds the addresses of the four outputs of a tile; null for outputs outside of y. */
static void tile_outputs(const WinogradConv *s, u32 i, Output *outputs, f32 **to) {
    Output tile = output_of(s->tiles, s->first + i);
    for (i32 j = 0; j < 4; j++) {
        outputs[j] = tile;
        outputs[j].output[1] = 2 * tile.output[1] + j / 2;
        outputs[j].output[2] = 2 * tile.output[2] + j % 2;
        bool inside = outputs[j].output[1] < s->axes[1].outputs &&
                      outputs[j].output[2] < s->axes[2].outputs;
        to[j] = inside ? s->y + output_element(s->axes, outputs[j]) * s->out : 0;
    }
}

#if !READS_IN_PLACE
static void transform_output(u32 i, u32 end, void *ctx) {
    const WinogradConv *s = ctx;
    const Epilogue *f = s->epilogue;
    u32 n = s->plane;
    bool is_clip = f->activation <= RELU6;
    v4 low = SPLAT(f->activation == LINEAR ? -INFINITY : 0);
    v4 high = SPLAT(f->activation == RELU6 ? 6 : INFINITY);
    for (; i < end; i++) {
        Output at[4];
        f32 *to[4];
        tile_outputs(s, i, at, to);
        for (u32 k = 0; k < s->out; k += 4) {
            const f32 *m = s->m + i * s->out + k;
            v4 t[2][4], y[4], bias = SPLAT(-0.0f);
            for (u32 j = 0; j < 4; j++, m += n) {
                v4 a = LOAD(m), b = LOAD(m + 4 * n), c = LOAD(m + 8 * n);
                t[0][j] = ADD(ADD(a, b), c), t[1][j] = SUB(SUB(b, c), LOAD(m + 12 * n));
            }
            for (u32 j = 0; j < 2; j++) {
                y[2 * j] = ADD(ADD(t[j][0], t[j][1]), t[j][2]);
                y[2 * j + 1] = SUB(SUB(t[j][1], t[j][2]), t[j][3]);
            }
            if (is_clip && f->bias) bias = LOAD(f->bias + k);
            for (u32 j = 0; j < 4; j++) {
                if (!to[j]) continue;
                v4 finite = wasm_f32x4_eq(SUB(y[j], y[j]), SPLAT(0));
                if (!wasm_i32x4_all_true(finite)) y[j] = direct_conv(s, at[j], k);
                if (is_clip)
                    y[j] = wasm_f32x4_pmin(wasm_f32x4_pmax(ADD(y[j], bias), low), high);
                STORE(to[j] + k, y[j]);
            }
        }
        for (u32 j = 0; j < 4 && !is_clip; j++)
            if (to[j]) apply_epilogue(f, to[j], 0, s->out);
    }
}
#else
enum { BLOCK_CHANNELS = 256 }; /* channels whose outputs are kept on the stack */

/* Computes y[j] = Aᵀ m A for `n` channels, beginning at `m`. Returns whether all are
   finite. */
static bool transform_products(const f32 *m, u32 far, u32 n, f32 y[4][BLOCK_CHANNELS]) {
    u32 infinite = 0;
#pragma clang loop vectorize(assume_safety)
    for (u32 c = 0; c < n; c++) {
        f32 t[2][4];
#pragma clang loop unroll(full)
        for (u32 j = 0; j < 4; j++) {
            const f32 *p = m + j * far + c;
            f32 b = p[4 * far], d = p[8 * far];
            t[0][j] = p[0] + b + d, t[1][j] = b - d - p[12 * far];
        }
#pragma clang loop unroll(full)
        for (u32 j = 0; j < 2; j++) {
            f32 even = t[j][0] + t[j][1] + t[j][2], odd = t[j][1] - t[j][2] - t[j][3];
            y[2 * j][c] = even, y[2 * j + 1][c] = odd;
            infinite |= (even - even != 0) | (odd - odd != 0);
        }
    }
    return !infinite;
}

static void transform_output(u32 i, u32 end, void *ctx) {
    const WinogradConv *s = ctx;
    const Epilogue *f = s->epilogue;
    for (; i < end; i++) {
        Output at[4];
        f32 *to[4], y[4][BLOCK_CHANNELS];
        tile_outputs(s, i, at, to);
        for (u32 k = 0; k < s->out; k += BLOCK_CHANNELS) {
            u32 n = MIN(BLOCK_CHANNELS, s->out - k);
            bool finite = transform_products(s->m + i * s->out + k, s->plane, n, y);
            for (u32 j = 0; j < 4; j++) {
                for (u32 c = 0; c < n && to[j] && !finite; c += 4)
                    STORE(y[j] + c, direct_conv(s, at[j], k + c));
                if (to[j]) memcpy(to[j] + k, y[j], n * sizeof(f32));
            }
        }
        for (u32 j = 0; j < 4; j++)
            if (to[j] && (f->bias || f->activation)) apply_epilogue(f, to[j], 0, s->out);
    }
}
#endif

/* --- the convolution --------------------------------------------------------------- */

/* Returns the 16 matrix products of the tiles in progress. */
static Gemm products(const WinogradConv *s, u32 tiles) {
    return (Gemm){.m = tiles, .n = s->out, .k = s->in, .batches = 16,
                  .b = s->u, .b_row = (i32)s->out, .b_column = 1,
                  .b_batch = (i32)(s->in * s->out),
                  .c = s->m, .c_row = (i32)s->out, .c_batch = (i32)s->plane};
}

#if !READS_IN_PLACE
static void run_tiles(WinogradConv *s, u32 all, u32 tiles, u32 lanes) {
    for (; s->first < all; s->first += tiles) {
        Gemm g = products(s, MIN(tiles, all - s->first));
        g.a = s->x, g.a_batch = 1, g.pack = pack_tiles, g.context = s;
        gemm(&g);
        parallel_for(transform_output, s, g.m, CEIL_DIV(16384, s->out));
    }
}
#else
typedef struct {
    const WinogradConv *job;
    u32 all, tiles; /* tiles in total; tiles at a time */
    u32 next;       /* the first tile that no worker has started */
} Workers;

/* A worker computes tiles until none are left; within a worker, `gemm` runs on one
   thread. */
static void run_worker(u32 i, u32 end, void *ctx) {
    Workers *workers = ctx;
    for (; i < end; i++) {
        WinogradConv s = *workers->job;
        s.m += i * 16 * (size_t)(s.plane + s.v_plane), s.v = s.m + 16 * s.plane;
        while ((s.first = __atomic_fetch_add(&workers->next, workers->tiles,
                                             __ATOMIC_RELAXED)) < workers->all) {
            Gemm g = products(&s, MIN(workers->tiles, workers->all - s.first));
            g.a = s.v, g.a_row = (i32)s.in, g.a_column = 1, g.a_batch = (i32)s.v_plane;
            transform_input(0, g.m, &s);
            gemm(&g);
            transform_output(0, g.m, &s);
        }
    }
}

static void run_tiles(WinogradConv *s, u32 all, u32 tiles, u32 lanes) {
    s->v_plane = tiles * s->in + 16;
    Workers ctx = {s, all, tiles, 0};
    parallel_for(run_worker, &ctx, lanes, 1);
}
#endif

void winograd(const Windows *w, const f32 *x, const f32 *filter, f32 *y, f32 *scratch,
              u32 tiles, u32 lanes, const Epilogue *epilogue) {
    const Axis *a = w->axes[0];
    u32 in = (u32)w->in, out = (u32)w->out, size = 16 * in * out;
    WinogradConv s = {.axes = a, .in = in, .out = out, .x = x, .filter = filter, .y = y,
                      .u = scratch, .m = scratch + size, .plane = tiles * out + 16,
                      .epilogue = epilogue};
    s.tiles[0].outputs = 1;
    for (u32 d = 1; d < 3; d++) s.tiles[d].outputs = CEIL_DIV(a[d].outputs, 2);
    INSIDE(scratch, (u64)(size + 16 * s.plane) * sizeof(f32));
    CHECK(in % 4 == 0 && out % 4 == 0 && a[0].size == 1, "not for these windows");
    parallel_for(transform_filter, &s, in, CEIL_DIV(TASK_MIN_FILTERS, out));
    run_tiles(&s, (u32)w->batch * output_count(s.tiles), tiles, lanes);
}
