/*
 * Quiescent-state-based reclamation: one writer unlinks objects, readers on
 * other threads go on using what they had found, and the memory is freed once
 * each reader has passed a point where it holds no pointer.
 *
 * Follows McKenney and Slingwine's read-copy-update in the QSBR form of
 * Desnoyers et al. (2012); here without a blocking grace period: the writer
 * retires and later reclaims what is due, and never waits.
 *
 * A reader is one thread. It is online between qsbr_online() and
 * qsbr_offline(); a loop goes offline before it blocks in the kernel, so an
 * idle thread delays nobody.
 *
 * Role: core. Owns: retired objects until they are freed.
 * Thread: online/offline by the reader that registered; the rest by the one
 * writer. Limits: QSBR_READERS_MAX readers. Errors: none.
 */
#ifndef INDEX_BASE_QSBR_H
#define INDEX_BASE_QSBR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QSBR_READERS_MAX 64

/* Embedded in whatever is to be retired. */
struct qsbr_node {
    struct qsbr_node *next;
    uint64_t due; /* epoch that every online reader must have seen */
    void (*free)(struct qsbr_node *node);
};

struct qsbr_reader {
    _Alignas(64) _Atomic uint64_t seen; /* epoch, 0 while offline */
};

struct qsbr {
    _Alignas(64) _Atomic uint64_t epoch; /* from 1, written by the writer */
    _Alignas(64) struct qsbr_node *first;
    struct qsbr_node *last;
    size_t retired_count;
    _Atomic uint32_t readers_count;
    struct qsbr_reader readers[QSBR_READERS_MAX];
};

/* No readers, nothing retired. */
void qsbr_init(struct qsbr *q);

/* Frees what is still retired. No reader may be online. */
void qsbr_fini(struct qsbr *q);

/*
 * A place for one more reader, offline at first; the caller's thread keeps it
 * for the life of q. NULL when QSBR_READERS_MAX are taken. Thread: any.
 */
struct qsbr_reader *qsbr_register(struct qsbr *q);

/* From here on pointers that this thread finds in shared structures stay
 * valid, until qsbr_offline() or the next qsbr_online(). */
void qsbr_online(struct qsbr *q, struct qsbr_reader *reader);

/* The reader holds no pointer any more, and may block. */
void qsbr_offline(struct qsbr_reader *reader);

/*
 * Takes ownership of an object that new readers can no longer reach, and
 * calls free(node) from a later qsbr_reclaim().
 */
void qsbr_retire(struct qsbr *q, struct qsbr_node *node,
                 void (*free)(struct qsbr_node *node));

/* Frees all that no reader can hold any more; returns how many objects that
 * were. Never waits. */
size_t qsbr_reclaim(struct qsbr *q);

/* How many wait to be freed. */
static inline size_t
qsbr_pending(const struct qsbr *q)
{
    return q->retired_count;
}

#endif
