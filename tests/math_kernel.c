/* math_kernel.c: compile, run and judge one math function. */
#include "math_kernel.h"
#include "reference.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

jitc_isa math_host_isa(void) {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return JITC_ISA_V4;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return JITC_ISA_V3;
    return __builtin_cpu_supports("sse4.2") ? JITC_ISA_V2 : JITC_ISA_V1;
}

static void set_attribute(const jitc_emit *e, const char *name, const char *text) {
    const jitc_llvm *api = e->api;
    LLVMAttributeRef a = api->LLVMCreateStringAttribute(e->context, name, (unsigned) strlen(name),
                                                        text, (unsigned) strlen(text));
    api->LLVMAddAttributeAtIndex(e->function, (LLVMAttributeIndex) LLVMAttributeFunctionIndex, a);
}

static jitc_emit begin(const jitc_llvm *api, const math_spec *s) {
    jitc_emit e = {.api = api, .isa = s->isa, .lanes = s->lanes};
    e.context = api->LLVMContextCreate();
    e.module = api->LLVMModuleCreateWithNameInContext("math", e.context);
    e.b = api->LLVMCreateBuilderInContext(e.context);
    e.i1 = api->LLVMIntTypeInContext(e.context, 1);
    e.i8 = api->LLVMIntTypeInContext(e.context, 8);
    e.i16 = api->LLVMIntTypeInContext(e.context, 16);
    e.i32 = api->LLVMIntTypeInContext(e.context, 32);
    e.i64 = api->LLVMIntTypeInContext(e.context, 64);
    e.f16 = api->LLVMHalfTypeInContext(e.context);
    e.f32 = api->LLVMFloatTypeInContext(e.context);
    e.f64 = api->LLVMDoubleTypeInContext(e.context);
    e.ptr = api->LLVMPointerType(e.i8, 0);
    LLVMTypeRef params[4] = {e.ptr, e.ptr, e.ptr, e.i64};
    LLVMTypeRef type = api->LLVMFunctionType(api->LLVMVoidTypeInContext(e.context), params, 4, 0);
    e.function = api->LLVMAddFunction(e.module, "kernel", type);
    set_attribute(&e, "prefer-vector-width", "512");
    set_attribute(&e, "min-legal-vector-width", "512");
    return e;
}

static LLVMValueRef element(jitc_emit *e, LLVMTypeRef scalar, unsigned param, LLVMValueRef i) {
    return e->api->LLVMBuildGEP2(e->b, scalar, e->api->LLVMGetParam(e->function, param), &i, 1, "");
}

static void emit_body(jitc_emit *e, const math_spec *s, LLVMValueRef i) {
    const jitc_llvm *api = e->api;
    LLVMTypeRef scalar = s->type == JIT_f64 ? e->f64 : e->f32, vector = jitc_emit_vector(e, scalar);
    unsigned arity = jitc_ops[s->op].arity, bytes = jitc_dtypes[s->type].bytes;
    LLVMValueRef args[2];
    for (unsigned k = 0; k < arity; k++) {
        args[k] = api->LLVMBuildLoad2(e->b, vector, element(e, scalar, k, i), "");
        api->LLVMSetAlignment(args[k], bytes);
    }
    LLVMValueRef y = s->symbol ? jitc_emit_call(e, s->symbol, vector, arity, args)
                               : jitc_emit_math(e, s->op, s->type, args);
    LLVMValueRef store = api->LLVMBuildStore(e->b, y, element(e, scalar, 2, i));
    api->LLVMSetAlignment(store, bytes);
}

