/* sorted.c: see sorted.h.  Layer: tests. */
#include "sorted.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* Which comes first, by the meaning of the type; floats by totalOrder. */
static int compare(jit_dtype t, uint64_t a, uint64_t b) {
    unsigned width = jitc_dtypes[t].bits;
    uint64_t sign = (uint64_t) 1 << (width - 1);
    if (t == JIT_bool)
        return (a != 0) - (b != 0);
    if (jitc_dtypes[t].cls == JITC_UINT)
        return (a > b) - (a < b);
    if (jitc_dtypes[t].cls == JITC_INT) {
        int64_t x = (int64_t) (a << (64 - width)), y = (int64_t) (b << (64 - width));
        return (x > y) - (x < y);
    }
    if ((a ^ b) & sign)
        return a & sign ? -1 : 1;
    return (a & sign ? -1 : 1) * ((a > b) - (a < b));
}

static void check_pair(const sorted *s, uint64_t i) {
    uint64_t a = read_element(s->type, s->to, i - 1), b = read_element(s->type, s->to, i);
    int order = compare(s->type, a, b) * (s->descending ? -1 : 1);
    cr_assert_leq(order, 0, "%s: elements %llu and %llu of %llu", jitc_dtypes[s->type].name,
                  (unsigned long long) i - 1, (unsigned long long) i, (unsigned long long) s->n);
    if (order == 0 && s->numbers)
        cr_assert_lt(s->numbers[i - 1], s->numbers[i], "equal elements changed places");
}

static void check_numbers(const sorted *s) {
    uint8_t *seen = calloc(s->n, 1);
    for (uint64_t i = 0; i < s->n; ++i) {
        uint64_t k = s->numbers[i];
        cr_assert_lt(k, s->n);
        cr_assert_not(seen[k]++, "an element came twice");
        uint64_t a = read_element(s->type, s->from, k), b = read_element(s->type, s->to, i);
        cr_assert_eq(s->type == JIT_bool ? a != 0 : a, b);
    }
    free(seen);
}

/* The same elements have the same sum of a hash of each. */
static uint64_t mixed(const sorted *s, const void *array) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < s->n; ++i) {
        uint64_t bits = read_element(s->type, array, i);
        bits = s->type == JIT_bool ? bits != 0 : bits;
        bits += 0x9e3779b97f4a7c15u;
        bits = (bits ^ bits >> 31) * 0xbf58476d1ce4e5b9u;
        sum += bits ^ bits >> 29;
    }
    return sum;
}

void sorted_check(const sorted *s) {
    for (uint64_t i = 1; i < s->n; ++i)
        check_pair(s, i);
    if (s->numbers)
        check_numbers(s);
    else
        cr_assert_eq(mixed(s, s->from), mixed(s, s->to), "other elements");
}

static uint64_t random_bits(void) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

void sorted_fill(jit_dtype t, void *array, uint64_t n, input kind) {
    uint64_t edges[64];
    size_t count = edge_values(t, edges);
    for (uint64_t i = 0; i < n; ++i) {
        uint64_t bits = random_bits();
        switch (kind) {
            case EQUAL: bits = 0x5a5a5a5a5a5a5a5au; break;
            case ASCENDING: bits = i; break;
            case DESCENDING: bits = n - i; break;
            case EDGES: bits = edges[bits % count]; break;
            case FEW: bits = bits % 3 << (jitc_dtypes[t].bits - 2); break;
            default: break;
        }
        write_element(t, array, i, bits & jitc_bits_mask(t));
    }
}
