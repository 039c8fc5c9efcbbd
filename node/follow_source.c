/* Sources: begun, ended, asked; what they deliver goes to gossip. */
#include <errno.h>

#include "node/follow_inner.h"
#include "node/log.h"
#include "node/probe.h"

#define ITEMS_PER_TURN       2048U
#define SIDECAR_RETRY_MS     200U
#define SIDECAR_RETRY_MAX_MS 5000U
#define SIDECAR_SILENCE_MS   60000U

/* What they deliver */

static void ON_CONTROL
begin(struct follow *follow, struct followed *f, uint32_t rank,
      const struct intake_item *item)
{
    LOG_INFO("events_begin", KV("worker", f->id), KV("rank", rank),
             KV("reason", item->reason), KV("whole", item->whole));
    gossip_local_begin(follow->owner.gossip, follow_stream(f, rank),
                       item->process, item->whole, item->ask, probe_now_us());
}

static void ON_CONTROL
take_state(struct follow *follow, struct followed *f, uint32_t rank,
           enum kv_stream_state state)
{
    bool live = kv_stream_state_is_live(state);
    bool was = kv_stream_state_is_live(f->rank[rank].read);

    f->rank[rank].read = state;
    if (live != was) {
        gossip_local_live(follow->owner.gossip, follow_stream(f, rank), live,
                          probe_now_us());
    }
    follow_tell_state(follow, f, rank);
}

static void ON_CONTROL
take_item(struct follow *follow, const struct intake_item *item,
          const struct event_record *record)
{
    struct followed *f = &follow->workers[item->worker];
    struct gossip *gossip = follow->owner.gossip;

    if (!f->present || !f->reads || f->generation != item->generation ||
        f->reading != item->reading || item->rank >= f->ranks) {
        return; /* of a reading that is over */
    }
    struct event_stream stream = follow_stream(f, item->rank);
    switch ((enum intake_item_kind)item->kind) {
    case INTAKE_BEGIN:
        begin(follow, f, item->rank, item);
        break;
    case INTAKE_RECORD:
        gossip_local_record(gossip, stream, record, item->print, item->last,
                            probe_now_us());
        break;
    case INTAKE_GAP:
        gossip_local_gap(gossip, stream, probe_now_us());
        break;
    case INTAKE_STATE:
        take_state(follow, f, item->rank, (enum kv_stream_state)item->state);
        break;
    }
    follow_pull(follow); /* f may be gone */
}

void
follow_take_items(struct follow *follow, bool *more)
{
    struct ring *ring = intake_ring(follow->intake);

    for (uint32_t n = 0; n < ITEMS_PER_TURN; n++) {
        size_t size;
        const struct intake_item *item = ring_peek(ring, &size);
        if (item == NULL) {
            return;
        }
        CHECK(size >= sizeof(*item) && item->worker < WORKERS_MAX);
        take_item(follow, item, (const void *)(item + 1));
        ring_consume(ring);
    }
    *more = true;
}

static void
on_sidecar(void *context, const struct intake_item *item,
           const struct event_record *record)
{
    struct follow *follow = context;

    role_is_control();
    follow->owner.take_facts(follow->owner.context);
    take_item(follow, item, record);
}

/* Beginning */

static int
add_sidecar(struct follow *follow, struct followed *f)
{
    const struct fleet_worker *worker = f->worker;
    struct kv_sse_source source = {
        .slot = worker->slot,
        .generation = worker->generation,
        .reading = f->reading,
        .identity = worker->identity,
        .ranks = worker->ranks,
        .url = worker->sse,
        .retry_ms = SIDECAR_RETRY_MS,
        .retry_max_ms = SIDECAR_RETRY_MAX_MS,
        .silence_ms = SIDECAR_SILENCE_MS,
        .seed = rng_next(&follow->rng),
        .sink = {.context = follow, .item = on_sidecar},
    };

    memcpy(source.id, worker->id, sizeof(source.id));
    memcpy(source.api_key, worker->api_key, sizeof(source.api_key));
    return kv_sse_link_new(&f->link, follow->loop, &source);
}

static int
add_events(struct follow *follow, const struct followed *f)
{
    const struct fleet_worker *worker = f->worker;
    struct intake_worker source = {
        .slot = worker->slot,
        .generation = worker->generation,
        .reading = f->reading,
        .identity = worker->identity,
        .ranks = worker->ranks,
        .events = worker->events,
        .replay = worker->replay,
    };

    memcpy(source.topic, worker->topic, sizeof(source.topic));
    memcpy(source.id, worker->id, sizeof(source.id));
    return intake_add(follow->intake, &source);
}

static void ON_CONTROL
start_reading(struct follow *follow, struct followed *f)
{
    f->reading++;
    int outcome = f->worker->events.host[0] != '\0' ? add_events(follow, f)
                                                    : add_sidecar(follow, f);
    f->reads = outcome == 0;
    if (outcome != 0) {
        LOG_ERROR("events_refused", KV("worker", f->id),
                  KV_FAULT("error", outcome),
                  KV("hint", "its requests are routed by their text"));
    }
}

/* Ending */

/* A link may be what is calling. */
void
follow_bury(struct follow *follow)
{
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        kv_sse_link_free(follow->workers[i].gone);
        follow->workers[i].gone = NULL;
    }
}

void
follow_stop_reading(struct follow *follow, struct followed *f)
{
    if (!f->reads) {
        return;
    }
    f->reads = false;
    if (f->link != NULL) {
        kv_sse_link_mute(f->link);
        CHECK(f->gone == NULL);
        f->gone = f->link;
        f->link = NULL;
    } else if (intake_remove(follow->intake, f->worker->slot, f->generation) !=
               0) {
        LOG_WARNING("events_remove_refused", KV("worker", f->id));
    }
    for (uint32_t rank = 0; rank < f->ranks; rank++) {
        gossip_local_end(follow->owner.gossip, follow_stream(f, rank),
                         probe_now_us());
        f->rank[rank].read = KV_STREAM_CONNECTING;
        f->rank[rank].unasked = false;
        follow_tell_state(follow, f, rank);
    }
}

void
follow_read(struct follow *follow, uint64_t worker, bool on)
{
    struct followed *f = follow_find(follow, worker);

    if (f == NULL || f->reads == on || follow->stopped) {
        return;
    }
    LOG_INFO("events_read", KV("worker", f->id), KV("on", on));
    if (on) {
        start_reading(follow, f);
    } else {
        follow_stop_reading(follow, f);
    }
}

/* Asking */

void
follow_ask(struct follow *follow, struct followed *f, uint32_t rank)
{
    struct follow_rank *r = &f->rank[rank];
    int outcome = 0;

    if (f->link != NULL) {
        kv_sse_link_reread(f->link, "asked for", r->ask);
    } else if (f->reads) {
        outcome = intake_reread(follow->intake, f->worker->slot, f->generation,
                                rank, r->ask);
    }
    r->unasked = outcome != 0;
}
