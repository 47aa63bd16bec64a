/* Elementary functions of four float32, within 3 ulp, with NaN, infinities and
   denormals right. The polynomials are Taylor's or minimax fits of our own. */
#pragma once
#include "plugrad.h"

INLINE v4 polynomial(v4 x, const f32 *c, u32 n) { /* highest power first */
    v4 y = SPLAT(c[0]);
#pragma clang loop unroll(full)
    for (u32 i = 1; i < n; i++) y = FMA(y, x, SPLAT(c[i]));
    return y;
}
#define POLYNOMIAL(x, ...)                                                               \
    polynomial(x, (const f32[]){__VA_ARGS__}, sizeof((f32[]){__VA_ARGS__}) / 4)

#define LN2_HIGH 0.693145751953125f /* 15 bits: n times it is exact */
#define LN2_LOW 1.42860682030941723e-6f

/* e^x - 1 for |x| <= ln(2) / 2, as x + x^2 * y. */
INLINE v4 exp_tail(v4 x) {
    return POLYNOMIAL(x, 1.9841270e-4f, 1.3888889e-3f, 8.3333333e-3f, 4.16666667e-2f,
                      1.66666667e-1f, 0.5f);
}

/* 2^n for integers n in floating form, in two factors so that none overflows. */
INLINE v4 scaled(v4 y, v4 n) {
    v4 i = wasm_i32x4_trunc_sat_f32x4(n), half = wasm_i32x4_shr(i, 1);
    v4 one = wasm_i32x4_splat(0x3f800000), rest = wasm_i32x4_sub(i, half);
    y = MUL(y, wasm_i32x4_add(wasm_i32x4_shl(half, 23), one));
    return MUL(y, wasm_i32x4_add(wasm_i32x4_shl(rest, 23), one));
}

/* e^x for |x| <= 87, as 2^n 2^f. Adding LARGE rounds to the integer n, and the last bits
   of the sum are n. */
#define LARGE 12582912
INLINE v4 exp_near(v4 x) {
    v4 n = FMA(x, SPLAT(1.44269502f), SPLAT(LARGE));
    v4 f = FMA(x, SPLAT(1.44269502f), SUB(SPLAT(LARGE), n));
    f = FMA(x, SPLAT(1.92596303e-8f), f);
    v4 y = POLYNOMIAL(f, 1.534581097e-4f, 1.33999309e-3f, 9.618489072e-3f,
                      5.550328642e-2f, 2.402264625e-1f, 6.931471825e-1f, 1);
    return wasm_i32x4_add(y, wasm_i32x4_shl(n, 23));
}

/* Of any x; a call, so that its constants leave the registers to the loop. */
static __attribute__((noinline)) v4 exp_far(v4 x) {
    v4 a = AT_MOST(AT_LEAST(x, -105), 90);
    v4 n = wasm_f32x4_nearest(MUL(a, SPLAT(1.44269504f)));
    v4 r = NMA(n, SPLAT(LN2_LOW), NMA(n, SPLAT(LN2_HIGH), a));
    v4 y = FMA(MUL(r, r), exp_tail(r), r);
    return scaled(ADD(y, SPLAT(1)), n);
}

INLINE v4 exp4(v4 x) {
    v4 near = wasm_f32x4_le(wasm_f32x4_abs(x), SPLAT(87));
    return wasm_i32x4_all_true(near) ? exp_near(x) : exp_far(x);
}

INLINE v4 expm1_4(v4 x) {
    v4 a = AT_MOST(AT_LEAST(x, -30), 89);
    v4 n = wasm_f32x4_nearest(MUL(a, SPLAT(1.44269504f)));
    v4 r = NMA(n, SPLAT(LN2_LOW), NMA(n, SPLAT(LN2_HIGH), a));
    v4 y = FMA(MUL(r, r), exp_tail(r), r);
    /* 2^n (1 + y) - 1 = 2 (2^(n-1) y + (2^(n-1) - 1/2)): no overflow on the way. */
    v4 i = wasm_i32x4_trunc_sat_f32x4(n);
    v4 half = wasm_i32x4_shl(wasm_i32x4_add(i, wasm_i32x4_splat(126)), 23);
    v4 z = FMA(half, y, SUB(half, SPLAT(0.5f)));
    z = WHERE(wasm_f32x4_eq(n, SPLAT(0)), y, ADD(z, z));
    return WHERE(wasm_f32x4_eq(x, SPLAT(0)), x, z); /* -0 */
}

