/* text.c: a program as CUDA C.  Layer: cuda.  May include: core, ir.
 *
 *   const u32 t = ...; const u32 first = t * 4u;       the thread and its first lane
 *   if (first >= n) return;
 *   const f32 v1 = ...;                                literals and uniform values
 *   union f32x4 r0; r0.all = LD_uint4(...);            vectors of the inputs
 *   for (u32 j = 0; j < 4; ++j) {                      one lane, unrolled
 *       const f32 v0 = r0.e[j];
 *       const f32 v2 = v0 * v1;
 *       r3.e[j] = v2;
 *   }
 *   ST(..., r3.all);                                   vectors of the outputs
 *
 * With one lane a thread, loads and stores stand among the operations instead, as they do where
 * there are loops (text_loop.c). What is scattered waits in arrays until all lanes are computed, so
 * that the loads of gathers overlap. Without a tail to mind, the last vector is read and written
 * whole: our arrays are padded. */
#include "cuda/prelude.h"
#include "cuda/text_loop.h"
#include "cuda/text_parts.h"
#include "cuda/text_reduce.h"
#include "cuda/text_scatter.h"
#include <stdio.h>
#include <stdlib.h>

enum {
    ACCESS_BYTES = 16,    /* that a thread reads or writes at once */
    INDEXED_ELEMENTS = 4, /* at most, where a program gathers */
    UNROLLED_WORK = 1200  /* at most, of all lanes of a thread: compile time grows with it */
};

typedef jitc_cuda_body kernel;

bool jitc_cuda_is_early(const jitc_inst *i) {
    switch (i->op) {
        case JITC_OP_literal: return true;
        case JITC_OP_data: return i->flags & JITC_INST_SCALAR;
        case JITC_OP_counter:
        case JITC_OP_store:
        case JITC_OP_scatter:
        case JITC_OP_scatter_reduce:
        case JITC_OP_phi:
        case JITC_OP_reduce:
        case JITC_OP_block_reduce:
        case JITC_OP_prefix_reduce:
        case JITC_OP_compress: return false;
        default: return i->flags & JITC_INST_UNIFORM;
    }
}
static bool is_silent(const jitc_inst *i) {
    return i->op == JITC_OP_masked || i->op == JITC_OP_buffer;
}

/* Layout. */

static uint32_t work_of(const jitc_inst *i) {
    if (jitc_cuda_is_early(i) || is_silent(i))
        return 0;
    if (jitc_ops[i->op].props & JITC_INEXACT)
        return 20;
    return i->op == JITC_OP_div || i->op == JITC_OP_mod ? 8 : 1;
}

uint64_t jitc_cuda_work_of(const jitc_program *p) {
    uint64_t work = 0;
    for (uint32_t n = 0; n < p->head.count; ++n)
        work += work_of(&p->inst[n]);
    return work;
}

uint32_t jitc_cuda_bytes_read(const jitc_program *p, uint32_t lanes) {
    uint32_t bytes = 0;
    for (uint32_t n = 0; n < p->head.count; ++n)
        if (p->inst[n].op == JITC_OP_data && jitc_cuda_is_vector(&p->inst[n]))
            bytes += lanes * jitc_dtypes[p->inst[n].type].bytes;
    return bytes;
}

jitc_cuda_layout jitc_cuda_layout_of(const jitc_program *p, uint32_t most_bytes) {
    uint64_t work = jitc_cuda_work_of(p);
    uint32_t widest = 0, limit = ACCESS_BYTES;
    for (uint32_t n = 0; n < p->head.count; ++n) {
        const jitc_inst *i = &p->inst[n];
        if (jitc_cuda_is_vector(i) && jitc_dtypes[i->type].bytes > widest)
            widest = jitc_dtypes[i->type].bytes;
        if (i->op == JITC_OP_gather && !jitc_cuda_is_early(i) && limit > INDEXED_ELEMENTS)
            limit = INDEXED_ELEMENTS;
        /* Neighbouring threads may well write neighbours; lanes leave loops one by one. */
        if (i->op == JITC_OP_scatter || i->op == JITC_OP_scatter_reduce || i->op == JITC_OP_loop)
            limit = 1;
    }
    uint32_t elements = widest ? ACCESS_BYTES / widest : 1;
    if (elements > limit)
        elements = limit;
    while (elements > 1 && elements * work > UNROLLED_WORK)
        elements /= 2;
    return (jitc_cuda_layout) {elements, 8 * ((uint64_t) p->head.params + 1) > most_bytes};
}

