/* Element-wise kernels of float32 on arrays of float16. */
#pragma once
#include "entry.h"

enum { HALF_OPERANDS = 3, HALF_NUMBERS = 2 };

/* A call of a kernel of float32: of one operand as `kernel(x, y, n, numbers...)`, of several
   as `kernel(a, b, y, n, NULL)`. An operand is an array of n elements of float16, or one
   element for all. The result has n elements of float16, or of bool. */
typedef struct {
    const Entry *kernel;
    const void *in[HALF_OPERANDS];
    int32_t repeats[HALF_OPERANDS]; /* 1: one element for all */
    void *out;
    int32_t count, is_bool; /* of operands; the result */
    double numbers[HALF_NUMBERS];
} HalfCall;
