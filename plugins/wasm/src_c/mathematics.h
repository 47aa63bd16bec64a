/* Elementary functions of vectors of float32, within 3 ulp, with NaN, infinities and
   denormals right. A result depends on its element alone, not on those beside it. The
   polynomials are Taylor's or minimax fits of our own. */
#pragma once
#include "plugrad.h"

#define AT_MOST(x, c) PMIN(x, VEC(c)) /* NaN stays NaN */
#define AT_LEAST(x, c) PMAX(x, VEC(c))

INLINE vec polynomial(vec x, const f32 *c, u32 n) { /* highest power first */
    vec y = VEC(c[0]);
#pragma clang loop unroll(full)
    for (u32 i = 1; i < n; i++) y = FMA(y, x, VEC(c[i]));
    return y;
}
#define POLYNOMIAL(x, ...)                                                               \
    polynomial(x, (const f32[]){__VA_ARGS__}, sizeof((f32[]){__VA_ARGS__}) / 4)

#define LN2_HIGH 0.693145751953125f /* 15 bits: n times it is exact */
#define LN2_LOW 1.42860682030941723e-6f

/* e^x - 1 for |x| <= ln(2) / 2, as x + x^2 * y, of which the error is 0.12 ulp. */
INLINE vec exp_tail(vec x) {
    return POLYNOMIAL(x, 1.38683163e-3f, 8.36642366e-3f, 4.16674651e-2f, 1.66665450e-1f,
                      0.49999997f);
}

/* 2^n for integers n in floating form, in two factors so that none overflows. */
INLINE vec scaled(vec y, vec n) {
    vec i = TO_INT(n), half = SHR(i, 1), one = VINT(0x3f800000), rest = ISUB(i, half);
    y = MUL(y, IADD(SHL(half, 23), one));
    return MUL(y, IADD(SHL(rest, 23), one));
}

/* 2^f for |f| <= 1/2; of 0 it is 1. */
INLINE vec exp2_of_fraction(vec f) {
    return POLYNOMIAL(f, 1.534581097e-4f, 1.33999309e-3f, 9.618489072e-3f,
                      5.550328642e-2f, 2.402264625e-1f, 6.931471825e-1f, 1);
}

/* e^x for |x| <= 87, as 2^n 2^f. Adding LARGE rounds to the integer n, and the last bits
   of the sum are n. */
#define LARGE 12582912
INLINE vec exp_near(vec x) {
    vec n = FMA(x, VEC(1.44269502f), VEC(LARGE));
    vec f = FMA(x, VEC(1.44269502f), SUB(VEC(LARGE), n));
    f = FMA(x, VEC(1.92596303e-8f), f);
    return IADD(exp2_of_fraction(f), SHL(n, 23));
}

/* `nearby`, and of x that is not near e^x; a call, so that its constants leave the registers to
   the loop. */
static __attribute__((noinline)) vec exp_far(vec x, vec near, vec nearby) {
    vec a = AT_MOST(AT_LEAST(x, -105), 90);
    vec n = NEAREST(MUL(a, VEC(1.44269504f)));
    vec r = NMA(n, VEC(LN2_LOW), NMA(n, VEC(LN2_HIGH), a));
    vec y = FMA(MUL(r, r), exp_tail(r), r);
    return WHERE(near, nearby, scaled(ADD(y, VEC(1)), n));
}

INLINE vec vec_exp(vec x) {
    vec near = LE(ABS(x), VEC(87)), y = exp_near(x);
    return ALL_TRUE(near) ? y : exp_far(x, near, y);
}

/* `nearby`, and of x that is not near 2^x, where it is subnormal, 0 or infinite, too. */
static __attribute__((noinline)) vec exp2_far(vec x, vec near, vec nearby) {
    vec a = AT_MOST(AT_LEAST(x, -151), 129), n = NEAREST(a);
    return WHERE(near, nearby, scaled(exp2_of_fraction(SUB(a, n)), n));
}

