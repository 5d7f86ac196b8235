/* test_simcode_blocks.c: blocks on the simulated driver: barriers, warps, shared memory, atomics,
 * blocks that wait for each other, in many orders; and every fault of a kernel is reported. */
#include "simcode_world.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint32_t u32;
typedef uint64_t u64;

/* 0: in order, one block at a time; the others: random. */
enum { SEEDS = 12 };

static u32 *random_words(size_t n, u32 bound) {
    u32 *words = malloc(n * sizeof *words), state = 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        words[i] = (state >> 8) % bound;
    }
    return words;
}

/* ---- Blocks that work together ---- */

static const char reduce_text[] = SIMCODE_TEXT(KERNEL void reduce(const u32 *a, u64 *out, u32 n) {
    SHARED(u64, part, 8);
    u64 s = 0;
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        s += LD(a + i);
    for (u32 d = 16; d; d >>= 1)
        s += __shfl_down_sync(0xffffffffu, s, d);
    if ((threadIdx.x & 31u) == 0)
        part[threadIdx.x >> 5] = s;
    __syncthreads();
    if (threadIdx.x < 32) {
        s = threadIdx.x < 8 ? part[threadIdx.x] : 0;
        for (u32 d = 4; d; d >>= 1)
            s += __shfl_down_sync(0xffffffffu, s, d);
        if (threadIdx.x == 0)
            atomicAdd(out, s);
    }
});

Test(simcode_blocks, reduction_by_shuffles_and_shared_memory) {
    enum { N = 10000 };
    simcode_open();
    u32 *a = random_words(N, 1u << 30), n = N;
    u64 sum = 0, got;
    for (u32 i = 0; i < n; i++) {
        sum += a[i];
    }
    CUfunction f = simcode_function(reduce_text, "reduce");
    CUdeviceptr in = simcode_upload(a, N * sizeof *a);
    for (u64 seed = 0; seed < SEEDS; seed++) {
        simcode_seed(seed);
        CUdeviceptr out = simcode_upload(NULL, 8);
        void *arguments[] = {&in, &out, &n};
        cr_assert_eq(simcode_run(f, 7, 256, arguments), 0);
        simcode_download(&got, out, 8);
        cr_assert_eq(got, sum, "seed %lu: %lu, not %lu", seed, got, sum);
        simcode_free(out);
    }
    free(a);
}

/* One pass; a tile waits for those before it. The state of a tile: flag << 32 | value, flag 1: its
 * sum, 2: the sum of all up to it. */
static const char scan_text[] =
    SIMCODE_TEXT(KERNEL void scan(const u32 *a, u32 *out, u64 *state, u32 *ticket, u32 n) {
        SHARED(u32, tile_of, 1);
        SHARED(u32, sums, 8);
        SHARED(u32, before, 1);
        if (threadIdx.x == 0)
            tile_of[0] = atomicAdd(ticket, 1u);
        __syncthreads();
        u32 tile = tile_of[0];
        u32 i = tile * blockDim.x + threadIdx.x;
        u32 lane = threadIdx.x & 31u;
        u32 warp = threadIdx.x >> 5;
        u32 x = i < n ? LD(a + i) : 0u;
        for (u32 d = 1; d < 32; d <<= 1) {
            u32 y = __shfl_up_sync(0xffffffffu, x, d);
            if (lane >= d)
                x += y;
        }
        if (lane == 31)
            sums[warp] = x;
        __syncthreads();
        u32 pre = 0;
        u32 total = 0;
        for (u32 k = 0; k < 8; ++k) {
            if (k < warp)
                pre += sums[k];
            total += sums[k];
        }
        if (warp == 0) {
            u32 sum = 0;
            int base = (int) tile - 1;
            if (lane == 0)
                ST((volatile u64 *) state + tile, (u64) (tile ? 1 : 2) << 32 | total);
            while (base >= 0) {
                int t = base - (int) lane;
                u64 s = (u64) 2 << 32;
                if (t >= 0)
                    do
                        s = LD((volatile u64 *) state + t);
                    while ((s >> 32) == 0);
                u32 full = __ballot_sync(0xffffffffu, (s >> 32) == 2);
                u32 first = full ? (u32) __ffs((int) full) - 1 : 31u;
                u32 c = lane <= first && t >= 0 ? (u32) s : 0u;
                for (u32 d = 16; d; d >>= 1)
                    c += __shfl_xor_sync(0xffffffffu, c, d);
                sum += c;
                if (full)
                    break;
                base -= 32;
            }
            if (lane == 0) {
                if (tile)
                    ST((volatile u64 *) state + tile, (u64) 2 << 32 | (sum + total));
                before[0] = sum;
            }
        }
        __syncthreads();
        if (i < n)
            ST(out + i, before[0] + pre + x);
    });

