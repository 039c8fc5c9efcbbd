/* The parts of the cache, each behind its lock. */
#include "node/answers/answers.h"

#include <errno.h>
#include <stdlib.h>
#include <uv.h>

#include "node/answers/answers_alike_internal.h"
#include "node/answers/answers_table_internal.h"

#define ANSWER_MAX ((size_t)4 << 20)
#define PART_MIN   ((size_t)64 << 10)

struct shard {
    _Alignas(64) uv_mutex_t lock;
    struct answers_table table;
};

struct answers {
    struct shard shard[ANSWERS_SHARDS];
    _Alignas(64) uv_rwlock_t alike_lock;
    struct alike_index alike;
    struct answers_asked asked;
    uint64_t seed;
    size_t answer_max;
};

static struct shard *
shard_of(struct answers *cache, const struct answers_key *key)
{
    return &cache->shard[key->name.low % ANSWERS_SHARDS];
}

int
answers_new(struct answers **out, size_t bytes_max, uint32_t ttl_ms,
            uint64_t seed)
{
    struct answers *cache = aligned_alloc(64, sizeof(*cache));
    size_t part = bytes_max / ANSWERS_SHARDS > PART_MIN
                      ? bytes_max / ANSWERS_SHARDS
                      : PART_MIN;
    unsigned made = 0;

    if (cache == NULL) {
        return -ENOMEM;
    }
    if (uv_rwlock_init(&cache->alike_lock) != 0) {
        free(cache);
        return -ENOMEM;
    }
    alike_index_init(&cache->alike, part * ANSWERS_SHARDS / 8);
    cache->asked = (struct answers_asked){.alike = {0}};
    cache->seed = seed;
    cache->answer_max = part / 8 < ANSWER_MAX ? part / 8 : ANSWER_MAX;
    for (; made < ANSWERS_SHARDS; made++) {
        struct shard *shard = &cache->shard[made];
        if (answers_table_init(&shard->table, part,
                               (uint64_t)ttl_ms * UINT64_C(1000)) < 0) {
            break;
        }
        if (uv_mutex_init(&shard->lock) != 0) {
            answers_table_fini(&shard->table);
            break;
        }
    }
    if (made == ANSWERS_SHARDS) {
        *out = cache;
        return 0;
    }
    while (made-- != 0) {
        answers_table_fini(&cache->shard[made].table);
        uv_mutex_destroy(&cache->shard[made].lock);
    }
    uv_rwlock_destroy(&cache->alike_lock);
    free(cache);
    return -ENOMEM;
}

void
answers_free(struct answers *cache)
{
    if (cache == NULL) {
        return;
    }
    for (unsigned i = 0; i < ANSWERS_SHARDS; i++) {
        answers_table_fini(&cache->shard[i].table);
        uv_mutex_destroy(&cache->shard[i].lock);
    }
    alike_index_fini(&cache->alike);
    uv_rwlock_destroy(&cache->alike_lock);
    free(cache);
}

void
answers_set_ttl(struct answers *cache, uint32_t ttl_ms)
{
    for (unsigned i = 0; i < ANSWERS_SHARDS; i++) {
        uv_mutex_lock(&cache->shard[i].lock);
        cache->shard[i].table.ttl_us = (uint64_t)ttl_ms * UINT64_C(1000);
        uv_mutex_unlock(&cache->shard[i].lock);
    }
}

uint64_t
answers_seed(const struct answers *cache)
{
    return cache->seed;
}

size_t
answers_size_max(const struct answers *cache)
{
    return cache->answer_max;
}

struct answers_kept *
answers_kept_new(size_t len)
{
    struct answers_kept *answer = malloc(sizeof(*answer) + len);

    if (answer != NULL) {
        *answer = (struct answers_kept){.len = len};
    }
    return answer;
}

enum answers_found
answers_ask(struct answers *cache, const struct answers_key *key,
            const struct answers_asker *asker, uint64_t now_us,
            struct answers_got *got)
{
    struct shard *shard = shard_of(cache, key);

    uv_mutex_lock(&shard->lock);
    enum answers_found found =
        answers_table_ask(&shard->table, key, asker, now_us, got);
    uv_mutex_unlock(&shard->lock);
    return found;
}

uint64_t
answers_land(struct answers *cache, const struct answers_key *key,
             struct answers_flight *flight, struct answers_kept *answer,
             uint64_t now_us)
{
    struct shard *shard = shard_of(cache, key);

    uv_mutex_lock(&shard->lock);
    uint64_t lanes = answers_table_land(&shard->table, flight, answer, now_us);
    uv_mutex_unlock(&shard->lock);
    return lanes;
}

void
answers_give_back(struct answers *cache, const struct answers_key *key,
                  const struct answers_kept *answer)
{
    struct shard *shard = shard_of(cache, key);

    uv_mutex_lock(&shard->lock);
    answers_table_put((struct answers_kept *)(uintptr_t)answer);
    uv_mutex_unlock(&shard->lock);
}

uint32_t
answers_clear(struct answers *cache, const struct answers_which *which)
{
    uint32_t count = 0;

    /* First: who found an answer by its vector has a flight that is seen below,
     * and keeps no copy. */
    uv_rwlock_wrlock(&cache->alike_lock);
    alike_index_clear(&cache->alike, which);
    uv_rwlock_wrunlock(&cache->alike_lock);
    for (unsigned i = 0; i < ANSWERS_SHARDS; i++) {
        uv_mutex_lock(&cache->shard[i].lock);
        count += answers_table_clear(&cache->shard[i].table, which);
        uv_mutex_unlock(&cache->shard[i].lock);
    }
    return count;
}

enum answers_alike
answers_find_alike(struct answers *cache,
                   const struct answers_question *question,
                   struct answers_key *key, uint32_t *permille)
{
    uv_rwlock_rdlock(&cache->alike_lock);
    enum answers_alike found =
        alike_index_find(&cache->alike, question, key, permille);
    uv_rwlock_rdunlock(&cache->alike_lock);
    return found;
}

void
answers_touch_alike(struct answers *cache,
                    const struct answers_question *question,
                    const struct answers_key *key, bool gone)
{
    uv_rwlock_wrlock(&cache->alike_lock);
    alike_index_touch(&cache->alike, question, key, gone);
    uv_rwlock_wrunlock(&cache->alike_lock);
}

void
answers_add_alike(struct answers *cache,
                  const struct answers_question *question,
                  const struct answers_key *key, struct text_vector *vector)
{
    uv_rwlock_wrlock(&cache->alike_lock);
    alike_index_add(&cache->alike, question, key, vector);
    uv_rwlock_wrunlock(&cache->alike_lock);
}

struct answers_asked *
answers_asked(struct answers *cache)
{
    return &cache->asked;
}

void
answers_stats(struct answers *cache, struct answers_stats *stats)
{
    *stats = (struct answers_stats){.bytes = 0};
    for (unsigned i = 0; i < ANSWERS_SHARDS; i++) {
        struct shard *shard = &cache->shard[i];
        uv_mutex_lock(&shard->lock);
        const struct answers_stats *s = &shard->table.stats;
        stats->bytes += s->bytes;
        stats->entries += s->entries;
        stats->flights += s->flights;
        stats->stored += s->stored;
        stats->evicted += s->evicted;
        stats->expired += s->expired;
        stats->cleared += s->cleared;
        stats->refused += s->refused;
        uv_mutex_unlock(&shard->lock);
    }
    uv_rwlock_rdlock(&cache->alike_lock);
    stats->vectors = cache->alike.entries;
    stats->vector_bytes = cache->alike.bytes;
    uv_rwlock_rdunlock(&cache->alike_lock);
}
