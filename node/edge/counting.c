/*
 * Counts of Messages' tokens (/v1/messages/count_tokens) that this node makes
 * itself, by the model's own files: no engine is asked, and there need be none.
 * What the files do not do for (pictures, a way that was switched off), or a
 * thread has no room or time for, goes to an engine as without files.
 */
#include <inttypes.h>
#include <stdio.h>

#include "node/edge/answer_internal.h"
#include "node/edge/inquiry_internal.h"
#include "node/local/local_table.h"

static void ON_LANE
answer(struct exchange *x)
{
    char body[48];
    int len = snprintf(body, sizeof(body), "{\"input_tokens\":%" PRIu32 "}",
                       x->local_tokens);

    CHECK(len > 0 && (size_t)len < sizeof(body));
    x->counting.done = true;
    x->dispatch.choice.elect.reason = "counted here, by the model's own files";
    counter_bump(&x->client->lane->shared->metrics.counts_local, 1);
    limit_let_through(x);
    reply_send(x->client, 200, "application/json",
               (struct slice){body, (size_t)len});
}

/* Its prompt is that of the message which it asks about: read so, and named.
 * The lane is online in the qsbr. */
static enum inquiry_local_outcome ON_LANE
make(struct exchange *x)
{
    struct lane *lane = x->client->lane;
    struct route_scratch *route = &lane->route;
    const struct local_table *table = publish_get(&lane->node->local);
    struct inquiry_source source;

    if (table == NULL || table->count == 0 ||
        route_read(route, x->body, SCAN_API_MESSAGES) != 0) {
        return INQUIRY_REFUSED;
    }
    struct route_world world = shared_world(lane->node, &lane->elect);
    uint64_t root = route_token_root(route, x->body.ptr, world.view);
    inquiry_find_source(x, &world, root, &source);
    if (source.model == NULL) {
        return INQUIRY_REFUSED;
    }
    conversation_name(&route->conversation, x->body.ptr, &route->scan,
                      source.name_root);
    return inquiry_local(x, &world, &source, root);
}

bool
counting_begin(struct exchange *x)
{
    struct lane *lane = x->client->lane;
    struct node_shared *node = lane->node;

    x->counting.asks = false;
    qsbr_online(&node->qsbr, lane->shared->reader);
    enum inquiry_local_outcome outcome = make(x);
    qsbr_offline(lane->shared->reader);
    switch (outcome) {
    case INQUIRY_DONE:
        answer(x);
        return true;
    case INQUIRY_WAITS:
        x->counting.waits = true;
        x->read = false;
        lane_time(lane, &x->deadline, LANE_TIMEOUT_COUNT);
        return true;
    case INQUIRY_FULL:
    case INQUIRY_REFUSED:
        break;
    }
    request_read_again(x);
    return false;
}

void
counting_end(struct exchange *x)
{
    CHECK(x->counting.waits && x->inquiry == NULL);
    x->counting.waits = false;
    if (x->local_version != 0) {
        answer(x);
    } else {
        exchange_limited(x); /* an engine is asked */
    }
}
