/* interpret.c: programs run one lane after the other, as program.h says, to compare backends with.
 */
#include "interpret.h"
#include "programs.h"
#include <criterion/criterion.h>

typedef struct machine {
    const jitc_program *p;
    const uint64_t *params;
    uint64_t lane;
    uint64_t *v;       /* of each instruction */
    uint64_t *pending; /* of each `next`: what its state becomes at the end of the iteration */
} machine;

static uint64_t literal(const machine *m, const jitc_inst *i) {
    uint64_t bits = i->flags & JITC_INST_BAKED ? jitc_inst_bits(i) : m->params[i->a];
    return bits & jitc_bits_mask((jit_dtype) i->type);
}

static uint64_t data(const machine *m, const jitc_inst *i) {
    uint64_t at = i->flags & JITC_INST_SCALAR ? 0 : m->lane;
    uint64_t bits = read_element((jit_dtype) i->type, (void *) (uintptr_t) m->params[i->a], at);
    return i->type == JIT_bool ? bits != 0 : bits;
}

static void report(const machine *m, uint32_t n, uint64_t index, uint64_t size) {
    if (!(m->p->head.flags & JITC_PROGRAM_BOUNDS))
        return;
    jitc_bounds_report *r = (void *) (uintptr_t) m->params[m->p->head.report];
    if (r->claimed)
        return;
    *r = (jitc_bounds_report) {.claimed = n + 1, .index = index, .size = size};
}

/** The element that an access names, or NULL. */
static void *element(const machine *m, uint32_t n, uint32_t buffer, uint32_t index) {
    const jitc_inst *all = m->p->inst, *b = &all[buffer];
    uint64_t size = m->params[b->a + 1], mask = 1;
    if (all[index].op == JITC_OP_masked) {
        mask = m->v[all[index].b];
        index = all[index].a;
    }
    jit_dtype type = (jit_dtype) all[index].type;
    uint64_t at = m->v[index];
    if (jitc_dtypes[type].cls == JITC_INT && at >> (jitc_dtypes[type].bits - 1))
        at |= ~jitc_bits_mask(type);
    if (mask && at >= size)
        report(m, n, at, size);
    if (!mask || at >= size)
        return NULL;
    return (char *) (uintptr_t) m->params[b->a] + at * jitc_dtypes[b->type].bytes;
}

static uint64_t fold(jitc_op op, jit_dtype t, jit_dtype to, uint64_t a, uint64_t b, uint64_t c) {
    const uint64_t in[3] = {a, b, c};
    uint64_t out = 0;
    cr_assert(jitc_fold(op, t, to, in, &out), "no fold of %s", jitc_ops[op].name);
    return out;
}

static uint64_t elementwise(const machine *m, const jitc_inst *i) {
    bool is_select = jitc_ops[i->op].form == JITC_FORM_SELECT;
    jit_dtype t = (jit_dtype) m->p->inst[is_select ? i->b : i->a].type;
    unsigned count = jitc_inst_operands(i);
    return fold((jitc_op) i->op, t, (jit_dtype) i->type, m->v[i->a], count > 1 ? m->v[i->b] : 0,
                count > 2 ? m->v[i->c] : 0);
}

static uint64_t gather(const machine *m, uint32_t n) {
    const jitc_inst *i = &m->p->inst[n];
    const void *from = element(m, n, i->a, i->b);
    uint64_t bits = from ? read_element((jit_dtype) i->type, from, 0) : 0;
    return i->type == JIT_bool ? bits != 0 : bits;
}

/** What was there before. */
static uint64_t scatter(const machine *m, uint32_t n) {
    const jitc_inst *i = &m->p->inst[n];
    jit_dtype t = (jit_dtype) i->type;
    void *to = element(m, n, i->a, i->c);
    uint64_t value = m->v[i->b], old = to ? read_element(t, to, 0) : 0;
    if (i->op == JITC_OP_scatter_reduce)
        value = fold(jitc_reduce_op(jitc_inst_reduce(i)), t, t, old, value, 0);
    if (to)
        write_element(t, to, 0, value);
    return old;
}

static void store(const machine *m, const jitc_inst *i) {
    write_element((jit_dtype) i->type, (void *) (uintptr_t) m->params[i->b], m->lane, m->v[i->a]);
}

static uint64_t convert(jit_dtype from, jit_dtype to, uint64_t bits) {
    return from == to ? bits : fold(JITC_OP_cast, from, to, bits, 0, 0);
}

