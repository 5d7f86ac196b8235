/* Simplification that does not change a bit of any result: folding of literals, and exact algebra
 * by tables of rules. Floats take part only where -0 and NaN come out right.
 *
 * A rule applies only if what it returns has the size of the result: a literal can be made in any
 * size, another variable has the one it has. */
#include "trace/private.h"

/* Values of a literal that rules ask for: a set. */
enum {
    VALUE_ZERO = 1, /* +0 */
    VALUE_ONE = 2,
    VALUE_ONES = 4, /* all bits, true */
    VALUE_MINUS_ZERO = 8,
    VALUE_POWER = 16 /* float: power of two, whose reciprocal is exact and normal */
};

/* What a rule returns. */
typedef enum outcome {
    OPERAND, /* the other operand; for equal operands, that one */
    ZERO,    /* literals of the result's type */
    ONES,
    TRUE_ /* the macro `true` must not be pasted here */
} outcome;

enum { LEFT = 1, RIGHT = 2, EITHER = LEFT | RIGHT };

/* op(x, literal) (RIGHT) or op(literal, x) (LEFT), for operands of the given classes. */
typedef struct literal_rule {
    uint8_t op, classes, side, value, outcome;
} literal_rule;

/* op(x, x) */
typedef struct same_rule {
    uint8_t op, classes, outcome;
} same_rule;

/* outer(inner(x)) is x, inner(x) or outer(x), for x of the given classes. */
typedef enum nested { X, INNER_X, OUTER_X } nested;
typedef struct nested_rule {
    uint8_t outer, inner, classes, outcome;
} nested_rule;

#define INTEGERS JITC_DOMAIN_INTEGER
#define OP(name) JITC_OP_##name

static const literal_rule literal_rules[] = {
    {OP(add), INTEGERS, EITHER, VALUE_ZERO, OPERAND},
    {OP(add), JITC_FLOAT, EITHER, VALUE_MINUS_ZERO, OPERAND},
    {OP(sub), JITC_DOMAIN_ARITH, RIGHT, VALUE_ZERO, OPERAND},
    {OP(mul), JITC_DOMAIN_ARITH, EITHER, VALUE_ONE, OPERAND},
    {OP(mul), INTEGERS, EITHER, VALUE_ZERO, ZERO},
    {OP(mul_hi), INTEGERS, EITHER, VALUE_ZERO, ZERO},
    {OP(mul_hi), JITC_UINT, EITHER, VALUE_ONE, ZERO},
    {OP(div), JITC_DOMAIN_ARITH, RIGHT, VALUE_ONE, OPERAND},
    {OP(div), INTEGERS, EITHER, VALUE_ZERO, ZERO},
    {OP(mod), INTEGERS, EITHER, VALUE_ZERO, ZERO},
    {OP(mod), INTEGERS, RIGHT, VALUE_ONE, ZERO},
    {OP(mod), JITC_INT, RIGHT, VALUE_ONES, ZERO},
    {OP(shl), INTEGERS, RIGHT, VALUE_ZERO, OPERAND},
    {OP(shl), INTEGERS, LEFT, VALUE_ZERO, ZERO},
    {OP(shr), INTEGERS, RIGHT, VALUE_ZERO, OPERAND},
    {OP(shr), INTEGERS, LEFT, VALUE_ZERO, ZERO},
    {OP(and), JITC_DOMAIN_BITS, EITHER, VALUE_ZERO, ZERO},
    {OP(and), JITC_DOMAIN_BITS, EITHER, VALUE_ONES, OPERAND},
    {OP(or), JITC_DOMAIN_BITS, EITHER, VALUE_ZERO, OPERAND},
    {OP(or), JITC_DOMAIN_BITS, EITHER, VALUE_ONES, ONES},
    {OP(xor), JITC_DOMAIN_BITS, EITHER, VALUE_ZERO, OPERAND},
    {OP(eq), JITC_BOOL, EITHER, VALUE_ONES, OPERAND},
    {OP(ne), JITC_BOOL, EITHER, VALUE_ZERO, OPERAND},
    {OP(min), JITC_UINT, EITHER, VALUE_ZERO, ZERO},
    {OP(min), JITC_UINT, EITHER, VALUE_ONES, OPERAND},
    {OP(max), JITC_UINT, EITHER, VALUE_ZERO, OPERAND},
    {OP(max), JITC_UINT, EITHER, VALUE_ONES, ONES},
};

