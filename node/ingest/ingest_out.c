/* The streams' sink: lines in the log, a view for lanes, questions to sources.
 * */
#include "node/base/log.h"
#include "node/ingest/ingest_internal.h"

/* A view is published in this turn of the loop, because lanes may wait for one. */
void
ingest_wake(struct ingest *ingest)
{
    if (!ingest->awake && !ingest->waking && !ingest->stopped) {
        ingest->waking = true;
        (void)uv_async_send(&ingest->wake);
    }
}

static void
say_state(const struct ingest *ingest, const struct ingest_worker *w,
          uint32_t rank, enum kv_stream_state state)
{
    const struct intake_numbers *n =
        intake_numbers(ingest->intake, w->worker->slot, rank);

    uint64_t in_vain = n != NULL ? counter_read(&n->kv.replay_incomplete) : 0;
    /* What a replay is about to fill is how every reading begins. */
    bool bad = state == KV_STREAM_STALE ||
               (state == KV_STREAM_PARTIAL &&
                (in_vain != 0 || w->worker->replay.host[0] == '\0'));

    if (bad) {
        LOG_WARNING("events_state", KV("worker", w->id), KV("rank", rank),
                    KV("state", kv_stream_state_name(state)),
                    KV("replays_in_vain", in_vain),
                    KV("hint", "less is expected of its cache meanwhile: "
                               "kvasir doctor tries its events and replay"));
    } else {
        LOG_INFO("events_state", KV("worker", w->id), KV("rank", rank),
                 KV("state", kv_stream_state_name(state)));
    }
}

void
ingest_said(void *context, const struct ingest_rank *rank,
            const struct gossip_out *out)
{
    struct ingest *ingest = context;
    const struct ingest_worker *w = &ingest->workers[rank->worker];

    if (out->kind == GOSSIP_RESET) {
        LOG_INFO("events_reset", KV("worker", w->id),
                 KV("rank", rank->stream.rank), KV("reason", out->reason),
                 KV("epoch", out->epoch.no));
    } else if (out->kind == GOSSIP_REREAD) {
        LOG_INFO("events_asked", KV("worker", w->id),
                 KV("rank", rank->stream.rank), KV("reason", out->reason));
    }
}

void
ingest_did(void *context, struct ingest_rank *rank, unsigned did)
{
    struct ingest *ingest = context;
    struct ingest_worker *w = &ingest->workers[rank->worker];

    role_is_control();
    if ((did & INGEST_TOLD) != 0) {
        say_state(ingest, w, rank->stream.rank, rank->told);
    }
    if ((did & INGEST_NO_MEMORY) != 0) {
        LOG_WARNING("mirror_out_of_memory", KV("worker", w->id),
                    KV("rank", rank->stream.rank),
                    KV("hint", "what it stores from now on is not known: raise "
                               "mirror.bytes_max"));
    }
    if ((did & INGEST_VIEW) != 0) {
        ingest_wake(ingest);
    }
    if ((did & INGEST_ASKED) != 0) {
        ingest_ask(ingest, w, rank->stream.rank);
    }
    if ((did & INGEST_RESUMES) != 0) {
        ingest_hand(ingest, w, rank->stream.rank);
    }
}

void
ingest_lost(void *context, const struct ingest_rank *rank, const char *reason)
{
    const struct ingest *ingest = context;

    LOG_WARNING("events_reread", KV("worker", ingest->workers[rank->worker].id),
                KV("rank", rank->stream.rank), KV("reason", reason),
                KV("hint", "all is asked of the engine again; if it repeats, "
                           "is the engine newer than this node?"));
}
