/* Binary arithmetic. */
#include "elementwise.h"
#include "mathematics.h"

#define ARITHMETIC(BINARY, T, U)                                                                 \
    BINARY(add_##T, T, T, GRAIN, (T)((U)p + (U)q))                                       \
    BINARY(sub_##T, T, T, GRAIN, (T)((U)p - (U)q))                                       \
    BINARY(mul_##T, T, T, GRAIN, (T)((U)p *(U)q))
ARITHMETIC(BINARY, f32, f32)
ARITHMETIC(BINARY, f64, f64)
ARITHMETIC(BINARY, i32, u32)
ARITHMETIC(BINARY_SMALL, i64, u64)

/* Floating point: NaN propagates, and +0 is greater than -0. */
BINARY(max_f32, f32, f32, GRAIN, p != p ? p : p > q || q == p ? p : q)
BINARY_SMALL(max_f64, f64, f64, GRAIN, p != p ? p : p > q || q == p ? p : q)
BINARY(min_f32, f32, f32, GRAIN, p != p ? p : p < q || q == p ? p : q)
BINARY_SMALL(min_f64, f64, f64, GRAIN, p != p ? p : p < q || q == p ? p : q)
BINARY(div_f32, f32, f32, GRAIN, p / q)
BINARY_SMALL(div_f64, f64, f64, GRAIN, p / q)
BINARY(squared_difference_f32, f32, f32, GRAIN, (p - q) * (p - q))
BINARY_SMALL(squared_difference_f64, f64, f64, GRAIN, (p - q) * (p - q))
BINARY_SMALL(atan2_f32, f32, f32, SLOW, (f32)atan2(p, q))
BINARY_SMALL(atan2_f64, f64, f64, SLOW, atan2(p, q))
BINARY(copysign_f32, f32, f32, GRAIN, __builtin_copysignf(p, q))
BINARY_SMALL(copysign_f64, f64, f64, GRAIN, __builtin_copysign(p, q))
BINARY(copysign_f16, u16, u16, GRAIN, (u16)((p & 0x7fff) | (q & 0x8000)))

/* The result is infinite if either operand is, even if the other one is NaN. Squares of
   float32 neither overflow nor underflow in float64. */
#define IS_INF(a) (__builtin_fabsf(a) == INFINITY)
BINARY(hypot_f32, f32, f32, GRAIN,
       (IS_INF(p) | IS_INF(q)) ? INFINITY : (f32)__builtin_sqrt((f64)p * p + (f64)q * q))
BINARY_SMALL(hypot_f64, f64, f64, SLOW, hypot(p, q))

/* The remainder has the sign of the divisor, as in Python. */
#define REMAINDERS(T)                                                                    \
    static T mod_of_##T(T p, T q) {                                                      \
        T r = (T)fmod(p, q);                                                             \
        return r == 0 ? (T)copysign(0, q) : (q < 0) != (r < 0) ? r + q : r;              \
    }                                                                                    \
    static T floor_div_of_##T(T p, T q) {                                                \
        if (q == 0 || isinf(p) || isinf(q)) return (T)floor(p / q);                      \
        T r = (T)fmod(p, q), y = (p - r) / q;                                            \
        if (r != 0 && (q < 0) != (r < 0)) y -= 1;                                        \
        if (y == 0) return (T)copysign(0, p / q);                                        \
        T whole = (T)floor(y);                                                           \
        return y - whole > (T)0.5 ? whole + 1 : whole;                                   \
    }
REMAINDERS(f32)
REMAINDERS(f64)
BINARY_SMALL(mod_f64, f64, f64, SLOW, mod_of_f64(p, q))
BINARY_SMALL(floor_div_f64, f64, f64, SLOW, floor_div_of_f64(p, q))

typedef f32 floats __attribute__((vector_size(4 * LANES)));
typedef f64 doubles __attribute__((vector_size(8 * LANES)));
#define TO_DOUBLES(v) __builtin_convertvector((floats)(v), doubles)
#define TO_FLOATS(v) ((vec)__builtin_convertvector(v, floats))
#define FLOOR(v) ((vec)__builtin_elementwise_floor((floats)(v)))
#define SIGN(v) AND(v, VINT((i32)0x80000000)) /* the sign bit */
#define DIFFER(a, b) SHR(XOR(a, b), 31) /* whether the signs differ */

/* Returns the exact remainder of p / q, truncated toward zero: the product of q and a
   quotient below 2^29 is exact in float64. Rounding makes the quotient too large by at
   most one. In lanes with a larger quotient or an infinity, the remainder is invalid and
   `known` is false. */
INLINE vec truncated_remainder(vec p, vec q, vec *known) {
    doubles x = TO_DOUBLES(p), y = TO_DOUBLES(q), n = __builtin_elementwise_trunc(x / y);
    *known = AND(LT(ABS(TO_FLOATS(n)), VEC(0x1p29f)), LT(ABS(q), VEC(INFINITY)));
    vec r = TO_FLOATS(x - n * y), beyond = AND_NOT(DIFFER(r, p), EQ(r, VEC(0)));
    return WHERE(beyond, ADD(r, OR(ABS(q), SIGN(p))), r);
}

/* Returns z in known lanes, and `scalar(p, q)` in the others. */
static __attribute__((noinline)) vec fix_unknown_lanes(f32 (*scalar)(f32, f32), vec p,
                                                       vec q, vec z, vec known) {
    f32 a[LANES], b[LANES], y[LANES];
    i32 is_known[LANES];
    STORE(a, p), STORE(b, q), STORE(y, z), STORE(is_known, known);
    for (u32 i = 0; i < LANES; i++)
        if (!is_known[i]) y[i] = scalar(a[i], b[i]);
    return VLOAD(y);
}

INLINE vec vec_mod(vec p, vec q) {
    vec known, r = truncated_remainder(p, q, &known);
    vec y = WHERE(DIFFER(r, q), ADD(r, q), r);
    y = WHERE(EQ(r, VEC(0)), SIGN(q), y);
    return ALL_TRUE(known) ? y : fix_unknown_lanes(mod_of_f32, p, q, y, known);
}

INLINE vec vec_floor_div(vec p, vec q) {
    vec known, r = truncated_remainder(p, q, &known), y = DIV(SUB(p, r), q);
    vec down = AND_NOT(DIFFER(r, q), EQ(r, VEC(0)));
    y = WHERE(down, SUB(y, VEC(1)), y);
    vec whole = FLOOR(y), up = GT(SUB(y, whole), VEC(0.5f));
    vec z = WHERE(up, ADD(whole, VEC(1)), whole);
    z = WHERE(EQ(y, VEC(0)), SIGN(XOR(p, q)), z);
    return ALL_TRUE(known) ? z : fix_unknown_lanes(floor_div_of_f32, p, q, z, known);
}

BINARY_BY(mod_f32, vec_mod, NOT_INTERLEAVED)
BINARY_BY(floor_div_f32, vec_floor_div, NOT_INTERLEAVED)

/* Integers: x / 0 is 0, and the minimum divided by -1 is the minimum. */
#define INTEGERS(T, U)                                                                  \
    BINARY_SMALL(max_##T, T, T, GRAIN, p > q ? p : q)                                          \
    BINARY_SMALL(min_##T, T, T, GRAIN, p < q ? p : q)                                          \
    INLINE T floor_div_of_##T(T p, T q) {                                                \
        if (q == 0) return 0;                                                            \
        if (q == (T)-1 && (T)-1 < 0) return (T)(-(U)p);                                  \
        return p / q - (p % q != 0 && (p < 0) != (q < 0));                               \
    }                                                                                    \
    INLINE T mod_of_##T(T p, T q) {                                                      \
        if (q == 0 || (q == (T)-1 && (T)-1 < 0)) return 0;                               \
        T r = p % q;                                                                     \
        return r != 0 && (r < 0) != (q < 0) ? r + q : r;                                 \
    }                                                                                    \
    INLINE T pow_of_##T(T p, T q) {                                                      \
        U y = 1, base = (U)p;                                                            \
        if (q < 0) return p == 1 ? 1 : p == (T)-1 ? (q & 1 ? (T)-1 : 1) : 0;             \
        for (U n = (U)q; n; n >>= 1, base *= base)                                       \
            if (n & 1) y *= base;                                                        \
        return (T)y;                                                                     \
    }                                                                                    \
    BINARY_SMALL(floor_div_##T, T, T, GRAIN, floor_div_of_##T(p, q))                           \
    BINARY_SMALL(mod_##T, T, T, GRAIN, mod_of_##T(p, q))                                       \
    BINARY_SMALL(pow_##T, T, T, SLOW, pow_of_##T(p, q))                                        \
    BINARY_SMALL(left_##T, T, T, GRAIN, (U)q < 8 * sizeof(T) ? (T)((U)p << q) : 0)             \
    BINARY_SMALL(right_##T, T, T, GRAIN,                                                       \
           (U)q < 8 * sizeof(T) ? p >> q : p < 0 ? (T)-1 : 0)
INTEGERS(i32, u32)
INTEGERS(i64, u64)
#pragma clang diagnostic ignored "-Wtype-limits"
#pragma clang diagnostic ignored "-Wtautological-compare"
INTEGERS(u32, u32)
INTEGERS(u64, u64)

/* --- powers ----------------------------------------------------------------------- */

/* Returns y log2(x) for x = m 2^e, accurate to 2^-30, from the series of
   log2((1 + s) / (1 - s)). */
INLINE doubles log2_times(vec m, vec e, vec y) {
    doubles x = TO_DOUBLES(m), s = (x - 1) / (x + 1), z = s * s;
    doubles p = z - z + 2.885390082 / 13; /* x is finite */
#pragma clang loop unroll(full)
    for (i32 k = 11; k > 0; k -= 2) p = p * z + 2.8853900817779268 / k;
    return (p * s + TO_DOUBLES(e)) * TO_DOUBLES(y);
}

/* Returns x^y as 2^n 2^f. All steps but the last are computed in float64. */
INLINE vec vec_pow(vec x, vec y) {
    vec e, m = split(x, &e);
    doubles power = log2_times(m, e, y), whole = __builtin_elementwise_rint(power);
    vec f = TO_FLOATS(power - whole), n = TO_FLOATS(whole);
    vec normal = AND(AND(GT(x, VEC(0)), LT(x, VEC(INFINITY))), LT(ABS(n), VEC(126)));
    vec z = exp2_of_fraction(f);
    z = IADD(z, SHL(TO_INT(n), 23));
    vec square = EQ(y, VEC(2)); /* exactly x * x, as users expect */
    z = WHERE(square, MUL(x, x), z), normal = OR(normal, square);
    /* where `normal` is set, the result is a normal number */
    return ALL_TRUE(normal) ? z : fix_unknown_lanes(powf, x, y, z, normal);
}

BINARY_BY(pow_f32, vec_pow, NOT_INTERLEAVED)
BINARY_SMALL(pow_f64, f64, f64, SLOW, pow(p, q))

#define BITS(T)                                                                          \
    BINARY_SMALL(and_##T, T, T, GRAIN, p &q)                                                   \
    BINARY_SMALL(or_##T, T, T, GRAIN, p | q)                                                   \
    BINARY_SMALL(xor_##T, T, T, GRAIN, p ^ q)
BITS(i32)
BITS(i64)
BINARY(and_b8, u8, u8, GRAIN, p &q)
BINARY(or_b8, u8, u8, GRAIN, p | q)
BINARY(xor_b8, u8, u8, GRAIN, p ^ q)

/* --- two steps of a region in one loop -------------------------------------------- */

enum { BLOCK = 4 * LANES }; /* elements that are computed together */

typedef struct {
    const f32 *in[3];
    u32 step[3]; /* distance between blocks; 0: one block, filled with one element */
} Blocks;
typedef void PairFunction(const Blocks *s, f32 *y, u32 blocks);

__attribute__((noinline)) static void run_pair(PairFunction *run, const Operands *o,
                                               f32 *y, u32 n) {
    _Alignas(64) f32 filled[3][BLOCK], last[BLOCK];
    u32 rest = n % BLOCK, whole = n - rest;
    Blocks s;
    for (u32 k = 0; k < 3; k++) {
        const f32 *x = o->in[k];
        s.step[k] = o->step[k] ? BLOCK : 0, s.in[k] = o->step[k] ? x : filled[k];
        for (u32 i = 0; i < BLOCK && !o->step[k]; i += LANES) STORE(filled[k] + i, VEC(*x));
    }
    run(&s, y, n / BLOCK);
    if (!rest) return;
    for (u32 k = 0; k < 3; k++) {
        for (u32 i = 0; i < BLOCK && s.step[k]; i++)
            filled[k][i] = i < rest ? s.in[k][whole + i] : 0;
        s.in[k] = filled[k];
    }
    run(&s, last, 1);
    SMALL for (u32 i = 0; i < rest; i++) y[whole + i] = last[i];
}

/* NAME_row computes EXPR of p, q and r, the elements of three operands: the result of two
   kernels without storing the intermediate result. The result may overwrite an operand.
   */
#define PAIR(NAME, EXPR)                                                                 \
    static void NAME##_blocks(const Blocks *s, f32 *y, u32 blocks) {                     \
        const f32 *a = s->in[0], *b = s->in[1], *c = s->in[2];                           \
        for (; blocks--; a += s->step[0], b += s->step[1], c += s->step[2], y += BLOCK)  \
            _Pragma("clang loop vectorize(assume_safety)")                               \
            for (u32 i = 0; i < BLOCK; i++) {                                            \
                f32 p = a[i], q = b[i], r = c[i];                                        \
                y[i] = EXPR;                                                             \
            }                                                                            \
    }                                                                                    \
    void NAME##_row(const Operands *o, void *y, u32 n) {                                 \
        run_pair(NAME##_blocks, o, y, n);                                                \
    }
#define PAIRS_OF(NAME, FIRST)                                                            \
    PAIR(NAME##_add_f32, FIRST + r)                                                      \
    PAIR(NAME##_sub_f32, FIRST - r)                                                      \
    PAIR(NAME##_rsub_f32, r - FIRST)                                                     \
    PAIR(NAME##_mul_f32, FIRST * r)
PAIRS_OF(add, (p + q))
PAIRS_OF(sub, (p - q))
PAIRS_OF(mul, (p * q))
