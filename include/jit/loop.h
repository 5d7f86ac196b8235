/* loop.h: loops, branches and calls inside of kernels.
 * Compiles alone as C17 and as C++17. docs/loops.md begins with an example.
 *
 * A loop is recorded once, and every lane runs it as often as its own condition says. Its state is
 * an array of variables that the functions here replace, entry by entry:
 *
 *   start values  -- jit_loop_begin() -->  variables of the loop, for condition and body
 *   next values   -- jit_loop_end()   -->  results
 *
 * References: as everywhere, none is taken and every variable that is returned is a new reference.
 * So who counts references by hand gives back start values, variables of the loop and next values,
 * each once, and at the end the results; who has a scope open gives back nothing.
 *
 * Sizes: states have equal sizes, or 1, which broadcasts; the results have the size that state,
 * condition and what is scattered have together. Excepted are arrays that are only indexed inside:
 * they have any size. What is scattered into inside has to be a state, whose next value is the
 * updated array. Nothing inside can read it, neither by jit_gather() nor as a value; of several
 * lanes with one index one wins, and each lane keeps its own order. A state that the body leaves
 * as it is gives its start value, of its own size.
 *
 * Variables of a loop, and what is computed from them, exist inside only. To evaluate them, or to
 * use them behind the end, is JIT_INVALID_ARGUMENT when something is evaluated. So is a reduction,
 * prefix sum or the like of them: it combines lanes, which are in different iterations.
 *
 * Loops, branches and calls may be nested in each other. What was begun last ends first, in the
 * thread that began it. What is not ended is abandoned when its thread ends, and by jit_shutdown():
 * after that, as after its end, the pointer names nothing; to use it is JIT_INVALID_HANDLE. */
#ifndef JIT_LOOP_H
#define JIT_LOOP_H
#include <jit/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A loop that is being recorded. */
typedef struct jit_loop jit_loop;
/** A branch that is being recorded. */
typedef struct jit_if jit_if;

/** Begin a loop: replaces state[0 ... n-1] (n > 0), the values at the start, by variables of the
 * loop, to be used in the condition and in the body. NULL after a failure; the entries are 0 then,
 * and what is computed from them, the functions below included, does nothing. */
JIT_API jit_loop *jit_loop_begin(size_t n, jit_var *state);
/** Lanes where `active` (bool) is false leave the loop: with the state as it is now. Once in each
 * loop. Nothing that is scattered inside may influence it. */
JIT_API jit_status jit_loop_condition(jit_loop *loop, jit_var active);
/** End the loop, also if it fails: replaces state[0 ... n-1], the values for the next iteration, by
 * the results. n and types are those of jit_loop_begin(). After a failure the entries are 0. */
JIT_API jit_status jit_loop_end(jit_loop *loop, size_t n, jit_var *state);
/** Give up a loop, and what was begun inside of it. NULL is allowed. */
JIT_API void jit_loop_cancel(jit_loop *loop);

/** Begin a branch, as jit_loop_begin(): what follows is for the lanes where `condition` is true.
 * They alone gather and scatter. */
JIT_API jit_if *jit_if_begin(jit_var condition, size_t n, jit_var *state);
/** What follows is for the other lanes: replaces the new values by variables that have the values
 * from before the branch. At most once. After a failure the branch has ended. */
JIT_API jit_status jit_if_else(jit_if *branch, size_t n, jit_var *state);
/** End the branch, as jit_loop_end(). Without jit_if_else() the other lanes keep their values. */
JIT_API jit_status jit_if_end(jit_if *branch, size_t n, jit_var *state);
/** Give up a branch, and what was begun inside of it. NULL is allowed. */
JIT_API void jit_if_cancel(jit_if *branch);

/** A function that jit_switch() records. `args` are variables for its lanes; it writes all of
 * `results`. Whatever references it gets are given back when it has returned; the others are its
 * own. A failure ends the jit_switch() with the same status. */
typedef struct jit_callable {
    /** Records what it computes. JIT_OK, or why it could not. */
    jit_status (*function)(void *context, size_t n_args, const jit_var *args, size_t n_results,
                           jit_var *results);
    void *context; /**< Passed to `function`. */
} jit_callable;

/** Call callables[index[i]] in every lane i. Each is recorded once, here, and runs for its lanes.
 * Type and size of each result are the same in all of them. A lane whose index (of any integer
 * type) is out of range calls nothing, and gets 0. A result may be an argument that is scattered
 * into, or that has another size; then it is that argument, or its updated array, in all callables.
 * `results`: new references, 0 after a failure. */
JIT_API jit_status jit_switch(jit_var index, size_t n_callables, const jit_callable *callables,
                              size_t n_args, const jit_var *args, size_t n_results,
                              jit_var *results);

#ifdef __cplusplus
}
#endif
#endif
