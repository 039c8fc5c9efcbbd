/*
 * The ledger's memory: bytes within the bound, and pools of numbered things.
 */
#include <errno.h>

#include "index/ledger_internal.h"

void *
ledger_take(struct ledger *l, size_t size)
{
    size_t bytes = page_heap_size(size);

    CHECK(size > 0 && l->bytes <= l->bytes_max);
    if (bytes > l->bytes_max - l->bytes) {
        l->refusal = LEDGER_E_FULL;
        return NULL;
    }
    void *memory = page_heap_take(&l->heap, size);
    if (memory == NULL) {
        l->refusal = -ENOMEM;
        return NULL;
    }
    l->bytes += bytes;
    return memory;
}

void
ledger_give(struct ledger *l, void *memory, size_t size)
{
    if (memory != NULL) {
        size_t bytes = page_heap_size(size);
        CHECK(l->bytes >= bytes);
        l->bytes -= bytes;
        page_heap_give(&l->heap, memory, size);
    }
}

static size_t
segment_bytes(const struct pool *pool)
{
    return (size_t)pool->size << pool->shift;
}

int
ledger_pool_init(struct ledger *l, struct pool *pool, uint32_t size)
{
    CHECK(size >= sizeof(uint32_t) && size <= SEGMENT_BYTES);
    *pool = (struct pool){.size = size, .fresh = 1};
    while (((size_t)size << (pool->shift + 1)) <= SEGMENT_BYTES) {
        pool->shift++;
    }
    size_t segments = l->bytes_max / segment_bytes(pool) + 1;
    size_t most = ((size_t)REF_MASK + 1) >> pool->shift;
    pool->segments_max = (uint32_t)(segments < most ? segments : most);
    pool->segment = ledger_take(l, pool->segments_max * sizeof(void *));
    return pool->segment == NULL ? l->refusal : 0;
}

void
ledger_pool_fini(struct ledger *l, struct pool *pool)
{
    CHECK(pool->segments <= pool->segments_max);
    for (uint32_t i = 0; i < pool->segments; i++) {
        ledger_give(l, pool->segment[i], segment_bytes(pool));
    }
    ledger_give(l, pool->segment, pool->segments_max * sizeof(void *));
}

bool
ledger_pool_grow(struct ledger *l, struct pool *pool)
{
    if (pool->segments == pool->segments_max) {
        l->refusal = LEDGER_E_FULL;
        return false;
    }
    unsigned char *segment = ledger_take(l, segment_bytes(pool));
    if (segment == NULL) {
        return false;
    }
    pool->segment[pool->segments++] = segment;
    return true;
}

void
ledger_pool_give(struct pool *pool, uint32_t ref)
{
    CHECK(pool->used > 0);
    CHECK(ref != REF_NONE && ref < pool->fresh);
    pool->used--;
    *(uint32_t *)pool_at(pool, ref) = pool->free;
    pool->free = ref;
}
