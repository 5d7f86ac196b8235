/* text_compress.c: the numbers of the lanes that are true, as CUDA C.  Layer: cuda.  May include:
 * core, ir.
 *
 * A tile is 8 warps of 4 rows of 32 threads of 16 lanes, whose flags are 16 bits of b. Where the
 * flags are in memory a thread reads its 16 bytes; else all lanes of a warp are computed side by
 * side, and handed to the thread that they belong to as a ballot.
 *
 * The numbers within the tile wait in memory of the block, so that they can be written side by
 * side. There, one place in 16 stays empty: else the threads of a warp would use the same bank. */
#include "cuda/text_look.h"
#include "cuda/text_reduce.h"
#include "cuda/text_sum.h"

enum {
    ROWS = 4,
    LANES = 16,
    WARPS = JITC_CUDA_SCAN_THREADS / 32,
    AHEAD = 16384, /* more slow it down: it writes up to four times what it reads */
    UNROLLED_WORK = 150,
    WORK_OF_40_REGISTERS = 20
};
_Static_assert(WARPS *ROWS * 32 * LANES == JITC_CUDA_COMPRESS_TILE, "the tile");

/** The lanes of the warp, 32 at once. */
static void put_ballots(jitc_cuda_body *k) {
    jitc_cuda_layout layout = k->layout;
    bool unrolled = jitc_cuda_work_of(k->p) * 8 <= UNROLLED_WORK;
    k->layout.elements = 1;
    jitc_cuda_putf(&k->w,
                   "    #pragma unroll %u\n    for (u32 q = 0; q < %u; ++q) {\n"
                   "    const %s i = start + warp * %u + q * 32 + lane;\n"
                   "    bool x = false;\n    if (i < n) {\n",
                   unrolled ? 16 : 1, ROWS * LANES, k->index, ROWS * 32 * LANES);
    jitc_cuda_put_instructions(k, false);
    jitc_cuda_put_text(&k->w, "    }\n    const u32 all = __ballot_sync(0xffffffffu, x);\n"
                              "    const u32 own = all >> (lane & 1) * 16 & 0xffff;\n");
    /* Written out, so that b stays in registers. */
    for (uint32_t r = 0; r < ROWS; ++r)
        jitc_cuda_putf(&k->w, "    if (q == %u + (lane >> 1)) b[%u] = own;\n", r * LANES, r);
    jitc_cuda_put_text(&k->w, "    }\n");
    k->layout = layout;
}

static void put_flag(jitc_cuda_body *k, uint32_t n) {
    jitc_cuda_putf(&k->w, "    x = %v;\n", k->p->inst[n].a);
}

/** Flags in memory, which are 0 or 1: multiplied, the 4 of a word come into its uppermost bits. */
static void put_loads(jitc_cuda_body *k, uint32_t parameter) {
    jitc_cuda_putf(
        &k->w,
        "    uint4 w[%u];\n"
        "    #pragma unroll\n    for (u32 r = 0; r < %u; ++r)\n"
        "    w[r] = LD_uint4((const uint4 *) (W(%u) + start + warp * %u + r * %u + lane * "
        "%u));\n",
        ROWS, ROWS, parameter, ROWS * 32 * LANES, 32 * LANES, LANES);
    jitc_cuda_putf(&k->w,
                   "    #pragma unroll\n    for (u32 r = 0; r < %u; ++r)\n"
                   "    b[r] = w[r].x * 0x10204080u >> 28 | (w[r].y * 0x10204080u >> 28) << 4 |\n"
                   "        (w[r].z * 0x10204080u >> 28) << 8 | (w[r].w * 0x10204080u >> 28) << "
                   "12;\n",
                   ROWS);
}

static void put_flags(jitc_cuda_body *k, uint32_t n) {
    const jitc_inst *mask = &k->p->inst[k->p->inst[n].a];
    bool in_memory = mask->op == JITC_OP_data && jitc_cuda_is_vector(mask);
    k->combine = put_flag;
    jitc_cuda_putf(&k->w, "    u32 b[%u];\n", ROWS);
    if (in_memory) {
        jitc_cuda_putf(&k->w, "    if (n - start >= %u", JITC_CUDA_COMPRESS_TILE);
        if (k->tail)
            jitc_cuda_putf(&k->w, " && (W(%u) & 15) == 0", mask->a);
        jitc_cuda_put_text(&k->w, ") {\n");
        put_loads(k, mask->a);
        jitc_cuda_put_text(&k->w, "    } else {\n");
    } else {
        jitc_cuda_put_text(&k->w, "    {\n");
    }
    put_ballots(k);
    jitc_cuda_put_text(&k->w, "    }\n");
}

