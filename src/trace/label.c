/* Labels: texts beside the graph, found by a table from node index to place. */
#include "trace/private.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct jitc_label {
    char *text;
    uint32_t next_free; /* 1 + place; 0: none */
} jitc_label;

/* Spreads indices; one to one, so that equal hashes are equal indices. */
static uint32_t spread(uint32_t index) {
    return index * 0x9E3779B1u;
}

/* The place of node i's label, which exists. */
static uint32_t place_of(const jitc_graph *g, uint32_t i) {
    const jitc_table *t = &g->p->label_table;
    uint32_t hash = spread(i), at = hash & t->mask;
    while (t->entries[at] >> 32 != hash || !t->entries[at])
        at = (at + 1) & t->mask;
    return (uint32_t) t->entries[at] - 1; /* 1 + place, because entry 0 is an empty one */
}

static jit_status take_place(struct jitc_graph_private *p, uint32_t *place) {
    if (p->free_label) {
        *place = p->free_label - 1;
        p->free_label = p->labels[*place].next_free;
        return JIT_OK;
    }
    TRY(jitc_grow((void **) &p->labels, &p->label_capacity, p->label_count + 1, sizeof *p->labels));
    *place = (uint32_t) p->label_count++;
    return JIT_OK;
}

static void give_place(struct jitc_graph_private *p, uint32_t place) {
    p->labels[place] = (jitc_label) {.next_free = p->free_label};
    p->free_label = place + 1;
}

void jitc_label_drop(jitc_graph *g, uint32_t i) {
    struct jitc_graph_private *p = g->p;
    uint32_t place = place_of(g, i);
    free(p->labels[place].text);
    give_place(p, place);
    jitc_table_remove(&p->label_table, spread(i), place + 1);
    jitc_node_at(g, i)->flags &= (uint8_t) ~JITC_NODE_LABELED;
}

void jitc_label_finish(jitc_graph *g) {
    for (size_t i = 0; i < g->p->label_count; ++i)
        free(g->p->labels[i].text);
    free(g->p->labels);
    free(g->p->label_table.entries);
}

/* Takes `text` if it succeeds. */
static jit_status set_label(jitc_graph *g, uint32_t i, char *text) {
    struct jitc_graph_private *p = g->p;
    uint32_t place;
    if (jitc_node_at(g, i)->flags & JITC_NODE_LABELED)
        jitc_label_drop(g, i);
    if (!text)
        return JIT_OK;
    TRY(take_place(p, &place));
    if (!jitc_table_insert(&p->label_table, spread(i), place + 1)) {
        give_place(p, place);
        return jitc_fail(JIT_OUT_OF_MEMORY, "jit_set_label: no room for another label");
    }
    p->labels[place].text = text;
    jitc_node_at(g, i)->flags |= JITC_NODE_LABELED;
    return JIT_OK;
}

jit_status jitc_trace_set_label(jitc_graph *g, jit_var v, const char *label) {
    char *text = label ? strdup(label) : NULL;
    if (label && !text)
        return jitc_fail(JIT_OUT_OF_MEMORY, "jit_set_label: no room for another label");
    jitc_lock_graph(g);
    uint32_t i = jitc_graph_find_locked(g, "jit_set_label", v);
    jit_status status = i ? set_label(g, i, text) : JIT_INVALID_HANDLE;
    jitc_unlock_graph(g);
    if (status != JIT_OK)
        free(text);
    return status;
}

const char *jitc_label_of(const jitc_graph *g, uint32_t i) {
    bool labeled = jitc_node_at(g, i)->flags & JITC_NODE_LABELED;
    return labeled ? g->p->labels[place_of(g, i)].text : "";
}

jit_status jitc_trace_label(jitc_graph *g, jit_var v, char *text, size_t size) {
    jitc_lock_graph(g);
    uint32_t i = jitc_graph_find_locked(g, "jit_label", v);
    if (size)
        snprintf(text, size, "%s", i ? jitc_label_of(g, i) : "");
    jitc_unlock_graph(g);
    return i ? JIT_OK : JIT_INVALID_HANDLE;
}