static void emit_loop(jitc_emit *e, const math_spec *s) {
    const jitc_llvm *api = e->api;
    LLVMBasicBlockRef entry = api->LLVMAppendBasicBlockInContext(e->context, e->function, "");
    LLVMBasicBlockRef loop = api->LLVMAppendBasicBlockInContext(e->context, e->function, "");
    LLVMBasicBlockRef end = api->LLVMAppendBasicBlockInContext(e->context, e->function, "");
    api->LLVMPositionBuilderAtEnd(e->b, entry);
    api->LLVMBuildBr(e->b, loop);
    api->LLVMPositionBuilderAtEnd(e->b, loop);
    LLVMValueRef i = api->LLVMBuildPhi(e->b, e->i64, "");
    emit_body(e, s, i);
    LLVMValueRef next =
        api->LLVMBuildBinOp(e->b, LLVMAdd, i, api->LLVMConstInt(e->i64, e->lanes, 0), "");
    LLVMValueRef more = jitc_emit_icmp(e, LLVMIntULT, next, api->LLVMGetParam(e->function, 3));
    LLVMValueRef values[2] = {api->LLVMConstInt(e->i64, 0, 0), next};
    LLVMBasicBlockRef from[2] = {entry, api->LLVMGetInsertBlock(e->b)};
    api->LLVMBuildCondBr(e->b, more, loop, end);
    api->LLVMAddIncoming(i, values, from, 2);
    api->LLVMPositionBuilderAtEnd(e->b, end);
    api->LLVMBuildRetVoid(e->b);
}

typedef struct sources {
    jitc_symbols *symbols;
    bool substitutes;
} sources;

static void *find(void *context, const char *name) {
    static const char *const functions = "_ZGV"; /* libmvec's names, called for comparison only */
    sources *s = context;
    if (strncmp(name, functions, 4) == 0) {
        void *mvec = dlopen("libmvec.so.1", RTLD_LAZY);
        return mvec ? dlsym(mvec, name) : NULL;
    }
    return s->substitutes ? jitc_symbols_substitute(name) : jitc_symbols_find(s->symbols, name);
}

static LLVMTargetMachineRef make_machine(const jitc_llvm *api, const math_spec *s) {
    static const char *const cpus[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
    static const char triple[] = "x86_64-unknown-linux-gnu";
    LLVMTargetRef target;
    char *message;
    if (api->LLVMGetTargetFromTriple(triple, &target, &message))
        return NULL;
    return api->LLVMCreateTargetMachine(target, triple, cpus[s->isa], "",
                                        s->level ? LLVMCodeGenLevelDefault : LLVMCodeGenLevelNone,
                                        LLVMRelocPIC, LLVMCodeModelSmall);
}

static jit_status generate(const jitc_emit *e, LLVMTargetMachineRef machine, sources *s,
                           math_kernel *out) {
    const jitc_llvm *api = e->api;
    char *message = NULL;
    LLVMMemoryBufferRef object;
    if (api->LLVMVerifyModule(e->module, LLVMReturnStatusAction, &message))
        return jitc_fail(JIT_COMPILE_FAILED, "%s", message);
    if (api->LLVMTargetMachineEmitToMemoryBuffer(machine, e->module, LLVMObjectFile, &message,
                                                 &object))
        return jitc_fail(JIT_COMPILE_FAILED, "%s", message);
    jitc_blob blob = {(void *) (uintptr_t) api->LLVMGetBufferStart(object),
                      api->LLVMGetBufferSize(object)};
    jitc_resolver resolver = {find, s};
    jit_status status = jitc_code_load(&blob, "kernel", &resolver, &out->code);
    api->LLVMDisposeMemoryBuffer(object);
    return status;
}

jit_status math_kernel_create(const jitc_llvm *api, jitc_symbols *symbols, const math_spec *spec,
                              math_kernel *out) {
    sources s = {symbols, spec->substitutes};
    LLVMTargetMachineRef machine = make_machine(api, spec);
    if (!machine)
        return jitc_fail(JIT_COMPILE_FAILED, "no target machine");
    jitc_emit e = begin(api, spec);
    out->spec = *spec;
    emit_loop(&e, spec);
    jit_status status = generate(&e, machine, &s, out);
    api->LLVMDisposeBuilder(e.b);
    api->LLVMDisposeModule(e.module);
    api->LLVMContextDispose(e.context);
    api->LLVMDisposeTargetMachine(machine);
    return status;
}

void math_kernel_finish(math_kernel *k) {
    jitc_code_finish(&k->code);
}

void math_kernel_run(const math_kernel *k, const void *a, const void *b, void *r, size_t n) {
    void (*f)(const void *, const void *, void *, uint64_t) = NULL;
    memcpy(&f, &k->code.entry, sizeof f);
    f(a, b, r, n);
}

/* Errors. */

double math_to_double(jit_dtype type, uint64_t bits) {
    double d;
    float f;
    uint32_t low = (uint32_t) bits;
    memcpy(&d, &bits, sizeof d);
    memcpy(&f, &low, sizeof f);
    return type == JIT_f64 ? d : (double) f;
}

static uint64_t load_bits(jit_dtype type, const void *p, size_t i) {
    uint64_t wide = 0;
    memcpy(&wide, (const char *) p + i * jitc_dtypes[type].bytes, jitc_dtypes[type].bytes);
    return wide;
}

static void store_double(jit_dtype type, void *p, size_t i, double d) {
    if (type == JIT_f64)
        ((double *) p)[i] = d;
    else
        ((float *) p)[i] = (float) d;
}

#define ONE_ARGUMENT(X)                                                                            \
    X(exp)                                                                                         \
    X(exp2)                                                                                        \
    X(exp10)                                                                                       \
    X(expm1) X(log) X(log2) X(log10) X(log1p) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) \
        X(cosh) X(tanh) X(cbrt) X(erf)
