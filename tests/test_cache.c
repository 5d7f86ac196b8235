/* test_cache.c: what the kernel cache compiles, and how often; its failures.
 * Layer: tests. */
#include "cache_world.h"
#include "folder.h"
#include <stdio.h>

/* ---- Memory ---- */

Test(cache, a_second_get_compiles_nothing_and_gives_the_same_kernel) {
    world w;
    world_init(&w);
    jitc_cached *a = world_get(&w, 1), *b = world_get(&w, 1), *c = world_get(&w, 2);
    cr_expect_eq(a, b);
    cr_expect_neq(a, c);
    cr_expect_eq(world_compiled(&w), 2);
    jitc_cache_stats s = jitc_cache_read_stats(w.cache);
    cr_expect(s.kernels_compiled == 2 && s.memory_hits == 1 && s.disk_hits == 0 && s.kernels == 2);
    world_release(&w, 3, (jitc_cached *[]) {a, b, c});
    world_finish(&w);
}

Test(cache, programs_that_differ_in_one_byte_are_different_kernels) {
    world w;
    world_init(&w);
    jitc_program p;
    const jitc_program *programs = &p;
    jitc_cached *k;
    program_make(&p, 1, 3);
    unsigned char *part[] = {(unsigned char *) p.inst, (unsigned char *) &p.head.params};
    size_t size[] = {3 * sizeof *p.inst, sizeof p.head - 4};
    int n = 0;
    for (int i = 0; i < 2; i++)
        for (size_t j = 0; j < size[i]; j++, n++) {
            part[i][j] ^= 0x40;
            cr_assert_eq(jitc_cache_get(w.cache, &w.fake.head, 0, 1, &programs, &k), JIT_OK);
            cr_assert_eq(world_compiled(&w), n + 1);
            jitc_cache_release(w.cache, k);
            part[i][j] ^= 0x40;
        }
    jitc_program_finish(&p);
    world_finish(&w);
}

Test(cache, devices_and_backends_do_not_share_kernels_in_memory) {
    world w;
    fake other;
    world_init(&w);
    fake_init(&other);
    jitc_cached *a = world_get_on(&w, 0, 1, 10), *b = world_get_on(&w, 1, 1, 10);
    cr_expect_neq(a, b);
    cr_expect_eq(world_compiled(&w), 1); /* the second came from disk: the target is the same */
    jitc_program p;
    const jitc_program *programs = &p;
    jitc_cached *c;
    program_make(&p, 1, 10);
    cr_assert_eq(jitc_cache_get(w.cache, &other.head, 0, 1, &programs, &c), JIT_OK);
    cr_expect(c != a && c != b);
    jitc_program_finish(&p);
    world_release(&w, 3, (jitc_cached *[]) {a, b, c});
    world_finish(&w);
}

Test(cache, a_call_takes_hits_and_misses_and_repetitions_together) {
    world w;
    world_init(&w);
    world_use(&w, 3);
    jitc_program p[3];
    jitc_cached *k[6];
    for (uint32_t i = 0; i < 3; i++)
        program_make(&p[i], i + 2, 10);
    const jitc_program *programs[6] = {&p[0], &p[1], &p[0], &p[2], &p[2], &p[1]};
    cr_assert_eq(jitc_cache_get(w.cache, &w.fake.head, 0, 6, programs, k), JIT_OK);
    cr_expect_eq(world_compiled(&w), 3);
    cr_expect(k[0] == k[2] && k[3] == k[4] && k[1] == k[5]);
    for (int i = 0; i < 6; i++)
        cr_expect(jitc_program_equal(k[i]->program, programs[i]));
    world_release(&w, 6, k);
    cr_expect_eq(jitc_cache_get(w.cache, &w.fake.head, 0, 0, NULL, NULL), JIT_OK);
    for (uint32_t i = 0; i < 3; i++)
        jitc_program_finish(&p[i]);
    world_finish(&w);
}

