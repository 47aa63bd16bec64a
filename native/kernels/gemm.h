/* Matrix products of float32, which convolutions are too: C = finish(A B).

   A is cut into panels of some rows and B into panels of some columns, packed so that the
   inner loop reads both in order (gemm.c). A function that packs A need not have it in
   memory: a convolution packs what its windows see (conv.c).
*/
#pragma once
#include "plugrad.h"

/* A panel of A times a panel of B gives a tile of C, in registers: TILE rows at once, or
   SCATTERED where each row has a place of its own. ROWS, DEPTH and COLUMNS are blocks of A
   and B, in caches; HEIGHT is how many rows a task has. PANEL_A is a multiple of four. */
enum { TILE = GEMM_MR, SCATTERED = GEMM_SCATTERED_MR };
enum { PANEL_A = GEMM_PANEL_A, PANEL_B = GEMM_NR };
enum { ROWS = GEMM_MC, HEIGHT = GEMM_TASK_ROWS, DEPTH = GEMM_KC, COLUMNS = GEMM_NC };

/* Tiles of TILE rows, two thirds and a third of them are there, where these are whole. */
enum { EXACT = TILE % 3 ? TILE : TILE / 3 };

/* The end of a fused kernel, `activation(y + bias)`: numbers as in fused.py. */
typedef enum { LINEAR, RELU, RELU6, LEAKY_RELU, PRELU, ELU, SIGMOID } Activation;

typedef struct {
    const f32 *bias;   /* one a column, or null */
    const f32 *slopes; /* of PRELU, one a column */
    Activation activation;
    f32 slope; /* of LEAKY_RELU */
} Finish;

/* Finishes n columns of a row, y[0] being that of column j. */
void finish(const Finish *f, f32 *y, u32 j, u32 n);

typedef struct Gemm Gemm;
struct Gemm {
    u32 m, n, k;
    u32 batches;
    const i32 *a_at, *b_at;    /* where each batch begins; null: the steps below */
    i32 a_batch, b_batch, c_batch, finish_batch;
    const f32 *a;              /* a[i * a_row + k * a_column] */
    i32 a_row, a_column;
    const f32 *b;              /* b[k * b_row + j * b_column] */
    i32 b_row, b_column;
    f32 *c;                    /* c[i * c_row + j] */
    i32 c_row;
    const Finish *end;         /* or null */
    /* Packs rows i.. of A, columns k.., in panels [k][PANEL_A], with anything in rows that
       are not there; null: A is a matrix in memory. */
    void (*pack)(const Gemm *g, const f32 *a, u32 i, u32 rows, u32 k, u32 depth,
                 f32 *to);
    /* On processors, not to pack A: element (i, k) is a[starts[i] + places[k]] or, if A is
       turned, a[starts[k] + places[i]]. */
    const i32 *starts, *places;
    bool turned;
    /* Where row i of C begins; null: at i * c_row. */
    u32 (*offset)(const Gemm *g, u32 i);
    const void *of;            /* what pack and offset need to know */
};

/* Where a function that packs row t of the block of A begins, for four rows at once: the
   next column is PANEL_A further. */
INLINE f32 *row_of_panel(f32 *to, u32 t, u32 depth) {
    return to + t / PANEL_A * PANEL_A * depth + t % PANEL_A;
}

/* Computes the product; m, n, k and batches are at least 1. */
void gemm(const Gemm *g);
