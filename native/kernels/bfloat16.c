/* Products of a few float32 rows with a bfloat16 matrix. The matrix is read once, and is
   not converted in memory: that would take longer than the product. */
#include "bfloat16.h"
#include "gemm.h"

typedef u16 Halves __attribute__((ext_vector_type(LANES)));
typedef u32 Bits __attribute__((ext_vector_type(LANES)));

typedef struct {
    const f32 *x;     /* rows [rows, inputs] */
    const u16 *w;     /* [outputs, inputs], or [inputs, outputs] */
    f32 *y;           /* [rows, outputs] */
    u32 rows, outputs, inputs;
} Product;

enum { MAX_ROWS = 4, OUTPUTS_AT_ONCE = 4, INPUTS_AT_ONCE = 8 };

INLINE vec numbers_at(const u16 *p) {
    Halves halves;
    memcpy(&halves, p, sizeof halves);
    Bits bits = __builtin_convertvector(halves, Bits) << 16;
    vec x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Prefetches weights of the next outputs. The rows are too short for the hardware
   prefetcher to recognize them in time. */
INLINE void prefetch(const u16 *p) {
#if CACHE_CONTROL
    __builtin_prefetch(p);
#endif
}

/* --- weights [outputs, inputs]: dot products -------------------------------------- */

/* Computes `count` outputs of `rows` rows; their sums stay in registers. */
INLINE void dot(const Product *s, u32 first, u32 count, u32 rows) {
    u32 n = s->inputs, i = 0;
    const u16 *w = s->w + (size_t)first * n;
    vec sums[MAX_ROWS][OUTPUTS_AT_ONCE];
    for (u32 r = 0; r < rows; r++)
        for (u32 c = 0; c < count; c++) sums[r][c] = VEC(0);
    for (; i + LANES <= n; i += LANES)
        for (u32 c = 0; c < count; c++) {
            prefetch(w + (size_t)(c + count) * n + i);
            vec v = numbers_at(w + (size_t)c * n + i);
            for (u32 r = 0; r < rows; r++)
                sums[r][c] = FMA(v, VLOAD(s->x + (size_t)r * n + i), sums[r][c]);
        }
    for (u32 r = 0; r < rows; r++)
        for (u32 c = 0; c < count; c++) {
            f32 sum = reduce_add(sums[r][c]);
            const f32 *x = s->x + (size_t)r * n;
            for (u32 j = i; j < n; j++) sum += x[j] * from_bfloat16(w[(size_t)c * n + j]);
            s->y[(size_t)r * s->outputs + first + c] = sum;
        }
}

/* Computes groups of outputs. With more rows, fewer sums fit into the registers. */
#define DOTS(ROWS, COUNT)                                                                \
    static void dots_##ROWS(u32 begin, u32 end, void *ctx) {                             \
        const Product *s = ctx;                                                          \
        u32 j = begin * OUTPUTS_AT_ONCE, last = MIN(end * OUTPUTS_AT_ONCE, s->outputs);  \
        for (; j + COUNT <= last; j += COUNT) dot(s, j, COUNT, ROWS);                    \
        for (; j < last; j++) dot(s, j, 1, ROWS);                                        \
    }
DOTS(1, OUTPUTS_AT_ONCE)
DOTS(2, 2)
DOTS(3, 1)
DOTS(4, 1)
#undef DOTS

/* --- weights [inputs, outputs]: sums of rows -------------------------------------- */

/* Adds `count` rows of the weights, each times a number of x, to a part of a row of y. */
INLINE void add_rows(const Product *s, const f32 *x, const u16 *w, f32 *y, u32 count,
                     u32 width) {
    u32 j = 0;
    for (; j + LANES <= width; j += LANES) {
        vec sum = VLOAD(y + j);
        for (u32 i = 0; i < count; i++)
            sum = FMA(VEC(x[i]), numbers_at(w + (size_t)i * s->outputs + j), sum);
        STORE(y + j, sum);
    }
    for (; j < width; j++)
        for (u32 i = 0; i < count; i++)
            y[j] += x[i] * from_bfloat16(w[(size_t)i * s->outputs + j]);
}

static void sums(u32 begin, u32 end, void *ctx) {
    const Product *s = ctx;
    u32 n = s->inputs, piece = task_columns(s->outputs);
    for (u32 part = begin; part < end; part++) {
        u32 first = part * piece, width = MIN(piece, s->outputs - first);
        for (u32 r = 0; r < s->rows; r++)
            memset(s->y + (size_t)r * s->outputs + first, 0, width * sizeof(f32));
        for (u32 i = 0, count; i < n; i += count) {
            count = i + INPUTS_AT_ONCE <= n ? INPUTS_AT_ONCE : 1;
            const u16 *w = s->w + (size_t)i * s->outputs + first;
            for (u32 r = 0; r < s->rows; r++) {
                const f32 *x = s->x + (size_t)r * n + i;
                f32 *y = s->y + (size_t)r * s->outputs + first;
                if (count == 1) add_rows(s, x, w, y, 1, width);
                else add_rows(s, x, w, y, INPUTS_AT_ONCE, width);
            }
        }
    }
}

/* Computes y = x w, or x wᵀ if `transposed`; there are at most MAX_ROWS rows. */
EXPORT("product_bf16")
void product_bf16(const f32 *x, const u16 *w, f32 *y, u32 rows, u32 outputs, u32 inputs,
                  u32 transposed) {
    static void (*const dots[])(u32, u32, void *) = {dots_1, dots_2, dots_3, dots_4};
    Product s = {x, w, y, rows, outputs, inputs};
    INSIDE(w, (u64)outputs * inputs * sizeof(u16));
    INSIDE(y, (u64)rows * outputs * sizeof(f32));
    u32 piece = transposed ? OUTPUTS_AT_ONCE : task_columns(outputs);
    u64 work = (u64)rows * inputs * piece;
    u32 grain = (u32)MAX(1, 65536 / MAX(work, 1));
    if (transposed)
        parallel_for(dots[rows - 1], &s, CEIL_DIV(outputs, piece), grain);
    else
        parallel_for(sums, &s, CEIL_DIV(outputs, piece), grain);
}
