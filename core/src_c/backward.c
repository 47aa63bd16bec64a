/* One node of the backward pass: the cotangents of its inputs from that of its output. */

#include "speedups.h"

/* Call the VJP function of a step with `dy` and its residuals. */
static PyObject *call_vjp(PyObject *step, PyObject *dy, PyObject *saved) {
    PyObject *function = FIELD(step, VJPStep, function), *dx = NULL;
    PyObject *args[1 + MAX_ARGUMENTS] = {dy}, *residuals = FIELD(step, VJPStep, saved);
    Py_ssize_t n = 0;
    /* New references, because a call may clear the list. */
    for (; n < PyTuple_GET_SIZE(residuals); n++) {
        Py_ssize_t index = PyLong_AsSsize_t(PyTuple_GET_ITEM(residuals, n));
        args[1 + n] = item_at(saved, index);
        if (args[1 + n] == NULL) break;
    }
    if (n == PyTuple_GET_SIZE(residuals))
        dx = PyObject_Vectorcall(function, args, (size_t)n + 1, NULL);
    while (n > 0) Py_DECREF(args[n--]);
    return dx;
}

/* Compare two borrowed objects; keep them alive, because comparing may run any code. */
static int are_equal(PyObject *a, PyObject *b) {
    Py_XINCREF(a);
    Py_XINCREF(b);
    int equal = PyObject_RichCompareBool(a, b, Py_EQ);
    Py_XDECREF(b);
    Py_XDECREF(a);
    return equal;
}

/* Steal `dx`, and return it, summed to the shape of the input; NULL gives NULL. */
static PyObject *unbroadcast(PyObject *dx, PyObject *tape_id, PyObject *kernel,
                         PyObject *step) {
    if (dx == NULL) return NULL;
    PyObject *found = NULL;
    int fits = is_tensor(dx) && IS(tape_id, TapeId) &&
               SLOT(dx, Tensor, _dtype) == SLOT(tape_id, TapeId, dtype);
    if (fits) fits = are_equal(SLOT(dx, Tensor, _shape), SLOT(tape_id, TapeId, shape));
    if (fits > 0) return dx;
    if (fits == 0)
        found = PyObject_CallFunctionObjArgs(_unbroadcast, dx, tape_id, kernel, step,
                                             NULL);
    Py_DECREF(dx);
    return found;
}

/* Steal `dx`, and add it to the cotangent of `tape_id`. Return 0, or -1 with an error. */
static int accumulate(PyObject *cotangents, PyObject *tape_id, PyObject *dx) {
    PyObject *have = dx ? item_of(cotangents, tape_id) : NULL;
    if (have != NULL) {
        Py_SETREF(dx, PyNumber_Add(have, dx));
        Py_DECREF(have);
    }
    int done = dx && !PyErr_Occurred() ? PyDict_SetItem(cotangents, tape_id, dx) : -1;
    Py_XDECREF(dx);
    return done;
}

/* Return whether a node has one output, ran on the backend, and has at most
   MAX_ARGUMENTS residuals in each step. */
static int is_plain(PyObject *node, PyObject *backend) {
    if (!IS(node, Node) || FIELD(node, Node, backend) != backend) return 0;
    PyObject *plan = FIELD(node, Node, plan);
    if (!IS(plan, TapePlan) || !IS(FIELD(plan, TapePlan, kernel), Kernel)) return 0;
    PyObject *steps = FIELD(plan, TapePlan, steps);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); i++) {
        PyObject *residuals = FIELD(PyTuple_GET_ITEM(steps, i), VJPStep, saved);
        if (PyTuple_GET_SIZE(residuals) > MAX_ARGUMENTS) return 0;
    }
    return PyList_GET_SIZE(FIELD(node, Node, outputs)) == 1;
}

/* Return whether there is no observer and at most one tape; -1 with an error. */
static int is_unobserved(void) {
    PyObject *context = current_context();
    if (context == NULL) return PyErr_Occurred() ? -1 : 0;
    int unobserved = PEEK(context, Context, quiet) == Py_True ||
                     PEEK(context, Context, tape) != Py_None;
    Py_DECREF(context);
    return unobserved;
}

