/* array.c: reshaping and joining: an index for each lane, and what lies there.
 *
 * Indices are u32 as long as all sizes fit into it, and wrap: only the results have to be in range.
 * Divisors are part of the program, so a division is a multiplication and a shift. */
#include "api/runtime.h"
#include "api/scope.h"
#include <inttypes.h>
#include <jit/array.h>

enum { MOST_CHOICES = 8 }; /* arrays that jit_concat() chooses from in each lane */

/* What is indexed, and the lanes of the result. */
typedef struct shaper {
    jitc_graph *g;
    const char *function;
    jit_var v;
    jitc_var_info info; /* of v */
    uint64_t n;         /* elements of the result */
    jit_dtype type;     /* of the indices */
    jit_var lane;
} shaper;

static bool look(shaper *s, const char *function, jit_var v) {
    *s = (shaper) {.g = jitc_api_graph(function), .function = function, .v = v};
    return s->g && jitc_trace_info(s->g, function, v, &s->info) == JIT_OK;
}

static jit_var literal(const shaper *s, jit_dtype t, uint64_t bits, uint64_t size) {
    return jitc_trace_literal(s->g, s->info.backend, s->info.device, t, bits, size);
}

static jit_var number(const shaper *s, uint64_t value) {
    return literal(s, s->type, value, 1);
}

/* op(a, number) */
static jit_var with(const shaper *s, jitc_op op, jit_var a, uint64_t value) {
    return jitc_trace_binary(s->g, op, a, number(s, value));
}

static jit_var binary(const shaper *s, jitc_op op, jit_var a, jit_var b) {
    return jitc_trace_binary(s->g, op, a, b);
}

/* v as `n` elements, v having one. */
static jit_var broadcast(const shaper *s, uint64_t n) {
    jit_var all = literal(s, JIT_bool, 1, n);
    jit_var r = jitc_trace_ternary(s->g, JITC_OP_select, all, s->v, s->v);
    jitc_trace_unref(s->g, all);
    return r;
}

static bool set_size(shaper *s, uint64_t n) {
    s->n = n;
    if (n > JITC_MAX_SIZE)
        jitc_fail(JIT_INVALID_ARGUMENT, "%s: the result would have more than 2^40 elements",
                  s->function);
    return n <= JITC_MAX_SIZE;
}

/* n = elements of v times count */
static bool multiply_size(shaper *s, size_t count) {
    uint64_t n;
    bool over = __builtin_mul_overflow(s->info.size, (uint64_t) count, &n);
    return set_size(s, over ? UINT64_MAX : n);
}

/* What needs no index: true, and the result. */
static bool needs_no_index(const shaper *s, jit_var *out) {
    if (s->n == 0 || s->info.literal)
        *out = literal(s, s->info.type, s->n ? s->info.bits : 0, s->n);
    else if (s->info.size > 1)
        return false;
    else
        *out = s->n == 1 ? jitc_trace_ref(s->g, s->v) : broadcast(s, s->n);
    return true;
}

/* From here to end() everything that is made is a temporary. */
static bool begin(shaper *s) {
    const uint64_t limit = (uint64_t) 1 << 32; /* sizes are numbers as well */
    if (!jitc_api_scope_begin(s->g))
        return false;
    s->type = s->n >= limit || s->info.size >= limit ? JIT_u64 : JIT_u32;
    s->lane = jitc_trace_counter(s->g, s->info.backend, s->info.device, s->n);
    s->lane = jitc_trace_cast(s->g, JITC_OP_cast, s->lane, s->type);
    return true;
}

static jit_var end(const shaper *s, jit_var result) {
    return jitc_api_scope_end(s->g, result);
}

static jit_var elements(const shaper *s, jit_var index) {
    return end(s, jitc_trace_elements(s->g, s->v, index));
}

jit_var jit_tile(jit_var v, size_t count) {
    shaper s;
    jit_var r = 0;
    if (!look(&s, "jit_tile", v) || !multiply_size(&s, count))
        return 0;
    if (count == 1)
        return jitc_trace_ref(s.g, v);
    if (needs_no_index(&s, &r) || !begin(&s))
        return r;
    return elements(&s, with(&s, JITC_OP_mod, s.lane, s.info.size));
}

jit_var jit_repeat(jit_var v, size_t count) {
    shaper s;
    jit_var r = 0;
    if (!look(&s, "jit_repeat", v) || !multiply_size(&s, count))
        return 0;
    if (count == 1)
        return jitc_trace_ref(s.g, v);
    if (needs_no_index(&s, &r) || !begin(&s))
        return r;
    return elements(&s, with(&s, JITC_OP_div, s.lane, count));
}

