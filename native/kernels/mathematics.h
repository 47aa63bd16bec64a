/* Elementary functions of float32 vectors, accurate to 3 ulp, and correct for NaN,
   infinities and denormals. Each result depends only on its own element, not on
   neighboring elements. The polynomials are Taylor series or our own minimax fits. */
#pragma once
#include "plugrad.h"

#define AT_MOST(x, c) PMIN(x, VEC(c)) /* NaN propagates */
#define AT_LEAST(x, c) PMAX(x, VEC(c))

INLINE vec polynomial(vec x, const f32 *c, u32 n) { /* highest power first */
    vec y = VEC(c[0]);
#pragma clang loop unroll(full)
    for (u32 i = 1; i < n; i++) y = FMA(y, x, VEC(c[i]));
    return y;
}
#define POLYNOMIAL(x, ...)                                                               \
    polynomial(x, (const f32[]){__VA_ARGS__}, sizeof((f32[]){__VA_ARGS__}) / 4)

#define LN2_HIGH 0.693145751953125f /* 15 bits, so that n LN2_HIGH is exact */
#define LN2_LOW 1.42860682030941723e-6f

/* Returns y such that e^x - 1 = x + x^2 * y, for |x| <= ln(2) / 2; the error is 0.12
   ulp. */
INLINE vec exp_tail(vec x) {
    return POLYNOMIAL(x, 1.38683163e-3f, 8.36642366e-3f, 4.16674651e-2f, 1.66665450e-1f,
                      0.49999997f);
}

/* Returns y 2^n for an integer n given as a float. 2^n is split into two factors, so
   that neither overflows. */
INLINE vec scale_by_power(vec y, vec n) {
    vec i = TO_INT(n), half = SHR(i, 1), one = VINT(0x3f800000), rest = ISUB(i, half);
    y = MUL(y, IADD(SHL(half, 23), one));
    return MUL(y, IADD(SHL(rest, 23), one));
}

/* Returns 2^f for |f| <= 1/2; the result is exactly 1 for f = 0. */
INLINE vec exp2_of_fraction(vec f) {
    return POLYNOMIAL(f, 1.534581097e-4f, 1.33999309e-3f, 9.618489072e-3f,
                      5.550328642e-2f, 2.402264625e-1f, 6.931471825e-1f, 1);
}

/* 1.5 * 2^23: adding it rounds a float32 to an integer, which is in the last bits of
   the sum. */
#define ROUND_TO_INT_MAGIC 12582912

/* Returns e^x for |x| <= 87, as 2^n 2^f. */
INLINE vec exp_near(vec x) {
    vec n = FMA(x, VEC(1.44269502f), VEC(ROUND_TO_INT_MAGIC));
    vec f = FMA(x, VEC(1.44269502f), SUB(VEC(ROUND_TO_INT_MAGIC), n));
    f = FMA(x, VEC(1.92596303e-8f), f);
    return IADD(exp2_of_fraction(f), SHL(n, 23));
}

/* Returns `nearby` where the mask `near` is set, and e^x elsewhere. It is not inlined,
   so that its constants do not occupy registers in the loop. */
static __attribute__((noinline)) vec exp_far(vec x, vec near, vec nearby) {
    vec a = AT_MOST(AT_LEAST(x, -105), 90);
    vec n = NEAREST(MUL(a, VEC(1.44269504f)));
    vec r = NMA(n, VEC(LN2_LOW), NMA(n, VEC(LN2_HIGH), a));
    vec y = FMA(MUL(r, r), exp_tail(r), r);
    return WHERE(near, nearby, scale_by_power(ADD(y, VEC(1)), n));
}

INLINE vec vec_exp(vec x) {
    vec near = LE(ABS(x), VEC(87)), y = exp_near(x);
    return ALL_TRUE(near) ? y : exp_far(x, near, y);
}

/* Returns `nearby` where `near` is set, and elsewhere 2^x, which may be subnormal, 0 or
   infinite. */
static __attribute__((noinline)) vec exp2_far(vec x, vec near, vec nearby) {
    vec a = AT_MOST(AT_LEAST(x, -151), 129), n = NEAREST(a);
    return WHERE(near, nearby, scale_by_power(exp2_of_fraction(SUB(a, n)), n));
}