/* m and e with x = m 2^e, m from sqrt(1/2) to sqrt(2), for positive finite x. */
INLINE v4 split(v4 x, v4 *e) {
    v4 tiny = wasm_f32x4_lt(x, SPLAT(1.17549435e-38f));
    v4 a = WHERE(tiny, MUL(x, SPLAT(8388608)), x);
    v4 bits = wasm_i32x4_sub(a, wasm_i32x4_splat(0x3f3504f3));
    v4 k = wasm_i32x4_shr(bits, 23);
    *e = SUB(wasm_f32x4_convert_i32x4(k), wasm_v128_and(tiny, SPLAT(23)));
    return wasm_i32x4_sub(a, wasm_i32x4_shl(k, 23));
}

/* log(1 + f) + e ln 2 for 1 + f as `split` gives it, and c to be added to f. By the
   series of log((1 + s) / (1 - s)), s = f / (2 + f). */
INLINE v4 log_near(v4 f, v4 c, v4 e) {
    v4 s = DIV(f, ADD(f, SPLAT(2))), z = MUL(s, s), half = MUL(MUL(f, f), SPLAT(0.5f));
    v4 r = MUL(z, POLYNOMIAL(z, 0.1818182f + 0.03f, 0.22222222f, 0.28571429f, 0.4f,
                             0.66666667f));
    v4 low = FMA(e, SPLAT(LN2_LOW), c);
    v4 y = SUB(FMA(s, ADD(half, r), low), half);
    return FMA(e, SPLAT(LN2_HIGH), ADD(f, y));
}

INLINE v4 log4(v4 x) {
    v4 e, m = split(x, &e);
    v4 y = log_near(SUB(m, SPLAT(1)), SPLAT(0), e);
    y = WHERE(wasm_f32x4_eq(x, SPLAT(INFINITY)), x, y);
    y = WHERE(wasm_f32x4_eq(x, SPLAT(0)), SPLAT(-INFINITY), y);
    return WHERE(wasm_f32x4_ge(x, SPLAT(0)), y, SPLAT(NAN));
}

INLINE v4 log1p_4(v4 x) { /* what 1 + x loses comes back as a share of it */
    v4 u = ADD(x, SPLAT(1)), big = wasm_f32x4_gt(x, SPLAT(1));
    v4 lost = WHERE(big, SUB(SPLAT(1), SUB(u, x)), SUB(x, SUB(u, SPLAT(1))));
    v4 e, m = split(u, &e), f = SUB(m, SPLAT(1));
    v4 near = wasm_v128_and(wasm_f32x4_lt(x, SPLAT(0.41421354f)),
                            wasm_f32x4_gt(x, SPLAT(-0.29289323f)));
    v4 y = log_near(f, DIV(lost, u), e), z = log_near(x, SPLAT(0), SPLAT(0));
    y = WHERE(near, z, y);
    y = WHERE(wasm_f32x4_eq(x, SPLAT(INFINITY)), x, y);
    y = WHERE(wasm_f32x4_eq(x, SPLAT(-1)), SPLAT(-INFINITY), y);
    y = WHERE(wasm_f32x4_ge(x, SPLAT(-1)), y, SPLAT(NAN));
    return WHERE(wasm_f32x4_lt(wasm_f32x4_abs(x), SPLAT(1e-20f)), x, y);
}

INLINE v4 sign_of(v4 x) { return wasm_v128_and(x, SPLAT(-0.0f)); }

INLINE v4 tanh4(v4 x) { /* e / (e + 2) of e = e^2|x| - 1 */
    v4 a = AT_MOST(wasm_f32x4_abs(x), 10), b = ADD(a, a);
    v4 sum = FMA(b, SPLAT(1.44269504f), SPLAT(LARGE + 127));
    v4 n = SUB(sum, SPLAT(LARGE + 127));
    v4 r = NMA(n, SPLAT(LN2_LOW), NMA(n, SPLAT(LN2_HIGH), b));
    v4 y = FMA(MUL(r, r), exp_tail(r), r), power = wasm_i32x4_shl(sum, 23);
    v4 e = FMA(power, y, SUB(power, SPLAT(1)));
    return wasm_v128_or(DIV(e, ADD(e, SPLAT(2))), sign_of(x));
}

INLINE v4 sigmoid4(v4 x) { /* e^-|x| / (1 + e^-|x|) for negative x */
    v4 e = exp4(wasm_v128_or(x, SPLAT(-0.0f))), y = DIV(SPLAT(1), ADD(e, SPLAT(1)));
    return WHERE(wasm_i32x4_shr(x, 31), MUL(e, y), y);
}

