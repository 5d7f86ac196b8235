/* bench_start.c: from the start of a process to its first result.
 * Layer: benchmarks. May include: nothing of the library.
 *
 * The clock runs from before fork() until the child writes a byte. */
#include "bench.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROGRAMS = 3 };

typedef struct program {
    const char *who;
    char path[4096];
    char *script;     /* argument behind -c, or NULL */
    char folder[256]; /* home of the child and of its kernel cache */
    bool cold;        /* empty the folder before each run */
} program;

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *walk) {
    (void) info;
    (void) type;
    return walk->level > 0 ? remove(path) : 0;
}

static void empty_folder(const char *path) {
    nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void run_child(program *p, int output) {
    char option[] = "-c";
    char *command[] = {p->path, p->script ? option : NULL, p->script, NULL};
    setenv("HOME", p->folder, 1);
    setenv("JITC_CACHE_DIR", p->folder, 1);
    unsetenv("XDG_CACHE_HOME");
    if (dup2(output, STDOUT_FILENO) >= 0)
        execv(p->path, command);
    _exit(127);
}

static double sample_start(void *context) {
    program *p = context;
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

/* Fill *p with a program of this folder, or with Python where there is a script. False: not
 * installed. */
static bool prepare(program *p, const char *self, const char *name, char *script) {
    const char *slash = strrchr(self, '/'), *venv = getenv("BENCH_PEERS");
    const char *temporary = getenv("TMPDIR");
    if (script)
        snprintf(p->path, sizeof p->path, "%s/bin/%s", venv ? venv : "", name);
    else
        snprintf(p->path, sizeof p->path, "%.*s%s", slash ? (int) (slash + 1 - self) : 0, self,
                 name);
    p->script = script;
    snprintf(p->folder, sizeof p->folder, "%s/bench-start-XXXXXX", temporary ? temporary : "/tmp");
    return mkdtemp(p->folder) && sample_start(p) >= 0;
}

static void finish(program *p) {
    empty_folder(p->folder);
    rmdir(p->folder);
}

static void measure(bench *b, program *programs, const bool *installed, bool cold) {
    bench_row row = bench_row_make(BENCH_MS, (bench_goal) {cold ? 20 : 8, NULL},
                                   "first result, %s disk cache", cold ? "cold" : "warm");
    for (size_t i = 0; i < PROGRAMS; ++i) {
        programs[i].cold = cold;
        bench_row_add(&row, programs[i].who, installed[i] ? sample_start : NULL, &programs[i]);
    }
    bench_measure(b, &row);
}

int main(int argc, char **argv) {
    static const char *const who[] = {"jitc", "drjit", "numpy", NULL};
    static char script[] = "import os, numpy as np\n"
                           "y = np.arange(8, dtype=np.float32) * 2 + 1\n"
                           "os.write(1, b'!' if y[7] == 15 else b'')\n"
                           "os._exit(0)";
    bench *b = bench_create("start", who, argc, argv);
    if (!b)
        return 2;
    program programs[PROGRAMS] = {{.who = who[0]}, {.who = who[1]}, {.who = who[2]}};
    bool installed[PROGRAMS] = {prepare(&programs[0], argv[0], "first_result_jitc", NULL),
                                prepare(&programs[1], argv[0], "first_result_drjit", NULL),
                                prepare(&programs[2], argv[0], "python", script)};
    measure(b, programs, installed, true);
    measure(b, programs, installed, false);
    bench_note(b, "Process start to first result: from before fork() until the child writes a "
                  "byte; z = 2 x + 1 on 8 elements.");
    for (size_t i = 0; i < PROGRAMS; ++i)
        finish(&programs[i]);
    return bench_destroy(b);
}