INLINE vec vec_exp2(vec x) {
    vec near = LE(ABS(x), VEC(125)), n = ADD(x, VEC(LARGE));
    vec y = IADD(exp2_of_fraction(SUB(x, SUB(n, VEC(LARGE)))), SHL(n, 23));
    return ALL_TRUE(near) ? y : exp2_far(x, near, y);
}

INLINE vec vec_expm1(vec x) {
    vec a = AT_MOST(AT_LEAST(x, -30), 89);
    vec n = NEAREST(MUL(a, VEC(1.44269504f)));
    vec r = NMA(n, VEC(LN2_LOW), NMA(n, VEC(LN2_HIGH), a));
    vec y = FMA(MUL(r, r), exp_tail(r), r);
    /* 2^n (1 + y) - 1 = 2 (2^(n-1) y + (2^(n-1) - 1/2)): no overflow on the way. */
    vec i = TO_INT(n);
    vec half = SHL(IADD(i, VINT(126)), 23);
    vec z = FMA(half, y, SUB(half, VEC(0.5f)));
    z = WHERE(EQ(n, VEC(0)), y, ADD(z, z));
    return WHERE(EQ(x, VEC(0)), x, z); /* -0 */
}

/* m and e with x = m 2^e, m from sqrt(1/2) to sqrt(2), for positive finite x. */
INLINE vec split(vec x, vec *e) {
    vec tiny = LT(x, VEC(1.17549435e-38f));
    vec a = WHERE(tiny, MUL(x, VEC(8388608)), x);
    vec bits = ISUB(a, VINT(0x3f3504f3));
    vec k = SHR(bits, 23);
    *e = SUB(TO_FLOAT(k), AND(tiny, VEC(23)));
    return ISUB(a, SHL(k, 23));
}

/* log(1 + f) + e ln 2 for 1 + f as `split` gives it, and c to be added to f. By the
   series of log((1 + s) / (1 - s)), s = f / (2 + f). */
INLINE vec log_near(vec f, vec c, vec e) {
    vec s = DIV(f, ADD(f, VEC(2))), z = MUL(s, s), half = MUL(MUL(f, f), VEC(0.5f));
    vec r = MUL(z, POLYNOMIAL(z, 0.1818182f + 0.03f, 0.22222222f, 0.28571429f, 0.4f,
                             0.66666667f));
    vec low = FMA(e, VEC(LN2_LOW), c);
    vec y = SUB(FMA(s, ADD(half, r), low), half);
    return FMA(e, VEC(LN2_HIGH), ADD(f, y));
}

INLINE vec vec_log(vec x) {
    vec e, m = split(x, &e);
    vec y = log_near(SUB(m, VEC(1)), VEC(0), e);
    y = WHERE(EQ(x, VEC(INFINITY)), x, y);
    y = WHERE(EQ(x, VEC(0)), VEC(-INFINITY), y);
    return WHERE(GE(x, VEC(0)), y, VEC(NAN));
}

INLINE vec vec_log1p(vec x) { /* what 1 + x loses comes back as a share of it */
    vec u = ADD(x, VEC(1)), big = GT(x, VEC(1));
    vec lost = WHERE(big, SUB(VEC(1), SUB(u, x)), SUB(x, SUB(u, VEC(1))));
    vec e, m = split(u, &e), f = SUB(m, VEC(1));
    vec near = AND(LT(x, VEC(0.41421354f)),
                            GT(x, VEC(-0.29289323f)));
    vec y = log_near(WHERE(near, x, f), AND_NOT(DIV(lost, u), near), AND_NOT(e, near));
    y = WHERE(EQ(x, VEC(INFINITY)), x, y);
    y = WHERE(EQ(x, VEC(-1)), VEC(-INFINITY), y);
    y = WHERE(GE(x, VEC(-1)), y, VEC(NAN));
    return WHERE(LT(ABS(x), VEC(1e-20f)), x, y);
}

INLINE vec sign_of(vec x) { return AND(x, VEC(-0.0f)); }

