/* test_trace.c: what is recorded in the graph of variables: properties, equal values once.  Layer:
 * tests. */
#include "trace_graph.h"

TestSuite(trace, .init = start, .fini = stop);

/* ---- properties ---- */

Test(trace, variables_know_what_they_are) {
    jit_var a = jitc_trace_literal(g, JIT_CUDA, 3, JIT_i16, 0xffff1234, 7);
    jitc_var_info i = info(a);
    cr_assert(i.literal && !i.evaluated);
    cr_assert_eq(i.bits, 0x1234);
    cr_assert_eq(i.size, 7);
    cr_assert_eq(i.type, JIT_i16);
    cr_assert_eq(i.backend, JIT_CUDA);
    cr_assert_eq(i.device, 3);
    cr_assert_eq(i.external, 1);
    jit_var d = data(JIT_f64, 5);
    cr_assert(info(d).evaluated && !info(d).literal);
    jit_var n = unary(JITC_OP_sqrt, d);
    i = info(n);
    cr_assert(i.type == JIT_f64 && i.size == 5 && !i.literal && !i.evaluated);
    cr_assert_eq(info(d).internal, 1);
    cr_assert_eq(info(binary(JITC_OP_lt, d, n)).type, JIT_bool);
    jit_var t = literal(JIT_bool, 200, 1);
    cr_assert_eq(info(t).bits, 1);
}

Test(trace, sizes_reach_the_limit_and_not_beyond) {
    static const uint64_t sizes[] = {0, 1, 2, 0xffffffff, 0x100000000, 0x100000001, JITC_MAX_SIZE};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        jit_var c = jitc_trace_counter(g, JIT_LLVM, 0, sizes[i]);
        cr_assert_eq(info(c).size, sizes[i]);
        cr_assert_eq(info(c).type, sizes[i] > 0x100000000 ? JIT_u64 : JIT_u32);
        jit_var one = literal(info(c).type, 5, 1);
        jit_var sum = binary(JITC_OP_add, one, c);
        cr_assert_eq(info(sum).size, sizes[i]);
        cr_assert_eq(info(literal(JIT_i8, 1, sizes[i])).size, sizes[i]);
        cr_assert_eq(info(data(JIT_i8, sizes[i])).size, sizes[i]);
    }
    FAILS(jitc_trace_counter(g, JIT_LLVM, 0, JITC_MAX_SIZE + 1), JIT_INVALID_ARGUMENT,
          "new variable: 1099511627777 elements; at most 1099511627776 are possible");
    FAILS(data(JIT_f32, UINT64_MAX), JIT_INVALID_ARGUMENT,
          "new variable: 18446744073709551615 elements; at most 1099511627776 are possible");
    FAILS(literal((jit_dtype) 13, 0, 1), JIT_INVALID_ARGUMENT,
          "new variable: 13 is no element type");
    FAILS(jitc_trace_counter(g, (jit_backend) 3, 0, 1), JIT_INVALID_ARGUMENT,
          "new variable: 3 is no backend");
    FAILS(jitc_trace_counter(g, JIT_LLVM, 32, 1), JIT_INVALID_ARGUMENT,
          "new variable: device 32; there can be 32");
}

/* ---- value numbering ---- */

