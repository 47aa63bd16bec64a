/* Kernels of a shared library as Python objects: `kernel(array, 3, 0.5, None)`.

   The parameters of a kernel are addresses, u32 and doubles; its entry point
   (library/entry.h) lists them and calls the kernel. For an array, the address of its
   elements is passed. The array must be aligned, in the machine's byte order and,
   unless the kernel takes strides, contiguous. For None, NULL is passed.

   The GIL is released for large arrays. */
#include "native.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef _WIN32
#include <intrin.h>
#include <windows.h>
#else
#include <dlfcn.h>
#endif

/* --- arguments ------------------------------------------------------------------- */

static const char *name_of_kind(char kind) {
    return kind == 'p' ? "an array or None" : kind == 'u' ? "an integer" : "a float";
}

/* Sets an error that names the argument that does not match the prototype. */
static int argument_error(const Entry *entry, Py_ssize_t k, PyObject *x) {
    PyErr_Format(PyExc_TypeError, "%s: argument %zd must be %s, got %s", entry->prototype,
                 k + 1, name_of_kind(entry->kinds[k]), Py_TYPE(x)->tp_name);
    return -1;
}

int check_count(const Entry *entry, Py_ssize_t count) {
    if (count == (Py_ssize_t)strlen(entry->kinds)) return 0;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, got %zd", entry->prototype,
                 (Py_ssize_t)strlen(entry->kinds), count);
    return -1;
}

static int read_count(const Entry *entry, Py_ssize_t k, PyObject *x, uint32_t *to) {
    if (!PyLong_Check(x) && (!PyIndex_Check(x) || PyArray_Check(x)))
        return argument_error(entry, k, x);
    int overflow;
    long long n = PyLong_AsLongLongAndOverflow(x, &overflow);
    if (n == -1 && PyErr_Occurred()) return -1;
    if (overflow || n < 0 || n > UINT32_MAX) {
        PyErr_Format(PyExc_OverflowError,
                     "%s: argument %zd must be in 0 to 2**32 - 1, got %R", entry->prototype, k + 1, x);
        return -1;
    }
    *to = (uint32_t)n;
    return 0;
}

static inline int read_one(const Entry *entry, Py_ssize_t k, PyObject *x, bool strided,
                           Argument *to) {
    switch (entry->kinds[k]) {
    case 'u':
        return read_count(entry, k, x, &to->count);
    case 'd':
        if (!PyFloat_Check(x)) return argument_error(entry, k, x);
        to->number = PyFloat_AS_DOUBLE(x);
        return 0;
    default:
        if (x == Py_None) {
            to->address = NULL;
            return 0;
        }
        if (!PyArray_Check(x)) return argument_error(entry, k, x);
        PyArrayObject *array = (PyArrayObject *)x;
        if (!(strided ? PyArray_ISBEHAVED_RO(array) : PyArray_ISCARRAY_RO(array))) {
            PyErr_Format(PyExc_ValueError, "%s: an array is not contiguous, or not aligned",
                         entry->name);
            return -1;
        }
        to->address = PyArray_DATA(array);
        return 0;
    }
}

int read_argument(const Entry *entry, Py_ssize_t k, PyObject *x, Argument *to) {
    return read_one(entry, k, x, false, to);
}

/* --- calls ----------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    const Entry *entry; /* in the library, which is never closed */
    Py_ssize_t count;   /* number of its arguments */
    bool strided;
} Function;

static PyObject *call(PyObject *self, PyObject *const *args, size_t count,
                      PyObject *names) {
    const Function *function = (Function *)self;
    const Entry *entry = function->entry;
    if (names != NULL && PyTuple_GET_SIZE(names))
        return PyErr_Format(PyExc_TypeError, "%s takes no keyword arguments",
                            entry->prototype);
    if (PyVectorcall_NARGS(count) != function->count) {
        check_count(entry, PyVectorcall_NARGS(count));
        return NULL;
    }
    Argument a[MAX_ARGUMENTS];
    npy_intp bytes = 0;
    for (Py_ssize_t k = 0; k < function->count; k++) {
        if (read_one(entry, k, args[k], function->strided, &a[k]) < 0) return NULL;
        if (entry->kinds[k] == 'p' && args[k] != Py_None)
            bytes += PyArray_NBYTES((PyArrayObject *)args[k]);
    }
    PyThreadState *state = bytes >= NOGIL_MIN_BYTES ? PyEval_SaveThread() : NULL;
    entry->call(a);
    if (state != NULL) PyEval_RestoreThread(state);
    Py_RETURN_NONE;
}

static PyObject *address(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromVoidPtr((void *)((Function *)self)->entry);
}

static PyObject *kinds(PyObject *self, void *closure) {
    (void)closure;
    return PyUnicode_FromString(((Function *)self)->entry->kinds);
}

