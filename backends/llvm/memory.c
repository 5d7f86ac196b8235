/* memory.c: vectors from and to arrays.  Layer: llvm.  May include: core, ir.
 *
 * Masked instructions exist for all types on v4 only. Elsewhere LLVM makes a branch for each lane
 * of them, which is slow to compile; there the last vector goes through a buffer on the stack, and
 * indexed accesses take one lane after the other, without branches: lanes that must not touch the
 * array get the address of a dummy element. */
#include "llvm/memory.h"
#include "llvm/convert.h"

/** From version 22 on these intrinsics take other arguments. */
static bool has_masked(const jitc_emit *e) {
    return e->isa >= JITC_ISA_V4 && e->api->version < 22;
}

/** Elements in memory: as jitc_emit_scalar, but a byte for a bool. */
static LLVMTypeRef stored(jitc_emit *e, jit_dtype type) {
    return type == JIT_bool ? e->i8 : jitc_emit_scalar(e, type);
}
static LLVMValueRef to_value(jitc_emit *e, jit_dtype type, LLVMValueRef v) {
    if (type != JIT_bool)
        return v;
    return jitc_emit_icmp(e, LLVMIntNE, v, jitc_emit_int(e, e->i8, 0));
}
static LLVMValueRef from_value(jitc_emit *e, jit_dtype type, LLVMValueRef v) {
    return type == JIT_bool ? jitc_emit_cast(e, LLVMZExt, v, e->i8) : v;
}
static LLVMValueRef i32(jitc_emit *e, uint64_t value) {
    return e->api->LLVMConstInt(e->i32, value, 0);
}

static LLVMValueRef load_vector(jitc_emit *e, LLVMTypeRef vector, LLVMValueRef p, unsigned align) {
    LLVMValueRef v = e->api->LLVMBuildLoad2(e->b, vector, p, "");
    e->api->LLVMSetAlignment(v, align);
    return v;
}
static void store_vector(jitc_emit *e, LLVMValueRef v, LLVMValueRef p, unsigned align) {
    e->api->LLVMSetAlignment(e->api->LLVMBuildStore(e->b, v, p), align);
}

/* Outputs are our own memory, aligned to more than a vector, and whole vectors start at multiples
 * of their size. */
static void stream_vector(jitc_emit *e, LLVMValueRef v, LLVMValueRef p, unsigned bytes) {
    const jitc_llvm *api = e->api;
    LLVMValueRef one = i32(e, 1), store = api->LLVMBuildStore(e->b, v, p);
    unsigned kind = api->LLVMGetMDKindIDInContext(e->context, "nontemporal", 11);
    api->LLVMSetAlignment(store, bytes);
    api->LLVMSetMetadata(store, kind, api->LLVMMDNodeInContext(e->context, &one, 1));
}

static void copy_lanes(jitc_emit *e, LLVMValueRef to, LLVMValueRef from, unsigned bytes,
                       const jitc_tail *tail) {
    LLVMValueRef size = e->api->LLVMConstInt(e->i64, bytes, 0);
    LLVMValueRef args[] = {to, from, jitc_emit_bin(e, LLVMMul, tail->count, size)};
    jitc_emit_call(e, "memcpy", e->api->LLVMVoidTypeInContext(e->context), 3, args);
}

LLVMValueRef jitc_emit_load(jitc_emit *e, jit_dtype type, LLVMValueRef pointer,
                            const jitc_tail *tail) {
    unsigned bytes = jitc_dtypes[type].bytes;
    LLVMTypeRef scalar = stored(e, type), vector = jitc_emit_vector(e, scalar);
    if (!tail)
        return to_value(e, type, load_vector(e, vector, pointer, bytes));
    if (!has_masked(e)) {
        LLVMValueRef room = jitc_emit_stack(e, scalar, e->lanes);
        copy_lanes(e, room, pointer, bytes, tail);
        return to_value(e, type, load_vector(e, vector, room, 64));
    }
    LLVMValueRef args[] = {pointer, i32(e, bytes), tail->mask, e->api->LLVMConstNull(vector)};
    LLVMTypeRef overloads[] = {vector, e->ptr};
    return to_value(e, type, jitc_emit_intrinsic2(e, "llvm.masked.load", overloads, 4, args));
}

void jitc_emit_store(jitc_emit *e, jit_dtype type, LLVMValueRef pointer, LLVMValueRef value,
                     const jitc_tail *tail) {
    unsigned bytes = jitc_dtypes[type].bytes;
    LLVMTypeRef scalar = stored(e, type), vector = jitc_emit_vector(e, scalar);
    LLVMValueRef v = from_value(e, type, value);
    if (!tail && e->stream) {
        stream_vector(e, v, pointer, bytes * e->lanes);
    } else if (!tail) {
        store_vector(e, v, pointer, bytes);
    } else if (!has_masked(e)) {
        LLVMValueRef room = jitc_emit_stack(e, scalar, e->lanes);
        store_vector(e, v, room, 64);
        copy_lanes(e, pointer, room, bytes, tail);
    } else {
        LLVMValueRef args[] = {v, pointer, i32(e, bytes), tail->mask};
        LLVMTypeRef overloads[] = {vector, e->ptr};
        jitc_emit_intrinsic2(e, "llvm.masked.store", overloads, 4, args);
    }
}

