/* test_dlpack_flags.c: in place or a copy, and who may write: the flags say what is so. Names in
 * comments are those of public reports of what went wrong elsewhere. */
#include "dlpack_world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(dlpack_flags, .init = support_init, .fini = support_shutdown, .timeout = 120);

enum { SIZE = 100, RO = DLPACK_FLAG_BITMASK_READ_ONLY, COPIED = DLPACK_FLAG_BITMASK_IS_COPIED };

static void *address(jit_var v) {
    void *p;
    ASSERT_OK(jit_data(v, &p));
    return p;
}

static bool in_place(const tensor *t, jit_var v) {
    return dlpack_tensor(t)->data == address(v);
}

static void expect_flags(const tensor *t, uint64_t flags, const char *what) {
    cr_assert_eq(dlpack_flags(t), flags, "%s: %llu", what, (unsigned long long) dlpack_flags(t));
}

/* Flags of an export with the defaults, which is in place. */
static void expect_in_place(jit_var v, uint64_t flags, const char *what) {
    tensor t = dlpack_export(v, false, NULL);
    expect_flags(&t, flags, what);
    cr_assert(in_place(&t, v), "%s", what);
    dlpack_delete(&t);
}

/* ---- Every combination ---- */

typedef struct combination {
    bool legacy, other, user, option, mapped;
    int copy;
} combination;

static const char *name(const combination *c) {
    static char text[128];
    snprintf(text, sizeof text, "%s struct, copy %d%s%s%s%s", c->legacy ? "old" : "new", c->copy,
             c->other ? ", other reference" : "", c->user ? ", user" : "",
             c->option ? ", option read_only" : "", c->mapped ? ", mapped" : "");
    return text;
}

static jit_var make(const combination *c) {
    static uint32_t memory[SIZE];
    for (uint32_t i = 0; i < SIZE; ++i)
        memory[i] = i;
    return c->mapped ? jit_map(B, JIT_u32, memory, SIZE, NULL, NULL) : dlpack_ramp(SIZE, 0);
}

/* What the header says. */
static jit_status predict(const combination *c, uint64_t *flags) {
    bool read_only = c->other || c->user || c->option || c->mapped;
    *flags = read_only ? RO : 0;
    if (c->copy == JIT_COPY_ALWAYS)
        *flags = COPIED | (c->option ? RO : 0);
    else if (c->legacy && read_only && (c->mapped || c->copy == JIT_COPY_NEVER))
        return JIT_READ_ONLY;
    else if (c->legacy && read_only)
        *flags = COPIED;
    return JIT_OK;
}

static void check_combination(combination c) {
    uint64_t flags;
    uint32_t written = 777;
    jit_var v = make(&c), other = c.other ? jit_ref(v) : 0, one = jit_u32(B, 1);
    jit_var user = c.user ? jit_add(v, one) : 0;
    const jit_export_options *o = EXPORT_WITH(.copy = c.copy, .read_only = c.option);
    jit_status status = predict(&c, &flags);
    if (status != JIT_OK) {
        dlpack_refuse(v, c.legacy, o, status, "may not be written");
    } else {
        tensor t = dlpack_export(v, c.legacy, o);
        if (!c.legacy)
            expect_flags(&t, flags, name(&c));
        bool copied = flags & COPIED;
        cr_assert_eq(in_place(&t, v), !copied, "%s", name(&c));
        cr_assert_eq((uintptr_t) dlpack_tensor(&t)->data % (c.mapped && !copied ? 4 : 256), 0);
        if (!(flags & RO))
            dlpack_write(&t, written);
        uint64_t *bits = dlpack_read(&t, SIZE);
        cr_assert_eq(bits[0], flags & RO ? 0 : written);
        cr_assert_eq(bits[SIZE - 1], SIZE - 1);
        free(bits);
        dlpack_expect(v, SIZE, 0, copied || flags & RO ? NULL : &written);
        dlpack_delete(&t);
    }
    if (user)
        dlpack_expect(user, SIZE, 1, NULL); /* nobody who looks has changed it */
    jit_unref(user), jit_unref(one), jit_unref(other), jit_unref(v);
}

