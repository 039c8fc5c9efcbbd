/* Ids of earlier turns, in parts that one thread at a time looks into. */
#include "node/local/local_turns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/counter.h"
#include "index/base/latch.h"
#include "index/index.h"

#define SHARDS       16U
#define TURNS_MAX    64U /* of one shard */
#define LOOK_BACK    64U /* turns of a conversation that are looked for */
#define DIGEST_BYTES ((size_t)1 << 20) /* of text, hashed at once */

struct kept {
    uint64_t name; /* 0: none is here */
    uint64_t version;
    uint64_t used; /* grows with each use */
    uint32_t *ids;
    uint32_t cuts_count;
    struct local_cut cuts[LOCAL_CUTS_MAX];
    uint64_t digests[LOCAL_CUTS_MAX]; /* of the text before each cut */
};

struct shard {
    _Alignas(64) struct latch free;
    uint64_t clock;
    size_t bytes; /* of ids */
    struct kept kept[TURNS_MAX];
};

struct local_turns {
    size_t shard_bytes_max;
    struct counter found;
    struct counter missed;
    struct counter evicted;
    struct counter passed;
    struct gauge turns;
    struct gauge kib; /* of ids */
    struct shard shards[SHARDS];
};

int
local_turns_new(struct local_turns **out, size_t bytes_max)
{
    struct local_turns *turns = aligned_alloc(64, sizeof *turns);

    *out = turns;
    if (turns == NULL) {
        return -ENOMEM;
    }
    memset(turns, 0, sizeof *turns);
    turns->shard_bytes_max = bytes_max / SHARDS;
    for (uint32_t i = 0; i < SHARDS; i++) {
        latch_arm(&turns->shards[i].free);
    }
    return 0;
}

void
local_turns_free(struct local_turns *turns)
{
    for (uint32_t i = 0; turns != NULL && i < SHARDS; i++) {
        for (uint32_t k = 0; k < TURNS_MAX; k++) {
            free(turns->shards[i].kept[k].ids);
        }
    }
    free(turns);
}

static size_t
ids_bytes(const struct kept *kept)
{
    return kept->cuts[kept->cuts_count - 1].ids * sizeof(uint32_t);
}

/* NULL: somebody else looks into it. */
static struct shard *
take_shard(struct local_turns *turns, uint64_t name)
{
    struct shard *shard = &turns->shards[name % SHARDS];

    if (latch_take(&shard->free)) {
        return shard;
    }
    counter_add(&turns->passed, 1);
    return NULL;
}

static void
give_shard(struct shard *shard)
{
    latch_arm(&shard->free);
}

static struct kept *
find(struct shard *shard, uint64_t version, uint64_t name)
{
    for (uint32_t i = 0; i < TURNS_MAX; i++) {
        struct kept *kept = &shard->kept[i];
        if (kept->name == name && kept->version == version) {
            return kept;
        }
    }
    return NULL;
}

/* The digest of text[from, to) behind that of what is before. */
static uint64_t
digest(uint64_t before, struct slice text, size_t from, size_t to)
{
    while (from < to) {
        size_t len = to - from < DIGEST_BYTES ? to - from : DIGEST_BYTES;
        before = key_next(before, text.ptr + from, len);
        from += len;
    }
    return before;
}

/* How many of its cuts the text shares. */
static uint32_t
compare(const struct kept *kept, struct slice text)
{
    uint64_t key = 0;
    size_t from = 0;
    uint32_t i = 0;

    for (; i < kept->cuts_count; i++) {
        size_t to = kept->cuts[i].bytes;
        if (to > text.len) {
            break;
        }
        key = digest(key, text, from, to);
        if (key != kept->digests[i]) {
            break;
        }
        from = to;
    }
    return i;
}

