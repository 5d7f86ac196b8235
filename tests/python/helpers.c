/* helpers.c: what the tests of the Python package cannot do in Python. Needs no headers of it. */

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

extern void *PyExc_BufferError, *PyExc_ValueError;
void PyErr_SetString(void *type, const char *text);

int fail_BufferError(void *object, void **out);
int fail_ValueError(void *object, void **out);

int fail_BufferError(void *object, void **out) {
    (void) object, (void) out;
    PyErr_SetString(PyExc_BufferError, "by the table");
    return -1;
}

int fail_ValueError(void *object, void **out) {
    (void) object, (void) out;
    PyErr_SetString(PyExc_ValueError, "by the table");
    return -1;
}

/* A struct of DLPack whose deleter is called when the process ends, behind Py_Finalize(). */
typedef struct kept {
    void *tensor;
    void (*deleter)(void *tensor);
} kept;
static kept at_end[64];
static int count;

void keep_until_end(void *tensor, void (*deleter)(void *tensor));

void keep_until_end(void *tensor, void (*deleter)(void *tensor)) {
    at_end[count++] = (kept) {tensor, deleter};
}

int Py_IsInitialized(void);

static void *end_one(void *k) {
    ((kept *) k)->deleter(((kept *) k)->tensor);
    return NULL;
}

/* Every second one in a thread that is none of Python's. */
__attribute__((destructor)) static void end_all(void) {
    for (int i = 0; i < count; ++i) {
        pthread_t thread;
        if (i % 2 == 0 || pthread_create(&thread, NULL, end_one, &at_end[i]) != 0)
            end_one(&at_end[i]);
        else
            pthread_join(thread, NULL);
    }
    if (count)
        printf("ended %d, Python %s\n", count, Py_IsInitialized() ? "alive" : "gone");
    fflush(stdout);
}
