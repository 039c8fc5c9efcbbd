/* Sources: begun, ended, asked; what they deliver goes to gossip. */
#include <errno.h>

#include "node/base/log.h"
#include "node/fleet/probe.h"
#include "node/ingest/ingest_internal.h"

#define ITEMS_PER_TURN       2048U
#define SIDECAR_RETRY_MS     200U
#define SIDECAR_RETRY_MAX_MS 5000U
#define SIDECAR_SILENCE_MS   60000U
#define ABLE_MS              1000U

/* What they deliver */

static void ON_CONTROL
take_item(struct ingest *ingest, const struct intake_item *item,
          const void *more)
{
    struct ingest_worker *f = &ingest->workers[item->worker];

    if (!f->present || !f->reach.takes || f->generation != item->generation ||
        f->reading != item->reading || item->rank >= f->ranks) {
        return; /* of a reading that is over */
    }
    if (item->kind == INTAKE_BEGIN) {
        LOG_INFO("events_begin", KV("worker", f->id), KV("rank", item->rank),
                 KV("reason", item->reason), KV("whole", item->whole));
        ingest_position_drop(f, item->rank);
    } else if (item->kind == INTAKE_RESUME) {
        LOG_INFO("events_resume", KV("worker", f->id), KV("rank", item->rank),
                 KV("seq", item->seq), KV("whole", item->whole));
    } else if (item->kind == INTAKE_POSITION) {
        ingest_position_take(f, item, more);
        return;
    }
    ingest_did(ingest, f, item->rank,
               ingest_stream_item(&ingest->streams, &f->rank[item->rank], item,
                                  more, probe_now_us()));
    ingest_pull(ingest); /* f may be gone */
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

static int
add_sidecar(struct ingest *ingest, struct ingest_worker *f)
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
        .seed = rng_next(&ingest->rng),
        .sink = {.context = ingest, .item = on_sidecar},
    };

    memcpy(source.id, worker->id, sizeof(source.id));
    memcpy(source.api_key, worker->api_key, sizeof(source.api_key));
    return kv_sse_link_new(&f->link, ingest->loop, &source);
}

static int
add_events(struct ingest *ingest, const struct ingest_worker *f)
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
    return intake_add(ingest->intake, &source);
}

static bool ON_CONTROL
unstick(struct ingest *ingest, struct ingest_worker *f)
{
    uint32_t slot = (uint32_t)(f - ingest->workers);

    if (f->stuck &&
        intake_remove(ingest->intake, slot, f->stuck_generation) == 0) {
        f->stuck = false;
    }
    return !f->stuck;
}

static int ON_CONTROL
open_source(struct ingest *ingest, struct ingest_worker *f)
{
    int outcome = -EAGAIN;

    if (unstick(ingest, f)) {
        f->reading++;
        outcome = f->worker->events.host[0] != '\0' ? add_events(ingest, f)
                                                    : add_sidecar(ingest, f);
    }
    if (outcome != 0 && !f->refused) {
        LOG_ERROR("events_refused", KV("worker", f->id),
                  KV_FAULT("error", outcome),
                  KV("hint", "its requests are routed by their text, unless "
                             "another node reads it"));
    }
    f->refused = outcome != 0;
    return outcome;
}

/* Ending */

/* A link may be what is calling. */
void
ingest_bury(struct ingest *ingest)
{
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        for (uint32_t grave = 0; grave < INGEST_GRAVES; grave++) {
            kv_sse_link_free(ingest->workers[i].gone[grave]);
            ingest->workers[i].gone[grave] = NULL;
        }
    }
}

static int ON_CONTROL
close_source(struct ingest *ingest, struct ingest_worker *f)
{
    if (f->link == NULL) {
        return intake_remove(ingest->intake, f->worker->slot, f->generation);
    }
    for (uint32_t grave = 0; grave < INGEST_GRAVES; grave++) {
        if (f->gone[grave] == NULL) {
            kv_sse_link_mute(f->link);
            f->gone[grave] = f->link;
            f->link = NULL;
            return 0;
        }
    }
    return -EAGAIN;
}

/* What is read of it is not taken any more. */
static void ON_CONTROL
end_reading(struct ingest *ingest, struct ingest_worker *f)
{
    for (uint32_t rank = 0; rank < f->ranks; rank++) {
        ingest_position_drop(f, rank);
        ingest_did(ingest, f, rank,
                   ingest_stream_end(&ingest->streams, &f->rank[rank],
                                     probe_now_us()));
    }
}

