/* bridge.h: what the files of the Python extension share.  May include: the public headers,
 * Python's (only the stable ABI of 3.9), export/dlpack_abi.h.
 *
 * The extension is a thin coat: a jitc.Array is a reference to a variable and a shape. It has four
 * rules of its own.
 *
 *   GIL      What may wait, touch a driver, or call somebody's deleter runs without it. A thread of
 *            the library, or another library's, may be in a deleter that wants the GIL (NumPy's
 *            does) while we wait for that thread. Recording an operation does none of that.
 *   ends     Our deleters and destructors use no Python: they run on any thread, without the GIL,
 *            also when the interpreter is gone.
 *   exit     jit_shutdown() is called once, when the interpreter is about to end, and nobody may be
 *            in the library then: who gives the GIL away says so by BRIDGE_WITHOUT_GIL; who keeps
 * it asks bridge_started() after the last thing that may run code of Python. errors   A function of
 * the library that fails leaves its text for the thread; bridge_raise() makes an exception of it,
 * and clears it. */
#ifndef JITC_PYTHON_BRIDGE_H
#define JITC_PYTHON_BRIDGE_H
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#    define Py_LIMITED_API 0x03090000
#endif
#include "export/dlpack_abi.h"
#include <Python.h>
#include <jit/dlpack.h>

/** As many dimensions as an array may have. */
enum { BRIDGE_DIMENSIONS = 64 };

/** A jitc.Array. Never changes. */
typedef struct bridge_array {
    PyObject_VAR_HEAD jit_var var; /* one reference */
    int ndim;
    int64_t extents[]; /* shape, then the strides of a compact array */
} bridge_array;

/** A shape that was given as an argument. */
typedef struct bridge_shape {
    int ndim;
    int64_t extents[BRIDGE_DIMENSIONS];
    int64_t size; /* the product */
} bridge_shape;

/** A backend and a device of it; -1: the calling thread's. */
typedef struct bridge_place {
    jit_backend backend;
    int device;
} bridge_place;

/* name.c */

/** Names that are looked up often, as strings of Python. With the GIL, from bridge_names_create()
 * on. */
#define BRIDGE_NAMES(X)                                                                            \
    X(__dlpack__)                                                                                  \
    X(__dlpack_device__)                                                                           \
    X(__dlpack_c_exchange_api__)                                                                   \
    X(stream)                                                                                      \
    X(max_version)                                                                                 \
    X(dl_device)                                                                                   \
    X(copy)
typedef struct bridge_names {
#define NAME(name) PyObject *name;
    BRIDGE_NAMES(NAME)
#undef NAME
} bridge_names;
extern bridge_names bridge_name;
/** Once. -1 with an exception. */
int bridge_names_create(void);
/** Read keyword arguments, which are all that a function takes: values[i] is that of names[i], or
 * left as it is. False with an exception. */
bool bridge_read_keywords(const char *function, PyObject *args, PyObject *keywords, int n,
                          PyObject *const *names, PyObject **values);

/* error.c */

/** Set the exception that goes with a status and the thread's jit_error(), and clear that. Leaves
 * an exception that is set already. Returns NULL. */
PyObject *bridge_raise(jit_status status);
/** As bridge_raise(), with the status of jit_error(). */
PyObject *bridge_raise_last(void);
/** None, or the exception of a status. */
PyObject *bridge_none(jit_status status);

/* runtime.c */

/** Start the runtime if it was not. Between bridge_call_begin() and -_end(). */
jit_status bridge_start(void);
/** The same, with the GIL. False, with an exception, if that fails or the runtime has ended. */
bool bridge_started(void);
/** Has it ended? All variables are gone then. */
bool bridge_ended(void);
/** End it, before the interpreter does: it calls deleters of others that use Python. With the GIL,
 * which it gives away meanwhile. */
void bridge_end(void);
/** Around calls of the library without the GIL: bridge_end() waits for the end. */
void bridge_call_begin(void);
void bridge_call_end(void);
#define BRIDGE_WITHOUT_GIL                                                                         \
    bridge_call_begin();                                                                           \
    Py_BEGIN_ALLOW_THREADS
#define BRIDGE_WITH_GIL                                                                            \
    bridge_call_end();                                                                             \
    Py_END_ALLOW_THREADS
/** Once, when the module is loaded. */
void bridge_prepare_fork(void);
/** Converters for PyArg_Parse...(): "cpu", "cuda", "cuda:1" or None to a bridge_place; they start
 * the runtime. */
