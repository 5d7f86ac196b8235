/* text_scan.c: each lane combined with those before it, as CUDA C.  Layer: cuda.  May include:
 * core, ir.
 *
 * A tile is 8 warps of 8 rows of 32 lanes of vectors, in this order:
 *
 *   warp 0: row 0: thread 0: 0 1 2 3, thread 1: 4 5 6 7, ...; row 1: ...
 *   warp 1: ...
 *
 * so that rows are read and written whole. A thread scans its vectors (v), the threads of a warp
 * what these come to, row by row (e), the first warp what warps come to, and adds what is in front
 * of the tile. Backwards the whole is mirrored: tiles, rows and vectors; what stands behind the end
 * up to a whole vector then comes first, and changes nothing.
 *
 * Where rows cannot be vectors (the last tile, foreign memory, long programs), lanes are computed
 * one by one and written to the output, from where the scan reads them. */
#include "cuda/text_look.h"
#include "cuda/text_reduce.h"
#include "cuda/text_sum.h"
#include "cuda/text_tile.h"
#include <stdio.h>

enum {
    ROWS = JITC_CUDA_SCAN_ROWS,
    WARPS = JITC_CUDA_SCAN_THREADS / 32,
    ALIGNMENT = 16,
    AHEAD = 32768, /* bytes; four times as many slow it down */
    UNROLLED_ELEMENTS = 150
};

typedef struct scan {
    uint32_t n, lanes, tile; /* of vectors */
    const jitc_inst *i;
    const char *type;
    bool exclusive, reverse;
} scan;

static scan scan_of(jitc_cuda_body *k, const jitc_cuda_shape *s) {
    scan out = {.tile = (uint32_t) s->tile};
    JITC_CUDA_FOR_SUMS(k, n) out.n = n;
    out.i = &k->p->inst[out.n];
    out.lanes = out.tile / (JITC_CUDA_SCAN_THREADS * ROWS);
    out.type = jitc_cuda_sum_type(k, out.n);
    out.exclusive = out.i->aux & JITC_AUX_EXCLUSIVE;
    out.reverse = out.i->aux & JITC_AUX_REVERSE;
    return out;
}

/* ---- The lanes ---- */

/** In a row of vectors; lane j of memory. */
static void put_into_row(jitc_cuda_body *k, uint32_t n) {
    const jitc_inst *i = &k->p->inst[n];
    char value[16];
    snprintf(value, sizeof value, "v%u", i->a);
    jitc_cuda_put_text(&k->w,
                       i->aux & JITC_AUX_REVERSE ? "    v[r][LANES - 1 - j] = " : "    v[r][j] = ");
    jitc_cuda_put_widened(k, n, value);
    jitc_cuda_put_text(&k->w, ";\n");
}

static void put_into_output(jitc_cuda_body *k, uint32_t n) {
    const jitc_inst *i = &k->p->inst[n];
    jitc_cuda_putf(&k->w, "    ST((%s *) W(%u) + i, %v);\n",
                   jitc_cuda_memory_type(jitc_cuda_type_of(i)), i->b, i->a);
}

static void put_vectors(jitc_cuda_body *k, const scan *s) {
    const jitc_cuda_rows how = {.rows = ROWS,
                                .lanes = s->lanes,
                                .together = ROWS,
                                .vectors = true,
                                .unrolled = true,
                                .aligned = true};
    k->combine = put_into_row;
    if (s->reverse)
        jitc_cuda_putf(&k->w, "    #define FIRST(r) (m - %u - (base + (r) * %u))\n", s->lanes,
                       32 * s->lanes);
    else
        jitc_cuda_putf(&k->w, "    #define FIRST(r) (base + (r) * %u)\n", 32 * s->lanes);
    jitc_cuda_put_rows(k, &how);
}

/** For all places of v: e is the place in the order of the scan, i that in memory. */
static void put_for_places(jitc_cuda_body *k, const scan *s) {
    jitc_cuda_putf(&k->w,
                   "    #pragma unroll\n    for (u32 r = 0; r < %u; ++r)\n"
                   "    #pragma unroll\n    for (u32 j = 0; j < %u; ++j) {\n"
                   "    const %s e = base + r * %u + j, i = %s;\n",
                   ROWS, s->lanes, k->index, 32 * s->lanes, s->reverse ? "m - 1 - e" : "e");
}

