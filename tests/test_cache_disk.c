/* test_cache_disk.c: kernels that outlive the process; those that are compiled again, better.
 * Layer: tests. */
#include "cache/disk.h"
#include "cache_world.h"
#include "core/log.h"
#include "folder.h"

/* ---- Disk ---- */

Test(cache, a_new_process_finds_kernels_on_disk) {
    world w;
    world_init(&w);
    jitc_cached *k[20];
    cr_assert_eq(world_get_many(&w, 1, 20, k), JIT_OK);
    world_release(&w, 20, k);
    world_restart(&w);
    cr_assert_eq(world_get_many(&w, 1, 20, k), JIT_OK);
    world_release(&w, 20, k);
    cr_expect_eq(world_compiled(&w), 20);
    jitc_cache_stats s = jitc_cache_read_stats(w.cache);
    cr_expect(s.disk_hits == 20 && s.kernels_compiled == 0 && s.memory_hits == 0);
    world_finish(&w);
}

Test(cache, another_target_or_a_level_that_the_user_chose_is_another_kernel) {
    world w;
    world_init(&w);
    world_use(&w, 1);
    strcat(w.fake.target[0].text, "+");
    world_restart(&w);
    world_use(&w, 1);
    cr_expect_eq(world_compiled(&w), 2);
    w.options.llvm_level = 3;
    world_use(&w, 1);
    cr_expect_eq(world_compiled(&w), 3);
    cr_expect_eq(jitc_load_relaxed(&w.fake.last_level), 3);
    cr_expect_eq(folder_count(w.folder), 3);
    world_finish(&w);
}

Test(cache, the_disk_can_be_left_out) {
    world w;
    world_init(&w);
    w.options.cache_disk = false;
    world_use(&w, 1);
    cr_expect_eq(folder_count(w.folder), 0);
    world_finish(&w);
}

Test(cache, an_entry_on_disk_that_does_not_load_is_compiled_again_without_an_error) {
    world w;
    world_init(&w);
    world_use(&w, 1);
    world_restart(&w);
    /* the first load is that of the entry on disk, the second that of fresh code: both fail */
    jitc_store_relaxed(&w.fake.fail_loads, 1);
    cr_expect_null(world_get(&w, 1));
    cr_expect_eq(jit_error_status(), JIT_COMPILE_FAILED);
    jit_error_clear();
    cr_expect_eq(folder_count(w.folder), 0); /* it was dropped */
    jitc_store_relaxed(&w.fake.fail_loads, 0);
    world_use(&w, 1);
    cr_expect_eq(jit_error_status(), JIT_OK);
    world_finish(&w);
}

/* The same, but the file is a valid one with wrong code in it. */
Test(cache, wrong_code_in_a_valid_file_is_replaced) {
    world w;
    world_init(&w);
    world_use(&w, 1);
    /* Swap the code in the backend's hands: its code for a program now differs from the file. */
    world_restart(&w);
    jitc_cached *k = world_get(&w, 1);
    jitc_hash key;
    jitc_program p;
    program_make(&p, 1, 10);
    key = jitc_program_hash(
        &p,
        jitc_hash_bytes(w.fake.target[0].text, strlen(w.fake.target[0].text), (uint64_t) -1).lo);
    int64_t level = -1;
    size_t text = strlen(w.fake.target[0].text);
    char description[1024];
    memcpy(description, &level, 8);
    memcpy(description + 8, &p.head, sizeof p.head);
    memcpy(description + 8 + sizeof p.head, w.fake.target[0].text, text);
    memcpy(description + 8 + sizeof p.head + text, p.inst, fake_code_bytes(&p));
    jitc_blob what = {description, 8 + sizeof p.head + text + fake_code_bytes(&p)};
    jitc_disk *d;
    jitc_disk_item item;
    cr_assert_eq(jitc_disk_open(w.folder, 1 << 20, &d), JIT_OK);
    cr_assert(jitc_disk_get(d, key, &what, &item));
    ((char *) item.code.data)[20] ^= 1;
    jitc_disk_put(d, key, &what, &item);
    free(item.code.data);
    jitc_cache_release(w.cache, k);
    world_restart(&w);
    world_use(&w, 1);
    cr_expect_eq(jit_error_status(), JIT_OK);
    cr_expect_eq(world_compiled(&w), 2);
    cr_assert(jitc_disk_get(d, key, &what, &item));
    cr_expect(fake_is_code_of(&item.code, &p));
    free(item.code.data);
    jitc_program_finish(&p);
    jitc_disk_close(d);
    world_finish(&w);
}

/* ---- Levels ---- */

