/* math_kernel.c: compile and run one math function. */
#include "math_kernel.h"
#include <dlfcn.h>
#include <string.h>

jitc_isa math_host_isa(void) {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return JITC_ISA_V4;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return JITC_ISA_V3;
    return __builtin_cpu_supports("sse4.2") ? JITC_ISA_V2 : JITC_ISA_V1;
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

static bool run(const void *context, const void *a, const void *b, void *r, size_t n) {
    math_kernel_run(context, a, b, r, n);
    return true;
}

math_function math_kernel_function(const math_kernel *k) {
    return (math_function) {k->spec.op, k->spec.type, run, k};
}
