/* The epilogue of 8-bit products: sums stay in 32 bits, become float32, or are
   requantized to bytes. */
#pragma once
#include "windows.h"

typedef enum { TO_INT32, TO_FLOAT32, TO_INT8, TO_UINT8 } Result;

/* The result of column j is `sum - offsets[j]`. Float32 and byte results are multiplied
   by scales[j]. Byte results are then rounded, and the zero point is added. Both arrays
   are padded to a multiple of MAX_TILE_COLUMNS elements. */
typedef struct {
    const i32 *offsets;
    const f32 *scales;
    Result to;
    i32 zero;
    f32 low; /* the lowest byte minus the zero point */
} QuantizedEpilogue;

enum { MAX_TILE_COLUMNS = 32 };

INLINE i32 byte_at(const void *p, bool is_signed) {
    return !p ? 0 : is_signed ? *(const i8 *)p : *(const u8 *)p;
}

/* Returns the epilogue for n columns. `memory` is a workspace of 2 N elements, where
   N is n rounded up to a multiple of MAX_TILE_COLUMNS. The epilogue subtracts
   `factor` times `sums`, the sums of the weights of each column (null: 0), and adds
   the bias. `scales` is the number of scales: 0, 1 or n. */
INLINE QuantizedEpilogue quantized_epilogue(u32 n, i32 *memory, const i32 *sums,
                                            i32 factor, const i32 *bias,
                                            const f32 *scale, u32 scales, Result to, const void *zero) {
    f32 *all_scales = (f32 *)(memory + CEIL_DIV(n, MAX_TILE_COLUMNS) * MAX_TILE_COLUMNS);
    for (u32 j = 0; j < n; j++) {
        u32 offsets = sums ? (u32)factor * (u32)sums[j] : 0;
        memory[j] = (i32)(offsets - (bias ? (u32)bias[j] : 0));
        all_scales[j] = scales ? scale[scales > 1 ? j : 0] : 1;
    }
    for (u32 j = n; j % MAX_TILE_COLUMNS; j++) memory[j] = 0, all_scales[j] = 0;
    i32 add = byte_at(zero, to == TO_INT8);
    return (QuantizedEpilogue){memory, all_scales, to, add,
                               (f32)((to == TO_INT8 ? -128 : 0) - add)};
}

typedef u32 Numbers __attribute__((vector_size(4 * LANES)));
typedef i32 Signed __attribute__((vector_size(4 * LANES)));
typedef f32 Reals __attribute__((vector_size(4 * LANES)));
typedef u8 ByteLanes __attribute__((vector_size(LANES)));

/* Returns the lanes of x where `where` is set, and those of y elsewhere. */
INLINE Reals select_lanes(Signed where, Reals x, Reals y) {
    return (Reals)(((Signed)x & where) | ((Signed)y & ~where));
}

/* Writes the results of columns j to j + width - 1 of the row that begins at `y`.
   `sums` has `count` elements, a multiple of LANES. Adding 1.5 * 2^23 rounds half to
   even, because the sum has no bits for fractions. Clipping may precede rounding,
   because the bounds are integers. */
INLINE void store_row(const QuantizedEpilogue *e, const i32 *sums, u32 j, u32 width,
                      u32 count, void *y) {
    const Reals none = {0}, low = none + e->low, high = low + 255;
    const Reals round = none + 12582912;
    u32 size = e->to <= TO_FLOAT32 ? 4 : 1;
    u8 buffer[4 * MAX_TILE_COLUMNS], *row = (u8 *)y + j * size;
    u8 *to = width < count ? buffer : row;
    for (u32 q = 0; q < count; q += LANES) {
        Numbers t, offsets;
        Reals f, scales;
        memcpy(&t, sums + q, sizeof t), memcpy(&offsets, e->offsets + j + q, sizeof t);
        memcpy(&scales, e->scales + j + q, sizeof scales);
        t -= offsets, f = __builtin_convertvector((Signed)t, Reals) * scales;
        if (e->to == TO_INT32) memcpy(to + 4 * q, &t, sizeof t);
        else if (e->to == TO_FLOAT32) memcpy(to + 4 * q, &f, sizeof f);
        else {
            f = select_lanes(f > low, f, low); /* NaN becomes `low` */
            f = select_lanes(f < high, f, high) + round;
            ByteLanes bytes = __builtin_convertvector((Numbers)f + (u32)e->zero, ByteLanes);
            memcpy(to + q, &bytes, sizeof bytes);
        }
    }
    if (to == buffer) memcpy(row, buffer, width * size);
}