/* Vectors of the inputs and outputs. */

/** The type that `elements` elements of type t are read as. */
static const char *vector_type(const kernel *k, jit_dtype t) {
    switch (k->layout.elements * jitc_dtypes[t].bytes) {
        case 2: return "u16";
        case 4: return "u32";
        case 8: return "uint2";
        default: return "uint4";
    }
}

static void put_unions(kernel *k) {
    bool seen[JITC_DTYPE_COUNT] = {false};
    for (uint32_t n = 0; n < k->p->head.count; ++n) {
        const jitc_inst *i = &k->p->inst[n];
        jit_dtype t = i->type == JIT_f16 || i->type == JIT_bf16 ? JIT_u16
                      : i->type == JIT_bool                     ? JIT_u8
                                                                : jitc_cuda_type_of(i);
        if (!jitc_cuda_is_vector(i) || seen[t])
            continue;
        seen[t] = true;
        const char *name = jitc_cuda_memory_type(t);
        jitc_cuda_putf(&k->w, "union %sx%u { %s all; %s e[%u]; };\n", name, k->layout.elements,
                       vector_type(k, t), name, k->layout.elements);
    }
}

static void put_for_each_lane(kernel *k) {
    jitc_cuda_putf(&k->w, "    #pragma unroll\n    for (u32 j = 0; j < %u; ++j)",
                   k->layout.elements);
}

/** May the vector of i be accessed whole? */
static void put_if_whole(kernel *k, const jitc_inst *i) {
    uint32_t bytes = k->layout.elements * jitc_dtypes[i->type].bytes;
    jitc_cuda_putf(&k->w, "if (whole && (W(%u) & %u) == 0) ", jitc_cuda_pointer_of(i), bytes - 1);
}

static void put_vector_load(kernel *k, uint32_t n) {
    const jitc_inst *i = &k->p->inst[n];
    const char *name = jitc_cuda_memory_type(jitc_cuda_type_of(i));
    jitc_cuda_putf(&k->w, "    union %sx%u %r;\n    ", name, k->layout.elements, n);
    if (k->tail)
        put_if_whole(k, i);
    jitc_cuda_putf(&k->w, "%r.all = LD_%s((const %s *) W(%u) + t);\n", n,
                   vector_type(k, jitc_cuda_type_of(i)), vector_type(k, jitc_cuda_type_of(i)),
                   i->a);
    if (!k->tail)
        return;
    jitc_cuda_put_text(&k->w, "    else {\n");
    put_for_each_lane(k);
    jitc_cuda_putf(&k->w, " %r.e[j] = first + j < n ? LD_%s((const %s *) W(%u) + first + j) : 0;\n",
                   n, name, name, i->a);
    jitc_cuda_put_text(&k->w, "    }\n");
}

static void put_vector_store(kernel *k, uint32_t n) {
    const jitc_inst *i = &k->p->inst[n];
    jitc_cuda_put_text(&k->w, "    ");
    if (k->tail)
        put_if_whole(k, i);
    jitc_cuda_putf(&k->w, "ST((%s *) W(%u) + t, %r.all);\n", vector_type(k, jitc_cuda_type_of(i)),
                   i->b, n);
    if (!k->tail)
        return;
    jitc_cuda_put_text(&k->w, "    else {\n");
    put_for_each_lane(k);
    jitc_cuda_putf(&k->w, " if (first + j < n) ST((%s *) W(%u) + first + j, %r.e[j]);\n",
                   jitc_cuda_memory_type(jitc_cuda_type_of(i)), i->b, n);
    jitc_cuda_put_text(&k->w, "    }\n");
}

static void put_vector_loads(kernel *k) {
    if (k->tail)
        jitc_cuda_putf(&k->w, "    const bool whole = n - first >= %u;\n", k->layout.elements);
    for (uint32_t n = 0; n < k->p->head.count; ++n) {
        const jitc_inst *i = &k->p->inst[n];
        if (i->op == JITC_OP_data && jitc_cuda_is_vector(i))
            put_vector_load(k, n);
        else if (i->op == JITC_OP_store)
            jitc_cuda_putf(&k->w, "    union %sx%u %r;\n",
                           jitc_cuda_memory_type(jitc_cuda_type_of(i)), k->layout.elements, n);
    }
}

