/* math_measure.c: the error of a math function.
 *
 * The work is cut into numbered tasks of one call of the function each: edges first, then the bit
 * patterns, then random arguments, whose seed is the task's number, so that the arguments do not
 * depend on the number of threads. */
#include "math_measure.h"
#include "reference.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** Arguments and results of one thread, of either type, and what it has found. */
typedef struct worker {
    struct job *job;
    void *a, *b, *r;
    math_error worst;
} worker;

typedef struct job {
    const math_function *f;
    math_effort effort;
    size_t edge_tasks, pattern_tasks, tasks;
    _Atomic size_t next;
} job;

double math_to_double(jit_dtype type, uint64_t bits) {
    double d;
    float f;
    uint32_t low = (uint32_t) bits;
    memcpy(&d, &bits, sizeof d);
    memcpy(&f, &low, sizeof f);
    return type == JIT_f64 ? d : (double) f;
}

static uint64_t load_bits(jit_dtype type, const void *p, size_t i) {
    uint64_t wide = 0;
    memcpy(&wide, (const char *) p + i * jitc_dtypes[type].bytes, jitc_dtypes[type].bytes);
    return wide;
}

static void store_double(jit_dtype type, void *p, size_t i, double d) {
    if (type == JIT_f64)
        ((double *) p)[i] = d;
    else
        ((float *) p)[i] = (float) d;
}

/* clang-format off */
#define ONE_ARGUMENT(X)                                                                            \
    X(exp) X(exp2) X(exp10) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sin) X(cos) X(tan)         \
    X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(cbrt) X(erf)
/* clang-format on */
#define TWO_ARGUMENTS(X) X(pow) X(atan2) X(hypot)

static double wide_f32(jitc_op op, double a, double b) {
    switch (op) {
#define X(name)                                                                                    \
    case JITC_OP_##name: return name(a);
        ONE_ARGUMENT(X)
#undef X
#define X(name)                                                                                    \
    case JITC_OP_##name: return name(a, b);
        TWO_ARGUMENTS(X)
#undef X
        case JITC_OP_rsqrt: return 1 / sqrt(a);
        default: return NAN;
    }
}

static long double wide_f64(jitc_op op, long double a, long double b) {
    switch (op) {
#define X(name)                                                                                    \
    case JITC_OP_##name: return name##l(a);
        ONE_ARGUMENT(X)
#undef X
#define X(name)                                                                                    \
    case JITC_OP_##name: return name##l(a, b);
        TWO_ARGUMENTS(X)
#undef X
        case JITC_OP_rsqrt: return 1 / sqrtl(a);
        default: return (long double) NAN;
    }
}

/** About how far got is from want, in units in the last place; large if in doubt. */
static double estimate(jit_dtype type, double got, long double want) {
    int precision = type == JIT_f64 ? 53 : 24, least = type == JIT_f64 ? -1021 : -125, exponent;
    if (!isfinite(got) || !isfinite(want) || want == 0)
        return INFINITY;
    frexpl(want, &exponent);
    exponent = exponent < least ? least : exponent;
    return (double) (fabsl((long double) got - want) / ldexpl(1, exponent - precision));
}

static void judge(math_error *e, const math_function *s, const void *a, const void *b,
                  const void *r, size_t n) {
    bool two = jitc_ops[s->op].arity == 2;
    for (size_t i = 0; i < n; i++) {
        uint64_t in[3] = {load_bits(s->type, a, i), two ? load_bits(s->type, b, i) : 0, 0};
        uint64_t got = load_bits(s->type, r, i);
        double x = math_to_double(s->type, in[0]), y = math_to_double(s->type, in[1]);
        long double want =
            s->type == JIT_f64 ? wide_f64(s->op, x, y) : (long double) wide_f32(s->op, x, y);
        double size = math_to_double(s->type, got);
        if (isnan(size) && isnan(want))
            continue;
        if (isinf(size) && isinf(want) && (size > 0) == (want > 0))
            continue;
        if (estimate(s->type, size, want) < fmin(e->ulp, 1) * 0.999)
            continue;
        double exact = reference_error(s->op, s->type, in, got);
        e->above += exact > 1;
        if (exact > e->ulp)
            *e = (math_error) {exact, {in[0], in[1]}, e->above, e->failed};
    }
}