static PyObject *prototype(PyObject *self, void *closure) {
    (void)closure;
    return PyUnicode_FromString(((Function *)self)->entry->prototype);
}

static PyGetSetDef properties[] = {
    {"address", address, NULL, "The address of the entry point.", NULL},
    {"kinds", kinds, NULL, "Per argument: p (array), u (integer) or d (float).", NULL},
    {"prototype", prototype, NULL, "Name and parameters, as in C.", NULL},
    {NULL},
};

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
    npy_intp sizes[2], steps[2]; /* of rows, of columns; steps are in elements */
} Matrix;

/* Returns whether `x` is a float32 matrix that the kernel can read in place. */
static bool read_matrix(PyObject *x, bool transposed, Matrix *to) {
    PyArrayObject *array = (PyArrayObject *)x;
    if (!PyArray_CheckExact(x) || PyArray_NDIM(array) != 2 ||
        PyArray_TYPE(array) != NPY_FLOAT || !PyArray_ISBEHAVED_RO(array))
        return false;
    npy_intp reach = 0;
    for (int axis = 0; axis < 2; axis++) {
        npy_intp stride = PyArray_STRIDE(array, axis ^ transposed);
        if (stride % (npy_intp)sizeof(float)) return false;
        to->sizes[axis] = PyArray_DIM(array, axis ^ transposed);
        to->steps[axis] = stride / (npy_intp)sizeof(float);
        npy_intp step = to->steps[axis] < 0 ? -to->steps[axis] : to->steps[axis];
        if (step > INT32_MAX || to->sizes[axis] > INT32_MAX) return false;
        reach += (to->sizes[axis] - 1) * step;
    }
    return reach < INT32_MAX && (to->steps[0] == 1 || to->steps[1] == 1);
}

/* product(kernel, a, b, transpose_a, transpose_b, rows, columns, products). Returns
   None for matrices that `plan` (linalg.py) must handle, for products that the rule of
   `plan` finds too small, and if a test has replaced the kernel. */
static PyObject *product(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Matrix a, b;
    if (count != 8) {
        PyErr_SetString(PyExc_TypeError, "product takes eight arguments");
        return NULL;
    }
    const Entry *entry =
        Py_IS_TYPE(args[0], &FunctionType) ? ((Function *)args[0])->entry : NULL;
    if (entry != NULL && strcmp(entry->kinds, "ppppppud") != 0)
        return PyErr_Format(PyExc_TypeError, "product cannot call %s", entry->prototype);
    if (entry == NULL || !read_matrix(args[1], args[3] == Py_True, &a) ||
        !read_matrix(args[2], args[4] == Py_True, &b))
        Py_RETURN_NONE;
    npy_intp shape[2] = {a.sizes[0], b.sizes[1]}, size = shape[0] * shape[1];
    npy_intp k = a.sizes[1], least[3];
    for (int i = 0; i < 3; i++)
        if ((least[i] = PyLong_AsSsize_t(args[5 + i])) < 0) return NULL;
    bool small = shape[0] < least[0] || shape[1] < least[1];
    if (k != b.sizes[0] || !k || !size || size >= INT32_MAX ||
        (small && (double)size * (double)k < (double)least[2]))
        Py_RETURN_NONE;
    PyArrayObject *y = (PyArrayObject *)PyArray_SimpleNew(2, shape, NPY_FLOAT);
    if (y == NULL) return NULL;
    int32_t how[11] = {(int32_t)shape[0], (int32_t)shape[1], (int32_t)k, 1};
    for (int axis = 0; axis < 2; axis++) {
        how[4 + axis] = (int32_t)a.steps[axis];
        how[7 + axis] = (int32_t)b.steps[axis];
    }
    Argument arguments[MAX_ARGUMENTS] = {
        {.address = how}, {.address = PyArray_DATA((PyArrayObject *)args[1])},
        {.address = PyArray_DATA((PyArrayObject *)args[2])}, {.address = PyArray_DATA(y)}};
    npy_intp elements = a.sizes[0] * k + k * shape[1] + size;
    PyThreadState *state = elements * 4 >= NOGIL_MIN_BYTES ? PyEval_SaveThread() : NULL;
    entry->call(arguments); /* without bias and activation */
    if (state != NULL) PyEval_RestoreThread(state);
    return (PyObject *)y;
}

/* --- the library ----------------------------------------------------------------- */

#ifdef _WIN32
static HMODULE library;

static int open_library(PyObject *path) {
    wchar_t *name = PyUnicode_AsWideCharString(path, NULL);
    if (name == NULL) return -1;
    HMODULE found = LoadLibraryW(name);
    DWORD code = GetLastError();
    PyMem_Free(name);
    if (found != NULL) library = found;
    else PyErr_SetExcFromWindowsErrWithFilenameObject(PyExc_OSError, (int)code, path);
    return found == NULL ? -1 : 0;
}

