/* fake_backend.h: a complete backend with a small compiler of its own.
 * Layer: tests.  May include: core, ir, device.
 *
 * Machine code is a copy of the program with the level, and loading checks that it is the right
 * one. It counts, and it can be told to be slow or to fail. */
#ifndef JITC_TESTS_FAKE_BACKEND_H
#define JITC_TESTS_FAKE_BACKEND_H
#include "device/backend.h"

typedef struct fake_kernel {
    jitc_kernel head;
    jitc_blob code;
} fake_kernel;

typedef struct fake {
    jitc_backend head;
    jitc_target target[2]; /* of two devices */
    atomic_int lowered, compiled, reloaded, destroyed, loaded;
    atomic_int forks;
    atomic_int sources; /* alive */
    atomic_int at_once, most_at_once;
    atomic_int last_level;
    /* what it is told to do */
    atomic_int meet;       /* compile() waits until so many are in it */
    atomic_int fail_count; /* the number of compilations that fail from now on */
    atomic_int fail_op;    /* a program whose first instruction has this `a` fails */
    atomic_int fail_loads;
    atomic_int pause_us;
    atomic_bool hold; /* compile() waits while this is set */
} fake;

void fake_init(fake *f);
/** The code is that of the program, at any level. */
bool fake_is_code_of(const jitc_blob *code, const jitc_program *p);
/** Bytes of the instructions in the code. */
size_t fake_code_bytes(const jitc_program *p);
/** Wait, within reason, for something that another thread does; false if it does not happen. */
bool fake_reaches(atomic_int *counter, int value);
void fake_sleep_us(long us);
#endif
