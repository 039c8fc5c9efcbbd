/*
 * The engine's names for a stream's blocks: a table that the records' names
 * keep in step with the reader's ledger, and its transfer to a node that lacks
 * it.
 *
 * A table is as of the end of a batch. What the parts of a batch say waits
 * until the last part, because a reading goes on between two batches.
 *
 * The transfer is a fuzzy snapshot, like that of a state (transfer.c), but the
 * replica is whole meanwhile. The receiver begins with an empty table at its
 * position, applies the records that come, and remembers what left. A page
 * fills in the names of which no record told since: for the others the records
 * know better, or will. Pages from before the receiver's position are of no
 * use. When the records have reached the last page's position, the table is the
 * reader's.
 *
 * Where no peer has a table that is as new as its state, an older one is asked
 * for. Records do not reach it, so nothing happens to it at either end meanwhile.
 *
 * A table belongs to an epoch, not to a state: it stays when a peer's state
 * takes the place of the own one. Where the records do not go on from its
 * position, or one does not tell its names, it stays as it was, and is old. A
 * reading can go on from it as far back as the engine's replay reaches. It goes
 * only when a newer one is there.
 */
#include <stdlib.h>
#include <string.h>

#include "gossip/gossip_internal.h"

#define PAGE_BLOCKS 3000U
#define BLOCK_BYTES 27U /* at most */
#define TRIES_MAX   3U
#define AGAIN_US    UINT64_C(500000)
#define FULL_US     UINT64_C(60000000) /* until it is tried again */
#define BATCH_WORDS ((size_t)1 << 20)
#define BATCH_KEPT  ((size_t)1 << 12) /* words of room, for the next batch */

_Static_assert(PAGE_BLOCKS *BLOCK_BYTES + 8 * NAMES_READER_MAX < CODEC_BODY_MAX,
               "a page fits a frame");
_Static_assert(PAGE_BLOCKS * sizeof(struct names_block) <= GOSSIP_NAMES_BUILD,
               "a page has its room");

static void
drop_spare(struct gossip *g, struct gossip_ledger *n)
{
    if (n->spare != NULL) {
        names_clear(&n->spare->table, &g->names_room);
        free(n->spare);
        n->spare = NULL;
    }
}

static void
stop_asking(struct gossip *g, struct gossip_stream *s)
{
    s->names.peer = 0;
    names_settle(&s->names.table);
    drop_spare(g, &s->names);
}

/* What a batch says until its end counts as names do. */
static void
free_batch(struct gossip *g, struct gossip_stream *s)
{
    size_t bytes = s->names.batch.room * sizeof(uint64_t);

    CHECK(g->names_room.bytes >= bytes);
    g->names_room.bytes -= bytes;
    words_fini(&s->names.batch);
}

static void
empty_batch(struct gossip *g, struct gossip_stream *s)
{
    if (s->names.batch.room > BATCH_KEPT) {
        free_batch(g, s);
    }
    words_clear(&s->names.batch);
    s->names.clears = false;
}

static bool
get_names(struct gossip *g, struct gossip_ledger *n,
          const struct codec_body *body, const uint64_t *words, uint64_t *print)
{
    struct names_room *room = &g->names_room;
    size_t before = n->batch.room;
    size_t most = before + (room->bytes_max - room->bytes) / sizeof(uint64_t);

    CHECK(room->bytes <= room->bytes_max && before <= BATCH_WORDS);
    n->batch.words_max = most < BATCH_WORDS ? most : BATCH_WORDS;
    bool sound = codec_get_names(body, words, &n->batch, print);
    room->bytes += (n->batch.room - before) * sizeof(uint64_t);
    return sound;
}

/* For a copy of the tables. */
static void
journal(struct gossip *g, const struct gossip_stream *s,
        enum names_copy_kind kind)
{
    names_copy_put(g->names_journal,
                   &(struct names_copy){.kind = kind, .stream = s->name});
}

static void
empty(struct gossip *g, struct gossip_stream *s, bool known)
{
    struct gossip_ledger *n = &s->names;

    if (known) {
        journal(g, s, NAMES_COPY_BEGIN);
    }
    gossip_hand_lost(g, s);
    names_clear(&n->table, &g->names_room);
    stop_asking(g, s);
    empty_batch(g, s);
    n->known = known;
    n->pos = 0;
    n->print = 0;
    n->at = 0;
    CHECK(n->table.count == 0 && n->peer == 0 && n->spare == NULL);
}

void
gossip_names_begin(struct gossip *g, struct gossip_stream *s)
{
    empty(g, s, true);
}

void
gossip_names_forget(struct gossip *g, struct gossip_stream *s)
{
    empty(g, s, false);
}

