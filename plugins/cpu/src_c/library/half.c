/* float16: no kernel calculates in it. Blocks of elements become float32, a kernel of
   float32 runs on them, and its results are rounded once.

   Processors convert eight elements and more by one instruction. */
#include "elementwise.h"
#include "half.h"

enum { BLOCK = 2048, AT_ONCE = 16 };
typedef _Float16 halves __attribute__((ext_vector_type(AT_ONCE)));
typedef f32 floats __attribute__((ext_vector_type(AT_ONCE)));

INLINE void widen_some(const u16 *x, f32 *y, u32 n) {
    halves some = 0;
    memcpy(&some, x, n * sizeof *x);
    floats wide = __builtin_convertvector(some, floats);
    memcpy(y, &wide, n * sizeof *y);
}

INLINE void round_some(const f32 *x, u16 *y, u32 n) {
    floats some = 0;
    memcpy(&some, x, n * sizeof *x);
    halves narrow = __builtin_convertvector(some, halves);
    memcpy(y, &narrow, n * sizeof *y);
}

static void widen(const u16 *restrict x, f32 *restrict y, u32 n) {
    u32 i = 0;
    for (; i + AT_ONCE <= n; i += AT_ONCE) widen_some(x + i, y + i, AT_ONCE);
    if (i < n) widen_some(x + i, y + i, n - i);
}

static void round_to_half(const f32 *restrict x, u16 *restrict y, u32 n) {
    u32 i = 0;
    for (; i + AT_ONCE <= n; i += AT_ONCE) round_some(x + i, y + i, AT_ONCE);
    if (i < n) round_some(x + i, y + i, n - i);
}

static void widen_piece(u32 i, u32 end, void *ctx) {
    const Flat *flat = ctx;
    widen((const u16 *)flat->x + i, (f32 *)flat->y + i, end - i);
}

static void round_piece(u32 i, u32 end, void *ctx) {
    const Flat *flat = ctx;
    round_to_half((const f32 *)flat->x + i, (u16 *)flat->y + i, end - i);
}

EXPORT("cast_f16_f32") void cast_f16_f32(const u16 *x, f32 *y, u32 n) {
    parallel_for(widen_piece, &(Flat){x, y, 0, 0}, n, PIECE_SIZE(n, GRAIN));
}

EXPORT("cast_f32_f16") void cast_f32_f16(const f32 *x, u16 *y, u32 n) {
    parallel_for(round_piece, &(Flat){x, y, 0, 0}, n, PIECE_SIZE(n, GRAIN));
}

static void repeat(const u16 *x, f32 *y) {
    widen_some(x, y, 1);
    for (u32 i = 1; i < BLOCK; i++) y[i] = *y;
}

static void half_piece(u32 i, u32 end, void *ctx) {
    const HalfCall *job = ctx;
    _Alignas(64) f32 blocks[HALF_OPERANDS + 1][BLOCK];
    f32 *result = blocks[HALF_OPERANDS];
    Argument a[HALF_OPERANDS + 3];
    u32 count = (u32)job->count;
    for (u32 k = 0; k < count; k++) {
        a[k].address = blocks[k];
        if (job->repeats[k]) repeat(job->in[k], blocks[k]);
    }
    if (count == 1)
        a[3].number = job->numbers[0], a[4].number = job->numbers[1];
    else
        a[count + 2].address = NULL;
    for (u32 n; i < end; i += n) {
        n = MIN(end - i, BLOCK);
        for (u32 k = 0; k < count; k++)
            if (!job->repeats[k]) widen((const u16 *)job->in[k] + i, blocks[k], n);
        a[count].address = job->is_bool ? (void *)((u8 *)job->out + i) : result;
        a[count + 1].count = n;
        job->kernel->call(a);
        if (!job->is_bool) round_to_half(result, (u16 *)job->out + i, n);
    }
}

/* `job` is a HalfCall. */
EXPORT("run_half") void run_half(const HalfCall *job, u32 n) {
    parallel_for(half_piece, (void *)job, n, PIECE_SIZE(n, GRAIN));
}
