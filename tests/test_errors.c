/* test_errors.c: what bad input gets, for every public function: a status, and a text that names
 * the function. The operations of ops.h are listed by ops.def. */
#include "support.h"
#include <stdlib.h>
#include <string.h>

#define B support_backend()

TestSuite(errors, .init = support_init, .fini = support_shutdown);

/* The thread has this error, and its text has this in it; then it is cleared. */
static void expect(jit_status status, const char *text, int line) {
    cr_assert_eq(jit_error_status(), status, "line %d: %s, not %s: %s", line,
                 jit_status_name(jit_error_status()), jit_status_name(status), jit_error());
    cr_assert(strstr(jit_error(), text), "line %d: \"%s\" is not in \"%s\"", line, text,
              jit_error());
    jit_error_clear();
    cr_assert_str_empty(jit_error());
}
#define EXPECT(call, status, text)                                                                 \
    do {                                                                                           \
        (void) (call);                                                                             \
        expect(status, text, __LINE__);                                                            \
    } while (0)
/* The call itself gives the status too. */
#define EXPECT_STATUS(call, status, text)                                                          \
    do {                                                                                           \
        jit_status got_ = (call);                                                                  \
        cr_assert_eq(got_, status, "line %d: %s", __LINE__, jit_status_name(got_));                \
        expect(status, text, __LINE__);                                                            \
    } while (0)

/* One function of each shape that ops.h has. */
typedef struct operation {
    const char *name;
    jitc_op op;
    unsigned arity;
    jit_var (*unary)(jit_var);
    jit_var (*binary)(jit_var, jit_var);
    jit_var (*ternary)(jit_var, jit_var, jit_var);
} operation;