Test(simcode_blocks, scan_whose_blocks_wait_for_each_other) {
    enum { N = 20000, TILES = (N + 255) / 256 };
    simcode_open();
    u32 *a = random_words(N, 1000), *got = malloc(N * sizeof *got), n = N;
    CUfunction f = simcode_function(scan_text, "scan");
    CUdeviceptr in = simcode_upload(a, N * sizeof *a), out = simcode_upload(NULL, N * sizeof *a);
    for (u64 seed = 0; seed < SEEDS; seed++) {
        simcode_seed(seed);
        CUdeviceptr state = simcode_upload(NULL, TILES * sizeof(u64));
        CUdeviceptr ticket = simcode_upload(NULL, 4);
        void *arguments[] = {&in, &out, &state, &ticket, &n};
        cr_assert_eq(simcode_run(f, TILES, 256, arguments), 0);
        simcode_download(got, out, N * sizeof *got);
        u32 sum = 0;
        for (u32 i = 0; i < n; i++) {
            sum += a[i];
            cr_assert_eq(got[i], sum, "seed %lu, element %u: %u, not %u", seed, i, got[i], sum);
        }
        simcode_free(state);
        simcode_free(ticket);
    }
    free(a);
    free(got);
}

static const char histogram_text[] =
    SIMCODE_TEXT(KERNEL void histogram(const u8 *a, u32 *out, u32 n) {
        SHARED(u32, bins, 256);
        for (u32 k = threadIdx.x; k < 256; k += blockDim.x)
            bins[k] = 0;
        __syncthreads();
        for (u32 b = blockIdx.x * blockDim.x; b < n; b += blockDim.x * gridDim.x) {
            u32 i = b + threadIdx.x;
            u32 key = i < n ? (u32) LD(a + i) : 256u;
            u32 same = __match_any_sync(0xffffffffu, key);
            if (key < 256 && (threadIdx.x & 31u) == (u32) __ffs((int) same) - 1)
                atomicAdd(bins + key, (u32) __popc(same));
        }
        __syncthreads();
        for (u32 k = threadIdx.x; k < 256; k += blockDim.x)
            if (bins[k])
                atomicAdd(out + k, bins[k]);
    });

Test(simcode_blocks, histogram_by_matching_lanes) {
    enum { N = 5001 };
    simcode_open();
    u32 *words = random_words(N, 256), want[256] = {0}, got[256], n = N;
    unsigned char a[N];
    for (int i = 0; i < N; i++) {
        a[i] = (unsigned char) (words[i] & words[(i + 1) % N]);
        want[a[i]]++;
    }
    CUfunction f = simcode_function(histogram_text, "histogram");
    CUdeviceptr in = simcode_upload(a, N);
    for (u64 seed = 0; seed < SEEDS; seed++) {
        simcode_seed(seed);
        CUdeviceptr out = simcode_upload(NULL, sizeof got);
        void *arguments[] = {&in, &out, &n};
        cr_assert_eq(simcode_run(f, 5, 128, arguments), 0);
        simcode_download(got, out, sizeof got);
        cr_assert(memcmp(got, want, sizeof got) == 0, "seed %lu", seed);
        simcode_free(out);
    }
    free(words);
}

/* ---- Warps ---- */

