/* A run of a kernel on the fast path: no observer, and at most one tape. */

#include "speedups.h"

#include <math.h>

typedef struct {
    PyObject *kernel;
    Args inputs; /* tensors, or None for optional ones */
    Py_ssize_t count;
    PyObject *attrs;             /* the names of the attributes, a tuple, or NULL */
    Args values;                 /* the values of the attributes */
    PyObject *pair[2], *made[2]; /* inputs of `elementwise`; the owned ones, or NULL */
    PyObject *context, *backend; /* owned */
    PyObject *tape, *tracked;    /* owned; NULL without a tape */
    PyObject *overrides;         /* owned; NULL without a tape, or without overrides */
    PyObject *scope;             /* for the node; NULL means that of the context */
    PyObject *given[2 * MAX_ARGUMENTS]; /* arguments of the kernel: arrays, then values */
    Py_ssize_t owned;                   /* the number of owned arrays in `given` */
} Run;

static PyObject *reduction_attrs; /* ("axis", "keepdims") */

int start_runs(void) {
    if (reduction_attrs == NULL)
        reduction_attrs = Py_BuildValue("(ss)", "axis", "keepdims");
    return reduction_attrs == NULL ? -1 : 0;
}

static Py_ssize_t attrs_of(const Run *run) {
    return run->attrs ? PyTuple_GET_SIZE(run->attrs) : 0;
}

/* --- recording ------------------------------------------------------------------- */

static PyObject *attribute(const Run *run, PyObject *name) {
    for (Py_ssize_t i = 0; i < attrs_of(run); i++) {
        PyObject *key = PyTuple_GET_ITEM(run->attrs, i);
        int same = PyObject_RichCompareBool(key, name, Py_EQ);
        if (same != 0) return same < 0 ? NULL : Py_NewRef(run->values[i]);
    }
    PyErr_SetObject(PyExc_KeyError, name);
    return NULL;
}

/* Return the input or output at an index; NULL if there is none. */
static PyObject *value(const Run *run, PyObject *where, PyObject *y) {
    Py_ssize_t index = PyLong_AsSsize_t(where), end = run->count;
    if (index < 0) index += end + 1;
    if (index < 0 || index > end) return NULL; /* the run has too few inputs */
    return index == end ? y : run->inputs[index];
}

/* Save a residual by the Python function `save`. */
static PyObject *save_in_python(const Run *run, PyObject *kind, PyObject *where,
                                PyObject *y) {
    PyObject *values = PyTuple_New(run->count + 1);
    if (values == NULL) return NULL;
    for (Py_ssize_t i = 0; i < run->count; i++)
        PyTuple_SET_ITEM(values, i, Py_NewRef(run->inputs[i]));
    PyTuple_SET_ITEM(values, run->count, Py_NewRef(y));
    PyObject *found = PyObject_CallFunctionObjArgs(save, kind, where, values, NULL);
    Py_DECREF(values);
    return found;
}

/* Save a residual that is a tensor. */
static PyObject *save_tensor(const Run *run, PyObject *where, PyObject *y) {
    PyObject *x = value(run, where, y), *found = NULL;
    if (x == Py_None) return Py_NewRef(x);
    if (x != NULL) found = alias_of(x);
    if (found != NULL || PyErr_Occurred()) return found;
    return save_in_python(run, TENSOR, where, y);
}

/* Save a residual that is not a tensor: an attribute, a spec, or a tuple of inputs. */
static PyObject *save_other(const Run *run, PyObject *residual, PyObject *y) {
    PyObject *kind = PyTuple_GET_ITEM(residual, 0);
    PyObject *where = PyTuple_GET_ITEM(residual, 1);
    if (kind == ATTRIBUTE) return attribute(run, where);
    if (kind == SPEC && PyLong_CheckExact(where)) { /* a tape_id serves as a spec */
        PyObject *x = value(run, where, y);
        if (x != NULL && is_tensor(x) && PEEK(x, Tensor, _tape_id) != Py_None)
            return NEW_REF(x, Tensor, _tape_id);
    }
    return save_in_python(run, kind, where, y);
}

