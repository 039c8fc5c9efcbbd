/*
 * Outputs: frames for peers, records to apply, states, exports, and requests to
 * read again.
 */
#include <stdlib.h>
#include <string.h>

#include "gossip/gossip_internal.h"

void
gossip_ready(struct gossip *g, struct gossip_stream *s)
{
    if (s->ready) {
        CHECK(g->ready_first != NULL);
        return;
    }
    s->ready = true;
    s->next_ready = NULL;
    if (g->ready_first == NULL) {
        g->ready_first = s;
    } else {
        CHECK(g->ready_last->next_ready == NULL);
        g->ready_last->next_ready = s;
    }
    g->ready_last = s;
}

void
gossip_wake_at(struct gossip *g, uint64_t at_us)
{
    g->wake_us = at_us < g->wake_us ? at_us : g->wake_us;
}

/* Frames */

void
gossip_frame_begin(struct gossip *g, enum gossip_frame_type type)
{
    CHECK(type >= GOSSIP_FRAME_SUMMARY && type <= GOSSIP_FRAME_NAMES);
    CHECK(g->build.max == g->config.frame_bytes);
    g->build.len = 0;
    g->build.failed = false;
    codec_put_u8(&g->build, (uint8_t)type);
    codec_put_u8(&g->build, 0);
}

void
gossip_put_stream(struct gossip *g, const struct gossip_stream *s)
{
    CHECK(!s->removed);
    codec_put_u64(&g->build, s->name.worker);
    codec_put_varint(&g->build, s->name.rank);
}

static void
unref(struct gossip_frame *frame)
{
    CHECK(frame->refs > 0);
    if (--frame->refs == 0) {
        free(frame);
    }
}

void
gossip_send_drop(struct gossip *g)
{
    CHECK(g->sends_count > 0);
    unref(g->sends[g->sends_first].frame);
    g->sends_first = (g->sends_first + 1) % g->config.sends_max;
    g->sends_count--;
    CHECK(g->sends_first < g->config.sends_max);
}

static void
send_frame(struct gossip *g, struct gossip_frame *frame, uint64_t peer,
           enum gossip_channel channel)
{
    CHECK(frame->refs > 0 && peer != 0 && peer != g->self);
    CHECK(g->sends_count <= g->config.sends_max);
    if (g->sends_count == g->config.sends_max) {
        g->stats.sends_dropped++;
        return;
    }
    uint32_t at = (g->sends_first + g->sends_count) % g->config.sends_max;
    g->sends[at] =
        (struct gossip_send){.frame = frame, .peer = peer, .channel = channel};
    g->sends_count++;
    frame->refs++;
    g->stats.frames_out++;
    g->stats.bytes_out += frame->len;
}

void
gossip_frame_send(struct gossip *g, uint64_t peer, enum gossip_channel channel)
{
    CHECK(!g->build.failed);
    CHECK(g->build.len >= 2 && g->build.len <= g->config.frame_bytes);
    CHECK_SLOW(peer == 0 || gossip_peer_at(g, peer) != GOSSIP_PEER_NONE);
    struct gossip_frame *frame = malloc(sizeof *frame + g->build.len);
    if (frame == NULL) {
        g->stats.no_memory++;
        return;
    }
    frame->refs = 1;
    frame->len = (uint32_t)g->build.len;
    memcpy(frame->bytes, g->build.bytes, g->build.len);
    if (peer != 0) {
        send_frame(g, frame, peer, channel);
    }
    for (uint32_t i = 0; i < g->config.peers_max && peer == 0; i++) {
        if (g->peers[i].id != 0) {
            send_frame(g, frame, g->peers[i].id, channel);
        }
    }
    unref(frame);
}

/* Records that are in no log */

bool
gossip_direct_add(struct gossip *g, struct gossip_stream *s, uint64_t pos,
                  const uint8_t *body, uint32_t len)
{
    struct gossip_direct *direct = malloc(sizeof *direct + len);

    CHECK(body != NULL && len > 0 && !s->removed);
    CHECK(*s->direct_end == NULL);
    if (direct == NULL) {
        g->stats.no_memory++;
        return false;
    }
    *direct = (struct gossip_direct){.pos = pos, .at = s->pos, .len = len};
    memcpy(direct->body, body, len);
    *s->direct_end = direct;
    s->direct_end = &direct->next;
    gossip_ready(g, s);
    return true;
}

void
gossip_direct_drop(struct gossip_stream *s)
{
    while (s->direct != NULL) {
        struct gossip_direct *next = s->direct->next;
        free(s->direct);
        s->direct = next;
    }
    s->direct_end = &s->direct;
}

/* Outputs */

static void
out_record(struct gossip *g, struct gossip_stream *s, struct gossip_out *out,
           const uint8_t *bytes, uint32_t len, uint64_t prev, uint64_t pos)
{
    struct codec_body body;
    bool sound = codec_get_body(
        (struct codec_in){.at = bytes, .end = bytes + len}, &body);

    CHECK(sound);
    CHECK(!s->removed && s->epoch.no != 0);
    *g->record = (struct event_record){
        .stream = s->name,
        .epoch = s->epoch_name,
        .seq = pos,
        .holes = body.holes,
        .block_tokens = body.block_tokens,
        .words_count = body.words_count,
    };
    codec_body_words(&body, g->record->words);
    if (pos != 0) {
        gossip_names_record(g, s, &body, g->record->words, prev, pos);
    }
    out->kind = GOSSIP_APPLY;
    out->record = g->record;
    g->stats.records_applied++;
}