/* numpy#28599, nanobind#1122, cuda-python#1168: all imports read-only, or all writable.
 * numpy#20742, jax#40789: what the old struct cannot say is an error, or a copy. */
Test(dlpack_flags, are_true_in_every_combination) {
    for (unsigned bits = 0; bits < 32; ++bits)
        for (int copy = JIT_COPY_NEVER; copy <= JIT_COPY_ALWAYS; ++copy) {
            combination c = {bits & 1,      bits >> 1 & 1, bits >> 2 & 1,
                             bits >> 3 & 1, bits >> 4 & 1, copy};
            if (!c.mapped || support_maps_host_memory())
                check_combination(c);
        }
}

Test(dlpack_flags, references_and_users_that_are_gone_do_not_count) {
    jit_var v = dlpack_ramp(SIZE, 0), one = jit_u32(B, 1), user = jit_add(v, one);
    expect_in_place(v, RO, "an expression that is not evaluated");
    ASSERT_OK(jit_var_eval(user));
    expect_in_place(v, 0, "one that is evaluated");
    jit_unref(user);
    user = jit_mul(v, one);
    jit_var second = jit_add(user, v);
    jit_unref(user);
    expect_in_place(v, RO, "one that another one uses");
    jit_unref(second);
    expect_in_place(v, 0, "none any more");
    jit_scope_push();
    for (int i = 0; i < 30; ++i) /* of the dead a few are buried at a time */
        second = jit_add(i ? second : v, one);
    ASSERT_OK(jit_scope_pop(0, NULL));
    expect_in_place(v, 0, "a long one that is gone");
    jit_ref(v);
    expect_in_place(v, RO, "another reference");
    jit_unref(v);
    expect_in_place(v, 0, "the only reference");
    jit_scope_push();
    jit_var w = jit_add(v, one);
    ASSERT_OK(jit_schedule(w));
    expect_in_place(w, 0, "the scope's reference is the only one, and the list is done with");
    ASSERT_OK(jit_scope_pop(0, NULL));
    jit_unref(one), jit_unref(v);
}

static jit_var plus(jit_var v, uint32_t k) {
    jit_var literal = jit_u32(B, k), sum = jit_add(v, literal);
    jit_unref(literal);
    ASSERT_VAR(sum);
    return sum;
}

/* ---- Literals and counters ---- */

static void check_literal(jit_dtype type, uint64_t bits, bool legacy) {
    jit_stats before = dlpack_stats();
    jit_var v = support_literal(type, bits, SIZE);
    tensor t = dlpack_export(v, legacy, NULL), second = dlpack_export(v, legacy, NULL);
    if (!legacy)
        expect_flags(&t, COPIED, jit_dtype_name(type));
    cr_assert_neq(dlpack_tensor(&t)->data, dlpack_tensor(&second)->data);
    uint64_t *got = dlpack_read(&t, SIZE);
    for (size_t i = 0; i < SIZE; ++i)
        cr_assert_eq(got[i], bits, "%s", jit_dtype_name(type));
    free(got);
    dlpack_write(&t, 0);
    got = support_read(v, SIZE);
    cr_assert_eq(got[0], bits, "the consumer's memory is its own");
    free(got);
    dlpack_delete(&t);
    got = dlpack_read(&second, SIZE);
    cr_assert_eq(got[0], bits);
    free(got);
    dlpack_delete(&second);
    ASSERT_OK(jit_sync_thread());
    cr_assert_eq(dlpack_stats().bytes_live, before.bytes_live, "it is a literal still");
    jit_unref(v);
    cr_assert_eq(dlpack_stats().variables, before.variables);
}

Test(dlpack_flags, a_literal_is_given_as_a_copy_and_stays_one) {
    for (int t = 0; t < JITC_DTYPE_COUNT; ++t)
        for (int legacy = 0; legacy < 2; ++legacy)
            check_literal((jit_dtype) t, t == JIT_bool ? 1 : 0x40u, legacy);
}

