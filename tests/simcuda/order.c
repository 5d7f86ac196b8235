/* order.c: the checker of order: clocks of streams, accesses of work.  Layer: tests. */
#include "order.h"
#include "segments.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))
enum { LARGE_MARKS = 1 << 17 }; /* bytes from which on untouched ones are not even cleared */

/** The marks of one allocation in the kernel that runs. */
typedef struct touch {
    sim_allocation *block;
    char *memory;
    size_t bytes;
    bool mapped;
} touch;

static struct {
    pthread_once_t once;
    _Atomic bool on, strict;
    _Atomic unsigned races;
    sim_clock *host;
    /* the worker's: */
    const sim_work *work; /* that runs */
    sim_op *op;           /* of it; NULL: it has accessed nothing so far */
    const char *kernel, *what;
    size_t node;
    const uint64_t *before;
    bool watches; /* a kernel */
    touch *touched;
    size_t touched_count, touched_capacity;
} o = {.once = PTHREAD_ONCE_INIT};

static void read_environment(void) {
    const char *order = getenv("SIMCUDA_ORDER");
    o.on = !order || strcmp(order, "0") != 0;
    o.strict = order && strcmp(order, "strict") == 0;
}

static bool is_on(void) {
    pthread_once(&o.once, read_environment);
    return o.on;
}

/* ---- clocks ---- */

static void join_implicit(sim_stream *s) {
    sim_context *c = s->object.context;
    if (s->kind == SIM_BLOCKING || s->kind == SIM_PER_THREAD)
        sim_clock_join(&s->clock, c->legacy->clock, true);
    for (sim_stream *t = s->kind == SIM_LEGACY ? sim_streams() : NULL; t; t = t->next)
        if (t->object.context == c && t->kind != SIM_NON_BLOCKING)
            sim_clock_join(&s->clock, t->clock, true);
}

void sim_order_action(sim_work *w) {
    sim_stream *s = w->stream;
    sim_clock_join(&s->clock, o.host, false);
    join_implicit(s);
    sim_clock_add(&s->clock, s->task, w->number);
    w->clock = sim_clock_ref(s->clock);
}

void sim_order_after(sim_stream *s, const sim_clock *c) {
    sim_clock_join(&s->clock, c, false);
}

void sim_order_keep(sim_clock **kept, const sim_stream *s) {
    sim_clock *old = *kept;
    *kept = sim_clock_ref(s->clock);
    sim_clock_unref(old);
}

void sim_order_host(const sim_clock *c) {
    sim_clock_join(&o.host, c, false);
}

CUresult sim_order_wait(sim_point p, sim_clock *c, const sim_context *context) {
    sim_clock *then = sim_clock_ref(c); /* others may queue while this waits */
    CUresult result = sim_point_wait(p, context);
    sim_order_host(then);
    sim_clock_unref(then);
    return result;
}

CUresult sim_order_wait_all(sim_context *context) {
    sim_clock *then = NULL;
    for (sim_stream *s = sim_streams(); s; s = s->next)
        if (s->object.context == context)
            sim_clock_join(&then, s->clock, false);
    CUresult result = sim_context_wait(context);
    sim_order_host(then);
    sim_clock_unref(then);
    return result;
}

/* ---- reports ---- */

static void describe(const sim_op *op, char *text, size_t size) {
    static const char *const kinds[] = {[SIM_LEGACY] = "the legacy stream",
                                        [SIM_PER_THREAD] = "per-thread default stream",
                                        [SIM_BLOCKING] = "blocking stream",
                                        [SIM_NON_BLOCKING] = "non-blocking stream"};
    char node[40] = "";
    const char *kernel = op->kernel ? "kernel " : "";
    if (!op->stream) {
        snprintf(text, size, "%s", op->what);
        return;
    }
    if (op->node != SIZE_MAX)
        snprintf(node, sizeof node, "node %zu of ", op->node);
    snprintf(text, size, "%s%s (%snumber %llu on %s %u)", kernel, op->what, node,
             (unsigned long long) op->number, kinds[op->stream->kind], op->stream->object.number);
}

static const char *verb(unsigned kinds) {
    static const char *const verbs[] = {[SIM_READ] = "reads",
                                        [SIM_WRITE] = "writes",
                                        [SIM_READ | SIM_WRITE] = "reads and writes",
                                        [SIM_ATOMIC] = "has atomics on",
                                        [SIM_READ | SIM_ATOMIC] = "reads and has atomics on",
                                        [SIM_WRITE | SIM_ATOMIC] = "writes and has atomics on",
                                        [SIM_READ | SIM_WRITE | SIM_ATOMIC] =
                                            "reads, writes and has atomics on"};
    return verbs[kinds & 7];
}

