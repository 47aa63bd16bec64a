/* `run` and its relatives: a run that nobody watches, and one under a single tape. */

#include "speedups.h"

#include <math.h>

typedef struct {
    PyObject *kernel;
    Args inputs; /* tensors, or None for optional ones */
    Py_ssize_t count;
    PyObject *attrs;  /* their names, a tuple, or NULL */
    Args values;      /* and their values */
    PyObject *context, *backend;   /* owned */
    PyObject *tape, *tracked;      /* owned; NULL without a tape */
    PyObject *given[2 * MOST]; /* what the kernel gets: arrays (owned), then values */
    Py_ssize_t owned;
} Run;

static PyObject *attrs_of_reductions; /* ("axis", "keepdims") */

static Py_ssize_t attrs_of(const Run *run) {
    return run->attrs ? PyTuple_GET_SIZE(run->attrs) : 0;
}

/* --- what a tape notes ----------------------------------------------------------- */

static PyObject *attribute(const Run *run, PyObject *name) {
    for (Py_ssize_t i = 0; i < attrs_of(run); i++) {
        PyObject *one = PyTuple_GET_ITEM(run->attrs, i);
        int same = PyObject_RichCompareBool(one, name, Py_EQ);
        if (same != 0) return same < 0 ? NULL : Py_NewRef(run->values[i]);
    }
    PyErr_SetObject(PyExc_KeyError, name);
    return NULL;
}

/* The input or output at a place; NULL if nothing is there. */
static PyObject *value(const Run *run, PyObject *where, PyObject *y) {
    Py_ssize_t at = PyLong_AsSsize_t(where), end = run->count;
    if (at < 0) at += end + 1;
    if (at < 0 || at > end) return NULL; /* the run has too few inputs */
    return at == end ? y : run->inputs[at];
}

/* What a gradient wants, as Python saves it. */
static PyObject *by_python(const Run *run, PyObject *kind, PyObject *where, PyObject *y) {
    PyObject *values = PyTuple_New(run->count + 1);
    if (values == NULL) return NULL;
    for (Py_ssize_t i = 0; i < run->count; i++)
        PyTuple_SET_ITEM(values, i, Py_NewRef(run->inputs[i]));
    PyTuple_SET_ITEM(values, run->count, Py_NewRef(y));
    PyObject *found = PyObject_CallFunctionObjArgs(save, kind, where, values, NULL);
    Py_DECREF(values);
    return found;
}

/* A tensor that a gradient wants. */
static PyObject *handle(const Run *run, PyObject *where, PyObject *y) {
    PyObject *x = value(run, where, y), *found = NULL;
    if (x == Py_None) return Py_NewRef(x);
    if (x != NULL) found = handle_on(x);
    if (found != NULL || PyErr_Occurred()) return found;
    return by_python(run, TENSOR, where, y);
}

/* What a gradient wants and is no tensor: an attribute, a spec, or several inputs. */
static PyObject *other(const Run *run, PyObject *want, PyObject *y) {
    PyObject *kind = PyTuple_GET_ITEM(want, 0), *where = PyTuple_GET_ITEM(want, 1);
    if (kind == ATTRIBUTE) return attribute(run, where);
    if (kind == SPEC && PyLong_CheckExact(where)) { /* a token does for a spec */
        PyObject *x = value(run, where, y);
        if (x != NULL && is_tensor(x) && SLOT(x, Tensor, _token) != Py_None)
            return Py_NewRef(SLOT(x, Tensor, _token));
    }
    return by_python(run, kind, where, y);
}

/* What the plan tells to save, in its order. */
static PyObject *saved(const Run *run, PyObject *plan, PyObject *y) {
    PyObject *tensors = FIELD(plan, Plan, tensors), *others = FIELD(plan, Plan, others);
    Py_ssize_t n = PyTuple_GET_SIZE(tensors), all = n + PyTuple_GET_SIZE(others);
    PyObject *values = PyList_New(all);
    for (Py_ssize_t i = 0; values != NULL && i < all; i++) /* others may see the list */
        PyList_SET_ITEM(values, i, Py_NewRef(Py_None));
    for (Py_ssize_t i = 0; values != NULL && i < all; i++) {
        PyObject *one = i < n ? handle(run, PyTuple_GET_ITEM(tensors, i), y)
                              : other(run, PyTuple_GET_ITEM(others, i - n), y);
        if (one == NULL || PyList_SetItem(values, i, one) < 0) Py_CLEAR(values);
    }
    return values;
}

