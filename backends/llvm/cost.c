/* cost.c: what a kernel costs.  Layer: llvm.  May include: core, ir.
 *
 * Only two decisions hang on it, and both forgive a factor of two: whether a launch is worth more
 * than one thread, and how large its blocks are. */
#include "llvm/cost.h"

/** Cost of an operation in units of an addition of the same type. */
static double weight(const jitc_program *p, const jitc_inst *i) {
    jit_dtype type = (jit_dtype) i->type;
    bool real = jitc_dtypes[type].cls == JITC_FLOAT;
    switch (i->op) { /* those that are far from 1 */
        case JITC_OP_gather: return p->inst[i->b].type >= JIT_i64 ? 20 : 16;
        case JITC_OP_scatter: return 20;
        case JITC_OP_scatter_reduce: return 50;
        case JITC_OP_reduce: return real && jitc_inst_reduce(i) >= JIT_REDUCE_MIN ? 4 : 1;
        case JITC_OP_block_reduce: return 4; /* less for long blocks, more for short ones */
        case JITC_OP_prefix_reduce: return 7;
        case JITC_OP_compress: return 5;
        case JITC_OP_data:
        case JITC_OP_store: return 1.5;
        case JITC_OP_div: return real ? 4 : 16;
        case JITC_OP_mod: return real ? 200 : 18;
        case JITC_OP_sqrt:
        case JITC_OP_rcp: return 5;
        case JITC_OP_cast: return 2;
        case JITC_OP_mul_hi: return 4;
        case JITC_OP_min:
        case JITC_OP_max: return real ? 4 : 1;
        default: return jitc_ops[i->op].props & JITC_INEXACT ? 20 : 1;
    }
}

static bool is_free(const jitc_inst *i) {
    return i->op == JITC_OP_literal || i->op == JITC_OP_buffer || i->op == JITC_OP_masked ||
           i->op == JITC_OP_phi || i->op == JITC_OP_loop || i->op == JITC_OP_end ||
           (i->flags & (JITC_INST_UNIFORM | JITC_INST_SCALAR));
}

/** How often a loop goes around, before anybody knows. */
enum { TRIPS = 16 };

double jitc_cost_estimate(const jitc_program *p, unsigned native_bytes) {
    double bytes = 0; /* of operands: as much as the machine does at once takes a third of a ns */
    double trips = 1;
    for (uint32_t n = 0; n < p->head.count; n++) {
        const jitc_inst *i = &p->inst[n];
        if (i->op == JITC_OP_loop && !(i->aux & JITC_AUX_ONCE))
            trips *= (double) TRIPS;
        if (i->op == JITC_OP_end && !(p->inst[i->a].aux & JITC_AUX_ONCE))
            trips /= (double) TRIPS;
        if (!is_free(i))
            bytes += weight(p, i) * trips * jitc_dtypes[i->type].bytes;
    }
    return bytes / native_bytes / 3 + 0.01;
}

double jitc_cost_of_values(const jitc_program *p) {
    double sum = 0;
    for (uint32_t n = 0; n < p->head.count; n++) {
        const jitc_inst *i = &p->inst[n];
        if (!is_free(i) && i->op != JITC_OP_data && i->op != JITC_OP_store &&
            jitc_ops[i->op].form != JITC_FORM_REDUCE)
            sum += weight(p, i);
    }
    return sum;
}

uint32_t jitc_cost_operations(double ns_per_lane, unsigned native_bytes) {
    double one = 4.0 / native_bytes / 3;
    return ns_per_lane / one < 1e9 ? (uint32_t) (ns_per_lane / one) + 1 : 1000000000;
}

uint64_t jitc_cost_loop_block(uint64_t block, uint64_t lanes, int threads) {
    enum { LEAST = 256, MOST = 2048 };
    uint64_t share = lanes / ((uint64_t) threads * 16) / 64 * 64;
    share = share < LEAST ? LEAST : share > MOST ? MOST : share;
    return block < share ? block : share;
}

uint64_t jitc_cost_block(double ns_per_lane, uint64_t lanes, int threads) {
    enum { BLOCK = 16384 };
    uint64_t share = lanes / ((uint64_t) threads * 16);
    uint64_t block = (share + BLOCK - 1) / BLOCK * BLOCK;
    if (ns_per_lane <= 1)
        return block ? block : BLOCK;
    /* Dear lanes: blocks of about 20 us, so that the threads end together. */
    uint64_t small = (uint64_t) (20000 / ns_per_lane) / 64 * 64;
    if (small > BLOCK)
        small = BLOCK;
    return small < 64 ? 64 : small;
}
