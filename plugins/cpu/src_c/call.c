/* Functions of a shared library as Python objects: `function(array, 3, 0.5, None)`.

   A kernel in C takes pointers, u32 and doubles. An array passes the address of its
   elements, which must be contiguous (unless the kernel is told strides), aligned and of
   the machine's byte order; None passes NULL. In the calling conventions of x86-64 (System V) and arm64, integers and pointers
   are passed apart from doubles, in order, and a function finds those that it declares
   whatever follows them: so one call with all of them suits every kernel. The module is
   not compiled for other conventions.

   The GIL is released where arrays are large. */
#include "native.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __APPLE__ /* its convention packs small arguments on the stack */
enum { INTS = 9, DOUBLES = 4 };
#else
enum { INTS = 16, DOUBLES = 4 };
#endif

typedef uint64_t U;
typedef void Kernel(U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, double, double,
                    double, double);

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Kernel *kernel;
    const char *name; /* of the library, which is never closed */
    bool strided;
} Function;

typedef struct {
    uint64_t ints[16];
    double doubles[DOUBLES];
    int int_count, double_count;
    npy_intp bytes;
} Arguments;

/* Add one argument: 0, or -1 with an error. */
static int add(Arguments *to, PyObject *x, const Function *function) {
    if (to->int_count == INTS || to->double_count == DOUBLES) {
        PyErr_Format(PyExc_TypeError, "%s: too many arguments", function->name);
        return -1;
    }
    if (PyFloat_Check(x)) {
        to->doubles[to->double_count++] = PyFloat_AS_DOUBLE(x);
    } else if (PyArray_Check(x)) {
        PyArrayObject *array = (PyArrayObject *)x;
        if (!(function->strided ? PyArray_ISBEHAVED_RO(array)
                                : PyArray_ISCARRAY_RO(array))) {
            PyErr_Format(PyExc_ValueError, "%s: an array is not contiguous, or not aligned",
                         function->name);
            return -1;
        }
        to->ints[to->int_count++] = (uint64_t)(uintptr_t)PyArray_DATA(array);
        to->bytes += PyArray_NBYTES(array);
    } else if (x == Py_None) {
        to->ints[to->int_count++] = 0;
    } else {
        long long n = PyLong_AsLongLong(x);
        if (n == -1 && PyErr_Occurred()) return -1;
        to->ints[to->int_count++] = (uint64_t)n;
    }
    return 0;
}

static PyObject *call(PyObject *self, PyObject *const *args, size_t count,
                      PyObject *names) {
    const Function *function = (Function *)self;
    Arguments a = {.int_count = 0};
    for (Py_ssize_t i = 0; i < PyVectorcall_NARGS(count); i++)
        if (add(&a, args[i], function) < 0) return NULL;
    const uint64_t *n = a.ints;
    const double *d = a.doubles;
    PyThreadState *state = a.bytes >= LARGE ? PyEval_SaveThread() : NULL;
    function->kernel(n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10],
                     n[11], n[12], n[13], n[14], n[15], d[0], d[1], d[2], d[3]);
    if (state != NULL) PyEval_RestoreThread(state);
    Py_RETURN_NONE;
}

static PyObject *address(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromVoidPtr((void *)((Function *)self)->kernel);
}

static PyGetSetDef properties[] = {
    {"address", address, NULL, "Where the function is in memory.", NULL}, {NULL}};

PyTypeObject FunctionType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "plugrad_cpu._native.Function",
    .tp_basicsize = sizeof(Function),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Function, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_getset = properties,
    .tp_doc = "A kernel in C, called with arrays, integers, floats and None.",
};

/* --- products -------------------------------------------------------------------- */

typedef struct {
    npy_intp sizes[2], steps[2]; /* of rows and columns; steps in elements */
} Matrix;

/* Whether `x` is a matrix of float32 that the kernel reads as it lies. */
static bool read_matrix(PyObject *x, bool turned, Matrix *to) {
    PyArrayObject *array = (PyArrayObject *)x;
    if (!PyArray_CheckExact(x) || PyArray_NDIM(array) != 2 ||
        PyArray_TYPE(array) != NPY_FLOAT || !PyArray_ISBEHAVED_RO(array))
        return false;
    npy_intp reach = 0;
    for (int axis = 0; axis < 2; axis++) {
        npy_intp stride = PyArray_STRIDE(array, axis ^ turned);
        if (stride % (npy_intp)sizeof(float)) return false;
        to->sizes[axis] = PyArray_DIM(array, axis ^ turned);
        to->steps[axis] = stride / (npy_intp)sizeof(float);
        npy_intp step = to->steps[axis] < 0 ? -to->steps[axis] : to->steps[axis];
        if (step > INT32_MAX || to->sizes[axis] > INT32_MAX) return false;
        reach += (to->sizes[axis] - 1) * step;
    }
    return reach < INT32_MAX && (to->steps[0] == 1 || to->steps[1] == 1);
}

