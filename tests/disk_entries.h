/* disk_entries.h: entries of the kernel cache on disk whose content follows from a number.
 * Layer: tests.  May include: core, cache. */
#ifndef JITC_TESTS_DISK_ENTRIES_H
#define JITC_TESTS_DISK_ENTRIES_H
#include "cache/disk.h"
#include "folder.h"
#include <criterion/criterion.h>

static const uint64_t plenty = UINT64_C(1) << 30;

typedef struct sample {
    jitc_hash key;
    unsigned char description[64], code[8192];
} sample;

static inline void sample_make(sample *s, unsigned number) {
    s->key = jitc_hash_bytes(&number, sizeof number, 1);
    memset(s->description, (int) (number & 0xff), sizeof s->description);
    memcpy(s->description, &number, sizeof number);
    for (size_t i = 0; i < sizeof s->code; i++)
        s->code[i] = (unsigned char) (number * 31 + i * 7);
}

static inline void put_sized(jitc_disk *d, unsigned number, size_t size, uint32_t level) {
    sample s;
    sample_make(&s, number);
    jitc_blob description = {s.description, sizeof s.description};
    jitc_disk_item item = {{s.code, size}, level};
    jitc_disk_put(d, s.key, &description, &item);
}

static inline void put(jitc_disk *d, unsigned number) {
    put_sized(d, number, 300, 2);
}

typedef enum outcome { MISS, HIT, WRONG } outcome;

static inline outcome get_sized(jitc_disk *d, unsigned number, size_t size, uint32_t level) {
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

static inline outcome get(jitc_disk *d, unsigned number) {
    return get_sized(d, number, 300, 2);
}

static inline jitc_disk *open_disk(const char *folder, uint64_t limit) {
    jitc_disk *d;
    cr_assert_eq(jitc_disk_open(folder, limit, &d), JIT_OK);
    return d;
}

static inline void write_file(const char *path, const void *from, size_t size) {
    int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0600);
    cr_assert(fd >= 0 && write(fd, from, size) == (ssize_t) size);
    close(fd);
}
#endif
