/* Sources: opened, closed, asked; their items go to gossip. */
#include <errno.h>

#include "node/base/log.h"
#include "node/fleet/probe.h"
#include "node/ingest/ingest_internal.h"

#define ITEMS_PER_TURN       2048U
#define SIDECAR_RETRY_MS     200U
#define SIDECAR_RETRY_MAX_MS 5000U
#define SIDECAR_SILENCE_MS   60000U
#define ABLE_MS              1000U

/* Items from sources */

static void ON_CONTROL
take_item(struct ingest *ingest, const struct intake_item *item,
          const void *more)
{
    struct ingest_worker *w = &ingest->workers[item->worker];

    if (!w->present || !w->reach.takes || w->generation != item->generation ||
        w->reading != item->reading || item->rank >= w->ranks) {
        return; /* of a reading that is over */
    }
    if (item->kind == INTAKE_BEGIN) {
        LOG_INFO("events_begin", KV("worker", w->id), KV("rank", item->rank),
                 KV("reason", item->reason), KV("whole", item->whole));
        ingest_position_drop(w, item->rank);
    } else if (item->kind == INTAKE_RESUME) {
        LOG_INFO("events_resume", KV("worker", w->id), KV("rank", item->rank),
                 KV("seq", item->seq), KV("whole", item->whole));
    } else if (item->kind == INTAKE_POSITION) {
        ingest_position_take(w, item, more);
        return;
    }
    ingest_stream_item(&ingest->streams, &w->rank[item->rank], item, more,
                       probe_now_us()); /* the worker may be gone */
}

void
ingest_take_items(struct ingest *ingest, bool *more)
{
    struct ring *ring = intake_ring(ingest->intake);

    for (uint32_t n = 0; n < ITEMS_PER_TURN; n++) {
        size_t size;
        const struct intake_item *item = ring_peek(ring, &size);
        if (item == NULL) {
            return;
        }
        CHECK(size >= sizeof(*item) && item->worker < WORKERS_MAX);
        if (item->kind == INTAKE_CUT) {
            ingest->owner.cut(ingest->owner.context, item->cut);
        } else {
            take_item(ingest, item, item + 1);
        }
        ring_consume(ring);
    }
    *more = true;
}

static void
on_sidecar(void *context, const struct intake_item *item,
           const struct event_record *record)
{
    struct ingest *ingest = context;

    role_is_control();
    ingest->owner.take_facts(ingest->owner.context);
    take_item(ingest, item, record);
}

/* Beginning */

static const struct sock_tls_context *
sidecars_tls(void *context)
{
    const struct ingest *ingest = context;
    const struct node_tls *tls = publish_get(&ingest->node->workers_tls);

    return tls->context;
}

static int
add_sidecar(struct ingest *ingest, struct ingest_worker *w)
{
    const struct fleet_worker *worker = w->worker;
    struct kv_sse_source source = {
        .slot = worker->slot,
        .generation = worker->generation,
        .reading = w->reading,
        .identity = worker->identity,
        .ranks = worker->ranks,
        .url = worker->sse,
        .deny = ingest->node->config->workers_deny,
        .retry_ms = SIDECAR_RETRY_MS,
        .retry_max_ms = SIDECAR_RETRY_MAX_MS,
        .silence_ms = SIDECAR_SILENCE_MS,
        .seed = rng_next(&ingest->rng),
        .sink = {.context = ingest, .item = on_sidecar, .tls = sidecars_tls},
    };

    memcpy(source.id, worker->id, sizeof(source.id));
    memcpy(source.api_key, worker->api_key, sizeof(source.api_key));
    return kv_sse_link_new(&w->link, ingest->loop, &source);
}

static int ON_CONTROL
add_events(struct ingest *ingest, struct ingest_worker *w)
{
    const struct fleet_worker *worker = w->worker;
    struct intake_worker source = {
        .slot = worker->slot,
        .generation = worker->generation,
        .reading = w->reading,
        .identity = worker->identity,
        .ranks = worker->ranks,
        .events = worker->events,
        .replay = worker->replay,
    };

    memcpy(source.topic, worker->topic, sizeof(source.topic));
    memcpy(source.id, worker->id, sizeof(source.id));
    int outcome = intake_add(ingest->intake, &source);
    if (outcome == 0) {
        ingest_lookup_begin(ingest, w);
    }
    return outcome;
}

