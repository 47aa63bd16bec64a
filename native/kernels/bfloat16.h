#pragma once
#include "plugrad.h"

/* A bfloat16 number is the upper half of a float32 number. */
INLINE f32 from_bfloat16(u16 half) {
    u32 bits = (u32)half << 16;
    f32 x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns x rounded to bfloat16: to nearest, ties to even. NaN stays NaN. */
INLINE u16 to_bfloat16(f32 x) {
    u32 bits;
    memcpy(&bits, &x, sizeof bits);
    u32 rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (u16)((bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16 & 0x8000) | 0x7fc0 : rounded);
}
