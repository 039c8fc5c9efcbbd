/* Whether the stream continues, and its outputs. */
#include "node/events/kv_sse_internal.h"

#include <string.h>

#include "node/events/kv_sse_map_internal.h"

#define NUMBER_DIGITS 16U /* of an id: below what gossip can count */

static struct event_record *
record_of(struct kv_sse *sse)
{
    return (struct event_record *)(void *)sse->record;
}

void
kv_sse_init(struct kv_sse *sse, uint64_t identity, uint32_t ranks,
            uint64_t seed)
{
    CHECK(ranks >= 1);
    *sse = (struct kv_sse){
        .identity = identity,
        .ranks = ranks,
        .state = KV_STREAM_CONNECTING,
        .begin_rank = ranks,
        .state_rank = ranks,
    };
    rng_init(&sse->rng, seed);
}

static void
set_state(struct kv_sse *sse, enum kv_stream_state state)
{
    if (sse->state != state) {
        sse->state = state;
        sse->state_rank = 0;
    }
}

/* In step: whether all of the epoch is known was found out at its start. */
static void
in_step(struct kv_sse *sse)
{
    CHECK(sse->connected && sse->begun);
    sse->proved = true;
    set_state(sse, sse->in_full ? KV_STREAM_LIVE : KV_STREAM_PARTIAL);
}

static void
begin(struct kv_sse *sse, const char *reason)
{
    CHECK(reason != NULL);
    sse->stats.restarted += sse->begun;
    sse->process = rng_next(&sse->rng);
    sse->begun = true;
    sse->fresh = true;
    sse->in_full = false;
    sse->seq = 0;
    sse->block_tokens = 0;
    sse->ids = KV_SSE_IDS_OPEN;
    sse->id_len = 0;
    sse->reason = reason;
    sse->ask_told = 0;
    sse->begin_rank = 0;
    sse->record_rank = sse->record_end;
}

void
kv_sse_connected(struct kv_sse *sse)
{
    sse->stats.connects++;
    sse->connected = true;
    sse->proved = false;
    sse->hung = false;
    if (!sse->begun) {
        begin(sse, "the first connection");
    } else if (!sse->fresh && kv_sse_last_id(sse).len == 0) {
        begin(sse, "there is no id to go on from");
    }
    if (sse->fresh) {
        in_step(sse);
    }
}

void
kv_sse_disconnected(struct kv_sse *sse)
{
    sse->stats.disconnects += sse->connected;
    sse->connected = false;
    sse->proved = false;
    sse->hangup = false;
    set_state(sse, KV_STREAM_CONNECTING);
}

void
kv_sse_reread(struct kv_sse *sse, const char *reason, uint64_t ask)
{
    sse->ask = ask > sse->ask ? ask : sse->ask;
    begin(sse, reason);
    sse->hung = true;
    sse->hangup = sse->connected;
    set_state(sse, KV_STREAM_CONNECTING);
}

struct slice
kv_sse_last_id(const struct kv_sse *sse)
{
    CHECK(sse->id_len <= sizeof sse->id);
    return (struct slice){sse->id,
                          sse->ids == KV_SSE_IDS_FREE ? 0 : sse->id_len};
}

/* The decimal number that an id ends in, and the length of what is before it.
 * False: there is none, or it is too large to count on. */
static bool
number_of(struct slice id, uint64_t *number, size_t *prefix)
{
    size_t at = id.len;
    uint64_t value = 0;

    while (at > 0 && id.ptr[at - 1] >= '0' && id.ptr[at - 1] <= '9') {
        at--;
    }
    if (at == id.len || id.len - at > NUMBER_DIGITS) {
        return false;
    }
    *prefix = at;
    while (at < id.len) {
        value = value * 10 + (uint64_t)(id.ptr[at++] - '0');
    }
    *number = value;
    return true;
}

enum step {
    STEP_SAME, /* the previous id, or none of its own */
    STEP_NEXT, /* the next number */
    STEP_LEAP, /* a later number */
    STEP_ELSE, /* an earlier number, another prefix, no number */
};

/* How an id stands to the last one. */
static enum step
step_to(const struct kv_sse *sse, struct slice id)
{
    struct slice last = {sse->id, sse->id_len};
    uint64_t number;
    uint64_t number_before;
    size_t prefix;
    size_t prefix_before;

    if (slice_equal(id, last)) {
        return STEP_SAME;
    }
    if (!number_of(id, &number, &prefix) ||
        !number_of(last, &number_before, &prefix_before) ||
        prefix != prefix_before || memcmp(id.ptr, last.ptr, prefix) != 0 ||
        number < number_before) {
        return STEP_ELSE;
    }
    return number == number_before + 1 ? STEP_NEXT : STEP_LEAP;
}

static void
remember(struct kv_sse *sse, struct slice id)
{
    CHECK(id.len <= sizeof sse->id);
    sse->id_len = id.len;
    memcpy(sse->id, id.len > 0 ? id.ptr : "", id.len);
}

/* The first event of an epoch shows whether it is the source's first, and names
 * the source. */
