/* memory.c: memory of the devices and pinned host memory.  Layer: tests.
 *
 *   device addresses   [ device 0 | device 1 | ... ]   PROT_NONE: the host cannot touch them
 *                            │ same offset
 *   second mapping     [ device 0 | device 1 | ... ]   kernels and copies, through sim_reach()
 *
 *   page table         one pointer per page of 4 KiB: the allocation that has or had it
 *
 * Pinned memory has one mapping, in which only what is allocated can be touched. Addresses are used
 * once until all have been used, unless simcuda_reuse() asks for the opposite; between allocations
 * is a gap that nothing can reach. */
#include "order.h"
#include "segments.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    SPAN_BITS = 36, /* address space of a device: 64 GiB */
    PAGE_BITS = 12,
    GAP_PAGES = 16,
    OFFSET = 512,            /* of an allocation in its page: what cuMemAlloc() promises, no more */
    POISON_LIMIT = 16 << 20, /* of larger allocations the ends are poisoned: it takes memory */
    POISON_END = 1 << 20
};
#define SPAN  ((uint64_t) 1 << SPAN_BITS)
#define PAGE  ((uint64_t) 1 << PAGE_BITS)
#define PAGES (SPAN >> PAGE_BITS)

typedef _Atomic(sim_allocation *) page;

typedef struct arena {
    uint64_t base; /* as clients and kernels see it */
    char *host;    /* where the host reaches it */
    page *pages;
    uint64_t next;       /* the page from where the search for free ones starts */
    uint64_t used;       /* bytes */
    _Atomic bool hidden; /* from the kernel that runs: of a device that is no peer of its own */
} arena;

static struct {
    arena devices[SIM_DEVICES];
    arena pinned;
    uint64_t count; /* of devices; 0 until cuInit() */
    int file;
    uint32_t numbers;
    sim_allocation *live; /* list, by `next` */
    sim_allocation *last; /* list, by `before` */
    _Atomic bool reuses;
    _Atomic unsigned runs; /* whose kernel does, as a bit; 0: none */
} m;

/* ---- look-up, without the lock ---- */

static inline const arena *arena_at(uint64_t address) {
    uint64_t i = (address - m.devices[0].base) >> SPAN_BITS;
    if (i < m.count)
        return &m.devices[i];
    return m.count && address - m.pinned.base < SPAN ? &m.pinned : NULL;
}

static inline sim_allocation *allocation_in(const arena *a, uint64_t address) {
    /* pairs with the release in map_pages() */
    return atomic_load_explicit(&a->pages[(address - a->base) >> PAGE_BITS], memory_order_acquire);
}

/** The live allocation in `a` that has all these bytes, or NULL. */
static inline sim_allocation *live_around(const arena *a, uint64_t address, size_t bytes) {
    sim_allocation *block = a ? allocation_in(a, address) : NULL;
    if (!block || !atomic_load_explicit(&block->live, memory_order_relaxed) ||
        address < block->base || address >= block->end || bytes > block->end - address)
        return NULL;
    return block;
}

void *sim_reach(uint64_t address, size_t bytes) {
    const arena *a = arena_at(address);
    return live_around(a, address, bytes) ? a->host + (address - a->base) : NULL;
}

/** Are pool and allocation open to the device of that bit? */
static bool is_open_to(const sim_allocation *block, unsigned device) {
    return ((1u << block->context->device) | *block->access) & device;
}

/** The same for the kernel that runs. */
static bool is_visible(const arena *a, const sim_allocation *block) {
    return block->access ? !m.runs || is_open_to(block, m.runs) : !a->hidden;
}

bool sim_memory_is_open(uint64_t address, int device) {
    const sim_allocation *block = sim_memory_at(address);
    return !block || !block->access || is_open_to(block, 1u << device);
}

void *sim_reach_to_access(uint64_t address, size_t bytes, sim_access kind) {
    const arena *a = arena_at(address);
    sim_allocation *block = live_around(a, address, bytes);
    if (!block || !is_visible(a, block))
        return NULL;
    sim_order_mark(block, address - block->base, bytes, kind);
    return a->host + (address - a->base);
}

sim_allocation *sim_memory_at(uint64_t address) {
    const arena *a = arena_at(address);
    return a ? allocation_in(a, address) : NULL;
}

void sim_memory_show(unsigned devices, int device) {
    for (unsigned i = 0; i < m.count; i++)
        m.devices[i].hidden = !(devices & 1u << i);
    m.runs = 1u << device;
}

void sim_memory_show_all(void) {
    for (unsigned i = 0; i < m.count; i++)
        m.devices[i].hidden = false;
    m.runs = 0;
}

