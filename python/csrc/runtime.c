/* runtime.c: start, end, devices, options. */
#include "bridge.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* What the process has one of. The last jit_shutdown() is ours, at the interpreter's exit; arrays
 * that are used after it are an error, and start nothing. */
enum { NEW, STARTED, ENDED };
static _Atomic int phase;
/** Calls of the library by threads without the GIL. */
static _Atomic unsigned inside;
/** What set_device() chose; 0: nothing. */
static _Thread_local jit_backend chosen;

jit_status bridge_start(void) {
    int now = atomic_load_explicit(&phase, memory_order_acquire);
    if (now == STARTED)
        return JIT_OK;
    if (now == ENDED)
        return JIT_NOT_INITIALIZED;
    jit_status status = jit_init(JIT_CUDA | JIT_LLVM);
    if (status != JIT_OK)
        return status;
    jit_error_clear(); /* of the backend that is not there */
    int expected = NEW;
    if (!atomic_compare_exchange_strong(&phase, &expected, STARTED))
        jit_shutdown(); /* another thread was here at the same time */
    return expected == ENDED ? JIT_NOT_INITIALIZED : JIT_OK;
}

void bridge_call_begin(void) {
    atomic_fetch_add(&inside, 1);
}

void bridge_call_end(void) {
    atomic_fetch_sub(&inside, 1);
}

/* The threads that were in the library are not there in the child. */
static void in_child(void) {
    atomic_store(&inside, 0);
}

void bridge_prepare_fork(void) {
    pthread_atfork(NULL, NULL, in_child);
}

void bridge_end(void) {
    if (atomic_exchange(&phase, ENDED) != STARTED)
        return;
    Py_BEGIN_ALLOW_THREADS;
    /* ORDER: calls of other threads before the end, by `inside`; without it they are in what is
     * taken apart. */
    while (atomic_load(&inside)) /* pairs with bridge_call_end() */
        nanosleep(&(struct timespec) {0, 100000}, NULL);
    jit_shutdown();
    Py_END_ALLOW_THREADS;
}

bool bridge_ended(void) {
    return atomic_load_explicit(&phase, memory_order_acquire) == ENDED;
}

/* With the GIL. */
bool bridge_started(void) {
    jit_status status;
    if (atomic_load_explicit(&phase, memory_order_acquire) == STARTED)
        return true;
    BRIDGE_WITHOUT_GIL;
    status = bridge_start();
    BRIDGE_WITH_GIL;
    if (status == JIT_NOT_INITIALIZED)
        PyErr_SetString(PyExc_RuntimeError, "jitc has ended: the interpreter is about to");
    if (status != JIT_OK)
        bridge_raise(status);
    return status == JIT_OK;
}

static jit_backend default_backend(void) {
    if (chosen)
        return chosen;
    return jit_has_backend(JIT_CUDA) ? JIT_CUDA : JIT_LLVM;
}

/* "cuda:1" and its like. */
static bool parse_place(const char *text, bridge_place *place) {
    static const struct {
        const char *name;
        jit_backend backend;
    } names[] = {{"cpu", JIT_LLVM}, {"llvm", JIT_LLVM}, {"cuda", JIT_CUDA}};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        size_t length = strlen(names[i].name);
        int end = 0;
        if (strncmp(text, names[i].name, length) != 0)
            continue;
        *place = (bridge_place) {names[i].backend, -1};
        if (!text[length])
            return true;
        return sscanf(text + length, ":%d%n", &place->device, &end) == 1 &&
               !text[length + (size_t) end] && place->device >= 0;
    }
    return false;
}

int bridge_place_converter(PyObject *object, void *out) {
    bridge_place *place = out;
    const char *text;
    if (!bridge_started())
        return 0;
    if (object == Py_None) {
        *place = (bridge_place) {default_backend(), -1};
        return 1;
    }
    if (!PyUnicode_Check(object) || !PyArg_Parse(object, "s", &text) || !parse_place(text, place)) {
        PyErr_Format(PyExc_ValueError, "%R is no device, such as 'cpu', 'cuda' or 'cuda:1'",
                     object);
        return 0;
    }
    int former;
    jit_status status = bridge_enter(place, &former); /* says what is not there */
    if (status == JIT_OK && !jit_has_backend(place->backend))
        status = jit_set_device(place->backend, 0);
    bridge_leave(place, former);
    if (status != JIT_OK)
        bridge_raise(status);
    return status == JIT_OK;
}

