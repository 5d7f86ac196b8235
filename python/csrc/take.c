/* take.c: from_dlpack(): arrays of others.
 *
 * The producer is asked in the first of these ways that it knows:
 *   its type's table of C functions: the tensor is ordered on the producer's current stream
 *   __dlpack__(): on a GPU it is told our stream and orders that, on the CPU there is none
 *   it is a capsule: whoever made it has seen to the order, for the legacy default stream */
#include "bridge.h"
#include <string.h>

/* A tensor that is ours to import, of either kind. */
typedef struct taken {
    DLManagedTensorVersioned *versioned;
    DLManagedTensor *legacy;
} taken;

static bool is_gpu(int type) {
    return type == kDLCUDA || type == kDLCUDAManaged;
}

/* Capsules. */

/* Take the tensor out, so that nobody else can. */
static int take_capsule(PyObject *capsule, taken *out) {
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        out->versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        return PyCapsule_SetName(capsule, "used_dltensor_versioned");
    }
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        out->legacy = PyCapsule_GetPointer(capsule, "dltensor");
        return PyCapsule_SetName(capsule, "used_dltensor");
    }
    const char *name = PyCapsule_CheckExact(capsule) ? PyCapsule_GetName(capsule) : NULL;
    if (PyErr_Occurred())
        return -1;
    if (name && strncmp(name, "used_dltensor", strlen("used_dltensor")) == 0)
        PyErr_SetString(PyExc_ValueError, "the capsule was consumed before: it can be used once");
    else
        PyErr_Format(PyExc_TypeError, "%R is no capsule of DLPack", capsule);
    return -1;
}

/* The table of C functions. */

/* The capsule of the type, a new reference; NULL without an exception: there is none. */
static PyObject *exchange_capsule(PyTypeObject *type) {
    /* One that has none, and gets none later as it cannot be changed: NumPy's, for instance. With
     * the GIL. */
    static PyTypeObject *without;
    if (type == without)
        return NULL;
    PyObject *capsule = PyObject_GetAttr((PyObject *) type, bridge_name.__dlpack_c_exchange_api__);
    if (!capsule && !(PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE))
        without = type;
    PyErr_Clear();
    return capsule;
}

/* The table, if we know its version. NULL without an exception: there is none. */
static const DLPackExchangeAPI *exchange_table(PyObject *x) {
    PyObject *capsule = exchange_capsule(Py_TYPE(x));
    const DLPackExchangeAPIHeader *header = NULL;
    if (capsule && PyCapsule_IsValid(capsule, BRIDGE_EXCHANGE_CAPSULE))
        header = PyCapsule_GetPointer(capsule, BRIDGE_EXCHANGE_CAPSULE); /* for ever */
    Py_XDECREF(capsule);
    while (header && header->version.major != DLPACK_MAJOR_VERSION)
        header = header->prev_api;
    return (const DLPackExchangeAPI *) (const void *) header;
}

/* 1: taken; 0: it has no table, or cannot by it; -1: exception. */
static int take_by_table(PyObject *x, jit_import_options *o, taken *out) {
    const DLPackExchangeAPI *api = exchange_table(x);
    if (!api || o->copy == JIT_COPY_NEVER) /* it does not say whether it copies */
        return 0;
    if (api->managed_tensor_from_py_object_no_sync(x, &out->versioned) != 0) {
        out->versioned = NULL;
        if (!PyErr_ExceptionMatches(PyExc_BufferError))
            return -1;
        PyErr_Clear();
        return 0;
    }
    const DLManagedTensorVersioned *t = out->versioned;
    if (t->version.major != DLPACK_MAJOR_VERSION || !is_gpu((int) t->dl_tensor.device.device_type))
        return 1;
    DLDevice device = t->dl_tensor.device;
    void *stream = NULL;
    if (api->current_work_stream(device.device_type, device.device_id, &stream) != 0)
        return -1;
    o->producer_stream = (intptr_t) stream; /* 0: a default stream */
    return 1;
}

/* The protocol. */

