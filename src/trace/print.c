/* print.c: what was traced, as text for people.  Layer: trace. */
#include "ir/bits.h"
#include "ir/program.h"
#include "trace/private.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct printer {
    jitc_graph *graph;
    uint32_t base; /* a node with a stamp from here on has been printed */
    FILE *out;
    uint32_t *stack;
    size_t capacity;
} printer;

static void print_literal(FILE *out, jit_dtype t, uint64_t bits) {
    bool real = jitc_dtypes[t].cls == JITC_FLOAT;
    uint64_t in[3] = {bits, 0, 0}, value;
    if (!jitc_fold(JITC_OP_cast, t, real ? JIT_f64 : JIT_i64, in, &value))
        return;
    if (real)
        fprintf(out, " %g", jitc_f64_from_bits(value));
    else
        fprintf(out, " %lld", (long long) value);
}

/* What the operation is told besides its operands. */
static void print_aux(const printer *p, const jitc_node *n, uint32_t i) {
    uint8_t aux = jitc_node_aux(p->graph, i);
    switch (n->op) {
        case JITC_OP_prefix_reduce:
            fprintf(p->out, "%s%s", aux & JITC_AUX_EXCLUSIVE ? " exclusive" : "",
                    aux & JITC_AUX_REVERSE ? " reverse" : "");
            break;
        case JITC_OP_reduce:
        case JITC_OP_block_reduce:
        case JITC_OP_scatter_reduce: break;
        case JITC_OP_sort: fputs(aux & JITC_AUX_DESCENDING ? " descending" : "", p->out); return;
        default: return;
    }
    fprintf(p->out, " %s", jitc_reduce_name((jit_reduce_op) (aux & JITC_AUX_REDUCE)));
    if (n->op == JITC_OP_block_reduce)
        fprintf(p->out, " %llu", (unsigned long long) jitc_node_block(p->graph, i));
}

static void print_node(const printer *p, uint32_t i) {
    const jitc_node *n = jitc_node_at(p->graph, i);
    unsigned arity = jitc_ops[n->op].arity;
    fprintf(p->out, "  v%u = %s", i, jitc_ops[n->op].name);
    if (n->op == JITC_OP_literal)
        print_literal(p->out, jitc_node_type(n), *jitc_node_value(p->graph, i));
    print_aux(p, n, i);
    if (arity > 0)
        fprintf(p->out, " v%u", n->a);
    if (arity > 1)
        fprintf(p->out, " v%u", n->b);
    if (arity > 2)
        fprintf(p->out, " v%u", *jitc_node_c(p->graph, i));
    fprintf(p->out, " : %s[%llu]", jitc_dtypes[jitc_node_type(n)].name,
            (unsigned long long) jitc_node_size(n));
    const char *label = jitc_label_of(p->graph, i);
    fprintf(p->out, "%s%s\n", *label ? "  ; " : "", label);
}

static uint32_t first_unprinted(const printer *p, uint32_t i) {
    const jitc_node *n = jitc_node_at(p->graph, i);
    unsigned arity = jitc_ops[n->op].arity;
    uint32_t operand[3] = {n->a, n->b, arity > 2 ? *jitc_node_c(p->graph, i) : 0};
    for (unsigned k = 0; k < arity; ++k)
        if (*jitc_node_stamp(p->graph, operand[k]) < p->base)
            return operand[k];
    return 0;
}

/* Operands first, without recursion. */
static jit_status print_from(printer *p, uint32_t root) {
    size_t depth = 0;
    uint32_t i = root, next;
    while (*jitc_node_stamp(p->graph, root) < p->base) {
        if ((next = first_unprinted(p, i)) != 0) {
            TRY(jitc_grow((void **) &p->stack, &p->capacity, depth + 1, sizeof *p->stack));
            p->stack[depth++] = i;
            i = next;
            continue;
        }
        print_node(p, i);
        *jitc_node_stamp(p->graph, i) = p->base;
        if (depth)
            i = p->stack[--depth];
    }
    return JIT_OK;
}

char *jitc_graph_print_locked(jitc_graph *g, size_t n, const uint32_t *roots) {
    char *text = NULL;
    size_t size;
    printer p = {.graph = g, .base = jitc_graph_stamps_locked(g)};
    p.out = open_memstream(&text, &size);
    if (!p.out)
        return NULL;
    for (size_t i = 0; i < n; ++i)
        if (print_from(&p, roots[i]) != JIT_OK)
            break;
    fclose(p.out);
    free(p.stack);
    g->stamp_base = p.base + 1;
    return text;
}
