/* fuzz_program_block.c: random loops, branches and calls. */
#include "fuzz_program_make.h"
#include <string.h>

#define below  make_below
#define chance make_chance

enum { DEPTH = 3 };

static int add_marker(making *m, fuzz_kind kind, int block, int part) {
    fuzz_step s = make_step(kind, JIT_bool, 0);
    s.number[0] = block;
    s.number[1] = part;
    return make_append(m, s);
}

static void begin_part(making *m, int number, int part) {
    program *p = m->program;
    fuzz_block *b = &p->block[number];
    b->part[part] = add_marker(m, PART, number, part);
    for (int k = 0; k < b->states; ++k) {
        const fuzz_step *start = &p->step[b->start[k]];
        fuzz_step s = make_step(VARIABLE, start->type, start->size);
        s.inner = number;
        s.array = b->array[k];
        s.number[0] = k;
        b->current[k] = b->variable[part][k] = make_append(m, s);
    }
}

/* What is computed from the variables of the part is not there behind it; nor is anything from a
 * function. */
static void end_part(making *m, int number, int part) {
    program *p = m->program;
    fuzz_block *b = &p->block[number];
    for (int k = 0; k < b->states; ++k) {
        wanted w = b->form == CALL ? WHOLE : BROADCAST;
        int next = make_find(m, (int) p->step[b->start[k]].type, b->lanes, w);
        b->next[part][k] = b->array[k]              ? b->current[k]
                           : next < 0 || chance(10) ? b->variable[part][k]
                                                    : next;
    }
    for (int i = b->part[part]; i < p->count; ++i)
        p->step[i].hidden = p->step[i].hidden || p->step[i].inner >= 0 || b->form == CALL;
}

static void scatter_inside(making *m, int number) {
    program *p = m->program;
    fuzz_block *b = &p->block[number];
    int k = (int) below((size_t) b->states);
    if (!b->array[k])
        return;
    const fuzz_step *target = &p->step[b->current[k]];
    fuzz_step s =
        make_step(b->combine[k] < 0 ? SCATTER : SCATTER_REDUCE, target->type, target->size);
    s.number[0] = b->combine[k];
    s.in[0] = b->current[k];
    s.in[2] = b->own[k];
    for (int tries = 0; tries < 20 && b->combine[k] >= 0; ++tries) {
        s.in[2] = make_find(m, -1, b->lanes, WHOLE);
        if (s.in[2] >= 0 && jitc_dtypes[p->step[s.in[2]].type].cls & JITC_DOMAIN_INTEGER)
            break;
        s.in[2] = -1;
    }
    s.in[1] = make_find(m, (int) s.type, b->lanes, BROADCAST);
    s.in[3] = chance(50) ? make_find(m, JIT_bool, b->lanes, BROADCAST) : -1;
    if (s.in[1] < 0 || s.in[2] < 0)
        return;
    s.array = true;
    b->current[k] = make_append(m, s);
}

static void make_body(making *m, int number) {
    for (int n = 1 + (int) below(3); n > 0; --n) {
        make_some(m, 1 + (int) below(4));
        scatter_inside(m, number);
        if (chance(25) && m->depth < DEPTH)
            make_block(m);
    }
}

/* ---- states ---- */

/* An array outside of all blocks, and how it is scattered into; or one of the block around. */
static bool add_array(making *m, fuzz_block *b) {
    program *p = m->program;
    int k = b->states, own[2] = {-1, -1};
    const fuzz_block *around = b->parent >= 0 ? &p->block[b->parent] : NULL;
    if (around) {
        int i = (int) below((size_t) around->states);
        for (int j = 0; j < k; ++j)
            if (b->start[j] == around->current[i])
                return false;
        if (!around->array[i])
            return false;
        b->start[k] = around->current[i];
        b->combine[k] = around->combine[i];
        b->own[k] = around->own[i];
        return true;
    }
    int target = make_find(m, -1, ANY_SIZE, OUTSIDE);
    if (target < 0)
        return false;
    b->start[k] = target;
    b->combine[k] = (int) below(JITC_REDUCE_COUNT);
    if (chance(50) && jitc_dtypes[p->step[target].type].cls != JITC_FLOAT)
        return jitc_reduce_accepts((jit_reduce_op) b->combine[k], p->step[target].type);
    b->combine[k] = -1;
    b->own[k] = own[0] = make_find(m, -1, b->lanes, WHOLE);
    return own[0] >= 0 && jitc_dtypes[p->step[own[0]].type].cls & JITC_DOMAIN_INTEGER &&
           make_distinct(m, own, b->lanes, p->step[target].size);
}

static bool add_lane_state(making *m, fuzz_block *b, int type) {
    int start = make_find(m, type, b->lanes, WHOLE);
    b->start[b->states] = start;
    return start >= 0;
}

static void choose_states(making *m, fuzz_block *b) {
    int most = 1 + (int) below(STATES);
    if (b->form == LOOP) { /* which counts */
        b->start[0] = make_literal(m, JIT_u32, below(2), b->lanes);
        b->states = 1;
    } else {
        b->states = add_lane_state(m, b, -1);
    }
    for (int tries = 0; tries < 20 && b->states < most; ++tries) {
        bool array = chance(35);
        b->array[b->states] = array;
        b->states += array ? add_array(m, b) : add_lane_state(m, b, -1);
    }
}

/* ---- blocks ---- */