/* One warp; every result of a lane is a word of its row. */
enum { RESULTS = 24, LANES = 32 };
static const char warp_text[] = SIMCODE_TEXT(KERNEL void lanes(const u64 *in, u64 *out) {
    u32 lane = threadIdx.x;
    u32 all = 0xffffffffu;
    u64 v = LD(in + lane);
    u64 *o = out + 24 * lane;
    u32 low = (u32) v;
    float f = (float) (u32) (v & 1023);
    double d = (double) (u32) (v & 1023);
    ST(o, __shfl_sync(all, v, 5));
    ST(o + 1, (u64) __shfl_sync(all, low, (int) lane + 7));
    ST(o + 2, (u64) __shfl_up_sync(all, low, 3));
    ST(o + 3, (u64) __shfl_down_sync(all, low, 30));
    ST(o + 4, __shfl_xor_sync(all, v, 17));
    ST(o + 5, (u64) __shfl_sync(all, f, 9));
    ST(o + 6, (u64) __shfl_down_sync(all, d, 1));
    ST(o + 7, (u64) (i64) __shfl_up_sync(all, (int) low, 1));
    ST(o + 8, (u64) __shfl_sync(all, low, 3, 8));
    ST(o + 9, (u64) __shfl_down_sync(all, low, 2, 4));
    ST(o + 10, (u64) __shfl_up_sync(all, low, 5, 16));
    ST(o + 11, (u64) __shfl_xor_sync(all, low, 4, 8));
    ST(o + 12, (u64) __ballot_sync(all, v & 1));
    ST(o + 13, (u64) __any_sync(all, lane == 9));
    ST(o + 14, (u64) __all_sync(all, lane != 9));
    ST(o + 15, (u64) __match_any_sync(all, (u32) v & 3));
    ST(o + 16, (u64) __match_any_sync(all, v >> 62));
    u32 half = lane < 16 ? 0xffffu : 0xffff0000u;
    if (lane < 16)
        ST(o + 17, (u64) __ballot_sync(half, v & 2));
    else
        ST(o + 17, (u64) __ballot_sync(half, v & 4));
    ST(o + 18, (u64) __shfl_sync(half, low, (int) (lane & 16)));
    __syncwarp();
    ST(o + 19, (u64) __reduce_add_sync(all, low & 0xffffffu));
    ST(o + 20, (u64) (i64) __reduce_min_sync(all, (int) low));
    ST(o + 21, (u64) __reduce_max_sync(all, low));
    ST(o + 22, (u64) (__reduce_and_sync(all, low) ^ __reduce_or_sync(all, low)));
    u32 active = __activemask();
    ST(o + 23, (u64) (active >> lane & 1) + (active ? 0 : 2));
});

static u64 mask_where(const u64 *v, u64 mask, u64 value, int first, int count) {
    u64 lanes = 0;
    for (int i = first; i < first + count; i++) {
        lanes |= (u64) ((v[i] & mask) == value) << i;
    }
    return lanes;
}

static u64 ballot(const u64 *v, u64 bit, int first, int count) {
    return mask_where(v, bit, bit, first, count);
}

static void model_shuffles(const u64 *v, int l, u64 *o) {
    o[0] = v[5];
    o[1] = (u32) v[(l + 7) % 32];
    o[2] = (u32) v[l < 3 ? l : l - 3];
    o[3] = (u32) v[l + 30 < 32 ? l + 30 : l];
    o[4] = v[l ^ 17];
    o[5] = v[9] & 1023;
    o[6] = v[l < 31 ? l + 1 : l] & 1023;
    o[7] = (u64) (int64_t) (int32_t) v[l ? l - 1 : 0];
    o[8] = (u32) v[(l & ~7) + 3];
    o[9] = (u32) v[l % 4 < 2 ? l + 2 : l];
    o[10] = (u32) v[l % 16 < 5 ? l : l - 5];
    o[11] = (u32) v[l ^ 4];
}

static void model_votes(const u64 *v, int l, u64 *o) {
    o[12] = ballot(v, 1, 0, 32);
    o[13] = 1;
    o[14] = 0;
    o[15] = mask_where(v, 3, v[l] & 3, 0, 32);
    o[16] = mask_where(v, 3ull << 62, v[l] & 3ull << 62, 0, 32);
    o[17] = l < 16 ? ballot(v, 2, 0, 16) : ballot(v, 4, 16, 16);
    o[18] = (u32) v[l & 16];
    u32 sum = 0, most = 0, and = ~0u, or = 0;
    int32_t least = INT32_MAX;
    for (int i = 0; i < LANES; i++) {
        u32 x = (u32) v[i];
        sum += x & 0xffffff;
        most = x > most ? x : most;
        least = (int32_t) x < least ? (int32_t) x : least;
        and &= x;
        or |= x;
    }
    o[19] = sum;
    o[20] = (u64) (int64_t) least;
    o[21] = most;
    o[22] = and ^ or ;
    o[23] = 1;
}

