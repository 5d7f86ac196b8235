/* test_disk_room.c: the kernel cache on disk keeps its limit; several users share its folder.
 * Layer: tests. */
#include "disk_entries.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ---- No room ---- */

Test(disk, a_full_disk_means_not_cached_and_leaves_nothing_behind) {
    char folder[256];
    folder_make(folder);
    if (mount("none", folder, "tmpfs", 0, "size=64k,mode=0700") != 0) {
        rmdir(folder);
        cr_skip_test("cannot mount a small file system: %s", strerror(errno));
    }
    jitc_disk *d = open_disk(folder, plenty);
    unsigned kept = 0;
    for (unsigned i = 0; i < 20; i++) {
        put_sized(d, i, 8000, 0);
        outcome o = get_sized(d, i, 8000, 0);
        cr_expect_neq(o, WRONG);
        kept += o == HIT;
    }
    cr_expect(kept > 2 && kept < 20, "%u", kept);
    cr_expect_eq(folder_count(folder), kept);
    cr_expect_eq(jit_error_status(), JIT_OK);
    jitc_disk_close(d);
    umount(folder);
    rmdir(folder);
}

Test(disk, a_limit_on_file_sizes_does_not_end_the_process) {
    char folder[256];
    folder_make(folder);
    jitc_disk *d = open_disk(folder, plenty);
    struct rlimit before, small = {1000, 1000};
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &small);
    put_sized(d, 1, 8000, 2);
    put(d, 2);
    setrlimit(RLIMIT_FSIZE, &before);
    cr_expect_eq(get_sized(d, 1, 8000, 2), MISS);
    cr_expect_eq(get(d, 2), HIT);
    cr_expect_eq(folder_count(folder), 1);
    jitc_disk_close(d);
    folder_remove(folder);
}

static void add_size(const char *path, void *sum) {
    struct stat st;
    if (stat(path, &st) == 0)
        *(uint64_t *) sum += (uint64_t) (st.st_size + 4095) / 4096 * 4096;
}

Test(disk, the_limit_holds_however_many_processes_and_versions_fill_the_folder) {
    char folder[256], other[300];
    const uint64_t limit = 200 * 4096;
    folder_make(folder);
    jitc_disk *a = open_disk(folder, limit), *b = open_disk(folder, limit);
    snprintf(other, sizeof other, "%s/0123456789abcdef0123456789abcdef-0", folder);
    write_file(other, "another version", 15);
    struct timespec old[2] = {{1000, 0}, {1000, 0}};
    utimensat(AT_FDCWD, other, old, 0);
    snprintf(other, sizeof other, "%s/mine", folder);
    write_file(other, "no entry", 8);
    utimensat(AT_FDCWD, other, old, 0);
    for (unsigned i = 0; i < 600; i++) {
        put(i % 2 ? a : b, i);
        uint64_t sum = 0;
        folder_each(folder, add_size, &sum);
        /* each of the two may fill a sixteenth before it looks again */
        cr_assert_leq(sum, limit + 2 * (limit / 16) + 2 * 4096, "after %u", i);
    }
    cr_expect_eq(get(a, 599), HIT);
    cr_expect_eq(get(a, 0), MISS);
    cr_expect_geq(folder_count(folder), 150);
    cr_expect_eq(access(other, F_OK), 0); /* what is not ours stays */
    snprintf(other, sizeof other, "%s/0123456789abcdef0123456789abcdef-0", folder);
    cr_expect_neq(access(other, F_OK), 0);
    jitc_disk_close(a);
    jitc_disk_close(b);
    folder_remove(folder);
}

Test(disk, an_entry_larger_than_the_limit_is_not_kept) {
    char folder[256];
    folder_make(folder);
    jitc_disk *d = open_disk(folder, 5000);
    put_sized(d, 1, 8000, 2);
    cr_expect_eq(folder_count(folder), 0);
    jitc_disk_close(d);
    d = open_disk(folder, 0);
    put(d, 1);
    cr_expect_eq(folder_count(folder), 0);
    jitc_disk_close(d);
    folder_remove(folder);
}

static void age(const char *path, void *seconds) {
    struct timespec now, then[2];
    clock_gettime(CLOCK_REALTIME, &now);
    then[0] = then[1] = (struct timespec) {now.tv_sec - *(int *) seconds, 0};
    utimensat(AT_FDCWD, path, then, AT_SYMLINK_NOFOLLOW);
}

Test(disk, entries_used_least_recently_go_first) {
    char folder[256];
    folder_make(folder);
    jitc_disk *d = open_disk(folder, plenty);
    for (unsigned i = 0; i < 64; i++)
        put(d, i);
    folder_each(folder, age, &(int) {1000});
    for (unsigned i = 0; i < 64; i += 8)
        cr_expect_eq(get(d, i), HIT); /* 8 of the 64 are in use */
    jitc_disk_close(d);
    d = open_disk(folder, 32 * 4096);
    put(d, 100);
    cr_expect_leq(folder_count(folder), 32);
    for (unsigned i = 0; i < 64; i += 8)
        cr_expect_eq(get(d, i), HIT);
    cr_expect_eq(get(d, 100), HIT);
    jitc_disk_close(d);
    folder_remove(folder);
}

static void take_time(const char *path, void *to) {
    struct stat st;
    if (stat(path, &st) == 0)
        *(struct timespec *) to = st.st_mtim;
}

