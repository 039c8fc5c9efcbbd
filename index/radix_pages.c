/*
 * Belief as words, for snapshots; radix_load.c reads them.
 *
 * Keys name whole prefixes, so an edge says that these keys follow that one,
 * and that stays true however the tree changes between two pages. A leaf of a
 * worker says that the worker was sent the prefix that ends there.
 *   PAGE_EDGE  so many keys in bits 32 and up; the key before them, the keys
 *   PAGE_ROOT  the key of a namespace
 *   PAGE_LEAF  worker in bits 16 to 31, priority in 8 to 15, blocks of the edge
 *              that are missing at its end in 32 and up; the edge's last key,
 *              the stamp of the last touch
 */
#include <stdlib.h>

#include "index/base/rng.h"
#include "index/radix_internal.h"
#include "index/radix_pages_internal.h"

struct radix_pages {
    const struct radix *radix;
    uint32_t worker; /* the next leaf: the place-th of worker */
    uint32_t place;
    uint64_t *seen; /* last keys of edges that were written; 0: none */
    uint32_t seen_size;
    uint32_t seen_count;
};

struct radix_pages *
radix_pages_new(const struct radix *radix)
{
    struct radix_pages *pages = calloc(1, sizeof(*pages));
    uint32_t size = 1024;

    CHECK(radix != NULL);
    if (pages == NULL) {
        return NULL;
    }
    while (size < radix->stats.nodes * 2 && size < UINT32_C(1) << 30) {
        size *= 2;
    }
    pages->radix = radix;
    pages->seen_size = size;
    pages->seen = calloc(size, sizeof(uint64_t));
    if (pages->seen == NULL) {
        free(pages);
        return NULL;
    }
    return pages;
}

void
radix_pages_free(struct radix_pages *pages)
{
    if (pages != NULL) {
        free(pages->seen);
        free(pages);
    }
}

/* Whether an edge was written already. If the table is full, edges are written
 * again, which is harmless. */
static bool
see(struct radix_pages *pages, uint64_t key)
{
    uint32_t at = (uint32_t)rng_mix(key) & (pages->seen_size - 1);

    CHECK(pages->seen_count < pages->seen_size);
    while (pages->seen[at] != 0) {
        if (pages->seen[at] == key) {
            return true;
        }
        at = (at + 1) & (pages->seen_size - 1);
    }
    if (key != 0 && pages->seen_count < pages->seen_size / 4 * 3) {
        pages->seen[at] = key;
        pages->seen_count++;
    }
    return false;
}

static void
put_edge(const struct radix_node *node, uint64_t before, struct words *out)
{
    CHECK(node->len >= 1);
    if (node->space != 0) {
        words_push(out, PAGE_ROOT);
        words_push(out, node->last_key);
        return;
    }
    words_push(out, PAGE_EDGE | (uint64_t)node->len << PAGE_COUNT_SHIFT);
    words_push(out, before);
    for (uint32_t i = 0; i + 1 < node->len; i++) {
        words_push(out, node->key[i]);
    }
    words_push(out, node->last_key);
}

/* Writes the edges above a record, as far as they are not written yet. */
static void
put_path(struct radix_pages *pages, uint32_t ref, struct words *out)
{
    const struct radix *radix = pages->radix;

    CHECK(ref != CELL_NONE);
    while (ref != CELL_NONE) {
        const struct radix_record *record = record_at(radix, ref);
        const struct radix_node *node = node_at(radix, record->node);
        uint64_t before = 0;
        if (see(pages, node->last_key)) {
            return;
        }
        if (record->parent != CELL_NONE) {
            uint32_t above = record_at(radix, record->parent)->node;
            before = node_at(radix, above)->last_key;
        }
        put_edge(node, before, out);
        ref = record->parent;
    }
}

static void
put_leaf(struct radix_pages *pages, uint32_t ref, struct words *out)
{
    const struct radix *radix = pages->radix;
    const struct radix_record *record = record_at(radix, ref);
    struct radix_node *node = node_at(radix, record->node);
    const struct radix_hold *hold =
        radix_hold_find(radix, node, record->worker);

    CHECK(record->worker == pages->worker);
    if (node->space != 0 || hold == NULL) {
        return;
    }
    words_push(out, PAGE_LEAF | (uint64_t)record->priority << PAGE_PRIORITY |
                        (uint64_t)record->worker << PAGE_WORKER |
                        (uint64_t)hold_missing(hold) << PAGE_COUNT_SHIFT);
    words_push(out, node->last_key);
    words_push(out, record->touched);
    put_path(pages, ref, out);
}

bool
radix_pages_next(struct radix_pages *pages, struct words *out, size_t count)
{
    const struct radix *radix = pages->radix;

    CHECK(pages->worker <= WORKERS_MAX);
    while (pages->worker < WORKERS_MAX && out->count < count && !out->failed) {
        const struct radix_worker *worker = &radix->worker[pages->worker];
        if (worker->state != WORKER_LIVE ||
            pages->place >= worker->order[BY_POLICY].count) {
            pages->worker++;
            pages->place = 0;
            continue;
        }
        put_leaf(pages,
                 order_record(&worker->order[BY_POLICY], &radix->store,
                              pages->place++),
                 out);
    }
    return pages->worker < WORKERS_MAX;
}
