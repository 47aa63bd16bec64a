/* The usual case of the engine's hottest functions, in C.

Every function in TWINS is the twin of a Python function of that name, with the same
arguments. The Python function says what is done, completely. Its twin does the same
where all is as usual - tensors, a backend that implements the kernel, nobody watching
but one tape - and where anything is not, it calls the Python function before it has done
anything. So a twin decides nothing and raises nothing of its own.

Files: objects.c (what the engine's objects look like), run.c (`run` and its relatives),
backward.c (one step of backward), module.c (the type of twins, the module).

Functions that return a PyObject return a new reference, or NULL; where NULL may also
stand for "not as usual", without an error, they say so.
*/

#ifndef PLUGRAD_SPEEDUPS_H
#define PLUGRAD_SPEEDUPS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#ifdef Py_GIL_DISABLED
#error "twins rely on the GIL; without it plugrad runs its Python functions"
#endif

/* Inputs and attributes of a run, and what a gradient is given: more is not usual. */
enum { MOST = 16 };

typedef PyObject *const *Args;

/* What a function gets by the vectorcall protocol. */
#define CALL PyObject *self, Args args, size_t nargsf, PyObject *names

typedef struct {
    PyObject_HEAD
    PyObject *python, *dict, *weak;
    vectorcallfunc call;
} Twin;

/* --- objects.c ------------------------------------------------------------------ */

/* Attributes that are looked up by name, and the kinds of dtypes that are floating. */
#define NAMES(X)                                                                         \
    X(dtype) X(fc) X(kind) X(num) X(plans) X(scalars) X(shape) X(table)

/* Objects of plugrad's modules; all are NULL until `enable`. */
#define OBJECTS(X)                                                                       \
    X(FLOAT32, "tensor.dtypes")                                                          \
    X(STRING, "tensor.dtypes")                                                           \
    X(Kernel, "registry.contract")                                                       \
    X(NOWHERE, "tensor.tensor")                                                          \
    X(Tensor, "tensor.tensor")                                                           \
    X(Token, "tensor.tensor")                                                            \
    X(gradient_registry, "registry.registry")                                            \
    X(Node, "engine.tape")                                                               \
    X(Plan, "engine.tape")                                                               \
    X(Step, "engine.tape")                                                               \
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
    X(_arrive, "autodiff.reverse")                                                       \
    X(_fitted, "autodiff.reverse")

/* Slots, which are read like fields of a struct: (class, name). */
#define SLOTS(X)                                                                         \
    X(Tensor, _data)                                                                     \
    X(Tensor, _home)                                                                     \
    X(Tensor, _replicas)                                                                 \
    X(Tensor, _token)                                                                    \
    X(Tensor, _dtype)                                                                    \
    X(Tensor, _shape)                                                                    \
    X(Token, dtype)                                                                      \
    X(Token, shape)                                                                      \
    X(Kernel, name)                                                                      \
    X(Kernel, single)                                                                    \
    X(Kernel, variadic_outputs)                                                          \
    X(Context, backend)                                                                  \
    X(Context, overrides)                                                                \
    X(Context, quiet)                                                                    \
    X(Context, tape)                                                                     \
    X(Tape, nodes)                                                                       \
    X(Tape, tracked)

/* Fields of named tuples by their index, all of them and in order: (class, name). */
#define FIELDS(X)                                                                        \
    X(Plan, kernel) X(Plan, tensors) X(Plan, others) X(Plan, steps)                      \
    X(Step, where) X(Step, function) X(Step, saved) X(Step, name) X(Step, rule)          \
    X(Node, plan) X(Node, backend) X(Node, inputs) X(Node, outputs) X(Node, saved)

enum { Plan_kernel, Plan_tensors, Plan_others, Plan_steps, Plan_count };
enum { Step_where, Step_function, Step_saved, Step_name, Step_rule, Step_count };
enum { Node_plan, Node_backend, Node_inputs, Node_outputs, Node_saved, Node_count };

/* A field, borrowed: the tuple holds it. */
#define FIELD(tuple, class, name) PyTuple_GET_ITEM(tuple, class##_##name)

#define DECLARE_NAME(name) extern PyObject *n_##name;
#define DECLARE_OBJECT(name, module) extern PyObject *name;
#define DECLARE_SLOT(class, name) extern Py_ssize_t class##_##name;
NAMES(DECLARE_NAME)
OBJECTS(DECLARE_OBJECT)
SLOTS(DECLARE_SLOT)

#define SLOT(object, class, name)                                                        \
    (*(PyObject **)((char *)(object) + class##_##name))
#define IS(object, class) Py_IS_TYPE(object, (PyTypeObject *)(class))
#define NEW(class, size)                                                                 \
    ((PyTypeObject *)(class))->tp_alloc((PyTypeObject *)(class), size)

extern int enabled;

int intern_names(void);   /* 0, or -1 with an error */
int import_objects(void); /* 0, or -1 with an error */

int is_tensor(PyObject *x);
/* fix_members(Tensor, message): let C read shape and dtype, and refuse to assign them */
PyObject *fix_members(PyObject *module, PyObject *args);
PyObject *tensor(PyObject *data, PyObject *home); /* takes `data`; NULL hands on */
PyObject *handle_on(PyObject *x); /* the same to tapes; NULL without an error if gone */
PyObject *token_of(PyObject *y);                  /* y gets it, too */
int kind_is_in(PyObject *dtype, PyObject *kinds); /* -1 with an error */

/* An attribute of what its own code could free. */
PyObject *attribute_of(PyObject *borrowed, PyObject *name);
/* The context of the caller; NULL without an error where twins are not enabled. */
PyObject *context_now(void);
/* The active backend; NULL without an error if none has been chosen. */
PyObject *active(PyObject *context);
/* What the dict in an attribute holds; NULL without an error if nothing. */
PyObject *look_up(PyObject *object, PyObject *attribute, PyObject *key);

/* --- run.c, backward.c, module.c ------------------------------------------------- */

PyObject *run_twin(CALL);
PyObject *unary_twin(CALL);
PyObject *floating_unary_twin(CALL);
PyObject *elementwise_twin(CALL);
PyObject *reduction_twin(CALL);
PyObject *through_twin(CALL);
PyObject *alias_twin(CALL);
PyObject *record_twin(CALL);

/* Call the Python function, unless there is an error. */
PyObject *unusual(CALL);

#endif
