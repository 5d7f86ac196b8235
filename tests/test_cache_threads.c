/* test_cache_threads.c: threads and forked children that use one kernel cache.
 * Layer: tests. */
#include "cache_world.h"
#include "sanitizer.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Threads ---- */

enum { THREADS = 8 };

typedef struct job {
    world *world;
    pthread_t thread;
    uint32_t first, count;
    jitc_cached *kernel[64];
    jit_status status;
    jitc_error error;
} job;

static void *run_job(void *context) {
    job *j = context;
    j->status = world_get_many(j->world, j->first, j->count, j->kernel);
    jitc_error_take(&j->error);
    return NULL;
}

static void start(job *j, world *w, uint32_t first, uint32_t count) {
    *j = (job) {.world = w, .first = first, .count = count};
    cr_assert_eq(pthread_create(&j->thread, NULL, run_job, j), 0);
}

Test(cache, threads_that_need_the_same_kernel_compile_it_once) {
    world w;
    world_init(&w);
    job j[THREADS];
    for (uint32_t round = 1; round <= 20; round++) {
        jitc_store_relaxed(&w.fake.pause_us, round % 2 ? 2000 : 0);
        for (int i = 0; i < THREADS; i++)
            start(&j[i], &w, round, 1);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(j[i].thread, NULL);
            cr_assert_eq(j[i].status, JIT_OK);
            cr_assert_eq(j[i].kernel[0], j[0].kernel[0]);
        }
        cr_assert_eq(world_compiled(&w), (int) round);
        for (int i = 0; i < THREADS; i++)
            jitc_cache_release(w.cache, j[i].kernel[0]);
    }
    world_finish(&w);
}

Test(cache, a_failure_reaches_every_thread_that_waits_for_it) {
    world w;
    world_init(&w);
    job j[THREADS];
    jitc_store_relaxed(&w.fake.hold, true);
    jitc_store_relaxed(&w.fake.fail_count, 1);
    for (int i = 0; i < THREADS; i++)
        start(&j[i], &w, 1, 1);
    cr_assert(fake_reaches(&w.fake.compiled, 1));
    fake_sleep_us(100000); /* let the others come; one that is late compiles by itself */
    jitc_store_relaxed(&w.fake.hold, false);
    int failed = 0, good = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(j[i].thread, NULL);
        if (j[i].status == JIT_OK) {
            jitc_cache_release(w.cache, j[i].kernel[0]);
            good++;
        } else {
            cr_expect_eq(j[i].error.status, JIT_COMPILE_FAILED);
            cr_expect_str_eq(j[i].error.text, "told to fail in compilation 0");
            failed++;
        }
    }
    cr_expect_gt(failed, 1);
    cr_expect_eq(world_compiled(&w), good ? 2 : 1);
    world_use(&w, 1);
    world_finish(&w);
}

Test(cache, calls_that_overlap_crosswise_do_not_wait_in_a_circle) {
    world w;
    world_init(&w);
    job j[THREADS];
    for (uint32_t round = 0; round < 30; round++) {
        for (uint32_t i = 0; i < THREADS; i++)
            start(&j[i], &w, 1 + round * 100 + i, 20);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(j[i].thread, NULL);
            cr_assert_eq(j[i].status, JIT_OK);
            world_release(&w, 20, j[i].kernel);
        }
        cr_assert_eq(world_compiled(&w), (int) (round + 1) * (20 + THREADS - 1));
    }
    world_finish(&w);
}

Test(cache, misses_of_one_call_compile_side_by_side_on_as_many_threads_as_allowed) {
    world w;
    world_init(&w);
    w.options.num_threads = 4;
    jitc_store_relaxed(&w.fake.meet, 4);
    jitc_cached *k[64];
    cr_assert_eq(world_get_many(&w, 1, 64, k), JIT_OK);
    cr_expect_eq(jitc_load_relaxed(&w.fake.most_at_once), 4);
    cr_expect_eq(world_compiled(&w), 64);
    world_release(&w, 64, k);
    world_finish(&w);
}

Test(cache, one_thread_compiles_alone_if_that_is_what_is_allowed) {
    world w;
    world_init(&w);
    jitc_cached *k[8];
    jitc_store_relaxed(&w.fake.pause_us, 1000);
    cr_assert_eq(world_get_many(&w, 1, 8, k), JIT_OK);
    cr_expect_eq(jitc_load_relaxed(&w.fake.most_at_once), 1);
    world_release(&w, 8, k);
    world_finish(&w);
}

typedef struct user {
    world *world;
    pthread_t thread;
    uint32_t seed;
} user;

