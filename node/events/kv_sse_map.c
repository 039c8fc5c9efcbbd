/* One event's JSON of a sidecar, as the words of a record. */
#include "node/events/kv_sse_map_internal.h"

#include "index/base/ascii.h"
#include "node/text/json_pull.h"

enum cache_event {
    CACHE_CREATED,
    CACHE_EVICTED,
    CACHE_OFFLOADED,
    CACHE_RELOADED,
    CACHE_PURGED,
    CACHE_EVENTS, /* how many there are */
};

static enum cache_event
event_of(struct slice type)
{
    static const struct slice names[CACHE_EVENTS] = {
        [CACHE_CREATED] = {"cache_created", 13},
        [CACHE_EVICTED] = {"cache_evicted", 13},
        [CACHE_OFFLOADED] = {"cache_offloaded", 15},
        [CACHE_RELOADED] = {"cache_reloaded", 14},
        [CACHE_PURGED] = {"cache_purged", 12},
    };
    unsigned at = 0;

    while (at < CACHE_EVENTS && !slice_equal(type, names[at])) {
        at++;
    }
    return (enum cache_event)at;
}

bool
kv_sse_is_cache_event(struct slice type)
{
    return event_of(type) != CACHE_EVENTS;
}

/* The members of one event's data. */
struct members {
    bool has_key;
    uint64_t key;
    bool has_tokens;
    uint64_t token_count;
    uint64_t block_tokens; /* 0: not told */
    bool has_rank;
    uint64_t rank;
    bool has_tier;
    bool bad_tier;
    enum tier tier;
};

/* 16 hex digits in quotes, or an unsigned number. */
static bool
read_key(struct json_pull *pull, struct members *m)
{
    enum pull_token token = json_pull_next(pull);
    uint64_t key = 0;

    m->has_key = true;
    if (token == PULL_NUMBER) {
        return json_pull_uint(pull, UINT64_MAX, &m->key);
    }
    if (token != PULL_STRING || pull->text.len != 16) {
        return false;
    }
    for (size_t i = 0; i < 16; i++) {
        int digit = ascii_hex(pull->text.ptr[i]);
        if (digit < 0) {
            return false;
        }
        key = key << 4 | (unsigned)digit;
    }
    m->key = key;
    return true;
}

static bool
read_number(struct json_pull *pull, uint64_t *number)
{
    return json_pull_next(pull) == PULL_NUMBER &&
           json_pull_uint(pull, UINT32_MAX, number);
}

static bool
read_tier(struct json_pull *pull, struct members *m)
{
    char name[16];

    if (json_pull_next(pull) != PULL_STRING) {
        return false;
    }
    int len = json_pull_copy(pull, name, sizeof name);
    struct slice text = {name, len > 0 ? (size_t)len : 0};
    m->has_tier = true;
    m->bad_tier = false;
    for (unsigned tier = 0; tier < TIERS; tier++) {
        m->tier = (enum tier)tier;
        if (slice_equal_nocase(text, slice_of(event_tier_name(m->tier)))) {
            return true;
        }
    }
    m->tier = slice_equal_nocase(text, SLICE("cpu")) ? TIER_HOST : TIER_DEVICE;
    m->bad_tier =
        m->tier == TIER_DEVICE && !slice_equal_nocase(text, SLICE("gpu"));
    return true;
}

/* The value of a key just read; null: as if it were absent. */
static bool
read_member(struct json_pull *pull, struct members *m)
{
    struct json_pull ahead = *pull;

    if (json_pull_next(&ahead) == PULL_NULL) {
        return json_pull_skip(pull);
    }
    if (json_pull_is(pull, SLICE("prefix_hash"))) {
        return read_key(pull, m);
    }
    if (json_pull_is(pull, SLICE("token_count"))) {
        m->has_tokens = true;
        return read_number(pull, &m->token_count);
    }
    if (json_pull_is(pull, SLICE("block_tokens"))) {
        return read_number(pull, &m->block_tokens) && m->block_tokens > 0 &&
               m->block_tokens <= SHAPE_TOKENS_MAX;
    }
    if (json_pull_is(pull, SLICE("rank"))) {
        m->has_rank = true;
        return read_number(pull, &m->rank);
    }
    if (json_pull_is(pull, SLICE("tier"))) {
        return read_tier(pull, m);
    }
    return json_pull_skip(pull);
}

