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
    f32 low; /* the lowest byte less the zero point */
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
    i32 add = byte_at(zero, to == TO_INT8);
    return (End){memory, all, to, add, (f32)((to == TO_INT8 ? -128 : 0) - add)};
}

typedef u32 Numbers __attribute__((vector_size(4 * LANES)));
typedef i32 Signed __attribute__((vector_size(4 * LANES)));
typedef f32 Reals __attribute__((vector_size(4 * LANES)));
typedef u8 Lowest __attribute__((vector_size(LANES)));

/* x where that is asked for, else y. */
INLINE Reals chosen(Signed where, Reals x, Reals y) {
    return (Reals)(((Signed)x & where) | ((Signed)y & ~where));
}

/* Writes the results of `width` columns of a row from `j` on, of the `most` in `sums`, a
   multiple of LANES; `y` is where the row begins. Half is rounded to even by a sum that has
   no room for fractions; bounds are whole numbers, so they may come first. */
INLINE void end_row(const End *e, const i32 *sums, u32 j, u32 width, u32 most, void *y) {
    const Reals none = {0}, low = none + e->low, high = low + 255;
    const Reals round = none + 12582912; /* 1.5 * 2^23 */
    u32 size = e->to <= TO_FLOAT32 ? 4 : 1;
    u8 some[4 * MOST_COLUMNS], *row = (u8 *)y + j * size, *to = width < most ? some : row;
    for (u32 q = 0; q < most; q += LANES) {
        Numbers t, less;
        Reals f, scales;
        memcpy(&t, sums + q, sizeof t), memcpy(&less, e->less + j + q, sizeof t);
        memcpy(&scales, e->scales + j + q, sizeof scales);
        t -= less, f = __builtin_convertvector((Signed)t, Reals) * scales;
        if (e->to == TO_INT32) memcpy(to + 4 * q, &t, sizeof t);
        else if (e->to == TO_FLOAT32) memcpy(to + 4 * q, &f, sizeof f);
        else {
            f = chosen(f > low, f, low); /* not a number: the lowest */
            f = chosen(f < high, f, high) + round;
            Lowest bytes = __builtin_convertvector((Numbers)f + (u32)e->zero, Lowest);
            memcpy(to + q, &bytes, sizeof bytes);
        }
    }
    if (to == some) memcpy(row, some, width * size);
}