static void *use_randomly(void *context) {
    user *u = context;
    uint32_t random = u->seed;
    jitc_cached *held[4] = {0};
    for (int i = 0; i < 3000; i++) {
        random = random * 1664525 + 1013904223;
        jitc_cached **k = &held[random >> 30];
        if (*k) {
            jitc_add_relaxed(&(*k)->kernel->work, UINT64_C(60000000));
            jitc_cache_hot(u->world->cache, *k);
            jitc_cache_release(u->world->cache, *k);
        }
        *k = NULL;
        jitc_program p;
        const jitc_program *programs = &p;
        program_make(&p, 1 + (random >> 8) % 40, 10);
        cr_assert_eq(jitc_cache_get(u->world->cache, &u->world->fake.head, (int) (random >> 20) % 2,
                                    1, &programs, k),
                     JIT_OK);
        cr_assert(jitc_program_equal((*k)->program, &p));
        jitc_program_finish(&p);
        if (random % 512 == 0)
            jitc_cache_clear(u->world->cache);
    }
    for (int i = 0; i < 4; i++)
        if (held[i])
            jitc_cache_release(u->world->cache, held[i]);
    return NULL;
}

Test(cache, kernels_come_and_go_under_many_threads) {
    world w;
    world_init(&w);
    w.options.cache_disk = false;
    w.options.cache_entries = 20;
    user u[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        u[i] = (user) {.world = &w, .seed = i};
        pthread_create(&u[i].thread, NULL, use_randomly, &u[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(u[i].thread, NULL);
    cr_expect_gt(jitc_load_relaxed(&w.fake.destroyed), 100);
    world_finish(&w);
}

/* ---- Fork ---- */

static int exit_code_of(pid_t child) {
    int status = 0;
    for (int i = 0; i < 200000; i++) {
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        fake_sleep_us(100);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return -1;
}

static int use_in_child(world *w, uint32_t *numbers, int count) {
    jitc_cache_forked(w->cache);
    jitc_store_relaxed(&w->fake.hold, false);
    for (int i = 0; i < count; i++)
        world_use(w, numbers[i]);
    jitc_cached *k = world_get(w, numbers[0]);
    uint64_t before = jitc_cache_read_stats(w->cache).kernels_recompiled;
    world_work(w, k, UINT64_C(1000000000));
    bool again = world_recompiled(w, before + 1);
    jitc_cache_release(w->cache, k);
    jitc_cache_destroy(w->cache);
    return again ? 0 : 3;
}

Test(cache, a_forked_child_builds_what_the_parents_threads_were_building) {
    world w;
    world_init(&w);
    world_use(&w, 1);
    jitc_cached *hot = world_get(&w, 5);
    jitc_store_relaxed(&w.fake.hold, true);
    world_work(&w, hot, UINT64_C(1000000000)); /* the background thread exists, and is busy */
    job j;
    start(&j, &w, 2, 1);
    cr_assert(fake_reaches(&w.fake.compiled, 4));
    jitc_cache_fork_hold(w.cache);
    pid_t child = fork();
    if (child == 0)
        _exit(use_in_child(&w, (uint32_t[]) {1, 2, 3}, 3));
    jitc_cache_fork_release(w.cache);
    cr_expect_eq(exit_code_of(child), 0);
    jitc_store_relaxed(&w.fake.hold, false);
    pthread_join(j.thread, NULL);
    cr_expect_eq(j.status, JIT_OK);
    world_release(&w, 1, j.kernel);
    jitc_cache_release(w.cache, hot);
    world_finish(&w);
}

#if !JITC_HAS_ASAN /* sanitizer.h says why */
typedef struct churn {
    world *world;
    atomic_bool stop;
} churn;

static void *use_until_stopped(void *context) {
    churn *c = context;
    for (uint32_t i = 1; !jitc_load_relaxed(&c->stop); i++)
        world_use(c->world, 10 + i % 50);
    return NULL;
}

/* Entries are being made and unmade, in memory and in the background. */
Test(cache, a_child_forked_at_any_moment_works) {
    world w;
    world_init(&w);
    w.options.cache_disk = false;
    w.options.cache_entries = 16;
    churn c = {.world = &w};
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, use_until_stopped, &c);
    for (int i = 0; i < 40; i++) {
        jitc_cache_fork_hold(w.cache);
        pid_t child = fork();
        if (child == 0)
            _exit(use_in_child(&w, (uint32_t[]) {1, 11, 12}, 3));
        jitc_cache_fork_release(w.cache);
        cr_expect_eq(exit_code_of(child), 0);
    }
    jitc_store_relaxed(&c.stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    world_finish(&w);
}
#endif