/* Its value is a part of what is traced, whatever a consumer does with the copy. */
Test(dlpack_flags, later_traces_use_the_literal) {
    jit_var v = dlpack_ramp(SIZE, 0), one = jit_u32(B, 1);
    jit_var literal = jit_literal(B, JIT_u32, &(uint32_t) {5}, SIZE), before = jit_add(v, literal);
    tensor t = dlpack_export(literal, false, NULL), scalar = dlpack_export(one, false, NULL);
    dlpack_write(&t, 1000);
    dlpack_write(&scalar, 1000);
    jit_var again = jit_literal(B, JIT_u32, &(uint32_t) {5}, SIZE);
    cr_assert_eq(again, literal, "it is found by its value");
    jit_var after = jit_add(v, literal), sum = jit_add(v, one);
    cr_assert_eq(after, before);
    dlpack_expect(after, SIZE, 5, NULL);
    dlpack_expect(sum, SIZE, 1, NULL);
    dlpack_delete(&t);
    dlpack_delete(&scalar);
    jit_unref(v), jit_unref(one), jit_unref(literal), jit_unref(again);
    jit_unref(before), jit_unref(after), jit_unref(sum);
}

Test(dlpack_flags, a_counter_is_given_as_a_copy_and_stays_one) {
    jit_stats before = dlpack_stats();
    jit_var v = jit_counter(B, SIZE), user = plus(v, 3);
    ASSERT_OK(jit_schedule(v));
    tensor t = dlpack_export(v, true, NULL);
    uint64_t *got = dlpack_read(&t, SIZE);
    for (size_t i = 0; i < SIZE; ++i)
        cr_assert_eq(got[i], i);
    free(got);
    dlpack_write(&t, 50);
    dlpack_expect(v, SIZE, 0, NULL);
    dlpack_expect(user, SIZE, 3, NULL);
    dlpack_delete(&t);
    jit_unref(user);
    ASSERT_OK(jit_sync_thread());
    cr_assert_eq(dlpack_stats().bytes_live, before.bytes_live, "it is a counter still");
    jit_unref(v);
}

Test(dlpack_flags, what_has_no_memory_cannot_be_given_without_a_copy) {
    jit_var kinds[] = {jit_u32(B, 1), jit_counter(B, SIZE)};
    for (int i = 0; i < 4; ++i)
        dlpack_refuse(kinds[i / 2], i % 2, EXPORT_WITH(.copy = JIT_COPY_NEVER), JIT_UNSUPPORTED,
                      "jit_data()");
    cr_assert_neq(address(kinds[0]), NULL);
    expect_in_place(kinds[0], 0, "put into memory");
    jit_unref(kinds[0]), jit_unref(kinds[1]);
}

Test(dlpack_flags, an_expression_is_evaluated_first) {
    jit_var v = dlpack_ramp(SIZE, 0), w = plus(v, 7);
    tensor t = dlpack_export(w, false, EXPORT_WITH(.copy = JIT_COPY_NEVER));
    expect_flags(&t, 0, "an expression");
    uint64_t *got = dlpack_read(&t, SIZE);
    for (size_t i = 0; i < SIZE; ++i)
        cr_assert_eq(got[i], i + 7);
    free(got);
    cr_assert(in_place(&t, w));
    dlpack_delete(&t);
    jit_unref(v), jit_unref(w);
}

/* ---- Writes ---- */

Test(dlpack_flags, what_is_evaluated_later_sees_what_a_consumer_wrote) {
    uint32_t one = 500, two = 501;
    jit_var v = dlpack_ramp(SIZE, 0), before = plus(v, 1);
    ASSERT_OK(jit_var_eval(before));
    tensor t = dlpack_export(v, false, NULL);
    expect_flags(&t, 0, "writable");
    jit_var between = plus(v, 1); /* traced, not evaluated */
    dlpack_write(&t, 500);
    if (B == JIT_CUDA)
        ASSERT_OK(jit_cuda_wait_stream((uintptr_t) JIT_STREAM_LEGACY));
    jit_var after = plus(v, 1);
    dlpack_expect(before, SIZE, 1, NULL);
    dlpack_expect(v, SIZE, 0, &one);
    dlpack_expect(between, SIZE, 1, &two);
    dlpack_expect(after, SIZE, 1, &two);
    dlpack_delete(&t);
    dlpack_expect(v, SIZE, 0, &one);
    jit_unref(v), jit_unref(before), jit_unref(between), jit_unref(after);
}

