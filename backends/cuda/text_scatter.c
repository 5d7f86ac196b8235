/* text_scatter.c: values combined into elements of arrays, as CUDA C.
 * Layer: cuda.  May include: core, ir.
 *
 *   const u32 h5 = (u32) W(7) & 3;                 where the launch wants it to be done
 *   u32 *const m5 = ...;                           copy of the array in the block's memory
 *   for (start = ...; start < n; start += ...) {   lanes of all blocks
 *       for (u32 j = 0; j < 4; ++j) {              one lane, unrolled; those of a warp are
 *                                                  neighbours
 *           ...
 *           ok5[j] = ...; at5[j] = ...; in5[j] = ...;
 *       }
 *       for (u32 j = 0; j < 4; ++j) ...            whether, where and what to combine
 *   }
 *   for (u32 e = ...) ...                          the copy into the array
 *
 * All lanes of a warp come to where values are combined: those behind the end repeat the last lane
 * and combine nothing. So they can see whether several have the same element, of which one then
 * does it for all: else elements that many lanes have would take 30 times as long. In a block's
 * memory, instructions for 32-bit integers see to that themselves. Others compare and swap until
 * nobody was quicker; with little enough to combine into, each lane of a warp has a copy of its
 * own.
 *
 * Inside of a loop there is no such place, as lanes leave one by one: there, each does it at once,
 * alone. To ask which lanes are there (__activemask()) does not help: what the compiler makes of
 * the loop may run that where others are there than at what comes next. */
#include "cuda/text_scatter.h"

/** What a scatter_reduce combines with. */
typedef struct combining {
    uint32_t inst;
    jitc_cuda_access access;
    jit_reduce_op op;
    jit_dtype type;     /* of elements */
    const char *name;   /* of the operation: "add", */
    const char *as;     /* and the type that it works on: u32, u64, f32 or f64 */
    const char *suffix; /* of merge_add_u32, for the type of indices */
    uint32_t target;    /* JITC_CUDA_TARGETS: in place only */
} combining;

static bool is_real(jit_dtype t) {
    return jitc_dtypes[t].cls == JITC_FLOAT;
}
static bool is_extremum(jit_reduce_op op) {
    return op == JIT_REDUCE_MIN || op == JIT_REDUCE_MAX;
}

static const char *working_type(jit_reduce_op op, jit_dtype t) {
    if (is_real(t) && !is_extremum(op))
        return t == JIT_f64 ? "f64" : "f32";
    return jitc_dtypes[t].bits == 64 ? "u64" : "u32";
}

static combining combining_of(const jitc_cuda_body *k, uint32_t n) {
    const jitc_inst *i = &k->p->inst[n];
    jit_reduce_op op = jitc_inst_reduce(i);
    jit_dtype t = jitc_cuda_type_of(i);
    combining c = {.inst = n,
                   .access = jitc_cuda_access_of(k, n, i->a, i->c),
                   .op = op,
                   .type = t,
                   .name = jitc_reduce_name(op),
                   .as = working_type(op, t),
                   .target = jitc_cuda_target_of(k->p, n)};
    c.suffix = c.access.wide ? "_wide" : "";
    return c;
}

static bool is_inside(const jitc_program *p, uint32_t inst) {
    uint32_t loops = 0;
    for (uint32_t n = 0; n < inst; ++n)
        loops += p->inst[n].op == JITC_OP_loop ? 1u : p->inst[n].op == JITC_OP_end ? ~0u : 0u;
    return loops;
}
/** Is it done when all lanes of a thread are computed? */
static bool is_late(const jitc_program *p, uint32_t n) {
    const jitc_inst *i = &p->inst[n];
    return i->op == JITC_OP_scatter_reduce && !(i->aux & JITC_AUX_PART) && !is_inside(p, n);
}
#define FOR_LATE(k, n)                                                                             \
    for (uint32_t n = 0; n < (k)->p->head.count; ++n)                                              \
        if (is_late((k)->p, n))
