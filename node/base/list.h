/*
 * A circular doubly linked list threaded through its members.
 *
 * A list is a link that points at itself while the list is empty. So does a
 * member that is on no list; list_remove() does nothing with it.
 *
 * Role: core. Owns: nothing. Thread: one owner.
 */
#ifndef NODE_LIST_H
#define NODE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list_link {
    struct list_link *prev;
    struct list_link *next;
};

/* The structure whose member is `link`. */
#define LIST_OWNER(link, type, member) \
    ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* An empty list, or a member that is on none. */
static inline void
list_init(struct list_link *link)
{
    link->prev = link;
    link->next = link;
}

/* Whether the list has no member. */
static inline bool
list_is_empty(const struct list_link *list)
{
    return list->next == list;
}

/* Takes a member off its list, if it is on one. */
static inline void
list_remove(struct list_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

/* Puts a member that is on no list at the end of one. */
static inline void
list_append(struct list_link *list, struct list_link *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

#endif