Test(trace, equal_operations_are_one_variable) {
    jit_var x = data(JIT_f32, 8), y = data(JIT_f32, 8), z = data(JIT_f32, 1);
    jit_var a = binary(JITC_OP_add, x, y);
    cr_assert_eq(binary(JITC_OP_add, x, y), a);
    cr_assert_eq(binary(JITC_OP_add, y, x), a);
    cr_assert_eq(node(a)->a, x & JITC_INDEX_MASK); /* as it was traced first */
    cr_assert_neq(binary(JITC_OP_sub, x, y), binary(JITC_OP_sub, y, x));
    cr_assert_neq(binary(JITC_OP_mul, x, y), a);
    jit_var f = jitc_trace_ternary(g, JITC_OP_fma, x, y, z);
    cr_assert_eq(jitc_trace_ternary(g, JITC_OP_fma, x, y, z), f);
    cr_assert_neq(jitc_trace_ternary(g, JITC_OP_fma, x, y, y), f);
    cr_assert_neq(jitc_trace_cast(g, JITC_OP_cast, x, JIT_i32),
                  jitc_trace_cast(g, JITC_OP_cast, x, JIT_u32));
    cr_assert_neq(jitc_trace_cast(g, JITC_OP_cast, x, JIT_i32),
                  jitc_trace_cast(g, JITC_OP_bitcast, x, JIT_i32));
    cr_assert_eq(literal(JIT_f32, 77, 1), literal(JIT_f32, 77, 1));
    cr_assert_neq(literal(JIT_f32, 77, 1), literal(JIT_f32, 77, 2));
    cr_assert_neq(literal(JIT_f32, 77, 1), literal(JIT_i32, 77, 1));
    cr_assert_neq(literal(JIT_f32, 77, 1), literal(JIT_f32, 78, 1));
    cr_assert_eq(jitc_trace_counter(g, JIT_LLVM, 0, 9), jitc_trace_counter(g, JIT_LLVM, 0, 9));
    cr_assert_neq(jitc_trace_counter(g, JIT_LLVM, 0, 9), jitc_trace_counter(g, JIT_LLVM, 1, 9));
    cr_assert_neq(data(JIT_f32, 8), data(JIT_f32, 8));
    jit_var i = data(JIT_u32, 8), m = data(JIT_bool, 8);
    cr_assert_eq(jitc_trace_gather(g, x, i, m), jitc_trace_gather(g, x, i, m));
    cr_assert_neq(jitc_trace_gather(g, x, i, m), jitc_trace_gather(g, x, i, 0));
    cr_assert_eq(jitc_trace_scatter(g, x, y, i, m), jitc_trace_scatter(g, x, y, i, m));
    cr_assert_neq(jitc_trace_scatter(g, x, y, i, m), jitc_trace_scatter(g, y, y, i, m));
    cr_assert_neq(jitc_trace_scatter(g, x, y, i, m), jitc_trace_scatter(g, x, x, i, m));
}

/* Operands with many users, from both sides, and pairs of them; released in three orders. */
Test(trace, hubs_keep_values_unique) {
    enum { N = 150 };
    static jit_var v[2 * N], r[2 * N][N];
    for (int order = 0; order < 3; ++order) {
        for (int i = 0; i < 2 * N; ++i)
            v[i] = data(JIT_f32, 8);
        for (int i = 0; i < 2 * N; ++i)
            for (int k = 0; k < N; ++k)
                r[i][k] = binary(JITC_OP_sub, v[i], v[2 * N - 1 - k]);
        for (int i = 0; i < 2 * N; ++i)
            for (int k = 0; k < N; ++k) {
                if (i == 2 * N - 1 - k)
                    continue;
                jit_var again = binary(JITC_OP_sub, v[i], v[2 * N - 1 - k]);
                cr_assert_eq(again, r[i][k]);
                unref(again);
            }
        for (int n = 0; n < 2 * N * N; ++n) {
            int at = order == 0 ? n : order == 1 ? 2 * N * N - 1 - n : n * 7919 % (2 * N * N);
            unref(r[at / N][at % N]);
        }
        for (int i = 0; i < 2 * N; ++i)
            unref(v[i]);
        cr_assert_eq(alive(), 0);
    }
    cr_assert_eq(g->p->table.count, 0);
}

/* Against a model: each variable has a structural hash; equal hash if and only if equal handle. */
enum { FUZZ_MAX = 20000 };
typedef struct fuzz {
    jit_var v[FUZZ_MAX];
    uint64_t hash[FUZZ_MAX];
    uint32_t count;
} fuzz;

