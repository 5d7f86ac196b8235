/* capture_world.h: what tests of captures have: a device, a kernel, a word or two. The driver may
 * be a real one.  Layer: tests. */
#ifndef JITC_TESTS_CAPTURE_WORLD_H
#define JITC_TESTS_CAPTURE_WORLD_H
#include "simcuda_client.h"

enum { GLOBAL, THREAD_LOCAL, RELAXED };          /* modes */
enum { NONE, ACTIVE, INVALIDATED, UNKNOWN = 9 }; /* states */

typedef struct capture_world {
    bool simulated;
    CUcontext context; /* the primary one, current */
    CUmodule module;
    CUfunction add, times; /* (unsigned *p, unsigned v): *p += v, *p *= v */
    CUdeviceptr p;         /* 16 words, 0 */
} capture_world;
extern capture_world w;

void capture_start(void);
/** For tests of what only the simulated driver has. */
void capture_start_simulated(void);
/** Nothing may be left, nor any fault. */
void capture_finish(void);
/** The code of the kernels; free(). */
char *capture_code(void);
/** Launch w.add or w.times on w.p. */
CUresult capture_launch(CUfunction f, unsigned v, CUstream stream);
CUevent capture_event(void);
/** What cuStreamIsCapturing() says, which has to succeed. */
int capture_state(CUstream stream);
/** Let the thread go on in another mode; returns the one so far. */
int capture_set_mode(int mode);
/** End a capture without success. */
void capture_end_broken(CUstream stream, CUresult expected);
/** End a capture; the graph, ready to be launched. */
CUgraphExec capture_end(CUstream stream);
#endif