static bool
out_direct(struct gossip *g, struct gossip_stream *s, struct gossip_out *out)
{
    struct gossip_direct *direct = s->direct;

    if (direct == NULL) {
        return false;
    }
    CHECK(g->lent_direct == NULL);
    s->direct = direct->next;
    if (s->direct == NULL) {
        s->direct_end = &s->direct;
    }
    CHECK(*s->direct_end == NULL);
    uint64_t prev = s->told;
    s->told = direct->at;
    out_record(g, s, out, direct->body, direct->len, prev, direct->pos);
    g->lent_direct = direct;
    return true;
}

/* Hands out the log's next record, if there is one. */
static bool
out_logged(struct gossip *g, struct gossip_stream *s, struct gossip_out *out)
{
    struct codec_body body;

    CHECK(s->direct == NULL && g->lent_direct == NULL);
    if (s->epoch.no == 0 || s->transfer.begun ||
        !delta_log_covers(&s->log, s->pos) || s->log.high == s->pos) {
        return false;
    }
    const struct delta_log_entry *entry =
        delta_log_entry_at(&s->log, delta_log_after(&s->log, s->pos));
    const uint8_t *bytes = s->log.bytes + entry->at;
    bool sound = codec_get_body(
        (struct codec_in){.at = bytes, .end = bytes + entry->len}, &body);
    CHECK(sound);
    gossip_stream_applied(s, &body, entry->pos);
    uint64_t prev = s->told;
    s->told = entry->pos;
    out_record(g, s, out, bytes, entry->len, prev, entry->pos);
    gossip_stream_moved(g, s);
    return true;
}

static bool
out_state(struct gossip *g, struct gossip_stream *s, struct gossip_out *out)
{
    bool complete = s->epoch.no != 0 && s->complete;
    bool stale = gossip_is_stale(g, s);
    bool contested = gossip_is_contested(s, g->now_us);

    if (complete == s->told_complete && stale == s->told_stale &&
        contested == s->told_contested) {
        return false;
    }
    s->told_complete = complete;
    s->told_stale = stale;
    s->told_contested = contested;
    out->kind = GOSSIP_STATE;
    out->complete = complete;
    out->stale = stale;
    out->contested = contested;
    return true;
}

static bool
out_stream(struct gossip *g, struct gossip_stream *s, struct gossip_out *out)
{
    CHECK(s->ready);
    if (s->removed) {
        return false;
    }
    *out = (struct gossip_out){
        .stream = s->name, .epoch = s->epoch, .name = s->epoch_name};
    if (s->reset != NULL) {
        out->kind = GOSSIP_RESET;
        out->reason = s->reset;
        s->reset = NULL;
        return true;
    }
    if (out_direct(g, s, out) || out_logged(g, s, out) ||
        out_state(g, s, out)) {
        return true;
    }
    if (s->resumes) {
        s->resumes = false;
        out->kind = GOSSIP_REREAD;
        out->reason = "names are known";
        out->resume = true;
        return true;
    }
    if (s->reread != NULL) {
        out->kind = GOSSIP_REREAD;
        out->reason = s->reread;
        out->ask = s->ask;
        out->prove = s->asked == GOSSIP_ASKED_PROVE;
        s->reread = NULL;
        return true;
    }
    return false;
}

static bool
out_export(struct gossip *g, struct gossip_out *out)
{
    for (uint32_t i = 0; i < g->config.exports_max; i++) {
        struct gossip_export *e = &g->exports[i];
        struct gossip_stream *s = e->open ? gossip_find(g, e->stream) : NULL;

        if (!e->open || e->handed) {
            continue;
        }
        if (s == NULL) {
            e->open = false;
            continue;
        }
        CHECK(!s->removed && e->peer != 0);
        e->handed = true;
        *out = (struct gossip_out){.kind = GOSSIP_EXPORT,
                                   .stream = s->name,
                                   .epoch = s->epoch,
                                   .name = s->epoch_name,
                                   .cursor = e->cursor,
                                   .token = e->token};
        return true;
    }
    return false;
}

static bool
out_send(struct gossip *g, struct gossip_out *out)
{
    if (g->sends_count == 0) {
        return false;
    }
    CHECK(g->lent_frame == NULL);
    const struct gossip_send *send = &g->sends[g->sends_first];
    g->lent_frame = send->frame;
    g->lent_frame->refs++;
    *out = (struct gossip_out){.kind = GOSSIP_SEND,
                               .peer = send->peer,
                               .channel = send->channel,
                               .bytes = send->frame->bytes,
                               .len = send->frame->len};
    gossip_send_drop(g);
    return true;
}

bool
gossip_next_out(struct gossip *g, struct gossip_out *out)
{
    CHECK(out != NULL);
    free(g->lent_direct);
    g->lent_direct = NULL;
    if (g->lent_frame != NULL) {
        unref(g->lent_frame);
        g->lent_frame = NULL;
    }
    while (g->ready_first != NULL) {
        struct gossip_stream *s = g->ready_first;
        CHECK(s->ready);
        if (out_stream(g, s, out)) {
            return true;
        }
        g->ready_first = s->next_ready;
        s->ready = false;
    }
    return gossip_belief_out(g, out) || out_export(g, out) || out_send(g, out);
}