INLINE vec vec_tanh(vec x) { /* e / (e + 2) of e = e^2|x| - 1 */
    vec a = AT_MOST(ABS(x), 10), b = ADD(a, a);
    vec sum = FMA(b, VEC(1.44269504f), VEC(LARGE + 127));
    vec n = SUB(sum, VEC(LARGE + 127));
    vec r = NMA(n, VEC(0.693147182f), b); /* its error is of less weight than n is large */
    vec y = FMA(MUL(r, r), exp_tail(r), r), power = SHL(sum, 23);
    vec e = FMA(power, y, SUB(power, VEC(1)));
    return OR(DIV(e, ADD(e, VEC(2))), sign_of(x));
}

INLINE vec vec_sigmoid(vec x) { /* e^-|x| / (1 + e^-|x|) for negative x */
    vec e = vec_exp(OR(x, VEC(-0.0f))), y = DIV(VEC(1), ADD(e, VEC(1)));
    return WHERE(SHR(x, 31), MUL(e, y), y);
}

INLINE vec vec_softplus(vec x) { /* max(x, 0) + log(1 + e^-|x|), of which the sum is halved */
    vec e = vec_exp(OR(x, VEC(-0.0f)));
    vec big = GT(e, VEC(0.41421354f));
    vec f = WHERE(big, MUL(SUB(e, VEC(1)), VEC(0.5f)), e);
    vec y = log_near(f, VEC(0), AND(big, VEC(1)));
    return ADD(AT_LEAST(x, 0), y);
}

/* sin(x + quarters * pi/2) for |x| <= 8000: what the quarter turns leave, in four pieces
   of pi/2 of which three have few enough bits for exact products; then Taylor's series. */
#define FAR 8000
INLINE vec turned(vec x, i32 quarters) {
    vec sum = FMA(x, VEC(0.63661977f), VEC(LARGE + quarters));
    vec n = SUB(sum, VEC(LARGE + quarters)), r = NMA(n, VEC(0x1.92p+0f), x);
    r = NMA(n, VEC(0x1.fb4p-12f), r);
    r = NMA(n, VEC(0x1.444p-24f), r);
    r = NMA(n, VEC(0x1.68c234p-39f), r);
    vec z = MUL(r, r);
    vec s = POLYNOMIAL(z, 2.7557319e-6f, -1.9841270e-4f, 8.3333333e-3f, -1.66666667e-1f);
    vec c = POLYNOMIAL(z, -2.7557319e-7f, 2.4801587e-5f, -1.3888889e-3f, 4.16666667e-2f);
    s = FMA(MUL(z, r), s, r);
    c = ADD(FMA(MUL(z, z), c, MUL(z, VEC(-0.5f))), VEC(1));
    vec odd = SHR(SHL(sum, 31), 31);
    vec minus = SHL(USHR(sum, 1), 31);
    vec y = XOR(WHERE(odd, c, s), minus);
    return quarters ? y : WHERE(EQ(x, VEC(0)), x, y); /* -0 */
}

#define TURN(NAME, LIBRARY, QUARTERS)                                                    \
    static __attribute__((noinline)) vec NAME##_far(vec x, vec y) {                      \
        f32 from[LANES], t[LANES];                                                       \
        STORE(from, x), STORE(t, y);                                                     \
        for (u32 i = 0; i < LANES; i++)                                                  \
            if (!(fabsf(from[i]) <= FAR)) t[i] = (f32)LIBRARY(from[i]);                  \
        return VLOAD(t);                                                                 \
    }                                                                                    \
    INLINE vec NAME(vec x) {                                                             \
        vec y = turned(x, QUARTERS);                                                     \
        return ALL_TRUE(LE(ABS(x), VEC(FAR))) ? y : NAME##_far(x, y);                    \
    }

TURN(vec_sin, sin, 0)
TURN(vec_cos, cos, 1)

