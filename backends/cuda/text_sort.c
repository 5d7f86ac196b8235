/* text_sort.c: sorting, as CUDA C: see sort.h.  Layer: cuda.  May include: core, ir. */
#include "cuda/sort.h"
#include "cuda/text_reduce.h"
#include <stdio.h>

/* What differs from program to program, as macros of the text. */
static void put_sizes(jitc_cuda_body *k, const jitc_cuda_sort_shape *s) {
    const jitc_inst *i = jitc_cuda_sort_of(k->p);
    const jitc_inst *from = &k->p->inst[i->a];
    uint32_t widest = s->key == 8 || s->number == 8 ? 8 : 4, tile = s->threads * s->items;
    uint32_t tables = s->threads / 32 * 256, exchange = tile * widest / 8; /* u64 */
    const struct {
        const char *name;
        uint32_t value;
    } sizes[] = {{"FROM", from->a},
                 {"TO", i->b},
                 {"NUMBERS", i->c},
                 {"SCRATCH", k->p->head.scratch},
                 {"PASSES", s->passes},
                 {"COPIES", s->passes == 8 ? 2 : 4},
                 {"THREADS", s->threads},
                 {"ITEMS", s->items},
                 {"TILE", tile},
                 {"TABLE", tables > exchange ? tables : exchange},
                 {"WARPS", s->threads / 32},
                 {"KEY_BYTES", s->key},
                 {"NUMBER_BYTES", s->number},
                 {"COUNT_WORDS", jitc_cuda_sort_counts(s)}};
    for (size_t m = 0; m < sizeof sizes / sizeof *sizes; ++m)
        jitc_cuda_putf(&k->w, "#define %s %u\n", sizes[m].name, sizes[m].value);
}

static const char *unsigned_type(uint32_t bytes) {
    return bytes == 1 ? "u8" : bytes == 2 ? "u16" : bytes == 4 ? "u32" : "u64";
}

/* rank_of(): the unsigned number that stands for an element in the order; key_of(): back. */
static void put_order(jitc_cuda_body *k, const jitc_cuda_sort_shape *s) {
    const jitc_inst *i = jitc_cuda_sort_of(k->p);
    uint8_t cls = jitc_dtypes[i->type].cls;
    const char *turn = i->aux & JITC_AUX_DESCENDING ? "~" : "";
    const char *rank = s->key == 8 ? "u64" : "u32";
    jitc_cuda_putf(&k->w, "typedef %s key_t; typedef %s rank_t; typedef %s place_t;\n",
                   unsigned_type(s->key), rank, k->wide ? "u64" : "u32");
    jitc_cuda_putf(&k->w, "typedef %s number_t;\n", unsigned_type(s->number ? s->number : 4));
    jitc_cuda_put_text(&k->w, "#define SIGN ((rank_t) 1 << (8 * KEY_BYTES - 1))\n"
                              "#define ALL ((SIGN - 1) | SIGN)\n"
                              "DEV rank_t rank_of(key_t key) {\n    rank_t r = key;\n");
    if (cls == JITC_BOOL)
        jitc_cuda_put_text(&k->w, "    r = r != 0;\n");
    if (cls == JITC_INT)
        jitc_cuda_put_text(&k->w, "    r = r ^ SIGN;\n");
    if (cls == JITC_FLOAT)
        jitc_cuda_put_text(&k->w, "    r = r & SIGN ? ~r & ALL : r ^ SIGN;\n");
    jitc_cuda_putf(&k->w,
                   "    return %sr & ALL;\n}\nDEV key_t key_of(rank_t r) {\n    r = %sr & ALL;\n",
                   turn, turn);
    if (cls == JITC_INT)
        jitc_cuda_put_text(&k->w, "    r = r ^ SIGN;\n");
    if (cls == JITC_FLOAT)
        jitc_cuda_put_text(&k->w, "    r = r & SIGN ? r ^ SIGN : ~r & ALL;\n");
    jitc_cuda_put_text(&k->w, "    return (key_t) r;\n}\n");
}

/* Memory that the kernels share. The result is written by the last pass, so those before take turns
 * between it and the room behind the counts. */
