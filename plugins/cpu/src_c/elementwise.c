/* Element-wise kernels: `elementwise(name, types, function)` returns a callable like
   `function`, a NumPy kernel, that runs the C kernel `name` where possible.

   `types` contains the dtypes of the C kernel: "ff->?" means two float32 arrays and a
   bool result. For other dtypes, the callable calls `function`, which may itself be a
   result of `elementwise`. If the types of all operands are float32, float16 is
   computed in float32 and rounded once (half.c), even if `name` is empty and there is
   no C kernel. A call costs less than that of a ufunc, because no types are resolved
   and no loop is selected.

   A single operand is copied first if its elements are not contiguous. Several
   operands are broadcast: C reads rows that are contiguous or that repeat a single
   element. NumPy computes other rows and most short rows, for which it is as fast;
   it rounds like the C kernels. */
#include "native.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

enum { MAX_OPERANDS = 3, MAX_NUMBERS = 2, MAX_RANK = NPY_MAXDIMS, SHORT_ROW_ELEMENTS = 16 };
/* The maximum number of elements per call, because the kernels count them in 32 bits.
   */
static const npy_intp CALL_MAX_ELEMENTS = 1 << 30;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    const Entry *entry;
    PyObject *wrapped, *symbol;
    int nin, types[MAX_OPERANDS], result;
    bool supports_half;
} Elementwise;

/* --- broadcasting ---------------------------------------------------------------- */

typedef struct {
    int rank, nd;
    npy_intp dims[MAX_RANK], size; /* shape and size of the result */
    /* sizes and strides of the loop, in elements */
    npy_intp sizes[MAX_RANK], strides[MAX_OPERANDS][MAX_RANK];
} Loop;

/* Finds the broadcast shape. Returns false if the operands do not broadcast. */
static bool find_shape(Loop *loop, PyArrayObject **in, int count) {
    loop->nd = 0, loop->size = 1;
    for (int k = 0; k < count; k++)
        if (PyArray_NDIM(in[k]) > loop->nd) loop->nd = PyArray_NDIM(in[k]);
    for (int axis = 0; axis < loop->nd; axis++) {
        npy_intp size = 1;
        for (int k = 0; k < count; k++) {
            int own = axis - loop->nd + PyArray_NDIM(in[k]);
            npy_intp n = own < 0 ? 1 : PyArray_DIM(in[k], own);
            if (n != 1 && size != 1 && n != size) return false;
            if (n != 1) size = n;
        }
        loop->dims[axis] = size;
        loop->size *= size;
    }
    return true;
}

/* Drops axes of size 1, and merges axes that are contiguous in all operands. */
static void join_axes(Loop *loop, PyArrayObject **in, int count) {
    int rank = 0;
    for (int axis = 0; axis < loop->nd; axis++) {
        npy_intp n = loop->dims[axis], strides[MAX_OPERANDS];
        if (n == 1) continue;
        bool joined = rank > 0;
        for (int k = 0; k < count; k++) {
            int own = axis - loop->nd + PyArray_NDIM(in[k]);
            bool moves = own >= 0 && PyArray_DIM(in[k], own) != 1;
            strides[k] = moves ? PyArray_STRIDE(in[k], own) / PyArray_ITEMSIZE(in[k]) : 0;
            joined = joined && loop->strides[k][rank - 1] == strides[k] * n;
        }
        loop->sizes[joined ? rank - 1 : rank] = joined ? loop->sizes[rank - 1] * n : n;
        rank += !joined;
        for (int k = 0; k < count; k++) loop->strides[k][rank - 1] = strides[k];
    }
    if (!rank) {
        loop->sizes[rank++] = 1;
        for (int k = 0; k < count; k++) loop->strides[k][0] = 1;
    }
    loop->rank = rank;
}

/* Returns whether each operand either has the same row everywhere or has consecutive
   rows in memory: `broadcast` merges short rows of such operands. */
static bool repeats(const Loop *loop, int count) {
    if (loop->rank != 2) return false;
    for (int k = 0; k < count; k++) {
        npy_intp outer = loop->strides[k][0], step = loop->strides[k][1];
        if (outer != 0 && (step != 1 || outer != loop->sizes[1])) return false;
    }
    return true;
}