static int append_apply(making *m, jitc_op op, int a, int b) {
    const fuzz_step *x = &m->program->step[a];
    fuzz_step s = make_step(APPLY, jitc_op_type(op, x->type), 1);
    s.op = op;
    s.in[0] = a;
    s.in[1] = b;
    s.size = value_lanes(m->program, s.in, 2);
    int i = make_append(m, s);
    if (m->program->step[i].inner < 0)
        value_step(m->program, i, NULL);
    return i;
}

/* Lanes go around as often as a number says, which is less than 8. */
static int condition_of(making *m, const fuzz_block *b) {
    int times = make_find(m, JIT_u32, b->lanes, BROADCAST);
    int few = make_literal(m, JIT_u32, chance(70) ? 3 : 7, 1);
    times = times < 0 ? few : append_apply(m, JITC_OP_and, times, few);
    int condition = append_apply(m, JITC_OP_lt, b->variable[0][0], times);
    int more = chance(30) ? make_find(m, JIT_bool, b->lanes, BROADCAST) : -1;
    return more < 0 ? condition : append_apply(m, JITC_OP_and, condition, more);
}

static void make_loop(making *m, int number) {
    program *p = m->program;
    fuzz_block *b = &p->block[number];
    begin_part(m, number, 0);
    make_some(m, (int) below(3));
    int condition = condition_of(m, b);
    b->condition = add_marker(m, CONDITION, number, 0);
    p->step[b->condition].in[0] = condition;
    make_body(m, number);
    int one = make_literal(m, JIT_u32, 1, 1);
    int counted = append_apply(m, JITC_OP_add, b->variable[0][0], one);
    end_part(m, number, 0);
    b->next[0][0] = counted;
}

static int choice_of(making *m, const fuzz_block *b) {
    if (b->form == BRANCH)
        return make_find(m, JIT_bool, b->lanes, BROADCAST);
    int index = make_find(m, JIT_u32, b->lanes, WHOLE);
    if (index < 0 || chance(10))
        return index;
    return append_apply(m, JITC_OP_and, index, make_literal(m, JIT_u32, 3, 1));
}

static void make_parts(making *m, int number, int choice) {
    fuzz_block *b = &m->program->block[number];
    m->program->step[b->begin].in[0] = choice;
    b->parts = b->form == BRANCH ? 1 + chance(60) : 1 + (int) below(PARTS);
    for (int part = 0; part < b->parts; ++part) {
        begin_part(m, number, part);
        make_body(m, number);
        end_part(m, number, part);
    }
}

/* Is something scattered into the array between its variable in a block, and a step? */
static bool is_scattered(const program *p, int i) {
    const fuzz_step *s = &p->step[i];
    if (s->kind != RESULT)
        return s->kind != VARIABLE;
    for (int n = 0; n < p->blocks; ++n)
        for (int k = 0; k < p->block[n].states; ++k)
            for (int part = 0; part < p->block[n].parts; ++part)
                if (p->block[n].result[k] == i && is_scattered(p, p->block[n].next[part][k]))
                    return true;
    return false;
}

/* An argument of functions that all of them leave as it is is no array to them; so blocks inside
 * leave it alone. */
static void drop_untouched(const program *p, fuzz_block *b) {
    int n = 0;
    for (int k = 0; k < b->states; ++k) {
        bool touched = !b->array[k];
        for (int part = 0; part < b->parts; ++part)
            touched = touched || is_scattered(p, b->next[part][k]);
        b->start[n] = b->start[k];
        b->array[n] = b->array[k];
        for (int part = 0; part < b->parts; ++part) {
            b->variable[part][n] = b->variable[part][k];
            b->next[part][n] = b->next[part][k];
        }
        n += touched;
    }
    b->states = n;
}

static void add_results(making *m, int number, int around) {
    program *p = m->program;
    fuzz_block *b = &p->block[number];
    b->end = add_marker(m, END, number, 0);
    if (b->form == CALL || around >= 0)
        drop_untouched(p, b);
    for (int k = 0; k < b->states; ++k) {
        const fuzz_step *start = &p->step[b->start[k]];
        fuzz_step s = make_step(RESULT, start->type, start->size);
        s.inner = around;
        s.array = b->array[k] && around >= 0;
        b->result[k] = make_append(m, s);
        for (int i = 0; s.array && i < p->block[around].states; ++i)
            if (p->block[around].current[i] == b->start[k])
                p->block[around].current[i] = b->result[k];
    }
}

void make_block(making *m) {
    program *p = m->program;
    int like = make_find(m, -1, ANY_SIZE, BROADCAST), number = p->blocks, around = m->open;
    if (like < 0 || number == MAX_BLOCKS || p->count > LAST_BLOCK)
        return;
    fuzz_block *b = &p->block[number];
    *b = (fuzz_block) {.form = (form) below(3), .parent = around, .parts = 1};
    b->lanes = around >= 0 ? p->block[around].lanes : p->step[like].size;
    if (b->lanes > 1000 && m->depth > 0)
        return;
    int choice = b->form == LOOP ? -1 : choice_of(m, b);
    choose_states(m, b);
    if (b->states == 0 || (b->form != LOOP && choice < 0))
        return;
    p->blocks++;
    b->begin = add_marker(m, BEGIN, number, 0);
    m->open = number;
    m->depth++;
    if (b->form == LOOP)
        make_loop(m, number);
    else
        make_parts(m, number, choice);
    m->open = around;
    m->depth--;
    add_results(m, number, around);
    if (around < 0)
        value_block(p, number, NULL);
}