/* Save the residuals in a list, in the order of the plan. */
static PyObject *save_residuals(const Run *run, PyObject *plan, PyObject *y) {
    PyObject *tensors = FIELD(plan, TapePlan, tensors);
    PyObject *others = FIELD(plan, TapePlan, others);
    Py_ssize_t n = PyTuple_GET_SIZE(tensors), count = n + PyTuple_GET_SIZE(others);
    PyObject *values = PyList_New(count);
    /* Fill it with None first: other code, such as the garbage collector, may see it. */
    for (Py_ssize_t i = 0; values != NULL && i < count; i++)
        PyList_SET_ITEM(values, i, Py_NewRef(Py_None));
    for (Py_ssize_t i = 0; values != NULL && i < count; i++) {
        PyObject *residual = i < n ? save_tensor(run, PyTuple_GET_ITEM(tensors, i), y)
                                   : save_other(run, PyTuple_GET_ITEM(others, i - n), y);
        if (residual == NULL || PyList_SetItem(values, i, residual) < 0) Py_CLEAR(values);
    }
    return values;
}

/* Return the tape ids of the inputs in a list. */
static PyObject *tape_ids_of(const Run *run) {
    PyObject *ids = PyList_New(run->count);
    for (Py_ssize_t i = 0; ids != NULL && i < run->count; i++) {
        PyObject *x = run->inputs[i];
        PyObject *tape_id = x == Py_None ? Py_NewRef(x) : NEW_REF(x, Tensor, _tape_id);
        PyList_SET_ITEM(ids, i, tape_id);
    }
    return ids;
}

/* Append the node of a run to the tape. Return 0, or -1 with an error. */
static int record_node(const Run *run, PyObject *plan, PyObject *y) {
    PyObject *dtype = SLOT(y, Tensor, _dtype);
    int floating = dtype == FLOAT32 ? 1 : kind_is_in(dtype, n_fc);
    if (floating <= 0) return floating; /* integers and bool have no derivative */
    PyObject *tape_id = new_tape_id(y), *outputs = tape_id ? PyList_New(1) : NULL;
    if (outputs == NULL) {
        Py_XDECREF(tape_id);
        return -1;
    }
    PyList_SET_ITEM(outputs, 0, tape_id);
    PyObject *ids = tape_ids_of(run), *values = ids ? save_residuals(run, plan, y) : NULL;
    PyObject *scope = run->scope ? Py_NewRef(run->scope)
                                 : NEW_REF(run->context, Context, scope);
    PyObject *node = values ? NEW(Node, Node_count) : NULL;
    int done = -1;
    if (node != NULL) {
        PyTuple_SET_ITEM(node, Node_plan, Py_NewRef(plan));
        PyTuple_SET_ITEM(node, Node_backend, Py_NewRef(run->backend));
        PyTuple_SET_ITEM(node, Node_inputs, Py_NewRef(ids));
        PyTuple_SET_ITEM(node, Node_outputs, Py_NewRef(outputs));
        PyTuple_SET_ITEM(node, Node_saved, Py_NewRef(values));
        PyTuple_SET_ITEM(node, Node_scope, Py_NewRef(scope));
        done = PySet_Add(run->tracked, tape_id);
        if (done == 0) done = PyList_Append(SLOT(run->tape, Tape, nodes), node);
    }
    Py_XDECREF(node);
    Py_XDECREF(scope);
    Py_XDECREF(values);
    Py_XDECREF(ids);
    Py_DECREF(outputs);
    return done;
}

