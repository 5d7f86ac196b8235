/* exchange.c: the table of C functions of DLPack 1.3, by which others take and make our arrays
 * without a call of Python.
 *
 * None of them lets a stream wait but ours: who uses the table works on current_work_stream(),
 * which is the calling thread's, and behind which the array is put. On the CPU there is no stream,
 * and what is handed out is there. */
#include "bridge.h"

static const DLDataType dtypes[] = {
#define DTYPE(tag, name, format, class, code, bits) [JIT_##tag] = {code, bits, 1},
#include "dtypes.def"
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

jit_status bridge_stream(int device, void **stream) {
    bridge_place place = {JIT_CUDA, device};
    int former;
    jit_status status = bridge_enter(&place, &former);
    if (status == JIT_OK) {
        *stream = jit_cuda_stream();
        if (!*stream)
            status = jit_error_status();
        bridge_leave(&place, former);
    }
    return status;
}

static bool is_gpu(DLDeviceType type) {
    return type == kDLCUDA || type == kDLCUDAManaged;
}

/* As options: what is on a GPU goes to, or comes from, the calling thread's own stream. */
static jit_status own_stream(DLDevice device, intptr_t *stream) {
    void *handle = NULL;
    if (!is_gpu(device.device_type))
        return JIT_OK;
    jit_status status =
        bridge_stream(device.device_type == kDLCUDA ? device.device_id : -1, &handle);
    *stream = (intptr_t) handle;
    return status;
}

/* A new tensor. Maybe without the GIL. */

/* The type, or -1. */
static int type_of(DLDataType dtype) {
    for (int i = 0; dtype.lanes == 1 && i < DTYPES; ++i)
        if (dtypes[i].code == dtype.code && dtypes[i].bits == dtype.bits)
            return i;
    return -1;
}

/* Zeros of the prototype's type and shape; the reason is in *why. */
static const char *allocate(const DLTensor *prototype, DLManagedTensorVersioned **out,
                            const char **why) {
    static const uint64_t zero;
    static const int64_t no_extents[1]; /* a shape without dimensions may be NULL */
    jit_export_options o = JIT_EXPORT_OPTIONS;
    bool on_cpu = prototype->device.device_type == kDLCPU;
    bridge_place place = {on_cpu ? JIT_LLVM : JIT_CUDA, on_cpu ? 0 : prototype->device.device_id};
    int type = type_of(prototype->dtype), former;
    int64_t size = 1;
    if (prototype->ndim > 0 && !prototype->shape)
        return *why = "the prototype has dimensions, but no shape", "ValueError";
    for (int d = 0; d < prototype->ndim; ++d)
        if (prototype->shape[d] < 0 || __builtin_mul_overflow(size, prototype->shape[d], &size))
            return *why = "the shape of the prototype cannot be", "ValueError";
    if (type < 0)
        return *why = "jitc has no such element type", "BufferError";
    if (!on_cpu && prototype->device.device_type != kDLCUDA)
        return *why = "jitc has no such device", "BufferError";
    jit_status status = bridge_start();
    if (status == JIT_OK)
        status = own_stream(prototype->device, &o.stream);
    if (status == JIT_OK)
        status = bridge_enter(&place, &former);
    if (status == JIT_OK) {
        jit_var v = jit_literal(place.backend, (jit_dtype) type, &zero, (size_t) size);
        o.ndim = prototype->ndim;
        o.shape = prototype->shape ? prototype->shape : no_extents;
        status = v ? jit_export_dlpack(v, &o, out) : jit_error_status();
        jit_unref(v);
        bridge_leave(&place, former);
    }
    *why = jit_error();
    return status == JIT_OK ? NULL : status == JIT_OUT_OF_MEMORY ? "MemoryError" : "RuntimeError";
}

static int allocator(DLTensor *prototype, DLManagedTensorVersioned **out, void *context,
                     void (*set_error)(void *context, const char *kind, const char *message)) {
    /* Somebody who has the GIL gives it away meanwhile: the runtime waits. Threads that Python does
     * not know have none. */
    bool known = Py_IsInitialized() && PyGILState_GetThisThreadState();
    PyGILState_STATE gil = PyGILState_UNLOCKED;
    PyThreadState *saved = NULL;
    const char *why = "", *kind;
    if (known) {
        gil = PyGILState_Ensure();
        saved = PyEval_SaveThread();
    }
    *out = NULL;
    bridge_call_begin();
    kind = allocate(prototype, out, &why);
    bridge_call_end();
    if (known) {
        PyEval_RestoreThread(saved);
        PyGILState_Release(gil);
    }
    if (kind)
        set_error(context, kind, why);
    jit_error_clear();
    return kind ? -1 : 0;
}

/* With the GIL. */

static int check_array(PyObject *object) {
    if (!bridge_is_array(object))
        PyErr_Format(PyExc_TypeError, "%R is no jitc.Array", object);
    return bridge_is_array(object) && bridge_started() ? 0 : -1;
}

static int from_object(void *object, DLManagedTensorVersioned **out) {
    const bridge_array *a = object;
    jit_export_options o = JIT_EXPORT_OPTIONS;
    jit_status status;
    *out = NULL;
    if (check_array(object) != 0)
        return -1;
    o.ndim = a->ndim;
    o.shape = a->extents;
    BRIDGE_WITHOUT_GIL;
    status = own_stream(bridge_device(a), &o.stream);
    if (status == JIT_OK)
        status = jit_export_dlpack(a->var, &o, out);
    BRIDGE_WITH_GIL;
    if (status != JIT_OK)
        bridge_raise(status);
    return status == JIT_OK ? 0 : -1;
}

static int to_object(DLManagedTensorVersioned *tensor, void **out) {
    jit_import_options o = JIT_IMPORT_OPTIONS;
    jit_var v = 0;
    *out = NULL;
    if (!bridge_started()) {
        bridge_delete(tensor);
        return -1;
    }
    BRIDGE_WITHOUT_GIL;
    if (tensor->version.major == DLPACK_MAJOR_VERSION &&
        own_stream(tensor->dl_tensor.device, &o.producer_stream) != JIT_OK)
        jit_error_clear(); /* the import says why */
    jit_import_dlpack(tensor, &o, &v);
    BRIDGE_WITH_GIL;
    *out = bridge_array_take_own(v);
    return *out ? 0 : -1;
}

/* Borrowed: data, shape and strides are the array's, until control returns. */
static int borrow(void *object, DLTensor *out) {
    bridge_array *a = object;
    jit_status status;
    void *data;
    if (check_array(object) != 0)
        return -1;
    BRIDGE_WITHOUT_GIL;
    status = jit_data(a->var, &data);
    BRIDGE_WITH_GIL;
    if (status != JIT_OK) {
        bridge_raise(status);
        return -1;
    }
    *out = (DLTensor) {.data = data,
                       .device = bridge_device(a),
                       .ndim = a->ndim,
                       .dtype = dtypes[jit_type(a->var)],
                       .shape = a->extents,
                       .strides = a->extents + a->ndim};
    return 0;
}

static int current_work_stream(DLDeviceType type, int32_t device, void **out) {
    jit_status status = JIT_OK;
    *out = NULL;
    if (!is_gpu(type))
        return 0;
    if (!bridge_started())
        return -1;
    BRIDGE_WITHOUT_GIL;
    status = bridge_stream(type == kDLCUDA ? device : -1, out);
    BRIDGE_WITH_GIL;
    if (status != JIT_OK)
        bridge_raise(status);
    return status == JIT_OK ? 0 : -1;
}

static const DLPackExchangeAPI table = {
    .header = {{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, NULL},
    .managed_tensor_allocator = allocator,
    .managed_tensor_from_py_object_no_sync = from_object,
    .managed_tensor_to_py_object_no_sync = to_object,
    .dltensor_from_py_object_no_sync = borrow,
    .current_work_stream = current_work_stream,
};

int bridge_add_exchange(PyTypeObject *type) {
    PyObject *capsule = PyCapsule_New((void *) (uintptr_t) &table, BRIDGE_EXCHANGE_CAPSULE, NULL);
    if (!capsule)
        return -1;
    int status =
        PyObject_SetAttr((PyObject *) type, bridge_name.__dlpack_c_exchange_api__, capsule);
    Py_DECREF(capsule);
    return status;
}
