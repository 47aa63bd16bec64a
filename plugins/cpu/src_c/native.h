/* What the files of the module have in common. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define PY_ARRAY_UNIQUE_SYMBOL plugrad_cpu_arrays
#ifndef MAIN
#define NO_IMPORT_ARRAY
#endif
/* What the module uses: the headers of NumPy 2.1 leave out some of it by default. */
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include "library/entry.h"

enum { LARGE = 1 << 16 }; /* bytes: a kernel that has as many runs without the GIL */

extern PyMethodDef pool_methods[], call_methods[], elementwise_methods[];
extern PyMethodDef quiet_methods[], region_methods[];
extern PyTypeObject FunctionType, ElementwiseType, QuietType;
int start_pool(void); /* 0, or -1 with an error */
int start_quiet(void), start_regions(void); /* the same */

/* Takes the memory of arrays from the pool until `leave_pool` of what was in use before,
   which is NULL where there is no pool: 0, or -1 with an error. */
int enter_pool(PyObject **before);
void leave_pool(PyObject *before);

/* Of the library: the entry point of a kernel, and a function that only C calls; NULL with
   an error. */
const Entry *entry_named(const char *name);
void *function_named(const char *name);
/* Reads argument `k` of a kernel: 0, or -1 with an error. */
int read_argument(const Entry *entry, Py_ssize_t k, PyObject *x, Argument *to);
int check_count(const Entry *entry, Py_ssize_t count); /* the same */

/* Calls a kernel of float32 with operands of float16: in blocks, or, if that does not fit
   or `kernel` is NULL, `function` with arrays of float32, and `given` arguments in all.
   NULL, with no error, if an operand is no array of float16. */
PyObject *call_half(const Entry *kernel, int result, PyObject *function,
                    PyObject *const *args, int nin, Py_ssize_t given,
                    const double *numbers);
