/* The type of twins, and the module. */

#include "speedups.h"

/* --- twins ----------------------------------------------------------------------- */

static const struct {
    const char *name;
    vectorcallfunc call;
} TWINS[] = {
    {"run", run_twin},
    {"unary", unary_twin},
    {"floating_unary", floating_unary_twin},
    {"elementwise", elementwise_twin},
    {"reduction", reduction_twin},
    {"_through", through_twin},
    {"alias", alias_twin},
    {"record", record_twin},
};

PyObject *unusual(CALL) {
    if (PyErr_Occurred()) return NULL;
    return PyObject_Vectorcall(((Twin *)self)->python, args, nargsf, names);
}

static vectorcallfunc twin_called(PyObject *name) {
    for (size_t i = 0; PyUnicode_Check(name) && i < sizeof TWINS / sizeof *TWINS; i++)
        if (PyUnicode_CompareWithASCIIString(name, TWINS[i].name) == 0)
            return TWINS[i].call;
    PyErr_Format(PyExc_ValueError, "Twin: there is none of %R", name);
    return NULL;
}

static PyObject *twin_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"python", NULL};
    PyObject *python;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Twin", words, &python)) return NULL;
    PyObject *name = PyObject_GetAttrString(python, "__name__");
    if (name == NULL) return NULL;
    vectorcallfunc call = twin_called(name);
    Py_DECREF(name);
    Twin *self = call ? (Twin *)type->tp_alloc(type, 0) : NULL;
    if (self == NULL) return NULL;
    self->python = Py_NewRef(python);
    self->call = call;
    return (PyObject *)self;
}

static int twin_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Twin *)self)->python);
    Py_VISIT(((Twin *)self)->dict);
    return 0;
}

/* `python` stays: a finalizer may yet call the twin, and its cycles break elsewhere. */
static int twin_clear(PyObject *self) {
    Py_CLEAR(((Twin *)self)->dict);
    return 0;
}

static void twin_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (((Twin *)self)->weak != NULL) PyObject_ClearWeakRefs(self);
    twin_clear(self);
    Py_XDECREF(((Twin *)self)->python);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef twin_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(Twin, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Twin, weak), READONLY, NULL},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Twin, call), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef twin_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot twin_slots[] = {
    {Py_tp_doc, "A Python function, and what does its usual case."},
    {Py_tp_new, twin_new},
    {Py_tp_dealloc, twin_dealloc},
    {Py_tp_traverse, twin_traverse},
    {Py_tp_clear, twin_clear},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, twin_members},
    {Py_tp_getset, twin_getset},
    {0, NULL},
};

static PyType_Spec twin_spec = {
    .name = "plugrad._speedups.Twin",
    .basicsize = sizeof(Twin),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = twin_slots,
};

/* --- the module ------------------------------------------------------------------ */

static PyObject *enable(PyObject *module, PyObject *on) {
    (void)module;
    int wanted = PyObject_IsTrue(on);
    if (wanted < 0 || (wanted && import_objects() < 0)) return NULL;
    enabled = wanted;
    return Py_NewRef(Py_None);
}

static PyObject *is_enabled(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    return PyBool_FromLong(enabled);
}

static PyMethodDef methods[] = {
    {"enable", enable, METH_O, "Have twins do the usual case, or leave all to Python."},
    {"fix_members", fix_members, METH_VARARGS, "Let C read shape and dtype of Tensor."},
    {"enabled", is_enabled, METH_NOARGS, "Tell whether twins do the usual case."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "plugrad._speedups",
    .m_doc = "The usual case of the engine's hottest functions.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__speedups(void) {
    if (intern_names() < 0) return NULL;
    PyObject *module = PyModule_Create(&definition), *twin = NULL;
    if (module != NULL) twin = PyType_FromSpec(&twin_spec);
    if (twin == NULL || PyModule_AddObjectRef(module, "Twin", twin) < 0)
        Py_CLEAR(module);
    Py_XDECREF(twin);
    return module;
}
