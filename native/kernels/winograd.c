/* Convolutions with windows of 3 x 3 by 16 products of matrices for every tile of 2 x 2
   outputs, instead of 36 (Winograd; Lavin and Gray, 2016).

   Of d, the 4 x 4 that a tile sees, and a filter f, y = Aᵀ (G f Gᵀ · Bᵀ d B) A, where
   the product in the middle is by elements: each of the 16 is one of matrices
   [tiles, in] [in, out]. The first, Bᵀ d B, is made where A is packed.

   Map: the filter; what tiles see; outputs; the whole.
*/
#include "winograd.h"

typedef struct {
    const Axis *axes;
    Axis tiles[3]; /* of which only the outputs count */
    u32 in, out;
    const f32 *x, *filter;
    f32 *u, *m, *y; /* [16, in, out], [16, tiles, out] */
    u32 plane;      /* from one of the 16 to the next in m: no power of two */
#if READS_IN_PLACE
    f32 *v; /* [16, tiles, in], and from one to the next */
    u32 v_plane;
#endif
    u32 first;      /* of the tiles that are under way */
    const Finish *end;
} Job;

enum { FILTERS = WINOGRAD_THREAD_FILTERS }; /* that are worth a thread */

/* --- the filter ------------------------------------------------------------------- */

static void prepare(u32 c, u32 end, void *ctx) {
    const Job *s = ctx;
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

/* --- what tiles see --------------------------------------------------------------- */

static const f32 nothing[DEPTH];
#if !READS_IN_PLACE
/* Row p of Bᵀ: this element of four, and plus or minus that one. */
static const i32 these[4] = {0, 1, 2, 1}, those[4] = {2, 2, 1, 3};
static const f32 signs[4] = {-1, 1, -1, -1};
#endif

static const f32 *seen(const Job *s, Output p, i32 row, i32 column, u32 k) {
    p.output[1] *= 2, p.output[2] *= 2;
    const i32 position[3] = {0, row, column};
    i32 at = read_by(s->axes, p, position);
    return at < 0 ? nothing : s->x + (u32)at * s->in + k;
}

#if !READS_IN_PLACE
/* Rows of A are tiles; `a` says which of the 16 matrices it is. */
static void pack_tiles(const Gemm *g, const f32 *a, u32 i, u32 rows, u32 k, u32 depth,
                       f32 *block) {
    const Job *s = g->of;
    u32 which = (u32)(a - s->x), p = which / 4, q = which % 4;
    v4 by_row = SPLAT(signs[p]), by_column = SPLAT(signs[q]);
    for (u32 r = 0; r < rows; r += 4) {
        const f32 *d[4][4];
        Output tile[4];
        four_outputs(s->tiles, s->first + i + r, s->first + i + rows, tile);
        for (u32 t = 0; t < 4; t++) {
            d[t][0] = seen(s, tile[t], these[p], these[q], k);
            d[t][1] = seen(s, tile[t], these[p], those[q], k);
            d[t][2] = seen(s, tile[t], those[p], these[q], k);
            d[t][3] = seen(s, tile[t], those[p], those[q], k);
        }
        f32 *to = row_of_panel(block, r, depth);
        for (u32 c = 0; c < depth; c += 4, to += 4 * PANEL_A) {
            f32 v[4][4];
            for (u32 t = 0; t < 4; t++) {
                v4 this = FMA(LOAD(d[t][1] + c), by_column, LOAD(d[t][0] + c));
                v4 that = FMA(LOAD(d[t][3] + c), by_column, LOAD(d[t][2] + c));
                STORE(v[t], FMA(that, by_row, this));
            }
            turn4(v[0], v[1], v[2], v[3], to, PANEL_A);
        }
    }
}
#else
/* v = Bᵀ d B of whole tiles: [16, tiles, in]. */
static void transform(u32 i, u32 end, void *ctx) {
    const Job *s = ctx;
    for (; i < end; i++) {
        Output tile = output_of(s->tiles, s->first + i);
        for (u32 k = 0; k < s->in; k += DEPTH) {
            const f32 *d[4][4];
            for (i32 r = 0; r < 4; r++)
                for (i32 q = 0; q < 4; q++) d[r][q] = seen(s, tile, r, q, k);
            f32 *v = s->v + i * s->in + k;
            u32 n = MIN(DEPTH, s->in - k), far = s->v_plane;
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

/* --- outputs ----------------------------------------------------------------------- */

/* Four channels of a output as it is defined: for infinities, whose differences are not
   numbers. */
static v4 direct(const Job *s, Output p, u32 k) {
    v4 total = SPLAT(0);
    for (i32 i = 0; i < 9; i++) {
        const i32 position[3] = {0, i / 3, i % 3};
        i32 at = read_by(s->axes, p, position);
        const f32 *f = s->filter + (u32)i * s->in * s->out + k;
        for (u32 c = 0; at >= 0 && c < s->in; c++)
            total = FMA(SPLAT(s->x[(u32)at * s->in + c]), LOAD(f + c * s->out), total);
    }
    return total;
}

/* Where the four outputs of a tile are written; null if they are not there. */
static void outputs_of_tile(const Job *s, u32 i, Output *at, f32 **to) {
    Output tile = output_of(s->tiles, s->first + i);
    for (i32 j = 0; j < 4; j++) {
        at[j] = tile;
        at[j].output[1] = 2 * tile.output[1] + j / 2;
        at[j].output[2] = 2 * tile.output[2] + j % 2;
        bool there = at[j].output[1] < s->axes[1].outputs &&
                     at[j].output[2] < s->axes[2].outputs;
        to[j] = there ? s->y + written(s->axes, at[j]) * s->out : 0;
    }
}

#if !READS_IN_PLACE
static void collect(u32 i, u32 end, void *ctx) {
    const Job *s = ctx;
    const Finish *f = s->end;
    u32 n = s->plane;
    bool quick = f->activation <= RELU6;
    v4 low = SPLAT(f->activation == LINEAR ? -INFINITY : 0);
    v4 high = SPLAT(f->activation == RELU6 ? 6 : INFINITY);
    for (; i < end; i++) {
        Output at[4];
        f32 *to[4];
        outputs_of_tile(s, i, at, to);
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
            if (quick && f->bias) bias = LOAD(f->bias + k);
            for (u32 j = 0; j < 4; j++) {
                if (!to[j]) continue;
                v4 finite = wasm_f32x4_eq(SUB(y[j], y[j]), SPLAT(0));
                if (!wasm_i32x4_all_true(finite)) y[j] = direct(s, at[j], k);
                if (quick)
                    y[j] = wasm_f32x4_pmin(wasm_f32x4_pmax(ADD(y[j], bias), low), high);
                STORE(to[j] + k, y[j]);
            }
        }
        for (u32 j = 0; j < 4 && !quick; j++)
            if (to[j]) finish(f, to[j], 0, s->out);
    }
}
#else
enum { SOME = 256 }; /* channels at once */

/* y[j] = Aᵀ m A of n channels from m on; tells whether all are finite. */
static bool combine(const f32 *m, u32 far, u32 n, f32 y[4][SOME]) {
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

static void collect(u32 i, u32 end, void *ctx) {
    const Job *s = ctx;
    const Finish *f = s->end;
    for (; i < end; i++) {
        Output at[4];
        f32 *to[4], y[4][SOME];
        outputs_of_tile(s, i, at, to);
        for (u32 k = 0; k < s->out; k += SOME) {
            u32 n = MIN(SOME, s->out - k);
            bool finite = combine(s->m + i * s->out + k, s->plane, n, y);
            for (u32 j = 0; j < 4; j++) {
                for (u32 c = 0; c < n && to[j] && !finite; c += 4)
                    STORE(y[j] + c, direct(s, at[j], k + c));
                if (to[j]) memcpy(to[j] + k, y[j], n * sizeof(f32));
            }
        }
        for (u32 j = 0; j < 4; j++)
            if (to[j] && (f->bias || f->activation)) finish(f, to[j], 0, s->out);
    }
}
#endif

/* --- the whole -------------------------------------------------------------------- */

/* The 16 products of the tiles that are under way. */
static Gemm products(const Job *s, u32 tiles) {
    return (Gemm){.m = tiles, .n = s->out, .k = s->in, .batches = 16,
                  .b = s->u, .b_row = (i32)s->out, .b_column = 1,
                  .b_batch = (i32)(s->in * s->out),
                  .c = s->m, .c_row = (i32)s->out, .c_batch = (i32)s->plane};
}

#if !READS_IN_PLACE
static void all_tiles(Job *s, u32 all, u32 tiles, u32 lanes) {
    for (; s->first < all; s->first += tiles) {
        Gemm g = products(s, MIN(tiles, all - s->first));
        g.a = s->x, g.a_batch = 1, g.pack = pack_tiles, g.of = s;
        gemm(&g);
        parallel_for(collect, s, g.m, CEIL_DIV(16384, s->out));
    }
}
#else
typedef struct {
    const Job *job;
    u32 all, tiles; /* all of them, and at once */
    u32 next;       /* which no lane has begun */
} Lanes;

/* A lane takes tiles until there are no more; threads inside of `gemm` are these. */
static void lane(u32 i, u32 end, void *ctx) {
    Lanes *lanes = ctx;
    for (; i < end; i++) {
        Job s = *lanes->job;
        s.m += i * 16 * (size_t)(s.plane + s.v_plane), s.v = s.m + 16 * s.plane;
        while ((s.first = __atomic_fetch_add(&lanes->next, lanes->tiles,
                                             __ATOMIC_RELAXED)) < lanes->all) {
            Gemm g = products(&s, MIN(lanes->tiles, lanes->all - s.first));
            g.a = s.v, g.a_row = (i32)s.in, g.a_column = 1, g.a_batch = (i32)s.v_plane;
            transform(0, g.m, &s);
            gemm(&g);
            collect(0, g.m, &s);
        }
    }
}

static void all_tiles(Job *s, u32 all, u32 tiles, u32 lanes) {
    s->v_plane = tiles * s->in + 16;
    Lanes ctx = {s, all, tiles, 0};
    parallel_for(lane, &ctx, lanes, 1);
}
#endif

void winograd(const Windows *w, const f32 *x, const f32 *filter, f32 *y, f32 *between,
              u32 tiles, u32 lanes, const Finish *end) {
    const Axis *a = w->axes[0];
    u32 in = (u32)w->in, out = (u32)w->out, size = 16 * in * out;
    Job s = {.axes = a, .in = in, .out = out, .x = x, .filter = filter, .y = y,
             .u = between, .m = between + size, .plane = tiles * out + 16, .end = end};
    s.tiles[0].outputs = 1;
    for (u32 d = 1; d < 3; d++) s.tiles[d].outputs = CEIL_DIV(a[d].outputs, 2);
    INSIDE(between, (u64)(size + 16 * s.plane) * sizeof(f32));
    CHECK(in % 4 == 0 && out % 4 == 0 && a[0].size == 1, "not for these windows");
    parallel_for(prepare, &s, in, CEIL_DIV(FILTERS, out));
    all_tiles(&s, (u32)w->batch * outputs_of(s.tiles), tiles, lanes);
}
