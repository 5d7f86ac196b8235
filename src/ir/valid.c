/* valid.c: what every reader of programs relies on.  Layer: ir.  May include: core.
 *
 * Each function returns NULL or what is wrong. */
#include "ir/program.h"
#include <stdlib.h>

#define CHECK(condition, text)                                                                     \
    if (!(condition))                                                                              \
    return text

/** Is the result of `i` a value of one element per lane? */
static bool is_value(const jitc_inst *i) {
    switch (jitc_ops[i->op].form) {
        case JITC_FORM_SCATTER: return i->op == JITC_OP_scatter_reduce && i->aux & JITC_AUX_PART;
        case JITC_FORM_LEAF:
        case JITC_FORM_UNARY:
        case JITC_FORM_BINARY:
        case JITC_FORM_TERNARY:
        case JITC_FORM_SELECT:
        case JITC_FORM_CAST:
        case JITC_FORM_GATHER:
        case JITC_FORM_PHI: return true;
        default: return false;
    }
}
static bool is_index(const jitc_inst *i) {
    return (is_value(i) || i->op == JITC_OP_masked) &&
           (jitc_dtypes[i->type].cls & JITC_DOMAIN_INTEGER) != 0;
}

static const char *literal_invalid(const jitc_inst *i) {
    if (i->op == JITC_OP_counter)
        CHECK(i->type == JIT_u32 || i->type == JIT_u64, "counter: neither u32 nor u64");
    if (i->op == JITC_OP_literal && (i->flags & JITC_INST_BAKED))
        CHECK(!(jitc_inst_bits(i) & ~jitc_bits_mask((jit_dtype) i->type)),
              "literal: bits above the width of the type");
    return NULL;
}

static const char *elementwise_invalid(const jitc_inst *i, const jitc_inst *const *operand) {
    jit_dtype t = (jit_dtype) operand[0]->type;
    for (unsigned k = 0; k < jitc_inst_operands(i); ++k) {
        CHECK(is_value(operand[k]), "operand is no value");
        CHECK(operand[k]->type == t, "operands of different types");
    }
    CHECK(jitc_op_accepts((jitc_op) i->op, t), "operation does not exist for this type");
    CHECK(i->type == jitc_op_type((jitc_op) i->op, t), "wrong type of result");
    return NULL;
}

static const char *select_invalid(const jitc_inst *i, const jitc_inst *const *operand) {
    CHECK(is_value(operand[0]) && operand[0]->type == JIT_bool, "select: mask is no bool");
    CHECK(is_value(operand[1]) && is_value(operand[2]), "operand is no value");
    CHECK(operand[1]->type == i->type && operand[2]->type == i->type, "select: types differ");
    return NULL;
}

static const char *cast_invalid(const jitc_inst *i, const jitc_inst *const *operand) {
    CHECK(is_value(operand[0]), "operand is no value");
    if (i->op == JITC_OP_bitcast)
        CHECK(jitc_dtypes[i->type].bits == jitc_dtypes[operand[0]->type].bits,
              "bitcast: widths differ");
    return NULL;
}

static const char *memory_invalid(const jitc_inst *i, const jitc_inst *const *operand) {
    switch (i->op) {
        case JITC_OP_masked:
            CHECK(is_value(operand[0]) && is_index(operand[0]), "masked: index is no integer");
            CHECK(is_value(operand[1]) && operand[1]->type == JIT_bool, "masked: mask is no bool");
            CHECK(operand[0]->type == i->type, "masked: wrong type of result");
            return NULL;
        case JITC_OP_gather:
            CHECK(operand[0]->op == JITC_OP_buffer, "gather: source is no buffer");
            CHECK(operand[0]->type == i->type, "gather: wrong type of result");
            CHECK(is_index(operand[1]), "gather: index is no integer");
            return NULL;
        case JITC_OP_scatter:
        case JITC_OP_scatter_reduce:
            CHECK(operand[0]->op == JITC_OP_buffer, "scatter: target is no buffer");
            CHECK(is_value(operand[1]) && operand[0]->type == operand[1]->type &&
                      i->type == operand[0]->type,
                  "scatter: types differ");
            CHECK(is_index(operand[2]), "scatter: index is no integer");
            return NULL;
        case JITC_OP_store:
            CHECK(is_value(operand[0]), "operand is no value");
            CHECK(operand[0]->type == i->type, "store: types differ");
            return NULL;
        default: return NULL;
    }
}

/* ---- combining lanes ---- */

static const char *reduction_invalid(const jitc_inst *i) {
    CHECK(jitc_reduce_valid((int) jitc_inst_reduce(i)), "no such reduction");
    CHECK(jitc_reduce_accepts(jitc_inst_reduce(i), (jit_dtype) i->type),
          "reduction does not exist for this type");
    return NULL;
}