#define TWO_ARGUMENTS(X) X(pow) X(atan2) X(hypot)

static double wide_f32(jitc_op op, double a, double b) {
    switch (op) {
#define X(name)                                                                                    \
    case JITC_OP_##name: return name(a);
        ONE_ARGUMENT(X)
#undef X
#define X(name)                                                                                    \
    case JITC_OP_##name: return name(a, b);
        TWO_ARGUMENTS(X)
#undef X
        default: return 0;
    }
}

static long double wide_f64(jitc_op op, long double a, long double b) {
    switch (op) {
#define X(name)                                                                                    \
    case JITC_OP_##name: return name##l(a);
        ONE_ARGUMENT(X)
#undef X
#define X(name)                                                                                    \
    case JITC_OP_##name: return name##l(a, b);
        TWO_ARGUMENTS(X)
#undef X
        default: return 0;
    }
}

/** About how far got is from want, in units in the last place; large if in doubt. */
static double estimate(jit_dtype type, double got, long double want) {
    int precision = type == JIT_f64 ? 53 : 24, least = type == JIT_f64 ? -1021 : -125, exponent;
    if (!isfinite(got) || !isfinite(want) || want == 0)
        return INFINITY;
    frexpl(want, &exponent);
    exponent = exponent < least ? least : exponent;
    return (double) (fabsl((long double) got - want) / ldexpl(1, exponent - precision));
}

void math_error_add(math_error *e, const math_spec *s, const void *a, const void *b, const void *r,
                    size_t n) {
    bool two = jitc_ops[s->op].arity == 2;
    for (size_t i = 0; i < n; i++) {
        uint64_t in[3] = {load_bits(s->type, a, i), two ? load_bits(s->type, b, i) : 0, 0};
        uint64_t got = load_bits(s->type, r, i);
        double x = math_to_double(s->type, in[0]), y = math_to_double(s->type, in[1]);
        long double want =
            s->type == JIT_f64 ? wide_f64(s->op, x, y) : (long double) wide_f32(s->op, x, y);
        double size = math_to_double(s->type, got);
        if (isnan(size) && isnan(want))
            continue;
        if (isinf(size) && isinf(want) && (size > 0) == (want > 0))
            continue;
        if (estimate(s->type, size, want) < fmin(e->ulp, 1) * 0.999)
            continue;
        double exact = reference_error(s->op, s->type, in, got);
        e->above += exact > 1;
        if (exact > e->ulp)
            *e = (math_error) {exact, {in[0], in[1]}, e->above};
    }
}

