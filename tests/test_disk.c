/* test_disk.c: the kernel cache on disk must miss rather than hit wrongly.  Layer: tests. */
#include "cache/disk.h"
#include "core/log.h"
#include "folder.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

static const uint64_t plenty = UINT64_C(1) << 30;

/* ---- Entries whose content follows from a number ---- */

typedef struct sample {
    jitc_hash key;
    unsigned char description[64], code[8192];
} sample;

static void sample_make(sample *s, unsigned number) {
    s->key = jitc_hash_bytes(&number, sizeof number, 1);
    memset(s->description, (int) (number & 0xff), sizeof s->description);
    memcpy(s->description, &number, sizeof number);
    for (size_t i = 0; i < sizeof s->code; i++)
        s->code[i] = (unsigned char) (number * 31 + i * 7);
}

static void put_sized(jitc_disk *d, unsigned number, size_t size, uint32_t level) {
    sample s;
    sample_make(&s, number);
    jitc_blob description = {s.description, sizeof s.description};
    jitc_disk_item item = {{s.code, size}, level};
    jitc_disk_put(d, s.key, &description, &item);
}

static void put(jitc_disk *d, unsigned number) {
    put_sized(d, number, 300, 2);
}

typedef enum outcome { MISS, HIT, WRONG } outcome;

static outcome get_sized(jitc_disk *d, unsigned number, size_t size, uint32_t level) {
    sample s;
    sample_make(&s, number);
    jitc_blob description = {s.description, sizeof s.description};
    jitc_disk_item item;
    if (!jitc_disk_get(d, s.key, &description, &item))
        return MISS;
    bool good =
        item.level == level && item.code.size == size && !memcmp(item.code.data, s.code, size);
    free(item.code.data);
    return good ? HIT : WRONG;
}

static outcome get(jitc_disk *d, unsigned number) {
    return get_sized(d, number, 300, 2);
}

static jitc_disk *open_disk(const char *folder, uint64_t limit) {
    jitc_disk *d;
    cr_assert_eq(jitc_disk_open(folder, limit, &d), JIT_OK);
    return d;
}

static int warnings;
static void count_warning(void *context, int level, const char *text) {
    (void) context, (void) text;
    warnings += level == JITC_LOG_WARN;
}

/* Opening `folder` warns once, and nothing is kept. */
static void assert_unusable(const char *folder) {
    warnings = 0;
    jitc_log_set(count_warning, NULL, JITC_LOG_WARN);
    jitc_disk *d = open_disk(folder, plenty);
    put(d, 1);
    cr_expect_eq(get(d, 1), MISS);
    jitc_disk_close(d);
    cr_expect_eq(warnings, 1, "%d warnings for %s", warnings, folder);
    cr_expect_eq(jit_error_status(), JIT_OK);
}

static size_t read_file(const char *path, unsigned char *to, size_t room) {
    FILE *f = fopen(path, "rb");
    cr_assert(f);
    size_t n = fread(to, 1, room, f);
    fclose(f);
    return n;
}

static void write_file(const char *path, const void *from, size_t size) {
    int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0600);
    cr_assert(fd >= 0 && write(fd, from, size) == (ssize_t) size);
    close(fd);
}

/* ---- Hits and misses ---- */

Test(disk, what_was_put_is_found_again_also_by_a_later_open) {
    char folder[256];
    folder_make(folder);
    jitc_disk *d = open_disk(folder, plenty);
    cr_expect_eq(get(d, 1), MISS);
    put(d, 1);
    cr_expect_eq(get(d, 1), HIT);
    cr_expect_eq(get(d, 2), MISS);
    jitc_disk_close(d);
    d = open_disk(folder, plenty);
    cr_expect_eq(get(d, 1), HIT);
    jitc_disk_close(d);
    cr_expect_eq(folder_count(folder), 1);
    folder_remove(folder);
}

Test(disk, a_second_put_replaces_code_and_level) {
    char folder[256];
    folder_make(folder);
    jitc_disk *d = open_disk(folder, plenty);
    put_sized(d, 1, 300, 0);
    put_sized(d, 1, 500, 2);
    cr_expect_eq(get_sized(d, 1, 500, 2), HIT);
    cr_expect_eq(folder_count(folder), 1);
    jitc_disk_drop(d, (jitc_hash) {0, 0}); /* of what is not there */
    sample s;
    sample_make(&s, 1);
    jitc_disk_drop(d, s.key);
    cr_expect_eq(get_sized(d, 1, 500, 2), MISS);
    cr_expect_eq(folder_count(folder), 0);
    jitc_disk_close(d);
    folder_remove(folder);
}

