/* Calls of float32 kernels with float16 arrays: the result is rounded once.

   Operands with the same layout or a single element are converted in blocks by
   library/half.c. Other operands, and those of NumPy kernels, are copied to float32
   arrays for the call. */
#include "native.h"
#include "library/half.h"

#include <stdbool.h>
#include <string.h>

/* The maximum number of elements per call, because the kernels count them in 32 bits.
   */
static const npy_intp CALL_MAX_ELEMENTS = 1 << 30;

static bool is_half(PyObject *x) {
    PyArrayObject *array = (PyArrayObject *)x;
    return PyArray_Check(x) && PyArray_TYPE(array) == NPY_HALF &&
           PyArray_ISALIGNED(array) && PyArray_ISNOTSWAPPED(array);
}

/* Runs `cast_f16_f32` or `cast_f32_f16`. */
static void convert(const Entry *entry, PyArrayObject *from, PyArrayObject *to) {
    char *x = PyArray_BYTES(from), *y = PyArray_BYTES(to);
    npy_intp size = PyArray_SIZE(from), a = PyArray_ITEMSIZE(from), b = PyArray_ITEMSIZE(to);
    PyThreadState *state = size * 4 >= NOGIL_MIN_BYTES ? PyEval_SaveThread() : NULL;
    for (npy_intp at = 0; at < size; at += CALL_MAX_ELEMENTS) {
        npy_intp n = size - at < CALL_MAX_ELEMENTS ? size - at : CALL_MAX_ELEMENTS;
        entry->call((Argument[]){{.address = x + at * a},
                                 {.address = y + at * b},
                                 {.count = (uint32_t)n}});
    }
    if (state != NULL) PyEval_RestoreThread(state);
}

/* Returns a copy with another floating-point type, in the same memory order. */
static PyArrayObject *convert_array(PyArrayObject *x, int type) {
    const Entry *entry = entry_named(type == NPY_FLOAT ? "cast_f16_f32" : "cast_f32_f16");
    if (entry == NULL) return NULL;
    bool flat = PyArray_IS_C_CONTIGUOUS(x) || PyArray_IS_F_CONTIGUOUS(x);
    PyArrayObject *from = flat ? (PyArrayObject *)Py_NewRef(x)
                               : (PyArrayObject *)PyArray_NewCopy(x, NPY_CORDER);
    if (from == NULL) return NULL;
    PyArray_Descr *dtype = PyArray_DescrFromType(type);
    PyArrayObject *to = (PyArrayObject *)PyArray_NewLikeArray(from, NPY_KEEPORDER, dtype,
                                                              0);
    if (to != NULL) convert(entry, from, to);
    Py_DECREF(from);
    return to;
}

/* Calls a function with the operands as float32, followed by the other arguments. */
static PyObject *call_widened(PyObject *function, PyObject *const *args, int nin,
                              Py_ssize_t given) {
    PyObject *wide[HALF_OPERANDS + HALF_NUMBERS] = {NULL}, *y = NULL;
    bool done = true;
    for (Py_ssize_t i = 0; done && i < given; i++) {
        bool is_array = i < nin;
        wide[i] = is_array ? (PyObject *)convert_array((PyArrayObject *)args[i], NPY_FLOAT)
                           : Py_NewRef(args[i]);
        done = wide[i] != NULL;
    }
    if (done) y = PyObject_Vectorcall(function, wide, (size_t)given, NULL);
    for (Py_ssize_t i = 0; i < given; i++) Py_XDECREF(wide[i]);
    if (y != NULL && PyArray_CheckScalar(y) && !PyArray_Check(y))
        Py_SETREF(y, PyArray_FromScalar(y, NULL));
    if (y == NULL || !PyArray_Check(y) || PyArray_TYPE((PyArrayObject *)y) != NPY_FLOAT)
        return y;
    PyObject *rounded = (PyObject *)convert_array((PyArrayObject *)y, NPY_HALF);
    Py_DECREF(y);
    return rounded;
}

/* Returns the index of the first operand with more than one element, or -1 if such
   operands differ in layout. Sets `repeats[k]` if operand k is a single repeated
   element. */
