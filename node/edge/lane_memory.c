/* Free lists of buffers, one for each power of two. */
#include "node/edge/lane_memory_internal.h"

#include <stdlib.h>

#include "index/base/check.h"

#define FREE_MAX_BYTES ((size_t)16 << 20)
#define KEEP_MAX_BYTES ((size_t)1 << 20) /* larger ones go back at once */

struct lane_memory_free {
    struct lane_memory_free *next;
};

void
lane_memory_init(struct lane_memory *memory, struct counter *held,
                 uint64_t held_max_bytes)
{
    *memory = (struct lane_memory){
        .free_max_bytes = FREE_MAX_BYTES,
        .held = held,
        .held_max_bytes = held_max_bytes,
    };
}

void
lane_memory_fini(struct lane_memory *memory)
{
    for (unsigned i = 0; i < LANE_MEMORY_CLASSES; i++) {
        while (memory->free[i] != NULL) {
            struct lane_memory_free *f = memory->free[i];
            memory->free[i] = f->next;
            free(f);
        }
    }
}

static unsigned
class_of(size_t size)
{
    size_t fill = size <= LANE_MEMORY_SMALLEST ? 0 : size - 1;
    size_t pages = fill / LANE_MEMORY_SMALLEST;

    return pages == 0 ? 0 : 64U - (unsigned)__builtin_clzll(pages);
}

static bool
may_take(struct lane_memory *memory, const struct quota_bucket *owner,
         size_t bytes, uint64_t max)
{
    const struct quota_ask ask = {
        .own = counter_read(&owner->bytes),
        .more = bytes,
        .all = counter_read(memory->held),
        .max = max,
        .cap = memory->owner_max_bytes,
        .floor = memory->owner_min_bytes,
    };
    enum quota_verdict verdict = quota_judge(&ask);

    memory->over_share = verdict == QUOTA_OVER;
    return verdict == QUOTA_GRANTED;
}

static char *
take(struct lane_memory *memory, struct quota_bucket *owner, size_t size,
     uint64_t max, size_t *got)
{
    unsigned class = class_of(size);
    size_t bytes = (size_t)LANE_MEMORY_SMALLEST << class;

    if (class >= LANE_MEMORY_CLASSES) {
        memory->over_share = false;
        return NULL;
    }
    if (owner != NULL && !may_take(memory, owner, bytes, max)) {
        return NULL;
    }
    struct lane_memory_free *f = memory->free[class];
    if (f != NULL) {
        memory->free[class] = f->next;
        memory->free_bytes -= bytes;
    } else {
        f = malloc(bytes);
        if (f == NULL) {
            memory->over_share = false;
            return NULL;
        }
    }
    if (owner != NULL) {
        counter_add(memory->held, bytes);
        counter_add(&owner->bytes, bytes);
    }
    *got = bytes;
    return (char *)f;
}

char *
lane_memory_take(struct lane_memory *memory, struct quota_bucket *owner,
                 size_t size, size_t *got)
{
    return take(memory, owner, size, memory->held_max_bytes, got);
}

char *
lane_memory_take_out(struct lane_memory *memory, struct quota_bucket *owner,
                     size_t size, size_t *got)
{
    uint64_t max = memory->held_max_bytes + memory->held_max_bytes / 8;

    return take(memory, owner, size, max, got);
}

void
lane_memory_give(struct lane_memory *memory, struct quota_bucket *owner,
                 char *buffer, size_t got)
{
    unsigned class = class_of(got);
    struct lane_memory_free *f = (struct lane_memory_free *)(void *)buffer;

    CHECK(got == (size_t)LANE_MEMORY_SMALLEST << class);
    if (owner != NULL) {
        /* Adding the two's complement takes away. */
        counter_add(memory->held, (uint64_t)0 - got);
        counter_add(&owner->bytes, (uint64_t)0 - got);
    }
    if (got > KEEP_MAX_BYTES ||
        memory->free_bytes + got > memory->free_max_bytes) {
        free(buffer);
        return;
    }
    f->next = memory->free[class];
    memory->free[class] = f;
    memory->free_bytes += got;
}
