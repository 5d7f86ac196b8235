/* reduce.c: code that combines the lanes of ranges.  Layer: llvm.  May include: core, ir.
 *
 *   item:    lanes from ... to-1: a chunk, or a block, or several short blocks
 *            from and a group of lanes whole ? main : masked
 *   main:    whole groups of four vectors, `unroll` vectors an iteration
 *   masked:  a group of which some lanes are outside of the range: one vector an iteration
 *            ... groups left ? main or masked : done
 *   done:    the result; ... items left ? item : exit
 *
 * A group starts at a multiple of its length, and vector number v of it goes into accumulator v,
 * however many vectors an iteration has: that only turns the accumulators around. So the order in
 * which lanes are combined is that of their numbers, and nothing else changes a bit of a sum.
 *
 * Short blocks: lanes are combined as if they were one block, for nothing, but they are also kept
 * in a room on the stack; then one vector combines as many blocks as it has lanes. */
#include "llvm/reduce.h"
#include "core/mem.h"
#include <stdlib.h>

/** A loop over groups. */
typedef struct section {
    LLVMBasicBlockRef block, last;
    LLVMValueRef position, next;
    LLVMValueRef *phis, *values; /* JITC_ACCUMULATORS for each combining: before and after */
    unsigned unroll;
} section;

typedef struct reducing {
    jitc_builder *k;
    jitc_emit *e; /* of k */
    const jitc_reduce_code *code;
    section main, masked;
    LLVMValueRef *neutral, *done; /* JITC_ACCUMULATORS each */
    LLVMValueRef *rooms;          /* BLOCK_REDUCE: a pointer for each combining */
    LLVMValueRef block_lanes;     /* BLOCK_REDUCE */
    LLVMValueRef partials;        /* i64: address of where partial results go; 0: to the output */
    LLVMValueRef from, to, slot;  /* of the item */
    LLVMValueRef first, full;     /* from and to, rounded down to groups */
} reducing;

static LLVMValueRef bin(reducing *r, LLVMOpcode op, LLVMValueRef a, LLVMValueRef b) {
    return jitc_emit_bin(r->e, op, a, b);
}
static LLVMValueRef less(reducing *r, LLVMValueRef a, LLVMValueRef b) {
    return jitc_emit_icmp(r->e, LLVMIntULT, a, b);
}
static LLVMValueRef number(reducing *r, uint64_t n) {
    return jitc_build_constant(r->k, n);
}
static unsigned group_lanes(const reducing *r) {
    return JITC_ACCUMULATORS * r->e->lanes;
}
static unsigned accumulators(const reducing *r) {
    return JITC_ACCUMULATORS * r->code->count;
}
static LLVMValueRef round_down(reducing *r, LLVMValueRef lane) {
    return bin(r, LLVMAnd, lane, number(r, ~(uint64_t) (group_lanes(r) - 1)));
}

/* Phis. */

static void make_phis(reducing *r, LLVMValueRef *phis) {
    for (unsigned i = 0; i < accumulators(r); i++) {
        jit_dtype type = r->code->all[i / JITC_ACCUMULATORS].sum;
        LLVMTypeRef vector = jitc_emit_vector(r->e, jitc_emit_scalar(r->e, type));
        phis[i] = r->e->api->LLVMBuildPhi(r->e->b, vector, "");
    }
}

static void flow(reducing *r, LLVMValueRef *phis, LLVMValueRef *values, LLVMBasicBlockRef from) {
    for (unsigned i = 0; i < accumulators(r); i++)
        r->e->api->LLVMAddIncoming(phis[i], &values[i], &from, 1);
}

static void enter(reducing *r, section *s, LLVMValueRef position, LLVMValueRef *values,
                  LLVMBasicBlockRef from) {
    r->e->api->LLVMAddIncoming(s->position, &position, &from, 1);
    flow(r, s->phis, values, from);
}

static void open_section(reducing *r, section *s) {
    jitc_emit_at(r->e, s->block);
    s->position = r->e->api->LLVMBuildPhi(r->e->b, r->e->i64, "i");
    make_phis(r, s->phis);
    for (unsigned i = 0; i < accumulators(r); i++)
        s->values[i] = s->phis[i];
}

/* One iteration. */