static bool
append(struct tokenizer_ids *ids, const uint32_t *more, size_t count)
{
    size_t wanted = ids->count + count;

    if (wanted > ids->max) {
        return false;
    }
    if (wanted > ids->room) {
        size_t room = wanted + wanted / 4;
        uint32_t *grown = realloc(ids->ptr, room * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        ids->ptr = grown;
        ids->room = room;
    }
    memcpy(ids->ptr + ids->count, more, count * sizeof *more);
    ids->count = wanted;
    return true;
}

/* True: the turn was there, whatever it shares. */
static bool
try_turn(struct local_turns *turns, uint64_t version, uint64_t name,
         struct slice text, struct tokenizer_ids *ids,
         struct local_found *found)
{
    struct shard *shard = take_shard(turns, name);
    struct kept *kept = shard != NULL ? find(shard, version, name) : NULL;

    if (kept != NULL) {
        uint32_t shared = compare(kept, text);
        if (shared != 0 && append(ids, kept->ids, kept->cuts[shared - 1].ids)) {
            memcpy(found->cuts, kept->cuts, shared * sizeof kept->cuts[0]);
            found->count = shared;
            kept->used = ++shard->clock;
        }
    }
    if (shard != NULL) {
        give_shard(shard);
    }
    return kept != NULL;
}

void
local_turns_find(struct local_turns *turns, uint64_t version,
                 const uint64_t *names, uint32_t names_count, struct slice text,
                 struct tokenizer_ids *ids, struct local_found *found)
{
    uint32_t last = names_count > LOOK_BACK ? names_count - LOOK_BACK : 0;

    found->count = 0;
    for (uint32_t i = names_count; i-- > last;) {
        if (names[i] != 0 &&
            try_turn(turns, version, names[i], text, ids, found)) {
            break;
        }
    }
    counter_add(found->count != 0 ? &turns->found : &turns->missed, 1);
}

static void
drop(struct local_turns *turns, struct shard *shard, struct kept *kept)
{
    CHECK(kept->name != 0 && shard->bytes >= ids_bytes(kept));
    shard->bytes -= ids_bytes(kept);
    gauge_add(&turns->kib, -(int32_t)(ids_bytes(kept) / 1024));
    gauge_add(&turns->turns, -1);
    free(kept->ids);
    kept->ids = NULL;
    kept->name = 0;
}

/* A free place, after the least recently used turns have given way to `bytes`
 * more. */
static struct kept *
make_room(struct local_turns *turns, struct shard *shard, size_t bytes)
{
    for (;;) {
        struct kept *empty = NULL;
        struct kept *oldest = NULL;
        for (uint32_t i = 0; i < TURNS_MAX; i++) {
            struct kept *kept = &shard->kept[i];
            if (kept->name == 0) {
                empty = kept;
            } else if (oldest == NULL || kept->used < oldest->used) {
                oldest = kept;
            }
        }
        if (empty != NULL && shard->bytes + bytes <= turns->shard_bytes_max) {
            return empty;
        }
        CHECK(oldest != NULL);
        drop(turns, shard, oldest);
        counter_add(&turns->evicted, 1);
    }
}

static void
fill(struct kept *kept, struct slice text, const struct local_cut *cuts,
     uint32_t cuts_count)
{
    uint64_t key = 0;
    size_t from = 0;

    kept->cuts_count = cuts_count;
    for (uint32_t i = 0; i < cuts_count; i++) {
        CHECK(cuts[i].bytes > from && cuts[i].bytes <= text.len);
        key = digest(key, text, from, cuts[i].bytes);
        from = cuts[i].bytes;
        kept->cuts[i] = cuts[i];
        kept->digests[i] = key;
    }
}

void
local_turns_add(struct local_turns *turns, uint64_t version, uint64_t name,
                struct slice text, const uint32_t *ids,
                const struct local_cut *cuts, uint32_t cuts_count)
{
    struct kept fresh = {.name = name, .version = version};
    struct shard *shard;
    struct kept *old;
    size_t bytes;

    CHECK(cuts_count <= LOCAL_CUTS_MAX);
    if (cuts_count == 0 || name == 0) {
        return;
    }
    bytes = cuts[cuts_count - 1].ids * sizeof *ids;
    if (bytes == 0 || bytes > turns->shard_bytes_max) {
        return;
    }
    fresh.ids = malloc(bytes);
    if (fresh.ids == NULL) {
        return;
    }
    memcpy(fresh.ids, ids, bytes);
    fill(&fresh, text, cuts, cuts_count);
    shard = take_shard(turns, name);
    if (shard == NULL) {
        free(fresh.ids);
        return;
    }
    old = find(shard, version, name);
    if (old != NULL) {
        drop(turns, shard, old);
    }
    fresh.used = ++shard->clock;
    *make_room(turns, shard, bytes) = fresh;
    shard->bytes += bytes;
    gauge_add(&turns->kib, (int32_t)(bytes / 1024));
    gauge_add(&turns->turns, 1);
    CHECK(shard->bytes <= turns->shard_bytes_max);
    give_shard(shard);
}

void
local_turns_stats(const struct local_turns *turns,
                  struct local_turns_stats *stats)
{
    *stats = (struct local_turns_stats){
        .bytes = (size_t)gauge_read(&turns->kib) * 1024,
        .turns = gauge_read(&turns->turns),
        .found = counter_read(&turns->found),
        .missed = counter_read(&turns->missed),
        .evicted = counter_read(&turns->evicted),
        .passed = counter_read(&turns->passed),
    };
}