static const char places[] = "#define COUNTS ((u64 *) W(SCRATCH))\n"
                             "#define TICKETS ((u32 *) (COUNTS + PASSES * 256))\n"
                             "#define STATES (COUNTS + COUNT_WORDS)\n"
                             "#define ROUNDED(bytes) (((bytes) + 255) / 256 * 256)\n"
                             "#define TILES(n) (((n) + TILE - 1) / TILE)\n"
                             "DEV u64 key_room(u64 scratch, u64 n) {\n"
                             "    return scratch + ROUNDED((COUNT_WORDS + TILES(n) * 256) * 8);\n"
                             "}\n"
                             "DEV u64 number_room(u64 scratch, u64 n) {\n"
                             "    return key_room(scratch, n) + ROUNDED(n * KEY_BYTES);\n"
                             "}\n";

static const char clear[] =
    "    const u64 words = COUNT_WORDS + TILES(n) * 256;\n"
    "    for (u64 i = (u64) blockIdx.x * blockDim.x + threadIdx.x; i < words;\n"
    "         i += (u64) gridDim.x * blockDim.x)\n"
    "        ST(COUNTS + i, 0);\n"
    "}\n";

/* Several copies, so that fewer threads meet. */
static const char count[] =
    "    SHARED(u32, seen, PASSES * COPIES * 256);\n"
    "    const u32 copy = (threadIdx.x >> 5) % COPIES;\n"
    "    const key_t *const from = (const key_t *) W(FROM);\n"
    "    for (u32 i = threadIdx.x; i < PASSES * COPIES * 256; i += blockDim.x) seen[i] = 0;\n"
    "    __syncthreads();\n"
    "    const u64 step = (u64) gridDim.x * blockDim.x;\n"
    "    #pragma unroll 4\n"
    "    for (u64 i = (u64) blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {\n"
    "        const rank_t r = rank_of(LD(from + i));\n"
    "        #pragma unroll\n"
    "        for (u32 p = 0; p < PASSES; ++p)\n"
    "            atomicAdd(seen + (p * COPIES + copy) * 256 + ((u32) (r >> 8 * p) & 255), 1u);\n"
    "    }\n"
    "    __syncthreads();\n"
    "    for (u32 i = threadIdx.x; i < PASSES * 256; i += blockDim.x) {\n"
    "        u32 sum = 0;\n"
    "        for (u32 c = 0; c < COPIES; ++c) sum += seen[(i / 256 * COPIES + c) * 256 + i % "
    "256];\n"
    "        if (sum) atomicAdd(COUNTS + i, (u64) sum);\n"
    "    }\n"
    "}\n";

static const char begin[] = "    SHARED(u64, sums, 8);\n"
                            "    u64 *const at = COUNTS + blockIdx.x * 256 + threadIdx.x;\n"
                            "    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;\n"
                            "    const u64 own = LD(at);\n"
                            "    u64 sum = own;\n"
                            "    for (u32 d = 1; d < 32; d <<= 1) {\n"
                            "        const u64 other = __shfl_up_sync(0xffffffffu, sum, d);\n"
                            "        if (lane >= d) sum += other;\n"
                            "    }\n"
                            "    if (lane == 31) sums[warp] = sum;\n"
                            "    __syncthreads();\n"
                            "    for (u32 w = 0; w < warp; ++w) sum += sums[w];\n"
                            "    ST(at, sum - own);\n"
                            "}\n";

/* The tile, and its elements: a warp has consecutive ones, and of those a thread each 32nd. What is
 * missing in the last tile comes behind all others. */
