/* The micro-kernel of the matrix product, on WebAssembly and on native targets. It
   keeps a tile of C in registers.

   Contents: panels of A and of B; the micro-kernel on WebAssembly; on native targets.
   */
#pragma once
#include "gemm.h"

/* A panel of A. Its layout says where element k of row r is:
   PACKED: at[r + k * step], where step is PACKED_MR on WebAssembly
   ROW_MAJOR: at[r * step + k]
   INDEXED: at[starts[r] + places[k]]
   INDEXED_TRANSPOSED: at[starts[k] + places[r]]
   INDEXED_CONTIGUOUS: like INDEXED_TRANSPOSED, where places[r] is places[0] + r
   WebAssembly uses only PACKED. */
typedef enum { PACKED, ROW_MAJOR, INDEXED, INDEXED_TRANSPOSED, INDEXED_CONTIGUOUS } Layout;
typedef struct {
    Layout layout;
    const f32 *at;
    i64 step;
    const i32 *starts, *places;
} PanelA;

/* Panels of B: row k of the first panel begins at at[k * step], the next panel at
   at[next]. If the last panel has fewer columns, it is packed at `last`. On WebAssembly
   all panels are packed. */
typedef struct {
    const f32 *at, *last;
    i64 step, next;
    f32 *to; /* on native targets: where the panels are copied to, or null */
} PanelsB;

/* `micro_kernel` computes columns j to j + width - 1 of `height` rows: rows[i] = a b,
   or += a b if `add`. `height` is at most PACKED_MR; on WebAssembly, `width` is at most
   NR, and A is packed. With an epilogue `f`, it adds the bias and clips to the bounds
   of a ReLU; NaN propagates. */
#if !READS_IN_PLACE

/* Tuned by measurement for the code that Cranelift generates (wasmtime 50). A constant
   offset outside of the load becomes an addition, hence LOAD_AT. load32_splat costs
   three instructions, a shuffle one. Cranelift moves all loads between two branches up
   to the first load; without the exit in the middle of the loop, registers would be
   spilled. Two steps per iteration are fastest on Zen 5; three steps are 4 % faster on
   Zen 4. */
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
#define EPILOGUE_ROW(i)                                                                \
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

static __attribute__((noinline)) void full_micro_kernel(u32 depth, const f32 *a,
                                                        const f32 *b,
                                                        f32 *const *rows, u32 j, bool add,
                                                        const Epilogue *f) {
    v4 zero = wasm_f32x4_const_splat(0);
    v4 c00 = zero, c01 = zero, c10 = zero, c11 = zero;
    v4 c20 = zero, c21 = zero, c30 = zero, c31 = zero;
    for (;;) {
        STEP(0, 0, 16)
        if (--depth == 0) break;
        STEP(16, 32, 48)
        a += 2 * PACKED_MR, b += 2 * NR;
        if (--depth == 0) break;
    }
    v4 bias0 = zero, bias1 = zero, low = SPLAT(-INFINITY), high = SPLAT(INFINITY);
    if (f) {
        if (f->bias) bias0 = LOAD(f->bias + j), bias1 = LOAD(f->bias + j + 4);
        if (f->activation != LINEAR) low = zero;
        if (f->activation == RELU6) high = wasm_f32x4_const_splat(6);
    }
    EPILOGUE_ROW(0) EPILOGUE_ROW(1) EPILOGUE_ROW(2) EPILOGUE_ROW(3)
}

static void micro_kernel(PanelA a, u32 depth, PanelsB b, f32 *const *rows, u32 height,
                         u32 j, u32 width, bool add, const Epilogue *f) {
    if (height == PACKED_MR && width == NR) {
        full_micro_kernel(depth, a.at, b.at, rows, j, add, f);
        return;
    }
    f32 t[PACKED_MR][NR], *to[PACKED_MR] = {t[0], t[1], t[2], t[3]};
    full_micro_kernel(depth, a.at, b.at, to, 0, false, 0);
    for (u32 r = 0; r < height; r++) {
        for (u32 q = 0; q < width; q++)
            rows[r][j + q] = add ? rows[r][j + q] + t[r][q] : t[r][q];
        if (f) apply_epilogue(f, rows[r] + j, j, width);
    }
}