#define FOR_TARGETS(k, n)                                                                          \
    for (uint32_t n = 0; n < (k)->p->head.count; ++n)                                              \
        if (jitc_cuda_target_of((k)->p, n) < JITC_CUDA_TARGETS)

/* Parts. */

/** The element that changes no other. */
static const char *identity(const combining *c) {
    switch (c->op) {
        case JIT_REDUCE_MUL: return "1";
        case JIT_REDUCE_MIN:
        case JIT_REDUCE_AND: return jitc_dtypes[c->type].bits == 64 ? "~(u64) 0" : "~(u32) 0";
        default: return "0";
    }
}

static void put_widened(jitc_cuda_body *k, jit_dtype t, uint32_t v) {
    jitc_cuda_putf(&k->w,
                   t == JIT_f16    ? "f32_from_f16(%v)"
                   : t == JIT_bf16 ? "f32_from_bf16(%v)"
                                   : "%v",
                   v);
}

/** The value as the operation's type has it. */
static void put_working(jitc_cuda_body *k, const combining *c) {
    uint32_t v = k->p->inst[c->inst].b;
    if (is_real(c->type)) {
        if (is_extremum(c->op))
            jitc_cuda_putf(&k->w, "order_%s_%s(", c->name, c->type == JIT_f64 ? "f64" : "f32");
        put_widened(k, c->type, v);
        jitc_cuda_put_text(&k->w, is_extremum(c->op) ? ")" : "");
    } else if (is_extremum(c->op) && jitc_dtypes[c->type].cls == JITC_INT) {
        bool wide = jitc_dtypes[c->type].bits == 64;
        jitc_cuda_putf(&k->w, wide ? "(u64) %v ^ (u64) 1 << 63" : "(u32) (i32) %v ^ (u32) 1 << 31",
                       v);
    } else {
        jitc_cuda_putf(&k->w, "(%s) %v", c->as, v);
    }
}

/** The unsigned type of the width of an element. */
static const char *storage(jit_dtype t) {
    switch (jitc_dtypes[t].bytes) {
        case 1: return "u8";
        case 2: return "u16";
        case 4: return "u32";
        default: return "u64";
    }
}

/** What atomic_add_... to call on an element of the array: integers of both kinds share most. */
static const char *element_type(const combining *c) {
    bool is_signed = jitc_dtypes[c->type].cls == JITC_INT && is_extremum(c->op);
    return is_real(c->type) || is_signed ? jitc_dtypes[c->type].name : storage(c->type);
}

/** Combine `value` into the array, at the index `at`. */
static void put_in_place(jitc_cuda_body *k, const combining *c, const char *at, const char *value) {
    const char *type = element_type(c),
               *pointed = jitc_dtypes[c->type].bits < 32 ? storage(c->type) : type;
    jitc_cuda_putf(&k->w, "atomic_%s_%s((%s *) W(%u) + %s, %s);\n", c->name, type, pointed,
                   k->p->inst[c->access.buffer].a, at, value);
}

/** Combine x into the element at the index `at`, wherever it is. */
static void put_combine(jitc_cuda_body *k, const combining *c) {
    if (c->target < JITC_CUDA_TARGETS)
        jitc_cuda_putf(&k->w, "    if (%h) atomic_%s_%s(%m + ((u32) at << %c | %l), x);\n    else ",
                       c->inst, c->name, c->as, c->inst, c->inst, c->inst);
    put_in_place(k, c, "at", "x");
}

/* Lanes. */

