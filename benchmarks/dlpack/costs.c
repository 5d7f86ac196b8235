/* costs.c: what exporting and importing cost, when no element is looked at.
 * Layer: benchmarks. May include: <jit/dlpack.h>. */
#include "dlpack/parts.h"

enum { SMALL = 1024, BUSY_CALLS = 64, SIDE = 32 };
static const double fill_ns = 2e6;

/* ---- Exports ---- */

typedef struct token {
    const char *name;
    intptr_t value;
    double goal; /* ns; 0: none */
    bool waits;  /* the CPU, for the array */
} token;

typedef struct exports {
    site *site;
    jit_export_options options;
    jit_var v;
    bool busy, legacy, fresh, failed;
} exports;

static bool export_once(exports *e, jit_var v) {
    DLManagedTensorVersioned *t;
    DLManagedTensor *old;
    if (e->legacy) {
        if (jit_export_dlpack_legacy(v, &e->options, &old) != JIT_OK)
            return false;
        old->deleter(old);
        return true;
    }
    if (jit_export_dlpack(v, &e->options, &t) != JIT_OK)
        return false;
    t->deleter(t);
    return true;
}

static void export_evaluated(void *context) {
    exports *e = context;
    e->failed = !export_once(e, e->v) || e->failed;
}

static jit_var trace(const exports *e) {
    jit_backend b = e->site->backend;
    return jit_fma(e->v, jit_f32(b, 2), jit_f32(b, 1));
}

static void export_traced(void *context) {
    exports *e = context;
    jit_scope_push();
    e->failed = !export_once(e, trace(e)) || e->failed;
    jit_scope_pop(0, NULL);
}

static void evaluate_traced(void *context) {
    exports *e = context;
    jit_scope_push();
    e->failed = jit_var_eval(trace(e)) != JIT_OK || e->failed;
    jit_scope_pop(0, NULL);
}

static double finish(const exports *e, double ns) {
    bool good = jit_sync_thread() == JIT_OK && !e->failed;
    return good ? ns : site_failed("exporting");
}

static double sample_idle(void *context) {
    exports *e = context;
    e->failed = jit_sync_thread() != JIT_OK;
    return finish(e, bench_per_call(export_evaluated, e, fill_ns));
}

/* The array is being computed: some calls while it is. */
static double sample_busy(void *context) {
    exports e = *(const exports *) context;
    size_t n = (size_t) 1 << (e.site->largest < 24 ? e.site->largest : 24);
    jit_scope_push();
    jit_var v = jit_cast(jit_counter(e.site->backend, n), JIT_f32);
    for (int i = 0; i < 64; ++i)
        v = jit_sin(v);
    e.v = v;
    e.failed = jit_var_eval(v) != JIT_OK;
    double start = bench_now();
    for (int i = 0; i < BUSY_CALLS; ++i)
        export_evaluated(&e);
    double ns = (bench_now() - start) / (double) BUSY_CALLS;
    jit_scope_pop(0, NULL);
    return finish(&e, ns);
}

static double sample_traced(void *context) {
    exports *e = context;
    e->failed = false;
    return finish(e, bench_per_call(export_traced, e, fill_ns));
}

static double sample_evaluated(void *context) {
    exports *e = context;
    e->failed = false;
    return finish(e, bench_per_call(evaluate_traced, e, fill_ns));
}

static void measure_token(site *s, const token *t, jit_var v, bool busy) {
    exports versioned = {.site = s, .options = JIT_EXPORT_OPTIONS, .v = v}, legacy;
    bench_row row =
        bench_row_make(BENCH_NS, (bench_goal) {busy ? 0 : t->goal, NULL},
                       "export + deleter, %s, %s%s", s->name, t->name, busy ? ", busy" : "");
    versioned.options.stream = t->value;
    legacy = versioned;
    legacy.legacy = true;
    bench_row_add(&row, "jitc", busy ? sample_busy : sample_idle, &versioned);
    bench_row_add(&row, "legacy", busy ? sample_busy : sample_idle, &legacy);
    bench_measure(s->bench, &row);
}

static void measure_unevaluated(site *s, jit_var v) {
    exports e = {.site = s, .options = JIT_EXPORT_OPTIONS, .v = v};
    bench_row row = bench_row_make(BENCH_NS, (bench_goal) {0, NULL},
                                   "trace, export + deleter, %s, %d elements", s->name, SMALL);
    bench_row_add(&row, "jitc", sample_traced, &e);
    bench_row_add(&row, "evaluate", sample_evaluated, &e);
    bench_measure(s->bench, &row);
}

