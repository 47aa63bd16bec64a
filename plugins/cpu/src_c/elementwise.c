/* Kernels of one element each: `elementwise(name, types, function)` is a callable like
   `function`, a kernel on NumPy, that runs in C where it can.

   `types` says what C takes and gives: "ff->?" are two arrays of float32, and bool. Other
   dtypes go to the function, on NumPy or in C again. Where all operands are float32, float16
   is calculated in float32 and rounded once (half.c), also if `name` is empty and there is
   no kernel in C. A call costs less than one of a ufunc: there are no types to resolve, and
   no loop to choose.

   One array is copied first if there are gaps between its elements. Several are
   broadcast: C reads rows whose elements are neighbours, or one element for a whole row,
   and NumPy does the others, and most short rows, as fast: these kernels round as its
   own. */
#include "native.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

enum { MOST = 3, NUMBERS = 2, RANK = NPY_MAXDIMS, SHORT = 16 };
static const npy_intp PIECE = 1 << 30; /* elements of a call: the kernels count in 32 bits */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    const Entry *entry;
    PyObject *wrapped, *symbol;
    int nin, types[MOST], result;
    bool takes_half;
} Elementwise;

/* --- broadcasting ---------------------------------------------------------------- */

typedef struct {
    int rank, nd;
    npy_intp dims[RANK], size; /* of the result */
    npy_intp sizes[RANK], strides[MOST][RANK]; /* of the loop, in elements */
} Loop;

/* The shape to which all broadcast: false if they do not. */
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

