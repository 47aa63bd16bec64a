/* The engine's objects as C sees them: names, slots, tensors, the context. */

#include "speedups.h"

#define DEFINE_NAME(name) PyObject *n_##name;
#define DEFINE_OBJECT(name, module) PyObject *name;
#define DEFINE_SLOT(class, name) Py_ssize_t class##_##name;
NAMES(DEFINE_NAME)
OBJECTS(DEFINE_OBJECT)
SLOTS(DEFINE_SLOT)

int enabled = 0;

/* --- initialization -------------------------------------------------------------- */

int intern_names(void) {
#define INTERN(name)                                                                     \
    if (n_##name == NULL && (n_##name = PyUnicode_InternFromString(#name)) == NULL)          \
        return -1;
    NAMES(INTERN)
    return 0;
}

static PyObject *imported(const char *module, const char *name) {
    PyObject *from = PyImport_ImportModule(module);
    PyObject *found = from ? PyObject_GetAttrString(from, name) : NULL;
    Py_XDECREF(from);
    return found;
}

static Py_ssize_t offset(PyObject *class, const char *name) {
    PyObject *slot = PyObject_GetAttrString(class, name);
    Py_ssize_t found = -1;
    if (slot != NULL && Py_IS_TYPE(slot, &PyMemberDescr_Type))
        found = ((PyMemberDescrObject *)slot)->d_member->offset;
    else if (slot != NULL)
        PyErr_Format(PyExc_TypeError, "%R has no slot %s", class, name);
    Py_XDECREF(slot);
    return found;
}

/* Check that a field of a named tuple is at the index where the code reads it. */
static int check_field(PyObject *class, Py_ssize_t at, const char *name,
                       Py_ssize_t count) {
    PyObject *fields = PyObject_GetAttrString(class, "_fields");
    if (fields == NULL) return -1;
    int there = PyTuple_Check(fields) && PyTuple_GET_SIZE(fields) == count &&
                PyUnicode_Check(PyTuple_GET_ITEM(fields, at)) &&
                PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(fields, at), name) == 0;
    if (!there)
        PyErr_Format(PyExc_TypeError, "%R has other fields than %s at %zd: %R", class,
                     name, at, fields);
    Py_DECREF(fields);
    return there ? 0 : -1;
}

