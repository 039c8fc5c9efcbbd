#include "node/ingest/ingest_stream.h"
#include "index/base/mutant.h"

/* How a stream stands */

static enum kv_stream_state
state_of(const struct ingest_streams *f, const struct ingest_rank *rank)
{
    if (!rank->known) {
        return rank->read;
    }
    if (rank->stale) {
        return KV_STREAM_STALE;
    }
    if (rank->loaded) {
        return kv_stream_state_is_live(rank->read) ? KV_STREAM_STALE
                                                   : rank->read;
    }
    if (!kv_stream_state_is_live(rank->read) &&
        gossip_reads(f->gossip, rank->stream)) {
        return rank->read;
    }
    return rank->complete ? KV_STREAM_LIVE : KV_STREAM_PARTIAL;
}

unsigned
ingest_stream_tell(struct ingest_streams *f, struct ingest_rank *rank)
{
    bool reads = kv_stream_state_is_live(rank->read) &&
                 gossip_reads(f->gossip, rank->stream);

    rank->loaded = rank->loaded && !reads && !f->caught_up;
    enum kv_stream_state state = state_of(f, rank);
    if (state == rank->told) {
        return 0;
    }
    rank->told = state;
    mirror_writer_state(f->writer, rank->worker, rank->generation,
                        rank->stream.rank, state);
    return INGEST_TOLD | INGEST_VIEW;
}

/* What was read */

static void ON_CONTROL
begin(struct ingest_streams *f, struct ingest_rank *rank,
      const struct intake_item *item, uint64_t now_us)
{
    rank->begun = true;
    gossip_local_begin(f->gossip, rank->stream, item->process, item->whole,
                       item->ask, now_us);
}

static unsigned ON_CONTROL
take_state(struct ingest_streams *f, struct ingest_rank *rank,
           enum kv_stream_state state, uint64_t now_us)
{
    bool live = kv_stream_state_is_live(state);
    bool was = kv_stream_state_is_live(rank->read);

    rank->read = state;
    if (state == KV_STREAM_LIVE && rank->replays && !rank->begun) {
        struct intake_item empty = {.process = KV_STREAM_EMPTY, .whole = true};
        begin(f, rank, &empty, now_us);
    }
    if (live != was) {
        gossip_local_live(f->gossip, rank->stream, live, now_us);
    }
    return ingest_stream_tell(f, rank);
}

unsigned
ingest_stream_item(struct ingest_streams *f, struct ingest_rank *rank,
                   const struct intake_item *item,
                   const struct event_record *record, uint64_t now_us)
{
    switch ((enum intake_item_kind)item->kind) {
    case INTAKE_BEGIN:
        begin(f, rank, item, now_us);
        return 0;
    case INTAKE_RECORD:
        gossip_local_record(f->gossip, rank->stream, record, item->print,
                            item->last, now_us);
        return 0;
    case INTAKE_GAP:
        gossip_local_gap(f->gossip, rank->stream, now_us);
        return 0;
    case INTAKE_STATE:
        return take_state(f, rank, (enum kv_stream_state)item->state, now_us);
    case INTAKE_RESUME:
        rank->begun = true;
        gossip_local_resume(f->gossip, rank->stream, item->process, item->whole,
                            item->seq, now_us);
        return 0;
    case INTAKE_POSITION:
    case INTAKE_CUT:
        return 0;
    }
    return 0;
}

unsigned
ingest_stream_end(struct ingest_streams *f, struct ingest_rank *rank,
                  uint64_t now_us)
{
    gossip_local_end(f->gossip, rank->stream, now_us);
    rank->read = KV_STREAM_CONNECTING;
    rank->unasked = false;
    rank->begun = false;
    return ingest_stream_tell(f, rank);
}

/* What gossip says */

static uint32_t ON_CONTROL
whole_slot(const struct ingest_streams *f, const struct ingest_rank *rank)
{
    return mirror_writer_whole_slot(f->writer, rank->worker, rank->generation,
                                    rank->stream.rank);
}

