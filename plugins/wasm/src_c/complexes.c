/* Complex numbers. Functions of complex64 are computed in double precision. */
#include <complex.h>

#include "elementwise.h"

/* The textbook product. clang's operator calls a function that turns NaN into
   infinities. */
INLINE c128 multiply(c128 p, c128 q) {
    f64 a = creal(p), b = cimag(p), c = creal(q), d = cimag(q);
    return CMPLX(a * c - b * d, a * d + b * c);
}

/* Divides by the larger part of the divisor first, so that no intermediate overflows.
   */
INLINE c128 divide(c128 p, c128 q) {
    f64 a = creal(p), b = cimag(p), c = creal(q), d = cimag(q);
    if (c == 0 && d == 0) return CMPLX(a / fabs(c), b / fabs(c));
    if (fabs(c) >= fabs(d)) {
        f64 r = d / c, s = c + d * r;
        return CMPLX((a + b * r) / s, (b - a * r) / s);
    }
    f64 r = c / d, s = c * r + d;
    return CMPLX((a * r + b) / s, (b * r - a) / s);
}

/* Returns 1 / z. In divide(1, z), the imaginary part 0 of 1 would affect the signs of
   zeros. */
INLINE c128 reciprocal_of(c128 z) {
    f64 c = creal(z), d = cimag(z);
    if (fabs(c) >= fabs(d)) {
        f64 r = d / c, s = c + d * r;
        return CMPLX(1 / s, -r / s);
    }
    f64 r = c / d, s = c * r + d;
    return CMPLX(r / s, -1 / s);
}

static c128 log_of(c128 z) {
    f64 a = fabs(creal(z)), b = fabs(cimag(z)), x = MAX(a, b), y = MIN(a, b);
    if (x > 0.5 && a < 1.5 && b < 1.5) /* |z|^2 - 1 without cancellation; z is not NaN */
        return CMPLX(0.5 * log1p((x - 1) * (x + 1) + y * y), carg(z));
    return CMPLX(log(hypot(a, b)), carg(z));
}

static c128 log1p_of(c128 z) {
    f64 a = creal(z), b = cimag(z);
    if (fabs(a) < 0.5 && fabs(b) < 0.5)
        return CMPLX(0.5 * log1p(a * (2 + a) + b * b), atan2(b, 1 + a));
    return CMPLX(log(hypot(1 + a, b)), atan2(b, 1 + a));
}

/* e^a cos b - 1 = (e^a - 1) cos b - 2 sin(b/2)^2. For -0, the real part is +0. */
static c128 expm1_of(c128 z) {
    f64 a = creal(z), b = cimag(z), half = sin(b / 2);
    if (b == 0) return CMPLX(expm1(a) + 0.0, b);
    if (!isfinite(a) || !isfinite(b)) return cexp(z) - 1;
    return CMPLX(expm1(a) * cos(b) - 2 * half * half, exp(a) * sin(b));
}

static c128 pow_of(c128 p, c128 q) {
    f64 n = creal(q);
    if (q == 0) return 1;
    if (p == 0) return n > 0 ? 0 : CMPLX(NAN, NAN);
    if (cimag(q) == 0 && n == floor(n) && fabs(n) < 100) {
        if (n == 1) return p; /* a product with 1 would turn an infinity into NaN */
        if (n == 2) return multiply(p, p);
        if (n == 3) return multiply(p, multiply(p, p));
        c128 y = 1, base = p;
        for (u32 k = (u32)fabs(n); k; k >>= 1, base = multiply(base, base))
            if (k & 1) y = multiply(y, base);
        return n < 0 ? divide(1, y) : y;
    }
    return cexp(multiply(q, log_of(p)));
}

/* Kahan's formula, as in musl. At infinities, musl takes the sign of the zero from
   sin(2b), but the array API standard takes it from b. */
static c128 tanh_of(c128 z) {
    f64 a = creal(z), b = cimag(z);
    if (isinf(a)) return CMPLX(copysign(1, a), copysign(0, b));
    if (!isfinite(b)) return CMPLX(a == 0 ? a : NAN, NAN);
    if (isnan(a)) return CMPLX(a, b == 0 ? b : a);
    if (fabs(a) >= 22) {
        f64 small = exp(-fabs(a));
        return CMPLX(copysign(1, a), 4 * sin(b) * cos(b) * small * small);
    }
    f64 t = tan(b), s = sinh(a), beta = 1 + t * t, d = 1 + beta * s * s;
    return CMPLX(beta * sqrt(1 + s * s) * s / d, t / d);
}

static c128 sign_of(c128 z) {
    f64 size = MAX(fabs(creal(z)), fabs(cimag(z)));
    if (!(size > 0 && size < (f64)INFINITY)) size = 1;
    z = CMPLX(creal(z) / size, cimag(z) / size);
    return z == 0 ? 0 : z / hypot(creal(z), cimag(z));
}

#define COMPLEX(T, R)                                                                    \
    BINARY_SMALL(add_##T, T, T, GRAIN, p + q)                                            \
    BINARY_SMALL(sub_##T, T, T, GRAIN, p - q)                                            \
    BINARY_SMALL(mul_##T, T, T, GRAIN, (T)multiply(p, q))                                \
    BINARY_SMALL(div_##T, T, T, SLOW, (T)divide(p, q))                                   \
    BINARY_SMALL(pow_##T, T, T, SLOW, (T)pow_of(p, q))                                   \
    BINARY_SMALL(equal_##T, T, u8, GRAIN, p == q)                                        \
    UNARY_SMALL(neg_##T, T, T, GRAIN, -a)                                                \
    UNARY_SMALL(square_##T, T, T, GRAIN, (T)multiply(a, a))                              \
    UNARY_SMALL(reciprocal_##T, T, T, GRAIN, (T)reciprocal_of(a))                         \
    UNARY_SMALL(exp_##T, T, T, SLOW, (T)cexp(a))                                         \
    UNARY_SMALL(expm1_##T, T, T, SLOW, (T)expm1_of(a))                                   \
    UNARY_SMALL(log_##T, T, T, SLOW, (T)log_of(a))                                       \
    UNARY_SMALL(log1p_##T, T, T, SLOW, (T)log1p_of(a))                                   \
    UNARY_SMALL(sin_##T, T, T, SLOW, (T)csin(a))                                         \
    UNARY_SMALL(cos_##T, T, T, SLOW, (T)ccos(a))                                         \
    UNARY_SMALL(tanh_##T, T, T, SLOW, (T)tanh_of(a))                                     \
    UNARY_SMALL(sqrt_##T, T, T, SLOW, (T)csqrt(a))                                       \
    UNARY_SMALL(sign_##T, T, T, SLOW, (T)sign_of(a))                                     \
    UNARY_SMALL(abs_##T, T, R, SLOW, (R)hypot(creal(a), cimag(a)))
COMPLEX(c64, f32)
COMPLEX(c128, f64)
