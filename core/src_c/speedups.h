/* C accelerators of the engine's hottest functions (as in PEP 399).

Each function in the table ACCELERATED of module.c has the name and the arguments of a
Python function, which is the complete definition. On the fast path (tensors, a backend
that implements the kernel, no observer, at most one tape), the accelerator does the same
as the Python function. On the slow path, which is everything else, it calls the Python
function before it has changed anything. So an accelerator makes no decision and raises no
error of its own.

Files: objects.c (the engine's objects: names, slots, tensors, the context), run.c (a run
of a kernel, and the functions that start one), backward.c (one node of backward),
watch.c (the code that runs in a block), module.c (the type of accelerated functions, the
module).

Functions that return a PyObject return a new reference, or NULL with an error. If NULL
can also be returned without an error, for the slow path, their comment says so.

Without the GIL, another thread may assign a slot while it is read. NEW_REF returns a new
reference, and ASSIGN replaces one; PEEK returns a pointer that may only be compared. SLOT
reads slots that are never assigned after the object is made (the shape and dtype of a
tensor, a kernel, a tape), or slots of an object that no other thread knows. Decision 26
lists the guard of each object.
*/

#ifndef PLUGRAD_SPEEDUPS_H
#define PLUGRAD_SPEEDUPS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

/* The maximum number of inputs of a run, of its attributes, and of residuals of a
   gradient; runs with more take the slow path. */
enum { MAX_ARGUMENTS = 16 };

typedef PyObject *const *Args;

/* The parameters of a function that is called by the vectorcall protocol. */
#define CALL PyObject *self, Args args, size_t nargsf, PyObject *names

typedef struct {
    PyObject_HEAD
    PyObject *python, *dict, *weak;
    vectorcallfunc call;
} Accelerated;

/* --- objects.c ------------------------------------------------------------------ */

/* Attributes that are looked up by name, and "fc", the kinds of floating dtypes. */
#define NAMES(X)                                                                         \
    X(dtype) X(fc) X(kind) X(num) X(parts) X(plans) X(scalars) X(shape) X(table) X(value)

/* Objects of plugrad's modules; all are NULL until `enable`. */
#define OBJECTS(X)                                                                       \
    X(BFLOAT16, "tensor.dtypes")                                                         \
    X(FLOAT32, "tensor.dtypes")                                                          \
    X(STRING, "tensor.dtypes")                                                           \
    X(Kernel, "registry.contract")                                                       \
    X(NOWHERE, "tensor.tensor")                                                          \
    X(Tensor, "tensor.tensor")                                                           \
    X(TapeId, "tensor.tensor")                                                           \
    X(gradient_registry, "registry.registry")                                            \
    X(Node, "engine.tape")                                                               \
    X(TapePlan, "engine.tape")                                                           \
    X(VJPStep, "engine.tape")                                                            \
    X(Tape, "engine.tape")                                                               \
    X(ATTRIBUTE, "engine.tape")                                                          \
    X(SPEC, "engine.tape")                                                               \
    X(TENSOR, "engine.tape")                                                             \
    X(save, "engine.tape")                                                               \
    X(Context, "engine.context")                                                         \
    X(PROCESS, "engine.context")                                                         \
    X(_current, "engine.context")                                                        \
    X(declined, "engine.dispatch")                                                       \
    X(no_array, "engine.dispatch")                                                       \
    X(native, "engine.dispatch")                                                         \
    X(note_recorded, "engine.dispatch")                                                  \
    X(Variable, "ops.basis.variable")                                                    \
    X(_accumulate, "autodiff.backward")                                                  \
    X(_unbroadcast, "autodiff.backward")

/* Slots, which are read like fields of a struct: (class, name). */
#define SLOTS(X)                                                                         \
    X(Tensor, _data)                                                                     \
    X(Tensor, _home)                                                                     \
    X(Tensor, _cached_copies)                                                            \
    X(Tensor, _tape_id)                                                                  \
    X(Tensor, _dtype)                                                                    \
    X(Tensor, _shape)                                                                    \
    X(TapeId, dtype)                                                                     \
    X(TapeId, shape)                                                                     \
    X(Kernel, name)                                                                      \
    X(Kernel, single)                                                                    \
    X(Kernel, variadic_outputs)                                                          \
    X(Context, backend)                                                                  \
    X(Context, level)                                                                    \
    X(Context, overrides)                                                                \
    X(Context, quiet)                                                                    \
    X(Context, scope)                                                                    \
    X(Context, tape)                                                                     \
    X(Tape, nodes)                                                                       \
    X(Tape, tracked)

