/* Regions: several element-wise kernels in one pass over the elements. */
#pragma once
#include <stdint.h>

enum { REGION_SLOTS = 128, REGION_MEMORY = 16384 }; /* elements */

/* Where a value is: an array of `size` bytes an element, from the front; one element for
   all (SCALAR); an array that is broadcast, by the strides of its loop, into a tile; or
   a tile. The arrays of a call come in the order of the slots that are no tiles. */
enum { ARRAY, SCALAR, BROADCAST, TILE };

typedef struct {
    int32_t kind, size;
    int32_t place; /* of a tile, or of what is broadcast: its number in the memory */
    int32_t loop;  /* where its loop is: rank, sizes, strides in elements */
} RegionSlot;

/* `run` is the function NAME_piece of a kernel of one operand, or NAME_row of one of two or
   three. */
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

/* Runs them on this thread, on elements i to end; `arrays` begin with element i, but for
   those that are broadcast. */
void run_part(const Region *region, void *const *arrays, uint32_t i, uint32_t end);
