/* scan.c: code for prefix sums.  Layer: llvm.  May include: core, ir.
 *
 *   entry:   step: totals ? reduce.c : chunk
 *   chunk:   what comes before it is in a slot; forward: main, masked; in reverse: masked, main
 *   main:    whole vectors, `unroll` an iteration     masked: the last ones of an array
 *   done:    its total into a slot, if it is wanted; ... chunks left ? chunk : exit
 *
 * A vector is scanned in registers: in steps of 1, 2, ... within 16 bytes, where shifts are cheap,
 * then across those, each time by the last element of a part before. What comes before the vector
 * is added last, so that only one addition a vector waits for the one before.
 *
 * The total of a chunk is that of reduce.c, and not the last element of the scan: so it is the
 * same bits whether the chunk is read once or twice. In reverse, all is mirrored, the order in
 * which the total is added up as well: that of floats is then another one, which shape.c knows. */
#include "llvm/scan.h"
#include "llvm/cost.h"
#include "llvm/reduce.h"

enum { MAX_LANES = 64, DEAR_OPERATIONS = 12 };

typedef struct scanning {
    jitc_builder *k;
    jitc_emit *e; /* of k */
    jitc_combining c;
    bool reverse, exclusive, stores;
    LLVMValueRef neutral, slots;                 /* i64: the address of slots */
    LLVMValueRef from, to, full;                 /* of the chunk; `to` rounded down to groups */
    LLVMValueRef carry, four[JITC_ACCUMULATORS]; /* in the order in which vectors come */
} scanning;

/** A loop over vectors. */
typedef struct section {
    LLVMBasicBlockRef block, last;
    LLVMValueRef position, next;
    LLVMValueRef phis[1 + JITC_ACCUMULATORS]; /* carry, and the others */
} section;

static LLVMValueRef bin(scanning *s, LLVMOpcode op, LLVMValueRef a, LLVMValueRef b) {
    return jitc_emit_bin(s->e, op, a, b);
}
static LLVMValueRef less(scanning *s, LLVMValueRef a, LLVMValueRef b) {
    return jitc_emit_icmp(s->e, LLVMIntULT, a, b);
}
static LLVMValueRef number(scanning *s, uint64_t n) {
    return jitc_build_constant(s->k, n);
}

/* Vectors. Lanes count from the side where the scan starts. */

static unsigned lane_of(const scanning *s, unsigned n) {
    return s->reverse ? s->e->lanes - 1 - n : n;
}

/** Lane n: from[n] of v, or, where that is negative, of `others`. */
static LLVMValueRef pick(scanning *s, LLVMValueRef v, LLVMValueRef others, const int *from) {
    int mirrored[MAX_LANES];
    unsigned lanes = s->e->lanes;
    for (unsigned n = 0; n < lanes; n++)
        mirrored[lane_of(s, n)] =
            from[n] < 0 ? (int) (lanes + lane_of(s, (unsigned) -1 - (unsigned) from[n]))
                        : (int) lane_of(s, (unsigned) from[n]);
    return jitc_emit_shuffle(s->e, v, others, mirrored);
}
/** For pick(): lane n of `others`. */
static int other(unsigned n) {
    return -1 - (int) n;
}

/** Each lane combined with those before it in the vector. */
static LLVMValueRef scan_vector(scanning *s, LLVMValueRef v) {
    jitc_emit *e = s->e;
    unsigned part = 16u / jitc_dtypes[s->c.sum].bytes, lanes = e->lanes;
    int from[MAX_LANES];
    part = part < lanes ? part : lanes;
    for (unsigned step = 1; step < part; step *= 2) {
        for (unsigned n = 0; n < lanes; n++)
            from[n] = n % part >= step ? (int) (n - step) : other(n);
        v = jitc_emit_combine(e, &s->c, pick(s, v, s->neutral, from), v);
    }
    for (unsigned step = 1; step < lanes / part; step *= 2) {
        for (unsigned n = 0; n < lanes; n++) {
            unsigned p = n / part;
            from[n] = p >= step ? (int) ((p - step + 1) * part - 1) : other(n);
        }
        v = jitc_emit_combine(e, &s->c, pick(s, v, s->neutral, from), v);
    }
    return v;
}