Test(simcode_blocks, lanes_of_a_warp_exchange_values) {
    simcode_open();
    u64 v[LANES], got[LANES][RESULTS], want[RESULTS];
    u32 *words = random_words(2 * LANES, 1u << 24);
    for (int i = 0; i < LANES; i++) {
        v[i] = (u64) words[2 * i] << 40 ^ (u64) words[2 * i + 1] << 10 ^ words[2 * i];
    }
    free(words);
    CUfunction f = simcode_function(warp_text, "lanes");
    CUdeviceptr in = simcode_upload(v, sizeof v), out = simcode_upload(NULL, sizeof got);
    for (u64 seed = 0; seed < SEEDS; seed++) {
        simcode_seed(seed);
        void *arguments[] = {&in, &out};
        cr_assert_eq(simcode_run(f, 1, LANES, arguments), 0);
        simcode_download(got, out, sizeof got);
        for (int l = 0; l < LANES; l++) {
            model_shuffles(v, l, want);
            model_votes(v, l, want);
            for (int k = 0; k < RESULTS; k++) {
                cr_assert_eq(got[l][k], want[k], "seed %lu, lane %d, result %d: %#lx, not %#lx",
                             seed, l, k, got[l][k], want[k]);
            }
        }
    }
}

/* Lanes that end early are waited for no more, at barriers and in warps. */
Test(simcode_blocks, threads_may_end_before_the_others_meet) {
    simcode_open();
    CUfunction f = simcode_function(SIMCODE_TEXT(KERNEL void k(u32 * out, u32 n) {
                                        SHARED(u32, count, 1);
                                        if (threadIdx.x == 0)
                                            count[0] = 0;
                                        __syncthreads();
                                        if (threadIdx.x >= n)
                                            return;
                                        atomicAdd(count, 1u);
                                        __syncthreads();
                                        u32 lanes = __ballot_sync(0xffffffffu, 1);
                                        ST(out + threadIdx.x, count[0] * 100 + (u32) __popc(lanes));
                                    }),
                                    "k");
    u32 n = 40, got[40];
    CUdeviceptr out = simcode_upload(NULL, sizeof got);
    for (u64 seed = 0; seed < SEEDS; seed++) {
        simcode_seed(seed);
        void *arguments[] = {&out, &n};
        cr_assert_eq(simcode_run(f, 1, 64, arguments), 0);
        simcode_download(got, out, sizeof got);
        for (u32 i = 0; i < n; i++) {
            cr_assert_eq(got[i], i < 32 ? 4032 : 4008, "seed %lu, thread %u: %u", seed, i, got[i]);
        }
    }
}

/* What the scanner of texts steps over, and what it must see: a kernel that waits for nothing runs
 * without a stack for each thread, and there a barrier would be lost. */
Test(simcode_blocks, kernels_are_found_among_comments_and_conditions) {
    static const char text[] =
        "/* KERNEL void k(int wrong) { __syncthreads(); } */ // KERNEL void k(\n"
        "#ifdef __CUDACC_RTC__\n#if 1\n#define HALF 8\n#else\n#endif\n"
        "DEV u32 two(void) { return 2; }\n"
        "#else\n#define HALF \\\n 8\nDEV u32 two(void) { return 2; }\n#endif\n"
        "#if !defined __CUDACC_RTC__ || 1\n"
        "KERNEL void __launch_bounds__(64) k(u32 *__restrict__ out, /* size */ const u32 n) {\n"
        "  SHARED(u32, s, 2 * HALF);\n"
        "  s[threadIdx.x] = 100 * threadIdx.x + n;\n"
        "  __syncthreads();\n"
        "  ST(out + threadIdx.x, s[15 - threadIdx.x] * two());\n"
        "}\n"
        "#endif\n"
        "KERNEL void other(void) { }\n";
    simcode_open();
    CUfunction f = simcode_function(text, "k"), other = simcode_function(text, "other");
    u32 n = 7, got[16];
    CUdeviceptr out = simcode_upload(NULL, sizeof got);
    void *arguments[] = {&out, &n};
    cr_assert_eq(simcode_run(f, 1, 16, arguments), 0);
    cr_assert_eq(simcode_run(other, 3, 5, NULL), 0);
    simcode_download(got, out, sizeof got);
    for (u32 i = 0; i < 16; i++) {
        cr_assert_eq(got[i], 2 * (100 * (15 - i) + 7), "thread %u: %u", i, got[i]);
    }
}

