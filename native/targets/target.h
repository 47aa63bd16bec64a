/* Selects the header of the target. No other file checks the target. README.md lists
   what the header of a target must define. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#if defined(__wasm__)
#include "wasm32.h"
#elif defined(__x86_64__)
#include "x86_64.h"
#elif defined(__aarch64__)
#include "arm64.h"
#else
#error "there is no header for this target in native/targets"
#endif

#if !defined(REGISTER) || !defined(ROUND) || !defined(BY_ROUND)
#error "the header of a target must define REGISTER, ROUND and BY_ROUND"
#endif
#if !defined(SMALL_CODE) || !defined(READS_IN_PLACE) || !defined(CACHE_CONTROL) ||         \
    !defined(INTERLEAVES)
#error "the header must define SMALL_CODE, READS_IN_PLACE, CACHE_CONTROL and INTERLEAVES"
#endif
#if !defined(GEMM_MR) || !defined(GEMM_SCATTERED_MR) || !defined(GEMM_PACKED_MR) ||        \
    !defined(GEMM_NR) || !defined(GEMM_MC) || !defined(GEMM_TASK_ROWS) ||                  \
    !defined(GEMM_KC) || !defined(GEMM_NC) || !defined(WINOGRAD_THREAD_FILTERS)
#error "the header must define the sizes of products: GEMM_* and WINOGRAD_THREAD_FILTERS"
#endif
#if defined(DOT_U8_I8) && (!defined(DOT_BYTES) || !defined(DOT_FMA))
#error "a header with DOT_U8_I8 must define DOT_BYTES and DOT_FMA"
#endif
#if !defined(INTRINSICS) || !defined(MADD_I16) || (!READS_IN_PLACE && !defined(LOAD_AT))
#error "the header must define INTRINSICS, MADD_I16 and, without READS_IN_PLACE, LOAD_AT"
#endif
