/* shape.c: launching programs whose shape combines lanes.  Layer: llvm.  May include: core, ir.
 *
 * The parameters of the task are the kernel's, and before them what its blocks share:
 *
 *   plan, function, ...  left, passed, ... | parameter 0, 1, ...
 *
 * Queueing copies them, so that they live as long as the task, and are its own. */
#include "llvm/shape.h"
#include "core/arith.h"
#include "core/mem.h"
#include "llvm/cost.h"
#include "llvm/reduce.h"
#include "llvm/scan.h"
#include "llvm/slots.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/** The words before the parameters. */
enum {
    PLAN,     /* address of the jitc_shape_plan */
    FUNCTION, /* of the kernel */
    LANES,    /* of the launch */
    BLOCK,    /* lanes: reduced to one; or of the task's blocks */
    PARTS,    /* chunks of such a block */
    STEP,     /* lanes that are combined at once */
    THREADS,
    LEFT,   /* atomic: blocks of the task that have not ended */
    PASSED, /* atomic: blocks that have handed on what comes before the next one */
    RUNNER, /* atomic: who ran the last block that has passed something on */
    AT,     /* COMPRESS: numbers so far; guarded by PASSED */
    SLOTS,  /* SCAN: two, for one chunk */
    WORDS = SLOTS + 2
};
enum { SOME_PARAMS = 64, SCAN_BLOCK = 4 * JITC_CHUNK, SPINS = 2000 };

typedef void (*combining_function)(uint64_t begin, uint64_t end, const uint64_t *params,
                                   uint64_t step, uint64_t slot);

static const jitc_shape_plan *plan_of(const uint64_t *words) {
    return (const jitc_shape_plan *) (uintptr_t) words[PLAN];
}
/** They are the task's own. */
static _Atomic uint64_t *shared(const uint64_t *words, unsigned word) {
    return (_Atomic uint64_t *) (uintptr_t) &words[word];
}
static uint64_t *slots_of(const uint64_t *words) {
    return (uint64_t *) (uintptr_t) words[WORDS + plan_of(words)->scratch + 1];
}
static void *output(const uint64_t *words, uint32_t parameter) {
    return (void *) (uintptr_t) words[WORDS + parameter];
}
static void run(const uint64_t *words, uint64_t begin, uint64_t end, uint64_t step, uint64_t slot) {
    combining_function f;
    memcpy(&f, &words[FUNCTION], sizeof f);
    f(begin, end, words + WORDS, step, slot);
}

/* ---- REDUCE, BLOCK_REDUCE: a task over blocks, or over chunks of blocks ---- */

static void combine_partials(const uint64_t *words) {
    const jitc_shape_plan *s = plan_of(words);
    uint64_t blocks = jitc_ceil_div(words[LANES], words[BLOCK]), parts = words[PARTS];
    for (uint64_t b = 0; b < blocks; b++) {
        uint64_t *slots = slots_of(words) + b * parts * s->count;
        uint64_t lanes = jitc_least(words[BLOCK], words[LANES] - b * words[BLOCK]);
        for (uint32_t n = 0; n < s->count; n++) {
            const jitc_combining *c = &s->all[n];
            uint64_t total = jitc_slots_total(c->op, c->sum, slots + n,
                                              jitc_ceil_div(lanes, JITC_CHUNK), s->count);
            jitc_slot_store(c->type, total, output(words, c->out), b);
        }
    }
}

/** Chunks `unit` ... of one block, as many as there are before `end`; how many. */
static uint64_t run_chunks(const uint64_t *words, uint64_t unit, uint64_t end) {
    uint64_t parts = words[PARTS], block = unit / parts, chunk = unit % parts;
    uint64_t count = jitc_least(end - unit, parts - chunk);
    uint64_t first = block * words[BLOCK], from = first + chunk * JITC_CHUNK;
    uint64_t to = jitc_least(words[LANES], first + words[BLOCK]);
    to = jitc_least(to, from + count * JITC_CHUNK);
    if (from < to)
        run(words, from, to, JITC_CHUNK, unit);
    return count;
}

static void reduce_task(uint64_t begin, uint64_t end, const uint64_t *words) {
    if (words[PARTS] == 1) {
        uint64_t to = jitc_least(words[LANES], end * words[BLOCK]);
        run(words, begin * words[BLOCK], to, words[STEP], begin);
        return;
    }
    for (uint64_t unit = begin; unit < end;)
        unit += run_chunks(words, unit, end);
    /* ORDER: all partial results before they are combined, by this chain of additions; without it
     * the last one may read what another thread has not written yet. */
    if (jitc_add_acq_rel(shared(words, LEFT), ~(uint64_t) 0) == 1)
        combine_partials(words);
}