Test(simcode_blocks, barriers_count) {
    simcode_open();
    CUfunction f = simcode_function(SIMCODE_TEXT(KERNEL void k(u32 * out) {
                                        u32 t = threadIdx.x;
                                        int a = __syncthreads_count(t % 3 == 0);
                                        int b = __syncthreads_and(t < 100);
                                        int c = __syncthreads_or(t == 99);
                                        ST(out + t, (u32) (a * 100 + (b != 0) * 10 + (c != 0)));
                                    }),
                                    "k");
    u32 got[100];
    CUdeviceptr out = simcode_upload(NULL, sizeof got);
    void *arguments[] = {&out};
    cr_assert_eq(simcode_run(f, 1, 100, arguments), 0);
    simcode_download(got, out, sizeof got);
    cr_assert(got[0] == 3411 && got[99] == 3411, "%u %u", got[0], got[99]);
}

/* ---- Atomics ---- */

static const char atomics_text[] =
    SIMCODE_TEXT(KERNEL void k(int *i, u32 *u, u64 *l, float *f, double *d) {
        SHARED(u32, s, 2);
        u32 t = threadIdx.x;
        if (t == 0) {
            s[0] = 0;
            s[1] = 0;
        }
        __syncthreads();
        atomicAdd(i, (int) t);
        atomicAdd(u, t);
        atomicAdd(l, (u64) t << 32);
        atomicAdd(f, 0.5f);
        atomicAdd(d, 0.25);
        atomicSub(i + 1, 1);
        atomicSub(u + 1, 2u);
        atomicMin(i + 2, (int) t - 50);
        atomicMax(i + 3, (int) t - 50);
        atomicMin(u + 2, 1000u - t);
        atomicMax(u + 3, t * 2);
        atomicMin(l + 1, (u64) 1 << 40 | t);
        atomicMax(l + 2, (u64) t << 40);
        atomicAnd(u + 4, ~(1u << (t & 31)));
        atomicOr(u + 5, 1u << (t & 31));
        atomicXor(u + 6, t);
        atomicAnd(l + 3, ~((u64) 1 << (t & 63)));
        atomicOr(l + 4, (u64) 1 << (t & 63));
        atomicXor(l + 5, (u64) t << 33);
        u32 old = atomicExch(u + 7, t);
        atomicAdd(u + 8, old);
        atomicInc(u + 9, 9u);
        atomicDec(u + 10, 9u);
        u32 seen = LD(u + 11);
        u32 expected;
        do {
            expected = seen;
            seen = atomicCAS(u + 11, expected, expected + t);
        } while (seen != expected);
        atomicAdd(s, 1u);
        atomicMax(s + 1, t);
        __syncthreads();
        if (t == 0)
            ST(u + 12, s[0] * 1000 + s[1]);
    });

