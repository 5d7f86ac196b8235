/* object.c: what handles stand for.  Layer: tests. */
#include "state.h"
#include <stdio.h>
#include <stdlib.h>

/* A handle: no address, so that whoever reads through one is stopped; not negative as a number,
 * which a driver's handles are not either. */
#define HANDLE_TAG ((uint64_t) 0x4DA0 << 48)

static struct {
    sim_object **all;
    uint32_t count, capacity;
} table;

void *sim_new(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (!memory) {
        fprintf(stderr, "simcuda: the host has no memory left\n");
        abort();
    }
    return memory;
}

const char *sim_kind_name(sim_kind kind) {
    static const char *const names[] = {
        [SIM_CONTEXT] = "context", [SIM_STREAM] = "stream",         [SIM_EVENT] = "event",
        [SIM_MODULE] = "module",   [SIM_FUNCTION] = "function",     [SIM_GRAPH] = "graph",
        [SIM_NODE] = "graph node", [SIM_EXEC] = "executable graph", [SIM_POOL] = "memory pool"};
    return names[kind];
}

void *sim_object_create(sim_kind kind, size_t bytes, sim_context *context) {
    sim_object *o = sim_new(bytes);
    if (table.count == table.capacity) {
        table.capacity = table.capacity ? 2 * table.capacity : 256;
        sim_object **grown = realloc(table.all, table.capacity * sizeof *grown);
        if (!grown)
            abort();
        table.all = grown;
    }
    o->kind = kind;
    o->context = context;
    o->number = table.count;
    table.all[table.count++] = o;
    return o;
}

void *sim_object_handle(const void *object) {
    const sim_object *o = object;
    uintptr_t handle = HANDLE_TAG | (uint64_t) o->kind << 40 | (uint64_t) o->number << 4;
    return (void *) handle;
}

void sim_object_take_handle(void *object) {
    sim_object *o = object;
    for (uint32_t i = o->number; i-- > 0;) {
        sim_object *old = table.all[i];
        if (old->kind != o->kind || old->life != SIM_DESTROYED)
            continue;
        old->number = o->number;
        table.all[old->number] = old;
        o->number = i;
        table.all[i] = o;
        return;
    }
}

void *sim_object_find(const void *handle, sim_kind kind) {
    uint64_t value = (uintptr_t) handle, number = (value & 0xFFFFFFFFFF) >> 4;
    sim_object *o = number < table.count ? table.all[number] : NULL;
    if (!o || o->kind != kind || sim_object_handle(o) != handle) {
        sim_fault("%p is no %s", handle, sim_kind_name(kind));
        return NULL;
    }
    if (o->life == SIM_DESTROYED)
        sim_fault("%s %u is used after it was destroyed", sim_kind_name(kind), o->number);
    return o->life == SIM_ALIVE || kind == SIM_CONTEXT ? o : NULL;
}

void *sim_object_here(const void *handle, sim_kind kind) {
    sim_object *o = sim_object_find(handle, kind);
    if (!o || o->context == sim_current())
        return o;
    sim_fault("%s %u belongs to another context than the current one", sim_kind_name(kind),
              o->number);
    return NULL;
}

void sim_object_end(void *object) {
    ((sim_object *) object)->life = SIM_DESTROYED;
}

static bool counts(const sim_object *o, sim_kind kind, const sim_context *context) {
    return o->kind == kind && o->life == SIM_ALIVE && !o->implicit &&
           (!context || o->context == context);
}

unsigned sim_object_count(sim_kind kind, const sim_context *context) {
    unsigned count = 0;
    for (uint32_t i = 0; i < table.count; i++)
        count += counts(table.all[i], kind, context);
    return count;
}

void sim_objects_lose(sim_context *context) {
    for (uint32_t i = 0; i < table.count; i++)
        if (table.all[i]->context == context && table.all[i]->life == SIM_ALIVE)
            table.all[i]->life = SIM_LOST;
}