static bool
read_members(struct slice data, struct members *m)
{
    struct json_pull pull;

    *m = (struct members){.has_key = false};
    json_pull_init(&pull, data);
    if (json_pull_next(&pull) != PULL_OBJECT) {
        return false;
    }
    enum pull_token token = json_pull_next(&pull);
    for (; token == PULL_KEY; token = json_pull_next(&pull)) {
        if (!read_member(&pull, m)) {
            return false;
        }
    }
    return token == PULL_OBJECT_END && json_pull_next(&pull) == PULL_END;
}

/* What breaks the contract, counted; true: nothing does. The first event that
 * is sound gives the block size. */
static bool
is_sound(struct kv_sse *sse, const struct members *m, bool purge)
{
    uint32_t told = (uint32_t)m->block_tokens;
    uint32_t size = sse->block_tokens != 0 ? sse->block_tokens
                    : told != 0            ? told
                                           : KV_SSE_BLOCK_TOKENS;

    CHECK(size != 0 && sse->ranks > 0);
    if (!m->has_key && !purge) {
        sse->stats.drop_malformed++;
    } else if (m->has_rank && m->rank >= sse->ranks) {
        sse->stats.drop_rank++;
    } else if (m->bad_tier) {
        sse->stats.drop_tier++;
    } else if (told != 0 && told != size) {
        sse->stats.drop_block_size++;
    } else if (!purge && m->has_tokens &&
               (m->token_count == 0 || m->token_count % size != 0)) {
        sse->stats.drop_unaligned++;
    } else {
        sse->block_tokens = purge && told == 0 ? sse->block_tokens : size;
        return true;
    }
    return false;
}

static void
add(struct kv_sse_change *change, enum event_kind kind, enum tier tier,
    uint64_t key)
{
    CHECK(change->words_count + 2 <= KV_SSE_WORDS_MAX);
    change->words[change->words_count++] = event_op(kind, tier, 1);
    change->words[change->words_count++] = key;
}

static void
add_evicted(struct kv_sse_change *change, const struct members *m)
{
    for (unsigned tier = 0; tier < TIERS; tier++) {
        if (!m->has_tier || m->tier == (enum tier)tier) {
            add(change, EVENT_REMOVE, (enum tier)tier, m->key);
        }
    }
}

static void
add_words(struct kv_sse_change *change, enum cache_event event,
          const struct members *m)
{
    enum tier below =
        m->has_tier && m->tier != TIER_DEVICE ? m->tier : TIER_HOST;

    switch (event) {
    case CACHE_CREATED:
        add(change, EVENT_STORE, m->has_tier ? m->tier : TIER_DEVICE, m->key);
        return;
    case CACHE_EVICTED:
        add_evicted(change, m);
        return;
    case CACHE_OFFLOADED: /* first there, then gone: never nowhere */
        add(change, EVENT_STORE, below, m->key);
        add(change, EVENT_REMOVE, TIER_DEVICE, m->key);
        return;
    case CACHE_RELOADED:
        add(change, EVENT_STORE, TIER_DEVICE, m->key);
        return;
    case CACHE_PURGED:
        if (m->has_key) {
            add_evicted(change, m);
            return;
        }
        change->words[change->words_count++] =
            event_op(EVENT_CLEAR, TIER_DEVICE, 0);
        return;
    case CACHE_EVENTS:
        break;
    }
    CHECK(false);
}

bool
kv_sse_map(struct kv_sse *sse, const struct sse_event *event,
           struct kv_sse_change *change)
{
    enum cache_event kind = event_of(event->type);
    struct members m;

    CHECK(kind != CACHE_EVENTS);
    if (!read_members(event->data, &m)) {
        sse->stats.drop_malformed++;
        return false;
    }
    if (!is_sound(sse, &m, kind == CACHE_PURGED)) {
        return false;
    }
    bool all = kind == CACHE_PURGED && !m.has_rank && !m.has_key;
    *change = (struct kv_sse_change){.rank = all ? KV_SSE_ALL_RANKS
                                                 : (uint32_t)m.rank};
    CHECK(all || change->rank < sse->ranks);
    add_words(change, kind, &m);
    CHECK(change->words_count > 0);
    return true;
}