/* The tokens of the inputs. */
static PyObject *marks_of(const Run *run) {
    PyObject *marks = PyList_New(run->count);
    for (Py_ssize_t i = 0; marks != NULL && i < run->count; i++) {
        PyObject *x = run->inputs[i];
        PyObject *token = x == Py_None ? NULL : SLOT(x, Tensor, _token);
        PyList_SET_ITEM(marks, i, Py_NewRef(token ? token : Py_None));
    }
    return marks;
}

/* Put the node of a run on the tape: 0, or -1 with an error. */
static int note(const Run *run, PyObject *plan, PyObject *y) {
    PyObject *dtype = SLOT(y, Tensor, _dtype);
    int floating = dtype == FLOAT32 ? 1 : kind_is_in(dtype, n_fc);
    if (floating <= 0) return floating; /* integers and bool end the path */
    PyObject *token = token_of(y), *outputs = token ? PyList_New(1) : NULL;
    if (outputs == NULL) {
        Py_XDECREF(token);
        return -1;
    }
    PyList_SET_ITEM(outputs, 0, token);
    PyObject *marks = marks_of(run), *values = marks ? saved(run, plan, y) : NULL;
    PyObject *node = values ? NEW(Node, Node_count) : NULL;
    int done = -1;
    if (node != NULL) {
        PyTuple_SET_ITEM(node, Node_plan, Py_NewRef(plan));
        PyTuple_SET_ITEM(node, Node_backend, Py_NewRef(run->backend));
        PyTuple_SET_ITEM(node, Node_inputs, Py_NewRef(marks));
        PyTuple_SET_ITEM(node, Node_outputs, Py_NewRef(outputs));
        PyTuple_SET_ITEM(node, Node_saved, Py_NewRef(values));
        done = PySet_Add(run->tracked, token);
        if (done == 0) done = PyList_Append(SLOT(run->tape, Tape, nodes), node);
    }
    Py_XDECREF(node);
    Py_XDECREF(values);
    Py_XDECREF(marks);
    Py_DECREF(outputs);
    return done;
}

/* record(tapes, plan, backend, inputs, attrs, outputs): one tape, and one output */
PyObject *record_twin(CALL) {
    if (!enabled || names != NULL || PyVectorcall_NARGS(nargsf) != 6)
        return unusual(self, args, nargsf, names);
    PyObject *tapes = args[0], *plan = args[1], *inputs = args[3], *outputs = args[5];
    PyObject *attrs = args[4], *name, *values[MOST];
    if (!PyTuple_CheckExact(tapes) || PyTuple_GET_SIZE(tapes) != 1 ||
        !IS(PyTuple_GET_ITEM(tapes, 0), Tape) || !IS(plan, Plan) ||
        !PyTuple_CheckExact(inputs) || PyTuple_GET_SIZE(inputs) > MOST ||
        !PyDict_CheckExact(attrs) || PyDict_GET_SIZE(attrs) > MOST ||
        !PyTuple_CheckExact(outputs) || PyTuple_GET_SIZE(outputs) != 1 ||
        !is_tensor(PyTuple_GET_ITEM(outputs, 0)))
        return unusual(self, args, nargsf, names);
    Run run = {.inputs = &PyTuple_GET_ITEM(inputs, 0), .backend = args[2]};
    run.count = PyTuple_GET_SIZE(inputs);
    for (Py_ssize_t i = 0; i < run.count; i++)
        if (run.inputs[i] != Py_None && !is_tensor(run.inputs[i]))
            return unusual(self, args, nargsf, names);
    Py_ssize_t at = 0, n = 0;
    run.attrs = PyTuple_New(PyDict_GET_SIZE(attrs));
    if (run.attrs == NULL) return NULL;
    while (PyDict_Next(attrs, &at, &name, &values[n]))
        PyTuple_SET_ITEM(run.attrs, n++, Py_NewRef(name));
    run.values = values;
    run.tape = PyTuple_GET_ITEM(tapes, 0);
    run.tracked = Py_NewRef(SLOT(run.tape, Tape, tracked));
    int done = note(&run, plan, PyTuple_GET_ITEM(outputs, 0));
    Py_DECREF(run.tracked);
    Py_DECREF(run.attrs);
    return done < 0 ? NULL : Py_NewRef(Py_None);
}