/* record(tapes, plan, backend, inputs, attrs, outputs, scope): one tape and one output */
PyObject *call_record(CALL) {
    if (!is_on() || names != NULL || PyVectorcall_NARGS(nargsf) != 7)
        return slow_path(self, args, nargsf, names);
    PyObject *tapes = args[0], *plan = args[1], *inputs = args[3], *outputs = args[5];
    PyObject *attrs = args[4], *name, *values[MAX_ARGUMENTS];
    if (!PyTuple_CheckExact(tapes) || PyTuple_GET_SIZE(tapes) != 1 ||
        !IS(PyTuple_GET_ITEM(tapes, 0), Tape) || !IS(plan, TapePlan) ||
        !PyTuple_CheckExact(inputs) || PyTuple_GET_SIZE(inputs) > MAX_ARGUMENTS ||
        !PyDict_CheckExact(attrs) || PyDict_GET_SIZE(attrs) > MAX_ARGUMENTS ||
        !PyTuple_CheckExact(outputs) || PyTuple_GET_SIZE(outputs) != 1 ||
        !is_tensor(PyTuple_GET_ITEM(outputs, 0)))
        return slow_path(self, args, nargsf, names);
    Run run = {.inputs = &PyTuple_GET_ITEM(inputs, 0),
               .backend = args[2],
               .scope = args[6]};
    run.count = PyTuple_GET_SIZE(inputs);
    for (Py_ssize_t i = 0; i < run.count; i++)
        if (run.inputs[i] != Py_None && !is_tensor(run.inputs[i]))
            return slow_path(self, args, nargsf, names);
    Py_ssize_t at = 0, n = 0;
    run.attrs = PyTuple_New(PyDict_GET_SIZE(attrs));
    if (run.attrs == NULL) return NULL;
    while (PyDict_Next(attrs, &at, &name, &values[n]))
        PyTuple_SET_ITEM(run.attrs, n++, Py_NewRef(name));
    run.values = values;
    run.tape = PyTuple_GET_ITEM(tapes, 0);
    run.tracked = Py_NewRef(SLOT(run.tape, Tape, tracked));
    int done = record_node(&run, plan, PyTuple_GET_ITEM(outputs, 0));
    Py_DECREF(run.tracked);
    Py_DECREF(run.attrs);
    return done < 0 ? NULL : Py_NewRef(Py_None);
}

/* Return a bit mask of the inputs that the tape tracks; -2 for the slow path, -1 with an
   error. */
static long tracked_of(const Run *run) {
    long mask = 0;
    for (Py_ssize_t i = 0; i < run->count; i++) {
        PyObject *x = run->inputs[i];
        if (x == Py_None) continue;
        if (!is_tensor(x)) return -2;
        PyObject *tape_id = NEW_REF(x, Tensor, _tape_id);
        int found = PySet_Contains(run->tracked, tape_id);
        Py_DECREF(tape_id);
        if (found < 0) return -1;
        mask |= (long)found << i;
    }
    return mask;
}

/* Return the plan under overrides; NULL without an error if there is none yet, if the
   registry has changed since, or if the plan depends on the place of the run. */
static PyObject *overriding_plan(const Run *run, PyObject *key) {
    PyObject *pair = PyObject_GetAttr(run->overrides, n_plans), *found = NULL;
    PyObject *current = pair ? PyObject_GetAttr(gradient_registry, n_plans) : NULL;
    if (current != NULL && PyTuple_CheckExact(pair) && PyTuple_GET_SIZE(pair) == 2 &&
        PyTuple_GET_ITEM(pair, 0) == current && PyDict_CheckExact(PyTuple_GET_ITEM(pair, 1)))
        found = item_of(PyTuple_GET_ITEM(pair, 1), key);
    Py_XDECREF(current);
    Py_XDECREF(pair);
    return found;
}

/* Return the plan for the tracked inputs; NULL without an error if there is none. */
static PyObject *plan_of(const Run *run, long bits) {
    if (!IS(run->tape, Tape)) return NULL; /* a Guard refuses to record */
    PyObject *mask = PyLong_FromLong(bits), *key = NULL, *found = NULL;
    PyObject *count = PyLong_FromLong(1L << run->count);
    if (mask != NULL && count != NULL)
        key = PyTuple_Pack(4, run->kernel, run->backend, mask, count);
    if (key != NULL && run->overrides != NULL) found = overriding_plan(run, key);
    else if (key != NULL) found = look_up(gradient_registry, n_plans, key);
    if (found == Py_None) Py_CLEAR(found); /* the slow path records the decomposition */
    Py_XDECREF(key);
    Py_XDECREF(count);
    Py_XDECREF(mask);
    return found;
}

/* --- the fast path --------------------------------------------------------------- */

/* Collect the arguments of the kernel. Return 1, 0 for the slow path, which bfloat16
   needs, or -1 with an error. */
