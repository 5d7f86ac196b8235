/* shape.c: shapes that are given as arguments. */
#include "bridge.h"

static bool append_extent(bridge_shape *shape, PyObject *number) {
    Py_ssize_t extent = PyNumber_AsSsize_t(number, PyExc_OverflowError);
    if (extent == -1 && PyErr_Occurred())
        return false;
    if (shape->ndim == BRIDGE_DIMENSIONS) {
        PyErr_Format(PyExc_ValueError, "more than %d dimensions", BRIDGE_DIMENSIONS);
        return false;
    }
    if (__builtin_mul_overflow(shape->size, (int64_t) extent, &shape->size)) {
        PyErr_SetString(PyExc_ValueError, "the shape has too many elements");
        return false;
    }
    shape->extents[shape->ndim++] = extent;
    return true;
}

int bridge_shape_converter(PyObject *object, void *out) {
    bridge_shape *shape = out;
    shape->ndim = 0;
    shape->size = 1;
    if (PyIndex_Check(object))
        return append_extent(shape, object);
    Py_ssize_t n = PySequence_Size(object);
    for (Py_ssize_t i = 0; i < n; ++i) {
        PyObject *number = PySequence_GetItem(object, i);
        bool good = number && append_extent(shape, number);
        Py_XDECREF(number);
        if (!good)
            return 0;
    }
    return n >= 0;
}

bool bridge_shape_check(const bridge_shape *shape) {
    for (int d = 0; d < shape->ndim; ++d)
        if (shape->extents[d] < 0) {
            PyErr_Format(PyExc_ValueError, "dimension %d of the shape is %lld", d,
                         (long long) shape->extents[d]);
            return false;
        }
    return true;
}

bool bridge_shape_complete(bridge_shape *shape, int64_t size) {
    int64_t others = 1;
    int missing = -1;
    for (int d = 0; d < shape->ndim; ++d) {
        if (shape->extents[d] != -1)
            others *= shape->extents[d];
        else if (missing < 0)
            missing = d;
        else {
            PyErr_SetString(PyExc_ValueError, "only one dimension can be -1");
            return false;
        }
    }
    if (missing >= 0) /* rounded down: then the product tells */
        shape->extents[missing] = others > 0 ? size / others : 0;
    if (!bridge_shape_check(shape))
        return false;
    shape->size = missing >= 0 ? others * shape->extents[missing] : others;
    if (shape->size != size)
        PyErr_Format(PyExc_ValueError, "%lld elements cannot have a shape of %lld",
                     (long long) size, (long long) shape->size);
    return shape->size == size;
}