void
ingest_stop_reading(struct ingest *ingest, struct ingest_worker *f)
{
    bool took = f->reach.takes;

    ingest_reach_want(&f->reach, false);
    f->reach.unable = false; /* the cluster forgets it with the worker */
    if (took) {
        end_reading(ingest, f);
    }
    ingest_reach_settle(ingest, f);
    CHECK(f->link == NULL);
    if (f->reach.open) { /* unstick() tries again */
        LOG_WARNING("events_remove_refused", KV("worker", f->id));
        f->stuck = true;
        f->stuck_generation = f->generation;
    }
    f->reach = (struct ingest_reach){0};
}

/* Reaching */

static enum ingest_reach_seen
look(const struct ingest *ingest, const struct ingest_worker *f)
{
    if (f->link != NULL) {
        return kv_sse_link_is_connected(f->link) ? INGEST_REACH_REACHED
               : kv_sse_link_is_failing(f->link) ? INGEST_REACH_NOT
                                                 : INGEST_REACH_UNKNOWN;
    }
    bool live = true;
    for (uint32_t rank = 0; rank < f->ranks; rank++) {
        const struct intake_numbers *n =
            intake_numbers(ingest->intake, f->worker->slot, rank);
        if (!f->reach.open || n == NULL ||
            gauge_read(&n->state) == KV_STREAM_CONNECTING) {
            return INGEST_REACH_NOT;
        }
        live = live && kv_stream_state_is_live(f->rank[rank].read);
    }
    /* While nobody can, what was known must not count for more until it is
     * read again. */
    return live || !f->reach.unable || !f->reach.takes ? INGEST_REACH_REACHED
                                                       : INGEST_REACH_UNKNOWN;
}

static void ON_CONTROL
say_unable(struct ingest *ingest, struct ingest_worker *f, bool unable)
{
    if (unable) {
        LOG_WARNING("events_unreachable", KV("worker", f->id),
                    KV("hint", "this node has no connection to its events: "
                               "others that have one read them"));
    } else {
        LOG_INFO("events_reachable", KV("worker", f->id));
    }
    ingest->owner.unable(ingest->owner.context, f->worker->identity, unable);
}

void
ingest_reach_settle(struct ingest *ingest, struct ingest_worker *f)
{
    struct ingest_reach_config config = {
        .unable_ms = ingest->node->config->mesh.ingest_give_up_ms,
        .able_ms = ABLE_MS,
    };

    while (f->present) {
        switch (ingest_reach_next(&f->reach, &config, probe_now_us())) {
        case INGEST_REACH_OPEN:
            ingest_reach_opened(&f->reach, open_source(ingest, f));
            break;
        case INGEST_REACH_CLOSE:
            ingest_reach_closed(&f->reach, close_source(ingest, f));
            break;
        case INGEST_REACH_SAY_UNABLE:
            say_unable(ingest, f, true);
            break;
        case INGEST_REACH_SAY_ABLE:
            say_unable(ingest, f, false);
            break;
        case INGEST_REACH_NOTHING:
            return;
        }
    }
}

void
ingest_reach_watch(struct ingest *ingest, struct ingest_worker *f,
                   uint64_t now_us)
{
    (void)unstick(ingest, f);
    if (f->present) {
        ingest_reach_look(&f->reach, look(ingest, f), now_us);
        ingest_reach_settle(ingest, f);
    }
}

void
ingest_read(struct ingest *ingest, uint64_t worker, bool on)
{
    struct ingest_worker *f = ingest_find(ingest, worker);

    if (f == NULL || f->reach.wanted == on || ingest->stopped) {
        return;
    }
    LOG_INFO("events_read", KV("worker", f->id), KV("on", on));
    bool took = f->reach.takes;
    ingest_reach_want(&f->reach, on);
    if (took) {
        end_reading(ingest, f);
    }
    ingest_reach_settle(ingest, f);
}

/* Asking */

void
ingest_ask(struct ingest *ingest, struct ingest_worker *f, uint32_t rank)
{
    struct ingest_rank *r = &f->rank[rank];
    int outcome = 0;

    if (f->reach.takes && f->link != NULL) {
        kv_sse_link_reread(f->link, "asked for", r->ask);
    } else if (f->reach.takes) {
        outcome = intake_reread(ingest->intake, f->worker->slot, f->generation,
                                rank, r->ask);
    }
    r->unasked = outcome != 0;
}
