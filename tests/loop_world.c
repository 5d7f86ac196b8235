/* loop_world.c: see loop_world.h. */
#include "loop_world.h"
#include "api/runtime.h"
#include "interpret.h"
#include "programs.h"
#include "values.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_INTERPRETED = 1000 }; /* lanes; it is slow */

void loop_world_begin(void) {
    support_init();
    jit_scope_push();
}

void loop_world_end(void) {
    jit_stats s;
    cr_assert_eq(jit_scope_pop(0, NULL), JIT_OK);
    cr_assert_eq(jit_get_stats(&s), JIT_OK);
    cr_assert_eq(s.variables, 0, "%d variables are left", (int) s.variables);
    cr_assert_str_empty(jit_error());
    support_shutdown();
}

uint64_t loop_world_launches(void) {
    jit_stats s;
    cr_assert_eq(jit_get_stats(&s), JIT_OK);
    return s.launches;
}

void loop_world_plan(jitc_plan *p, size_t n, const jit_var *v) {
    jitc_graph *g = jitc_api_graph("test");
    uint32_t *nodes = malloc((n + 1) * sizeof *nodes);
    bool busy;
    for (size_t i = 0; i < n; ++i)
        nodes[i] = v[i] & JITC_INDEX_MASK;
    jitc_wanted wanted = {n, nodes, false};
    jitc_graph_lock(g);
    cr_assert_eq(jitc_plan_make_locked(p, g, &jitc_runtime.options, &wanted, &busy), JIT_OK, "%s",
                 jit_error());
    cr_assert(!busy);
    jitc_plan_abandon_locked(p, g);
    jitc_graph_unlock(g);
    free(nodes);
    for (size_t i = 0; i < p->groups; ++i) {
        const char *wrong = jitc_program_invalid(&p->group[i].program);
        char *text = wrong ? jitc_program_print(&p->group[i].program) : NULL;
        cr_assert_null(wrong, "kernel %zu: %s\n%s", i, wrong, text);
    }
}

void loop_world_drop(jitc_plan *p) {
    jitc_plan_drop_all_buffers(p, jitc_api_graph("test"));
    jitc_plan_finish(p);
}

size_t loop_world_kernels(size_t n, const jit_var *v) {
    jitc_plan p = {0};
    size_t kernels = 0;
    loop_world_plan(&p, n, v);
    for (size_t i = 0; i < p.groups; ++i)
        kernels += p.group[i].lanes != 0;
    loop_world_drop(&p);
    return kernels;
}

uint32_t loop_world_count(const jitc_program *p, jitc_op op) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->head.count; ++i)
        count += p->inst[i].op == op;
    return count;
}

/* ---- the interpreter ---- */

/* Memory of each slot; outputs start as their sources. */
static void make_outputs(const jitc_plan *p, const jitc_group *group, char **memory) {
    for (size_t i = 0; i < group->outputs; ++i) {
        const jitc_slot *s = &p->slot[group->output[i]];
        char *to = calloc(s->bytes + 1, 1);
        if (s->source != JITC_NONE)
            memcpy(to, memory[s->source], s->used_bytes);
        memory[group->output[i]] = to;
    }
}

static void run_group(const jitc_plan *p, const jitc_group *group, char **memory) {
    uint64_t *params = calloc(group->program.head.params + 1, sizeof *params);
    make_outputs(p, group, memory);
    for (uint32_t i = 0; i < group->program.head.params; ++i) {
        const jitc_param *param = &group->param[i];
        bool slot = param->kind == JITC_PARAM_READ || param->kind == JITC_PARAM_WRITE;
        params[i] = slot ? (uintptr_t) memory[param->slot] : param->bits;
    }
    interpret(&group->program, group->lanes, params);
    free(params);
}

/* Elements of v as bits, NULL if it is in memory already. */
static uint64_t *interpreted(jit_var v, size_t n) {
    jitc_plan p = {0};
    uint64_t *bits = NULL;
    jit_dtype t = jit_type(v);
    loop_world_plan(&p, 1, &v);
    ASSERT_OK(jit_sync_all_devices());
    char **memory = calloc(p.slots + 1, sizeof *memory);
    for (size_t i = 0; i < p.slots; ++i)
        if (!p.slot[i].output)
            memory[i] = p.slot[i].buffer->pointer;
    for (size_t i = 0; i < p.groups; ++i)
        run_group(&p, &p.group[i], memory);
    for (size_t i = 0; i < p.slots; ++i) {
        if (!p.slot[i].output)
            continue;
        if (p.slot[i].node == (v & JITC_INDEX_MASK)) {
            bits = calloc(n + 1, sizeof *bits);
            for (size_t k = 0; k < n; ++k)
                bits[k] = read_element(t, memory[i], k);
        }
        free(memory[i]);
    }
    free(memory);
    loop_world_drop(&p);
    return bits;
}

/* ---- what is expected ---- */

static void compare(jit_dtype t, size_t n, const uint64_t *found, const uint64_t *expected,
                    const char *what, const char *who) {
    for (size_t i = 0; i < n; ++i) {
        bool nan = is_nan_bits(t, found[i]) && is_nan_bits(t, expected[i]);
        cr_assert(nan || found[i] == expected[i],
                  "%s: lane %zu of %zu: 0x%llx by the %s, not 0x%llx", what, i, n,
                  (unsigned long long) found[i], who, (unsigned long long) expected[i]);
    }
}

void loop_world_expect(jit_var v, size_t n, const uint64_t *bits, const char *what) {
    jit_dtype t = jit_type(v);
    cr_assert_eq(jit_size(v), n, "%s: %zu elements, not %zu: %s", what, jit_size(v), n,
                 jit_error());
    if (support_maps_host_memory() && n <= MOST_INTERPRETED) {
        uint64_t *found = interpreted(v, n);
        if (found)
            compare(t, n, found, bits, what, "interpreter");
        free(found);
    } else {
        loop_world_kernels(1, &v);
    }
    uint64_t *found = support_read(v, n);
    compare(t, n, found, bits, what, "backend");
    free(found);
}

static void expect(jit_var v, jit_dtype t, size_t n, const void *expected, const char *what) {
    uint64_t *bits = calloc(n + 1, sizeof *bits);
    for (size_t i = 0; i < n; ++i)
        bits[i] = read_element(t, expected, i);
    cr_assert_eq(jit_type(v), t);
    loop_world_expect(v, n, bits, what);
    free(bits);
}

void loop_world_expect_u32(jit_var v, size_t n, const uint32_t *expected, const char *what) {
    expect(v, JIT_u32, n, expected, what);
}

void loop_world_expect_f32(jit_var v, size_t n, const float *expected, const char *what) {
    expect(v, JIT_f32, n, expected, what);
}