/* Keywords that a call of __dlpack__() may have. */
enum { STREAM = 1, VERSION = 2, COPY = 4, DEVICE = 8 };

typedef struct request {
    PyObject *method;
    void *stream;   /* STREAM: ours */
    bool may_copy;  /* COPY is False otherwise */
    unsigned wants; /* which of them are needed */
} request;

/* Takes the value. */
static bool put(PyObject *keywords, PyObject *name, PyObject *value) {
    bool good = value && PyDict_SetItem(keywords, name, value) == 0;
    Py_XDECREF(value);
    return good;
}

/* A tuple of two integers. */
static PyObject *pair(long first, long second) {
    PyObject *a = PyLong_FromLong(first), *b = PyLong_FromLong(second);
    PyObject *both = a && b ? PyTuple_Pack(2, a, b) : NULL;
    Py_XDECREF(a);
    Py_XDECREF(b);
    return both;
}

static PyObject *ask(const request *r, unsigned with) {
    PyObject *none = PyTuple_New(0), *keywords = PyDict_New(), *capsule = NULL;
    with &= r->wants;
    if (none && keywords &&
        (!(with & STREAM) || put(keywords, bridge_name.stream, PyLong_FromVoidPtr(r->stream))) &&
        (!(with & VERSION) || put(keywords, bridge_name.max_version,
                                  pair(DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION))) &&
        (!(with & COPY) || put(keywords, bridge_name.copy, PyBool_FromLong(r->may_copy))) &&
        (!(with & DEVICE) || put(keywords, bridge_name.dl_device, pair(kDLCPU, 0))))
        capsule = PyObject_Call(r->method, none, keywords);
    Py_XDECREF(none);
    Py_XDECREF(keywords);
    return capsule;
}

/* With fewer and fewer keywords, as long as the reason can be that one is unknown (TypeError), or
 * that streams are refused (TensorFlow: RuntimeError). *streamed: was ours taken? */
static PyObject *ask_for_capsule(const request *r, bool *streamed) {
    static const unsigned tries[] = {STREAM | VERSION | COPY | DEVICE, STREAM,
                                     VERSION | COPY | DEVICE, 0};
    PyObject *capsule = NULL;
    for (int i = 0; i < 4 && !capsule; ++i) {
        bool about_stream = i == 1 || i == 2; /* these are the others again, but for that */
        if ((about_stream && !(r->wants & STREAM)) || (r->wants & ~tries[i] & DEVICE))
            continue;
        if (i > 0) {
            bool refused = i < 3 && r->wants & STREAM && PyErr_ExceptionMatches(PyExc_RuntimeError);
            if (!refused && !PyErr_ExceptionMatches(PyExc_TypeError))
                break;
            if (refused && i == 1)
                continue;
            PyErr_Clear();
        }
        capsule = ask(r, tries[i]);
        *streamed = r->wants & tries[i] & STREAM;
    }
    return capsule;
}

/* Where the producer says that x is. */
static int device_of(PyObject *x, int *type, int *id) {
    PyObject *device = PyObject_CallMethodObjArgs(x, bridge_name.__dlpack_device__, NULL);
    int good = device && PyTuple_Check(device) &&
               PyArg_ParseTuple(device, "ii;__dlpack_device__() gives no (type, id)", type, id);
    if (device && !PyTuple_Check(device))
        PyErr_SetString(PyExc_TypeError, "__dlpack_device__() gives no tuple");
    Py_XDECREF(device);
    return good ? 0 : -1;
}