Test(cache, thousands_of_kernels_are_all_found_again) {
    world w;
    world_init(&w);
    w.options.cache_disk = false;
    w.options.cache_entries = 5000;
    for (uint32_t i = 1; i <= 5000; i++)
        world_use(&w, i);
    for (uint32_t i = 5000; i >= 1; i--)
        world_use(&w, i);
    cr_expect_eq(world_compiled(&w), 5000);
    cr_expect_eq(jitc_cache_read_stats(w.cache).kernels, 5000);
    world_finish(&w);
}

Test(cache, unused_kernels_go_when_there_are_too_many) {
    world w;
    world_init(&w);
    w.options.cache_disk = false;
    w.options.cache_entries = 16;
    jitc_cached *kept = world_get(&w, 1);
    for (uint32_t i = 2; i < 200; i++) {
        world_use(&w, i);
        cr_assert_leq(jitc_cache_read_stats(w.cache).kernels, 16);
    }
    cr_expect_eq(jitc_load_relaxed(&w.fake.destroyed), 199 - 16);
    int before = world_compiled(&w);
    cr_expect_eq(world_get(&w, 1), kept); /* in use, so it could not go */
    cr_expect_eq(world_compiled(&w), before);
    world_use(&w, 2);
    cr_expect_eq(world_compiled(&w), before + 1);
    world_release(&w, 2, (jitc_cached *[]) {kept, kept});
    world_finish(&w);
}

Test(cache, kernels_used_again_outlive_those_used_once) {
    world w;
    world_init(&w);
    w.options.cache_disk = false;
    w.options.cache_entries = 32;
    for (uint32_t i = 1; i < 1000; i++) {
        world_use(&w, i + 10);
        for (uint32_t j = 1; j <= 8; j++)
            world_use(&w, j);
    }
    /* What is dropped lets others move up, so the hand of the clock may meet one twice. Were the
     * oldest dropped instead, there would be 200 more. */
    cr_expect_leq(world_compiled(&w), 999 + 8 + 8);
    world_finish(&w);
}

Test(cache, kernels_in_use_may_exceed_the_limit) {
    world w;
    world_init(&w);
    w.options.cache_entries = 4;
    jitc_cached *k[64];
    cr_assert_eq(world_get_many(&w, 1, 64, k), JIT_OK);
    cr_expect_eq(jitc_load_relaxed(&w.fake.destroyed), 0);
    world_release(&w, 64, k);
    world_use(&w, 100);
    cr_expect_leq(jitc_cache_read_stats(w.cache).kernels, 4);
    world_finish(&w);
}

Test(cache, clear_forgets_all_but_leaves_what_is_in_use_alive) {
    world w;
    world_init(&w);
    w.options.cache_disk = false;
    jitc_cached *k = world_get(&w, 1);
    world_use(&w, 2);
    cr_assert_eq(jitc_cache_clear(w.cache), JIT_OK);
    cr_expect_eq(jitc_load_relaxed(&w.fake.destroyed), 1);
    cr_expect_eq(jitc_cache_read_stats(w.cache).kernels, 0);
    cr_expect_eq(k->program->inst[0].a, 1);
    jitc_cached *again = world_get(&w, 1);
    cr_expect_neq(again, k);
    cr_expect_eq(world_compiled(&w), 3);
    jitc_cache_release(w.cache, k);
    cr_expect_eq(jitc_load_relaxed(&w.fake.destroyed), 2);
    jitc_cache_release(w.cache, again);
    world_finish(&w);
}

/* ---- Failure ---- */

Test(cache, a_failure_is_reported_and_not_remembered) {
    world w;
    world_init(&w);
    jitc_store_relaxed(&w.fake.fail_count, 1);
    cr_expect_null(world_get(&w, 1));
    cr_expect_eq(jit_error_status(), JIT_COMPILE_FAILED);
    cr_expect(strstr(jit_error(), "told to fail"), "%s", jit_error());
    jit_error_clear();
    world_use(&w, 1);
    cr_expect_eq(world_compiled(&w), 2);
    world_finish(&w);
}

