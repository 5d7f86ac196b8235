/* test_valid.c: what jitc_program_invalid() says of programs that combine lanes, and of loops; the
 * rest is in test_ir.c.  Layer: tests. */
#include "ir/program.h"
#include <criterion/criterion.h>
#include <string.h>

enum { SCRATCH = JITC_PROGRAM_SCRATCH, LOOPS = JITC_PROGRAM_LOOPS, MOST = 16 };

/* A program, and one change to it: an instruction, or (inst == HEAD) its head. */
enum { HEAD = MOST };
typedef struct damage {
    uint32_t inst;
    jitc_inst with;
    jitc_program_head head; /* its count is that of the program */
    const char *word;       /* of what is wrong then */
} damage;

typedef struct whole {
    jitc_program_head head;
    jitc_inst inst[MOST];
} whole;

static const char *check(const whole *w) {
    jitc_program p = {.head = w->head, .inst = (jitc_inst *) (uintptr_t) w->inst};
    while (p.head.count < MOST && (w->inst[p.head.count].op || w->inst[p.head.count].flags))
        ++p.head.count;
    return jitc_program_invalid(&p);
}

static void check_damages(const whole *good, const damage *d, size_t n) {
    const char *wrong = check(good);
    cr_assert_null(wrong, "%s", wrong);
    for (size_t i = 0; i < n; ++i) {
        whole bad = *good;
        if (d[i].inst == HEAD)
            bad.head = d[i].head;
        else
            bad.inst[d[i].inst] = d[i].with;
        wrong = check(&bad);
        cr_assert(wrong && strstr(wrong, d[i].word), "case %zu: %s", i, wrong ? wrong : "valid");
    }
}
#define DAMAGES(good, list) check_damages(&(good), list, sizeof list / sizeof *list)