static void *find_symbol(const char *name) {
    return library ? (void *)(uintptr_t)GetProcAddress(library, name) : NULL;
}
#else
static void *library;

static int open_library(PyObject *path) {
    PyObject *name = PyUnicode_EncodeFSDefault(path);
    if (name == NULL) return -1;
    void *found = dlopen(PyBytes_AS_STRING(name), RTLD_NOW | RTLD_LOCAL);
    Py_DECREF(name);
    if (found != NULL) library = found;
    else PyErr_SetString(PyExc_OSError, dlerror());
    return found == NULL ? -1 : 0;
}

static void *find_symbol(const char *name) { return library ? dlsym(library, name) : NULL; }
#endif

static PyObject *load(PyObject *module, PyObject *path) {
    if (open_library(path) < 0) return NULL;
    Py_RETURN_NONE;
}

void *function_named(const char *name) {
    void *function = find_symbol(name);
    if (function == NULL) PyErr_Format(PyExc_KeyError, "no function '%s'", name);
    return function;
}

const Entry *entry_named(const char *name) {
    char symbol[128];
    PyOS_snprintf(symbol, sizeof symbol, "entry_%s", name);
    const Entry *entry = find_symbol(symbol);
    if (entry == NULL) PyErr_Format(PyExc_KeyError, "no kernel '%s'", name);
    return entry;
}

static PyObject *make_function(PyObject *name, bool strided) {
    const char *text = PyUnicode_AsUTF8(name);
    const Entry *entry = text ? entry_named(text) : NULL;
    Function *function = entry ? PyObject_New(Function, &FunctionType) : NULL;
    if (function == NULL) return NULL;
    function->vectorcall = call;
    function->entry = entry;
    function->count = (Py_ssize_t)strlen(entry->kinds);
    function->strided = strided;
    return (PyObject *)function;
}

static PyObject *get(PyObject *module, PyObject *name) {
    return make_function(name, false);
}

static PyObject *get_strided(PyObject *module, PyObject *name) {
    return make_function(name, true);
}

/* --- the processor --------------------------------------------------------------- */

/* Returns the highest of the libraries' processor levels that this processor supports.
   */
static const char *level_of_processor(void) {
#if defined(__aarch64__) || defined(_M_ARM64)
    return "aarch64";
#elif defined(_WIN32)
    /* The system reports which registers it saves; cpuid reports the other features. */
    enum { AVX2 = 40, AVX512F = 41 }; /* PF_AVX2_INSTRUCTIONS_AVAILABLE, and so on */
    enum { FMA = 1 << 12, BMI2 = 1 << 8 };
    const unsigned v4 = 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31; /* DQ, CD, BW, VL */
    int one[4], seven[4]; /* eax, ebx, ecx, edx */
    __cpuid(one, 1);
    __cpuidex(seven, 7, 0);
    if (IsProcessorFeaturePresent(AVX512F) && ((unsigned)seven[1] & v4) == v4)
        return "x86_64_v4";
    if (IsProcessorFeaturePresent(AVX2) && one[2] & FMA && seven[1] & BMI2)
        return "x86_64_v3";
    return "x86_64_v2";
#elif defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return "x86_64_v4";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2"))
        return "x86_64_v3";
    return "x86_64_v2";
#else
    return "this processor";
#endif
}

static PyObject *level(PyObject *module, PyObject *none) {
    return PyUnicode_FromString(level_of_processor());
}

/* Returns whether a kernel can read an argument as it is and count its elements. */
static bool is_readable(PyObject *x) {
    if (x == Py_None) return true;
    if (!PyArray_CheckExact(x)) return false;
    PyArrayObject *array = (PyArrayObject *)x;
    const int flags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED;
    return PyArray_CHKFLAGS(array, flags) && PyArray_SIZE(array) <= INT32_MAX;
}

static PyObject *are_readable(PyObject *module, PyObject *const *xs, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++)
        if (!is_readable(xs[i])) Py_RETURN_FALSE;
    Py_RETURN_TRUE;
}

PyMethodDef call_methods[] = {
    {"load", load, METH_O, "load(path): open a library; `get` returns its kernels."},
    {"get", get, METH_O, "get(name): return a kernel of the library."},
    {"get_strided", get_strided, METH_O,
     "get_strided(name): like `get`, but the kernel accepts arrays of any strides."},
    {"level", level, METH_NOARGS, "Return the processor level: a library name."},
    {"are_readable", (PyCFunction)(void (*)(void))are_readable, METH_FASTCALL,
     "are_readable(*xs): return whether each is None or an aligned, row-major array with "
     "fewer than 2**31 elements."},
    {"product", (PyCFunction)(void (*)(void))product, METH_FASTCALL,
     "product(kernel, a, b, transpose_a, transpose_b, rows, columns, products): return "
     "the product of two matrices; None if the kernel should not compute it."},
    {NULL, NULL, 0, NULL},
};
