/* access.c: loads, stores and atomics of a kernel, and the shared memory of a block.
 *
 * A pointer of a kernel is a device address, reached through the driver, or one into the arena of
 * its block, which is the host's memory. */
#include "access.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STATIC_SHARED = 48 << 10, RED_ZONE = 64, POISON = 0xa5, FENCE = 0xfa };
/* Loads of the same address in a row that make a loop that waits; where nobody else can run, too
 * many of them. */
enum { SPIN = 2, HOPELESS = 100000000 };

static bool in_arena(const sim_block *b, uint64_t address, size_t bytes) {
    uint64_t arena = b ? (uint64_t) (uintptr_t) b->arena : 0;
    return b && address >= arena && address + bytes <= arena + b->arena_used;
}

static const char *const verbs[] = {
    [SIM_READ] = "read", [SIM_WRITE] = "write", [SIM_ATOMIC] = "atomic"};

/* Shared memory, or a fault. */
static void *reach_elsewhere(sim_executor *x, uint64_t address, unsigned bytes, sim_access kind) {
    if (in_arena(x->self->block, address, bytes)) {
        return (void *) (uintptr_t) address;
    }
    char where[256];
    sim_describe(address, where, sizeof where);
    sim_stop(SIM_ILLEGAL_ADDRESS, "%s of %u bytes: %s", verbs[kind], bytes, where);
}

/* A loop that waits, probably: let others run. */
static void spin(sim_executor *x, uint64_t address) {
    if (x->launch->function->waits) {
        sim_pause();
    } else if (x->self->again > HOPELESS) {
        sim_stop(SIM_DEADLOCK, "waits for a change at address %#llx for ever",
                 (unsigned long long) address);
    }
}

static inline void look(sim_executor *x, uint64_t address) {
    sim_fiber *f = x->self;
    if (f->last != address) {
        f->last = address;
        f->again = 0;
    } else if (++f->again >= SPIN) {
        spin(x, address);
    }
}

static inline void *reach(uint64_t address, unsigned bytes, unsigned alignment, sim_access kind) {
    if (address & (alignment - 1)) {
        sim_stop(SIM_MISALIGNED, "%s of %u bytes at %#llx, which is no multiple of %u", verbs[kind],
                 bytes, (unsigned long long) address, alignment);
    }
    void *p = sim_reach_to_access(address, bytes, kind);
    return p ? p : reach_elsewhere(sim_running, address, bytes, kind);
}

void *sim_load(const volatile void *p, unsigned bytes, unsigned alignment) {
    uint64_t address = (uint64_t) (uintptr_t) p;
    look(sim_running, address);
    return reach(address, bytes, alignment, SIM_READ);
}

void *sim_store(const volatile void *p, unsigned bytes, unsigned alignment) {
    sim_executor *x = sim_running;
    x->progress++;
    x->self->last = 0;
    return reach((uint64_t) (uintptr_t) p, bytes, alignment, SIM_WRITE);
}

void *sim_here(void) {
    return &sim_running->self->place;
}

void sim_pause(void) {
    sim_executor *x = sim_running;
    x->spins = true;
    sim_ready(x, x->self);
    sim_suspend(x);
}

void sim_trap(int line) {
    sim_stop(SIM_TRAP, "__trap() in line %d", line);
}

unsigned long long sim_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long long) t.tv_sec * 1000000000 + (unsigned long long) t.tv_nsec;
}

/* ---- Atomics ---- */

/* Before one: others may come first. */
static void *reach_atomic(void *p, unsigned bytes) {
    look(sim_running, (uint64_t) (uintptr_t) p);
    return reach((uint64_t) (uintptr_t) p, bytes, bytes, SIM_ATOMIC);
}

#define ATOMIC(f, T, name, updated) ATOMIC_AS(f, T, T, name, updated)
#define ATOMIC_AS(f, Result, T, name, updated)                                                     \
    Result sim_##f##_##name(T *p, T v) {                                                           \
        T *at = reach_atomic(p, sizeof *p), a, next;                                               \
        __atomic_load(at, &a, __ATOMIC_SEQ_CST);                                                   \
        do {                                                                                       \
            next = (T) (updated);                                                                  \
        } while (                                                                                  \
            !__atomic_compare_exchange(at, &a, &next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)); \
        sim_running->progress += memcmp(&a, &next, sizeof a) != 0;                                 \
        return a;                                                                                  \
    }
