/* Anti-entropy: summaries, version vectors and digests. */
#include "gossip/gossip_internal.h"

enum {
    ENTRY_WHOLE = 1,
    ENTRY_COMPLETE = 2,
    ENTRY_TORN = 4,
    ENTRY_READS = 8,
    ENTRY_DIGEST = 16,
    ENTRY_PRINT = 32,
    ENTRY_LIVES = 64,  /* READS, and the reading is live */
    ENTRY_NAMES = 128, /* the names of the blocks are known */
};

#define VECTOR_REPLY 1U /* the receiver may answer with its own */
#define ENTRY_BYTES  96U

static bool
knows_digest(const struct gossip_stream *s)
{
    return s->digest_known && s->digest_pos == s->pos && !gossip_is_torn(s);
}

/* The position of names that are behind the state; 0: there are none. */
static uint64_t
old_names(const struct gossip_stream *s)
{
    return s->names.known && !gossip_names_fresh(s) ? s->names.pos : 0;
}

/* What an entry adds to the summary. */
static uint64_t
fingerprint_of(const struct gossip_stream *s)
{
    uint64_t fingerprint = rng_mix(s->name.worker ^ rng_mix(s->name.rank));

    CHECK(!s->removed && s->epoch.no != 0);
    fingerprint = rng_mix(fingerprint ^ s->epoch.id ^ rng_mix(s->epoch.no));
    fingerprint = rng_mix(fingerprint ^ s->pos) ^ (s->complete ? 1 : 0) ^
                  (gossip_names_fresh(s) ? 0 : 2 ^ rng_mix(old_names(s)));
    if (knows_digest(s)) {
        fingerprint =
            rng_mix(fingerprint ^ rng_mix(s->digest_count) ^ s->digest_xor);
    }
    return rng_mix(fingerprint);
}

static uint64_t
summary(const struct gossip *g)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < g->streams_count; i++) {
        const struct gossip_stream *s = g->streams[i];
        if (!s->removed && s->epoch.no != 0) {
            sum ^= fingerprint_of(s);
        }
    }
    return sum;
}

void
gossip_vector_tick(struct gossip *g)
{
    if (g->now_us < g->vector_due_us) {
        return;
    }
    uint64_t jitter_us = gossip_us(g->config.vector_jitter_ms);
    g->vector_due_us = g->now_us + gossip_us(g->config.vector_ms) - jitter_us +
                       rng_below(&g->rng, 2 * jitter_us + 1);
    CHECK(g->vector_due_us > g->now_us);
    uint64_t peer = gossip_some_peer(g);
    if (peer != 0) {
        gossip_frame_begin(g, GOSSIP_FRAME_SUMMARY);
        codec_put_u64(&g->build, summary(g));
        gossip_frame_send(g, peer, GOSSIP_CTL);
    }
}

int
gossip_recv_summary(struct gossip *g, uint64_t peer, struct codec_in in)
{
    uint64_t theirs = codec_get_u64(&in);

    if (in.failed) {
        return GOSSIP_E_BAD;
    }
    if (theirs == summary(g)) {
        g->stats.summaries_equal++;
    } else {
        g->stats.summaries_differ++;
        gossip_vector_send(g, peer, true);
    }
    return 0;
}

static void
put_entry(struct gossip *g, const struct gossip_stream *s)
{
    uint8_t bytes[ENTRY_BYTES];
    struct codec_out frame = g->build;
    uint32_t print = 0;
    bool printed = gossip_print_at(s, s->pos, &print);
    unsigned flags =
        (s->whole ? ENTRY_WHOLE : 0U) | (s->complete ? ENTRY_COMPLETE : 0U) |
        (gossip_is_torn(s) ? ENTRY_TORN : 0U) |
        (gossip_leads(s) ? ENTRY_READS : 0U) |
        (gossip_leads(s) && s->reading.live ? ENTRY_LIVES : 0U) |
        (knows_digest(s) ? ENTRY_DIGEST : 0U) | (printed ? ENTRY_PRINT : 0U) |
        (gossip_names_fresh(s) && s->names.pos != 0 ? ENTRY_NAMES : 0U);

    g->build = (struct codec_out){.bytes = bytes, .max = sizeof bytes};
    gossip_put_stream(g, s);
    codec_put_varint(&g->build, s->epoch.no);
    codec_put_u64(&g->build, s->epoch.id);
    codec_put_u8(&g->build, (uint8_t)flags);
    codec_put_varint(&g->build, s->pos);
    if (knows_digest(s)) {
        codec_put_varint(&g->build, s->digest_count);
        codec_put_u64(&g->build, s->digest_xor);
    }
    if (printed) {
        codec_put_u32(&g->build, print);
    }
    codec_put_varint(&g->build, old_names(s));
    if (old_names(s) != 0) {
        codec_put_u32(&g->build, (uint32_t)s->names.print);
    }
    struct codec_out entry = g->build;
    g->build = frame;
    CHECK(!entry.failed);
    codec_put_varint(&g->build, entry.len);
    codec_put_bytes(&g->build, bytes, entry.len);
}

