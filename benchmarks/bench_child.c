/* bench_child.c: see bench_child.h.
 * Layer: benchmarks. May include: nothing of the library. */
#include "bench_child.h"
#include "bench.h"
#include "peers/python_peer.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *walk) {
    (void) info;
    (void) type;
    return walk->level > 0 ? remove(path) : 0;
}

static void empty_folder(const char *path) {
    nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void run_child(bench_child *p, int output) {
    char option[] = "-c";
    char *command[] = {p->path, p->script ? option : NULL, p->script, NULL};
    setenv("HOME", p->folder, 1);
    setenv("JITC_CACHE_DIR", p->folder, 1);
    unsetenv("XDG_CACHE_HOME");
    if (dup2(output, STDOUT_FILENO) >= 0)
        execvp(p->path, command);
    _exit(127);
}

double bench_child_sample(void *context) {
    bench_child *p = context;
    int ends[2];
    char byte;
    if (p->cold)
        empty_folder(p->folder);
    if (pipe(ends) != 0)
        return -1;
    double start = bench_now();
    pid_t child = fork();
    if (child == 0)
        run_child(p, ends[1]);
    close(ends[1]);
    bool answered = child > 0 && read(ends[0], &byte, 1) == 1;
    double elapsed = bench_now() - start;
    close(ends[0]);
    int status = 1;
    if (child > 0)
        waitpid(child, &status, 0);
    return answered && status == 0 ? elapsed : -1;
}

bool bench_child_init(bench_child *p, const char *self, const char *name, char *script) {
    const char *slash = strrchr(self, '/'), *temporary = getenv("TMPDIR");
    if (script)
        python_peer_path(p->path, sizeof p->path);
    else
        snprintf(p->path, sizeof p->path, "%.*s%s", slash ? (int) (slash + 1 - self) : 0, self,
                 name);
    p->script = script;
    snprintf(p->folder, sizeof p->folder, "%s/bench-start-XXXXXX", temporary ? temporary : "/tmp");
    return mkdtemp(p->folder) && bench_child_sample(p) >= 0;
}

void bench_child_finish(bench_child *p) {
    empty_folder(p->folder);
    rmdir(p->folder);
}