void
gossip_names_fini(struct gossip *g, struct gossip_stream *s)
{
    gossip_names_forget(g, s);
    free_batch(g, s);
}

/* The peer's table does not come: the one of before is in its place again. */
static void
go_back(struct gossip *g, struct gossip_stream *s)
{
    struct gossip_ledger *n = &s->names;
    struct gossip_named *spare = n->spare;

    n->spare = NULL;
    gossip_names_forget(g, s);
    n->offer = 0; /* until a vector says so again */
    if (spare != NULL) {
        n->table = spare->table;
        n->known = true;
        n->pos = spare->pos;
        n->at = spare->pos;
        n->print = spare->print;
        free(spare);
        journal(g, s, NAMES_COPY_LOST); /* no entry told how it came back */
    }
}

void
gossip_names_moved(struct gossip *g, struct gossip_stream *s)
{
    if (s->names.peer != 0) {
        go_back(g, s);
    }
    if (s->names.known && !gossip_names_fresh(s)) {
        gossip_names_forget(g, s);
    }
}

/* A record came that does not go on from the table, or does not tell: the table
 * stays as it was, and is old. */
static void
miss(struct gossip *g, struct gossip_stream *s, uint64_t prev, uint64_t pos)
{
    struct gossip_ledger *n = &s->names;

    empty_batch(g, s);
    g->stats.names_lost += prev <= n->at && (n->known || n->peer != 0);
    if (n->peer != 0 && !n->old) {
        go_back(g, s);
    } else {
        n->at = n->known || n->peer != 0 ? n->pos : pos;
    }
}

/* No room, or it cannot be: what was applied in part is not the reader's. */
static void
lose(struct gossip *g, struct gossip_stream *s, uint64_t wait_us)
{
    g->stats.names_lost += s->names.known || s->names.peer != 0;
    go_back(g, s);
    s->names.again_us = g->now_us + wait_us;
}

bool
gossip_names(const struct gossip *g, struct event_stream stream,
             struct gossip_names *names)
{
    const struct gossip_stream *s = gossip_find(g, stream);

    if (s == NULL || s->epoch.no == 0 || !s->names.known || s->names.pos == 0 ||
        s->names.table.reader_count == 0) {
        return false;
    }
    *names = (struct gossip_names){.epoch = s->epoch,
                                   .whole = s->whole,
                                   .seq = s->names.pos >> 8,
                                   .fingerprint = s->names.print,
                                   .table = &s->names.table};
    return true;
}

/* ---- copies ---- */

void
gossip_names_watch(struct gossip *g, struct words *journal)
{
    g->names_journal = journal;
}

bool
gossip_names_table(const struct gossip *g, uint32_t at,
                   struct event_stream *stream, const struct names **table)
{
    struct gossip_status status;

    if (!gossip_status(g, at, &status)) {
        return false;
    }
    *stream = status.stream;
    *table = status.names_known ? &gossip_find(g, *stream)->names.table : NULL;
    return true;
}

bool
gossip_load_names(struct gossip *g, struct event_stream stream,
                  uint64_t fingerprint, struct names *table)
{
    struct gossip_stream *s = gossip_find(g, stream);
    size_t bytes = names_bytes(table);

    CHECK(!table->keeps && table->left == 0);
    if (s == NULL || s->epoch.no == 0 || s->names.known || s->names.peer != 0 ||
        (s->pos & GOSSIP_PART_LAST) != GOSSIP_PART_LAST ||
        bytes > g->names_room.bytes_max - g->names_room.bytes) {
        return false;
    }
    CHECK(s->names.table.count == 0);
    names_clear(&s->names.table, &g->names_room);
    g->names_room.bytes += bytes;
    s->names.table = *table;
    s->names.known = true;
    s->names.pos = s->pos;
    s->names.at = s->pos;
    s->names.print = fingerprint;
    *table = (struct names){.count = 0};
    return true;
}

/* ---- records ---- */

/* The records have reached all that the pages told. */
static void
settle(struct gossip *g, struct gossip_stream *s)
{
    struct gossip_ledger *n = &s->names;

    if (n->peer != 0 && n->cursor == NAMES_END && n->pos >= n->until) {
        stop_asking(g, s);
        n->known = true;
        n->offer = 0;
        journal(g, s, NAMES_COPY_LOST); /* no entry told how it came about */
        gossip_local_named(g, s);
    }
}

