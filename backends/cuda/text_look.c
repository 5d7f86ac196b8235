/* text_look.c: how blocks of a kernel learn what is in front of them, as CUDA C.
 * Layer: cuda.  May include: core, ir.
 *
 *   level 0   the sum of each tile
 *   level 1   of each 32 tiles, level 2 of 32 of those, ...: written by the last one of them
 *
 *   tile 1 * 1024 + 3 * 32 + 5:   [1024 tiles] + [32] [32] [32] + [tile] [tile] [tile] [tile]
 * [tile]
 *
 * The sums in front of a tile at one level are read by one warp, at most 32 at once (at the top, 32
 * by 32), and combined in a fixed order: no result depends on who was first, and nobody waits for a
 * chain of others. Each sum bears the number of the launch as a tag, in the same access: so who
 * reads one knows whether it is there, without fences, and none has to be cleared. */
#include "cuda/text_look.h"
#include "cuda/text_sum.h"

enum { LEVELS = JITC_CUDA_LOOK_LEVELS };

/** Where the sums of each level are, and how many a tile reads there. */
static void put_levels(jitc_cuda_body *k, uint32_t words) {
    for (uint32_t level = 0; level < LEVELS; ++level) {
        if (level == 0)
            jitc_cuda_putf(&k->w, "    u64 *const s0 = state + %u;\n", JITC_CUDA_LOOK_FIRST);
        else
            jitc_cuda_putf(&k->w, "    u64 *const s%u = s%u + ((u64) (tiles >> %u) + 1) * %u;\n",
                           level, level - 1, 5 * (level - 1), words);
        jitc_cuda_putf(&k->w,
                       level == LEVELS - 1 ? "    const u32 m%u = tile >> %u;\n"
                                           : "    const u32 m%u = tile >> %u & 31;\n",
                       level, 5 * level);
    }
}

/** Look for what is read at once of a level, without waiting for it. */
static void put_first_look(jitc_cuda_body *k, uint32_t level, uint32_t words) {
    jitc_cuda_putf(&k->w, "    u64 w%u = none; u32 t%u = tag;\n", level, level);
    jitc_cuda_putf(&k->w,
                   "    const u64 *const q%u = s%u + (u64) ((tile >> %u) - m%u + lane) * %u;\n",
                   level, level, 5 * level, level, words);
    jitc_cuda_putf(&k->w, "    if (lane < m%u) t%u = ask_%u(q%u, &w%u);\n", level, level, words,
                   level, level);
}

/** Wait for it; v is what it is combined to. */
static void put_wait(jitc_cuda_body *k, uint32_t n, uint32_t level, uint32_t words) {
    const char *type = jitc_cuda_sum_type(k, n);
    jitc_cuda_putf(&k->w, "    while (t%u != tag) t%u = ask_%u(q%u, &w%u);\n", level, level, words,
                   level, level);
    jitc_cuda_putf(&k->w, "    v = from_word_%s(w%u);\n", type, level);
    if (level == LEVELS - 1)
        jitc_cuda_putf(&k->w,
                       "    for (u32 m = lane + 32; m < m%u; m += 32) {\n"
                       "    while (ask_%u(s%u + (u64) m * %u, &w%u) != tag) {}\n"
                       "    v = op%u(v, from_word_%s(w%u));\n"
                       "    }\n",
                       level, words, level, words, level, n, type, level);
    jitc_cuda_putf(&k->w,
                   "    __syncwarp();\n"
                   "    #pragma unroll\n"
                   "    for (u32 d = 16; d; d >>= 1) v = op%u(v, __shfl_xor_sync(0xffffffffu, v, "
                   "d));\n",
                   n);
}

