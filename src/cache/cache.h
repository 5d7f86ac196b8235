/* cache.h: programs to kernels: memory, then disk, then the compiler.
 * Layer: cache.  May include: core, ir, device, codegen.
 *
 * Any thread may call any function, under no lock of the runtime. A kernel is compiled once however
 * many threads ask for it at the same time; the kernels that one call misses are compiled side by
 * side. With the option llvm_level = -1 code is generated quickly first, and again, better, by a
 * thread in the background once a kernel has done enough work to be worth it. */
#ifndef JITC_CACHE_CACHE_H
#define JITC_CACHE_CACHE_H
#include "device/backend.h"

typedef struct jitc_cache jitc_cache;

/** One kernel of the cache, counted. The holder of a reference may launch `kernel`. */
typedef struct jitc_cached {
    jitc_kernel *kernel;
    const jitc_program *program; /* the cache's own copy */
    _Atomic uint64_t hot_at;     /* private: kernel->work from which to recompile */
} jitc_cached;

typedef struct jitc_cache_stats {
    uint64_t kernels_compiled;   /* because a program was found nowhere */
    uint64_t kernels_recompiled; /* because a kernel was hot */
    uint64_t memory_hits, disk_hits;
    size_t kernels; /* in memory now */
} jitc_cache_stats;

/** An empty cache. `o` is borrowed and read at every miss; the folder on disk is opened by the
 * first one. JIT_OUT_OF_MEMORY. */
jit_status jitc_cache_create(const jitc_options *o, jitc_cache **out);
/** Destroys all kernels; every reference has been given back and no call is running. Waits for a
 *  recompilation that is running, not for those that are waiting. */
void jitc_cache_destroy(jitc_cache *c);
/** The kernels of `n` programs for a device, all or none, in out[0 ... n-1], a new reference each.
 * A hit allocates nothing. A failure is not remembered: the next call tries again. Errors of the
 *  backend's lower, compile and load; JIT_OUT_OF_MEMORY. */
jit_status jitc_cache_get(jitc_cache *c, jitc_backend *b, int device, size_t n,
                          const jitc_program *const *programs, jitc_cached **out);
/** Give a reference back. Launches may still be in flight: the backend's kernel_destroy waits. */
void jitc_cache_release(jitc_cache *c, jitc_cached *k);
/** Forget all kernels in memory; those in use live until they are released. */
jit_status jitc_cache_clear(jitc_cache *c);
jitc_cache_stats jitc_cache_read_stats(jitc_cache *c);
/** Before fork(): no other thread is changing anything. */
void jitc_cache_fork_hold(jitc_cache *c);
void jitc_cache_fork_release(jitc_cache *c);
/** After it, in the child, instead of releasing: what the parent's other threads were building is
 * nobody's work there, and will be built anew when it is asked for. */
void jitc_cache_forked(jitc_cache *c);

/** Have a kernel compiled again in the background. Called by jitc_cache_hot. */
void jitc_cache_recompile(jitc_cache *c, jitc_cached *k);
/** After each launch, by a holder of a reference: recompile the kernel if it has become hot. */
static inline void jitc_cache_hot(jitc_cache *c, jitc_cached *k) {
    if (__builtin_expect(jitc_load_relaxed(&k->kernel->work) >= jitc_load_relaxed(&k->hot_at), 0))
        jitc_cache_recompile(c, k);
}
#endif
