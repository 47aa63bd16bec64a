/* The tile of a product that is in registers, on WebAssembly and on processors.

   Map: panels of A and of B; the tile on WebAssembly; on processors.
*/
#pragma once
#include "gemm.h"

/* A panel of A: where element k of row r is depends on how A is given.
   PACKED: at[r + k * step], where step is PANEL_A on WebAssembly
   IN_ROWS: at[r * step + k]
   INDEXED: at[starts[r] + places[k]]
   IN_COLUMNS: at[starts[k] + places[r]]
   NEIGHBOURS: the same, where places[r] is places[0] + r
   All but the first are for processors. */
typedef enum { PACKED, IN_ROWS, INDEXED, IN_COLUMNS, NEIGHBOURS } How;
typedef struct {
    How how;
    const f32 *at;
    i64 step;
    const i32 *starts, *places;
} Left;

/* Panels of B: row k of the first begins at at[k * step], the next panel at at[next]; the
   last one, if it has fewer columns, at `last`, packed. On WebAssembly all are packed. */
typedef struct {
    const f32 *at, *last;
    i64 step, next;
    f32 *to; /* on processors, where the panels are copied to, or null */
} Right;

/* `tile` computes `height` rows and `width` columns, at most those of a panel of A and, on
   WebAssembly, of one of B:
   rows[i][j..j+width) (+)= a b; with f, plus bias, between the bounds of a ReLU, where NaN
   stays. On WebAssembly A is packed. */
#if !READS_IN_PLACE

/* Written for what Cranelift (wasmtime 50) makes of it, which was measured: a constant
   offset outside of the load becomes an addition, hence LOAD_AT; load32_splat takes
   three instructions, a shuffle one; and all loads between two branches are moved to
   their beginning, so that without the exits in between registers are spilled. Of one,
   two and three steps a round, two are best on Zen 5, three by 4 % on Zen 4. */
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

