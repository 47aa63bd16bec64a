/* Regions of a `plugrad.jit` graph as Python objects. They are functions of NumPy
   arrays that run several element-wise kernels in one pass (kernels/region.c), possibly
   with row kernels between them (library/blocks.c), or that run a single kernel.

   `region(slots, steps, loops, tile, constants, inputs, outputs, n)`: the first three
   arguments are the bytes of the structures in region.h.

   `blocks(program, owners, constants, inputs, outputs, n)`: the first argument is the
   bytes of a structure in blocks.h, which points into the memory of `owners`.

   `bound(name, arguments, inputs, outputs, dropped)`: `arguments` are those of the
   kernel `name`; in them, a tuple (slot,) stands for an array that a call passes or
   allocates. The last `dropped` outputs are workspaces, which are not returned.

   `machine_code(address, share, owner, constants, inputs, outputs)`: a C function `void
   code(void *const *arrays, int64_t begin, int64_t end)`, which computes some items;
   `owner` keeps it alive. `share` is (items, unit, units, grain): the number of items
   of the region, the number of items of a unit, the number of units, and the number of
   units that a thread computes at once. With 0 units, or without the library of
   kernels, one thread computes all items.

   A call returns NotImplemented if an input is not contiguous. */
#include "kernels/region.h"
#include "native.h"
#include "library/blocks.h"

#include <stddef.h>
#include <string.h>

typedef void (*MachineCode)(void *const *arrays, int64_t begin, int64_t end);
typedef void (*ParallelFor)(void (*body)(uint32_t begin, uint32_t end, void *ctx),
                            void *ctx, uint32_t n, uint32_t grain);

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    const Entry *entry;
    Argument arguments[MAX_ARGUMENTS];
    struct {
        int at, slot;
    } places[MAX_ARGUMENTS]; /* for a single kernel: argument and slot of each array */
    int place_count, count;
    const void *program; /* NULL unless there are several kernels */
    Region region;
    MachineCode code; /* made by another compiler, or NULL */
    long long items, unit;
    unsigned int units, grain;
    ParallelFor parallel_for;
    PyObject *parts; /* owns the memory that pointers refer to */
    void *constants[REGION_SLOTS];
    struct {
        int slot, type;
        npy_intp size; /* in elements */
    } inputs[REGION_SLOTS];
    struct {
        int slot, type, nd;
        npy_intp *shape; /* stored in a bytes object of `parts` */
    } outputs[REGION_SLOTS];
    int nin, nout, dropped, slot_count;
    npy_intp n, largest, bytes; /* elements; bytes of the largest output, of all arrays */
} Function;

static PyTypeObject RegionType;

/* Finds the data of an input. Returns 1, or 0 if the type, size or layout is not as
   expected. A NumPy scalar is copied. */
static int data_of(PyObject *x, int type, npy_intp size, void **to, double *scalar) {
    if (PyArray_Check(x)) {
        PyArrayObject *array = (PyArrayObject *)x;
        *to = PyArray_DATA(array);
        return PyArray_TYPE(array) == type && PyArray_SIZE(array) == size &&
               PyArray_ISCARRAY_RO(array);
    }
    if (size != 1 || !PyArray_CheckScalar(x)) return 0;
    PyArray_Descr *dtype = PyArray_DescrFromScalar(x);
    int fits = dtype != NULL && dtype->type_num == type;
    Py_XDECREF(dtype);
    if (fits) PyArray_ScalarAsCtype(x, *to = scalar);
    PyErr_Clear();
    return fits;
}

static void run_kernel(const Function *self, void *const *arrays) {
    Argument a[MAX_ARGUMENTS];
    memcpy(a, self->arguments, (size_t)self->count * sizeof *a);
    for (int i = 0; i < self->place_count; i++)
        a[self->places[i].at].address = arrays[self->places[i].slot];
    self->entry->call(a);
}

/* Calls run_region or run_blocks. */
static void run_program(const Function *self, void **arrays) {
    self->entry->call((Argument[]){{.address = (void *)self->program},
                                   {.address = arrays},
                                   {.count = (uint32_t)self->n}});
}