static const char *combining_invalid(const jitc_inst *i, const jitc_inst *const *operand) {
    switch (i->op) {
        case JITC_OP_sort:
            CHECK(operand[0]->op == JITC_OP_buffer, "sort: what is sorted is no buffer");
            CHECK(operand[0]->type == i->type, "sort: types differ");
            return NULL;
        case JITC_OP_compress:
            CHECK(is_value(operand[0]) && operand[0]->type == JIT_bool, "compress: no bool");
            CHECK(i->type == JIT_u32 || i->type == JIT_u64, "compress: neither u32 nor u64");
            return NULL;
        default:
            CHECK(is_value(operand[0]), "operand is no value");
            CHECK(operand[0]->type == i->type, "reduction: types differ");
            return reduction_invalid(i);
    }
}

static const char *shape_invalid(const jitc_program *p) {
    uint32_t combining = 0, blocks = 0, shape = p->head.shape;
    for (uint32_t n = 0; n < p->head.count; ++n) {
        const jitc_inst *i = &p->inst[n];
        int only = jitc_op_shape(i->op);
        CHECK(only < 0 || only == (int) shape, "instruction of another shape");
        CHECK(i->op != JITC_OP_store || shape <= JITC_SHAPE_REDUCE, "store in this shape");
        CHECK(i->op != JITC_OP_loop || shape <= JITC_SHAPE_REDUCE, "loop in this shape");
        if (i->op == JITC_OP_block_reduce) {
            CHECK(!combining || i->c == blocks, "blocks of several lengths");
            blocks = i->c;
        }
        combining += only > JITC_SHAPE_MAP;
    }
    CHECK((shape == JITC_SHAPE_MAP) == !combining, "shape without what makes it");
    CHECK(shape < JITC_SHAPE_SCAN || combining == 1, "more than one instruction of this shape");
    return NULL;
}

/* ---- loops ---- */

/* What is open while the instructions are read in order. */
typedef struct scopes {
    const jitc_program *p;
    uint32_t *of;     /* for each instruction: 1 + the loop that it stands in, 0: none */
    uint32_t *tested; /* for each loop: it has its test */
    uint32_t open;    /* 1 + the innermost open loop */
} scopes;

/* Is `scope` open, or outside of everything? */
static bool is_open(const scopes *s, uint32_t scope) {
    for (uint32_t open = s->open;; open = s->of[open - 1])
        if (open == scope || !open)
            return open == scope;
}

/* Can instruction `o` be used now? A phi also behind its loop. */
static bool is_visible(const scopes *s, uint32_t o) {
    uint32_t scope = s->of[o];
    return is_open(s, scope) || (s->p->inst[o].op == JITC_OP_phi && is_open(s, s->of[scope - 1]));
}

static const char *phi_invalid(const scopes *s, uint32_t n) {
    const jitc_inst *i = &s->p->inst[n], *before = &s->p->inst[n - 1];
    CHECK(i->b < n && s->p->inst[i->b].op == JITC_OP_loop && s->open == i->b + 1,
          "phi: not of the innermost loop");
    CHECK(n - 1 == i->b || (before->op == JITC_OP_phi && before->b == i->b),
          "phi: not right behind its loop");
    CHECK(is_value(&s->p->inst[i->a]) && s->p->inst[i->a].type == i->type, "phi: types differ");
    return NULL;
}

static const char *next_invalid(const scopes *s, uint32_t n) {
    const jitc_inst *i = &s->p->inst[n], *phi = &s->p->inst[i->a];
    CHECK(phi->op == JITC_OP_phi && phi->b + 1 == s->open, "next: not of the innermost loop");
    CHECK(is_value(&s->p->inst[i->b]) && s->p->inst[i->b].type == phi->type && i->type == phi->type,
          "next: types differ");
    uint8_t behind = n + 1 < s->p->head.count ? s->p->inst[n + 1].op : (uint8_t) JITC_OP_literal;
    CHECK(behind == JITC_OP_next || behind == JITC_OP_end, "next: not right before the end");
    return NULL;
}

static const char *loop_invalid(scopes *s, uint32_t n) {
    const jitc_inst *i = &s->p->inst[n];
    switch (i->op) {
        case JITC_OP_loop: s->open = n + 1; return NULL;
        case JITC_OP_phi: return phi_invalid(s, n);
        case JITC_OP_test:
            CHECK(s->open && i->b + 1 == s->open && !s->tested[i->b], "test: not of this loop");
            CHECK(is_value(&s->p->inst[i->a]) && s->p->inst[i->a].type == JIT_bool,
                  "test: no bool");
            s->tested[i->b] = 1;
            return NULL;
        case JITC_OP_next: return next_invalid(s, n);
        case JITC_OP_end:
            CHECK(s->open && i->a + 1 == s->open, "end: not of the innermost loop");
            CHECK(s->tested[i->a], "end: the loop has no test");
            s->open = s->of[i->a];
            return NULL;
        default:
            CHECK(!s->open || jitc_op_shape(i->op) <= JITC_SHAPE_MAP,
                  "lanes are combined inside a loop");
            CHECK(!s->open || (i->op != JITC_OP_store && i->op != JITC_OP_buffer),
                  "store or buffer inside a loop");
            return NULL;
    }
}