#define ATOMIC_WORD(f, updated) ATOMIC_AS(f, uint64_t, unsigned, u32, updated)
#define ATOMIC_32(f, updated)   ATOMIC(f, int, i32, updated) ATOMIC_WORD(f, updated)
#define ATOMIC_U64(f, updated)  ATOMIC(f, unsigned long long, u64, updated)
#define COMPARE_AND_SWAP(Result, T, Operand, name)                                                 \
    Result sim_cas_##name(T *p, Operand expected, Operand value) {                                 \
        T *at = reach_atomic(p, sizeof *p), found = (T) expected;                                  \
        bool done = __atomic_compare_exchange_n(at, &found, (T) value, false, __ATOMIC_SEQ_CST,    \
                                                __ATOMIC_SEQ_CST);                                 \
        sim_running->progress += done && expected != value;                                        \
        return found;                                                                              \
    }
/* clang-format off */
ATOMIC_32(add, a + v)             ATOMIC_U64(add, a + v)
ATOMIC(add, float, f32, a + v)    ATOMIC(add, double, f64, a + v)
ATOMIC_32(sub, a - v)
ATOMIC_32(least, a < v ? a : v)   ATOMIC_U64(least, a < v ? a : v)
ATOMIC_32(most, a < v ? v : a)    ATOMIC_U64(most, a < v ? v : a)
ATOMIC(least, long long, i64, a < v ? a : v)
ATOMIC(most, long long, i64, a < v ? v : a)
ATOMIC_32(and, a & v)             ATOMIC_U64(and, a & v)
ATOMIC_32(or, a | v)              ATOMIC_U64(or, a | v)
ATOMIC_32(xor, a ^ v)             ATOMIC_U64(xor, a ^ v)
ATOMIC_32(swap, v)                ATOMIC_U64(swap, v)
ATOMIC(swap, float, f32, v)
ATOMIC_WORD(inc, a >= v ? 0 : a + 1)
ATOMIC_WORD(dec, a == 0 || a > v ? v : a - 1)
COMPARE_AND_SWAP(int, int, int, i32)
COMPARE_AND_SWAP(uint64_t, unsigned, unsigned, u32)
COMPARE_AND_SWAP(uint64_t, unsigned short, unsigned, u16)
COMPARE_AND_SWAP(unsigned long long, unsigned long long, unsigned long long, u64)
/* clang-format on */
#undef ATOMIC
#undef ATOMIC_AS
#undef ATOMIC_WORD
#undef ATOMIC_32
#undef ATOMIC_U64
#undef COMPARE_AND_SWAP

    /* ---- Shared memory ----
     *
     *   arena │ dynamic │ red zone │ array │ red zone │ array │ red zone │ ...
     *
     * Arrays are placed when the first thread of a block comes to them. */

    size_t sim_arena_bytes(const sim_launch *l) {
    sim_block *b = NULL;
    return l->shared + 16 + STATIC_SHARED + (sizeof b->arrays / sizeof *b->arrays + 1) * RED_ZONE;
}

static char *place_array(sim_block *b, const void *id, size_t bytes) {
    size_t offset = b->arena_used;
    b->arrays[b->array_count++] = (sim_shared_array) {id, offset, bytes};
    size_t rounded = (bytes + 15) / 16 * 16;
    memset(b->arena + offset, POISON, bytes);
    memset(b->arena + offset + bytes, FENCE, rounded - bytes + RED_ZONE);
    b->arena_used += rounded + RED_ZONE;
    return b->arena + offset;
}

void sim_arena_reset(sim_executor *x, sim_block *b) {
    b->arena_used = 0;
    b->array_count = 0;
    place_array(b, NULL, x->launch->shared);
}

void sim_arena_check(sim_executor *x, sim_block *b) {
    for (unsigned i = 0; i < b->array_count; i++) {
        const sim_shared_array *a = &b->arrays[i];
        const char *end = b->arena + a->offset + a->bytes;
        for (size_t k = 0; k < RED_ZONE; k++) {
            if ((unsigned char) end[k] != FENCE) {
                sim_blame(x, NULL, SIM_ILLEGAL_ADDRESS,
                          "block (%u, %u, %u) wrote %zu bytes behind a shared array of %zu bytes",
                          b->index.x, b->index.y, b->index.z, k + 1, a->bytes);
                return;
            }
        }
    }
}

void *sim_shared(const void *id, unsigned long bytes) {
    sim_block *b = sim_running->self->block;
    for (unsigned i = 0; i < b->array_count; i++) {
        if (b->arrays[i].id == id) {
            return b->arena + b->arrays[i].offset;
        }
    }
    size_t end = b->arena_used + bytes + 16 + RED_ZONE;
    if (b->array_count == sizeof b->arrays / sizeof *b->arrays ||
        end > sim_arena_bytes(sim_running->launch)) {
        sim_stop(SIM_TRAP, "more shared memory than a block has");
    }
    return place_array(b, id, bytes);
}