static int collect(Run *run) {
    for (Py_ssize_t i = 0; i < run->count; i++) {
        PyObject *x = run->inputs[i];
        if (x != Py_None && !is_tensor(x)) return 0;
        if (x != Py_None && SLOT(x, Tensor, _dtype) == BFLOAT16) return 0;
        if (x == Py_None)
            run->given[i] = Py_NewRef(x);
        else /* `dispose` clears it after `_home`: if `_home` is set, so is this */
            run->given[i] = NEW_REF(x, Tensor, _data);
        if (x != Py_None && PEEK(x, Tensor, _home) != run->backend)
            Py_XSETREF(run->given[i],
                       PyObject_CallFunctionObjArgs(native, x, run->backend, NULL));
        if (run->given[i] == NULL) return -1;
        run->owned = i + 1;
    }
    for (Py_ssize_t i = 0; i < attrs_of(run); i++) {
        if (run->values[i] == BFLOAT16) return 0;
        run->given[run->count + i] = run->values[i];
    }
    return 1;
}

/* If a result is not an array, replace the error with one that names the kernel. */
static void explain_result(const Run *run, PyObject *result) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return;
    PyErr_Clear();
    PyObject *error = PyObject_CallFunctionObjArgs(no_array, run->kernel, run->backend,
                                                   result, NULL);
    if (error != NULL) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
}

/* Make a tuple of the inputs and a dict of the attributes. Return 0, or -1 with an
   error. */
static int pack(const Run *run, PyObject **inputs, PyObject **attrs) {
    *inputs = PyTuple_New(run->count);
    *attrs = PyDict_New();
    int done = *inputs != NULL && *attrs != NULL ? 0 : -1;
    for (Py_ssize_t i = 0; done == 0 && i < run->count; i++)
        PyTuple_SET_ITEM(*inputs, i, Py_NewRef(run->inputs[i]));
    for (Py_ssize_t i = 0; done == 0 && i < attrs_of(run); i++)
        done = PyDict_SetItem(*attrs, PyTuple_GET_ITEM(run->attrs, i), run->values[i]);
    return done;
}

/* Let Python continue a run whose kernel function has declined, without calling the
   function again. */
static PyObject *run_declined(const Run *run) {
    PyObject *inputs, *attrs, *y = NULL;
    if (pack(run, &inputs, &attrs) == 0)
        y = PyObject_CallFunctionObjArgs(declined, run->kernel, inputs, attrs, NULL);
    Py_XDECREF(attrs);
    Py_XDECREF(inputs);
    return y;
}

/* If the kernel is part of a pattern that is overridden, let Python note the recorded
   run. Return 0, or -1 with an error. */
