/* Element-wise loops, generated from an expression. clang vectorizes UNARY and BINARY.
   UNARY_SMALL and BINARY_SMALL stay scalar, with a tenth of the code, for dtypes and
   functions that do not gain from vectors. UNARY_VEC and BINARY_VEC are generated from
   a function of float32 vectors.

   The step of a row is 1, or 0 if one element is repeated. Kernels that only move
   elements accept any step, including negative ones. */
#pragma once
#include "plugrad.h"

/* Up to this many elements, one thread computes all: waking another takes 40 us. */
#define GRAIN 65536
#define SLOW 2048 /* the grain of functions that take at least 10 ns per element */
/* The number of elements per piece. Arrays longer than the grain are divided into
   smaller pieces, so that threads get even shares: with pieces of 65,536 elements, one
   of two threads would get two thirds of 200,000 elements. */
#define PIECE_SIZE(n, grain) ((n) > (grain) ? (grain) / 4 : (grain))

typedef struct {
    const void *x;
    void *y;
    f64 p, q;
} Flat;


/* NAME(x, y, n): y[i] = EXPR, where a is x[i]. */
#define UNARY(NAME, X, Y, GRAIN, EXPR) UNARY_(NAME, X, Y, GRAIN, EXPR, WIDE)
#define UNARY_SMALL(NAME, X, Y, GRAIN, EXPR) UNARY_(NAME, X, Y, GRAIN, EXPR, SMALL)
#define UNARY_(NAME, X, Y, GRAIN, EXPR, HOW)                                             \
    void NAME##_piece(u32 i, u32 end, void *ctx) {                                \
        const X *restrict x = ((Flat *)ctx)->x;                                          \
        Y *restrict y = ((Flat *)ctx)->y;                                                \
        INSIDE(x + i, (u64)(end - i) * sizeof(X));                                       \
        INSIDE(y + i, (u64)(end - i) * sizeof(Y));                                       \
        HOW for (; i < end; i++) {                                                       \
            X a = x[i];                                                                  \
            y[i] = EXPR;                                                                 \
        }                                                                                \
    }                                                                                    \
    EXPORT(#NAME) void NAME(const X *x, Y *y, u32 n) {                                   \
        parallel_for(NAME##_piece, &(Flat){x, y, 0, 0}, n, PIECE_SIZE(n, GRAIN));        \
    }

/* NAME(x, y, n, p, q): like UNARY; EXPR also reads p and q, numbers converted to X. */
#define UNARY_PQ(NAME, X, EXPR)                                                          \
    void NAME##_piece(u32 i, u32 end, void *ctx) {                                \
        Flat *flat = ctx;                                                                \
        const X *restrict x = flat->x;                                                   \
        X *restrict y = flat->y, p = (X)flat->p, q = (X)flat->q;                         \
        (void)q;                                                                         \
        INSIDE(x + i, (u64)(end - i) * sizeof(X));                                       \
        INSIDE(y + i, (u64)(end - i) * sizeof(X));                                       \
        for (; i < end; i++) {                                                           \
            X a = x[i];                                                                  \
            y[i] = EXPR;                                                                 \
        }                                                                                \
    }                                                                                    \
    EXPORT(#NAME) void NAME(const X *x, X *y, u32 n, f64 p, f64 q) {                     \
        parallel_for(NAME##_piece, &(Flat){x, y, p, q}, n, PIECE_SIZE(n, GRAIN));        \
    }

/* On targets with INTERLEAVES, the plugin defines functions NAME_interleaved. They
   compute most of a long array, four registers at a time, and return the number of
   elements that they computed. */
#if !INTERLEAVES
#define INTERLEAVED(NAME, n, ...) 0
#else
#define INTERLEAVED(NAME, n, ...) NAME##_interleaved(n, __VA_ARGS__)
#endif

/* NAME(x, y, n) for float32, from a function of vectors. */
#define UNARY_VEC(NAME, FUNCTION)                                                        \
    u32 NAME##_interleaved(u32 n, const f32 *x, f32 *y);                                 \
    void NAME##_piece(u32 i, u32 end, void *ctx) {                                \
        const f32 *restrict x = ((Flat *)ctx)->x;                                        \
        f32 *restrict y = ((Flat *)ctx)->y;                                              \
        INSIDE(x + i, (u64)(end - i) * 4);                                               \
        INSIDE(y + i, (u64)(end - i) * 4);                                               \
        i += INTERLEAVED(NAME, end - i, x + i, y + i);                                   \
        for (; i + LANES <= end; i += LANES) STORE(y + i, FUNCTION(VLOAD(x + i)));       \
        if (i < end) vstore_partial(y + i, FUNCTION(vload_partial(x + i, end - i)), end - i); \
    }                                                                                    \
    EXPORT(#NAME) void NAME(const f32 *x, f32 *y, u32 n) {                               \
        parallel_for(NAME##_piece, &(Flat){x, y, 0, 0}, n, PIECE_SIZE(n, GRAIN));        \
    }

/* --- broadcasting (elementwise.c) ------------------------------------------------ */

#define MAX_RANK 64

typedef struct {
    const void *in[3];
    u32 size[3]; /* size of an element in bytes */
    i32 step[3];
} Operands;

/* Computes n elements; reads operand k from address in[k] on, step[k] elements apart. */
typedef void (*Row)(const Operands *o, void *y, u32 n);

/* Fills y row by row. `shape` describes the broadcast: the rank, the sizes, and for
   each of `count` operands the strides in elements. It is NULL if all operands have n
   elements in the order of y. */
void broadcast(Row row, Operands o, u32 count, void *y, u32 size, u32 n,
               const i32 *shape, u32 grain);

/* NAME(a, b, y, n, shape): y = EXPR, where p is an element of a and q one of b. */
#define BINARY_EXPORT(NAME, X, Y, GRAIN)                                                 \
    EXPORT(#NAME) void NAME(const X *a, const X *b, Y *y, u32 n, const i32 *shape) {     \
        broadcast(NAME##_row, (Operands){{a, b, 0}, {sizeof(X), sizeof(X), 0}, {1, 1, 0}},\
                  2, y, sizeof(Y), n, shape, GRAIN);                                     \
    }
#define BINARY_SMALL(NAME, X, Y, GRAIN, EXPR)                                            \
    void NAME##_row(const Operands *o, void *to, u32 n) {                         \
        const X *restrict a = o->in[0], *restrict b = o->in[1];                          \
        Y *restrict y = to;                                                              \
        SMALL for (u32 i = 0; i < n; i++, a += o->step[0], b += o->step[1]) {            \
            X p = *a, q = *b;                                                            \
            y[i] = EXPR;                                                                 \
        }                                                                                \
    }                                                                                    \
    BINARY_EXPORT(NAME, X, Y, GRAIN)
