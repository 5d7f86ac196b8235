/* compiler.c: modules to objects.  Layer: llvm.  May include: core, ir.
 *
 * No passes are run over the module: value numbering has been done when the program was recorded,
 * and what remains never made straight-line vector code faster, but compile time several times
 * longer. */
#include "llvm/compiler.h"
#include "core/exit.h"
#include <stdlib.h>
#include <string.h>

enum { USES_OF_A_CONTEXT = 1000 }; /* types and constants of a context are never freed */

struct jitc_machine {
    const jitc_llvm *api;
    LLVMContextRef context;
    LLVMTargetMachineRef levels[JITC_LLVM_LEVELS]; /* NULL: not needed yet */
    int uses;
    char message[256]; /* the first error that LLVM reported to the context */
    jitc_machine *next;
};

static const char triple[] = "x86_64-unknown-linux-gnu";

void jitc_llvm_compiler_init(jitc_llvm_compiler *c, jitc_llvm_library *library, jitc_isa isa,
                             unsigned lanes, int max_idle) {
    *c = (jitc_llvm_compiler) {
        .library = library, .target = {.isa = isa, .lanes = lanes}, .max_idle = max_idle};
    jitc_mutex_init(&c->lock);
}

static void destroy_machine(jitc_machine *m) {
    for (int i = 0; i < JITC_LLVM_LEVELS; i++)
        if (m->levels[i])
            m->api->LLVMDisposeTargetMachine(m->levels[i]);
    if (m->context)
        m->api->LLVMContextDispose(m->context);
    free(m);
}

void jitc_llvm_compiler_finish(jitc_llvm_compiler *c) {
    while (c->idle) {
        jitc_machine *m = c->idle;
        c->idle = m->next;
        destroy_machine(m);
    }
    jitc_mutex_finish(&c->lock);
}

/** Called by LLVM for errors and warnings; without it, errors would end the process. */
static void note_message(LLVMDiagnosticInfoRef info, void *context) {
    jitc_machine *m = context;
    if (m->api->LLVMGetDiagInfoSeverity(info) == LLVMDSError && !m->message[0])
        memcpy(m->message, "LLVM cannot generate code for a kernel", 39);
}

static jit_status renew_context(jitc_machine *m) {
    if (m->context && m->uses < USES_OF_A_CONTEXT)
        return JIT_OK;
    if (m->context)
        m->api->LLVMContextDispose(m->context);
    m->context = m->api->LLVMContextCreate();
    m->api->LLVMContextSetDiagnosticHandler(m->context, note_message, m);
    m->uses = 0;
    return JIT_OK;
}

