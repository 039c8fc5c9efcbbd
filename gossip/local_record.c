/* The records of this node's own readings, in parts that fit the log. */
#include "gossip/gossip_internal.h"

/* Compares a follower's record with the log or the names: it agrees, or it
 * proves another process. */
static void
compare(struct gossip *g, struct gossip_stream *s, uint64_t pos,
        uint64_t fingerprint)
{
    uint32_t print = 0;

    CHECK(pos > 0 && !gossip_leads(s));
    g->stats.dropped_follower++;
    if (gossip_print_at(s, pos, &print)) {
        s->reading.differs |= print != (uint32_t)fingerprint;
    }
}

/* A record that was applied before is read by a reading that goes on from older
 * names. */
static void
name_again(struct gossip *g, struct gossip_stream *s, uint64_t prev,
           uint64_t pos, const uint64_t *words, struct codec_in in)
{
    struct codec_body body;
    bool sound = codec_get_body(in, &body);

    CHECK(sound && gossip_leads(s));
    gossip_names_record(g, s, &body, words, prev, pos);
}

/* All nodes are to know how far the epoch goes. */
static void
put_ahead(struct codec_out *out, uint64_t seq)
{
    uint8_t bytes[8];
    struct codec_out field = {.bytes = bytes, .max = sizeof bytes};

    if (seq != 0 && seq < GOSSIP_SEQ_MAX) {
        codec_put_u64(&field, gossip_pos(seq, GOSSIP_PART_LAST));
        codec_put_field(out, CODEC_FIELD_AHEAD, bytes, field.len);
    }
}

/* The engine says batch after batch that the epoch does not go as far as peers
 * say: no reader is so far ahead of one that keeps up. So the epoch is not what
 * is read, and all that was read would be dropped as old. Of an epoch that took
 * its place for that it is not said again. */
static bool
is_outrun(const struct gossip_stream *s, uint64_t pos)
{
    return s->reading.live && s->epoch.id == s->reading.process &&
           s->pos > pos && (s->pos - pos) >> 8 > GOSSIP_FAR;
}

/* Takes one part of a batch. names: the bytes of its field, NULL: none. */
static void
take_part(struct gossip *g, struct gossip_stream *s, uint64_t pos,
          const struct event_record *head, const uint64_t *words,
          uint32_t count, uint64_t fingerprint, const struct codec_out *names)
{
    struct gossip_reading *reading = &s->reading;
    uint64_t prev = reading->pos;
    struct codec_out out = {.bytes = g->build.bytes, .max = g->build.max};

    CHECK(pos > prev);
    CHECK(reading->any && count <= GOSSIP_PART_WORDS);
    reading->pos = pos;
    reading->print_pos = pos;
    reading->print = (uint32_t)fingerprint;
    if ((pos & GOSSIP_PART_LAST) == GOSSIP_PART_LAST) {
        gossip_prints_add(&s->prints, pos >> 8, reading->print);
    }
    if (count > 0 && event_op_kind(words[0]) == EVENT_CLEAR) {
        reading->gap = false;
    }
    if (!gossip_leads(s)) {
        compare(g, s, pos, fingerprint);
        return;
    }
    codec_put_body(&out, head, words, count, fingerprint,
                   reading->gap ? CODEC_GAP : 0);
    if (names != NULL) {
        codec_put_field(&out, CODEC_FIELD_NAMES, names->bytes, names->len);
    }
    put_ahead(&out, head->ahead);
    CHECK(!out.failed && out.len <= CODEC_BODY_MAX);
    g->stats.records_local++;
    struct codec_in body = {.at = out.bytes, .end = out.bytes + out.len};
    (void)gossip_stream_take(g, s, prev, pos, body);
    if (is_outrun(s, pos)) {
        reading->differs = true;
        reading->lost = true;
        gossip_wake_at(g, g->now_us);
        return;
    }
    if (pos <= s->told && s->names.known && s->names.at < pos) {
        name_again(g, s, prev, pos, words, body);
    }
    gossip_push_lag(g, s);
    gossip_push_want(g, s);
}