static void
begin_vector(struct gossip *g, bool reply)
{
    gossip_frame_begin(g, GOSSIP_FRAME_VECTOR);
    codec_put_u8(&g->build, reply ? VECTOR_REPLY : 0);
}

void
gossip_vector_send(struct gossip *g, uint64_t peer, bool reply)
{
    CHECK(peer != 0);
    begin_vector(g, reply);
    for (uint32_t i = 0; i < g->streams_count; i++) {
        if (g->streams[i]->removed) {
            continue;
        }
        if (g->build.max - g->build.len < ENTRY_BYTES + 2) {
            gossip_frame_send(g, peer, GOSSIP_CTL);
            begin_vector(g, reply);
        }
        put_entry(g, g->streams[i]);
    }
    gossip_frame_send(g, peer, GOSSIP_CTL);
}

/* Receiving */

struct entry {
    struct event_stream name;
    struct gossip_epoch epoch;
    uint8_t flags;
    uint64_t pos;
    uint64_t count;
    uint64_t xor_keys;
    uint32_t print;
    uint64_t old_names; /* their position; 0: none */
    bool has_old_print;
    uint32_t old_print; /* of the batch there */
};

static bool
get_entry(struct codec_in in, struct entry *entry)
{
    *entry = (struct entry){.name.worker = codec_get_u64(&in)};
    entry->name.rank = codec_get_count(&in, UINT32_MAX);
    entry->epoch.no = codec_get_count(&in, UINT32_MAX);
    entry->epoch.id = codec_get_u64(&in);
    entry->flags = codec_get_u8(&in);
    entry->pos = codec_get_varint(&in);
    if ((entry->flags & ENTRY_DIGEST) != 0) {
        entry->count = codec_get_varint(&in);
        entry->xor_keys = codec_get_u64(&in);
    }
    if ((entry->flags & ENTRY_PRINT) != 0) {
        entry->print = codec_get_u32(&in);
    }
    entry->old_names = codec_left(&in) > 0 ? codec_get_varint(&in) : 0;
    entry->has_old_print = entry->old_names != 0 && codec_left(&in) > 0;
    entry->old_print = entry->has_old_print ? codec_get_u32(&in) : 0;
    return !in.failed;
}

/* The names show what rotted; whether they are of use is tried now and then. */
static bool
rebuild(struct gossip *g, struct gossip_stream *s)
{
    uint64_t wait_us = 2 * gossip_us(g->config.heal_ms);

    if (s->rebuilt_us != 0 && g->now_us - s->rebuilt_us < wait_us) {
        return false;
    }
    s->rebuilt_us = g->now_us;
    return gossip_rebuild(g, s, "digests differ");
}

/* Whether this node's state stays, where one of two is a part: a complete one
 * before a part, and of two parts the larger one. It is an order of states, so all
 * nodes come to the same one, whoever meets whom. */
static bool
stays(const struct gossip_stream *s, const struct entry *entry)
{
    bool complete = (entry->flags & ENTRY_COMPLETE) != 0;

    if (s->complete != complete) {
        return s->complete;
    }
    return s->digest_count != entry->count ? s->digest_count > entry->count
                                           : s->digest_xor > entry->xor_keys;
}

/* The states differ at equal positions. Both nodes build theirs from the names,
 * and if that does not help, they heal: if one node has a reading that leads,
 * the other one takes its state; if neither has, the node with the larger id
 * takes the other's; if both have, both read again. Of a part an engine tells less
 * than was known, and so do the names of who knew less: there the smaller state
 * gives way, and nobody builds it again. True: the peer has to act. */