/* Fields of named tuples by their index, all of them and in order: (class, name). */
#define FIELDS(X)                                                                        \
    X(TapePlan, kernel) X(TapePlan, tensors)                                             \
    X(TapePlan, others) X(TapePlan, steps)                                               \
    X(VJPStep, where) X(VJPStep, function) X(VJPStep, saved)                             \
    X(VJPStep, name) X(VJPStep, vjp)                                                    \
    X(Node, plan) X(Node, backend) X(Node, inputs) X(Node, outputs) X(Node, saved)      \
    X(Node, scope)

enum {
    TapePlan_kernel,
    TapePlan_tensors,
    TapePlan_others,
    TapePlan_steps,
    TapePlan_count
};
enum {
    VJPStep_where,
    VJPStep_function,
    VJPStep_saved,
    VJPStep_name,
    VJPStep_vjp,
    VJPStep_count
};
enum {
    Node_plan,
    Node_backend,
    Node_inputs,
    Node_outputs,
    Node_saved,
    Node_scope,
    Node_count
};

/* A field, borrowed from the tuple. */
#define FIELD(tuple, class, name) PyTuple_GET_ITEM(tuple, class##_##name)

#define DECLARE_NAME(name) extern PyObject *n_##name;
#define DECLARE_OBJECT(name, module) extern PyObject *name;
#define DECLARE_SLOT(class, name) extern Py_ssize_t class##_##name;
NAMES(DECLARE_NAME)
OBJECTS(DECLARE_OBJECT)
SLOTS(DECLARE_SLOT)

#define SLOT(object, class, name)                                                        \
    (*(PyObject **)((char *)(object) + class##_##name))
#ifdef Py_GIL_DISABLED
#define PEEK(object, class, name) _Py_atomic_load_ptr_relaxed(&SLOT(object, class, name))
#define is_on() _Py_atomic_load_int(&enabled)
#else
#define PEEK(object, class, name) SLOT(object, class, name)
#define is_on() enabled
#endif
/* A new reference; None if the slot is empty. */
#define NEW_REF(object, class, name) new_ref(object, class##_##name)
/* 0, or -1 with an error. */
#define ASSIGN(object, class, name, value) assign(object, class##_##name, value)
#define IS(object, class) Py_IS_TYPE(object, (PyTypeObject *)(class))
#define NEW(class, size)                                                                 \
    ((PyTypeObject *)(class))->tp_alloc((PyTypeObject *)(class), size)

extern int enabled; /* read it by is_on() */

static inline PyObject *new_ref(PyObject *object, Py_ssize_t offset) {
#ifdef Py_GIL_DISABLED
    PyMemberDef slot = {.type = T_OBJECT, .offset = offset};
    return PyMember_GetOne((const char *)object, &slot);
#else
    PyObject *found = *(PyObject **)((char *)object + offset);
    return Py_NewRef(found ? found : Py_None);
#endif
}

int assign(PyObject *object, Py_ssize_t offset, PyObject *value);
/* The item of a dict; NULL without an error if it is missing. */
PyObject *item_of(PyObject *dict, PyObject *key);
PyObject *item_at(PyObject *list, Py_ssize_t at);

int intern_names(void);   /* 0, or -1 with an error */
int import_objects(void); /* 0, or -1 with an error */

int is_tensor(PyObject *x); /* whether it is a tensor with all slots set */
/* fix_members(Tensor, message): let C read shape and dtype, and refuse to assign them */
PyObject *fix_members(PyObject *module, PyObject *args);
PyObject *new_tensor(PyObject *data, PyObject *home); /* steals `data`; NULL gives NULL */
/* A tensor of the same values and identity; NULL without an error if `x` is disposed. */
PyObject *alias_of(PyObject *x);
PyObject *new_tape_id(PyObject *y);               /* assigns it to `y` as well */
int kind_is_in(PyObject *dtype, PyObject *kinds); /* -1 with an error */

/* An attribute of a borrowed object, which the code of the attribute might free. */
PyObject *attribute_of(PyObject *borrowed, PyObject *name);
/* The context of the caller; NULL without an error if accelerators are disabled. */
PyObject *current_context(void);
/* The active backend; NULL without an error if none has been chosen. */
PyObject *active_backend(PyObject *context);
/* The item of the dict in an attribute; NULL without an error if it is missing. */
PyObject *look_up(PyObject *object, PyObject *attribute, PyObject *key);

/* --- run.c, backward.c, module.c ------------------------------------------------- */

PyObject *call_run(CALL);
PyObject *call_unary(CALL);
PyObject *call_floating_unary(CALL);
PyObject *call_elementwise(CALL);
PyObject *call_reduction(CALL);
PyObject *call_record(CALL);
PyObject *call_alias(CALL);
PyObject *call_backward_node(CALL);
int start_runs(void); /* 0, or -1 with an error */

/* Call the Python function, unless there is an error. */
PyObject *slow_path(CALL);

/* --- watch.c --------------------------------------------------------------------- */

extern PyType_Spec watcher_spec; /* the spec of the type Watcher */

#endif
