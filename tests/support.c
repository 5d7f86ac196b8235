/* support.c: arrays of bits in and out of the public interface. */
#include "support.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *support_pack(jit_dtype t, const uint64_t *bits, size_t n) {
    size_t size = jit_dtype_size(t);
    char *packed = malloc(n * size + 1);
    cr_assert_not_null(packed);
    for (size_t i = 0; i < n; ++i)
        memcpy(packed + i * size, &bits[i], size); /* the low bytes come first */
    return packed;
}

jit_var support_array(jit_dtype t, const uint64_t *bits, size_t n) {
    void *packed = support_pack(t, bits, n);
    jit_var v = jit_from_host(JIT_LLVM, t, packed, n);
    free(packed);
    ASSERT_VAR(v);
    return v;
}

jit_var support_literal(jit_dtype t, uint64_t bits, size_t n) {
    jit_var v = jit_literal(JIT_LLVM, t, &bits, n);
    ASSERT_VAR(v);
    return v;
}

uint64_t *support_read(jit_var v, size_t n) {
    size_t size = jit_dtype_size(jit_type(v));
    char *packed = malloc(n * size + 1);
    uint64_t *bits = calloc(n + 1, sizeof *bits);
    cr_assert(packed && bits);
    cr_assert_eq(jit_size(v), n, "%zu elements, not %zu: %s", jit_size(v), n, jit_error());
    ASSERT_OK(jit_read(v, packed));
    for (size_t i = 0; i < n; ++i)
        memcpy(&bits[i], packed + i * size, size);
    free(packed);
    return bits;
}

typedef struct mapping {
    void *memory;
    size_t bytes;
} mapping;

static int mappings_alive;

static void release(void *context) {
    mapping *m = context;
    munmap(m->memory, m->bytes);
    free(m);
    __atomic_sub_fetch(&mappings_alive, 1, __ATOMIC_SEQ_CST);
}
int support_guarded_alive(void) {
    return __atomic_load_n(&mappings_alive, __ATOMIC_SEQ_CST);
}

jit_var support_guarded(jit_dtype t, const uint64_t *bits, size_t n, bool at_start) {
    size_t page = (size_t) sysconf(_SC_PAGESIZE), bytes = n * jit_dtype_size(t);
    size_t inner = (bytes + page - 1) / page * page;
    mapping *m = malloc(sizeof *m);
    void *packed = support_pack(t, bits, n);
    cr_assert_not_null(m);
    m->bytes = inner + 2 * page;
    m->memory = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(m->memory, MAP_FAILED);
    char *start = (char *) m->memory + page + (at_start ? 0 : inner - bytes);
    memcpy(start, packed, bytes);
    free(packed);
    mprotect(m->memory, m->bytes, PROT_READ);
    mprotect(m->memory, page, PROT_NONE);
    mprotect((char *) m->memory + page + inner, page, PROT_NONE);
    __atomic_add_fetch(&mappings_alive, 1, __ATOMIC_SEQ_CST);
    jit_var v = jit_map(JIT_LLVM, t, start, n, release, m);
    ASSERT_VAR(v);
    return v;
}

jit_var support_apply(jitc_op op, const jit_var v[3]) {
    switch (op) {
#define CALL_LEAF(name)
#define CALL_CAST(name)
#define CALL_MASKED(name)
#define CALL_GATHER(name)
#define CALL_SCATTER(name)
#define CALL_PROGRAM(name)
#define CALL_UNARY(name)                                                                           \
    case JITC_OP_##name: return jit_##name(v[0]);
#define CALL_BINARY(name)                                                                          \
    case JITC_OP_##name: return jit_##name(v[0], v[1]);
#define CALL_TERNARY(name)                                                                         \
    case JITC_OP_##name: return jit_##name(v[0], v[1], v[2]);
#define CALL_SELECT(name)   CALL_TERNARY(name)
#define OP(name, form, ...) CALL_##form(name)
#include "ir/ops.def"
        default: return 0;
    }
}