void jitc_emit_prefetch(jitc_emit *e, LLVMValueRef pointer) {
    enum { READ = 0, ALL_LEVELS = 3, DATA = 1 };
    LLVMValueRef args[] = {pointer, i32(e, READ), i32(e, ALL_LEVELS), i32(e, DATA)};
    jitc_emit_intrinsic(e, "llvm.prefetch", e->ptr, 4, args);
}

LLVMValueRef jitc_emit_load_splat(jitc_emit *e, jit_dtype type, LLVMValueRef pointer) {
    LLVMValueRef v = load_vector(e, stored(e, type), pointer, jitc_dtypes[type].bytes);
    return to_value(e, type, jitc_emit_splat(e, v));
}

/* Accesses by index. */

static LLVMValueRef both(jitc_emit *e, LLVMValueRef a, LLVMValueRef b) {
    return a ? jitc_emit_bin(e, LLVMAnd, a, b) : b;
}

/** If a lane is active and out of range: tell. In a branch of its own, rarely taken. */
static void report_bounds(jitc_emit *e, const jitc_lane_access *a, LLVMValueRef in_range) {
    const jitc_llvm *api = e->api;
    LLVMValueRef bad = both(e, a->active, jitc_emit_not(e, in_range));
    LLVMValueRef bits = jitc_emit_mask_bits64(e, bad);
    LLVMValueRef any = jitc_emit_icmp(e, LLVMIntNE, bits, api->LLVMConstInt(e->i64, 0, 0));
    LLVMBasicBlockRef tell = jitc_emit_block(e, "bad");
    LLVMBasicBlockRef next = jitc_emit_block(e, "next");
    jitc_emit_branch(e, any, tell, next);
    jitc_emit_at(e, tell);
    LLVMValueRef room = jitc_emit_stack(e, e->i64, e->lanes);
    store_vector(e, jitc_emit_resize(e, a->index_type, e->i64, 64, a->index), room, 64);
    LLVMValueRef args[] = {a->report, i32(e, a->claim), room, bits, a->size};
    jitc_emit_call(e, "jitc_report_bounds", api->LLVMVoidTypeInContext(e->context), 5, args);
    jitc_emit_jump(e, next);
    jitc_emit_at(e, next);
}

/** Compare as unsigned, so that negative indices are out of range too. 32 bits are enough unless
 * the array or the index's type is larger: then the array has at most 2^31 elements. */
jitc_checked jitc_emit_check(jitc_emit *e, const jitc_lane_access *a) {
    bool wide = a->wide || jitc_dtypes[a->index_type].bits == 64;
    LLVMTypeRef scalar = wide ? e->i64 : e->i32;
    LLVMValueRef size =
        wide ? a->size : e->api->LLVMBuildCast(e->b, LLVMTrunc, a->size, e->i32, "");
    LLVMValueRef index = jitc_emit_resize(e, a->index_type, scalar, wide ? 64 : 32, a->index);
    LLVMValueRef in_range = jitc_emit_icmp(e, LLVMIntULT, index, jitc_emit_splat(e, size));
    if (a->report)
        report_bounds(e, a, in_range);
    return (jitc_checked) {index, both(e, a->active, in_range)};
}

static bool has_indexed(const jitc_emit *e, jit_dtype type) {
    return has_masked(e) && jitc_dtypes[type].bytes >= 4;
}

/** <n x ptr> for the masked instructions. */
static LLVMValueRef lane_pointers(jitc_emit *e, const jitc_lane_access *a, const jitc_checked *c) {
    LLVMValueRef index = c->index;
    return e->api->LLVMBuildGEP2(e->b, stored(e, a->type), a->base, &index, 1, "");
}

/** Addresses of all lanes as <n x i64>, good where they are valid. */
static LLVMValueRef element_addresses(jitc_emit *e, const jitc_lane_access *a,
                                      const jitc_checked *c) {
    const jitc_llvm *api = e->api;
    LLVMValueRef index = c->index;
    if (api->LLVMGetElementType(api->LLVMTypeOf(index)) != e->i64)
        index = jitc_emit_cast(e, LLVMZExt, index, e->i64);
    unsigned log2 = (unsigned) __builtin_ctz(jitc_dtypes[a->type].bytes);
    LLVMValueRef offset = jitc_emit_bin(e, LLVMShl, index, jitc_emit_int(e, e->i64, log2));
    LLVMValueRef base = api->LLVMBuildCast(e->b, LLVMPtrToInt, a->base, e->i64, "");
    return jitc_emit_bin(e, LLVMAdd, offset, jitc_emit_splat(e, base));
}