#define BINARY(NAME, X, Y, GRAIN, EXPR)                                                  \
    INLINE void NAME##_by(const X *restrict a, const X *restrict b, Y *restrict y, u32 n,\
                          u32 da, u32 db) {                                              \
        STRETCH(n, X p = a[i * da]; X q = b[i * db]; y[i] = EXPR;)                       \
    }                                                                                    \
    void NAME##_row(const Operands *o, void *y, u32 n) {                          \
        if (o->step[0] && o->step[1])                                                    \
            NAME##_by(o->in[0], o->in[1], y, n, 1, 1);                                   \
        else if (o->step[0])                                                             \
            NAME##_by(o->in[0], o->in[1], y, n, 1, 0);                                   \
        else                                                                             \
            NAME##_by(o->in[0], o->in[1], y, n, 0, 1);                                   \
    }                                                                                    \
    BINARY_EXPORT(NAME, X, Y, GRAIN)
/* NAME(a, b, y, n, shape) for float32, from a function of two vectors. The last vector
   of a row is padded with ones. */
#define BINARY_VEC(NAME, FUNCTION)                                                       \
    u32 NAME##_interleaved(u32 n, const f32 *a, const f32 *b, f32 *y);                   \
    BINARY_BY(NAME, FUNCTION, INTERLEAVED)
#define NOT_INTERLEAVED(NAME, n, ...) 0
#define BINARY_BY(NAME, FUNCTION, BULK)                                                  \
    void NAME##_row(const Operands *o, void *to, u32 n) {                         \
        const f32 *restrict a = o->in[0], *restrict b = o->in[1];                        \
        f32 *restrict y = to, p[LANES], q[LANES];                                        \
        u32 da = o->step[0], db = o->step[1], i = 0;                                     \
        if (da && db) i = BULK(NAME, n, a, b, y);                                        \
        for (; i + LANES <= n; i += LANES) {                                             \
            vec left = da ? VLOAD(a + i) : VEC(*a), right = db ? VLOAD(b + i) : VEC(*b); \
            STORE(y + i, FUNCTION(left, right));                                         \
        }                                                                                \
        if (i == n) return;                                                              \
        STORE(p, VEC(1)), STORE(q, VEC(1));                                              \
        for (u32 k = 0; k < n - i; k++) p[k] = a[(i + k) * da], q[k] = b[(i + k) * db];  \
        vstore_partial(y + i, FUNCTION(VLOAD(p), VLOAD(q)), n - i);                      \
    }                                                                                    \
    BINARY_EXPORT(NAME, f32, f32, SLOW)
