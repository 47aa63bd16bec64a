/* arm64: NEON has 32 registers. */
#pragma once

#define REGISTER 4
/* 16 registers contain the tile of C */
#define GEMM_MR 8
#define GEMM_SCATTERED_MR 8
#define GEMM_PACKED_MR 8
#define GEMM_NR 8
#define GEMM_MC (4 * GEMM_PACKED_MR)
#define GEMM_TASK_ROWS 128
#define GEMM_KC 320
#define GEMM_NC 512
#define HAS_FMA 1
#include "processor.h"

#define INTRINSICS <arm_neon.h>
#define MADD_I16(a, b)                                                                 \
    ({                                                                                 \
        int16x8_t a_ = (int16x8_t)(a), b_ = (int16x8_t)(b);                            \
        vpaddq_s32(vmull_s16(vget_low_s16(a_), vget_low_s16(b_)),                      \
                   vmull_high_s16(a_, b_));                                            \
    })
