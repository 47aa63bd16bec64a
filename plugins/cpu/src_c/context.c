/* Kernels that run in a context of their thread: `kernel_context(function, nested,
   make)` returns a callable like `function`. It runs `function` in the context that
   `make` creates for each thread.

   A context cannot be entered twice. If a kernel is called within another kernel,
   `nested` runs instead. This happens if a user's kernel runs ops, or a finalizer runs
   ops during an allocation. */
#include "native.h"

#include <stddef.h>
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function, *nested, *make, *dict;
} ContextKernel;

static PyObject *key; /* the key of the context in the dict of a thread state */

/* Returns a new reference to the context of this thread, or NULL with an error. */
static PyObject *context_of_thread(PyObject *make) {
    PyObject *dict = PyThreadState_GetDict(); /* borrowed */
    if (dict == NULL) return PyErr_NoMemory();
    PyObject *found = PyDict_GetItemWithError(dict, key);
    if (found != NULL || PyErr_Occurred()) return Py_XNewRef(found);
    found = PyObject_CallNoArgs(make);
    if (found != NULL && PyDict_SetItem(dict, key, found) < 0) Py_CLEAR(found);
    return found;
}

static PyObject *call(PyObject *object, PyObject *const *args, size_t count,
                      PyObject *names) {
    const ContextKernel *self = (ContextKernel *)object;
    PyObject *context = context_of_thread(self->make), *y = NULL;
    if (context == NULL) return NULL;
    if (PyContext_Enter(context) == 0) {
        y = PyObject_Vectorcall(self->function, args, count, names);
        if (PyContext_Exit(context) < 0) Py_CLEAR(y);
    } else if (PyErr_ExceptionMatches(PyExc_RuntimeError)) { /* already entered */
        PyErr_Clear();
        y = PyObject_Vectorcall(self->nested, args, count, names);
    }
    Py_DECREF(context);
    return y;
}

/* --- the type -------------------------------------------------------------------- */

static PyObject *make_context_kernel(PyObject *module, PyObject *args) {
    PyObject *function, *nested, *make;
    if (!PyArg_ParseTuple(args, "OOO", &function, &nested, &make)) return NULL;
    ContextKernel *self = PyObject_GC_New(ContextKernel, &ContextKernelType);
    if (self == NULL) return NULL;
    self->vectorcall = call, self->dict = NULL;
    self->function = Py_NewRef(function), self->nested = Py_NewRef(nested);
    self->make = Py_NewRef(make);
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static int traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((ContextKernel *)self)->function);
    Py_VISIT(((ContextKernel *)self)->nested);
    Py_VISIT(((ContextKernel *)self)->make);
    Py_VISIT(((ContextKernel *)self)->dict);
    return 0;
}

static int clear(PyObject *self) { /* keeps the functions: finalizers may call them */
    Py_CLEAR(((ContextKernel *)self)->dict);
    return 0;
}

static void dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    clear(self);
    Py_DECREF(((ContextKernel *)self)->function);
    Py_DECREF(((ContextKernel *)self)->nested);
    Py_DECREF(((ContextKernel *)self)->make);
    PyObject_GC_Del(self);
}

static PyGetSetDef getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL},
};

PyTypeObject ContextKernelType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "plugrad_cpu._native.ContextKernel",
    .tp_basicsize = sizeof(ContextKernel),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_vectorcall_offset = offsetof(ContextKernel, vectorcall),
    .tp_dictoffset = offsetof(ContextKernel, dict),
    .tp_call = PyVectorcall_Call,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_dealloc = dealloc,
    .tp_getset = getset,
    .tp_doc = "A kernel that runs in the context of the calling thread.",
};

int start_context(void) {
    if (key == NULL) key = PyUnicode_InternFromString("plugrad_cpu.context");
    return key == NULL ? -1 : PyType_Ready(&ContextKernelType);
}

PyMethodDef context_methods[] = {
    {"kernel_context", make_context_kernel, METH_VARARGS,
     "kernel_context(function, nested, make): return a callable that runs the function "
     "in the context from make(), or nested() if that context is already entered."},
    {NULL, NULL, 0, NULL},
};
