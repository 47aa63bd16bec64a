/* WebAssembly with 128-bit and relaxed SIMD. Browsers download the modules. */
#pragma once
#include <wasm_simd128.h> /* clang's header; all kernels use its names */

#define REGISTER 4
#define ROUND 16
#define BY_ROUND _Pragma("clang loop vectorize_width(16) interleave_count(1)")

#define SMALL_CODE 1
#define READS_IN_PLACE 0
#define CACHE_CONTROL 0
#define INTERLEAVES 0

#define GEMM_MR 4
#define GEMM_SCATTERED_MR 4
#define GEMM_PACKED_MR 4
#define GEMM_NR 8
#define GEMM_MC 64
#define GEMM_TASK_ROWS 64
#define GEMM_KC 256
#define GEMM_NC 1024
#define WINOGRAD_THREAD_FILTERS 16384

#define INTRINSICS <wasm_simd128.h>
#define MADD_I16(a, b) wasm_i32x4_dot_i16x8((v128_t)(a), (v128_t)(b))

/* Products of DOT_BYTES unsigned and signed bytes. Four adjacent products are summed in
   32 bits. The unsigned bytes must be less than 128. DOT_FMA is the multiply-add for as
   many float32 elements as there are sums. */
#define DOT_BYTES 16
#define DOT_FMA(a, b, c)                                                               \
    wasm_f32x4_relaxed_madd((v128_t)(a), (v128_t)(b), (v128_t)(c))
#define DOT_U8_I8(a, b)                                                                \
    wasm_i32x4_relaxed_dot_i8x16_i7x16_add((v128_t)(b), (v128_t)(a), wasm_i32x4_splat(0))

/* Loads a vector at a constant offset. It is assembly because Cranelift (wasmtime 50)
   turns an offset outside of the load into an addition. */
#define LOAD_AT(p, offset)                                                             \
    ({                                                                                 \
        v128_t v_;                                                                     \
        __asm__("local.get %1\n\tv128.load " #offset ":p2align=2\n\tlocal.set %0"      \
                : "=r"(v_)                                                             \
                : "r"(p));                                                             \
        v_;                                                                            \
    })