static const char *state_of(const arena *a, const sim_allocation *block) {
    if (!block->live)
        return block->late ? ", which was freed while work was queued" : ", which was freed";
    if (is_visible(a, block))
        return "";
    return block->access ? ", of another device, without access to the pool"
                         : ", of another device, without peer access";
}

bool sim_memory_is_device(uint64_t address) {
    return (address - m.devices[0].base) >> SPAN_BITS < m.count;
}

void sim_describe(uint64_t address, char *text, size_t size) {
    const arena *a = arena_at(address);
    const sim_allocation *block = NULL;
    uint64_t at = address;
    for (int i = 0; a && !block && i <= GAP_PAGES && at >= a->base; i++, at -= PAGE)
        block = allocation_in(a, at);
    unsigned long long value = address;
    if (!block) {
        snprintf(text, size, "%#llx is far from any allocation", value);
        return;
    }
    uint64_t from = address < block->base ? block->base - address : address - block->base;
    const char *where = "bytes into";
    if (address < block->base)
        where = "bytes in front of";
    else if (address >= block->end) {
        where = "bytes past the end of";
        from = address - block->end;
    }
    snprintf(text, size, "%#llx is %llu %s allocation %u of %llu bytes%s", value,
             (unsigned long long) from, where, block->number,
             (unsigned long long) (block->end - block->base), state_of(a, block));
}

/* ---- address space ---- */

/** mmap() by the system call: sanitizers would take note of every page. */
static char *map(uint64_t bytes, int protection, int flags, int file) {
    long address = syscall(SYS_mmap, NULL, bytes, protection, flags | MAP_NORESERVE, file, 0L);
    return address == -1 ? NULL : (char *) address;
}

