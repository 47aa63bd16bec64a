/* Elementary functions of long arrays, four registers at a time.

   Such a function is a chain of dependent operations, and a processor can start only a
   few operations of the next elements before the chain ends. Here the operations on
   four registers are interleaved, so that four chains run in parallel. The values are
   the same as those that elementwise.h computes for the rest of the array, one register
   at a time. */
#define REGISTERS 4
#include "mathematics.h"

#define UNARY(NAME, FUNCTION)                                                            \
    u32 NAME##_interleaved(u32 n, const f32 *x, f32 *y) {                                \
        u32 i = 0;                                                                       \
        for (; i + LANES <= n; i += LANES) STORE(y + i, FUNCTION(VLOAD(x + i)));         \
        return i;                                                                        \
    }
#define BINARY(NAME, FUNCTION)                                                           \
    u32 NAME##_interleaved(u32 n, const f32 *a, const f32 *b, f32 *y) {                  \
        u32 i = 0;                                                                       \
        for (; i + LANES <= n; i += LANES)                                               \
            STORE(y + i, FUNCTION(VLOAD(a + i), VLOAD(b + i)));                          \
        return i;                                                                        \
    }

UNARY(exp_f32, vec_exp)
UNARY(exp2_f32, vec_exp2)
UNARY(expm1_f32, vec_expm1)
UNARY(log_f32, vec_log)
UNARY(log1p_f32, vec_log1p)
UNARY(tanh_f32, vec_tanh)
UNARY(sigmoid_f32, vec_sigmoid)
UNARY(softplus_f32, vec_softplus)
UNARY(erf_f32, vec_erf)
UNARY(erfc_f32, vec_erfc)
UNARY(sin_f32, vec_sin)
UNARY(cos_f32, vec_cos)
UNARY(sqrt_f32, SQRT)
UNARY(elu_f32, vec_elu)
UNARY(selu_f32, vec_selu)
UNARY(gelu_f32, vec_gelu)
UNARY(gelu_tanh_f32, vec_gelu_tanh)
BINARY(erf_grad_f32, vec_erf_grad)
BINARY(tanh_grad_f32, vec_tanh_grad)
BINARY(sigmoid_grad_f32, vec_sigmoid_grad)
BINARY(gelu_grad_f32, vec_gelu_grad)
BINARY(gelu_tanh_grad_f32, vec_gelu_tanh_grad)