static bool ON_CONTROL
unstick(struct ingest *ingest, struct ingest_worker *w)
{
    uint32_t slot = (uint32_t)(w - ingest->workers);

    if (w->stuck &&
        intake_remove(ingest->intake, slot, w->stuck_generation) == 0) {
        w->stuck = false;
    }
    return !w->stuck;
}

static int ON_CONTROL
open_source(struct ingest *ingest, struct ingest_worker *w)
{
    int outcome = -EAGAIN;

    if (unstick(ingest, w)) {
        w->reading++;
        outcome = w->worker->events.host[0] != '\0' ? add_events(ingest, w)
                                                    : add_sidecar(ingest, w);
    }
    if (outcome != 0 && !w->refused) {
        LOG_ERROR("events_refused", KV("worker", w->id),
                  KV_FAULT("error", outcome),
                  KV("hint", "its requests are routed by their text, unless "
                             "another node reads it; it is tried again with "
                             "the next change of workers"));
    }
    w->refused = outcome != 0;
    return outcome;
}

/* Ending */

static int ON_CONTROL
close_source(struct ingest *ingest, struct ingest_worker *w)
{
    if (w->link == NULL) {
        ingest_lookup_drop(w);
        return intake_remove(ingest->intake, w->worker->slot, w->generation);
    }
    kv_sse_link_free(w->link); /* which may be what is calling */
    w->link = NULL;
    return 0;
}

/* Its items are not taken any more. */
static void ON_CONTROL
end_reading(struct ingest *ingest, struct ingest_worker *w)
{
    for (uint32_t rank = 0; rank < w->ranks; rank++) {
        ingest_position_drop(w, rank);
        ingest_stream_end(&ingest->streams, &w->rank[rank], probe_now_us());
    }
}

void
ingest_stop_reading(struct ingest *ingest, struct ingest_worker *w)
{
    bool took = w->reach.takes;

    ingest_reach_want(&w->reach, false);
    w->reach.unable = false; /* the cluster forgets it with the worker */
    if (took) {
        end_reading(ingest, w);
    }
    ingest_reach_settle(ingest, w);
    CHECK(w->link == NULL);
    if (w->reach.open) { /* unstick() tries again */
        LOG_WARNING("events_remove_refused", KV("worker", w->id),
                    KV("hint", "tried again with the next change"));
        w->stuck = true;
        w->stuck_generation = w->generation;
    }
    w->reach = (struct ingest_reach){0};
}

/* Reaching */

static enum ingest_reach_seen
look(const struct ingest *ingest, const struct ingest_worker *w)
{
    if (w->link != NULL) {
        return kv_sse_link_is_connected(w->link) ? INGEST_REACH_REACHED
               : kv_sse_link_is_failing(w->link) ? INGEST_REACH_NOT
                                                 : INGEST_REACH_UNKNOWN;
    }
    bool live = true;
    for (uint32_t rank = 0; rank < w->ranks; rank++) {
        const struct intake_numbers *n =
            intake_numbers(ingest->intake, w->worker->slot, rank);
        if (!w->reach.open || n == NULL ||
            gauge_read(&n->state) == KV_STREAM_CONNECTING) {
            return INGEST_REACH_NOT;
        }
        live = live && kv_stream_state_is_live(w->rank[rank].read);
    }
    /* While no node can read it, old state must not count for more until it is
     * read again. */
    return live || !w->reach.unable || !w->reach.takes ? INGEST_REACH_REACHED
                                                       : INGEST_REACH_UNKNOWN;
}