jit_status bridge_enter(const bridge_place *place, int *former) {
    *former = jit_device(place->backend);
    if (place->device < 0 || place->device == *former)
        return JIT_OK;
    return jit_set_device(place->backend, place->device);
}

void bridge_leave(const bridge_place *place, int former) {
    if (former >= 0 && jit_device(place->backend) != former)
        jit_set_device(place->backend, former);
}

PyObject *bridge_place_text(jit_backend backend, int device) {
    if (backend == JIT_CUDA)
        return PyUnicode_FromFormat("cuda:%d", device);
    return PyUnicode_FromString("cpu");
}

/* Functions of the module. */

static PyObject *devices(PyObject *module, PyObject *unused) {
    static const jit_backend backends[] = {JIT_CUDA, JIT_LLVM};
    (void) module, (void) unused;
    PyObject *list = bridge_started() ? PyList_New(0) : NULL;
    for (int b = 0; list && b < 2; ++b) {
        int n = jit_device_count(backends[b]);
        for (int i = 0; list && i < n; ++i) {
            PyObject *text = bridge_place_text(backends[b], i);
            if (!text || PyList_Append(list, text) != 0)
                Py_CLEAR(list);
            Py_XDECREF(text);
        }
    }
    return list;
}

static PyObject *device(PyObject *module, PyObject *unused) {
    (void) module, (void) unused;
    if (!bridge_started())
        return NULL;
    jit_backend backend = default_backend();
    return bridge_place_text(backend, jit_device(backend));
}

static PyObject *set_device(PyObject *module, PyObject *object) {
    bridge_place place;
    (void) module;
    if (!bridge_place_converter(object, &place))
        return NULL;
    if (place.device >= 0) {
        jit_status status = jit_set_device(place.backend, place.device);
        if (status != JIT_OK)
            return bridge_raise(status);
    }
    chosen = object == Py_None ? (jit_backend) 0 : place.backend;
    Py_RETURN_NONE;
}

static PyObject *sync_thread(PyObject *module, PyObject *unused) {
    jit_status status;
    (void) module, (void) unused;
    if (!bridge_started())
        return NULL;
    BRIDGE_WITHOUT_GIL;
    status = jit_sync_thread();
    BRIDGE_WITH_GIL;
    return bridge_none(status);
}

static PyObject *trim(PyObject *module, PyObject *unused) {
    jit_status status;
    (void) module, (void) unused;
    if (!bridge_started())
        return NULL;
    BRIDGE_WITHOUT_GIL;
    status = jit_trim();
    BRIDGE_WITH_GIL;
    return bridge_none(status);
}

static PyObject *set_option(PyObject *module, PyObject *args) {
    const char *name;
    PyObject *value, *text;
    (void) module;
    if (!PyArg_ParseTuple(args, "sO:set_option", &name, &value))
        return NULL;
    if (PyBool_Check(value))
        text = PyUnicode_FromString(value == Py_True ? "1" : "0");
    else
        text = PyObject_Str(value);
    const char *words;
    PyObject *result = NULL;
    if (text && PyArg_Parse(text, "s", &words))
        result = bridge_none(jit_set_option(name, words));
    Py_XDECREF(text);
    return result;
}

static PyObject *get_option(PyObject *module, PyObject *args) {
    const char *name;
    char text[4096];
    (void) module;
    if (!PyArg_ParseTuple(args, "s:get_option", &name))
        return NULL;
    jit_status status = jit_get_option(name, text, sizeof text);
    return status == JIT_OK ? PyUnicode_DecodeFSDefault(text) : bridge_raise(status);
}

