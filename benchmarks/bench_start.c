/* bench_start.c: from the start of a process to its first result.
 * Layer: benchmarks. May include: nothing of the library. */
#include "bench.h"
#include "bench_child.h"

enum { PROGRAMS = 3 };

static void measure(bench *b, bench_child *programs, const bool *installed, bool cold) {
    bench_row row = bench_row_make(BENCH_MS, (bench_goal) {cold ? 20 : 8, NULL},
                                   "first result, %s disk cache", cold ? "cold" : "warm");
    for (size_t i = 0; i < PROGRAMS; ++i) {
        programs[i].cold = cold;
        bench_row_add(&row, programs[i].who, installed[i] ? bench_child_sample : NULL,
                      &programs[i]);
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
    bench_child programs[PROGRAMS] = {{.who = who[0]}, {.who = who[1]}, {.who = who[2]}};
    bool installed[PROGRAMS] = {bench_child_init(&programs[0], argv[0], "first_result_jitc", NULL),
                                bench_child_init(&programs[1], argv[0], "first_result_drjit", NULL),
                                bench_child_init(&programs[2], argv[0], "python", script)};
    measure(b, programs, installed, true);
    measure(b, programs, installed, false);
    bench_note(b, "Process start to first result: from before fork() until the child writes a "
                  "byte; z = 2 x + 1 on 8 elements.");
    for (size_t i = 0; i < PROGRAMS; ++i)
        bench_child_finish(&programs[i]);
    return bench_destroy(b);
}
