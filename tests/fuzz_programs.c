/* fuzz_programs.c: random programs of whole arrays, with loops, branches and calls, run in several
 * ways and compared, bit for bit, with what fuzz_program_value.c computes.
 *
 * Programs run in processes of their own, a few each, so that also one that crashes or waits for
 * ever is told, and can be reduced: steps are replaced by arrays of what they have to give as long
 * as the program still fails.
 * usage: fuzz_programs [seconds [seed]]     0 seconds: one program, which needs a seed */
#include "fuzz_program.h"
#include "support.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TOGETHER = 6, WAYS = 2, PATIENCE = 60, SHORT_PATIENCE = 5 /* seconds */ };

/* What a process tells. */
typedef struct report {
    volatile uint64_t seed; /* of the program that it runs */
    volatile int step;      /* 1 + the step that went wrong */
    char error[512];
} report;

static void set(const char *name, const char *value) {
    if (jit_set_option(name, value) != JIT_OK) {
        fprintf(stderr, "%s\n", jit_error());
        exit(2);
    }
}

static void start(uint64_t seed, int way) {
    static const char *const isas[] = {"", "x86-64", "x86-64-v3", ""};
    set("num_threads", way ? "5" : "1");
    set("llvm_isa", isas[seed / TOGETHER % 4]);
    set("cuda_graphs", (seed / TOGETHER + (uint64_t) way) % 3 ? "1" : "0");
    if (jit_init(support_backend()) != JIT_OK) {
        fprintf(stderr, "%s\n", jit_error());
        exit(2);
    }
}

static void set_options(const program *p, int way) {
    static const char *const cuts[] = {"2", "3", "7", "20"};
    set("kernel_ops", way ? cuts[p->seed % 4] : "4096");
    set("loop_steps", way && p->seed % 5 == 0 ? "1" : "0");
    set("llvm_level", way ? (p->seed % 3 ? "0" : "2") : "-1");
    set("bounds_check", !p->outside && (p->seed + (uint64_t) way) % 4 == 0 ? "1" : "0");
}

/* Runs programs in all ways; returns whether one went wrong. */
static bool run_all(program *const *programs, int n, report *r) {
    for (int way = 0; way < WAYS; ++way) {
        start(programs[0]->seed, way);
        for (int k = 0; k < n; ++k) {
            r->seed = programs[k]->seed;
            set_options(programs[k], way);
            r->step = run_program(programs[k], (uint64_t) way, r->error);
            if (r->step) {
                fprintf(stderr, "program %llu, way %d: %s\n", (unsigned long long) r->seed, way,
                        r->error);
                return true;
            }
        }
        support_shutdown();
    }
    return false;
}

/* The same in a process of its own. */
static bool fails(program *const *programs, int n, report *r, bool quiet) {
    r->step = 0;
    r->error[0] = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (quiet && !freopen("/dev/null", "w", stderr))
            _exit(2);
        alarm(quiet ? SHORT_PATIENCE : PATIENCE);
        bool bad = run_all(programs, n, r);
        fflush(NULL);
        _exit(bad); /* what is left over, run_program() has counted */
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        exit(2);
    if (WIFSIGNALED(status) && !quiet)
        fprintf(stderr, "program %llu: %s\n", (unsigned long long) r->seed,
                strsignal(WTERMSIG(status)));
    return status != 0;
}

/* ---- reducing ---- */

/* Is the step, with its second result, an array as good as any? */
static bool may_give(const program *p, int i) {
    const fuzz_step *s = &p->step[i];
    return s->needed && !s->given && s->inner < 0 && s->kind > FOREIGN && s->kind <= RESULT &&
           s->kind != VARIABLE && s->kind != SECOND;
}

/* Of steps in a block, and of markers, it is the results of the whole that can be wanted. */
static void want(const program *p, int i, bool *wanted) {
    const fuzz_step *s = &p->step[i];
    if (s->inner < 0 && s->kind <= RESULT)
        wanted[i] = true;
    for (int n = 0; n < p->blocks; ++n) {
        const fuzz_block *b = &p->block[n];
        for (int k = 0; k < b->states && b->parent < 0 && b->begin <= i && i <= b->end; ++k)
            wanted[b->result[k]] = true;
    }
}

/* Replace a step by an array if the program fails still. */
static void give_if(program *p, int i, bool give, const bool *wanted, report *r) {
    int n = p->step[i].kind != SECOND && i + 1 < p->count && p->step[i + 1].kind == SECOND ? 2 : 1;
    for (int k = i; k < i + n; ++k)
        p->step[k].given = give;
    program_trim(p, wanted);
    if (give && !fails(&p, 1, r, true))
        for (int k = i; k < i + n; ++k)
            p->step[k].given = false;
    program_trim(p, wanted);
}

static void shrink(program *p, report *r) {
    bool wanted[MAX_STEPS] = {0};
    int last = r->step > 0 && r->step <= p->count ? r->step - 1 : p->count - 1;
    want(p, last, wanted);
    program_trim(p, wanted);
    if (!fails(&p, 1, r, true)) { /* what else is there matters */
        for (int i = 0; i < p->count; ++i)
            want(p, i, wanted);
        program_trim(p, wanted);
    }
    for (int i = p->count - 1; i >= 0; --i) {
        if (!p->step[i].needed)
            continue;
        bool was = wanted[i], give = may_give(p, i);
        wanted[i] = false;
        program_trim(p, wanted);
        if (was && fails(&p, 1, r, true))
            continue;
        wanted[i] = was;
        give_if(p, i, give, wanted, r);
    }
    fprintf(stderr, "reduced:\n");
    fails(&p, 1, r, false);
    program_print(p);
}

static program *make(uint64_t seed) {
    program *p = malloc(sizeof *p);
    program_make(p, seed);
    return p;
}

static int explain(uint64_t seed, report *r) {
    program *p = make(seed);
    program_print(p);
    if (fails(&p, 1, r, false))
        shrink(p, r);
    else
        fprintf(stderr, "alone, it is right\n");
    program_finish(p);
    free(p);
    return 1;
}

int main(int argc, char **argv) {
    time_t seconds = argc > 1 ? atoi(argv[1]) : 5, end = time(NULL) + seconds;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1, seed = first;
    report *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r == MAP_FAILED)
        return 2;
    do {
        program *programs[TOGETHER];
        int n = seconds ? TOGETHER : 1;
        for (int k = 0; k < n; ++k)
            programs[k] = make(seed++);
        bool bad = fails(programs, n, r, false);
        for (int k = 0; k < n; ++k) {
            program_finish(programs[k]);
            free(programs[k]);
        }
        if (bad)
            return explain(r->seed, r);
    } while (time(NULL) < end);
    printf("%llu programs, from %llu on: every result is the same in every way\n",
           (unsigned long long) (seed - first), (unsigned long long) first);
    munmap(r, sizeof *r);
    return 0;
}