/* Writes the `shape` argument of `broadcast` (elementwise.h). Returns false if C cannot
   or should not compute these rows. */
static bool describe(const Loop *loop, int count, int32_t *to) {
    int last = loop->rank - 1;
    bool moves = false;
    if (last && loop->sizes[last] < SHORT_ROW_ELEMENTS && !repeats(loop,
                                                                   count)) return false;
    *to++ = loop->rank;
    for (int axis = 0; axis <= last; axis++) *to++ = (int32_t)loop->sizes[axis];
    for (int k = 0; k < count; k++) {
        npy_intp step = loop->strides[k][last];
        if (step != 0 && step != 1) return false;
        moves = moves || step;
        for (int axis = 0; axis <= last; axis++) {
            npy_intp stride = loop->strides[k][axis];
            if (stride > INT32_MAX || stride < INT32_MIN) return false;
            *to++ = (int32_t)stride;
        }
    }
    return moves;
}

/* --- calls ----------------------------------------------------------------------- */

/* Returns a new reference to the operand as an array of the type, or NULL without an
   error if it has another type. A NumPy scalar becomes an array of one element. */
static PyArrayObject *as_operand(PyObject *x, int type) {
    if (PyArray_Check(x)) {
        PyArrayObject *array = (PyArrayObject *)x;
        bool fits = PyArray_TYPE(array) == type && PyArray_ISALIGNED(array) &&
                    PyArray_ISNOTSWAPPED(array);
        return fits ? (PyArrayObject *)Py_NewRef(x) : NULL;
    }
    if (!PyArray_CheckScalar(x)) return NULL;
    PyArrayObject *array = (PyArrayObject *)PyArray_FromScalar(x, NULL);
    if (array != NULL && PyArray_TYPE(array) == type) return array;
    PyErr_Clear();
    Py_XDECREF(array);
    return NULL;
}

static bool read_number(PyObject *x, double *to) {
    if (!PyFloat_Check(x) && !PyLong_Check(x)) return false;
    *to = PyFloat_AsDouble(x);
    bool fits = *to != -1 || !PyErr_Occurred();
    if (!fits) PyErr_Clear(); /* an integer out of the range of doubles */
    return fits;
}

static PyArrayObject *make_contiguous(PyArrayObject *x) { /* steals the reference */
    PyArrayObject *y = (PyArrayObject *)PyArray_NewCopy(x, NPY_CORDER);
    Py_DECREF(x);
    return y;
}

static PyArrayObject *run_unary(const Elementwise *self, PyArrayObject **in,
                                const double *numbers) {
    bool flat = PyArray_IS_C_CONTIGUOUS(in[0]) || PyArray_IS_F_CONTIGUOUS(in[0]);
    if (!flat && (in[0] = make_contiguous(in[0])) == NULL) return NULL;
    PyArray_Descr *dtype = PyArray_DescrFromType(self->result);
    PyArrayObject *y =
        (PyArrayObject *)PyArray_NewLikeArray(in[0], NPY_KEEPORDER, dtype, 0);
    if (y == NULL) return NULL;
    char *from = PyArray_BYTES(in[0]), *to = PyArray_BYTES(y);
    Argument arguments[3 + MAX_NUMBERS];
    for (int i = 0; i < MAX_NUMBERS; i++) arguments[3 + i].number = numbers[i];
    npy_intp size = PyArray_SIZE(y), a = PyArray_ITEMSIZE(in[0]), b = PyArray_ITEMSIZE(y);
    PyThreadState *state = size * a >= NOGIL_MIN_BYTES ? PyEval_SaveThread() : NULL;
    for (npy_intp at = 0; at < size; at += CALL_MAX_ELEMENTS) {
        npy_intp n = size - at < CALL_MAX_ELEMENTS ? size - at : CALL_MAX_ELEMENTS;
        arguments[0].address = from + at * a, arguments[1].address = to + at * b;
        arguments[2].count = (uint32_t)n;
        self->entry->call(arguments);
    }
    if (state != NULL) PyEval_RestoreThread(state);
    return y;
}

