/* Lists of timeouts, each in order of expiry. */
#include "node/base/deadline.h"

#include "index/base/check.h"

void
deadline_list_init(struct deadline_list *list, uint64_t timeout_us)
{
    *list = (struct deadline_list){.timeout_us = timeout_us};
}

void
deadline_list_retime(struct deadline_list *list, uint64_t timeout_us,
                     uint64_t now_us)
{
    uint64_t latest_us = now_us + timeout_us;

    list->timeout_us = timeout_us;
    /* None is later than the last; the order stays. */
    for (struct deadline *d = list->last; d != NULL && d->due_us > latest_us;
         d = d->prev) {
        d->due_us = latest_us;
    }
}

static void
unlink_node(struct deadline *d)
{
    struct deadline_list *list = d->list;

    CHECK(list->first != NULL && list->last != NULL);
    if (d->prev != NULL) {
        d->prev->next = d->next;
    } else {
        list->first = d->next;
    }
    if (d->next != NULL) {
        d->next->prev = d->prev;
    } else {
        list->last = d->prev;
    }
    CHECK((list->first == NULL) == (list->last == NULL));
    d->list = NULL;
}

void
deadline_set(struct deadline *d, struct deadline_list *list, uint64_t now_us)
{
    if (d->list == list && list->last == d) {
        d->due_us = now_us + list->timeout_us;
        return;
    }
    deadline_clear(d);
    /* Time given by the caller never goes back, so the tail is the latest. */
    CHECK(list->last == NULL ||
          list->last->due_us <= now_us + list->timeout_us);
    *d = (struct deadline){
        .prev = list->last,
        .list = list,
        .due_us = now_us + list->timeout_us,
    };
    if (list->last != NULL) {
        list->last->next = d;
    } else {
        list->first = d;
    }
    list->last = d;
}

void
deadline_clear(struct deadline *d)
{
    if (d->list != NULL) {
        unlink_node(d);
    }
}

struct deadline *
deadline_next_due(struct deadline_list *list, uint64_t now_us)
{
    struct deadline *d = list->first;

    if (d == NULL || list->timeout_us == 0 || d->due_us > now_us) {
        return NULL;
    }
    CHECK(d->list == list && d->prev == NULL);
    unlink_node(d);
    return d;
}

uint64_t
deadline_list_next_us(const struct deadline_list *list)
{
    if (list->first == NULL || list->timeout_us == 0) {
        return UINT64_MAX;
    }
    return list->first->due_us;
}
