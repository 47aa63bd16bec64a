/* The float32 matrix product, on which convolutions are built: C = epilogue(A B),
   or C += A B.

   A is packed into panels of PACKED_MR rows and B into panels of NR columns, so that the
   micro-kernel reads both in order (gemm.c). A need not exist in memory: a convolution
   packs its im2col matrix one block at a time (conv.c).
*/
#pragma once
#include "plugrad.h"

/* The micro-kernel multiplies a panel of A by a panel of B into an MR x NR tile of C
   that stays in registers. The tile has SCATTERED_MR rows if the rows of A are not
   equally spaced. The blocks that stay in the caches are MC x KC of A and KC x NC of B.
   A task computes at most TASK_ROWS rows. PACKED_MR, the number of rows of a packed
   panel of A, is a multiple of four. */
enum { MR = GEMM_MR, SCATTERED_MR = GEMM_SCATTERED_MR };
enum { PACKED_MR = GEMM_PACKED_MR, NR = GEMM_NR };
enum { MC = GEMM_MC, TASK_ROWS = GEMM_TASK_ROWS, KC = GEMM_KC, NC = GEMM_NC };

/* If A is not packed, its number of rows must be a multiple of this constant: there are
   micro-kernels for MR, 2 MR / 3 and MR / 3 rows if MR is divisible by three. */
enum { UNPACKED_ROW_MULTIPLE = MR % 3 ? MR : MR / 3 };

/* The epilogue of a fused kernel, `activation(y + bias)`. The functions are in
   the order of ACTIVATIONS in fused.py. */
typedef enum { LINEAR, RELU, RELU6, LEAKY_RELU, PRELU, ELU, SIGMOID } Activation;

typedef struct {
    const f32 *bias;   /* one per column, or null */
    const f32 *slopes; /* the slopes of PRELU, one per column */
    Activation activation;
    f32 slope; /* the slope of LEAKY_RELU */
} Epilogue;

/* Applies the epilogue to n columns of a row; y[0] is in column j. */
void apply_epilogue(const Epilogue *f, f32 *y, u32 j, u32 n);

typedef struct Gemm Gemm;
struct Gemm {
    u32 m, n, k;
    u32 batches;
    const i32 *a_at, *b_at;    /* offset of each batch; null: use the steps below */
    i32 a_batch, b_batch, c_batch, epilogue_batch;
    const f32 *a;              /* a[i * a_row + k * a_column] */
    i32 a_row, a_column;
    const f32 *b;              /* b[k * b_row + j * b_column] */
    i32 b_row, b_column;
    f32 *c;                    /* c[i * c_row + j] */
    i32 c_row;
    bool accumulate;                  /* adds the product to C */
    const Epilogue *epilogue;         /* or null */
    /* Packs A from row i and column k on into panels [depth][PACKED_MR]. Panel rows
       after the last row of A may contain anything. Null: A is a matrix in memory. */
    void (*pack)(const Gemm *g, const f32 *a, u32 i, u32 rows, u32 k, u32 depth,
                 f32 *to);
    /* On native targets: read A without packing. Element (i, k) is
       a[starts[i] + places[k]] or, if A is transposed, a[starts[k] + places[i]]. */
    const i32 *starts, *places;
    bool transposed;
    /* The offset of row i of C; null: i * c_row. */
    u32 (*offset)(const Gemm *g, u32 i);
    const void *context;            /* data for `pack` and `offset` */
};

/* Returns the address of row t of a packed block of A. The next column is PACKED_MR
   elements later. Rows are packed in groups of four. */
INLINE f32 *packed_row(f32 *to, u32 t, u32 depth) {
    return to + t / PACKED_MR * PACKED_MR * depth + t % PACKED_MR;
}

/* Returns the number of columns per task of a product with few rows. Each thread gets one
   task if possible, because the hardware prefetches long parts of rows of B; the maximum
   keeps the sums in the first-level cache. */
INLINE u32 task_columns(u32 n) {
    enum { MIN_COLUMNS = 256, MAX_COLUMNS = 4096 };
    u32 fair = CEIL_DIV(n, thread_count() * MIN_COLUMNS) * MIN_COLUMNS;
    return MIN(fair, MAX_COLUMNS);
}

/* Computes the product; m, n, k and batches are at least 1. */
void gemm(const Gemm *g);
