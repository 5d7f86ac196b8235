/* text_tile.c: the lanes of a tile in a text.  Layer: cuda.  May include: core, ir.
 *
 *   for (u32 g = 0; g < 4; g += 2) {               rows, so many together
 *       union f32x4 q1[2];
 *       for (u32 h = 0; h < 2; ++h) ...            are loaded,
 *       for (u32 h = 0; h < 2; ++h) {              then computed,
 *           union f32x4 r1 = q1[h], r5;
 *           for (u32 j = 0; j < 4; ++j) { ... }    lane by lane,
 *           ST(..., r5.all[0]);                    and written
 *       }
 *   } */
#include "cuda/text_tile.h"

enum { PIECE = 16 /* bytes that are accessed at once */ };

static bool is_small_real(jit_dtype t) {
    return t == JIT_f16 || t == JIT_bf16;
}

/* ---- Vectors ---- */

uint32_t jitc_cuda_pieces(jit_dtype t, uint32_t lanes) {
    uint32_t bytes = lanes * jitc_dtypes[t].bytes;
    return bytes > PIECE ? bytes / PIECE : 1;
}

const char *jitc_cuda_piece_type(jit_dtype t, uint32_t lanes) {
    switch (lanes * jitc_dtypes[t].bytes) {
        case 1: return "u8";
        case 2: return "u16";
        case 4: return "u32";
        case 8: return "uint2";
        default: return "uint4";
    }
}

void jitc_cuda_put_vector_types(jitc_cuda_body *k, uint32_t lanes) {
    bool seen[JITC_DTYPE_COUNT] = {false};
    for (uint32_t n = 0; n < k->p->head.count; ++n) {
        const jitc_inst *i = &k->p->inst[n];
        jit_dtype t = i->type == JIT_bool                   ? JIT_u8
                      : is_small_real(jitc_cuda_type_of(i)) ? JIT_u16
                                                            : jitc_cuda_type_of(i);
        bool scanned = i->op == JITC_OP_prefix_reduce;
        if ((!jitc_cuda_is_vector(i) && !scanned) || seen[t])
            continue;
        seen[t] = true;
        const char *name = jitc_cuda_memory_type(t);
        jitc_cuda_putf(&k->w, "union %sx%u { %s all[%u]; %s e[%u]; };\n", name, lanes,
                       jitc_cuda_piece_type(t, lanes), jitc_cuda_pieces(t, lanes), name, lanes);
    }
}

/** Of the vector that begins at `first`, as the condition of an if. */
static void put_if_vector(jitc_cuda_body *k, const jitc_inst *i, const jitc_cuda_rows *rows) {
    uint32_t bytes = rows->lanes * jitc_dtypes[i->type].bytes;
    if (!k->tail || rows->aligned)
        return;
    jitc_cuda_putf(&k->w, "if ((W(%u) & %u) == 0", jitc_cuda_pointer_of(i),
                   bytes > PIECE ? PIECE - 1 : bytes - 1);
    jitc_cuda_put_text(&k->w, rows->guarded ? " && whole) " : ") ");
}

/** Where a vector's pieces are in memory. */
static void put_place(jitc_cuda_body *k, const jitc_inst *i, uint32_t lanes, uint32_t piece,
                      const char *qualifier) {
    jitc_cuda_putf(&k->w, "(%s%s *) (W(%u) + (u64) first * %u) + %u", qualifier,
                   jitc_cuda_piece_type(jitc_cuda_type_of(i), lanes), jitc_cuda_pointer_of(i),
                   (uint32_t) jitc_dtypes[i->type].bytes, piece);
}

static void put_load(jitc_cuda_body *k, uint32_t n, const jitc_cuda_rows *rows) {
    const jitc_inst *i = &k->p->inst[n];
    jit_dtype t = jitc_cuda_type_of(i);
    const char *memory = jitc_cuda_memory_type(t);
    put_if_vector(k, i, rows);
    jitc_cuda_put_text(&k->w, "{ ");
    for (uint32_t piece = 0; piece < jitc_cuda_pieces(t, rows->lanes); ++piece) {
        jitc_cuda_putf(&k->w, "%q[h].all[%u] = LD_%s(", n, piece,
                       jitc_cuda_piece_type(t, rows->lanes));
        put_place(k, i, rows->lanes, piece, "const ");
        jitc_cuda_put_text(&k->w, "); ");
    }
    jitc_cuda_put_text(&k->w, "}\n");
    if (!k->tail || rows->aligned)
        return;
    jitc_cuda_putf(&k->w, "    else { for (u32 j = 0; j < %u; ++j) %q[h].e[j] = ", rows->lanes, n);
    if (rows->guarded)
        jitc_cuda_put_text(&k->w, "first + j >= n ? 0 : ");
    jitc_cuda_putf(&k->w, "LD_%s((const %s *) W(%u) + first + j); }\n", memory, memory, i->a);
}

static void put_store(jitc_cuda_body *k, uint32_t n, const jitc_cuda_rows *rows) {
    const jitc_inst *i = &k->p->inst[n];
    jit_dtype t = jitc_cuda_type_of(i);
    put_if_vector(k, i, rows);
    jitc_cuda_put_text(&k->w, "{ ");
    for (uint32_t piece = 0; piece < jitc_cuda_pieces(t, rows->lanes); ++piece) {
        jitc_cuda_put_text(&k->w, "ST(");
        put_place(k, i, rows->lanes, piece, "");
        jitc_cuda_putf(&k->w, ", %r.all[%u]); ", n, piece);
    }
    jitc_cuda_put_text(&k->w, "}\n");
    if (!k->tail || rows->aligned)
        return;
    jitc_cuda_putf(&k->w, "    else { for (u32 j = 0; j < %u; ++j) ", rows->lanes);
    if (rows->guarded)
        jitc_cuda_put_text(&k->w, "if (first + j < n) ");
    jitc_cuda_putf(&k->w, "ST((%s *) W(%u) + first + j, %r.e[j]); }\n", jitc_cuda_memory_type(t),
                   i->b, n);
}

