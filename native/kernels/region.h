/* A region runs several element-wise kernels in one pass over the elements. */
#pragma once
#include <stdint.h>

enum { REGION_SLOTS = 128, REGION_MEMORY = 16384 }; /* elements */

/* Where a value is: in an array that is read in order, with elements of `size` bytes; in
   one element for all (SCALAR); in an array that is broadcast into a tile by the strides
   of its loop; or in a tile. A call passes its arrays in the order of the slots that are
   not tiles. */
enum { ARRAY, SCALAR, BROADCAST, TILE };

typedef struct {
    int32_t kind, size;
    int32_t place; /* number of the tile in memory, for TILE and BROADCAST */
    int32_t loop;  /* index of its loop: rank, sizes, strides in elements */
} RegionSlot;

/* `run` is the function NAME_piece of a kernel with one operand, or NAME_row of a kernel
   with two or three. */
typedef struct {
    void *run;
    double p, q;
    int32_t count, in[3], to;
} RegionStep;

typedef struct {
    int32_t slot_count, step_count, tile;
    const RegionSlot *slots;
    const RegionStep *steps;
    const int32_t *loops;
} Region;

/* Runs the steps on n elements; `arrays` are those of all slots, NULL for tiles. */
void run_region(const Region *region, void *const *arrays, uint32_t n);

/* Runs the steps on elements i to end on this thread. `arrays` begin with element i,
   except broadcast ones. */
void run_part(const Region *region, void *const *arrays, uint32_t i, uint32_t end);