/** Old values: all lanes of a warp take part, or, in a loop, each alone. */
static void put_fetch(jitc_cuda_body *k, const combining *c) {
    const char *type = jitc_cuda_type(c->type), *stored = storage(c->type);
    const char *as = jitc_dtypes[c->type].bits == 64 ? "u64" : "u32";
    uint32_t n = c->inst, v = k->p->inst[n].b, array = k->p->inst[c->access.buffer].a;
    jitc_cuda_putf(&k->w, "    %s *const %p = (%s *) W(%u) + (%s) %v;\n    const %s %v = (%s) (",
                   stored, n, stored, array, jitc_cuda_index_type(&c->access), c->access.index,
                   type, n, type);
    if (is_inside(k->p, n))
        jitc_cuda_putf(&k->w, "%k ? fetch_%s(%p, (%s) %v) : 0);\n", n, stored, n, as, v);
    else
        jitc_cuda_putf(&k->w, "count_%s(%k, %p, (%s) %v));\n", stored, n, n, as, v);
}

static void put_at_once(jitc_cuda_body *k, const combining *c) {
    const char *type = jitc_cuda_index_type(&c->access);
    jitc_cuda_putf(&k->w, "    if (%k) {\n    const %s at = (%s) %v;\n    const %s x = ", c->inst,
                   type, type, c->access.index, c->as);
    put_working(k, c);
    jitc_cuda_put_text(&k->w, ";\n");
    put_combine(k, c);
    jitc_cuda_put_text(&k->w, "    }\n");
}

static void put_for_later(jitc_cuda_body *k, const combining *c) {
    jitc_cuda_putf(&k->w, "    ok%u[j] = %k; at%u[j] = (%s) %v; in%u[j] = ", c->inst, c->inst,
                   c->inst, jitc_cuda_index_type(&c->access), c->access.index, c->inst);
    put_working(k, c);
    jitc_cuda_put_text(&k->w, ";\n");
}

static void put_scatter_reduce(jitc_cuda_body *k, uint32_t n) {
    combining c = combining_of(k, n);
    jitc_cuda_put_check(k, &c.access);
    if (k->p->inst[n].aux & JITC_AUX_PART)
        put_fetch(k, &c);
    else if (is_inside(k->p, n))
        put_at_once(k, &c);
    else
        put_for_later(k, &c);
}

/* The lanes of a thread, once they are computed. */

static void put_room_for_lanes(jitc_cuda_body *k, uint32_t rows) {
    FOR_LATE(k, n) {
        combining c = combining_of(k, n);
        jitc_cuda_putf(&k->w, "    bool ok%u[%u]; %s at%u[%u]; %s in%u[%u];\n", n, rows,
                       jitc_cuda_index_type(&c.access), n, rows, c.as, n, rows);
    }
}

/** Lanes come together before, but where it does not matter. */
static void put_merge(jitc_cuda_body *k, const combining *c) {
    jitc_cuda_put_text(&k->w, "    ");
    if (c->target < JITC_CUDA_TARGETS)
        jitc_cuda_putf(&k->w, jitc_cuda_is_direct(c->op, c->type) ? "if (!%h) " : "if (%h != 2) ",
                       c->inst);
    jitc_cuda_putf(&k->w, "ok = merge_%s_%s%s(ok, at, &x);\n", c->name, c->as, c->suffix);
}

static void put_late(jitc_cuda_body *k, uint32_t rows) {
    FOR_LATE(k, n) {
        combining c = combining_of(k, n);
        jitc_cuda_putf(&k->w,
                       "    #pragma unroll\n    for (u32 j = 0; j < %u; ++j) {\n"
                       "    bool ok = ok%u[j]; const %s at = at%u[j]; %s x = in%u[j];\n",
                       rows, n, jitc_cuda_index_type(&c.access), n, c.as, n);
        put_merge(k, &c);
        jitc_cuda_put_text(&k->w, "    if (ok) {\n");
        put_combine(k, &c);
        jitc_cuda_put_text(&k->w, "    }\n    }\n");
    }
}

/* The block's memory. */