/* v with element 0 replaced; takes v. */
static jit_var scatter_first(jit_var v, uint32_t value) {
    jit_var index = jit_u32(B, 0), new = jit_u32(B, value), w = jit_scatter(v, new, index, 0);
    jit_unref(index), jit_unref(new), jit_unref(v);
    ASSERT_OK(jit_var_eval(w));
    return w;
}

Test(dlpack_flags, a_scatter_writes_no_memory_that_a_consumer_holds) {
    uint32_t value = 9;
    for (int legacy = 0; legacy < 2; ++legacy) {
        jit_var v = dlpack_ramp(SIZE, 0);
        tensor t = dlpack_export(v, legacy, NULL);
        void *held = dlpack_tensor(&t)->data;
        v = scatter_first(v, value);
        cr_assert_neq(address(v), held);
        uint64_t *got = dlpack_read(&t, SIZE);
        cr_assert_eq(got[0], 0);
        free(got);
        dlpack_delete(&t);
        dlpack_expect(v, SIZE, 0, &value);
        jit_unref(v);
    }
}

Test(dlpack_flags, a_scatter_is_in_place_again_after_the_deleter) {
    uint32_t value = 9;
    jit_var v = dlpack_ramp(SIZE, 0);
    void *memory = address(v);
    tensor t = dlpack_export(v, false, NULL);
    dlpack_delete(&t);
    v = scatter_first(v, value);
    cr_assert_eq(address(v), memory);
    dlpack_expect(v, SIZE, 0, &value);
    jit_unref(v);
}

/* ---- To the CPU ---- */

static void check_on_cpu(jit_var v, uint32_t first, bool legacy, const jit_export_options *o) {
    tensor t = dlpack_export(v, legacy, o);
    const DLTensor *d = dlpack_tensor(&t);
    cr_assert_eq(d->device.device_type, kDLCPU);
    cr_assert_eq(d->device.device_id, 0);
    cr_assert_eq((uintptr_t) d->data % 256, 0);
    for (uint32_t i = 0; i < SIZE; ++i)
        cr_assert_eq(((const uint32_t *) d->data)[i], first + i);
    if (B == JIT_CUDA && !legacy)
        expect_flags(&t, COPIED | (o->read_only ? RO : 0), "to the CPU");
    dlpack_delete(&t);
}

Test(dlpack_flags, an_array_of_a_gpu_is_copied_for_the_cpu) {
    jit_var v = dlpack_ramp(SIZE, 3), w = plus(v, 4), counter = jit_counter(B, SIZE);
    const jit_export_options *o = EXPORT_WITH(.device_type = kDLCPU);
    for (int legacy = 0; legacy < 2; ++legacy) {
        check_on_cpu(v, 3, legacy, o);
        check_on_cpu(w, 7, legacy, o);
        check_on_cpu(counter, 0, legacy, o);
        check_on_cpu(v, 3, legacy, EXPORT_ON(JIT_STREAM_NONE, .device_type = kDLCPU));
        check_on_cpu(v, 3, legacy, EXPORT_WITH(.device_type = kDLCPU, .read_only = true));
        if (B == JIT_CUDA) {
            dlpack_refuse(v, legacy, EXPORT_WITH(.device_type = kDLCPU, .copy = JIT_COPY_NEVER),
                          JIT_UNSUPPORTED, "forbids");
            dlpack_refuse(v, legacy, EXPORT_ON(1, .device_type = kDLCPU), JIT_INVALID_ARGUMENT,
                          "the CPU has none");
        }
    }
    jit_var none = dlpack_ramp(0, 0);
    tensor t = dlpack_export(none, false, o);
    cr_assert_null(dlpack_tensor(&t)->data);
    dlpack_delete(&t);
    jit_unref(v), jit_unref(w), jit_unref(counter), jit_unref(none);
}