/* The engine cleared its cache: what it holds is known from here on. */
static void
clear(struct gossip *g, struct gossip_stream *s)
{
    struct names reader = {.reader_count = s->names.table.reader_count,
                           .reader_known = s->names.table.reader_known};

    memcpy(reader.reader, s->names.table.reader, sizeof reader.reader);
    gossip_hand_lost(g, s);
    names_clear(&s->names.table, &g->names_room);
    stop_asking(g, s);
    s->names.table = reader;
    s->names.known = true;
    s->names.offer = 0;
    journal(g, s, NAMES_COPY_CLEAR);
}

static void
end_batch(struct gossip *g, struct gossip_stream *s, uint64_t pos,
          uint64_t print)
{
    struct gossip_ledger *n = &s->names;

    if (n->clears) {
        clear(g, s);
    }
    if (n->known || n->peer != 0) {
        int rc = n->batch.failed ? NAMES_E_FULL
                                 : names_apply(&n->table, &g->names_room,
                                               n->batch.word, n->batch.count);
        if (rc != 0) {
            lose(g, s, rc == NAMES_E_FULL ? FULL_US : AGAIN_US);
            return;
        }
        gossip_hand_said(g, s, &n->batch);
    }
    if (n->known && n->batch.count > 0) {
        names_copy_put(g->names_journal,
                       &(struct names_copy){.kind = NAMES_COPY_SAID,
                                            .stream = s->name,
                                            .words = n->batch.word,
                                            .count = n->batch.count});
    }
    n->pos = pos;
    n->print = print;
    empty_batch(g, s);
    settle(g, s);
}

void
gossip_names_record(struct gossip *g, struct gossip_stream *s,
                    const struct codec_body *body, const uint64_t *words,
                    uint64_t prev, uint64_t pos)
{
    struct gossip_ledger *n = &s->names;
    uint64_t print = 0;

    CHECK(pos != 0 && s->epoch.no != 0);
    if (pos <= n->at) {
        return; /* the table has them */
    }
    bool follows = prev <= n->at || body->clears;
    if (!follows || !body->has_names) { /* not told, or cut off */
        miss(g, s, prev, pos);
        return;
    }
    n->at = pos;
    if (body->clears) {
        words_clear(&n->batch);
        n->clears = true;
    }
    if (!get_names(g, n, body, words, &print)) {
        n->again_us = g->now_us + (n->batch.failed ? FULL_US : 0);
        miss(g, s, prev, pos);
        return;
    }
    if ((pos & GOSSIP_PART_LAST) == GOSSIP_PART_LAST) {
        end_batch(g, s, pos, print);
    }
}

void
gossip_names_skip(struct gossip *g, struct gossip_stream *s, uint64_t pos)
{
    struct gossip_ledger *n = &s->names;
    struct codec_body body;
    uint64_t prev = n->at;

    if (n->peer != 0) {
        go_back(g, s);
    }
    for (uint32_t i = delta_log_covers(&s->log, n->at)
                          ? delta_log_after(&s->log, n->at)
                          : s->log.count;
         i < s->log.count; i++) {
        const struct delta_log_entry *entry = delta_log_entry_at(&s->log, i);
        const uint8_t *bytes = s->log.bytes + entry->at;
        if (entry->pos > pos) {
            break;
        }
        bool sound = codec_get_body(
            (struct codec_in){.at = bytes, .end = bytes + entry->len}, &body);
        CHECK(sound);
        codec_body_words(&body, g->record->words);
        gossip_names_record(g, s, &body, g->record->words, prev, entry->pos);
        prev = entry->pos;
    }
}

/* ---- asking ---- */

static void
send_ask(struct gossip *g, struct gossip_stream *s)
{
    struct gossip_ledger *n = &s->names;

    CHECK(n->peer != 0 && s->epoch.no != 0);
    n->token = ++g->tokens;
    n->due_us = g->now_us + gossip_us(g->config.question_ms);
    gossip_frame_begin(g, GOSSIP_FRAME_NAMES_ASK);
    codec_put_ask(&g->build, &(struct codec_ask){.name = s->name,
                                                 .epoch_id = s->epoch.id,
                                                 .token = n->token,
                                                 .cursor = n->cursor});
    gossip_frame_send(g, n->peer, GOSSIP_CTL);
    gossip_wake_at(g, n->due_us);
}

/* They are not known, or old. */
static bool
is_behind(const struct gossip_stream *s)
{
    return s->epoch.no != 0 && (!s->names.known || s->names.at < s->told);
}

/* Whether a table of this position is of use, and newer than the one here. */
static bool
is_newer(const struct gossip_stream *s, uint64_t old)
{
    return old <= s->told && old > (s->names.known ? s->names.pos : 0);
}

