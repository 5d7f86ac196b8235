/* name.c: names that are made once, and keyword arguments that are told apart by them. */
#include "bridge.h"

bridge_names bridge_name;

int bridge_names_create(void) {
    bool good = true;
#define NAME(name) good = (bridge_name.name = PyUnicode_InternFromString(#name)) && good;
    BRIDGE_NAMES(NAME)
#undef NAME
    return good ? 0 : -1;
}

/* Which of the names is it? -1: none, or an exception. */
static int find(PyObject *key, int n, PyObject *const *names) {
    for (int i = 0; i < n; ++i)
        if (key == names[i])
            return i;
    for (int i = 0; i < n; ++i) /* one that is not interned */
        if (PyUnicode_Compare(key, names[i]) == 0)
            return i;
    return -1;
}

bool bridge_read_keywords(const char *function, PyObject *args, PyObject *keywords, int n,
                          PyObject *const *names, PyObject **values) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (PyTuple_Size(args) != 0) {
        PyErr_Format(PyExc_TypeError, "%s() takes keyword arguments only", function);
        return false;
    }
    while (keywords && PyDict_Next(keywords, &at, &key, &value)) {
        int i = find(key, n, names);
        if (i < 0) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_TypeError, "%s() has no argument %R", function, key);
            return false;
        }
        values[i] = value;
    }
    return true;
}