static int note_part(const Run *run, PyObject *y) {
    PyObject *parts = PyObject_GetAttr(run->overrides, n_parts);
    int is_part = parts ? PySequence_Contains(parts, SLOT(run->kernel, Kernel, name)) : -1;
    Py_XDECREF(parts);
    if (is_part <= 0) return is_part;
    PyObject *inputs, *attrs, *done = NULL;
    PyObject *scope = NEW_REF(run->context, Context, scope);
    if (pack(run, &inputs, &attrs) == 0)
        done = PyObject_CallFunctionObjArgs(note_recorded, run->overrides, run->tape,
                                            run->backend, run->kernel, inputs, attrs, y,
                                            scope, NULL);
    Py_DECREF(scope);
    Py_XDECREF(attrs);
    Py_XDECREF(inputs);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Call the kernel function with the collected arguments. */
static PyObject *call_kernel(const Run *run, PyObject *function) {
    if (Py_EnterRecursiveCall(" in a kernel") != 0) return NULL;
    PyObject *result =
        PyObject_Vectorcall(function, run->given, (size_t)run->count, run->attrs);
    Py_LeaveRecursiveCall();
    return result;
}

/* Run on the backend; NULL without an error for the slow path. */
static PyObject *run_on_backend(Run *run) {
    PyObject *plan = NULL, *result = NULL, *y = NULL;
    PyObject *function = look_up(run->backend, n_table, SLOT(run->kernel, Kernel, name));
    long bits = function != NULL && run->tracked != NULL ? tracked_of(run) : 0;
    if (function != NULL && bits >= 0 &&
        (bits == 0 || (plan = plan_of(run, bits)) != NULL) && collect(run) > 0)
        result = call_kernel(run, function);
    if (result == Py_NotImplemented) {
        Py_DECREF(result);
        y = run_declined(run);
    } else {
        y = new_tensor(Py_XNewRef(result), run->backend);
        if (result != NULL && y == NULL) explain_result(run, result);
        Py_XDECREF(result);
        if (y != NULL && plan != NULL &&
            (record_node(run, plan, y) < 0 ||
             (run->overrides != NULL && note_part(run, y) < 0)))
            Py_CLEAR(y);
    }
    Py_XDECREF(plan);
    Py_XDECREF(function);
    return y;
}

/* Return the output. For the slow path, do nothing and return NULL without an error. */
static PyObject *fast_path(Run *run) {
    if (!IS(run->kernel, Kernel) || !SLOT(run->kernel, Kernel, name)) return NULL;
    if (run->count > MAX_ARGUMENTS || attrs_of(run) > MAX_ARGUMENTS) return NULL;
    PyObject *y = NULL;
    if (PEEK(run->context, Context, quiet) == Py_True) {
        run->backend = active_backend(run->context);
    } else if (SLOT(run->kernel, Kernel, single) == Py_True) {
        run->tape = NEW_REF(run->context, Context, tape); /* another thread may undo it */
        if (run->tape != Py_None) {
            run->backend = active_backend(run->context);
            run->tracked = Py_NewRef(SLOT(run->tape, Tape, tracked));
            run->overrides = NEW_REF(run->context, Context, overrides);
            if (run->overrides == Py_None) Py_CLEAR(run->overrides);
        }
    }
    if (run->backend != NULL) y = run_on_backend(run);
    for (Py_ssize_t i = 0; i < run->owned; i++) Py_DECREF(run->given[i]);
    Py_XDECREF(run->overrides);
    Py_XDECREF(run->tracked);
    Py_XDECREF(run->tape);
    Py_XDECREF(run->backend);
    return y;
}

/* --- the functions that start a run ---------------------------------------------- */

/* Fill a run from the arguments of a call. Return 1, or 0 for the slow path. */
typedef int Prepare(Run *run, Args args, Py_ssize_t n);

/* The only entry to the fast path. `names` are the names of attributes, or NULL. */
static PyObject *start(Prepare *prepare, CALL) {
    PyObject *y = NULL;
    Run run = {.attrs = names};
    run.context = current_context();
    if (run.context != NULL && prepare(&run, args, PyVectorcall_NARGS(nargsf)))
        y = fast_path(&run);
    Py_XDECREF(run.made[0]);
    Py_XDECREF(run.made[1]);
    Py_XDECREF(run.context);
    return y != NULL ? y : slow_path(self, args, nargsf, names);
}

/* Set the kernel, and the inputs that follow it in the arguments. */
static int begin(Run *run, Args args, Py_ssize_t count) {
    run->kernel = args[0];
    run->inputs = args + 1;
    run->count = count;
    return 1;
}

static int prepare_run(Run *run, Args args, Py_ssize_t n) {
    run->values = args + n;
    return n >= 2 && begin(run, args, n - 1);
}

static int prepare_unary(Run *run, Args args, Py_ssize_t n) {
    if (run->attrs != NULL || n != 2 || !is_tensor(args[1])) return 0;
    return begin(run, args, 1); /* the input is not None: it is not optional */
}

/* Return whether an op that accepts these kinds of dtypes accepts the dtype. */
static int accepts(PyObject *kinds, PyObject *dtype) {
    if (!PyUnicode_CheckExact(kinds)) return 0;
    if (dtype == FLOAT32)
        return PyUnicode_FindChar(kinds, 'f', 0, PY_SSIZE_T_MAX, 1) >= 0;
    int found = kind_is_in(dtype, kinds);
    if (found < 0) PyErr_Clear(); /* the slow path raises the error */
    return found > 0;
}

static int prepare_floating_unary(Run *run, Args args, Py_ssize_t n) {
    if (run->attrs != NULL || n < 2 || n > 3 || !is_tensor(args[1])) return 0;
    PyObject *dtype = SLOT(args[1], Tensor, _dtype);
    if (n == 2 ? dtype != FLOAT32 : !accepts(args[2], dtype)) return 0;
    return begin(run, args, 1);
}

static int prepare_reduction(Run *run, Args args, Py_ssize_t n) {
    if (run->attrs != NULL || n != 4 || !PyBool_Check(args[3])) return 0;
    run->attrs = reduction_attrs;
    run->values = args + 2;
    return begin(run, args, 1);
}

/* Return whether shapes broadcast: aligned at the last axis, sizes are equal or 1. */
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

/* Return the cached tensor of a plain number for an op with `x`; NULL without an error
   if it is not cached yet, or if the number is -0.0, which equals the key 0.0. */
static PyObject *scalar(PyObject *context, PyObject *number, PyObject *x) {
    if (PyFloat_CheckExact(number)) {
        double value = PyFloat_AS_DOUBLE(number);
        if (value == 0.0 && signbit(value)) return NULL;
    } else if (!PyLong_CheckExact(number)) {
        return NULL;
    }
    PyObject *backend = active_backend(context), *dtype = SLOT(x, Tensor, _dtype);
    PyObject *found = NULL, *num = backend ? attribute_of(dtype, n_num) : NULL;
    PyObject *key = num ? PyTuple_Pack(3, number, Py_TYPE(number), num) : NULL;
    if (key != NULL) found = look_up(backend, n_scalars, key);
    Py_XDECREF(key);
    Py_XDECREF(num);
    Py_XDECREF(backend);
    return found;
}

/* Return whether both are tensors that broadcast, with the same dtype of these kinds. */
static int fit(PyObject *a, PyObject *b, PyObject *kinds) {
    if (!is_tensor(a) || !is_tensor(b)) return 0;
    PyObject *dtype = SLOT(a, Tensor, _dtype);
    if (SLOT(b, Tensor, _dtype) != dtype) return 0;
    if (!broadcasts(SLOT(a, Tensor, _shape), SLOT(b, Tensor, _shape))) return 0;
    return kinds == NULL ? dtype != STRING : accepts(kinds, dtype);
}

/* Return whether reading a variable notifies only tapes. Then it may be read twice: once
   here, and again on the slow path. */
static int reads_quietly(PyObject *context) {
    int unobserved = PEEK(context, Context, quiet) == Py_True ||
                     PEEK(context, Context, tape) != Py_None;
    return unobserved && PEEK(context, Context, level) == Py_None;
}

static int prepare_elementwise(Run *run, Args args, Py_ssize_t n) {
    if (run->attrs != NULL || n < 3 || n > 4) return 0;
    begin(run, args, 2);
    PyObject **pair = run->pair;
    run->inputs = pair;
    for (int i = 0; i < 2; i++) {
        pair[i] = args[i + 1];
        if (!IS(pair[i], Variable) || !reads_quietly(run->context)) continue;
        run->made[i] = pair[i] = PyObject_GetAttr(pair[i], n_value);
        if (pair[i] == NULL) return 0;
    }
    int first = is_tensor(pair[0]), second = is_tensor(pair[1]);
    if (first != second) { /* the other one may be a plain number */
        PyObject *made = scalar(run->context, pair[first], pair[second]);
        if (made == NULL) return 0;
        Py_XSETREF(run->made[first], made);
        pair[first] = made;
    }
    return fit(pair[0], pair[1], n == 4 ? args[3] : NULL);
}

/* run(kernel, *inputs, **attrs) */
PyObject *call_run(CALL) { return start(prepare_run, self, args, nargsf, names); }

/* unary(kernel, x) */
PyObject *call_unary(CALL) { return start(prepare_unary, self, args, nargsf, names); }

/* floating_unary(kernel, x, kinds="fc") */
PyObject *call_floating_unary(CALL) {
    return start(prepare_floating_unary, self, args, nargsf, names);
}

/* reduction(kernel, x, axis, keepdims) */
PyObject *call_reduction(CALL) {
    return start(prepare_reduction, self, args, nargsf, names);
}

/* elementwise(kernel, a, b, kinds="") */
PyObject *call_elementwise(CALL) {
    return start(prepare_elementwise, self, args, nargsf, names);
}