static void measure_exports(site *s) {
    const token cpu[] = {{"not given", JIT_STREAM_NOT_GIVEN, 0, true},
                         {"-1", JIT_STREAM_NONE, 150, false}};
    const token gpu[] = {{"-1", JIT_STREAM_NONE, 150, false},
                         {"not given", JIT_STREAM_NOT_GIVEN, 0, false},
                         {"0", 0, 0, true},
                         {"1", JIT_STREAM_LEGACY, 150, false},
                         {"2", JIT_STREAM_PER_THREAD, 0, false},
                         {"handle", (intptr_t) s->stream, 800, false}};
    const token *tokens = s->device ? gpu : cpu;
    size_t count = s->device ? sizeof gpu / sizeof *gpu : sizeof cpu / sizeof *cpu;
    jit_var v = site_array(s, SMALL);
    for (size_t i = 0; i < count && v; ++i) {
        measure_token(s, &tokens[i], v, false);
        if (!tokens[i].waits)
            measure_token(s, &tokens[i], v, true);
    }
    if (v)
        measure_unevaluated(s, v);
    jit_unref(v);
}

/* ---- Imports ---- */

typedef struct imports {
    site *site;
    jit_import_options options;
    DLManagedTensorVersioned tensor; /* taken again and again */
    int64_t shape[2], strides[2];
    size_t taken, deleted;
    bool failed;
} imports;

static void count_deleter(DLManagedTensorVersioned *t) {
    ++((imports *) t->manager_ctx)->deleted;
}

static void import_once(void *context) {
    imports *i = context;
    jit_var v = 0;
    ++i->taken;
    i->failed = jit_import_dlpack(&i->tensor, &i->options, &v) != JIT_OK || i->failed;
    jit_unref(v);
}

static double sample_import(void *context) {
    imports *i = context;
    i->failed = false;
    double ns = bench_per_call(import_once, i, fill_ns);
    if (i->failed || jit_sync_thread() != JIT_OK)
        return site_failed("importing");
    if (i->taken != i->deleted) {
        fprintf(stderr, "WRONG: %zu imports, %zu calls of the deleter\n", i->taken, i->deleted);
        i->site->wrong = true;
    }
    return ns;
}

static void measure_import(site *s, void *memory, bool transposed, intptr_t stream,
                           const char *named) {
    imports i = {.site = s,
                 .options = JIT_IMPORT_OPTIONS,
                 .shape = {SIDE, SIDE},
                 .strides = {transposed ? 1 : SIDE, transposed ? SIDE : 1}};
    i.options.producer_stream = stream;
    i.tensor =
        (DLManagedTensorVersioned) {.version = {1, 0},
                                    .manager_ctx = &i,
                                    .deleter = count_deleter,
                                    .dl_tensor = {.data = memory,
                                                  .device = {s->device ? kDLCUDA : kDLCPU, 0},
                                                  .ndim = 2,
                                                  .dtype = {kDLFloat, 32, 1},
                                                  .shape = i.shape,
                                                  .strides = i.strides}};
    bench_row row = bench_row_make(BENCH_NS, (bench_goal) {500, NULL}, "import + unref, %s, %s%s",
                                   s->name, transposed ? "transposed" : "compact", named);
    bench_row_add(&row, "jitc", sample_import, &i);
    bench_measure(s->bench, &row);
}

static void measure_imports(site *s) {
    void *memory = site_alloc(s, SIDE * SIDE * sizeof(float));
    if (!memory)
        return;
    for (int transposed = 0; transposed < 2; ++transposed) {
        measure_import(s, memory, transposed, JIT_STREAM_NONE, s->device ? ", -1" : "");
        if (s->device) {
            measure_import(s, memory, transposed, JIT_STREAM_LEGACY, ", 1");
            measure_import(s, memory, transposed, (intptr_t) jit_cuda_stream(), ", our stream");
            measure_import(s, memory, transposed, (intptr_t) s->stream, ", their stream");
        }
    }
    site_free(s, memory);
}

void measure_costs(site *s) {
    measure_exports(s);
    measure_imports(s);
}
