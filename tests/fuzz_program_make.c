/* fuzz_program_make.c: which steps a random program has. Loops and the like: fuzz_program_block.c.
 */
#include "fuzz_program_make.h"
#include "values.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 40000 };

static uint64_t state;

static uint64_t random_bits(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) ^ (state >> 11);
}
size_t make_below(size_t n) {
    return (size_t) (random_bits() % n);
}
bool make_chance(unsigned percent) {
    return make_below(100) < percent;
}
#define below  make_below
#define chance make_chance

/* ---- steps ---- */

static bool is_float(jit_dtype t) {
    return jitc_dtypes[t].cls == JITC_FLOAT;
}
static bool is_integer(jit_dtype t) {
    return (jitc_dtypes[t].cls & JITC_DOMAIN_INTEGER) != 0;
}

fuzz_step make_step(fuzz_kind kind, jit_dtype type, size_t size) {
    fuzz_step s = {.kind = kind, .type = type, .size = size, .inner = -1, .needed = true};
    for (int k = 0; k < INPUTS; ++k)
        s.in[k] = -1;
    return s;
}

int make_append(making *m, fuzz_step s) {
    program *p = m->program;
    for (int k = 0; k < INPUTS; ++k)
        if (s.in[k] >= 0 && p->step[s.in[k]].inner > s.inner)
            s.inner = p->step[s.in[k]].inner;
    if (!s.value)
        s.value = calloc(s.size + 1, sizeof *s.value);
    p->step[p->count] = s;
    return p->count++;
}

/* Append it, and compute it if it is outside of all blocks, with the second result if it has one.
 * In a block, what is computed from its variables has an element for each lane. */
static bool add(making *m, fuzz_step s, const fuzz_step *second) {
    for (int k = 0; k < INPUTS; ++k)
        if (s.in[k] >= 0 && m->program->step[s.in[k]].inner >= 0 &&
            s.size != m->program->block[m->open].lanes)
            return false;
    int i = make_append(m, s);
    if (second)
        make_append(m, *second);
    if (m->program->step[i].inner < 0)
        value_step(m->program, i, NULL);
    return true;
}

int make_find(making *m, int type, size_t size, wanted w) {
    const program *p = m->program;
    for (int tries = 0; tries < 80; ++tries) {
        int i = chance(60) && p->count > 10 ? p->count - 1 - (int) below(10)
                                            : (int) below((size_t) p->count);
        const fuzz_step *s = &p->step[i];
        bool fits = size == ANY_SIZE || s->size == size || (s->size == 1 && w != WHOLE);
        if (s->kind <= RESULT && !s->hidden && !s->array && fits &&
            (type < 0 || (int) s->type == type) && (s->inner < 0 || w != OUTSIDE))
            return i;
    }
    return -1;
}
static int outside(making *m, int type) {
    return make_find(m, type, ANY_SIZE, OUTSIDE);
}

/* ---- leaves ---- */

static uint64_t from_int(jit_dtype t, long long x) {
    return t == JIT_bool ? x & 1 : value_cast(JIT_i64, t, (uint64_t) x);
}

static void fill(fuzz_step *s, int how, size_t range) {
    values v = {0};
    uint64_t limit = jitc_bits_mask(s->type) >> (jitc_dtypes[s->type].cls == JITC_INT);
    if (how == 2) {
        v = values_edges(s->type);
        values_add_random(&v, s->type, 64);
    }
    range = range < s->size ? s->size : range;
    size_t first = below(range + 1), density = 1 + below(10);
    bool back = chance(30);
    for (size_t i = 0; i < s->size; ++i) {
        size_t at = (first + (back ? s->size - 1 - i : i)) % (range ? range : 1);
        if (how == 2)
            s->value[i] = v.bits[below(v.count)];
        else if (s->type == JIT_bool)
            s->value[i] = below(10) < density;
        else if (how == 1 && is_integer(s->type) && range && range - 1 <= limit)
            s->value[i] = at;
        else
            s->value[i] = from_int(s->type, (long long) below(17) - (chance(50) ? 8 : 0));
    }
    free(v.bits);
}

