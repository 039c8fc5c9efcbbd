/* What gossip says, carried out; and said aloud. */
#include "node/base/log.h"
#include "node/fleet/probe.h"
#include "node/follow/follow_internal.h"

/* Whoever is waiting for a view gets one in this turn of the loop. */
static void
want_view(struct follow *follow)
{
    if (!follow->awake && !follow->waking && !follow->stopped) {
        follow->waking = true;
        (void)uv_async_send(&follow->wake);
    }
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
follow_did(struct follow *follow, struct followed *f, uint32_t rank,
           unsigned did)
{
    if ((did & FOLLOW_TOLD) != 0) {
        say_state(follow, f, rank, f->rank[rank].told);
    }
    if ((did & FOLLOW_NO_MEMORY) != 0) {
        LOG_WARNING("mirror_out_of_memory", KV("worker", f->id),
                    KV("rank", rank));
    }
    if ((did & FOLLOW_VIEW) != 0) {
        want_view(follow);
    }
    if ((did & FOLLOW_ASKED) != 0) {
        follow_ask(follow, f, rank);
    }
}

void
follow_tell_state(struct follow *follow, struct followed *f, uint32_t rank)
{
    follow_did(follow, f, rank,
               follow_gossip_tell(&follow->streams, &f->rank[rank]));
}

void
follow_out(struct follow *follow, const struct gossip_out *out)
{
    struct followed *f = follow_find(follow, out->stream.worker);
    uint32_t rank = out->stream.rank;

    if (f == NULL || rank >= f->ranks) {
        follow_gossip_refuse(&follow->streams, out, probe_now_us());
        return;
    }
    if (out->kind == GOSSIP_RESET) {
        LOG_INFO("events_reset", KV("worker", f->id), KV("rank", rank),
                 KV("reason", out->reason), KV("epoch", out->epoch.no));
    } else if (out->kind == GOSSIP_REREAD) {
        LOG_INFO("events_asked", KV("worker", f->id), KV("rank", rank),
                 KV("reason", out->reason));
    }
    follow_did(follow, f, rank,
               follow_gossip_out(&follow->streams, &f->rank[rank], out,
                                 probe_now_us()));
}
