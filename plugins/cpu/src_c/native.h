/* Declarations that the files of the module share. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define PY_ARRAY_UNIQUE_SYMBOL plugrad_cpu_arrays
#ifndef MAIN
#define NO_IMPORT_ARRAY
#endif
/* By default, the headers of NumPy 2.1 hide some functions that the module uses. */
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include "library/entry.h"

enum { NOGIL_MIN_BYTES = 1 << 16 }; /* kernels release the GIL for operands this large */

extern PyMethodDef pool_methods[], call_methods[], elementwise_methods[];
extern PyMethodDef context_methods[], region_methods[];
extern PyTypeObject FunctionType, ElementwiseType, ContextKernelType;
int start_pool(void); /* 0, or -1 with an error */
int start_context(void), start_regions(void); /* 0, or -1 with an error */

/* Makes NumPy allocate new arrays from the pool until `leave_pool(before)`. `before` is
   set to the handler that was in use, or NULL if there is no pool. Returns 0, or -1
   with an error. */
int enter_pool(PyObject **before);
void leave_pool(PyObject *before);

/* Return the entry point of a kernel, or the address of a function that only C calls.
   Return NULL with an error if the library does not contain it. */
const Entry *entry_named(const char *name);
void *function_named(const char *name);
/* Reads argument `k` of a kernel. Returns 0, or -1 with an error. */
int read_argument(const Entry *entry, Py_ssize_t k, PyObject *x, Argument *to);
/* Checks the number of arguments. Returns 0, or -1 with an error. */
int check_count(const Entry *entry, Py_ssize_t count);

/* Calls a float32 kernel with float16 operands, in blocks. If the operands have
   different layouts, or `kernel` is NULL, calls `function` with float32 copies instead.
   `given` is the number of all arguments. Returns NULL without an error if an operand
   is not a float16 array. */
PyObject *call_half(const Entry *kernel, int result, PyObject *function,
                    PyObject *const *args, int nin, Py_ssize_t given,
                    const double *numbers);