static const char *operands_visible(const scopes *s, uint32_t n) {
    const jitc_inst *i = &s->p->inst[n];
    const uint32_t fields[] = {i->a, i->b, i->c};
    for (unsigned k = 0; k < jitc_inst_operands(i); ++k)
        CHECK(is_visible(s, fields[k]), "operand is inside a loop that has ended");
    return NULL;
}

static const char *loops_invalid(const jitc_program *p, uint32_t *memory) {
    scopes s = {.p = p, .of = memory, .tested = memory + p->head.count};
    bool any = false;
    for (uint32_t n = 0; n < p->head.count; ++n) {
        s.of[n] = s.open;
        const char *wrong = operands_visible(&s, n);
        if (!wrong)
            wrong = loop_invalid(&s, n);
        if (wrong)
            return wrong;
        any |= p->inst[n].op == JITC_OP_loop;
    }
    CHECK(!s.open, "loop without an end");
    CHECK(any == ((p->head.flags & JITC_PROGRAM_LOOPS) != 0), "flag LOOPS is wrong");
    return NULL;
}

/* ---- the whole ---- */

static const char *parameters_invalid(const jitc_program *p, const jitc_inst *i) {
    const uint32_t *number = jitc_inst_parameter(i);
    if (number)
        CHECK(*number < p->head.params, "parameter out of range");
    if (i->op == JITC_OP_buffer)
        CHECK(p->head.params - *number >= 2, "buffer: no parameter for the size");
    bool two = i->op == JITC_OP_block_reduce ||
               ((i->op == JITC_OP_compress || i->op == JITC_OP_sort) && i->aux & JITC_AUX_PART);
    if (two)
        CHECK(i->c < p->head.params, "second parameter out of range");
    return NULL;
}

static const char *form_invalid(const jitc_inst *i, const jitc_inst *const *operand) {
    switch (jitc_ops[i->op].form) {
        case JITC_FORM_LEAF: return literal_invalid(i);
        case JITC_FORM_UNARY:
        case JITC_FORM_BINARY:
        case JITC_FORM_TERNARY: return elementwise_invalid(i, operand);
        case JITC_FORM_SELECT: return select_invalid(i, operand);
        case JITC_FORM_CAST: return cast_invalid(i, operand);
        case JITC_FORM_REDUCE:
        case JITC_FORM_SORT: return combining_invalid(i, operand);
        case JITC_FORM_PART:
        case JITC_FORM_RESULT: return "operation of the graph only";
        default: return memory_invalid(i, operand);
    }
}

static const char *inst_invalid(const jitc_program *p, uint32_t index) {
    const jitc_inst *i = &p->inst[index], *operand[3] = {NULL, NULL, NULL};
    CHECK(i->op < JITC_OP_COUNT, "no such operation");
    CHECK(jitc_dtype_valid(i->type), "no such type");
    const uint32_t fields[] = {i->a, i->b, i->c};
    for (unsigned k = 0; k < jitc_inst_operands(i); ++k) {
        CHECK(fields[k] < index, "operand is not an earlier instruction");
        operand[k] = &p->inst[fields[k]];
    }
    const char *wrong = parameters_invalid(p, i);
    if (!wrong && i->op == JITC_OP_scatter_reduce)
        wrong = reduction_invalid(i);
    return wrong ? wrong : form_invalid(i, operand);
}

static const char *head_invalid(const jitc_program *p) {
    if (p->head.flags & JITC_PROGRAM_BOUNDS)
        CHECK(p->head.report < p->head.params, "report: parameter out of range");
    if (p->head.flags & JITC_PROGRAM_SCRATCH)
        CHECK(p->head.params >= JITC_SCRATCH_PARAMS &&
                  p->head.scratch <= p->head.params - JITC_SCRATCH_PARAMS,
              "scratch: parameters out of range");
    return NULL;
}

static bool wants_scratch(const jitc_program *p) {
    for (uint32_t n = 0; n < p->head.count; ++n)
        if (p->inst[n].op == JITC_OP_scatter_reduce)
            return true;
    return p->head.shape != JITC_SHAPE_MAP;
}

const char *jitc_program_invalid(const jitc_program *p) {
    const char *wrong = head_invalid(p);
    for (uint32_t i = 0; i < p->head.count && !wrong; ++i)
        wrong = inst_invalid(p, i);
    if (!wrong)
        wrong = shape_invalid(p);
    if (wrong)
        return wrong;
    CHECK(!wants_scratch(p) || p->head.flags & JITC_PROGRAM_SCRATCH, "no parameters for scratch");
    void *memory = calloc((size_t) p->head.count + 1, 2 * sizeof(uint32_t));
    if (!memory)
        return "no memory to check it";
    wrong = loops_invalid(p, memory);
    free(memory);
    return wrong;
}
#undef CHECK
