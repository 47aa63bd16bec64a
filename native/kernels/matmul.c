/* BatchMatMul, and the epilogue of fused kernels.

   Contents: the epilogue; float32; other dtypes.
*/
#include "gemm.h"
#include "mathematics.h"

/* --- the epilogue of fused kernels ------------------------------------------------- */

static v4 activate(Activation activation, v4 y, v4 slope) { /* NaN propagates */
    v4 zero = SPLAT(0), below = wasm_f32x4_lt(y, zero);
    switch (activation) {
    case RELU: return wasm_f32x4_pmax(y, zero);
    case RELU6: return wasm_f32x4_pmin(wasm_f32x4_pmax(y, zero), SPLAT(6));
    case LEAKY_RELU:
    case PRELU: return WHERE(below, MUL(y, slope), y);
    case ELU: return WHERE(below, expm1_4(y), y);
    case SIGMOID: return sigmoid4(y);
    default: return y;
    }
}

INLINE v4 load_up_to_4(const f32 *p, u32 n) {
    return n == 4 ? LOAD(p) : load_partial(p, n);
}

void apply_epilogue(const Epilogue *f, f32 *y, u32 j, u32 n) {
    for (u32 i = 0; i < n; i += 4) {
        u32 count = MIN(4, n - i);
        v4 z = load_up_to_4(y + i, count), slope = SPLAT(f->slope);
        if (f->bias) z = ADD(z, load_up_to_4(f->bias + j + i, count));
        if (f->activation == PRELU) slope = load_up_to_4(f->slopes + j + i, count);
        z = activate(f->activation, z, slope);
        count == 4 ? STORE(y + i, z) : store_partial(y + i, z, count);
    }
}

EXPORT("matmul_f32")
void matmul_f32(const f32 *a, const f32 *b, f32 *c, u32 m, u32 n, u32 k, u32 turn_a,
                u32 turn_b, u32 batches, const i32 *offsets, const f32 *bias,
                const f32 *slopes, u32 activation, f64 slope) {
    Epilogue epilogue = {bias, slopes, activation, (f32)slope};
    INSIDE(c, (u64)batches * m * n * sizeof(f32));
    Gemm g = {.m = m, .n = n, .k = k, .batches = batches, .a_at = offsets, .a = a,
              .b_at = offsets ? offsets + batches : 0,
              .a_row = turn_a ? 1 : (i32)k, .a_column = turn_a ? (i32)m : 1,
              .a_batch = (i32)(m * k), .b = b, .b_row = turn_b ? 1 : (i32)n,
              .b_column = turn_b ? (i32)k : 1, .b_batch = (i32)(k * n), .c = c,
              .c_row = (i32)n, .c_batch = (i32)(m * n)};
    if (bias || activation) g.epilogue = &epilogue;
    gemm(&g);
}

#if READS_IN_PLACE
/* Computes the product of matrices with any strides. `how` contains m, n, k and
   batches; the strides of a and of b along rows, columns and batches; and a flag. If
   the flag is 1, the offsets of the batches of a and of b follow and replace their
   strides. */
EXPORT("product_f32")
void product_f32(const i32 *how, const f32 *a, const f32 *b, f32 *c, const f32 *bias,
                 const f32 *slopes, u32 activation, f64 slope) {
    Epilogue epilogue = {bias, slopes, activation, (f32)slope};
    u32 m = (u32)how[0], n = (u32)how[1];
    Gemm g = {.m = m, .n = n, .k = (u32)how[2], .batches = (u32)how[3], .a = a,
              .a_row = how[4], .a_column = how[5], .a_batch = how[6], .b = b,
              .b_row = how[7], .b_column = how[8], .b_batch = how[9], .c = c,
              .c_row = (i32)n, .c_batch = (i32)(m * n)};
    if (how[10]) g.a_at = how + 11, g.b_at = how + 11 + how[3];
    if (bias || activation) g.epilogue = &epilogue;
    gemm(&g);
}
#endif

/* --- other dtypes ----------------------------------------------------------------- */

#pragma STDC CX_LIMITED_RANGE ON

typedef struct {
    const void *a, *b;
    void *c;
    u32 m, n, k, turn_a, turn_b, batches;
    const i32 *offsets;
} Task;

#define MATMUL(T, name, HOW)                                                           \
    static void rows_##name(u32 begin, u32 end, void *ctx) {                           \
        const Task *s = ctx;                                                           \
        u32 m = s->m, n = s->n, k = s->k;                                              \
        for (u32 i = begin; i < end; i++) {                                            \
            u32 batch = i / m, row = i % m;                                            \
            u32 at_a = batch * m * k, at_b = batch * k * n;                            \
            if (s->offsets)                                                            \
                at_a = (u32)s->offsets[batch], at_b = (u32)s->offsets[s->batches + batch]; \
            const T *a = (const T *)s->a + at_a + row * (s->turn_a ? 1 : k);           \
            const T *b = (const T *)s->b + at_b;                                       \
            T *c = (T *)s->c + i * n;                                                  \
            memset(c, 0, n * sizeof(T));                                               \
            for (u32 q = 0; q < k; q++, a += s->turn_a ? m : 1)                        \
                if (s->turn_b)                                                         \
                    SMALL for (u32 j = 0; j < n; j++) c[j] += *a * b[j * k + q];       \
                else                                                                   \
                    HOW for (u32 j = 0; j < n; j++) c[j] += *a * b[q * n + j];         \
        }                                                                              \
    }                                                                                  \
    EXPORT("matmul_" #name)                                                            \
    void matmul_##name(const T *a, const T *b, T *c, u32 m, u32 n, u32 k, u32 turn_a,  \
                       u32 turn_b, u32 batches, const i32 *offsets) {                  \
        Task s = {a, b, c, m, n, k, turn_a, turn_b, batches, offsets};                 \
        parallel_for(rows_##name, &s, batches * m, 65536 / (n * (u64)k) + 1);          \
    }

MATMUL(f64, f64, )
MATMUL(u8, i8, SMALL)
MATMUL(u16, i16, SMALL)
MATMUL(u32, i32, )
MATMUL(u64, i64, SMALL)
MATMUL(c64, c64, SMALL)
MATMUL(c128, c128, SMALL)