/* Only of what holds all that was said is it worth while to compare. */
static void ON_CONTROL
tell_digest(struct ingest_streams *f, const struct ingest_rank *rank)
{
    uint32_t slot = whole_slot(f, rank);

    if (slot != WORKER_NONE) {
        gossip_digest(f->gossip, rank->stream,
                      mirror_slot_blocks(f->mirror, slot),
                      mirror_slot_digest(f->mirror, slot));
    }
}

static unsigned ON_CONTROL
apply(struct ingest_streams *f, const struct ingest_rank *rank,
      const struct event_record *record)
{
    int outcome = mirror_writer_record(
        f->writer, rank->worker, rank->generation, rank->stream.rank, record);
    uint32_t slot = mirror_writer_slot(f->writer, rank->worker,
                                       rank->generation, rank->stream.rank);

    if (slot != WORKER_NONE && f->expectations != NULL) {
        expectations_confirm(f->expectations, slot, record->words,
                             record->words_count);
    }
    tell_digest(f, rank);
    /* The mirror writer names what is to be read again. */
    return INGEST_VIEW | (outcome < 0 ? INGEST_NO_MEMORY : 0U);
}

static void ON_CONTROL export(struct ingest_streams *f,
                              const struct ingest_rank *rank,
                              const struct gossip_out *out, uint64_t now_us)
{
    struct event_words page = {.words = f->page, .max = GOSSIP_PAGE_WORDS};
    uint32_t slot = whole_slot(f, rank);
    uint64_t next = GOSSIP_CURSOR_END;

    if (slot != WORKER_NONE) {
        next = mirror_page(f->mirror, slot, out->cursor, &page);
    }
    gossip_exported(f->gossip, out->token,
                    slot != WORKER_NONE ? page.words : NULL, page.count, next,
                    now_us);
}

_Static_assert(GOSSIP_CURSOR_END == MIRROR_PAGE_END, "a cursor is handed on");

static unsigned ON_CONTROL
reset(struct ingest_streams *f, struct ingest_rank *rank,
      const struct gossip_out *out)
{
    bool keeps = MUTANT(KEEP_OLD) || (MUTANT(KEEP_LOADED) && rank->loaded);

    rank->known = true;
    rank->loaded = false;
    if (!keeps) {
        mirror_writer_reset(f->writer, rank->worker, rank->generation,
                            rank->stream.rank, out->name);
    }
    tell_digest(f, rank); /* nothing is a state, too */
    return ingest_stream_tell(f, rank) | INGEST_VIEW;
}

static unsigned ON_CONTROL
stands(struct ingest_streams *f, struct ingest_rank *rank,
       const struct gossip_out *out)
{
    rank->complete = out->complete;
    rank->stale = out->stale;
    mirror_writer_contested(f->writer, rank->worker, rank->generation,
                            rank->stream.rank, out->contested);
    return ingest_stream_tell(f, rank) | INGEST_VIEW;
}

unsigned
ingest_stream_out(struct ingest_streams *f, struct ingest_rank *rank,
                  const struct gossip_out *out, uint64_t now_us)
{
    switch (out->kind) {
    case GOSSIP_RESET:
        return reset(f, rank, out);
    case GOSSIP_APPLY:
        return apply(f, rank, out->record);
    case GOSSIP_EXPORT:
        export(f, rank, out, now_us);
        return 0;
    case GOSSIP_STATE:
        return stands(f, rank, out);
    case GOSSIP_REREAD:
        rank->ask = out->ask;
        return INGEST_ASKED;
    case GOSSIP_SEND:
    case GOSSIP_BELIEF:
        return 0;
    }
    return 0;
}

void
ingest_stream_refuse(struct ingest_streams *f, const struct gossip_out *out,
                     uint64_t now_us)
{
    if (out->kind == GOSSIP_EXPORT) {
        gossip_exported(f->gossip, out->token, NULL, 0, GOSSIP_CURSOR_END,
                        now_us);
    }
}
