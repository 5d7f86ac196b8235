/* helpers.c: scalar functions that generated code calls.  Layer: llvm.  May include: core, ir.
 *
 * The names that end in f or are plain C are what LLVM itself calls for rounding on machines
 * without SSE 4.1, and for vectors' loads at the end of an array. */
#include "llvm/helpers.h"
#include "core/sync.h"
#include "ir/program.h"
#include <math.h>
#include <string.h>

static void lanes_fma_f32(float *r, const float *a, const float *b, const float *c, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        r[i] = fmaf(a[i], b[i], c[i]);
}
static void lanes_fma_f64(double *r, const double *a, const double *b, const double *c,
                          uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        r[i] = fma(a[i], b[i], c[i]);
}
static void lanes_fmod_f32(float *r, const float *a, const float *b, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        r[i] = fmodf(a[i], b[i]);
}
static void lanes_fmod_f64(double *r, const double *a, const double *b, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        r[i] = fmod(a[i], b[i]);
}

/** The first bad lane of a vector, if the report is still free. */
static void report_bounds(jitc_bounds_report *report, uint32_t claim, const uint64_t *indices,
                          uint64_t bad, uint64_t size) {
    uint32_t expected = 0;
    if (__atomic_compare_exchange_n(&report->claimed, &expected, claim, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED)) {
        report->index = indices[__builtin_ctzll(bad)];
        report->size = size;
    }
}

/* glibc has roundeven() only with a feature macro of its own; rint() is the same in the default
 * mode, which is the one that kernels run in. */
static float round_even_f32(float x) {
    return rintf(x);
}
static double round_even_f64(double x) {
    return rint(x);
}

void *jitc_helper_find(const char *name) {
    typedef void (*function)(void);
    static const struct {
        const char *name;
        function address;
    } all[] = {
        {"jitc_lanes_fma_f32", (function) lanes_fma_f32},
        {"jitc_lanes_fma_f64", (function) lanes_fma_f64},
        {"jitc_lanes_fmod_f32", (function) lanes_fmod_f32},
        {"jitc_lanes_fmod_f64", (function) lanes_fmod_f64},
        {"jitc_report_bounds", (function) report_bounds},
        {"memcpy", (function) memcpy},
        {"memset", (function) memset},
        {"floorf", (function) floorf},
        {"floor", (function) floor},
        {"ceilf", (function) ceilf},
        {"ceil", (function) ceil},
        {"truncf", (function) truncf},
        {"trunc", (function) trunc},
        {"roundevenf", (function) round_even_f32},
        {"roundeven", (function) round_even_f64},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0) {
            void *address;
            memcpy(&address, &all[i].address, sizeof address);
            return address;
        }
    return NULL;
}
