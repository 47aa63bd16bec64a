/* How sums of products of bytes end: in 32 bits, as float32, or rounded to bytes. */
#pragma once
#include "windows.h"

typedef enum { TO_INT32, TO_FLOAT32, TO_INT8, TO_UINT8 } Result;

/* Sums of column j end as `sums - less[j]`; as float32 they are multiplied by scales[j]; as
   bytes they are rounded then, and the zero point is added. Both arrays have as many more
   elements as make a multiple of MOST_COLUMNS. */
typedef struct {
    const i32 *less;
    const f32 *scales;
    Result to;
    i32 zero;
} End;

enum { MOST_COLUMNS = 32 };

INLINE i32 byte_at(const void *p, bool is_signed) {
    return !p ? 0 : is_signed ? *(const i8 *)p : *(const u8 *)p;
}

/* The end of n columns, in `memory` of 2 N words, N being n rounded up to a multiple of
   MOST_COLUMNS: `sums` of weights (none: 0), times `factor`, are subtracted, and the bias
   is added. There are no scales, one, or n. */
INLINE End end_of(u32 n, i32 *memory, const i32 *sums, i32 factor, const i32 *bias,
                  const f32 *scale, u32 scales, Result to, const void *zero) {
    f32 *all = (f32 *)(memory + CEIL_DIV(n, MOST_COLUMNS) * MOST_COLUMNS);
    for (u32 j = 0; j < n; j++) {
        u32 less = sums ? (u32)factor * (u32)sums[j] : 0;
        memory[j] = (i32)(less - (bias ? (u32)bias[j] : 0));
        all[j] = scales ? scale[scales > 1 ? j : 0] : 1;
    }
    for (u32 j = n; j % MOST_COLUMNS; j++) memory[j] = 0, all[j] = 0;
    return (End){memory, all, to, byte_at(zero, to == TO_INT8)};
}

/* Copies n bytes; the compiler knows how many `most` are, and needs no call for them. */
INLINE void store(void *to, const void *from, u32 n, u32 most) {
    if (n == most) memcpy(to, from, most);
    else memcpy(to, from, n);
}

/* Writes the results of `width` columns of a row from `j` on, of the `most` in `sums`; `y`
   is where the row begins. Half is rounded to even by a sum that has no room for fractions;
   bounds are whole numbers, so they may come first. */
INLINE void end_row(const End *e, const i32 *sums, u32 j, u32 width, u32 most, void *y) {
    const f32 round = 12582912; /* 1.5 * 2^23 */
    i32 t[MOST_COLUMNS], lowest = e->to == TO_INT8 ? -128 : 0;
    for (u32 q = 0; q < most; q++) t[q] = (i32)((u32)sums[q] - (u32)e->less[j + q]);
    if (e->to == TO_INT32) {
        store((i32 *)y + j, t, width * sizeof(i32), most * sizeof(i32));
        return;
    }
    f32 f[MOST_COLUMNS], low = (f32)(lowest - e->zero), high = low + 255;
    for (u32 q = 0; q < most; q++) f[q] = (f32)t[q] * e->scales[j + q];
    if (e->to == TO_FLOAT32) {
        store((f32 *)y + j, f, width * sizeof(f32), most * sizeof(f32));
        return;
    }
    u8 bytes[MOST_COLUMNS];
    for (u32 q = 0; q < most; q++) {
        f32 v = f[q] > low ? f[q] : low; /* not a number: the lowest */
        f[q] = (v < high ? v : high) + round;
    }
    memcpy(t, f, most * sizeof(i32));
    for (u32 q = 0; q < most; q++) bytes[q] = (u8)(t[q] + e->zero); /* the lowest bits */
    store((u8 *)y + j, bytes, width, most);
}
