/* What gossip says, carried out; and said aloud. */
#include "node/base/log.h"
#include "node/fleet/probe.h"
#include "node/ingest/ingest_internal.h"

/* Whoever is waiting for a view gets one in this turn of the loop. */
static void
want_view(struct ingest *ingest)
{
    if (!ingest->awake && !ingest->waking && !ingest->stopped) {
        ingest->waking = true;
        (void)uv_async_send(&ingest->wake);
    }
}

static void
say_state(const struct ingest *ingest, const struct ingest_worker *f,
          uint32_t rank, enum kv_stream_state state)
{
    const struct intake_numbers *n =
        intake_numbers(ingest->intake, f->worker->slot, rank);

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
ingest_did(struct ingest *ingest, struct ingest_worker *f, uint32_t rank,
           unsigned did)
{
    if ((did & INGEST_TOLD) != 0) {
        say_state(ingest, f, rank, f->rank[rank].told);
    }
    if ((did & INGEST_NO_MEMORY) != 0) {
        LOG_WARNING("mirror_out_of_memory", KV("worker", f->id),
                    KV("rank", rank));
    }
    if ((did & INGEST_VIEW) != 0) {
        want_view(ingest);
    }
    if ((did & INGEST_ASKED) != 0) {
        ingest_ask(ingest, f, rank);
    }
}

void
ingest_tell_state(struct ingest *ingest, struct ingest_worker *f, uint32_t rank)
{
    ingest_did(ingest, f, rank,
               ingest_stream_tell(&ingest->streams, &f->rank[rank]));
}

void
ingest_out(struct ingest *ingest, const struct gossip_out *out)
{
    struct ingest_worker *f = ingest_find(ingest, out->stream.worker);
    uint32_t rank = out->stream.rank;

    if (f == NULL || rank >= f->ranks) {
        ingest_stream_refuse(&ingest->streams, out, probe_now_us());
        return;
    }
    if (out->kind == GOSSIP_RESET) {
        LOG_INFO("events_reset", KV("worker", f->id), KV("rank", rank),
                 KV("reason", out->reason), KV("epoch", out->epoch.no));
    } else if (out->kind == GOSSIP_REREAD) {
        LOG_INFO("events_asked", KV("worker", f->id), KV("rank", rank),
                 KV("reason", out->reason));
    }
    ingest_did(ingest, f, rank,
               ingest_stream_out(&ingest->streams, &f->rank[rank], out,
                                 probe_now_us()));
}