static void put_elements(jitc_cuda_body *k, const scan *s) {
    jitc_cuda_layout layout = k->layout;
    const char *memory = jitc_cuda_memory_type(jitc_cuda_type_of(s->i));
    bool unrolled = jitc_cuda_work_of(k->p) * 8 <= UNROLLED_ELEMENTS;
    char value[64];
    k->combine = put_into_output;
    k->layout.elements = 1;
    jitc_cuda_putf(&k->w,
                   "    #pragma unroll %u\n    for (u32 q = threadIdx.x; q < %u; q += %u) {\n"
                   "    const %s e = start + q, i = %s;\n    if (i < n) {\n",
                   unrolled ? 8 : 1, s->tile, JITC_CUDA_SCAN_THREADS, k->index,
                   s->reverse ? "m - 1 - e" : "e");
    jitc_cuda_put_instructions(k, false);
    jitc_cuda_put_text(&k->w, "    }\n    }\n    __syncthreads();\n");
    put_for_places(k, s);
    snprintf(value, sizeof value, "LD((%s *) W(%u) + i)", memory, s->i->b);
    jitc_cuda_put_text(&k->w, "    if (i < n) v[r][j] = ");
    jitc_cuda_put_widened(k, s->n, value);
    jitc_cuda_put_text(&k->w, "; else v[r][j] = ");
    jitc_cuda_put_identity(k, s->n);
    jitc_cuda_put_text(&k->w, ";\n    }\n    __syncthreads();\n");
    k->layout = layout;
}

/** Can the tile be read and written as vectors? */
static void put_condition(jitc_cuda_body *k, const scan *s) {
    jitc_cuda_putf(&k->w, "    const bool fast = %s - start >= %u", s->reverse ? "m" : "n",
                   s->tile);
    if (s->reverse)
        jitc_cuda_put_text(&k->w, " && (tile || m == n)");
    for (uint32_t n = 0; k->tail && n < k->p->head.count; ++n) {
        const jitc_inst *i = &k->p->inst[n];
        bool out = i->op == JITC_OP_prefix_reduce;
        uint32_t bytes = s->lanes * jitc_dtypes[i->type].bytes;
        if (out || jitc_cuda_is_vector(i))
            jitc_cuda_putf(&k->w, " && (W(%u) & %u) == 0", out ? i->b : i->a,
                           bytes < ALIGNMENT ? bytes - 1 : ALIGNMENT - 1);
    }
    jitc_cuda_put_text(&k->w, ";\n");
}

/* ---- The scan ---- */

/** v of threads and e of rows; run: what comes to the warp. */
static void put_warp_scan(jitc_cuda_body *k, const scan *s) {
    jitc_cuda_putf(&k->w,
                   "    %s e[%u], run = none;\n"
                   "    #pragma unroll\n    for (u32 r = 0; r < %u; ++r) {\n"
                   "    #pragma unroll\n    for (u32 j = 1; j < LANES; ++j) v[r][j] = "
                   "op%u(v[r][j - 1], v[r][j]);\n"
                   "    e[r] = v[r][LANES - 1];\n    }\n",
                   s->type, ROWS, ROWS, s->n);
    jitc_cuda_putf(&k->w,
                   "    #pragma unroll\n    for (u32 d = 1; d < 32; d <<= 1) {\n"
                   "    #pragma unroll\n    for (u32 r = 0; r < %u; ++r) {\n"
                   "    const %s t = __shfl_up_sync(0xffffffffu, e[r], d);\n"
                   "    if (lane >= d) e[r] = op%u(t, e[r]);\n    }\n    }\n",
                   ROWS, s->type, s->n);
    jitc_cuda_putf(&k->w,
                   "    #pragma unroll\n    for (u32 r = 0; r < %u; ++r) {\n"
                   "    const %s sum = __shfl_sync(0xffffffffu, e[r], 31);\n"
                   "    %s t = __shfl_up_sync(0xffffffffu, e[r], 1);\n"
                   "    if (lane == 0) t = none;\n"
                   "    e[r] = op%u(run, t);\n"
                   "    run = op%u(run, sum);\n    }\n",
                   ROWS, s->type, s->type, s->n, s->n);
}

/** warps[w]: what is in front of warp w in the tile; before[0]: in front of the tile. */
static void put_tile_scan(jitc_cuda_body *k, const scan *s) {
    jitc_cuda_putf(&k->w,
                   "    if (lane == 0) warps[warp] = run;\n"
                   "    __syncthreads();\n"
                   "    if (warp == 0) {\n"
                   "    %s sum = lane < %u ? warps[lane] : none;\n"
                   "    #pragma unroll\n    for (u32 d = 1; d < %u; d <<= 1) {\n"
                   "    const %s t = __shfl_up_sync(0xffffffffu, sum, d);\n"
                   "    if (lane >= d) sum = op%u(t, sum);\n    }\n",
                   s->type, WARPS, WARPS, s->type, s->n);
    jitc_cuda_putf(&k->w,
                   "    %s t = __shfl_up_sync(0xffffffffu, sum, 1);\n"
                   "    if (lane == 0) t = none;\n"
                   "    sum = __shfl_sync(0xffffffffu, sum, %u);\n"
                   "    if (lane < %u) warps[lane] = t;\n",
                   s->type, WARPS - 1, WARPS);
    jitc_cuda_putf(&k->w,
                   "    %s b = none;\n"
                   "    if (tiles > 1) b = look_back((u64 *) W(%u), sum, tile, tiles, tag, lane);\n"
                   "    if (lane == 0) before[0] = b;\n"
                   "    }\n"
                   "    __syncthreads();\n"
                   "    const %s front = op%u(before[0], warps[warp]);\n",
                   s->type, k->p->head.scratch + 1, s->type, s->n);
}

