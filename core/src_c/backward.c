/* One step of backward: what the output of a run owes to its inputs. */

#include "speedups.h"

/* Return what the rule of a step makes of `dy` and the saved values that it wants. */
static PyObject *by_rule(PyObject *step, PyObject *dy, PyObject *saved) {
    PyObject *args[1 + MOST] = {dy}, *wants = FIELD(step, Step, saved), *dx = NULL;
    Py_ssize_t n = 0;
    for (; n < PyTuple_GET_SIZE(wants); n++) { /* owned: the rule may clear the list */
        Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(wants, n));
        args[1 + n] = Py_XNewRef(PyList_GetItem(saved, at));
        if (args[1 + n] == NULL) break;
    }
    if (n == PyTuple_GET_SIZE(wants))
        dx = PyObject_Vectorcall(FIELD(step, Step, function), args, (size_t)n + 1, NULL);
    while (n > 0) Py_DECREF(args[n--]);
    return dx;
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
               SLOT(dx, Tensor, _dtype) == SLOT(token, Token, dtype);
    if (fits) fits = are_equal(SLOT(dx, Tensor, _shape), SLOT(token, Token, shape));
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
    if (!IS(node, Node) || FIELD(node, Node, backend) != backend) return 0;
    PyObject *plan = FIELD(node, Node, plan);
    if (!IS(plan, Plan) || !IS(FIELD(plan, Plan, kernel), Kernel)) return 0;
    PyObject *steps = FIELD(plan, Plan, steps);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); i++) {
        PyObject *wants = FIELD(PyTuple_GET_ITEM(steps, i), Step, saved);
        if (PyTuple_GET_SIZE(wants) > MOST) return 0;
    }
    return PyList_GET_SIZE(FIELD(node, Node, outputs)) == 1;
}

/* Tell whether nobody watches but one tape; -1 with an error. */
static int is_quiet(void) {
    PyObject *context = context_now();
    if (context == NULL) return PyErr_Occurred() ? -1 : 0;
    int quiet = SLOT(context, Context, quiet) == Py_True ||
                SLOT(context, Context, tape) != Py_None;
    Py_DECREF(context);
    return quiet;
}

/* Add what a rule gives for one input: 0, or -1 with an error. */
static int to_one(PyObject *node, PyObject *step, PyObject *dy, PyObject *tracked,
                  PyObject *cotangents) {
    Py_ssize_t at = PyLong_AsSsize_t(FIELD(step, Step, where));
    PyObject *token = Py_XNewRef(PyList_GetItem(FIELD(node, Node, inputs), at));
    if (token == NULL) return -1;
    PyObject *kernel = FIELD(FIELD(node, Node, plan), Plan, kernel);
    int found = PySet_Contains(tracked, token); /* None never is */
    if (found > 0) {
        PyObject *dx = by_rule(step, dy, FIELD(node, Node, saved));
        found = add(cotangents, token, fitting(dx, token, kernel, step));
    }
    Py_DECREF(token);
    return found;
}

/* Add what a rule gives for a variadic input: 0, or -1 with an error. */
static int to_several(PyObject *node, PyObject *step, PyObject *dy, PyObject *tracked,
                      PyObject *cotangents) {
    PyObject *where = FIELD(step, Step, where);
    Py_ssize_t start = PyLong_AsSsize_t(PyTuple_GET_ITEM(where, 0));
    Py_ssize_t stop = PyLong_AsSsize_t(PyTuple_GET_ITEM(where, 1));
    PyObject *tokens = PyList_GetSlice(FIELD(node, Node, inputs), start, stop);
    PyObject *kernel = FIELD(FIELD(node, Node, plan), Plan, kernel), *done = NULL;
    int found = tokens == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; found == 0 && i < PyList_GET_SIZE(tokens); i++)
        found = PySet_Contains(tracked, PyList_GET_ITEM(tokens, i));
    PyObject *dxs = found > 0 ? by_rule(step, dy, FIELD(node, Node, saved)) : NULL;
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
    PyObject *plan = FIELD(node, Node, plan), *steps = FIELD(plan, Plan, steps);
    PyObject *kernel = FIELD(plan, Plan, kernel);
    int variadic = SLOT(kernel, Kernel, variadic_outputs) == Py_True, done = 0;
    dy = variadic ? Py_BuildValue("[O]", dy) : Py_NewRef(dy);
    if (dy == NULL) return -1;
    for (Py_ssize_t i = 0; done == 0 && i < PyTuple_GET_SIZE(steps); i++) {
        PyObject *step = PyTuple_GET_ITEM(steps, i);
        if (PyLong_CheckExact(FIELD(step, Step, where)))
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
    PyObject *y = Py_XNewRef(PyList_GetItem(FIELD(node, Node, outputs), 0));
    PyObject *dy = y ? Py_XNewRef(PyDict_GetItemWithError(cotangents, y)) : NULL;
    int done = PyErr_Occurred() ? -1 : 0;
    if (dy != NULL) {
        done = PySequence_Contains(args[3], y);
        if (done == 0) done = PyDict_DelItem(cotangents, y);
        if (done >= 0) done = pull_back(node, args[1], dy, cotangents);
    }
    Py_XDECREF(dy);
    Py_XDECREF(y);
    return done < 0 ? NULL : Py_NewRef(Py_None);
}
