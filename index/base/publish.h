/*
 * One pointer to an immutable object that its one writer replaces and that
 * readers on other threads pick up whole.
 *
 * The writer finishes the object, sets it, and retires the one before through
 * qsbr.h; a reader that is online there may use what it got until its next
 * quiescent point.
 *
 * Role: core. Owns: nothing. Thread: publish_set() by the one writer,
 * publish_get() by anyone. Limits: none. Errors: none.
 */
#ifndef INDEX_BASE_PUBLISH_H
#define INDEX_BASE_PUBLISH_H

#include <stdatomic.h>
#include <stddef.h>

struct publish {
    _Atomic(const void *) value; /* NULL until the first publish_set() */
};

/*
 * Replaces the object. Ownership stays with the writer, which retires the one
 * before. Release: whoever gets the pointer sees the object finished.
 */
static inline void
publish_set(struct publish *p, const void *object)
{
    atomic_store_explicit(&p->value, object, memory_order_release);
}

/*
 * The object, borrowed until the reader's next quiescent point; NULL before
 * the first publish_set(). Acquire: pairs with publish_set().
 */
static inline const void *
publish_get(const struct publish *p)
{
    return atomic_load_explicit(&p->value, memory_order_acquire);
}

#endif
