/* builtins.c: the table of what kernels can call, the text of the prelude, and the device's
 * arithmetic where C has no function for it. */
#include "access.h"

#define BUILTIN(result, name, parameters, host)                                                    \
    {#name, #result " " #name #parameters, (void (*)(void)) host},
#define WORD(name, parameters, host) {#name, "unsigned " #name #parameters, (void (*)(void)) host},
const sim_builtin sim_builtins[] = {
#include "builtins.def"
    {NULL, NULL, NULL}};

/* sim_host_prelude: the file SIM_HOST_PRELUDE and a 0. */
__asm__(".section .rodata\n"
        ".globl sim_host_prelude\n"
        ".hidden sim_host_prelude\n"
        "sim_host_prelude:\n"
        ".incbin \"" SIM_HOST_PRELUDE "\"\n"
        ".byte 0\n"
        ".previous\n");

/* ---- Bits ---- */

int sim_popc(unsigned a) {
    return __builtin_popcount(a);
}
int sim_popcll(unsigned long long a) {
    return __builtin_popcountll(a);
}
int sim_clz(int a) {
    return a ? __builtin_clz((unsigned) a) : 32;
}
int sim_clzll(long long a) {
    return a ? __builtin_clzll((unsigned long long) a) : 64;
}
int sim_ffs(int a) {
    return __builtin_ffs(a);
}
int sim_ffsll(long long a) {
    return __builtin_ffsll(a);
}

uint64_t sim_brev(unsigned a) {
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++) {
        reversed |= (a >> i & 1) << (31 - i);
    }
    return reversed;
}

unsigned long long sim_brevll(unsigned long long a) {
    return (unsigned long long) sim_brev((unsigned) a) << 32 | sim_brev((unsigned) (a >> 32));
}

int sim_mulhi(int a, int b) {
    return (int) (((long long) a * b) >> 32);
}
uint64_t sim_umulhi(unsigned a, unsigned b) {
    return (unsigned) (((uint64_t) a * b) >> 32);
}
long long sim_mul64hi(long long a, long long b) {
    return (long long) (((__int128_t) a * b) >> 64);
}
unsigned long long sim_umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long) (((__uint128_t) a * b) >> 64);
}

/* Each of the four selectors picks a byte of b:a; its upper bit spreads that byte's sign. */
uint64_t sim_byte_perm(unsigned a, unsigned b, unsigned selectors) {
    uint64_t bytes = (uint64_t) b << 32 | a;
    unsigned out = 0;
    for (int i = 0; i < 4; i++) {
        unsigned selector = selectors >> (4 * i) & 0xf;
        unsigned byte = (unsigned) (bytes >> (8 * (selector & 7))) & 0xff;
        if (selector & 8) {
            byte = byte & 0x80 ? 0xff : 0;
        }
        out |= byte << (8 * i);
    }
    return out;
}

uint64_t sim_funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned) (((uint64_t) high << 32 | low) << (shift & 31) >> 32);
}

uint64_t sim_funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned) (((uint64_t) high << 32 | low) >> (shift & 31));
}

#define SAME_BITS(To, Result, name, From)                                                          \
    Result name(From a) {                                                                          \
        To to;                                                                                     \
        memcpy(&to, &a, sizeof to);                                                                \
        return to;                                                                                 \
    }
SAME_BITS(int, int, sim_float_as_int, float)
SAME_BITS(unsigned, uint64_t, sim_float_as_uint, float)
SAME_BITS(float, float, sim_int_as_float, int)
SAME_BITS(float, float, sim_uint_as_float, unsigned)
SAME_BITS(long long, long long, sim_double_as_longlong, double)
SAME_BITS(double, double, sim_longlong_as_double, long long)
#undef SAME_BITS

/* ---- Conversions ---- */

/* `limit`: 2 to the power of the integer's bits without the sign. */
#define SATURATE(To, name, From, nan, least, most, limit)                                          \
    To name(From a) {                                                                              \
        return a != a ? nan : a >= limit ? most : a <= (From) least ? least : (To) a;              \
    }
