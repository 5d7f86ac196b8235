/* disk.h: compiled kernels on disk, shared by processes.  Layer: cache.  May include: core.
 *
 * One file an entry, named by the 128-bit key: a header (magic, format version, key, sizes,
 * checksum), then a description that is compared on a hit (the program and target it was made
 * from), then the code. Files appear whole, by rename; a damaged, truncated or foreign file is a
 * miss. Since the content is run, the folder is made 0700, and a folder or file that another user
 * owns or can write, or that is a symbolic link, is not used. The whole is bounded; files used
 * least recently go first. */
#ifndef JITC_CACHE_DISK_H
#define JITC_CACHE_DISK_H
#include "core/hash.h"
#include "core/mem.h"

typedef struct jitc_disk jitc_disk;

/** What is stored under a key. */
typedef struct jitc_disk_item {
    jitc_blob code;
    uint32_t level; /* of code generation; not part of the key and not compared */
} jitc_disk_item;

/** Open the cache in `folder`, which is made if need be; empty or NULL: $XDG_CACHE_HOME/jitc, else
 *  ~/.cache/jitc. `limit` bounds the bytes. An unusable folder is not an error: one warning is
 * logged, and all get() miss. Call it under no lock. JIT_OUT_OF_MEMORY. */
jit_status jitc_disk_open(const char *folder, uint64_t limit, jitc_disk **out);
void jitc_disk_close(jitc_disk *d);
/** Look up; any thread. True and *item (its code is owned by the caller: free(item->code.data)) on
 * a hit whose description equals `description` byte for byte. Never fails. */
bool jitc_disk_get(jitc_disk *d, jitc_hash key, const jitc_blob *description, jitc_disk_item *item);
/** Store, in place of what the key had; any thread, several processes. Never fails: what cannot be
 *  written is not cached. */
void jitc_disk_put(jitc_disk *d, jitc_hash key, const jitc_blob *description,
                   const jitc_disk_item *item);
/** Remove one entry: its code did not load. */
void jitc_disk_drop(jitc_disk *d, jitc_hash key);
/** In the child after fork(): a thread that was tidying the folder does not exist there. */
void jitc_disk_forked(jitc_disk *d);
#endif