int import_objects(void) {
#define IMPORT(name, module)                                                             \
    if (name == NULL && (name = imported("plugrad._src." module, #name)) == NULL) return -1;
#define FIND(class, name)                                                                \
    if ((class##_##name = offset(class, #name)) < 0) return -1;
#define CHECK(class, name)                                                               \
    if (check_field(class, class##_##name, #name, class##_count) < 0) return -1;
    OBJECTS(IMPORT)
    SLOTS(FIND)
    FIELDS(CHECK)
    return 0;
}

/* --- objects that other threads may change --------------------------------------- */

int assign(PyObject *object, Py_ssize_t at, PyObject *value) {
    PyMemberDef slot = {.type = T_OBJECT, .offset = at};
    return PyMember_SetOne((char *)object, &slot, value);
}

PyObject *item_of(PyObject *dict, PyObject *key) {
    PyObject *found = NULL;
#if PY_VERSION_HEX >= 0x030D0000
    (void)PyDict_GetItemRef(dict, key, &found); /* NULL also with an error */
#else
    found = Py_XNewRef(PyDict_GetItemWithError(dict, key));
#endif
    return found;
}

PyObject *item_at(PyObject *list, Py_ssize_t at) {
#if PY_VERSION_HEX >= 0x030D0000
    return PyList_GetItemRef(list, at);
#else
    return Py_XNewRef(PyList_GetItem(list, at));
#endif
}

/* --- tensors --------------------------------------------------------------------- */

/* Return whether `x` is a tensor with all slots set: code may delete an attribute. */
int is_tensor(PyObject *x) {
    return IS(x, Tensor) && PEEK(x, Tensor, _data) && PEEK(x, Tensor, _home) &&
           PEEK(x, Tensor, _dtype) && PEEK(x, Tensor, _shape) &&
           PEEK(x, Tensor, _tape_id) && PEEK(x, Tensor, _cached_copies);
}

/* The members of a tensor that cannot be assigned, with the offsets of their slots. */
static struct {
    Py_ssize_t offset;
    const char *slot;
} members[] = {{0, "_shape"}, {0, "_dtype"}};
static PyObject *assigned; /* the error message about assigning them */

static PyObject *get_member(PyObject *x, void *closure) {
    PyObject *found = *(PyObject **)((char *)x + *(Py_ssize_t *)closure);
    if (found == NULL) PyErr_SetString(PyExc_AttributeError, "a tensor without values");
    return Py_XNewRef(found);
}

static int set_member(PyObject *x, PyObject *value, void *closure) {
    (void)x, (void)value, (void)closure;
    PyErr_SetObject(PyExc_AttributeError, assigned);
    return -1;
}

static PyGetSetDef member_definitions[] = {
    {"shape", get_member, set_member, "The sizes of the axes, a tuple of int.",
     &members[0].offset},
    {"dtype", get_member, set_member, "The dtype, a ``numpy.dtype``.",
     &members[1].offset},
};

PyObject *fix_members(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *class, *message;
    if (!PyArg_ParseTuple(args, "O!U", &PyType_Type, &class, &message)) return NULL;
    Py_XSETREF(assigned, Py_NewRef(message));
    for (int i = 0; i < 2; i++) {
        PyGetSetDef *definition = &member_definitions[i];
        if ((members[i].offset = offset(class, members[i].slot)) < 0) return NULL;
        PyObject *member = PyDescr_NewGetSet((PyTypeObject *)class, definition);
        int done = member ? PyObject_SetAttrString(class, definition->name, member) : -1;
        Py_XDECREF(member);
        if (done < 0) return NULL;
    }
    return Py_NewRef(Py_None);
}

PyObject *new_tensor(PyObject *data, PyObject *home) {
    if (data == NULL) return NULL;
    PyObject *y = NULL, *dtype = PyObject_GetAttr(data, n_dtype);
    PyObject *shape = dtype ? PyObject_GetAttr(data, n_shape) : NULL;
    if (shape != NULL) y = NEW(Tensor, 0);
    if (y != NULL) {
        SLOT(y, Tensor, _data) = Py_NewRef(data);
        SLOT(y, Tensor, _home) = Py_NewRef(home);
        SLOT(y, Tensor, _dtype) = Py_NewRef(dtype);
        SLOT(y, Tensor, _shape) = Py_NewRef(shape);
        SLOT(y, Tensor, _tape_id) = Py_NewRef(Py_None);
        SLOT(y, Tensor, _cached_copies) = Py_NewRef(Py_None);
    }
    Py_XDECREF(shape);
    Py_XDECREF(dtype);
    Py_DECREF(data);
    return y;
}

PyObject *alias_of(PyObject *x) {
    /* Allocate first, because this may collect garbage, which may dispose `x`. */
    PyObject *y = NEW(Tensor, 0);
    if (y == NULL || !is_tensor(x)) {
        Py_XDECREF(y);
        return NULL;
    }
    SLOT(y, Tensor, _data) = NEW_REF(x, Tensor, _data); /* `dispose` clears it last */
    SLOT(y, Tensor, _home) = NEW_REF(x, Tensor, _home);
    SLOT(y, Tensor, _dtype) = Py_NewRef(SLOT(x, Tensor, _dtype));
    SLOT(y, Tensor, _shape) = Py_NewRef(SLOT(x, Tensor, _shape));
    SLOT(y, Tensor, _tape_id) = NEW_REF(x, Tensor, _tape_id);
    SLOT(y, Tensor, _cached_copies) = NEW_REF(x, Tensor, _cached_copies);
    if (SLOT(y, Tensor, _home) == NOWHERE) Py_CLEAR(y);
    return y;
}

/* alias(x, tape_id=None) */
PyObject *call_alias(CALL) {
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (!is_on() || names != NULL || n < 1 || n > 2 || !is_tensor(args[0]))
        return slow_path(self, args, nargsf, names);
    if (PEEK(args[0], Tensor, _cached_copies) == Py_None) {
        PyObject *copies = PyDict_New(); /* from now on, both tensors share it */
        int done = copies ? ASSIGN(args[0], Tensor, _cached_copies, copies) : -1;
        Py_XDECREF(copies);
        if (done < 0) return NULL;
    }
    PyObject *y = alias_of(args[0]);
    if (y == NULL) return slow_path(self, args, nargsf, names);
    Py_SETREF(SLOT(y, Tensor, _tape_id), Py_NewRef(n == 2 ? args[1] : Py_None));
    return y;
}

PyObject *new_tape_id(PyObject *y) {
    PyObject *tape_id = NEW(TapeId, 0);
    if (tape_id == NULL) return NULL;
    SLOT(tape_id, TapeId, dtype) = Py_NewRef(SLOT(y, Tensor, _dtype));
    SLOT(tape_id, TapeId, shape) = Py_NewRef(SLOT(y, Tensor, _shape));
    if (ASSIGN(y, Tensor, _tape_id, tape_id) < 0) Py_CLEAR(tape_id);
    return tape_id;
}

int kind_is_in(PyObject *dtype, PyObject *kinds) {
    if (dtype == BFLOAT16) /* NumPy does not know that it is floating */
        return PyUnicode_FindChar(kinds, 'f', 0, PY_SSIZE_T_MAX, 1) >= 0;
    PyObject *kind = attribute_of(dtype, n_kind);
    if (kind == NULL) return -1;
    int found = PyUnicode_Contains(kinds, kind);
    Py_DECREF(kind);
    return found;
}

/* --- look-ups -------------------------------------------------------------------- */

PyObject *attribute_of(PyObject *borrowed, PyObject *name) {
    Py_INCREF(borrowed);
    PyObject *found = PyObject_GetAttr(borrowed, name);
    Py_DECREF(borrowed);
    return found;
}

PyObject *current_context(void) {
    PyObject *found = NULL;
    if (is_on() && PyContextVar_Get(_current, NULL, &found) == 0 &&
        !IS(found, Context)) {
        PyErr_Format(PyExc_TypeError, "expected a Context of plugrad, got %R", found);
        Py_CLEAR(found);
    }
    return found;
}

PyObject *active_backend(PyObject *context) {
    PyObject *backend = NEW_REF(context, Context, backend);
    if (backend == Py_None) Py_SETREF(backend, NEW_REF(PROCESS, Context, backend));
    if (backend == Py_None) Py_CLEAR(backend);
    return backend;
}

PyObject *look_up(PyObject *object, PyObject *attribute, PyObject *key) {
    PyObject *table = PyObject_GetAttr(object, attribute), *found = NULL;
    Py_INCREF(key);
    if (table != NULL && PyDict_CheckExact(table))
        found = item_of(table, key);
    Py_DECREF(key);
    Py_XDECREF(table);
    return found;
}