/** Keep a vector of a range of short blocks. */
static void keep(reducing *r, unsigned number_of, LLVMValueRef v, unsigned u) {
    jitc_emit *e = r->e;
    jit_dtype type = r->code->all[number_of].sum;
    LLVMValueRef at = bin(r, LLVMSub, r->k->position, r->first);
    at = bin(r, LLVMAdd, at, number(r, u * e->lanes));
    at = bin(r, LLVMAnd, at, number(r, JITC_BLOCKS_ROOM - 1));
    LLVMTypeRef scalar = jitc_emit_scalar(e, type);
    jitc_emit_store(e, type, jitc_build_pointer(r->k, scalar, r->rooms[number_of], at), v, NULL);
}

static void turn(LLVMValueRef *four, unsigned by) {
    LLVMValueRef old[JITC_ACCUMULATORS];
    for (unsigned i = 0; i < JITC_ACCUMULATORS; i++)
        old[i] = four[i];
    for (unsigned i = 0; i < JITC_ACCUMULATORS; i++)
        four[i] = old[(i + by) % JITC_ACCUMULATORS];
}

/** Add the vectors of an iteration. `masks`: of the lanes in the range; NULL: all are. */
static void accumulate(reducing *r, section *s, const LLVMValueRef *masks) {
    jitc_emit *e = r->e;
    bool stream = e->stream;
    for (unsigned n = 0; n < r->code->count; n++) {
        const jitc_combining *c = &r->code->all[n];
        LLVMValueRef *four = s->values + n * JITC_ACCUMULATORS;
        jitc_build_operand(r->k, c->value);
        for (unsigned u = 0; u < s->unroll; u++) {
            LLVMValueRef v = jitc_build_value(r->k, c->value)[u];
            e->stream = false; /* it is read again soon */
            if (r->code->store)
                jitc_build_store(r->k, c->type, c->out, v, u);
            v = jitc_emit_to_sum(e, c, v);
            if (masks)
                v = jitc_emit_select(e, masks[u], v, jitc_emit_neutral(e, c));
            if (r->rooms)
                keep(r, n, v, u);
            e->stream = stream;
            four[u] = jitc_emit_combine(e, c, four[u], v);
        }
        turn(four, s->unroll);
    }
}

static void end_iteration(reducing *r, section *s) {
    s->next = bin(r, LLVMAdd, s->position, number(r, s->unroll * r->e->lanes));
    s->last = jitc_emit_here(r->e);
}

static void run_main(reducing *r) {
    section *s = &r->main;
    r->k->position = s->position;
    r->k->unroll = s->unroll;
    jitc_build_body(r->k);
    accumulate(r, s, NULL);
    end_iteration(r, s);
}

static void run_masked(reducing *r) {
    section *s = &r->masked;
    jitc_builder *k = r->k;
    jitc_tail tails[JITC_MAX_UNROLL];
    LLVMValueRef masks[JITC_MAX_UNROLL];
    k->position = s->position;
    k->unroll = s->unroll;
    for (unsigned u = 0; u < s->unroll; u++) {
        LLVMValueRef at = bin(r, LLVMAdd, s->position, number(r, u * k->e.lanes));
        tails[u] = jitc_build_tail_at(k, at, r->to);
        masks[u] = tails[u].mask;
        if (r->rooms) {
            LLVMValueRef before = jitc_build_tail_at(k, at, r->from).mask;
            masks[u] = bin(r, LLVMAnd, masks[u], jitc_emit_not(&k->e, before));
        }
    }
    k->tail = tails;
    jitc_build_body(k);
    accumulate(r, s, masks);
    k->tail = NULL;
    end_iteration(r, s);
}

/* Results. */

static LLVMValueRef out_pointer(reducing *r, const jitc_combining *c, LLVMValueRef at) {
    LLVMTypeRef scalar = jitc_emit_scalar(r->e, jitc_stored_type(c));
    return jitc_build_pointer(r->k, scalar, r->k->pointers[c->out], at);
}