/** The same; those not valid: of a dummy element, which is 0. */
static LLVMValueRef lane_addresses(jitc_emit *e, const jitc_lane_access *a, const jitc_checked *c) {
    const jitc_llvm *api = e->api;
    LLVMValueRef dummy = jitc_emit_stack(e, e->i64, 1);
    api->LLVMBuildStore(e->b, api->LLVMConstInt(e->i64, 0, 0), dummy);
    LLVMValueRef nowhere = api->LLVMBuildCast(e->b, LLVMPtrToInt, dummy, e->i64, "");
    return jitc_emit_select(e, c->valid, element_addresses(e, a, c), jitc_emit_splat(e, nowhere));
}

LLVMValueRef jitc_emit_addresses(jitc_emit *e, const jitc_lane_access *a, const jitc_checked *c,
                                 LLVMValueRef spread) {
    const jitc_llvm *api = e->api;
    LLVMValueRef dummies = jitc_emit_stack(e, e->i64, e->lanes);
    LLVMValueRef nowhere = api->LLVMBuildCast(e->b, LLVMPtrToInt, dummies, e->i64, "");
    LLVMValueRef eight = jitc_emit_int(e, e->i64, 3);
    nowhere = jitc_emit_bin(e, LLVMAdd, jitc_emit_splat(e, nowhere),
                            jitc_emit_bin(e, LLVMShl, jitc_emit_iota(e, e->i64), eight));
    LLVMValueRef address = jitc_emit_bin(e, LLVMAdd, element_addresses(e, a, c), spread);
    return jitc_emit_select(e, c->valid, address, nowhere);
}

static LLVMValueRef lane_pointer(jitc_emit *e, LLVMValueRef addresses, unsigned lane) {
    LLVMValueRef a = e->api->LLVMBuildExtractElement(e->b, addresses, i32(e, lane), "");
    return e->api->LLVMBuildCast(e->b, LLVMIntToPtr, a, e->ptr, "");
}

static LLVMValueRef gather_lanes(jitc_emit *e, const jitc_lane_access *a, const jitc_checked *c) {
    LLVMTypeRef scalar = stored(e, a->type);
    LLVMValueRef addresses = lane_addresses(e, a, c);
    LLVMValueRef r = e->api->LLVMGetUndef(jitc_emit_vector(e, scalar));
    for (unsigned i = 0; i < e->lanes; i++) {
        LLVMValueRef one =
            load_vector(e, scalar, lane_pointer(e, addresses, i), jitc_dtypes[a->type].bytes);
        r = e->api->LLVMBuildInsertElement(e->b, r, one, i32(e, i), "");
    }
    return r;
}

LLVMValueRef jitc_emit_gather(jitc_emit *e, const jitc_lane_access *a) {
    jitc_checked c = jitc_emit_check(e, a);
    if (a->far || !has_indexed(e, a->type))
        return to_value(e, a->type, gather_lanes(e, a, &c));
    LLVMTypeRef vector = jitc_emit_vector(e, stored(e, a->type));
    LLVMValueRef args[] = {lane_pointers(e, a, &c), i32(e, jitc_dtypes[a->type].bytes), c.valid,
                           e->api->LLVMConstNull(vector)};
    LLVMTypeRef overloads[] = {vector, jitc_emit_vector(e, e->ptr)};
    return jitc_emit_intrinsic2(e, "llvm.masked.gather", overloads, 4, args);
}

static void scatter_lanes(jitc_emit *e, const jitc_lane_access *a, const jitc_checked *c,
                          LLVMValueRef v) {
    LLVMValueRef addresses = lane_addresses(e, a, c);
    for (unsigned i = 0; i < e->lanes; i++) {
        LLVMValueRef one = e->api->LLVMBuildExtractElement(e->b, v, i32(e, i), "");
        store_vector(e, one, lane_pointer(e, addresses, i), jitc_dtypes[a->type].bytes);
    }
}

void jitc_emit_scatter(jitc_emit *e, const jitc_lane_access *a, LLVMValueRef value) {
    jitc_checked c = jitc_emit_check(e, a);
    LLVMValueRef v = from_value(e, a->type, value);
    if (!has_indexed(e, a->type)) {
        scatter_lanes(e, a, &c, v);
        return;
    }
    LLVMValueRef args[] = {v, lane_pointers(e, a, &c), i32(e, jitc_dtypes[a->type].bytes), c.valid};
    LLVMTypeRef overloads[] = {jitc_emit_vector(e, stored(e, a->type)),
                               jitc_emit_vector(e, e->ptr)};
    jitc_emit_intrinsic2(e, "llvm.masked.scatter", overloads, 4, args);
}
