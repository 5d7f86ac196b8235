/* Things beside the graph that few nodes have, found by a table from node index to place. */
#include "trace/private.h"
#include <stdlib.h>

struct jitc_side_item {
    void *item;
    uint32_t next_free; /* 1 + place; 0: none */
};

/* Spreads indices; one to one, so that equal hashes are equal indices. */
static uint32_t spread(uint32_t index) {
    return index * 0x9E3779B1u;
}

/* The place of what node i has. */
static uint32_t place_of(const jitc_side *s, uint32_t i) {
    const jitc_table *t = &s->table;
    uint32_t hash = spread(i), at = hash & t->mask;
    while (t->entries[at] >> 32 != hash || !t->entries[at])
        at = (at + 1) & t->mask;
    return (uint32_t) t->entries[at] - 1; /* 1 + place, because entry 0 is an empty one */
}

static bool take_place(jitc_side *s, uint32_t *place) {
    if (s->free) {
        *place = s->free - 1;
        s->free = s->items[*place].next_free;
        return true;
    }
    if (jitc_grow((void **) &s->items, &s->capacity, s->count + 1, sizeof *s->items) != JIT_OK)
        return false;
    *place = (uint32_t) s->count++;
    return true;
}

static void give_place(jitc_side *s, uint32_t place) {
    s->items[place] = (struct jitc_side_item) {.next_free = s->free};
    s->free = place + 1;
}

void *jitc_side_get(const jitc_side *s, uint32_t i) {
    return s->items[place_of(s, i)].item;
}

bool jitc_side_put(jitc_side *s, uint32_t i, void *item) {
    uint32_t place;
    if (!take_place(s, &place))
        return false;
    if (!jitc_table_insert(&s->table, spread(i), place + 1)) {
        give_place(s, place);
        return false;
    }
    s->items[place].item = item;
    return true;
}

void jitc_side_drop(jitc_side *s, uint32_t i) {
    uint32_t place = place_of(s, i);
    free(s->items[place].item);
    give_place(s, place);
    jitc_table_remove(&s->table, spread(i), place + 1);
}

void jitc_side_finish(jitc_side *s) {
    for (size_t i = 0; i < s->count; ++i)
        free(s->items[i].item);
    free(s->items);
    free(s->table.entries);
}