#else

/* A vector register. Matrix products may contract a multiplication and an addition into
   one instruction with a single rounding, despite -ffp-contract=off. */
enum { WIDTH = REGISTER };
typedef f32 Vector __attribute__((vector_size(4 * WIDTH), aligned(4)));
typedef i32 Mask __attribute__((vector_size(4 * WIDTH)));

INLINE Vector vector_max(Vector x, Vector y) { /* returns x if an operand is NaN */
    Mask less = x < y;
    return (Vector)(((Mask)y & less) | ((Mask)x & ~less));
}

/* Clips to the bounds of a ReLU, like the micro-kernel for WebAssembly. */
INLINE Vector clip_relu(Vector x, Activation activation) {
    Vector zero = {0};
    x = vector_max(x, zero);
    return activation == RELU6 ? -vector_max(-x, zero - 6) : x;
}

INLINE Vector *vector_at(const f32 *p, u32 v) { return (Vector *)(p + v * WIDTH); }

/* Copies the first n elements of a vector; n is less than WIDTH. */
INLINE void copy_part(f32 *to, const f32 *from, u32 n) {
#define COPY(count)                                                                    \
    if (n & count) memcpy(to, from, 4 * count), to += count, from += count;
    COPY(8) COPY(4) COPY(2) COPY(1)
#undef COPY
}

INLINE Vector load_part(const f32 *p, u32 n) {
    if (n >= WIDTH) return *(const Vector *)p;
    f32 t[WIDTH] = {0};
    copy_part(t, p, n);
    return *(const Vector *)t;
}

INLINE void store_part(f32 *p, Vector x, u32 n) {
    if (n >= WIDTH)
        *(Vector *)p = x;
    else
        copy_part(p, (const f32 *)&x, n);
}

typedef Vector Accumulators[MR][NR / WIDTH];

/* Stores a tile t that extends beyond C: rows = t, or += t if `add`, with epilogue f.
   */
static __attribute__((noinline)) void store_partial_tile(const Accumulators t,
                                                         f32 *const *rows, u32 height,
                                                         u32 j, u32 width, bool add,
                                                         const Epilogue *f) {
    Vector zero = {0};
    for (u32 v = 0; v * WIDTH < width; v++) {
        u32 column = j + v * WIDTH, n = width - v * WIDTH;
        Vector bias = f && f->bias ? load_part(f->bias + column, n) : zero;
        for (u32 r = 0; r < height; r++) {
            Vector x = t[r][v];
            if (add) x += load_part(rows[r] + column, n);
            if (f) {
                x += bias;
                if (f->activation != LINEAR) x = clip_relu(x, f->activation);
            }
            store_part(rows[r] + column, x, n);
        }
    }
}

/* Unrolls a loop of constant length, so that the arrays it indexes stay in registers.
   */
#define EACH(i, n) _Pragma("clang loop unroll(full)") for (u32 i = 0; i < (n); i++)

/* Where the micro-kernel reads: pointers to element k of each row (ROW_MAJOR: of every
   third row), and to row k of B. */
typedef struct {
    const f32 *a[MR], *b;
    f32 *to;                    /* where row k of B is copied to */
    const i32 *starts, *places; /* the entries for element k */
    i64 at[MR], stride, step;
    i64 ahead; /* distance from a row to the prefetched row of the next panel */
} Cursor;

enum { PREFETCH_ROWS = 32 }; /* distance from the copied to the prefetched row of B */

/* Computes c += a b over `count` elements of k. `layout`, `high`, `wide` and `count`
   are compile-time constants. The pointers are advanced once, at the end. */
