/* host_prelude.h: what CUDA C finds when the simulated NVRTC compiles it for the host.
 *
 * Its text stands in front of every text; the declarations of builtins.def stand in front of this
 * one. It is C for TinyCC and gcc, and only what NVRTC has too, but for KERNEL, DEV, LD, ST, SHARED
 * and SHARED_DYNAMIC, which a text defines itself where __CUDACC_RTC__ is defined. */
#define KERNEL
#define DEV static inline
#define __forceinline__
#define __noinline__
#define __launch_bounds__(...)
#define bool  _Bool
#define true  ((_Bool) 1)
#define false ((_Bool) 0)
typedef unsigned long size_t;

/* clang-format off */
/* Vectors have their alignment from the first member: TinyCC ignores an attribute of the type. */
#define SIM_VECTOR(T, N, LARGE)                                                                    \
    typedef struct N##2 {                                                                          \
        _Alignas(2 * sizeof(T)) T x;                                                               \
        T y;                                                                                       \
    } N##2;                                                                                        \
    typedef struct N##3 {                                                                          \
        T x, y, z;                                                                                 \
    } N##3;                                                                                        \
    typedef struct N##4 {                                                                          \
        _Alignas(LARGE) T x;                                                                       \
        T y, z, w;                                                                                 \
    } N##4;                                                                                        \
    static inline N##2 make_##N##2(T x, T y) {                                                     \
        N##2 v;                                                                                    \
        v.x = x, v.y = y;                                                                          \
        return v;                                                                                  \
    }                                                                                              \
    static inline N##3 make_##N##3(T x, T y, T z) {                                                \
        N##3 v;                                                                                    \
        v.x = x, v.y = y, v.z = z;                                                                 \
        return v;                                                                                  \
    }                                                                                              \
    static inline N##4 make_##N##4(T x, T y, T z, T w) {                                           \
        N##4 v;                                                                                    \
        v.x = x, v.y = y, v.z = z, v.w = w;                                                        \
        return v;                                                                                  \
    }
/* clang-format on */
SIM_VECTOR(unsigned int, uint, 16)
/* Reading them takes a third of a small text's time, so there are only those that it names. */
#ifdef SIM_NAMES_char
SIM_VECTOR(signed char, char, 4)
#endif
#ifdef SIM_NAMES_uchar
SIM_VECTOR(unsigned char, uchar, 4)
#endif
#ifdef SIM_NAMES_short
SIM_VECTOR(short, short, 8)
#endif
#ifdef SIM_NAMES_ushort
SIM_VECTOR(unsigned short, ushort, 8)
#endif
#ifdef SIM_NAMES_int
SIM_VECTOR(int, int, 16)
#endif
#ifdef SIM_NAMES_longlong
SIM_VECTOR(long long, longlong, 16)
#endif
#ifdef SIM_NAMES_ulonglong
SIM_VECTOR(unsigned long long, ulonglong, 16)
#endif
#ifdef SIM_NAMES_float
SIM_VECTOR(float, float, 16)
#endif
#ifdef SIM_NAMES_double
SIM_VECTOR(double, double, 16)
#endif
#undef SIM_VECTOR
typedef uint3 dim3;

/* The layout is that of sim_place in exec.h. */
struct sim_place {
    uint3 thread, block, block_size, grid_size;
};
#define threadIdx (((struct sim_place *) sim_here())->thread)
#define blockIdx  (((struct sim_place *) sim_here())->block)
#define blockDim  (((struct sim_place *) sim_here())->block_size)
#define gridDim   (((struct sim_place *) sim_here())->grid_size)
#define warpSize  32

/* Global memory. What is read or written is checked and translated at every access. */
#define SIM_MEMORY(how, p)                                                                         \
    (*(__typeof__(&*(p))) how((const volatile void *) (p), sizeof *(p), _Alignof(__typeof__(*(p)))))
#define LD(p)        SIM_MEMORY(sim_load, p)
#define ST(p, value) ((void) (SIM_MEMORY(sim_store, p) = (value)))
#define __ldg        LD
#define __ldca       LD
#define __ldcg       LD
#define __ldcs       LD
#define __ldlu       LD
#define __ldcv       LD
#define __stwb       ST
#define __stcg       ST
#define __stcs       ST
#define __stwt       ST