jit_var jit_reverse(jit_var v) {
    shaper s;
    jit_var r = 0;
    if (!look(&s, "jit_reverse", v) || !set_size(&s, s.info.size))
        return 0;
    if (needs_no_index(&s, &r) || !begin(&s))
        return r;
    return elements(&s, binary(&s, JITC_OP_sub, number(&s, s.n - 1), s.lane));
}

/* Are all of v[start + k step] there? */
static jit_status check_slice(const shaper *s, size_t start, ptrdiff_t step) {
    uint64_t last = s->info.size - 1, steps = s->n - 1;
    uint64_t stride = step < 0 ? 0 - (uint64_t) step : (uint64_t) step;
    if (!step)
        return jitc_fail(JIT_INVALID_ARGUMENT, "jit_slice: step is 0");
    if (!s->n)
        return JIT_OK;
    uint64_t room = step < 0 ? start : last - start;
    if (start < s->info.size && steps <= room / stride)
        return JIT_OK;
    return jitc_fail(JIT_OUT_OF_BOUNDS,
                     "jit_slice: %" PRIu64
                     " elements from %zu on in steps of %td are not all among "
                     "the %" PRIu64 " of the array",
                     s->n, start, step, s->info.size);
}

jit_var jit_slice(jit_var v, size_t start, size_t count, ptrdiff_t step) {
    shaper s;
    jit_var r = 0;
    if (!look(&s, "jit_slice", v) || !set_size(&s, count) || check_slice(&s, start, step) != JIT_OK)
        return 0;
    if (start == 0 && count == s.info.size && (step == 1 || count == 1))
        return jitc_trace_ref(s.g, v);
    if (needs_no_index(&s, &r) || !begin(&s))
        return r;
    jit_var scaled = with(&s, JITC_OP_mul, s.lane, (uint64_t) step);
    return elements(&s, with(&s, JITC_OP_add, scaled, start));
}

jit_var jit_roll(jit_var v, ptrdiff_t shift) {
    shaper s;
    jit_var r = 0;
    if (!look(&s, "jit_roll", v) || !set_size(&s, s.info.size))
        return 0;
    if (needs_no_index(&s, &r))
        return r;
    int64_t size = (int64_t) s.n, rest = shift % size;
    uint64_t right = (uint64_t) (rest < 0 ? rest + size : rest);
    if (!right)
        return jitc_trace_ref(s.g, v);
    if (!begin(&s))
        return 0;
    jit_var wraps = with(&s, JITC_OP_lt, s.lane, right);
    jit_var from_end = with(&s, JITC_OP_add, s.lane, s.n - right);
    jit_var from_start = with(&s, JITC_OP_sub, s.lane, right);
    return elements(&s, jitc_trace_ternary(s.g, JITC_OP_select, wraps, from_end, from_start));
}

/* Lane i is row i % rows of column i / rows = q: (i - q rows) columns + q. */
jit_var jit_transpose(jit_var v, size_t rows, size_t columns) {
    shaper s;
    uint64_t n;
    if (!look(&s, "jit_transpose", v) || !set_size(&s, s.info.size))
        return 0;
    if (__builtin_mul_overflow((uint64_t) rows, (uint64_t) columns, &n) || n != s.n) {
        jitc_fail(JIT_SIZE_MISMATCH,
                  "jit_transpose: %zu rows of %zu elements are not the %" PRIu64 " of the array",
                  rows, columns, s.n);
        return 0;
    }
    if (s.info.literal || rows <= 1 || columns <= 1)
        return jitc_trace_ref(s.g, v);
    if (!begin(&s))
        return 0;
    jit_var column = with(&s, JITC_OP_div, s.lane, rows);
    jit_var scaled = with(&s, JITC_OP_mul, s.lane, columns);
    return elements(&s, binary(&s, JITC_OP_sub, scaled, with(&s, JITC_OP_mul, column, s.n - 1)));
}

/* ---- joining ---- */

/* The shaper of the result: v is an array that says where it is, literals being anywhere; n is the
 * sum of all sizes. */
static bool look_at_all(shaper *s, size_t n, const jit_var *vars) {
    uint64_t sum = 0;
    if (!n || !vars)
        jitc_fail(JIT_INVALID_ARGUMENT, "jit_concat: there is no array; n is %zu", n);
    if (!n || !vars || !look(s, "jit_concat", vars[0]))
        return false;
    for (size_t k = 0; k < n; ++k) {
        shaper other;
        if (!look(&other, "jit_concat", vars[k]))
            return false;
        if (other.info.type != s->info.type) {
            jitc_fail(JIT_TYPE_MISMATCH,
                      "jit_concat: arrays have types %s and %s; convert one with jit_cast()",
                      jitc_dtypes[s->info.type].name, jitc_dtypes[other.info.type].name);
            return false;
        }
        if (s->info.literal && !other.info.literal)
            *s = other;
        sum += other.info.size;
        if (!set_size(s, sum))
            return false;
    }
    return true;
}