/** e: how many are true in front of the thread's lanes of a row, in the warp; run: in the warp. */
static void put_counts(jitc_cuda_body *k) {
    jitc_cuda_putf(&k->w,
                   "    u32 e[%u], run = 0;\n"
                   "    #pragma unroll\n    for (u32 r = 0; r < %u; ++r) e[r] = (u32) "
                   "__popc(b[r]);\n"
                   "    #pragma unroll\n    for (u32 d = 1; d < 32; d <<= 1) {\n"
                   "    #pragma unroll\n    for (u32 r = 0; r < %u; ++r) {\n"
                   "    const u32 t = __shfl_up_sync(0xffffffffu, e[r], d);\n"
                   "    if (lane >= d) e[r] += t;\n    }\n    }\n",
                   ROWS, ROWS, ROWS);
    jitc_cuda_putf(&k->w,
                   "    #pragma unroll\n    for (u32 r = 0; r < %u; ++r) {\n"
                   "    const u32 t = __shfl_sync(0xffffffffu, e[r], 31);\n"
                   "    e[r] = run + e[r] - (u32) __popc(b[r]);\n"
                   "    run += t;\n    }\n",
                   ROWS);
}

static void put_tile_counts(jitc_cuda_body *k, uint32_t n, const char *type) {
    const jitc_inst *i = &k->p->inst[n];
    jitc_cuda_putf(&k->w,
                   "    if (lane == 0) warps[warp] = run;\n"
                   "    __syncthreads();\n"
                   "    if (warp == 0) {\n"
                   "    const u32 own = lane < %u ? warps[lane] : 0;\n    u32 sum = own;\n"
                   "    #pragma unroll\n    for (u32 d = 1; d < %u; d <<= 1) {\n"
                   "    const u32 t = __shfl_up_sync(0xffffffffu, sum, d);\n"
                   "    if (lane >= d) sum += t;\n    }\n"
                   "    if (lane < %u) warps[lane] = sum - own;\n"
                   "    sum = __shfl_sync(0xffffffffu, sum, %u);\n",
                   WARPS, WARPS, WARPS, WARPS - 1);
    jitc_cuda_putf(&k->w,
                   "    %s t = 0;\n"
                   "    if (tiles > 1) t = look_back((u64 *) W(%u), sum, tile, tiles, tag, lane);\n"
                   "    if (lane == 0) {\n    before[0] = t;\n    counted[0] = sum;\n",
                   type, k->p->head.scratch + 1);
    if (i->aux & JITC_AUX_PART)
        jitc_cuda_putf(&k->w, "    if (tile == tiles - 1) ST((%s *) W(%u), t + sum);\n", type,
                       i->c);
    jitc_cuda_put_text(&k->w, "    }\n    }\n    __syncthreads();\n");
}

static void put_numbers(jitc_cuda_body *k, uint32_t n, const char *type) {
    jitc_cuda_putf(&k->w,
                   "    #pragma unroll\n    for (u32 r = 0; r < %u; ++r) {\n"
                   "    const u32 number = warp * %u + r * %u + lane * %u;\n"
                   "    u32 o = warps[warp] + e[r];\n"
                   "    #pragma unroll 1\n    for (u32 bits = b[r]; bits; bits &= bits - 1) {\n"
                   "    staged[o + (o >> 4)] = (u16) (number + (u32) __ffs((i32) bits) - 1);\n"
                   "    ++o;\n    }\n    }\n"
                   "    __syncthreads();\n",
                   ROWS, ROWS * 32 * LANES, 32 * LANES, LANES);
    jitc_cuda_putf(&k->w,
                   "    %s *const to = (%s *) W(%u) + before[0];\n"
                   "    const u32 count = counted[0];\n"
                   "    for (u32 o = threadIdx.x; o < count; o += %u)\n"
                   "    ST(to + o, (%s) start + staged[o + (o >> 4)]);\n",
                   type, type, k->p->inst[n].b, JITC_CUDA_SCAN_THREADS, type);
}

void jitc_cuda_put_compress(jitc_cuda_body *k) {
    jitc_cuda_shape s = jitc_cuda_shape_of(k->p);
    uint32_t number = 0, places = JITC_CUDA_COMPRESS_TILE;
    bool small = jitc_cuda_work_of(k->p) <= WORK_OF_40_REGISTERS;
    JITC_CUDA_FOR_SUMS(k, n) number = n;
    const char *type = jitc_cuda_sum_type(k, number);
    jitc_cuda_put_operators(k);
    jitc_cuda_put_look_back(k, number, &s);
    jitc_cuda_put_head(k, small ? "__launch_bounds__(256, 6) " : "__launch_bounds__(256, 4) ");
    jitc_cuda_put_tile_number(k);
    jitc_cuda_putf(&k->w,
                   "    SHARED(u32, warps, %u);\n    SHARED(%s, before, 1);\n"
                   "    SHARED(u32, counted, 1);\n    SHARED(u16, staged, %u);\n",
                   WARPS, type, places + places / 16);
    jitc_cuda_put_prefetch(k, &s, AHEAD, false);
    jitc_cuda_put_instructions(k, true);
    jitc_cuda_putf(&k->w, "    const %s start = (%s) tile * %u;\n", k->index, k->index, places);
    put_flags(k, number);
    put_counts(k);
    put_tile_counts(k, number, type);
    put_numbers(k, number, type);
    jitc_cuda_put_text(&k->w, "}\n");
}
