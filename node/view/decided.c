/* A tree of what was sent to each rank, in the order of decisions. */
#include "node/view/decided.h"

#include <errno.h>
#include <stdlib.h>

#include "node/view/heat.h"

/* Nearly full is full: a prompt that is evicted takes more than one key. */
#define FULL_PERMILLE 950U

struct decided {
    struct radix *tree;
    struct worker_set open;
    uint64_t keys_max[WORKERS_MAX]; /* of a slot's cache */
    struct gauge full[WORKERS_MAX]; /* 1: the slot's tree is */
    struct heat heat;
};

int
decided_new(struct decided **out, size_t bytes_max, uint32_t depth_max,
            struct qsbr *qsbr)
{
    struct radix_limits limits = {
        .bytes_max = bytes_max, .namespaces_max = 1, .depth_max = depth_max};
    struct decided *d = calloc(1, sizeof(*d));

    CHECK(qsbr != NULL && depth_max > 0);
    *out = NULL;
    if (d == NULL) {
        return -ENOMEM;
    }
    int error = radix_new(&d->tree, &limits, qsbr);
    if (error < 0) {
        free(d);
        return error;
    }
    *out = d;
    return 0;
}

void
decided_free(struct decided *decided)
{
    if (decided != NULL) {
        radix_free(decided->tree);
        free(decided);
    }
}

static void
judge_fullness(struct decided *d, uint32_t slot)
{
    uint64_t kept = radix_worker_blocks(d->tree, slot);

    CHECK_SLOW(slot < WORKERS_MAX);
    gauge_set(&d->full[slot], kept * 1000 >= d->keys_max[slot] * FULL_PERMILLE);
}

int
decided_open(struct decided *decided, uint32_t slot, uint64_t blocks,
             uint32_t block_tokens, enum radix_eviction eviction)
{
    CHECK(slot < WORKERS_MAX && block_tokens > 0);
    uint64_t keys = blocks / decided_stride(block_tokens);
    uint64_t keys_max = keys > 0 ? keys : 1;
    int outcome = radix_worker_add(decided->tree, slot, keys_max, eviction);

    if (outcome == 0) {
        worker_set_add(&decided->open, slot);
        decided->keys_max[slot] = keys_max;
        judge_fullness(decided, slot);
    }
    return outcome;
}

void
decided_close(struct decided *decided, uint32_t slot)
{
    CHECK(slot < WORKERS_MAX);
    radix_worker_remove(decided->tree, slot);
    worker_set_remove(&decided->open, slot);
    gauge_set(&decided->full[slot], 0);
}

uint32_t
decided_keys(const uint64_t *keys, uint32_t count, uint32_t block_tokens,
             uint64_t *out)
{
    uint32_t stride = decided_stride(block_tokens);
    uint32_t kept = count / stride;

    CHECK(stride > 0 && kept <= count);
    for (uint32_t i = 0; i < kept; i++) {
        out[i] = keys[(size_t)(i + 1) * stride - 1];
    }
    return kept;
}

uint32_t
decided_told(const uint64_t *keys, uint32_t count, uint32_t block_tokens,
             uint64_t longest, uint64_t *out)
{
    uint32_t kept = decided_keys(keys, count, block_tokens, out);

    CHECK(kept <= count);
    if (kept == 0) {
        return 0;
    }
    out[kept] = longest;
    return kept + 1;
}

void
decided_add(struct decided *decided, uint32_t slot, const uint64_t *keys,
            uint32_t count, uint64_t now_us)
{
    CHECK(slot < WORKERS_MAX);
    if (count < 2) {
        return;
    }
    count--;
    heat_add(&decided->heat, &keys[count], keys[count] != 0, now_us);
    if (!worker_set_has(&decided->open, slot)) {
        return;
    }
    int outcome =
        radix_insert(decided->tree, DECIDED_ROOT, keys, count, slot, 0, now_us);
    (void)outcome; /* the tree counts what it has no room for */
    judge_fullness(decided, slot);
}

bool
decided_work(struct decided *decided, uint32_t budget, uint64_t now_us)
{
    CHECK(budget > 0);
    heat_pass(&decided->heat, now_us);
    return radix_work(decided->tree, budget, now_us);
}

uint32_t
decided_heat(const struct decided *decided, uint64_t key)
{
    return heat_of(&decided->heat, key);
}

bool
decided_counts(const struct decided *decided, uint32_t slot)
{
    CHECK_SLOW(slot < WORKERS_MAX);
    return gauge_read(&decided->full[slot]) != 0;
}

const struct radix *
decided_tree(const struct decided *decided)
{
    return decided->tree;
}