/** The results of one range, to the outputs. */
static void store_results(reducing *r, const LLVMValueRef *totals) {
    jitc_emit *e = r->e;
    for (unsigned n = 0; n < r->code->count; n++) {
        const jitc_combining *c = &r->code->all[n];
        LLVMValueRef v = totals[n];
        if (jitc_stored_type(c) != c->sum) { /* conversions are made for vectors */
            v = jitc_emit_from_sum(e, c, jitc_emit_splat(e, v));
            v = e->api->LLVMBuildExtractElement(e->b, v, e->api->LLVMConstInt(e->i32, 0, 0), "");
        }
        LLVMValueRef store = e->api->LLVMBuildStore(e->b, v, out_pointer(r, c, r->slot));
        e->api->LLVMSetAlignment(store, jitc_dtypes[c->type].bytes);
    }
}

/** The results of a part of a range: eight bytes each. */
static void store_partials(reducing *r, const LLVMValueRef *totals) {
    jitc_emit *e = r->e;
    LLVMValueRef base = e->api->LLVMBuildCast(e->b, LLVMIntToPtr, r->partials, e->ptr, "");
    LLVMValueRef at = bin(r, LLVMMul, r->slot, number(r, r->code->count));
    for (unsigned n = 0; n < r->code->count; n++) {
        LLVMValueRef slot = bin(r, LLVMAdd, at, number(r, n));
        e->api->LLVMBuildStore(e->b, totals[n], jitc_build_pointer(r->k, e->i64, base, slot));
    }
}

/* Short blocks. */

/** Lanes i ... i+3 of all blocks of a vector, from the room. `index`: of the blocks' first lanes;
 * `end`: behind their last ones; both u32. */
static void gather_lanes(reducing *r, unsigned n, LLVMValueRef index, LLVMValueRef end,
                         LLVMValueRef *four) {
    jitc_emit *e = r->e;
    const jitc_combining *c = &r->code->all[n];
    LLVMValueRef shift = bin(r, LLVMSub, r->from, r->first);
    jitc_lane_access a = {.type = c->sum, .index_type = JIT_u32};
    a.base = jitc_build_pointer(r->k, jitc_emit_scalar(e, c->sum), r->rooms[n], shift);
    a.size = number(r, JITC_BLOCKS_ROOM);
    for (unsigned u = 0; u < JITC_ACCUMULATORS; u++) {
        a.index = bin(r, LLVMAdd, index, jitc_emit_int(e, e->i32, u));
        a.active = jitc_emit_icmp(e, LLVMIntULT, a.index, end);
        LLVMValueRef v = jitc_emit_gather(e, &a);
        v = jitc_emit_select(e, a.active, v, jitc_emit_neutral(e, c));
        four[n * JITC_ACCUMULATORS + u] =
            jitc_emit_combine(e, c, four[n * JITC_ACCUMULATORS + u], v);
    }
}

/** A loop over the lanes of the blocks of one vector. */
static void combine_blocks(reducing *r, LLVMValueRef index, LLVMValueRef end, LLVMValueRef *four) {
    const jitc_llvm *api = r->e->api;
    jitc_emit *e = r->e;
    LLVMBasicBlockRef before = jitc_emit_here(r->e), loop = jitc_emit_block(r->e, "lanes");
    LLVMBasicBlockRef after = jitc_emit_block(r->e, "combined");
    jitc_emit_jump(e, loop);
    jitc_emit_at(r->e, loop);
    LLVMValueRef i = api->LLVMBuildPhi(e->b, e->i64, "");
    make_phis(r, four);
    LLVMValueRef *phis = r->done + accumulators(r);
    for (unsigned n = 0; n < accumulators(r); n++)
        phis[n] = four[n];
    flow(r, phis, r->neutral, before);
    LLVMValueRef narrow = api->LLVMBuildCast(e->b, LLVMTrunc, i, e->i32, "");
    LLVMValueRef at = bin(r, LLVMAdd, index, jitc_emit_splat(e, narrow));
    for (unsigned n = 0; n < r->code->count; n++)
        gather_lanes(r, n, at, end, four);
    LLVMValueRef next = bin(r, LLVMAdd, i, number(r, JITC_ACCUMULATORS));
    LLVMBasicBlockRef last = jitc_emit_here(r->e);
    jitc_emit_branch(r->e, less(r, next, r->block_lanes), loop, after);
    LLVMValueRef values[] = {number(r, 0), next};
    LLVMBasicBlockRef blocks[] = {before, last};
    api->LLVMAddIncoming(i, values, blocks, 2);
    flow(r, phis, four, last);
    jitc_emit_at(r->e, after);
}

