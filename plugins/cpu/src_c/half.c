/* Calls of kernels of float32 with arrays of float16: the result is rounded once.

   Operands that are alike, or one element for all, go through target/half.c in blocks.
   Others, and those of kernels on NumPy, become arrays of float32 for the call. */
#include "native.h"
#include "library/half.h"

#include <stdbool.h>
#include <string.h>

static const npy_intp PIECE = 1 << 30; /* elements of a call: the kernels count in 32 bits */

static bool is_half(PyObject *x) {
    PyArrayObject *array = (PyArrayObject *)x;
    return PyArray_Check(x) && PyArray_TYPE(array) == NPY_HALF &&
           PyArray_ISALIGNED(array) && PyArray_ISNOTSWAPPED(array);
}

/* Runs `cast_f16_f32` or `cast_f32_f16`. */
static void convert(const Entry *entry, PyArrayObject *from, PyArrayObject *to) {
    char *x = PyArray_BYTES(from), *y = PyArray_BYTES(to);
    npy_intp size = PyArray_SIZE(from), a = PyArray_ITEMSIZE(from), b = PyArray_ITEMSIZE(to);
    PyThreadState *state = size * 4 >= LARGE ? PyEval_SaveThread() : NULL;
    for (npy_intp at = 0; at < size; at += PIECE) {
        npy_intp n = size - at < PIECE ? size - at : PIECE;
        entry->call((Argument[]){{.address = x + at * a},
                                 {.address = y + at * b},
                                 {.count = (uint32_t)n}});
    }
    if (state != NULL) PyEval_RestoreThread(state);
}

/* The elements as another floating type, in an array of the same order. */
static PyArrayObject *converted(PyArrayObject *x, int type) {
    const Entry *entry = entry_named(type == NPY_FLOAT ? "cast_f16_f32" : "cast_f32_f16");
    if (entry == NULL) return NULL;
    bool flat = PyArray_IS_C_CONTIGUOUS(x) || PyArray_IS_F_CONTIGUOUS(x);
    PyArrayObject *from = flat ? (PyArrayObject *)Py_NewRef(x)
                               : (PyArrayObject *)PyArray_NewCopy(x, NPY_CORDER);
    if (from == NULL) return NULL;
    PyArray_Descr *dtype = PyArray_DescrFromType(type);
    PyArrayObject *to = (PyArrayObject *)PyArray_NewLikeArray(from, NPY_KEEPORDER, dtype, 0);
    if (to != NULL) convert(entry, from, to);
    Py_DECREF(from);
    return to;
}

/* Calls a function with the operands as float32, and what follows them. */
static PyObject *call_widened(PyObject *function, PyObject *const *args, int nin,
                              Py_ssize_t given) {
    PyObject *wide[HALF_OPERANDS + HALF_NUMBERS] = {NULL}, *y = NULL;
    bool done = true;
    for (Py_ssize_t i = 0; done && i < given; i++) {
        bool is_array = i < nin;
        wide[i] = is_array ? (PyObject *)converted((PyArrayObject *)args[i], NPY_FLOAT)
                           : Py_NewRef(args[i]);
        done = wide[i] != NULL;
    }
    if (done) y = PyObject_Vectorcall(function, wide, (size_t)given, NULL);
    for (Py_ssize_t i = 0; i < given; i++) Py_XDECREF(wide[i]);
    if (y != NULL && PyArray_CheckScalar(y) && !PyArray_Check(y))
        Py_SETREF(y, PyArray_FromScalar(y, NULL));
    if (y == NULL || !PyArray_Check(y) || PyArray_TYPE((PyArrayObject *)y) != NPY_FLOAT)
        return y;
    PyObject *rounded = (PyObject *)converted((PyArrayObject *)y, NPY_HALF);
    Py_DECREF(y);
    return rounded;
}

/* Whether elements at one place in memory belong to each other, but for operands of one
   element. Writes which these are; the number of the first operand that is none. */
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
    for (int k = 0; leader >= 0 && k < nin; k++) /* one element may have more axes */
        if (PyArray_NDIM((PyArrayObject *)args[k]) >
            PyArray_NDIM((PyArrayObject *)args[leader]))
            return -1;
    return c || f ? leader : -1;
}

/* Runs a kernel in blocks; NULL, with no error, if the operands do not fit. */
static PyObject *run_blocks_of(const Entry *kernel, int result, PyObject *const *args,
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
    PyThreadState *state = size * 4 >= LARGE ? PyEval_SaveThread() : NULL;
    for (npy_intp at = 0; at < size; at += PIECE) {
        npy_intp n = size - at < PIECE ? size - at : PIECE;
        for (int k = 0; k < nin; k++) job.in[k] = from[k] + (job.repeats[k] ? 0 : 2 * at);
        job.out = to + at * itemsize;
        entry->call((Argument[]){{.address = &job}, {.count = (uint32_t)n}});
    }
    if (state != NULL) PyEval_RestoreThread(state);
    return (PyObject *)y;
}

/* A new reference to an operand as an array; NULL, with no error, if it is no float16. */
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
    if (fits && kernel) y = run_blocks_of(kernel, result, all, nin, numbers);
    if (fits && y == NULL && !PyErr_Occurred())
        y = call_widened(function, all, nin, given);
    for (int k = 0; k < HALF_OPERANDS + HALF_NUMBERS; k++) Py_XDECREF(all[k]);
    return y;
}