/* Value in each lane of an array that begins at lane `offset`. Outside of it, any. */
static jit_var chosen(const shaper *s, const shaper *part, uint64_t offset) {
    if (part->info.literal)
        return literal(s, part->info.type, part->info.bits, s->n);
    if (part->info.size == 1)
        return jitc_trace_ref(s->g, part->v);
    jit_var place = with(s, JITC_OP_sub, s->lane, offset); /* lanes before it: huge */
    jit_var inside = with(s, JITC_OP_min, place, part->info.size - 1);
    return jitc_trace_elements(s->g, part->v, inside);
}

static jit_var choose(const shaper *s, size_t n, const jit_var *vars) {
    jit_var result = 0;
    uint64_t next = s->n; /* where those in `result` begin */
    for (size_t k = n; k-- > 0;) {
        shaper part;
        if (!look(&part, s->function, vars[k]))
            return 0;
        if (!part.info.size)
            continue;
        jit_var value = chosen(s, &part, next - part.info.size);
        if (next == s->n)
            result = value;
        else
            result = jitc_trace_ternary(s->g, JITC_OP_select, with(s, JITC_OP_lt, s->lane, next),
                                        value, result);
        next -= part.info.size;
    }
    return result;
}

static jit_var store_all(const shaper *s, size_t n, const jit_var *vars) {
    jit_var result = literal(s, s->info.type, 0, s->n);
    uint64_t offset = 0;
    for (size_t k = 0; k < n; ++k) {
        shaper part;
        if (!look(&part, s->function, vars[k]))
            return 0;
        if (!part.info.size)
            continue;
        jit_var lane = jitc_trace_counter(s->g, s->info.backend, s->info.device, part.info.size);
        lane = jitc_trace_cast(s->g, JITC_OP_cast, lane, s->type);
        lane = with(s, JITC_OP_add, lane, offset);
        result = jitc_trace_scatter(s->g, result, vars[k], lane, 0);
        offset += part.info.size;
    }
    return result;
}

jit_var jit_concat(size_t n, const jit_var *vars) {
    shaper s, part;
    size_t used = 0, last = 0;
    if (!look_at_all(&s, n, vars))
        return 0;
    for (size_t k = 0; k < n; ++k)
        if (look(&part, s.function, vars[k]) && part.info.size) {
            used++;
            last = k;
        }
    if (used <= 1)
        return jitc_trace_ref(s.g, vars[last]);
    if (!begin(&s))
        return 0;
    return end(&s, used <= MOST_CHOICES ? choose(&s, n, vars) : store_all(&s, n, vars));
}

/* ---- numbers ---- */

static jit_var real(jit_backend b, jit_dtype type, double value) {
    return type == JIT_f64 ? jit_f64(b, value) : jit_f32(b, (float) value);
}

static jit_var linspace(jit_backend b, jit_dtype type, double first, double last, size_t size) {
    jit_var lane = jit_counter(b, size);
    if (!lane)
        return 0;
    uint64_t end_lane = size - 1;
    jit_dtype lane_type = jit_type(lane), t = type == JIT_f64 ? JIT_f64 : JIT_f32;
    long double steps =
        size > 1 ? (long double) end_lane : 1; /* wider: rounded once, no overflow */
    double step = (double) (((long double) last - first) / steps);
    jit_var line = jit_fma(jit_cast(lane, t), real(b, t, step), real(b, t, first));
    jit_var at_end = jit_eq(lane, jit_literal(b, lane_type, &end_lane, 1));
    return jit_cast(jit_select(at_end, real(b, t, size == 1 ? first : last), line), type);
}

jit_var jit_linspace(jit_backend backend, jit_dtype type, double first, double last, size_t size) {
    jitc_started *started;
    jitc_graph *g = jitc_api_graph("jit_linspace");
    if (!g || jitc_api_backend("jit_linspace", backend, &started) != JIT_OK)
        return 0;
    if (!jitc_dtype_valid((int) type) || jitc_dtypes[type].cls != JITC_FLOAT) {
        jitc_fail(JIT_TYPE_MISMATCH, "jit_linspace: %s is no floating-point type",
                  jit_dtype_name(type));
        return 0;
    }
    if (!jitc_api_scope_begin(g))
        return 0;
    return jitc_api_scope_end(g, linspace(backend, type, first, last, size));
}