static uint64_t scramble(uint64_t a, uint64_t b) {
    uint64_t h = (a ^ b >> 31) * 0x9E3779B97F4A7C15 + b * 0xD6E8FEB86659FD93;
    return (h ^ h >> 29) * 0xBF58476D1CE4E5B9;
}

static void fuzz_add(fuzz *f, jit_var v, uint64_t hash, int step) {
    cr_assert(v, "%s", jit_error());
    uint32_t n = f->count;
    for (uint32_t q = 0; q < (step % 64 ? 2 : n) && n; ++q) {
        uint32_t o = step % 64 ? (uint32_t) (random_bits() % n) : q;
        cr_assert_eq(f->hash[o] == hash, f->v[o] == v, "step %d", step);
    }
    f->v[n] = v;
    f->hash[n] = hash;
    f->count++;
}

static void fuzz_leaf(fuzz *f, int step) {
    if (random_bits() % 4 == 0) {
        fuzz_add(f, data(JIT_f32, 100), scramble((uint64_t) step, 99), step);
        return;
    }
    uint32_t bits = 0x3f912345 + (uint32_t) (random_bits() % 50) * 77777;
    fuzz_add(f, literal(JIT_f32, bits, 1), scramble(bits, 1), step);
}

static uint64_t fold_hash(jitc_op op, const jit_var *v, uint32_t count, uint64_t otherwise) {
    uint64_t in[3] = {0}, bits;
    for (uint32_t i = 0; i < count; ++i) {
        jitc_var_info o = info(v[i]);
        if (!o.literal)
            return otherwise;
        in[i] = o.bits;
    }
    cr_assert(jitc_fold(op, JIT_f32, JIT_f32, in, &bits));
    return scramble(bits, 1);
}

static void fuzz_operation(fuzz *f, int step) {
    static const jitc_op ops[] = {JITC_OP_add, JITC_OP_mul,  JITC_OP_sub,
                                  JITC_OP_fma, JITC_OP_sqrt, JITC_OP_exp};
    jitc_op op = ops[random_bits() % 6];
    uint32_t count = jitc_ops[op].arity;
    uint64_t h[3] = {0};
    jit_var v[3] = {0};
    for (uint32_t i = 0; i < count; ++i) {
        uint32_t few = f->count < 12 ? f->count : 12;
        uint32_t at = (uint32_t) (random_bits() % (random_bits() % 8 ? f->count : few));
        v[i] = f->v[at];
        h[i] = f->hash[at];
    }
    if (op == JITC_OP_sub && v[0] == v[1])
        op = JITC_OP_add; /* 0 would be simplified later on */
    if (jitc_ops[op].props & JITC_COMMUTES && h[0] > h[1]) {
        uint64_t t = h[0];
        h[0] = h[1];
        h[1] = t;
    }
    uint64_t hash = scramble(scramble(h[0], h[1] + 5), h[2] + (uint64_t) op * 31);
    hash = fold_hash(op, v, count, hash);
    jit_var r = count == 1   ? unary(op, v[0])
                : count == 2 ? binary(op, v[0], v[1])
                             : jitc_trace_ternary(g, op, v[0], v[1], v[2]);
    fuzz_add(f, r, hash, step);
}

static void fuzz_release(fuzz *f, int step) {
    uint32_t at = (uint32_t) (random_bits() % f->count);
    jit_var v = f->v[at];
    unref(v);
    f->count--;
    f->v[at] = f->v[f->count];
    f->hash[at] = f->hash[f->count];
    if (step % 1024)
        return;
    bool other = false;
    for (uint32_t i = 0; i < f->count; ++i)
        other |= f->v[i] == v;
    cr_assert_eq(is_alive(v), other);
}