/* What producer_bits() gives: dlpack_producer.h. */
static bool has_foreign(jit_dtype t) {
    return is_integer(t);
}

static void add_leaf(making *m, jit_dtype type, size_t size) {
    fuzz_step s = make_step((fuzz_kind) below(FOREIGN + 1), type, size);
    if (s.kind == FOREIGN && !has_foreign(type))
        s.kind = MAPPED;
    if (s.kind == COUNTER)
        s.type = JIT_u32;
    s.value = calloc(size + 1, sizeof *s.value);
    s.number[0] = chance(50); /* MAPPED: at the page's start */
    fill(&s, (int) below(3), chance(50) ? size : m->other);
    for (size_t i = 0; i < size; ++i)
        if (s.kind == COUNTER)
            s.value[i] = i;
        else if (s.kind == LITERAL)
            s.value[i] = s.value[0];
        else if (s.kind == FOREIGN)
            s.value[i] = make_foreign(type, i);
    make_append(m, s);
}

int make_literal(making *m, jit_dtype type, uint64_t bits, size_t size) {
    fuzz_step s = make_step(LITERAL, type, size);
    s.value = calloc(size + 1, sizeof *s.value);
    for (size_t i = 0; i < size; ++i)
        s.value[i] = bits;
    return make_append(m, s);
}

/* ---- operations on elements ---- */

static bool has_nan(const fuzz_step *s) {
    for (size_t i = 0; is_float(s->type) && i < s->size; ++i)
        if (isnan(reference_double(s->type, s->value[i])))
            return true;
    return false;
}

/* The bits of a NaN are not specified: nothing may depend on them. */
static bool knows_bits(making *m, int i) {
    const fuzz_step *s = &m->program->step[i];
    return !is_float(s->type) || (s->inner < 0 && !has_nan(s));
}

static bool add_apply(making *m) {
    jitc_op op;
    jit_dtype t;
    do
        op = (jitc_op) below(JITC_OP_COUNT);
    while (jitc_ops[op].form < JITC_FORM_UNARY || jitc_ops[op].form > JITC_FORM_SELECT ||
           jitc_ops[op].props & JITC_INEXACT);
    do
        t = (jit_dtype) below(JITC_DTYPE_COUNT);
    while (!jitc_op_accepts(op, t));
    return make_apply(m, op, t);
}

bool make_apply(making *m, jitc_op op, jit_dtype t) {
    fuzz_step s = make_step(APPLY, jitc_op_type(op, t), 1);
    bool select = jitc_ops[op].form == JITC_FORM_SELECT;
    size_t size = ANY_SIZE;
    for (int k = 0; k < jitc_ops[op].arity; ++k) {
        s.in[k] = make_find(m, select && !k ? JIT_bool : (int) t, size, BROADCAST);
        if (s.in[k] < 0 || (op == JITC_OP_copysign && !knows_bits(m, s.in[k])))
            return false;
        if (m->program->step[s.in[k]].size != 1)
            size = m->program->step[s.in[k]].size;
    }
    s.op = op;
    s.size = value_lanes(m->program, s.in, 3);
    return add(m, s, NULL);
}

static bool add_cast(making *m, fuzz_kind kind) {
    int a = make_find(m, -1, ANY_SIZE, BROADCAST);
    if (a < 0)
        return false;
    jit_dtype from = m->program->step[a].type;
    fuzz_step s = make_step(kind, (jit_dtype) below(JITC_DTYPE_COUNT), m->program->step[a].size);
    s.in[0] = a;
    if (kind == BITCAST && (jitc_dtypes[from].bytes != jitc_dtypes[s.type].bytes ||
                            (from == JIT_bool) != (s.type == JIT_bool) || !knows_bits(m, a)))
        return false;
    return add(m, s, NULL);
}

