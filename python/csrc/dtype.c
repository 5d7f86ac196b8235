/* dtype.c: element types by name, and numbers of Python as literals. */
#include "bridge.h"
#include <string.h>

typedef enum class { BOOL, INT, UINT, FLOAT } class;

typedef struct dtype {
    const char *name, *format;
    class class;
} dtype;
static const dtype dtypes[] = {
#define DTYPE(tag, name, format, class, code, bits) [JIT_##tag] = {name, format, class},
#include "dtypes.def"
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

const char *bridge_dtype_name(jit_dtype type) {
    return dtypes[type].name;
}

const char *bridge_dtype_format(jit_dtype type) {
    return dtypes[type].format;
}

/* The text in which an object says what type it stands for: its own, its `name` (NumPy's and
 * TensorFlow's dtypes), its `__name__` (numpy.float32), or what it prints (torch.float32). */
static PyObject *dtype_text(PyObject *object) {
    static const char *const attributes[] = {"name", "__name__"};
    if (PyUnicode_Check(object)) {
        Py_INCREF(object);
        return object;
    }
    for (int i = 0; i < 2; ++i) {
        PyObject *text = PyObject_GetAttrString(object, attributes[i]);
        if (text && PyUnicode_Check(text))
            return text;
        Py_XDECREF(text);
        PyErr_Clear();
    }
    return PyObject_Str(object);
}

int bridge_dtype_converter(PyObject *object, void *out) {
    const char *name;
    PyObject *text = dtype_text(object);
    if (!text || !PyArg_Parse(text, "s", &name)) {
        Py_XDECREF(text);
        return 0;
    }
    const char *point = strrchr(name, '.');
    if (point)
        name = point + 1;
    int i = 0;
    while (i < DTYPES && strcmp(name, dtypes[i].name) != 0 &&
           strcmp(name, jit_dtype_name((jit_dtype) i)) != 0)
        ++i;
    if (i < DTYPES)
        *(jit_dtype *) out = (jit_dtype) i;
    else
        PyErr_Format(PyExc_TypeError, "%R is no element type of jitc, such as 'float32'", object);
    Py_DECREF(text);
    return i < DTYPES;
}

bool bridge_is_scalar(PyObject *object) {
    if (PyFloat_Check(object) || PyLong_Check(object))
        return true;
    /* Scalars of NumPy; arrays have these slots as well. */
    return (PyIndex_Check(object) || PyObject_HasAttrString(object, "__float__")) &&
           !PyObject_HasAttrString(object, "__dlpack__");
}

/* Low bytes of *bits: the integer. */
static int integer_bits(PyObject *number, jit_dtype type, uint64_t *bits) {
    int width = 8 * (int) jit_dtype_size(type);
    if (PyFloat_Check(number) || !PyIndex_Check(number)) {
        PyErr_Format(PyExc_TypeError, "%R does not go with an array of %s: cast the array", number,
                     dtypes[type].name);
        return -1;
    }
    PyObject *whole = PyNumber_Index(number);
    if (!whole)
        return -1;
    bool fits;
    if (dtypes[type].class == INT) {
        int64_t value = PyLong_AsLongLong(whole), limit = INT64_MAX >> (64 - width);
        *bits = (uint64_t) value;
        fits = value <= limit && value >= -limit - 1;
    } else {
        *bits = PyLong_AsUnsignedLongLong(whole);
        fits = *bits <= UINT64_MAX >> (64 - width);
    }
    Py_DECREF(whole);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_OverflowError))
        return -1;
    if (fits && !PyErr_Occurred())
        return 0;
    PyErr_Format(PyExc_OverflowError, "%R does not fit into %s", number, dtypes[type].name);
    return -1;
}

bool bridge_number_read(PyObject *object, jit_dtype type, bridge_number *out) {
    if (!bridge_is_scalar(object)) {
        PyErr_Format(PyExc_TypeError, "%R is not a number", object);
        return false;
    }
    if (dtypes[type].class == FLOAT) {
        out->real = PyFloat_AsDouble(object);
        return !PyErr_Occurred();
    }
    if (dtypes[type].class != BOOL)
        return integer_bits(object, type, &out->bits) == 0;
    out->bits = object == Py_True;
    if (!PyBool_Check(object))
        PyErr_Format(PyExc_TypeError, "%R does not go with an array of bool", object);
    return PyBool_Check(object);
}

jit_var bridge_literal(jit_backend backend, jit_dtype type, bridge_number number, size_t size) {
    if (dtypes[type].class != FLOAT)
        return jit_literal(backend, type, &number.bits, size);
    /* Rounded once, by the cast of a literal. */
    jit_var wide = jit_literal(backend, JIT_f64, &number.real, size);
    jit_var v = jit_cast(wide, type);
    jit_unref(wide);
    return v;
}