/* Which inputs the tape tracks, a bit each; -2 if not as usual, -1 with an error. */
static long tracked_of(const Run *run) {
    long mask = 0;
    for (Py_ssize_t i = 0; i < run->count; i++) {
        PyObject *x = run->inputs[i];
        if (x == Py_None) continue;
        if (!is_tensor(x)) return -2;
        int found = PySet_Contains(run->tracked, SLOT(x, Tensor, _token));
        if (found < 0) return -1;
        mask |= (long)found << i;
    }
    return mask;
}

/* The plan for the tracked inputs; NULL without an error if there is none. */
static PyObject *plan_of(const Run *run, long bits) {
    if (!IS(run->tape, Tape)) return NULL; /* a Guard refuses to record */
    PyObject *mask = PyLong_FromLong(bits), *key = NULL, *found = NULL;
    PyObject *count = PyLong_FromLong(1L << run->count);
    if (mask != NULL && count != NULL)
        key = PyTuple_Pack(4, run->kernel, run->backend, mask, count);
    if (key != NULL) found = look_up(gradient_registry, n_plans, key);
    if (found == Py_None) Py_CLEAR(found); /* its decomposition is recorded */
    Py_XDECREF(key);
    Py_XDECREF(count);
    Py_XDECREF(mask);
    return found;
}

/* --- the run --------------------------------------------------------------------- */

/* Collect what the kernel gets: 1, 0 if not as usual, -1 an error. */
static int collect(Run *run) {
    for (Py_ssize_t i = 0; i < run->count; i++) {
        PyObject *x = run->inputs[i];
        if (x != Py_None && !is_tensor(x)) return 0;
        if (x == Py_None)
            run->given[i] = Py_NewRef(x);
        else if (SLOT(x, Tensor, _home) == run->backend)
            run->given[i] = Py_NewRef(SLOT(x, Tensor, _data));
        else
            run->given[i] = PyObject_CallFunctionObjArgs(native, x, run->backend, NULL);
        if (run->given[i] == NULL) return -1;
        run->owned = i + 1;
    }
    for (Py_ssize_t i = 0; i < attrs_of(run); i++)
        run->given[run->count + i] = run->values[i];
    return 1;
}

/* Replace the error about a result that is no array by one that names the kernel. */
static void refuse(const Run *run, PyObject *result) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return;
    PyErr_Clear();
    PyObject *error = PyObject_CallFunctionObjArgs(no_array, run->kernel, run->backend,
                                                   result, NULL);
    if (error != NULL) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
}

/* Return what Python makes of a run whose kernel has declined: it is not called again. */
static PyObject *elsewhere(const Run *run) {
    PyObject *inputs = PyTuple_New(run->count), *attrs = PyDict_New(), *y = NULL;
    int done = inputs != NULL && attrs != NULL ? 0 : -1;
    for (Py_ssize_t i = 0; done == 0 && i < run->count; i++)
        PyTuple_SET_ITEM(inputs, i, Py_NewRef(run->inputs[i]));
    for (Py_ssize_t i = 0; done == 0 && i < attrs_of(run); i++)
        done = PyDict_SetItem(attrs, PyTuple_GET_ITEM(run->attrs, i), run->values[i]);
    if (done == 0)
        y = PyObject_CallFunctionObjArgs(declined, run->kernel, inputs, attrs, NULL);
    Py_XDECREF(attrs);
    Py_XDECREF(inputs);
    return y;
}

