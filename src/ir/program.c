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

unsigned jitc_inst_operands(const jitc_inst *i) {
    switch (i->op) {
        case JITC_OP_store:
        case JITC_OP_phi:
        case JITC_OP_end: return 1;
        case JITC_OP_test:
        case JITC_OP_next: return 2;
        default: return jitc_ops[i->op].arity;
    }
}

int jitc_op_shape(unsigned op) {
    switch (op) {
        case JITC_OP_scatter:
        case JITC_OP_scatter_reduce: return JITC_SHAPE_MAP;
        case JITC_OP_reduce: return JITC_SHAPE_REDUCE;
        case JITC_OP_block_reduce: return JITC_SHAPE_BLOCK_REDUCE;
        case JITC_OP_prefix_reduce: return JITC_SHAPE_SCAN;
        case JITC_OP_compress: return JITC_SHAPE_COMPRESS;
        case JITC_OP_sort: return JITC_SHAPE_SORT;
        default: return -1;
    }
}

const uint32_t *jitc_inst_parameter(const jitc_inst *i) {
    switch (i->op) {
        case JITC_OP_data:
        case JITC_OP_buffer: return &i->a;
        case JITC_OP_literal: return i->flags & JITC_INST_BAKED ? NULL : &i->a;
        case JITC_OP_store:
        case JITC_OP_reduce:
        case JITC_OP_block_reduce:
        case JITC_OP_prefix_reduce:
        case JITC_OP_compress:
        case JITC_OP_sort: return &i->b;
        default: return NULL;
    }
}

/* Printing. */

static void print_flags(FILE *f, unsigned flags, const char *const *names) {
    for (unsigned i = 0; names[i]; ++i)
        if (flags >> i & 1)
            fprintf(f, " %s", names[i]);
}

/* What the operation is told besides its operands. */
static void print_aux(FILE *f, const jitc_inst *i) {
    bool reduces = i->op == JITC_OP_scatter_reduce ||
                   (jitc_ops[i->op].form == JITC_FORM_REDUCE && i->op != JITC_OP_compress);
    bool second = i->op == JITC_OP_block_reduce;
    if (reduces && jitc_reduce_valid((int) jitc_inst_reduce(i)))
        fprintf(f, " %s", jitc_reduce_name(jitc_inst_reduce(i)));
    if (i->op == JITC_OP_prefix_reduce && i->aux & JITC_AUX_EXCLUSIVE)
        fputs(" exclusive", f);
    if (i->op == JITC_OP_prefix_reduce && i->aux & JITC_AUX_REVERSE)
        fputs(" reverse", f);
    if (i->op == JITC_OP_sort && i->aux & JITC_AUX_DESCENDING)
        fputs(" descending", f);
    if (i->op == JITC_OP_loop && i->aux & JITC_AUX_ONCE)
        fputs(" once", f);
    if (i->op == JITC_OP_compress || i->op == JITC_OP_sort)
        second = i->aux & JITC_AUX_PART;
    else if (i->aux & JITC_AUX_PART)
        fputs(" old", f);
    if (second)
        fprintf(f, " p%" PRIu32, i->c);
}

static void print_inst(FILE *f, const jitc_inst *i, uint32_t index) {
    static const char *const flag_names[] = {"scalar", "baked", "uniform", "far", NULL};
    const uint32_t operands[] = {i->a, i->b, i->c};
    fprintf(f, "v%-4" PRIu32 " %-4s %-8s", index, jitc_dtypes[i->type].name, jitc_ops[i->op].name);
    for (unsigned k = 0; k < jitc_inst_operands(i); ++k)
        fprintf(f, " v%" PRIu32, operands[k]);
    if (jitc_inst_parameter(i))
        fprintf(f, " p%" PRIu32, *jitc_inst_parameter(i));
    else if (i->op == JITC_OP_literal)
        fprintf(f, " 0x%" PRIx64, jitc_inst_bits(i));
    print_flags(f, i->flags, flag_names);
    print_aux(f, i);
    fputc('\n', f);
}

char *jitc_program_print(const jitc_program *p) {
    static const char *const flag_names[] = {"tail",   "wide",    "bounds", "fast_math",
                                             "stream", "scratch", "loops",  NULL};
    static const char *const shapes[] = {"",      " reduce",   " block_reduce",
                                         " scan", " compress", " sort"};
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    fprintf(f, "program of %" PRIu32 " parameters", p->head.params);
    print_flags(f, p->head.flags, flag_names);
    fputs(p->head.shape <= JITC_SHAPE_SORT ? shapes[p->head.shape] : " ?", f);
    if (p->head.flags & JITC_PROGRAM_BOUNDS)
        fprintf(f, ", report p%" PRIu32, p->head.report);
    if (p->head.flags & JITC_PROGRAM_SCRATCH)
        fprintf(f, ", scratch p%" PRIu32, p->head.scratch);
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
