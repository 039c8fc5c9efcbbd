/*
 * A lane's calls to engines for vectors of texts: for answers to questions alike
 * (resembling.c), and for what a request is about (sorting.c). Each of both has its
 * calls, connections that wait, and pauses: after FAILED_MAX that failed in a row
 * nobody is asked for a while.
 */
#include "node/edge/answer_internal.h"

#define OPEN_MAX   256U /* calls of a lane, for either */
#define FAILED_MAX 4U
#define PAUSE_US   UINT64_C(1000000)

bool
vectors_may(struct lane *lane, enum edge_embeds whose)
{
    const struct edge_embedders *embedders = &lane->embedders[whose];

    return embedders->open < OPEN_MAX &&
           lane_now_us(lane) >= embedders->again_at_us;
}

/* Where the call's connection waits for the next one: an open one, if any. */
static void
take_place(struct edge_embedders *embedders, struct edge_vector_call *call,
           struct embedding_ask *ask)
{
    unsigned place = EDGE_EMBEDDERS_KEPT;

    for (unsigned i = 0; i < EDGE_EMBEDDERS_KEPT; i++) {
        bool taken = (embedders->taken >> i & 1) != 0;
        if (!taken &&
            (place == EDGE_EMBEDDERS_KEPT || embedders->kept[i] != NULL)) {
            place = i;
            if (embedders->kept[i] != NULL) {
                break;
            }
        }
    }
    call->place = place;
    if (place != EDGE_EMBEDDERS_KEPT) {
        embedders->taken |= UINT32_C(1) << place;
        ask->waits = &embedders->kept[place];
    }
    embedders->open++;
}

static void
leave_place(struct edge_embedders *embedders, struct edge_vector_call *call)
{
    call->call = NULL;
    embedders->open--;
    if (call->place != EDGE_EMBEDDERS_KEPT) {
        embedders->taken &= ~(UINT32_C(1) << call->place);
    }
}

bool
vectors_call(struct lane *lane, enum edge_embeds whose,
             struct edge_vector_call *call, const struct fleet_worker *worker,
             struct embedding_ask ask)
{
    struct edge_embedders *embedders = &lane->embedders[whose];

    CHECK(call->call == NULL);
    ask.url = worker->url;
    ask.api_key = worker->api_key;
    ask.address = (const struct sockaddr *)&worker->address;
    ask.tls = lane->workers_tls;
    take_place(embedders, call, &ask);
    if (embedding_start(&call->call, &lane->loop, &ask) != 0) {
        leave_place(embedders, call);
        return false;
    }
    return true;
}

/* The engine refuses this text: it may be well for others. */
static bool
is_of_text(const struct httpc_answer *answer)
{
    unsigned status = answer->outcome == HTTPC_OK ? answer->head->status : 0;

    return status == 400 || status == 413 || status == 422;
}

struct text_vector *
vectors_answered(struct lane *lane, enum edge_embeds whose,
                 struct edge_vector_call *call,
                 const struct httpc_answer *answer)
{
    struct edge_embedders *embedders = &lane->embedders[whose];
    struct text_vector *vector = embedding_read(answer);

    leave_place(embedders, call);
    if (vector != NULL) {
        embedders->failed = 0;
    } else if (!is_of_text(answer) && ++embedders->failed >= FAILED_MAX) {
        embedders->failed = 0;
        embedders->again_at_us = lane_now_us(lane) + PAUSE_US;
    }
    return vector;
}

void
vectors_cancel(struct lane *lane, enum edge_embeds whose,
               struct edge_vector_call *call)
{
    if (call->call != NULL) {
        httpc_cancel(call->call);
        leave_place(&lane->embedders[whose], call);
    }
}

void
vectors_lane_close(struct lane *lane)
{
    for (unsigned whose = 0; whose < EDGE_EMBEDS; whose++) {
        CHECK(lane->embedders[whose].open == 0);
        for (unsigned i = 0; i < EDGE_EMBEDDERS_KEPT; i++) {
            httpc_hang_up(&lane->embedders[whose].kept[i]);
        }
    }
}