/* Copies whole ops into `part`, and as many keys of the last op as there is
 * room for. Returns the count of words in `part`; *at and *in_op say where to
 * continue. */
static uint32_t
split_part(const struct event_record *record, uint32_t *at, uint32_t *in_op,
           uint64_t *part)
{
    uint32_t used = 0;

    CHECK(*at <= record->words_count);
    while (*at < record->words_count && used + 2 <= GOSSIP_PART_WORDS) {
        uint64_t op = record->words[*at];
        uint32_t keys = event_op_count(op);

        CHECK(keys < record->words_count - *at && *in_op <= keys);
        uint32_t left = keys - *in_op;
        uint32_t room = GOSSIP_PART_WORDS - used - 1;
        uint32_t now = left < room ? left : room;

        part[used++] = event_op(event_op_kind(op), event_op_tier(op), now);
        for (uint32_t i = 0; i < now; i++) {
            part[used++] = record->words[*at + 1 + *in_op + i];
        }
        *in_op += now;
        if (*in_op == keys) {
            *at += 1 + keys;
            *in_op = 0;
        }
    }
    CHECK(used <= GOSSIP_PART_WORDS);
    return used;
}

/* Takes the record in parts; false when a batch has too many. */
static bool
take_parts(struct gossip *g, struct gossip_stream *s,
           const struct event_record *record, uint64_t fingerprint, bool last)
{
    struct gossip_reading *reading = &s->reading;
    uint64_t *part = g->record->words;
    uint32_t at = 0;
    uint32_t in_op = 0;
    bool named = (record->names_count & EVENT_NAMED) != 0;
    struct codec_names names = {.words = record->words + record->words_count,
                                .count = record->names_count & ~EVENT_NAMED};
    bool ends;
    bool more;
    /* A record tells the holes after the whole batch; in its middle they are
     * unknown. */
    struct event_record head = {.seq = record->seq,
                                .ahead = record->ahead,
                                .block_tokens = record->block_tokens,
                                .holes = EVENT_HOLES_UNKNOWN};

    CHECK(reading->part < GOSSIP_PART_LAST &&
          (reading->split || reading->part == 0));
    do {
        struct codec_out bytes = {.bytes = g->names_build,
                                  .max = CODEC_NAMES_MAX};
        uint32_t count = split_part(record, &at, &in_op, part);
        bool done = at == record->words_count;
        if (named) {
            codec_put_names(&bytes, &names, part, count, done, fingerprint);
        }
        done = done && names.at == names.count;
        ends = last && done;
        more = !done;
        if (!ends && ++reading->part == GOSSIP_PART_LAST) {
            return false;
        }
        take_part(
            g, s,
            gossip_pos(record->seq, ends ? GOSSIP_PART_LAST : reading->part),
            ends ? record : &head, part, count, fingerprint,
            named ? &bytes : NULL);
    } while (more);
    reading->split = !last;
    reading->part = last ? 0 : reading->part;
    return true;
}

void
gossip_local_record(struct gossip *g, struct event_stream stream,
                    const struct event_record *record, uint64_t fingerprint,
                    bool last, uint64_t now_us)
{
    struct gossip_stream *s = gossip_find(g, stream);

    CHECK(record != NULL);
    g->now_us = now_us;
    if (s == NULL || !s->reading.any) {
        g->stats.dropped_unknown++;
        return;
    }
    bool rises = s->reading.split ? record->seq == s->reading.pos >> 8
                                  : gossip_pos(record->seq, 1) > s->reading.pos;
    if (record->seq >= GOSSIP_SEQ_MAX || !rises) {
        g->stats.dropped_old++;
        return;
    }
    if (!take_parts(g, s, record, fingerprint, last)) {
        gossip_local_gap(g, stream, now_us);
    }
    gossip_wake_at(g, now_us + gossip_us(g->config.stale_ms));
}