/** What each lane of the result is, from the inclusive one. */
static LLVMValueRef result_of(scanning *s, LLVMValueRef inclusive) {
    int from[MAX_LANES];
    if (!s->exclusive)
        return inclusive;
    for (unsigned n = 0; n < s->e->lanes; n++)
        from[n] = n ? (int) n - 1 : other(0);
    return pick(s, inclusive, s->carry, from);
}

static LLVMValueRef slot_address(scanning *s, LLVMValueRef from, bool total) {
    jitc_emit *e = s->e;
    LLVMValueRef chunk = bin(s, LLVMLShr, from, number(s, (uint64_t) __builtin_ctz(JITC_CHUNK)));
    LLVMValueRef at = bin(s, LLVMAdd, chunk, number(s, jitc_scan_slot(0, s->reverse, total)));
    LLVMValueRef base = e->api->LLVMBuildCast(e->b, LLVMIntToPtr, s->slots, e->ptr, "");
    return jitc_build_pointer(s->k, e->i64, base, at);
}

/* One iteration. */

/** The values of an iteration, in the type in which they are combined. */
static void load_values(scanning *s, LLVMValueRef *v) {
    jitc_builder *k = s->k;
    if (!s->stores) {
        jitc_build_body(k);
        jitc_build_operand(k, s->c.value);
    }
    for (unsigned u = 0; u < k->unroll; u++) {
        LLVMValueRef one = s->stores ? jitc_build_load(k, s->c.type, s->c.out, u)
                                     : jitc_build_value(k, s->c.value)[u];
        v[u] = jitc_emit_to_sum(&k->e, &s->c, one);
        if (k->tail)
            v[u] = jitc_emit_select(&k->e, k->tail[u].mask, v[u], s->neutral);
    }
}

/** Add to the accumulators, those that come first in front, and turn them. */
static void add_totals(scanning *s, const LLVMValueRef *v) {
    LLVMValueRef old[JITC_ACCUMULATORS];
    unsigned unroll = s->k->unroll;
    for (unsigned i = 0; i < JITC_ACCUMULATORS; i++)
        old[i] = s->four[i];
    for (unsigned n = 0; n < unroll; n++)
        old[n] = jitc_emit_combine(s->e, &s->c, old[n], v[s->reverse ? unroll - 1 - n : n]);
    for (unsigned i = 0; i < JITC_ACCUMULATORS; i++)
        s->four[i] = old[(i + unroll) % JITC_ACCUMULATORS];
}

static void scan_iteration(scanning *s) {
    jitc_builder *k = s->k;
    jitc_emit *e = &k->e;
    LLVMValueRef v[JITC_MAX_UNROLL], last[JITC_MAX_UNROLL];
    jitc_combining bytes = s->c;
    bytes.type = jitc_stored_type(&s->c);
    load_values(s, v);
    if (!s->stores)
        add_totals(s, v);
    for (unsigned u = 0; u < k->unroll; u++) {
        v[u] = scan_vector(s, v[u]);
        last[u] = jitc_emit_spread(e, v[u], lane_of(s, e->lanes - 1));
    }
    for (unsigned n = 0; n < k->unroll; n++) {
        unsigned u = s->reverse ? k->unroll - 1 - n : n;
        LLVMValueRef inclusive = jitc_emit_combine(e, &s->c, s->carry, v[u]);
        LLVMValueRef result = jitc_emit_from_sum(e, &s->c, result_of(s, inclusive));
        jitc_build_store(k, bytes.type, s->c.out, result, u);
        s->carry = jitc_emit_combine(e, &s->c, s->carry, last[u]);
    }
}

