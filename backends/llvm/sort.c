/* sort.c: see sort.h.
 *
 *   count     each part of the array: how often each digit has each value
 *   plan      which digits differ, and where the passes read and write
 *   for each digit that differs
 *     recount   each part of what the pass reads (the first pass knows that)
 *     place     where each part puts its elements of each value
 *     move      each part: elements and numbers to their places
 *   copy      if no digit differs
 *
 * A part is a range of consecutive elements; the parts of a task run side by side. What is known
 * only then, which passes there are, is noted in scratch memory, and a task of a pass that there is
 * not does nothing. Short arrays are one task, which does the same for one part. */
#include "llvm/sort.h"
#include <string.h>

enum {
    DIGITS = 8, /* at most */
    VALUES = 256,
    MOST_PARTS = 64,
    SHORT_PART = 1 << 15, /* elements: less is not worth a thread */
    NONE = -1
};

/* At the front of the scratch memory. Behind it lie, of each part, how often each digit has each
 * value, and the places of the values of the digit at hand; then room for elements and for numbers.
 */
typedef struct state {
    int32_t first;             /* digit of the first pass, or NONE */
    uint8_t active[DIGITS];    /* there is a pass for the digit ... */
    uint8_t to_room[DIGITS];   /* ... which writes to the room behind the state */
    uint8_t from_room[DIGITS]; /* ... and reads from there */
    uint8_t recounts[DIGITS];
} state;

/* The parameters of all tasks. */
enum { FROM, TO, NUMBERS, SCRATCH, COUNT, PART, TYPE, FLIP, FLIP_NEGATIVE, DIGIT, PARAMS };

typedef uint64_t counts[DIGITS][VALUES];
typedef uint64_t places[VALUES];

static uint64_t align(uint64_t bytes) {
    return (bytes + 63) & ~(uint64_t) 63;
}
static unsigned number_bytes(uint64_t n) {
    return n > (uint64_t) 1 << 32 ? 8 : 4;
}
static state *state_of(const uint64_t *params) {
    return (state *) (uintptr_t) params[SCRATCH];
}
static unsigned element_bytes(const uint64_t *params) {
    return jitc_dtypes[params[TYPE]].bytes;
}
static uint64_t parts_of(const uint64_t *params) {
    return (params[COUNT] - 1) / params[PART] + 1;
}
static counts *counts_of(const uint64_t *params) {
    return (counts *) ((char *) state_of(params) + align(sizeof(state)));
}
static places *places_of(const uint64_t *params) {
    return (places *) (counts_of(params) + parts_of(params));
}
static char *element_room(const uint64_t *params) {
    return (char *) (places_of(params) + parts_of(params));
}
static char *number_room(const uint64_t *params) {
    return element_room(params) + align(params[COUNT] * element_bytes(params));
}

/* ---- One element ---- */

#define INLINE static inline __attribute__((always_inline))

INLINE uint64_t load(const void *array, uint64_t i, unsigned bytes) {
    switch (bytes) {
        case 1: return ((const uint8_t *) array)[i];
        case 2: return ((const uint16_t *) array)[i];
        case 4: return ((const uint32_t *) array)[i];
        default: return ((const uint64_t *) array)[i];
    }
}
INLINE void store(void *array, uint64_t i, uint64_t bits, unsigned bytes) {
    switch (bytes) {
        case 1: ((uint8_t *) array)[i] = (uint8_t) bits; return;
        case 2: ((uint16_t *) array)[i] = (uint16_t) bits; return;
        case 4: ((uint32_t *) array)[i] = (uint32_t) bits; return;
        default: ((uint64_t *) array)[i] = bits; return;
    }
}

/* How the bits of a type become unsigned numbers of the same order. */
typedef struct order {
    uint64_t flip, flip_negative;
    bool truth; /* bool: memory of others may hold bytes other than 0 and 1 */
} order;

static order order_in(const uint64_t *params) {
    return (order) {params[FLIP], params[FLIP_NEGATIVE], params[TYPE] == JIT_bool};
}

INLINE uint64_t element(const void *array, uint64_t i, order o, unsigned bytes) {
    uint64_t bits = load(array, i, bytes);
    return bytes == 1 && o.truth ? bits != 0 : bits;
}

INLINE uint64_t rank(uint64_t bits, order o, unsigned bytes) {
    uint64_t negative = 0 - (bits >> (8 * bytes - 1));
    return bits ^ o.flip ^ (negative & o.flip_negative);
}
INLINE unsigned digit_of(uint64_t bits, order o, unsigned bytes, unsigned digit) {
    return rank(bits, o, bytes) >> 8 * digit & (VALUES - 1);
}

