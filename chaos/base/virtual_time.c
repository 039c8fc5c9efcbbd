/* The heap of events: four children to a node, ordered by time and by when an
 * event was added. */
#include "chaos/base/virtual_time.h"

#include <errno.h>
#include <stdlib.h>

#define CHILDREN 4U
#define SIZE_MIN 64U

void
virtual_time_init(struct virtual_time *time, uint32_t events_max,
                  uint64_t now_us)
{
    CHECK(events_max > 0 && events_max <= UINT32_MAX / (2 * CHILDREN));
    *time = (struct virtual_time){.now_us = now_us, .events_max = events_max};
}

void
virtual_time_fini(struct virtual_time *time)
{
    free(time->heap);
    *time = (struct virtual_time){.heap = NULL};
}

static bool
is_before(const struct virtual_event *a, const struct virtual_event *b)
{
    return a->time_us != b->time_us ? a->time_us < b->time_us
                                    : a->order < b->order;
}

static int
grow(struct virtual_time *time)
{
    uint32_t size = time->size == 0 ? SIZE_MIN : time->size * 2;
    struct virtual_event *heap = realloc(time->heap, size * sizeof(*heap));

    CHECK(time->count == time->size && time->size <= UINT32_MAX / 2);
    if (heap == NULL) {
        return -ENOMEM;
    }
    time->heap = heap;
    time->size = size;
    return 0;
}

int
virtual_time_add(struct virtual_time *time, const struct virtual_event *event)
{
    CHECK(event->time_us >= time->now_us);
    if (time->count == time->events_max) {
        return VIRTUAL_TIME_E_FULL;
    }
    if (time->count == time->size) {
        int error = grow(time);
        if (error < 0) {
            return error;
        }
    }
    struct virtual_event moving = *event;
    uint32_t at = time->count++;
    moving.order = time->added++;
    while (at > 0) {
        uint32_t parent = (at - 1) / CHILDREN;
        if (!is_before(&moving, &time->heap[parent])) {
            break;
        }
        time->heap[at] = time->heap[parent];
        at = parent;
    }
    time->heap[at] = moving;
    CHECK(time->count <= time->events_max && time->count <= time->size);
    return 0;
}

/* The earliest child of a node, or count: it has none. */
static uint32_t
first_child(const struct virtual_time *time, uint32_t at)
{
    uint32_t from = at * CHILDREN + 1;
    uint32_t best = from;

    if (from >= time->count) {
        return time->count;
    }
    for (uint32_t i = from + 1; i < from + CHILDREN && i < time->count; i++) {
        best = is_before(&time->heap[i], &time->heap[best]) ? i : best;
    }
    CHECK(best < time->count && best > at);
    return best;
}

static void
take_first(struct virtual_time *time)
{
    uint32_t at = 0;

    CHECK(time->count > 0);
    time->count--;
    struct virtual_event moving = time->heap[time->count];
    for (;;) {
        uint32_t child = first_child(time, at);
        if (child == time->count || !is_before(&time->heap[child], &moving)) {
            break;
        }
        time->heap[at] = time->heap[child];
        at = child;
    }
    time->heap[at] = moving;
    CHECK(at < time->count || time->count == 0);
}

bool
virtual_time_next(struct virtual_time *time, uint64_t until_us,
                  struct virtual_event *event)
{
    if (time->count == 0 || time->heap[0].time_us > until_us) {
        if (until_us != VIRTUAL_TIME_NEVER && until_us > time->now_us) {
            time->now_us = until_us;
        }
        return false;
    }
    *event = time->heap[0];
    CHECK(event->time_us >= time->now_us);
    time->now_us = event->time_us;
    take_first(time);
    CHECK_SLOW(time->count == 0 || time->heap[0].time_us >= time->now_us);
    return true;
}

uint64_t
virtual_time_deadline(const struct virtual_time *time)
{
    return time->count == 0 ? VIRTUAL_TIME_NEVER : time->heap[0].time_us;
}

bool
virtual_time_check(const struct virtual_time *time, const char **reason)
{
    if (time->count > time->events_max || time->count > time->size) {
        *reason = "more events than there is room for";
        return false;
    }
    for (uint32_t i = 0; i < time->count; i++) {
        const struct virtual_event *event = &time->heap[i];
        if (event->time_us < time->now_us) {
            *reason = "an event is in the past";
            return false;
        }
        if (event->order >= time->added) {
            *reason = "an event was never added";
            return false;
        }
        if (i > 0 && is_before(event, &time->heap[(i - 1) / CHILDREN])) {
            *reason = "an event is before the one above it";
            return false;
        }
    }
    return true;
}