typedef struct {
    const Function *function;
    void *const *arrays;
} Call;

/* Runs units `begin` to `end - 1`; the last unit includes the remaining items. */
static void run_units(uint32_t begin, uint32_t end, void *ctx) {
    const Call *call = ctx;
    const Function *f = call->function;
    f->code(call->arrays, begin * f->unit, end == f->units ? f->items : end * f->unit);
}

static void run_code(const Function *self, void *const *arrays) {
    Call call = {self, arrays};
    if (self->units)
        self->parallel_for(run_units, &call, self->units, self->grain);
    else
        self->code(arrays, 0, self->items);
}

/* Allocates the outputs. Returns their number: less than `nout` if memory runs out. */
static int make_outputs(const Function *self, PyObject **made, void **arrays) {
    PyObject *before = NULL;
    int done = 0;
    if (self->largest >= NOGIL_MIN_BYTES && enter_pool(&before) < 0) return 0;
    for (; done < self->nout; done++) {
        made[done] = PyArray_SimpleNew(self->outputs[done].nd, self->outputs[done].shape,
                                       self->outputs[done].type);
        if (made[done] == NULL) break;
        arrays[self->outputs[done].slot] = PyArray_DATA((PyArrayObject *)made[done]);
    }
    if (before != NULL) leave_pool(before);
    return done;
}

static PyObject *call(PyObject *object, PyObject *const *args, size_t count,
                      PyObject *names) {
    const Function *self = (Function *)object;
    if (names != NULL || PyVectorcall_NARGS(count) != self->nin)
        return PyErr_Format(PyExc_TypeError, "a region takes %d array%s", self->nin,
                            self->nin == 1 ? "" : "s");
    void *arrays[REGION_SLOTS];
    double scalars[REGION_SLOTS];
    memcpy(arrays, self->constants, (size_t)self->slot_count * sizeof(void *));
    for (int i = 0; i < self->nin; i++)
        if (!data_of(args[i], self->inputs[i].type, self->inputs[i].size,
                     &arrays[self->inputs[i].slot], &scalars[i]))
            Py_RETURN_NOTIMPLEMENTED;
    PyObject *made[REGION_SLOTS];
    int done = make_outputs(self, made, arrays);
    int kept = self->nout - self->dropped;
    PyObject *result = done < self->nout || kept == 1 ? NULL : PyTuple_New(kept);
    if (done < self->nout || (kept > 1 && result == NULL)) {
        while (done--) Py_DECREF(made[done]);
        return NULL;
    }
    PyThreadState *state = self->bytes >= NOGIL_MIN_BYTES ? PyEval_SaveThread() : NULL;
    if (self->code)
        run_code(self, arrays);
    else if (self->program)
        run_program(self, arrays);
    else
        run_kernel(self, arrays);
    if (state != NULL) PyEval_RestoreThread(state);
    while (done > kept) Py_DECREF(made[--done]);
    if (kept == 1) return made[0];
    for (int i = 0; i < kept; i++) PyTuple_SET_ITEM(result, i, made[i]);
    return result;
}

/* --- construction ---------------------------------------------------------------- */

/* Reads the inputs, a list of tuples of integers. Returns their number, or -1. */
static int read_inputs(Function *self, PyObject *inputs) {
    self->nin = (int)PyList_GET_SIZE(inputs);
    if (self->nin > REGION_SLOTS) return -1;
    for (int i = 0; i < self->nin; i++)
        if (!PyArg_ParseTuple(PyList_GET_ITEM(inputs, i), "iin", &self->inputs[i].slot,
                              &self->inputs[i].type, &self->inputs[i].size))
            return -1;
        else
            self->bytes += 4 * self->inputs[i].size;
    return 0;
}