static order order_of(jit_dtype t, bool descending) {
    uint64_t all = jitc_bits_mask(t), sign = all ^ all >> 1;
    order o = {0, 0, t == JIT_bool};
    if (jitc_dtypes[t].cls == JITC_INT || jitc_dtypes[t].cls == JITC_FLOAT)
        o.flip = sign;
    if (jitc_dtypes[t].cls == JITC_FLOAT)
        o.flip_negative = all ^ sign;
    if (descending)
        o.flip ^= all;
    return o;
}

/* ---- Counting ---- */

INLINE void count_all(uint64_t begin, uint64_t end, const uint64_t *params, unsigned bytes) {
    const void *from = (const void *) (uintptr_t) params[FROM];
    uint64_t(*seen)[VALUES] = counts_of(params)[begin / params[PART]];
    order o = order_in(params);
    memset(seen, 0, sizeof(counts));
    for (uint64_t i = begin; i < end; ++i) {
        uint64_t r = rank(element(from, i, o, bytes), o, bytes);
        for (unsigned d = 0; d < bytes; ++d)
            ++seen[d][r >> 8 * d & (VALUES - 1)];
    }
}

static void count(uint64_t begin, uint64_t end, const uint64_t *params) {
    switch (element_bytes(params)) {
        case 1: count_all(begin, end, params, 1); return;
        case 2: count_all(begin, end, params, 2); return;
        case 4: count_all(begin, end, params, 4); return;
        default: count_all(begin, end, params, 8); return;
    }
}

static bool differs(const uint64_t *params, unsigned digit) {
    for (unsigned v = 0; v < VALUES; ++v) {
        uint64_t sum = 0;
        for (uint64_t p = 0; p < parts_of(params); ++p)
            sum += counts_of(params)[p][digit][v];
        if (sum)
            return sum != params[COUNT];
    }
    return false;
}

/* The last pass writes the result, so those before take turns. */
static void plan(uint64_t begin, uint64_t end, const uint64_t *params) {
    state *s = state_of(params);
    unsigned digits = element_bytes(params);
    bool to_room = false;
    (void) begin, (void) end;
    s->first = NONE;
    for (unsigned d = digits; d-- > 0;) {
        s->active[d] = differs(params, d);
        if (!s->active[d])
            continue;
        s->first = (int32_t) d;
        s->to_room[d] = to_room;
        to_room = !to_room;
        s->from_room[d] = to_room; /* but the first, which reads what is sorted */
    }
    for (unsigned d = 0; d < digits; ++d)
        s->recounts[d] = s->active[d] && (int32_t) d != s->first && parts_of(params) > 1;
}

/* ---- One pass ---- */

static bool is_first(const uint64_t *params) {
    return state_of(params)->first == (int32_t) params[DIGIT];
}
static const void *source(const uint64_t *params) {
    if (is_first(params))
        return (const void *) (uintptr_t) params[FROM];
    return state_of(params)->from_room[params[DIGIT]] ? element_room(params)
                                                      : (char *) (uintptr_t) params[TO];
}

INLINE void recount_digit(uint64_t begin, uint64_t end, const uint64_t *params, unsigned bytes) {
    const void *from = source(params);
    unsigned d = (unsigned) params[DIGIT];
    uint64_t *seen = counts_of(params)[begin / params[PART]][d];
    order o = order_in(params);
    memset(seen, 0, VALUES * sizeof *seen);
    for (uint64_t i = begin; i < end; ++i)
        ++seen[digit_of(element(from, i, o, bytes), o, bytes, d)];
}

static void recount(uint64_t begin, uint64_t end, const uint64_t *params) {
    if (!state_of(params)->recounts[params[DIGIT]])
        return;
    switch (element_bytes(params)) {
        case 1: return; /* there is one pass */
        case 2: recount_digit(begin, end, params, 2); return;
        case 4: recount_digit(begin, end, params, 4); return;
        default: recount_digit(begin, end, params, 8); return;
    }
}

static void place(uint64_t begin, uint64_t end, const uint64_t *params) {
    uint64_t sum = 0, parts = parts_of(params), d = params[DIGIT];
    (void) begin, (void) end;
    if (!state_of(params)->active[d])
        return;
    for (unsigned v = 0; v < VALUES; ++v)
        for (uint64_t p = 0; p < parts; ++p) {
            places_of(params)[p][v] = sum;
            sum += counts_of(params)[p][d][v];
        }
}