/** Of a launch over `lanes` lanes. */
static void plan_reduce(const jitc_shape_plan *s, uint64_t *words, jitc_task *t) {
    uint64_t block = t->lanes, claim = t->block;
    if (s->shape == JITC_SHAPE_BLOCK_REDUCE && words[WORDS + s->lanes] < block)
        block = words[WORDS + s->lanes];
    uint64_t parts = jitc_ceil_div(block, JITC_CHUNK), unit = parts > 1 ? JITC_CHUNK : block;
    words[BLOCK] = block;
    words[PARTS] = parts;
    words[STEP] = block <= JITC_SHORT_BLOCK ? JITC_BLOCKS_LANES / block * block : unit;
    if (parts == 1)
        words[WORDS + s->scratch + 1] = 0; /* straight to the outputs */
    t->function = reduce_task;
    t->lanes = jitc_ceil_div(t->lanes, block) * parts;
    t->block = claim > unit ? claim / unit : 1;
    words[LEFT] = jitc_ceil_div(t->lanes, t->block);
}

/* ---- SCAN, COMPRESS: from block to block ---- */

/** Its address tells threads apart. */
static _Thread_local char self;

/** What comes before block number n is known to who returns. Blocks are claimed in order, and what
 * a block hands on depends on blocks before it only: so there is always somebody to wait for. */
static void wait_for_turn(const uint64_t *words, uint64_t n) {
    unsigned spins = 0;
    while (jitc_load_acquire(shared(words, PASSED)) != n) /* pairs with pass_on */
        if (++spins > SPINS)
            sched_yield();
        else
            jitc_cpu_pause();
}

static void pass_on(const uint64_t *words, uint64_t n) {
    jitc_store_relaxed(shared(words, RUNNER), (uint64_t) (uintptr_t) &self);
    /* ORDER: what the next block starts with before PASSED; without it that reads what was there
     * before. Pairs with wait_for_turn. */
    jitc_store_release(shared(words, PASSED), n + 1);
}

/** Does nobody else seem to work on this launch? Then waiting is no matter. */
static bool is_alone(const uint64_t *words, uint64_t n) {
    if (words[THREADS] == 1 || words[LANES] <= words[BLOCK])
        return true;
    return jitc_load_acquire(shared(words, PASSED)) == n && /* pairs with pass_on */
           jitc_load_relaxed(shared(words, RUNNER)) == (uintptr_t) &self;
}

/** Add the total of a chunk, which is in its slot, to what comes before the chunk. */
static void chain(const uint64_t *words, uint64_t chunk) {
    const jitc_shape_plan *s = plan_of(words);
    uint64_t *slots = slots_of(words);
    uint64_t before = jitc_scan_slot(chunk, s->reverse, false);
    uint64_t total = jitc_scan_slot(chunk, s->reverse, true);
    slots[total] = jitc_slot_combine(s->all->op, s->all->sum, slots[before], slots[total]);
}

/** Block number n, whose chunks are first ... last-1, read once: a chunk's scan also makes its
 * total. */
static void scan_once(const uint64_t *words, uint64_t first, uint64_t last) {
    bool reverse = plan_of(words)->reverse;
    for (uint64_t i = 0; i < last - first; i++) {
        uint64_t c = reverse ? last - 1 - i : first + i;
        run(words, c * JITC_CHUNK, jitc_least(words[LANES], (c + 1) * JITC_CHUNK), JITC_SCAN_TOTAL,
            0);
        chain(words, c);
    }
}

/** The totals first, so that the next block can start: then the scan finds all in the caches. */
static void scan_twice(const uint64_t *words, uint64_t n, uint64_t first, uint64_t last) {
    const jitc_shape_plan *s = plan_of(words);
    uint64_t begin = first * JITC_CHUNK, end = jitc_least(words[LANES], last * JITC_CHUNK);
    uint64_t whole = s->reverse || s->stores ? end : end / JITC_CHUNK * JITC_CHUNK;
    if (begin < whole) /* nobody wants the total of the last chunk, if it is not whole */
        run(words, begin, whole, JITC_CHUNK, jitc_scan_slot(first, s->reverse, true));
    uint64_t summed = jitc_ceil_div(whole, JITC_CHUNK) - first;
    wait_for_turn(words, n);
    for (uint64_t i = 0; i < summed; i++)
        chain(words, s->reverse ? last - 1 - i : first + i);
    pass_on(words, n);
    run(words, begin, end, JITC_SCAN_ONLY, 0);
}