static int read_outputs(Function *self, PyObject *outputs) {
    self->nout = (int)PyList_GET_SIZE(outputs);
    if (self->nout > REGION_SLOTS) return -1;
    for (int i = 0; i < self->nout; i++) {
        PyObject *shape;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(outputs, i), "iiS", &self->outputs[i].slot,
                              &self->outputs[i].type, &shape))
            return -1;
        self->outputs[i].shape = (npy_intp *)PyBytes_AS_STRING(shape);
        self->outputs[i].nd = (int)(PyBytes_GET_SIZE(shape) / (Py_ssize_t)sizeof(npy_intp));
        npy_intp bytes = 4;
        for (int k = 0; k < self->outputs[i].nd; k++) bytes *= self->outputs[i].shape[k];
        self->bytes += bytes;
        if (bytes > self->largest) self->largest = bytes;
    }
    return 0;
}

static int read_constants(Function *self, PyObject *constants) {
    PyObject *slot, *array;
    Py_ssize_t at = 0;
    while (PyDict_Next(constants, &at, &slot, &array)) {
        long k = PyLong_AsLong(slot);
        if (k < 0 || k >= REGION_SLOTS || !PyArray_Check(array)) return -1;
        self->constants[k] = PyArray_DATA((PyArrayObject *)array);
    }
    return 0;
}

/* Reads an argument of the kernel: a value, or a tuple with the slot of an array.
   Returns 0, or -1 with an error. */
static int read_bound(Function *self, int k, PyObject *x) {
    if (PyTuple_Check(x) && self->entry->kinds[k] == 'p') {
        self->places[self->place_count].at = k;
        return PyArg_ParseTuple(x, "i", &self->places[self->place_count++].slot) ? 0 : -1;
    }
    if (PyArray_Check(x)) self->bytes += PyArray_NBYTES((PyArrayObject *)x);
    return read_argument(self->entry, k, x, &self->arguments[k]);
}

/* Returns an object that runs an entry point of the library, or none if `name` is NULL. */
static Function *new_function(const char *name, PyObject *parts) {
    const Entry *entry = name ? entry_named(name) : NULL;
    if (name != NULL && entry == NULL) return NULL;
    Function *self = PyObject_New(Function, &RegionType);
    if (self == NULL) return NULL;
    memset((char *)self + sizeof(PyObject), 0, sizeof(Function) - sizeof(PyObject));
    self->vectorcall = call, self->entry = entry, self->parts = Py_NewRef(parts);
    return self;
}

/* Returns the function, or NULL with an error if an argument was invalid. */
static PyObject *finish_function(Function *self, int wrong, PyObject *inputs,
                                 PyObject *outputs) {
    if (!wrong && read_inputs(self, inputs) == 0 && read_outputs(self, outputs) == 0)
        return (PyObject *)self;
    Py_DECREF(self);
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a region is too large");
    return NULL;
}

static PyObject *make_region(PyObject *module, PyObject *args) {
    PyObject *slots, *steps, *loops, *constants, *inputs, *outputs;
    int tile;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "SSSiO!O!O!n", &slots, &steps, &loops, &tile, &PyDict_Type,
                          &constants, &PyList_Type, &inputs, &PyList_Type, &outputs, &n))
        return NULL;
    Function *self = new_function("run_region", args);
    if (self == NULL) return NULL;
    self->program = &self->region, self->n = n;
    self->region = (Region){
        .slot_count = (int32_t)(PyBytes_GET_SIZE(slots) / (Py_ssize_t)sizeof(RegionSlot)),
        .step_count = (int32_t)(PyBytes_GET_SIZE(steps) / (Py_ssize_t)sizeof(RegionStep)),
        .tile = tile,
        .slots = (const RegionSlot *)PyBytes_AS_STRING(slots),
        .steps = (const RegionStep *)PyBytes_AS_STRING(steps),
        .loops = (const int32_t *)PyBytes_AS_STRING(loops),
    };
    self->slot_count = self->region.slot_count;
    int wrong = self->slot_count > REGION_SLOTS || read_constants(self, constants);
    return finish_function(self, wrong, inputs, outputs);
}

