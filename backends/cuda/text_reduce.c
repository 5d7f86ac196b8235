/* text_reduce.c: all lanes combined to one, as CUDA C.  Layer: cuda.  May include: core, ir.
 *
 *   for (tile = blockIdx.x; ...; tile += gridDim.x) ...   rows of the tile: text_tile.c
 *   for (bool more = gridDim.x > 1;; more = false) {
 *       ...                                  a of the block into that of its thread 0
 *       if (!more) break;
 *       ...                                  which leaves it in memory; the block that is last
 *       if (!last[0]) return;
 *       ...                                  goes on with what all have left there, in their order
 *   }
 *   if (threadIdx.x == 0) ST(...);
 *
 * The order of additions depends on the number of lanes alone. */
#include "cuda/text_reduce.h"
#include "cuda/shape.h"
#include "cuda/text_sum.h"
#include "cuda/text_tile.h"

enum {
    STEP_LOG = 4,      /* of the lanes of a thread in a tile */
    LOADED_BYTES = 96, /* of a thread at once, in about as many bytes of registers */
    UNROLLED_WORK = 1200,
    UNROLLED_END = 200, /* of the last tile, which waits for each row else */
    WORK_OF_64_REGISTERS = 60,
    WARPS = JITC_CUDA_REDUCE_THREADS / 32
};

static void put_after(jitc_cuda_body *k) {
    jitc_cuda_put_text(&k->w, "    const u32 step = r * 4 + j;\n");
    jitc_cuda_put_lane_sums(k, STEP_LOG);
}

/** Rows that are loaded together. */
static uint32_t rows_together(uint32_t bytes) {
    uint32_t rows = JITC_CUDA_REDUCE_ROWS;
    while (rows > 1 && rows * bytes > LOADED_BYTES)
        rows /= 2;
    return rows;
}

/** Tiles that are, where rows are narrow. */
static uint32_t tiles_together(uint32_t bytes, uint64_t work) {
    uint32_t tiles = 1;
    while (tiles < 4 && 2 * tiles * bytes * JITC_CUDA_REDUCE_ROWS <= LOADED_BYTES &&
           2 * tiles * work <= UNROLLED_WORK)
        tiles *= 2;
    return tiles;
}

static void put_start(jitc_cuda_body *k, uint32_t tile, uint32_t lanes) {
    jitc_cuda_putf(&k->w, "    const %s start = (%s) tile * %u + threadIdx.x * %u;\n", k->index,
                   k->index, tile, lanes);
}

/** All tiles of the block, of which the last of all may end within. */
static void put_vector_tiles(jitc_cuda_body *k, uint32_t tile, jitc_cuda_rows *how) {
    uint64_t work = how->rows * how->lanes * jitc_cuda_work_of(k->p);
    uint32_t bytes = jitc_cuda_bytes_read(k->p, how->lanes);
    how->unrolled = work <= UNROLLED_WORK;
    how->together = how->unrolled ? rows_together(bytes) : 1;
    jitc_cuda_putf(&k->w,
                   "    #pragma unroll %u\n"
                   "    for (; tile < (u32) (n / %u); tile += gridDim.x) {\n",
                   tiles_together(bytes, work), tile);
    put_start(k, tile, how->lanes);
    jitc_cuda_put_rows(k, how);
    jitc_cuda_putf(&k->w, "    }\n    if ((u64) tile * %u < n) {\n", tile);
    how->unrolled = work <= UNROLLED_END;
    how->together = how->unrolled ? rows_together(bytes) : 1;
    how->guarded = true;
    put_start(k, tile, how->lanes);
    jitc_cuda_put_rows(k, how);
    jitc_cuda_put_text(&k->w, "    }\n");
}

/** The same with few registers: one lane after the other. */
static void put_scalar_tiles(jitc_cuda_body *k, uint32_t tile, jitc_cuda_rows *how) {
    how->guarded = true;
    jitc_cuda_putf(&k->w,
                   "    #pragma unroll 1\n"
                   "    for (; (u64) tile * %u < n; tile += gridDim.x) {\n",
                   tile);
    put_start(k, tile, how->lanes);
    jitc_cuda_put_rows(k, how);
    jitc_cuda_put_text(&k->w, "    }\n");
}

static void put_tiles(jitc_cuda_body *k, const jitc_cuda_shape *s) {
    uint32_t lanes = (uint32_t) (s->tile / (JITC_CUDA_REDUCE_THREADS * JITC_CUDA_REDUCE_ROWS));
    jitc_cuda_rows how = {.rows = JITC_CUDA_REDUCE_ROWS,
                          .lanes = lanes,
                          .vectors = s->lanes > 1,
                          .before = jitc_cuda_put_lane_identities,
                          .after = put_after};
    jitc_cuda_putf(&k->w, "    #define FIRST(r) (start + (r) * %u)\n    u32 tile = blockIdx.x;\n",
                   JITC_CUDA_REDUCE_THREADS * lanes);
    (how.vectors ? put_vector_tiles : put_scalar_tiles)(k, (uint32_t) s->tile, &how);
}

void jitc_cuda_put_reduce(jitc_cuda_body *k) {
    jitc_cuda_shape s = jitc_cuda_shape_of(k->p);
    const jitc_cuda_exchange blocks = {.count = "gridDim.x",
                                       .first = "0",
                                       .own = "blockIdx.x",
                                       .ticket = "0",
                                       .threads = JITC_CUDA_REDUCE_THREADS};
    bool small = jitc_cuda_work_of(k->p) <= WORK_OF_64_REGISTERS;
    k->combine = jitc_cuda_put_lane_value;
    jitc_cuda_put_operators(k);
    if (s.lanes > 1)
        jitc_cuda_put_vector_types(k, s.lanes);
    jitc_cuda_put_head(k, small ? "__launch_bounds__(512, 2) " : "__launch_bounds__(512, 1) ");
    jitc_cuda_put_text(&k->w, "    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;\n"
                              "    SHARED(u32, last, 1);\n");
    jitc_cuda_put_shared_sums(k, WARPS);
    if (!jitc_cuda_has_loops(k))
        jitc_cuda_put_instructions(k, true);
    jitc_cuda_put_first_sums(k, STEP_LOG);
    put_tiles(k, &s);
    jitc_cuda_put_text(&k->w, "    for (bool more = gridDim.x > 1;; more = false) {\n");
    jitc_cuda_put_block_sums(k, WARPS);
    jitc_cuda_put_text(&k->w, "    if (!more) break;\n");
    jitc_cuda_put_exchange(k, &blocks);
    jitc_cuda_put_text(&k->w, "    }\n");
    jitc_cuda_put_results(k, "threadIdx.x == 0", "0");
    jitc_cuda_put_text(&k->w, "}\n");
}
