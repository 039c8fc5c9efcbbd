/* Transfer of a stream's whole state, page by page, on both sides. */
#include "gossip/gossip_internal.h"
#include "index/base/mutant.h"

enum page_status {
    PAGE_OK,
    PAGE_REFUSED
};

enum {
    PAGE_COMPLETE = 1
};

#define TRIES_MAX 3U
/* The longest wait after a refused transfer, and the shortest after one that had
 * begun. */
#define AGAIN_US UINT64_C(500000)

static void
send_ask(struct gossip *g, struct gossip_stream *s)
{
    struct gossip_transfer *t = &s->transfer;

    CHECK(t->active && t->peer != 0);
    CHECK(s->epoch.no != 0 && !s->removed);
    CHECK(g->transfers > 0 && g->transfers <= g->config.transfers_max);
    t->token = ++g->tokens;
    t->due_us = g->now_us + gossip_us(g->config.question_ms);
    gossip_frame_begin(g, GOSSIP_FRAME_ASK);
    codec_put_ask(&g->build, &(struct codec_ask){.name = s->name,
                                                 .epoch_id = t->epoch,
                                                 .token = t->token,
                                                 .cursor = t->cursor});
    gossip_frame_send(g, t->peer, GOSSIP_CTL);
    gossip_wake_at(g, t->due_us);
}

static void
start(struct gossip *g, struct gossip_stream *s, uint64_t peer, uint64_t epoch)
{
    CHECK(!s->transfer.active && g->transfers < g->config.transfers_max);
    s->transfer =
        (struct gossip_transfer){.active = true, .epoch = epoch, .peer = peer};
    s->pull.open = false;
    g->transfers++;
    g->stats.transfers++;
    send_ask(g, s);
}

void
gossip_transfer_start(struct gossip *g, struct gossip_stream *s, uint64_t peer)
{
    struct gossip_transfer *t = &s->transfer;

    CHECK(peer != 0);
    CHECK(!s->removed && (t->active || !t->begun));
    if (t->active) {
        return;
    }
    if (g->transfers >= g->config.transfers_max || g->now_us < t->again_us) {
        t->wanted = true;
        t->wanted_from = peer;
        t->again_us = t->again_us > g->now_us
                          ? t->again_us
                          : g->now_us + gossip_us(g->config.push_ms) + 1000;
        gossip_wake_at(g, t->again_us);
        return;
    }
    start(g, s, peer, s->epoch.id);
}

void
gossip_transfer_rival(struct gossip *g, struct gossip_stream *s, uint64_t peer)
{
    CHECK(s->rival.epoch.no != 0);
    CHECK(s->transfer.active || !s->transfer.begun);
    if (!s->transfer.active && g->transfers < g->config.transfers_max &&
        g->now_us >= s->transfer.again_us) {
        start(g, s, peer, s->rival.epoch.id);
    }
}

/* Ends a transfer, whatever became of it. */
void
gossip_transfer_stop(struct gossip *g, struct gossip_stream *s)
{
    CHECK(s->transfer.active || !s->transfer.begun);
    if (s->transfer.active) {
        CHECK(g->transfers > 0);
        g->transfers--;
    }
    s->transfer = (struct gossip_transfer){.again_us = s->transfer.again_us};
}

static void
fail(struct gossip *g, struct gossip_stream *s)
{
    bool begun = s->transfer.begun;

    CHECK(s->transfer.active);
    g->stats.transfers_failed++;
    gossip_transfer_stop(g, s);
    s->transfer.again_us = g->now_us + rng_below(&g->rng, AGAIN_US);
    if (begun) {
        s->transfer.again_us += AGAIN_US; /* all that came has to come again */
        gossip_rebuild_back(g, s, "transfer failed");
    }
    CHECK(!s->transfer.active);
}

void
gossip_transfer_tick(struct gossip *g, struct gossip_stream *s)
{
    struct gossip_transfer *t = &s->transfer;

    CHECK(!s->removed);
    if (t->active && g->now_us >= t->due_us) {
        if (++t->tries < TRIES_MAX) {
            send_ask(g, s);
        } else {
            fail(g, s);
        }
    } else if (!t->active && t->wanted && g->now_us >= t->again_us) {
        t->wanted = false;
        if (gossip_peer_at(g, t->wanted_from) != GOSSIP_PEER_NONE &&
            (gossip_need(s) < s->known || s->lost)) {
            gossip_transfer_start(g, s, t->wanted_from);
        }
    }
}