/* Their negatives, too. */
static const double edge_values[] = {0,
                                     1,
                                     0.5,
                                     2,
                                     3,
                                     1.5,
                                     10,
                                     17,
                                     20,
                                     100,
                                     1e-8,
                                     1e-20,
                                     1e-40,
                                     1e-45,
                                     1e-160,
                                     1e-310,
                                     5e-324,
                                     0x1p-126,
                                     0x1p-1022,
                                     0x1.fffffep127,
                                     0x1.fffffffffffffp1023,
                                     8e307,
                                     1e15,
                                     1e22,
                                     1e30,
                                     1e38,
                                     1e300,
                                     0x1p1000,
                                     0x1.8p23,
                                     0x1p24,
                                     8388609,
                                     9007199254740992.0,
                                     0x1p53,
                                     0x1p62,
                                     0.785398163397448279,
                                     1.57079632679489656,
                                     3.14159265358979312,
                                     8192,
                                     8193,
                                     1e5,
                                     0.9999999,
                                     1.0000001,
                                     0x1.fffffffffffffp-1,
                                     0x1.0000000000001p0,
                                     87.4,
                                     88.7,
                                     88.73,
                                     89,
                                     89.4,
                                     89.5,
                                     103.9,
                                     104,
                                     127.9999,
                                     128,
                                     149,
                                     149.5,
                                     150,
                                     38.5,
                                     38.54,
                                     45,
                                     45.2,
                                     308.2,
                                     308.3,
                                     323,
                                     324,
                                     700,
                                     708.5,
                                     709.7,
                                     709.79,
                                     710.4,
                                     710.5,
                                     745.1,
                                     745.2,
                                     1023.9,
                                     1024,
                                     1074,
                                     1075,
                                     3.92,
                                     4,
                                     9.01,
                                     9.02,
                                     0.125,
                                     0.09375,
                                     1e-4,
                                     1e-10,
                                     INFINITY,
                                     NAN};
enum { EDGES = sizeof edge_values / sizeof *edge_values };

static double edge(jit_dtype type, uint64_t i) {
    double d = i % 2 ? -edge_values[i / 2 % EDGES] : edge_values[i / 2 % EDGES];
    return type == JIT_f64 ? d : (double) (float) d;
}

static size_t fill_edges(jit_dtype type, void *out, size_t room) {
    size_t n = 0;
    for (; n < room && n < 2 * EDGES; n++)
        store_double(type, out, n, edge(type, n));
    return n;
}

static uint64_t next(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/** Uniform in [-1, 1). */
static double unit(uint64_t *seed) {
    return (double) (int64_t) next(seed) * 0x1p-63;
}

/** Any bits. */
static double anything(jit_dtype type, uint64_t *seed) {
    return math_to_double(type, next(seed));
}

/** A special argument or a neighbour of one, near or not so near. */
static double about_edge(const math_function *s, uint64_t *seed) {
    double at = edge(s->type, next(seed) % (2 * (uint64_t) EDGES));
    return at + at * ldexp(unit(seed), -(int) (next(seed) % 53));
}

static void random_pair(const math_function *s, uint64_t *seed, size_t i, double *a, double *b) {
    double reach = s->type == JIT_f64 ? 745 : 104;
    switch (i % 6) {
        case 0: /* pow over its whole range */
            *a = exp(20 * unit(seed));
            *b = reach * unit(seed) / fmax(fabs(log(*a)), 1e-3);
            break;
        case 4: /* pow near its limits */
            *a = exp(20 * unit(seed));
            *b = (s->type == JIT_f64 ? 709.782712893384 : 88.72283905206835) / log(*a);
            *b *= 1 + ldexp(unit(seed), -(int) (next(seed) % 53));
            break;
        case 5:
            *a = about_edge(s, seed);
            *b = about_edge(s, seed);
            break;
        case 1:
            *a = anything(s->type, seed);
            *b = anything(s->type, seed);
            break;
        case 2:
            *a = 10 * unit(seed);
            *b = 10 * unit(seed);
            break;
        default: *a = 1 + 1e-3 * unit(seed); *b = 3e4 * unit(seed);
    }
}

static double random_one(const math_function *s, uint64_t *seed, size_t i) {
    switch (i % 7) {
        case 6: return about_edge(s, seed);
        case 0: return anything(s->type, seed);
        case 1: return (s->type == JIT_f64 ? 750 : 105) * unit(seed);
        case 2: return 30 * unit(seed);
        case 3: return 1.2 * unit(seed);
        case 4: return exp(30 * unit(seed));
        default: return 5 * unit(seed);
    }
}

static void fill_random(const math_function *s, uint64_t *seed, void *a, void *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double x = 0, y = 0;
        if (jitc_ops[s->op].arity == 2)
            random_pair(s, seed, i, &x, &y);
        else
            x = random_one(s, seed, i);
        store_double(s->type, a, i, x);
        store_double(s->type, b, i, y);
    }
}

static uint64_t patterns_of(const job *j) {
    return ((uint64_t) 1 << 32) / j->effort.stride;
}

/** Bit patterns of f32 from number `first` on; behind the last one it begins anew. */
static void fill_patterns(const job *j, size_t first, float *a) {
    for (size_t i = 0; i < j->effort.chunk; i++) {
        uint32_t low = (uint32_t) ((first + i) % patterns_of(j) * j->effort.stride);
        memcpy(&a[i], &low, sizeof low);
    }
}

