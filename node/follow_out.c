/* What gossip says, carried out. */
#include "node/follow_inner.h"
#include "node/log.h"
#include "node/probe.h"

/* Whoever is waiting for a view gets one in this turn of the loop. */
static void
want_view(struct follow *follow)
{
    if (!follow->awake && !follow->waking && !follow->stopped) {
        follow->waking = true;
        (void)uv_async_send(&follow->wake);
    }
}

/* How a stream stands */

static enum kv_stream_state
state_of(const struct follow *follow, const struct followed *f, uint32_t rank)
{
    const struct follow_rank *r = &f->rank[rank];

    if (!r->known) {
        return r->read;
    }
    if (r->stale) {
        return KV_STREAM_STALE;
    }
    if (f->reach.takes && !kv_stream_state_is_live(r->read) &&
        gossip_reads(follow->owner.gossip, follow_stream(f, rank))) {
        return r->read;
    }
    return r->complete ? KV_STREAM_LIVE : KV_STREAM_PARTIAL;
}

static void
say_state(const struct follow *follow, const struct followed *f, uint32_t rank,
          enum kv_stream_state state)
{
    const struct intake_numbers *n =
        intake_numbers(follow->intake, f->worker->slot, rank);

    if (state == KV_STREAM_STALE || state == KV_STREAM_PARTIAL) {
        LOG_WARNING("events_state", KV("worker", f->id), KV("rank", rank),
                    KV("state", kv_stream_state_name(state)),
                    KV("replays_in_vain",
                       n != NULL ? counter_read(&n->kv.replay_incomplete) : 0));
    } else {
        LOG_INFO("events_state", KV("worker", f->id), KV("rank", rank),
                 KV("state", kv_stream_state_name(state)));
    }
}

void
follow_tell_state(struct follow *follow, struct followed *f, uint32_t rank)
{
    enum kv_stream_state state = state_of(follow, f, rank);

    if (state != f->rank[rank].told) {
        f->rank[rank].told = state;
        say_state(follow, f, rank, state);
        feed_state(follow->feed, f->worker->slot, f->generation, rank, state);
        want_view(follow);
    }
}

/* Outputs */

/* Only of what holds all that was said is it worth while to compare. */
static void ON_CONTROL
tell_digest(struct follow *follow, const struct followed *f, uint32_t rank)
{
    uint32_t slot =
        feed_whole_slot(follow->feed, f->worker->slot, f->generation, rank);

    if (slot != WORKER_NONE) {
        gossip_digest(follow->owner.gossip, follow_stream(f, rank),
                      mirror_slot_blocks(follow->node->mirror, slot),
                      mirror_slot_digest(follow->node->mirror, slot));
    }
}

static void ON_CONTROL
reset(struct follow *follow, struct followed *f, uint32_t rank,
      const struct gossip_out *out)
{
    LOG_INFO("events_reset", KV("worker", f->id), KV("rank", rank),
             KV("reason", out->reason), KV("epoch", out->epoch.no));
    f->rank[rank].known = true;
    feed_reset(follow->feed, f->worker->slot, f->generation, rank, out->name);
    tell_digest(follow, f, rank); /* nothing is a state, too */
    follow_tell_state(follow, f, rank);
    want_view(follow);
}

static void ON_CONTROL
apply(struct follow *follow, const struct followed *f, uint32_t rank,
      const struct event_record *record)
{
    uint32_t worker = f->worker->slot;

    int outcome =
        feed_record(follow->feed, worker, f->generation, rank, record);
    if (outcome < 0) { /* the feed names what is to be read again */
        LOG_WARNING("mirror_out_of_memory", KV_FAULT("error", outcome));
    }
    uint32_t slot = feed_slot(follow->feed, worker, f->generation, rank);
    if (slot != WORKER_NONE) {
        expected_confirm(follow->node->expected, slot, record->words,
                         record->words_count);
    }
    tell_digest(follow, f, rank);
    want_view(follow);
}

static void ON_CONTROL export(struct follow *follow, const struct followed *f,
                              uint32_t rank, const struct gossip_out *out)
{
    struct event_words page = {.words = follow->page, .max = GOSSIP_PAGE_WORDS};
    uint32_t slot =
        feed_whole_slot(follow->feed, f->worker->slot, f->generation, rank);
    uint64_t next = GOSSIP_CURSOR_END;

    if (slot != WORKER_NONE) {
        next = mirror_page(follow->node->mirror, slot, out->cursor, &page);
    }
    gossip_exported(follow->owner.gossip, out->token,
                    slot != WORKER_NONE ? page.words : NULL, page.count, next,
                    probe_now_us());
}

_Static_assert(GOSSIP_CURSOR_END == MIRROR_PAGE_END, "a cursor is handed on");

static void ON_CONTROL
take_state(struct follow *follow, struct followed *f, uint32_t rank,
           const struct gossip_out *out)
{
    f->rank[rank].complete = out->complete;
    f->rank[rank].stale = out->stale;
    feed_contested(follow->feed, f->worker->slot, f->generation, rank,
                   out->contested);
    follow_tell_state(follow, f, rank);
    want_view(follow);
}

static void ON_CONTROL
read_again(struct follow *follow, struct followed *f, uint32_t rank,
           const struct gossip_out *out)
{
    LOG_INFO("events_asked", KV("worker", f->id), KV("rank", rank),
             KV("reason", out->reason));
    f->rank[rank].ask = out->ask;
    follow_ask(follow, f, rank);
}

/* An export of a stream that is gone here is still to be answered. */
static void ON_CONTROL
refuse(struct follow *follow, const struct gossip_out *out)
{
    if (out->kind == GOSSIP_EXPORT) {
        gossip_exported(follow->owner.gossip, out->token, NULL, 0,
                        GOSSIP_CURSOR_END, probe_now_us());
    }
}

void
follow_out(struct follow *follow, const struct gossip_out *out)
{
    struct followed *f = follow_find(follow, out->stream.worker);
    uint32_t rank = out->stream.rank;

    if (f == NULL || rank >= f->ranks) {
        refuse(follow, out);
        return;
    }
    switch (out->kind) {
    case GOSSIP_RESET:
        reset(follow, f, rank, out);
        break;
    case GOSSIP_APPLY:
        apply(follow, f, rank, out->record);
        break;
    case GOSSIP_EXPORT:
        export(follow, f, rank, out);
        break;
    case GOSSIP_STATE:
        take_state(follow, f, rank, out);
        break;
    case GOSSIP_REREAD:
        read_again(follow, f, rank, out);
        break;
    case GOSSIP_SEND:
    case GOSSIP_BELIEF:
        break;
    }
}
