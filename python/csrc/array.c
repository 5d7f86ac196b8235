/* array.c: the type jitc.Array, and the functions that make and read arrays. */
#include "bridge.h"
#include <string.h>

/* Lives as long as the process, in one interpreter. */
static PyTypeObject *array_type;

PyTypeObject *bridge_array_type(void) {
    return array_type;
}

/* Making. */

PyObject *bridge_array_take(jit_var v, int ndim, const int64_t *shape) {
    if (!v)
        return bridge_raise_last();
    bridge_array *a = (bridge_array *) (void *) PyType_GenericAlloc(array_type, 2 * ndim);
    if (!a) {
        if (!bridge_ended())
            jit_unref(v);
        return NULL;
    }
    a->var = v;
    a->ndim = ndim;
    int64_t stride = 1;
    for (int d = ndim; d-- > 0;) {
        a->extents[d] = shape[d];
        a->extents[ndim + d] = stride;
        stride *= shape[d] > 1 ? shape[d] : 1; /* as it was, too, if there are no elements */
    }
    return (PyObject *) a;
}

PyObject *bridge_array_take_own(jit_var v) {
    int64_t shape[BRIDGE_DIMENSIONS];
    if (!v)
        return bridge_raise_last();
    if (!bridge_started())
        return NULL;
    int ndim = jit_var_ndim(v);
    const int64_t *own = jit_var_shape(v);
    if (!own) {
        jit_unref(v);
        return bridge_raise_last();
    }
    memcpy(shape, own, (size_t) ndim * sizeof *shape); /* it may end when Python code runs */
    return bridge_array_take(v, ndim, shape);
}

static void array_end(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    jit_var v = ((bridge_array *) self)->var;
    if (!bridge_ended()) {
        /* It may be the last one that holds memory of somebody else, whose deleter may run code of
         * Python. An exception that is on its way stays. */
        PyObject *exception, *value, *traceback;
        PyErr_Fetch(&exception, &value, &traceback);
        BRIDGE_WITHOUT_GIL;
        jit_unref(v);
        BRIDGE_WITH_GIL;
        PyErr_Restore(exception, value, traceback);
    }
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *array_reshape(PyObject *self, PyObject *args) {
    const bridge_array *a = (bridge_array *) self;
    bridge_shape shape;
    PyObject *first = PyTuple_Size(args) == 1 ? PyTuple_GetItem(args, 0) : NULL;
    if (!bridge_shape_converter(first ? first : args, &shape) || !bridge_started() ||
        !bridge_shape_complete(&shape, (int64_t) jit_size(a->var)))
        return NULL;
    return bridge_array_take(jit_ref(a->var), shape.ndim, shape.extents);
}

/* Properties. */

static PyObject *array_shape(PyObject *self, void *unused) {
    const bridge_array *a = (bridge_array *) self;
    (void) unused;
    PyObject *shape = PyTuple_New(a->ndim);
    for (int d = 0; shape && d < a->ndim; ++d) {
        PyObject *extent = PyLong_FromLongLong(a->extents[d]);
        if (!extent || PyTuple_SetItem(shape, d, extent) != 0)
            Py_CLEAR(shape);
    }
    return shape;
}

static PyObject *array_ndim(PyObject *self, void *unused) {
    (void) unused;
    return PyLong_FromLong(((bridge_array *) self)->ndim);
}

static PyObject *array_size(PyObject *self, void *unused) {
    const bridge_array *a = (bridge_array *) self;
    (void) unused;
    int64_t size = 1;
    for (int d = 0; d < a->ndim; ++d)
        size *= a->extents[d];
    return PyLong_FromLongLong(size);
}

/* The backend, or 0 with an exception: the runtime has ended. */
static jit_backend backend_of(PyObject *self) {
    return bridge_started() ? jit_backend_of(((bridge_array *) self)->var) : (jit_backend) 0;
}

static PyObject *array_dtype(PyObject *self, void *unused) {
    (void) unused;
    if (!backend_of(self))
        return NULL;
    return PyUnicode_FromString(bridge_dtype_name(jit_type(((bridge_array *) self)->var)));
}

static PyObject *array_format(PyObject *self, void *unused) {
    (void) unused;
    if (!backend_of(self))
        return NULL;
    return PyUnicode_FromString(bridge_dtype_format(jit_type(((bridge_array *) self)->var)));
}

static PyObject *array_backend(PyObject *self, void *unused) {
    jit_backend backend = backend_of(self);
    (void) unused;
    return backend ? PyUnicode_FromString(backend == JIT_CUDA ? "cuda" : "llvm") : NULL;
}

static PyObject *array_device(PyObject *self, void *unused) {
    jit_backend backend = backend_of(self);
    (void) unused;
    return backend ? bridge_place_text(backend, jit_device_of(((bridge_array *) self)->var)) : NULL;
}

/* Reading. */

static Py_ssize_t array_length(PyObject *self) {
    const bridge_array *a = (bridge_array *) self;
    if (a->ndim == 0) {
        PyErr_SetString(PyExc_TypeError, "len() of an array without dimensions");
        return -1;
    }
    return (Py_ssize_t) a->extents[0];
}

/** All elements as bytes. */
static PyObject *array_bytes(PyObject *self, PyObject *unused) {
    jit_var v = ((bridge_array *) self)->var;
    jit_status status;
    (void) unused;
    if (!backend_of(self))
        return NULL;
    size_t bytes = jit_size(v) * jit_dtype_size(jit_type(v));
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t) bytes);
    if (!result || !bridge_started()) {
        Py_XDECREF(result);
        return NULL;
    }
    char *to = PyBytes_AsString(result);
    BRIDGE_WITHOUT_GIL;
    status = jit_read(v, to);
    BRIDGE_WITH_GIL;
    if (status == JIT_OK)
        return result;
    Py_DECREF(result);
    return bridge_raise(status);
}