static bool start_arena(arena *a, char *base, char *host) {
    a->base = (uintptr_t) base;
    a->host = host;
    a->pages =
        (page *) map(PAGES * sizeof(page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    return a->pages && base && host;
}

CUresult sim_memory_start(int devices) {
    uint64_t bytes = SPAN * (uint64_t) devices;
    m.file = memfd_create("simcuda", MFD_CLOEXEC);
    if (m.file < 0 || ftruncate(m.file, (off_t) bytes) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    char *base = map(bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    char *host = map(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m.file);
    char *pinned = map(SPAN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (!base || !host || !start_arena(&m.pinned, pinned, pinned))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint64_t i = 0; i < (uint64_t) devices; i++)
        if (!start_arena(&m.devices[i], base + i * SPAN, host + i * SPAN))
            return CUDA_ERROR_OUT_OF_MEMORY;
    m.count = (uint64_t) devices;
    return CUDA_SUCCESS;
}

/** The first page from `from` on that `count` pages and a gap are free behind; PAGES: none. */
static uint64_t find_free(const arena *a, uint64_t from, uint64_t count) {
    uint64_t first = from;
    for (uint64_t i = from; i - first < count; i++) {
        if (i + GAP_PAGES >= PAGES)
            return PAGES;
        const sim_allocation *block = a->pages[i];
        if (!block || !block->live)
            continue;
        i = (block->end - 1 - a->base) >> PAGE_BITS;
        first = i + 1 + GAP_PAGES;
        i += GAP_PAGES;
    }
    return first;
}

static uint64_t pages_of(const sim_allocation *block) {
    return (block->end - block->base + OFFSET + PAGE - 1) >> PAGE_BITS;
}

/** The first page of the device memory that was freed last and had `count` pages; PAGES: none. */
static uint64_t find_used(const arena *a, uint64_t count) {
    for (const sim_allocation *b = m.last; b; b = b->before)
        if (!b->live && !b->pinned && arena_at(b->base) == a && pages_of(b) == count &&
            allocation_in(a, b->base) == b)
            return (b->base - a->base) >> PAGE_BITS;
    return PAGES;
}

static void map_pages(arena *a, sim_allocation *block) {
    uint64_t first = (block->base - a->base) >> PAGE_BITS;
    uint64_t last = (block->end - 1 - a->base) >> PAGE_BITS;
    for (uint64_t i = first; i <= last; i++)
        atomic_store_explicit(&a->pages[i], block, memory_order_release);
}

/** NaN as f32 and f64, no likely integer, and no valid bool. */
static void poison(char *from, uint64_t bytes) {
    volatile uint32_t *words = (volatile uint32_t *) (void *) from; /* no call of memset() */
    for (uint64_t i = 0; i < bytes / sizeof *words; i++)
        words[i] = 0xFFF5A5A5;
}

static void poison_block(char *from, uint64_t bytes) {
    if (bytes <= POISON_LIMIT) {
        poison(from, bytes);
        return;
    }
    poison(from, POISON_END);
    poison(from + (bytes - POISON_END) / OFFSET * OFFSET, POISON_END);
}

/* ---- allocations ---- */

static uint64_t rounded(uint64_t bytes) {
    return (bytes + OFFSET - 1) / OFFSET * OFFSET;
}

/** Let the host touch pinned memory, or no longer. Its pages come back as zeros. */
static bool protect(sim_allocation *block, int protection) {
    char *from = (char *) (uintptr_t) (block->base / PAGE * PAGE);
    uint64_t bytes = (block->end - (uintptr_t) from + PAGE - 1) / PAGE * PAGE;
    if (protection == PROT_NONE)
        madvise(from, bytes, MADV_DONTNEED);
    return mprotect(from, bytes, protection) == 0;
}

CUresult sim_memory_create(sim_context *c, size_t bytes, bool pinned, sim_allocation **out) {
    arena *a = pinned ? &m.pinned : &m.devices[c->device];
    uint64_t limit = pinned ? SPAN / 2 : sim_device_memory();
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > limit || a->used + rounded(bytes) > limit)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t offset = pinned ? 0 : OFFSET;
    uint64_t count = (offset + bytes + PAGE - 1) >> PAGE_BITS;
    uint64_t first = m.reuses && !pinned ? find_used(a, count) : PAGES;
    bool used = first < PAGES;
    if (!used)
        first = find_free(a, a->next, count);
    if (first >= PAGES)
        first = find_free(a, 0, count);
    if (first >= PAGES)
        return CUDA_ERROR_OUT_OF_MEMORY;

    sim_allocation *block = sim_new(sizeof *block);
    block->base = a->base + (first << PAGE_BITS) + offset;
    block->end = block->base + bytes;
    block->pinned = pinned;
    block->context = c;
    if (pinned && !protect(block, PROT_READ | PROT_WRITE)) {
        free(block);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    block->number = ++m.numbers;
    poison_block(a->host + (block->base - a->base), bytes);
    block->live = true;
    map_pages(a, block);
    if (!used)
        a->next = first + count + GAP_PAGES;
    a->used += rounded(bytes);
    block->next = m.live;
    m.live = block;
    block->before = m.last;
    m.last = block;
    *out = block;
    return CUDA_SUCCESS;
}

/** Give the pages back to the system. */
static void release_pages(const arena *a, const sim_allocation *block) {
    uint64_t first = (block->base - a->base) / PAGE * PAGE;
    uint64_t bytes = (block->end - a->base + PAGE - 1) / PAGE * PAGE - first;
    uint64_t offset = (uint64_t) (a->host - m.devices[0].host) + first;
    fallocate(m.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) offset, (off_t) bytes);
}

void sim_memory_destroy(sim_allocation *block) {
    arena *a = (arena *) (uintptr_t) arena_at(block->base);
    sim_allocation **link = &m.live;
    while (*link != block)
        link = &(*link)->next;
    *link = block->next;
    a->used -= rounded(block->end - block->base);
    block->live = false;
    sim_segments_free(block->segments);
    block->segments = NULL;
    if (block->pinned)
        protect(block, PROT_NONE);
    else
        release_pages(a, block);
}

CUresult sim_memory_starting(uint64_t base, bool pinned, sim_allocation **out) {
    sim_allocation *block = sim_memory_at(base);
    bool right = block && pinned == (block->pinned && !block->managed);
    if (right && block->live && !block->ending && block->base == base) {
        *out = block;
        return CUDA_SUCCESS;
    }
    char text[256];
    sim_describe(base, text, sizeof text);
    sim_fault("what is freed is no %s: %s%s", pinned ? "pinned memory" : "device memory", text,
              block && block->live && block->ending ? ", which is being freed" : "");
    return CUDA_ERROR_INVALID_VALUE;
}

uint64_t sim_memory_used(int device) {
    return m.devices[device].used;
}

unsigned sim_memory_count(const sim_context *c) {
    unsigned count = 0;
    for (const sim_allocation *a = m.live; a; a = a->next)
        count += !c || a->context == c;
    return count;
}

__attribute__((visibility("default"))) void simcuda_reuse(bool on) {
    m.reuses = on;
}

void sim_memory_lose(const sim_context *c) {
    for (sim_allocation *a = m.live, *next; a; a = next) {
        next = a->next;
        if (a->context == c)
            sim_memory_destroy(a);
    }
}