/* Where the numbers are, and go. NULL: the first pass makes them. */
typedef struct number_arrays {
    const void *from;
    void *to;
} number_arrays;

static number_arrays numbers_of(const uint64_t *params) {
    const state *s = state_of(params);
    char *result = (char *) (uintptr_t) params[NUMBERS], *room = number_room(params);
    return (number_arrays) {.from = is_first(params)              ? NULL
                                    : s->from_room[params[DIGIT]] ? room
                                                                  : result,
                            .to = s->to_room[params[DIGIT]] ? room : result};
}

INLINE void move_part(uint64_t begin, uint64_t end, const uint64_t *params, unsigned bytes,
                      unsigned number_size) {
    const state *s = state_of(params);
    unsigned d = (unsigned) params[DIGIT];
    const void *from = source(params);
    void *to = s->to_room[d] ? element_room(params) : (char *) (uintptr_t) params[TO];
    uint64_t *at = places_of(params)[begin / params[PART]];
    order o = order_in(params);
    number_arrays n = number_size ? numbers_of(params) : (number_arrays) {0};
    for (uint64_t i = begin; i < end; ++i) {
        uint64_t bits = element(from, i, o, bytes);
        uint64_t k = at[digit_of(bits, o, bytes, d)]++;
        store(to, k, bits, bytes);
        if (number_size)
            store(n.to, k, n.from ? load(n.from, i, number_size) : i, number_size);
    }
}

#define MOVE(bytes, number_size)                                                                   \
    static void move_##bytes##_##number_size(uint64_t begin, uint64_t end,                         \
                                             const uint64_t *params) {                             \
        if (state_of(params)->active[params[DIGIT]])                                               \
            move_part(begin, end, params, bytes, number_size);                                     \
    }
#define MOVES(bytes) MOVE(bytes, 0) MOVE(bytes, 4) MOVE(bytes, 8)
MOVES(1)
MOVES(2)
MOVES(4)
MOVES(8)
#undef MOVE
#undef MOVES

static jitc_task_function move_of(const uint64_t *params) {
#define MOVES(bytes) {move_##bytes##_0, move_##bytes##_4, move_##bytes##_8}
    static const jitc_task_function moves[4][3] = {MOVES(1), MOVES(2), MOVES(4), MOVES(8)};
#undef MOVES
    unsigned bytes = element_bytes(params), number = number_bytes(params[COUNT]);
    return moves[__builtin_ctz(bytes)][!params[NUMBERS] ? 0 : number == 4 ? 1 : 2];
}

/* No digit differs: everything stays where it is. */
static void copy(uint64_t begin, uint64_t end, const uint64_t *params) {
    size_t bytes = element_bytes(params);
    if (state_of(params)->first != NONE)
        return;
    const char *from = (const char *) (uintptr_t) params[FROM] + begin * bytes;
    char *elements = (char *) (uintptr_t) params[TO] + begin * bytes;
    if (params[TYPE] == JIT_bool)
        memset(elements, *from != 0, end - begin); /* all are the same */
    else
        memcpy(elements, from, (end - begin) * bytes);
    void *to = (void *) (uintptr_t) params[NUMBERS];
    for (uint64_t i = begin; to && i < end; ++i)
        store(to, i, i, number_bytes(params[COUNT]));
}

/* ---- The whole ---- */

enum { TINY = 32 };

/* By insertion: the tables of the radix sort would take longer. */
static void sort_tiny(const uint64_t *params, uint64_t n) {
    unsigned bytes = element_bytes(params);
    order o = order_in(params);
    void *to = (void *) (uintptr_t) params[TO], *numbers = (void *) (uintptr_t) params[NUMBERS];
    uint64_t bits[TINY];
    uint8_t from[TINY];
    for (uint64_t i = 0; i < n; ++i) {
        uint64_t own = element((const void *) (uintptr_t) params[FROM], i, o, bytes), k = i;
        for (; k > 0 && rank(bits[k - 1], o, bytes) > rank(own, o, bytes); --k) {
            bits[k] = bits[k - 1];
            from[k] = from[k - 1];
        }
        bits[k] = own;
        from[k] = (uint8_t) i;
    }
    for (uint64_t i = 0; i < n; ++i) {
        store(to, i, bits[i], bytes);
        if (numbers)
            store(numbers, i, from[i], number_bytes(n));
    }
}