/* What is written in Python: function(self) of a module of the package. */
static PyObject *in_python(const char *module, const char *function, PyObject *self) {
    PyObject *m = PyImport_ImportModule(module);
    if (!m)
        return NULL;
    PyObject *result = PyObject_CallMethod(m, function, "O", self);
    Py_DECREF(m);
    return result;
}

static PyObject *array_item(PyObject *self, PyObject *unused) {
    (void) unused;
    return in_python("jitc._values", "item", self);
}

static PyObject *array_list(PyObject *self, PyObject *unused) {
    (void) unused;
    return in_python("jitc._values", "tolist", self);
}

static PyObject *array_text(PyObject *self) {
    return in_python("jitc._values", "text", self);
}

static int array_bool(PyObject *self) {
    PyObject *item = array_item(self, NULL);
    int result = item ? PyObject_IsTrue(item) : -1;
    Py_XDECREF(item);
    return result;
}

static PyObject *array_float(PyObject *self) {
    PyObject *item = array_item(self, NULL);
    PyObject *result = item ? PyNumber_Float(item) : NULL;
    Py_XDECREF(item);
    return result;
}

static PyObject *array_int(PyObject *self) {
    PyObject *item = array_item(self, NULL);
    PyObject *result = item ? PyNumber_Long(item) : NULL;
    Py_XDECREF(item);
    return result;
}

static PyObject *array_numpy(PyObject *self, PyObject *unused) {
    (void) unused;
    return in_python("jitc._interop", "numpy", self);
}

static PyObject *array_torch(PyObject *self, PyObject *unused) {
    (void) unused;
    return in_python("jitc._interop", "torch", self);
}

static PyObject *array_jax(PyObject *self, PyObject *unused) {
    (void) unused;
    return in_python("jitc._interop", "jax", self);
}

static PyObject *array_cupy(PyObject *self, PyObject *unused) {
    (void) unused;
    return in_python("jitc._interop", "cupy", self);
}

static PyObject *array_tf(PyObject *self, PyObject *unused) {
    (void) unused;
    return in_python("jitc._interop", "tf", self);
}

/** numpy.asarray() asks for this. */
static PyObject *array_array(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *dtype = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OO:__array__", names, &dtype, &copy))
        return NULL;
    PyObject *m = PyImport_ImportModule("jitc._interop");
    if (!m)
        return NULL;
    PyObject *result = PyObject_CallMethod(m, "array", "OOO", self, dtype, copy);
    Py_DECREF(m);
    return result;
}

/* Evaluating. */

static PyObject *array_eval(PyObject *self, PyObject *unused) {
    jit_var v = ((bridge_array *) self)->var;
    jit_status status;
    (void) unused;
    if (!bridge_started())
        return NULL;
    BRIDGE_WITHOUT_GIL;
    status = jit_var_eval(v);
    BRIDGE_WITH_GIL;
    if (status != JIT_OK)
        return bridge_raise(status);
    Py_INCREF(self);
    return self;
}

/* The type. */

static PyObject *array_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    (void) type, (void) args, (void) keywords;
    PyErr_SetString(PyExc_TypeError, "use jitc.array(), jitc.from_dlpack() or jitc.full()");
    return NULL;
}

