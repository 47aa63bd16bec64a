/* Activation functions. Comparisons are written so that NaN propagates and max(-0, 0)
   is +0. */
#include "elementwise.h"
#include "mathematics.h"

#define EVERY(UNARY, UNARY_PQ, T)                                                        \
    UNARY(relu_##T, T, T, GRAIN, a <= 0 ? 0 : a)                                         \
    UNARY(relu6_##T, T, T, GRAIN, a <= 0 ? 0 : a > 6 ? 6 : a)                            \
    UNARY_PQ(clip_##T, T, a < p || p != p ? (p > q || q != q ? q : p)                 \
                                         : a > q || q != q ? q : a)
EVERY(UNARY, UNARY_PQ, f32)
EVERY(UNARY_SMALL, UNARY_PQ, f64)
EVERY(UNARY, UNARY_PQ, i32)

#define FLOATING(BINARY, T)                                                              \
    UNARY_PQ(leaky_relu_##T, T, a < 0 ? a * p : a)                                       \
    UNARY_PQ(step_##T, T, a != a ? a : a > 0 ? 1 : p)                                    \
    BINARY(prelu_##T, T, T, GRAIN, p >= 0 || p != p ? p : p * q)                       \
    BINARY(elu_grad_##T, T, T, GRAIN, q < 0 ? p *(q + 1) : q != q ? q : p)               \
    BINARY(relu_grad_##T, T, T, GRAIN, q > 0 ? p : q)
FLOATING(BINARY, f32)
FLOATING(BINARY_SMALL, f64)

BINARY_VEC(erf_grad_f32, vec_erf_grad)
BINARY_VEC(tanh_grad_f32, vec_tanh_grad)
BINARY_VEC(sigmoid_grad_f32, vec_sigmoid_grad)
BINARY_SMALL(erf_grad_f64, f64, f64, SLOW, p *erf_slope_f64(q))
BINARY_SMALL(tanh_grad_f64, f64, f64, SLOW, p *(4 * sigmoid_slope_f64(2 * q)))
BINARY_SMALL(sigmoid_grad_f64, f64, f64, SLOW, p *sigmoid_slope_f64(q))

UNARY_VEC(elu_f32, vec_elu)
UNARY_VEC(selu_f32, vec_selu)
UNARY_SMALL(elu_f64, f64, f64, SLOW, a > 0 ? a : expm1(a))
UNARY_SMALL(selu_f64, f64, f64, SLOW, a > 0 ? a *SCALE : expm1(a) * (SCALE * ALPHA))

UNARY_VEC(gelu_f32, vec_gelu)
UNARY_VEC(gelu_tanh_f32, vec_gelu_tanh)
BINARY_VEC(gelu_grad_f32, vec_gelu_grad)
BINARY_VEC(gelu_tanh_grad_f32, vec_gelu_tanh_grad)
UNARY_SMALL(gelu_f64, f64, f64, SLOW, gelu_f64_of(a))
UNARY_SMALL(gelu_tanh_f64, f64, f64, SLOW, gelu_tanh_f64_of(a))
BINARY_SMALL(gelu_grad_f64, f64, f64, SLOW, p *gelu_slope_f64(q))
BINARY_SMALL(gelu_tanh_grad_f64, f64, f64, SLOW, p *gelu_tanh_slope_f64(q))
