/* floor.c: division that rounds down, and its remainder, as Python has them: recorded from the
 * library's operations, which truncate as C's. */
#include "bridge.h"

static bool is_signed(jit_dtype type) {
    return type == JIT_i8 || type == JIT_i16 || type == JIT_i32 || type == JIT_i64;
}

static bool is_float(jit_dtype type) {
    return type >= JIT_f16;
}

static jit_var constant(jit_var like, double value) {
    jit_dtype type = jit_type(like);
    return jit_cast(jit_f64(jit_backend_of(like), value), type);
}

/* Is a remainder with the sign of a not 0, and has another sign than b? */
static jit_var wants_step(jit_var remainder, jit_var b) {
    jit_var zero = constant(b, 0);
    return jit_and(jit_ne(remainder, zero), jit_xor(jit_lt(remainder, zero), jit_lt(b, zero)));
}

static jit_var remainder_of(jit_var a, jit_var b) {
    jit_var m = jit_mod(a, b);
    jit_dtype type = jit_type(a);
    if (!is_signed(type) && !is_float(type))
        return m;
    jit_var stepped = jit_select(wants_step(m, b), jit_add(m, b), m);
    if (!is_float(type))
        return stepped;
    jit_var zero = constant(b, 0);
    return jit_select(jit_eq(m, zero), jit_copysign(zero, b), stepped);
}

/* (a - remainder) / b is whole but for its rounding, which the second step mends. */
static jit_var floor_float(jit_var a, jit_var b) {
    jit_var zero = constant(a, 0), one = constant(a, 1), m = jit_mod(a, b), ratio = jit_div(a, b);
    jit_var near = jit_div(jit_sub(a, m), b);
    near = jit_select(wants_step(m, b), jit_sub(near, one), near);
    jit_var whole = jit_floor(near);
    whole = jit_select(jit_gt(jit_sub(near, whole), constant(a, 0.5)), jit_add(whole, one), whole);
    whole = jit_select(jit_eq(near, zero), jit_copysign(zero, ratio), whole);
    return jit_select(jit_eq(b, zero), ratio, whole);
}

static jit_var floor_of(jit_var a, jit_var b) {
    jit_dtype type = jit_type(a);
    if (is_float(type))
        return floor_float(a, b);
    jit_var q = jit_div(a, b);
    if (!is_signed(type))
        return q;
    return jit_sub(q, jit_cast(wants_step(jit_mod(a, b), b), type));
}

/* In a scope, which gives back what is between. */
static jit_var recorded(jit_var (*function)(jit_var, jit_var), jit_var a, jit_var b) {
    jit_scope_push();
    jit_var v = function(a, b);
    return jit_scope_pop(1, &v) == JIT_OK ? v : 0;
}

jit_var bridge_floor_divide(jit_var a, jit_var b) {
    return recorded(floor_of, a, b);
}

jit_var bridge_remainder(jit_var a, jit_var b) {
    return recorded(remainder_of, a, b);
}
