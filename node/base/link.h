/*
 * A circular doubly linked list threaded through its members.
 *
 * A list is a link of its own, initialised to point at itself; so is a member
 * that is on no list, which makes link_remove() harmless there.
 *
 * Role: core. Owns: nothing. Thread: one owner.
 */
#ifndef NODE_LINK_H
#define NODE_LINK_H

#include <stdbool.h>
#include <stddef.h>

struct link {
    struct link *prev;
    struct link *next;
};

/* The structure of which `link` is that member. */
#define LINK_OWNER(link, type, member) \
    ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void
link_init(struct link *link)
{
    link->prev = link;
    link->next = link;
}

static inline bool
link_is_empty(const struct link *list)
{
    return list->next == list;
}

static inline void
link_remove(struct link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link_init(link);
}

/* Puts a member that is on no list at the end of one. */
static inline void
link_append(struct link *list, struct link *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

#endif