static PyMethodDef methods[] = {
    {"__dlpack__", BRIDGE_KEYWORDS(bridge_dlpack), METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A capsule of the array's memory, as the array API standard says. On a GPU, stream 0 lets "
     "the\nCPU wait."},
    {"__dlpack_device__", bridge_dlpack_device, METH_NOARGS,
     "__dlpack_device__($self)\n--\n\n(device type, device id), as DLPack numbers them."},
    {"__array__", BRIDGE_KEYWORDS(array_array), METH_VARARGS | METH_KEYWORDS,
     "__array__($self, dtype=None, copy=None)\n--\n\nAs numpy(), for numpy.asarray()."},
    {"numpy", array_numpy, METH_NOARGS,
     "numpy($self)\n--\n\nThe array in NumPy: the same memory on the CPU, a copy of that of a "
     "GPU."},
    {"torch", array_torch, METH_NOARGS,
     "torch($self)\n--\n\nThe array in PyTorch: the same memory, read behind what jitc does, on "
     "the stream that is\ncurrent there."},
    {"jax", array_jax, METH_NOARGS, "jax($self)\n--\n\nThe array in JAX: the same memory."},
    {"cupy", array_cupy, METH_NOARGS,
     "cupy($self)\n--\n\nThe array in CuPy: the same memory. Arrays of the CPU are copied to the "
     "GPU."},
    {"tf", array_tf, METH_NOARGS,
     "tf($self)\n--\n\nThe array in TensorFlow: the same memory. On a GPU the CPU waits (stream "
     "0): TensorFlow\nworks on streams that it does not name, and that wait for no other stream."},
    {"reshape", array_reshape, METH_VARARGS,
     "reshape($self, *shape)\n--\n\nThe same elements with another shape; one dimension may be "
     "-1."},
    {"eval", array_eval, METH_NOARGS,
     "eval($self)\n--\n\nCompute the array now. Launches, does not wait. Returns the array."},
    {"item", array_item, METH_NOARGS, "item($self)\n--\n\nThe value of an array of one element."},
    {"tolist", array_list, METH_NOARGS, "tolist($self)\n--\n\nThe values, as lists in lists."},
    {"_bytes", array_bytes, METH_NOARGS, NULL},
    {"_layout", bridge_layout, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef properties[] = {
    {"shape", array_shape, NULL, "Sizes of the dimensions, a tuple.", NULL},
    {"ndim", array_ndim, NULL, "Number of dimensions.", NULL},
    {"size", array_size, NULL, "Number of elements.", NULL},
    {"dtype", array_dtype, NULL, "Element type, such as 'float32'.", NULL},
    {"device", array_device, NULL, "Where it is: 'cpu' or, say, 'cuda:0'.", NULL},
    {"backend", array_backend, NULL, "What computes it: 'llvm' or 'cuda'.", NULL},
    {"_format", array_format, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, "An array that is computed when it is needed, on the CPU or a GPU.\n\nMade by "
                "jitc.array(), jitc.from_dlpack(), jitc.full(), jitc.arange(), and by computing."},
    {Py_tp_new, array_new},
    {Py_tp_dealloc, array_end},
    {Py_tp_repr, array_text},
    {Py_tp_hash, PyObject_HashNotImplemented},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_mp_length, array_length},
    {Py_nb_bool, array_bool},
    {Py_nb_float, array_float},
    {Py_nb_int, array_int},
};

int bridge_array_type_create(void) {
    enum { OWN = sizeof slots / sizeof *slots };
    PyType_Slot all[OWN + 32];
    int n = OWN;
    memcpy(all, slots, sizeof slots);
    for (const PyType_Slot *s = bridge_operator_slots; s->slot; ++s)
        all[n++] = *s;
    all[n] = (PyType_Slot) {0, NULL};
    PyType_Spec spec = {"jitc.Array", (int) sizeof(bridge_array), (int) sizeof(int64_t),
                        Py_TPFLAGS_DEFAULT, all};
    PyObject *type = PyType_FromSpec(&spec);
    /* NumPy is not to make arrays of objects of us: numpy_array + jitc_array is a TypeError. */
    if (!type || PyObject_SetAttrString(type, "__array_ufunc__", Py_None) != 0 ||
        bridge_add_exchange((PyTypeObject *) type) != 0) {
        Py_XDECREF(type);
        return -1;
    }
    array_type = (PyTypeObject *) type;
    return 0;
}