static jit_status make_level(jitc_llvm_compiler *c, jitc_machine *m, int level) {
    static const char *const cpus[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
    LLVMTargetRef target;
    char *message = NULL;
    if (m->levels[level])
        return JIT_OK;
    if (m->api->LLVMGetTargetFromTriple(triple, &target, &message)) {
        jit_status status = jitc_fail(JIT_UNAVAILABLE, "llvm: %.200s", message);
        m->api->LLVMDisposeMessage(message);
        return status;
    }
    m->levels[level] = m->api->LLVMCreateTargetMachine(target, triple, cpus[c->target.isa], "",
                                                       (LLVMCodeGenOptLevel) level, LLVMRelocPIC,
                                                       LLVMCodeModelSmall);
    if (!m->levels[level])
        return jitc_fail(JIT_UNAVAILABLE, "llvm: no code generator for %s", cpus[c->target.isa]);
    return JIT_OK;
}

static jitc_machine *pop_idle(jitc_llvm_compiler *c) {
    jitc_mutex_lock(&c->lock);
    jitc_machine *m = c->idle;
    if (m) {
        c->idle = m->next;
        --c->idle_count;
    }
    jitc_mutex_unlock(&c->lock);
    return m;
}

static void give_machine(jitc_llvm_compiler *c, jitc_machine *m) {
    m->message[0] = 0;
    jitc_mutex_lock(&c->lock);
    bool keep = c->idle_count < c->max_idle;
    if (keep) {
        m->next = c->idle;
        c->idle = m;
        ++c->idle_count;
    }
    jitc_mutex_unlock(&c->lock);
    if (!keep)
        destroy_machine(m);
}

static jit_status take_machine(jitc_llvm_compiler *c, int level, jitc_machine **out) {
    const jitc_llvm *api;
    TRY(jitc_llvm_library_open(c->library, &api));
    jitc_machine *m = pop_idle(c);
    if (!m) {
        TRY(jitc_calloc(1, sizeof *m, (void **) &m));
        m->api = api;
    }
    jit_status status = renew_context(m);
    if (status == JIT_OK)
        status = make_level(c, m, level);
    if (status != JIT_OK)
        give_machine(c, m);
    *out = m;
    return status;
}

/** Build the module of a program; owned by the caller. */
static jit_status build_module(jitc_llvm_compiler *c, jitc_machine *m, const jitc_program *p,
                               int level, LLVMModuleRef *out) {
    jitc_kernel_target target = c->target;
    target.level = level;
    LLVMModuleRef module = m->api->LLVMModuleCreateWithNameInContext("jitc", m->context);
    LLVMTargetDataRef layout = m->api->LLVMCreateTargetDataLayout(m->levels[level]);
    m->api->LLVMSetTarget(module, triple);
    m->api->LLVMSetModuleDataLayout(module, layout);
    m->api->LLVMDisposeTargetData(layout);
    ++m->uses;
    jit_status status = jitc_kernel_build(m->api, m->context, module, &target, p);
    if (status != JIT_OK) {
        m->api->LLVMDisposeModule(module);
        return status;
    }
    *out = module;
    return JIT_OK;
}

static jit_status copy_buffer(const jitc_llvm *api, LLVMMemoryBufferRef buffer, jitc_blob *out) {
    out->size = api->LLVMGetBufferSize(buffer);
    out->data = malloc(out->size);
    if (!out->data)
        return jitc_fail(JIT_OUT_OF_MEMORY, "llvm: no memory for %zu bytes of object code",
                         out->size);
    memcpy(out->data, api->LLVMGetBufferStart(buffer), out->size);
    return JIT_OK;
}

static jit_status emit(jitc_machine *m, LLVMModuleRef module, int level, LLVMCodeGenFileType type,
                       jitc_blob *out) {
    LLVMMemoryBufferRef buffer = NULL;
    char *message = NULL;
    LLVMBool failed = m->api->LLVMTargetMachineEmitToMemoryBuffer(m->levels[level], module, type,
                                                                  &message, &buffer);
    if (failed) {
        jit_status status = jitc_fail(JIT_COMPILE_FAILED, "llvm: %.300s", message);
        m->api->LLVMDisposeMessage(message);
        return status;
    }
    jit_status status = m->message[0] ? jitc_fail(JIT_COMPILE_FAILED, "llvm: %s", m->message)
                                      : copy_buffer(m->api, buffer, out);
    m->api->LLVMDisposeMemoryBuffer(buffer);
    return status;
}

static jit_status generate_inside(jitc_llvm_compiler *c, const jitc_program *p, int level,
                                  LLVMCodeGenFileType type, jitc_blob *out) {
    jitc_machine *m;
    LLVMModuleRef module;
    TRY(take_machine(c, level, &m));
    jit_status status = build_module(c, m, p, level, &module);
    if (status == JIT_OK) {
        status = emit(m, module, level, type, out);
        m->api->LLVMDisposeModule(module);
    }
    give_machine(c, m);
    return status;
}

/* LLVM makes tables when it first needs them, and registers their destructors then: only after that
 * is the exit sure to wait first. Most are made by the first compilation of a level, few by later
 * ones.
 */
static void guard_again(int level) {
    static atomic_uint compilations[JITC_LLVM_LEVELS]; /* of the process, as LLVM's tables are */
    jitc_exit_guard_again(&compilations[level]);
}

static jit_status generate(jitc_llvm_compiler *c, const jitc_program *p, int level,
                           LLVMCodeGenFileType type, jitc_blob *out) {
    level = level < 0 ? 0 : level >= JITC_LLVM_LEVELS ? JITC_LLVM_LEVELS - 1 : level;
    if (!jitc_exit_enter("llvm"))
        return JIT_UNAVAILABLE;
    jit_status status = generate_inside(c, p, level, type, out);
    guard_again(level);
    jitc_exit_leave();
    return status;
}

jit_status jitc_llvm_compile(jitc_llvm_compiler *c, const jitc_program *p, int level,
                             jitc_blob *out) {
    return generate(c, p, level, LLVMObjectFile, out);
}

char *jitc_llvm_print_code(jitc_llvm_compiler *c, const jitc_program *p, int level) {
    jitc_blob text;
    if (generate(c, p, level, LLVMAssemblyFile, &text) != JIT_OK)
        return NULL;
    char *copy = strndup(text.data, text.size);
    free(text.data);
    return copy;
}

static char *print_inside(jitc_llvm_compiler *c, const jitc_program *p) {
    jitc_machine *m;
    LLVMModuleRef module;
    char *copy = NULL;
    if (take_machine(c, 0, &m) != JIT_OK)
        return NULL;
    if (build_module(c, m, p, 0, &module) == JIT_OK) {
        char *text = m->api->LLVMPrintModuleToString(module);
        copy = strdup(text);
        m->api->LLVMDisposeMessage(text);
        m->api->LLVMDisposeModule(module);
    }
    give_machine(c, m);
    return copy;
}

char *jitc_llvm_print(jitc_llvm_compiler *c, const jitc_program *p) {
    if (!jitc_exit_enter("llvm"))
        return NULL;
    char *text = print_inside(c, p);
    jitc_exit_leave();
    return text;
}