static void run_loop(const Elementwise *self, PyArrayObject **in, PyArrayObject *y,
                     int32_t *shape) {
    Argument a[MAX_OPERANDS + 3];
    for (int k = 0; k < self->nin; k++) a[k].address = PyArray_DATA(in[k]);
    a[self->nin].address = PyArray_DATA(y);
    a[self->nin + 1].count = (uint32_t)PyArray_SIZE(y);
    a[self->nin + 2].address = shape;
    PyThreadState *state = PyArray_NBYTES(y) >= NOGIL_MIN_BYTES ? PyEval_SaveThread() : NULL;
    self->entry->call(a);
    if (state != NULL) PyEval_RestoreThread(state);
}

/* Returns whether all operands have the same shape and memory order. */
static bool have_same_layout(PyArrayObject **in, int count) {
    bool c = true, f = true;
    for (int k = 0; k < count; k++) {
        c = c && PyArray_IS_C_CONTIGUOUS(in[k]);
        f = f && PyArray_IS_F_CONTIGUOUS(in[k]);
        if (k && !PyArray_SAMESHAPE(in[0], in[k])) return false;
    }
    return c || f;
}

/* Runs a kernel with several operands. Returns NULL without an error if NumPy has to
   compute it: shapes do not broadcast, C cannot read the rows, or there are too many
   elements. */
static PyArrayObject *run_several(const Elementwise *self, PyArrayObject **in) {
    int32_t plan[1 + MAX_RANK * (MAX_OPERANDS + 1)], *shape = NULL;
    PyArrayObject *y;
    if (have_same_layout(in, self->nin) && PyArray_SIZE(in[0]) <= INT32_MAX) {
        PyArray_Descr *dtype = PyArray_DescrFromType(self->result);
        y = (PyArrayObject *)PyArray_NewLikeArray(in[0], NPY_KEEPORDER, dtype, 0);
    } else {
        Loop loop;
        if (!find_shape(&loop, in, self->nin) || loop.size > INT32_MAX) return NULL;
        join_axes(&loop, in, self->nin);
        if (loop.size && !describe(&loop, self->nin, shape = plan)) return NULL;
        y = (PyArrayObject *)PyArray_SimpleNew(loop.nd, loop.dims, self->result);
    }
    if (y != NULL && PyArray_SIZE(y)) run_loop(self, in, y, shape);
    return y;
}

/* The slow path: float16, and calls that fall back to the NumPy function. */
static PyObject *call_wrapped(const Elementwise *self, PyObject *const *args, size_t count,
                              PyObject *names) {
    Py_ssize_t given = PyVectorcall_NARGS(count), nin = self->nin;
    if (self->supports_half && names == NULL && given >= nin && given <= nin + MAX_NUMBERS) {
        double numbers[MAX_NUMBERS] = {0, 0};
        bool fits = true;
        for (Py_ssize_t i = nin; fits && i < given; i++)
            fits = read_number(args[i], &numbers[i - nin]);
        PyObject *again = self->entry ? (PyObject *)self : self->wrapped;
        PyObject *y = fits ? call_half(self->entry, self->result, again, args, self->nin,
                                       given, numbers)
                           : NULL;
        if (y != NULL || PyErr_Occurred()) return y;
    }
    return PyObject_Vectorcall(self->wrapped, args, count, names);
}

static PyObject *call(PyObject *object, PyObject *const *args, size_t count,
                      PyObject *names) {
    const Elementwise *self = (Elementwise *)object;
    Py_ssize_t given = PyVectorcall_NARGS(count), nin = self->nin;
    PyArrayObject *in[MAX_OPERANDS] = {NULL, NULL, NULL}, *y = NULL;
    double numbers[MAX_NUMBERS] = {0, 0};
    bool fits = self->entry != NULL && names == NULL && given >= nin && given <= nin + MAX_NUMBERS;
    for (Py_ssize_t i = 0; fits && i < given; i++) {
        if (i < nin)
            fits = (in[i] = as_operand(args[i], self->types[i])) != NULL;
        else
            fits = read_number(args[i], &numbers[i - nin]);
    }
    if (fits) y = nin == 1 ? run_unary(self, in, numbers) : run_several(self, in);
    for (int i = 0; i < MAX_OPERANDS; i++) Py_XDECREF(in[i]);
    if (y != NULL || PyErr_Occurred()) return (PyObject *)y;
    return call_wrapped(self, args, count, names);
}

/* --- the type -------------------------------------------------------------------- */