SATURATE(int, sim_float2int_rz, float, 0, INT32_MIN, INT32_MAX, 0x1p31f)
SATURATE(uint64_t, sim_float2uint_rz, float, 0, 0, UINT32_MAX, 0x1p32f)
SATURATE(long long, sim_float2ll_rz, float, INT64_MIN, INT64_MIN, INT64_MAX, 0x1p63f)
SATURATE(unsigned long long, sim_float2ull_rz, float, 1ull << 63, 0, UINT64_MAX, 0x1p64f)
SATURATE(int, sim_double2int_rz, double, INT32_MIN, INT32_MIN, INT32_MAX, 0x1p31)
SATURATE(uint64_t, sim_double2uint_rz, double, 1u << 31, 0, UINT32_MAX, 0x1p32)
SATURATE(long long, sim_double2ll_rz, double, INT64_MIN, INT64_MIN, INT64_MAX, 0x1p63)
SATURATE(unsigned long long, sim_double2ull_rz, double, 1ull << 63, 0, UINT64_MAX, 0x1p64)
#undef SATURATE

float sim_int2float_rn(int a) {
    return (float) a;
}
float sim_uint2float_rn(unsigned a) {
    return (float) a;
}
float sim_ll2float_rn(long long a) {
    return (float) a;
}
float sim_ull2float_rn(unsigned long long a) {
    return (float) a;
}
double sim_int2double_rn(int a) {
    return a;
}
double sim_uint2double_rn(unsigned a) {
    return a;
}
double sim_ll2double_rn(long long a) {
    return (double) a;
}
double sim_ull2double_rn(unsigned long long a) {
    return (double) a;
}
float sim_double2float_rn(double a) {
    return (float) a;
}
/* Casts in a text, which are undefined out of range: there as x86-64 compilers do it. */
unsigned long long sim_fixunsdfdi(double a) {
    return a >= 0x1p63 ? (unsigned long long) (long long) (a - 0x1p63) ^ 1ull << 63
                       : (unsigned long long) (long long) a;
}
unsigned long long sim_fixunssfdi(float a) {
    return sim_fixunsdfdi(a);
}

/* ---- Floating point ---- */

float sim_fadd(float a, float b) {
    return a + b;
}
float sim_fsub(float a, float b) {
    return a - b;
}
float sim_fmul(float a, float b) {
    return a * b;
}
float sim_fdiv(float a, float b) {
    return a / b;
}
float sim_frcp(float a) {
    return 1 / a;
}
double sim_dadd(double a, double b) {
    return a + b;
}
double sim_dsub(double a, double b) {
    return a - b;
}
double sim_dmul(double a, double b) {
    return a * b;
}
double sim_ddiv(double a, double b) {
    return a / b;
}
double sim_drcp(double a) {
    return 1 / a;
}
float sim_rsqrtf(float a) {
    return (float) (1 / sqrt((double) a));
}
double sim_rsqrt(double a) {
    return (double) (1 / sqrtl(a));
}
float sim_rcbrtf(float a) {
    return (float) (1 / cbrt((double) a));
}
double sim_rcbrt(double a) {
    return (double) (1 / cbrtl(a));
}

static float quiet_f(float a) {
    return a != a ? sim_uint_as_float((unsigned) sim_float_as_uint(a) | 1u << 22) : a;
}
static double quiet(double a) {
    return a != a ? sim_longlong_as_double(sim_double_as_longlong(a) | 1ll << 51) : a;
}
#define QUIET(m)                                                                                   \
    float sim_##m##f(float a, float b) {                                                           \
        return m##f(quiet_f(a), quiet_f(b));                                                       \
    }                                                                                              \
    double sim_##m(double a, double b) {                                                           \
        return m(quiet(a), quiet(b));                                                              \
    }
QUIET(pow)
QUIET(hypot)
QUIET(fmin)
QUIET(fmax)
#undef QUIET

int sim_isnanf(float a) {
    return a != a;
}
int sim_isnan(double a) {
    return a != a;
}
int sim_isinff(float a) {
    return fabsf(a) == HUGE_VALF;
}
int sim_isinf(double a) {
    return fabs(a) == HUGE_VAL;
}
int sim_signbitf(float a) {
    return sim_float_as_int(a) < 0;
}
int sim_signbit(double a) {
    return sim_double_as_longlong(a) < 0;
}
