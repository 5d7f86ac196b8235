/* Value numbering: one node for equal operations on equal operands.
 *
 *   a node is in the list of the first of its operands (larger index first) that is no hub,
 *   or in the table if all are; leaves have no operands and are in the table
 *
 * Operands mostly have one or two users, so this needs no hash table in almost all code. An operand
 * becomes a hub when a look-up passes JITC_HUB_USERS entries of its list. It stays one until it
 * dies. */
#include "trace/private.h"

/* ---- the table ---- */

static uint64_t mix(uint64_t a, uint64_t b) {
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide) a * b;
    return (uint64_t) product ^ (uint64_t) (product >> 64);
}

static uint32_t hash_key(const jitc_key *k) {
    uint32_t low = k->a < k->b ? k->a : k->b, high = k->a < k->b ? k->b : k->a;
    uint64_t operands = low | (uint64_t) high << 32;
    uint64_t cold = k->cold ? k->bits * 0xD6E8FEB86659FD93 ^ k->c * 0xA0761D6478BD642F : 0;
    uint64_t h = mix(operands ^ cold ^ 0x9E3779B97F4A7C15, k->head ^ 0xE7037ED1A0B428DB);
    return (uint32_t) (h ^ h >> 32);
}

/* Has a node of this kind anything to compare in its cold half? */
static bool is_cold(jitc_op op) {
    return jitc_ops[op].form == JITC_FORM_LEAF || jitc_ops[op].props & JITC_EFFECT ||
           jitc_op_has_c(op);
}

static jitc_key key_of(const jitc_graph *g, uint32_t i) {
    const jitc_node *n = jitc_node_at(g, i);
    jitc_key k = {.head = jitc_node_head(n), .a = n->a, .b = n->b, .cold = is_cold(n->op)};
    if (k.cold) {
        k.c = *jitc_node_c(g, i);
        k.bits = *jitc_node_value(g, i);
    }
    return k;
}

static uint32_t find_in_table(const jitc_graph *g, const jitc_key *k, uint32_t hash) {
    const jitc_table *t = &g->p->table;
    if (!t->entries)
        return 0;
    for (uint32_t at = hash & t->mask; t->entries[at]; at = (at + 1) & t->mask) {
        uint32_t i = (uint32_t) t->entries[at];
        if (t->entries[at] >> 32 == hash && jitc_key_equals(g, k, jitc_node_at(g, i), i))
            return i;
    }
    return 0;
}

/* If memory runs out the node is just not found again: jitc_number_remove() bears it. */
void jitc_number_tabled(jitc_graph *g, uint32_t i) {
    jitc_key k = key_of(g, i);
    jitc_node_at(g, i)->flags |= JITC_NODE_TABLED;
    jitc_table_insert(&g->p->table, hash_key(&k), i);
}

/* ---- hubs ---- */

static uint32_t first_home(const jitc_graph *g, const jitc_node *n) {
    uint32_t first = n->a > n->b ? n->a : n->b, second = n->a ^ n->b ^ first;
    if (!(jitc_node_at(g, first)->flags & JITC_NODE_HUB))
        return first;
    return jitc_node_at(g, second)->flags & JITC_NODE_HUB ? 0 : second;
}

static unsigned list_length(const jitc_graph *g, const jitc_node *home) {
    unsigned length = 0;
    for (uint32_t i = jitc_node_users(home); i && length < JITC_LIST_LIMIT; ++length)
        i = jitc_node_next(jitc_node_at(g, i));
    return length;
}

/* Node `home` becomes a hub; its users go in front of the list `rest`, which is returned. */
static uint32_t detach(jitc_graph *g, jitc_node *home, uint32_t rest) {
    uint32_t list = jitc_node_users(home);
    home->flags |= JITC_NODE_HUB;
    jitc_node_set_users(home, 0);
    if (!list)
        return rest;
    uint32_t last = list;
    while (jitc_node_next(jitc_node_at(g, last)))
        last = jitc_node_next(jitc_node_at(g, last));
    jitc_node_set_next(jitc_node_at(g, last), rest);
    return list;
}

