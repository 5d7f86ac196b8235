/* lend.c: arrays for others: __dlpack__() and what goes with it. */
#include "bridge.h"

DLDevice bridge_device(const bridge_array *a) {
    if (jit_backend_of(a->var) == JIT_CUDA)
        return (DLDevice) {kDLCUDA, jit_device_of(a->var)};
    return (DLDevice) {kDLCPU, 0};
}

PyObject *bridge_dlpack_device(PyObject *self, PyObject *unused) {
    const bridge_array *a = (bridge_array *) self;
    (void) unused;
    if (!bridge_started())
        return NULL;
    DLDevice device = bridge_device(a);
    return Py_BuildValue("(ii)", (int) device.device_type, (int) device.device_id);
}

/* The arguments of __dlpack__(). All of these leave what is None as it is. */

bool bridge_read_stream(PyObject *stream, intptr_t *out) {
    *out = PyNumber_AsSsize_t(stream, PyExc_OverflowError);
    if (*out == -1 && PyErr_Occurred())
        return false;
    if (*out != JIT_STREAM_NOT_GIVEN) /* what None says */
        return true;
    PyErr_Format(PyExc_ValueError, "%zd stands for no stream", (Py_ssize_t) *out);
    return false;
}

static bool read_stream(PyObject *stream, jit_export_options *o) {
    return stream == Py_None || bridge_read_stream(stream, &o->stream);
}

/* What is more than there can be is as much as there can be: more is known than we have. */
static bool read_number(PyObject *number, uint32_t *out) {
    int overflow;
    PyObject *index = PyNumber_Index(number);
    if (!index)
        return false;
    long long value = PyLong_AsLongLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    if (overflow < 0 || (!overflow && value < 0)) {
        PyErr_SetString(PyExc_ValueError, "max_version has a number below 0");
        return false;
    }
    *out = overflow || value > UINT32_MAX ? UINT32_MAX : (uint32_t) value;
    return true;
}

static bool read_version(PyObject *version, jit_export_options *o) {
    PyObject *major, *minor;
    if (version == Py_None)
        return true;
    if (!PyTuple_Check(version)) {
        PyErr_SetString(PyExc_TypeError, "max_version is not a tuple (major, minor)");
        return false;
    }
    return PyArg_ParseTuple(version, "OO;max_version is not (major, minor)", &major, &minor) &&
           read_number(major, &o->max_major) && read_number(minor, &o->max_minor);
}

static bool read_device(PyObject *wanted, DLDevice own, jit_export_options *o) {
    if (wanted == Py_None)
        return true;
    if (!PyTuple_Check(wanted)) {
        PyErr_SetString(PyExc_TypeError, "dl_device is not a tuple (type, id)");
        return false;
    }
    if (!PyArg_ParseTuple(wanted, "ii;dl_device is not (type, id)", &o->device_type, &o->device_id))
        return false;
    bool is_own = o->device_type == (int) own.device_type && o->device_id == own.device_id;
    if (is_own || (o->device_type == kDLCPU && o->device_id == 0))
        return true;
    PyErr_Format(PyExc_BufferError, "an array of the device (%d, %d) cannot be given to (%d, %d)",
                 (int) own.device_type, (int) own.device_id, o->device_type, o->device_id);
    return false;
}

static bool read_copy(PyObject *copy, jit_export_options *o) {
    if (copy == Py_None)
        return true;
    int truth = PyObject_IsTrue(copy);
    o->copy = truth ? JIT_COPY_ALWAYS : JIT_COPY_NEVER;
    return truth >= 0;
}

static PyObject *export_versioned(const bridge_array *a, const jit_export_options *o) {
    DLManagedTensorVersioned *tensor;
    jit_status status;
    BRIDGE_WITHOUT_GIL;
    status = jit_export_dlpack(a->var, o, &tensor);
    BRIDGE_WITH_GIL;
    return status == JIT_OK ? bridge_capsule(tensor) : bridge_raise(status);
}

static PyObject *export_legacy(const bridge_array *a, const jit_export_options *o) {
    DLManagedTensor *tensor;
    jit_status status;
    BRIDGE_WITHOUT_GIL;
    status = jit_export_dlpack_legacy(a->var, o, &tensor);
    BRIDGE_WITH_GIL;
    return status == JIT_OK ? bridge_capsule_legacy(tensor) : bridge_raise(status);
}

PyObject *bridge_dlpack(PyObject *self, PyObject *args, PyObject *keywords) {
    enum { STREAM, VERSION, DEVICE, COPY, COUNT };
    PyObject *const names[] = {bridge_name.stream, bridge_name.max_version, bridge_name.dl_device,
                               bridge_name.copy};
    PyObject *values[COUNT] = {Py_None, Py_None, Py_None, Py_None};
    const bridge_array *a = (bridge_array *) self;
    jit_export_options o = JIT_EXPORT_OPTIONS;
    if (!bridge_read_keywords("__dlpack__", args, keywords, COUNT, names, values))
        return NULL;
    if (!read_stream(values[STREAM], &o) || !read_version(values[VERSION], &o) ||
        !read_copy(values[COPY], &o) || !bridge_started() ||
        !read_device(values[DEVICE], bridge_device(a), &o) || !bridge_started())
        return NULL;
    o.ndim = a->ndim;
    o.shape = a->extents;
    if (o.max_major > 0)
        return export_versioned(a, &o);
    o.max_major = o.max_minor = 0;
    return export_legacy(a, &o);
}

/* A tuple of n integers. */
static PyObject *integers(const int64_t *values, int n) {
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple && i < n; ++i) {
        PyObject *number = PyLong_FromLongLong(values[i]);
        if (!number || PyTuple_SetItem(tuple, i, number) != 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

PyObject *bridge_layout(PyObject *self, PyObject *unused) {
    const bridge_array *a = (bridge_array *) self;
    jit_export_options o = JIT_EXPORT_OPTIONS;
    DLManagedTensorVersioned *tensor;
    jit_status status;
    (void) unused;
    if (!bridge_started())
        return NULL;
    /* For nobody: the CPU does not wait, and memory of a GPU does not wait for us. */
    o.stream = jit_backend_of(a->var) == JIT_CUDA ? JIT_STREAM_LEGACY : JIT_STREAM_NONE;
    o.ndim = a->ndim;
    o.shape = a->extents;
    BRIDGE_WITHOUT_GIL;
    status = jit_export_dlpack(a->var, &o, &tensor);
    BRIDGE_WITH_GIL;
    if (status != JIT_OK)
        return bridge_raise(status);
    PyObject *strides = integers(tensor->dl_tensor.strides, a->ndim);
    PyObject *layout =
        strides ? Py_BuildValue("(KN)", (unsigned long long) (uintptr_t) tensor->dl_tensor.data,
                                strides)
                : NULL;
    Py_BEGIN_ALLOW_THREADS;
    tensor->deleter(tensor);
    Py_END_ALLOW_THREADS;
    return layout;
}
