/* program.c: one kernel as data: building, comparing, printing, checking.
 * Layer: ir.  May include: core. */
#include "ir/program.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t inst_bytes(const jitc_program *p) {
    return p->head.count * sizeof *p->inst;
}

void jitc_program_finish(jitc_program *p) {
    if (!p)
        return;
    free(p->inst);
    *p = (jitc_program) {0};
}

jit_status jitc_program_copy(const jitc_program *p, jitc_program *out) {
    jitc_program copy = {.head = p->head};
    TRY(jitc_grow((void **) &copy.inst, &copy.capacity, p->head.count, sizeof *copy.inst));
    if (p->head.count)
        memcpy(copy.inst, p->inst, inst_bytes(p));
    *out = copy;
    return JIT_OK;
}

bool jitc_program_equal(const jitc_program *a, const jitc_program *b) {
    return memcmp(&a->head, &b->head, sizeof a->head) == 0 &&
           (a->head.count == 0 || memcmp(a->inst, b->inst, inst_bytes(a)) == 0);
}

jitc_hash jitc_program_hash(const jitc_program *p, uint64_t seed) {
    jitc_hash head = jitc_hash_bytes(&p->head, sizeof p->head, seed);
    return jitc_hash_bytes(p->inst, inst_bytes(p), head.lo);
}

/* Operands, by form and operation: how many of a, b, c name instructions, and which name a
 * parameter. */

static int operand_count(const jitc_inst *i) {
    if (i->op == JITC_OP_store)
        return 1;
    return jitc_ops[i->op].arity;
}
/** The field of `i` that is the number of a parameter; NULL if there is none. */
static const uint32_t *parameter(const jitc_inst *i) {
    switch (i->op) {
        case JITC_OP_data:
        case JITC_OP_buffer: return &i->a;
        case JITC_OP_literal: return i->flags & JITC_INST_BAKED ? NULL : &i->a;
        case JITC_OP_store: return &i->b;
        default: return NULL;
    }
}

/* Printing. */

static void print_flags(FILE *f, unsigned flags, const char *const *names) {
    for (unsigned i = 0; names[i]; ++i)
        if (flags >> i & 1)
            fprintf(f, " %s", names[i]);
}

static void print_inst(FILE *f, const jitc_inst *i, uint32_t index) {
    static const char *const flag_names[] = {"scalar", "baked", "uniform", NULL};
    const uint32_t operands[] = {i->a, i->b, i->c};
    fprintf(f, "v%-4" PRIu32 " %-4s %-8s", index, jitc_dtypes[i->type].name, jitc_ops[i->op].name);
    for (int k = 0; k < operand_count(i); ++k)
        fprintf(f, " v%" PRIu32, operands[k]);
    if (parameter(i))
        fprintf(f, " p%" PRIu32, *parameter(i));
    else if (i->op == JITC_OP_literal)
        fprintf(f, " 0x%" PRIx64, jitc_inst_bits(i));
    print_flags(f, i->flags, flag_names);
    fputc('\n', f);
}

char *jitc_program_print(const jitc_program *p) {
    static const char *const flag_names[] = {"tail", "wide", "bounds", "fast_math", "stream", NULL};
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    fprintf(f, "program of %" PRIu32 " parameters", p->head.params);
    print_flags(f, p->head.flags, flag_names);
    if (p->head.flags & JITC_PROGRAM_BOUNDS)
        fprintf(f, ", report p%" PRIu32, p->head.report);
    fputc('\n', f);
    for (uint32_t i = 0; i < p->head.count; ++i)
        print_inst(f, &p->inst[i], i);
    bool failed = ferror(f);
    if (fclose(f) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}

/* Checking. Each function returns NULL or what is wrong; operands were found to be earlier
 * instructions. */

#define CHECK(condition, text)                                                                     \
    if (!(condition))                                                                              \
    return text

/** Is the result of `i` a value of one element per lane? */
static bool is_value(const jitc_inst *i) {
    switch (jitc_ops[i->op].form) {
        case JITC_FORM_PROGRAM:
        case JITC_FORM_MASKED:
        case JITC_FORM_SCATTER: return false;
        default: return true;
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
    for (int k = 0; k < operand_count(i); ++k) {
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

static const char *parameter_invalid(const jitc_program *p, const jitc_inst *i) {
    const uint32_t *number = parameter(i);
    if (number)
        CHECK(*number < p->head.params, "parameter out of range");
    if (i->op == JITC_OP_buffer)
        CHECK(p->head.params - *number >= 2, "buffer: no parameter for the size");
    return NULL;
}

static const char *inst_invalid(const jitc_program *p, uint32_t index) {
    const jitc_inst *i = &p->inst[index], *operand[3] = {NULL, NULL, NULL};
    CHECK(i->op < JITC_OP_COUNT, "no such operation");
    CHECK(jitc_dtype_valid(i->type), "no such type");
    const uint32_t fields[] = {i->a, i->b, i->c};
    for (int k = 0; k < operand_count(i); ++k) {
        CHECK(fields[k] < index, "operand is not an earlier instruction");
        operand[k] = &p->inst[fields[k]];
    }
    const char *wrong = parameter_invalid(p, i);
    if (wrong)
        return wrong;
    switch (jitc_ops[i->op].form) {
        case JITC_FORM_LEAF: return literal_invalid(i);
        case JITC_FORM_UNARY:
        case JITC_FORM_BINARY:
        case JITC_FORM_TERNARY: return elementwise_invalid(i, operand);
        case JITC_FORM_SELECT: return select_invalid(i, operand);
        case JITC_FORM_CAST: return cast_invalid(i, operand);
        default: return memory_invalid(i, operand);
    }
}

const char *jitc_program_invalid(const jitc_program *p) {
    if (p->head.flags & JITC_PROGRAM_BOUNDS)
        CHECK(p->head.report < p->head.params, "report: parameter out of range");
    for (uint32_t i = 0; i < p->head.count; ++i) {
        const char *wrong = inst_invalid(p, i);
        if (wrong)
            return wrong;
    }
    return NULL;
}
#undef CHECK