/* Axes of one element are left out, and those that are one for all operands are joined. */
static void join_axes(Loop *loop, PyArrayObject **in, int count) {
    int rank = 0;
    for (int axis = 0; axis < loop->nd; axis++) {
        npy_intp n = loop->dims[axis], strides[MOST];
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

/* Whether operands are rows that repeat, or go on: `broadcast` joins short ones. */
static bool repeats(const Loop *loop, int count) {
    if (loop->rank != 2) return false;
    for (int k = 0; k < count; k++) {
        npy_intp outer = loop->strides[k][0], step = loop->strides[k][1];
        if (outer != 0 && (step != 1 || outer != loop->sizes[1])) return false;
    }
    return true;
}

/* Writes what `broadcast` of elementwise.h takes: false if C cannot read these rows. */
static bool describe(const Loop *loop, int count, int32_t *to) {
    int last = loop->rank - 1;
    bool moves = false;
    if (last && loop->sizes[last] < SHORT && !repeats(loop, count)) return false;
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

/* A new reference to the operand as an array of the type; NULL, with no error, if it is
   none. A scalar of NumPy's is an array of one element. */
static PyArrayObject *operand(PyObject *x, int type) {
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

static bool number(PyObject *x, double *to) {
    if (!PyFloat_Check(x) && !PyLong_Check(x)) return false;
    *to = PyFloat_AsDouble(x);
    bool fits = *to != -1 || !PyErr_Occurred();
    if (!fits) PyErr_Clear(); /* an integer beyond doubles */
    return fits;
}

static PyArrayObject *contiguous(PyArrayObject *x) { /* takes the reference */
    PyArrayObject *y = (PyArrayObject *)PyArray_NewCopy(x, NPY_CORDER);
    Py_DECREF(x);
    return y;
}

static PyArrayObject *run_unary(const Elementwise *self, PyArrayObject **in,
                                const double *numbers) {
    bool flat = PyArray_IS_C_CONTIGUOUS(in[0]) || PyArray_IS_F_CONTIGUOUS(in[0]);
    if (!flat && (in[0] = contiguous(in[0])) == NULL) return NULL;
    PyArray_Descr *dtype = PyArray_DescrFromType(self->result);
    PyArrayObject *y =
        (PyArrayObject *)PyArray_NewLikeArray(in[0], NPY_KEEPORDER, dtype, 0);
    if (y == NULL) return NULL;
    char *from = PyArray_BYTES(in[0]), *to = PyArray_BYTES(y);
    Argument arguments[3 + NUMBERS];
    for (int i = 0; i < NUMBERS; i++) arguments[3 + i].number = numbers[i];
    npy_intp size = PyArray_SIZE(y), a = PyArray_ITEMSIZE(in[0]), b = PyArray_ITEMSIZE(y);
    PyThreadState *state = size * a >= LARGE ? PyEval_SaveThread() : NULL;
    for (npy_intp at = 0; at < size; at += PIECE) {
        npy_intp n = size - at < PIECE ? size - at : PIECE;
        arguments[0].address = from + at * a, arguments[1].address = to + at * b;
        arguments[2].count = (uint32_t)n;
        self->entry->call(arguments);
    }
    if (state != NULL) PyEval_RestoreThread(state);
    return y;
}

static void run_loop(const Elementwise *self, PyArrayObject **in, PyArrayObject *y,
                     int32_t *shape) {
    Argument a[MOST + 3];
    for (int k = 0; k < self->nin; k++) a[k].address = PyArray_DATA(in[k]);
    a[self->nin].address = PyArray_DATA(y);
    a[self->nin + 1].count = (uint32_t)PyArray_SIZE(y);
    a[self->nin + 2].address = shape;
    PyThreadState *state = PyArray_NBYTES(y) >= LARGE ? PyEval_SaveThread() : NULL;
    self->entry->call(a);
    if (state != NULL) PyEval_RestoreThread(state);
}

/* Whether elements at one place in memory belong to each other. */
static bool are_alike(PyArrayObject **in, int count) {
    bool c = true, f = true;
    for (int k = 0; k < count; k++) {
        c = c && PyArray_IS_C_CONTIGUOUS(in[k]);
        f = f && PyArray_IS_F_CONTIGUOUS(in[k]);
        if (k && !PyArray_SAMESHAPE(in[0], in[k])) return false;
    }
    return c || f;
}

/* NULL, with no error, where NumPy has to do it: shapes that do not broadcast, rows that C
   does not read, and arrays of more elements than it counts. */
static PyArrayObject *run_several(const Elementwise *self, PyArrayObject **in) {
    int32_t plan[1 + RANK * (MOST + 1)], *shape = NULL;
    PyArrayObject *y;
    if (are_alike(in, self->nin) && PyArray_SIZE(in[0]) <= INT32_MAX) {
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

/* What C does not do at once: float16, and what is left to the function on NumPy. */
static PyObject *call_wrapped(const Elementwise *self, PyObject *const *args, size_t count,
                              PyObject *names) {
    Py_ssize_t given = PyVectorcall_NARGS(count), nin = self->nin;
    if (self->takes_half && names == NULL && given >= nin && given <= nin + NUMBERS) {
        double numbers[NUMBERS] = {0, 0};
        bool fits = true;
        for (Py_ssize_t i = nin; fits && i < given; i++)
            fits = number(args[i], &numbers[i - nin]);
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
    PyArrayObject *in[MOST] = {NULL, NULL, NULL}, *y = NULL;
    double numbers[NUMBERS] = {0, 0};
    bool fits = self->entry != NULL && names == NULL && given >= nin && given <= nin + NUMBERS;
    for (Py_ssize_t i = 0; fits && i < given; i++) {
        if (i < nin)
            fits = (in[i] = operand(args[i], self->types[i])) != NULL;
        else
            fits = number(args[i], &numbers[i - nin]);
    }
    if (fits) y = nin == 1 ? run_unary(self, in, numbers) : run_several(self, in);
    for (int i = 0; i < MOST; i++) Py_XDECREF(in[i]);
    if (y != NULL || PyErr_Occurred()) return (PyObject *)y;
    return call_wrapped(self, args, count, names);
}

/* --- the type -------------------------------------------------------------------- */

/* "ff->?", say, in letters of NumPy: false if it is not like that. */
static bool read_types(Elementwise *self, const char *text) {
    size_t nin = strcspn(text, "-"), length = strlen(text);
    if (!nin || nin > MOST || length != nin + 3 || text[nin + 1] != '>') return false;
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

/* Whether float16 can be calculated in float32. */
static bool takes_half(const Elementwise *self) {
    for (int k = 0; k < self->nin; k++)
        if (self->types[k] != NPY_FLOAT) return false;
    return self->result == NPY_FLOAT || self->result == NPY_BOOL;
}

/* Whether calls pass what the kernel takes: by the number of arrays, see run_unary and
   run_loop. */
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
        return PyErr_Format(PyExc_ValueError, "types %s: use such as ff->?", types);
    const char *symbol = PyUnicode_AsUTF8(name);
    const Entry *entry = symbol && *symbol ? entry_named(symbol) : NULL;
    if (entry == NULL && (symbol == NULL || *symbol)) return NULL;
    if (entry != NULL && !is_callable(entry, read.nin))
        return PyErr_Format(PyExc_TypeError, "%s is no kernel for types %s",
                            entry->prototype, types);
    Elementwise *self = PyObject_GC_New(Elementwise, &ElementwiseType);
    if (self == NULL) return NULL;
    self->vectorcall = call, self->entry = entry, self->wrapped = Py_NewRef(wrapped);
    self->symbol = Py_NewRef(name);
    self->nin = read.nin, self->result = read.result;
    memcpy(self->types, read.types, sizeof read.types);
    self->takes_half = takes_half(self);
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

/* What it does not have itself (__name__, __module__) is that of the kernel on NumPy. */
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
     "The kernel on NumPy."},
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
    .tp_doc = "A kernel of one element each, in C.",
};

PyMethodDef elementwise_methods[] = {
    {"elementwise", make, METH_VARARGS,
     "elementwise(name, types, function): the kernel in C, else the function on NumPy; "
     "without a name, float16 in float32, and else the function on NumPy."},
    {NULL, NULL, 0, NULL},
};
