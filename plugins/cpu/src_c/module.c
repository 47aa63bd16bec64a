/* The module plugrad_cpu._native: the memory pool, and calls of the C kernels. */
#define MAIN
#include "native.h"

/* Types, the pool and the library are static data that all threads share. The pool has
   a lock; the others do not change once a backend is open. */
static int fill_module(PyObject *module) {
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError,
                        "plugrad_cpu._native runs in the main interpreter only");
        return -1;
    }
    if (PyArray_ImportNumPyAPI() < 0 || start_pool() < 0 || start_context() < 0 ||
        start_regions() < 0 || PyType_Ready(&FunctionType) < 0 ||
        PyType_Ready(&ElementwiseType) < 0)
        return -1;
    PyMethodDef *const methods[] = {call_methods, elementwise_methods, context_methods,
                                    region_methods};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (PyModule_AddFunctions(module, methods[i]) < 0) return -1;
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)fill_module},
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "plugrad_cpu._native",
    .m_doc = "The native part of plugrad-cpu.",
    .m_methods = pool_methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