static void report(const sim_allocation *a, const sim_op *op, const char *does,
                   const sim_conflict *c) {
    char first[256], second[256], part[48] = "";
    bool implicit = c->known == SIM_IMPLICIT;
    describe(c->before, first, sizeof first);
    describe(op, second, sizeof second);
    if (c->bytes < c->to - c->from)
        snprintf(part, sizeof part, " (%llu of them)", (unsigned long long) c->bytes);
    o.races++;
    sim_fault("%s: %s %s bytes %llu to %llu%s of allocation %u of %llu bytes; %s %s them, and %s",
              implicit ? "implicit" : "race", second, does ? does : verb(c->kinds),
              (unsigned long long) c->from, (unsigned long long) c->to - 1, part, a->number,
              (unsigned long long) (a->end - a->base), first, verb(c->kinds_before),
              implicit ? "only the legacy stream orders the two" : "nothing orders the two");
}

static void report_all(const sim_allocation *a, sim_pass *p, const char *does) {
    for (unsigned i = 0; i < p->conflict_count; i++) {
        report(a, p->op, does, &p->conflicts[i]);
        sim_op_unref(p->conflicts[i].before);
    }
}

/** Does the operation come after the allocation of what it accesses? */
static void check_birth(const sim_allocation *a, const sim_pass *p, const char *does) {
    const sim_stream *s = a->birth.stream;
    sim_known known = s ? sim_clock_knows(p->clock, s->task, a->birth.number) : SIM_KNOWN;
    if (known >= p->least)
        return;
    char text[256];
    describe(p->op, text, sizeof text);
    o.races++;
    sim_fault("%s: %s %s allocation %u of %llu bytes, and %s its cuMemAllocAsync (number %llu on "
              "stream %u) first",
              known == SIM_IMPLICIT ? "implicit" : "race", text, does, a->number,
              (unsigned long long) (a->end - a->base),
              known == SIM_IMPLICIT ? "only the legacy stream puts" : "nothing puts",
              (unsigned long long) a->birth.number, s->object.number);
}

static sim_pass new_pass(sim_op *op, const sim_clock *clock) {
    return (sim_pass) {
        .op = op, .clock = clock, .nodes = o.before, .least = o.strict ? SIM_KNOWN : SIM_IMPLICIT};
}

/* ---- ends of allocations ---- */

static void check_end(sim_allocation *a, sim_op *op, const sim_clock *clock) {
    sim_pass p = new_pass(op, clock);
    check_birth(a, &p, "frees");
    sim_pass_check(&p, a->segments);
    report_all(a, &p, "frees");
}

void sim_order_freed(sim_allocation *a, const sim_work *w) {
    sim_op op = {.what = w->what, .stream = w->stream, .number = w->number, .node = SIZE_MAX};
    if (is_on())
        check_end(a, &op, w->clock);
}

void sim_order_freed_by_host(sim_allocation *a, const char *what) {
    sim_op op = {.what = what, .node = SIZE_MAX};
    if (is_on())
        check_end(a, &op, o.host);
}

/* ---- accesses ---- */

void sim_order_work(const sim_work *w) {
    o.work = w;
    o.op = NULL;
    o.kernel = NULL;
    o.what = w ? w->what : NULL;
    o.node = SIZE_MAX;
    o.before = NULL;
}

void sim_order_done(sim_work *w) {
    sim_clock_unref(w->clock);
    w->clock = NULL;
    if (o.work != w)
        return; /* a host function: another thread runs it, while the worker does something else */
    sim_op_unref(o.op);
    sim_order_work(NULL);
}

/** The operation that runs. */
static sim_op *operation(void) {
    if (o.op)
        return o.op;
    o.op = sim_new(sizeof *o.op);
    *o.op = (sim_op) {.references = 1,
                      .what = o.kernel ? o.kernel : o.what,
                      .kernel = o.kernel,
                      .stream = o.work->stream,
                      .number = o.work->number,
                      .node = o.node};
    return o.op;
}

void sim_order_node(size_t node, const uint64_t *before, const char *what) {
    sim_lock();
    sim_op_unref(o.op);
    o.op = NULL;
    o.kernel = NULL;
    o.what = what;
    o.node = node;
    o.before = before;
    sim_unlock();
}

static bool begin_pass(sim_pass *p, sim_allocation *a) {
    *p = new_pass(operation(), o.work->clock);
    if (!a->live) {
        char text[256];
        describe(p->op, text, sizeof text);
        o.races++;
        sim_fault("race: allocation %u is freed while %s uses it", a->number, text);
        return false;
    }
    check_birth(a, p, "uses");
    sim_pass_begin(p, &a->segments, a->end - a->base);
    return true;
}

static void end_pass(sim_pass *p, const sim_allocation *a) {
    sim_pass_end(p);
    report_all(a, p, NULL);
}

void sim_order_range(uint64_t address, uint64_t bytes, sim_access kind) {
    sim_pass p;
    if (!is_on())
        return;
    sim_lock();
    sim_allocation *a = sim_memory_at(address);
    bool inside = a && address >= a->base && bytes <= a->end - address; /* still */
    if (inside && begin_pass(&p, a)) {
        sim_pass_add(&p, address - a->base, address - a->base + bytes, kind);
        end_pass(&p, a);
    }
    sim_unlock();
}

