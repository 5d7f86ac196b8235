/* folder.h: a temporary folder for tests.  Layer: tests.  May include: nothing of the library. */
#ifndef JITC_TESTS_FOLDER_H
#define JITC_TESTS_FOLDER_H
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/** Make an empty folder, private to the user. */
static inline void folder_make(char path[256]) {
    const char *base = getenv("TMPDIR");
    snprintf(path, 256, "%s/jitc-test-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(path)) {
        perror(path);
        exit(1);
    }
}

/** Call `function` with the path of every file in the folder; returns their number. */
static inline size_t folder_each(const char *path, void (*function)(const char *, void *),
                                 void *context) {
    size_t count = 0;
    DIR *folder = opendir(path);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        char file[1024];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        count++;
        if (function)
            function(file, context);
    }
    if (folder)
        closedir(folder);
    return count;
}

static inline size_t folder_count(const char *path) {
    return folder_each(path, NULL, NULL);
}

static inline void folder_remove_file(const char *path, void *context) {
    (void) context;
    if (unlink(path) != 0)
        rmdir(path);
}

/** Remove the folder and the files in it. */
static inline void folder_remove(const char *path) {
    folder_each(path, folder_remove_file, NULL);
    rmdir(path);
}

static inline void folder_take_name(const char *path, void *name) {
    memcpy(name, path, strlen(path) + 1);
}

/** The path of the only file. */
static inline void folder_only_file(const char *path, char file[1024]) {
    if (folder_each(path, folder_take_name, file) != 1)
        file[0] = 0;
}
#endif
