/* dlpack.c: see dlpack.h. */
#include "api/dlpack.h"
#include <string.h>

enum { OPTIONS_BYTES = 4096 }; /* what has more is no struct of options */

jit_status jitc_dlpack_options(const char *function, const void *given, size_t size, void *own) {
    size_t theirs;
    if (!given)
        return JIT_OK;
    memcpy(&theirs, given, sizeof theirs);
    if (theirs < sizeof theirs || theirs > OPTIONS_BYTES)
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "%s: options->struct_size is %zu; start from JIT_..._OPTIONS", function,
                         theirs);
    const char *bytes = given;
    for (size_t i = size; i < theirs; ++i)
        if (bytes[i])
            return jitc_fail(JIT_INVALID_ARGUMENT,
                             "%s: options->struct_size is %zu, and byte %zu is set: that is an "
                             "option of a later version than this one's %zu bytes",
                             function, theirs, i, size);
    memcpy((char *) own + sizeof theirs, bytes + sizeof theirs,
           (theirs < size ? theirs : size) - sizeof theirs);
    return JIT_OK;
}