/* ---- marks ---- */

void sim_order_kernel(const char *name) {
    o.kernel = name;
    o.watches = is_on();
}

/** A byte for each page, and a multiple of 64. */
static size_t page_bytes(const sim_allocation *a) {
    return (((a->end - a->base - 1) >> SIM_MARK_PAGE) + 64) / 64 * 64;
}

uint64_t *sim_order_touch(sim_allocation *a) {
    if (!o.watches)
        return NULL;
    if (o.touched_count == o.touched_capacity) {
        o.touched_capacity = o.touched_capacity ? 2 * o.touched_capacity : 64;
        touch *grown = realloc(o.touched, o.touched_capacity * sizeof *grown);
        if (!grown)
            abort();
        o.touched = grown;
    }
    size_t chunks = (a->end - a->base + 63) / 64, pages = page_bytes(a);
    touch t = {.block = a, .bytes = pages + chunks * SIM_MARK_WORDS * sizeof(uint64_t)};
    t.mapped = t.bytes >= LARGE_MARKS;
    t.memory = t.mapped ? mmap(NULL, t.bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                        : sim_new(t.bytes);
    if (t.memory == MAP_FAILED)
        abort();
    o.touched[o.touched_count++] = t;
    return a->marks = (uint64_t *) (void *) (t.memory + pages);
}

void sim_order_mark_far(uint64_t *marks, uint64_t from, uint64_t bytes, sim_access kind) {
    for (uint64_t i = from; i < from + bytes; i++) {
        marks[i / 64 * SIM_MARK_WORDS + kind / 2] |= (uint64_t) 1 << i % 64;
        ((uint8_t *) marks)[-1 - (int64_t) (i >> SIM_MARK_PAGE)] = 1;
    }
}

/** Bytes in a row that were accessed in the same way. */
typedef struct run {
    sim_pass *pass;
    unsigned kinds;
    uint64_t from, to;
} run;

static inline void advance(run *r, unsigned kinds, uint64_t to) {
    if (kinds != r->kinds) {
        if (r->kinds)
            sim_pass_add(r->pass, r->from, r->to, r->kinds);
        r->kinds = kinds;
        r->from = r->to;
    }
    r->to = to;
}

/** 64 bytes, from `at` on. */
static void read_chunk(run *r, const uint64_t *m, uint64_t at) {
    for (unsigned i = 0; i < 64;) {
        uint64_t bits[3], differs = 0;
        unsigned kinds = 0;
        for (unsigned k = 0; k < 3; k++) {
            bits[k] = m[k] >> i;
            kinds |= (unsigned) (bits[k] & 1) << k;
            differs |= bits[k] ^ (0 - (bits[k] & 1));
        }
        i = differs ? i + (unsigned) __builtin_ctzll(differs) : 64;
        advance(r, kinds, at + i);
    }
}

static void read_page(run *r, const uint64_t *marks, uint64_t at, uint64_t end) {
    for (; at < end; at += 64) {
        const uint64_t *m = marks + at / 64 * SIM_MARK_WORDS;
        if (!(m[0] | m[1] | m[2]))
            advance(r, 0, at + 64);
        else
            read_chunk(r, m, at);
    }
}

static void read_marks(sim_pass *p, const sim_allocation *a) {
    enum { PAGE = 1 << SIM_MARK_PAGE };
    uint64_t bytes = a->end - a->base;
    run r = {.pass = p};
    for (uint64_t at = 0; at < bytes; at += PAGE) {
        uint64_t end = at + PAGE < bytes ? at + PAGE : bytes;
        if (((const uint8_t *) a->marks)[-1 - (int64_t) (at >> SIM_MARK_PAGE)])
            read_page(&r, a->marks, at, end);
        else
            advance(&r, 0, end);
    }
    advance(&r, 0, bytes); /* the last one ends */
}

static void end_touch(touch *t) {
    sim_pass p;
    if (begin_pass(&p, t->block)) {
        read_marks(&p, t->block);
        end_pass(&p, t->block);
    }
    t->block->marks = NULL;
    if (t->mapped)
        munmap(t->memory, t->bytes);
    else
        free(t->memory);
}

void sim_order_kernel_end(void) {
    sim_lock();
    for (size_t i = 0; i < o.touched_count; i++)
        end_touch(&o.touched[i]);
    o.touched_count = 0;
    o.watches = false;
    sim_unlock();
}

/* ---- for tests ---- */

EXPORT void simcuda_order(bool on) {
    is_on();
    o.on = on;
}

EXPORT void simcuda_order_strict(bool strict) {
    is_on();
    o.strict = strict;
}

EXPORT unsigned simcuda_races(void) {
    return o.races;
}
