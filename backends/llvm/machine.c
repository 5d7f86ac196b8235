/* machine.c: what the processor and the system offer.  Layer: llvm.  May include: core, ir. */
#include "llvm/machine.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

static const char *const names[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

const char *jitc_machine_isa_name(jitc_isa isa) {
    return names[isa];
}

#define HAS(feature) (__builtin_cpu_supports(feature) != 0)
static bool has_v2(void) {
    return HAS("sse3") && HAS("ssse3") && HAS("sse4.1") && HAS("sse4.2") && HAS("popcnt");
}
/** F16C, MOVBE and LZCNT came with AVX2, FMA and BMI on every processor; not all compilers know
 *  their names here. */
static bool has_v3(void) {
    return has_v2() && HAS("avx") && HAS("avx2") && HAS("fma") && HAS("bmi") && HAS("bmi2");
}
static bool has_v4(void) {
    return has_v3() && HAS("avx512f") && HAS("avx512bw") && HAS("avx512cd") && HAS("avx512dq") &&
           HAS("avx512vl");
}
#undef HAS

jit_status jitc_machine_isa(const char *wanted, jitc_isa *out) {
    __builtin_cpu_init();
    jitc_isa best = has_v4()   ? JITC_ISA_V4
                    : has_v3() ? JITC_ISA_V3
                    : has_v2() ? JITC_ISA_V2
                               : JITC_ISA_V1;
    *out = best;
    if (!*wanted)
        return JIT_OK;
    for (int i = JITC_ISA_V1; i <= JITC_ISA_V4; i++) {
        if (strcmp(wanted, names[i]) != 0)
            continue;
        if (i > (int) best)
            return jitc_fail(JIT_UNAVAILABLE, "llvm: the processor is no %s, only %s", wanted,
                             names[best]);
        *out = (jitc_isa) i;
        return JIT_OK;
    }
    return jitc_fail(JIT_INVALID_ARGUMENT, "llvm_isa: '%.40s' is none of %s, %s, %s, %s", wanted,
                     names[JITC_ISA_V1], names[JITC_ISA_V2], names[JITC_ISA_V3],
                     names[JITC_ISA_V4]);
}

/** Numbers from a file; how many were read. */
static int read_numbers(const char *path, const char *format, long long *a, long long *b) {
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    int n = fscanf(f, format, a, b); /* NOLINT(cert-err34-c): kernel files, and 0 is no quota */
    fclose(f);
    return n;
}

/** Processors of a quota; 0: none. */
static int quota_of(long long quota, long long period) {
    if (quota <= 0 || period <= 0)
        return 0;
    long long n = (quota + period - 1) / period;
    return n < 1 << 16 ? (int) n : 0;
}

/** Version 2 of control groups: the least that `limit` reads in the file `name` of the process's
 * own group and of those above; 0 if there is none. */
static uint64_t least_of_groups(const char *name, uint64_t (*limit)(const char *path)) {
    char line[512], path[600];
    FILE *f = fopen("/proc/self/cgroup", "re");
    uint64_t least = 0;
    bool found = f && fgets(line, sizeof line, f) && strncmp(line, "0::", 3) == 0;
    if (f)
        fclose(f);
    if (!found)
        return 0;
    char *group = line + 3;
    group[strcspn(group, "\n")] = 0;
    for (;;) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", group, name);
        uint64_t n = limit(path);
        least = n && (!least || n < least) ? n : least;
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

static uint64_t read_quota(const char *path) {
    long long quota = 0, period = 0;
    if (read_numbers(path, "%lld %lld", &quota, &period) != 2) /* "max" is no number */
        return 0;
    return (uint64_t) quota_of(quota, period);
}

static uint64_t read_bytes(const char *path) {
    long long bytes = 0, unused = 0;
    return read_numbers(path, "%lld", &bytes, &unused) == 1 && bytes > 0 ? (uint64_t) bytes : 0;
}

static int quota_v1(void) {
    long long quota = 0, period = 0, unused = 0;
    if (read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "%lld", &quota, &unused) < 1 ||
        read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "%lld", &period, &unused) < 1)
        return 0;
    return quota_of(quota, period);
}

int jitc_machine_cores(void) {
    int cores = jitc_usable_cores(), quota = (int) least_of_groups("cpu.max", read_quota);
    if (!quota)
        quota = quota_v1();
    return quota && quota < cores ? quota : cores;
}

uint64_t jitc_machine_memory(void) {
    struct sysinfo system;
    if (sysinfo(&system) != 0)
        return UINT64_MAX;
    uint64_t all = ((uint64_t) system.totalram + system.totalswap) * system.mem_unit;
    uint64_t group = least_of_groups("memory.max", read_bytes);
    if (!group)
        group = read_bytes("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    return group && group < all ? group : all;
}