static const same_rule same_rules[] = {
    {OP(sub), INTEGERS, ZERO},
    {OP(mod), INTEGERS, ZERO}, /* 0 mod 0 is 0 too */
    {OP(xor), JITC_DOMAIN_BITS, ZERO},
    {OP(and), JITC_DOMAIN_BITS, OPERAND},
    {OP(or), JITC_DOMAIN_BITS, OPERAND},
    {OP(min), JITC_DOMAIN_ARITH, OPERAND},
    {OP(max), JITC_DOMAIN_ARITH, OPERAND},
    {OP(fmin), JITC_FLOAT, OPERAND},
    {OP(fmax), JITC_FLOAT, OPERAND},
    {OP(copysign), JITC_FLOAT, OPERAND},
    {OP(eq), JITC_DOMAIN_BITS, TRUE_},
    {OP(le), JITC_DOMAIN_BITS, TRUE_},
    {OP(ge), JITC_DOMAIN_BITS, TRUE_},
    {OP(ne), JITC_DOMAIN_BITS, ZERO},
    {OP(lt), JITC_DOMAIN_ALL, ZERO},
    {OP(gt), JITC_DOMAIN_ALL, ZERO},
};

static const nested_rule nested_rules[] = {
    {OP(not), OP(not), JITC_DOMAIN_BITS, X},
    {OP(neg), OP(neg), JITC_DOMAIN_ARITH, X},
    {OP(brev), OP(brev), INTEGERS, X},
    {OP(abs), OP(abs), JITC_DOMAIN_ARITH, INNER_X},
    {OP(abs), OP(neg), JITC_INT | JITC_FLOAT, OUTER_X},
    {OP(floor), OP(floor), JITC_FLOAT, INNER_X},
    {OP(floor), OP(ceil), JITC_FLOAT, INNER_X},
    {OP(floor), OP(trunc), JITC_FLOAT, INNER_X},
    {OP(floor), OP(round), JITC_FLOAT, INNER_X},
    {OP(ceil), OP(floor), JITC_FLOAT, INNER_X},
    {OP(ceil), OP(ceil), JITC_FLOAT, INNER_X},
    {OP(ceil), OP(trunc), JITC_FLOAT, INNER_X},
    {OP(ceil), OP(round), JITC_FLOAT, INNER_X},
    {OP(trunc), OP(floor), JITC_FLOAT, INNER_X},
    {OP(trunc), OP(ceil), JITC_FLOAT, INNER_X},
    {OP(trunc), OP(trunc), JITC_FLOAT, INNER_X},
    {OP(trunc), OP(round), JITC_FLOAT, INNER_X},
    {OP(round), OP(floor), JITC_FLOAT, INNER_X},
    {OP(round), OP(ceil), JITC_FLOAT, INNER_X},
    {OP(round), OP(trunc), JITC_FLOAT, INNER_X},
    {OP(round), OP(round), JITC_FLOAT, INNER_X},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- values of literals ---- */

typedef struct float_format {
    unsigned mantissa; /* stored bits */
    uint64_t bias;
} float_format;

static float_format format_of(jit_dtype t) {
    switch (t) {
        case JIT_f16: return (float_format) {10, 15};
        case JIT_bf16: return (float_format) {7, 127};
        case JIT_f32: return (float_format) {23, 127};
        default: return (float_format) {52, 1023};
    }
}

/* Bits of 1/x for a power of two x, 0 if that is not exact and normal. */
static uint64_t power_reciprocal(jit_dtype t, uint64_t bits) {
    float_format f = format_of(t);
    uint64_t sign = bits & ~(jitc_bits_mask(t) >> 1), exponent = (bits ^ sign) >> f.mantissa;
    bool power = (bits ^ sign) == exponent << f.mantissa;
    if (!power || exponent < 1 || exponent >= 2 * f.bias)
        return 0;
    return sign | (2 * f.bias - exponent) << f.mantissa;
}

static unsigned float_values(jit_dtype t, uint64_t bits) {
    float_format f = format_of(t);
    if (bits == 0)
        return VALUE_ZERO;
    if (bits == f.bias << f.mantissa)
        return VALUE_ONE;
    if (bits == (jitc_bits_mask(t) >> 1) + 1)
        return VALUE_MINUS_ZERO;
    return power_reciprocal(t, bits) ? VALUE_POWER : 0;
}

static unsigned values(jit_dtype t, uint64_t bits) {
    if (jitc_dtypes[t].cls == JITC_FLOAT)
        return float_values(t, bits);
    uint64_t ones = t == JIT_bool ? 1 : jitc_bits_mask(t);
    return (bits == 0 ? VALUE_ZERO : 0u) | (bits == 1 ? VALUE_ONE : 0u) |
           (bits == ones ? VALUE_ONES : 0u);
}

bool jitc_literal_special(jit_dtype t, uint64_t bits) {
    return values(t, bits) != 0;
}

static bool is_literal(const jitc_call *call, uint32_t operand) {
    return call->node[operand]->op == JITC_OP_literal;
}

static uint64_t literal_bits(const jitc_graph *g, const jitc_call *call, uint32_t operand) {
    return *jitc_node_value(g, call->index[operand]);
}

bool jitc_literal_is(const jitc_graph *g, const jitc_call *call, uint32_t operand, uint64_t bits) {
    return is_literal(call, operand) && literal_bits(g, call, operand) == bits;
}

/* ---- what rules return ---- */

/* A variable instead of the call's result: itself, or a literal of it in the right size. */
static bool give(jitc_graph *g, const jitc_call *call, uint32_t i, uint32_t *out) {
    const jitc_node *n = jitc_node_at(g, i);
    if (jitc_node_size(n) == call->size) {
        *out = i;
        return true;
    }
    if (n->op != JITC_OP_literal)
        return false;
    *out = jitc_record_literal(g, call, jitc_node_type(n), *jitc_node_value(g, i));
    return true;
}

static bool give_literal(jitc_graph *g, const jitc_call *call, uint64_t bits, uint32_t *out) {
    *out = jitc_record_literal(g, call, call->result, bits);
    return true;
}

static bool apply(jitc_graph *g, const jitc_call *call, outcome o, uint32_t other, uint32_t *out) {
    switch (o) {
        case OPERAND: return give(g, call, call->index[other], out);
        case ZERO: return give_literal(g, call, 0, out);
        case TRUE_: return give_literal(g, call, 1, out);
        case ONES: break;
    }
    uint64_t ones = call->result == JIT_bool ? 1 : jitc_bits_mask(call->result);
    return give_literal(g, call, ones, out);
}

/* Another operation instead of the call, with the same backend, device and size. */
static bool give_call(jitc_graph *g, const jitc_call *simpler, uint32_t *out) {
    if (!jitc_simplify(g, simpler, out))
        *out = jitc_record_node(g, simpler);
    return true;
}

/* ---- binary ---- */

/* x / 2^k is x * 2^-k. */
static bool divide_by_power(jitc_graph *g, const jitc_call *call, uint32_t *out) {
    if (call->op != JITC_OP_div || jitc_dtypes[call->type].cls != JITC_FLOAT ||
        !is_literal(call, 1))
        return false;
    uint64_t reciprocal = power_reciprocal(call->type, literal_bits(g, call, 1));
    if (!reciprocal)
        return false;
    jitc_call factor = *call, product = *call;
    factor.size = jitc_node_size(call->node[1]);
    uint32_t i = jitc_record_literal(g, &factor, call->type, reciprocal);
    *out = 0;
    if (!i)
        return true;
    product.op = JITC_OP_mul;
    product.index[1] = i;
    product.node[1] = jitc_node_at(g, i);
    *out = jitc_record_node(g, &product);
    jitc_node_settle(g, i);
    return true;
}

static bool apply_literal_rules(jitc_graph *g, const jitc_call *call, uint32_t *out) {
    unsigned cls = jitc_dtypes[call->type].cls;
    unsigned value[2] = {0, 0};
    for (uint32_t i = 0; i < 2; ++i)
        if (is_literal(call, i))
            value[i] = values(call->type, literal_bits(g, call, i));
    for (size_t i = 0; i < COUNT(literal_rules); ++i) {
        const literal_rule *r = &literal_rules[i];
        if (r->op != call->op || !(r->classes & cls))
            continue;
        if ((r->side & RIGHT) && (r->value & value[1]) && apply(g, call, r->outcome, 0, out))
            return true;
        if ((r->side & LEFT) && (r->value & value[0]) && apply(g, call, r->outcome, 1, out))
            return true;
    }
    return divide_by_power(g, call, out);
}

static bool apply_same_rules(jitc_graph *g, const jitc_call *call, uint32_t *out) {
    for (size_t i = 0; i < COUNT(same_rules); ++i) {
        const same_rule *r = &same_rules[i];
        if (r->op == call->op && r->classes & jitc_dtypes[call->type].cls)
            return apply(g, call, r->outcome, 0, out);
    }
    return false;
}

static bool simplify_binary(jitc_graph *g, const jitc_call *call, uint32_t *out) {
    if (call->index[0] == call->index[1])
        return apply_same_rules(g, call, out);
    if ((call->node[0]->flags | call->node[1]->flags) & JITC_NODE_SPECIAL)
        return apply_literal_rules(g, call, out);
    return false;
}

/* ---- unary and casts ---- */

#define BIT(name) ((uint64_t) 1 << JITC_OP_##name)
#define NESTING                                                                                    \
    (BIT(not) | BIT(neg) | BIT(brev) | BIT(abs) | BIT(floor) | BIT(ceil) | BIT(trunc) | BIT(round))

bool jitc_may_simplify_unary(jitc_op op, jitc_op inner) {
    if (inner == JITC_OP_literal)
        return true;
    return inner < 64 && (uint64_t) 1 << inner & NESTING && op < 64 && (uint64_t) 1 << op & NESTING;
}

static bool simplify_unary(jitc_graph *g, const jitc_call *call, uint32_t *out) {
    const jitc_node *inner = call->node[0];
    for (size_t i = 0; i < COUNT(nested_rules); ++i) {
        const nested_rule *r = &nested_rules[i];
        if (r->outer != call->op || r->inner != inner->op ||
            !(r->classes & jitc_dtypes[call->type].cls))
            continue;
        if (r->outcome == INNER_X)
            return give(g, call, call->index[0], out);
        if (r->outcome == X)
            return give(g, call, inner->a, out);
        jitc_call simpler = *call;
        simpler.index[0] = inner->a;
        simpler.node[0] = jitc_node_at(g, inner->a);
        return give_call(g, &simpler, out);
    }
    return false;
}

/* Has the float type a value for every one of the integer type? */
static bool holds_integers(jit_dtype f, jit_dtype t) {
    unsigned digits = jitc_dtypes[t].bits - (jitc_dtypes[t].cls == JITC_INT ? 1u : 0u);
    return digits <= format_of(f).mantissa + 1;
}

/* Is t1 -> t2 -> t3 the same as t1 -> t3 for every value? */
static bool can_skip(jit_dtype t1, jit_dtype t2, jit_dtype t3) {
    unsigned c1 = jitc_dtypes[t1].cls, c2 = jitc_dtypes[t2].cls, c3 = jitc_dtypes[t3].cls;
    if (c1 == JITC_BOOL)
        return true; /* 0 and 1 are the same in all types */
    if (!(c1 & JITC_DOMAIN_INTEGER))
        return false;
    if (c2 & JITC_DOMAIN_INTEGER)
        return c3 & JITC_DOMAIN_INTEGER && jitc_dtypes[t3].bits <= jitc_dtypes[t2].bits;
    return c2 == JITC_FLOAT && t3 == t1 && holds_integers(t2, t1);
}

static bool simplify_cast(jitc_graph *g, const jitc_call *call, uint32_t *out) {
    if (call->type == call->result)
        return give(g, call, call->index[0], out);
    const jitc_node *inner = call->node[0];
    if (inner->op != call->op)
        return false;
    const jitc_node *x = jitc_node_at(g, inner->a);
    if (call->op == JITC_OP_cast && !can_skip(jitc_node_type(x), call->type, call->result))
        return false;
    jitc_call simpler = *call;
    simpler.index[0] = inner->a;
    simpler.node[0] = jitc_node_at(g, inner->a);
    simpler.type = jitc_node_type(x);
    return give_call(g, &simpler, out);
}

/* ---- select and gather ---- */

static bool simplify_select(jitc_graph *g, const jitc_call *call, uint32_t *out) {
    if (call->index[1] == call->index[2])
        return give(g, call, call->index[1], out);
    if (is_literal(call, 0))
        return give(g, call, call->index[literal_bits(g, call, 0) ? 1 : 2], out);
    if (call->type == JIT_bool && jitc_literal_is(g, call, 1, 1) && jitc_literal_is(g, call, 2, 0))
        return give(g, call, call->index[0], out);
    return false;
}

/* Every element of a literal is the same; an index out of range has to be reported, so it is left.
 */
static bool simplify_gather(jitc_graph *g, const jitc_call *call, uint32_t *out) {
    if (!is_literal(call, 0) || !is_literal(call, 1))
        return false;
    uint64_t index = literal_bits(g, call, 1);
    jit_dtype t = jitc_node_type(call->node[1]);
    bool negative = jitc_dtypes[t].cls == JITC_INT && index > jitc_bits_mask(t) >> 1;
    if (negative || index >= jitc_node_size(call->node[0]))
        return false;
    return give_literal(g, call, literal_bits(g, call, 0), out);
}

/* ---- folding ---- */

static bool fold(jitc_graph *g, const jitc_call *call, uint32_t *out) {
    uint64_t in[3] = {0, 0, 0}, bits;
    for (uint32_t i = 0; i < call->count; ++i) {
        if (!is_literal(call, i))
            return false;
        in[i] = literal_bits(g, call, i);
    }
    return jitc_fold(call->op, call->type, call->result, in, &bits) &&
           give_literal(g, call, bits, out);
}

bool jitc_simplify(jitc_graph *g, const jitc_call *call, uint32_t *out) {
    jitc_form form = jitc_ops[call->op].form;
    if (form == JITC_FORM_GATHER)
        return simplify_gather(g, call, out);
    if (form == JITC_FORM_SCATTER)
        return false;
    if (fold(g, call, out))
        return true;
    switch (form) {
        case JITC_FORM_UNARY: return simplify_unary(g, call, out);
        case JITC_FORM_BINARY: return simplify_binary(g, call, out);
        case JITC_FORM_SELECT: return simplify_select(g, call, out);
        case JITC_FORM_CAST: return simplify_cast(g, call, out);
        default: return false;
    }
}