/* All of it, on an array that is one part. */
static void sort_short(uint64_t begin, uint64_t end, const uint64_t *given) {
    uint64_t params[PARAMS];
    memcpy(params, given, sizeof params);
    if (end <= TINY) {
        sort_tiny(params, end);
        return;
    }
    jitc_task_function move = move_of(params);
    count(begin, end, params);
    plan(begin, end, params);
    for (params[DIGIT] = 0; params[DIGIT] < element_bytes(params); ++params[DIGIT]) {
        place(begin, end, params);
        move(begin, end, params);
    }
    copy(begin, end, params);
}

static uint64_t part_length(uint64_t n, int threads) {
    uint64_t parts = threads > 1 ? (n - 1) / SHORT_PART + 1 : 1;
    uint64_t most = 4 * (uint64_t) threads < MOST_PARTS ? 4 * (uint64_t) threads : MOST_PARTS;
    if (parts > most)
        parts = most;
    return (n - 1) / parts + 1;
}

size_t jitc_sort_scratch(jit_dtype type, bool numbers, uint64_t n, int threads) {
    uint64_t parts = (n - 1) / part_length(n, threads) + 1;
    if (n <= TINY)
        return 0;
    return align(sizeof(state)) + parts * (sizeof(counts) + sizeof(places)) +
           align(n * jitc_dtypes[type].bytes) + (numbers ? align(n * number_bytes(n)) : 0);
}

/* A task over all parts, or (`whole`) a short one of a single block. */
static jit_status queue_task(jitc_queue *q, jitc_task_function f, const uint64_t *params,
                             bool whole, uint64_t *number) {
    double ns = 3 * (double) params[COUNT]; /* roughly */
    jitc_task t = {.function = f,
                   .lanes = whole ? 1 : params[COUNT],
                   .block = whole ? 1 : params[PART],
                   .cost_ns = whole ? 1e4 : ns,
                   .params = params,
                   .count = PARAMS};
    return jitc_queue_launch(q, &t, number);
}

static jit_status queue_passes(jitc_queue *q, uint64_t *params, uint64_t *number) {
    jitc_task_function move = move_of(params);
    TRY(queue_task(q, count, params, false, number));
    TRY(queue_task(q, plan, params, true, number));
    for (params[DIGIT] = 0; params[DIGIT] < element_bytes(params); ++params[DIGIT]) {
        TRY(queue_task(q, recount, params, false, number));
        TRY(queue_task(q, place, params, true, number));
        TRY(queue_task(q, move, params, false, number));
    }
    return queue_task(q, copy, params, false, number);
}

jit_status jitc_sort_launch(jitc_queue *q, const jitc_sort *s, int threads, uint64_t *number) {
    order o = order_of(s->type, s->descending);
    uint64_t params[PARAMS] = {[FROM] = (uintptr_t) s->from,
                               [TO] = (uintptr_t) s->to,
                               [NUMBERS] = (uintptr_t) s->numbers,
                               [SCRATCH] = (uintptr_t) s->scratch,
                               [COUNT] = s->n,
                               [PART] = part_length(s->n, threads),
                               [TYPE] = (uint64_t) s->type,
                               [FLIP] = o.flip,
                               [FLIP_NEGATIVE] = o.flip_negative};
    if (params[PART] >= s->n)
        return queue_task(q, sort_short, params, false, number);
    return queue_passes(q, params, number);
}

/* ---- Programs ---- */

jitc_sort_plan jitc_sort_plan_of(const jitc_program *p) {
    jitc_sort_plan plan = {.sorts = p->head.shape == JITC_SHAPE_SORT, .scratch = p->head.scratch};
    for (uint32_t n = 0; plan.sorts && n < p->head.count; ++n)
        if (p->inst[n].op == JITC_OP_sort) {
            plan.sort = p->inst[n];
            plan.from = p->inst[plan.sort.a].a;
        }
    return plan;
}

jit_status jitc_sort_launch_plan(const jitc_sort_plan *p, jitc_queue *q, int threads,
                                 const jitc_task *t, uint64_t *number) {
    bool numbers = p->sort.aux & JITC_AUX_PART;
    jitc_sort s = {.type = (jit_dtype) p->sort.type,
                   .descending = p->sort.aux & JITC_AUX_DESCENDING,
                   .from = (const void *) (uintptr_t) t->params[p->from],
                   .to = (void *) (uintptr_t) t->params[p->sort.b],
                   .numbers = numbers ? (void *) (uintptr_t) t->params[p->sort.c] : NULL,
                   .n = t->lanes,
                   .scratch = (void *) (uintptr_t) t->params[p->scratch]};
    return jitc_sort_launch(q, &s, threads, number);
}
