/* make.c: functions of the module that make arrays, convert and evaluate them. */
#include "bridge.h"

/* Of values. */

static PyObject *full(PyObject *module, PyObject *args) {
    bridge_shape shape;
    PyObject *value;
    jit_dtype type;
    bridge_place place;
    bridge_number number;
    int former;
    (void) module;
    if (!PyArg_ParseTuple(args, "O&OO&O&:_full", bridge_shape_converter, &shape, &value,
                          bridge_dtype_converter, &type, bridge_place_converter, &place) ||
        !bridge_shape_check(&shape) || !bridge_number_read(value, type, &number) ||
        !bridge_started())
        return NULL;
    jit_var v = 0;
    if (bridge_enter(&place, &former) == JIT_OK)
        v = bridge_literal(place.backend, type, number, (size_t) shape.size);
    bridge_leave(&place, former);
    return bridge_array_take(v, shape.ndim, shape.extents);
}

static PyObject *counter(PyObject *module, PyObject *args) {
    Py_ssize_t size;
    bridge_place place;
    int former;
    (void) module;
    if (!PyArg_ParseTuple(args, "nO&:_counter", &size, bridge_place_converter, &place))
        return NULL;
    jit_status status = bridge_enter(&place, &former);
    jit_var v = status == JIT_OK ? jit_counter(place.backend, (size_t) size) : 0;
    bridge_leave(&place, former);
    return bridge_array_take(v, 1, &(int64_t) {size});
}

static PyObject *from_bytes(PyObject *module, PyObject *args) {
    PyObject *bytes;
    bridge_shape shape;
    jit_dtype type;
    bridge_place place;
    (void) module;
    if (!PyArg_ParseTuple(args, "SO&O&O&:_from_bytes", &bytes, bridge_shape_converter, &shape,
                          bridge_dtype_converter, &type, bridge_place_converter, &place) ||
        !bridge_shape_check(&shape))
        return NULL;
    if (PyBytes_Size(bytes) / (Py_ssize_t) jit_dtype_size(type) != shape.size ||
        PyBytes_Size(bytes) % (Py_ssize_t) jit_dtype_size(type) != 0)
        return PyErr_Format(PyExc_ValueError, "%zd bytes do not make %lld elements of %s",
                            PyBytes_Size(bytes), (long long) shape.size, bridge_dtype_name(type));
    const char *data = PyBytes_AsString(bytes);
    jit_var v = 0;
    int former;
    BRIDGE_WITHOUT_GIL;
    if (bridge_enter(&place, &former) == JIT_OK)
        v = jit_from_host(place.backend, type, data, (size_t) shape.size);
    bridge_leave(&place, former);
    BRIDGE_WITH_GIL;
    return bridge_array_take(v, shape.ndim, shape.extents);
}

static PyObject *dtype_name(PyObject *module, PyObject *object) {
    jit_dtype type;
    (void) module;
    return bridge_dtype_converter(object, &type) ? PyUnicode_FromString(bridge_dtype_name(type))
                                                 : NULL;
}

/* Of arrays. */

static PyObject *cast(PyObject *module, PyObject *args) {
    PyObject *a;
    jit_dtype type;
    (void) module;
    if (!PyArg_ParseTuple(args, "O!O&:cast", bridge_array_type(), &a, bridge_dtype_converter,
                          &type) ||
        !bridge_started())
        return NULL;
    const bridge_array *array = (bridge_array *) a;
    return bridge_array_take(jit_cast(array->var, type), array->ndim, array->extents);
}

static PyObject *bitcast(PyObject *module, PyObject *args) {
    PyObject *a;
    jit_dtype type;
    (void) module;
    if (!PyArg_ParseTuple(args, "O!O&:bitcast", bridge_array_type(), &a, bridge_dtype_converter,
                          &type) ||
        !bridge_started())
        return NULL;
    const bridge_array *array = (bridge_array *) a;
    return bridge_array_take(jit_bitcast(array->var, type), array->ndim, array->extents);
}

/* The variable of a mask that may be missing. -1 with an exception. */
static int mask_of(PyObject *mask, jit_var *out) {
    *out = 0;
    if (mask == Py_None)
        return 0;
    if (!bridge_is_array(mask)) {
        PyErr_SetString(PyExc_TypeError, "the mask is neither a jitc.Array nor None");
        return -1;
    }
    *out = ((bridge_array *) mask)->var;
    return 0;
}

static PyObject *gather(PyObject *module, PyObject *args, PyObject *keywords) {
    static char *names[] = {"source", "index", "mask", NULL};
    PyObject *source, *index, *mask = Py_None;
    jit_var lanes;
    (void) module;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!O!|O:gather", names, bridge_array_type(),
                                     &source, bridge_array_type(), &index, &mask) ||
        mask_of(mask, &lanes) != 0 || !bridge_started())
        return NULL;
    const bridge_array *i = (bridge_array *) index;
    const bridge_array *shape = lanes && jit_size(i->var) == 1 ? (bridge_array *) mask : i;
    return bridge_array_take(jit_gather(((bridge_array *) source)->var, i->var, lanes), shape->ndim,
                             shape->extents);
}