/** In the type in which lanes are combined; v[n]: all lanes before. */
static void reduce(machine *m, uint32_t n) {
    const jitc_inst *i = &m->p->inst[n];
    jit_reduce_op op = jitc_inst_reduce(i);
    jit_dtype t = jitc_reduce_type(op, (jit_dtype) i->type);
    uint64_t value = convert((jit_dtype) i->type, t, m->v[i->a]);
    m->v[n] = fold(jitc_reduce_op(op), t, t, m->v[n], value, 0);
}

static void start_reductions(machine *m) {
    for (uint32_t n = 0; n < m->p->head.count; n++) {
        const jitc_inst *i = &m->p->inst[n];
        jit_reduce_op op = jitc_inst_reduce(i);
        if (i->op == JITC_OP_reduce)
            m->v[n] = jitc_reduce_identity(op, jitc_reduce_type(op, (jit_dtype) i->type));
    }
}

static void store_reductions(const machine *m) {
    for (uint32_t n = 0; n < m->p->head.count; n++) {
        const jitc_inst *i = &m->p->inst[n];
        jit_dtype to = (jit_dtype) i->type, t = jitc_reduce_type(jitc_inst_reduce(i), to);
        if (i->op == JITC_OP_reduce)
            write_element(to, (void *) (uintptr_t) m->params[i->b], 0, convert(t, to, m->v[n]));
    }
}

static void execute(machine *m, uint32_t n) {
    const jitc_inst *i = &m->p->inst[n];
    switch (i->op) {
        case JITC_OP_literal: m->v[n] = literal(m, i); break;
        case JITC_OP_counter: m->v[n] = m->lane & jitc_bits_mask((jit_dtype) i->type); break;
        case JITC_OP_data: m->v[n] = data(m, i); break;
        case JITC_OP_gather: m->v[n] = gather(m, n); break;
        case JITC_OP_scatter:
        case JITC_OP_scatter_reduce: m->v[n] = scatter(m, n); break;
        case JITC_OP_store: store(m, i); break;
        case JITC_OP_reduce: reduce(m, n); break;
        case JITC_OP_buffer:
        case JITC_OP_masked: break;
        default: m->v[n] = elementwise(m, i);
    }
}

static uint32_t end_of(const jitc_program *p, uint32_t loop) {
    while (p->inst[loop].op != JITC_OP_loop)
        loop = p->inst[loop].b; /* of a test */
    uint32_t n = loop;
    while (p->inst[n].op != JITC_OP_end || p->inst[n].a != loop)
        n++;
    return n;
}

static void begin_loop(machine *m, uint32_t loop) {
    for (uint32_t n = loop + 1; m->p->inst[n].op == JITC_OP_phi; n++)
        m->v[n] = m->v[m->p->inst[n].a];
}

/** All states change at once. Where to go on. */
static uint32_t end_loop(machine *m, uint32_t end) {
    const jitc_inst *all = m->p->inst;
    for (uint32_t n = end; all[n - 1].op == JITC_OP_next; n--)
        m->pending[n - 1] = m->v[all[n - 1].b];
    for (uint32_t n = end; all[n - 1].op == JITC_OP_next; n--)
        m->v[all[n - 1].a] = m->pending[n - 1];
    return all[all[end].a].aux & JITC_AUX_ONCE ? end + 1 : all[end].a + 1;
}

static void run_lane(machine *m) {
    for (uint32_t n = 0; n < m->p->head.count;) {
        const jitc_inst *i = &m->p->inst[n];
        switch (i->op) {
            case JITC_OP_loop: begin_loop(m, n++); break;
            case JITC_OP_phi:
            case JITC_OP_next: n++; break;
            case JITC_OP_test: n = m->v[i->a] ? n + 1 : end_of(m->p, n) + 1; break;
            case JITC_OP_end: n = end_loop(m, n); break;
            default: execute(m, n++);
        }
    }
}

void interpret(const jitc_program *p, uint64_t lanes, const uint64_t *params) {
    machine m = {.p = p, .params = params};
    m.v = calloc(p->head.count * 2 + 1, sizeof *m.v);
    m.pending = m.v + p->head.count;
    cr_assert(p->head.shape == JITC_SHAPE_MAP || p->head.shape == JITC_SHAPE_REDUCE);
    start_reductions(&m);
    for (m.lane = 0; m.lane < lanes; m.lane++)
        run_lane(&m);
    store_reductions(&m);
    free(m.v);
}
