/* The functions of processor.h for float32 vectors of any width. This file is included
   once per vector type T; TF and TU are the vector types with float32 and u32 elements.
   In names, `f32x4` stands for the type of the elements, not for their number. */
#define F(v) ((TF)(v))
#define U(v) ((TU)(v))
#define V(v) ((T)(v))

OP void wasm_v128_store(void *p, T v) { memcpy(p, &v, sizeof v); }
OP T wasm_f32x4_add(T a, T b) { return V(F(a) + F(b)); }
OP T wasm_f32x4_sub(T a, T b) { return V(F(a) - F(b)); }
OP T wasm_f32x4_mul(T a, T b) { return V(F(a) * F(b)); }
OP T wasm_f32x4_div(T a, T b) { return V(F(a) / F(b)); }
OP T wasm_f32x4_neg(T a) { return V(-F(a)); }
OP T wasm_f32x4_eq(T a, T b) { return V(F(a) == F(b)); }
OP T wasm_f32x4_lt(T a, T b) { return V(F(a) < F(b)); }
OP T wasm_f32x4_le(T a, T b) { return V(F(a) <= F(b)); }
OP T wasm_f32x4_gt(T a, T b) { return V(F(a) > F(b)); }
OP T wasm_f32x4_ge(T a, T b) { return V(F(a) >= F(b)); }
OP T wasm_i32x4_add(T a, T b) { return V(U(a) + U(b)); }
OP T wasm_i32x4_sub(T a, T b) { return V(U(a) - U(b)); }
OP T wasm_i32x4_shl(T a, uint32_t n) { return V(U(a) << (n & 31)); }
OP T wasm_i32x4_shr(T a, uint32_t n) { return a >> (int32_t)(n & 31); }
OP T wasm_u32x4_shr(T a, uint32_t n) { return V(U(a) >> (n & 31)); }
OP T wasm_v128_and(T a, T b) { return a & b; }
OP T wasm_v128_or(T a, T b) { return a | b; }
OP T wasm_v128_xor(T a, T b) { return a ^ b; }
OP T wasm_v128_andnot(T a, T b) { return a & ~b; }
OP T of_where(T mask, T a, T b) { return (a & mask) | (b & ~mask); }
/* b < a ? b : a, like the instruction minps; and a < b ? b : a, like maxps */
OP T wasm_f32x4_pmin(T a, T b) { return of_where(V(F(b) < F(a)), b, a); }
OP T wasm_f32x4_pmax(T a, T b) { return of_where(V(F(a) < F(b)), b, a); }
OP T wasm_f32x4_max(T a, T b) { /* NaN if either is NaN */
    T larger = of_where(V(F(a) < F(b)), b, a);
    larger = of_where(V(F(a) == F(b)), a & b, larger); /* 0 and -0 */
    return of_where(V(F(b) != F(b)), b, of_where(V(F(a) != F(a)), a, larger));
}
OP T wasm_f32x4_abs(T a) { return a & 0x7fffffff; }
OP T wasm_f32x4_sqrt(T a) { return V(__builtin_elementwise_sqrt(F(a))); }
OP T wasm_f32x4_nearest(T a) { return V(__builtin_elementwise_rint(F(a))); }
OP T wasm_f32x4_relaxed_madd(T a, T b, T c) { return V(FUSED(F(a), F(b), F(c))); }
OP T wasm_f32x4_relaxed_nmadd(T a, T b, T c) { return V(FUSED(-F(a), F(b), F(c))); }
OP T wasm_f32x4_convert_i32x4(T a) { return V(__builtin_convertvector(a, TF)); }
/* Rounds towards 0. NaN gives 0; other values out of range are undefined. */
OP T wasm_i32x4_relaxed_trunc_f32x4(T a) {
    return __builtin_convertvector(F(a & V(F(a) == F(a))), T);
}
OP bool wasm_i32x4_all_true(T a) { return __builtin_reduce_and(V(a != 0)) != 0; }

#undef F
#undef U
#undef V
#undef T
#undef TF
#undef TU