Test(disk, empty_code_and_empty_description_are_kept) {
    char folder[256];
    folder_make(folder);
    jitc_disk *d = open_disk(folder, plenty);
    jitc_blob none = {"", 0};
    jitc_disk_item item = {{"", 0}, 1};
    jitc_disk_put(d, (jitc_hash) {1, 2}, &none, &item);
    cr_expect(jitc_disk_get(d, (jitc_hash) {1, 2}, &none, &item));
    cr_expect_eq(item.code.size, 0);
    free(item.code.data);
    jitc_disk_close(d);
    folder_remove(folder);
}

Test(disk, a_description_that_differs_in_any_byte_or_in_length_misses) {
    char folder[256];
    folder_make(folder);
    jitc_disk *d = open_disk(folder, plenty);
    put(d, 1);
    sample s;
    jitc_disk_item item;
    for (size_t i = 0; i < sizeof s.description; i++) {
        sample_make(&s, 1);
        s.description[i] ^= 1;
        jitc_blob other = {s.description, sizeof s.description}, shorter = {s.description, i};
        cr_expect_not(jitc_disk_get(d, s.key, &other, &item));
        s.description[i] ^= 1;
        cr_expect_not(jitc_disk_get(d, s.key, &shorter, &item));
    }
    jitc_disk_close(d);
    folder_remove(folder);
}

Test(disk, the_folder_is_found_by_the_rules_of_xdg) {
    char base[256], path[512];
    folder_make(base);
    snprintf(path, sizeof path, "%s/a/b", base); /* is made, with its parents */
    setenv("XDG_CACHE_HOME", path, 1);
    setenv("HOME", base, 1);
    jitc_disk *d = open_disk("", plenty);
    put(d, 1);
    jitc_disk_close(d);
    snprintf(path, sizeof path, "%s/a/b/jitc", base);
    struct stat st;
    cr_assert_eq(stat(path, &st), 0);
    cr_expect_eq(st.st_mode & 0777, 0700);
    cr_expect_eq(folder_count(path), 1);
    folder_remove(path);
    setenv("XDG_CACHE_HOME", "relative", 1); /* to be ignored */
    d = open_disk(NULL, plenty);
    put(d, 1);
    jitc_disk_close(d);
    snprintf(path, sizeof path, "%s/.cache/jitc", base);
    cr_expect_eq(folder_count(path), 1);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_unusable("");
    snprintf(path, sizeof path, "rm -r %s", base);
    cr_expect_eq(system(path), 0);
}

/* ---- Damage ---- */

Test(disk, damage_to_any_byte_is_a_miss) {
    char folder[256], file[1024];
    unsigned char good[1024], bad[1024];
    folder_make(folder);
    jitc_disk *d = open_disk(folder, plenty);
    put(d, 1);
    folder_only_file(folder, file);
    size_t size = read_file(file, good, sizeof good);
    cr_assert(size > 300 && size < sizeof good);
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit += 7) {
            memcpy(bad, good, size);
            bad[i] ^= (unsigned char) (1 << bit);
            write_file(file, bad, size);
            cr_assert_eq(get(d, 1), MISS, "byte %zu", i);
        }
    write_file(file, good, size);
    cr_expect_eq(get(d, 1), HIT);
    jitc_disk_close(d);
    folder_remove(folder);
}

Test(disk, any_other_length_is_a_miss) {
    char folder[256], file[1024];
    unsigned char good[1024] = {0};
    folder_make(folder);
    jitc_disk *d = open_disk(folder, plenty);
    put(d, 1);
    folder_only_file(folder, file);
    size_t size = read_file(file, good, sizeof good);
    for (size_t length = 0; length < sizeof good; length++) {
        write_file(file, good, length);
        cr_assert_eq(get(d, 1), length == size ? HIT : MISS, "length %zu", length);
    }
    put(d, 1); /* mends it */
    cr_expect_eq(get(d, 1), HIT);
    jitc_disk_close(d);
    folder_remove(folder);
}

/* Sizes in the header that overflow when they are added up. */
Test(disk, huge_sizes_in_the_header_are_a_miss) {
    char folder[256], file[1024];
    unsigned char bytes[1024];
    folder_make(folder);
    jitc_disk *d = open_disk(folder, plenty);
    put(d, 1);
    folder_only_file(folder, file);
    size_t size = read_file(file, bytes, sizeof bytes);
    memset(bytes + 48, 0xff, 16);
    write_file(file, bytes, size);
    cr_expect_eq(get(d, 1), MISS);
    jitc_disk_close(d);
    folder_remove(folder);
}