/* An array of a block: every thread finds the same one by the address of a static object. */
#define SHARED(T, name, count)                                                                     \
    static char sim_id_of_##name;                                                                  \
    T *name = (T *) sim_shared(&sim_id_of_##name, sizeof(T) * (count))
#define SHARED_DYNAMIC(T, name) T *name = (T *) sim_shared((void *) 0, 0)

#define SIM_BY_TYPE(name, value)                                                                   \
    _Generic(+(value),                                                                             \
        int: name##i32,                                                                            \
        unsigned: name##u32,                                                                       \
        long: name##l64,                                                                           \
        unsigned long: name##ul64,                                                                 \
        long long: name##i64,                                                                      \
        unsigned long long: name##u64,                                                             \
        float: name##f32,                                                                          \
        double: name##f64)

#ifdef SIM_WAITS
/* Kinds: barrier.c and warp.c. */
#    define __syncthreads()            ((void) sim_barrier(0, 0, __LINE__))
#    define __syncthreads_count(value) sim_barrier(1, (value) != 0, __LINE__)
#    define __syncthreads_and(value)   sim_barrier(2, (value) != 0, __LINE__)
#    define __syncthreads_or(value)    sim_barrier(3, (value) != 0, __LINE__)
#    define SIM_WARP_0(kind, mask)     sim_warp(kind, mask, 0, 0, 32, __LINE__)
#    define SIM_WARP_1(kind, mask, bit)                                                            \
        ((unsigned) sim_warp(kind, mask, (bit) != 0, 0, 32, __LINE__))
#    define SIM_WARP_OF(mask, ...)   ((void) SIM_WARP_0(0, mask))
#    define __syncwarp(...)          SIM_WARP_OF(__VA_ARGS__ + 0xffffffffu * (sizeof #__VA_ARGS__ == 1), 0)
#    define __ballot_sync(mask, bit) SIM_WARP_1(1, mask, bit)
#    define __any_sync(mask, bit)    ((int) SIM_WARP_1(2, mask, bit))
#    define __all_sync(mask, bit)    ((int) SIM_WARP_1(3, mask, bit))
#    define __activemask()           sim_active_mask()

/* clang-format off */
#define SIM_TYPES(X)                                                                               \
    X(int, i32) X(unsigned, u32)                                                                   \
    X(long, l64) X(unsigned long, ul64) X(long long, i64) X(unsigned long long, u64)               \
    X(float, f32) X(double, f64)
/* clang-format on */
#    define SIM_SHUFFLE_OF(T, name)                                                                \
        static inline T sim_shuffle_##name(int kind, unsigned mask, T value, unsigned lane,        \
                                           unsigned width, int line) {                             \
            union {                                                                                \
                T value;                                                                           \
                unsigned long long bits;                                                           \
            } u;                                                                                   \
            u.bits = 0;                                                                            \
            u.value = value;                                                                       \
            u.bits = sim_warp(kind, mask, u.bits, lane, width, line);                              \
            return u.value;                                                                        \
        }
SIM_TYPES(SIM_SHUFFLE_OF)
#    define SIM_MATCH_OF(T, name)                                                                  \
        static inline unsigned sim_match_##name(unsigned mask, T value, int line) {                \
            union {                                                                                \
                T value;                                                                           \
                unsigned long long bits;                                                           \
            } u;                                                                                   \
            u.bits = 0;                                                                            \
            u.value = value;                                                                       \
            return (unsigned) sim_warp(8, mask, u.bits, 0, 32, line);                              \
        }
SIM_TYPES(SIM_MATCH_OF)
/* The width of the shuffle may be left out. */
#    define SIM_SHUFFLE(kind, mask, value, lane, width, ...)                                       \
        SIM_BY_TYPE(sim_shuffle_, value)(kind, mask, value, (unsigned) (lane), width, __LINE__)
#    define __shfl_sync(...)              SIM_SHUFFLE(4, __VA_ARGS__, 32, 0)
#    define __shfl_up_sync(...)           SIM_SHUFFLE(5, __VA_ARGS__, 32, 0)
#    define __shfl_down_sync(...)         SIM_SHUFFLE(6, __VA_ARGS__, 32, 0)
#    define __shfl_xor_sync(...)          SIM_SHUFFLE(7, __VA_ARGS__, 32, 0)
#    define __match_any_sync(mask, value) SIM_BY_TYPE(sim_match_, value)(mask, value, __LINE__)
#    define SIM_REDUCE(kind, mask, value)                                                          \
        _Generic(+(value), int: sim_reduce_i32, unsigned: sim_reduce_u32)(kind, mask, value,       \
                                                                          __LINE__)
static inline int sim_reduce_i32(int kind, unsigned mask, int value, int line) {
    return (int) sim_warp(kind, mask, (unsigned long long) (long long) value, 0, 32, line);
}
static inline unsigned sim_reduce_u32(int kind, unsigned mask, unsigned value, int line) {
    return (unsigned) sim_warp(kind, mask, value, 0, 32, line);
}
#    define __reduce_add_sync(mask, value) SIM_REDUCE(9, mask, value)
#    define __reduce_min_sync(mask, value) SIM_REDUCE(10, mask, value)
#    define __reduce_max_sync(mask, value) SIM_REDUCE(11, mask, value)
#    define __reduce_and_sync(mask, value) SIM_REDUCE(12, mask, value)
#    define __reduce_or_sync(mask, value)  SIM_REDUCE(13, mask, value)
#    define __reduce_xor_sync(mask, value) SIM_REDUCE(14, mask, value)
#endif

