/*
 * Timeouts of many things, each operation in constant time: there is one list
 * per length of timeout. All members of a list wait equally long, so the list
 * is in order of expiry without sorting, and only its head needs to be
 * examined.
 *
 * Role: core. Owns: nothing; nodes are embedded in the things they time.
 * Thread: the lists' one owner.
 */
#ifndef NODE_DEADLINE_H
#define NODE_DEADLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct deadline_list;

struct deadline {
    struct deadline *next;
    struct deadline *prev;
    struct deadline_list *list; /* NULL while nothing is timed */
    uint64_t due_us;
};

struct deadline_list {
    struct deadline *first;
    struct deadline *last;
    uint64_t timeout_us; /* 0: nothing in this list ever expires */
};

/* An empty list whose members expire timeout_us after they were set; 0: never.
 */
void deadline_list_init(struct deadline_list *list, uint64_t timeout_us);

/* Another timeout from now on, for those in the list, too: they expire no later
 * than if they were set now. */
void deadline_list_retime(struct deadline_list *list, uint64_t timeout_us,
                          uint64_t now_us);

/* Starts the timeout afresh, in this list; leaves the list it was in. */
void deadline_set(struct deadline *d, struct deadline_list *list,
                  uint64_t now_us);

/* Ends the timeout; does nothing if there is none. */
void deadline_clear(struct deadline *d);

/* Takes the first expired member out of its list; NULL if none has expired. */
struct deadline *deadline_next_due(struct deadline_list *list, uint64_t now_us);

/* When the head expires; UINT64_MAX when nothing will. */
uint64_t deadline_list_next_us(const struct deadline_list *list);

#endif