static void put_vector_stores(kernel *k) {
    for (uint32_t n = 0; n < k->p->head.count; ++n)
        if (k->p->inst[n].op == JITC_OP_store)
            put_vector_store(k, n);
}

/* Accesses by index. */

jitc_cuda_access jitc_cuda_access_of(const kernel *k, uint32_t inst, uint32_t buffer,
                                     uint32_t index) {
    const jitc_inst *all = k->p->inst, *at = &all[index];
    jitc_cuda_access a = {
        .inst = inst, .buffer = buffer, .index = index, .early = jitc_cuda_is_early(&all[inst])};
    if (at->op == JITC_OP_masked) {
        a.masked = true;
        a.index = at->a;
        a.mask = at->b;
    }
    /* 32 bits are enough unless the array or the index's type is larger. */
    a.wide = k->wide || jitc_dtypes[all[a.index].type].bits == 64;
    return a;
}

const char *jitc_cuda_index_type(const jitc_cuda_access *a) {
    return a->wide ? "u64" : "u32";
}

/* Indices are compared as unsigned, so that negative ones are out of range too. */
void jitc_cuda_put_check(kernel *k, const jitc_cuda_access *a) {
    const jitc_inst *buffer = &k->p->inst[a->buffer];
    bool report = k->p->head.flags & JITC_PROGRAM_BOUNDS;
    bool in_lanes = !a->early && (report || k->p->inst[a->inst].op != JITC_OP_gather);
    jitc_cuda_putf(&k->w, "    const bool %b = true", a->inst);
    if (a->masked)
        jitc_cuda_putf(&k->w, " && %v", a->mask);
    if (in_lanes && (k->layout.elements > 1))
        jitc_cuda_put_text(&k->w, " && i < n");
    if (in_lanes && k->repeats)
        jitc_cuda_put_text(&k->w, " && live");
    jitc_cuda_putf(&k->w, ";\n    const bool %k = %b && (%s) %v < (%s) W(%u);\n", a->inst, a->inst,
                   jitc_cuda_index_type(a), a->index, jitc_cuda_index_type(a), buffer->a + 1);
    if (report)
        jitc_cuda_putf(&k->w, "    if (%b && !%k) report_bounds(W(%u), %u, (u64) %v, W(%u));\n",
                       a->inst, a->inst, k->p->head.report, a->inst + 1, a->index, buffer->a + 1);
}

void jitc_cuda_put_element(kernel *k, const jitc_cuda_access *a, const char *qualifier) {
    const jitc_inst *buffer = &k->p->inst[a->buffer];
    jitc_cuda_putf(&k->w, "(%s%s *) W(%u) + (%s) %v", qualifier,
                   jitc_cuda_memory_type(jitc_cuda_type_of(buffer)), buffer->a,
                   jitc_cuda_index_type(a), a->index);
}

/** Is value n plainly another one in each lane? What is not may be loaded before all lanes. */
static bool varies(const jitc_program *p, uint32_t n, unsigned depth) {
    const jitc_inst *i = &p->inst[n];
    const uint32_t operands[] = {i->a, i->b, i->c};
    if (i->op == JITC_OP_counter || (i->op == JITC_OP_data && jitc_cuda_is_vector(i)))
        return true;
    if (jitc_ops[i->op].form == JITC_FORM_GATHER)
        return depth && varies(p, i->b, depth - 1);
    for (unsigned o = 0; depth && o < jitc_inst_operands(i); ++o)
        if (varies(p, operands[o], depth - 1))
            return true;
    return false;
}

static void put_gather(kernel *k, uint32_t n) {
    const jitc_inst *i = &k->p->inst[n];
    jitc_cuda_access a = jitc_cuda_access_of(k, n, i->a, i->b);
    jitc_cuda_put_check(k, &a);
    bool stays = k->p->head.flags & JITC_PROGRAM_LOOPS || !varies(k->p, a.index, 6);
    const char *load = stays ? "GUARDED" : "LD";
    jitc_cuda_putf(&k->w, "    const %s %v = %k ? %s_%s(", jitc_cuda_type(jitc_cuda_type_of(i)), n,
                   n, load, jitc_cuda_memory_type(jitc_cuda_type_of(i)));
    jitc_cuda_put_element(k, &a, "const ");
    jitc_cuda_put_text(&k->w, i->type == JIT_bool ? ") != 0 : 0;\n" : ") : 0;\n");
}