/* ---- What is not ours ---- */

Test(disk, a_symbolic_link_a_pipe_and_a_folder_are_no_entries) {
    char folder[256], file[1024], elsewhere[300];
    folder_make(folder);
    jitc_disk *d = open_disk(folder, plenty);
    put(d, 1);
    folder_only_file(folder, file);
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", folder);
    rename(file, elsewhere);
    cr_assert_eq(symlink(elsewhere, file), 0);
    cr_expect_eq(get(d, 1), MISS);
    unlink(file);
    cr_assert_eq(mkfifo(file, 0600), 0);
    cr_expect_eq(get(d, 1), MISS); /* and does not wait for a writer */
    unlink(file);
    cr_assert_eq(mkdir(file, 0700), 0);
    cr_expect_eq(get(d, 1), MISS);
    put(d, 1); /* cannot replace it, and leaves nothing behind */
    cr_expect_eq(folder_count(folder), 2);
    rmdir(file);
    rename(elsewhere, file);
    cr_expect_eq(get(d, 1), HIT);
    jitc_disk_close(d);
    folder_remove(folder);
}

Test(disk, files_that_others_can_write_are_not_used) {
    char folder[256], file[1024];
    folder_make(folder);
    jitc_disk *d = open_disk(folder, plenty);
    put(d, 1);
    folder_only_file(folder, file);
    chmod(file, 0620);
    cr_expect_eq(get(d, 1), MISS);
    chmod(file, 0602);
    cr_expect_eq(get(d, 1), MISS);
    chmod(file, 0644);
    cr_expect_eq(get(d, 1), HIT);
    if (geteuid() == 0) {
        cr_assert_eq(chown(file, 12345, 0), 0);
        cr_expect_eq(get(d, 1), MISS);
    }
    jitc_disk_close(d);
    folder_remove(folder);
}

Test(disk, folders_that_others_own_or_can_write_or_that_are_links_are_not_used) {
    char folder[256], link[300];
    folder_make(folder);
    jitc_disk *d = open_disk(folder, plenty);
    put(d, 1);
    jitc_disk_close(d);
    chmod(folder, 0770);
    assert_unusable(folder);
    chmod(folder, 0702);
    assert_unusable(folder);
    chmod(folder, 0700);
    snprintf(link, sizeof link, "%s-link", folder);
    cr_assert_eq(symlink(folder, link), 0);
    assert_unusable(link);
    strcat(link, "/");
    assert_unusable(link);
    link[strlen(link) - 1] = 0;
    unlink(link);
    write_file(link, "", 0);
    assert_unusable(link);
    unlink(link);
    if (geteuid() == 0) {
        cr_assert_eq(chown(folder, 12345, 0), 0);
        assert_unusable(folder);
        cr_assert_eq(chown(folder, 0, 0), 0);
    }
    d = open_disk(folder, plenty);
    cr_expect_eq(get(d, 1), HIT);
    jitc_disk_close(d);
    folder_remove(folder);
}

Test(disk, a_folder_without_write_permission_still_gives_hits) {
    char folder[256];
    folder_make(folder);
    if (geteuid() == 0) /* root may write everywhere */
        cr_assert(chown(folder, 12345, 12345) == 0 && setegid(12345) == 0 && seteuid(12345) == 0);
    jitc_disk *d = open_disk(folder, plenty);
    put(d, 1);
    jitc_disk_close(d);
    chmod(folder, 0500);
    d = open_disk(folder, plenty);
    put(d, 2);
    cr_expect_eq(get(d, 2), MISS);
    cr_expect_eq(get(d, 1), HIT);
    jitc_disk_close(d);
    chmod(folder, 0700);
    cr_expect_eq(folder_count(folder), 1);
    cr_expect_eq(jit_error_status(), JIT_OK);
    if (getuid() == 0)
        cr_assert(seteuid(0) == 0 && setegid(0) == 0);
    folder_remove(folder);
}

Test(disk, a_folder_that_cannot_be_made_is_one_warning) {
    assert_unusable("/proc/self/nothing");
    char path[5000];
    memset(path, 'a', sizeof path);
    path[0] = '/';
    path[sizeof path - 1] = 0;
    assert_unusable(path);
}

Test(disk, a_folder_removed_while_open_is_only_a_miss) {
    char folder[256];
    folder_make(folder);
    jitc_disk *d = open_disk(folder, plenty);
    put(d, 1);
    folder_remove(folder);
    cr_expect_eq(get(d, 1), MISS);
    put(d, 1);
    cr_expect_eq(get(d, 1), MISS);
    jitc_disk_close(d);
}

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