/* Run on the backend; NULL without an error if something is not as usual. */
static PyObject *carry_out(Run *run) {
    PyObject *plan = NULL, *result = NULL, *y = NULL;
    PyObject *function = look_up(run->backend, n_table, SLOT(run->kernel, Kernel, name));
    long bits = function != NULL && run->tracked != NULL ? tracked_of(run) : 0;
    if (function != NULL && bits >= 0 &&
        (bits == 0 || (plan = plan_of(run, bits)) != NULL) && collect(run) > 0 && Py_EnterRecursiveCall(" in a kernel") == 0) {
        result = PyObject_Vectorcall(function, run->given, (size_t)run->count, run->attrs);
        Py_LeaveRecursiveCall();
    }
    if (result == Py_NotImplemented) {
        Py_DECREF(result);
        y = elsewhere(run);
    } else {
        y = tensor(Py_XNewRef(result), run->backend);
        if (result != NULL && y == NULL) refuse(run, result);
        Py_XDECREF(result);
        if (y != NULL && plan != NULL && note(run, plan, y) < 0) Py_CLEAR(y);
    }
    Py_XDECREF(plan);
    Py_XDECREF(function);
    return y;
}

/* Return the output; NULL without an error if anything is not as usual: nothing done. */
static PyObject *usual(Run *run) {
    if (!IS(run->kernel, Kernel) || !SLOT(run->kernel, Kernel, name)) return NULL;
    if (run->count > MOST || attrs_of(run) > MOST) return NULL;
    PyObject *tape = SLOT(run->context, Context, tape), *y = NULL;
    if (SLOT(run->context, Context, quiet) == Py_True) {
        run->backend = active(run->context);
    } else if (tape != Py_None && SLOT(run->context, Context, overrides) == Py_None &&
               SLOT(run->kernel, Kernel, single) == Py_True) {
        run->backend = active(run->context);
        run->tape = Py_NewRef(tape); /* the context may be changed by another thread */
        run->tracked = Py_NewRef(SLOT(tape, Tape, tracked));
    }
    if (run->backend != NULL) y = carry_out(run);
    for (Py_ssize_t i = 0; i < run->owned; i++) Py_DECREF(run->given[i]);
    Py_XDECREF(run->tracked);
    Py_XDECREF(run->tape);
    Py_XDECREF(run->backend);
    return y;
}

/* Run in the usual way, or leave all to Python. */
static PyObject *attempt(Run *run, CALL) {
    PyObject *y = NULL;
    run->context = context_now();
    if (run->context != NULL) y = usual(run);
    Py_XDECREF(run->context);
    return y != NULL ? y : unusual(self, args, nargsf, names);
}

/* run(kernel, *inputs, **attrs) */
PyObject *run_twin(CALL) {
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (n < 2) return unusual(self, args, nargsf, names);
    Run run = {.kernel = args[0], .inputs = args + 1, .count = n - 1};
    run.attrs = names;
    run.values = args + n;
    return attempt(&run, self, args, nargsf, names);
}

/* unary(kernel, x) */
PyObject *unary_twin(CALL) {
    if (names != NULL || PyVectorcall_NARGS(nargsf) != 2 || !is_tensor(args[1]))
        return unusual(self, args, nargsf, names); /* None is for optional inputs */
    Run run = {.kernel = args[0], .inputs = args + 1, .count = 1};
    return attempt(&run, self, args, nargsf, names);
}

/* Tell whether an op of the given kinds takes the dtype. */
static int takes(PyObject *kinds, PyObject *dtype) {
    if (!PyUnicode_CheckExact(kinds)) return 0;
    if (dtype == FLOAT32) return PyUnicode_FindChar(kinds, 'f', 0, PY_SSIZE_T_MAX, 1) >= 0;
    int found = kind_is_in(dtype, kinds);
    if (found < 0) PyErr_Clear(); /* whatever it is, Python will say */
    return found > 0;
}

/* floating_unary(kernel, x, kinds="fc") */
PyObject *floating_unary_twin(CALL) {
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (!enabled || names != NULL || n < 2 || n > 3 || !is_tensor(args[1]))
        return unusual(self, args, nargsf, names);
    PyObject *dtype = SLOT(args[1], Tensor, _dtype);
    if (n == 2 ? dtype != FLOAT32 : !takes(args[2], dtype))
        return unusual(self, args, nargsf, names);
    Run run = {.kernel = args[0], .inputs = args + 1, .count = 1};
    return attempt(&run, self, args, nargsf, names);
}

