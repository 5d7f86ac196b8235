/* module.c: the module jitc._jitc. */
#include "bridge.h"

/* The table of C functions and the type are the process's, so the module is for one interpreter. */
static bool is_first_interpreter(void) {
    static int64_t first = -1; /* with the GIL, which interpreters share that load us */
    int64_t id = PyInterpreterState_GetID(PyInterpreterState_Get());
    if (first < 0)
        first = id;
    return id == first;
}

static int module_exec(PyObject *module) {
    if (!is_first_interpreter()) {
        PyErr_SetString(PyExc_ImportError, "jitc can be used in one interpreter of a process");
        return -1;
    }
    if (!bridge_array_type()) {
        if (bridge_names_create() != 0 || bridge_array_type_create() != 0)
            return -1;
        bridge_prepare_fork();
    }
    if (PyModule_AddFunctions(module, bridge_runtime_functions) != 0 ||
        PyModule_AddFunctions(module, bridge_array_functions) != 0 ||
        PyModule_AddFunctions(module, bridge_operations) != 0)
        return -1;
    return PyObject_SetAttrString(module, "Array", (PyObject *) bridge_array_type());
}

PyMODINIT_FUNC PyInit__jitc(void); /* Python looks for it by name */

PyMODINIT_FUNC PyInit__jitc(void) {
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *) module_exec}, {0, NULL}};
    static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "jitc._jitc",
                                     .m_doc = "What the package jitc is made of.",
                                     .m_slots = slots};
    return PyModuleDef_Init(&definition);
}
