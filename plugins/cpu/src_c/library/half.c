/* Float16 arrays. No kernel computes in float16: blocks of elements are converted to
   float32, a float32 kernel runs on them, and its results are rounded once.

   The conversion uses vectors, because processors convert eight or more elements
   with one instruction. */
#include "elementwise.h"
#include "half.h"

enum { BLOCK_ELEMENTS = 2048, CONVERT_ELEMENTS = 16 };
typedef _Float16 halves __attribute__((ext_vector_type(CONVERT_ELEMENTS)));
typedef f32 floats __attribute__((ext_vector_type(CONVERT_ELEMENTS)));

INLINE void widen_vector(const u16 *x, f32 *y, u32 n) {
    halves part = 0;
    memcpy(&part, x, n * sizeof *x);
    floats wide = __builtin_convertvector(part, floats);
    memcpy(y, &wide, n * sizeof *y);
}

INLINE void round_vector(const f32 *x, u16 *y, u32 n) {
    floats part = 0;
    memcpy(&part, x, n * sizeof *x);
    halves narrow = __builtin_convertvector(part, halves);
    memcpy(y, &narrow, n * sizeof *y);
}

static void widen(const u16 *restrict x, f32 *restrict y, u32 n) {
    u32 i = 0;
    for (; i + CONVERT_ELEMENTS <= n; i += CONVERT_ELEMENTS) widen_vector(x + i, y + i, CONVERT_ELEMENTS);
    if (i < n) widen_vector(x + i, y + i, n - i);
}

static void round_to_half(const f32 *restrict x, u16 *restrict y, u32 n) {
    u32 i = 0;
    for (; i + CONVERT_ELEMENTS <= n; i += CONVERT_ELEMENTS) round_vector(x + i, y + i, CONVERT_ELEMENTS);
    if (i < n) round_vector(x + i, y + i, n - i);
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

static void fill_block(const u16 *x, f32 *y) {
    widen_vector(x, y, 1);
    for (u32 i = 1; i < BLOCK_ELEMENTS; i++) y[i] = *y;
}

static void half_piece(u32 i, u32 end, void *ctx) {
    const HalfCall *job = ctx;
    _Alignas(64) f32 blocks[HALF_OPERANDS + 1][BLOCK_ELEMENTS];
    f32 *result = blocks[HALF_OPERANDS];
    Argument a[HALF_OPERANDS + 3];
    u32 count = (u32)job->count;
    for (u32 k = 0; k < count; k++) {
        a[k].address = blocks[k];
        if (job->repeats[k]) fill_block(job->in[k], blocks[k]);
    }
    if (count == 1)
        a[3].number = job->numbers[0], a[4].number = job->numbers[1];
    else
        a[count + 2].address = NULL;
    for (u32 n; i < end; i += n) {
        n = MIN(end - i, BLOCK_ELEMENTS);
        for (u32 k = 0; k < count; k++)
            if (!job->repeats[k]) widen((const u16 *)job->in[k] + i, blocks[k], n);
        a[count].address = job->is_bool ? (void *)((u8 *)job->out + i) : result;
        a[count + 1].count = n;
        job->kernel->call(a);
        if (!job->is_bool) round_to_half(result, (u16 *)job->out + i, n);
    }
}

/* Runs the kernel of `job` on n elements. */
EXPORT("run_half") void run_half(const HalfCall *job, u32 n) {
    parallel_for(half_piece, (void *)job, n, PIECE_SIZE(n, GRAIN));
}
