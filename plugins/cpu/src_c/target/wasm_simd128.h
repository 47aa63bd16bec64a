/* The vectors of WebAssembly on processors: what the kernels in C use of the header of
   this name that clang has, over vector types. Their values are the same, but for `relaxed`
   instructions, which are those with one rounding here. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef int32_t v128_t __attribute__((vector_size(16)));
typedef float of_f32x4 __attribute__((vector_size(16)));
typedef double of_f64x2 __attribute__((vector_size(16)));
typedef int64_t of_i64x2 __attribute__((vector_size(16)));
typedef uint32_t of_u32x4 __attribute__((vector_size(16)));
typedef int8_t of_i8x16 __attribute__((vector_size(16)));

#define OP static inline __attribute__((always_inline, unused))
#define F(v) ((of_f32x4)(v))
#define D(v) ((of_f64x2)(v))
#define V(v) ((v128_t)(v))

OP v128_t wasm_v128_load(const void *p) { v128_t v; memcpy(&v, p, 16); return v; }
OP void wasm_v128_store(void *p, v128_t v) { memcpy(p, &v, 16); }
OP v128_t wasm_f32x4_splat(float x) { return V(((of_f32x4){x, x, x, x})); }
#define wasm_f32x4_const_splat wasm_f32x4_splat
OP v128_t wasm_i32x4_splat(int32_t x) { return (v128_t){x, x, x, x}; }
OP v128_t wasm_f64x2_splat(double x) { return V(((of_f64x2){x, x})); }
OP v128_t wasm_f32x4_add(v128_t a, v128_t b) { return V(F(a) + F(b)); }
OP v128_t wasm_f32x4_sub(v128_t a, v128_t b) { return V(F(a) - F(b)); }
OP v128_t wasm_f32x4_mul(v128_t a, v128_t b) { return V(F(a) * F(b)); }
OP v128_t wasm_f32x4_div(v128_t a, v128_t b) { return V(F(a) / F(b)); }
OP v128_t wasm_f32x4_neg(v128_t a) { return V(-F(a)); }
OP v128_t wasm_f32x4_eq(v128_t a, v128_t b) { return V(F(a) == F(b)); }
OP v128_t wasm_f32x4_lt(v128_t a, v128_t b) { return V(F(a) < F(b)); }
OP v128_t wasm_f32x4_le(v128_t a, v128_t b) { return V(F(a) <= F(b)); }
OP v128_t wasm_f32x4_gt(v128_t a, v128_t b) { return V(F(a) > F(b)); }
OP v128_t wasm_f32x4_ge(v128_t a, v128_t b) { return V(F(a) >= F(b)); }
OP v128_t wasm_i32x4_lt(v128_t a, v128_t b) { return V(a < b); }
OP v128_t wasm_i32x4_gt(v128_t a, v128_t b) { return V(a > b); }
OP v128_t wasm_i32x4_add(v128_t a, v128_t b) { return V((of_u32x4)a + (of_u32x4)b); }
OP v128_t wasm_i32x4_sub(v128_t a, v128_t b) { return V((of_u32x4)a - (of_u32x4)b); }
OP v128_t wasm_i32x4_shl(v128_t a, uint32_t n) { return V((of_u32x4)a << (n & 31)); }
OP v128_t wasm_i32x4_shr(v128_t a, uint32_t n) { return a >> (int32_t)(n & 31); }
OP v128_t wasm_u32x4_shr(v128_t a, uint32_t n) { return V((of_u32x4)a >> (n & 31)); }
OP v128_t wasm_v128_and(v128_t a, v128_t b) { return a & b; }
OP v128_t wasm_v128_or(v128_t a, v128_t b) { return a | b; }
OP v128_t wasm_v128_xor(v128_t a, v128_t b) { return a ^ b; }
OP v128_t wasm_v128_andnot(v128_t a, v128_t b) { return a & ~b; }
OP v128_t of_where(v128_t mask, v128_t a, v128_t b) { return (a & mask) | (b & ~mask); }
#define wasm_i32x4_relaxed_laneselect(a, b, mask) of_where(mask, a, b)
/* b < a ? b : a, as the instruction minps does, and the same of maxps */
OP v128_t wasm_f32x4_pmin(v128_t a, v128_t b) { return of_where(V(F(b) < F(a)), b, a); }
OP v128_t wasm_f32x4_pmax(v128_t a, v128_t b) { return of_where(V(F(a) < F(b)), b, a); }
OP v128_t wasm_f32x4_max(v128_t a, v128_t b) { /* NaN where either is */
    v128_t larger = of_where(V(F(a) < F(b)), b, a);
    larger = of_where(V(F(a) == F(b)), a & b, larger); /* 0 and -0 */
    return of_where(V(F(b) != F(b)), b, of_where(V(F(a) != F(a)), a, larger));
}
OP v128_t wasm_f32x4_abs(v128_t a) { return a & 0x7fffffff; }
#define EACH_LANE(T, N, EXPR)                                                             \
    T y;                                                                                 \
    for (int i = 0; i < N; i++) y[i] = EXPR;                                             \
    return V(y);
