/* disk.c: entries as files.  Layer: cache.
 *
 *   <folder>/0123456789abcdef0123456789abcdef-1     one entry: 32 hex digits of the key, format
 * version <folder>/tmp-<pid>-<time>-<number>              an entry being written
 *
 * The folder stays open and all paths are relative to it, so it cannot be swapped after the check.
 * Since nobody else may write to it, what it contains is ours. A writer that was killed leaves a
 * temporary file, which a later tidying removes. Nothing is locked between processes: rename and
 * unlink are atomic, and a reader that has a file open keeps its content. */
#include "cache/disk.h"
#include "core/log.h"
#include "core/sync.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    FORMAT = 1,           /* of header and file: also part of the name, so versions do not fight */
    NAME_SIZE = 64,       /* of a file name in the folder, with its end */
    TOUCH_SECONDS = 60,   /* the time of last use is this coarse, to spare writes */
    STALE_SECONDS = 3600, /* age at which a temporary file has no writer any more */
    BLOCK = 4096,         /* what files occupy is counted in these */
    SAMPLE_AFTER = 1024,  /* files beyond these: only one in SAMPLE is measured */
    SAMPLE = 16,
    CHECKS_PER_LIMIT = 16, /* the folder's size is looked at after this fraction of the limit */
};

static const char magic[8] = {'j', 'i', 't', 'c', 'k', 'e', 'r', 'n'};
static const uint64_t max_file = UINT64_C(1) << 30;

/* The checksum covers everything behind it. */
typedef struct header {
    char magic[8];
    jitc_hash checksum;
    uint32_t format, level;
    jitc_hash key;
    uint64_t description_size, code_size;
} header;
_Static_assert(sizeof(header) == 64, "the header is written as it is: no padding");
enum { CHECKED_FROM = offsetof(header, format) };

struct jitc_disk {
    int folder; /* -1: no usable folder */
    uid_t user;
    uint64_t limit;
    atomic_uint_fast64_t written;    /* bytes put since the folder was looked at */
    atomic_uint_fast64_t look_after; /* value of `written` at which to look at it again */
    atomic_uint temporaries;
    atomic_bool tidying; /* by one thread at a time; the others do not wait */
};

static void entry_name(jitc_hash key, char name[NAME_SIZE]) {
    snprintf(name, NAME_SIZE, "%016llx%016llx-%d", (unsigned long long) key.hi,
             (unsigned long long) key.lo, FORMAT);
}

/* May content of this file be run? */
static bool is_private(const jitc_disk *d, const struct stat *st) {
    return st->st_uid == d->user && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

static uint64_t occupied(uint64_t size) {
    return (size + BLOCK - 1) / BLOCK * BLOCK;
}

/* ---- Opening ---- */

/* The folder to use, in `path`; NULL or why there is none. */
static const char *choose_folder(const char *folder, char path[PATH_MAX]) {
    const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    int length;
    if (folder && folder[0])
        length = snprintf(path, PATH_MAX, "%s", folder);
    else if (cache && cache[0] == '/') /* the XDG rules: a relative path is ignored */
        length = snprintf(path, PATH_MAX, "%s/jitc", cache);
    else if (home && home[0] == '/')
        length = snprintf(path, PATH_MAX, "%s/.cache/jitc", home);
    else
        return "neither XDG_CACHE_HOME nor HOME names a folder";
    while (length > 1 && length < PATH_MAX && path[length - 1] == '/')
        path[--length] = 0; /* "link/" would follow the link */
    return length < PATH_MAX ? NULL : "the path is too long";
}

/* mkdir -p. Failures show when the folder is opened. */
static void make_folders(char *path) {
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(path, 0700);
            *p = '/';
        }
    mkdir(path, 0700);
}

static int open_folder(char *path) {
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = open(path, flags);
    if (fd < 0 && errno == ENOENT) {
        make_folders(path);
        fd = open(path, flags);
    }
    return fd;
}