/* Add the cotangent of one input. Return 0, or -1 with an error. */
static int backward_input(PyObject *node, PyObject *step, PyObject *dy, PyObject *tracked,
                  PyObject *cotangents) {
    Py_ssize_t index = PyLong_AsSsize_t(FIELD(step, VJPStep, where));
    PyObject *tape_id = item_at(FIELD(node, Node, inputs), index);
    if (tape_id == NULL) return -1;
    PyObject *kernel = FIELD(FIELD(node, Node, plan), TapePlan, kernel);
    int found = PySet_Contains(tracked, tape_id); /* it never contains None */
    if (found > 0) {
        PyObject *dx = call_vjp(step, dy, FIELD(node, Node, saved));
        found = accumulate(cotangents, tape_id, unbroadcast(dx, tape_id, kernel, step));
    }
    Py_DECREF(tape_id);
    return found;
}

/* Add the cotangents of a variadic input. Return 0, or -1 with an error. */
static int backward_variadic(PyObject *node, PyObject *step, PyObject *dy,
                             PyObject *tracked,
                      PyObject *cotangents) {
    PyObject *where = FIELD(step, VJPStep, where);
    Py_ssize_t start = PyLong_AsSsize_t(PyTuple_GET_ITEM(where, 0));
    Py_ssize_t stop = PyLong_AsSsize_t(PyTuple_GET_ITEM(where, 1));
    PyObject *tape_ids = PyList_GetSlice(FIELD(node, Node, inputs), start, stop);
    PyObject *kernel = FIELD(FIELD(node, Node, plan), TapePlan, kernel), *done = NULL;
    int found = tape_ids == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; found == 0 && i < PyList_GET_SIZE(tape_ids); i++)
        found = PySet_Contains(tracked, PyList_GET_ITEM(tape_ids, i));
    PyObject *dxs = found > 0 ? call_vjp(step, dy, FIELD(node, Node, saved)) : NULL;
    if (dxs != NULL)
        done = PyObject_CallFunctionObjArgs(_accumulate, dxs, tape_ids, tracked,
                                            cotangents, kernel, step, NULL);
    if (found > 0 && done == NULL) found = -1;
    Py_XDECREF(done);
    Py_XDECREF(dxs);
    Py_XDECREF(tape_ids);
    return found < 0 ? -1 : 0;
}

/* Add the cotangents of all tracked inputs. Return 0, or -1 with an error. */
static int apply_vjps(PyObject *node, PyObject *tracked, PyObject *dy,
                     PyObject *cotangents) {
    PyObject *plan = FIELD(node, Node, plan), *steps = FIELD(plan, TapePlan, steps);
    PyObject *kernel = FIELD(plan, TapePlan, kernel);
    int variadic = SLOT(kernel, Kernel, variadic_outputs) == Py_True, done = 0;
    dy = variadic ? Py_BuildValue("[O]", dy) : Py_NewRef(dy);
    if (dy == NULL) return -1;
    for (Py_ssize_t i = 0; done == 0 && i < PyTuple_GET_SIZE(steps); i++) {
        PyObject *step = PyTuple_GET_ITEM(steps, i);
        if (PyLong_CheckExact(FIELD(step, VJPStep, where)))
            done = backward_input(node, step, dy, tracked, cotangents);
        else
            done = backward_variadic(node, step, dy, tracked, cotangents);
    }
    Py_DECREF(dy);
    return done;
}

/* _backward_node(node, tracked, cotangents, wanted, backend, linear_only) */
PyObject *call_backward_node(CALL) {
    if (!is_on() || names != NULL || PyVectorcall_NARGS(nargsf) != 6 ||
        args[5] != Py_False || !is_plain(args[0], args[4]) || is_unobserved() != 1)
        return slow_path(self, args, nargsf, names);
    PyObject *node = args[0], *cotangents = args[2];
    PyObject *y = item_at(FIELD(node, Node, outputs), 0);
    PyObject *dy = y ? item_of(cotangents, y) : NULL;
    int done = PyErr_Occurred() ? -1 : 0;
    if (dy != NULL) {
        done = PySequence_Contains(args[3], y);
        if (done == 0) done = PyDict_DelItem(cotangents, y);
        if (done >= 0) done = apply_vjps(node, args[1], dy, cotangents);
    }
    Py_XDECREF(dy);
    Py_XDECREF(y);
    return done < 0 ? NULL : Py_NewRef(Py_None);
}
