/* WebAssembly's SIMD functions on vector types, for the headers of native targets.

   These are the functions of clang's wasm_simd128.h that kernels use. They return the
   same values, except that `relaxed` multiply-adds always round once. `vec` is a vector
   as wide as a register; plugrad.h lists the functions that it needs. The including
   header defines REGISTER, the float32 elements per register, and HAS_FMA. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define SMALL_CODE 0
#define READS_IN_PLACE 1
#define CACHE_CONTROL 1
#define INTERLEAVES 1
#define WINOGRAD_THREAD_FILTERS 2048
/* Eight additions can be issued within the latency of one. */
#define ROUND 64
#define BY_ROUND _Pragma("clang loop vectorize_width(16) interleave_count(4)")

#define OP static inline __attribute__((always_inline, unused, overloadable))
#define OF_SIZE(n) __attribute__((vector_size(n)))

typedef int32_t v128_t OF_SIZE(16);
typedef float of_f32x4 OF_SIZE(16);
typedef uint32_t of_u32x4 OF_SIZE(16);
typedef int64_t of_i64x2 OF_SIZE(16);
typedef int8_t of_i8x16 OF_SIZE(16);

#if HAS_FMA
#define FUSED(a, b, c) __builtin_elementwise_fma(a, b, c)
#else /* the product is exact in float64 */
#define OF_TWICE(x) __attribute__((vector_size(2 * sizeof(x)))) double
#define IN_DOUBLE(x) __builtin_convertvector(x, OF_TWICE(x))
#define FUSED(a, b, c)                                                                   \
    __builtin_convertvector(IN_DOUBLE(a) * IN_DOUBLE(b) + IN_DOUBLE(c), __typeof__(c))
#endif

#define T v128_t
#define TF of_f32x4
#define TU of_u32x4
#include "lanes.h"

OP v128_t wasm_v128_load(const void *p) { v128_t v; memcpy(&v, p, 16); return v; }
OP v128_t wasm_f32x4_splat(float x) { return (v128_t)((of_f32x4){x, x, x, x}); }
#define wasm_f32x4_const_splat wasm_f32x4_splat
OP v128_t wasm_i32x4_splat(int32_t x) { return (v128_t){x, x, x, x}; }
#define wasm_i32x4_relaxed_laneselect(a, b, mask) of_where(mask, a, b)
#define wasm_f32x4_extract_lane(v, i) (((of_f32x4)(v))[i])
#define wasm_i32x4_shuffle(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define wasm_i64x2_shuffle(a, b, ...)                                                    \
    (v128_t) __builtin_shufflevector((of_i64x2)(a), (of_i64x2)(b), __VA_ARGS__)
#define wasm_i8x16_shuffle(a, b, ...)                                                    \
    (v128_t) __builtin_shufflevector((of_i8x16)(a), (of_i8x16)(b), __VA_ARGS__)

/* --- vectors of one register, or of REGISTERS registers --------------------------- */

#ifdef REGISTERS
#define LANES (REGISTER * REGISTERS)
#elif REGISTER > 4
#define LANES REGISTER
#endif

#ifdef LANES
typedef int32_t vec OF_SIZE(4 * LANES);
typedef float of_floats __attribute__((ext_vector_type(LANES)));
typedef uint32_t of_words OF_SIZE(4 * LANES);
#define T vec
#define TF of_floats
#define TU of_words
#include "lanes.h"

OP vec VLOAD(const void *p) { vec v; memcpy(&v, p, sizeof v); return v; }
OP vec VEC(float x) { return (vec)((of_floats)x); }
OP vec VINT(int32_t n) { return n - (vec){0}; }
/* Load and store the first n < LANES lanes. A load sets the other lanes to zero. */
typedef bool of_bools __attribute__((ext_vector_type(LANES)));
OP of_bools of_first(uint32_t n) {
    static const int32_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return __builtin_convertvector(VLOAD(numbers) < (int32_t)n, of_bools);
}
OP vec vload_partial(const float *p, uint32_t n) {
    return (vec)__builtin_masked_load(of_first(n), p, (of_floats)0);
}
OP void vstore_partial(float *p, vec v, uint32_t n) {
    __builtin_masked_store(of_first(n), (of_floats)v, p);
}
/* Returns the first four lanes; extends four lanes with zeros. */
OP v128_t first4(vec v) { v128_t y; memcpy(&y, &v, sizeof y); return y; }
OP vec with4(v128_t v) { vec y = {0}; memcpy(&y, &v, sizeof v); return y; }
/* Reduces all lanes to one. Repeatedly combines the first half of the vectors of four
   lanes with the second half; at the end, combines the lanes of the remaining vector.
   */
#define FOLD(v, FUNCTION)                                                                \
    v128_t t[LANES / 4];                                                                 \
    memcpy(t, &v, sizeof t);                                                             \
    for (int n = LANES / 8; n; n /= 2)                                                   \
        for (int i = 0; i < n; i++) t[i] = FUNCTION(t[i], t[i + n]);                     \
    t[0] = FUNCTION(t[0], wasm_i32x4_shuffle(t[0], t[0], 2, 3, 0, 1));                   \
    t[0] = FUNCTION(t[0], wasm_i32x4_shuffle(t[0], t[0], 1, 0, 3, 2));                   \
    return wasm_f32x4_extract_lane(t[0], 0);
OP float reduce_add(vec v) { FOLD(v, wasm_f32x4_add) }
OP float reduce_max(vec v) { FOLD(v, wasm_f32x4_max) } /* NaN if a lane is NaN */
#undef FOLD
#endif
#undef OF_SIZE
