/* The core of ingest: the streams, what goes to gossip, and what gossip's
 * outputs do. */
#include "node/ingest/ingest_stream.h"

#include <string.h>

#include "index/base/mutant.h"
#include "index/base/rng.h"

/* The table */

static uint32_t
hash_of(uint64_t identity)
{
    return (uint32_t)(rng_mix(identity) & (INGEST_HASH - 1));
}

_Static_assert(WORKERS_MAX < INGEST_HASH && WORKERS_MAX < UINT16_MAX,
               "there is always an empty place");

static void
index_workers(struct ingest_streams *s)
{
    memset(s->by_identity, 0, sizeof s->by_identity);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        if (s->workers[i].ranks == 0) {
            continue;
        }
        CHECK(s->workers[i].rank != NULL);
        uint32_t at = hash_of(s->workers[i].identity);
        while (s->by_identity[at] != 0) {
            at = (at + 1) % INGEST_HASH;
        }
        s->by_identity[at] = (uint16_t)(i + 1);
    }
}

uint32_t
ingest_streams_find(const struct ingest_streams *s, uint64_t identity)
{
    for (uint32_t at = hash_of(identity); s->by_identity[at] != 0;
         at = (at + 1) % INGEST_HASH) {
        uint32_t worker = s->by_identity[at] - 1U;
        CHECK(worker < WORKERS_MAX && s->workers[worker].ranks != 0);
        if (s->workers[worker].identity == identity) {
            return worker;
        }
    }
    return WORKER_NONE;
}

struct ingest_rank *
ingest_streams_rank(const struct ingest_streams *s, uint32_t worker,
                    uint32_t rank)
{
    return worker < WORKERS_MAX && rank < s->workers[worker].ranks
               ? &s->workers[worker].rank[rank]
               : NULL;
}

int
ingest_streams_add(struct ingest_streams *s, uint32_t worker,
                   const struct ingest_source *source)
{
    CHECK(worker < WORKERS_MAX && s->workers[worker].ranks == 0);
    CHECK(source->ranks > 0 && source->rank != NULL);
    int outcome = mirror_writer_worker_add(s->writer, worker,
                                           source->generation, source->ranks);
    if (outcome != 0) {
        return outcome;
    }
    for (uint32_t rank = 0; rank < source->ranks; rank++) {
        source->rank[rank] = (struct ingest_rank){
            .stream = {.worker = source->identity, .rank = rank},
            .worker = worker,
            .generation = source->generation,
            .replays = source->replays,
        };
    }
    s->workers[worker] = *source;
    index_workers(s);
    CHECK(ingest_streams_find(s, source->identity) != WORKER_NONE);
    return 0;
}

void
ingest_streams_remove(struct ingest_streams *s, uint32_t worker)
{
    CHECK(worker < WORKERS_MAX);
    for (uint32_t rank = 0; rank < s->workers[worker].ranks; rank++) {
        ingest_hand_forget(s, &s->workers[worker].rank[rank]);
    }
    if (s->workers[worker].ranks != 0) {
        s->workers[worker] = (struct ingest_source){.ranks = 0};
        index_workers(s);
        mirror_writer_worker_remove(s->writer, worker);
    }
}

static void
note(const struct ingest_streams *s, struct ingest_rank *rank, unsigned did)
{
    CHECK(did < INGEST_RESUMES * 2U);
    if (did != 0) {
        s->sink.did(s->sink.context, rank, did);
    }
}

/* How a stream stands */

static enum kv_stream_state
state_of(const struct ingest_streams *s, const struct ingest_rank *rank)
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
        gossip_reads(s->gossip, rank->stream)) {
        return rank->read;
    }
    return rank->complete ? KV_STREAM_LIVE : KV_STREAM_PARTIAL;
}

static unsigned ON_CONTROL
tell(struct ingest_streams *s, struct ingest_rank *rank)
{
    bool reads = kv_stream_state_is_live(rank->read) &&
                 gossip_reads(s->gossip, rank->stream);

    rank->loaded = rank->loaded && !reads && !s->caught_up;
    enum kv_stream_state state = state_of(s, rank);
    if (state == rank->told) {
        return 0;
    }
    rank->told = state;
    mirror_writer_state(s->writer, rank->worker, rank->generation,
                        rank->stream.rank, state);
    return INGEST_TOLD | INGEST_VIEW;
}