static void put_sums(jitc_cuda_body *k, const scan *s) {
    jitc_cuda_putf(&k->w,
                   "    #pragma unroll\n    for (u32 r = 0; r < %u; ++r) {\n"
                   "    const %s t = op%u(front, e[r]);\n",
                   ROWS, s->type, s->n);
    if (s->exclusive)
        jitc_cuda_putf(&k->w,
                       "    #pragma unroll\n    for (u32 j = LANES - 1; j > 0; --j) v[r][j] = "
                       "op%u(t, v[r][j - 1]);\n    v[r][0] = t;\n",
                       s->n);
    else
        jitc_cuda_putf(&k->w,
                       "    #pragma unroll\n    for (u32 j = 0; j < LANES; ++j) v[r][j] = op%u(t, "
                       "v[r][j]);\n",
                       s->n);
    jitc_cuda_put_text(&k->w, "    }\n");
}

static void put_output(jitc_cuda_body *k, const scan *s, bool vectors) {
    jit_dtype t = jitc_cuda_type_of(s->i);
    const char *memory = jitc_cuda_memory_type(t);
    if (vectors) {
        jitc_cuda_putf(&k->w,
                       "    if (fast) {\n    #pragma unroll\n    for (u32 r = 0; r < %u; ++r) {\n"
                       "    union %sx%u o;\n    const %s first = FIRST(r);\n"
                       "    #pragma unroll\n    for (u32 j = 0; j < LANES; ++j) o.e[%s] = ",
                       ROWS, memory, s->lanes, k->index, s->reverse ? "LANES - 1 - j" : "j");
        jitc_cuda_put_narrowed(k, s->n, "v[r][j]");
        jitc_cuda_putf(&k->w,
                       ";\n    ST((%s *) ((%s *) W(%u) + first), o.all[0]);\n    }\n    } else\n",
                       jitc_cuda_piece_type(t, s->lanes), memory, s->i->b);
    }
    put_for_places(k, s);
    jitc_cuda_putf(&k->w, "    if (i < n) ST((%s *) W(%u) + i, ", memory, s->i->b);
    jitc_cuda_put_narrowed(k, s->n, "v[r][j]");
    jitc_cuda_put_text(&k->w, ");\n    }\n");
}

static void put_begin(jitc_cuda_body *k, const jitc_cuda_shape *shape, const scan *s) {
    jitc_cuda_put_tile_number(k);
    if (s->reverse)
        jitc_cuda_putf(&k->w, "    const %s m = (n + %u) / %u * %u;\n", k->index, s->lanes - 1,
                       s->lanes, s->lanes);
    jitc_cuda_putf(&k->w, "    SHARED(%s, warps, %u);\n    SHARED(%s, before, 1);\n", s->type,
                   WARPS, s->type);
    if (shape->lanes > 1)
        jitc_cuda_put_prefetch(k, shape, AHEAD, s->reverse);
    jitc_cuda_put_instructions(k, true);
    jitc_cuda_putf(&k->w, "    const %s none = ", s->type);
    jitc_cuda_put_identity(k, s->n);
    jitc_cuda_putf(&k->w,
                   ";\n    const %s start = (%s) tile * %u;\n"
                   "    const %s base = start + warp * %u + lane * LANES;\n"
                   "    %s v[%u][LANES];\n",
                   k->index, k->index, s->tile, k->index, ROWS * 32 * s->lanes, s->type, ROWS);
}

void jitc_cuda_put_scan(jitc_cuda_body *k) {
    jitc_cuda_shape shape = jitc_cuda_shape_of(k->p);
    scan s = scan_of(k, &shape);
    bool vectors = shape.lanes > 1;
    jitc_cuda_put_operators(k);
    jitc_cuda_put_look_back(k, s.n, &shape);
    if (vectors)
        jitc_cuda_put_vector_types(k, s.lanes);
    jitc_cuda_putf(&k->w, "#define LANES %u\n", s.lanes);
    jitc_cuda_put_head(k, shape.words == 2 ? "__launch_bounds__(256, 3) "
                                           : "__launch_bounds__(256, 4) ");
    put_begin(k, &shape, &s);
    if (vectors) {
        put_condition(k, &s);
        jitc_cuda_put_text(&k->w, "    if (fast) {\n");
        put_vectors(k, &s);
        jitc_cuda_put_text(&k->w, "    } else {\n");
    } else {
        jitc_cuda_put_text(&k->w, "    {\n");
    }
    put_elements(k, &s);
    jitc_cuda_put_text(&k->w, "    }\n");
    put_warp_scan(k, &s);
    put_tile_scan(k, &s);
    put_sums(k, &s);
    put_output(k, &s, vectors);
    jitc_cuda_put_text(&k->w, "}\n");
}