static const char pass_load[] =
    "    SHARED(u64, table, TABLE);\n"
    "    SHARED(u64, target, 256);\n"
    "    SHARED(u32, local, 256);\n"
    "    SHARED(u32, sums, 8);\n"
    "    SHARED(u32, drawn, 1);\n"
    "    const u32 pass = (u32) W(SCRATCH + 1), shift = 8 * pass;\n"
    "    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;\n"
    "    const bool to_room = (PASSES - 1 - pass) & 1;\n"
    "    u32 *const seen = (u32 *) table + warp * 256;\n"
    "    u32 *const peers = (u32 *) table + (WARPS + warp) * 256;\n"
    "    if (threadIdx.x == 0) drawn[0] = atomicAdd(TICKETS + pass, 1u);\n"
    "    for (u32 i = threadIdx.x; i < 2 * WARPS * 256; i += THREADS) ((u32 *) table)[i] = 0;\n"
    "    __syncthreads();\n"
    "    const u32 tile = drawn[0];\n"
    "    const u64 first = (u64) tile * TILE;\n"
    "    const u32 count = n - first < TILE ? (u32) (n - first) : TILE;\n"
    "    const u64 room = key_room(W(SCRATCH), n);\n"
    "    const key_t *const from = (const key_t *) (pass == 0 ? W(FROM) : to_room ? W(TO) : room) "
    "+ first;\n"
    "    key_t *const to = (key_t *) (to_room ? room : W(TO));\n"
    "    const u32 offset = warp * 32 * ITEMS + lane;\n"
    "    rank_t r[ITEMS];\n"
    "    u32 place[ITEMS];\n"
    "    #pragma unroll\n"
    "    for (u32 i = 0; i < ITEMS; ++i) {\n"
    "        const u32 e = offset + i * 32;\n"
    "        r[i] = e < count ? rank_of(LD(from + e)) : ALL;\n"
    "    }\n";

/* Each element's place among those of its warp with the same value. */
static const char pass_rank[] =
    "    const u32 below = (1u << lane) - 1;\n"
    "    #pragma unroll\n"
    "    for (u32 i = 0; i < ITEMS; ++i) {\n"
    "        const u32 d = (u32) (r[i] >> shift) & 255;\n"
    "        atomicOr(peers + d, 1u << lane);\n"
    "        __syncwarp();\n"
    "        const u32 same = peers[d], before = seen[d], k = __popc(same & below);\n"
    "        __syncwarp();\n"
    "        if (k == 0) {\n"
    "            seen[d] = before + __popc(same);\n"
    "            peers[d] = 0;\n"
    "        }\n"
    "        __syncwarp();\n"
    "        place[i] = before + k;\n"
    "    }\n"
    "    __syncthreads();\n";

/* For each value: how many elements the tile has, and all before it; where they go. A word of the
 * states is (4 pass + 4 + kind) << 56 | number; kind 1: of the tile, 2: of all up to it. */
static const char pass_look[] =
    "    u64 *const own = STATES + (u64) tile * 256 + threadIdx.x;\n"
    "    const u64 tag = (u64) (4 * pass + 4) << 56, kinds = (u64) 3 << 56;\n"
    "    const u64 number = ((u64) 1 << 56) - 1;\n"
    "    u32 total = 0, up_to = 0, real = 0;\n"
    "    if (threadIdx.x < 256) {\n"
    "        u32 *const column = (u32 *) table + threadIdx.x;\n"
    "        #pragma unroll\n"
    "        for (u32 w = 0; w < WARPS; ++w) {\n"
    "            const u32 has = column[w * 256];\n"
    "            column[w * 256] = total;\n"
    "            total += has;\n"
    "        }\n"
    "        real = threadIdx.x == 255 ? total - (TILE - count) : total;\n"
    "        write_fresh(own, tag | (u64) (tile ? 1 : 2) << 56 | real);\n"
    "        up_to = total;\n"
    "        for (u32 d = 1; d < 32; d <<= 1) {\n"
    "            const u32 other = __shfl_up_sync(0xffffffffu, up_to, d);\n"
    "            if (lane >= d) up_to += other;\n"
    "        }\n"
    "        if (lane == 31) sums[warp] = up_to;\n"
    "    }\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x < 256) {\n"
    "        for (u32 w = 0; w < warp; ++w) up_to += sums[w];\n"
    "        local[threadIdx.x] = up_to - total;\n"
    "        u64 before = 0;\n"
    "        if (tile) {\n"
    "            const u64 *at = own - 256;\n"
    "            for (;;) {\n"
    "                const u64 w = read_fresh(at);\n"
    "                if ((w & ~(kinds | number)) != tag || (w & kinds) == 0) continue;\n"
    "                before += w & number;\n"
    "                if (w >> 57 & 1) break;\n"
    "                at -= 256;\n"
    "            }\n"
    "            write_fresh(own, tag | (u64) 2 << 56 | (before + real));\n"
    "        }\n"
    "        target[threadIdx.x] = LD(COUNTS + pass * 256 + threadIdx.x) + before - (up_to - "
    "total);\n"
    "    }\n"
    "    __syncthreads();\n";