/* NULL if the folder can be used, else why not. */
static const char *check_folder(const jitc_disk *d) {
    struct stat st;
    if (fstat(d->folder, &st) != 0)
        return strerror(errno);
    if (st.st_uid != d->user)
        return "another user owns it";
    return is_private(d, &st) ? NULL : "other users can write to it";
}

jit_status jitc_disk_open(const char *folder, uint64_t limit, jitc_disk **out) {
    TRY(jitc_calloc(1, sizeof **out, (void **) out));
    jitc_disk *d = *out;
    d->folder = -1;
    d->user = geteuid();
    d->limit = limit;
    char path[PATH_MAX] = "";
    const char *problem = choose_folder(folder, path);
    if (!problem && (d->folder = open_folder(path)) < 0)
        problem = errno == ELOOP || errno == ENOTDIR ? "it is no folder, or a symbolic link"
                                                     : strerror(errno);
    if (!problem && (problem = check_folder(d))) {
        close(d->folder);
        d->folder = -1;
    }
    if (problem)
        jitc_log(JITC_LOG_WARN, "kernels are not kept on disk: '%s': %s", path, problem);
    return JIT_OK;
}

void jitc_disk_close(jitc_disk *d) {
    if (d && d->folder >= 0)
        close(d->folder);
    free(d);
}

void jitc_disk_forked(jitc_disk *d) {
    if (d)
        jitc_store_relaxed(&d->tidying, false); /* one thread in the child: nobody to pair with */
}

/* ---- Reading ---- */

static bool read_all(int fd, char *to, size_t size) {
    while (size) {
        ssize_t n = read(fd, to, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        to += n;
        size -= (size_t) n;
    }
    return true;
}

static jitc_hash checksum(const void *file, size_t size) {
    return jitc_hash_bytes((const char *) file + CHECKED_FROM, size - CHECKED_FROM, FORMAT);
}

/* Is this file the entry `key`, whole, and made from `description`? Nothing in it is believed
 * before the sizes fit the file, and nothing is used before the checksum fits. */
static bool entry_matches(const char *file, size_t size, jitc_hash key,
                          const jitc_blob *description) {
    header h;
    memcpy(&h, file, sizeof h);
    return !memcmp(h.magic, magic, sizeof magic) && h.format == FORMAT &&
           jitc_hash_equal(h.key, key) && h.description_size == description->size &&
           h.description_size <= size - sizeof h &&
           h.code_size == size - sizeof h - h.description_size &&
           !memcmp(file + sizeof h, description->data, description->size) &&
           jitc_hash_equal(h.checksum, checksum(file, size));
}

/* The whole content of an open file, if it may be used at all; NULL if not. */
static char *read_file(const jitc_disk *d, int fd, struct stat *st) {
    if (fstat(fd, st) != 0 || !S_ISREG(st->st_mode) || !is_private(d, st) ||
        st->st_size < (off_t) sizeof(header) || (uint64_t) st->st_size > max_file)
        return NULL;
    char *file = malloc((size_t) st->st_size);
    if (file && !read_all(fd, file, (size_t) st->st_size)) {
        free(file);
        return NULL;
    }
    return file;
}

/* Remember that the entry was used. */
static void touch(int fd, const struct stat *st) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec - st->st_mtime > TOUCH_SECONDS || st->st_mtime > now.tv_sec)
        futimens(fd, NULL);
}

/* The file's code, moved to the front of its memory. */
static void take_code(char *file, jitc_disk_item *item) {
    header h;
    memcpy(&h, file, sizeof h);
    memmove(file, file + sizeof h + h.description_size, h.code_size);
    *item = (jitc_disk_item) {{file, h.code_size}, h.level};
}