Test(cache, one_failure_of_many_gives_none_and_keeps_the_others) {
    world w;
    world_init(&w);
    w.options.num_threads = 4;
    jitc_store_relaxed(&w.fake.fail_op, 7);
    jitc_cached *k[10];
    cr_expect_eq(world_get_many(&w, 1, 10, k), JIT_COMPILE_FAILED);
    cr_expect(strstr(jit_error(), "told to fail"));
    jit_error_clear();
    for (int i = 0; i < 10; i++)
        cr_expect_null(k[i]);
    jitc_store_relaxed(&w.fake.fail_op, 0);
    int before = world_compiled(&w);
    cr_assert_eq(world_get_many(&w, 1, 10, k), JIT_OK);
    cr_expect_eq(world_compiled(&w), before + 1);
    world_release(&w, 10, k);
    cr_assert_eq(jitc_cache_clear(w.cache), JIT_OK);
    cr_expect_eq(jitc_load_relaxed(&w.fake.destroyed), 10); /* no reference was lost */
    world_finish(&w);
}

Test(cache, an_earlier_error_of_the_thread_stays_the_first) {
    world w;
    world_init(&w);
    jitc_fail(JIT_SIZE_MISMATCH, "before");
    world_use(&w, 1);
    cr_expect_str_eq(jit_error(), "before");
    jitc_store_relaxed(&w.fake.fail_count, 1);
    jitc_program p;
    const jitc_program *programs = &p;
    jitc_cached *k;
    program_make(&p, 2, 10);
    cr_expect_eq(jitc_cache_get(w.cache, &w.fake.head, 0, 1, &programs, &k), JIT_COMPILE_FAILED);
    cr_expect_str_eq(jit_error(), "before");
    jitc_program_finish(&p);
    jit_error_clear();
    world_finish(&w);
}

Test(cache, code_that_does_not_load_is_an_error_when_fresh) {
    world w;
    world_init(&w);
    jitc_store_relaxed(&w.fake.fail_loads, 1);
    cr_expect_null(world_get(&w, 1));
    cr_expect_eq(jit_error_status(), JIT_COMPILE_FAILED);
    jit_error_clear();
    cr_expect_eq(folder_count(w.folder), 0);
    world_finish(&w);
}

/* ---- Code generation ---- */

static size_t captured(world *w, uint32_t number, char *text, size_t room) {
    char path[300];
    snprintf(path, sizeof path, "%s-stderr", w->folder);
    fflush(stderr);
    int before = dup(2), file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    dup2(file, 2);
    world_use(w, number);
    fflush(stderr);
    dup2(before, 2);
    ssize_t n = pread(file, text, room - 1, 0);
    text[n > 0 ? n : 0] = 0;
    close(before);
    close(file);
    unlink(path);
    return strlen(text);
}

Test(codegen, dump_prints_source_and_code_also_of_kernels_on_disk) {
    world w;
    char text[8192];
    world_init(&w);
    cr_expect_eq(captured(&w, 1, text, sizeof text), 0);
    strcpy(w.options.dump, "g");
    captured(&w, 2, text, sizeof text);
    cr_expect(strstr(text, "source of 10 instructions") && !strstr(text, "code of"), "%s", text);
    strcpy(w.options.dump, "tks");
    captured(&w, 3, text, sizeof text);
    cr_expect(strstr(text, "code of 10") && !strstr(text, "source of"), "%s", text);
    world_restart(&w);
    strcpy(w.options.dump, "gk");
    captured(&w, 1, text, sizeof text);
    cr_expect(strstr(text, "source of") && strstr(text, "code of"), "%s", text);
    cr_expect_eq(world_compiled(&w), 3);
    cr_expect_eq(captured(&w, 1, text, sizeof text), 0); /* in memory: nothing is made */
    world_finish(&w);
}