/* Elements are put in order in shared memory, so that neighbours go to neighbouring places. */
static const char pass_move[] =
    "    #pragma unroll\n"
    "    for (u32 i = 0; i < ITEMS; ++i) {\n"
    "        const u32 d = (u32) (r[i] >> shift) & 255;\n"
    "        place[i] += seen[d] + local[d];\n"
    "    }\n"
    "    __syncthreads();\n"
    "    #pragma unroll\n"
    "    for (u32 i = 0; i < ITEMS; ++i) ((rank_t *) table)[place[i]] = r[i];\n"
    "    __syncthreads();\n"
    "    place_t at[ITEMS];\n"
    "    #pragma unroll\n"
    "    for (u32 i = 0; i < ITEMS; ++i) {\n"
    "        const u32 e = threadIdx.x + i * THREADS;\n"
    "        if (e < count) {\n"
    "            const rank_t own_rank = ((rank_t *) table)[e];\n"
    "            at[i] = (place_t) (target[(u32) (own_rank >> shift) & 255] + e);\n"
    "            ST(to + at[i], key_of(own_rank));\n"
    "        }\n"
    "    }\n";

/* The same for their numbers, which the first pass makes. */
static const char pass_numbers[] =
    "    number_t *const spare = (number_t *) number_room(W(SCRATCH), n);\n"
    "    number_t *const result = (number_t *) W(NUMBERS);\n"
    "    const number_t *const numbers = (to_room ? result : spare) + first;\n"
    "    number_t *const numbers_to = to_room ? spare : result;\n"
    "    number_t m[ITEMS];\n"
    "    #pragma unroll\n"
    "    for (u32 i = 0; i < ITEMS; ++i) {\n"
    "        const u32 e = offset + i * 32;\n"
    "        m[i] = pass == 0 ? (number_t) (first + e) : e < count ? LD(numbers + e) : 0;\n"
    "    }\n"
    "    __syncthreads();\n"
    "    #pragma unroll\n"
    "    for (u32 i = 0; i < ITEMS; ++i) ((number_t *) table)[place[i]] = m[i];\n"
    "    __syncthreads();\n"
    "    #pragma unroll\n"
    "    for (u32 i = 0; i < ITEMS; ++i) {\n"
    "        const u32 e = threadIdx.x + i * THREADS;\n"
    "        if (e < count) ST(numbers_to + at[i], ((number_t *) table)[e]);\n"
    "    }\n";

static void put_kernel(jitc_cuda_body *k, jitc_cuda_sort_kernel kernel, const char *bounds) {
    jitc_cuda_putf(&k->w, "KERNEL void %s", bounds);
    char name[32];
    snprintf(name, sizeof name, JITC_CUDA_NAME, (unsigned long long) jitc_cuda_name_of(k->p));
    jitc_cuda_putf(&k->w, "%s%s(const struct parameters P) {\n    const u64 n = P.n;\n", name,
                   jitc_cuda_sort_suffixes[kernel]);
}

void jitc_cuda_put_sort(jitc_cuda_body *k) {
    jitc_cuda_sort_shape s = jitc_cuda_sort_shape_of(k->p);
    jitc_cuda_putf(
        &k->w, "struct parameters { u64 n; u64 word[%u]; };\n#define W(number) P.word[number]\n",
        k->p->head.params);
    put_sizes(k, &s);
    put_order(k, &s);
    jitc_cuda_put_text(&k->w, places);
    put_kernel(k, JITC_CUDA_SORT_CLEAR, "");
    jitc_cuda_put_text(&k->w, clear);
    put_kernel(k, JITC_CUDA_SORT_COUNT, "__launch_bounds__(512) ");
    jitc_cuda_put_text(&k->w, count);
    put_kernel(k, JITC_CUDA_SORT_BEGIN, "");
    jitc_cuda_put_text(&k->w, begin);
    put_kernel(k, JITC_CUDA_SORT_PASS,
               s.threads == 384 ? "__launch_bounds__(384, 2) " : "__launch_bounds__(512, 2) ");
    jitc_cuda_put_text(&k->w, pass_load);
    jitc_cuda_put_text(&k->w, pass_rank);
    jitc_cuda_put_text(&k->w, pass_look);
    jitc_cuda_put_text(&k->w, pass_move);
    if (s.number)
        jitc_cuda_put_text(&k->w, pass_numbers);
    jitc_cuda_put_text(&k->w, "}\n");
}
