/* settings.c: what tests set and count, by function or environment.  Layer: tests. */
#include "state.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { DEFAULT_MEMORY_MIB = 4096, FAULT_TEXT = 1 << 16 };

static struct {
    pthread_once_t once;
    pthread_mutex_t lock; /* what follows up to `trace`; taken inside the driver's lock */
    char fail_name[64];   /* empty: any */
    int fail_in, fail_result;
    unsigned faults;
    char text[FAULT_TEXT];
    size_t length;
    bool trace;
    int devices, capability, version;
    _Atomic(sim_entry *) entries;
    _Atomic uint64_t seed, drawn, calls, memory;
    _Atomic unsigned kernel_time;
} s = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t number(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static void read_environment(void) {
    s.devices = (int) number("SIMCUDA_DEVICES", 2);
    s.devices = s.devices > SIM_DEVICES ? SIM_DEVICES : s.devices;
    s.capability = (int) number("SIMCUDA_CAPABILITY", 90);
    s.version = (int) number("SIMCUDA_VERSION", 13000);
    s.trace = number("SIMCUDA_TRACE", 0) != 0;
    s.memory = number("SIMCUDA_MEMORY", 0);
    s.seed = number("SIMCUDA_SEED", 0);
    s.kernel_time = (unsigned) number("SIMCUDA_KERNEL_TIME_US", 0);
}

static void start(void) {
    pthread_once(&s.once, read_environment);
}

int sim_device_count(void) {
    start();
    return s.devices;
}
int sim_capability(void) {
    start();
    return s.capability;
}
int sim_version(void) {
    start();
    return s.version;
}
unsigned sim_kernel_time(void) {
    return s.kernel_time;
}
uint64_t sim_device_memory(void) {
    uint64_t set = s.memory;
    return set ? set : (uint64_t) DEFAULT_MEMORY_MIB << 20;
}

/* ---- chance ---- */

uint64_t sim_seed(void) {
    start();
    return s.seed;
}

uint64_t sim_random(void) {
    uint64_t seed = sim_seed();
    if (seed == 0)
        return 0;
    uint64_t x = seed * 0xD1342543DE82EF95u + (++s.drawn) * 0x9E3779B97F4A7C15u; /* splitmix64 */
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* ---- calls ---- */

static void list(sim_entry *e) {
    if (atomic_exchange(&e->listed, true))
        return;
    sim_entry *first = s.entries;
    do
        e->next = first;
    while (!atomic_compare_exchange_weak(&s.entries, &first, e));
}

/** The result that this call was told to fail with, or 0. */
static int injected(const char *name) {
    int result = 0;
    pthread_mutex_lock(&s.lock);
    if (s.fail_in > 0 && (!*s.fail_name || strcmp(s.fail_name, name) == 0) && --s.fail_in == 0)
        result = s.fail_result;
    pthread_mutex_unlock(&s.lock);
    return result;
}

int sim_enter(sim_entry *e) {
    start();
    list(e);
    e->calls++;
    s.calls++;
    int result = injected(e->name);
    if (s.trace)
        fprintf(stderr, "simcuda: %s%s\n", e->name, result ? " is made to fail" : "");
    return result;
}

void sim_trace_end(const sim_entry *e, int result) {
    if (s.trace)
        fprintf(stderr, "simcuda: %s returns %d\n", e->name, result);
}

/* ---- faults ---- */

void sim_fault(const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&s.lock);
    s.faults++;
    int room = (int) (sizeof s.text - s.length);
    int length = snprintf(s.text + s.length, (size_t) room, "%s (seed %llu)\n", line,
                          (unsigned long long) s.seed);
    s.length += (size_t) (length < room ? length : room - 1);
    pthread_mutex_unlock(&s.lock);
    start();
    if (s.trace)
        fprintf(stderr, "simcuda: fault: %s\n", line);
}

/* ---- for tests ---- */

EXPORT void simcuda_seed(uint64_t seed) {
    start();
    s.drawn = 0;
    s.seed = seed;
}

EXPORT void simcuda_fail(const char *name, int n, int result) {
    pthread_mutex_lock(&s.lock);
    snprintf(s.fail_name, sizeof s.fail_name, "%s", name ? name : "");
    s.fail_in = n;
    s.fail_result = result;
    pthread_mutex_unlock(&s.lock);
}

EXPORT uint64_t simcuda_calls(const char *name) {
    if (!name)
        return s.calls;
    for (const sim_entry *e = s.entries; e; e = e->next)
        if (strcmp(e->name, name) == 0)
            return e->calls;
    return 0;
}

EXPORT unsigned simcuda_faults(void) {
    pthread_mutex_lock(&s.lock);
    unsigned faults = s.faults;
    pthread_mutex_unlock(&s.lock);
    return faults;
}

EXPORT const char *simcuda_fault_text(void) {
    return s.text;
}

EXPORT void simcuda_memory(uint64_t bytes) {
    start();
    s.memory = bytes;
}

EXPORT void simcuda_kernel_time_us(unsigned us) {
    start();
    s.kernel_time = us;
}

EXPORT unsigned simcuda_alive(const char *kind) {
    static const struct {
        const char *name;
        sim_kind kinds[2];
    } objects[] = {{"streams", {SIM_STREAM}},
                   {"events", {SIM_EVENT}},
                   {"modules", {SIM_MODULE}},
                   {"graphs", {SIM_GRAPH, SIM_EXEC}},
                   {"pools", {SIM_POOL}}};
    unsigned count = 0;
    sim_lock();
    if (!kind || strcmp(kind, "allocations") == 0)
        count += sim_memory_count(NULL);
    if (!kind || strcmp(kind, "contexts") == 0)
        count += sim_contexts_retained();
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
        for (int j = 0; j < 2 && objects[i].kinds[j]; j++)
            if (!kind || strcmp(kind, objects[i].name) == 0)
                count += sim_object_count(objects[i].kinds[j], NULL);
    sim_unlock();
    return count;
}
