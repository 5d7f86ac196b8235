/* program.h: jitc_program, one kernel as data.  Layer: ir.  May include: core.
 *
 * A program is an array of 16-byte instructions in order of execution; an operand is the index of
 * an earlier instruction. It holds no pointer, no size and no literal that is not baked, so that
 * equal programs are equal bytes: the kernel cache hashes and compares them as they are.
 *
 *   inst[0]  data     a = parameter            a vector of elements, or one element (SCALAR)
 *   inst[1]  literal  a = parameter            value in the parameter block; BAKED: b, c = the bits
 *   inst[2]  mul      a = 0, b = 1
 *   inst[3]  buffer   a = parameter            pointer in parameter a, number of elements in a + 1
 *   inst[4]  gather   a = 3, b = index value   (b may name a `masked`: a = index, b = mask)
 *   inst[5]  store    a = 4, b = parameter     one element per lane (UNIFORM programs: lane 0)
 *
 * Parameters are 64-bit words: a device pointer, a size or the bits of a literal. A kernel is run
 * over lanes 0 ... n-1; n is an argument of the launch and not part of the program.
 *
 * The shape says what the lanes have to do with each other. Operations that combine lanes stand
 * behind those that compute what they combine; `a` is a value, `aux` holds JITC_AUX_*:
 *
 *   MAP           nothing       stores, and
 *     scatter         a = buffer, b = value, c = index (or `masked`)
 *     scatter_reduce  the same, combined with what is there; with PART it is also a value: what was
 *                     there before this lane, 0 in lanes that change nothing (integers,
 *                     JIT_REDUCE_ADD)
 *   REDUCE        all lanes to one: one or more `reduce`, and stores
 *     reduce          a = value, b = parameter: where the one element goes
 *   BLOCK_REDUCE  each block of lanes to one, the last one maybe short: one or more `block_reduce`
 *     block_reduce    a = value, b = parameter: where ceil(n / block) elements go,
 *                     c = parameter: lanes of a block, the same in all
 *   SCAN          each lane with those before: one `prefix_reduce`
 *     prefix_reduce   a = value, b = parameter: where n elements go; EXCLUSIVE, REVERSE
 *   COMPRESS      one `compress`
 *     compress        a = bool, b = parameter: room for n numbers of type u32 or u64, of which as
 *                     many are written as lanes are true; PART: c = parameter: where that many goes
 *   SORT          one `sort` and its `buffer`
 *     sort            a = buffer, b = parameter: where n elements go; DESCENDING; PART: c =
 *                     parameter: where the numbers (u32; U64: u64, from 2^32 + 1 lanes on) of
 *                     the elements go; equal ones keep their order, also DESCENDING. Floats by
 *                     IEEE 754's totalOrder
 *
 * Loops. Lanes leave a loop one by one; inside, an instruction is run for those that are still in.
 *
 *   loop   ONCE: a branch, left after the first iteration
 *   phi    a = value at the start, b = loop, c = number of the state: right behind the loop
 *   ...    what the condition is computed from
 *   test   a = bool: lanes where it is false leave, b = loop: one in each loop
 *   ...    the body
 *   next   a = phi, b = its value in the next iteration: right before the end; a phi without one
 *          does not change
 *   end    a = loop
 *
 * Behind the end only the phis can be used: they have the values with which each lane has left. All
 * else from inside is gone. Loops nest; a program of shape MAP or REDUCE may have them. */
#ifndef JITC_IR_PROGRAM_H
#define JITC_IR_PROGRAM_H
#include "core/hash.h"
#include "core/mem.h"
#include "ir/ir.h"

enum {
    JITC_INST_SCALAR = 1,  /* data: one element for all lanes */
    JITC_INST_BAKED = 2,   /* literal: part of the program */
    JITC_INST_UNIFORM = 4, /* the same in all lanes: compute it once, before the loop */
    JITC_INST_FAR = 8      /* buffer: larger than caches; in the CPU's programs only */
};

typedef struct jitc_inst {
    uint8_t op;    /* jitc_op */
    uint8_t type;  /* jit_dtype of the result; store, buffer: of the elements */
    uint8_t flags; /* JITC_INST_* */
    uint8_t aux;   /* JITC_AUX_* */
    uint32_t a, b, c;
} jitc_inst;
_Static_assert(sizeof(jitc_inst) == 16, "instructions are hashed as bytes: no padding");

enum {
    JITC_AUX_REDUCE = 7,    /* jit_reduce_op: reduce, block_reduce, prefix_reduce, scatter_reduce */
    JITC_AUX_EXCLUSIVE = 8, /* prefix_reduce */
    JITC_AUX_REVERSE = 16,  /* prefix_reduce */
    JITC_AUX_DESCENDING = 8, /* sort */
    JITC_AUX_U64 = 16,       /* sort: numbers are u64 */
    JITC_AUX_PART = 32,      /* scatter_reduce, compress, sort: the second result is wanted */
    JITC_AUX_ONCE = 64       /* loop */
};
static inline jit_reduce_op jitc_inst_reduce(const jitc_inst *i) {
    return (jit_reduce_op) (i->aux & JITC_AUX_REDUCE);
}

