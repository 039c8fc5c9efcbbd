/* Looks up the names in workers' `events` and `replay`, and tells the intake
 * where they lead. */
#include <errno.h>
#include <stdlib.h>

#include "node/base/log.h"
#include "node/fleet/probe.h"
#include "node/ingest/ingest_internal.h"

/* One that runs. Its own owner once nobody waits for it. */
struct ingest_lookup {
    uv_getaddrinfo_t request;
    struct ingest *ingest;
    struct ingest_worker *worker; /* NULL: nobody waits */
    enum intake_place place;
};

static const struct url *
url_of(const struct ingest_worker *w, enum intake_place place)
{
    return place == INTAKE_EVENTS ? &w->worker->events : &w->worker->replay;
}

static const char *
place_name(enum intake_place place)
{
    return place == INTAKE_EVENTS ? "events" : "replay";
}

/* Whether any rank is connected: the address is right for all of them. */
static bool
events_work(const struct ingest *ingest, const struct ingest_worker *w)
{
    for (uint32_t rank = 0; rank < w->ranks; rank++) {
        const struct intake_numbers *n =
            intake_numbers(ingest->intake, w->worker->slot, rank);
        if (n != NULL && gauge_read(&n->state) != KV_STREAM_CONNECTING) {
            return true;
        }
    }
    return false;
}

/* It does not work when replays were asked for, and no reply came for longer
 * than two rounds may be silent. */
static bool
replay_works(const struct ingest *ingest, struct ingest_worker *w,
             uint64_t now_us)
{
    uint64_t silence_us =
        ingest->node->config->events.replay_timeout_ms * UINT64_C(2000);
    uint64_t asked = 0;
    uint64_t replied_us = 0;

    for (uint32_t rank = 0; rank < w->ranks; rank++) {
        const struct intake_numbers *n =
            intake_numbers(ingest->intake, w->worker->slot, rank);
        if (n != NULL) {
            uint64_t at_us = counter_read(&n->last_reply_us);
            asked += counter_read(&n->kv.replays);
            replied_us = at_us > replied_us ? at_us : replied_us;
        }
    }
    if (asked == w->replays_asked || replied_us >= w->replay_well_us) {
        w->replays_asked = asked;
        w->replay_well_us = now_us;
    }
    return now_us - w->replay_well_us <= silence_us;
}

/* Told again with the next look when the queue is full. */
static void ON_CONTROL
tell(struct ingest *ingest, struct ingest_worker *w, enum intake_place place)
{
    w->untold[place] =
        intake_move(ingest->intake, w->worker->slot, w->generation, place,
                    w->name[place].address) != 0;
}

static void
say(const struct ingest_worker *w, enum intake_place place,
    enum ingest_name_state before, const struct ingest_name_denied *denied)
{
    const struct ingest_name *name = &w->name[place];
    const char *host = url_of(w, place)->host;
    char range[RANGE_TEXT_MAX];

    if (name->state == before) {
        return;
    }
    if (name->state == INGEST_NAME_DENIED) {
        LOG_WARNING("events_address_denied", KV("worker", w->id),
                    KV("key", place_name(place)), KV("name", host),
                    KV("address", denied->address),
                    KV("range", range_text(denied->range, range)),
                    KV("hint", "workers.deny denies all addresses of the "
                               "name: nothing is connected"));
    } else if (name->state == INGEST_NAME_UNRESOLVED) {
        LOG_WARNING(
            "events_name_unresolved", KV("worker", w->id),
            KV("key", place_name(place)), KV("name", host),
            KV("hint",
               "the last address stays in use; the name is looked up again"));
    }
}

static void ON_CONTROL
take(struct ingest *ingest, struct ingest_worker *w, enum intake_place place,
     const struct sockaddr_storage *found, size_t count)
{
    const struct config *config = ingest->node->config;
    struct ingest_name *name = &w->name[place];
    enum ingest_name_state before = name->state;
    struct ingest_name_denied denied;

    bool moved = ingest_name_take(
        name, &config->workers_deny, found, count, probe_now_us(),
        config->health.interval_ms * UINT64_C(1000), &denied);
    say(w, place, before, &denied);
    if (moved) {
        LOG_INFO(
            "events_address", KV("worker", w->id), KV("key", place_name(place)),
            KV("name", url_of(w, place)->host), KV("address", name->address));
        tell(ingest, w, place);
    }
}

static void
on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct ingest_lookup *lookup = request->data;
    struct ingest_worker *w = lookup->worker;
    struct sockaddr_storage addresses[INGEST_ADDRESSES_MAX] = {{0}};
    size_t count = 0;

    role_is_control();
    for (struct addrinfo *at = found;
         at != NULL && status == 0 && count < INGEST_ADDRESSES_MAX;
         at = at->ai_next) {
        if (at->ai_family == AF_INET || at->ai_family == AF_INET6) {
            memcpy(&addresses[count++], at->ai_addr, at->ai_addrlen);
        }
    }
    uv_freeaddrinfo(found);
    if (w != NULL) {
        w->lookup[lookup->place] = NULL;
        take(lookup->ingest, w, lookup->place, addresses, count);
    }
    free(lookup);
}

static void ON_CONTROL
start(struct ingest *ingest, struct ingest_worker *w, enum intake_place place)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                          .ai_socktype = SOCK_STREAM};
    struct ingest_lookup *lookup = calloc(1, sizeof *lookup);
    int error = -ENOMEM;

    CHECK(w->lookup[place] == NULL);
    if (lookup != NULL) {
        *lookup = (struct ingest_lookup){
            .ingest = ingest, .worker = w, .place = place};
        lookup->request.data = lookup;
        error = uv_getaddrinfo(ingest->loop, &lookup->request, on_resolved,
                               url_of(w, place)->host, NULL, &hints);
    }
    if (error == 0) {
        w->lookup[place] = lookup;
        return;
    }
    free(lookup);
    take(ingest, w, place, NULL, 0);
}

void
ingest_lookup_begin(struct ingest *ingest, struct ingest_worker *w)
{
    w->replays_asked = 0;
    w->replay_well_us = probe_now_us();
    for (int place = 0; place < INTAKE_PLACES; place++) {
        const struct url *url = url_of(w, (enum intake_place)place);
        w->name[place] = (struct ingest_name){.state = INGEST_NAME_NONE};
        w->untold[place] = false;
        if (url->host[0] != '\0' && !url_is_address(url)) {
            ingest_name_init(&w->name[place]);
        }
    }
    ingest_lookup_watch(ingest, w, probe_now_us());
}

void
ingest_lookup_watch(struct ingest *ingest, struct ingest_worker *w,
                    uint64_t now_us)
{
    for (int i = 0; i < INTAKE_PLACES; i++) {
        enum intake_place place = (enum intake_place)i;
        if (w->untold[place]) {
            tell(ingest, w, place);
        }
        if (w->name[place].state == INGEST_NAME_NONE) {
            continue;
        }
        bool works = place == INTAKE_EVENTS ? events_work(ingest, w)
                                            : replay_works(ingest, w, now_us);
        if (ingest_name_due(&w->name[place], works, now_us)) {
            start(ingest, w, place);
        }
    }
}

void
ingest_lookup_drop(struct ingest_worker *w)
{
    for (int place = 0; place < INTAKE_PLACES; place++) {
        if (w->lookup[place] != NULL) {
            w->lookup[place]->worker = NULL;
            (void)uv_cancel((uv_req_t *)&w->lookup[place]->request);
            w->lookup[place] = NULL;
        }
        w->name[place] = (struct ingest_name){.state = INGEST_NAME_NONE};
        w->untold[place] = false;
    }
}