static void scan_start(const uint64_t *words, uint64_t chunks) {
    const jitc_shape_plan *s = plan_of(words);
    const jitc_combining *c = s->all;
    uint64_t start = jitc_accumulator_neutral(c->op, c->type);
    if (s->exclusive) /* it is an element of the result: +0 */
        start = jitc_reduce_identity(c->op, c->type == JIT_bool ? c->type : c->sum);
    slots_of(words)[s->reverse ? chunks : 0] = start;
}

/** Backwards, a scan adds up a chunk from its other end than the totals are added up: for floats,
 * only those can be used. A chunk that is alone needs no total. */
static bool needs_totals(const jitc_shape_plan *s, uint64_t chunks) {
    jit_reduce_op op = s->all->op;
    return chunks > 1 && s->reverse && jitc_dtypes[s->all->type].cls == JITC_FLOAT &&
           (op == JIT_REDUCE_ADD || op == JIT_REDUCE_MUL);
}

static void scan_task(uint64_t begin, uint64_t end, const uint64_t *words) {
    const jitc_shape_plan *s = plan_of(words);
    uint64_t chunks = jitc_ceil_div(words[LANES], JITC_CHUNK), size = words[BLOCK] / JITC_CHUNK;
    uint64_t blocks = jitc_ceil_div(chunks, size);
    for (uint64_t n = begin; n < end; n++) {
        uint64_t block = s->reverse ? blocks - 1 - n : n;
        uint64_t first = block * size, last = jitc_least(chunks, first + size);
        if (chunks == 1) /* no memory was asked for */
            ((uint64_t *) (uintptr_t) words)[WORDS + s->scratch + 1] = (uintptr_t) &words[SLOTS];
        if (n == 0)
            scan_start(words, chunks);
        if (s->stores || needs_totals(s, chunks) || !is_alone(words, n)) {
            scan_twice(words, n, first, last);
        } else {
            scan_once(words, first, last);
            pass_on(words, n);
        }
    }
}

static uint64_t write_numbers(const uint64_t *words, const jitc_lane_bits *bits, uint64_t at) {
    const jitc_shape_plan *s = plan_of(words);
    if (s->found.type == JIT_u32)
        return s->numbers->write_u32(bits, output(words, s->found.b), at);
    return s->numbers->write_u64(bits, output(words, s->found.b), at);
}

/** The block behind number n starts with number `after`. */
static void pass_numbers(const uint64_t *words, uint64_t n, uint64_t after) {
    const jitc_inst *found = &plan_of(words)->found;
    ((uint64_t *) (uintptr_t) words)[AT] = after;
    if ((n + 1) * words[BLOCK] >= words[LANES] && found->aux & JITC_AUX_PART)
        jitc_slot_store((jit_dtype) found->type, after, output(words, found->c), 0);
    pass_on(words, n);
}

static void compress_block(const uint64_t *words, uint64_t n, uint64_t *few) {
    const jitc_shape_plan *s = plan_of(words);
    jitc_task_function f;
    uint64_t begin = n * words[BLOCK], end = jitc_least(words[LANES], begin + words[BLOCK]);
    memcpy(&f, &words[FUNCTION], sizeof f);
    if (few)
        ((uint64_t *) (uintptr_t) words)[WORDS + s->scratch + 1] = (uintptr_t) few;
    f(begin, end, words + WORDS);
    const jitc_lane_bits bits = {slots_of(words) + begin / 64, begin, end - begin};
    if (is_alone(words, n)) {
        pass_numbers(words, n, write_numbers(words, &bits, words[AT]));
        return;
    }
    uint64_t count = s->numbers->count(&bits);
    wait_for_turn(words, n);
    uint64_t at = words[AT];
    pass_numbers(words, n, at + count);
    write_numbers(words, &bits, at);
}

static void compress_task(uint64_t begin, uint64_t end, const uint64_t *words) {
    uint64_t few[JITC_CHUNK / 64];
    for (uint64_t n = begin; n < end; n++)
        compress_block(words, n, words[LANES] <= JITC_CHUNK ? few : NULL);
}

