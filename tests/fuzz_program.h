/* fuzz_program.h: a random array program: steps in order, and what each of them has to give.
 * Layer: tests.
 *
 * Steps outside of loops, branches and calls ("blocks") have their expected elements from the
 * moment they are made, so that what may follow can be chosen by them: a scatter wants distinct
 * indices, a sum of floats wants numbers whose every order of adding gives the same.
 *
 * A block is a stretch of steps:
 *
 *   BEGIN  PART 0  VARIABLE ...  body  [CONDITION  body]  [PART 1  VARIABLE ...  body]  END  RESULT
 *
 * whose body is evaluated with its VARIABLEs, for all lanes at once, once an iteration. */
#ifndef JITC_TESTS_FUZZ_PROGRAM_H
#define JITC_TESTS_FUZZ_PROGRAM_H
#include "ir/ir.h"

typedef enum fuzz_kind {
    LITERAL,
    COUNTER,
    COPIED,
    MAPPED,
    FOREIGN, /* the last of the leaves */
    APPLY,
    CAST,
    BITCAST,
    GATHER,         /* source, index, mask */
    SCATTER,        /* target, value, index, mask */
    SCATTER_REDUCE, /* the same; operation */
    INC,            /* target, index, mask */
    REDUCE,         /* a; operation */
    BLOCK_REDUCE,   /* a; operation, length of a block */
    PREFIX_REDUCE,  /* a; operation, exclusive, reverse */
    COMPRESS,
    PADDED, /* with 0 behind the numbers; SECOND: how many there are */
    SORT,   /* a; descending, with SECOND */
    TILE,
    REPEAT,
    REVERSE,
    SLICE, /* a; start, count, step */
    ROLL,
    TRANSPOSE, /* a; rows, columns */
    CONCAT,    /* ...; how many */
    ANY,
    ALL,
    COUNT,
    ARGMIN,
    ARGMAX,
    SECOND, /* another result of the step before: INC: (index << 32 | old value), sorted */
    VARIABLE,
    RESULT, /* the last that has a value */
    BEGIN,  /* branch: condition; call: index; block */
    PART,   /* block, part */
    CONDITION,
    END
} fuzz_kind;

enum { INPUTS = 10, STATES = 5, PARTS = 3, MAX_BLOCKS = 8 };
/* Blocks begin, and other steps are made, up to these; blocks end behind them. */
enum { LAST_BLOCK = 110, LAST_STEP = 150, MAX_STEPS = 320 };

typedef struct fuzz_step {
    fuzz_kind kind;
    jitc_op op; /* of APPLY */
    jit_dtype type;
    size_t size;
    int in[INPUTS];      /* steps; -1: none */
    long long number[3]; /* what the kinds say */
    int inner;           /* innermost block whose variables it is computed from; -1: none */
    bool hidden;         /* what follows cannot use it */
    bool array;          /* a state that is scattered into: a target only */
    bool needed;         /* is recorded at all */
    bool given;          /* is recorded as an array that holds `value` */
    uint64_t *value;     /* `size` elements */
} fuzz_step;

typedef enum form { LOOP, BRANCH, CALL } form;

typedef struct fuzz_block {
    form form;
    int parent; /* -1: none */
    size_t lanes;
    int begin, condition, end; /* steps */
    int parts, part[PARTS];    /* the PART steps */
    int states;
    int start[STATES], result[STATES];
    int variable[PARTS][STATES], next[PARTS][STATES];
    bool array[STATES];
    int combine[STATES]; /* arrays: a jit_reduce_op; -1: each lane stores at a place of its own, */
    int own[STATES];     /*   which this step says */
    int current[STATES]; /* arrays: what comes next is scattered into this step */
} fuzz_block;

typedef struct program {
    uint64_t seed;
    int count, blocks;
    fuzz_step step[MAX_STEPS];
    fuzz_block block[MAX_BLOCKS];
    bool outside; /* an index is out of range somewhere */
} program;

/** Make the program of a number. */
void program_make(program *p, uint64_t seed);
void program_finish(program *p);
void program_print(const program *p);
/** Find out which steps are needed for what is wanted. */
void program_trim(program *p, const bool *wanted);

/** Compute the elements of a step; of steps of a block for the lanes of `active` (NULL: all). */
void value_step(program *p, int i, const bool *active);
/** The same for a whole block. */
void value_block(program *p, int b, const bool *active);
static inline uint64_t value_at(const fuzz_step *s, size_t i) {
    return s->value[s->size == 1 ? 0 : i];
}
/** The index as a number; is it less than `size`? */
bool value_index(const fuzz_step *s, size_t i, size_t size, size_t *out);
/** The size that operands have together. */
size_t value_lanes(const program *p, const int *in, int n);
uint64_t value_cast(jit_dtype from, jit_dtype to, uint64_t bits);

/** Record, evaluate, and compare what is `wanted`, or some steps that `choice` says (NULL). 0: all
 * is as it has to be; else what went wrong, in `error`, at which step, from 1 on. */
int run_program(const program *p, uint64_t choice, char error[512]);
#endif