int bridge_place_converter(PyObject *object, void *place);
/** Choose the place's device for the calling thread; *former goes to bridge_leave(). */
jit_status bridge_enter(const bridge_place *place, int *former);
/** Undo bridge_enter(), also one that failed. */
void bridge_leave(const bridge_place *place, int former);
/** "cpu" or "cuda:1": a new reference. */
PyObject *bridge_place_text(jit_backend backend, int device);
/** Functions of the module. */
extern PyMethodDef bridge_runtime_functions[];

/* dtype.c */

/** Converter: "float32", "f32", or what has such a name (a dtype of NumPy, of PyTorch, ...), to a
 * jit_dtype. */
int bridge_dtype_converter(PyObject *object, void *dtype);
/** Name, such as "float32". */
const char *bridge_dtype_name(jit_dtype type);
/** The letter of the module struct; "" if it has none. */
const char *bridge_dtype_format(jit_dtype type);
/** Is it a number, rather than an array or something else? */
bool bridge_is_scalar(PyObject *object);
/** A number of Python as the bits of a type, or, of floats, before it is rounded. */
typedef union bridge_number {
    uint64_t bits; /* the first bytes are the low ones */
    double real;
} bridge_number;
/** Read it. False, with an exception, if it does not fit into the type. */
bool bridge_number_read(PyObject *object, jit_dtype type, bridge_number *out);
/** It, `size` times. 0 with an error of the library. */
jit_var bridge_literal(jit_backend backend, jit_dtype type, bridge_number number, size_t size);

/* array.c */

/** The type jitc.Array; NULL before bridge_array_type_create(). */
PyTypeObject *bridge_array_type(void);
/** Make the type. Once. -1 with an exception. */
int bridge_array_type_create(void);
/** Is it a jitc.Array? */
static inline bool bridge_is_array(PyObject *object) {
    return Py_TYPE(object) == bridge_array_type();
}
/** An Array of v, which it takes, also on failure; v 0: NULL with the exception of jit_error(). */
PyObject *bridge_array_take(jit_var v, int ndim, const int64_t *shape);
/** The same, with the variable's own shape. */
PyObject *bridge_array_take_own(jit_var v);

/* shape.c */

/** Converter: an int or a sequence of ints, also below 0, to a bridge_shape. */
int bridge_shape_converter(PyObject *object, void *shape);
/** Is it the shape of an array? Sets the exception. */
bool bridge_shape_check(const bridge_shape *shape);
/** Put what is missing for `size` elements in the place of -1, and check the rest. */
bool bridge_shape_complete(bridge_shape *shape, int64_t size);

/* make.c */

/** Functions of the module. */
extern PyMethodDef bridge_array_functions[];

/* operator.c */

/** Slots of the type for operators, ended by {0, NULL}. */
extern PyType_Slot bridge_operator_slots[];
/** Functions of the module, one for each operation. */
extern PyMethodDef bridge_operations[];

/* floor.c: integer division by Python's rule, which rounds down; recorded like the library's own.
 */

jit_var bridge_floor_divide(jit_var a, jit_var b);
jit_var bridge_remainder(jit_var a, jit_var b);

/* capsule.c */

/** A capsule that owns a tensor, and knows when somebody else has ended that. Takes it. */
PyObject *bridge_capsule(DLManagedTensorVersioned *tensor);
PyObject *bridge_capsule_legacy(DLManagedTensor *tensor);
/** Call the deleter of a tensor, which may be NULL or have none, without the GIL. An exception that
 * is set stays. */
void bridge_delete(DLManagedTensorVersioned *tensor);
void bridge_delete_legacy(DLManagedTensor *tensor);

/* lend.c: arrays for others. */

/** A device as DLPack numbers it. */
DLDevice bridge_device(const bridge_array *a);
PyObject *bridge_dlpack(PyObject *self, PyObject *args, PyObject *keywords);
/** A stream as DLPack numbers it. False with an exception. */
bool bridge_read_stream(PyObject *stream, intptr_t *out);
PyObject *bridge_dlpack_device(PyObject *self, PyObject *unused);
/** (address, strides in elements): where the elements lie. Evaluates, does not wait. */
PyObject *bridge_layout(PyObject *self, PyObject *unused);

/* take.c: arrays of others. */

PyObject *bridge_from_dlpack(PyObject *module, PyObject *args, PyObject *keywords);

/* exchange.c */

/** The name of the capsule. */
#define BRIDGE_EXCHANGE_CAPSULE "dlpack_exchange_api"
/** Give the type its table. -1 with an exception. */
int bridge_add_exchange(PyTypeObject *type);
/** The stream of the calling thread on a device of CUDA, -1: its current one. */
jit_status bridge_stream(int device, void **stream);

/** For tables of functions: what takes keywords. */
#define BRIDGE_KEYWORDS(function) ((PyCFunction) (void (*)(void))(function))
#endif
