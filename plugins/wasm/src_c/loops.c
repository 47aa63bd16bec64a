/* The table of the loops in the region module; Python looks up loops in it by name.
   Loops for other dtypes, and for functions that take 10 ns or more per element, are
   only in the modules of their kernels. */
#include "region.h"

#include "elementwise.h"

#define PIECES(X)                                                                        \
    X(exp_f32) X(exp2_f32) X(expm1_f32) X(log_f32) X(log1p_f32) X(tanh_f32)              \
    X(sigmoid_f32) X(softplus_f32) X(erf_f32) X(erfc_f32) X(sin_f32) X(cos_f32)          \
    X(sqrt_f32) X(rsqrt_f32) X(reciprocal_f32) X(neg_f32) X(square_f32) X(abs_f32)       \
    X(sign_f32) X(floor_f32) X(ceil_f32) X(round_f32) X(trunc_f32) X(isnan_f32)          \
    X(isinf_f32) X(isfinite_f32) X(signbit_f32) X(relu_f32) X(relu6_f32) X(elu_f32)      \
    X(selu_f32) X(clip_f32) X(leaky_relu_f32) X(gelu_f32) X(gelu_tanh_f32) X(step_f32)   \
    X(neg_i32) X(square_i32) X(not_b8) X(cast_u8_f32) X(cast_u8_i32)                     \
    X(cast_i32_f32) X(cast_i32_b8) X(cast_f32_b8)
#define ROWS(X)                                                                          \
    X(add_f32) X(sub_f32) X(mul_f32) X(div_f32) X(max_f32) X(min_f32) X(pow_f32)         \
    X(copysign_f32) X(hypot_f32) X(squared_difference_f32) X(prelu_f32)                  \
    X(elu_grad_f32) X(relu_grad_f32)                                                     \
    X(tanh_grad_f32) X(sigmoid_grad_f32) X(erf_grad_f32) X(gelu_grad_f32)                \
    X(gelu_tanh_grad_f32) X(equal_f32) X(less_f32)                                       \
    X(less_equal_f32) X(add_i32) X(sub_i32) X(mul_i32) X(equal_i32) X(less_i32)          \
    X(less_equal_i32) X(and_b8) X(or_b8) X(xor_b8) X(select_1) X(select_4)

#define PAIRS(X, FIRST)                                                                  \
    X(FIRST##_add_f32) X(FIRST##_sub_f32) X(FIRST##_rsub_f32) X(FIRST##_mul_f32)
#define ALL_ROWS(X) ROWS(X) PAIRS(X, add) PAIRS(X, sub) PAIRS(X, mul)

#define PIECE_OF(NAME) void NAME##_piece(u32 i, u32 end, void *ctx);
#define ROW_OF(NAME) void NAME##_row(const Operands *o, void *to, u32 n);
PIECES(PIECE_OF)
ALL_ROWS(ROW_OF)

typedef struct {
    const char *name;
    void *run;
} Loop;

#define PIECE_ENTRY(NAME) {#NAME "_piece", NAME##_piece},
#define ROW_ENTRY(NAME) {#NAME "_row", NAME##_row},
static const Loop loops[] = {PIECES(PIECE_ENTRY) ALL_ROWS(ROW_ENTRY){0, 0}};

EXPORT("region_loops") const Loop *region_loops(void) { return loops; }