Test(simcode_blocks, atomics_of_every_kind) {
    simcode_open();
    CUfunction f = simcode_function(atomics_text, "k");
    for (u64 seed = 0; seed < SEEDS; seed++) {
        simcode_seed(seed);
        int i[4] = {0};
        u32 u[13] = {0, 0, ~0u, 0, ~0u};
        u64 l[6] = {0, ~0ull, 0, ~0ull};
        float fs = 0;
        double ds = 0;
        CUdeviceptr pi = simcode_upload(i, sizeof i), pu = simcode_upload(u, sizeof u);
        CUdeviceptr pl = simcode_upload(l, sizeof l), pf = simcode_upload(&fs, 4);
        CUdeviceptr pd = simcode_upload(&ds, 8);
        void *arguments[] = {&pi, &pu, &pl, &pf, &pd};
        cr_assert_eq(simcode_run(f, 1, 100, arguments), 0);
        simcode_download(i, pi, sizeof i);
        simcode_download(u, pu, sizeof u);
        simcode_download(l, pl, sizeof l);
        simcode_download(&fs, pf, 4);
        simcode_download(&ds, pd, 8);
        cr_assert(i[0] == 4950 && i[1] == -100 && i[2] == -50 && i[3] == 49);
        cr_assert(u[0] == 4950 && u[1] == (u32) -200 && u[2] == 901 && u[3] == 198);
        cr_assert(u[4] == 0 && u[5] == ~0u && u[6] == 0 && u[7] + u[8] == 4950);
        cr_assert(u[9] == 0 && u[10] == 0 && u[11] == 4950 && u[12] == 100099, "%u %u %u %u", u[9],
                  u[10], u[11], u[12]);
        cr_assert(l[0] == 4950ull << 32 && l[1] == 1ull << 40 && l[2] == 99ull << 40);
        cr_assert(l[3] == 0 && l[4] == ~0ull && l[5] == 0 && fs == 50.0f && ds == 25.0);
        simcode_free(pi);
        simcode_free(pu);
        simcode_free(pl);
        simcode_free(pf);
        simcode_free(pd);
    }
}

/* ---- What is wrong ---- */

/* Without its barriers, the reduction is wrong: threads run far ahead of each other, and shared
 * memory starts with a pattern. */
Test(simcode_blocks, a_missing_barrier_shows) {
    simcode_open_simulated();
    CUfunction f = simcode_function(SIMCODE_TEXT(KERNEL void k(u32 * out) {
                                        SHARED(u32, s, 256);
                                        s[threadIdx.x] = threadIdx.x;
                                        ST(out + threadIdx.x, s[255 - threadIdx.x]);
                                    }),
                                    "k");
    for (u64 seed = 0; seed < SEEDS; seed++) {
        simcode_seed(seed);
        u32 got[256], wrong = 0, poison = 0;
        CUdeviceptr out = simcode_upload(NULL, sizeof got);
        void *arguments[] = {&out};
        cr_assert_eq(simcode_run(f, 1, 256, arguments), 0);
        simcode_download(got, out, sizeof got);
        for (u32 i = 0; i < 256; i++) {
            wrong += got[i] != 255 - i;
            poison += got[i] == 0xa5a5a5a5;
        }
        cr_assert(wrong > 20 && wrong == poison, "seed %lu: %u wrong, %u poison", seed, wrong,
                  poison);
        simcode_free(out);
    }
}

typedef struct bad_kernel {
    const char *text; /* of kernel k(u32 *p, u32 n) */
    unsigned blocks, threads;
    int result;
    const char *part; /* of the report */
} bad_kernel;