INLINE void rank_k_update(Accumulators c, Layout layout, u32 high, u32 wide, u32 count,
                          bool copy, Cursor *from) {
#pragma clang fp contract(fast)
    EACH(k, count) {
        Vector y[NR / WIDTH];
        EACH(v, wide) y[v] = *(const Vector *)(from->b + k * from->step + v * WIDTH);
        EACH(v, copy ? wide : 0) {
            *vector_at(from->to + k * NR, v) = y[v];
            __builtin_prefetch(from->b + (k + PREFETCH_ROWS) * from->step + v * WIDTH);
        }
        i64 place = layout == INDEXED ? from->places[k] : 0;
        const f32 *column = from->a[0];
        if (layout == PACKED) column += k * from->stride;
        if (layout >= INDEXED_TRANSPOSED) column += from->starts[k];
        EACH(r, high) {
            f32 x = layout == ROW_MAJOR ? from->a[r / 3 * 3][r % 3 * from->stride + k]
                    : layout == INDEXED ? from->a[r][place]
                    : column[layout == INDEXED_TRANSPOSED ? from->at[r] : r];
            Vector all = x - (Vector){0};
            EACH(v, wide) c[r][v] += all * y[v];
        }
    }
    from->b += count * from->step;
    if (copy) from->to += count * NR;
    if (layout == PACKED) from->a[0] += count * from->stride;
    if (layout == INDEXED) from->places += count;
    if (layout >= INDEXED_TRANSPOSED) from->starts += count;
    EACH(r, layout == ROW_MAJOR ? high : 0) {
        if (r % 3 == 0 && count > 1) __builtin_prefetch(from->a[r] + from->ahead);
        if (r % 3 == 0) from->a[r] += count;
        /* keeps the compiler from using one pointer per row */
        __asm__("" : "+r"(from->a[r / 3 * 3]));
    }
}

/* Computes a tile of `high` rows and `wide` vectors; these and `layout` are
   compile-time constants. */
INLINE void update_tile(Layout layout, u32 high, u32 wide, bool copy, const PanelA *left,
                        u32 ahead, u32 depth, PanelsB right, f32 *const *rows, u32 height,
                        u32 j, u32 width, bool add, const Epilogue *f) {
    enum { UNROLL = 4 };
    Accumulators c, t;
    Cursor from = {.b = right.at, .to = right.to, .starts = left->starts,
                   .places = left->places, .stride = left->step};
    from.ahead = ahead * left->step;
    /* indexed layouts need packed panels: there are too few registers for a stride */
    from.step = layout <= ROW_MAJOR ? right.step : NR;
    from.a[0] = left->at + (layout == INDEXED_CONTIGUOUS ? left->places[0] : 0);
    EACH(r, high) {
        u32 row = MIN(r, height - 1); /* missing rows repeat the last one */
        if (layout == ROW_MAJOR && r % 3 == 0) from.a[r] = left->at + r * from.stride;
        if (layout == INDEXED) from.a[r] = left->at + left->starts[row];
        if (layout == INDEXED_TRANSPOSED) from.at[r] = left->places[row];
        EACH(v, wide) c[r][v] = (Vector){0};
        EACH(v, wide) __builtin_prefetch(rows[row] + j + v * WIDTH, 1);
    }
    u32 k = depth / UNROLL;
    for (; k; k--) rank_k_update(c, layout, high, wide, UNROLL, copy, &from);
    for (k = depth % UNROLL; k; k--) rank_k_update(c, layout, high, wide, 1, copy, &from);
    if (height < high || width < wide * WIDTH) {
        EACH(r, high) EACH(v, wide) t[r][v] = c[r][v];
        store_partial_tile(t, rows, MIN(high, height), j, width, add, f);
        return;
    }
    if (add) EACH(r, high) EACH(v, wide) c[r][v] += *vector_at(rows[r] + j, v);
    if (f && f->bias) EACH(r, high) EACH(v, wide) c[r][v] += *vector_at(f->bias + j, v);
    if (f && f->activation != LINEAR)
        EACH(r, high) EACH(v, wide) c[r][v] = clip_relu(c[r][v], f->activation);
    EACH(r, high) EACH(v, wide) *vector_at(rows[r] + j, v) = c[r][v];
}

