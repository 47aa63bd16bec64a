/* Row programs: element-wise steps and kernels of rows take turns. */
#pragma once
#include "entry.h"
#include "kernels/region.h"

enum { BLOCK_MEMORY = 1 << 17 }; /* of a thread, in elements */

/* An array: the part of it that belongs to element i of the iteration begins with element
   `i / every * many`. Or, if `place` is not negative, memory from there on. */
typedef struct {
    int32_t place, size; /* bytes of an element */
    uint32_t every, many;
} BlockValue;

/* Of a kernel: the part of a value, or NULL if `number` is negative; the number of elements
   of the block over `number`; a number; `last` of the stage. */
enum { PART_OF, COUNT_OVER, NUMBER, LAST };

typedef struct {
    int32_t kind, number;
} BlockArgument;

/* A region whose slots have these values, -1 for tiles; or a kernel. */
typedef struct {
    const Region *region;
    const int32_t *values;
    const Entry *kernel;
    BlockArgument arguments[MAX_ARGUMENTS];
    double last;
} BlockStage;

typedef struct {
    int32_t value_count, stage_count;
    uint32_t block, piece; /* elements; blocks of a piece of work */
    const BlockValue *values;
    const BlockStage *stages;
} BlockProgram;

/* Runs the stages on n elements; `arrays` are those of all values, NULL for memory. */
void run_blocks(const BlockProgram *program, void *const *arrays, uint32_t n);
