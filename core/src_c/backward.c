/* One step of backward: what the output of a run owes to its inputs. */

#include "usual.h"

/* Return what the rule of a step makes of `dy` and the saved values that it wants. */
static PyObject *by_rule(PyObject *step, PyObject *dy, PyObject *saved) {
    PyObject *args[1 + MOST] = {dy}, *wants = PyTuple_GET_ITEM(step, 2);
    Py_ssize_t n = PyTuple_GET_SIZE(wants);
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(wants, i));
        args[1 + i] = PyList_GET_ITEM(saved, at);
    }
    return PyObject_Vectorcall(PyTuple_GET_ITEM(step, 1), args, (size_t)n + 1, NULL);
}

/* Tell whether two are equal, which are borrowed: comparing may run any code. */
static int are_equal(PyObject *a, PyObject *b) {
    Py_XINCREF(a);
    Py_XINCREF(b);
    int equal = PyObject_RichCompareBool(a, b, Py_EQ);
    Py_XDECREF(b);
    Py_XDECREF(a);
    return equal;
}

/* Return `dx`, which it takes, in the shape of the input; NULL hands on. */
static PyObject *fitting(PyObject *dx, PyObject *token, PyObject *kernel,
                         PyObject *step) {
    if (dx == NULL) return NULL;
    PyObject *found = NULL;
    int fits = is_tensor(dx) && IS(token, Token) &&
               SLOT(dx, Tensor, dtype) == SLOT(token, Token, dtype);
    if (fits) fits = are_equal(SLOT(dx, Tensor, shape), SLOT(token, Token, shape));
    if (fits > 0) return dx;
    if (fits == 0)
        found = PyObject_CallFunctionObjArgs(_fitted, dx, token, kernel, step, NULL);
    Py_DECREF(dx);
    return found;
}

/* Add `dx`, which it takes, to the cotangent of `token`: 0, or -1 with an error. */
static int add(PyObject *cotangents, PyObject *token, PyObject *dx) {
    PyObject *have = dx ? PyDict_GetItemWithError(cotangents, token) : NULL;
    if (have != NULL) {
        Py_INCREF(have);
        Py_SETREF(dx, PyNumber_Add(have, dx));
        Py_DECREF(have);
    }
    int done = dx && !PyErr_Occurred() ? PyDict_SetItem(cotangents, token, dx) : -1;
    Py_XDECREF(dx);
    return done;
}

/* Tell whether a node has one output and ran on the backend. */
static int is_plain(PyObject *node, PyObject *backend) {
    if (!IS(node, Node) || PyTuple_GET_ITEM(node, 1) != backend) return 0;
    PyObject *plan = PyTuple_GET_ITEM(node, 0), *steps = PyTuple_GET_ITEM(plan, 3);
    if (!IS(PyTuple_GET_ITEM(plan, 0), Kernel)) return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); i++) {
        PyObject *wants = PyTuple_GET_ITEM(PyTuple_GET_ITEM(steps, i), 2);
        if (PyTuple_GET_SIZE(wants) > MOST) return 0;
    }
    return PyList_GET_SIZE(PyTuple_GET_ITEM(node, 3)) == 1;
}

/* Tell whether nobody watches but one tape; -1 with an error. */
static int is_quiet(void) {
    PyObject *context = context_now();
    if (context == NULL) return PyErr_Occurred() ? -1 : 0;
    int quiet = SLOT(context, Context, ready) != Py_None ||
                SLOT(context, Context, tape) != Py_None;
    Py_DECREF(context);
    return quiet;
}