/* Atomics, on global and shared memory, for the types that CUDA has. */
#define SIM_ATOMIC_32(name, p)                                                                     \
    _Generic((p) + 0, int *: sim_##name##_i32, unsigned *: sim_##name##_u32)
#define SIM_ATOMIC_BITS(name, p)                                                                   \
    _Generic((p) + 0,                                                                              \
        int *: sim_##name##_i32,                                                                   \
        unsigned *: sim_##name##_u32,                                                              \
        unsigned long long *: sim_##name##_u64)
#define SIM_ATOMIC_ORDER(name, p)                                                                  \
    _Generic((p) + 0,                                                                              \
        int *: sim_##name##_i32,                                                                   \
        unsigned *: sim_##name##_u32,                                                              \
        long long *: sim_##name##_i64,                                                             \
        unsigned long long *: sim_##name##_u64)
#define atomicAdd(p, value)                                                                        \
    _Generic((p) + 0,                                                                              \
        int *: sim_add_i32,                                                                        \
        unsigned *: sim_add_u32,                                                                   \
        unsigned long long *: sim_add_u64,                                                         \
        float *: sim_add_f32,                                                                      \
        double *: sim_add_f64)(p, value)
#define atomicSub(p, value) SIM_ATOMIC_32(sub, p)(p, value)
#define atomicMin(p, value) SIM_ATOMIC_ORDER(least, p)(p, value)
#define atomicMax(p, value) SIM_ATOMIC_ORDER(most, p)(p, value)
#define atomicAnd(p, value) SIM_ATOMIC_BITS(and, p)(p, value)
#define atomicOr(p, value)  SIM_ATOMIC_BITS(or, p)(p, value)
#define atomicXor(p, value) SIM_ATOMIC_BITS(xor, p)(p, value)
#define atomicExch(p, value)                                                                       \
    _Generic((p) + 0,                                                                              \
        int *: sim_swap_i32,                                                                       \
        unsigned *: sim_swap_u32,                                                                  \
        unsigned long long *: sim_swap_u64,                                                        \
        float *: sim_swap_f32)(p, value)
#define atomicCAS(p, expected, value)                                                              \
    _Generic((p) + 0,                                                                              \
        int *: sim_cas_i32,                                                                        \
        unsigned *: sim_cas_u32,                                                                   \
        unsigned short *: sim_cas_u16,                                                             \
        unsigned long long *: sim_cas_u64)(p, expected, value)
#define atomicInc sim_inc_u32
#define atomicDec sim_dec_u32

/* Functions that CUDA overloads. */
#define SIM_ORDER_OF(T, name)                                                                      \
    static inline T sim_min_##name(T a, T b) {                                                     \
        return a < b ? a : b;                                                                      \
    }                                                                                              \
    static inline T sim_max_##name(T a, T b) {                                                     \
        return a < b ? b : a;                                                                      \
    }
SIM_ORDER_OF(int, i32)
SIM_ORDER_OF(unsigned, u32)
SIM_ORDER_OF(long, l64)
SIM_ORDER_OF(unsigned long, ul64)
SIM_ORDER_OF(long long, i64)
SIM_ORDER_OF(unsigned long long, u64)
#define sim_min_f32 fminf
#define sim_min_f64 fmin
#define sim_max_f32 fmaxf
#define sim_max_f64 fmax
#define min(a, b)   SIM_BY_TYPE(sim_min_, (a) + (b))(a, b)
#define max(a, b)   SIM_BY_TYPE(sim_max_, (a) + (b))(a, b)
#define abs(a)      _Generic(+(a), int: sim_abs, long long: llabs, float: fabsf, double: fabs)(a)

/* What needs no code. */
#define __threadfence()           ((void) 0)
#define __threadfence_block()     ((void) 0)
#define __threadfence_system()    ((void) 0)
#define __builtin_assume(what)    ((void) 0)
#define __nanosleep(ns)           ((void) (ns), sim_pause())
#define __trap()                  sim_trap(__LINE__)
#define clock64()                 ((long long) sim_clock())
#define clock()                   ((int) sim_clock())
#define SIM_BY_FLOAT(name, value) _Generic((value) + 0.0f, float: name##f, double: name)(value)
#define isnan(value)              SIM_BY_FLOAT(sim_isnan, value)
#define isinf(value)              SIM_BY_FLOAT(sim_isinf, value)
#define signbit(value)            SIM_BY_FLOAT(sim_signbit, value)