/* An index and perhaps a mask for it; in block `m->open`: of its lanes. */
static bool find_lanes(making *m, int *in, size_t size) {
    for (int tries = 0; tries < 10; ++tries) {
        in[0] = make_find(m, -1, size, BROADCAST);
        if (in[0] < 0 || !is_integer(m->program->step[in[0]].type))
            continue;
        size_t n = size == ANY_SIZE ? m->program->step[in[0]].size : size;
        in[1] = chance(40) ? make_find(m, JIT_bool, n, BROADCAST) : -1;
        return true;
    }
    return false;
}

static bool add_gather(making *m) {
    int source = outside(m, -1);
    fuzz_step s = make_step(GATHER, source < 0 ? JIT_u32 : m->program->step[source].type, 0);
    s.in[0] = source;
    if (source < 0 || !find_lanes(m, s.in + 1, ANY_SIZE))
        return false;
    s.size = value_lanes(m->program, s.in + 1, 2);
    return add(m, s, NULL);
}

/* ---- scatters, outside of blocks ---- */

bool make_distinct(making *m, const int *index_mask, size_t lanes, size_t size) {
    const program *p = m->program;
    bool *seen = calloc(size + 1, sizeof *seen), distinct = true;
    for (size_t i = 0, at; i < lanes; ++i)
        if ((index_mask[1] < 0 || value_at(&p->step[index_mask[1]], i)) &&
            value_index(&p->step[index_mask[0]], i, size, &at)) {
            distinct = distinct && !seen[at];
            seen[at] = true;
        }
    free(seen);
    return distinct;
}

/* 2^k such that integers below it are floats of the type. */
static double exact_below(jit_dtype t) {
    return t == JIT_bf16 ? 256 : t == JIT_f16 ? 2048 : t == JIT_f32 ? 16777216 : 9007199254740992.0;
}

/* The sum of their magnitudes, if they are whole numbers and not -0; else infinity. */
static double weight(const fuzz_step *s) {
    double sum = 0;
    for (size_t i = 0; i < s->size; ++i) {
        double x = reference_double(s->type, s->value[i]);
        if (!isfinite(x) || x != trunc(x) || (x == 0 && signbit(x)))
            return INFINITY;
        sum += fabs(x);
    }
    return sum;
}

static bool may_combine(making *m, const fuzz_step *s) {
    const program *p = m->program;
    const fuzz_step *target = &p->step[s->in[0]], *value = &p->step[s->in[1]];
    jit_reduce_op r = (jit_reduce_op) s->number[0];
    if (!jitc_reduce_accepts(r, s->type))
        return false;
    if (!is_float(s->type) || r >= JIT_REDUCE_MIN)
        return true;
    double lanes = value->size == 1 ? (double) value_lanes(p, s->in + 1, 3) : 1;
    return r == JIT_REDUCE_ADD && weight(target) + weight(value) * lanes < exact_below(s->type);
}

static bool add_scatter(making *m, fuzz_kind kind) {
    if (m->open >= 0)
        return false;
    int target = outside(m, -1), *in;
    if (target < 0)
        return false;
    fuzz_step s = make_step(kind, m->program->step[target].type, m->program->step[target].size);
    in = s.in;
    in[0] = target;
    s.number[0] = (long long) below(JITC_REDUCE_COUNT);
    if (!find_lanes(m, in + 2, ANY_SIZE))
        return false;
    in[1] = make_find(m, (int) s.type, value_lanes(m->program, in + 2, 2), BROADCAST);
    if (in[1] < 0)
        return false;
    size_t lanes = value_lanes(m->program, in + 1, 3);
    if (kind == SCATTER ? !make_distinct(m, in + 2, lanes, s.size) : !may_combine(m, &s))
        return false;
    return add(m, s, NULL);
}

static bool add_inc(making *m) {
    int target = outside(m, -1);
    if (m->open >= 0 || target < 0)
        return false;
    fuzz_step s = make_step(INC, m->program->step[target].type, m->program->step[target].size);
    s.in[0] = target;
    if (!is_integer(s.type) || jitc_dtypes[s.type].bytes > 4 || !find_lanes(m, s.in + 1, ANY_SIZE))
        return false;
    fuzz_step pairs = make_step(SECOND, JIT_u64, value_lanes(m->program, s.in + 1, 2));
    return add(m, s, &pairs);
}