INLINE v4 softplus4(v4 x) { /* max(x, 0) + log(1 + e^-|x|), of which the sum is halved */
    v4 e = exp4(wasm_v128_or(x, SPLAT(-0.0f)));
    v4 big = wasm_f32x4_gt(e, SPLAT(0.41421354f));
    v4 f = WHERE(big, MUL(SUB(e, SPLAT(1)), SPLAT(0.5f)), e);
    v4 y = log_near(f, SPLAT(0), wasm_v128_and(big, SPLAT(1)));
    return ADD(AT_LEAST(x, 0), y);
}

/* sin(x + quarters * pi/2) for |x| <= 8000: what the quarter turns leave, in four pieces
   of pi/2 of which three have few enough bits for exact products; then Taylor's series. */
#define FAR 8000
INLINE v4 turned(v4 x, i32 quarters) {
    v4 sum = FMA(x, SPLAT(0.63661977f), SPLAT(LARGE + quarters));
    v4 n = SUB(sum, SPLAT(LARGE + quarters)), r = NMA(n, SPLAT(0x1.92p+0f), x);
    r = NMA(n, SPLAT(0x1.fb4p-12f), r);
    r = NMA(n, SPLAT(0x1.444p-24f), r);
    r = NMA(n, SPLAT(0x1.68c234p-39f), r);
    v4 z = MUL(r, r);
    v4 s = POLYNOMIAL(z, 2.7557319e-6f, -1.9841270e-4f, 8.3333333e-3f, -1.66666667e-1f);
    v4 c = POLYNOMIAL(z, -2.7557319e-7f, 2.4801587e-5f, -1.3888889e-3f, 4.16666667e-2f);
    s = FMA(MUL(z, r), s, r);
    c = ADD(FMA(MUL(z, z), c, MUL(z, SPLAT(-0.5f))), SPLAT(1));
    v4 odd = wasm_i32x4_shr(wasm_i32x4_shl(sum, 31), 31);
    v4 minus = wasm_i32x4_shl(wasm_u32x4_shr(sum, 1), 31);
    v4 y = wasm_v128_xor(WHERE(odd, c, s), minus);
    return quarters ? y : WHERE(wasm_f32x4_eq(x, SPLAT(0)), x, y); /* -0 */
}

#define TURN(NAME, LIBRARY, QUARTERS)                                                    \
    static __attribute__((noinline)) v4 NAME##_far(v4 x) {                               \
        f32 t[4];                                                                        \
        STORE(t, x);                                                                     \
        for (u32 i = 0; i < 4; i++) t[i] = (f32)LIBRARY(t[i]);                           \
        return LOAD(t);                                                                  \
    }                                                                                    \
    INLINE v4 NAME(v4 x) {                                                               \
        v4 near = wasm_f32x4_le(wasm_f32x4_abs(x), SPLAT(FAR));                          \
        return wasm_i32x4_all_true(near) ? turned(x, QUARTERS) : NAME##_far(x);          \
    }

/* erf(x) / x - 1 in x^2 up to 0.9, log2(1 - erf x) in x beyond. */
INLINE v4 erf4(v4 x) {
    v4 a = wasm_f32x4_abs(x), z = MUL(x, x), b = AT_MOST(a, 4), n;
    v4 inner = FMA(x, POLYNOMIAL(z, -6.090360112e-4f, 5.011962727e-3f, -2.677890845e-2f,
                                 1.128214076e-1f, -3.761252463e-1f, 1.283791512e-1f), x);
    v4 power = POLYNOMIAL(b, -1.819796744e-3f, 2.258191071e-2f, -1.317510307e-1f,
                          -9.384062886e-1f, -1.616392493f, -2.628945746e-3f);
    v4 f = SUB(power, SUB(n = ADD(power, SPLAT(LARGE)), SPLAT(LARGE)));
    v4 y = POLYNOMIAL(f, 1.327647129e-3f, 9.675540961e-3f, 5.550713092e-2f,
                      2.402212024e-1f, 6.93146944e-1f, 1.00000012f);
    y = SUB(SPLAT(1), wasm_i32x4_add(y, wasm_i32x4_shl(n, 23)));
    return WHERE(wasm_f32x4_ge(a, SPLAT(0.9f)), wasm_v128_or(y, sign_of(x)), inner);
}
