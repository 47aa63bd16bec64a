/* What a WebAssembly module exports to be a kernel of plugrad, for plugrad_wasm.load_kernel.

       #include "plugrad_kernel.h"

       PLUGRAD_KERNEL(cube) {
           const plugrad_tensor *x = &call->inputs[0];
           if (x->dtype != PLUGRAD_FLOAT32) return PLUGRAD_NOT_IMPLEMENTED;
           const float *from = x->data;
           float *to = call->outputs[0].data;
           for (uint32_t i = 0; i < x->size; i++) to[i] = from[i] * from[i] * from[i];
           return PLUGRAD_OK;
       }

   Inputs and attributes come in the order of the kernel's contract, and outputs have the
   shapes and dtypes that its `out` rule gives. All of it lies in the module's own
   memory: inputs are copies, and outputs begin as zeros, so that both may be written.
   Nothing of it is there any more when the next call begins. What else is in the memory
   stays from one call to the next, until one of them traps.

   Compile it for wasm32 without a system, so that nothing is imported:

       -target wasm32-freestanding -O3 -msimd128 -nostdlib -s -Wl,--no-entry
*/
#pragma once
#include <stddef.h>
#include <stdint.h>

#define PLUGRAD_VERSION 1 /* of what is below; call->version is that of the caller */

typedef enum {
    PLUGRAD_BOOL, /* bytes, 0 or 1 */
    PLUGRAD_INT8,
    PLUGRAD_INT16,
    PLUGRAD_INT32,
    PLUGRAD_INT64,
    PLUGRAD_UINT8,
    PLUGRAD_UINT16,
    PLUGRAD_UINT32,
    PLUGRAD_UINT64,
    PLUGRAD_FLOAT16,
    PLUGRAD_FLOAT32,
    PLUGRAD_FLOAT64,
    PLUGRAD_COMPLEX64, /* real, imaginary, real, ... */
    PLUGRAD_COMPLEX128,
} plugrad_dtype;

typedef struct {
    void *data; /* row-major, at a multiple of 16; NULL: an optional input left out */
    const uint32_t *shape; /* `rank` of them */
    uint32_t rank;
    uint32_t size; /* the number of elements */
    uint32_t dtype; /* a plugrad_dtype */
} plugrad_tensor;

/* Numbers, bool (0 or 1), dtypes (a plugrad_dtype) and None (no value) are `values`; a
   tuple of them is one after the other, tuples in it and the fields of geometries
   flattened. A str is `text`, in UTF-8. */
typedef struct {
    const double *values;
    uint32_t count;
    const char *text; /* NULL where it is no str */
} plugrad_attr;

typedef struct {
    uint32_t version;
    uint32_t input_count;
    uint32_t output_count;
    uint32_t attr_count;
    const plugrad_tensor *inputs; /* those of a variadic one are one after the other */
    const plugrad_tensor *outputs;
    const plugrad_attr *attrs;
} plugrad_call;

/* What a kernel returns: one of these, or a message for the BackendError, in UTF-8. */
#define PLUGRAD_OK ((const char *)0)
#define PLUGRAD_NOT_IMPLEMENTED ((const char *)1) /* the decomposition runs, or the host */

#define PLUGRAD_KERNEL(name)                                                             \
    __attribute__((export_name(#name))) const char *name(const plugrad_call *call)