void
gossip_transfer_drop_peer(struct gossip *g, uint64_t peer)
{
    CHECK(peer != 0 && gossip_peer_at(g, peer) == GOSSIP_PEER_NONE);
    for (uint32_t i = 0; i < g->streams_count; i++) {
        struct gossip_stream *s = g->streams[i];
        if (s->transfer.active && s->transfer.peer == peer) {
            fail(g, s);
        }
    }
}

/* The server's end */

static void
begin_page(struct gossip *g, const struct codec_ask *ask,
           enum page_status status)
{
    CHECK(status == PAGE_OK || status == PAGE_REFUSED);
    gossip_frame_begin(g, GOSSIP_FRAME_PAGE);
    codec_put_ask(&g->build, ask);
    codec_put_u8(&g->build, (uint8_t)status);
}

static void
refuse(struct gossip *g, uint64_t peer, const struct codec_ask *ask)
{
    begin_page(g, ask, PAGE_REFUSED);
    gossip_frame_send(g, peer, GOSSIP_CTL);
    g->stats.pages_refused++;
}

static struct gossip_export *
free_export(struct gossip *g, uint64_t peer, const struct codec_ask *ask)
{
    struct gossip_export *found = NULL;

    CHECK(peer != 0);
    for (uint32_t i = 0; i < g->config.exports_max; i++) {
        struct gossip_export *e = &g->exports[i];
        if (!e->open) {
            found = e;
        } else if (e->peer == peer && e->epoch_id == ask->epoch_id &&
                   e->stream.worker == ask->name.worker &&
                   e->stream.rank == ask->name.rank) {
            return e; /* the peer repeats its question */
        }
    }
    return found;
}

static bool
can_serve(const struct gossip_stream *s, uint64_t epoch_id)
{
    return s != NULL && s->epoch.no != 0 && s->epoch.id == epoch_id &&
           !gossip_is_torn(s);
}

int
gossip_recv_ask(struct gossip *g, uint64_t peer, struct codec_in in)
{
    struct codec_ask ask;

    if (!codec_get_ask(&in, &ask)) {
        return GOSSIP_E_BAD;
    }
    struct gossip_stream *s = gossip_find(g, ask.name);
    struct gossip_export *e =
        can_serve(s, ask.epoch_id) ? free_export(g, peer, &ask) : NULL;
    if (e == NULL) {
        refuse(g, peer, &ask);
        return 0;
    }
    *e = (struct gossip_export){
        .open = true,
        .stream = s->name,
        .epoch_id = ask.epoch_id,
        .peer = peer,
        .peer_token = ask.token,
        .cursor = ask.cursor,
        .token = ++g->tokens,
    };
    return 0;
}

void
gossip_exported(struct gossip *g, uint64_t token, const uint64_t *words,
                uint32_t count, uint64_t next, uint64_t now_us)
{
    struct gossip_export *e = NULL;

    g->now_us = now_us;
    for (uint32_t i = 0; i < g->config.exports_max && e == NULL; i++) {
        bool is = g->exports[i].open && g->exports[i].token == token;
        e = is ? &g->exports[i] : NULL;
    }
    if (e == NULL) {
        return;
    }
    CHECK(e->handed);
    e->open = false;
    struct codec_ask ask = {.name = e->stream,
                            .epoch_id = e->epoch_id,
                            .token = e->peer_token,
                            .cursor = e->cursor};
    struct gossip_stream *s = gossip_find(g, e->stream);
    if (words == NULL || !can_serve(s, e->epoch_id)) {
        refuse(g, e->peer, &ask);
        return;
    }
    CHECK(count <= GOSSIP_PAGE_WORDS);
    begin_page(g, &ask, PAGE_OK);
    codec_put_u64(&g->build, next);
    codec_put_varint(&g->build, s->told);
    codec_put_u8(&g->build, s->complete ? PAGE_COMPLETE : 0);
    codec_put_varint(&g->build, s->holes);
    struct event_record head = {.holes = EVENT_HOLES_UNKNOWN,
                                .block_tokens = s->block_tokens};
    codec_put_body(&g->build, &head, words, count, 0, 0);
    gossip_frame_send(g, e->peer, GOSSIP_BULK);
    g->stats.pages_out++;
}

/* The receiver's end */

struct page {
    struct codec_ask ask;
    uint8_t status;
    uint64_t next;
    uint64_t pos;
    bool complete;
    uint32_t holes;
    struct codec_in bytes; /* of the body */
    struct codec_body body;
};