/* Their negatives, too. */
static const double edges[] = {0,
                               1,
                               0.5,
                               2,
                               3,
                               1.5,
                               10,
                               17,
                               20,
                               100,
                               1e-8,
                               1e-20,
                               1e-40,
                               1e-45,
                               1e-160,
                               1e-310,
                               5e-324,
                               0x1p-126,
                               0x1p-1022,
                               0x1.fffffep127,
                               0x1.fffffffffffffp1023,
                               8e307,
                               1e15,
                               1e22,
                               1e30,
                               1e38,
                               1e300,
                               0x1p1000,
                               0x1.8p23,
                               0x1p24,
                               8388609,
                               9007199254740992.0,
                               0x1p53,
                               0x1p62,
                               0.785398163397448279,
                               1.57079632679489656,
                               3.14159265358979312,
                               8192,
                               8193,
                               1e5,
                               0.9999999,
                               1.0000001,
                               0x1.fffffffffffffp-1,
                               0x1.0000000000001p0,
                               87.4,
                               88.7,
                               88.73,
                               89,
                               89.4,
                               89.5,
                               103.9,
                               104,
                               127.9999,
                               128,
                               149,
                               149.5,
                               150,
                               38.5,
                               38.54,
                               45,
                               45.2,
                               308.2,
                               308.3,
                               323,
                               324,
                               700,
                               708.5,
                               709.7,
                               709.79,
                               710.4,
                               710.5,
                               745.1,
                               745.2,
                               1023.9,
                               1024,
                               1074,
                               1075,
                               3.92,
                               4,
                               9.01,
                               9.02,
                               0.125,
                               0.09375,
                               1e-4,
                               1e-10,
                               INFINITY,
                               NAN};
enum { EDGES = sizeof edges / sizeof *edges };

static double edge(jit_dtype type, uint64_t i) {
    double d = i % 2 ? -edges[i / 2 % EDGES] : edges[i / 2 % EDGES];
    return type == JIT_f64 ? d : (double) (float) d;
}

size_t math_edges(jit_dtype type, void *out, size_t room) {
    size_t n = 0;
    for (; n < room && n < 2 * EDGES; n++)
        store_double(type, out, n, edge(type, n));
    return n;
}

static uint64_t next(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/** Uniform in [-1, 1). */
static double unit(uint64_t *seed) {
    return (double) (int64_t) next(seed) * 0x1p-63;
}

/** Any bits. */
static double anything(jit_dtype type, uint64_t *seed) {
    return math_to_double(type, next(seed));
}

/** A special argument or a neighbour of one, near or not so near. */
static double about_edge(const math_spec *s, uint64_t *seed) {
    double at = edge(s->type, next(seed) % (2 * (uint64_t) EDGES));
    return at + at * ldexp(unit(seed), -(int) (next(seed) % 53));
}

static void random_pair(const math_spec *s, uint64_t *seed, size_t i, double *a, double *b) {
    double reach = s->type == JIT_f64 ? 745 : 104;
    switch (i % 6) {
        case 0: /* pow over its whole range */
            *a = exp(20 * unit(seed));
            *b = reach * unit(seed) / fmax(fabs(log(*a)), 1e-3);
            break;
        case 4: /* pow near its limits */
            *a = exp(20 * unit(seed));
            *b = (s->type == JIT_f64 ? 709.782712893384 : 88.72283905206835) / log(*a);
            *b *= 1 + ldexp(unit(seed), -(int) (next(seed) % 53));
            break;
        case 5:
            *a = about_edge(s, seed);
            *b = about_edge(s, seed);
            break;
        case 1:
            *a = anything(s->type, seed);
            *b = anything(s->type, seed);
            break;
        case 2:
            *a = 10 * unit(seed);
            *b = 10 * unit(seed);
            break;
        default: *a = 1 + 1e-3 * unit(seed); *b = 3e4 * unit(seed);
    }
}

static double random_one(const math_spec *s, uint64_t *seed, size_t i) {
    switch (i % 7) {
        case 6: return about_edge(s, seed);
        case 0: return anything(s->type, seed);
        case 1: return (s->type == JIT_f64 ? 750 : 105) * unit(seed);
        case 2: return 30 * unit(seed);
        case 3: return 1.2 * unit(seed);
        case 4: return exp(30 * unit(seed));
        default: return 5 * unit(seed);
    }
}

void math_random(const math_spec *s, uint64_t *seed, void *a, void *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double x = 0, y = 0;
        if (jitc_ops[s->op].arity == 2)
            random_pair(s, seed, i, &x, &y);
        else
            x = random_one(s, seed, i);
        store_double(s->type, a, i, x);
        store_double(s->type, b, i, y);
    }
}
