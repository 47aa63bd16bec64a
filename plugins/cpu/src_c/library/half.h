/* Float32 element-wise kernels on float16 arrays. */
#pragma once
#include "entry.h"

enum { HALF_OPERANDS = 3, HALF_NUMBERS = 2 };

/* A call of a float32 kernel: `kernel(x, y, n, numbers...)` with one operand, and
   `kernel(a, b, y, n, NULL)` with several operands. An operand has n float16 elements,
   or one element that is repeated. The result has n elements of float16 or bool. */
typedef struct {
    const Entry *kernel;
    const void *in[HALF_OPERANDS];
    int32_t repeats[HALF_OPERANDS]; /* 1: one element is repeated */
    void *out;
    int32_t count, is_bool; /* number of operands; whether the result is bool */
    double numbers[HALF_NUMBERS];
} HalfCall;
