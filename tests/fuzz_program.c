/* fuzz_program.c: random programs: printed, and reduced to what is needed. */
#include "fuzz_program.h"
#include <stdio.h>
#include <stdlib.h>

static const char *const names[] = {"literal",
                                    "counter",
                                    "copied",
                                    "mapped",
                                    "foreign",
                                    "apply",
                                    "cast",
                                    "bitcast",
                                    "gather",
                                    "scatter",
                                    "scatter_reduce",
                                    "scatter_inc",
                                    "reduce",
                                    "block_reduce",
                                    "prefix_reduce",
                                    "compress",
                                    "compress_padded",
                                    "sort",
                                    "tile",
                                    "repeat",
                                    "reverse",
                                    "slice",
                                    "roll",
                                    "transpose",
                                    "concat",
                                    "any",
                                    "all",
                                    "count",
                                    "argmin",
                                    "argmax",
                                    "second result",
                                    "variable",
                                    "result",
                                    "begin",
                                    "part",
                                    "condition",
                                    "end"};
_Static_assert(sizeof names / sizeof *names == END + 1, "a name for each kind");

static void print_values(const fuzz_step *s) {
    for (size_t i = 0; s->value && i < s->size && i < 6; ++i)
        fprintf(stderr, "%s%llx", i ? " " : "  = ", (unsigned long long) s->value[i]);
    if (s->size > 6)
        fprintf(stderr, " ...");
}

static void print_block(const program *p, const fuzz_step *s) {
    static const char *const forms[] = {"loop", "branch", "call"};
    const fuzz_block *b = &p->block[s->number[0]];
    fprintf(stderr, " %lld: %s of %zu lanes, part %lld;", s->number[0], forms[b->form], b->lanes,
            s->number[1]);
    for (int k = 0; s->kind == BEGIN && k < b->states; ++k)
        fprintf(stderr, " start %d%s", b->start[k], b->array[k] ? " (array)" : "");
    for (int k = 0; s->kind == END && k < b->states; ++k)
        for (int part = 0; part < b->parts; ++part)
            fprintf(stderr, "%s%d", part ? "|" : " next ", b->next[part][k]);
}

void program_print(const program *p) {
    fprintf(stderr, "program %llu\n", (unsigned long long) p->seed);
    for (int i = 0; i < p->count; ++i) {
        const fuzz_step *s = &p->step[i];
        if (!s->needed)
            continue;
        fprintf(stderr, "%3d: ", i);
        if (s->kind <= RESULT)
            fprintf(stderr, "%s[%zu] ", jit_dtype_name(s->type), s->size);
        fprintf(stderr, "%s",
                s->given           ? "given"
                : s->kind == APPLY ? jitc_ops[s->op].name
                                   : names[s->kind]);
        for (int k = 0; k < INPUTS && !s->given; ++k)
            if (s->in[k] >= 0)
                fprintf(stderr, " %d:%d", k, s->in[k]);
        if (s->kind >= BEGIN)
            print_block(p, s);
        else if (s->kind > CAST && !s->given)
            fprintf(stderr, " (%lld, %lld, %lld)", s->number[0], s->number[1], s->number[2]);
        if (s->inner < 0)
            print_values(s);
        fputc('\n', stderr);
    }
}

static void need(program *p, int i) {
    if (i >= 0)
        p->step[i].needed = true;
}

static void need_block(program *p, const fuzz_block *b) {
    need(p, b->begin);
    need(p, b->end);
    need(p, b->form == LOOP ? b->condition : -1);
    for (int part = 0; part < b->parts; ++part) {
        need(p, b->part[part]);
        for (int k = 0; k < b->states; ++k) {
            need(p, b->start[k]);
            need(p, b->variable[part][k]);
            need(p, b->next[part][k]);
        }
    }
}

static const fuzz_block *block_of_result(const program *p, int i) {
    for (int b = 0; b < p->blocks; ++b)
        for (int k = 0; k < p->block[b].states; ++k)
            if (p->block[b].result[k] == i)
                return &p->block[b];
    return NULL;
}

void program_trim(program *p, const bool *wanted) {
    for (int i = 0; i < p->count; ++i)
        p->step[i].needed = wanted[i];
    for (int i = p->count - 1; i >= 0; --i) {
        const fuzz_step *s = &p->step[i];
        if (!s->needed || s->given)
            continue;
        for (int k = 0; k < INPUTS; ++k)
            need(p, s->in[k]);
        if (s->kind == SECOND)
            need(p, i - 1);
        if (s->kind == RESULT)
            need_block(p, block_of_result(p, i));
    }
}

void program_finish(program *p) {
    for (int i = 0; i < p->count; ++i)
        free(p->step[i].value);
    p->count = 0;
}