/** What the lanes of a program have to do with each other. */
typedef enum jitc_shape {
    JITC_SHAPE_MAP,
    JITC_SHAPE_REDUCE,
    JITC_SHAPE_BLOCK_REDUCE,
    JITC_SHAPE_SCAN,
    JITC_SHAPE_COMPRESS,
    JITC_SHAPE_SORT
} jitc_shape;

enum {
    JITC_PROGRAM_TAIL = 1,   /* an array may end right behind element n-1: mask the last vector */
    JITC_PROGRAM_WIDE = 2,   /* more than 2^31 lanes, or elements of an indexed array */
    JITC_PROGRAM_BOUNDS = 4, /* report indices out of range to parameter `report` */
    JITC_PROGRAM_FAST_MATH = 8, /* multiplications and additions may be fused */
    JITC_PROGRAM_STREAM = 16,   /* the outputs are larger than caches: write past them */
    JITC_PROGRAM_SCRATCH = 32,  /* the parameters from `scratch` on are the backend's */
    JITC_PROGRAM_LOOPS = 64     /* there is a loop */
};

/* With SCRATCH, the first of so many parameters is the address of as many bytes as the backend's
 * slot `scratch` asks for, which nobody has initialised (NULL: it asks for none); the others are
 * 0, for the backend to fill in when it launches. Set for all shapes but MAP, and where there is a
 * scatter_reduce. */
enum { JITC_SCRATCH_PARAMS = 3 };

/** What is hashed before the instructions. */
typedef struct jitc_program_head {
    uint32_t count;   /* instructions */
    uint32_t params;  /* parameters */
    uint32_t flags;   /* JITC_PROGRAM_* */
    uint32_t report;  /* BOUNDS: the parameter that points to a jitc_bounds_report */
    uint32_t shape;   /* jitc_shape */
    uint32_t scratch; /* SCRATCH: the first of JITC_SCRATCH_PARAMS parameters */
} jitc_program_head;

typedef struct jitc_program {
    jitc_program_head head;
    jitc_inst *inst;
    size_t capacity;
} jitc_program;

/** Where a kernel reports the first index out of range. `claimed` goes from 0 to 1 + the number of
 *  the instruction (compare-and-swap), then the two others are written. */
typedef struct jitc_bounds_report {
    uint32_t claimed, unused;
    uint64_t index, size;
} jitc_bounds_report;

void jitc_program_finish(jitc_program *p);
/** Forget the instructions, keep the memory. */
static inline void jitc_program_clear(jitc_program *p) {
    p->head = (jitc_program_head) {0};
}
/** Append an instruction and give its index in *out. JIT_OUT_OF_MEMORY. Inlined, so that the fields
 *  are written where they belong: reading a copy of them back as one word would wait for each. */
static inline jit_status jitc_program_add(jitc_program *p, jitc_inst inst, uint32_t *out) {
    if (__builtin_expect(p->head.count == p->capacity, 0))
        TRY(jitc_grow((void **) &p->inst, &p->capacity, (size_t) p->head.count + 1,
                      sizeof *p->inst));
    p->inst[p->head.count] = inst;
    *out = p->head.count++;
    return JIT_OK;
}
/** A copy that owns its instructions. JIT_OUT_OF_MEMORY. */
jit_status jitc_program_copy(const jitc_program *p, jitc_program *out);
bool jitc_program_equal(const jitc_program *a, const jitc_program *b);
jitc_hash jitc_program_hash(const jitc_program *p, uint64_t seed);
/** Value and bits of a literal that is baked. */
static inline uint64_t jitc_inst_bits(const jitc_inst *i) {
    return i->b | (uint64_t) i->c << 32;
}
/** The shape of all programs in which the operation stands; -1: it stands in several. */
int jitc_op_shape(unsigned op);
/** How many of a, b, c name instructions. */
unsigned jitc_inst_operands(const jitc_inst *i);
/** The field of `i` that is the number of a parameter, the first if it has two; NULL: none. */
const uint32_t *jitc_inst_parameter(const jitc_inst *i);
/** The program as text, one instruction a line, for people and text tests. Free with free(); NULL
 *  if memory ran out. */
char *jitc_program_print(const jitc_program *p);
/** Check what every reader of programs relies on: operands before uses, types, parameters in range.
 *  For asserts and tests: returns NULL, or what is wrong (static text). */
const char *jitc_program_invalid(const jitc_program *p);
#endif