/* Between two batches only, and not while the state is on its way. */
static bool
can_ask(const struct gossip *g, const struct gossip_stream *s)
{
    return is_behind(s) && s->names.peer == 0 && s->pos != 0 &&
           !gossip_is_torn(s) && g->now_us >= s->names.again_us;
}

bool
gossip_names_wanted(const struct gossip *g, const struct gossip_stream *s)
{
    const struct gossip_ledger *n = &s->names;

    return is_behind(s) && (n->offer_old == 0 || is_newer(s, n->offer_old)) &&
           gossip_peer_at(g, n->offer) != GOSSIP_PEER_NONE;
}

uint64_t
gossip_names_timer(const struct gossip *g, const struct gossip_stream *s)
{
    if (s->names.peer != 0) {
        return s->names.due_us;
    }
    bool asks = gossip_names_wanted(g, s) && s->pos != 0 && !gossip_is_torn(s);

    return asks ? s->names.again_us : UINT64_MAX;
}

void
gossip_names_met(struct gossip *g, struct gossip_stream *s, uint64_t peer,
                 uint64_t old)
{
    bool soon =
        s->epoch.no != 0 && s->pos < s->known; /* its state is missing */

    CHECK(peer != 0 && !s->removed);
    if ((is_behind(s) || soon) && (old == 0 || !gossip_names_wanted(g, s))) {
        s->names.offer = peer;
        s->names.offer_old = old;
        gossip_wake_at(g, g->now_us);
    }
}

static void
ask(struct gossip *g, struct gossip_stream *s, uint64_t peer)
{
    struct gossip_ledger *n = &s->names;

    CHECK(can_ask(g, s));
    struct gossip_named *spare = n->known ? malloc(sizeof *spare) : NULL;
    if (spare != NULL) {
        *spare = (struct gossip_named){
            .table = n->table, .pos = n->pos, .print = n->print};
        n->table = (struct names){.count = 0};
    }
    gossip_names_forget(g, s);
    n->spare = spare;
    names_keep_left(&n->table);
    n->peer = peer;
    n->old = n->offer_old != 0;
    n->at = n->old ? n->offer_old : s->told;
    n->cursor = 0;
    n->tries = 0;
    /* A batch that is half applied is told of by no record any more. */
    n->from = n->at | GOSSIP_PART_LAST;
    n->until = n->from;
    n->pos = n->at == n->from ? n->from : 0;
    g->stats.names_asked++;
    send_ask(g, s);
}

static void
fail(struct gossip *g, struct gossip_stream *s)
{
    go_back(g, s);
    s->names.again_us = g->now_us + rng_below(&g->rng, AGAIN_US);
}

void
gossip_names_back(struct gossip *g, struct gossip_stream *s)
{
    if (s->names.spare != NULL) {
        fail(g, s);
    }
}

void
gossip_names_tick(struct gossip *g, struct gossip_stream *s)
{
    struct gossip_ledger *n = &s->names;

    if (n->peer == 0 && can_ask(g, s) && gossip_names_wanted(g, s)) {
        ask(g, s, n->offer);
        return;
    }
    if (n->peer == 0 || g->now_us < n->due_us) {
        return;
    }
    if (n->cursor == NAMES_END || ++n->tries >= TRIES_MAX ||
        gossip_peer_at(g, n->peer) == GOSSIP_PEER_NONE) {
        fail(g, s); /* or the records do not come */
    } else {
        send_ask(g, s);
    }
}

/* ---- the server's end ---- */

static void
put_block(struct codec_out *out, const struct names_block *block)
{
    codec_put_varint(
        out, (uint64_t)block->copies << 1 | (uint64_t)block->has_parent);
    codec_put_u64(out, block->name);
    codec_put_u64(out, block->key);
    if (block->has_parent) {
        codec_put_u64(out, block->parent);
    }
}

static void
put_page(struct gossip *g, const struct gossip_stream *s, uint64_t cursor)
{
    struct names_block *blocks = (void *)g->names_build;
    const struct names *table = &s->names.table;
    uint64_t next = cursor;
    uint32_t count = names_page(table, cursor, blocks, PAGE_BLOCKS, &next);

    codec_put_u64(&g->build, next);
    codec_put_varint(&g->build, s->names.pos);
    codec_put_u64(&g->build, s->names.print);
    codec_put_varint(&g->build, table->reader_count);
    for (uint32_t i = 0; i < table->reader_count; i++) {
        codec_put_u64(&g->build, table->reader[i]);
    }
    codec_put_varint(&g->build, count);
    for (uint32_t i = 0; i < count; i++) {
        put_block(&g->build, &blocks[i]);
    }
}

