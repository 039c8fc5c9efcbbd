/* Deltas: records pushed to all peers, and records that peers push. */
#include "gossip/gossip_internal.h"

enum {
    DELTA_PUSH = 1,
    DELTA_WHOLE = 1,
    DELTA_COMPLETE = 2, /* at the sender's position */
};

/* Most bytes around a record in a frame, the section's head included. */
#define RECORD_ROOM 24U
#define HEAD_ROOM   64U
#define TAIL_ROOM   (GOSSIP_PEERS_MAX * 8 + 16U) /* bytes of a RELAY's tail */

bool
gossip_pushes(const struct gossip *g, const struct gossip_stream *s)
{
    CHECK(!s->removed);
    if (!gossip_leads(s)) {
        return false;
    }
    if (s->rank == 0 || s->handing || g->leaves) {
        return true;
    }
    return s->rank != GOSSIP_RANK_NONE &&
           (!gossip_peer_is_good(g, s->primary) ||
            (s->lag_us != 0 &&
             g->now_us - s->lag_us >= gossip_us(g->config.lag_ms)));
}

/* Starts or stops the clock for records that the primary has not pushed. */
void
gossip_push_lag(struct gossip *g, struct gossip_stream *s)
{
    bool lags = gossip_leads(s) && s->rank != 0 &&
                s->rank != GOSSIP_RANK_NONE && s->log.high > s->primary_pos &&
                s->log.high > s->pushed;

    CHECK(!s->removed);
    if (!lags) {
        s->lag_us = 0;
    } else if (s->lag_us == 0) {
        s->lag_us = g->now_us;
        gossip_wake_at(g, g->now_us + gossip_us(g->config.lag_ms));
    }
}

void
gossip_push_want(struct gossip *g, struct gossip_stream *s)
{
    CHECK(!s->to_push || g->push_first != NULL);
    if (s->to_push || s->removed || s->log.high <= s->pushed ||
        !gossip_pushes(g, s)) {
        return;
    }
    s->to_push = true;
    s->next_push = g->push_first;
    g->push_first = s;
    if (g->push_due_us == UINT64_MAX) {
        g->push_due_us = g->now_us + gossip_us(g->config.push_ms);
    }
}

static void
begin_delta(struct gossip *g, uint8_t flags)
{
    CHECK((flags & ~DELTA_PUSH) == 0);
    gossip_frame_begin(g, GOSSIP_FRAME_DELTA);
    codec_put_u8(&g->build, flags);
}

static void
put_head(struct gossip *g, const struct gossip_stream *s, uint64_t prev)
{
    CHECK(s->epoch.no != 0);
    gossip_put_stream(g, s);
    codec_put_varint(&g->build, s->epoch.no);
    codec_put_u64(&g->build, s->epoch.id);
    codec_put_u8(&g->build, (s->whole ? DELTA_WHOLE : 0U) |
                                (s->complete ? DELTA_COMPLETE : 0U));
    codec_put_varint(&g->build, prev);
}

static bool
has_room(const struct gossip *g, size_t len)
{
    CHECK(g->build.len <= g->build.max);
    return g->build.max - g->build.len >= len + TAIL_ROOM;
}

/* Writes a section: the log's records after `from`, as many as fit. Returns the
 * position of the last one. */
static uint64_t
put_section(struct gossip *g, const struct gossip_stream *s, uint64_t from)
{
    uint64_t pos = from;

    CHECK(delta_log_covers(&s->log, from));
    put_head(g, s, from);
    for (uint32_t at = delta_log_after(&s->log, from); at < s->log.count;
         at++) {
        const struct delta_log_entry *entry = delta_log_entry_at(&s->log, at);
        if (!has_room(g, entry->len + RECORD_ROOM)) {
            break;
        }
        codec_put_varint(&g->build, entry->len);
        codec_put_varint(&g->build, entry->pos - pos);
        codec_put_bytes(&g->build, s->log.bytes + entry->at, entry->len);
        pos = entry->pos;
    }
    codec_put_varint(&g->build, 0);
    return pos;
}

/* Answers a question with the records that fit in a frame. */
void
gossip_answer(struct gossip *g, const struct gossip_stream *s, uint64_t peer,
              uint64_t from)
{
    begin_delta(g, 0);
    (void)put_section(g, s, from);
    gossip_frame_send(g, peer, GOSSIP_BULK);
    g->stats.pulls_answered++;
}

static void
send_push(struct gossip *g)
{
    uint64_t before = g->stats.bytes_out;

    gossip_spread(g);
    if (g->stats.bytes_out != before) {
        g->stats.push_bytes += g->build.len;
    }
}

static void
push_stream(struct gossip *g, struct gossip_stream *s)
{
    uint64_t from = s->pushed > s->primary_pos ? s->pushed : s->primary_pos;

    CHECK(!s->to_push && s->pushed < s->log.high);
    from = from > s->log.low ? from : s->log.low;
    while (from < s->log.high) {
        uint32_t at = delta_log_after(&s->log, from);
        size_t least =
            delta_log_entry_at(&s->log, at)->len + RECORD_ROOM + HEAD_ROOM;
        if (!has_room(g, least)) {
            send_push(g);
            begin_delta(g, DELTA_PUSH);
        }
        uint64_t to = put_section(g, s, from);
        CHECK(to > from);
        from = to;
        g->stats.records_pushed++;
    }
    s->pushed = from;
    s->lag_us = 0;
    CHECK(s->pushed >= s->log.high);
}

