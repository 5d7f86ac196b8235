/* cache_world.h: a kernel cache with its folder and a fake backend, and programs for it.
 * Layer: tests.  May include: core, ir, device, codegen, cache. */
#ifndef JITC_TESTS_CACHE_WORLD_H
#define JITC_TESTS_CACHE_WORLD_H
#include "cache/cache.h"
#include "fake_backend.h"
#include <criterion/criterion.h>

typedef struct world {
    fake fake;
    jitc_options options;
    jitc_cache *cache;
    char folder[256];
} world;

void world_init(world *w);
/** A new process, as far as the cache can tell. */
void world_restart(world *w);
/** Destroys the cache; expects that no source and no kernel is left. */
void world_finish(world *w);

/** Make program `number`, of `count` instructions; jitc_program_finish(). */
void program_make(jitc_program *p, uint32_t number, uint32_t count);
/** Get it; NULL if that failed. */
jitc_cached *world_get_on(world *w, int device, uint32_t number, uint32_t count);
/** The same, of 10 instructions on device 0. */
jitc_cached *world_get(world *w, uint32_t number);
/** Get and give back. */
void world_use(world *w, uint32_t number);
/** Get programs first ... first + count - 1 (at most 64) in one call. */
jit_status world_get_many(world *w, uint32_t first, size_t count, jitc_cached **out);
void world_release(world *w, size_t count, jitc_cached **k);
/** As if a launch of so much work had ended. */
void world_work(world *w, jitc_cached *k, uint64_t amount);

/** Number of compilations so far. */
int world_compiled(world *w);
/** Wait, within reason, for so many recompilations. */
bool world_recompiled(world *w, uint64_t value);
#endif