void
ingest_stream_tell(struct ingest_streams *s, struct ingest_rank *rank)
{
    CHECK(rank->worker < WORKERS_MAX);
    note(s, rank, tell(s, rank));
}

/* Items that were read */

static void ON_CONTROL
begin(struct ingest_streams *s, struct ingest_rank *rank,
      const struct intake_item *item, uint64_t now_us)
{
    rank->begun = true;
    hub_local_begin(s->hub, rank->stream, item->process, item->whole, item->ask,
                    now_us);
}

/* Its outputs may end in another worker in this slot. */
static void ON_CONTROL
take_state(struct ingest_streams *s, struct ingest_rank *rank,
           enum kv_stream_state state, uint64_t now_us)
{
    const struct event_stream stream = rank->stream;
    bool live = kv_stream_state_is_live(state);
    bool was = kv_stream_state_is_live(rank->read);

    rank->read = state;
    if (state == KV_STREAM_LIVE && rank->replays && !rank->begun) {
        struct intake_item empty = {.process = KV_STREAM_EMPTY, .whole = true};
        begin(s, rank, &empty, now_us);
    }
    if (live != was) {
        hub_local_live(s->hub, stream, live, now_us);
    }
    ingest_stream_tell(s, rank);
}

void
ingest_stream_item(struct ingest_streams *s, struct ingest_rank *rank,
                   const struct intake_item *item,
                   const struct event_record *record, uint64_t now_us)
{
    const struct event_stream stream = rank->stream;

    CHECK(item->rank == rank->stream.rank);
    CHECK(item->kind != INTAKE_RECORD || record != NULL);
    switch ((enum intake_item_kind)item->kind) {
    case INTAKE_BEGIN:
        begin(s, rank, item, now_us);
        return;
    case INTAKE_RECORD:
        hub_local_record(s->hub, rank->stream, record, item->fingerprint,
                         item->last, now_us);
        return;
    case INTAKE_GAP:
        hub_local_gap(s->hub, rank->stream, now_us);
        return;
    case INTAKE_PROVED:
        hub_local_proved(s->hub, rank->stream, item->ask, now_us);
        return;
    case INTAKE_STATE:
        take_state(s, rank, (enum kv_stream_state)item->state, now_us);
        return;
    case INTAKE_RESUME:
        rank->begun = true;
        take_state(s, rank, (enum kv_stream_state)item->state, now_us);
        hub_local_resume(s->hub, stream, item->process, item->whole, item->seq,
                         now_us);
        return;
    case INTAKE_POSITION:
    case INTAKE_CUT:
        return;
    }
}

void
ingest_stream_end(struct ingest_streams *s, struct ingest_rank *rank,
                  uint64_t now_us)
{
    rank->read = KV_STREAM_CONNECTING;
    rank->unasked = false;
    rank->begun = false;
    ingest_hand_forget(s, rank);
    hub_local_end(s->hub, rank->stream, now_us);
    ingest_stream_tell(s, rank);
}

/* Outputs of gossip */

static uint32_t ON_CONTROL
whole_slot(const struct ingest_streams *s, const struct ingest_rank *rank)
{
    return mirror_writer_whole_slot(s->writer, rank->worker, rank->generation,
                                    rank->stream.rank);
}

/* A comparison makes sense only for a complete stream. */
static void ON_CONTROL
tell_digest(struct ingest_streams *s, const struct ingest_rank *rank)
{
    uint32_t slot = whole_slot(s, rank);

    if (slot != WORKER_NONE) {
        gossip_digest(s->gossip, rank->stream,
                      mirror_slot_blocks(s->mirror, slot),
                      mirror_slot_digest(s->mirror, slot));
    }
}

