/*
 * Who holds an entry: up to three streams in its word, more in a bitmap.
 */
#include "index/ledger_internal.h"

static uint32_t
inline_word(const uint32_t *streams, uint32_t count)
{
    uint32_t word = count;

    CHECK(count <= HOLDERS_INLINE);
    for (uint32_t i = 0; i < count; i++) {
        word |= streams[i] << (2 + i * STREAM_BITS);
    }
    return word;
}

struct worker_set
ledger_holders_set(const struct ledger *l, uint32_t word)
{
    struct worker_set set = {.word = {0}};

    if ((word & 3) == 0 && word != 0) {
        return *(const struct worker_set *)pool_at(&l->sets, word >> 2);
    }
    for (uint32_t i = 0; i < (word & 3); i++) {
        worker_set_add(&set, holders_inline(word, i));
    }
    return set;
}

uint32_t
ledger_holders_add(struct ledger *l, uint32_t word, uint32_t stream)
{
    uint32_t count = word & 3;

    CHECK(!holders_has(l, word, stream));
    CHECK(stream < LEDGER_STREAMS_MAX);
    if (count == 0 && word != 0) {
        worker_set_add(pool_at(&l->sets, word >> 2), stream);
        return word;
    }
    if (count < HOLDERS_INLINE) {
        return (word & ~3U) | (count + 1) | stream << (2 + count * STREAM_BITS);
    }
    struct worker_set set = ledger_holders_set(l, word);
    uint32_t ref = ledger_pool_take(&l->sets);
    worker_set_add(&set, stream);
    *(struct worker_set *)pool_at(&l->sets, ref) = set;
    return ref << 2;
}

/* A bitmap of two holders becomes inline. One of three stays, so that an entry
 * does not keep changing between both. */
static uint32_t
shrink(struct ledger *l, uint32_t word)
{
    const struct worker_set *set = pool_at(&l->sets, word >> 2);
    uint32_t streams[HOLDERS_INLINE];
    uint32_t count = 0;

    CHECK((word & 3) == 0 && word != 0);
    if (worker_set_count(set) >= HOLDERS_INLINE) {
        return word;
    }
    WORKER_SET_EACH (stream, set) {
        streams[count++] = stream;
    }
    ledger_pool_give(&l->sets, word >> 2);
    return inline_word(streams, count);
}

uint32_t
ledger_holders_remove(struct ledger *l, uint32_t word, uint32_t stream)
{
    uint32_t count = word & 3;
    uint32_t streams[HOLDERS_INLINE];
    uint32_t kept = 0;

    CHECK(holders_has(l, word, stream));
    CHECK(stream < LEDGER_STREAMS_MAX);
    if (count == 0) {
        worker_set_remove(pool_at(&l->sets, word >> 2), stream);
        return shrink(l, word);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (holders_inline(word, i) != stream) {
            streams[kept++] = holders_inline(word, i);
        }
    }
    return inline_word(streams, kept);
}