/** The blocks from number `first` on, as many as a vector has lanes. */
static void short_blocks(reducing *r, LLVMValueRef first, LLVMValueRef count, LLVMValueRef *four) {
    jitc_emit *e = r->e;
    const jitc_llvm *api = e->api;
    LLVMValueRef lanes =
        api->LLVMBuildCast(e->b, LLVMTrunc, bin(r, LLVMSub, r->to, r->from), e->i32, "");
    LLVMValueRef length =
        jitc_emit_splat(e, api->LLVMBuildCast(e->b, LLVMTrunc, r->block_lanes, e->i32, ""));
    LLVMValueRef which = jitc_emit_splat(e, api->LLVMBuildCast(e->b, LLVMTrunc, first, e->i32, ""));
    which = bin(r, LLVMAdd, which, jitc_emit_iota(e, e->i32));
    LLVMValueRef index = bin(r, LLVMMul, which, length), all = jitc_emit_splat(e, lanes);
    LLVMValueRef end = bin(r, LLVMAdd, index, length);
    end = jitc_emit_select(e, jitc_emit_icmp(e, LLVMIntULT, end, all), end, all);
    combine_blocks(r, index, end, four);
    jitc_tail tail = jitc_build_tail_at(r->k, first, count);
    for (unsigned n = 0; n < r->code->count; n++) {
        const jitc_combining *c = &r->code->all[n];
        LLVMValueRef *v = four + n * JITC_ACCUMULATORS;
        LLVMValueRef low = jitc_emit_combine(e, c, v[0], v[1]);
        LLVMValueRef sum = jitc_emit_combine(e, c, low, jitc_emit_combine(e, c, v[2], v[3]));
        LLVMValueRef at = bin(r, LLVMAdd, r->slot, first);
        jitc_emit_store(e, jitc_stored_type(c), out_pointer(r, c, at),
                        jitc_emit_from_sum(e, c, sum), &tail);
    }
}

static void all_short_blocks(reducing *r) {
    const jitc_llvm *api = r->e->api;
    jitc_emit *e = r->e;
    LLVMValueRef one = number(r, 1), lanes = bin(r, LLVMSub, r->to, r->from);
    LLVMValueRef up = bin(r, LLVMSub, bin(r, LLVMAdd, lanes, r->block_lanes), one);
    LLVMValueRef count = bin(r, LLVMUDiv, up, r->block_lanes);
    LLVMBasicBlockRef before = jitc_emit_here(r->e), loop = jitc_emit_block(r->e, "blocks");
    LLVMBasicBlockRef after = jitc_emit_block(r->e, "stored");
    jitc_emit_jump(e, loop);
    jitc_emit_at(r->e, loop);
    LLVMValueRef first = api->LLVMBuildPhi(e->b, e->i64, "");
    short_blocks(r, first, count, r->masked.values);
    LLVMValueRef next = bin(r, LLVMAdd, first, number(r, e->lanes));
    LLVMValueRef values[] = {number(r, 0), next};
    LLVMBasicBlockRef blocks[] = {before, jitc_emit_here(r->e)};
    jitc_emit_branch(r->e, less(r, next, count), loop, after);
    api->LLVMAddIncoming(first, values, blocks, 2);
    jitc_emit_at(r->e, after);
}

/* The whole. */

static void store_totals(reducing *r, LLVMValueRef *totals) {
    for (unsigned n = 0; n < r->code->count; n++)
        totals[n] = jitc_emit_total(r->e, &r->code->all[n], r->done + n * JITC_ACCUMULATORS);
    if (r->code->partial) {
        store_partials(r, totals);
        return;
    }
    LLVMBasicBlockRef result = jitc_emit_block(r->e, "result");
    LLVMBasicBlockRef part = jitc_emit_block(r->e, "partial");
    LLVMBasicBlockRef stored = jitc_emit_block(r->e, "stored");
    jitc_emit_branch(r->e, jitc_emit_icmp(r->e, LLVMIntEQ, r->partials, number(r, 0)), result,
                     part);
    jitc_emit_at(r->e, result);
    store_results(r, totals);
    jitc_emit_jump(r->e, stored);
    jitc_emit_at(r->e, part);
    store_partials(r, totals);
    jitc_emit_jump(r->e, stored);
    jitc_emit_at(r->e, stored);
}