static bool
get_page(struct codec_in *in, struct page *page)
{
    *page = (struct page){0};
    if (!codec_get_ask(in, &page->ask)) {
        return false;
    }
    page->status = codec_get_u8(in);
    if (page->status != PAGE_OK) {
        return !in->failed;
    }
    page->next = codec_get_u64(in);
    page->pos = codec_get_varint(in);
    page->complete = (codec_get_u8(in) & PAGE_COMPLETE) != 0;
    page->holes = codec_get_count(in, UINT32_MAX);
    page->bytes = *in;
    return !in->failed && codec_get_body(*in, &page->body);
}

/* The state becomes the server's at S0, as far as the pages tell. */
static void
begin_state(struct gossip *g, struct gossip_stream *s, const struct page *page)
{
    struct gossip_transfer kept = s->transfer;

    CHECK(kept.active && !kept.begun);
    gossip_rebuild_note(s);
    s->transfer.active = false; /* a reset must not end this transfer */
    gossip_stream_reset(g, s, "transfer");
    gossip_names_skip(g, s, page->pos);
    s->transfer = kept;
    s->transfer.begun = true;
    s->pos = page->pos;
    s->complete = page->complete;
    s->block_tokens = page->body.block_tokens;
    if (!delta_log_covers(&s->log, s->pos)) {
        delta_log_restart(&s->log, s->pos);
    }
    CHECK(delta_log_covers(&s->log, s->pos) && s->direct == NULL);
}

/* Tells the count of holes, which no record after the pages does otherwise. */
static bool
tell_holes(struct gossip *g, struct gossip_stream *s, const struct page *page)
{
    uint8_t bytes[64];
    struct codec_out out = {.bytes = bytes, .max = sizeof bytes};
    struct event_record head = {.holes = page->holes,
                                .block_tokens = s->block_tokens};

    s->holes = page->holes;
    codec_put_body(&out, &head, NULL, 0, 0, 0);
    CHECK(!out.failed);
    return gossip_direct_add(g, s, s->pos, bytes, (uint32_t)out.len);
}

static void
end_state(struct gossip *g, struct gossip_stream *s, const struct page *page)
{
    uint64_t peer = s->transfer.peer;

    CHECK(s->transfer.active && s->transfer.begun);
    if (s->pos == page->pos && !tell_holes(g, s, page)) {
        fail(g, s);
        return;
    }
    gossip_transfer_stop(g, s);
    g->stats.transfers_done++;
    s->settle = MUTANT(UNSETTLED) ? 0 : page->pos;
    s->torn_us = 0;
    gossip_stream_known(g, s, page->pos);
    gossip_wake_at(g, g->now_us); /* the names are missing now */
    gossip_pull(g, s, peer);
}

/* The state of the rival is there: the stream goes over to its epoch. False: it
 * has no use for that any more. */
static bool
follow(struct gossip *g, struct gossip_stream *s)
{
    struct gossip_transfer kept = s->transfer;

    if (kept.epoch == s->epoch.id) {
        return true;
    }
    CHECK(kept.active && !kept.begun);
    s->transfer.active = false; /* a reset must not end this transfer */
    bool follows = gossip_stream_follow(g, s, kept.epoch);
    s->transfer = kept;
    return follows;
}

static void
take_page(struct gossip *g, struct gossip_stream *s, const struct page *page)
{
    struct gossip_transfer *t = &s->transfer;

    CHECK(t->active && page->status == PAGE_OK);
    if (!t->begun && (gossip_leads(s) || s->lost) && page->pos < s->log.low) {
        fail(g, s); /* what came since is in no log of ours */
        return;
    }
    if (!t->begun) {
        begin_state(g, s, page);
    }
    g->stats.pages_in++;
    if (page->pos < s->pos ||
        !gossip_direct_add(g, s, 0, page->bytes.at,
                           (uint32_t)codec_left(&page->bytes))) {
        fail(g, s);
        return;
    }
    gossip_stream_known(g, s, page->pos);
    if (page->next == GOSSIP_CURSOR_END) {
        end_state(g, s, page);
        return;
    }
    t->cursor = page->next;
    t->tries = 0;
    send_ask(g, s);
    gossip_pull(g, s, t->peer);
}

int
gossip_recv_page(struct gossip *g, uint64_t peer, struct codec_in in)
{
    struct page page;

    if (!get_page(&in, &page)) {
        return GOSSIP_E_BAD;
    }
    struct gossip_stream *s = gossip_find(g, page.ask.name);
    if (s == NULL || !s->transfer.active || s->transfer.peer != peer ||
        s->transfer.token != page.ask.token ||
        s->transfer.cursor != page.ask.cursor ||
        s->transfer.epoch != page.ask.epoch_id) {
        return 0;
    }
    if (page.status != PAGE_OK || !follow(g, s)) {
        fail(g, s);
    } else {
        take_page(g, s, &page);
    }
    return 0;
}
