/*
 * What lanes see of the mirror: which of its slots belong to which worker and
 * rank, how large their blocks are, and how far to trust them. Immutable;
 * control publishes a new one whenever a stream begins, ends, catches up or
 * falls behind.
 *
 * Role: core. Owns: nothing. Thread: any that is online in the qsbr.
 * Limits: MIRROR_GROUPS_MAX grains; workers of further ones are routed by
 * text, with a line in the log. Errors: none.
 */
#ifndef NODE_MIRROR_VIEW_H
#define NODE_MIRROR_VIEW_H

#include <stdint.h>

#include "index/base/publish.h"
#include "index/base/qsbr.h"
#include "index/base/worker_set.h"

#define MIRROR_GROUPS_MAX 4

/* Slots whose streams have the same keys for a prompt. */
struct mirror_group {
    uint32_t grain;          /* index/shape.h; not 0 */
    struct worker_set slots; /* of the mirror */
};

struct mirror_view {
    struct qsbr_node node;
    uint64_t version;
    uint32_t groups_count;
    struct mirror_group groups[MIRROR_GROUPS_MAX];
    struct worker_set workers;     /* fleet slots with a slot in a group */
    struct worker_set windowed;    /* slots whose hits sliding windows limit */
    uint32_t shape[WORKERS_MAX];   /* of these (index/shape.h) */
    struct worker_set recomputing; /* slots whose engines compute the last block
                                      again that they find (accuracy.h) */
    /* By slot of the mirror, for those in a group. */
    uint16_t owner[WORKERS_MAX]; /* fleet slot */
    uint16_t rank[WORKERS_MAX];
    uint16_t trust_permille[WORKERS_MAX]; /* 1000: its word is taken */
    /* By fleet slot, for those in workers. */
    uint32_t generation[WORKERS_MAX];
    uint16_t ranks[WORKERS_MAX]; /* configured; 1: no rank header is sent */
};

/* Never NULL once the feed exists. */
static inline const struct mirror_view *
mirror_view_get(const struct publish *publish)
{
    return publish_get(publish);
}

#endif
