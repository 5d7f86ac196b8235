#include "trace/private.h"
#include <stdlib.h>

enum { SMALLEST = 256 };

static void place(uint64_t *entries, uint32_t mask, uint64_t entry) {
    uint32_t at = (uint32_t) (entry >> 32) & mask;
    while (entries[at])
        at = (at + 1) & mask;
    entries[at] = entry;
}

static bool grow(jitc_table *t) {
    uint32_t mask = t->entries ? t->mask * 2 + 1 : SMALLEST - 1;
    uint64_t *entries = calloc((size_t) mask + 1, sizeof *entries);
    if (!entries)
        return false;
    for (uint32_t i = 0; t->entries && i <= t->mask; ++i)
        if (t->entries[i])
            place(entries, mask, t->entries[i]);
    free(t->entries);
    t->entries = entries;
    t->mask = mask;
    return true;
}

bool jitc_table_insert(jitc_table *t, uint32_t hash, uint32_t number) {
    if (!t->entries || (t->count + 1) * (uint64_t) 10 > ((uint64_t) t->mask + 1) * 7) {
        bool room = t->entries && t->count < t->mask;
        if (!grow(t) && !room)
            return false;
    }
    place(t->entries, t->mask, number | (uint64_t) hash << 32);
    t->count++;
    return true;
}

void jitc_table_remove(jitc_table *t, uint32_t hash, uint32_t number) {
    uint64_t *entries = t->entries, wanted = number | (uint64_t) hash << 32;
    uint32_t mask = t->mask, hole = hash & mask;
    if (!entries)
        return;
    while (entries[hole] != wanted) {
        if (!entries[hole])
            return;
        hole = (hole + 1) & mask;
    }
    t->count--;
    /* Entries that follow move back, so that no look-up ends at the hole too early. */
    for (uint32_t at = (hole + 1) & mask; entries[at]; at = (at + 1) & mask) {
        uint32_t ideal = (uint32_t) (entries[at] >> 32) & mask;
        if (((at - ideal) & mask) >= ((at - hole) & mask)) {
            entries[hole] = entries[at];
            hole = at;
        }
    }
    entries[hole] = 0;
}