/* ---- Rows ---- */

static void put_unroll(jitc_cuda_body *k, bool unrolled) {
    jitc_cuda_put_text(&k->w, unrolled ? "    #pragma unroll\n" : "    #pragma unroll 1\n");
}

/** Declare the vectors of a row, or do what `put` does with each: the loads, else the stores. */
static void for_vectors(jitc_cuda_body *k, const jitc_cuda_rows *rows, bool loads,
                        void (*put)(jitc_cuda_body *k, uint32_t n, const jitc_cuda_rows *rows)) {
    for (uint32_t n = 0; n < k->p->head.count; ++n) {
        const jitc_inst *i = &k->p->inst[n];
        if (jitc_cuda_is_vector(i) && (i->op == JITC_OP_data) == loads) {
            jitc_cuda_put_text(&k->w, "    ");
            put(k, n, rows);
        }
    }
}

static void put_union(jitc_cuda_body *k, uint32_t n, uint32_t lanes) {
    jitc_cuda_putf(&k->w, "union %sx%u ", jitc_cuda_memory_type(jitc_cuda_type_of(&k->p->inst[n])),
                   lanes);
}
static void put_loaded_rows(jitc_cuda_body *k, uint32_t n, const jitc_cuda_rows *rows) {
    put_union(k, n, rows->lanes);
    jitc_cuda_putf(&k->w, "%q[%u];\n", n, rows->together);
}
static void put_loaded_row(jitc_cuda_body *k, uint32_t n, const jitc_cuda_rows *rows) {
    put_union(k, n, rows->lanes);
    jitc_cuda_putf(&k->w, "%r = %q[h];\n", n, n);
}
static void put_stored_row(jitc_cuda_body *k, uint32_t n, const jitc_cuda_rows *rows) {
    put_union(k, n, rows->lanes);
    jitc_cuda_putf(&k->w, "%r;\n", n);
}

/** One lane: i is its number. */
static void put_lane(jitc_cuda_body *k, const jitc_cuda_rows *rows) {
    jitc_cuda_putf(&k->w, "    const %s i = first + j;\n", k->index);
    if (rows->before)
        rows->before(k);
    if (rows->guarded)
        jitc_cuda_putf(&k->w, "    if (i < %s)", rows->end ? rows->end : "n");
    jitc_cuda_put_text(&k->w, "    {\n");
    if (jitc_cuda_has_loops(k))
        jitc_cuda_put_all_instructions(k);
    else
        jitc_cuda_put_instructions(k, false);
    jitc_cuda_put_text(&k->w, "    }\n");
    if (rows->after)
        rows->after(k);
}

static void put_row_begin(jitc_cuda_body *k, const jitc_cuda_rows *rows) {
    jitc_cuda_putf(&k->w, "    const u32 r = g + h;\n    const %s first = FIRST(r);\n", k->index);
    if (k->tail && rows->guarded && !rows->aligned)
        jitc_cuda_putf(&k->w, "    const bool whole = first < n && n - first >= %u;\n",
                       rows->lanes);
}

static void put_vector_rows(jitc_cuda_body *k, const jitc_cuda_rows *rows) {
    for_vectors(k, rows, true, put_loaded_rows);
    jitc_cuda_putf(&k->w, "    #pragma unroll\n    for (u32 h = 0; h < %u; ++h) {\n",
                   rows->together);
    put_row_begin(k, rows);
    if (rows->guarded)
        jitc_cuda_put_text(&k->w, "    if (first >= n) continue;\n");
    for_vectors(k, rows, true, put_load);
    jitc_cuda_putf(&k->w, "    }\n    #pragma unroll\n    for (u32 h = 0; h < %u; ++h) {\n",
                   rows->together);
    put_row_begin(k, rows);
    for_vectors(k, rows, true, put_loaded_row);
    for_vectors(k, rows, false, put_stored_row);
    jitc_cuda_putf(&k->w, "    #pragma unroll\n    for (u32 j = 0; j < %u; ++j) {\n", rows->lanes);
    put_lane(k, rows);
    jitc_cuda_put_text(&k->w, "    }\n");
    if (rows->guarded)
        jitc_cuda_put_text(&k->w, "    if (first >= n) continue;\n");
    for_vectors(k, rows, false, put_store);
    jitc_cuda_put_text(&k->w, "    }\n");
}

static void put_scalar_rows(jitc_cuda_body *k, const jitc_cuda_rows *rows) {
    jitc_cuda_put_text(&k->w, "    const u32 h = 0;\n");
    put_row_begin(k, rows);
    put_unroll(k, rows->unrolled);
    jitc_cuda_putf(&k->w, "    for (u32 j = 0; j < %u; ++j) {\n", rows->lanes);
    put_lane(k, rows);
    jitc_cuda_put_text(&k->w, "    }\n");
}

void jitc_cuda_put_rows(jitc_cuda_body *k, const jitc_cuda_rows *rows) {
    jitc_cuda_layout layout = k->layout;
    k->layout.elements = rows->vectors ? 2 : 1; /* how many is said by what stands around them */
    put_unroll(k, rows->unrolled);
    jitc_cuda_putf(&k->w, "    for (u32 g = 0; g < %u; g += %u) {\n", rows->rows,
                   rows->vectors ? rows->together : 1);
    (rows->vectors ? put_vector_rows : put_scalar_rows)(k, rows);
    jitc_cuda_put_text(&k->w, "    }\n");
    k->layout = layout;
}