/* Sections. */

static void set_phis(scanning *s, LLVMBasicBlockRef block, LLVMValueRef *phis) {
    jitc_emit *e = s->e;
    LLVMTypeRef vector = jitc_emit_vector(e, jitc_emit_scalar(e, s->c.sum));
    jitc_emit_at(s->e, block);
    for (unsigned i = 0; i <= JITC_ACCUMULATORS; i++)
        phis[i] = e->api->LLVMBuildPhi(e->b, vector, "");
}

static void open_section(scanning *s, section *x) {
    jitc_emit_at(s->e, x->block);
    x->position = s->e->api->LLVMBuildPhi(s->e->b, s->e->i64, "i");
    set_phis(s, x->block, x->phis);
}

static void take_phis(scanning *s, const LLVMValueRef *phis) {
    s->carry = phis[0];
    for (unsigned i = 0; i < JITC_ACCUMULATORS; i++)
        s->four[i] = phis[1 + i];
}

static void flow(scanning *s, LLVMValueRef *phis, LLVMBasicBlockRef from) {
    const jitc_llvm *api = s->e->api;
    api->LLVMAddIncoming(phis[0], &s->carry, &from, 1);
    for (unsigned i = 0; i < JITC_ACCUMULATORS; i++)
        api->LLVMAddIncoming(phis[1 + i], &s->four[i], &from, 1);
}

static void enter(scanning *s, section *x, LLVMValueRef position, LLVMBasicBlockRef from) {
    s->e->api->LLVMAddIncoming(x->position, &position, &from, 1);
    flow(s, x->phis, from);
}

/** The iteration of a section; where the next one is. */
static void run_section(scanning *s, section *x, unsigned unroll, bool masked) {
    jitc_builder *k = s->k;
    jitc_tail tails[JITC_MAX_UNROLL];
    unsigned before = k->unroll;
    jitc_emit_at(s->e, x->block);
    take_phis(s, x->phis);
    k->unroll = unroll;
    k->position = x->position;
    if (masked) {
        for (unsigned u = 0; u < unroll; u++)
            tails[u] = jitc_build_tail_at(
                k, bin(s, LLVMAdd, x->position, number(s, u * k->e.lanes)), s->to);
        k->tail = tails;
    }
    scan_iteration(s);
    k->tail = NULL;
    k->unroll = before;
    LLVMValueRef step = number(s, unroll * k->e.lanes);
    x->next = bin(s, s->reverse ? LLVMSub : LLVMAdd, x->position, step);
    x->last = jitc_emit_here(s->e);
}

/** The first vectors of an iteration of `lanes` lanes that starts at `from`, or ends at `to`. */
static LLVMValueRef start_of(scanning *s, LLVMValueRef from, LLVMValueRef to, unsigned lanes) {
    return s->reverse ? bin(s, LLVMSub, to, number(s, lanes)) : from;
}

/* The rest of a chunk: always a whole group, of which lanes are missing. */
static void masked_section(scanning *s, section *x, LLVMBasicBlockRef after) {
    unsigned group = JITC_ACCUMULATORS * s->e->lanes;
    run_section(s, x, 1, true);
    LLVMValueRef within = bin(s, LLVMAnd, s->reverse ? x->position : x->next, number(s, group - 1));
    LLVMValueRef more = jitc_emit_icmp(s->e, LLVMIntNE, within, number(s, 0));
    jitc_emit_branch(s->e, more, x->block, after);
    enter(s, x, x->next, x->last);
}

static void main_section(scanning *s, section *x, LLVMBasicBlockRef after) {
    run_section(s, x, s->k->unroll, false);
    LLVMValueRef more = s->reverse ? less(s, s->from, x->position) : less(s, x->next, s->full);
    jitc_emit_branch(s->e, more, x->block, after);
    enter(s, x, x->next, x->last);
}