/* ---- operations on whole arrays ---- */

/* Powers of two whose products stay far from the limits of f32. */
static bool multiplies_exactly(const fuzz_step *a) {
    int sum = 0, e;
    for (size_t i = 0; i < a->size && sum < 100; ++i) {
        double x = reference_double(a->type, a->value[i]);
        if (!isfinite(x) || fabs(frexp(x, &e)) != 0.5)
            return false;
        sum += abs(e - 1);
    }
    return sum < 100;
}

static bool may_reduce(const fuzz_step *a, jit_reduce_op r) {
    if (!jitc_reduce_accepts(r, a->type))
        return false;
    if (!is_float(a->type) || r >= JIT_REDUCE_MIN)
        return true;
    return r == JIT_REDUCE_MUL ? multiplies_exactly(a)
                               : weight(a) < exact_below(a->type == JIT_f64 ? JIT_f64 : JIT_f32);
}

static bool add_reduce(making *m, fuzz_kind kind) {
    int i = outside(m, -1);
    jit_reduce_op r = (jit_reduce_op) below(JITC_REDUCE_COUNT);
    if (i < 0 || !may_reduce(&m->program->step[i], r))
        return false;
    const fuzz_step *a = &m->program->step[i];
    static const size_t lengths[] = {1, 2, 3, 7, 32, 33, 100, 1024, 5000};
    size_t block = lengths[below(sizeof lengths / sizeof *lengths)];
    fuzz_step s = make_step(kind, a->type, a->size);
    s.in[0] = i;
    s.number[0] = r;
    s.number[1] = chance(50);
    s.number[2] = chance(50);
    if (kind == REDUCE)
        s.size = 1;
    if (kind == BLOCK_REDUCE) {
        s.number[1] = (long long) block;
        s.size = (a->size + block - 1) / block;
    }
    return add(m, s, NULL);
}

static bool add_compress(making *m, fuzz_kind kind) {
    int i = outside(m, JIT_bool);
    if (i < 0)
        return false;
    const fuzz_step *mask = &m->program->step[i];
    size_t count = 0;
    for (size_t k = 0; k < mask->size; ++k)
        count += (size_t) mask->value[k];
    fuzz_step s = make_step(kind, JIT_u32, kind == PADDED ? mask->size : count);
    fuzz_step second = make_step(SECOND, JIT_u32, 1);
    s.in[0] = i;
    return add(m, s, kind == PADDED ? &second : NULL);
}

static bool add_sort(making *m) {
    int i = outside(m, -1);
    if (i < 0 || !jitc_op_accepts(JITC_OP_sort, m->program->step[i].type) || !knows_bits(m, i))
        return false;
    fuzz_step s = make_step(SORT, m->program->step[i].type, m->program->step[i].size);
    fuzz_step index = make_step(SECOND, JIT_u32, s.size);
    s.in[0] = i;
    s.number[0] = chance(50);
    s.number[1] = chance(60);
    return add(m, s, s.number[1] ? &index : NULL);
}

static void choose_slice(fuzz_step *s, size_t n) {
    static const long long steps[] = {1, 1, 2, 3, -1, -2, 33};
    long long by = s->number[2] = steps[below(7)];
    s->size = 0;
    if (n == 0)
        return;
    size_t start = below(n);
    size_t most = by > 0 ? (n - 1 - start) / (size_t) by + 1 : start / (size_t) -by + 1;
    s->number[0] = (long long) start;
    s->size = chance(50) ? most : below(most + 1);
}

