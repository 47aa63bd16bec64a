/* A region runs several element-wise kernels in one pass over the elements. */
#pragma once
#include <stdint.h>

/* The maximum number of slots, and of float32 elements in all tiles of a thread. */
enum { REGION_SLOTS = 128, REGION_MEMORY = 16384 };

/* Where a value is: in an array that is read in order, with elements of `size` bytes
   (ARRAY); in a single element that is repeated (SCALAR); in an array that is broadcast
   into a tile, with the strides of its loop (BROADCAST); or in a tile (TILE). A call
   passes one address per slot; those of tiles are NULL. */
enum { ARRAY, SCALAR, BROADCAST, TILE };

typedef struct {
    int32_t kind, size;
    int32_t place; /* for TILE and BROADCAST: index of the tile in scratch memory */
    int32_t loop;  /* for BROADCAST: index of its rank, sizes and strides in `loops` */
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

/* Runs the steps on n elements. `arrays` has an address for each slot, NULL for tiles.
   */
void run_region(const Region *region, void *const *arrays, uint32_t n);

/* Runs the steps on elements `i` to `end - 1` on this thread. All `arrays` but broadcast
   ones begin with element i. */
void run_part(const Region *region, void *const *arrays, uint32_t i, uint32_t end);