#define ROW_UNARY(name)   {"jit_" #name, JITC_OP_##name, 1, jit_##name, NULL, NULL},
#define ROW_BINARY(name)  {"jit_" #name, JITC_OP_##name, 2, NULL, jit_##name, NULL},
#define ROW_TERNARY(name) {"jit_" #name, JITC_OP_##name, 3, NULL, NULL, jit_##name},
#define ROW_SELECT(name)  ROW_TERNARY(name)
static const operation operations[] = {
#define OP(name, form, ...) JITC_IF_ELEMENTWISE_##form(ROW_##form(name))
#include "ir/ops.def"
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static jit_var apply(const operation *o, jit_var a, jit_var b, jit_var c) {
    return o->arity == 1 ? o->unary(a) : o->arity == 2 ? o->binary(a, b) : o->ternary(a, b, c);
}

static jit_var dead(void) {
    jit_var v = jit_f32(B, 12345.f);
    jit_unref(v);
    return v;
}

/* An evaluated array of n elements of a type. */
static jit_var array(jit_dtype t, size_t n) {
    void *zero = calloc(n + 1, 8);
    jit_var v = jit_from_host(B, t, zero, n);
    free(zero);
    cr_assert(v, "%s", jit_error());
    return v;
}

/* A type that the operation takes, and one that it does not (or -1). */
static jit_dtype good_type(jitc_op op) {
    jit_dtype t = JIT_f32;
    return jitc_op_accepts(op, t) ? t : JIT_u32;
}

static int bad_type(jitc_op op) {
    for (int t = 0; t < JITC_DTYPE_COUNT; ++t)
        if (!jitc_op_accepts(op, (jit_dtype) t))
            return t;
    return -1;
}

Test(start, everything_before_init) {
    float x[4] = {0};
    void *p;
    jit_var v = 1, w;
    char text[8];
    jit_stats s;
    for (int i = 0; i < OPERATIONS; ++i)
        EXPECT(apply(&operations[i], v, v, v), JIT_NOT_INITIALIZED, operations[i].name);
    EXPECT(jit_literal(B, JIT_f32, x, 1), JIT_NOT_INITIALIZED, "jit_literal: call jit_init()");
    EXPECT(jit_counter(B, 1), JIT_NOT_INITIALIZED, "jit_counter");
    EXPECT(jit_from_host(B, JIT_f32, x, 4), JIT_NOT_INITIALIZED, "jit_from_host");
    EXPECT(jit_map(B, JIT_f32, x, 4, NULL, NULL), JIT_NOT_INITIALIZED, "jit_map");
    EXPECT(jit_bool(B, true), JIT_NOT_INITIALIZED, "jit_bool");
    EXPECT(jit_i8(B, 1), JIT_NOT_INITIALIZED, "jit_i8");
    EXPECT(jit_u8(B, 1), JIT_NOT_INITIALIZED, "jit_u8");
    EXPECT(jit_i16(B, 1), JIT_NOT_INITIALIZED, "jit_i16");
    EXPECT(jit_u16(B, 1), JIT_NOT_INITIALIZED, "jit_u16");
    EXPECT(jit_i32(B, 1), JIT_NOT_INITIALIZED, "jit_i32");
    EXPECT(jit_u32(B, 1), JIT_NOT_INITIALIZED, "jit_u32");
    EXPECT(jit_i64(B, 1), JIT_NOT_INITIALIZED, "jit_i64");
    EXPECT(jit_u64(B, 1), JIT_NOT_INITIALIZED, "jit_u64");
    EXPECT(jit_f16(B, 1), JIT_NOT_INITIALIZED, "jit_f16");
    EXPECT(jit_bf16(B, 1), JIT_NOT_INITIALIZED, "jit_bf16");
    EXPECT(jit_f32(B, 1), JIT_NOT_INITIALIZED, "jit_f32");
    EXPECT(jit_f64(B, 1), JIT_NOT_INITIALIZED, "jit_f64");
    EXPECT(jit_ref(v), JIT_NOT_INITIALIZED, "jit_ref");
    EXPECT(jit_unref(v), JIT_NOT_INITIALIZED, "jit_unref");
    EXPECT(jit_scope_push(), JIT_NOT_INITIALIZED, "jit_scope_push");
    EXPECT_STATUS(jit_scope_pop(0, NULL), JIT_NOT_INITIALIZED, "jit_scope_pop");
    EXPECT(jit_size(v), JIT_NOT_INITIALIZED, "jit_size");
    EXPECT(jit_type(v), JIT_NOT_INITIALIZED, "jit_type");
    EXPECT(jit_backend_of(v), JIT_NOT_INITIALIZED, "jit_backend_of");
    EXPECT(jit_device_of(v), JIT_NOT_INITIALIZED, "jit_device_of");
    EXPECT_STATUS(jit_set_label(v, "x"), JIT_NOT_INITIALIZED, "jit_set_label");
    EXPECT_STATUS(jit_label(v, text, 8), JIT_NOT_INITIALIZED, "jit_label");
    EXPECT(jit_cast(v, JIT_f32), JIT_NOT_INITIALIZED, "jit_cast");
    EXPECT(jit_bitcast(v, JIT_f32), JIT_NOT_INITIALIZED, "jit_bitcast");
    EXPECT(jit_gather(v, v, 0), JIT_NOT_INITIALIZED, "jit_gather");
    EXPECT(jit_scatter(v, v, v, 0), JIT_NOT_INITIALIZED, "jit_scatter");
    EXPECT_STATUS(jit_sincos(v, &v, &w), JIT_NOT_INITIALIZED, "jit_sincos");
    EXPECT_STATUS(jit_schedule(v), JIT_NOT_INITIALIZED, "jit_schedule");
    EXPECT_STATUS(jit_eval(), JIT_NOT_INITIALIZED, "jit_eval");
    EXPECT_STATUS(jit_var_eval(v), JIT_NOT_INITIALIZED, "jit_var_eval");
    EXPECT_STATUS(jit_data(v, &p), JIT_NOT_INITIALIZED, "jit_data");
    EXPECT_STATUS(jit_read(v, x), JIT_NOT_INITIALIZED, "jit_read");
    EXPECT_STATUS(jit_read_range(v, 0, 1, x), JIT_NOT_INITIALIZED, "jit_read_range");
    EXPECT_STATUS(jit_sync_thread(), JIT_NOT_INITIALIZED, "jit_sync_thread");
    EXPECT_STATUS(jit_sync_device(), JIT_NOT_INITIALIZED, "jit_sync_device");
    EXPECT_STATUS(jit_sync_all_devices(), JIT_NOT_INITIALIZED, "jit_sync_all_devices");
    EXPECT_STATUS(jit_cache_clear_memory(), JIT_NOT_INITIALIZED, "jit_cache_clear_memory");
    EXPECT_STATUS(jit_get_stats(&s), JIT_NOT_INITIALIZED, "jit_get_stats");
    EXPECT_STATUS(jit_set_device(B, 0), JIT_NOT_INITIALIZED, "jit_set_device");
    cr_assert_not(jit_has_backend(B));
    cr_assert_eq(jit_device_count(B), 0);
    cr_assert_eq(jit_device(B), -1);
    jit_shutdown(); /* does nothing */
    cr_assert_str_empty(jit_error());
}

Test(start, init_takes_a_set_of_backends) {
    EXPECT_STATUS(jit_init(0), JIT_INVALID_ARGUMENT, "jit_init: backends is 0");
    EXPECT_STATUS(jit_init(8), JIT_INVALID_ARGUMENT, "jit_init: backends is 8");
    EXPECT_STATUS(jit_init(JIT_LLVM | 4), JIT_INVALID_ARGUMENT, "jit_init: backends is 6");
}

Test(errors, a_backend_that_was_not_started) {
    const jit_backend other = B == JIT_LLVM ? JIT_CUDA : JIT_LLVM;
    const char *name = B == JIT_LLVM ? ": the CUDA backend was not" : ": the LLVM backend was not";
    float x[4] = {0};
    EXPECT(jit_literal(other, JIT_f32, x, 1), JIT_UNAVAILABLE, "jit_literal: the ");
    EXPECT(jit_literal(other, JIT_f32, x, 1), JIT_UNAVAILABLE, name);
    EXPECT(jit_counter(other, 1), JIT_UNAVAILABLE, "jit_counter: the ");
    EXPECT(jit_from_host(other, JIT_f32, x, 4), JIT_UNAVAILABLE, "jit_from_host: the ");
    EXPECT(jit_map(other, JIT_f32, x, 4, NULL, NULL), JIT_UNAVAILABLE, "jit_map: the ");
    EXPECT(jit_f32(other, 1), JIT_UNAVAILABLE, "jit_f32: the ");
    EXPECT_STATUS(jit_set_device(other, 0), JIT_UNAVAILABLE, "jit_set_device: the ");
    EXPECT(jit_f32((jit_backend) 7, 1), JIT_INVALID_ARGUMENT, "jit_f32: 7 is no backend");
    cr_assert_eq(jit_device(other), -1);
    cr_assert_eq(jit_device_count((jit_backend) 0), 0);
}

Test(errors, a_device_that_is_not_there) {
    EXPECT_STATUS(jit_set_device(B, jit_device_count(B)), JIT_INVALID_ARGUMENT,
                  "jit_set_device: there is no device ");
    EXPECT_STATUS(jit_set_device(B, -1), JIT_INVALID_ARGUMENT, "there is no device -1");
}

Test(errors, dead_handles) {
    jit_var d = dead(), v = jit_f32(B, 3), w;
    float x[4] = {0};
    void *p;
    char text[8];
    for (int i = 0; i < OPERATIONS; ++i) {
        const operation *o = &operations[i];
        jit_var good = array(good_type(o->op), 3);
        EXPECT(apply(o, d, good, good), JIT_INVALID_HANDLE, o->name);
        if (o->arity > 1)
            EXPECT(apply(o, good, d, good), JIT_INVALID_HANDLE, o->name);
        if (o->arity > 2)
            EXPECT(apply(o, good, good, d), JIT_INVALID_HANDLE, o->name);
        jit_unref(good);
    }
    EXPECT(jit_ref(d), JIT_INVALID_HANDLE, "jit_ref");
    EXPECT(jit_unref(d), JIT_INVALID_HANDLE, "jit_unref");
    EXPECT(jit_size(d), JIT_INVALID_HANDLE, "jit_size");
    EXPECT(jit_type(d), JIT_INVALID_HANDLE, "jit_type");
    EXPECT(jit_backend_of(d), JIT_INVALID_HANDLE, "jit_backend_of");
    EXPECT(jit_device_of(d), JIT_INVALID_HANDLE, "jit_device_of");
    EXPECT_STATUS(jit_set_label(d, "x"), JIT_INVALID_HANDLE, "jit_set_label");
    EXPECT_STATUS(jit_label(d, text, 8), JIT_INVALID_HANDLE, "jit_label");
    EXPECT(jit_cast(d, JIT_u8), JIT_INVALID_HANDLE, "jit_cast");
    EXPECT(jit_bitcast(d, JIT_u32), JIT_INVALID_HANDLE, "jit_bitcast");
    EXPECT(jit_gather(d, v, 0), JIT_INVALID_HANDLE, "jit_gather");
    EXPECT(jit_scatter(d, v, v, 0), JIT_INVALID_HANDLE, "jit_scatter");
    EXPECT_STATUS(jit_sincos(d, &w, &w), JIT_INVALID_HANDLE, "jit_sin");
    EXPECT_STATUS(jit_schedule(d), JIT_INVALID_HANDLE, "jit_schedule");
    EXPECT_STATUS(jit_var_eval(d), JIT_INVALID_HANDLE, "jit_var_eval");
    EXPECT_STATUS(jit_data(d, &p), JIT_INVALID_HANDLE, "jit_data");
    EXPECT_STATUS(jit_read(d, x), JIT_INVALID_HANDLE, "jit_read");
    EXPECT_STATUS(jit_read_range(d, 0, 1, x), JIT_INVALID_HANDLE, "jit_read_range");
    EXPECT_STATUS(jit_read(0xffffffffu, x), JIT_INVALID_HANDLE, "jit_read");
    jit_scope_push();
    EXPECT_STATUS(jit_scope_pop(1, &d), JIT_INVALID_HANDLE, "jit_scope_pop");
    EXPECT_STATUS(jit_scope_pop(0, NULL), JIT_INVALID_ARGUMENT, "jit_scope_pop");
    cr_assert_eq(jit_eval(), JIT_OK);
    jit_unref(v);
}

Test(errors, zero_is_no_variable) {
    jit_var v = jit_f32(B, 3);
    float x[4] = {0};
    void *p;
    EXPECT(jit_add(0, v), JIT_INVALID_HANDLE, "jit_add");
    EXPECT(jit_add(v, 0), JIT_INVALID_HANDLE, "jit_add");
    EXPECT(jit_gather(v, 0, 0), JIT_INVALID_HANDLE, "jit_gather");
    EXPECT_STATUS(jit_read(0, x), JIT_INVALID_HANDLE, "jit_read");
    EXPECT_STATUS(jit_data(0, &p), JIT_INVALID_HANDLE, "jit_data");
    EXPECT_STATUS(jit_var_eval(0), JIT_INVALID_HANDLE, "jit_var_eval");
    EXPECT_STATUS(jit_schedule(0), JIT_INVALID_HANDLE, "jit_schedule");
    EXPECT(jit_size(0), JIT_INVALID_HANDLE, "jit_size");
    jit_unref(0); /* is ignored */
    cr_assert_str_empty(jit_error());
    jit_unref(v);
}

Test(errors, a_chain_keeps_its_first_error) {
    jit_var v = array(JIT_i32, 3), end = jit_add(jit_sqrt(v), jit_sqrt(v));
    float x[3];
    cr_assert_eq(end, 0);
    cr_assert_eq(jit_read(end, x), JIT_TYPE_MISMATCH);
    expect(JIT_TYPE_MISMATCH, "jit_sqrt", __LINE__);
    jit_unref(v);
}

Test(errors, types_that_an_operation_does_not_take) {
    for (int i = 0; i < OPERATIONS; ++i) {
        const operation *o = &operations[i];
        int t = bad_type(o->op);
        if (t < 0)
            continue;
        jit_var v = array((jit_dtype) t, 3);
        EXPECT(apply(o, v, v, v), JIT_TYPE_MISMATCH, o->name);
        jit_unref(v);
    }
}

Test(errors, types_that_do_not_fit_together) {
    for (int i = 0; i < OPERATIONS; ++i) {
        const operation *o = &operations[i];
        if (o->arity < 2 || o->op == JITC_OP_select)
            continue;
        jit_var a = array(good_type(o->op), 3),
                b = array(good_type(o->op) == JIT_f32 ? JIT_f64 : JIT_i8, 3);
        EXPECT(apply(o, a, b, a), JIT_TYPE_MISMATCH, o->name);
        EXPECT(apply(o, b, a, a), JIT_TYPE_MISMATCH, o->name);
        if (o->arity > 2)
            EXPECT(apply(o, a, a, b), JIT_TYPE_MISMATCH, o->name);
        jit_unref(a);
        jit_unref(b);
    }
    jit_var f = array(JIT_f32, 3), i = array(JIT_i32, 3), m = array(JIT_bool, 3);
    EXPECT(jit_add(f, i), JIT_TYPE_MISMATCH, "f32 and i32");
    EXPECT(jit_select(f, f, f), JIT_TYPE_MISMATCH, "jit_select");
    EXPECT(jit_select(m, f, i), JIT_TYPE_MISMATCH, "jit_select");
    EXPECT(jit_gather(f, f, 0), JIT_TYPE_MISMATCH, "jit_gather");
    EXPECT(jit_gather(f, m, 0), JIT_TYPE_MISMATCH, "jit_gather");
    EXPECT(jit_gather(f, i, i), JIT_TYPE_MISMATCH, "jit_gather");
    EXPECT(jit_scatter(f, i, i, 0), JIT_TYPE_MISMATCH, "jit_scatter");
    EXPECT(jit_scatter(f, f, f, 0), JIT_TYPE_MISMATCH, "jit_scatter");
    EXPECT(jit_scatter(f, f, i, f), JIT_TYPE_MISMATCH, "jit_scatter");
    EXPECT(jit_bitcast(f, JIT_f64), JIT_TYPE_MISMATCH, "jit_bitcast");
    EXPECT(jit_cast(f, (jit_dtype) 99), JIT_INVALID_ARGUMENT, "jit_cast");
    EXPECT(jit_bitcast(f, (jit_dtype) -1), JIT_INVALID_ARGUMENT, "jit_bitcast");
    jit_unref(f);
    jit_unref(i);
    jit_unref(m);
}

Test(errors, sizes_that_do_not_fit_together) {
    for (int i = 0; i < OPERATIONS; ++i) {
        const operation *o = &operations[i];
        if (o->arity < 2)
            continue;
        jit_dtype t = good_type(o->op);
        jit_var a = array(o->op == JITC_OP_select ? JIT_bool : t, 3), b = array(t, 4);
        EXPECT(apply(o, a, b, b), JIT_SIZE_MISMATCH, o->name);
        jit_unref(a);
        jit_unref(b);
    }
    jit_var f = array(JIT_f32, 3), i = array(JIT_i32, 4), m = array(JIT_bool, 5);
    EXPECT(jit_gather(f, i, m), JIT_SIZE_MISMATCH, "jit_gather");
    EXPECT(jit_scatter(f, f, i, 0), JIT_SIZE_MISMATCH, "jit_scatter");
    EXPECT(jit_add(f, array(JIT_f32, 0)), JIT_SIZE_MISMATCH, "3 and 0");
    jit_unref(f);
    jit_unref(i);
    jit_unref(m);
}

Test(errors, arrays_that_cannot_be_made) {
    float x[4] = {0};
    EXPECT(jit_literal(B, (jit_dtype) 13, x, 1), JIT_INVALID_ARGUMENT, "jit_literal: 13");
    EXPECT(jit_literal(B, JIT_f32, NULL, 1), JIT_INVALID_ARGUMENT, "jit_literal");
    EXPECT(jit_literal(B, JIT_f32, x, SIZE_MAX), JIT_INVALID_ARGUMENT, "2^40");
    EXPECT(jit_counter(B, ((size_t) 1 << 40) + 1), JIT_INVALID_ARGUMENT, "1099511627777");
    EXPECT(jit_from_host(B, JIT_f32, NULL, 1), JIT_INVALID_ARGUMENT, "jit_from_host: data is NULL");
    EXPECT(jit_from_host(B, (jit_dtype) -1, x, 1), JIT_INVALID_ARGUMENT, "jit_from_host: -1");
    EXPECT(jit_map(B, JIT_f32, NULL, 1, NULL, NULL), JIT_INVALID_ARGUMENT, "jit_map: data is NULL");
    if (support_maps_host_memory())
        EXPECT(jit_map(B, JIT_f32, (char *) x + 1, 1, NULL, NULL), JIT_INVALID_ARGUMENT, "aligned");
    EXPECT(jit_map(B, (jit_dtype) 99, x, 1, NULL, NULL), JIT_INVALID_ARGUMENT, "jit_map: 99");
    jit_var big = jit_counter(B, (size_t) 1 << 40);
    cr_assert(big, "%s", jit_error());
    jit_var sum = jit_add(big, big);
    EXPECT_STATUS(jit_var_eval(sum), JIT_OUT_OF_MEMORY, "bytes");
    jit_unref(sum);
    jit_unref(big);
}

Test(errors, reading_outside_of_an_array) {
    jit_var v = array(JIT_f32, 10);
    float x[10];
    void *p;
    EXPECT_STATUS(jit_read_range(v, 0, 11, x), JIT_OUT_OF_BOUNDS, "jit_read_range");
    EXPECT_STATUS(jit_read_range(v, 11, 0, x), JIT_OUT_OF_BOUNDS, "array of 10");
    EXPECT_STATUS(jit_read_range(v, SIZE_MAX, 2, x), JIT_OUT_OF_BOUNDS, "jit_read_range");
    EXPECT_STATUS(jit_read_range(v, 5, SIZE_MAX, x), JIT_OUT_OF_BOUNDS, "jit_read_range");
    EXPECT_STATUS(jit_read(v, NULL), JIT_INVALID_ARGUMENT, "jit_read: destination");
    EXPECT_STATUS(jit_data(v, NULL), JIT_INVALID_ARGUMENT, "jit_data: pointer");
    cr_assert_eq(jit_read_range(v, 10, 0, NULL), JIT_OK);
    cr_assert_eq(jit_data(v, &p), JIT_OK);
    jit_unref(v);
}

Test(errors, pointers_that_must_not_be_null) {
    jit_var v = array(JIT_f32, 1), w;
    EXPECT_STATUS(jit_sincos(v, NULL, &w), JIT_INVALID_ARGUMENT, "jit_sincos");
    EXPECT_STATUS(jit_sincos(v, &w, NULL), JIT_INVALID_ARGUMENT, "jit_sincos");
    EXPECT_STATUS(jit_get_stats(NULL), JIT_INVALID_ARGUMENT, "jit_get_stats");
    EXPECT_STATUS(jit_label(v, NULL, 3), JIT_INVALID_ARGUMENT, "jit_label");
    EXPECT_STATUS(jit_set_option(NULL, "1"), JIT_INVALID_ARGUMENT, "jit_set_option");
    EXPECT_STATUS(jit_set_option("spin_us", NULL), JIT_INVALID_ARGUMENT, "jit_set_option");
    EXPECT_STATUS(jit_get_option(NULL, NULL, 0), JIT_INVALID_ARGUMENT, "jit_get_option");
    jit_scope_push();
    EXPECT_STATUS(jit_scope_pop(2, NULL), JIT_INVALID_ARGUMENT, "jit_scope_pop");
    jit_scope_pop(0, NULL);
    jit_error_clear();
    jit_unref(v);
}

Test(errors, options_that_do_not_exist_or_parse) {
    char text[16];
    EXPECT_STATUS(jit_set_option("no_such", "1"), JIT_INVALID_ARGUMENT, "no_such");
    EXPECT_STATUS(jit_set_option("spin_us", "many"), JIT_INVALID_ARGUMENT, "spin_us");
    EXPECT_STATUS(jit_set_option("cache_disk", "maybe"), JIT_INVALID_ARGUMENT, "cache_disk");
    EXPECT_STATUS(jit_get_option("no_such", text, 16), JIT_INVALID_ARGUMENT, "no_such");
    cr_assert_eq(jit_get_option("spin_us", text, 16), JIT_OK);
    cr_assert_str_eq(text, "150");
}

Test(start, a_library_that_is_not_there_is_named) {
    const char *option = B == JIT_LLVM ? "llvm_library" : "cuda_driver";
    char before[1024];
    cr_assert_eq(jit_get_option(option, before, sizeof before), JIT_OK);
    jit_set_option(option, "/nonexistent/lib.so");
    EXPECT_STATUS(jit_init(B), JIT_UNAVAILABLE, "/nonexistent/lib.so");
    jit_set_option(option, before);
    support_init();
    support_shutdown();
}

Test(errors, names_of_values_that_are_none) {
    cr_assert_str_eq(jit_status_name((jit_status) 99), "?");
    cr_assert_str_eq(jit_status_name(JIT_SIZE_MISMATCH), "JIT_SIZE_MISMATCH");
    cr_assert_str_eq(jit_dtype_name((jit_dtype) 99), "?");
    cr_assert_str_eq(jit_dtype_name(JIT_bf16), "bf16");
    cr_assert_eq(jit_dtype_size((jit_dtype) -1), 0);
    cr_assert_eq(jit_dtype_size(JIT_bool), 1);
}