static bool add_shape(making *m) {
    int i = outside(m, -1);
    if (i < 0)
        return false;
    size_t n = m->program->step[i].size, count = below(5);
    fuzz_step s =
        make_step((fuzz_kind) (TILE + below(TRANSPOSE - TILE + 1)), m->program->step[i].type, n);
    s.in[0] = i;
    s.number[0] = s.kind == ROLL ? (long long) below(2 * n + 3) - (long long) n : (long long) count;
    if (s.kind == TILE || s.kind == REPEAT)
        s.size = n * count;
    if (s.kind == SLICE)
        choose_slice(&s, n);
    if (s.kind == TRANSPOSE) {
        size_t rows = 1 + below(n < 40 ? n + 1 : 40);
        while (rows > 1 && n % rows)
            --rows;
        s.number[0] = (long long) rows;
        s.number[1] = (long long) (n / rows);
    }
    s.number[1] = s.kind == SLICE ? (long long) s.size : s.number[1];
    return s.size <= LARGEST && add(m, s, NULL);
}

static bool add_concat(making *m) {
    fuzz_step s = make_step(CONCAT, JIT_u32, 0);
    int n = chance(85) ? 1 + (int) below(4) : 5 + (int) below(INPUTS - 4);
    for (int k = 0; k < n; ++k) {
        s.in[k] = outside(m, k ? (int) s.type : -1);
        if (s.in[k] < 0)
            return false;
        s.type = m->program->step[s.in[k]].type;
        s.size += m->program->step[s.in[k]].size;
    }
    s.number[0] = n;
    return s.size <= LARGEST && add(m, s, NULL);
}

static bool add_of_all(making *m) {
    fuzz_kind kind = (fuzz_kind) (ANY + below(ARGMAX - ANY + 1));
    int i = outside(m, kind <= COUNT ? JIT_bool : -1);
    if (i < 0 || (kind >= ARGMIN && m->program->step[i].size == 0))
        return false;
    fuzz_step s = make_step(kind, kind <= ALL ? JIT_bool : JIT_u32, 1);
    s.in[0] = i;
    return add(m, s, NULL);
}

static bool make_whole(making *m) {
    switch (below(16)) {
        case 0:
        case 1: return add_reduce(m, REDUCE);
        case 2: return add_reduce(m, BLOCK_REDUCE);
        case 3: return add_reduce(m, PREFIX_REDUCE);
        case 4: return add_compress(m, chance(50) ? COMPRESS : PADDED);
        case 5: return add_sort(m);
        case 6:
        case 7:
        case 8: return add_shape(m);
        case 9: return add_concat(m);
        case 10: return add_of_all(m);
        case 11:
        case 12: return add_scatter(m, SCATTER);
        case 13:
        case 14: return add_scatter(m, SCATTER_REDUCE);
        default: return add_inc(m);
    }
}

bool make_elements(making *m) {
    unsigned kind = (unsigned) below(20);
    return kind < 12   ? add_apply(m)
           : kind < 15 ? add_cast(m, kind < 14 ? CAST : BITCAST)
                       : add_gather(m);
}

void make_some(making *m, int steps) {
    int end = m->program->count + steps;
    for (int tries = 0; tries < 40 * steps && m->program->count < end; ++tries) {
        if (m->program->count > LAST_STEP)
            return;
        if (m->open >= 0 ? chance(90) : chance(55))
            make_elements(m);
        else
            make_whole(m);
    }
}

/* ---- the program ---- */

static size_t any_size(void) {
    static const size_t sizes[] = {0, 1, 2, 31, 32, 33, 100, 100, 33, 1000, 1000};
    return chance(3) ? 20000 : sizes[below(sizeof sizes / sizeof *sizes)];
}

void program_make(program *p, uint64_t seed) {
    *p = (program) {.seed = seed};
    state = seed * 0x9E3779B97F4A7C15u + 1;
    making m = {.program = p, .open = -1};
    m.size = any_size();
    m.other = chance(40) ? m.size : any_size();
    int leaves = 6 + (int) below(10), steps = leaves + 4 + (int) below(30);
    while (p->count < leaves)
        add_leaf(&m, (jit_dtype) (chance(30) ? JIT_u32 : below(JITC_DTYPE_COUNT)),
                 chance(15)   ? 1
                 : chance(70) ? m.size
                              : m.other);
    for (int tries = 0; tries < 100 && p->count < steps; ++tries)
        if (chance(20))
            make_block(&m);
        else
            make_some(&m, 1 + (int) below(4));
}
