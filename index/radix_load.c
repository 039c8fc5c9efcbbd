/* Belief from words (radix_pages.c), through the same inserts that made it, in
 * the order of the last touches. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "index/radix_internal.h"
#include "index/radix_pages_internal.h"

struct load {
    struct radix *radix;
    const uint64_t *word;
    size_t count;
    size_t *edge; /* by last key: where in the words, plus 1; 0: none */
    size_t edges_size;
    const uint64_t **leaf;
    size_t edges;
    size_t leaves;
    uint64_t *keys; /* of one prefix, filled from the end */
    uint32_t depth_max;
};

/* Words of an item, 0 when it is none or not whole. */
static size_t
item_words(const uint64_t *word, size_t count)
{
    uint64_t keys = word[0] >> PAGE_COUNT_SHIFT;
    size_t size = 0;

    CHECK(count > 0);
    switch (word[0] & PAGE_KIND) {
    case PAGE_EDGE:
        size = keys == 0 || keys > count ? 0 : 2 + (size_t)keys;
        break;
    case PAGE_ROOT:
        size = 2;
        break;
    case PAGE_LEAF:
        size = 3;
        break;
    default:
        break;
    }
    return size <= count ? size : 0;
}

static bool
count_items(struct load *load)
{
    for (size_t at = 0; at < load->count;) {
        size_t size = item_words(load->word + at, load->count - at);
        if (size == 0) {
            return false;
        }
        bool leaf = (load->word[at] & PAGE_KIND) == PAGE_LEAF;
        load->leaves += leaf;
        load->edges += !leaf;
        at += size;
    }
    return true;
}

static uint64_t
last_key(const uint64_t *item)
{
    uint64_t keys = item[0] >> PAGE_COUNT_SHIFT;

    return (item[0] & PAGE_KIND) == PAGE_ROOT ? item[1] : item[1 + keys];
}

/* The place of the edge with this last key, or the place where it would be. */
static size_t *
edge_place(const struct load *load, uint64_t key)
{
    size_t at = rng_mix(key) & (load->edges_size - 1);

    CHECK_SLOW(load->edges < load->edges_size);
    while (load->edge[at] != 0 &&
           last_key(load->word + load->edge[at] - 1) != key) {
        at = (at + 1) & (load->edges_size - 1);
    }
    return &load->edge[at];
}

static int
by_touch(const void *a, const void *b)
{
    const uint64_t *const *x = a;
    const uint64_t *const *y = b;

    return (*x)[2] < (*y)[2] ? -1 : (*x)[2] > (*y)[2];
}

static int
sort_items(struct load *load)
{
    size_t leaves = 0;

    load->edges_size = 16;
    while (load->edges_size < load->edges * 2) {
        load->edges_size *= 2;
    }
    load->edge = calloc(load->edges_size, sizeof(*load->edge));
    load->leaf = calloc(load->leaves + 1, sizeof(*load->leaf));
    load->keys = calloc(load->depth_max, sizeof(*load->keys));
    if (load->edge == NULL || load->leaf == NULL || load->keys == NULL) {
        return -ENOMEM;
    }
    for (size_t at = 0; at < load->count;) {
        const uint64_t *item = load->word + at;
        if ((item[0] & PAGE_KIND) == PAGE_LEAF) {
            load->leaf[leaves++] = item;
        } else {
            size_t *place = edge_place(load, last_key(item));
            /* Of two edges with the same end, keep the longer one. */
            if (*place == 0 || load->word[*place - 1] < item[0]) {
                *place = at + 1;
            }
        }
        at += item_words(item, load->count - at);
    }
    qsort(load->leaf, load->leaves, sizeof(*load->leaf), by_touch);
    return 0;
}

/* The prefix that ends `missing` blocks before the end of the edge with this
 * last key: in load->keys from *from on, and its namespace. False: it has no
 * beginning, or is too long. */
static bool
gather(const struct load *load, uint64_t last, uint64_t missing, uint32_t *from,
       uint64_t *root)
{
    uint32_t at = load->depth_max;

    for (;;) {
        size_t place = *edge_place(load, last);
        if (place == 0) {
            return false;
        }
        const uint64_t *item = load->word + place - 1;
        if ((item[0] & PAGE_KIND) == PAGE_ROOT) {
            *from = at;
            *root = item[1];
            return missing == 0 && at < load->depth_max;
        }
        uint64_t keys = item[0] >> PAGE_COUNT_SHIFT;
        if (missing >= keys || keys - missing > at) {
            return false;
        }
        keys -= missing;
        at -= (uint32_t)keys;
        memcpy(load->keys + at, item + 2, (size_t)keys * sizeof(uint64_t));
        last = item[1];
        missing = 0;
    }
}

static int
insert(struct load *load, const uint64_t *leaf, const uint32_t *slot_of,
       uint64_t now_us)
{
    uint32_t worker = (uint32_t)(leaf[0] >> PAGE_WORKER & UINT16_MAX);
    uint8_t priority = (uint8_t)(leaf[0] >> PAGE_PRIORITY);
    uint32_t from;
    uint64_t root;

    CHECK((leaf[0] & PAGE_KIND) == PAGE_LEAF);
    if (worker >= WORKERS_MAX) {
        return RADIX_E_BAD;
    }
    if (slot_of[worker] == WORKER_NONE ||
        !gather(load, leaf[1], leaf[0] >> PAGE_COUNT_SHIFT, &from, &root)) {
        return 0;
    }
    int rc =
        radix_insert(load->radix, root, load->keys + from,
                     load->depth_max - from, slot_of[worker], priority, now_us);
    return rc < 0 ? rc : 0; /* without room, older prefixes give way */
}

int
radix_load(struct radix *radix, const uint64_t *words, size_t count,
           const uint32_t *slot_of, uint64_t now_us)
{
    struct load load = {.radix = radix,
                        .word = words,
                        .count = count,
                        .depth_max = radix->depth_max};

    CHECK(slot_of != NULL && (count == 0 || words != NULL));
    if (!count_items(&load)) {
        return RADIX_E_BAD;
    }
    int rc = sort_items(&load);
    for (size_t i = 0; i < load.leaves && rc == 0; i++) {
        rc = insert(&load, load.leaf[i], slot_of, now_us);
    }
    free(load.edge);
    free(load.leaf);
    free(load.keys);
    return rc;
}
