/* Carries out what a fleet asks for, on a libuv loop. */
#include "node/fleet/probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "node/fleet/fleet_log_internal.h"
#include "node/http/httpc.h"

#define AUTHORIZATION_BYTES (CONFIG_SECRET_MAX + 64)

/* One HTTP call in flight; its place in the table is its worker and kind. */
struct call {
    struct probe *probe;
    struct httpc *http; /* NULL: none */
    uint32_t slot;
    uint32_t generation;
    enum fleet_probe kind;
};

/* One lookup of a name. It cannot always be cancelled, so it may outlive its
 * worker, but not its probe. */
struct lookup {
    uv_getaddrinfo_t request;
    struct probe *probe;
    uint32_t slot;
    uint32_t generation;
};

struct probe {
    uv_loop_t *loop;
    struct fleet *fleet;
    struct probe_owner owner;
    const struct sock_tls_context *tls; /* NULL: https cannot be spoken yet */
    uv_timer_t timer;
    bool poking;
    bool closing;
    uint32_t holds; /* the timer and lookups that libuv still has */
    struct call call[WORKERS_MAX][FLEET_PROBES];
    struct httpc_conn *waits[WORKERS_MAX][FLEET_PROBES]; /* between calls */
};

uint64_t
probe_now_us(void)
{
    return uv_hrtime() / 1000;
}

static void
drop(struct probe *probe)
{
    CHECK(probe->holds > 0);
    probe->holds--;
    if (probe->holds == 0) {
        CHECK(probe->closing);
        free(probe);
    }
}

/* HTTP */

static void
give_result(struct call *call, unsigned status, const char *failure,
            struct slice body)
{
    struct fleet_probed result = {
        .slot = call->slot,
        .generation = call->generation,
        .probe = call->kind,
        .status = status,
        .failure = failure,
        .body = body,
    };

    fleet_probed(call->probe->fleet, &result, probe_now_us());
}

static void
on_answer(void *context, const struct httpc_answer *answer)
{
    struct call *call = context;

    call->http = NULL;
    if (answer->outcome == HTTPC_OK) {
        give_result(call, answer->head->status, "", answer->body);
    } else {
        give_result(call, 0,
                    answer->outcome == HTTPC_TLS
                        ? answer->why
                        : httpc_outcome_name(answer->outcome),
                    (struct slice){NULL, 0});
    }
    probe_poke(call->probe);
}

static void
start_call(struct probe *probe, const struct fleet_out *out)
{
    const struct fleet_worker *worker = out->worker;
    struct call *call = &probe->call[worker->slot][out->probe];
    char authorization[AUTHORIZATION_BYTES] = "";

    CHECK(call->http == NULL);
    *call = (struct call){
        .probe = probe,
        .slot = worker->slot,
        .generation = worker->generation,
        .kind = out->probe,
    };
    if (worker->api_key[0] != '\0') {
        (void)snprintf(authorization, sizeof authorization,
                       "Authorization: Bearer %s\r\n", worker->api_key);
    }
    struct httpc_request request = {
        .host = out->url->host,
        .port = out->url->port,
        .address = (const struct sockaddr *)&worker->address,
        .tls = worker->tls ? probe->tls : NULL,
        .waits = out->fresh ? NULL : &probe->waits[worker->slot][out->probe],
        .method = "GET",
        .target = out->target,
        .headers = slice_of(authorization),
        .timeout_ms = out->timeout_ms,
        .answer_bytes_max = PROBE_ANSWER_BYTES_MAX,
        .context = call,
        .done = on_answer,
    };
    if ((worker->tls && probe->tls == NULL) ||
        httpc_start(&call->http, probe->loop, &request) != 0) {
        call->http = NULL;
        give_result(call, 0, "not sent", (struct slice){NULL, 0});
    }
}

static void
cancel_calls(struct probe *probe, uint32_t slot)
{
    for (unsigned p = 0; p < FLEET_PROBES; p++) {
        struct call *call = &probe->call[slot][p];
        if (call->http != NULL) {
            httpc_cancel(call->http);
            call->http = NULL;
        }
        httpc_hang_up(&probe->waits[slot][p]);
    }
}

/* Names */

static void
on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct lookup *lookup = request->data;
    struct probe *probe = lookup->probe;
    struct sockaddr_storage addresses[FLEET_ADDRESSES_MAX] = {{0}};
    size_t count = 0;

    for (struct addrinfo *at = found; at != NULL && count < FLEET_ADDRESSES_MAX;
         at = at->ai_next) {
        if (at->ai_family == AF_INET || at->ai_family == AF_INET6) {
            memcpy(&addresses[count++], at->ai_addr, at->ai_addrlen);
        }
    }
    uv_freeaddrinfo(found);
    if (!probe->closing) {
        fleet_resolved(probe->fleet, lookup->slot, lookup->generation,
                       addresses, status == 0 ? count : 0, probe_now_us());
        probe_poke(probe);
    }
    free(lookup);
    drop(probe);
}

