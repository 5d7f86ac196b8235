/* text_loop.c: loops and branches as CUDA C.  Layer: cuda.  May include: core, ir.
 *
 *   f32 v4 = v1;                       states
 *   #pragma unroll 8
 *   for (;;) {
 *       const bool v6 = ...;           the condition
 *       if (!(v6)) break;
 *       const f32 v7 = ...;            the body
 *       v4 = v7;
 *   }
 *
 * Each lane leaves by itself: a warp goes on until its last one has left, with the others switched
 * off. To keep them running under a mask takes twice the time. Copies of a short body, each with
 * its own exit, save 14 % in Mandelbrot's: the states need not move between registers. */
#include "cuda/text_loop.h"

enum { UNROLLED = 8, UNROLLED_WORK = 30 };

static bool is_once(const jitc_program *p, uint32_t loop) {
    return p->inst[loop].aux & JITC_AUX_ONCE;
}

/** Is the loop short, and without another one in it? What reduces by index is long text. */
static bool is_short(const jitc_program *p, uint32_t loop) {
    uint32_t work = 0;
    for (uint32_t n = loop + 1; p->inst[n].op != JITC_OP_end; ++n) {
        uint8_t op = p->inst[n].op;
        if (op == JITC_OP_loop || op == JITC_OP_scatter_reduce)
            return false;
        bool free = op == JITC_OP_literal || op == JITC_OP_phi || op == JITC_OP_next ||
                    op == JITC_OP_masked;
        work += jitc_ops[op].props & JITC_INEXACT ? 20 : !free;
    }
    return work <= UNROLLED_WORK;
}

static void put_begin(jitc_cuda_writer *w, const jitc_program *p, uint32_t loop) {
    for (uint32_t n = loop + 1; p->inst[n].op == JITC_OP_phi; ++n)
        jitc_cuda_putf(w, "    %s %v = %v;\n", jitc_cuda_type((jit_dtype) p->inst[n].type), n,
                       p->inst[n].a);
    if (is_once(p, loop)) {
        jitc_cuda_put_text(w, "    {\n");
        return;
    }
    if (is_short(p, loop))
        jitc_cuda_putf(w, "    #pragma unroll %u\n", UNROLLED);
    jitc_cuda_put_text(w, "    for (;;) {\n");
}

/** Is the new value of `next` a state that an earlier `next` has changed already? */
static bool is_overwritten(const jitc_program *p, uint32_t next) {
    uint32_t value = p->inst[next].b;
    for (uint32_t n = next; n-- > 0 && p->inst[n].op == JITC_OP_next;)
        if (p->inst[n].a == value)
            return true;
    return false;
}

/** All states change at once: what is needed after it has changed is kept. */
static void put_next(jitc_cuda_writer *w, const jitc_program *p, uint32_t n) {
    if (p->inst[n - 1].op != JITC_OP_next)
        for (uint32_t i = n; p->inst[i].op == JITC_OP_next; ++i)
            if (is_overwritten(p, i))
                jitc_cuda_putf(w, "    const %s %o = %v;\n",
                               jitc_cuda_type((jit_dtype) p->inst[i].type), i, p->inst[i].b);
    jitc_cuda_putf(w, is_overwritten(p, n) ? "    %v = %o;\n" : "    %v = %v;\n", p->inst[n].a,
                   is_overwritten(p, n) ? n : p->inst[n].b);
}

/** Lanes that repeat another one do not enter: where loops combine values into arrays and go by
 * what was there, they would find nothing, maybe for ever. */
static void put_test(jitc_cuda_body *k, const jitc_inst *i) {
    const char *live = k->repeats ? " && live" : "";
    if (is_once(k->p, i->b))
        jitc_cuda_putf(&k->w, "    if (%v%s) {\n", i->a, live);
    else
        jitc_cuda_putf(&k->w, "    if (!(%v%s)) break;\n", i->a, live);
}

void jitc_cuda_put_loop(jitc_cuda_body *k, uint32_t n) {
    const jitc_inst *i = &k->p->inst[n];
    switch (i->op) {
        case JITC_OP_loop: put_begin(&k->w, k->p, n); break;
        case JITC_OP_test: put_test(k, i); break;
        case JITC_OP_next: put_next(&k->w, k->p, n); break;
        case JITC_OP_end:
            jitc_cuda_put_text(&k->w, is_once(k->p, i->a) ? "    }\n    }\n" : "    }\n");
            break;
        default: break; /* phi: written with its loop */
    }
}
