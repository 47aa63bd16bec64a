/* x86-64 with AVX-512 (x86_64_v4), AVX2 (x86_64_v3) or SSE4 (x86_64_v2). */
#pragma once

#if defined(__AVX512F__)
#define REGISTER 16
/* 32 registers; 24 of them contain the tile of C */
#define GEMM_MR 12
#define GEMM_SCATTERED_MR 6
#define GEMM_PACKED_MR 12
#define GEMM_NR 32
#define GEMM_TASK_ROWS 132
#define GEMM_KC 512
#elif defined(__AVX2__)
#define REGISTER 8
/* 16 registers; 12 of them contain the tile of C */
#define GEMM_MR 6
#define GEMM_SCATTERED_MR 6
#define GEMM_PACKED_MR 12
#define GEMM_NR 16
#define GEMM_TASK_ROWS 120
#define GEMM_KC 320
#else
#define REGISTER 4
#define GEMM_MR 4
#define GEMM_SCATTERED_MR 4
#define GEMM_PACKED_MR 4
#define GEMM_NR 8
#define GEMM_TASK_ROWS 64
#define GEMM_KC 256
#endif
#if REGISTER > 4
#define GEMM_MC (4 * GEMM_PACKED_MR)
#define GEMM_NC 512
#else
#define GEMM_MC 64
#define GEMM_NC 1024
#endif
#ifdef __FMA__
#define HAS_FMA 1
#else
#define HAS_FMA 0
#endif
#include "processor.h"

#define INTRINSICS <immintrin.h>
#if defined(__AVX512BW__)
#define MADD_I16(a, b) _mm512_madd_epi16((__m512i)(a), (__m512i)(b))
#elif defined(__AVX2__)
#define MADD_I16(a, b) _mm256_madd_epi16((__m256i)(a), (__m256i)(b))
#else
#define MADD_I16(a, b) _mm_madd_epi16((__m128i)(a), (__m128i)(b))
#endif

/* Products of DOT_BYTES unsigned and signed bytes. Four adjacent products are summed in
   32 bits. The sum of two adjacent products must fit into 16 bits. DOT_FMA is the
   multiply-add for as many float32 elements as there are sums. */
#if defined(__AVX2__)
#define DOT_BYTES 32
#define DOT_FMA(a, b, c) _mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#define DOT_U8_I8(a, b)                                                                \
    _mm256_madd_epi16(_mm256_maddubs_epi16((__m256i)(a), (__m256i)(b)),                \
                      _mm256_set1_epi16(1))
#define WORDS_MADD_I16 16 /* half an AVX-512 register */
#define HALF_MADD_I16(a, b) _mm256_madd_epi16((__m256i)(a), (__m256i)(b))
#endif

#if defined(__AVX512BW__)
#include <cpuid.h>

/* Returns a register of a leaf of cpuid, from eax = 0 to edx = 3, or 0 if there is none. */
static inline uint32_t cpuid_register(uint32_t leaf, uint32_t subleaf, uint32_t index) {
    uint32_t found[4];
    if (!__get_cpuid_count(leaf, subleaf, found, found + 1, found + 2, found + 3)) return 0;
    return found[index];
}

/* Caches whether a bit is set: cpuid costs 16 us in a virtual machine. */
#define CACHED_BIT(word, bit)                                                          \
    ({                                                                                 \
        static _Atomic uint32_t known; /* 1: no, 2: yes */                             \
        if (!known) known = ((word) >> (bit) & 1) + 1;                                 \
        known == 2;                                                                    \
    })

#define WITH_DOT_I8 __attribute__((target("avx512vnni")))
#define DOT_I8(s, a, b) _mm512_dpbusd_epi32((__m512i)(s), (__m512i)(a), (__m512i)(b))
/* Returns whether the processor has VNNI. */
static inline bool has_dot_i8(void) { return CACHED_BIT(cpuid_register(7, 0, 2), 11); }

/* Adds the products of pairs of bfloat16 numbers to float32 sums. Subnormal inputs and
   sums count as zero. */
#define WITH_DOT_BF16 __attribute__((target("avx512bf16")))
#define DOT_BF16(s, a, b) _mm512_dpbf16_ps((__m512)(s), (__m512bh)(a), (__m512bh)(b))
/* Returns whether the processor has AVX512-BF16. */
static inline bool has_dot_bf16(void) { return CACHED_BIT(cpuid_register(7, 1, 0), 5); }
#endif
