/* sync_scene.h: an array of ours and a stream of somebody else, on the simulated driver.
 * Layer: tests. */
#ifndef JITC_TESTS_SYNC_SCENE_H
#define JITC_TESTS_SYNC_SCENE_H
#include "cuda_world.h"
#include "sync_table.h"
#include <jit/cuda.h>
#include <stdatomic.h>

enum { SIZE = 256 };

/** Calls of the driver. */
typedef struct asked {
    uint64_t records, waits, cpu_waits;
} asked;

typedef struct scene {
    sync_token token;
    sync_how how;
    consumer_place place;
    consumer_kind kind;
    int device;     /* of the array */
    bool scheduled; /* the token launches it */
    consumer *consumer;
    consumer_gate gate;
    jit_var x;      /* 0, 1, 2, ... */
    jit_var v;      /* the array: x + first */
    uint32_t first; /* another one in each case */
    bool sees;      /* who comes second sees the data */
    unsigned races; /* before */
    jit_status status;
    char error[256];
    asked asked; /* by the token */
    bool context_stays;
} scene;

/** The simulated driver. */
extern cuda_world w;

/** For TestSuite(): wants the simulated driver and its checker of order; and it must have found the
 * races that were predicted, and nothing else. */
void scene_start(void);
void scene_finish(void);
asked scene_calls(void);
/** For messages: which case it is. */
const char *scene_name(const scene *s);
/** x + k. */
jit_var scene_plus(jit_var x, uint32_t k);
/** Makes the consumer, and x; nothing is queued then. */
void scene_begin(scene *s);
/** Everything must have been ordered, or a race found, as s->sees says. */
void scene_end(scene *s);
bool scene_counts_up(const uint32_t *words, uint32_t first);

/** A thread that opens a gate soon: for pthread_create(). */
typedef struct opener {
    consumer_gate *gate;
    atomic_bool opened;
} opener;
void *scene_open_later(void *opener);
#endif