static unsigned ON_CONTROL
apply(struct ingest_streams *s, const struct ingest_rank *rank,
      const struct event_record *record)
{
    int outcome = mirror_writer_record(
        s->writer, rank->worker, rank->generation, rank->stream.rank, record);
    uint32_t slot = mirror_writer_slot(s->writer, rank->worker,
                                       rank->generation, rank->stream.rank);

    CHECK(slot == WORKER_NONE || slot < WORKERS_MAX);
    if (slot != WORKER_NONE && s->expectations != NULL) {
        expectations_confirm(s->expectations, slot, record->words,
                             record->words_count);
    }
    tell_digest(s, rank);
    /* The mirror writer names the stream that must be read again. */
    return INGEST_VIEW | (outcome < 0 ? INGEST_NO_MEMORY : 0U);
}

static void ON_CONTROL export(struct ingest_streams *s,
                              const struct ingest_rank *rank,
                              const struct gossip_out *out, uint64_t now_us)
{
    struct event_words page = {.words = s->page, .max = s->page_words};
    uint32_t slot = whole_slot(s, rank);
    uint64_t next = GOSSIP_CURSOR_END;

    if (slot != WORKER_NONE) {
        next = mirror_page(s->mirror, slot, out->cursor, &page);
    }
    CHECK(page.count <= page.max);
    gossip_exported(s->gossip, out->token,
                    slot != WORKER_NONE ? page.words : NULL, page.count, next,
                    now_us);
}

_Static_assert(GOSSIP_CURSOR_END == MIRROR_PAGE_END, "a cursor is handed on");

static unsigned ON_CONTROL
reset(struct ingest_streams *s, struct ingest_rank *rank,
      const struct gossip_out *out)
{
    bool keeps = MUTANT(KEEP_OLD) || (MUTANT(KEEP_LOADED) && rank->loaded);

    rank->known = true;
    rank->loaded = false;
    if (!keeps) {
        mirror_writer_reset(s->writer, rank->worker, rank->generation,
                            rank->stream.rank, out->name);
    }
    tell_digest(s, rank); /* nothing is a state, too */
    return tell(s, rank) | INGEST_VIEW;
}

static unsigned ON_CONTROL
stands(struct ingest_streams *s, struct ingest_rank *rank,
       const struct gossip_out *out)
{
    rank->complete = out->complete;
    rank->stale = out->stale;
    mirror_writer_contested(s->writer, rank->worker, rank->generation,
                            rank->stream.rank, out->contested);
    return tell(s, rank) | INGEST_VIEW;
}

static unsigned ON_CONTROL
carry_out(struct ingest_streams *s, struct ingest_rank *rank,
          const struct gossip_out *out, uint64_t now_us)
{
    switch (out->kind) {
    case GOSSIP_RESET:
        return reset(s, rank, out);
    case GOSSIP_APPLY:
        return apply(s, rank, out->record);
    case GOSSIP_EXPORT:
        export(s, rank, out, now_us);
        return 0;
    case GOSSIP_STATE:
        return stands(s, rank, out);
    case GOSSIP_REREAD:
        if (out->resume) {
            return INGEST_RESUMES;
        }
        rank->ask = out->ask;
        rank->prove = out->prove;
        return INGEST_ASKED;
    case GOSSIP_SEND:
    case GOSSIP_BELIEF:
        return 0;
    }
    return 0;
}

/* A stream that no longer exists here: the request must still be answered. */
static void
refuse(struct ingest_streams *s, const struct gossip_out *out, uint64_t now_us)
{
    if (out->kind == GOSSIP_EXPORT) {
        gossip_exported(s->gossip, out->token, NULL, 0, GOSSIP_CURSOR_END,
                        now_us);
    }
}

static void
on_out(void *context, const struct gossip_out *out, uint64_t now_us)
{
    struct ingest_streams *s = context;
    struct ingest_rank *rank = ingest_streams_rank(
        s, ingest_streams_find(s, out->stream.worker), out->stream.rank);

    role_is_control();
    if (rank == NULL) {
        refuse(s, out, now_us);
        return;
    }
    s->sink.said(s->sink.context, rank, out);
    note(s, rank, carry_out(s, rank, out, now_us));
}