Test(cache, a_hot_kernel_is_compiled_again_once_and_a_new_process_gets_the_better_code) {
    world w;
    world_init(&w);
    jitc_cached *k = world_get(&w, 1);
    cr_expect_eq(k->kernel->level, 0);
    world_work(&w, k, 1000);
    for (int i = 0; i < 10; i++)
        world_work(&w, k, UINT64_C(1000000000));
    cr_assert(world_recompiled(&w, 1));
    cr_expect_eq(k->kernel->level, 2);
    world_work(&w, k, UINT64_C(1000000000));
    jitc_cache_release(w.cache, k);
    world_restart(&w); /* after the background thread has ended */
    cr_expect_eq(world_compiled(&w), 2);
    cr_expect_eq(jitc_load_relaxed(&w.fake.reloaded), 1);
    k = world_get(&w, 1);
    cr_expect_eq(k->kernel->level, 2);
    for (int i = 0; i < 10; i++)
        world_work(&w, k, UINT64_C(1000000000));
    jitc_cache_release(w.cache, k);
    world_restart(&w);
    cr_expect_eq(world_compiled(&w), 2);
    world_finish(&w);
}

Test(cache, quick_code_from_disk_becomes_hot_too) {
    world w;
    world_init(&w);
    world_use(&w, 1);
    world_restart(&w);
    jitc_cached *k = world_get(&w, 1);
    cr_expect_eq(k->kernel->level, 0);
    world_work(&w, k, UINT64_C(1000000000));
    cr_assert(world_recompiled(&w, 1));
    jitc_cache_release(w.cache, k);
    world_finish(&w);
}

Test(cache, backends_without_levels_get_good_code_at_once) {
    world w;
    world_init(&w);
    w.fake.head.levels = 0;
    jitc_cached *k = world_get(&w, 2);
    cr_expect_eq(k->kernel->level, 2);
    world_work(&w, k, UINT64_C(1000000000));
    jitc_cache_release(w.cache, k);
    world_restart(&w);
    cr_expect_eq(world_compiled(&w), 1);
    world_finish(&w);
}

Test(cache, very_long_programs_stay_as_quickly_compiled) {
    world w;
    world_init(&w);
    jitc_cached *k = world_get_on(&w, 0, 1, 7000);
    cr_expect_eq(k->kernel->level, 0);
    world_work(&w, k, UINT64_C(1000000000000));
    jitc_cache_release(w.cache, k);
    world_restart(&w);
    cr_expect_eq(world_compiled(&w), 1);
    world_finish(&w);
}

Test(cache, a_level_that_the_user_chose_stays) {
    world w;
    world_init(&w);
    w.options.llvm_level = 0;
    jitc_cached *k = world_get_on(&w, 0, 1, 4000);
    cr_expect_eq(k->kernel->level, 0);
    world_work(&w, k, UINT64_C(1000000000));
    jitc_cache_release(w.cache, k);
    world_restart(&w);
    cr_expect_eq(world_compiled(&w), 1);
    world_finish(&w);
}

Test(cache, a_failed_recompilation_leaves_the_kernel_and_no_error) {
    world w;
    world_init(&w);
    jitc_log_set(NULL, NULL, JITC_LOG_ERROR);
    jitc_cached *k = world_get(&w, 1);
    jitc_store_relaxed(&w.fake.fail_count, 1);
    world_work(&w, k, UINT64_C(1000000000));
    cr_assert(fake_reaches(&w.fake.compiled, 2));
    world_work(&w, k, UINT64_C(1000000000));
    cr_expect_eq(k->kernel->level, 0);
    cr_expect_eq(jit_error_status(), JIT_OK);
    jitc_cache_release(w.cache, k);
    world_restart(&w);
    cr_expect_eq(world_compiled(&w), 2);
    world_finish(&w);
}

Test(cache, destroy_drops_recompilations_that_wait) {
    world w;
    world_init(&w);
    jitc_cached *k[64];
    cr_assert_eq(world_get_many(&w, 1, 64, k), JIT_OK);
    jitc_store_relaxed(&w.fake.hold, true);
    for (int i = 0; i < 64; i++)
        world_work(&w, k[i], UINT64_C(1000000000));
    world_release(&w, 64, k);
    cr_assert(fake_reaches(&w.fake.compiled, 65)); /* the first is running */
    jitc_store_relaxed(&w.fake.hold, false);
    jitc_store_relaxed(&w.fake.pause_us, 100000);
    world_restart(&w);
    cr_expect_lt(world_compiled(&w), 64 + 32);
    world_finish(&w);
}