static void put_scatter(kernel *k, uint32_t n) {
    const jitc_inst *i = &k->p->inst[n];
    jitc_cuda_access a = jitc_cuda_access_of(k, n, i->a, i->c);
    jitc_cuda_put_check(k, &a);
    jitc_cuda_putf(&k->w, "    if (%k) ST(", n);
    jitc_cuda_put_element(k, &a, "");
    jitc_cuda_putf(&k->w, ", %v);\n", i->b);
}

/* Instructions. */

static void put_data(kernel *k, uint32_t n) {
    const jitc_inst *i = &k->p->inst[n];
    const char *as_bool = i->type == JIT_bool ? " != 0" : "";
    const char *memory = jitc_cuda_memory_type(jitc_cuda_type_of(i));
    jitc_cuda_putf(&k->w, "    const %s %v = ", jitc_cuda_type(jitc_cuda_type_of(i)), n);
    if (jitc_cuda_is_vector(i) && k->layout.elements > 1)
        jitc_cuda_putf(&k->w, "%r.e[j]%s;\n", n, as_bool);
    else
        jitc_cuda_putf(&k->w, "LD_%s((const %s *) W(%u)%s)%s;\n", memory, memory, i->a,
                       jitc_cuda_is_vector(i) ? " + i" : "", as_bool);
}

static void put_store(kernel *k, uint32_t n) {
    const jitc_inst *i = &k->p->inst[n];
    if (k->layout.elements > 1)
        jitc_cuda_putf(&k->w, "    %r.e[j] = %v;\n", n, i->a);
    else
        jitc_cuda_putf(&k->w, "    %sST((%s *) W(%u) + i, %v);\n", k->repeats ? "if (live) " : "",
                       jitc_cuda_memory_type(jitc_cuda_type_of(i)), i->b, i->a);
}

static void put_value(kernel *k, uint32_t n) {
    const jitc_inst *i = &k->p->inst[n];
    jitc_cuda_putf(&k->w, "    const %s %v = ", jitc_cuda_type(jitc_cuda_type_of(i)), n);
    if (i->op == JITC_OP_literal)
        jitc_cuda_put_literal(&k->w, i);
    else if (i->op == JITC_OP_counter)
        jitc_cuda_put_char(&k->w, 'i');
    else
        jitc_cuda_put_operation(&k->w, k->p, i);
    jitc_cuda_put_text(&k->w, ";\n");
}

static void put_instruction(kernel *k, uint32_t n) {
    switch (k->p->inst[n].op) {
        case JITC_OP_masked:
        case JITC_OP_buffer: break;
        case JITC_OP_data: put_data(k, n); break;
        case JITC_OP_store: put_store(k, n); break;
        case JITC_OP_gather: put_gather(k, n); break;
        case JITC_OP_scatter: put_scatter(k, n); break;
        case JITC_OP_scatter_reduce:
        case JITC_OP_reduce:
        case JITC_OP_block_reduce:
        case JITC_OP_prefix_reduce:
        case JITC_OP_compress: k->combine(k, n); break;
        case JITC_OP_loop:
        case JITC_OP_phi:
        case JITC_OP_test:
        case JITC_OP_next:
        case JITC_OP_end: jitc_cuda_put_loop(k, n); break;
        default: put_value(k, n); break;
    }
}

void jitc_cuda_put_instructions(kernel *k, bool early) {
    unsigned loops = 0;
    for (uint32_t n = 0; n < k->p->head.count; ++n) {
        const jitc_inst *i = &k->p->inst[n];
        loops += i->op == JITC_OP_loop;
        bool stays = loops && i->op != JITC_OP_literal; /* maybe no lane comes there */
        if ((jitc_cuda_is_early(i) && !stays) == early)
            put_instruction(k, n);
        loops -= i->op == JITC_OP_end;
    }
}

/** In the program's order, where literals stand close to their use: read earlier, they would take
 * registers. */