bool jitc_disk_get(jitc_disk *d, jitc_hash key, const jitc_blob *description,
                   jitc_disk_item *item) {
    char name[NAME_SIZE];
    struct stat st;
    if (d->folder < 0)
        return false;
    entry_name(key, name);
    /* O_NONBLOCK: opening a pipe of that name must not wait */
    int fd = openat(d->folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    char *file = read_file(d, fd, &st);
    bool hit = file && entry_matches(file, (size_t) st.st_size, key, description);
    if (hit) {
        touch(fd, &st);
        take_code(file, item);
    } else {
        free(file);
    }
    close(fd);
    return hit;
}

/* ---- Keeping the size bounded ---- */

typedef struct aged_file {
    struct timespec used;
    uint64_t size;
    char name[NAME_SIZE];
} aged_file;

/* What one pass over the folder found. */
typedef struct survey {
    uint64_t bytes;
    size_t seen;
    bool list;        /* measure every file and list it */
    aged_file *files; /* if `list` */
    size_t count, capacity;
} survey;

static bool is_entry_name(const char *name) {
    size_t hex = strspn(name, "0123456789abcdef");
    return hex == 32 && name[hex] == '-' && isdigit((unsigned char) name[hex + 1]) &&
           strlen(name) < NAME_SIZE;
}

static bool is_temporary_name(const char *name) {
    return !strncmp(name, "tmp-", 4) && strspn(name + 4, "0123456789-") == strlen(name + 4) &&
           strlen(name) < NAME_SIZE;
}

/* If memory runs out the file is not listed, so it is not removed this time; its size counts. */
static void list_file(survey *s, const char *name, const struct stat *st) {
    if (s->count == s->capacity) {
        size_t grown = s->capacity ? 2 * s->capacity : 256;
        aged_file *files = realloc(s->files, grown * sizeof *files);
        if (!files)
            return;
        s->files = files;
        s->capacity = grown;
    }
    aged_file *f = &s->files[s->count++];
    *f = (aged_file) {.used = st->st_mtim, .size = occupied((uint64_t) st->st_size)};
    memcpy(f->name, name, strlen(name) + 1);
}

static void survey_file(jitc_disk *d, survey *s, const char *name, time_t now) {
    struct stat st;
    bool temporary = is_temporary_name(name);
    if (!temporary && !is_entry_name(name))
        return; /* not ours: neither counted nor removed */
    /* In a large folder only every SAMPLE-th file is measured and stands for the others. */
    unsigned weight = s->list || temporary || s->seen < SAMPLE_AFTER ? 1 : SAMPLE;
    s->seen += !temporary;
    if (weight > 1 && s->seen % SAMPLE)
        return;
    if (fstatat(d->folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    if (temporary && now - st.st_mtime > STALE_SECONDS) {
        unlinkat(d->folder, name, 0);
        return;
    }
    s->bytes += weight * occupied((uint64_t) st.st_size);
    if (s->list && !temporary)
        list_file(s, name, &st);
}

static void take_survey(jitc_disk *d, survey *s) {
    int fd = openat(d->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (!folder) {
        if (fd >= 0)
            close(fd);
        return;
    }
    time_t now = time(NULL);
    for (struct dirent *entry; (entry = readdir(folder));)
        survey_file(d, s, entry->d_name, now);
    closedir(folder);
}

static int by_time_of_use(const void *a, const void *b) {
    const struct timespec *x = &((const aged_file *) a)->used, *y = &((const aged_file *) b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* Remove files, those used least recently first, until an eighth of the limit is free: then it
 * takes a while until the next time. Returns the bytes that remain. */
static uint64_t remove_oldest(jitc_disk *d) {
    survey s = {.list = true};
    take_survey(d, &s);
    if (s.count)
        qsort(s.files, s.count, sizeof *s.files, by_time_of_use);
    for (size_t i = 0; i < s.count && s.bytes > d->limit - d->limit / 8; i++) {
        unlinkat(d->folder, s.files[i].name, 0);
        s.bytes -= s.files[i].size;
    }
    free(s.files);
    return s.bytes;
}

/* Look at the folder, which other processes fill too, and make room if it is too large. */
static void tidy(jitc_disk *d) {
    /* pairs with the store_release below */
    if (jitc_exchange_acquire(&d->tidying, true))
        return;
    survey s = {0};
    take_survey(d, &s);
    uint64_t bytes = s.bytes > d->limit ? remove_oldest(d) : s.bytes;
    uint64_t room = bytes < d->limit ? d->limit - bytes : 0;
    uint64_t step = d->limit / CHECKS_PER_LIMIT;
    jitc_store_relaxed(&d->look_after, room < step ? room + 1 : step);
    jitc_store_relaxed(&d->written, 0);
    jitc_store_release(&d->tidying, false);
}

/* ---- Writing ---- */

static bool write_all(int fd, const char *from, size_t size) {
    while (size) {
        ssize_t n = write(fd, from, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        from += n;
        size -= (size_t) n;
    }
    return true;
}

/* Would the file be refused for its size? Beyond RLIMIT_FSIZE a write is a signal that ends the
 * process. */
static bool too_large(const jitc_disk *d, uint64_t size) {
    struct rlimit limit;
    return size > max_file || occupied(size) > d->limit ||
           (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
            size > limit.rlim_cur);
}

static int create_temporary(jitc_disk *d, char name[NAME_SIZE]) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now); /* process numbers repeat, also between containers */
    snprintf(name, NAME_SIZE, "tmp-%ld-%lld%09ld-%u", (long) getpid(), (long long) now.tv_sec,
             now.tv_nsec, jitc_add_relaxed(&d->temporaries, 1));
    return openat(d->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* Header, description and code in one piece of memory, for one checksum and one write. */
static char *compose(jitc_hash key, const jitc_blob *description, const jitc_disk_item *item,
                     size_t size) {
    char *file = malloc(size);
    if (!file)
        return NULL;
    header h = {.format = FORMAT,
                .level = item->level,
                .key = key,
                .description_size = description->size,
                .code_size = item->code.size};
    memcpy(h.magic, magic, sizeof magic);
    memcpy(file, &h, sizeof h);
    memcpy(file + sizeof h, description->data, description->size);
    memcpy(file + sizeof h + description->size, item->code.data, item->code.size);
    h.checksum = checksum(file, size);
    memcpy(file, &h, sizeof h);
    return file;
}

/* ORDER: the whole content before the name, by write + close + rename; without it a reader may see
 * half a file. There is no fsync: after a power failure the checksum tells. */
static bool write_file(jitc_disk *d, const char *name, const char *file, size_t size) {
    char temporary[NAME_SIZE];
    int fd = create_temporary(d, temporary);
    if (fd < 0)
        return false;
    bool whole = write_all(fd, file, size);
    whole &= close(fd) == 0; /* some file systems report a full disk here */
    if (whole && renameat(d->folder, temporary, d->folder, name) == 0)
        return true;
    unlinkat(d->folder, temporary, 0);
    return false;
}

void jitc_disk_put(jitc_disk *d, jitc_hash key, const jitc_blob *description,
                   const jitc_disk_item *item) {
    size_t size = sizeof(header) + description->size + item->code.size;
    char name[NAME_SIZE];
    if (d->folder < 0 || too_large(d, size))
        return;
    char *file = compose(key, description, item, size);
    entry_name(key, name);
    if (file && write_file(d, name, file, size)) {
        uint64_t added = occupied(size);
        if (jitc_add_relaxed(&d->written, added) + added > jitc_load_relaxed(&d->look_after))
            tidy(d);
    }
    free(file);
}

void jitc_disk_drop(jitc_disk *d, jitc_hash key) {
    char name[NAME_SIZE];
    entry_name(key, name);
    if (d->folder >= 0)
        unlinkat(d->folder, name, 0);
}
