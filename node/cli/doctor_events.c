/* `kvasir doctor` follows a worker's events, as a node does. */
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "node/cli/doctor_try_internal.h"
#include "node/events/intake.h"
#include "node/ingest/ingest_name.h"

#define EVENTS_MS 3000U /* to connect; after an answer, for what it stored */
#define LOOK_MS   20U

/* Where the worker's name leads. False: nowhere, and why is said. */
static bool
move(struct doctor *d, struct intake *intake, const struct url *url,
     enum intake_place place, struct doctor_events *events)
{
    struct sockaddr_storage addresses[INGEST_ADDRESSES_MAX] = {{0}};
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct ingest_name_denied denied;
    struct ingest_name name;
    uv_getaddrinfo_t lookup;
    size_t count = 0;

    if (url->host[0] == '\0' || url_is_address(url)) {
        return true;
    }
    int error =
        uv_getaddrinfo(&d->loop, &lookup, NULL, url->host, NULL, &hints);
    for (struct addrinfo *at = error == 0 ? lookup.addrinfo : NULL;
         at != NULL && count < INGEST_ADDRESSES_MAX; at = at->ai_next) {
        if (at->ai_family == AF_INET || at->ai_family == AF_INET6) {
            memcpy(&addresses[count++], at->ai_addr, at->ai_addrlen);
        }
    }
    if (error == 0) {
        uv_freeaddrinfo(lookup.addrinfo);
    }
    ingest_name_init(&name);
    (void)ingest_name_take(&name, &d->config->workers_deny, addresses, count, 0,
                           0, &denied);
    if (name.address[0] == '\0') {
        (void)snprintf(events->denied, sizeof events->denied, "%.60s: %s",
                       url->host,
                       name.state == INGEST_NAME_DENIED
                           ? "workers.deny denies its addresses"
                           : "the name has no address");
        return false;
    }
    return intake_move(intake, 0, 1, place, name.address) == 0;
}

/* Takes what the intake has read. */
static void
take(struct intake *intake, struct doctor_events *events)
{
    struct ring *ring = intake_ring(intake);
    const struct intake_item *item;
    size_t size;

    while ((item = ring_peek(ring, &size)) != NULL) {
        if (item->kind == INTAKE_RECORD) {
            const struct event_record *record = (const void *)(item + 1);
            if (record->block_tokens != 0) {
                events->block_tokens = shape_tokens(record->block_tokens);
                events->unruled = !shape_is_ruled(record->block_tokens);
            }
        }
        ring_consume(ring);
    }
}

static uint64_t
dropped(const struct kv_counters *kv)
{
    return counter_read(&kv->drop_malformed) +
           counter_read(&kv->drop_unknown_type) +
           counter_read(&kv->drop_unaligned) + counter_read(&kv->drop_opaque) +
           counter_read(&kv->drop_placeholder) +
           counter_read(&kv->drop_unknown_medium) +
           counter_read(&kv->drop_non_local) + counter_read(&kv->drop_group) +
           counter_read(&kv->drop_block_size) +
           counter_read(&kv->drop_unknown_parent) +
           counter_read(&kv->bad_frames) + counter_read(&kv->other_topic);
}

/* Of the ranks together. */
static void
count(const struct intake *intake, uint32_t ranks, struct doctor_events *events)
{
    events->messages = 0;
    events->blocks = 0;
    events->dropped = 0;
    events->state = KV_STREAM_CONNECTING;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct intake_numbers *n = intake_numbers(intake, 0, rank);
        if (n == NULL) {
            continue;
        }
        events->messages += counter_read(&n->kv.messages);
        events->blocks += counter_read(&n->kv.blocks_stored);
        events->dropped += dropped(&n->kv);
        events->replied =
            events->replied || counter_read(&n->last_reply_us) != 0;
        enum kv_stream_state state =
            (enum kv_stream_state)gauge_read(&n->state);
        if (state != KV_STREAM_CONNECTING) {
            events->state = state;
        }
    }
}

static bool
is_told(const struct doctor_found *found)
{
    return found->events.blocks != 0 &&
           (found->events.replied || found->worker->replay.host[0] == '\0');
}

static bool
is_connected(const struct doctor_found *found)
{
    return found->events.state != KV_STREAM_CONNECTING;
}

/* Looks until it is so, or it takes too long. */
static void
look_for(struct doctor *d, struct intake *intake, struct doctor_found *found,
         bool (*is_so)(const struct doctor_found *found))
{
    uint64_t end_ms = uv_hrtime() / 1000000 + EVENTS_MS;

    do {
        uv_sleep(LOOK_MS);
        (void)uv_run(&d->loop, UV_RUN_NOWAIT);
        take(intake, &found->events);
        count(intake, found->worker->ranks, &found->events);
    } while (!is_so(found) && uv_hrtime() / 1000000 < end_ms);
}

void
doctor_watch(struct doctor *d, struct intake *intake,
             struct doctor_found *found)
{
    for (uint32_t rank = 0; rank < found->worker->ranks; rank++) {
        if (intake_reread(intake, 0, 1, rank, rank + 1, true) != 0) {
            break; /* the periodic look for a lost tail asks, too */
        }
    }
    look_for(d, intake, found, is_told);
}

struct intake *
doctor_follow(struct doctor *d, struct doctor_found *found)
{
    const struct config_worker *w = found->worker;
    struct intake_worker worker = {
        .generation = 1,
        .reading = 1,
        .identity = key_digest(slice_of(w->id)),
        .ranks = w->ranks,
        .events = w->events,
        .replay = w->replay,
    };
    struct intake *intake = NULL;

    memcpy(worker.topic, w->topic, sizeof worker.topic);
    memcpy(worker.id, w->id, sizeof worker.id);
    if (w->events.host[0] == '\0' ||
        intake_new(&intake, d->config, &d->wake, rng_next(&d->rng)) != 0) {
        return NULL;
    }
    if (intake_start(intake) != 0 || intake_add(intake, &worker) != 0 ||
        !move(d, intake, &w->events, INTAKE_EVENTS, &found->events) ||
        !move(d, intake, &w->replay, INTAKE_REPLAY, &found->events)) {
        intake_free(intake);
        return NULL;
    }
    look_for(d, intake, found, is_connected);
    return intake;
}