static void finish_item(reducing *r) {
    if (!r->rooms) {
        store_totals(r, r->neutral + accumulators(r));
        return;
    }
    LLVMBasicBlockRef several = jitc_emit_block(r->e, "several");
    LLVMBasicBlockRef one = jitc_emit_block(r->e, "one");
    LLVMBasicBlockRef finished = jitc_emit_block(r->e, "finished");
    jitc_emit_branch(r->e, less(r, r->block_lanes, r->k->step), several, one);
    jitc_emit_at(r->e, one);
    store_totals(r, r->neutral + accumulators(r));
    jitc_emit_jump(r->e, finished);
    jitc_emit_at(r->e, several);
    all_short_blocks(r);
    jitc_emit_jump(r->e, finished);
    jitc_emit_at(r->e, finished);
}

/** Where an item starts: in whole groups, or in one of which lanes are missing. */
static void start_item(reducing *r) {
    LLVMBasicBlockRef item = jitc_emit_here(r->e);
    if (!r->main.block) {
        jitc_emit_jump(r->e, r->masked.block);
    } else if (!r->masked.block) {
        jitc_emit_jump(r->e, r->main.block);
    } else {
        LLVMValueRef whole = less(r, r->first, r->full);
        if (r->rooms)
            whole = bin(r, LLVMAnd, whole, jitc_emit_icmp(r->e, LLVMIntEQ, r->first, r->from));
        jitc_emit_branch(r->e, whole, r->main.block, r->masked.block);
    }
    if (r->main.block) {
        open_section(r, &r->main);
        enter(r, &r->main, r->first, r->neutral, item);
    }
    if (r->masked.block) {
        open_section(r, &r->masked);
        enter(r, &r->masked, r->first, r->neutral, item);
    }
}

static void emit_main(reducing *r, LLVMBasicBlockRef done) {
    section *s = &r->main;
    jitc_emit_at(r->e, s->block);
    run_main(r);
    LLVMBasicBlockRef check = jitc_emit_block(r->e, "check");
    jitc_emit_branch(r->e, less(r, s->next, r->full), s->block, check);
    enter(r, s, s->next, s->values, s->last);
    jitc_emit_at(r->e, check);
    flow(r, r->done, s->values, check);
    if (!r->masked.block) {
        jitc_emit_jump(r->e, done);
        return;
    }
    jitc_emit_branch(r->e, less(r, r->full, r->to), r->masked.block, done);
    enter(r, &r->masked, r->full, s->values, check);
}

static void emit_masked(reducing *r, LLVMBasicBlockRef done) {
    section *s = &r->masked;
    jitc_emit_at(r->e, s->block);
    run_masked(r);
    LLVMBasicBlockRef behind = jitc_emit_block(r->e, "behind");
    LLVMValueRef within = bin(r, LLVMAnd, s->next, number(r, group_lanes(r) - 1));
    jitc_emit_branch(r->e, jitc_emit_icmp(r->e, LLVMIntNE, within, number(r, 0)), s->block, behind);
    enter(r, s, s->next, s->values, s->last);
    jitc_emit_at(r->e, behind);
    if (r->main.block && r->rooms) {
        LLVMBasicBlockRef rest = jitc_emit_block(r->e, "rest");
        jitc_emit_branch(r->e, less(r, s->next, r->full), r->main.block, rest);
        enter(r, &r->main, s->next, s->values, behind);
        jitc_emit_at(r->e, rest);
    }
    LLVMBasicBlockRef last = jitc_emit_here(r->e);
    jitc_emit_branch(r->e, less(r, s->next, r->to), s->block, done);
    enter(r, s, s->next, s->values, last);
    flow(r, r->done, s->values, last);
}

static void emit_sections(reducing *r) {
    LLVMBasicBlockRef done = jitc_emit_block(r->e, "done");
    jitc_emit_at(r->e, done);
    make_phis(r, r->done);
    if (r->main.block)
        emit_main(r, done);
    if (r->masked.block)
        emit_masked(r, done);
    jitc_emit_at(r->e, done);
}