static const bad_kernel bad[] = {
    {"KERNEL void k(u32 *p, u32 n) { ST(p + n + threadIdx.x, 1u); }", 1, 1, 700,
     "kernel k, block (0, 0, 0), thread (0, 0, 0): write of 4 bytes: 0x"},
    {"KERNEL void k(u32 *p, u32 n) { if (threadIdx.x == 3) ST(p, LD(p - 1)); }", 1, 4, 700,
     "thread (3, 0, 0): read of 4 bytes: 0x"},
    {"KERNEL void k(u32 *p, u32 n) { atomicAdd((u32 *) 64, 1u); }", 1, 1, 700,
     "atomic of 4 bytes: 0x40 is"},
    {"KERNEL void k(u32 *p, u32 n) { if (blockIdx.x == 2) ST((u64 *) (p + 1), (u64) 1); }", 3, 1,
     716, "block (2, 0, 0), thread (0, 0, 0): write of 8 bytes at"},
    {"KERNEL void k(uint4 *p, u32 n) { ST(p, LD((uint4 *) ((u32 *) p + 2))); }", 1, 1, 716,
     "read of 16 bytes at"},
    {"KERNEL void k(u32 *p, u32 n) {\n if (threadIdx.x < 8)\n __syncthreads();\n else\n"
     " __syncthreads();\n ST(p, 1u); }",
     1, 16, 719, "at the barrier in line"},
    {"KERNEL void k(u32 *p, u32 n) {\n if (threadIdx.x < 8)\n __ballot_sync(0xffffffffu, 1);\n "
     "else\n"
     " __any_sync(0xffffffffu, 1);\n ST(p, 1u); }",
     1, 32, 719, "with the same mask 0xffffffff"},
    {"KERNEL void k(u32 *p, u32 n) {\n if (threadIdx.x == 40) __syncwarp(1u); }", 1, 64, 719,
     "thread (40, 0, 0): the mask 0x1 of the warp operation in line 2 leaves out"},
    {"KERNEL void k(u32 *p, u32 n) {\n if (threadIdx.x < 8)\n __syncthreads();\n else\n"
     " __syncwarp(); }",
     1, 32, 702, "for ever"},
    {"KERNEL void k(u32 *p, u32 n) {\n if (threadIdx.x == 1) while (LD((volatile u32 *) p) == 0) ; "
     "}",
     1, 32, 702, "thread (1, 0, 0): waits for a change at address"},
    {"KERNEL void k(u32 *p, u32 n) { while (LD(p) == 0) __nanosleep(10u); }", 1, 32, 702,
     "for ever"},
    {"KERNEL void k(u32 *p, u32 n) { SHARED(u32, s, 4); s[threadIdx.x] = 1; __syncthreads();"
     " ST(p, s[0]); }",
     1, 6, 700, "behind a shared array of 16 bytes"},
    {"KERNEL void k(u32 *p, u32 n) { ST(p, *p); }", 1, 1, 700, "without LD or ST"},
    {"KERNEL void k(u32 *p, u32 n) { ST(p, 5u / (LD(p) & 0u)); }", 1, 1, 719, "division by zero"},
    {"KERNEL void k(u32 *p, u32 n) {\n if (threadIdx.x == 2)\n __trap(); }", 1, 4, 719,
     "thread (2, 0, 0): __trap() in line 3"},
    {"DEV u32 deep(u32 x) { u32 a[1000]; a[x] = x; return x ? deep(x) + a[x] : 0; }\n"
     "KERNEL void k(u32 *p, u32 n) { __syncthreads(); ST(p, deep(n)); }",
     1, 1, 719, "stack"},
};

Test(simcode_blocks, faults_name_kernel_thread_and_cause, .timeout = 250) {
    simcode_open_simulated();
    for (u64 seed = 0; seed < 2; seed++) {
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            simcode_seed(seed);
            CUfunction f = simcode_function(bad[i].text, "k");
            CUdeviceptr p = simcode_upload(NULL, 16);
            u32 n = 4;
            void *arguments[] = {&p, &n};
            CUresult result = simcode_run(f, bad[i].blocks, bad[i].threads, arguments);
            unsigned count;
            const char *text = simcode_faults(&count);
            cr_assert_eq(result, bad[i].result, "kernel %zu: %d, not %d; %s", i, result,
                         bad[i].result, text);
            cr_assert(count > 0 && strstr(text, bad[i].part), "kernel %zu: %s", i, text);
            simcode_reset();
        }
    }
}

/* In order it goes well; where a later block runs first and alone, nobody can help it. */
Test(simcode_blocks, waiting_for_an_earlier_block_without_a_ticket_is_found) {
    simcode_open_simulated();
    static const char text[] = SIMCODE_TEXT(KERNEL void k(u32 * p) {
        if (threadIdx.x == 0 && blockIdx.x > 0)
            while (LD((volatile u32 *) p + blockIdx.x - 1) == 0)
                ;
        __syncthreads();
        ST(p + blockIdx.x, 1u);
    });
    int found = 0;
    for (u64 seed = 0; seed < SEEDS; seed++) {
        simcode_seed(seed);
        CUfunction f = simcode_function(text, "k");
        CUdeviceptr p = simcode_upload(NULL, 64 * sizeof(u32));
        void *arguments[] = {&p};
        CUresult result = simcode_run(f, 64, 4, arguments);
        cr_assert(result == 0 || (seed && result == 702), "seed %lu: %d", seed, result);
        found += result == 702;
        simcode_reset();
    }
    cr_assert_gt(found, 0);
}