static bool
heal(struct gossip *g, struct gossip_stream *s, uint64_t peer,
     const struct entry *entry)
{
    bool mine = gossip_leads(s);
    bool theirs = (entry->flags & ENTRY_READS) != 0;
    bool whole = s->complete && (entry->flags & ENTRY_COMPLETE) != 0;

    CHECK(knows_digest(s) && entry->pos == s->pos);
    /* Partial replicas may differ by the names that their readers knew. */
    g->stats.digest_mismatches += whole;
    if (!whole) {
        if (stays(s, entry)) {
            return true;
        }
        gossip_heal(g, s, peer);
        return false;
    }
    if (rebuild(g, s)) {
        return true;
    }
    if (mine != theirs ? mine : !mine && g->self < peer) {
        return true;
    }
    gossip_heal(g, s, peer);
    return mine;
}

/* Of two nodes with the same blocks one read past a gap, the other one had the
 * batches: a set that equals a complete one is complete. True: the peer has to
 * learn that. */
static bool
complete_it(struct gossip *g, struct gossip_stream *s)
{
    if (s->complete) {
        return true;
    }
    s->complete = true;
    gossip_stream_moved(g, s); /* tells of it */
    return false;
}

/* True: the peer would learn something from our vector. */
static bool
meet(struct gossip *g, struct gossip_stream *s, uint64_t peer,
     const struct entry *entry)
{
    bool fresh =
        (entry->flags & ENTRY_NAMES) != 0 && (entry->flags & ENTRY_PRINT) != 0;
    const struct gossip_met met = {
        .peer = peer,
        .epoch = entry->epoch,
        .whole = (entry->flags & ENTRY_WHOLE) != 0,
        .complete = (entry->flags & ENTRY_COMPLETE) != 0,
        .lives = (entry->flags & ENTRY_LIVES) != 0,
        .names = fresh                  ? entry->pos
                 : entry->has_old_print ? entry->old_names
                                        : 0,
        .names_print = fresh ? entry->print : entry->old_print,
        .has_print = (entry->flags & ENTRY_PRINT) != 0,
        .counts = (entry->flags & ENTRY_DIGEST) != 0,
        .print = entry->print,
        .pos = entry->pos,
        .count = entry->count,
    };
    bool complete = (entry->flags & ENTRY_COMPLETE) != 0;

    CHECK(!s->removed);
    if (!gossip_stream_meet(g, s, &met)) {
        return s->epoch.no != 0;
    }
    bool ahead = entry->pos > gossip_need(s);
    if (ahead) {
        gossip_stream_known(g, s, entry->pos);
    }
    if ((entry->flags & ENTRY_NAMES) != 0) {
        gossip_names_met(g, s, peer, 0);
    } else if (entry->old_names != 0) {
        gossip_names_met(g, s, peer, entry->old_names);
    }
    if (ahead) {
        gossip_pull(g, s, peer);
        return false;
    }
    if (entry->pos < s->pos) {
        return true;
    }
    if (entry->pos != s->pos || !knows_digest(s) ||
        (entry->flags & ENTRY_DIGEST) == 0) {
        return false;
    }
    bool equal =
        entry->count == s->digest_count && entry->xor_keys == s->digest_xor;
    if (equal && complete != s->complete) {
        return complete_it(g, s);
    }
    return !equal && heal(g, s, peer, entry);
}

int
gossip_recv_vector(struct gossip *g, uint64_t peer, struct codec_in in)
{
    bool reply = (codec_get_u8(&in) & VECTOR_REPLY) != 0;
    bool news = false;

    g->stats.vectors_in++;
    while (codec_left(&in) > 0 && !in.failed) {
        struct codec_in part = codec_get_part(&in, codec_get_varint(&in));
        struct entry entry;
        if (part.failed || !get_entry(part, &entry)) {
            return GOSSIP_E_BAD;
        }
        struct gossip_stream *s = gossip_find(g, entry.name);
        if (s != NULL) {
            news |= meet(g, s, peer, &entry);
        } else {
            g->stats.dropped_unknown++;
        }
    }
    if (in.failed) {
        return GOSSIP_E_BAD;
    }
    if (reply && news) {
        gossip_vector_send(g, peer, false);
    }
    return 0;
}
