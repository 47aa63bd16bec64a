/* The interface of a kernel in a WebAssembly module, for plugrad_wasm.load_kernel.

       #include "plugrad_kernel.h"

       PLUGRAD_KERNEL(cube) {
           const plugrad_tensor *x = &call->inputs[0];
           if (x->dtype != PLUGRAD_FLOAT32) return PLUGRAD_NOT_IMPLEMENTED;
           const float *from = x->data;
           float *to = call->outputs[0].data;
           for (uint32_t i = 0; i < x->size; i++) to[i] = from[i] * from[i] * from[i];
           return PLUGRAD_OK;
       }

   Inputs and attributes are in the order of the kernel's contract, and outputs have the
   shapes and dtypes that its `out` rule returns. All arguments are in the module's own
   memory. Inputs are copies, and outputs are initialized with zeros; both may be
   written. Arguments are valid only during the call. All other memory of the module is
   kept from one call to the next, until a call traps.

   Compile for wasm32 without a system, so that nothing is imported:

       -target wasm32-freestanding -O3 -msimd128 -nostdlib -s -Wl,--no-entry
*/
#pragma once
#include <stddef.h>
#include <stdint.h>

#define PLUGRAD_VERSION 1 /* version of this interface; call->version: the caller's */

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
    void *data; /* row-major, 16-byte aligned; NULL for a missing optional input */
    const uint32_t *shape; /* `rank` sizes */
    uint32_t rank;
    uint32_t size; /* the number of elements */
    uint32_t dtype; /* a plugrad_dtype */
} plugrad_tensor;

/* An attribute. Numbers, bool (0 or 1), dtypes (a plugrad_dtype) and None (no value)
   are in `values`. The elements of a tuple are consecutive; nested tuples and the
   fields of geometries are flattened. A str is in `text`, in UTF-8. */
typedef struct {
    const double *values;
    uint32_t count;
    const char *text; /* NULL if the attribute is not a str */
} plugrad_attr;

typedef struct {
    uint32_t version;
    uint32_t input_count;
    uint32_t output_count;
    uint32_t attr_count;
    const plugrad_tensor *inputs; /* the tensors of a variadic input follow each other */
    const plugrad_tensor *outputs;
    const plugrad_attr *attrs;
} plugrad_call;

/* A kernel returns one of these, or a message for the BackendError, in UTF-8. */
#define PLUGRAD_OK ((const char *)0)
#define PLUGRAD_NOT_IMPLEMENTED ((const char *)1) /* run the decomposition, or the host */

#define PLUGRAD_KERNEL(name)                                                             \
    __attribute__((export_name(#name))) const char *name(const plugrad_call *call)