static int find_leader(PyObject *const *args, int nin, int32_t *repeats) {
    int leader = -1;
    bool c = true, f = true;
    for (int k = 0; k < nin; k++) {
        PyArrayObject *x = (PyArrayObject *)args[k];
        repeats[k] = nin > 1 && PyArray_SIZE(x) == 1;
        if (repeats[k]) continue;
        c = c && PyArray_IS_C_CONTIGUOUS(x), f = f && PyArray_IS_F_CONTIGUOUS(x);
        if (leader < 0) leader = k;
        if (!PyArray_SAMESHAPE((PyArrayObject *)args[leader], x)) return -1;
    }
    for (int k = 0; leader >= 0 && k < nin; k++) /* single elements may have more axes */
        if (PyArray_NDIM((PyArrayObject *)args[k]) >
            PyArray_NDIM((PyArrayObject *)args[leader]))
            return -1;
    return c || f ? leader : -1;
}

/* Runs a kernel in blocks. Returns NULL without an error if the layouts differ. */
static PyObject *run_in_blocks(const Entry *kernel, int result, PyObject *const *args,
                               int nin, const double *numbers) {
    HalfCall job = {.kernel = kernel, .count = nin, .is_bool = result == NPY_BOOL};
    int leader = find_leader(args, nin, job.repeats);
    const Entry *entry = leader < 0 ? NULL : entry_named("run_half");
    if (entry == NULL) return NULL;
    PyArrayObject *like = (PyArrayObject *)args[leader];
    PyArray_Descr *dtype = PyArray_DescrFromType(job.is_bool ? NPY_BOOL : NPY_HALF);
    PyArrayObject *y = (PyArrayObject *)PyArray_NewLikeArray(like, NPY_KEEPORDER, dtype, 0);
    if (y == NULL) return NULL;
    memcpy(job.numbers, numbers, sizeof job.numbers);
    char *to = PyArray_BYTES(y), *from[HALF_OPERANDS];
    for (int k = 0; k < nin; k++) from[k] = PyArray_BYTES((PyArrayObject *)args[k]);
    npy_intp size = PyArray_SIZE(y), itemsize = PyArray_ITEMSIZE(y);
    PyThreadState *state = size * 4 >= NOGIL_MIN_BYTES ? PyEval_SaveThread() : NULL;
    for (npy_intp at = 0; at < size; at += CALL_MAX_ELEMENTS) {
        npy_intp n = size - at < CALL_MAX_ELEMENTS ? size - at : CALL_MAX_ELEMENTS;
        for (int k = 0; k < nin; k++) job.in[k] = from[k] + (job.repeats[k] ? 0 : 2 * at);
        job.out = to + at * itemsize;
        entry->call((Argument[]){{.address = &job}, {.count = (uint32_t)n}});
    }
    if (state != NULL) PyEval_RestoreThread(state);
    return (PyObject *)y;
}

/* Returns a new reference to an operand as an array, or NULL without an error if it is
   not float16. */
static PyObject *as_half(PyObject *x) {
    if (is_half(x)) return Py_NewRef(x);
    return PyArray_IsScalar(x, Half) ? PyArray_FromScalar(x, NULL) : NULL;
}

PyObject *call_half(const Entry *kernel, int result, PyObject *function,
                    PyObject *const *args, int nin, Py_ssize_t given,
                    const double *numbers) {
    PyObject *all[HALF_OPERANDS + HALF_NUMBERS] = {NULL}, *y = NULL;
    bool fits = given >= nin && given <= HALF_OPERANDS + HALF_NUMBERS;
    for (Py_ssize_t k = 0; fits && k < given; k++) {
        all[k] = k < nin ? as_half(args[k]) : Py_NewRef(args[k]);
        fits = all[k] != NULL;
    }
    if (fits && kernel) y = run_in_blocks(kernel, result, all, nin, numbers);
    if (fits && y == NULL && !PyErr_Occurred())
        y = call_widened(function, all, nin, given);
    for (int k = 0; k < HALF_OPERANDS + HALF_NUMBERS; k++) Py_XDECREF(all[k]);
    return y;
}
