/* combine.c: code of programs whose shape combines lanes.  Layer: llvm.  May include: core, ir. */
#include "llvm/combine.h"
#include "core/mem.h"
#include "llvm/reduce.h"
#include "llvm/scan.h"
#include <stdlib.h>

jitc_tail jitc_build_tail_at(jitc_builder *k, LLVMValueRef first, LLVMValueRef end) {
    jitc_emit *e = &k->e;
    LLVMValueRef some = jitc_emit_icmp(e, LLVMIntULT, first, end);
    LLVMValueRef rest = jitc_emit_bin(e, LLVMSub, end, first);
    return jitc_build_tail(k, jitc_emit_select(e, some, rest, jitc_build_constant(k, 0)));
}

void jitc_build_bits(jitc_builder *k, uint32_t inst, LLVMValueRef first, unsigned u) {
    const jitc_llvm *api = k->e.api;
    LLVMValueRef bits = jitc_emit_mask_bits(&k->e, jitc_build_value(k, inst)[u]);
    LLVMValueRef at = jitc_emit_bin(&k->e, LLVMLShr, first, jitc_build_constant(k, 3));
    LLVMValueRef base = k->pointers[k->p->head.scratch + 1];
    LLVMValueRef store =
        api->LLVMBuildStore(k->e.b, bits, jitc_build_pointer(k, k->e.i8, base, at));
    api->LLVMSetAlignment(store, k->e.lanes / 8);
}

static bool is_reduction(const jitc_inst *i) {
    return i->op == JITC_OP_reduce || i->op == JITC_OP_block_reduce;
}

static jit_status build_reduce(jitc_builder *k, LLVMBasicBlockRef *exit) {
    const jitc_program *p = k->p;
    jitc_reduce_code code = {0};
    void *memory;
    TRY(jitc_calloc(p->head.count, sizeof(jitc_combining), &memory));
    jitc_combining *all = memory;
    for (uint32_t n = 0; n < p->head.count; n++)
        if (is_reduction(&p->inst[n])) {
            all[code.count++] = jitc_combining_of(&p->inst[n]);
            code.lanes = p->inst[n].c;
        }
    code.all = all;
    jit_status status = jitc_build_reduce(k, &code, exit);
    free(memory);
    return status;
}

jit_status jitc_build_combining(jitc_builder *k, LLVMBasicBlockRef *exit) {
    return k->p->head.shape == JITC_SHAPE_SCAN ? jitc_build_scan(k, exit) : build_reduce(k, exit);
}
