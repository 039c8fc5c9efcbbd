/*
 * Quiescent-state-based reclamation: epochs, and the queue of what waits for
 * readers.
 */
#include "index/base/qsbr.h"

#include "index/base/check.h"
#include "index/base/fence.h"

#if defined(FENCE_BY_RMW)
_Atomic unsigned fence_word;
#endif

/*
 * The one hard ordering: a reader's announcement must be visible before its
 * first read of a shared pointer, and the writer's unlinking before its read
 * of the announcements (a store, then a load, on both sides). Only a full
 * fence gives that.
 */

void
qsbr_init(struct qsbr *q)
{
    *q = (struct qsbr){.first = NULL};
    atomic_init(&q->epoch, 1);
}

void
qsbr_fini(struct qsbr *q)
{
    (void)qsbr_reclaim(q);
    CHECK(q->first == NULL);
    CHECK(q->last == NULL && q->retired_count == 0);
}

struct qsbr_reader *
qsbr_register(struct qsbr *q)
{
    uint32_t i =
        atomic_fetch_add_explicit(&q->readers_count, 1, memory_order_acq_rel);

    if (i >= QSBR_READERS_MAX) {
        (void)atomic_fetch_sub_explicit(&q->readers_count, 1,
                                        memory_order_acq_rel);
        return NULL;
    }
    return &q->readers[i];
}

void
qsbr_online(struct qsbr *q, struct qsbr_reader *reader)
{
    /* Acquire: seeing epoch e, the reader sees all unlinked before e. */
    uint64_t now = atomic_load_explicit(&q->epoch, memory_order_acquire);

    CHECK_SLOW(reader >= q->readers && reader < q->readers + QSBR_READERS_MAX);
    CHECK_SLOW(now != 0);
    atomic_store_explicit(&reader->seen, now, memory_order_relaxed);
    fence_full();
}

void
qsbr_offline(struct qsbr_reader *reader)
{
    CHECK(reader != NULL);
    /* Release: the last use of any pointer comes before the writer's free. */
    atomic_store_explicit(&reader->seen, 0, memory_order_release);
}

void
qsbr_retire(struct qsbr *q, struct qsbr_node *node,
            void (*free)(struct qsbr_node *node))
{
    CHECK(free != NULL);
    CHECK((q->first == NULL) == (q->last == NULL));
    CHECK(node != q->last);
    /* Release: the unlinking comes before the epoch that proves it. */
    uint64_t due =
        atomic_fetch_add_explicit(&q->epoch, 1, memory_order_acq_rel) + 1;

    *node = (struct qsbr_node){.next = NULL, .due = due, .free = free};
    if (q->last != NULL) {
        q->last->next = node;
    } else {
        q->first = node;
    }
    q->last = node;
    q->retired_count++;
}

/* The oldest epoch that some online reader may still be in. */
static uint64_t
oldest_seen(struct qsbr *q)
{
    uint64_t oldest = UINT64_MAX;

    fence_full();
    for (unsigned i = 0; i < QSBR_READERS_MAX; i++) {
        uint64_t seen =
            atomic_load_explicit(&q->readers[i].seen, memory_order_acquire);
        if (seen != 0 && seen < oldest) {
            oldest = seen;
        }
    }
    return oldest;
}

size_t
qsbr_reclaim(struct qsbr *q)
{
    size_t freed = 0;

    if (q->first == NULL) {
        return 0;
    }
    uint64_t oldest = oldest_seen(q);
    while (q->first != NULL && q->first->due <= oldest) {
        struct qsbr_node *node = q->first;
        q->first = node->next;
        if (q->first == NULL) {
            q->last = NULL;
        }
        q->retired_count--;
        node->free(node);
        freed++;
    }
    return freed;
}
