/* image.c: what the simulated NVRTC returns for a CUBIN or for PTX. It is the text itself, which
 * is compiled again where a program loads an image that another one wrote to disk:
 *
 *   SIMCUBIN1 sm_90 <bytes of the text> <hash of the text>\n<text>\0        CUBIN
 *   //SIMPTX1 compute_90 <bytes> <hash>\n<text>\0                           PTX */
#include "code.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INVALID_IMAGE = 200, NO_BINARY_FOR_GPU = 209, INVALID_PTX = 218 }; /* CUresult */

char *sim_image_write(const char *text, int arch, bool ptx, size_t *bytes) {
    char *image;
    int n =
        asprintf(&image, "%s_%d %zu %016" PRIx64 "\n%s", ptx ? "//SIMPTX1 compute" : "SIMCUBIN1 sm",
                 arch, strlen(text), sim_hash(text), text);
    *bytes = (size_t) n + 1;
    return n < 0 ? NULL : image;
}

bool sim_image_read(const void *image, sim_image *out) {
    const char *head = image, *end;
    size_t bytes;
    uint64_t hash;
    *out = (sim_image) {.ptx = strncmp(head, "//SIMPTX1 ", 10) == 0};
    if (!out->ptx && strncmp(head, "SIMCUBIN1 ", 10) != 0) {
        return false;
    }
    const char *const format =
        out->ptx ? "compute_%d %zu %" SCNx64 "\n" : "sm_%d %zu %" SCNx64 "\n";
    char line[80];
    end = memccpy(line, head + 10, '\n', sizeof line - 1);
    if (!end) {
        return false;
    }
    line[end - line] = 0;
    if (sscanf(line, format, &out->arch, &bytes, &hash) != 3) {
        return false;
    }
    out->text = head + 10 + (end - line);
    return strnlen(out->text, bytes + 1) == bytes && sim_hash(out->text) == hash;
}

/* A CUBIN runs on its own generation, from its own revision on; PTX on all later ones. */
static bool runs_on(const sim_image *i, int capability) {
    return i->arch <= capability && (i->ptx || i->arch / 10 == capability / 10);
}

sim_code *sim_code_from_image(const void *image, int capability, int *result) {
    sim_image i;
    if (!sim_image_read(image, &i)) {
        *result = i.ptx ? INVALID_PTX : INVALID_IMAGE;
        return NULL;
    }
    if (!runs_on(&i, capability)) {
        *result = i.ptx ? INVALID_PTX : NO_BINARY_FOR_GPU;
        return NULL;
    }
    char *log;
    sim_code *c = sim_code_build(i.text, &log);
    free(log);
    *result = c ? 0 : i.ptx ? INVALID_PTX : INVALID_IMAGE;
    return c;
}
