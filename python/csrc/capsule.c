/* capsule.c: capsules that own a tensor until somebody consumes them.
 *
 * A consumer renames the capsule and later calls the tensor's deleter. There are others: TensorFlow
 * calls the deleter, when it fails, and leaves the name, so that the capsule's destructor would
 * call it again. So the tensor gets a deleter of ours, which marks a slot, and the destructor looks
 * there first. Slots outlive tensors and capsules: a capsule knows its slot by number and
 * generation.
 *
 *   capsule  context: generation, number ----> slot  generation, deleter and manager_ctx
 *            pointer: tensor --- manager_ctx --^     that are the tensor's own
 *
 * Slots are taken with the GIL, one at a time, and given back without it, from any thread. */
#include "bridge.h"
#include <stdatomic.h>
#include <stdlib.h>

/* Consumers keep these pointers: they stay for ever. */
static const char versioned_name[] = "dltensor_versioned", legacy_name[] = "dltensor";

typedef struct slot {
    _Atomic uint32_t generation; /* of the tensor that is, or will be, in it */
    uint32_t number;
    struct slot *next; /* in the list of free ones */
    void *context;
    union {
        void (*versioned)(DLManagedTensorVersioned *);
        void (*legacy)(DLManagedTensor *);
    } deleter;
} slot;

enum { FIRST_BLOCK = 64, BLOCKS = 20 };
static slot *blocks[BLOCKS]; /* of 64, 128, 256, ... slots; with the GIL */
static uint32_t slots;       /* numbers that were given; with the GIL */
/** Any number of threads push, one (that with the GIL) pops: so what it has seen on top can only
 * be hidden, and never be taken away and come back. */
static _Atomic(slot *) free_slots;

static slot *slot_at(uint32_t number) {
    uint32_t block = 31 - (uint32_t) __builtin_clz(number / FIRST_BLOCK + 1);
    return &blocks[block][number - FIRST_BLOCK * ((1u << block) - 1)];
}

static slot *new_slot(void) {
    uint32_t block = 31 - (uint32_t) __builtin_clz(slots / FIRST_BLOCK + 1);
    if (block >= BLOCKS)
        return NULL;
    if (!blocks[block])
        blocks[block] = calloc((size_t) FIRST_BLOCK << block, sizeof(slot));
    if (!blocks[block])
        return NULL;
    slot *s = slot_at(slots);
    s->number = slots++;
    return s;
}

static slot *slot_take(void) {
    slot *s = atomic_load_explicit(&free_slots, memory_order_acquire); /* of slot_give() */
    while (s && !atomic_compare_exchange_weak_explicit(&free_slots, &s, s->next,
                                                       memory_order_acquire, memory_order_acquire))
        continue;
    return s ? s : new_slot();
}

static void slot_give(slot *s) {
    atomic_fetch_add_explicit(&s->generation, 1, memory_order_relaxed);
    s->next = atomic_load_explicit(&free_slots, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&free_slots, &s->next, s, memory_order_release,
                                                  memory_order_relaxed))
        continue;
}

/* The deleters. No Python in them. */

static void versioned_deleter(DLManagedTensorVersioned *tensor) {
    slot *s = tensor->manager_ctx;
    tensor->manager_ctx = s->context;
    tensor->deleter = s->deleter.versioned;
    slot_give(s);
    tensor->deleter(tensor);
}

static void legacy_deleter(DLManagedTensor *tensor) {
    slot *s = tensor->manager_ctx;
    tensor->manager_ctx = s->context;
    tensor->deleter = s->deleter.legacy;
    slot_give(s);
    tensor->deleter(tensor);
}

/* An exception may be on its way: the deleter, which may run code of Python, does not see it. */

void bridge_delete(DLManagedTensorVersioned *tensor) {
    PyObject *type, *value, *traceback;
    if (!tensor || !tensor->deleter)
        return;
    PyErr_Fetch(&type, &value, &traceback);
    Py_BEGIN_ALLOW_THREADS;
    tensor->deleter(tensor);
    Py_END_ALLOW_THREADS;
    PyErr_Restore(type, value, traceback);
}

void bridge_delete_legacy(DLManagedTensor *tensor) {
    PyObject *type, *value, *traceback;
    if (!tensor || !tensor->deleter)
        return;
    PyErr_Fetch(&type, &value, &traceback);
    Py_BEGIN_ALLOW_THREADS;
    tensor->deleter(tensor);
    Py_END_ALLOW_THREADS;
    PyErr_Restore(type, value, traceback);
}

/* The capsules. */

static void *capsule_context(const slot *s) {
    uint64_t generation = atomic_load_explicit(&s->generation, memory_order_relaxed);
    return (void *) (uintptr_t) (generation << 32 | s->number);
}

/* Has nobody called the deleter of the capsule's tensor? */
static bool is_alive(PyObject *capsule) {
    void *context = PyCapsule_GetContext(capsule);
    return capsule_context(slot_at((uint32_t) (uintptr_t) context)) == context;
}

static void capsule_end(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, versioned_name) && is_alive(capsule))
        bridge_delete(PyCapsule_GetPointer(capsule, versioned_name));
    else if (PyCapsule_IsValid(capsule, legacy_name) && is_alive(capsule))
        bridge_delete_legacy(PyCapsule_GetPointer(capsule, legacy_name));
}

/* Of a tensor whose slot is s. */
static PyObject *capsule_create(void *tensor, const char *name, const slot *s) {
    PyObject *capsule = PyCapsule_New(tensor, name, NULL);
    if (capsule && (PyCapsule_SetContext(capsule, capsule_context(s)) != 0 ||
                    PyCapsule_SetDestructor(capsule, capsule_end) != 0))
        Py_CLEAR(capsule);
    return capsule;
}

PyObject *bridge_capsule(DLManagedTensorVersioned *tensor) {
    slot *s = slot_take();
    if (!s) {
        bridge_delete(tensor);
        return PyErr_NoMemory();
    }
    s->context = tensor->manager_ctx;
    s->deleter.versioned = tensor->deleter;
    tensor->manager_ctx = s;
    tensor->deleter = versioned_deleter;
    PyObject *capsule = capsule_create(tensor, versioned_name, s);
    if (!capsule)
        bridge_delete(tensor);
    return capsule;
}

PyObject *bridge_capsule_legacy(DLManagedTensor *tensor) {
    slot *s = slot_take();
    if (!s) {
        bridge_delete_legacy(tensor);
        return PyErr_NoMemory();
    }
    s->context = tensor->manager_ctx;
    s->deleter.legacy = tensor->deleter;
    tensor->manager_ctx = s;
    tensor->deleter = legacy_deleter;
    PyObject *capsule = capsule_create(tensor, legacy_name, s);
    if (!capsule)
        bridge_delete_legacy(tensor);
    return capsule;
}