Test(disk, a_hit_notes_the_time_of_use_but_not_each_time) {
    char folder[256];
    folder_make(folder);
    jitc_disk *d = open_disk(folder, plenty);
    put(d, 1);
    struct timespec before = {0}, after = {0};
    folder_each(folder, age, &(int) {30});
    folder_each(folder, take_time, &before);
    get(d, 1);
    folder_each(folder, take_time, &after);
    cr_expect(before.tv_sec == after.tv_sec && before.tv_nsec == after.tv_nsec);
    folder_each(folder, age, &(int) {90});
    folder_each(folder, take_time, &before);
    get(d, 1);
    folder_each(folder, take_time, &after);
    cr_expect_gt(after.tv_sec, before.tv_sec + 60);
    jitc_disk_close(d);
    folder_remove(folder);
}

Test(disk, what_a_killed_writer_left_is_removed_after_an_hour) {
    char folder[256], young[300], old[300];
    folder_make(folder);
    snprintf(young, sizeof young, "%s/tmp-1-2-3", folder);
    snprintf(old, sizeof old, "%s/tmp-4-5-6", folder);
    write_file(young, "half", 4);
    write_file(old, "half", 4);
    age(young, &(int) {3000});
    age(old, &(int) {4000});
    jitc_disk *d = open_disk(folder, plenty);
    put(d, 1);
    cr_expect_eq(access(young, F_OK), 0);
    cr_expect_neq(access(old, F_OK), 0);
    jitc_disk_close(d);
    folder_remove(folder);
}

/* Beyond 1024 files only some are measured. */
Test(disk, the_limit_holds_in_a_large_folder) {
    char folder[256];
    const uint64_t limit = 3000 * 4096;
    folder_make(folder);
    jitc_disk *d = open_disk(folder, limit);
    for (unsigned i = 0; i < 3600; i++)
        put(d, i);
    jitc_disk_close(d);
    cr_expect_leq(folder_count(folder), 3000 + 300);
    cr_expect_geq(folder_count(folder), 2400);
    folder_remove(folder);
}

/* ---- Several at once ---- */

enum { ENTRIES = 32 };

static void write_for_ever(const char *folder) {
    jitc_disk *d = open_disk(folder, plenty);
    for (unsigned i = 0;; i++)
        put_sized(d, i % ENTRIES, 8000, i / ENTRIES % 3);
}

/* A hit with the right content, whatever the level. */
static outcome get_any_level(jitc_disk *d, unsigned number) {
    outcome o = MISS;
    for (uint32_t level = 0; level < 3 && o != HIT; level++) {
        outcome now = get_sized(d, number, 8000, level);
        o = now == MISS ? o : now;
    }
    return o;
}

Test(disk, a_writer_killed_at_any_time_leaves_whole_entries_or_none) {
    char folder[256];
    folder_make(folder);
    jitc_disk *d = open_disk(folder, plenty);
    unsigned hits = 0;
    for (unsigned i = 0; i < ENTRIES; i++)
        put_sized(d, i, 8000, 0);
    for (unsigned round = 0; round < 60; round++) {
        pid_t child = fork();
        if (child == 0)
            write_for_ever(folder);
        for (unsigned i = 0; i < 40 + 7 * round; i++) {
            sample s;
            jitc_disk_item item;
            sample_make(&s, i % ENTRIES);
            jitc_blob description = {s.description, sizeof s.description};
            if (!jitc_disk_get(d, s.key, &description, &item))
                continue;
            hits++;
            cr_assert(item.code.size == 8000 && !memcmp(item.code.data, s.code, 8000));
            free(item.code.data);
        }
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    cr_expect_gt(hits, 0);
    for (unsigned i = 0; i < ENTRIES; i++)
        cr_expect_eq(get_any_level(d, i), HIT); /* nothing was lost either */
    jitc_disk_close(d);
    folder_remove(folder);
}

static void use_shared_folder(jitc_disk *d, unsigned first) {
    for (unsigned i = 0; i < 400; i++) {
        unsigned number = (first + i * 7) % 50;
        outcome o = get(d, number);
        cr_assert_neq(o, WRONG);
        if (o == MISS)
            put(d, number);
        if (i % 50 == 49) {
            sample s;
            sample_make(&s, number);
            jitc_disk_drop(d, s.key);
        }
    }
}

Test(disk, processes_share_a_folder_that_overflows_all_the_time) {
    char folder[256];
    folder_make(folder);
    pid_t child[4];
    for (unsigned i = 0; i < 4; i++)
        if ((child[i] = fork()) == 0) {
            jitc_disk *d = open_disk(folder, 20 * 4096);
            use_shared_folder(d, i);
            jitc_disk_close(d);
            _exit(0);
        }
    for (unsigned i = 0; i < 4; i++) {
        int status = -1;
        waitpid(child[i], &status, 0);
        cr_expect_eq(status, 0);
    }
    folder_remove(folder);
}

static void *use_from_thread(void *context) {
    use_shared_folder(context, (unsigned) (uintptr_t) &context % 50);
    return NULL;
}

Test(disk, threads_share_an_open_cache_that_overflows_all_the_time) {
    char folder[256];
    folder_make(folder);
    jitc_disk *d = open_disk(folder, 20 * 4096);
    pthread_t thread[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&thread[i], NULL, use_from_thread, d);
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
    jitc_disk_close(d);
    folder_remove(folder);
}
