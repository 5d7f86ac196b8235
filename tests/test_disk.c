/* test_disk.c: the kernel cache on disk must miss rather than hit wrongly.  Layer: tests. */
#include "core/log.h"
#include "disk_entries.h"

static size_t read_file(const char *path, unsigned char *to, size_t room) {
    FILE *f = fopen(path, "rb");
    cr_assert(f);
    size_t n = fread(to, 1, room, f);
    fclose(f);
    return n;
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
