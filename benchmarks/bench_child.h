/* bench_child.h: the time from the start of a process to its first result.
 * Layer: benchmarks. May include: nothing of the library.
 *
 * The clock runs from before fork() until the child writes a byte. */
#ifndef BENCH_CHILD_H
#define BENCH_CHILD_H
#include <stdbool.h>

typedef struct bench_child {
    const char *who;
    char path[4096];
    char *script;     /* argument behind -c, or NULL */
    char folder[256]; /* home of the child and of its kernel cache */
    bool cold;        /* empty the folder before each run */
} bench_child;

/* Fill *p with a program beside this one (`self` is its argv[0]), or with Python where there is a
 * script. False: not installed, or it failed. */
bool bench_child_init(bench_child *p, const char *self, const char *name, char *script);
void bench_child_finish(bench_child *p);
/* A sample of a bench_child. */
double bench_child_sample(void *child);

#endif