void
gossip_push_tick(struct gossip *g)
{
    if (g->now_us < g->push_due_us) {
        return;
    }
    g->push_due_us = UINT64_MAX;
    begin_delta(g, DELTA_PUSH);
    size_t nothing = g->build.len;
    while (g->push_first != NULL) {
        struct gossip_stream *s = g->push_first;
        CHECK(s->to_push);
        g->push_first = s->next_push;
        s->to_push = false;
        if (!s->removed && s->pushed < s->log.high && gossip_pushes(g, s)) {
            push_stream(g, s);
        }
    }
    if (g->build.len > nothing) {
        send_push(g);
    }
}

void
gossip_flush(struct gossip *g, uint64_t now_us)
{
    g->now_us = now_us;
    g->leaves = true;
    for (uint32_t i = 0; i < g->streams_count; i++) {
        gossip_push_want(g, g->streams[i]);
    }
    g->push_due_us = now_us;
    gossip_push_tick(g);
    g->leaves = false;
}

/* Receiving */

struct section {
    struct event_stream name;
    struct gossip_epoch epoch;
    bool whole;
    bool complete;
    uint64_t prev;
};

static bool
get_head(struct codec_in *in, struct section *section)
{
    section->name.worker = codec_get_u64(in);
    section->name.rank = codec_get_count(in, UINT32_MAX);
    section->name.unused = 0;
    section->epoch.no = codec_get_count(in, UINT32_MAX);
    section->epoch.id = codec_get_u64(in);
    uint8_t flags = codec_get_u8(in);
    section->whole = (flags & DELTA_WHOLE) != 0;
    section->complete = (flags & DELTA_COMPLETE) != 0;
    section->prev = codec_get_varint(in);
    return !in->failed;
}

/* Takes the section's records; with s NULL it only checks them. *end: the
 * position after the last one. False: they are malformed. */
static bool
get_records(struct gossip *g, struct gossip_stream *s, struct codec_in *in,
            uint64_t prev, uint64_t *end)
{
    *end = prev;
    for (;;) {
        uint64_t len = codec_get_varint(in);
        if (len == 0 || in->failed) {
            return !in->failed;
        }
        uint64_t step = codec_get_varint(in);
        struct codec_in part = codec_get_part(in, len);
        struct codec_body body;
        if (step == 0 || step > UINT64_MAX - *end || part.failed ||
            !codec_get_body(part, &body)) {
            return false;
        }
        if (s != NULL) {
            (void)gossip_stream_take(g, s, *end, *end + step,
                                     codec_body_kept(part, &body));
        }
        *end += step;
    }
}

/* Notes that the primary has pushed up to pos: it is awake. */
static void
heard_primary(struct gossip *g, struct gossip_stream *s, uint64_t pos)
{
    CHECK(s->primary != 0 && s->rank != 0);
    s->primary_pos = pos > s->primary_pos ? pos : s->primary_pos;
    s->handing = false;
    s->heard = true;
    s->lag_us = 0;
    gossip_push_lag(g, s);
}

/* Where a DELTA comes from: the peer whose link brought it, and the peer that
 * pushed it; origin 0: the DELTA is an answer. */
struct from {
    uint64_t peer;
    uint64_t origin;
};

static int
recv_section(struct gossip *g, struct from from, struct codec_in *in)
{
    struct section section;
    uint64_t end = 0;

    if (!get_head(in, &section)) {
        return GOSSIP_E_BAD;
    }
    struct gossip_stream *s = gossip_find(g, section.name);
    if (s == NULL) {
        g->stats.dropped_unknown++;
    } else if (!gossip_stream_meet(
                   g, s,
                   &(struct gossip_met){
                       .peer = from.origin != 0 ? from.origin : from.peer,
                       .epoch = section.epoch,
                       .whole = section.whole,
                       .complete = section.complete,
                       .lives = from.origin != 0,
                       .records = true,
                       .from_start = section.prev == 0,
                   })) {
        g->stats.dropped_epoch++;
        s = NULL;
    }
    bool sound = get_records(g, s, in, section.prev, &end);
    if (s == NULL) {
        return sound ? 0 : GOSSIP_E_BAD;
    }
    if (from.origin != 0 && from.origin == s->primary) {
        heard_primary(g, s, end);
    }
    if (s->pull.open && s->pull.peer == from.peer &&
        gossip_need(s) != s->pull.from) {
        s->pull.open = false;
    }
    gossip_pull(g, s, from.peer);
    return sound ? 0 : GOSSIP_E_BAD;
}

static int
recv_sections(struct gossip *g, struct from from, struct codec_in in)
{
    while (codec_left(&in) > 0 && !in.failed) {
        int rc = recv_section(g, from, &in);
        if (rc != 0) {
            return rc;
        }
    }
    return in.failed ? GOSSIP_E_BAD : 0;
}

int
gossip_recv_delta(struct gossip *g, uint64_t peer, struct codec_in in)
{
    bool pushed = (codec_get_u8(&in) & DELTA_PUSH) != 0;
    struct from from = {.peer = peer, .origin = pushed ? peer : 0};

    return recv_sections(g, from, in);
}

/* Missing records are pulled from the peer that pushed, if it is up: the peer
 * that passed the push on may miss them, too. */
int
gossip_recv_push(struct gossip *g, uint64_t peer, uint64_t origin,
                 struct codec_in in)
{
    bool known = gossip_peer_is_good(g, origin);
    struct from from = {.peer = known ? origin : peer, .origin = origin};

    (void)codec_get_u8(&in);
    return recv_sections(g, from, in);
}