/* Short names of instructions: of type t, with operands a, b, c. */
#define I(name, t, ...) {.op = JITC_OP_##name, .type = JIT_##t, __VA_ARGS__}
#define A(n)            .a = (n)
#define B(n)            .b = (n)
#define C(n)            .c = (n)
#define AUX(n)          .aux = (n)
#define SHAPED(shape_, n)                                                                          \
    {.params = (n) + 3, .flags = SCRATCH, .scratch = (n), .shape = JITC_SHAPE_##shape_}

/* ---- shapes ---- */

static const whole reduction = {
    SHAPED(REDUCE, 3),
    {I(data, f32, A(0)), I(lt, bool, A(0), B(0)), I(reduce, f32, A(0), B(1), AUX(JIT_REDUCE_MAX)),
     I(store, bool, A(1), B(2)), I(reduce, bool, A(1), B(2), AUX(JIT_REDUCE_OR))}};

Test(valid, reductions) {
    static const damage cases[] = {
        {2, I(reduce, f32, A(0), B(6), AUX(JIT_REDUCE_MAX)), {0}, "parameter"},
        {2, I(reduce, f32, A(2), B(1), AUX(JIT_REDUCE_MAX)), {0}, "earlier"},
        {2, I(reduce, f64, A(0), B(1), AUX(JIT_REDUCE_MAX)), {0}, "types differ"},
        {2, I(reduce, f32, A(0), B(1), AUX(6)), {0}, "no such reduction"},
        {2, I(reduce, f32, A(0), B(1), AUX(JIT_REDUCE_AND)), {0}, "does not exist"},
        {4, I(reduce, bool, A(1), B(2), AUX(JIT_REDUCE_ADD)), {0}, "does not exist"},
        {4, I(reduce, bool, A(3), B(2), AUX(JIT_REDUCE_OR)), {0}, "no value"},
        {4, I(neg, f32, A(2)), {0}, "no value"},
        {4, I(block_reduce, f32, A(0), B(1), C(2)), {0}, "another shape"},
        {4, I(prefix_reduce, f32, A(0), B(1)), {0}, "another shape"},
        {HEAD, {0}, SHAPED(MAP, 3), "another shape"},
        {HEAD, {0}, SHAPED(BLOCK_REDUCE, 3), "another shape"},
        {HEAD, {0}, {.params = 6, .scratch = 3, .shape = JITC_SHAPE_REDUCE}, "no parameters"},
        {HEAD,
         {0},
         {.params = 5, .flags = SCRATCH, .scratch = 3, .shape = JITC_SHAPE_REDUCE},
         "scratch"},
        {HEAD,
         {0},
         {.params = 2, .flags = SCRATCH, .scratch = 0, .shape = JITC_SHAPE_REDUCE},
         "scratch"},
    };
    DAMAGES(reduction, cases);
}

/** Every reduction of every type: legal where the operation on two elements is. */
Test(valid, reductions_exist_for_the_types_of_their_operation) {
    for (int op = 0; op < JITC_REDUCE_COUNT; ++op)
        for (int t = 0; t < JITC_DTYPE_COUNT; ++t) {
            whole w = {SHAPED(REDUCE, 2), {I(data, f32, A(0)), I(reduce, f32, A(0), B(1))}};
            w.inst[0].type = w.inst[1].type = (uint8_t) t;
            w.inst[1].aux = (uint8_t) op;
            bool exists = jitc_reduce_accepts((jit_reduce_op) op, (jit_dtype) t);
            cr_assert_eq(!check(&w), exists);
            bool bits = op == JIT_REDUCE_AND || op == JIT_REDUCE_OR;
            cr_assert_eq(exists, bits ? jitc_dtypes[t].cls != JITC_FLOAT : t != JIT_bool);
        }
}

static const whole blocks = {SHAPED(BLOCK_REDUCE, 4),
                             {I(data, i8, A(0)), I(block_reduce, i8, A(0), B(1), C(3)),
                              I(block_reduce, i8, A(0), B(2), C(3), AUX(JIT_REDUCE_MIN))}};

Test(valid, block_reductions) {
    static const damage cases[] = {
        {2, I(block_reduce, i8, A(0), B(2), C(2)), {0}, "several lengths"},
        {2, I(block_reduce, i8, A(0), B(2), C(7)), {0}, "second parameter"},
        {2, I(reduce, i8, A(0), B(2)), {0}, "another shape"},
        {2, I(store, i8, A(0), B(2)), {0}, "store"},
        {HEAD, {0}, {.params = 7, .scratch = 4, .shape = JITC_SHAPE_BLOCK_REDUCE}, "scratch"},
    };
    DAMAGES(blocks, cases);
}

static const whole scan = {SHAPED(SCAN, 2),
                           {I(data, u64, A(0)), I(neg, u64, A(0)),
                            I(prefix_reduce, u64, A(1), B(1), AUX(JITC_AUX_EXCLUSIVE))}};

Test(valid, scans) {
    static const damage cases[] = {
        {3, I(prefix_reduce, u64, A(0), B(1)), {0}, "more than one"},
        {3, I(store, u64, A(0), B(1)), {0}, "store"},
        {2, I(prefix_reduce, u32, A(1), B(1)), {0}, "types differ"},
        {2, I(neg, u64, A(1)), {0}, "shape without"},
        {3, I(loop, u64, A(0)), {0}, "loop in this shape"},
    };
    DAMAGES(scan, cases);
}

static const whole compress = {
    SHAPED(COMPRESS, 3),
    {I(data, bool, A(0)), I(compress, u32, A(0), B(1), C(2), AUX(JITC_AUX_PART))}};

Test(valid, compress) {
    static const damage cases[] = {
        {0, I(data, u8, A(0)), {0}, "no bool"},
        {1, I(compress, i32, A(0), B(1), C(2), AUX(JITC_AUX_PART)), {0}, "u32"},
        {1, I(compress, u64, A(0), B(1), C(9), AUX(JITC_AUX_PART)), {0}, "second parameter"},
        {1, I(compress, u64, A(0), B(6)), {0}, "parameter"},
        {2, I(compress, u64, A(0), B(1)), {0}, "more than one"},
    };
    DAMAGES(compress, cases);
    whole without = compress; /* the second parameter is not one without PART */
    without.inst[1].aux = 0;
    without.inst[1].c = 99;
    cr_assert_null(check(&without));
}

static const whole sort = {SHAPED(SORT, 4),
                           {I(buffer, bf16, A(0)), I(sort, bf16, A(0), B(2), C(3),
                                                     AUX(JITC_AUX_DESCENDING | JITC_AUX_PART))}};

Test(valid, sort) {
    static const damage cases[] = {
        {0, I(data, bf16, A(0)), {0}, "no buffer"},
        {1, I(sort, f16, A(0), B(2)), {0}, "types differ"},
        {1, I(sort, bf16, A(0), B(2), C(7), AUX(JITC_AUX_PART)), {0}, "second parameter"},
        {0, I(buffer, bf16, A(6)), {0}, "size"},
    };
    DAMAGES(sort, cases);
}

static const whole scatter = {
    SHAPED(MAP, 5),
    {I(buffer, u32, A(0)), I(data, u32, A(2)),
     I(scatter_reduce, u32, A(0), B(1), C(1), AUX(JIT_REDUCE_ADD | JITC_AUX_PART)),
     I(store, u32, A(2), B(3))}};

Test(valid, scatter_reduce) {
    static const damage cases[] = {
        {2, I(scatter_reduce, u32, A(0), B(1), C(1), AUX(JIT_REDUCE_ADD)), {0}, "no value"},
        {2, I(scatter_reduce, u32, A(0), B(1), C(1), AUX(7)), {0}, "no such reduction"},
        {2, I(scatter_reduce, u32, A(1), B(1), C(1), AUX(JITC_AUX_PART)), {0}, "no buffer"},
        {2, I(scatter_reduce, i32, A(0), B(1), C(1), AUX(JITC_AUX_PART)), {0}, "types differ"},
        {HEAD, {0}, SHAPED(REDUCE, 5), "another shape"},
        {HEAD, {0}, {.params = 8}, "scratch"},
    };
    DAMAGES(scatter, cases);
}

Test(valid, operations_of_the_graph_stand_in_no_program) {
    static const damage cases[] = {
        {4, I(part, f32, A(0)), {0}, "graph only"},
        {4, I(result, f32, A(0), B(0)), {0}, "graph only"},
    };
    DAMAGES(reduction, cases);
}

/* ---- loops ---- */

/* while (x < 1) { y = 0; do { y += x } once; x = y } */
static const whole loop = {
    {.params = 3, .flags = LOOPS},
    {I(data, f32, A(0)), I(data, f32, A(1)), I(loop, f32, A(0)), I(phi, f32, A(0), B(2), C(0)),
     I(lt, bool, A(3), B(1)), I(test, bool, A(4), B(2)), I(loop, f32, AUX(JITC_AUX_ONCE)),
     I(phi, f32, A(1), B(6), C(0)), I(test, bool, A(4), B(6)), I(add, f32, A(7), B(3)),
     I(next, f32, A(7), B(9)), I(end, f32, A(6)), I(next, f32, A(3), B(7)), I(end, f32, A(2)),
     I(store, f32, A(3), B(2))}};

Test(valid, loops) {
    static const damage cases[] = {
        {14, I(store, f32, A(7), B(2)), {0}, "has ended"}, /* of an inner loop */
        {14, I(store, f32, A(9), B(2)), {0}, "has ended"}, /* a value from inside */
        {14, I(store, bool, A(4), B(2)), {0}, "has ended"},
        {12, I(next, f32, A(3), B(9)), {0}, "has ended"},
        {12, I(next, f32, A(7), B(3)), {0}, "innermost"},
        {10, I(next, f32, A(3), B(9)), {0}, "innermost"},
        {9, I(next, f32, A(7), B(3)), {0}, "types differ"},
        {12, I(next, bool, A(3), B(4)), {0}, "types"},
        {12, I(store, f32, A(3), B(2)), {0}, "inside a loop"},
        {9, I(reduce, f32, A(3), B(2)), {0}, "another shape"},
        {9, I(buffer, f32, A(0)), {0}, "store or buffer inside"},
        {8, I(test, bool, A(4), B(2)), {0}, "not of this loop"},
        {8, I(add, f32, A(7), B(3)), {0}, "no test"},
        {8, I(test, bool, A(7), B(6)), {0}, "no bool"},
        {9, I(test, bool, A(4), B(6)), {0}, "not of this loop"},
        {7, I(phi, f32, A(1), B(2), C(0)), {0}, "innermost"},
        {7, I(phi, f32, A(4), B(6), C(0)), {0}, "types differ"},
        {7, I(add, f32, A(3), B(3)), {0}, "not of the innermost loop"},
        {8, I(phi, f32, A(1), B(6), C(1)), {0}, "no test"},
        {9, I(phi, f32, A(1), B(6), C(1)), {0}, "right behind"},
        {11, I(end, f32, A(2)), {0}, "innermost"},
        {13, I(neg, f32, A(0)), {0}, "right before the end"},
        {11, I(neg, f32, A(0)), {0}, "right before the end"},
        {HEAD, {0}, {.params = 3}, "LOOPS"},
    };
    /* every state of the outer loop can be used behind it, one that does not change as well */
    whole same = loop;
    same.inst[12] = (jitc_inst) I(neg, f32, A(3));
    cr_assert_null(check(&same));
    whole in_reduction = loop;
    in_reduction.head = (jitc_program_head) SHAPED(REDUCE, 3);
    in_reduction.head.flags |= LOOPS;
    in_reduction.inst[14] = (jitc_inst) I(reduce, f32, A(3), B(2));
    cr_assert_null(check(&in_reduction));
    in_reduction.inst[9] = (jitc_inst) I(reduce, f32, A(3), B(2));
    cr_assert(strstr(check(&in_reduction), "combined inside"));
    DAMAGES(loop, cases);
    whole none = reduction;
    none.head.flags |= LOOPS;
    cr_assert(strstr(check(&none), "LOOPS"));
}

/** One loop behind another, as an if and its else, and nesting to some depth. */
Test(valid, branches_follow_each_other_and_nest) {
    whole w = {{.params = 2, .flags = LOOPS}, {I(data, bool, A(0))}};
    uint32_t n = 1, value = 0;
    for (int i = 0; i < 2; ++i) {
        uint32_t at = n;
        w.inst[n++] = (jitc_inst) I(loop, bool, AUX(JITC_AUX_ONCE));
        w.inst[n++] = (jitc_inst) I(phi, bool, A(value), B(at));
        w.inst[n++] = (jitc_inst) I(test, bool, A(0), B(at));
        w.inst[n++] = (jitc_inst) I(not, bool, A(at + 1));
        w.inst[n++] = (jitc_inst) I(next, bool, A(at + 1), B(at + 3));
        w.inst[n++] = (jitc_inst) I(end, bool, A(at));
        value = at + 1;
    }
    w.inst[n] = (jitc_inst) I(store, bool, A(value), B(1));
    cr_assert_null(check(&w), "%s", check(&w));
    w.inst[8] = (jitc_inst) I(phi, bool, A(4), B(7)); /* from inside the first one */
    cr_assert(strstr(check(&w), "has ended"));
}