static __attribute__((noinline)) void whole_tile(u32 depth, const f32 *a, const f32 *b,
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

static void tile(Left a, u32 depth, Right b, f32 *const *rows, u32 height, u32 j,
                 u32 width, bool add, const Finish *f) {
    if (height == PANEL_A && width == PANEL_B) {
        whole_tile(depth, a.at, b.at, rows, j, add, f);
        return;
    }
    f32 t[PANEL_A][PANEL_B], *to[PANEL_A] = {t[0], t[1], t[2], t[3]};
    whole_tile(depth, a.at, b.at, to, 0, false, 0);
    for (u32 r = 0; r < height; r++) {
        for (u32 q = 0; q < width; q++)
            rows[r][j + q] = add ? rows[r][j + q] + t[r][q] : t[r][q];
        if (f) finish(f, rows[r] + j, j, width);
    }
}

#else

/* A vector of the processor; -ffp-contract=off does not hold for products, whose sums
   have one rounding less. */
enum { WIDTH = REGISTER };
typedef f32 Vector __attribute__((vector_size(4 * WIDTH), aligned(4)));
typedef i32 Mask __attribute__((vector_size(4 * WIDTH)));

INLINE Vector at_least(Vector x, Vector y) { /* NaN stays */
    Mask less = x < y;
    return (Vector)(((Mask)y & less) | ((Mask)x & ~less));
}

/* Between the bounds of a ReLU, as wasm's tile does it. */
INLINE Vector clipped(Vector x, Activation activation) {
    Vector zero = {0};
    x = at_least(x, zero);
    return activation == RELU6 ? -at_least(-x, zero - 6) : x;
}

INLINE Vector *at_vector(const f32 *p, u32 v) { return (Vector *)(p + v * WIDTH); }

/* The first n numbers of a vector, or all of them. */
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

typedef Vector Tile[TILE][PANEL_B / WIDTH];

/* rows (+)= t, with f, where a part of the tile is in C. */
static __attribute__((noinline)) void write_part(const Tile t, f32 *const *rows, u32 height,
                                                 u32 j, u32 width, bool add,
                                                 const Finish *f) {
    Vector zero = {0};
    for (u32 v = 0; v * WIDTH < width; v++) {
        u32 at = j + v * WIDTH, n = width - v * WIDTH;
        Vector bias = f && f->bias ? load_part(f->bias + at, n) : zero;
        for (u32 r = 0; r < height; r++) {
            Vector x = t[r][v];
            if (add) x += load_part(rows[r] + at, n);
            if (f) {
                x += bias;
                if (f->activation != LINEAR) x = clipped(x, f->activation);
            }
            store_part(rows[r] + at, x, n);
        }
    }
}

/* Loops of constant length, whose arrays are to be registers. */
#define EACH(i, n) _Pragma("clang loop unroll(full)") for (u32 i = 0; i < (n); i++)

/* Where a tile reads: pointers to element k of each row, or of each third one, and to
   row k of B. */
typedef struct {
    const f32 *a[TILE], *b;
    f32 *to;                    /* where row k of B is copied to */
    const i32 *starts, *places; /* of element k */
    i64 at[TILE], stride, step;
    i64 ahead; /* from a row to one of the next panel, which is fetched */
} Cursor;

enum { SOON = 32 }; /* rows of B that are copied after this one: it is fetched */

/* c += a b for `count` elements of the sum, a constant, as are `how`, `high` and `wide`.
   Pointers move once: additions of integers take the place of products. */
INLINE void add_products(Tile c, How how, u32 high, u32 wide, u32 count, bool copy,
                         Cursor *from) {
#pragma clang fp contract(fast)
    EACH(k, count) {
        Vector y[PANEL_B / WIDTH];
        EACH(v, wide) y[v] = *(const Vector *)(from->b + k * from->step + v * WIDTH);
        EACH(v, copy ? wide : 0) {
            *at_vector(from->to + k * PANEL_B, v) = y[v];
            __builtin_prefetch(from->b + (k + SOON) * from->step + v * WIDTH);
        }
        i64 place = how == INDEXED ? from->places[k] : 0;
        const f32 *column = from->a[0];
        if (how == PACKED) column += k * from->stride;
        if (how >= IN_COLUMNS) column += from->starts[k];
        EACH(r, high) {
            f32 x = how == IN_ROWS   ? from->a[r / 3 * 3][r % 3 * from->stride + k]
                    : how == INDEXED ? from->a[r][place]
                                     : column[how == IN_COLUMNS ? from->at[r] : r];
            Vector all = x - (Vector){0};
            EACH(v, wide) c[r][v] += all * y[v];
        }
    }
    from->b += count * from->step;
    if (copy) from->to += count * PANEL_B;
    if (how == PACKED) from->a[0] += count * from->stride;
    if (how == INDEXED) from->places += count;
    if (how >= IN_COLUMNS) from->starts += count;
    EACH(r, how == IN_ROWS ? high : 0) {
        if (r % 3 == 0 && count > 1) __builtin_prefetch(from->a[r] + from->ahead);
        if (r % 3 == 0) from->a[r] += count;
        __asm__("" : "+r"(from->a[r / 3 * 3])); /* or there were a pointer for each row */
    }
}

/* `high` rows and `wide` vectors are computed, which are constants, as `how` is. */
INLINE void part_of_tile(How how, u32 high, u32 wide, bool copy, const Left *left,
                         u32 ahead, u32 depth, Right right, f32 *const *rows, u32 height,
                         u32 j, u32 width, bool add, const Finish *f) {
    enum { STEPS = 4 };
    Tile c, t;
    Cursor from = {.b = right.at, .to = right.to, .starts = left->starts,
                   .places = left->places, .stride = left->step};
    from.ahead = ahead * left->step;
    from.step = how <= IN_ROWS ? right.step : PANEL_B; /* else registers are short */
    from.a[0] = left->at + (how == NEIGHBOURS ? left->places[0] : 0);
    EACH(r, high) {
        u32 here = MIN(r, height - 1); /* rows that are not there repeat the last one */
        if (how == IN_ROWS && r % 3 == 0) from.a[r] = left->at + r * from.stride;
        if (how == INDEXED) from.a[r] = left->at + left->starts[here];
        if (how == IN_COLUMNS) from.at[r] = left->places[here];
        EACH(v, wide) c[r][v] = (Vector){0};
        EACH(v, wide) __builtin_prefetch(rows[here] + j + v * WIDTH, 1);
    }
    u32 k = depth / STEPS;
    for (; k; k--) add_products(c, how, high, wide, STEPS, copy, &from);
    for (k = depth % STEPS; k; k--) add_products(c, how, high, wide, 1, copy, &from);
    if (height < high || width < wide * WIDTH) {
        EACH(r, high) EACH(v, wide) t[r][v] = c[r][v];
        write_part(t, rows, MIN(high, height), j, width, add, f);
        return;
    }
    if (add) EACH(r, high) EACH(v, wide) c[r][v] += *at_vector(rows[r] + j, v);
    if (f && f->bias) EACH(r, high) EACH(v, wide) c[r][v] += *at_vector(f->bias + j, v);
    if (f && f->activation != LINEAR)
        EACH(r, high) EACH(v, wide) c[r][v] = clipped(c[r][v], f->activation);
    EACH(r, high) EACH(v, wide) *at_vector(rows[r] + j, v) = c[r][v];
}

INLINE void tiles(How how, Left a, u32 depth, Right b, f32 *const *rows, u32 height,
                  u32 j, u32 width, bool add, const Finish *f) {
    bool scattered = how == INDEXED || how == IN_COLUMNS;
    enum { ALL = PANEL_B / WIDTH };
    u32 high = scattered ? SCATTERED : TILE, two = high * 2 / 3, one = high / 3;
#define PART(high, wide, copy)                                                         \
    part_of_tile(how, high, wide, copy, &p, ahead, depth, b, rows + r, left, j, here,  \
                 add, f)
#define WIDE_OR_NOT(high)                                                              \
    here > WIDTH ? PART(high, ALL, false) : PART(high, 1, false)
    for (u32 end = j + width; j < end; j += PANEL_B, b.at += b.next) {
        u32 here = MIN(PANEL_B, end - j);
        /* Each of the last three panels of B fetches a third of the next rows. */
        u32 after = (end - j - 1) / PANEL_B, ahead = after < 3 ? PANEL_A + after : 0;
        Left p = a;
        bool whole = here == PANEL_B;
        if (!whole) b.at = b.last, b.step = PANEL_B;
        for (u32 r = 0; r < height; r += high) {
            u32 left = height - r;
            if (how <= IN_ROWS && b.to && whole && r == 0)
                PART(high, ALL, true);
            else if (left > two || scattered)
                WIDE_OR_NOT(high);
            else if (left > one)
                WIDE_OR_NOT(two);
            else
                WIDE_OR_NOT(one);
            p.at += how == PACKED ? high : how == IN_ROWS ? high * a.step : 0;
            p.starts += how == INDEXED ? high : 0;
            p.places += how >= IN_COLUMNS ? high : 0;
        }
        if (b.to) b.to += PANEL_B * (i64)depth;
    }
#undef PART
#undef WIDE_OR_NOT
}

#define TILES(NAME, how)                                                               \
    static __attribute__((noinline)) void NAME(                                        \
        Left a, u32 depth, Right b, f32 *const *rows, u32 height, u32 j,               \
        u32 width, bool add, const Finish *f) {                                        \
        tiles(how, a, depth, b, rows, height, j, width, add, f);                       \
    }
TILES(tile_packed, PACKED)
TILES(tile_in_rows, IN_ROWS)
TILES(tile_indexed, INDEXED)
TILES(tile_in_columns, IN_COLUMNS)
TILES(tile_of_neighbours, NEIGHBOURS)

static void tile(Left a, u32 depth, Right b, f32 *const *rows, u32 height, u32 j,
                 u32 width, bool add, const Finish *f) {
    static void (*const all[])(Left, u32, Right, f32 *const *, u32, u32, u32, bool,
                               const Finish *) = {tile_packed, tile_in_rows, tile_indexed,
                                                  tile_in_columns, tile_of_neighbours};
    if (a.how == IN_COLUMNS && height == PANEL_A) {
        a.how = NEIGHBOURS;
        for (i32 r = 1; r < PANEL_A; r++)
            if (a.places[r] != a.places[0] + r) a.how = IN_COLUMNS;
    }
    all[a.how](a, depth, b, rows, height, j, width, add, f);
}

#endif
