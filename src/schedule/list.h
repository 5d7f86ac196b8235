/* list.h: what list.c and loop_write.c share.  Layer: schedule.  Private to schedule. */
#ifndef JITC_SCHEDULE_LIST_H
#define JITC_SCHEDULE_LIST_H
#include "schedule/order.h"
#include "schedule/write.h"

/** A group that is written from a list of positions. */
typedef struct jitc_list_writer {
    jitc_writer m;
    jitc_order *order;
    uint32_t region; /* the innermost loop that is open, or 0 */
} jitc_list_writer;

/** The instruction with the value of a position, which is written if there is none yet. */
jit_status jitc_list_value(jitc_list_writer *w, uint32_t position, uint32_t *out);
/** The `buffer` instruction of a position; `write`: for scatters into it. */
jit_status jitc_list_buffer(jitc_list_writer *w, uint32_t position, bool write, uint32_t *out);

/** Entry list[0] of the list, of which `count` are left: *done if it is part of a loop, which is
 * written here. Before that, a `test` whose condition is there. */
jit_status jitc_loop_write(jitc_list_writer *w, const uint32_t *list, size_t count, bool *done);
/** Does a loop scatter into the memory of this position? Several results of one array are copies.
 */
bool jitc_loop_owns(const jitc_order *o, uint32_t position);
/** A group that copies such a result, which the group before has written. */
jit_status jitc_loop_copy(jitc_plan *p, const jitc_options *options, uint32_t position);
#endif