/* product(kernel, a, b, transpose_a, transpose_b, rows, columns, products): None for what
   `plan` of linalg.py has to look at, for small ones, as that does, and if the kernel is
   not one of the library, but what a test has put in its place. */
static PyObject *product(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Matrix a, b;
    if (count != 8) {
        PyErr_SetString(PyExc_TypeError, "product takes eight arguments");
        return NULL;
    }
    if (!Py_IS_TYPE(args[0], &FunctionType) ||
        !read_matrix(args[1], args[3] == Py_True, &a) ||
        !read_matrix(args[2], args[4] == Py_True, &b))
        Py_RETURN_NONE;
    npy_intp shape[2] = {a.sizes[0], b.sizes[1]}, size = shape[0] * shape[1];
    npy_intp sum = a.sizes[1], least[3];
    for (int i = 0; i < 3; i++)
        if ((least[i] = PyLong_AsSsize_t(args[5 + i])) < 0) return NULL;
    bool small = shape[0] < least[0] || shape[1] < least[1];
    if (sum != b.sizes[0] || !sum || !size || size >= INT32_MAX ||
        (small && (double)size * (double)sum < (double)least[2]))
        Py_RETURN_NONE;
    PyArrayObject *y = (PyArrayObject *)PyArray_SimpleNew(2, shape, NPY_FLOAT);
    if (y == NULL) return NULL;
    int32_t how[11] = {(int32_t)shape[0], (int32_t)shape[1], (int32_t)sum, 1};
    for (int axis = 0; axis < 2; axis++) {
        how[4 + axis] = (int32_t)a.steps[axis];
        how[7 + axis] = (int32_t)b.steps[axis];
    }
    U at[] = {(U)how, (U)PyArray_DATA((PyArrayObject *)args[1]),
              (U)PyArray_DATA((PyArrayObject *)args[2]), (U)PyArray_DATA(y)};
    npy_intp numbers = a.sizes[0] * sum + sum * shape[1] + size;
    PyThreadState *state = numbers * 4 >= LARGE ? PyEval_SaveThread() : NULL;
    ((Function *)args[0])->kernel(at[0], at[1], at[2], at[3], 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                  0, 0, 0, 0, 0, 0);
    if (state != NULL) PyEval_RestoreThread(state);
    return (PyObject *)y;
}

/* --- the library ----------------------------------------------------------------- */

static void *library;

static PyObject *load(PyObject *self, PyObject *path) {
    const char *name = PyUnicode_AsUTF8(path);
    if (name == NULL) return NULL;
    void *found = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (found == NULL) return PyErr_Format(PyExc_OSError, "%s", dlerror());
    library = found;
    Py_RETURN_NONE;
}

void *kernel_named(PyObject *name) {
    const char *text = PyUnicode_AsUTF8(name);
    void *kernel = text && library ? dlsym(library, text) : NULL;
    if (kernel == NULL && !PyErr_Occurred())
        PyErr_Format(PyExc_KeyError, "no kernel %R", name);
    return kernel;
}

static PyObject *found(PyObject *name, bool strided) {
    void *kernel = kernel_named(name);
    if (kernel == NULL) return NULL;
    Function *function = PyObject_New(Function, &FunctionType);
    if (function == NULL) return NULL;
    function->vectorcall = call;
    function->kernel = (Kernel *)kernel;
    function->strided = strided;
    Dl_info info;
    bool known = dladdr(kernel, &info) && info.dli_sname;
    function->name = known ? info.dli_sname : "a kernel";
    return (PyObject *)function;
}

static PyObject *get(PyObject *self, PyObject *name) { return found(name, false); }
static PyObject *get_strided(PyObject *self, PyObject *name) { return found(name, true); }

/* The most that the processor has of the levels that libraries are built for. */
static PyObject *level(PyObject *self, PyObject *none) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return PyUnicode_FromString("x86_64_v4");
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2"))
        return PyUnicode_FromString("x86_64_v3");
    return PyUnicode_FromString("x86_64_v2");
#else
    return PyUnicode_FromString("aarch64");
#endif
}

PyMethodDef call_methods[] = {
    {"load", load, METH_O, "load(path): open the library whose kernels `get` returns."},
    {"get", get, METH_O, "get(name): return a kernel of the library."},
    {"get_strided", get_strided, METH_O, "The same, for arrays of any strides."},
    {"level", level, METH_NOARGS, "Return which library suits the processor."},
    {"product", (PyCFunction)(void (*)(void))product, METH_FASTCALL,
     "product(kernel, a, b, transpose_a, transpose_b, rows, columns, products): the "
     "product of two matrices; None if it is not worth a call of the kernel."},
    {NULL, NULL, 0, NULL},
};