static void
take_first(struct kv_sse *sse, struct slice id)
{
    uint64_t number;
    size_t prefix;
    bool counts = number_of(id, &number, &prefix);

    CHECK(sse->begun && sse->fresh);
    if (counts) {
        sse->process = rng_mix(key_digest(id) ^ rng_mix(sse->fingerprint));
    }
    if (counts || sse->ask_told != sse->ask) {
        sse->ask_told = sse->ask;
        sse->begin_rank = 0;
    }
    sse->fresh = false;
    sse->ids = counts ? KV_SSE_IDS_OPEN : KV_SSE_IDS_FREE;
    sse->in_full = counts && number <= 1;
    remember(sse, id);
    in_step(sse);
}

/* The first event after a lost connection. */
static void
prove(struct kv_sse *sse, struct slice id, bool is_cache)
{
    enum step step = step_to(sse, id);

    CHECK(!sse->proved && !sse->fresh);
    if (step == STEP_NEXT || (step == STEP_SAME && !is_cache)) {
        sse->stats.resumed++;
        remember(sse, id);
        in_step(sse);
    } else {
        begin(sse, "the source did not go on where it ended");
        take_first(sse, id);
    }
}

/* False: the event comes after a gap. */
static bool
follow(struct kv_sse *sse, struct slice id)
{
    enum step step = step_to(sse, id);

    CHECK(sse->proved && !sse->fresh);
    if (sse->ids == KV_SSE_IDS_OPEN && step != STEP_SAME) {
        sse->ids = step == STEP_NEXT ? KV_SSE_IDS_COUNT : KV_SSE_IDS_FREE;
    }
    if (sse->ids == KV_SSE_IDS_COUNT && step == STEP_LEAP) {
        sse->stats.gaps++;
        sse->hung = true;
        sse->hangup = true;
        return false;
    }
    if (sse->ids == KV_SSE_IDS_COUNT && step == STEP_ELSE) {
        begin(sse, "the source restarted its numbers");
        take_first(sse, id);
    }
    remember(sse, id);
    return true;
}

/* Rising, whatever ids do. */
static uint64_t
next_seq(const struct kv_sse *sse, struct slice id)
{
    uint64_t number;
    size_t prefix;
    bool counts =
        sse->ids != KV_SSE_IDS_FREE && number_of(id, &number, &prefix);

    return counts && number > sse->seq ? number : sse->seq + 1;
}

void
kv_sse_event(struct kv_sse *sse, const struct sse_event *event)
{
    bool is_cache = kv_sse_is_cache_event(event->type);

    CHECK(sse->connected && sse->begun);
    sse->stats.events++;
    sse->fingerprint = key_digest(event->data);
    if (sse->hung) {
        sse->stats.drop_gap++;
        return;
    }
    if (sse->fresh) {
        take_first(sse, event->id);
    } else if (!sse->proved) {
        prove(sse, event->id, is_cache);
    } else if (!follow(sse, event->id)) {
        sse->stats.drop_gap++;
        return;
    }
    if (!is_cache) {
        sse->stats.other++;
        return;
    }
    struct kv_sse_change change;
    if (!kv_sse_map(sse, event, &change)) {
        return;
    }
    sse->stats.applied++;
    sse->seq = next_seq(sse, event->id);
    sse->record_rank = change.rank == KV_SSE_ALL_RANKS ? 0 : change.rank;
    sse->record_end =
        change.rank == KV_SSE_ALL_RANKS ? sse->ranks : change.rank + 1;
    CHECK(sse->record_rank < sse->record_end && sse->record_end <= sse->ranks);
    CHECK(change.words_count > 0 && change.words_count <= KV_SSE_WORDS_MAX);
    *record_of(sse) = (struct event_record){
        .epoch = sse->process,
        .seq = sse->seq,
        .holes = EVENT_HOLES_UNKNOWN,
        .block_tokens = sse->block_tokens,
        .words_count = change.words_count,
    };
    memcpy(record_of(sse)->words, change.words, sizeof change.words);
}

bool
kv_sse_next_out(struct kv_sse *sse, struct kv_sse_out *out)
{
    CHECK(sse->record_end <= sse->ranks);
    *out = (struct kv_sse_out){.state = sse->state,
                               .fingerprint = sse->fingerprint};
    if (sse->begin_rank < sse->ranks) {
        out->kind = KV_SSE_BEGIN;
        out->reason = sse->reason;
        out->process = sse->process;
        out->whole = sse->in_full;
        out->ask = sse->ask_told;
        out->rank = sse->begin_rank++;
        /* A rank's state goes with its epoch. */
        sse->state_rank = 0;
        return true;
    }
    if (sse->state_rank < sse->ranks) {
        out->kind = KV_SSE_STATE;
        out->rank = sse->state_rank++;
        return true;
    }
    if (sse->record_rank < sse->record_end) {
        struct event_record *record = record_of(sse);
        out->kind = KV_SSE_RECORD;
        out->rank = sse->record_rank++;
        record->stream =
            (struct event_stream){.worker = sse->identity, .rank = out->rank};
        out->record = record;
        return true;
    }
    out->kind = KV_SSE_HANGUP;
    bool hangup = sse->hangup;
    sse->hangup = false;
    return hangup;
}
