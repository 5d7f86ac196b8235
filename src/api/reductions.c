/* reductions.c: whole arrays to one element: functions composed of others. */
#include "api/runtime.h"
#include "api/scope.h"
#include <jit/array.h>

/* The operand. */
typedef struct whole {
    jitc_graph *g;
    const char *function;
    jit_var v;
    jitc_var_info info;
    jit_backend b;
    unsigned cls; /* of its type */
} whole;

static bool look(whole *w, const char *function, jit_var v) {
    *w = (whole) {.g = jitc_api_graph(function), .function = function, .v = v};
    if (!w->g || jitc_trace_info(w->g, function, v, &w->info) != JIT_OK)
        return false;
    w->b = w->info.backend;
    w->cls = jitc_dtypes[w->info.type].cls;
    return true;
}

static bool look_at_mask(whole *w, const char *function, jit_var v) {
    if (!look(w, function, v))
        return false;
    if (w->info.type != JIT_bool)
        jitc_fail(JIT_TYPE_MISMATCH, "%s: the operand has type %s; it must be bool, as of jit_ne()",
                  function, jitc_dtypes[w->info.type].name);
    return w->info.type == JIT_bool;
}

static bool begin(const whole *w) {
    return jitc_api_scope_begin(w->g);
}
static jit_var end(const whole *w, jit_var result) {
    return jitc_api_scope_end(w->g, result);
}

static jit_var reduce(const whole *w, jit_reduce_op op, jit_var v) {
    return jitc_trace_reduce(w->g, op, v);
}

jit_var jit_sum(jit_var v) {
    jitc_graph *g = jitc_api_graph("jit_sum");
    return g ? jitc_trace_reduce(g, JIT_REDUCE_ADD, v) : 0;
}

jit_var jit_amin(jit_var v) {
    jitc_graph *g = jitc_api_graph("jit_amin");
    return g ? jitc_trace_reduce(g, JIT_REDUCE_MIN, v) : 0;
}

jit_var jit_amax(jit_var v) {
    jitc_graph *g = jitc_api_graph("jit_amax");
    return g ? jitc_trace_reduce(g, JIT_REDUCE_MAX, v) : 0;
}

jit_var jit_dot(jit_var a, jit_var b) {
    whole w;
    if (!look(&w, "jit_dot", a) || !begin(&w))
        return 0;
    jit_dtype t = jitc_reduce_type(JIT_REDUCE_ADD, w.info.type); /* in which products are exact */
    jit_var product = jit_type(b) == w.info.type ? jit_mul(jit_cast(a, t), jit_cast(b, t))
                                                 : jit_mul(a, b); /* which tells the error */
    return end(&w, jit_cast(reduce(&w, JIT_REDUCE_ADD, product), w.info.type));
}

jit_var jit_mean(jit_var v) {
    whole w;
    if (!look(&w, "jit_mean", v) || !begin(&w))
        return 0;
    bool real = w.cls == JITC_FLOAT;
    jit_dtype t = real ? jitc_reduce_type(JIT_REDUCE_ADD, w.info.type) : JIT_f64;
    jit_var sum = reduce(&w, JIT_REDUCE_ADD, jit_cast(v, t));
    jit_var mean = jit_div(sum, jit_cast(jit_u64(w.b, w.info.size), t));
    return end(&w, jit_cast(mean, real ? w.info.type : JIT_f64));
}

jit_var jit_any(jit_var mask) {
    whole w;
    return look_at_mask(&w, "jit_any", mask) ? reduce(&w, JIT_REDUCE_OR, mask) : 0;
}

jit_var jit_all(jit_var mask) {
    whole w;
    return look_at_mask(&w, "jit_all", mask) ? reduce(&w, JIT_REDUCE_AND, mask) : 0;
}

jit_var jit_count(jit_var mask) {
    whole w;
    if (!look_at_mask(&w, "jit_count", mask) || !begin(&w))
        return 0;
    jit_dtype t = w.info.size >> 32 ? JIT_u64 : JIT_u32;
    return end(&w, reduce(&w, JIT_REDUCE_ADD, jit_cast(mask, t)));
}

/* ---- where the smallest, largest element is ---- */

/* A u32 for each element of at most 32 bits that is the smaller, the smaller the element is, and 0
 * for NaN if that is to win. -0 and +0 have the same. */
static jit_var key_of(const whole *w) {
    if (w->cls & (JITC_BOOL | JITC_UINT))
        return jit_cast(w->v, JIT_u32);
    jit_var top = jit_u32(w->b, 0x80000000u);
    if (w->cls == JITC_INT)
        return jit_xor(jit_bitcast(jit_cast(w->v, JIT_i32), JIT_u32), top);
    jit_var x = jit_add(jit_cast(w->v, JIT_f32), jit_f32(w->b, 0)); /* -0 + 0 is +0 */
    jit_var signs = jit_shr(jit_bitcast(x, JIT_i32), jit_i32(w->b, 31));
    jit_var flips = jit_or(jit_bitcast(signs, JIT_u32), top);
    return jit_xor(jit_bitcast(x, JIT_u32), flips);
}

/* One pass: the smallest pair of key and index, as one number. */
static jit_var by_pairs(const whole *w, bool largest, jit_var index) {
    jit_var key = largest ? jit_not(key_of(w)) : key_of(w);
    if (w->cls == JITC_FLOAT)
        key = jit_select(jit_ne(w->v, w->v), jit_u32(w->b, 0), key);
    jit_var pair = jit_shl(jit_cast(key, JIT_u64), jit_u64(w->b, 32));
    pair = jit_or(pair, jit_cast(index, JIT_u64));
    return jit_cast(reduce(w, JIT_REDUCE_MIN, pair), JIT_u32);
}

/* Two passes: the element, then the smallest index of one that equals it. */
static jit_var by_value(const whole *w, bool largest, jit_var index) {
    jit_reduce_op least = w->cls == JITC_BOOL ? JIT_REDUCE_AND : JIT_REDUCE_MIN;
    jit_reduce_op most = w->cls == JITC_BOOL ? JIT_REDUCE_OR : JIT_REDUCE_MAX;
    jit_var best = reduce(w, largest ? most : least, w->v);
    jit_var match = jit_eq(w->v, best);
    if (w->cls == JITC_FLOAT) /* if there is a NaN, the best one is NaN and equals nothing */
        match = jit_or(match, jit_ne(w->v, w->v));
    uint64_t none = UINT64_MAX;
    jit_var no_index = jit_literal(w->b, jit_type(index), &none, 1);
    return reduce(w, JIT_REDUCE_MIN, jit_select(match, index, no_index));
}

static jit_var extreme(const char *function, jit_var v, bool largest) {
    whole w;
    if (!look(&w, function, v))
        return 0;
    if (!w.info.size) {
        jitc_fail(JIT_INVALID_ARGUMENT, "%s: the array is empty", function);
        return 0;
    }
    if (!begin(&w))
        return 0;
    jit_var index = jitc_trace_counter(w.g, w.b, w.info.device, w.info.size);
    bool pairs = jitc_dtypes[w.info.type].bits <= 32 && jit_type(index) == JIT_u32;
    return end(&w, pairs ? by_pairs(&w, largest, index) : by_value(&w, largest, index));
}

jit_var jit_argmin(jit_var v) {
    return extreme("jit_argmin", v, false);
}

jit_var jit_argmax(jit_var v) {
    return extreme("jit_argmax", v, true);
}