static int take_by_protocol(PyObject *x, jit_import_options *o, taken *out) {
    request r = {.wants = VERSION, .may_copy = o->copy != JIT_COPY_NEVER};
    int type, id, result = -1;
    bool streamed = false;
    if (device_of(x, &type, &id) != 0)
        return -1;
    if (!r.may_copy)
        r.wants |= COPY;
    if (!bridge_started())
        return -1;
    if (is_gpu(type) && jit_has_backend(JIT_CUDA)) {
        jit_status status;
        BRIDGE_WITHOUT_GIL;
        status = bridge_stream(type == kDLCUDA ? id : -1, &r.stream);
        BRIDGE_WITH_GIL;
        if (status != JIT_OK) {
            bridge_raise(status);
            return -1;
        }
        r.wants |= STREAM;
    } else if (is_gpu(type) && o->backend == JIT_LLVM)
        r.wants |= DEVICE; /* we cannot fetch it */
    r.method = PyObject_GetAttr(x, bridge_name.__dlpack__);
    PyObject *capsule = r.method ? ask_for_capsule(&r, &streamed) : NULL;
    if (streamed)
        o->producer_stream = (intptr_t) r.stream;
    if (capsule)
        result = take_capsule(capsule, out);
    Py_XDECREF(capsule);
    Py_XDECREF(r.method);
    return result;
}

static int take(PyObject *x, jit_import_options *o, taken *out) {
    int by_table = take_by_table(x, o, out);
    if (by_table != 0)
        return by_table > 0 ? 0 : -1;
    if (PyCapsule_CheckExact(x))
        return take_capsule(x, out);
    if (PyObject_HasAttr(x, bridge_name.__dlpack_device__))
        return take_by_protocol(x, o, out);
    PyErr_Format(PyExc_TypeError, "%R does not speak DLPack: it has no __dlpack_device__()", x);
    return -1;
}

/* Import; 0 with an exception. */
static jit_var import_taken(const taken *t, const bridge_place *place,
                            const jit_import_options *o) {
    jit_var v = 0;
    int former;
    jit_status status;
    BRIDGE_WITHOUT_GIL;
    jit_status entered = place ? bridge_enter(place, &former) : JIT_OK;
    status = t->versioned ? jit_import_dlpack(t->versioned, o, &v)
                          : jit_import_dlpack_legacy(t->legacy, o, &v);
    if (place)
        bridge_leave(place, former);
    if (entered != JIT_OK && status == JIT_OK) {
        jit_unref(v);
        v = 0;
        status = entered;
    }
    BRIDGE_WITH_GIL;
    if (status != JIT_OK)
        bridge_raise(status);
    return v;
}

/* Is v where it was wanted? Takes it if not. */
static bool check_place(jit_var v, const bridge_place *place) {
    if (place->device < 0 || !bridge_started() || jit_device_of(v) == place->device)
        return true;
    PyErr_Format(PyExc_BufferError,
                 "the array is on the GPU %d: it cannot be imported to the GPU %d",
                 jit_device_of(v), place->device);
    jit_unref(v);
    return false;
}

PyObject *bridge_from_dlpack(PyObject *module, PyObject *args, PyObject *keywords) {
    static char *names[] = {"", "device", "copy", "raw_bytes", NULL};
    PyObject *x, *device = Py_None, *copy = Py_None;
    int raw_bytes = 0;
    bridge_place place;
    jit_import_options o = JIT_IMPORT_OPTIONS;
    taken t = {NULL, NULL};
    (void) module;
    if (!keywords && PyTuple_Size(args) == 1) /* the usual call, which is thrice as fast so */
        x = PyTuple_GetItem(args, 0);
    else if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$OOp:from_dlpack", names, &x, &device,
                                          &copy, &raw_bytes))
        return NULL;
    if (!bridge_place_converter(device, &place))
        return NULL;
    if (copy != Py_None) {
        int truth = PyObject_IsTrue(copy);
        if (truth < 0)
            return NULL;
        o.copy = truth ? JIT_COPY_ALWAYS : JIT_COPY_NEVER;
    }
    o.raw_bytes = raw_bytes;
    if (device != Py_None)
        o.backend = place.backend;
    else
        place.device = -1;
    if (take(x, &o, &t) != 0 || !bridge_started()) {
        bridge_delete(t.versioned);
        bridge_delete_legacy(t.legacy);
        return NULL;
    }
    jit_var v = import_taken(&t, device != Py_None ? &place : NULL, &o);
    if (!v || !check_place(v, &place))
        return NULL;
    return bridge_array_take_own(v);
}