INLINE vec vec_exp2(vec x) {
    vec near = LE(ABS(x), VEC(125)), n = ADD(x, VEC(ROUND_TO_INT_MAGIC));
    vec y = IADD(exp2_of_fraction(SUB(x, SUB(n, VEC(ROUND_TO_INT_MAGIC)))), SHL(n, 23));
    return ALL_TRUE(near) ? y : exp2_far(x, near, y);
}

INLINE vec vec_expm1(vec x) {
    vec a = AT_MOST(AT_LEAST(x, -30), 89);
    vec n = NEAREST(MUL(a, VEC(1.44269504f)));
    vec r = NMA(n, VEC(LN2_LOW), NMA(n, VEC(LN2_HIGH), a));
    vec y = FMA(MUL(r, r), exp_tail(r), r);
    /* 2^n (1 + y) - 1 = 2 (2^(n-1) y + (2^(n-1) - 1/2)): nothing overflows before the
       end. */
    vec i = TO_INT(n);
    vec half = SHL(IADD(i, VINT(126)), 23);
    vec z = FMA(half, y, SUB(half, VEC(0.5f)));
    z = WHERE(EQ(n, VEC(0)), y, ADD(z, z));
    return WHERE(EQ(x, VEC(0)), x, z); /* keeps -0 */
}

/* Returns m and e such that x = m 2^e and m is from sqrt(1/2) to sqrt(2), for positive
   finite x. */
INLINE vec split(vec x, vec *e) {
    vec tiny = LT(x, VEC(1.17549435e-38f));
    vec a = WHERE(tiny, MUL(x, VEC(8388608)), x);
    vec bits = ISUB(a, VINT(0x3f3504f3));
    vec k = SHR(bits, 23);
    *e = SUB(TO_FLOAT(k), AND(tiny, VEC(23)));
    return ISUB(a, SHL(k, 23));
}

/* Returns log(1 + f + c) + e ln 2, where 1 + f is a result of `split` and c is a
   correction. Uses the series of log((1 + s) / (1 - s)), s = f / (2 + f). */
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