/* Reads types such as "ff->?", in NumPy's letters. Returns false if the text is
   malformed. */
static bool read_types(Elementwise *self, const char *text) {
    size_t nin = strcspn(text, "-"), length = strlen(text);
    if (!nin || nin > MAX_OPERANDS || length != nin + 3 || text[nin + 1] != '>') return false;
    for (size_t i = 0; i < length; i++) {
        if (i == nin) i += 2;
        PyArray_Descr *dtype = PyArray_DescrFromType(text[i]);
        if (dtype == NULL) return false;
        *(i < nin ? &self->types[i] : &self->result) = dtype->type_num;
        Py_DECREF(dtype);
    }
    self->nin = (int)nin;
    return true;
}

/* Returns whether float16 operands can be computed in float32. */
static bool supports_half(const Elementwise *self) {
    for (int k = 0; k < self->nin; k++)
        if (self->types[k] != NPY_FLOAT) return false;
    return self->result == NPY_FLOAT || self->result == NPY_BOOL;
}

/* Returns whether the kernel takes the arguments that run_unary passes or, for several
   operands, run_loop. */
static bool is_callable(const Entry *entry, int nin) {
    const char *kinds = entry->kinds;
    if (nin == 1) return !strcmp(kinds, "ppu") || !strcmp(kinds, "ppudd");
    return !strcmp(kinds, nin == 2 ? "pppup" : "ppppup");
}

static PyObject *make(PyObject *module, PyObject *args) {
    PyObject *name, *wrapped;
    const char *types;
    if (!PyArg_ParseTuple(args, "UsO", &name, &types, &wrapped)) return NULL;
    Elementwise read;
    if (!read_types(&read, types))
        return PyErr_Format(PyExc_ValueError, "types %s: use types such as ff->?",
                            types);
    const char *symbol = PyUnicode_AsUTF8(name);
    const Entry *entry = symbol && *symbol ? entry_named(symbol) : NULL;
    if (entry == NULL && (symbol == NULL || *symbol)) return NULL;
    if (entry != NULL && !is_callable(entry, read.nin))
        return PyErr_Format(PyExc_TypeError, "%s is not a kernel for types %s",
                            entry->prototype, types);
    Elementwise *self = PyObject_GC_New(Elementwise, &ElementwiseType);
    if (self == NULL) return NULL;
    self->vectorcall = call, self->entry = entry, self->wrapped = Py_NewRef(wrapped);
    self->symbol = Py_NewRef(name);
    self->nin = read.nin, self->result = read.result;
    memcpy(self->types, read.types, sizeof read.types);
    self->supports_half = supports_half(self);
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static int traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((Elementwise *)self)->wrapped);
    return 0;
}

static int clear(PyObject *self) {
    Py_CLEAR(((Elementwise *)self)->wrapped);
    Py_CLEAR(((Elementwise *)self)->symbol);
    return 0;
}

static void dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    clear(self);
    PyObject_GC_Del(self);
}

/* Other attributes, such as __name__ and __module__, come from the NumPy kernel. */
static PyObject *attribute(PyObject *self, PyObject *name) {
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    PyErr_Clear();
    return PyObject_GetAttr(((Elementwise *)self)->wrapped, name);
}

static PyMemberDef members[] = {
    {"nin", T_INT, offsetof(Elementwise, nin), READONLY, "The number of arrays."},
    {"symbol", T_OBJECT, offsetof(Elementwise, symbol), READONLY,
     "The name of the kernel in C; empty if there is none."},
    {"__wrapped__", T_OBJECT, offsetof(Elementwise, wrapped), READONLY,
     "The NumPy kernel."},
    {NULL},
};

PyTypeObject ElementwiseType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "plugrad_cpu._native.Elementwise",
    .tp_basicsize = sizeof(Elementwise),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_vectorcall_offset = offsetof(Elementwise, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_dealloc = dealloc,
    .tp_getattro = attribute,
    .tp_members = members,
    .tp_doc = "An element-wise kernel in C.",
};

PyMethodDef elementwise_methods[] = {
    {"elementwise", make, METH_VARARGS,
     "elementwise(name, types, function): return the C kernel, which calls the NumPy "
     "function where it cannot run; without a name, only float16 is converted."},
    {NULL, NULL, 0, NULL},
};