/* Add what a rule gives for one input: 0, or -1 with an error. */
static int to_one(PyObject *node, PyObject *step, PyObject *dy, PyObject *tracked,
                  PyObject *cotangents) {
    Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(step, 0));
    PyObject *token = PyList_GET_ITEM(PyTuple_GET_ITEM(node, 2), at);
    PyObject *kernel = PyTuple_GET_ITEM(PyTuple_GET_ITEM(node, 0), 0);
    int found = PySet_Contains(tracked, token); /* None never is */
    if (found <= 0) return found;
    PyObject *dx = by_rule(step, dy, PyTuple_GET_ITEM(node, 4));
    return add(cotangents, token, fitting(dx, token, kernel, step));
}

/* Add what a rule gives for a variadic input: 0, or -1 with an error. */
static int to_several(PyObject *node, PyObject *step, PyObject *dy, PyObject *tracked,
                      PyObject *cotangents) {
    PyObject *where = PyTuple_GET_ITEM(step, 0);
    Py_ssize_t start = PyLong_AsSsize_t(PyTuple_GET_ITEM(where, 0));
    Py_ssize_t stop = PyLong_AsSsize_t(PyTuple_GET_ITEM(where, 1));
    PyObject *tokens = PyList_GetSlice(PyTuple_GET_ITEM(node, 2), start, stop);
    PyObject *kernel = PyTuple_GET_ITEM(PyTuple_GET_ITEM(node, 0), 0), *done = NULL;
    int found = tokens == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; found == 0 && i < PyList_GET_SIZE(tokens); i++)
        found = PySet_Contains(tracked, PyList_GET_ITEM(tokens, i));
    PyObject *dxs = found > 0 ? by_rule(step, dy, PyTuple_GET_ITEM(node, 4)) : NULL;
    if (dxs != NULL)
        done = PyObject_CallFunctionObjArgs(_arrive, dxs, tokens, tracked, cotangents,
                                            kernel, step, NULL);
    if (found > 0 && done == NULL) found = -1;
    Py_XDECREF(done);
    Py_XDECREF(dxs);
    Py_XDECREF(tokens);
    return found < 0 ? -1 : 0;
}

/* Add what `dy` owes to each tracked input: 0, or -1 with an error. */
static int pull_back(PyObject *node, PyObject *tracked, PyObject *dy,
                     PyObject *cotangents) {
    PyObject *plan = PyTuple_GET_ITEM(node, 0), *steps = PyTuple_GET_ITEM(plan, 3);
    PyObject *kernel = PyTuple_GET_ITEM(plan, 0);
    int variadic = SLOT(kernel, Kernel, variadic_outputs) == Py_True, done = 0;
    dy = variadic ? Py_BuildValue("[O]", dy) : Py_NewRef(dy);
    if (dy == NULL) return -1;
    for (Py_ssize_t i = 0; done == 0 && i < PyTuple_GET_SIZE(steps); i++) {
        PyObject *step = PyTuple_GET_ITEM(steps, i);
        if (PyLong_CheckExact(PyTuple_GET_ITEM(step, 0)))
            done = to_one(node, step, dy, tracked, cotangents);
        else
            done = to_several(node, step, dy, tracked, cotangents);
    }
    Py_DECREF(dy);
    return done;
}

/* _through(node, tracked, cotangents, wanted, backend, linear_only) */
PyObject *through_twin(CALL) {
    if (!enabled || names != NULL || PyVectorcall_NARGS(nargsf) != 6 ||
        args[5] != Py_False || !is_plain(args[0], args[4]) || is_quiet() != 1)
        return unusual(self, args, nargsf, names);
    PyObject *node = args[0], *cotangents = args[2];
    PyObject *y = PyList_GET_ITEM(PyTuple_GET_ITEM(node, 3), 0);
    PyObject *dy = PyDict_GetItemWithError(cotangents, y);
    if (dy == NULL) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    Py_INCREF(dy);
    int done = PySequence_Contains(args[3], y);
    if (done == 0) done = PyDict_DelItem(cotangents, y);
    if (done >= 0) done = pull_back(node, args[1], dy, cotangents);
    Py_DECREF(dy);
    return done < 0 ? NULL : Py_NewRef(Py_None);
}
