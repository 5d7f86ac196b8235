/* cache_world.c: see cache_world.h.  Layer: tests. */
#include "cache_world.h"
#include "folder.h"

void program_make(jitc_program *p, uint32_t number, uint32_t count) {
    *p = (jitc_program) {.head = {.params = 2}};
    jitc_inst first = {.op = JITC_OP_data, .type = JIT_f32, .a = number, .b = number};
    uint32_t index;
    cr_assert_eq(jitc_program_add(p, first, &index), JIT_OK);
    for (uint32_t i = 1; i < count; i++)
        cr_assert_eq(
            jitc_program_add(
                p,
                (jitc_inst) {.op = JITC_OP_add, .type = JIT_f32, .a = i - 1, .b = i * number % i},
                &index),
            JIT_OK);
}

static void world_open(world *w) {
    w->options = (jitc_options) {.cache_disk = true,
                                 .cache_limit = 1 << 28,
                                 .cache_entries = 1000,
                                 .llvm_level = -1,
                                 .num_threads = 1};
    snprintf(w->options.cache_dir, sizeof w->options.cache_dir, "%s", w->folder);
    cr_assert_eq(jitc_cache_create(&w->options, &w->cache), JIT_OK);
}

void world_init(world *w) {
    fake_init(&w->fake);
    folder_make(w->folder);
    world_open(w);
}

void world_restart(world *w) {
    jitc_cache_destroy(w->cache);
    world_open(w);
}

void world_finish(world *w) {
    jitc_cache_destroy(w->cache);
    folder_remove(w->folder);
    cr_expect_eq(jitc_load_relaxed(&w->fake.sources), 0, "sources left");
    cr_expect_eq(jitc_load_relaxed(&w->fake.loaded), jitc_load_relaxed(&w->fake.destroyed),
                 "kernels left");
}

jitc_cached *world_get_on(world *w, int device, uint32_t number, uint32_t count) {
    jitc_program p;
    const jitc_program *programs = &p;
    jitc_cached *k = NULL;
    program_make(&p, number, count);
    if (jitc_cache_get(w->cache, &w->fake.head, device, 1, &programs, &k) == JIT_OK)
        cr_assert(jitc_program_equal(k->program, &p) &&
                  fake_is_code_of(&((fake_kernel *) k->kernel)->code, &p));
    else
        cr_assert_null(k);
    jitc_program_finish(&p);
    return k;
}

jitc_cached *world_get(world *w, uint32_t number) {
    return world_get_on(w, 0, number, 10);
}

void world_use(world *w, uint32_t number) {
    jitc_cached *k = world_get(w, number);
    cr_assert(k, "%s", jit_error());
    jitc_cache_release(w->cache, k);
}

int world_compiled(world *w) {
    return jitc_load_relaxed(&w->fake.compiled);
}

jit_status world_get_many(world *w, uint32_t first, size_t count, jitc_cached **out) {
    jitc_program p[64];
    const jitc_program *programs[64] = {0};
    for (size_t i = 0; i < count; i++) {
        program_make(&p[i], first + (uint32_t) i, 10);
        programs[i] = &p[i];
    }
    jit_status status = jitc_cache_get(w->cache, &w->fake.head, 0, count, programs, out);
    for (size_t i = 0; i < count; i++) {
        if (status == JIT_OK)
            cr_assert(jitc_program_equal(out[i]->program, &p[i]));
        jitc_program_finish(&p[i]);
    }
    return status;
}

void world_release(world *w, size_t count, jitc_cached **k) {
    for (size_t i = 0; i < count; i++)
        jitc_cache_release(w->cache, k[i]);
}

bool world_recompiled(world *w, uint64_t value) {
    for (int i = 0; i < 100000 && jitc_cache_read_stats(w->cache).kernels_recompiled < value; i++)
        fake_sleep_us(100);
    return jitc_cache_read_stats(w->cache).kernels_recompiled >= value;
}

void world_work(world *w, jitc_cached *k, uint64_t amount) {
    jitc_add_relaxed(&k->kernel->work, amount);
    jitc_cache_hot(w->cache, k);
}
