/* Arithmetic of two operands. */
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

/* Floating: NaN wins, and +0 is more than -0. */
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

/* The remainder has the sign of the divisor, as Python's. */
#define REMAINDERS(T)                                                                    \
    INLINE T mod_of_##T(T p, T q) {                                                      \
        T r = (T)fmod(p, q);                                                             \
        return r == 0 ? (T)copysign(0, q) : (q < 0) != (r < 0) ? r + q : r;              \
    }                                                                                    \
    INLINE T floor_div_of_##T(T p, T q) {                                                \
        if (q == 0 || isinf(p) || isinf(q)) return (T)floor(p / q);                      \
        T r = (T)fmod(p, q), y = (p - r) / q;                                            \
        if (r != 0 && (q < 0) != (r < 0)) y -= 1;                                        \
        if (y == 0) return (T)copysign(0, p / q);                                        \
        T whole = (T)floor(y);                                                           \
        return y - whole > (T)0.5 ? whole + 1 : whole;                                   \
    }                                                                                    \
    BINARY_SMALL(mod_##T, T, T, SLOW, mod_of_##T(p, q))                                        \
    BINARY_SMALL(floor_div_##T, T, T, SLOW, floor_div_of_##T(p, q))
REMAINDERS(f32)
REMAINDERS(f64)

/* Integers: what is divided by 0 gives 0, and the least by -1 itself. */
#define WHOLE(T, U)                                                                      \
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
WHOLE(i32, u32)
WHOLE(i64, u64)
#pragma clang diagnostic ignored "-Wtype-limits"
#pragma clang diagnostic ignored "-Wtautological-compare"
WHOLE(u32, u32)
WHOLE(u64, u64)

/* --- powers ----------------------------------------------------------------------- */

/* y log2(x) of the first two lanes, to 2^-30 of one: x = m 2^e, and the series of
   log2((1 + s) / (1 - s)). */
INLINE v4 log2_times(v4 m, v4 e, v4 y) {
    v4 x = wasm_f64x2_promote_low_f32x4(m), one = wasm_f64x2_splat(1);
    v4 s = wasm_f64x2_div(wasm_f64x2_sub(x, one), wasm_f64x2_add(x, one));
    v4 z = wasm_f64x2_mul(s, s), p = wasm_f64x2_splat(2.885390082 / 13);
#pragma clang loop unroll(full)
    for (i32 k = 11; k > 0; k -= 2)
        p = wasm_f64x2_relaxed_madd(p, z, wasm_f64x2_splat(2.8853900817779268 / k));
    p = wasm_f64x2_relaxed_madd(p, s, wasm_f64x2_promote_low_f32x4(e));
    return wasm_f64x2_mul(p, wasm_f64x2_promote_low_f32x4(y));
}

static __attribute__((noinline)) v4 pow_rare(v4 x, v4 y) {
    f32 p[4], q[4];
    STORE(p, x), STORE(q, y);
    for (u32 i = 0; i < 4; i++) p[i] = powf(p[i], q[i]);
    return LOAD(p);
}

/* x^y as 2^n 2^f in float64, but for the last step. */
INLINE v4 pow4(v4 x, v4 y) {
    v4 e, m = split(x, &e);
    v4 low = log2_times(m, e, y);
    v4 high = log2_times(wasm_i64x2_shuffle(m, m, 1, 0), wasm_i64x2_shuffle(e, e, 1, 0),
                         wasm_i64x2_shuffle(y, y, 1, 0));
    v4 n = wasm_f64x2_nearest(low), k = wasm_f64x2_nearest(high);
    v4 f = wasm_i64x2_shuffle(wasm_f32x4_demote_f64x2_zero(wasm_f64x2_sub(low, n)),
                              wasm_f32x4_demote_f64x2_zero(wasm_f64x2_sub(high, k)), 0, 2);
    n = wasm_i64x2_shuffle(wasm_f32x4_demote_f64x2_zero(n),
                           wasm_f32x4_demote_f64x2_zero(k), 0, 2);
    v4 positive = wasm_v128_and(wasm_f32x4_gt(x, SPLAT(0)),
                                wasm_f32x4_lt(x, SPLAT(INFINITY)));
    v4 normal = wasm_f32x4_lt(wasm_f32x4_abs(n), SPLAT(126)); /* the result; no NaN */
    if (!wasm_i32x4_all_true(wasm_v128_and(positive, normal))) return pow_rare(x, y);
    v4 z = POLYNOMIAL(f, 1.534581097e-4f, 1.33999309e-3f, 9.618489072e-3f,
                      5.550328642e-2f, 2.402264625e-1f, 6.931471825e-1f, 1);
    return wasm_i32x4_add(z, wasm_i32x4_shl(wasm_i32x4_relaxed_trunc_f32x4(n), 23));
}

BINARY4(pow_f32, pow4)
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
