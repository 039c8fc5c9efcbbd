/* Sends a question through the HTTP client and takes its answer. */
#include <errno.h>

#include "node/tokens/token_ask_internal.h"

/* Where the connection waits between questions: an open one if there is one,
 * otherwise an empty place. ASK_PLACES_MAX: all are in use. */
static unsigned
find_place(const struct token_question *q)
{
    const struct token_ask *ask = q->ask;
    const struct ask_slot *slot = &ask->slots[q->slot];
    unsigned found = ASK_PLACES_MAX;

    if (slot->generation != q->generation) {
        return ASK_PLACES_MAX; /* the worker is another by now */
    }
    for (unsigned i = 0; i < ask->limits.connections_max; i++) {
        bool taken = (slot->taken >> i & 1) != 0;
        if (!taken && (slot->idle[i] != NULL || found == ASK_PLACES_MAX)) {
            found = i;
            if (slot->idle[i] != NULL) {
                break;
            }
        }
    }
    return found;
}

/* The call is over; what it left belongs to the worker that was asked. */
static void
release_place(struct token_question *q)
{
    struct ask_slot *slot = &q->ask->slots[q->slot];

    q->call = NULL;
    if (q->place == ASK_PLACES_MAX) {
        return;
    }
    slot->taken &= ~(UINT32_C(1) << q->place);
    if (slot->generation != q->generation) {
        httpc_hang_up(&slot->idle[q->place]);
    }
}

static void
on_done(void *context, const struct httpc_answer *answer)
{
    struct token_question *q = context;

    release_place(q);
    switch (answer->outcome) {
    case HTTPC_OK:
        ask_answered(q, answer->head->status, answer->body);
        return;
    case HTTPC_TIMEOUT:
        ask_failed(q, ASK_FAULT_LATE);
        return;
    case HTTPC_TOO_LARGE:
        ask_failed(q, ASK_FAULT_LARGE);
        return;
    case HTTPC_RESOLVE:
    case HTTPC_CONNECT:
    case HTTPC_TLS:
    case HTTPC_CLOSED:
    case HTTPC_BAD:
        break;
    }
    ask_failed(q, ASK_FAULT_BROKEN);
}

int
ask_conn_send(struct token_question *q)
{
    struct token_ask *ask = q->ask;
    struct ask_slot *slot = &ask->slots[q->slot];
    uint64_t now_ms = uv_now(ask->loop);
    char path[ASK_PATH_MAX];
    struct buf room;

    CHECK(q->call == NULL && !q->over);
    buf_init(&room, SIZE_MAX / 2); /* as large as the client's */
    struct httpc_request request = {
        .host = q->url.host,
        .port = q->url.port,
        .address = (const struct sockaddr *)&q->address,
        .tls = q->url.tls ? ask->tls : NULL,
        .method = "POST",
        .target = ask_text_path(q, path),
        .headers = buf_slice(&q->lines),
        .body = ask_text_body(q, &room),
        .timeout_ms = q->end_ms > now_ms ? (uint32_t)(q->end_ms - now_ms) : 1,
        .answer_bytes_max = ask->limits.answer_bytes_max,
        .context = q,
        .done = on_done,
    };
    q->place = find_place(q);
    if (q->place != ASK_PLACES_MAX) {
        request.waits = &slot->idle[q->place];
    }
    bool able = !room.failed && (!q->url.tls || ask->tls != NULL);
    int error = !able ? -ENOMEM : httpc_start(&q->call, ask->loop, &request);
    if (error == 0 && q->place != ASK_PLACES_MAX) {
        slot->taken |= UINT32_C(1) << q->place;
    }
    buf_fini(&room);
    return error;
}

void
ask_conn_drop(struct token_question *q)
{
    if (q->call != NULL) {
        httpc_cancel(q->call);
        release_place(q);
    }
}

void
ask_conn_close_idle(struct ask_slot *slot)
{
    for (unsigned i = 0; i < ASK_PLACES_MAX; i++) {
        httpc_hang_up(&slot->idle[i]);
    }
}