Test(trace, random_programs_agree_with_a_model) {
    static fuzz f;
    for (int step = 0; step < 1000000; ++step) {
        uint64_t grow = step >> 14 & 1 ? 62 : 38, r = random_bits() % 100;
        if (f.count < 8 || (r < 4 && f.count < FUZZ_MAX))
            fuzz_leaf(&f, step);
        else if (r < grow && f.count < FUZZ_MAX)
            fuzz_operation(&f, step);
        else
            fuzz_release(&f, step);
        if (step % 100000 == 0) {
            jitc_graph_lock(g);
            jitc_graph_stamps_locked(g);
            jitc_graph_unlock(g);
        }
    }
    while (f.count)
        unref(f.v[--f.count]);
    cr_assert_eq(alive(), 0);
    cr_assert_eq(g->p->table.count, 0);
    cr_assert_eq(jit_error_status(), JIT_OK, "%s", jit_error());
}

/* ---- memory operations ---- */

Test(trace, masks_are_joined_to_the_index) {
    jit_var s = data(JIT_f32, 100), i = data(JIT_i16, 10), m = data(JIT_bool, 10);
    jit_var v = jitc_trace_gather(g, s, i, m);
    cr_assert_eq(info(v).size, 10);
    cr_assert_eq(info(v).type, JIT_f32);
    const jitc_node *index = jitc_node_at(g, node(v)->b);
    cr_assert_eq(index->op, JITC_OP_masked);
    cr_assert_eq(jitc_node_type(index), JIT_i16);
    cr_assert_eq(index->a, i & JITC_INDEX_MASK);
    cr_assert_eq(index->b, m & JITC_INDEX_MASK);
    cr_assert_eq(index->external, 0);
    cr_assert_eq(jitc_trace_gather(g, s, i, m), v);
    jit_var t = literal(JIT_bool, 1, 10), f = literal(JIT_bool, 0, 1);
    cr_assert_eq(jitc_trace_gather(g, s, i, t), jitc_trace_gather(g, s, i, 0));
    jit_var nothing = jitc_trace_gather(g, s, i, f);
    cr_assert(info(nothing).literal && info(nothing).size == 10 && !info(nothing).bits);
    jit_var one = data(JIT_i16, 1);
    cr_assert_eq(info(jitc_trace_gather(g, s, one, t)).size, 10);
    cr_assert_eq(info(jitc_trace_gather(g, s, one, m)).size, 10);
    cr_assert_eq(info(jitc_trace_gather(g, data(JIT_f32, 0), i, 0)).size, 10);
}

Test(trace, gather_from_a_literal_is_folded_within_its_size) {
    jit_var s = literal(JIT_f32, 0x40400000, 100), x = data(JIT_i8, 10);
    jit_var v = jitc_trace_gather(g, s, literal(JIT_i8, 99, 5), 0);
    cr_assert(info(v).literal && info(v).bits == 0x40400000 && info(v).size == 5);
    cr_assert(!info(jitc_trace_gather(g, s, literal(JIT_i8, 100, 5), 0)).literal);
    cr_assert(!info(jitc_trace_gather(g, s, literal(JIT_i8, 0xff, 5), 0)).literal);
    cr_assert(!info(jitc_trace_gather(g, s, x, 0)).literal);
}

Test(trace, scatter_has_the_size_of_its_target) {
    jit_var s = data(JIT_f32, 100), x = data(JIT_f32, 1), i = data(JIT_u64, 10);
    jit_var m = data(JIT_bool, 1), f = literal(JIT_bool, 0, 10);
    jit_var v = jitc_trace_scatter(g, s, x, i, m);
    cr_assert_eq(info(v).size, 100);
    cr_assert_eq(node(v)->b, x & JITC_INDEX_MASK);
    cr_assert_eq(jitc_node_at(g, *jitc_node_c(g, v & JITC_INDEX_MASK))->op, JITC_OP_masked);
    cr_assert_eq(jitc_trace_scatter(g, s, x, i, f), s);
    cr_assert_eq(jitc_trace_scatter(g, s, x, data(JIT_u64, 0), 0), s);
    unref(v), unref(s), unref(s), unref(s);
}
