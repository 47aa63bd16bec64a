/* Unary functions. Float64 functions and rarely used float32 functions come from the C
   library. */
#include "elementwise.h"
#include "mathematics.h"

UNARY_VEC(exp_f32, vec_exp)
UNARY_VEC(exp2_f32, vec_exp2)
UNARY_VEC(expm1_f32, vec_expm1)
UNARY_VEC(log_f32, vec_log)
UNARY_VEC(log1p_f32, vec_log1p)
UNARY_VEC(tanh_f32, vec_tanh)
UNARY_VEC(sigmoid_f32, vec_sigmoid)
UNARY_VEC(softplus_f32, vec_softplus)
UNARY_VEC(erf_f32, vec_erf)
UNARY_VEC(erfc_f32, vec_erfc)
UNARY_VEC(sin_f32, vec_sin)
UNARY_VEC(cos_f32, vec_cos)
UNARY_VEC(sqrt_f32, SQRT)

#define LIBRARY(X)                                                                       \
    X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(asinh) X(atanh)
#define BY_DOUBLE(NAME) UNARY_SMALL(NAME##_f32, f32, f32, SLOW, (f32)NAME(a))
#define DOUBLE(NAME) UNARY_SMALL(NAME##_f64, f64, f64, SLOW, NAME(a))
LIBRARY(BY_DOUBLE)
LIBRARY(DOUBLE)
UNARY_SMALL(acosh_f32, f32, f32, SLOW, a < 1 ? NAN : (f32)acosh(a))
UNARY_SMALL(acosh_f64, f64, f64, SLOW, a < 1 ? NAN : acosh(a))
DOUBLE(sin)
DOUBLE(cos)
DOUBLE(exp)
DOUBLE(exp2)
DOUBLE(expm1)
DOUBLE(log)
DOUBLE(log1p)
DOUBLE(tanh)
DOUBLE(erf)
DOUBLE(erfc)
UNARY_SMALL(sigmoid_f64, f64, f64, SLOW, a < 0 ? exp(a) / (1 + exp(a)) : 1 / (1 + exp(-a)))
UNARY_SMALL(softplus_f64, f64, f64, SLOW, a != a ? a : (a > 0 ? a : 0) + log1p(exp(-fabs(a))))

#define FLOATING(UNARY, T, F)                                                            \
    UNARY(floor_##T, T, T, GRAIN, __builtin_floor##F(a))                                 \
    UNARY(ceil_##T, T, T, GRAIN, __builtin_ceil##F(a))                                   \
    UNARY(trunc_##T, T, T, GRAIN, __builtin_trunc##F(a))                                 \
    UNARY(round_##T, T, T, GRAIN, __builtin_rint##F(a))                                  \
    UNARY(rsqrt_##T, T, T, GRAIN, 1 / __builtin_sqrt##F(a))                              \
    UNARY(reciprocal_##T, T, T, GRAIN, 1 / a)                                            \
    UNARY(neg_##T, T, T, GRAIN, -a)                                                      \
    UNARY(square_##T, T, T, GRAIN, (a * a))                                              \
    UNARY(abs_##T, T, T, GRAIN, __builtin_fabs##F(a))                                    \
    UNARY_SMALL(sign_##T, T, T, GRAIN, a != a ? a : (T)((a > 0) - (a < 0)))              \
    UNARY_SMALL(isnan_##T, T, u8, GRAIN, a != a)                                         \
    UNARY_SMALL(isinf_##T, T, u8, GRAIN, __builtin_fabs##F(a) == (T)INFINITY)            \
    UNARY_SMALL(isfinite_##T, T, u8, GRAIN, __builtin_fabs##F(a) < (T)INFINITY)            \
    UNARY_SMALL(signbit_##T, T, u8, GRAIN, !!__builtin_signbit(a))
FLOATING(UNARY, f32, f)
FLOATING(UNARY_SMALL, f64, )
UNARY_SMALL(signbit_f16, u16, u8, GRAIN, a >> 15)
UNARY_SMALL(sqrt_f64, f64, f64, GRAIN, __builtin_sqrt(a))

#define SIGNED(T, U)                                                                     \
    UNARY_SMALL(abs_##T, T, T, GRAIN, (T)(a < 0 ? -(U)a : (U)a))                         \
    UNARY_SMALL(sign_##T, T, T, GRAIN, (T)((a > 0) - (a < 0)))                           \
    UNARY_SMALL(neg_##T, T, T, GRAIN, (T)(-(U)a))                                        \
    UNARY_SMALL(square_##T, T, T, GRAIN, (T)((U)a * (U)a))                               \
    UNARY_SMALL(not_##T, T, T, GRAIN, ~a)
SIGNED(i32, u32)
SIGNED(i64, u64)
UNARY(not_b8, u8, u8, GRAIN, a ^ 1)