/** First section, then section: `between` decides whether there is a second. */
static void both_sections(scanning *s, LLVMBasicBlockRef before, LLVMBasicBlockRef done,
                          LLVMValueRef *results) {
    jitc_builder *k = s->k;
    unsigned wide = k->unroll * k->e.lanes, group = JITC_ACCUMULATORS * k->e.lanes;
    section main = {.block = jitc_emit_block(&k->e, "main")};
    section masked = {.block = jitc_emit_block(&k->e, "masked")};
    section *first = s->reverse ? &masked : &main, *second = s->reverse ? &main : &masked;
    LLVMValueRef any_main = less(s, s->from, s->full), any_masked = less(s, s->full, s->to);
    LLVMBasicBlockRef between = jitc_emit_block(&k->e, "between");
    LLVMValueRef up = bin(s, LLVMAdd, s->full, number(s, group));
    LLVMValueRef main_start = start_of(s, s->from, s->full, wide);
    LLVMValueRef masked_start = start_of(s, s->full, up, k->e.lanes);
    jitc_emit_branch(s->e, s->reverse ? any_masked : any_main, first->block, between);
    LLVMValueRef phis[1 + JITC_ACCUMULATORS];
    open_section(s, first);
    open_section(s, second);
    set_phis(s, between, phis);
    enter(s, first, s->reverse ? masked_start : main_start, before);
    flow(s, phis, before);
    (s->reverse ? masked_section : main_section)(s, first, between);
    flow(s, phis, first->last);
    jitc_emit_at(s->e, between);
    take_phis(s, phis);
    jitc_emit_branch(s->e, s->reverse ? any_main : any_masked, second->block, done);
    enter(s, second, s->reverse ? main_start : masked_start, between);
    flow(s, results, between);
    (s->reverse ? main_section : masked_section)(s, second, done);
    flow(s, results, second->last);
}

/* Chunks. */

static void store_total(scanning *s, LLVMBasicBlockRef after) {
    jitc_emit *e = s->e;
    LLVMBasicBlockRef want = jitc_emit_block(s->e, "total");
    jitc_emit_branch(s->e, jitc_emit_icmp(e, LLVMIntEQ, s->k->step, number(s, JITC_SCAN_TOTAL)),
                     want, after);
    jitc_emit_at(s->e, want); /* in reverse the four are the other way around */
    LLVMValueRef total = jitc_emit_total(e, &s->c, s->four);
    e->api->LLVMBuildStore(e->b, total, slot_address(s, s->from, true));
    jitc_emit_jump(s->e, after);
}

static void scan_chunk(scanning *s) {
    jitc_emit *e = s->e;
    LLVMBasicBlockRef chunk = jitc_emit_here(s->e), done = jitc_emit_block(s->e, "done");
    LLVMTypeRef scalar = jitc_emit_scalar(e, s->c.sum);
    LLVMValueRef before = e->api->LLVMBuildLoad2(e->b, scalar, slot_address(s, s->from, false), "");
    LLVMValueRef results[1 + JITC_ACCUMULATORS];
    s->carry = jitc_emit_splat(e, before);
    for (unsigned i = 0; i < JITC_ACCUMULATORS; i++)
        s->four[i] = s->neutral;
    set_phis(s, done, results);
    jitc_emit_at(s->e, chunk);
    both_sections(s, chunk, done, results);
    jitc_emit_at(s->e, done);
    take_phis(s, results);
}

