/* A profile function that reports the calls of Python functions to Python.

`RunningCode` in engine/code.py answers whether to report later calls of the same code.
Later calls of most code are not reported: they cost only a look-up of an address. */

#include "speedups.h"
#include <stdint.h>

/* A set of the addresses of code objects, which Python keeps alive. */
typedef struct {
    uintptr_t *slots;
    size_t size, used; /* `size` is a power of two, or 0 */
} Table;

static size_t find_slot(const Table *table, uintptr_t address) {
    size_t index = (size_t)((address >> 4) * 0x9E3779B97F4A7C15u) & (table->size - 1);
    while (table->slots[index] != 0 && table->slots[index] != address)
        index = (index + 1) & (table->size - 1);
    return index;
}

static int contains(const Table *table, uintptr_t address) {
    return table->size != 0 && table->slots[find_slot(table, address)] == address;
}

static int add(Table *table, uintptr_t address) {
    if (2 * (table->used + 1) > table->size) {
        Table larger = {NULL, table->size ? 2 * table->size : 256, table->used};
        larger.slots = PyMem_Calloc(larger.size, sizeof *larger.slots);
        if (larger.slots == NULL) return PyErr_NoMemory(), -1;
        for (size_t i = 0; i < table->size; i++)
            if (table->slots[i] != 0)
                larger.slots[find_slot(&larger, table->slots[i])] = table->slots[i];
        PyMem_Free(table->slots);
        *table = larger;
    }
    size_t index = find_slot(table, address);
    table->used += table->slots[index] == 0;
    table->slots[index] = address;
    return 0;
}

/* The answers of `hook` about a call; see engine/code.py. */
enum { FOLLOW, IGNORE_THIS_CALL, IGNORE_CODE, IGNORE_CALLEES };

typedef struct {
    PyObject_HEAD
    PyObject *hook;
    PyFrameObject *finalizer; /* the finalizer that runs now; only compared */
    Table seen;
} Watcher;

static Table ignored_code;

/* Threads share the tables; this is their lock. With the GIL, none is needed. */
#ifdef Py_GIL_DISABLED
static PyMutex lock;
#define LOCK() PyMutex_Lock(&lock)
#define UNLOCK() PyMutex_Unlock(&lock)
#else
#define LOCK() (void)0
#define UNLOCK() (void)0
#endif

/* Remove the profile function after an error of the hook, as Python does. */
static int abort_profiling(void) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyEval_SetProfile(NULL, NULL);
    PyErr_Restore(type, value, trace);
    return -1;
}

static int on_event(PyObject *watcher, PyFrameObject *frame, int what, PyObject *arg) {
    (void)arg;
    Watcher *self = (Watcher *)watcher;
    if (self->finalizer != NULL) {
        if (what == PyTrace_RETURN && frame == self->finalizer) self->finalizer = NULL;
        return 0;
    }
    if (what != PyTrace_CALL) return 0;
    PyCodeObject *code = PyFrame_GetCode(frame);
    uintptr_t address = (uintptr_t)code;
    Py_DECREF(code);
    LOCK();
    int known = contains(&ignored_code, address) || contains(&self->seen, address);
    UNLOCK();
    if (known) return 0;
    PyObject *answer = PyObject_CallOneArg(self->hook, (PyObject *)frame);
    if (answer == NULL) return abort_profiling();
    long kind = PyLong_AsLong(answer);
    Py_DECREF(answer);
    if (kind == IGNORE_CALLEES) self->finalizer = frame;
    int added = 0;
    LOCK();
    if (kind == IGNORE_THIS_CALL) added = add(&self->seen, address);
    if (kind == IGNORE_CODE) added = add(&ignored_code, address);
    UNLOCK();
    if (added < 0) return abort_profiling();
    return kind == -1 && PyErr_Occurred() ? abort_profiling() : 0;
}

/* Called if the user saves the hook with sys.getprofile() and sets it again. */
static PyObject *watcher_call(PyObject *self, PyObject *args, PyObject *kwargs) {
    (void)kwargs;
    PyObject *frame, *arg;
    const char *event;
    if (!PyArg_ParseTuple(args, "O!sO:Watcher", &PyFrame_Type, &frame, &event, &arg))
        return NULL;
    int what = strcmp(event, "call") == 0     ? PyTrace_CALL
               : strcmp(event, "return") == 0 ? PyTrace_RETURN
                                              : PyTrace_C_CALL;
    if (on_event(self, (PyFrameObject *)frame, what, arg) < 0) return NULL;
    return Py_NewRef(Py_None);
}

static int watcher_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Watcher *)self)->hook);
    return 0;
}

static int watcher_clear(PyObject *self) {
    Py_CLEAR(((Watcher *)self)->hook);
    return 0;
}

static void watcher_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    watcher_clear(self);
    PyMem_Free(((Watcher *)self)->seen.slots);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *watcher_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"hook", NULL};
    PyObject *hook;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Watcher", words, &hook))
        return NULL;
    Watcher *self = (Watcher *)type->tp_alloc(type, 0);
    if (self != NULL) self->hook = Py_NewRef(hook);
    return (PyObject *)self;
}

/* install(watcher): make it the profile function of this thread; None removes it. */
static PyObject *install(PyObject *type, PyObject *watcher) {
    if (watcher == Py_None) {
        PyEval_SetProfile(NULL, NULL);
    } else if (PyObject_TypeCheck(watcher, (PyTypeObject *)type)) {
        PyEval_SetProfile(on_event, watcher);
    } else {
        return PyErr_Format(PyExc_TypeError, "install: %R is no Watcher", watcher);
    }
    return Py_NewRef(Py_None);
}

static PyMethodDef watcher_methods[] = {
    {"install", install, METH_O | METH_CLASS, "Set the profile function of this thread."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot watcher_slots[] = {
    {Py_tp_doc, "A profile function in C that reports calls of Python functions."},
    {Py_tp_new, watcher_new},
    {Py_tp_dealloc, watcher_dealloc},
    {Py_tp_traverse, watcher_traverse},
    {Py_tp_clear, watcher_clear},
    {Py_tp_call, watcher_call},
    {Py_tp_methods, watcher_methods},
    {0, NULL},
};

PyType_Spec watcher_spec = {
    .name = "plugrad._speedups.Watcher",
    .basicsize = sizeof(Watcher),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = watcher_slots,
};