INLINE void update_panels(Layout layout, PanelA a, u32 depth, PanelsB b, f32 *const *rows,
                          u32 height, u32 j, u32 width, bool add, const Epilogue *f) {
    bool scattered = layout == INDEXED || layout == INDEXED_TRANSPOSED;
    enum { ALL = NR / WIDTH };
    u32 high = scattered ? SCATTERED_MR : MR, two = high * 2 / 3, one = high / 3;
#define PART(high, wide, copy)                                                         \
    update_tile(layout, high, wide, copy, &p, ahead, depth, b, rows + r, rows_left, j, \
                columns, add, f)
#define WIDE_OR_NOT(high)                                                              \
    columns > WIDTH ? PART(high, ALL, false) : PART(high, 1, false)
    for (u32 end = j + width; j < end; j += NR, b.at += b.next) {
        u32 columns = MIN(NR, end - j);
        /* Each of the last three panels of B prefetches a third of the next rows. */
        u32 after = (end - j - 1) / NR, ahead = after < 3 ? PACKED_MR + after : 0;
        PanelA p = a;
        bool whole = columns == NR;
        if (!whole) b.at = b.last, b.step = NR;
        for (u32 r = 0; r < height; r += high) {
            u32 rows_left = height - r;
            if (layout <= ROW_MAJOR && b.to && whole && r == 0)
                PART(high, ALL, true);
            else if (rows_left > two || scattered)
                WIDE_OR_NOT(high);
            else if (rows_left > one)
                WIDE_OR_NOT(two);
            else
                WIDE_OR_NOT(one);
            p.at += layout == PACKED ? high : layout == ROW_MAJOR ? high * a.step : 0;
            p.starts += layout == INDEXED ? high : 0;
            p.places += layout >= INDEXED_TRANSPOSED ? high : 0;
        }
        if (b.to) b.to += NR * (i64)depth;
    }
#undef PART
#undef WIDE_OR_NOT
}

#define MICRO_KERNEL(NAME, layout)                                                     \
    static __attribute__((noinline)) void NAME(                                        \
        PanelA a, u32 depth, PanelsB b, f32 *const *rows, u32 height, u32 j,           \
        u32 width, bool add, const Epilogue *f) {                                      \
        update_panels(layout, a, depth, b, rows, height, j, width, add, f);            \
    }
MICRO_KERNEL(micro_kernel_packed, PACKED)
MICRO_KERNEL(micro_kernel_row_major, ROW_MAJOR)
MICRO_KERNEL(micro_kernel_indexed, INDEXED)
MICRO_KERNEL(micro_kernel_indexed_transposed, INDEXED_TRANSPOSED)
MICRO_KERNEL(micro_kernel_indexed_contiguous, INDEXED_CONTIGUOUS)

static void micro_kernel(PanelA a, u32 depth, PanelsB b, f32 *const *rows, u32 height,
                         u32 j, u32 width, bool add, const Epilogue *f) {
    static void (*const kernels[])(PanelA, u32, PanelsB, f32 *const *, u32, u32, u32, bool,
                                   const Epilogue *) = {
        micro_kernel_packed, micro_kernel_row_major, micro_kernel_indexed,
        micro_kernel_indexed_transposed, micro_kernel_indexed_contiguous};
    if (a.layout == INDEXED_TRANSPOSED && height == PACKED_MR) {
        a.layout = INDEXED_CONTIGUOUS;
        for (i32 r = 1; r < PACKED_MR; r++)
            if (a.places[r] != a.places[0] + r) a.layout = INDEXED_TRANSPOSED;
    }
    kernels[a.layout](a, depth, b, rows, height, j, width, add, f);
}

#endif