static void init_item(reducing *r) {
    jitc_emit *e = r->e;
    LLVMValueRef end = bin(r, LLVMAdd, r->from, r->k->step);
    r->to = jitc_emit_select(e, less(r, end, r->k->end), end, r->k->end);
    r->first = r->rooms ? round_down(r, r->from) : r->from;
    r->full = round_down(r, r->to);
}

static LLVMBasicBlockRef emit_items(reducing *r, LLVMBasicBlockRef before) {
    const jitc_llvm *api = r->e->api;
    jitc_emit *e = r->e;
    LLVMBasicBlockRef item = jitc_emit_block(r->e, "item");
    if (!(r->k->p->head.flags & JITC_PROGRAM_LOOPS)) /* a loop is dear to compile */
        r->main.block = jitc_emit_block(r->e, "main");
    if (!r->code->whole)
        r->masked.block = jitc_emit_block(r->e, "masked");
    jitc_emit_jump(e, item);
    jitc_emit_at(r->e, item);
    r->from = api->LLVMBuildPhi(e->b, e->i64, "from");
    r->slot = api->LLVMBuildPhi(e->b, e->i64, "slot");
    init_item(r);
    start_item(r);
    emit_sections(r);
    finish_item(r);
    LLVMBasicBlockRef exit = jitc_emit_block(r->e, "exit");
    LLVMValueRef next[] = {r->k->begin, bin(r, LLVMAdd, r->from, r->k->step)};
    LLVMValueRef slots[] = {r->k->slot, bin(r, LLVMAdd, r->slot, number(r, 1))};
    LLVMBasicBlockRef blocks[] = {before, jitc_emit_here(r->e)};
    if (r->rooms) {
        LLVMValueRef several = bin(r, LLVMUDiv, r->k->step, r->block_lanes);
        slots[1] = jitc_emit_select(e, less(r, r->block_lanes, r->k->step),
                                    bin(r, LLVMAdd, r->slot, several), slots[1]);
    }
    jitc_emit_branch(r->e, less(r, next[1], r->k->end), item, exit);
    api->LLVMAddIncoming(r->from, next, blocks, 2);
    api->LLVMAddIncoming(r->slot, slots, blocks, 2);
    return exit;
}

static void init_values(reducing *r, LLVMValueRef *memory) {
    unsigned n = accumulators(r);
    r->main.phis = memory;
    r->main.values = memory + n;
    r->masked.phis = memory + 2 * n;
    r->masked.values = memory + 3 * n;
    r->done = memory + 4 * n;    /* and phis of short blocks */
    r->neutral = memory + 6 * n; /* and totals */
    for (unsigned i = 0; i < n; i++)
        r->neutral[i] = jitc_emit_neutral(r->e, &r->code->all[i / JITC_ACCUMULATORS]);
}

/** What is loaded once. */
static void init_entry(reducing *r, LLVMValueRef *rooms) {
    jitc_builder *k = r->k;
    r->partials = jitc_build_param(k, k->p->head.scratch + 1, k->e.i64);
    for (unsigned n = 0; n < r->code->count; n++)
        k->pointers[r->code->all[n].out] = jitc_build_param(k, r->code->all[n].out, k->e.ptr);
    if (k->p->head.shape != JITC_SHAPE_BLOCK_REDUCE)
        return;
    r->block_lanes = jitc_build_param(k, r->code->lanes, k->e.i64);
    r->rooms = rooms;
    for (unsigned n = 0; n < r->code->count; n++)
        rooms[n] =
            jitc_emit_stack(&k->e, jitc_emit_scalar(&k->e, r->code->all[n].sum), JITC_BLOCKS_ROOM);
}

jit_status jitc_build_reduce(jitc_builder *k, const jitc_reduce_code *code,
                             LLVMBasicBlockRef *exit) {
    reducing r = {.k = k, .e = &k->e, .code = code};
    void *memory;
    size_t values = (size_t) JITC_ACCUMULATORS * code->count;
    TRY(jitc_calloc(8 * values + code->count, sizeof(LLVMValueRef), &memory));
    r.main.unroll = k->unroll;
    r.masked.unroll = k->p->head.flags & JITC_PROGRAM_LOOPS ? k->unroll : 1;
    init_values(&r, memory);
    init_entry(&r, (LLVMValueRef *) memory + 8 * values);
    *exit = emit_items(&r, jitc_emit_here(r.e));
    free(memory);
    return JIT_OK;
}
