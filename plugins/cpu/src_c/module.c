/* The module plugrad_cpu._native: the pool of memory, and the kernels in C. */
#define MAIN
#include "native.h"

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    "_native",
    "The native part of plugrad-cpu.",
    -1,
    pool_methods,
    NULL,
    NULL,
    NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__native(void) {
    import_array();
    if (start_pool() < 0 || start_quiet() < 0 || start_regions() < 0 ||
        PyType_Ready(&FunctionType) < 0 || PyType_Ready(&ElementwiseType) < 0)
        return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made != NULL && (PyModule_AddFunctions(made, call_methods) < 0 ||
                         PyModule_AddFunctions(made, elementwise_methods) < 0 ||
                         PyModule_AddFunctions(made, quiet_methods) < 0 ||
                         PyModule_AddFunctions(made, region_methods) < 0))
        Py_CLEAR(made);
    return made;
}
