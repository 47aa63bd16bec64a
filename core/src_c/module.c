/* The type of accelerated functions, and the module. */

#include "speedups.h"

/* --- accelerated functions ------------------------------------------------------- */

static const struct {
    const char *name;
    vectorcallfunc call;
} ACCELERATED[] = {
    {"run", call_run},
    {"unary", call_unary},
    {"floating_unary", call_floating_unary},
    {"elementwise", call_elementwise},
    {"reduction", call_reduction},
    {"record", call_record},
    {"alias", call_alias},
    {"_backward_node", call_backward_node},
};

PyObject *slow_path(CALL) {
    if (PyErr_Occurred()) return NULL;
    return PyObject_Vectorcall(((Accelerated *)self)->python, args, nargsf, names);
}

static vectorcallfunc accelerator(PyObject *name) {
    size_t count = PyUnicode_Check(name) ? sizeof ACCELERATED / sizeof *ACCELERATED : 0;
    for (size_t i = 0; i < count; i++)
        if (PyUnicode_CompareWithASCIIString(name, ACCELERATED[i].name) == 0)
            return ACCELERATED[i].call;
    PyErr_Format(PyExc_ValueError, "Accelerated: there is no accelerator of %R", name);
    return NULL;
}

static PyObject *accelerated_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"python", NULL};
    PyObject *python;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Accelerated", words, &python))
        return NULL;
    PyObject *name = PyObject_GetAttrString(python, "__name__");
    if (name == NULL) return NULL;
    vectorcallfunc call = accelerator(name);
    Py_DECREF(name);
    Accelerated *self = call ? (Accelerated *)type->tp_alloc(type, 0) : NULL;
    if (self == NULL) return NULL;
    self->python = Py_NewRef(python);
    self->call = call;
    return (PyObject *)self;
}

static int accelerated_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Accelerated *)self)->python);
    Py_VISIT(((Accelerated *)self)->dict);
    return 0;
}

/* Do not clear `python`, because a finalizer may still call the function. A reference
   cycle through it has another object that can be cleared. */
static int accelerated_clear(PyObject *self) {
    Py_CLEAR(((Accelerated *)self)->dict);
    return 0;
}

static void accelerated_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (((Accelerated *)self)->weak != NULL) PyObject_ClearWeakRefs(self);
    accelerated_clear(self);
    Py_XDECREF(((Accelerated *)self)->python);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef accelerated_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(Accelerated, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Accelerated, weak), READONLY, NULL},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Accelerated, call), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef accelerated_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot accelerated_slots[] = {
    {Py_tp_doc, "A Python function with an accelerator in C."},
    {Py_tp_new, accelerated_new},
    {Py_tp_dealloc, accelerated_dealloc},
    {Py_tp_traverse, accelerated_traverse},
    {Py_tp_clear, accelerated_clear},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, accelerated_members},
    {Py_tp_getset, accelerated_getset},
    {0, NULL},
};

static PyType_Spec accelerated_spec = {
    .name = "plugrad._speedups.Accelerated",
    .basicsize = sizeof(Accelerated),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = accelerated_slots,
};

/* --- the module ------------------------------------------------------------------ */

static PyObject *enable(PyObject *module, PyObject *on) {
    (void)module;
    int wanted = PyObject_IsTrue(on);
    if (wanted < 0 || (wanted && import_objects() < 0)) return NULL;
#ifdef Py_GIL_DISABLED
    _Py_atomic_store_int(&enabled, wanted);
#else
    enabled = wanted;
#endif
    return Py_NewRef(Py_None);
}

static PyObject *is_enabled(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    return PyBool_FromLong(is_on());
}

static PyMethodDef methods[] = {
    {"enable", enable, METH_O, "Enable or disable the fast paths in C."},
    {"fix_members", fix_members, METH_VARARGS, "Let C read shape and dtype of Tensor."},
    {"enabled", is_enabled, METH_NOARGS, "Return whether the fast paths in C are on."},
    {NULL, NULL, 0, NULL},
};

static int add_type(PyObject *module, const char *name, PyType_Spec *spec) {
    PyObject *type = PyType_FromSpec(spec);
    int failed = type == NULL || PyModule_AddObjectRef(module, name, type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

/* The objects of the engine are static data, which all threads share. A second
   interpreter would have an engine of its own, so it cannot use them. */
static int fill_module(PyObject *module) {
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError,
                        "plugrad._speedups runs in the main interpreter only");
        return -1;
    }
    if (intern_names() < 0 || start_runs() < 0 ||
        add_type(module, "Accelerated", &accelerated_spec) < 0)
        return -1;
    return add_type(module, "Watcher", &watcher_spec);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)fill_module},
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "plugrad._speedups",
    .m_doc = "The fast paths of the engine's hottest functions.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__speedups(void) { return PyModuleDef_Init(&definition); }
