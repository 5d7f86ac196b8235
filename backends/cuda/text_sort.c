/* text_sort.c: sorting, as CUDA C: see sort.h.  Layer: cuda.  May include: core, ir. */
#include "cuda/sort.h"
#include "cuda/text_reduce.h"
#include <stdio.h>

/* What differs from program to program, as macros of the text. */
static void put_sizes(jitc_cuda_body *k, const jitc_cuda_sort_shape *s) {
    const jitc_inst *i = jitc_cuda_sort_of(k->p);
    const jitc_inst *from = &k->p->inst[i->a];
    const struct {
        const char *name;
        uint32_t value;
    } sizes[] = {{"FROM", from->a},
                 {"TO", i->b},
                 {"NUMBERS", i->c},
                 {"SCRATCH", k->p->head.scratch},
                 {"PASSES", s->passes},
                 {"THREADS", JITC_CUDA_SORT_THREADS},
                 {"WARPS", JITC_CUDA_SORT_THREADS / 32},
                 {"ITEMS", s->items},
                 {"TILE", JITC_CUDA_SORT_THREADS * s->items},
                 {"ROOM", jitc_cuda_sort_room(s)},
                 {"COUNTERS", JITC_CUDA_SORT_COUNTERS},
                 {"SMALL", jitc_cuda_sort_small(s)},
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
    jitc_cuda_putf(&k->w,
                   "#define BYTE(r, shift) ((u32) ((r) >> (shift)) & 255)\n"
                   "#ifdef __CUDACC_RTC__\n"
                   "#define FORGET(r) asm volatile(\"\" : \"+%s\"(r))\n"
                   "#else\n#define FORGET(r) ((void) 0)\n#endif\n",
                   s->key == 8 ? "l" : "r");
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
                             "#define TILES(n) (((u64) (n) + TILE - 1) / TILE)\n"
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

static const char count_begin[] =
    "    SHARED_DYNAMIC(u32, seen);\n"
    "    const u32 log2 = (u32) W(SCRATCH + 1);\n"
    "    u32 *const column = seen + (threadIdx.x & ((1u << log2) - 1));\n"
    "    for (u32 i = threadIdx.x; i < PASSES * 256 << log2; i += COUNTERS) seen[i] = 0;\n"
    "    __syncthreads();\n"
    "    const u64 step = (u64) gridDim.x * COUNTERS;\n"
    "    u64 at = (u64) blockIdx.x * COUNTERS + threadIdx.x;\n"
    "    const key_t *from = (const key_t *) W(FROM) + at;\n";
/* A thread has eight elements under way. */
static const char count_whole[] =
    "    for (; at + 7 * step < n; at += 8 * step, from += 8 * step) {\n"
    "        rank_t r[8];\n"
    "        #pragma unroll\n"
    "        for (u32 j = 0; j < 8; ++j) r[j] = rank_of(LD(from + j * step));\n"
    "        #pragma unroll\n"
    "        for (u32 j = 0; j < 8; ++j) count_bytes(column, r[j], log2);\n"
    "    }\n";
static const char count_rest[] =
    "    for (; at < n; at += 4 * step, from += 4 * step) {\n"
    "        rank_t r[4];\n"
    "        #pragma unroll\n"
    "        for (u32 j = 0; j < 4; ++j)\n"
    "            if (at + j * step < n) r[j] = rank_of(LD(from + j * step));\n"
    "        #pragma unroll\n"
    "        for (u32 j = 0; j < 4; ++j)\n"
    "            if (at + j * step < n) count_bytes(column, r[j], log2);\n"
    "    }\n";
static const char count_end[] =
    "    __syncthreads();\n"
    "    for (u32 i = threadIdx.x; i < PASSES * 256; i += COUNTERS) {\n"
    "        u32 sum = 0;\n"
    "        for (u32 c = 0; c < 1u << log2; ++c)\n"
    "            sum += seen[(i << log2) + ((c + i) & ((1u << log2) - 1))];\n"
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

/* Count all bytes. Which lanes of the warp have the same lowest byte: they are asked bit by bit.
 * The next place for the elements with a value, of which the last such lane takes as many as they
 * are. */
static const char functions[] =
    "DEV void count_bytes(u32 *column, rank_t r, u32 log2) {\n"
    "    #pragma unroll\n"
    "    for (u32 p = 0; p < PASSES; ++p)\n"
    "        atomicAdd(column + (((p << 8) + BYTE(r, 8 * p)) << log2), 1u);\n"
    "}\n"
    "DEV u32 lanes_with(u32 d) {\n"
    "    u32 same = 0xffffffffu;\n"
    "    #pragma unroll\n"
    "    for (u32 b = 0; b < 8; ++b) {\n"
    "        const u32 set = __ballot_sync(0xffffffffu, d >> b & 1);\n"
    "        same &= d >> b & 1 ? set : ~set;\n"
    "    }\n"
    "    return same;\n"
    "}\n"
    "DEV u32 take(u32 *next, u32 same, u32 lane, u32 below) {\n"
    "    const u32 last = 31 - (u32) __clz((i32) same);\n"
    "    const u32 before = (u32) __popc(same & below);\n"
    "    u32 place = 0;\n"
    "    if (lane == last) place = atomicAdd(next, before + 1);\n"
    "    return __shfl_sync(0xffffffffu, place, (i32) last) + before;\n"
    "}\n";

/* Memory of a block: room for its elements; where those of each value go; how many of each warp
 * have each value, which become places in the room; and for each value a mask of lanes. The value
 * of a byte is the number of a column, of threads too. */
static const char block_memory[] =
    "    SHARED_DYNAMIC(u64, pool);\n"
    "    rank_t *const room = (rank_t *) pool;\n"
    "    place_t *const target = (place_t *) (pool + ROOM);\n"
    "    u32 *const table = (u32 *) (pool + ROOM + 256), *const column = table + (threadIdx.x & "
    "255);\n"
    "    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;\n"
    "    const u32 below = (1u << lane) - 1;\n"
    "    u32 *const next = table + warp * 256, *const peers = next + WARPS * 256;\n"
    "    u32 *const sums = table + 2 * WARPS * 256;\n";

static const char clear_tables[] = "    #pragma unroll\n"
                                   "    for (u32 i = 0; i < 8; ++i) {\n"
                                   "        next[lane + i * 32] = 0;\n"
                                   "        peers[lane + i * 32] = 0;\n"
                                   "    }\n";

/* How many elements have each value, */
static const char add_values[] =
    "    __syncthreads();\n"
    "    u32 total = 0, up_to = 0;\n"
    "    if (threadIdx.x < 256) {\n"
    "        #pragma unroll\n"
    "        for (u32 w = 0; w < WARPS; ++w) total += column[w * 256];\n"
    "    }\n";
/* and of all up to it, within the warps of 32 values, */
static const char sum_values[] =
    "    if (threadIdx.x < 256) {\n"
    "        up_to = total;\n"
    "        #pragma unroll\n"
    "        for (u32 d = 1; d < 32; d <<= 1) {\n"
    "            const u32 other = __shfl_up_sync(0xffffffffu, up_to, d);\n"
    "            if (lane >= d) up_to += other;\n"
    "        }\n"
    "        if (lane == 31) sums[warp] = up_to;\n"
    "    }\n";
/* and of all; where each warp's begin. */
static const char begin_values[] = "    if (threadIdx.x < 256) {\n"
                                   "        for (u32 w = 0; w < warp; ++w) up_to += sums[w];\n"
                                   "        u32 at = up_to - total;\n"
                                   "        #pragma unroll 4\n"
                                   "        for (u32 w = 0; w < WARPS; ++w) {\n"
                                   "            const u32 has = column[w * 256];\n"
                                   "            column[w * 256] = at;\n"
                                   "            at += has;\n"
                                   "        }\n"
                                   "    }\n"
                                   "    __syncthreads();\n";

/* The tile, and its elements: a warp has consecutive ones, and of those a thread each 32nd. What is
 * missing in the last tile comes behind all others. */
static const char pass_load[] =
    "    const u32 pass = (u32) W(SCRATCH + 1), shift = 8 * pass;\n"
    "    const bool to_room = (PASSES - 1 - pass) & 1;\n"
    "    u32 *const drawn = sums + 8;\n"
    "    if (threadIdx.x == 0) drawn[0] = atomicAdd(TICKETS + pass, 1u);\n";
static const char pass_elements[] =
    "    __syncthreads();\n"
    "    const u32 tile = drawn[0];\n"
    "    const place_t first = (place_t) tile * TILE;\n"
    "    const u32 count = n - first < TILE ? (u32) (n - first) : TILE;\n"
    "    const key_t *const from = first + (const key_t *) (pass == 0 ? W(FROM) : to_room ? W(TO)\n"
    "        : key_room(W(SCRATCH), n));\n"
    "    const u32 offset = warp * 32 * ITEMS + lane;\n"
    "    rank_t r[ITEMS];\n";
static const char pass_count[] =
    "    #pragma unroll\n"
    "    for (u32 i = 0; i < ITEMS; ++i) atomicAdd(next + BYTE(r[i], shift), 1u);\n";

/* What other tiles wait for, as soon as it is known: how many elements of each value the tile has.
 * A word of the states is (4 pass + 4 + kind) << 56 | number; kind 1: of the tile, 2: of all up to
 * it. */
static const char pass_tell[] =
    "    u64 *const own = STATES + (u64) tile * 256 + threadIdx.x;\n"
    "    const u64 tag = (u64) (4 * pass + 4) << 56, kinds = (u64) 3 << 56;\n"
    "    const u64 number = ((u64) 1 << 56) - 1;\n"
    "    const u32 real = threadIdx.x == 255 ? total - (TILE - count) : total;\n"
    "    if (threadIdx.x < 256) write_fresh(own, tag | (u64) (tile ? 1 : 2) << 56 | real);\n";

/* Elements that all have the same value are in order already. */
static const char pass_even[] = "    if (total == TILE) drawn[1] = threadIdx.x;\n"
                                "    const bool even = __syncthreads_or(total == TILE);\n";

/* Each element to its place in the room, two at a time: lanes with the value of the first meet in a
 * mask in memory, those with that of the second are asked, as the one waits for memory and the
 * other computes. The compiler shall not keep all values from where they were counted: they are
 * more than there are registers. */
static const char pass_place[] =
    "    u32 place[ITEMS];\n"
    "    if (!even) {\n"
    "    #pragma unroll\n"
    "    for (u32 i = 0; i < ITEMS; ++i) FORGET(r[i]);\n"
    "    #pragma unroll\n"
    "    for (u32 i = 0; i < ITEMS; i += 2) {\n"
    "        const u32 d = BYTE(r[i], shift), e = BYTE(r[i + 1], shift);\n"
    "        atomicOr(peers + d, 1u << lane);\n"
    "        const u32 others = lanes_with((u32) (r[i + 1] >> shift));\n"
    "        __syncwarp();\n"
    "        const u32 same = peers[d];\n"
    "        place[i] = take(next + d, same, lane, below);\n"
    "        if (same >> lane == 1) peers[d] = 0;\n"
    "        room[place[i]] = r[i];\n"
    "        __syncwarp();\n"
    "        place[i + 1] = take(next + e, others, lane, below);\n"
    "        room[place[i + 1]] = r[i + 1];\n"
    "        __syncwarp();\n"
    "    }\n";

/* Where the elements of each value go: behind those of all tiles before. */
static const char pass_look[] =
    "    if (threadIdx.x < 256) {\n"
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
    "        target[threadIdx.x] = (place_t) (LD(COUNTS + pass * 256 + threadIdx.x) + before - "
    "(up_to - total));\n"
    "    }\n"
    "    __syncthreads();\n";

/* Where all have the same value they are in order, and go there as they are. */
static const char pass_copy[] =
    "    key_t *const to = (key_t *) (to_room ? key_room(W(SCRATCH), n) : W(TO));\n"
    "    if (even) {\n"
    "        #pragma unroll 4\n"
    "        for (u32 e = threadIdx.x; e < count; e += THREADS) {\n"
    "            const place_t at = target[drawn[1]] + e;\n"
    "            ST(to + at, LD(from + e));\n";
static const char pass_copy_numbers[] =
    "            ST(numbers_to + at, pass == 0 ? (number_t) (first + e) : LD(numbers + e));\n";
static const char pass_copied[] = "        }\n"
                                  "        return;\n"
                                  "    }\n";

/* The same for their numbers, which the first pass makes. */
static const char pass_numbers[] =
    "    number_t *const result = (number_t *) W(NUMBERS);\n"
    "    number_t *const other = (number_t *) number_room(W(SCRATCH), n);\n"
    "    const number_t *const numbers = (to_room ? result : other) + first;\n"
    "    number_t *const numbers_to = to_room ? other : result;\n"
    "    number_t m[ITEMS];\n";
static const char pass_place_numbers[] =
    "    __syncthreads();\n"
    "    #pragma unroll\n"
    "    for (u32 i = 0; i < ITEMS; ++i) ((number_t *) pool)[place[i]] = m[i];\n"
    "    __syncthreads();\n";

/* All passes, between two halves of the room, with numbers behind them. A thread has as many
 * elements as are needed; what is missing comes behind all others. */
static const char small_load[] =
    "    const u32 count = (u32) n, items = (count + THREADS - 1) / THREADS;\n"
    "    const u32 offset = warp * 32 * items + lane;\n"
    "    rank_t *from = room, *to = room + SMALL;\n"
    "    for (u32 e = threadIdx.x; e < items * THREADS; e += THREADS)\n"
    "        from[e] = e < count ? rank_of(LD((const key_t *) W(FROM) + e)) : ALL;\n";
static const char small_numbers[] =
    "    number_t *numbers = (number_t *) (room + 2 * SMALL), *numbers_to = numbers + SMALL;\n"
    "    for (u32 e = threadIdx.x; e < items * THREADS; e += THREADS) numbers[e] = (number_t) e;\n";
static const char small_begin[] = "    __syncthreads();\n"
                                  "    #pragma unroll 1\n"
                                  "    for (u32 shift = 0; shift < 8 * PASSES; shift += 8) {\n";
static const char small_count[] =
    "    __syncwarp();\n"
    "    #pragma unroll 1\n"
    "    for (u32 i = 0; i < items; ++i)\n"
    "        atomicAdd(next + BYTE(from[offset + i * 32], shift), 1u);\n";
static const char small_place[] =
    "    #pragma unroll 1\n"
    "    for (u32 i = 0; i < items; ++i) {\n"
    "        const rank_t r = from[offset + i * 32];\n"
    "        const u32 d = BYTE(r, shift);\n"
    "        atomicOr(peers + d, 1u << lane);\n"
    "        __syncwarp();\n"
    "        const u32 same = peers[d], place = take(next + d, same, lane, below);\n"
    "        if (same >> lane == 1) peers[d] = 0;\n"
    "        to[place] = r;\n";
static const char small_place_numbers[] = "        numbers_to[place] = numbers[offset + i * 32];\n";
static const char small_turn[] = "        __syncwarp();\n"
                                 "    }\n"
                                 "    __syncthreads();\n"
                                 "    rank_t *const sorted = to;\n"
                                 "    to = from;\n"
                                 "    from = sorted;\n";
static const char small_turn_numbers[] = "    number_t *const moved = numbers_to;\n"
                                         "    numbers_to = numbers;\n"
                                         "    numbers = moved;\n";
static const char small_store[] = "    }\n"
                                  "    for (u32 e = threadIdx.x; e < count; e += THREADS) {\n"
                                  "        ST((key_t *) W(TO) + e, key_of(from[e]));\n";

static void put_kernel(jitc_cuda_body *k, jitc_cuda_sort_kernel kernel, const char *bounds) {
    jitc_cuda_putf(&k->w, "KERNEL void %s", bounds);
    char name[32];
    snprintf(name, sizeof name, JITC_CUDA_NAME, (unsigned long long) jitc_cuda_name_of(k->p));
    jitc_cuda_putf(&k->w,
                   "%s%s(const struct parameters P) {\n    const place_t n = (place_t) P.n;\n",
                   name, jitc_cuda_sort_suffixes[kernel]);
}

static void put_texts(jitc_cuda_body *k, const char *const *texts) {
    for (; *texts; ++texts)
        jitc_cuda_put_text(&k->w, *texts);
}

/* `what` for each element e of the thread, which is there, else `otherwise`. Whether all are, is
 * asked once: else that takes a tenth of the time. */
static void put_loop(jitc_cuda_body *k, const char *e, const char *what, const char *otherwise) {
    static const char loop[] = "    #pragma unroll\n"
                               "    for (u32 i = 0; i < ITEMS; ++i) {\n"
                               "        const u32 e = ";
    put_texts(k, (const char *[]) {"    if (count == TILE) {\n", loop, e, ";\n", what,
                                   "    }\n    } else {\n", loop, e, ";\n    if (e < count) {\n",
                                   what, "    }\n", otherwise, "    }\n    }\n", NULL});
}

/* Elements of a warp are loaded side by side; in order, those of a block are stored so. */
#define IN_WARP  "offset + i * 32"
#define IN_BLOCK "threadIdx.x + i * THREADS"

static void put_pass(jitc_cuda_body *k, const jitc_cuda_sort_shape *s) {
    char bounds[48];
    snprintf(bounds, sizeof bounds, "__launch_bounds__(THREADS, %u) ", s->resident);
    put_kernel(k, JITC_CUDA_SORT_PASS, bounds);
    put_texts(k, (const char *[]) {block_memory, pass_load, clear_tables, pass_elements, NULL});
    put_loop(k, IN_WARP, "    r[i] = rank_of(LD(from + e));\n", "    else r[i] = ALL;\n");
    put_texts(k, (const char *[]) {pass_count, add_values, pass_tell, sum_values, pass_even,
                                   begin_values, s->number ? pass_numbers : "", pass_place, NULL});
    if (s->number)
        put_loop(k, IN_WARP, "    m[i] = pass == 0 ? (number_t) (first + e) : LD(numbers + e);\n",
                 "");
    put_texts(k,
              (const char *[]) {"    }\n", pass_look, pass_copy, s->number ? pass_copy_numbers : "",
                                pass_copied, "    place_t at[ITEMS];\n", NULL});
    put_loop(k, IN_BLOCK,
             "    const rank_t moved = room[e];\n"
             "    at[i] = target[BYTE(moved, shift)] + e;\n"
             "    ST(to + at[i], key_of(moved));\n",
             "");
    if (s->number) {
        jitc_cuda_put_text(&k->w, pass_place_numbers);
        put_loop(k, IN_BLOCK, "    ST(numbers_to + at[i], ((number_t *) pool)[e]);\n", "");
    }
    jitc_cuda_put_text(&k->w, "}\n");
}

static void put_small(jitc_cuda_body *k, const jitc_cuda_sort_shape *s) {
    bool numbers = s->number;
    put_kernel(k, JITC_CUDA_SORT_SMALL, "__launch_bounds__(THREADS) ");
    put_texts(k, (const char *[]) {
                     block_memory, small_load, numbers ? small_numbers : "", small_begin,
                     clear_tables, small_count, add_values, sum_values, "    __syncthreads();\n",
                     begin_values, small_place, numbers ? small_place_numbers : "", small_turn,
                     numbers ? small_turn_numbers : "", small_store,
                     numbers ? "        ST((number_t *) W(NUMBERS) + e, numbers[e]);\n" : "",
                     "    }\n}\n", NULL});
}

void jitc_cuda_put_sort(jitc_cuda_body *k) {
    jitc_cuda_sort_shape s = jitc_cuda_sort_shape_of(k->p);
    jitc_cuda_putf(
        &k->w, "struct parameters { u64 n; u64 word[%u]; };\n#define W(number) P.word[number]\n",
        k->p->head.params);
    put_sizes(k, &s);
    put_order(k, &s);
    jitc_cuda_put_text(&k->w, places);
    jitc_cuda_put_text(&k->w, functions);
    put_kernel(k, JITC_CUDA_SORT_CLEAR, "");
    jitc_cuda_put_text(&k->w, clear);
    put_kernel(k, JITC_CUDA_SORT_COUNT, "__launch_bounds__(COUNTERS) ");
    put_texts(k, (const char *[]) {count_begin, count_whole, count_rest, count_end, NULL});
    put_kernel(k, JITC_CUDA_SORT_BEGIN, "");
    jitc_cuda_put_text(&k->w, begin);
    put_pass(k, &s);
    put_small(k, &s);
}