static PyObject *make_blocks(PyObject *module, PyObject *args) {
    PyObject *program, *kept, *constants, *inputs, *outputs;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "SOO!O!O!n", &program, &kept, &PyDict_Type, &constants,
                          &PyList_Type, &inputs, &PyList_Type, &outputs, &n))
        return NULL;
    Function *self = new_function("run_blocks", args);
    if (self == NULL) return NULL;
    self->program = PyBytes_AS_STRING(program), self->n = n;
    self->slot_count = ((const BlockProgram *)self->program)->value_count;
    int wrong = self->slot_count > REGION_SLOTS || read_constants(self, constants);
    return finish_function(self, wrong, inputs, outputs);
}

static PyObject *make_bound(PyObject *module, PyObject *args) {
    PyObject *arguments, *inputs, *outputs;
    const char *name;
    int dropped;
    if (!PyArg_ParseTuple(args, "sO!O!O!i", &name, &PyTuple_Type, &arguments, &PyList_Type,
                          &inputs, &PyList_Type, &outputs, &dropped))
        return NULL;
    Function *self = new_function(name, args);
    if (self == NULL) return NULL;
    self->dropped = dropped, self->count = (int)PyTuple_GET_SIZE(arguments);
    int wrong = check_count(self->entry, self->count);
    for (int k = 0; !wrong && k < self->count; k++)
        wrong = read_bound(self, k, PyTuple_GET_ITEM(arguments, k));
    return finish_function(self, wrong, inputs, outputs);
}

static PyObject *make_machine_code(PyObject *module, PyObject *args) {
    unsigned long long code;
    long long items, unit;
    unsigned int units, grain;
    PyObject *owner, *constants, *inputs, *outputs;
    if (!PyArg_ParseTuple(args, "K(LLII)OO!O!O!", &code, &items, &unit, &units, &grain,
                          &owner, &PyDict_Type, &constants, &PyList_Type, &inputs,
                          &PyList_Type, &outputs))
        return NULL;
    ParallelFor parallel_for = units ? (ParallelFor)function_named("parallel_for") : NULL;
    if (parallel_for == NULL) {
        PyErr_Clear(); /* no kernel library is loaded */
        units = 0;
    }
    Function *self = new_function(NULL, args);
    if (self == NULL) return NULL;
    self->code = (MachineCode)(uintptr_t)code, self->parallel_for = parallel_for;
    self->items = items, self->unit = unit, self->units = units, self->grain = grain;
    Py_ssize_t count = PyDict_Size(constants) + PyList_GET_SIZE(inputs);
    self->slot_count = (int)Py_MIN(count + PyList_GET_SIZE(outputs), REGION_SLOTS + 1);
    int wrong = self->slot_count > REGION_SLOTS || read_constants(self, constants);
    return finish_function(self, wrong, inputs, outputs);
}

static PyObject *address(PyObject *module, PyObject *name) {
    const char *text = PyUnicode_AsUTF8(name);
    void *found = text ? function_named(text) : NULL;
    return found ? PyLong_FromVoidPtr(found) : NULL;
}

static void dealloc(PyObject *self) {
    Py_XDECREF(((Function *)self)->parts);
    PyObject_Free(self);
}

static PyTypeObject RegionType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "plugrad_cpu._native.Region",
    .tp_basicsize = sizeof(Function),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Function, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = dealloc,
    .tp_doc = "Kernels in C, for arrays of known shapes and dtypes.",
};

int start_regions(void) { return PyType_Ready(&RegionType); }

PyMethodDef region_methods[] = {
    {"region", make_region, METH_VARARGS,
     "region(slots, steps, loops, tile, constants, inputs, outputs, n): return a function."},
    {"blocks", make_blocks, METH_VARARGS,
     "blocks(program, owners, constants, inputs, outputs, n): return a function."},
    {"bound", make_bound, METH_VARARGS,
     "bound(name, arguments, inputs, outputs, dropped): return a function."},
    {"machine_code", make_machine_code, METH_VARARGS,
     "machine_code(address, share, owner, constants, inputs, outputs): return a function."},
    {"address", address, METH_O, "address(name): return the address of a function that only C calls."},
    {NULL, NULL, 0, NULL},
};
