#pragma once
#include "plugrad.h"

/* A bfloat16 number is the upper half of a float32 number. */
INLINE f32 from_bfloat16(u16 half) {
    u32 bits = (u32)half << 16;
    f32 x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