static void ON_CONTROL
say_unable(struct ingest *ingest, struct ingest_worker *w, bool unable)
{
    if (unable) {
        LOG_WARNING("events_unreachable", KV("worker", w->id),
                    KV("hint", "this node cannot reach its events; a peer "
                               "that can reads them instead. kvasir doctor, "
                               "run here, tries them"));
    } else {
        LOG_INFO("events_reachable", KV("worker", w->id));
    }
    hub_unable(ingest->streams.hub, w->worker->identity, unable,
               probe_now_us());
}

void
ingest_reach_settle(struct ingest *ingest, struct ingest_worker *w)
{
    struct ingest_reach_config config = {
        .unable_ms = ingest->node->config->mesh.ingest_give_up_ms,
        .able_ms = ABLE_MS,
    };

    while (w->present) {
        switch (ingest_reach_next(&w->reach, &config, probe_now_us())) {
        case INGEST_REACH_OPEN:
            ingest_reach_opened(&w->reach, open_source(ingest, w));
            break;
        case INGEST_REACH_CLOSE:
            ingest_reach_closed(&w->reach, close_source(ingest, w));
            break;
        case INGEST_REACH_SAY_UNABLE:
            say_unable(ingest, w, true);
            break;
        case INGEST_REACH_SAY_ABLE:
            say_unable(ingest, w, false);
            break;
        case INGEST_REACH_NOTHING:
            return;
        }
    }
}

void
ingest_reach_watch(struct ingest *ingest, struct ingest_worker *w,
                   uint64_t now_us)
{
    (void)unstick(ingest, w);
    if (w->present) {
        ingest_lookup_watch(ingest, w, now_us);
        ingest_reach_look(&w->reach, look(ingest, w), now_us);
        ingest_reach_settle(ingest, w);
    }
}

void
ingest_read(void *context, uint32_t worker, bool on)
{
    struct ingest *ingest = context;
    struct ingest_worker *w = &ingest->workers[worker];

    role_is_control();
    if (w->reach.wanted == on || ingest->stopped) {
        return;
    }
    LOG_INFO("events_read", KV("worker", w->id), KV("on", on));
    bool took = w->reach.takes;
    ingest_reach_want(&w->reach, on);
    if (took) {
        end_reading(ingest, w);
    }
    ingest_reach_settle(ingest, w);
}

/* Asking */

void
ingest_ask(struct ingest *ingest, struct ingest_worker *w, uint32_t rank)
{
    struct ingest_rank *r = &w->rank[rank];
    int outcome = 0;

    if (w->reach.takes && w->link != NULL) {
        kv_sse_link_reread(w->link, "asked for", r->ask);
    } else if (w->reach.takes) {
        outcome = intake_reread(ingest->intake, w->worker->slot, w->generation,
                                rank, r->ask, r->prove);
    }
    r->unasked = outcome != 0;
}

/* Items that are taken began the reading, so it is over where none are any more
 * (ingest_stream_end()). A sidecar tells no names. */
void
ingest_hand(struct ingest *ingest, struct ingest_worker *w, uint32_t rank)
{
    w->rank[rank].hands = w->reach.takes && w->link == NULL;
    ingest_wake(ingest);
}

/* Without memory, it is said again with the next position. Without a place in the
 * queue, it waits for another turn, and a new copy. */
bool
ingest_hand_work(struct ingest *ingest, uint64_t now_us)
{
    struct ingest_rank *rank = NULL;

    bool any = ingest_streams_hands(&ingest->streams, now_us);
    if (intake_is_handing(ingest->intake)) {
        gossip_hand_waits(ingest->streams.gossip, ingest->handing, now_us);
        return false; /* the intake wakes us */
    }
    if (!any) {
        return false;
    }
    struct decoder_hand *hand =
        ingest_streams_hand(&ingest->streams, INGEST_HAND_BYTES, &rank, now_us);
    if (hand == NULL) {
        return true;
    }
    const struct fleet_worker *worker = ingest->workers[rank->worker].worker;
    if (intake_hand(ingest->intake, worker->slot, rank->generation,
                    rank->stream.rank, hand) != 0) {
        decoder_hand_free(hand);
        rank->hands = true;
        return false;
    }
    ingest->handing = rank->stream;
    return true;
}
