/* error.c: what the library reports, as exceptions. */
#include "bridge.h"

static PyObject *exception_of(jit_status status) {
    switch (status) {
        case JIT_INVALID_ARGUMENT:
        case JIT_SIZE_MISMATCH: return PyExc_ValueError;
        case JIT_TYPE_MISMATCH: return PyExc_TypeError;
        case JIT_OUT_OF_MEMORY: return PyExc_MemoryError;
        case JIT_OUT_OF_BOUNDS: return PyExc_IndexError;
        case JIT_UNSUPPORTED: /* the array API: "cannot be exported" is a BufferError */
        case JIT_READ_ONLY: return PyExc_BufferError;
        default: return PyExc_RuntimeError;
    }
}

PyObject *bridge_raise(jit_status status) {
    if (!PyErr_Occurred()) {
        const char *text = jit_error();
        PyErr_SetString(exception_of(status), *text ? text : jit_status_name(status));
    }
    jit_error_clear();
    return NULL;
}

PyObject *bridge_raise_last(void) {
    return bridge_raise(jit_error_status());
}

PyObject *bridge_none(jit_status status) {
    if (status != JIT_OK)
        return bridge_raise(status);
    Py_RETURN_NONE;
}