static PyObject *scatter(PyObject *module, PyObject *args, PyObject *keywords) {
    static char *names[] = {"target", "value", "index", "mask", NULL};
    PyObject *target, *value, *index, *mask = Py_None;
    jit_var lanes;
    bridge_number number;
    (void) module;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!OO!|O:scatter", names, bridge_array_type(),
                                     &target, &value, bridge_array_type(), &index, &mask) ||
        mask_of(mask, &lanes) != 0 || !bridge_started())
        return NULL;
    const bridge_array *t = (bridge_array *) target;
    jit_dtype type = jit_type(t->var);
    bool is_array = bridge_is_array(value);
    if (!is_array && !(bridge_number_read(value, type, &number) && bridge_started()))
        return NULL;
    jit_var stored = is_array ? jit_ref(((bridge_array *) value)->var)
                              : bridge_literal(jit_backend_of(t->var), type, number, 1);
    jit_var v = jit_scatter(t->var, stored, ((bridge_array *) index)->var, lanes);
    jit_unref(stored);
    return bridge_array_take(v, t->ndim, t->extents);
}

static PyObject *sine_and_cosine(PyObject *module, PyObject *a) {
    jit_var sine, cosine;
    (void) module;
    if (!bridge_is_array(a))
        return PyErr_Format(PyExc_TypeError, "sincos() takes a jitc.Array, not %R", a);
    const bridge_array *array = (bridge_array *) a;
    if (!bridge_started())
        return NULL;
    if (jit_sincos(array->var, &sine, &cosine) != JIT_OK)
        return bridge_raise_last();
    PyObject *first = bridge_array_take(sine, array->ndim, array->extents);
    PyObject *second = bridge_array_take(cosine, array->ndim, array->extents);
    PyObject *both = first && second ? PyTuple_Pack(2, first, second) : NULL;
    Py_XDECREF(first);
    Py_XDECREF(second);
    return both;
}

static PyObject *eval(PyObject *module, PyObject *args) {
    Py_ssize_t n = PyTuple_Size(args);
    jit_status status = JIT_OK;
    (void) module;
    for (Py_ssize_t i = 0; i < n; ++i)
        if (!bridge_is_array(PyTuple_GetItem(args, i)))
            return PyErr_Format(PyExc_TypeError, "argument %zd of eval() is no jitc.Array", i + 1);
    if (!bridge_started())
        return NULL;
    for (Py_ssize_t i = 0; i < n && status == JIT_OK; ++i)
        status = jit_schedule(((bridge_array *) PyTuple_GetItem(args, i))->var);
    BRIDGE_WITHOUT_GIL; /* the list is emptied in any case */
    jit_status evaluated = jit_eval();
    if (status == JIT_OK)
        status = evaluated;
    BRIDGE_WITH_GIL;
    return bridge_none(status);
}

PyMethodDef bridge_array_functions[] = {
    {"_full", full, METH_VARARGS, NULL},
    {"_counter", counter, METH_VARARGS, NULL},
    {"_dtype_name", dtype_name, METH_O, NULL},
    {"_from_bytes", from_bytes, METH_VARARGS, NULL},
    {"from_dlpack", BRIDGE_KEYWORDS(bridge_from_dlpack), METH_VARARGS | METH_KEYWORDS,
     "from_dlpack($module, x, /, *, device=None, copy=None, raw_bytes=False)\n--\n\n"
     "An Array of what speaks DLPack (an array of NumPy, PyTorch, JAX, CuPy, ..., or a capsule): "
     "the\nsame memory, read behind what its owner has queued. device: where it is to live; "
     "copy: True\ncopies, False raises BufferError where it would be needed. raw_bytes: types "
     "that jitc does not\nhave become uint8, with one more dimension."},
    {"cast", cast, METH_VARARGS,
     "cast($module, a, dtype, /)\n--\n\nElements converted: floats to integers truncate and "
     "saturate, "
     "integers wrap."},
    {"bitcast", bitcast, METH_VARARGS,
     "bitcast($module, a, dtype, /)\n--\n\nThe same bits as another type of the same width."},
    {"gather", BRIDGE_KEYWORDS(gather), METH_VARARGS | METH_KEYWORDS,
     "gather($module, source, index, mask=None)\n--\n\nsource[index[i]] for every i, of the "
     "elements in "
     "row-major order; 0 where the mask is false or\nthe index is out of range."},
    {"scatter", BRIDGE_KEYWORDS(scatter), METH_VARARGS | METH_KEYWORDS,
     "scatter($module, target, value, index, mask=None)\n--\n\nA copy of target with "
     "target[index[i]] = "
     "value[i]; value may be a number."},
    {"sincos", sine_and_cosine, METH_O,
     "sincos($module, a, /)\n--\n\n(sin(a), cos(a)), in one go."},
    {"eval", eval, METH_VARARGS,
     "eval($module, *arrays)\n--\n\nCompute arrays now, in as few kernels as possible. Launches, "
     "does "
     "not wait."},
    {NULL, NULL, 0, NULL}};
