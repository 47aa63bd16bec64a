/* Kernels in a context of their thread: `quiet(function, nested, make)` is a callable like
   `function`, which runs in the context that `make` has made for the thread.

   A context cannot be entered twice. A kernel that is called from inside of a kernel - of
   the user's, which runs ops, or by a finalizer while one allocates - is `nested`. */
#include "native.h"

#include <stddef.h>
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function, *nested, *make, *dict;
} Quiet;

static PyObject *key; /* of the context, among what Python keeps for a thread */

/* A new reference to the context of this thread; NULL with an error. */
static PyObject *context_of_thread(PyObject *make) {
    PyObject *kept = PyThreadState_GetDict(); /* borrowed */
    if (kept == NULL) return PyErr_NoMemory();
    PyObject *found = PyDict_GetItemWithError(kept, key);
    if (found != NULL || PyErr_Occurred()) return Py_XNewRef(found);
    found = PyObject_CallNoArgs(make);
    if (found != NULL && PyDict_SetItem(kept, key, found) < 0) Py_CLEAR(found);
    return found;
}

static PyObject *call(PyObject *object, PyObject *const *args, size_t count,
                      PyObject *names) {
    const Quiet *self = (Quiet *)object;
    PyObject *context = context_of_thread(self->make), *y = NULL;
    if (context == NULL) return NULL;
    if (PyContext_Enter(context) == 0) {
        y = PyObject_Vectorcall(self->function, args, count, names);
        if (PyContext_Exit(context) < 0) Py_CLEAR(y);
    } else if (PyErr_ExceptionMatches(PyExc_RuntimeError)) { /* it has been entered */
        PyErr_Clear();
        y = PyObject_Vectorcall(self->nested, args, count, names);
    }
    Py_DECREF(context);
    return y;
}

/* --- the type -------------------------------------------------------------------- */

static PyObject *make_quiet(PyObject *module, PyObject *args) {
    PyObject *function, *nested, *make;
    if (!PyArg_ParseTuple(args, "OOO", &function, &nested, &make)) return NULL;
    Quiet *self = PyObject_GC_New(Quiet, &QuietType);
    if (self == NULL) return NULL;
    self->vectorcall = call, self->dict = NULL;
    self->function = Py_NewRef(function), self->nested = Py_NewRef(nested);
    self->make = Py_NewRef(make);
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static int traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((Quiet *)self)->function);
    Py_VISIT(((Quiet *)self)->nested);
    Py_VISIT(((Quiet *)self)->make);
    Py_VISIT(((Quiet *)self)->dict);
    return 0;
}

static int clear(PyObject *self) { /* a finalizer may yet call it: its dict alone */
    Py_CLEAR(((Quiet *)self)->dict);
    return 0;
}

static void dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    clear(self);
    Py_DECREF(((Quiet *)self)->function);
    Py_DECREF(((Quiet *)self)->nested);
    Py_DECREF(((Quiet *)self)->make);
    PyObject_GC_Del(self);
}

static PyGetSetDef getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL},
};

PyTypeObject QuietType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "plugrad_cpu._native.Quiet",
    .tp_basicsize = sizeof(Quiet),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_vectorcall_offset = offsetof(Quiet, vectorcall),
    .tp_dictoffset = offsetof(Quiet, dict),
    .tp_call = PyVectorcall_Call,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_dealloc = dealloc,
    .tp_getset = getset,
    .tp_doc = "A kernel in the context of its thread.",
};

int start_quiet(void) {
    if (key == NULL) key = PyUnicode_InternFromString("plugrad_cpu.context");
    return key == NULL ? -1 : PyType_Ready(&QuietType);
}

PyMethodDef quiet_methods[] = {
    {"quiet", make_quiet, METH_VARARGS,
     "quiet(function, nested, make): the function in the context that make() returns, or "
     "nested in it."},
    {NULL, NULL, 0, NULL},
};
