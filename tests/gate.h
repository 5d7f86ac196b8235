/* gate.h: work that cannot go on before the test says so, on every backend: an event that is not
 * over until its gate is opened. */
#ifndef JITC_TESTS_GATE_H
#define JITC_TESTS_GATE_H
#include "support.h"
#include <stdatomic.h>

typedef struct gate {
    atomic_bool open;
    jit_event *event;      /* over once the gate is open; on the device that was the thread's */
    void *stream, *native; /* CUDA: another's stream, and the CUevent */
} gate;

/** A closed gate. On a GPU a function blocks somebody else's stream; on the CPU one that a thread
 * has queued before it ended.
 *
 * A GPU loads a kernel only when all is over that runs on it: `kernels`, which may be NULL,
 * evaluates on the thread's device what is to be evaluated there while the gate is closed; called
 * on a GPU only, before. Nor can other functions that the driver calls (cuLaunchHostFunc) get past
 * a gate. */
void gate_close(gate *g, void (*kernels)(void));
void gate_open(gate *g);
/** Opens it, and ends its event. Before support_shutdown(). */
void gate_finish(gate *g);
/** What the calling thread queues from now on, on its device, waits for the gate. */
void gate_block_own_stream(gate *g);
/** Let others run for a while: for what must not happen, whatever time there is for it. */
void gate_pause(void);
#endif