static void
start_lookup(struct probe *probe, const struct fleet_out *out)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                          .ai_socktype = SOCK_STREAM,
                                          .ai_flags = AI_NUMERICSERV};
    struct lookup *lookup = calloc(1, sizeof *lookup);
    char service[8];
    int error = -ENOMEM;

    (void)snprintf(service, sizeof service, "%u", (unsigned)out->url->port);
    if (lookup != NULL) {
        lookup->probe = probe;
        lookup->slot = out->worker->slot;
        lookup->generation = out->worker->generation;
        lookup->request.data = lookup;
        error = uv_getaddrinfo(probe->loop, &lookup->request, on_resolved,
                               out->url->host, service, &hints);
    }
    if (error == 0) {
        probe->holds++;
        return;
    }
    free(lookup);
    fleet_resolved(probe->fleet, out->worker->slot, out->worker->generation,
                   NULL, 0, probe_now_us());
}

/* Outputs */

static void
take_event(struct probe *probe, const struct fleet_out *out)
{
    fleet_log_event(out);
    if (out->event == FLEET_REMOVED) {
        cancel_calls(probe, out->worker->slot);
    }
    if (probe->owner.event != NULL) {
        probe->owner.event(probe->owner.context, out);
    }
}

static void
do_output(struct probe *probe, const struct fleet_out *out)
{
    switch (out->kind) {
    case FLEET_OUT_PROBE:
        start_call(probe, out);
        return;
    case FLEET_OUT_RESOLVE:
        start_lookup(probe, out);
        return;
    case FLEET_OUT_VIEW:
        /* Without memory the fleet asks again after a while. */
        if (fleet_publish(probe->fleet) == 0 &&
            probe->owner.published != NULL) {
            probe->owner.published(probe->owner.context);
        }
        return;
    case FLEET_OUT_EVENT:
        take_event(probe, out);
        return;
    }
    CHECK(false);
}

static void
on_timer(uv_timer_t *timer)
{
    probe_poke(timer->data);
}

static void
set_timer(struct probe *probe, uint64_t now_us)
{
    uint64_t deadline_us = fleet_deadline(probe->fleet);

    if (deadline_us == UINT64_MAX) {
        (void)uv_timer_stop(&probe->timer); /* cannot fail */
        return;
    }
    uint64_t left_us = deadline_us > now_us ? deadline_us - now_us : 0;
    /* Rounded up: a timer that fires early would fire again and again. It
     * fails only for a closing handle. */
    (void)uv_timer_start(&probe->timer, on_timer, (left_us + 999) / 1000, 0);
}

void
probe_poke(struct probe *probe)
{
    struct fleet_out out;

    if (probe->poking || probe->closing) {
        return;
    }
    probe->poking = true;
    uint64_t now_us = probe_now_us();
    fleet_tick(probe->fleet, now_us);
    while (fleet_next_out(probe->fleet, &out)) {
        do_output(probe, &out);
    }
    uv_update_time(probe->loop);
    set_timer(probe, now_us);
    probe->poking = false;
}

void
probe_use_tls(struct probe *probe, const struct sock_tls_context *tls)
{
    probe->tls = tls;
}

int
probe_new(struct probe **out, uv_loop_t *loop, struct fleet *fleet,
          const struct probe_owner *owner)
{
    struct probe *probe = calloc(1, sizeof *probe);

    *out = NULL;
    if (probe == NULL) {
        return -ENOMEM;
    }
    probe->loop = loop;
    probe->fleet = fleet;
    probe->owner = *owner;
    (void)uv_timer_init(loop, &probe->timer); /* cannot fail */
    probe->timer.data = probe;
    probe->holds = 1;
    (void)uv_timer_start(&probe->timer, on_timer, 0, 0);
    *out = probe;
    return 0;
}

static void
on_timer_closed(uv_handle_t *handle)
{
    drop(handle->data);
}

void
probe_free(struct probe *probe)
{
    if (probe == NULL) {
        return;
    }
    CHECK(!probe->closing && !probe->poking);
    probe->closing = true;
    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        cancel_calls(probe, slot);
    }
    uv_close((uv_handle_t *)&probe->timer, on_timer_closed);
}