/* erf(x) / x - 1 in x^2 up to 0.9, log2(1 - erf x) in x beyond. */
INLINE vec vec_erf(vec x) {
    vec a = ABS(x), z = MUL(x, x), b = AT_MOST(a, 4), n;
    vec inner = FMA(x, POLYNOMIAL(z, -6.090360112e-4f, 5.011962727e-3f, -2.677890845e-2f,
                                 1.128214076e-1f, -3.761252463e-1f, 1.283791512e-1f), x);
    vec power = POLYNOMIAL(b, -1.819796744e-3f, 2.258191071e-2f, -1.317510307e-1f,
                          -9.384062886e-1f, -1.616392493f, -2.628945746e-3f);
    vec f = SUB(power, SUB(n = ADD(power, VEC(LARGE)), VEC(LARGE)));
    vec y = POLYNOMIAL(f, 1.327647129e-3f, 9.675540961e-3f, 5.550713092e-2f,
                      2.402212024e-1f, 6.93146944e-1f, 1.00000012f);
    y = SUB(VEC(1), IADD(y, SHL(n, 23)));
    return WHERE(GE(a, VEC(0.9f)), OR(y, sign_of(x)), inner);
}

#define SLOPE_OF_ERF 1.1283791670955126 /* at 0: 2 / sqrt(pi) */
INLINE vec vec_erf_grad(vec dy, vec x) {
    return MUL(dy, MUL(vec_exp(MUL(x, NEG(x))), VEC((f32)SLOPE_OF_ERF)));
}

#define SCALE 1.0507009873554805
#define ALPHA 1.6732632423543772
INLINE vec vec_elu(vec x) { return WHERE(GT(x, VEC(0)), x, vec_expm1(x)); }
INLINE vec vec_selu(vec x) {
    vec y = MUL(vec_expm1(x), VEC((f32)(SCALE * ALPHA)));
    return WHERE(GT(x, VEC(0)), MUL(x, VEC((f32)SCALE)), y);
}

/* GELU and its slope rounds each operation as its parts would: no FMA. */
INLINE vec normal(vec x) {
    return ADD(MUL(vec_erf(MUL(x, VEC(0.70710678f))), VEC(0.5f)), VEC(0.5f));
}
INLINE vec vec_gelu(vec x) { return MUL(x, normal(x)); }
INLINE vec vec_gelu_grad(vec dy, vec x) {
    vec n = AT_MOST(AT_LEAST(x, -40), 40), e = vec_exp(MUL(MUL(n, n), VEC(-0.5f)));
    return MUL(dy, ADD(normal(x), MUL(MUL(n, e), VEC(0.39894228f))));
}
INLINE vec near_tanh(vec n) {
    vec factor = ADD(MUL(MUL(n, n), VEC(0.044715f)), VEC(1));
    return vec_tanh(MUL(MUL(n, factor), VEC(0.79788456f)));
}
INLINE vec vec_gelu_tanh(vec x) {
    vec t = near_tanh(AT_MOST(AT_LEAST(x, -10), 10));
    return MUL(x, ADD(MUL(t, VEC(0.5f)), VEC(0.5f)));
}
INLINE vec vec_gelu_tanh_grad(vec dy, vec x) {
    vec n = AT_MOST(AT_LEAST(x, -10), 10), t = near_tanh(n);
    vec factor = ADD(MUL(MUL(n, n), VEC(0.134145f)), VEC(1));
    vec inner = MUL(SUB(VEC(1), MUL(t, t)), factor);
    vec slope = MUL(MUL(n, inner), VEC(0.39894228f));
    return MUL(dy, ADD(ADD(MUL(t, VEC(0.5f)), VEC(0.5f)), slope));
}

/* The same of four, for kernels whose structure is four. */
#if LANES == 4
#define OF_FOUR(NAME, FUNCTION)                                                          \
    INLINE v4 NAME(v4 x) { return FUNCTION(x); }
#else
#define OF_FOUR(NAME, FUNCTION)                                                          \
    INLINE v4 NAME(v4 x) { return first4(FUNCTION(with4(x))); }
#endif
OF_FOUR(expm1_4, vec_expm1)
OF_FOUR(sigmoid4, vec_sigmoid)
