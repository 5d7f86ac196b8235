/* tables.h: launches of kernels that combine values into elements of arrays.  Layer: llvm.
 * May include: core, ir.
 *
 * Three ways, chosen for each launch by what is known then:
 *   alone    one thread runs all lanes, and updates elements with plain loads and stores
 *   apart    the lanes are cut into groups; each updates tables of its own, in the scratch memory,
 *            with plain loads and stores; another task merges them
 *   shared   all threads update the arrays, by compare-and-swap */
#ifndef JITC_LLVM_TABLES_H
#define JITC_LLVM_TABLES_H
#include "ir/program.h"
#include "llvm/workers.h"

enum { JITC_MAX_TABLES = 4 };

/** An array that a program updates. */
typedef struct jitc_table {
    uint32_t parameter; /* its address; the next one is its size */
    jit_dtype type;
    jit_reduce_op op;
} jitc_table;

/** What is known of a kernel before it is launched. */
typedef struct jitc_tables {
    uint32_t updates; /* instructions scatter_reduce; 0: nothing here concerns the kernel */
    uint32_t scratch, params;
    int threads;    /* of the pool */
    uint32_t bytes; /* that a lane reads */
    bool loops;
    bool apart;     /* tables can stand for the arrays */
    uint32_t count; /* with `apart` */
    jitc_table table[JITC_MAX_TABLES];
} jitc_tables;

void jitc_tables_init(const jitc_program *p, int threads, jitc_tables *out);
/** Bytes of scratch memory for a launch over so many lanes. */
size_t jitc_tables_scratch(const jitc_tables *t, uint64_t lanes);
/** Queue `task`, of a kernel with updates: one number or two. As jitc_queue_launch(). */
jit_status jitc_tables_launch(const jitc_tables *t, jitc_queue *q, const jitc_task *task,
                              uint64_t *number);
#endif