/* reduction(kernel, x, axis, keepdims) */
PyObject *reduction_twin(CALL) {
    if (names != NULL || PyVectorcall_NARGS(nargsf) != 4 || !PyBool_Check(args[3]))
        return unusual(self, args, nargsf, names);
    if (attrs_of_reductions == NULL)
        attrs_of_reductions = Py_BuildValue("(ss)", "axis", "keepdims");
    if (attrs_of_reductions == NULL) return NULL;
    Run run = {.kernel = args[0], .inputs = args + 1, .count = 1};
    run.attrs = attrs_of_reductions;
    run.values = args + 2;
    return attempt(&run, self, args, nargsf, names);
}

/* --- two inputs ------------------------------------------------------------------ */

/* Tell whether shapes broadcast: counted from the last, sizes are equal or one is 1. */
static int broadcasts(PyObject *a, PyObject *b) {
    if (!PyTuple_Check(a) || !PyTuple_Check(b)) return 0;
    Py_ssize_t i = PyTuple_GET_SIZE(a), j = PyTuple_GET_SIZE(b);
    while (i-- > 0 && j-- > 0) {
        PyObject *m = PyTuple_GET_ITEM(a, i), *n = PyTuple_GET_ITEM(b, j);
        int overflow;
        if (m == n) continue;
        if (!PyLong_CheckExact(m) || !PyLong_CheckExact(n)) return 0;
        long long p = PyLong_AsLongLongAndOverflow(m, &overflow);
        if (overflow) return 0;
        long long q = PyLong_AsLongLongAndOverflow(n, &overflow);
        if (overflow || (p != q && p != 1 && q != 1)) return 0;
    }
    return 1;
}

/* Return the tensor of a plain number beside `x`; NULL without an error if there is none
   yet, or another one for numbers that equal this (-0.0). */
static PyObject *scalar(PyObject *context, PyObject *number, PyObject *x) {
    if (PyFloat_CheckExact(number)) {
        double value = PyFloat_AS_DOUBLE(number);
        if (value == 0.0 && signbit(value)) return NULL;
    } else if (!PyLong_CheckExact(number)) {
        return NULL;
    }
    PyObject *backend = active(context), *dtype = SLOT(x, Tensor, _dtype), *found = NULL;
    PyObject *num = backend ? attribute_of(dtype, n_num) : NULL;
    PyObject *key = num ? PyTuple_Pack(3, number, Py_TYPE(number), num) : NULL;
    if (key != NULL) found = look_up(backend, n_scalars, key);
    Py_XDECREF(key);
    Py_XDECREF(num);
    Py_XDECREF(backend);
    return found;
}

/* Tell whether both are tensors of one dtype, of the given kinds, that broadcast. */
static int alike(PyObject *a, PyObject *b, PyObject *kinds) {
    if (!is_tensor(a) || !is_tensor(b)) return 0;
    PyObject *dtype = SLOT(a, Tensor, _dtype);
    if (SLOT(b, Tensor, _dtype) != dtype) return 0;
    if (!broadcasts(SLOT(a, Tensor, _shape), SLOT(b, Tensor, _shape))) return 0;
    return kinds == NULL ? dtype != STRING : takes(kinds, dtype);
}

/* elementwise(kernel, a, b, kinds="") */
PyObject *elementwise_twin(CALL) {
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (!enabled || names != NULL || n < 3 || n > 4)
        return unusual(self, args, nargsf, names);
    PyObject *pair[2] = {args[1], args[2]}, *number = NULL, *y = NULL;
    Run run = {.kernel = args[0], .inputs = pair, .count = 2};
    run.context = context_now();
    if (run.context == NULL) return NULL;
    int plain = is_tensor(pair[0]) ? !is_tensor(pair[1]) : 2 * is_tensor(pair[1]);
    if (plain != 0) {
        number = scalar(run.context, pair[2 - plain], pair[plain - 1]);
        if (number != NULL) pair[2 - plain] = number;
    }
    if (!PyErr_Occurred() && alike(pair[0], pair[1], n == 4 ? args[3] : NULL))
        y = usual(&run);
    Py_XDECREF(number);
    Py_DECREF(run.context);
    return y != NULL ? y : unusual(self, args, nargsf, names);
}
