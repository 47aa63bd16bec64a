/* Row programs, which alternate element-wise steps and row kernels. */
#pragma once
#include "entry.h"
#include "kernels/region.h"

enum { BLOCK_MEMORY = 1 << 17 }; /* elements of scratch memory per thread */

/* A value. If it is in an array, the block that begins at element i of the
   iteration begins at element `i / divisor * factor` of the array. If `place` is
   not negative, the value is in the scratch memory, from element `place` on. */
typedef struct {
    int32_t place, size; /* `size`: bytes per element */
    uint32_t divisor, factor;
} BlockValue;

/* The kinds of kernel arguments.
   PART_OF: the current block of value `number`; NULL if `number` is negative
   COUNT_OVER: the number of elements of the block, divided by `number`
   NUMBER: `number` itself
   LAST: `last` of the stage */
enum { PART_OF, COUNT_OVER, NUMBER, LAST };

typedef struct {
    int32_t kind, number;
} BlockArgument;

/* A stage: either a region, where `values` contains the value of each slot (-1 for
   tiles), or a kernel. */
typedef struct {
    const Region *region;
    const int32_t *values;
    const Entry *kernel;
    BlockArgument arguments[MAX_ARGUMENTS];
    double last;
} BlockStage;

typedef struct {
    int32_t value_count, stage_count;
    uint32_t block, piece; /* elements per block; blocks per piece */
    const BlockValue *values;
    const BlockStage *stages;
} BlockProgram;

/* Runs the stages on n elements. `arrays` has an entry for each value; it is NULL for
   values in scratch memory. */
void run_blocks(const BlockProgram *program, void *const *arrays, uint32_t n);
