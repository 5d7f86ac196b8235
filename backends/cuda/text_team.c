/* text_team.c: each block of lanes combined to one, as CUDA C.  Layer: cuda.  May include: core,
 * ir.
 *
 * A team of 1, 2, 4 ... 32 or all threads of a block combines the lanes begin ... end - 1, each of
 * its threads every team-th of them, in rounds of 8. Of long blocks of lanes that is a chunk only;
 * then the team that ends last goes on with what all teams of that block of lanes have left in
 * memory. Teams and chunks depend on the length of blocks alone. */
#include "cuda/shape.h"
#include "cuda/text_reduce.h"
#include "cuda/text_sum.h"
#include "cuda/text_tile.h"

enum { STEP_LOG = 3, UNROLLED_WORK = 1200, WARPS = JITC_CUDA_TEAM_THREADS / 32 };

static void put_after(jitc_cuda_body *k) {
    jitc_cuda_put_text(&k->w, "    const u32 step = r;\n");
    jitc_cuda_put_lane_sums(k, STEP_LOG);
}

/** Define which lanes the thread's team has; `piece` numbers the teams. */
static void put_team(jitc_cuda_body *k, const jitc_cuda_shape *s) {
    jitc_cuda_putf(&k->w,
                   "    const u64 length = W(%u) < n ? W(%u) : n;\n"
                   "    const u32 team_log = (u32) W(%u) & 0xffff, log = (u32) W(%u) >> 16;\n"
                   "    const u32 team = 1u << team_log;\n",
                   s->length, s->length, s->scratch + 2, s->scratch + 2);
    jitc_cuda_putf(&k->w,
                   "    const u32 chunks = log ? (u32) ((length - 1) >> log) + 1 : 1;\n"
                   "    const u64 piece = ((u64) blockIdx.x * %u + threadIdx.x) >> team_log;\n"
                   "    const u32 rank = threadIdx.x & (team - 1);\n"
                   "    const u64 segment = chunks > 1 ? piece / chunks : piece;\n"
                   "    const bool there = segment * length < n;\n"
                   "    const u64 from = there ? segment * length : n;\n"
                   "    const u64 behind = n - from < length ? n : from + length;\n"
                   "    const u64 skipped = (piece - segment * chunks) << log;\n"
                   "    const u64 begin = behind - from < skipped ? behind : from + skipped;\n"
                   "    const u64 most = log ? (u64) 1 << log : length;\n"
                   "    const %s end = (%s) (behind - begin < most ? behind : begin + most);\n",
                   JITC_CUDA_TEAM_THREADS, k->index, k->index);
}

/** All rows of a round are under a condition: short blocks are shorter than a round. */
static void put_lanes(jitc_cuda_body *k) {
    const jitc_cuda_rows how = {.rows = JITC_CUDA_TEAM_ROWS,
                                .lanes = 1,
                                .unrolled =
                                    jitc_cuda_work_of(k->p) * JITC_CUDA_TEAM_ROWS <= UNROLLED_WORK,
                                .guarded = true,
                                .end = "end",
                                .before = jitc_cuda_put_lane_identities,
                                .after = put_after};
    jitc_cuda_putf(&k->w,
                   "    #define FIRST(r) (start + (r) * team)\n"
                   "    #pragma unroll 1\n"
                   "    for (%s start = (%s) begin + rank; start < end; start += team * %u) {\n",
                   k->index, k->index, JITC_CUDA_TEAM_ROWS);
    jitc_cuda_put_rows(k, &how);
    jitc_cuda_put_text(&k->w, "    }\n");
}

/** Combine a12 of the team into that of its first thread. */
static void put_team_sums(jitc_cuda_body *k) {
    jitc_cuda_put_text(&k->w, "    if (team > 32) {\n");
    jitc_cuda_put_block_sums(k, WARPS);
    jitc_cuda_put_text(&k->w, "    } else for (u32 d = team / 2; d; d >>= 1) {\n");
    JITC_CUDA_FOR_SUMS(k, n)
    jitc_cuda_putf(&k->w, "    %a = op%u(%a, __shfl_xor_sync(0xffffffffu, %a, d));\n", n, n, n, n);
    jitc_cuda_put_text(&k->w, "    }\n");
}

void jitc_cuda_put_teams(jitc_cuda_body *k) {
    jitc_cuda_shape s = jitc_cuda_shape_of(k->p);
    const jitc_cuda_exchange teams = {.count = "chunks",
                                      .first = "segment * chunks",
                                      .own = "piece",
                                      .ticket = "segment",
                                      .threads = JITC_CUDA_TEAM_THREADS};
    k->combine = jitc_cuda_put_lane_value;
    jitc_cuda_put_operators(k);
    jitc_cuda_put_head(k, "__launch_bounds__(256) ");
    jitc_cuda_put_text(&k->w, "    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;\n"
                              "    SHARED(u32, last, 1);\n");
    jitc_cuda_put_shared_sums(k, WARPS);
    jitc_cuda_put_instructions(k, true);
    jitc_cuda_put_first_sums(k, STEP_LOG);
    put_team(k, &s);
    put_lanes(k);
    jitc_cuda_put_text(&k->w, "    for (bool more = chunks > 1;; more = false) {\n");
    put_team_sums(k);
    jitc_cuda_put_text(&k->w, "    if (!more) break;\n");
    jitc_cuda_put_exchange(k, &teams);
    jitc_cuda_put_text(&k->w, "    }\n");
    jitc_cuda_put_results(k, "there && rank == 0", "segment");
    jitc_cuda_put_text(&k->w, "}\n");
}