int
gossip_recv_names_ask(struct gossip *g, uint64_t peer, struct codec_in in)
{
    struct codec_ask ask;

    if (!codec_get_ask(&in, &ask)) {
        return GOSSIP_E_BAD;
    }
    const struct gossip_stream *s = gossip_find(g, ask.name);
    bool serves = s != NULL && s->epoch.no != 0 &&
                  s->epoch.id == ask.epoch_id && s->names.known &&
                  s->names.pos != 0;

    gossip_frame_begin(g, GOSSIP_FRAME_NAMES);
    codec_put_ask(&g->build, &ask);
    codec_put_u8(&g->build, serves);
    if (serves) {
        put_page(g, s, ask.cursor);
        g->stats.names_pages_out++;
    } else {
        g->stats.names_refused++;
    }
    gossip_frame_send(g, peer, GOSSIP_BULK);
    return 0;
}

/* ---- the receiver's end ---- */

struct page {
    struct codec_ask ask;
    bool serves;
    uint64_t next;
    uint64_t pos;
    uint64_t print;
    uint32_t reader_count;
    uint64_t reader[NAMES_READER_MAX];
    uint32_t count;
    struct codec_in blocks;
};

static bool
get_page(struct codec_in *in, struct page *page)
{
    *page = (struct page){.serves = false};
    if (!codec_get_ask(in, &page->ask)) {
        return false;
    }
    page->serves = codec_get_u8(in) == 1;
    if (!page->serves) {
        return !in->failed;
    }
    page->next = codec_get_u64(in);
    page->pos = codec_get_varint(in);
    page->print = codec_get_u64(in);
    page->reader_count = codec_get_count(in, NAMES_READER_MAX);
    for (uint32_t i = 0; i < page->reader_count; i++) {
        page->reader[i] = codec_get_u64(in);
    }
    page->count = codec_get_count(in, PAGE_BLOCKS);
    page->blocks = *in;
    return !in->failed && page->next >= page->ask.cursor;
}

/* 0, GOSSIP_E_FULL or GOSSIP_E_BAD. */
static int
fill(struct gossip *g, struct gossip_stream *s, struct page *page)
{
    struct codec_in *in = &page->blocks;

    for (uint32_t i = 0; i < page->count; i++) {
        uint32_t head = codec_get_count(in, NAMES_COPIES_MAX << 1 | 1);
        struct names_block block = {.copies = head >> 1,
                                    .has_parent = (head & 1) != 0};
        block.name = codec_get_u64(in);
        block.key = codec_get_u64(in);
        block.parent = block.has_parent ? codec_get_u64(in) : 0;
        if (in->failed || block.copies == 0) {
            return GOSSIP_E_BAD;
        }
        if (names_fill(&s->names.table, &g->names_room, &block) != 0) {
            return GOSSIP_E_FULL;
        }
    }
    return 0;
}

static int
take_page(struct gossip *g, struct gossip_stream *s, struct page *page)
{
    struct gossip_ledger *n = &s->names;
    int rc = fill(g, s, page);

    g->stats.names_pages_in++;
    if (rc != 0) {
        lose(g, s, rc == GOSSIP_E_FULL ? FULL_US : AGAIN_US);
        return rc == GOSSIP_E_BAD ? rc : 0;
    }
    n->until = page->pos > n->until ? page->pos : n->until;
    if (!n->table.reader_known) {
        n->table.reader_count = page->reader_count;
        memcpy(n->table.reader, page->reader, sizeof page->reader);
    }
    if (n->pos == page->pos) {
        n->print = page->print;
    }
    n->tries = 0;
    if (page->next == page->ask.cursor && page->next != NAMES_END) {
        fail(g, s);
        return 0;
    }
    n->cursor = page->next;
    if (n->cursor == NAMES_END) {
        n->due_us = g->now_us + 3 * gossip_us(g->config.judge_ms);
        settle(g, s);
        gossip_wake_at(g, n->due_us);
    } else {
        send_ask(g, s);
    }
    return 0;
}

int
gossip_recv_names(struct gossip *g, uint64_t peer, struct codec_in in)
{
    struct page page;

    if (!get_page(&in, &page)) {
        return GOSSIP_E_BAD;
    }
    struct gossip_stream *s = gossip_find(g, page.ask.name);
    if (s == NULL || s->names.peer != peer ||
        s->names.token != page.ask.token ||
        s->names.cursor != page.ask.cursor ||
        s->epoch.id != page.ask.epoch_id) {
        return 0;
    }
    bool other =
        s->names.old ? page.pos != s->names.from : page.pos < s->names.from;
    if (!page.serves || other) {
        fail(g, s);
        return 0;
    }
    return take_page(g, s, &page);
}