static PyObject *stats(PyObject *module, PyObject *unused) {
    jit_stats s;
    (void) module, (void) unused;
    if (!bridge_started())
        return NULL;
    jit_status status = jit_get_stats(&s);
    if (status != JIT_OK)
        return bridge_raise(status);
#define COUNT(name) #name, (unsigned long long) s.name
    return Py_BuildValue("{sK sK sK sK sK sK sK sK sK sK sK}", COUNT(evaluations), COUNT(launches),
                         COUNT(kernels_compiled), COUNT(memory_hits), COUNT(disk_hits),
                         COUNT(variables), COUNT(bytes_graph), COUNT(bytes_live),
                         COUNT(bytes_cached), COUNT(bytes_peak), COUNT(bytes_pinned));
#undef COUNT
}

static PyObject *cuda_stream(PyObject *module, PyObject *unused) {
    void *stream;
    (void) module, (void) unused;
    if (!bridge_started())
        return NULL;
    BRIDGE_WITHOUT_GIL;
    stream = jit_cuda_stream();
    BRIDGE_WITH_GIL;
    return stream ? PyLong_FromVoidPtr(stream) : bridge_raise_last();
}

static PyObject *order(PyObject *number, jit_status (*function)(uintptr_t)) {
    jit_status status;
    intptr_t stream;
    if (!bridge_read_stream(number, &stream) || !bridge_started())
        return NULL;
    BRIDGE_WITHOUT_GIL;
    status = function((uintptr_t) stream);
    BRIDGE_WITH_GIL;
    return bridge_none(status);
}

static PyObject *cuda_sync_stream(PyObject *module, PyObject *stream) {
    (void) module;
    return order(stream, jit_cuda_sync_stream);
}

static PyObject *cuda_wait_stream(PyObject *module, PyObject *stream) {
    (void) module;
    return order(stream, jit_cuda_wait_stream);
}

static PyObject *end(PyObject *module, PyObject *unused) {
    (void) module, (void) unused;
    bridge_end();
    Py_RETURN_NONE;
}

PyMethodDef bridge_runtime_functions[] = {
    {"devices", devices, METH_NOARGS,
     "devices($module)\n--\n\nThe devices that are there, such as ['cuda:0', 'cpu']."},
    {"device", device, METH_NOARGS,
     "device($module)\n--\n\nWhere the calling thread makes new arrays, unless told otherwise."},
    {"set_device", set_device, METH_O,
     "set_device($module, device, /)\n--\n\nChoose where the calling thread makes new arrays: "
     "'cpu', "
     "'cuda', "
     "'cuda:1'; None: a GPU\nif there is one."},
    {"sync", sync_thread, METH_NOARGS,
     "sync($module)\n--\n\nWait for everything that the calling thread has queued, on all "
     "devices."},
    {"trim", trim, METH_NOARGS,
     "trim($module)\n--\n\nGive memory that is kept for reuse, and not used, back to the system."},
    {"set_option", set_option, METH_VARARGS,
     "set_option($module, name, value, /)\n--\n\nSet an option of the library, such as "
     "'num_threads': see "
     "docs/options.md. Some take\neffect only before the first array is made."},
    {"get_option", get_option, METH_VARARGS,
     "get_option($module, name, /)\n--\n\nAn option of the library, as text."},
    {"stats", stats, METH_NOARGS,
     "stats($module)\n--\n\nWhat the library has done, and the memory it has, as a dict: see "
     "jit_stats in "
     "jit/jit.h."},
    {"cuda_stream", cuda_stream, METH_NOARGS,
     "cuda_stream($module)\n--\n\nThe CUstream of the calling thread on its GPU, as an int: for "
     "code that "
     "queues its own\nwork between that of jitc."},
    {"cuda_sync_stream", cuda_sync_stream, METH_O,
     "cuda_sync_stream($module, stream, /)\n--\n\nLet a stream of somebody else wait, on the GPU, "
     "for all "
     "that the calling thread has\nqueued. 0: the CPU waits."},
    {"cuda_wait_stream", cuda_wait_stream, METH_O,
     "cuda_wait_stream($module, stream, /)\n--\n\nLet what the calling thread queues from now on "
     "wait, on "
     "the "
     "GPU, for what is queued on\na stream of somebody else."},
    {"_end", end, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};