void jitc_cuda_put_all_instructions(kernel *k) {
    for (uint32_t n = 0; n < k->p->head.count; ++n)
        put_instruction(k, n);
}

/* The whole. */

void jitc_cuda_put_head(kernel *k, const char *bounds) {
    char name[32];
    snprintf(name, sizeof name, JITC_CUDA_NAME, (unsigned long long) jitc_cuda_name_of(k->p));
    if (k->layout.in_memory)
        jitc_cuda_putf(&k->w,
                       "#define W(number) LD_u64(word + (number))\n"
                       "KERNEL void %s%s(u64 lanes, const u64 *word) {\n",
                       bounds, name);
    else
        jitc_cuda_putf(&k->w,
                       "struct parameters { u64 n; u64 word[%u]; };\n"
                       "#define W(number) P.word[number]\n"
                       "KERNEL void %s%s(const struct parameters P) {\n",
                       k->p->head.params ? k->p->head.params : 1, bounds, name);
    jitc_cuda_putf(&k->w, "    const %s n = (%s) %s;\n", k->index, k->index,
                   k->layout.in_memory ? "lanes" : "P.n");
}

static void put_lanes(kernel *k) {
    bool several = k->layout.elements > 1;
    const char *name = several ? "t" : "i";
    jitc_cuda_putf(&k->w, "    const %s %s = (%s) blockIdx.x * blockDim.x + threadIdx.x;\n",
                   k->index, name, k->index);
    if (several)
        jitc_cuda_putf(&k->w, "    const %s first = t * %u;\n", k->index, k->layout.elements);
    jitc_cuda_putf(&k->w, "    if (%s >= n) return;\n", several ? "first" : name);
}

static void put_body(kernel *k) {
    if (k->layout.elements > 1)
        put_unions(k);
    jitc_cuda_put_head(k, "");
    put_lanes(k);
    if (k->layout.elements > 1) {
        jitc_cuda_put_instructions(k, true);
        put_vector_loads(k);
        put_for_each_lane(k);
        jitc_cuda_put_text(&k->w, " {\n");
        if (k->numbered)
            jitc_cuda_putf(&k->w, "    const %s i = first + j;\n", k->index);
        jitc_cuda_put_instructions(k, false);
        jitc_cuda_put_text(&k->w, "    }\n");
        put_vector_stores(k);
    } else {
        jitc_cuda_put_all_instructions(k);
    }
    jitc_cuda_put_text(&k->w, "}\n");
}

static bool needs_numbers(const jitc_program *p) {
    for (uint32_t n = 0; n < p->head.count; ++n) {
        uint8_t op = p->inst[n].op;
        if (op == JITC_OP_counter || op == JITC_OP_gather || op == JITC_OP_scatter)
            return true;
    }
    return false;
}

uint64_t jitc_cuda_name_of(const jitc_program *p) {
    return jitc_program_hash(p, 0).lo >> 16;
}

jit_status jitc_cuda_text(const jitc_program *p, jitc_cuda_layout layout, char **out) {
    bool wide = p->head.flags & JITC_PROGRAM_WIDE;
    kernel k = {.p = p,
                .layout = layout,
                .index = wide ? "u64" : "u32",
                .tail = p->head.flags & JITC_PROGRAM_TAIL,
                .wide = wide,
                .numbered = needs_numbers(p)};
    jitc_cuda_writer whole = {0};
    switch (p->head.shape) {
        case JITC_SHAPE_REDUCE: jitc_cuda_put_reduce(&k); break;
        case JITC_SHAPE_BLOCK_REDUCE: jitc_cuda_put_teams(&k); break;
        case JITC_SHAPE_SCAN: jitc_cuda_put_scan(&k); break;
        case JITC_SHAPE_COMPRESS: jitc_cuda_put_compress(&k); break;
        case JITC_SHAPE_SORT: jitc_cuda_put_sort(&k); break;
        default:
            if (jitc_cuda_targets_of(p).rows)
                jitc_cuda_put_targets(&k);
            else
                put_body(&k);
            break;
    }
    jitc_cuda_put_prelude(&whole, k.w.data, k.w.size);
    jitc_cuda_put(&whole, k.w.data, k.w.size);
    if (k.w.status != JIT_OK)
        whole.status = k.w.status;
    free(k.w.data);
    return jitc_cuda_writer_take(&whole, out);
}
