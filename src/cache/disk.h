/* disk.h: compiled kernels on disk, shared by processes.  Layer: cache.  May include: core.
 *
 * One file an entry, named by the 128-bit key: a header (magic, format version, key, sizes, checksum),
 * then a description that is compared on a hit (the program and target it was made from), then the
 * code. Files appear whole, by rename; a damaged, truncated or foreign file is a miss. Since the
 * content is run, the folder is made 0700, and a folder or file that another user owns or can write
 * is not used. The whole is bounded; files used least recently go first. */
#ifndef JITC_CACHE_DISK_H
#define JITC_CACHE_DISK_H
#include "core/hash.h"
#include "core/mem.h"

typedef struct jitc_disk jitc_disk;

/** Open the cache in `folder`, which is made if need be; empty or NULL: $XDG_CACHE_HOME/jitc, else
 *  ~/.cache/jitc. `limit` bounds the bytes. An unusable folder is not an error: one warning is logged, and
 *  all get() miss. JIT_OUT_OF_MEMORY. */
jit_status jitc_disk_open(const char *folder, uint64_t limit, jitc_disk **out);
void jitc_disk_close(jitc_disk *d);
/** Look up; any thread. True and *code (owned by the caller, free(code->data)) on a hit whose
 *  description equals `description` byte for byte. Never fails. */
bool jitc_disk_get(jitc_disk *d, jitc_hash key, const jitc_blob *description, jitc_blob *code);
/** Store; any thread, several processes. Never fails: what cannot be written is not cached. */
void jitc_disk_put(jitc_disk *d, jitc_hash key, const jitc_blob *description,
                   const jitc_blob *code);
/** Remove one entry: its code did not load. */
void jitc_disk_drop(jitc_disk *d, jitc_hash key);
#endif