static void copy_element(jit_dtype type, void *to, size_t i, const void *from, size_t k) {
    size_t bytes = jitc_dtypes[type].bytes;
    memcpy((char *) to + i * bytes, (const char *) from + k * bytes, bytes);
}

enum { MOST_EDGES = 2 * EDGES };

static size_t combinations(const math_function *f) {
    size_t edges = MOST_EDGES;
    return jitc_ops[f->op].arity == 2 ? edges * edges : edges;
}

/** All edges, in all pairs, from number `first` on. */
static void fill_edge_pairs(const job *j, size_t first, void *a, void *b) {
    double edges[MOST_EDGES];
    jit_dtype type = j->f->type;
    size_t count = fill_edges(type, edges, MOST_EDGES);
    for (size_t i = 0; i < j->effort.chunk; i++) {
        size_t pair = (first + i) % combinations(j->f);
        copy_element(type, a, i, edges, pair % count);
        copy_element(type, b, i, edges, pair / count);
    }
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/** How many of the arguments are new: the rest fills the chunk. */
static size_t fill_task(const job *j, size_t task, worker *w) {
    size_t chunk = j->effort.chunk, first = task * chunk;
    if (task < j->edge_tasks) {
        fill_edge_pairs(j, first, w->a, w->b);
        return least(chunk, combinations(j->f) - first);
    }
    first -= j->edge_tasks * chunk;
    if (first < j->pattern_tasks * chunk) {
        fill_patterns(j, first, w->a);
        return least(chunk, (size_t) patterns_of(j) - first);
    }
    uint64_t seed = 88172645463325252 + task * 0x9e3779b97f4a7c15;
    next(&seed); /* neighbouring seeds begin alike */
    fill_random(j->f, &seed, w->a, w->b, chunk);
    return chunk;
}

static void *run_worker(void *context) {
    worker *w = context;
    job *j = w->job;
    for (size_t task; (task = atomic_fetch_add(&j->next, 1)) < j->tasks && !w->worst.failed;) {
        size_t count = fill_task(j, task, w);
        if (j->f->run(j->f->context, w->a, w->b, w->r, j->effort.chunk))
            judge(&w->worst, j->f, w->a, w->b, w->r, count);
        else
            w->worst.failed = true;
    }
    return NULL;
}

static bool worker_init(worker *w, job *j) {
    size_t bytes = j->effort.chunk * sizeof(double);
    *w = (worker) {.job = j,
                   .a = aligned_alloc(64, bytes),
                   .b = aligned_alloc(64, bytes),
                   .r = aligned_alloc(64, bytes)};
    if (!w->a || !w->b || !w->r)
        return false;
    memset(w->b, 0, bytes); /* not read, but copied, for functions of one argument */
    return true;
}

static void worker_finish(worker *w, math_error *sum) {
    size_t above = sum->above + w->worst.above;
    bool failed = sum->failed || w->worst.failed;
    if (w->worst.ulp > sum->ulp)
        *sum = w->worst;
    sum->above = above;
    sum->failed = failed;
    free(w->a);
    free(w->b);
    free(w->r);
}

static size_t tasks_of(uint64_t elements, size_t chunk) {
    return (size_t) ((elements + chunk - 1) / chunk);
}

math_error math_measure(const math_function *f, const math_effort *effort) {
    enum { MOST_THREADS = 64 };
    worker workers[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    math_error sum = {0};
    job j = {.f = f, .effort = *effort};
    bool patterns = f->type == JIT_f32 && jitc_ops[f->op].arity == 1;
    j.edge_tasks = tasks_of(combinations(f), effort->chunk);
    j.pattern_tasks = patterns ? tasks_of(patterns_of(&j), effort->chunk) : 0;
    j.tasks = j.edge_tasks + j.pattern_tasks + tasks_of(effort->random, effort->chunk);
    int wanted = effort->threads < MOST_THREADS ? effort->threads : MOST_THREADS, started = 0;
    for (int t = 0; t < wanted; t++)
        workers[t].worst.failed = !worker_init(&workers[t], &j);
    while (started < wanted - 1 &&
           !pthread_create(&threads[started], NULL, run_worker, &workers[started + 1]))
        started++;
    run_worker(&workers[0]);
    for (int t = 0; t < started; t++)
        pthread_join(threads[t], NULL);
    for (int t = 0; t < wanted; t++)
        worker_finish(&workers[t], &sum);
    return sum;
}

void math_print_where(const math_function *f, const math_error *e) {
    printf("%.9g", math_to_double(f->type, e->at[0]));
    if (jitc_ops[f->op].arity == 2)
        printf(", %.9g", math_to_double(f->type, e->at[1]));
}