OP v128_t wasm_f32x4_sqrt(v128_t a) { EACH_LANE(of_f32x4, 4, __builtin_sqrtf(F(a)[i])) }
OP v128_t wasm_f32x4_nearest(v128_t a) { EACH_LANE(of_f32x4, 4, __builtin_rintf(F(a)[i])) }
OP v128_t wasm_f64x2_nearest(v128_t a) { EACH_LANE(of_f64x2, 2, __builtin_rint(D(a)[i])) }
OP v128_t wasm_f32x4_relaxed_madd(v128_t a, v128_t b, v128_t c) {
    EACH_LANE(of_f32x4, 4, __builtin_fmaf(F(a)[i], F(b)[i], F(c)[i]))
}
OP v128_t wasm_f32x4_relaxed_nmadd(v128_t a, v128_t b, v128_t c) {
    EACH_LANE(of_f32x4, 4, __builtin_fmaf(-F(a)[i], F(b)[i], F(c)[i]))
}
OP v128_t wasm_f64x2_relaxed_madd(v128_t a, v128_t b, v128_t c) {
    EACH_LANE(of_f64x2, 2, __builtin_fma(D(a)[i], D(b)[i], D(c)[i]))
}
OP int32_t of_truncated(float x) {
    return x != x ? 0 : x >= 2147483648.0f ? INT32_MAX : x <= -2147483648.0f ? INT32_MIN : (int32_t)x;
}
OP v128_t wasm_i32x4_trunc_sat_f32x4(v128_t a) { EACH_LANE(v128_t, 4, of_truncated(F(a)[i])) }
#define wasm_i32x4_relaxed_trunc_f32x4 wasm_i32x4_trunc_sat_f32x4
OP v128_t wasm_f32x4_convert_i32x4(v128_t a) { EACH_LANE(of_f32x4, 4, (float)a[i]) }
OP v128_t wasm_f64x2_add(v128_t a, v128_t b) { return V(D(a) + D(b)); }
OP v128_t wasm_f64x2_sub(v128_t a, v128_t b) { return V(D(a) - D(b)); }
OP v128_t wasm_f64x2_mul(v128_t a, v128_t b) { return V(D(a) * D(b)); }
OP v128_t wasm_f64x2_div(v128_t a, v128_t b) { return V(D(a) / D(b)); }
OP v128_t wasm_f64x2_promote_low_f32x4(v128_t a) { EACH_LANE(of_f64x2, 2, (double)F(a)[i]) }
OP v128_t wasm_f32x4_demote_f64x2_zero(v128_t a) {
    return V(((of_f32x4){(float)D(a)[0], (float)D(a)[1], 0, 0}));
}
OP bool wasm_i32x4_all_true(v128_t a) { return a[0] && a[1] && a[2] && a[3]; }
OP bool wasm_v128_any_true(v128_t a) { return a[0] || a[1] || a[2] || a[3]; }
#define wasm_f32x4_extract_lane(v, i) (F(v)[i])
#define wasm_i32x4_shuffle(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define wasm_i64x2_shuffle(a, b, ...)                                                    \
    V(__builtin_shufflevector((of_i64x2)(a), (of_i64x2)(b), __VA_ARGS__))
#define wasm_i8x16_shuffle(a, b, ...)                                                    \
    V(__builtin_shufflevector((of_i8x16)(a), (of_i8x16)(b), __VA_ARGS__))