static LLVMBasicBlockRef emit_chunks(scanning *s, LLVMBasicBlockRef before, LLVMValueRef begin,
                                     LLVMValueRef end) {
    const jitc_llvm *api = s->e->api;
    jitc_emit *e = s->e;
    LLVMValueRef size = number(s, JITC_CHUNK), one = number(s, 1);
    LLVMValueRef inside = bin(s, LLVMSub, bin(s, LLVMSub, end, begin), one);
    LLVMValueRef last = bin(s, LLVMAnd, inside, number(s, ~(uint64_t) (JITC_CHUNK - 1)));
    LLVMValueRef start = s->reverse ? bin(s, LLVMAdd, begin, last) : begin;
    LLVMBasicBlockRef chunk = jitc_emit_block(s->e, "chunk");
    jitc_emit_jump(s->e, chunk);
    jitc_emit_at(s->e, chunk);
    s->from = api->LLVMBuildPhi(e->b, e->i64, "from");
    LLVMValueRef up = bin(s, LLVMAdd, s->from, size);
    s->to = jitc_emit_select(e, less(s, up, end), up, end);
    LLVMValueRef groups = number(s, ~(uint64_t) (JITC_ACCUMULATORS * e->lanes - 1));
    s->full = bin(s, LLVMAnd, s->to, groups);
    scan_chunk(s);
    LLVMBasicBlockRef next_chunk = jitc_emit_block(s->e, "next");
    if (s->stores)
        jitc_emit_jump(s->e, next_chunk);
    else
        store_total(s, next_chunk);
    jitc_emit_at(s->e, next_chunk);
    LLVMBasicBlockRef exit = jitc_emit_block(s->e, "exit");
    LLVMValueRef next = s->reverse ? bin(s, LLVMSub, s->from, size) : up;
    jitc_emit_branch(s->e, s->reverse ? less(s, begin, s->from) : less(s, up, end), chunk, exit);
    LLVMValueRef values[] = {start, next};
    LLVMBasicBlockRef blocks[] = {before, next_chunk};
    api->LLVMAddIncoming(s->from, values, blocks, 2);
    return exit;
}

static const jitc_inst *find_scan(const jitc_program *p) {
    const jitc_inst *i = p->inst;
    while (i->op != JITC_OP_prefix_reduce)
        ++i;
    return i;
}

bool jitc_scan_stores(const jitc_program *p) {
    return jitc_cost_of_values(p) > (double) DEAR_OPERATIONS;
}

static void init(scanning *s, jitc_builder *k) {
    const jitc_inst *i = find_scan(k->p);
    *s = (scanning) {.k = k,
                     .e = &k->e,
                     .c = jitc_combining_of(i),
                     .reverse = i->aux & JITC_AUX_REVERSE,
                     .exclusive = i->aux & JITC_AUX_EXCLUSIVE,
                     .stores = jitc_scan_stores(k->p)};
    s->neutral = jitc_emit_neutral(&k->e, &s->c);
    k->e.stream = k->e.stream && !s->stores; /* what is stored is in the caches anyway */
    s->slots = jitc_build_param(k, k->p->head.scratch + 1, k->e.i64);
}

jit_status jitc_build_scan(jitc_builder *k, LLVMBasicBlockRef *exit) {
    scanning s;
    LLVMBasicBlockRef totals = jitc_emit_block(&k->e, "totals"),
                      scans = jitc_emit_block(&k->e, "scans");
    init(&s, k);
    jitc_reduce_code code = {.all = &s.c,
                             .count = 1,
                             .partial = true,
                             .whole = !s.reverse && !s.stores,
                             .store = s.stores};
    jitc_emit_branch(s.e, less(&s, number(&s, JITC_SCAN_TOTAL), k->step), totals, scans);
    LLVMBasicBlockRef after;
    unsigned unroll = k->unroll;
    jitc_emit_at(s.e, totals);
    TRY(jitc_build_reduce(k, &code, &after));
    k->unroll = unroll;
    jitc_emit_at(s.e, scans);
    k->pointers[s.c.out] = jitc_build_param(k, s.c.out, k->e.ptr);
    *exit = emit_chunks(&s, scans, k->begin, k->end);
    jitc_emit_at(s.e, after);
    jitc_emit_jump(s.e, *exit);
    return JIT_OK;
}