/** Blocks that stay in the second-level cache between two passes. */
static void plan_ordered(const jitc_shape_plan *s, uint64_t *words, jitc_task *t, int threads) {
    uint64_t share = t->lanes / (4 * (uint64_t) threads) / JITC_CHUNK * JITC_CHUNK;
    uint64_t block = threads == 1 || share > SCAN_BLOCK ? SCAN_BLOCK : share;
    block = block && t->block > JITC_CHUNK ? block : JITC_CHUNK;
    words[BLOCK] = block;
    t->lanes = jitc_ceil_div(t->lanes, block);
    t->block = 1;
    t->ascending = true; /* see wait_for_turn */
    t->function = s->shape == JITC_SHAPE_SCAN ? scan_task : compress_task;
}

/* ---- The launch ---- */

static jit_status launch(const jitc_shape_plan *s, jitc_queue *q, int threads, const jitc_task *t,
                         uint64_t *words, uint64_t *number) {
    jitc_task task = *t;
    memset(words, 0, WORDS * sizeof *words);
    memcpy(words + WORDS, t->params, t->count * sizeof *words);
    words[PLAN] = (uintptr_t) s;
    memcpy(&words[FUNCTION], &t->function, sizeof t->function);
    words[LANES] = t->lanes;
    words[THREADS] = (uint64_t) threads;
    words[WORDS + s->scratch + 1] = t->params[s->scratch];
    if (s->shape == JITC_SHAPE_SCAN || s->shape == JITC_SHAPE_COMPRESS)
        plan_ordered(s, words, &task, threads);
    else
        plan_reduce(s, words, &task);
    task.params = words;
    task.count = t->count + WORDS;
    return jitc_queue_launch(q, &task, number);
}

jit_status jitc_shape_launch(const jitc_shape_plan *s, jitc_queue *q, int threads,
                             const jitc_task *t, uint64_t *number) {
    uint64_t some[WORDS + SOME_PARAMS];
    void *more = NULL;
    if (t->count > SOME_PARAMS)
        TRY(jitc_calloc((size_t) t->count + WORDS, sizeof *some, &more));
    jit_status status = launch(s, q, threads, t, more ? more : some, number);
    free(more);
    return status;
}

size_t jitc_shape_scratch(const jitc_shape_plan *s, uint64_t lanes) {
    uint64_t chunks = jitc_ceil_div(lanes, JITC_CHUNK);
    if (lanes <= JITC_CHUNK)
        return 0;
    switch (s->shape) {
        case JITC_SHAPE_REDUCE: return chunks * s->count * sizeof(uint64_t);
        case JITC_SHAPE_BLOCK_REDUCE: /* blocks may begin anywhere, and be long */
            return (3 * chunks + 2) * s->count * sizeof(uint64_t);
        case JITC_SHAPE_SCAN: return (chunks + 1) * sizeof(uint64_t);
        case JITC_SHAPE_COMPRESS: return chunks * (JITC_CHUNK / 8);
        default: return 0;
    }
}

/* ---- The plan ---- */

static void note(jitc_shape_plan *s, const jitc_inst *i) {
    switch (i->op) {
        case JITC_OP_block_reduce: s->lanes = i->c; break;
        case JITC_OP_prefix_reduce:
            s->reverse = i->aux & JITC_AUX_REVERSE;
            s->exclusive = i->aux & JITC_AUX_EXCLUSIVE;
            break;
        case JITC_OP_reduce: break;
        case JITC_OP_compress: s->found = *i; return;
        default: return;
    }
    s->all[s->count++] = jitc_combining_of(i);
}

jit_status jitc_shape_init(const jitc_program *p, bool avx512, jitc_shape_plan *out) {
    void *memory;
    *out = (jitc_shape_plan) {.shape = (jitc_shape) p->head.shape, .scratch = p->head.scratch};
    if (!jitc_shape_combines(out))
        return JIT_OK;
    TRY(jitc_calloc(p->head.count, sizeof *out->all, &memory));
    out->all = memory;
    out->numbers = jitc_numbers_for(avx512);
    for (uint32_t n = 0; n < p->head.count; n++)
        note(out, &p->inst[n]);
    out->stores = out->shape == JITC_SHAPE_SCAN && jitc_scan_stores(p);
    return JIT_OK;
}

void jitc_shape_finish(jitc_shape_plan *s) {
    free(s->all);
}
