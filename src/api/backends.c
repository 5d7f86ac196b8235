#include "api/backends.h"

/* One creator a backend: jitc_<name>_backend_create. The list is written by CMake. */
#define BACKEND(name, id)                                                                          \
    jit_status jitc_##name##_backend_create(const jitc_options *o, jitc_backend **out);
#include "api/backends.def"

typedef struct creator {
    jit_backend id;
    jit_status (*create)(const jitc_options *o, jitc_backend **out);
} creator;

static const creator creators[] = {
#define BACKEND(name, id) {id, jitc_##name##_backend_create},
#include "api/backends.def"
    {0, NULL},
};

const char *jitc_api_backend_name(jit_backend id) {
    return id == JIT_CUDA ? "CUDA" : id == JIT_LLVM ? "LLVM" : "?";
}

jit_status jitc_api_create_backend(jit_backend id, const jitc_options *o, jitc_backend **out) {
    for (const creator *c = creators; c->create; ++c)
        if (c->id == id) {
            TRY(c->create(o, out));
            assert(!jitc_backend_missing_slot(*out));
            return JIT_OK;
        }
    return jitc_fail(JIT_UNAVAILABLE, "jit_init: this library was built without the %s backend",
                     jitc_api_backend_name(id));
}
