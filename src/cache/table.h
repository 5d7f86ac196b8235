/* table.h: the kernels in memory, found without a lock.  Layer: cache.
 * May include: core, ir, device.
 *
 * An open addressing table of pointers to entries. Readers take no lock: an entry is found by its
 * tag, then held by its reference count, then compared. That is sound because an entry's memory is
 * reused for other entries but not freed before the table is (so a count can always be tried), and
 * a count of 0 means "not for you". Writers hold the lock; they may move entries while readers
 * look, who may then miss one: what a reader does not find, it looks up again under the lock. */
#ifndef JITC_CACHE_TABLE_H
#define JITC_CACHE_TABLE_H
#include "cache/cache.h"

/** What an entry is found by, together with its program. */
typedef struct jitc_key {
    jitc_hash hash; /* of target, options and program: also the name on disk */
    jitc_backend *backend;
    int device;
} jitc_key;

typedef struct jitc_entry {
    jitc_cached cached;   /* first: a jitc_cached is an entry */
    _Atomic uint64_t tag; /* from the key: filters what readers look at before they hold it */
    jitc_refcount refs;   /* one is the table's; 0: being made or unmade */
    atomic_bool used;     /* since the hand of the clock passed */
    jitc_key key;         /* this and the following: written before refs, read by holders */
    jitc_program program;
    struct jitc_entry *next;  /* in the list of free, dead or hot entries */
    struct jitc_entry *older; /* all entries ever made */
} jitc_entry;

struct jitc_slots;

typedef struct jitc_table {
    jitc_mutex lock;
    _Atomic(struct jitc_slots *) slots; /* replaced by one twice as large */
    atomic_size_t count;                /* written under the lock */
    size_t hand;                        /* the following: under the lock */
    jitc_entry *free, *all;
} jitc_table;

jit_status jitc_table_init(jitc_table *t);
/** Destroys all entries. */
void jitc_table_finish(jitc_table *t);
/** The entry of a program, with a new reference; NULL if there is none or, without the lock, if it
 * was not seen. */
jitc_entry *jitc_table_find(jitc_table *t, const jitc_key *key, const jitc_program *p);
/** Give a reference back; the last one destroys the entry. The lock is not held. */
void jitc_table_release(jitc_table *t, jitc_entry *e);

/** A blank entry with a copy of the program, which belongs to the caller. JIT_OUT_OF_MEMORY. */
jit_status jitc_table_make(jitc_table *t, const jitc_key *key, const jitc_program *p,
                           jitc_entry **out);
/** Put an entry that make() gave into the table, with `users` references besides the table's.
 * Entries that nobody uses go into the list *dead if there are `limit` of them. JIT_OUT_OF_MEMORY.
 */
jit_status jitc_table_insert_locked(jitc_table *t, jitc_entry *e, unsigned users, size_t limit,
                                    jitc_entry **dead) REQUIRES(&t->lock);
/** Empty the table; entries that nobody uses go into *dead. */
void jitc_table_clear_locked(jitc_table *t, jitc_entry **dead) REQUIRES(&t->lock);
/** Destroy what is left in a list of entries that are in nobody's reach. The lock is not held. */
void jitc_table_bury(jitc_table *t, jitc_entry *dead);
/** In the child after fork(), which the calling thread made under the lock, and which it lets go.
 * What no thread holds is left alone: threads that are not there were making or unmaking it. */
void jitc_table_forked(jitc_table *t);
#endif