/** h5: where, c5: 5 with columns, else 0, l5: the column, e5: elements of all, m5: they. */
static void put_room(jitc_cuda_body *k) {
    uint32_t places = k->p->head.scratch + 1;
    jitc_cuda_put_text(&k->w, "    SHARED_DYNAMIC(u64, pool);\n    u32 used = 0;\n");
    FOR_TARGETS(k, n) {
        combining c = combining_of(k, n);
        jitc_cuda_putf(&k->w,
                       "    const u32 %h = (u32) W(%u) >> %u & 3; const u32 %c = %h == 2 ? 5 : 0;\n"
                       "    const u32 %l = %h == 2 ? lane : 0;\n"
                       "    const u32 %e = %h ? (u32) W(%u) << %c : 0;\n",
                       n, places, 2 * c.target, n, n, n, n, n, n, k->p->inst[c.access.buffer].a + 1,
                       n);
        jitc_cuda_putf(&k->w,
                       "    %s *const %m = (%s *) (pool + used);\n"
                       "    used += (%e * %u + 7) / 8;\n"
                       "    #pragma unroll 1\n"
                       "    for (u32 e = threadIdx.x; e < %e; e += blockDim.x) %m[e] = %s;\n",
                       c.as, n, c.as, n, jitc_dtypes[c.type].bits == 64 ? 8 : 4, n, n,
                       identity(&c));
    }
    jitc_cuda_put_text(&k->w, "    if (used) __syncthreads();\n");
}

/** What the block has, into the arrays. */
static void put_flush(jitc_cuda_body *k) {
    jitc_cuda_put_text(&k->w, "    if (used) __syncthreads();\n");
    FOR_TARGETS(k, n) {
        combining c = combining_of(k, n);
        jitc_cuda_putf(&k->w,
                       "    #pragma unroll 1\n"
                       "    for (u32 e = threadIdx.x; e < %e >> %c; e += blockDim.x) {\n"
                       "    const u32 others = (1u << %c) - 1;\n"
                       "    %s x = %m[e << %c | (e & others)];\n"
                       "    #pragma unroll 4\n"
                       "    for (u32 o = 1; o <= others; ++o)\n"
                       "    x = join_%s_%s(x, %m[e << %c | ((e + o) & others)]);\n",
                       n, n, n, c.as, n, n, c.name, c.as, n, n);
        jitc_cuda_putf(&k->w, "    if (x != %s) ", identity(&c));
        put_in_place(k, &c, "e", "x");
        jitc_cuda_put_text(&k->w, "    }\n");
    }
}

/* The whole. */

static bool has_targets(const jitc_cuda_body *k) {
    FOR_TARGETS(k, n)
    return true;
    return false;
}

void jitc_cuda_put_targets(jitc_cuda_body *k) {
    uint32_t rows = jitc_cuda_targets_of(k->p).rows;
    bool targets = has_targets(k);
    k->combine = put_scatter_reduce;
    k->repeats = true;
    jitc_cuda_put_head(k, "");
    jitc_cuda_put_text(&k->w, "    const u32 lane = threadIdx.x & 31;\n");
    if (targets)
        put_room(k);
    jitc_cuda_put_instructions(k, true);
    jitc_cuda_putf(
        &k->w,
        "    #pragma unroll 1\n"
        "    for (%s start = (%s) blockIdx.x * blockDim.x * %u; start < n; start += (%s) "
        "gridDim.x * blockDim.x * %u) {\n"
        "    const %s first = start + (threadIdx.x >> 5) * %u + lane;\n",
        k->index, k->index, rows, k->index, rows, k->index, 32 * rows);
    put_room_for_lanes(k, rows);
    jitc_cuda_putf(&k->w,
                   "    #pragma unroll\n    for (u32 j = 0; j < %u; ++j) {\n"
                   "    const %s next = first + j * 32; const bool live = next < n;\n"
                   "    const %s i = live ? next : n - 1;\n",
                   rows, k->index, k->index);
    jitc_cuda_put_instructions(k, false);
    jitc_cuda_put_text(&k->w, "    }\n");
    put_late(k, rows);
    jitc_cuda_put_text(&k->w, "    }\n");
    if (targets)
        put_flush(k);
    jitc_cuda_put_text(&k->w, "}\n");
}