static void
on_read(void *context, uint64_t worker, bool on, uint64_t now_us)
{
    struct ingest_streams *s = context;
    uint32_t slot = ingest_streams_find(s, worker);

    (void)now_us;
    if (slot != WORKER_NONE) {
        s->sink.read(s->sink.context, slot, on);
    }
}

void
ingest_streams_init(struct ingest_streams *s, const struct ingest_sink *sink)
{
    const struct hub_streams consumer = {
        .context = s, .out = on_out, .read = on_read};

    CHECK(s->hub != NULL && s->writer != NULL && s->mirror != NULL);
    CHECK(sink->said != NULL && sink->did != NULL && sink->lost != NULL &&
          sink->read != NULL);
    s->sink = *sink;
    s->gossip = hub_gossip(s->hub);
    CHECK(s->gossip != NULL);
    s->caught_up = false;
    s->handed = NULL;
    s->page_words = GOSSIP_PAGE_WORDS;
    names_twin_init(&s->twin);
    memset(s->workers, 0, sizeof s->workers);
    index_workers(s);
    hub_attach_streams(s->hub, &consumer);
}

/* What answers say */

/* If the prompt has another length than predicted, the tokens are wrong and not
 * the mirror. */
void
ingest_stream_answer(struct ingest_streams *s, const struct fact_decision *fact,
                     uint64_t now_us)
{
    struct ingest_rank *rank = ingest_streams_rank(s, fact->slot, fact->rank);
    struct accuracy_answer answer = {
        .prompt_tokens = fact->prompt_tokens,
        .predicted_tokens = fact->predicted_tokens,
        .cached_tokens = fact->cached_tokens,
        .block_tokens = fact->block_tokens,
    };

    if (rank == NULL || !fact->exact || !fact->whole || !fact->judges ||
        fact->prompt_tokens != fact->total) {
        return;
    }
    /* What answers promised was not there; the events' word was true. */
    if (rank->told == KV_STREAM_PARTIAL &&
        fact->predicted_tokens > fact->cached_tokens &&
        fact->held_tokens <= fact->cached_tokens + fact->block_tokens) {
        return;
    }
    if (mirror_writer_answer(s->writer, fact->slot, fact->generation,
                             fact->rank, &answer, now_us)) {
        rank->wrong = true;
    }
}

void
ingest_stream_cleared(struct ingest_streams *s,
                      const struct fact_decision *fact)
{
    mirror_writer_cleared(s->writer, fact->slot, fact->generation);
}

bool
ingest_streams_lacks(const struct ingest_streams *s,
                     const struct mirror_view *view, uint32_t slot)
{
    const struct ingest_rank *rank =
        ingest_streams_rank(s, view->owner[slot], view->rank[slot]);

    return rank != NULL && rank->told == KV_STREAM_PARTIAL &&
           !worker_set_has(&view->windowed, slot);
}

static void ON_CONTROL
have_again(struct ingest_streams *s, struct ingest_rank *rank, uint64_t now_us)
{
    rank->wrong = false;
    s->sink.lost(s->sink.context, rank,
                 "its answers differ from what was predicted");
    hub_local_doubted(s->hub, rank->stream, now_us);
}

static void ON_CONTROL
heal_lost(struct ingest_streams *s, uint64_t now_us)
{
    struct mirror_writer_id id;

    while (mirror_writer_next_reread(s->writer, &id, now_us)) {
        struct ingest_rank *rank = ingest_streams_rank(s, id.worker, id.rank);
        CHECK(rank != NULL && rank->generation == id.generation);
        s->sink.lost(s->sink.context, rank, "it lost some of its records");
        hub_local_lost(s->hub, rank->stream, now_us);
    }
}

void
ingest_streams_heal(struct ingest_streams *s, bool look, uint64_t now_us)
{
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        for (uint32_t rank = 0; rank < s->workers[i].ranks; rank++) {
            if (s->workers[i].rank[rank].wrong) {
                have_again(s, &s->workers[i].rank[rank], now_us);
            }
        }
    }
    if (look) {
        heal_lost(s, now_us);
    }
}
