/* interpreter.c: programs of shape MAP, instruction by instruction. */
#include "interpreter.h"
#include "programs.h"
#include <criterion/criterion.h>
#include <stdlib.h>

/** One lane. */
typedef struct lane {
    const jitc_program *p;
    const uint64_t *params;
    uint64_t number;
    uint64_t *value; /* of each instruction; `masked`: the index */
} lane;

static jit_dtype type_of(const lane *l, uint32_t inst) {
    return (jit_dtype) l->p->inst[inst].type;
}
static void *pointer(const lane *l, uint32_t parameter) {
    return (void *) (uintptr_t) l->params[parameter];
}

static uint64_t literal(const lane *l, const jitc_inst *i) {
    return i->flags & JITC_INST_BAKED
               ? jitc_inst_bits(i)
               : l->params[i->a] & (i->type == JIT_bool ? 1 : jitc_bits_mask((jit_dtype) i->type));
}

static uint64_t compute(const lane *l, const jitc_inst *i) {
    bool select = jitc_ops[i->op].form == JITC_FORM_SELECT;
    const uint32_t fields[] = {i->a, i->b, i->c};
    uint64_t in[3] = {0}, out = 0;
    for (unsigned k = 0; k < jitc_ops[i->op].arity; ++k)
        in[k] = l->value[fields[k]];
    cr_assert(
        jitc_fold((jitc_op) i->op, type_of(l, select ? i->b : i->a), (jit_dtype) i->type, in, &out),
        "%s has no fold", jitc_ops[i->op].name);
    return out;
}

/** The element of a buffer, or NULL: masked, or out of range, which is reported. */
static void *element(const lane *l, uint32_t inst, uint32_t buffer, uint32_t index) {
    const jitc_inst *b = &l->p->inst[buffer], *at = &l->p->inst[index];
    uint32_t number = at->op == JITC_OP_masked ? at->a : index;
    uint64_t i = l->value[number], size = l->params[b->a + 1];
    jit_dtype t = type_of(l, number);
    if (jitc_dtypes[t].cls == JITC_INT)
        i = (uint64_t) ((int64_t) (i << (64 - jitc_dtypes[t].bits)) >> (64 - jitc_dtypes[t].bits));
    if (at->op == JITC_OP_masked && !l->value[at->b])
        return NULL;
    if (i < size)
        return (char *) pointer(l, b->a) + i * jitc_dtypes[b->type].bytes;
    if (l->p->head.flags & JITC_PROGRAM_BOUNDS) {
        jitc_bounds_report *r = pointer(l, l->p->head.report);
        if (!r->claimed)
            *r = (jitc_bounds_report) {.claimed = inst + 1, .index = i, .size = size};
    }
    return NULL;
}

static uint64_t scatter_reduce(const lane *l, uint32_t n) {
    const jitc_inst *i = &l->p->inst[n];
    void *p = element(l, n, i->a, i->c);
    jit_dtype t = (jit_dtype) i->type;
    uint64_t old = p ? read_element(t, p, 0) : 0, in[] = {old, l->value[i->b], 0}, out = 0;
    if (!p)
        return 0;
    cr_assert(jitc_fold(jitc_reduce_op(jitc_inst_reduce(i)), t, t, in, &out));
    write_element(t, p, 0, out);
    return old;
}

static void memory(lane *l, uint32_t n) {
    const jitc_inst *i = &l->p->inst[n];
    jit_dtype t = (jit_dtype) i->type;
    void *p;
    switch (i->op) {
        case JITC_OP_masked: l->value[n] = l->value[i->a]; break;
        case JITC_OP_data:
            l->value[n] = read_element(t, pointer(l, i->a),
                                       i->flags & JITC_INST_SCALAR ? 0 : (size_t) l->number);
            break;
        case JITC_OP_store:
            write_element(t, pointer(l, i->b), (size_t) l->number, l->value[i->a]);
            break;
        case JITC_OP_gather:
            p = element(l, n, i->a, i->b);
            l->value[n] = p ? read_element(t, p, 0) : 0;
            break;
        case JITC_OP_scatter:
            p = element(l, n, i->a, i->c);
            if (p)
                write_element(t, p, 0, l->value[i->b]);
            break;
        case JITC_OP_scatter_reduce: l->value[n] = scatter_reduce(l, n); break;
        default: break; /* buffer */
    }
}

/** The instruction behind the end of a loop. */
static uint32_t behind(const jitc_program *p, uint32_t loop) {
    uint32_t n = loop + 1;
    while (p->inst[n].op != JITC_OP_end || p->inst[n].a != loop)
        ++n;
    return n + 1;
}

static void take_next(lane *l, uint32_t end) {
    uint32_t first = end;
    while (l->p->inst[first - 1].op == JITC_OP_next)
        --first;
    uint64_t *value = malloc((end - first + 1) * sizeof *value);
    for (uint32_t n = first; n < end; ++n)
        value[n - first] = l->value[l->p->inst[n].b];
    for (uint32_t n = first; n < end; ++n)
        l->value[l->p->inst[n].a] = value[n - first];
    free(value);
}

/** The number of the instruction that comes next. */
static uint32_t step(lane *l, uint32_t n) {
    const jitc_inst *i = &l->p->inst[n];
    uint32_t after;
    switch (i->op) {
        case JITC_OP_literal: l->value[n] = literal(l, i); return n + 1;
        case JITC_OP_counter: l->value[n] = l->number; return n + 1;
        case JITC_OP_loop:
            for (after = n + 1; l->p->inst[after].op == JITC_OP_phi; ++after)
                l->value[after] = l->value[l->p->inst[after].a];
            return after;
        case JITC_OP_test: return l->value[i->a] ? n + 1 : behind(l->p, i->b);
        case JITC_OP_next: return n + 1; /* at the end */
        case JITC_OP_end:
            take_next(l, n);
            for (after = i->a + 1; l->p->inst[after].op == JITC_OP_phi; ++after) {
            }
            return l->p->inst[i->a].aux & JITC_AUX_ONCE ? n + 1 : after;
        default: break;
    }
    switch (jitc_ops[i->op].form) {
        case JITC_FORM_UNARY:
        case JITC_FORM_BINARY:
        case JITC_FORM_TERNARY:
        case JITC_FORM_SELECT:
        case JITC_FORM_CAST: l->value[n] = compute(l, i); break;
        default: memory(l, n); break;
    }
    return n + 1;
}

void interpret(const jitc_program *p, uint64_t lanes, const uint64_t *params) {
    lane l = {.p = p, .params = params, .value = calloc(p->head.count + 1, sizeof(uint64_t))};
    cr_assert_not_null(l.value);
    cr_assert_eq(p->head.shape, JITC_SHAPE_MAP);
    for (; l.number < lanes; ++l.number)
        for (uint32_t n = 0; n < p->head.count;)
            n = step(&l, n);
    free(l.value);
}
