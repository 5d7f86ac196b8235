/* code.h: compiled texts, as the parts of the code side see them.
 *
 *   scan.c      finds kernels in a text, and writes the functions through which they are called
 *   compile.c   host_prelude.h + text + those functions → machine code, by TinyCC or gcc
 *   code.c      the table of texts that are alive
 *   image.c     what NVRTC returns and modules are loaded from
 *   options.c   NVRTC's options
 *   nvrtc.c     NVRTC's entry points */
#ifndef SIMCUDA_CODE_H
#define SIMCUDA_CODE_H
#include "sim.h"

enum { SIM_MOST_ARGUMENTS = 64 };

struct sim_function {
    char *name;
    void (*call)(void **arguments);
    size_t count; /* arguments */
    size_t *sizes, *offsets;
    size_t shared;      /* bytes of static shared memory */
    unsigned registers; /* a guess */
    bool waits;         /* its threads may wait for each other */
};

/* ---- code.c ---- */

uint64_t sim_hash(const char *text);

/* ---- scan.c ---- */

typedef struct sim_scan {
    char **names; /* of kernels */
    size_t count;
    char *calls;       /* C: for kernel K, sim_call_K(void **) and the words sim_info_K[] */
    size_t statements; /* in the whole text */
    bool waits;        /* barriers, warp operations, shared memory, volatile accesses */
} sim_scan;
/** sim_info_K[]: */
enum {
    SIM_INFO_COUNT,
    SIM_INFO_THREADS, /* of __launch_bounds__: of a multiprocessor; 1: none */
    SIM_INFO_SHARED,
    SIM_INFO_ARGUMENTS /* size, alignment of each */
};

/** False: *log says what was not understood. */
bool sim_scan_text(const char *text, sim_scan *out, char **log);
void sim_scan_free(sim_scan *s);

/* ---- compile.c ---- */

/** Machine code in memory. */
typedef struct sim_binary {
    void *memory, *library; /* one of them */
    size_t bytes;
} sim_binary;

/** Compile, and look up `count` symbols. Any thread, one at a time. */
bool sim_compile(const char *text, const sim_scan *s, const char *const *symbols, size_t count,
                 void **addresses, sim_binary *out, char **log);
void sim_binary_free(sim_binary *o);

/* ---- builtins.c ---- */

typedef struct sim_builtin {
    const char *name, *declaration;
    void (*host)(void);
} sim_builtin;
/** The table; ends with a name of NULL. */
extern const sim_builtin sim_builtins[];
/** The text of host_prelude.h. */
extern const char sim_host_prelude[];

/* ---- image.c ---- */

typedef struct sim_image {
    int arch; /* such as 90 */
    bool ptx;
    const char *text; /* in the image */
} sim_image;
/** The bytes of an image, *bytes of them; free(). NULL: no memory. */
char *sim_image_write(const char *text, int arch, bool ptx, size_t *bytes);
/** False if it is none, or a damaged one. */
bool sim_image_read(const void *image, sim_image *out);

/* ---- nvrtc.c, options.c ---- */

typedef struct sim_options {
    int arch;
    bool is_virtual;   /* compute_..: no CUBIN */
    char *definitions; /* #define lines; free() */
} sim_options;
/** False, with NVRTC's words in *log, for an option that it would refuse. */
bool sim_options_read(int count, const char *const *options, sim_options *out, char **log);
/** Does the version that is simulated have this architecture? */
bool sim_knows_arch(int arch);
#endif