/* A moved user may fill the list that it goes to; then that operand becomes a hub as well, because
 * long lists make removal slow. Its users join the list of those to be moved: no recursion. */
static void make_hub(jitc_graph *g, jitc_node *hub) {
    uint32_t moving = detach(g, hub, 0);
    while (moving) {
        uint32_t i = moving;
        jitc_node *n = jitc_node_at(g, i);
        uint32_t home = first_home(g, n);
        jitc_node *at = jitc_node_at(g, home);
        if (home && list_length(g, at) >= JITC_LIST_LIMIT) {
            moving = detach(g, at, moving);
            continue;
        }
        moving = jitc_node_next(n);
        n->flags &= (uint8_t) ~JITC_NODE_SIDE;
        if (!home) {
            jitc_node_set_next(n, 0);
            jitc_number_tabled(g, i);
            continue;
        }
        if (home != n->a)
            n->flags |= JITC_NODE_SIDE;
        jitc_node_set_next(n, jitc_node_users(at));
        jitc_node_set_users(at, i);
    }
}

/* Look in one operand's list. True: the answer is *found, or, if that is 0, a new node belongs
 * here. False: the operand is a hub, maybe since this call. */
static bool find_in_list(jitc_graph *g, const jitc_key *k, jitc_node *home, uint32_t *found) {
    *found = 0;
    if (home->flags & JITC_NODE_HUB)
        return false;
    unsigned passed = 0;
    for (uint32_t i = jitc_node_users(home); i; ++passed) {
        const jitc_node *user = jitc_node_at(g, i);
        if (jitc_key_equals(g, k, user, i)) {
            *found = i;
            return true;
        }
        i = jitc_node_next(user);
    }
    if (passed < JITC_HUB_USERS)
        return true;
    make_hub(g, home);
    return false;
}

/* Users that make_hub() moves are in the list of `second` only if they have it as an operand, so a
 * key that was not in the list of `first` may well be in that of `second` or in the table, never in
 * two. */
uint32_t jitc_number_find(jitc_graph *g, const jitc_key *k, uint32_t *home) {
    uint32_t first = k->a > k->b ? k->a : k->b, second = k->a ^ k->b ^ first, found;
    if (find_in_list(g, k, jitc_node_at(g, first), &found)) {
        *home = first;
        return found;
    }
    if (find_in_list(g, k, jitc_node_at(g, second), &found)) {
        *home = second;
        return found;
    }
    *home = 0;
    return find_in_table(g, k, hash_key(k));
}

void jitc_number_remove(jitc_graph *g, uint32_t i) {
    jitc_node *n = jitc_node_at(g, i);
    if (unlikely(n->flags & JITC_NODE_TABLED)) {
        jitc_key k = key_of(g, i);
        jitc_table_remove(&g->p->table, hash_key(&k), i);
        return;
    }
    jitc_node *home = jitc_node_at(g, n->flags & JITC_NODE_SIDE ? n->b : n->a);
    if (likely(jitc_node_users(home) == i)) {
        jitc_node_set_users(home, jitc_node_next(n));
        return;
    }
    jitc_node *before = jitc_node_at(g, jitc_node_users(home));
    while (jitc_node_next(before) != i)
        before = jitc_node_at(g, jitc_node_next(before));
    jitc_node_set_next(before, jitc_node_next(n));
}

uint32_t jitc_number_leaf(jitc_graph *g, const jitc_key *k) {
    uint32_t hash = hash_key(k), i = find_in_table(g, k, hash);
    if (i)
        return i;
    i = jitc_node_new(g, k, JITC_NODE_TABLED);
    if (i)
        jitc_table_insert(&g->p->table, hash, i);
    return i;
}