INLINE vec vec_log1p(vec x) { /* corrected by (rounding error of 1 + x) / (1 + x) */
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

INLINE vec vec_tanh(vec x) { /* e / (e + 2), where e = e^(2|x|) - 1 */
    vec a = AT_MOST(ABS(x), 10), b = ADD(a, a);
    vec sum = FMA(b, VEC(1.44269504f), VEC(ROUND_TO_INT_MAGIC + 127));
    vec n = SUB(sum, VEC(ROUND_TO_INT_MAGIC + 127));
    vec r = NMA(n, VEC(0.693147182f), b); /* the error of r matters less for larger n */
    vec y = FMA(MUL(r, r), exp_tail(r), r), power = SHL(sum, 23);
    vec e = FMA(power, y, SUB(power, VEC(1)));
    return OR(DIV(e, ADD(e, VEC(2))), sign_of(x));
}

INLINE vec vec_sigmoid(vec x) { /* e^-|x| / (1 + e^-|x|) for negative x */
    vec e = vec_exp(OR(x, VEC(-0.0f))), y = DIV(VEC(1), ADD(e, VEC(1)));
    return WHERE(SHR(x, 31), MUL(e, y), y);
}

INLINE vec vec_softplus(vec x) { /* max(x, 0) + log(1 + e^-|x|) */
    vec e = vec_exp(OR(x, VEC(-0.0f)));
    vec big = GT(e, VEC(0.41421354f));
    vec f = WHERE(big, MUL(SUB(e, VEC(1)), VEC(0.5f)), e);
    vec y = log_near(f, VEC(0), AND(big, VEC(1)));
    return ADD(AT_LEAST(x, 0), y);
}

/* Returns sin(x + quarters * pi/2) for |x| <= 8000. First, a multiple of pi/2 is
   subtracted from x in four parts; three of them have so few bits that their products
   are exact. Then the Taylor series is evaluated. */
#define FAR 8000
INLINE vec sin_plus_quarters(vec x, i32 quarters) {
    vec sum = FMA(x, VEC(0.63661977f), VEC(ROUND_TO_INT_MAGIC + quarters));
    vec n = SUB(sum, VEC(ROUND_TO_INT_MAGIC + quarters)), r = NMA(n, VEC(0x1.92p+0f), x);
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
    return quarters ? y : WHERE(EQ(x, VEC(0)), x, y); /* keeps -0 */
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
        vec y = sin_plus_quarters(x, QUARTERS);                                          \
        return ALL_TRUE(LE(ABS(x), VEC(FAR))) ? y : NAME##_far(x, y);                    \
    }

TURN(vec_sin, sin, 0)
TURN(vec_cos, cos, 1)

/* Uses a polynomial in x^2 for erf(x) / x - 1 if |x| is below 0.9, and otherwise a
   polynomial in |x| for log2(1 - erf |x|). */
INLINE vec vec_erf(vec x) {
    vec a = ABS(x), z = MUL(x, x), b = AT_MOST(a, 4), n;
    vec inner = FMA(x, POLYNOMIAL(z, -6.090360112e-4f, 5.011962727e-3f, -2.677890845e-2f,
                                 1.128214076e-1f, -3.761252463e-1f, 1.283791512e-1f), x);
    vec power = POLYNOMIAL(b, -1.819796744e-3f, 2.258191071e-2f, -1.317510307e-1f,
                          -9.384062886e-1f, -1.616392493f, -2.628945746e-3f);
    vec f = SUB(power, SUB(n = ADD(power, VEC(ROUND_TO_INT_MAGIC)),
                           VEC(ROUND_TO_INT_MAGIC)));
    vec y = POLYNOMIAL(f, 1.327647129e-3f, 9.675540961e-3f, 5.550713092e-2f,
                      2.402212024e-1f, 6.93146944e-1f, 1.00000012f);
    y = SUB(VEC(1), IADD(y, SHL(n, 23)));
    return WHERE(GE(a, VEC(0.9f)), OR(y, sign_of(x)), inner);
}

#define SLOPE_OF_ERF 1.1283791670955126 /* 2 / sqrt(pi), the slope at 0 */

/* Tails of erf and gelu. The rounding error of an exponent becomes a relative error of
   the power, so squares are computed to twice the precision, by a fused multiply-add.
   On a WebAssembly engine whose FMA rounds twice, the results are only as accurate as a
   rounded exponent allows. benchmarks/fit_tails.py finds the polynomials.

   The power e^(-x^2) is e^(main + small) 2^n; the integer n is in the last bits of the
   field `n`, as in `exp_near`. */
typedef struct {
    vec main, small, n;
} Gaussian;

INLINE Gaussian gaussian(vec x) { /* requires |x| <= 10.5 */
    vec high = MUL(x, x), low = FMA(x, x, NEG(high));
    Gaussian e;
    e.n = FMA(high, VEC(-1.44269504f), VEC(ROUND_TO_INT_MAGIC));
    vec n = SUB(e.n, VEC(ROUND_TO_INT_MAGIC));
    e.main = NMA(n, VEC(LN2_HIGH), NEG(high));
    e.small = NMA(n, VEC(LN2_LOW), NEG(low));
    return e;
}

/* Returns y (1 + correction) e^(-x^2) without its factor 2^n. */
INLINE vec times_gaussian(vec y, vec correction, Gaussian e) {
    vec r = ADD(e.main, e.small);
    vec g = FMA(MUL(r, r), exp_tail(r), ADD(e.small, correction));
    return FMA(y, ADD(e.main, g), y);
}

/* e^(a^2) erfc(a) is y t (1 + correction) for a >= 0, by the polynomial of
   plugrad.plugin.erfc_polynomial; the correction is the rounding error of t. */
typedef struct {
    vec y, t, correction;
} ScaledErfc;

#define ERFC_OFFSET 0.75f
INLINE ScaledErfc scaled_erfc(vec a) {
    vec q = SUB(VEC(1), DIV(VEC(6), ADD(a, VEC(3)))); /* (a - 3) / (a + 3) */
    vec divisor = ADD(a, VEC(ERFC_OFFSET)), t = DIV(VEC(1), divisor);
    vec lost = SUB(AT_MOST(a, ERFC_OFFSET), SUB(divisor, AT_LEAST(a, ERFC_OFFSET)));
    vec correction = NMA(t, lost, NMA(t, divisor, VEC(1)));
    vec y = POLYNOMIAL(q, -0.00011725809204f, -0.00037458744075f, 0.00085601767103f,
                           0.0014597831144f, -0.010834257889f, 0.028049510785f,
                           -0.041718506293f, 0.027294285878f, 0.0376197189f,
                           -0.14936896198f, 0.67125431766f);
    return (ScaledErfc){y, t, correction};
}

/* Returns erfc(a) without its factor 2^n. */
INLINE vec erfc_tail(vec a, Gaussian e) {
    ScaledErfc s = scaled_erfc(a);
    return MUL(times_gaussian(s.y, s.correction, e), s.t);
}

INLINE vec power_exponent(Gaussian e) { return SUB(e.n, VEC(ROUND_TO_INT_MAGIC)); }
INLINE vec times_power(vec y, Gaussian e) { return IADD(y, SHL(e.n, 23)); }
INLINE vec erfc_of(vec x, vec y) { return WHERE(LT(x, VEC(0)), SUB(VEC(2), y), y); }

/* Returns `nearby` where `near` is set, and elsewhere erfc, which may be denormal. Like
   `exp_far`, it is not inlined. */
static __attribute__((noinline)) vec erfc_far(vec x, vec near, vec nearby) {
    vec a = AT_MOST(ABS(x), 10.5f);
    Gaussian e = gaussian(a);
    vec y = scale_by_power(erfc_tail(a, e), power_exponent(e));
    return WHERE(near, nearby, erfc_of(x, y));
}

INLINE vec vec_erfc(vec x) {
    vec a = ABS(x), near = LE(a, VEC(9));
    Gaussian e = gaussian(a);
    vec y = erfc_of(x, times_power(erfc_tail(a, e), e));
    return ALL_TRUE(near) ? y : erfc_far(x, near, y);
}

static __attribute__((noinline)) vec erf_slope_far(vec x, vec near, vec nearby) {
    Gaussian e = gaussian(AT_MOST(ABS(x), 10.5f));
    vec y = scale_by_power(times_gaussian(VEC((f32)SLOPE_OF_ERF), VEC(0), e),
                           power_exponent(e));
    return WHERE(near, nearby, y);
}

INLINE vec vec_erf_grad(vec dy, vec x) {
    vec near = LE(ABS(x), VEC(9));
    Gaussian e = gaussian(x);
    vec y = times_power(times_gaussian(VEC((f32)SLOPE_OF_ERF), VEC(0), e), e);
    return MUL(dy, ALL_TRUE(near) ? y : erf_slope_far(x, near, y));
}

#define SCALE 1.0507009873554805
#define ALPHA 1.6732632423543772
INLINE vec vec_elu(vec x) { return WHERE(GT(x, VEC(0)), x, vec_expm1(x)); }
INLINE vec vec_selu(vec x) {
    vec y = MUL(vec_expm1(x), VEC((f32)(SCALE * ALPHA)));
    return WHERE(GT(x, VEC(0)), MUL(x, VEC((f32)SCALE)), y);
}

#define ROOT_HALF 0.7071067811865476
#define DENSITY 0.3989422804014327 /* 1 / sqrt(2 pi) */

/* Returns e^(a^2 / 2) times the normal cumulative distribution function at -a, for a >=
   0. This needs fewer operations than erfc, but is less accurate. */
INLINE vec scaled_normal(vec a) {
    vec t = DIV(VEC(1), FMA(a, VEC((f32)ROOT_HALF), VEC(1.25f)));
    vec q = NMA(t, VEC(2.5f), VEC(1));
    vec y = POLYNOMIAL(q, 4.9725125048e-05f, 0.00029375129094f, 0.00042517606594f,
                          -0.00054644774272f, -0.0026995525837f, -0.0026764396986f,
                          0.0070179187354f, 0.024273364183f, -0.011017582148f,
                          -0.19278988017f, 0.45977864495f);
    return MUL(y, t);
}

/* Returns y e^(-a^2 / 2) without its factor 2^n; the integer n is in the last bits of
   `*n`. */
INLINE vec times_half(vec y, vec a, vec *n) {
    vec high = MUL(a, a), low = FMA(a, a, NEG(high)), log2e = VEC(-1.44269502f / 2);
    *n = FMA(high, log2e, VEC(ROUND_TO_INT_MAGIC));
    vec f = FMA(high, log2e, SUB(VEC(ROUND_TO_INT_MAGIC), *n));
    f = FMA(low, log2e, FMA(high, VEC(-1.92596303e-8f / 2), f));
    vec g = POLYNOMIAL(f, 1.534581097e-4f, 1.33999309e-3f, 9.618489072e-3f,
                      5.550328642e-2f, 2.402264625e-1f, 6.931471825e-1f);
    return FMA(y, MUL(f, g), y);
}

/* Returns `nearby` where `near` is set, and elsewhere gelu for x < -4. It multiplies by
   -a before it applies the power of 2, because the distribution function may be
   denormal where the product is not. */
static __attribute__((noinline)) vec gelu_far(vec x, vec near, vec nearby) {
    vec n, a = AT_MOST(ABS(x), 15), y = times_half(MUL(scaled_normal(a), NEG(a)), a, &n);
    y = WHERE(LT(x, VEC(0)), scale_by_power(y, SUB(n, VEC(ROUND_TO_INT_MAGIC))), x);
    return WHERE(near, nearby, WHERE(EQ(x, VEC(-INFINITY)), VEC(NAN), y));
}

/* Returns the normal cumulative distribution function at -a, accurate for a <= 4. Its
   base-2 logarithm is a polynomial minus a^2 log2(e) / 2; the polynomial also corrects
   the rounding of the factor log2(e) / 2. This needs fewer operations than
   `scaled_normal`. For a > 4, the result is so small that its error does not matter. */
INLINE vec normal_near(vec a) {
    vec log = POLYNOMIAL(SUB(a, VEC(2)), 2.6231224295e-07f, -9.0507733298e-07f,
                          -2.7475646248e-06f, 4.2929445601e-05f, -0.00034956151806f,
                          0.0023673548589f, -0.014272205721f, 0.082436132075f,
                          -0.5384362259f, -2.5725913294f);
    vec high = MUL(a, a), low = FMA(a, a, NEG(high)), log2e = VEC(-1.44269502f / 2);
    vec n = ADD(FMA(high, log2e, log), VEC(ROUND_TO_INT_MAGIC));
    vec f = ADD(FMA(high, log2e, SUB(VEC(ROUND_TO_INT_MAGIC), n)), FMA(low, log2e, log));
    vec y = POLYNOMIAL(f, 1.534581097e-4f, 1.33999309e-3f, 9.618489072e-3f, 5.550328642e-2f,
                      2.402264625e-1f, 6.931471825e-1f, 1);
    return IADD(y, SHL(n, 23));
}

INLINE vec vec_gelu(vec x) {
    vec near = GE(x, VEC(-4)), a = AT_MOST(ABS(x), 5.5f);
    vec y = NMA(a, normal_near(a), AT_LEAST(x, 0));
    return ALL_TRUE(near) ? y : gelu_far(x, near, y);
}

/* The slope of gelu is -u at -a and 1 + u at a; `slope_tail` returns u without its
   factor 2^n.
   */
INLINE vec slope_of(vec x, vec u) { return WHERE(LT(x, VEC(0)), NEG(u), ADD(u, VEC(1))); }
INLINE vec slope_tail(vec a, vec *n) {
    return times_half(FMA(a, VEC((f32)DENSITY), NEG(scaled_normal(a))), a, n);
}

static __attribute__((noinline)) vec gelu_slope_far(vec x, vec near, vec nearby) {
    vec n, u = slope_tail(AT_MOST(ABS(x), 15), &n);
    return WHERE(near, nearby,
                 slope_of(x, scale_by_power(u, SUB(n, VEC(ROUND_TO_INT_MAGIC)))));
}

INLINE vec gelu_slope(vec x) {
    vec n, a = ABS(x), near = LE(a, VEC(12.5f)), u = slope_tail(a, &n);
    vec y = slope_of(x, IADD(u, SHL(n, 23)));
    return ALL_TRUE(near) ? y : gelu_slope_far(x, near, y);
}
INLINE vec vec_gelu_grad(vec dy, vec x) { return MUL(dy, gelu_slope(x)); }

/* Returns e^-|u|, where u = sqrt(8 / pi) (x + 0.044715 x^3), or 0 if the result is below
   2^-125. The tanh approximation of gelu is x times the sigmoid of u. The constants are
   the coefficients of u times -log2(e). GELU_LINE has 22 bits, so that the rounding
   error of a sum that contains it can be computed exactly. */
#define TANH_SLOPE 1.5957691216057308 /* sqrt(8 / pi) */
#define GELU_LINE -2.3022079467773438f
#define GELU_LINE_REST -2.51366981e-07f
#define GELU_CUBE -0.10294324159622192f
#define GELU_CUBE_REST 2.01619844e-09f
INLINE vec exp_gelu_tanh(vec x) {
    vec a = ABS(x), square = MUL(a, a), rest = FMA(a, a, NEG(square));
    vec factor = FMA(square, VEC(GELU_CUBE), VEC(GELU_LINE));
    vec lost = FMA(square, VEC(GELU_CUBE), SUB(VEC(GELU_LINE), factor));
    lost = FMA(square, VEC(GELU_CUBE_REST), ADD(lost, VEC(GELU_LINE_REST)));
    lost = FMA(rest, VEC(GELU_CUBE), lost);
    vec u = MUL(a, factor), small = FMA(a, lost, FMA(a, factor, NEG(u)));
    vec n = ADD(u, VEC(ROUND_TO_INT_MAGIC)), f = ADD(SUB(u, SUB(n,
                                                                VEC(ROUND_TO_INT_MAGIC))), small);
    vec y = POLYNOMIAL(f, 1.534581097e-4f, 1.33999309e-3f, 9.618489072e-3f, 5.550328642e-2f,
                      2.402264625e-1f, 6.931471825e-1f, 1);
    return AND_NOT(IADD(y, SHL(n, 23)), LT(u, VEC(-125)));
}

INLINE vec vec_gelu_tanh(vec x) {
    vec e = exp_gelu_tanh(x), r = DIV(VEC(1), ADD(e, VEC(1)));
    return MUL(x, WHERE(LT(x, VEC(0)), MUL(e, r), r));
}
INLINE vec vec_gelu_tanh_grad(vec dy, vec x) {
    vec n = AT_MOST(AT_LEAST(x, -11), 11), e = exp_gelu_tanh(x);
    vec r = DIV(VEC(1), ADD(e, VEC(1))), low = MUL(e, r);
    vec slope = MUL(MUL(n, VEC((f32)TANH_SLOPE)), FMA(MUL(n, n), VEC(0.134145f), VEC(1)));
    return MUL(dy, FMA(MUL(slope, r), low, WHERE(LT(x, VEC(0)), low, r)));
}

/* Gradients are computed from the input x, not from the output y: 1 - y would lose all
   digits where y rounds to 1. */
INLINE vec vec_sigmoid_grad(vec dy, vec x) { /* e / (1 + e)^2, where e = e^-|x| */
    vec e = vec_exp(OR(x, VEC(-0.0f))), r = DIV(VEC(1), ADD(e, VEC(1)));
    return MUL(dy, MUL(MUL(e, r), r));
}
INLINE vec vec_tanh_grad(vec dy, vec x) { /* four times the sigmoid gradient at 2 x */
    vec e = vec_exp(OR(ADD(x, x), VEC(-0.0f))), r = DIV(VEC(1), ADD(e, VEC(1)));
    return MUL(dy, MUL(MUL(MUL(e, VEC(4)), r), r));
}

/* Returns e^(a^2) erfc(a) in float64, by the polynomial of
   plugrad.plugin.erfc_polynomial. */
static inline f64 scaled_erfc_f64(f64 a) {
    static const f64 terms[] = {
        -7.17909869071216e-10, -6.238766115543097e-09, -4.758036172765533e-09,
        5.3326905626357655e-08, 3.790169358447992e-08, -3.927842778767373e-07,
        7.970117003386988e-08, 2.7562060400530364e-06, -4.876406438481974e-06,
        -1.2677139492007422e-05, 6.967220644886231e-05, -7.988202836426113e-05,
        -0.0003843271313407982, 0.0023162031871228317, -0.007083801117971053,
        0.015372771272010137, -0.02534041877666945, 0.031089463588551206,
        -0.023278738668420302, -0.007015927046961294, 0.06236974578087602,
        -0.13457757061032433, 0.6507474237190416,
    };
    f64 q = (a - 4) / (a + 4), y = terms[0];
    for (u32 i = 1; i < sizeof terms / sizeof *terms; i++) y = y * q + terms[i];
    return y / (a + 0.75);
}

/* Returns y e^(-a^2 factor). `c` is `a` rounded to float32, so its square is exact;
   the rest of a^2 is small. */
static inline f64 times_gaussian_f64(f64 y, f64 a, f64 factor) {
    f64 c = (f64)(f32)a, rest = (c - a) * (c + a);
    return (y + y * expm1(rest * factor)) * exp(c * c * -factor);
}

static inline f64 gelu_f64_of(f64 x) {
    f64 size = fabs(x), a = size > 39 ? 39 : size, near = x > 39 ? 39 : x;
    f64 tail = near * scaled_erfc_f64(a * ROOT_HALF) * 0.5;
    tail = times_gaussian_f64(tail, a, 0.5);
    return x <= 0 ? tail : x - tail;
}

static inline f64 gelu_slope_f64(f64 x) {
    f64 size = fabs(x), a = size > 39 ? 39 : size;
    f64 u = a * DENSITY - scaled_erfc_f64(a * ROOT_HALF) * 0.5;
    u = times_gaussian_f64(u, a, 0.5);
    return x < 0 ? -u : 1 + u;
}

static inline f64 sigmoid_slope_f64(f64 x) {
    f64 e = exp(-fabs(x)), r = 1 / (1 + e);
    return e * r * r;
}

/* Returns e^-|u| as in `exp_gelu_tanh`, for |x| <= 22. `c` has 13 bits, and the high
   constants have few enough bits for an exact sum; the remainder of u is small. */
static inline f64 exp_gelu_tanh_f64(f64 x) {
    static const f64 line_high = 1.5957691216026433, cube_high = 0.07135391235351562;
    static const f64 line_low = 3.0874305383944692e-12, cube_low = 9.039190846237764e-07;
    f64 c = rint(x * 256) / 256, cube = c * c * c;
    f64 small = line_low * c + cube_low * cube;
    small += (x - c) * (TANH_SLOPE + 0.07135481627260025 * (x * x + x * c + c * c));
    return exp(-fabs(line_high * c + cube_high * cube)) * exp(x < 0 ? small : -small);
}

static inline f64 gelu_tanh_f64_of(f64 x) {
    f64 e = exp_gelu_tanh_f64(x > 22 ? 22 : x < -22 ? -22 : x);
    return x * ((x < 0 ? e : 1) / (1 + e));
}

static inline f64 gelu_tanh_slope_f64(f64 x) {
    f64 n = x > 22 ? 22 : x < -22 ? -22 : x, e = exp_gelu_tanh_f64(n), r = 1 / (1 + e);
    f64 slope = n * TANH_SLOPE * (n * n * 0.134145 + 1);
    return (x < 0 ? e : 1) * r + slope * (e * r * r);
}

static inline f64 erf_slope_f64(f64 x) {
    f64 size = fabs(x), a = size > 28 ? 28 : size;
    return times_gaussian_f64(SLOPE_OF_ERF, a, 1);
}

/* Returns e^x for x <= 0, and 0 where it would be denormal. Adding 1.5 * 2^23 + 127
   rounds to an integer n, which is in the last bits of the sum. NaN propagates. There
   are so few constants that all of them stay in registers. */
INLINE vec exp_below(vec x) {
    vec large = VEC(12582912 + 127), log2e = VEC(1.44269502f);
    vec sum = FMA(x, log2e, large), f = FMA(x, log2e, SUB(large, sum));
    f = FMA(x, VEC(1.92596303e-8f), f); /* the low part of log2(e) */
    vec y = POLYNOMIAL(f, 1.53533634e-4f, 1.33989006e-3f, 9.61843785e-3f,
                      5.55033237e-2f, 0.240226477f, 0.693147183f, 1);
    y = MUL(y, SHL(sum, 23)); /* n + 127 is the exponent of 2^n */
    return AND_NOT(y, LT(x, VEC(-87.3f)));
}

/* Functions of four lanes, for kernels that process four lanes. */
#if LANES == 4
#define OF_FOUR(NAME, FUNCTION)                                                          \
    INLINE v4 NAME(v4 x) { return FUNCTION(x); }
#else
#define OF_FOUR(NAME, FUNCTION)                                                          \
    INLINE v4 NAME(v4 x) { return first4(FUNCTION(with4(x))); }
#endif
OF_FOUR(expm1_4, vec_expm1)
OF_FOUR(sigmoid4, vec_sigmoid)