static void put_level(jitc_cuda_body *k, uint32_t n, uint32_t level, uint32_t words) {
    put_wait(k, n, level, words);
    jitc_cuda_putf(&k->w, level ? "    before = op%u(v, before);\n" : "    before = v;\n", n);
    if (level == LEVELS - 1)
        return;
    /* The last tile of 32 writes their sum. */
    jitc_cuda_putf(&k->w, "    all = op%u(v, all);\n    if (lane == 0", n);
    for (uint32_t below = 0; below <= level; ++below)
        jitc_cuda_putf(&k->w, " && m%u == 31", below);
    jitc_cuda_putf(&k->w, ") tell_%u(s%u + (u64) (tile >> %u) * %u, tag, to_word_%s(all));\n",
                   words, level + 1, 5 * (level + 1), words, jitc_cuda_sum_type(k, n));
}

void jitc_cuda_put_look_back(jitc_cuda_body *k, uint32_t n, const jitc_cuda_shape *s) {
    const char *type = jitc_cuda_sum_type(k, n);
    jitc_cuda_putf(
        &k->w,
        "DEV %s look_back(u64 *state, %s all, u32 tile, u32 tiles, u32 tag, u32 lane) {\n"
        "    const u64 none = to_word_%s(",
        type, type, type);
    jitc_cuda_put_identity(k, n);
    jitc_cuda_putf(&k->w, ");\n    %s v, before;\n", type);
    put_levels(k, s->words);
    jitc_cuda_putf(&k->w,
                   "    if (lane == 0) tell_%u(s0 + (u64) tile * %u, tag, to_word_%s(all));\n",
                   s->words, s->words, type);
    for (uint32_t level = 0; level < LEVELS; ++level)
        put_first_look(k, level, s->words);
    for (uint32_t level = 0; level < LEVELS; ++level)
        put_level(k, n, level, s->words);
    jitc_cuda_put_text(&k->w, "    return before;\n}\n");
}

void jitc_cuda_put_tile_number(jitc_cuda_body *k) {
    uint32_t state = k->p->head.scratch + 1;
    jitc_cuda_putf(
        &k->w,
        "    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;\n"
        "    const u32 tiles = gridDim.x;\n"
        "    u32 tile = 0, tag = 0;\n"
        "    SHARED(u32, mine, 2);\n"
        "    if (tiles > 1) {\n"
        "    if (threadIdx.x == 0) {\n"
        "    const u64 count = atomicAdd((u64 *) W(%u), (u64) 1);\n"
        "    if ((u32) count == tiles - 1) ST((u64 *) W(%u), ((count >> 32) + 1) << 32);\n"
        "    mine[0] = (u32) count;\n"
        "    mine[1] = (u32) (count >> 32) + 1;\n"
        "    }\n"
        "    __syncthreads();\n"
        "    tile = mine[0];\n"
        "    tag = mine[1];\n"
        "    }\n",
        state, state);
}

void jitc_cuda_put_prefetch(jitc_cuda_body *k, const jitc_cuda_shape *s, uint32_t ahead,
                            bool reverse) {
    uint32_t tile = (uint32_t) s->tile, bytes = jitc_cuda_bytes_read(k->p, tile);
    if (!bytes)
        return;
    jitc_cuda_putf(&k->w,
                   "    const u32 ahead = (u32) W(%u) * %u / %u + 1;\n"
                   "    if (threadIdx.x == 0 && tiles - tile > ahead + 1) {\n",
                   k->p->head.scratch + 2, ahead, bytes);
    jitc_cuda_putf(&k->w,
                   reverse ? "    const u64 far = m - (u64) (tile + ahead + 1) * %u;\n"
                           : "    const u64 far = (u64) (tile + ahead) * %u;\n",
                   tile);
    for (uint32_t n = 0; n < k->p->head.count; ++n) {
        const jitc_inst *i = &k->p->inst[n];
        uint32_t size = jitc_dtypes[i->type].bytes;
        if (i->op == JITC_OP_data && jitc_cuda_is_vector(i))
            jitc_cuda_putf(&k->w, "    prefetch_memory(W(%u) + far * %u, %u);\n", i->a, size,
                           size * tile);
    }
    jitc_cuda_put_text(&k->w, "    }\n");
}
