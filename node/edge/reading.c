/* Large bodies, which are read in pieces. */
#include "node/edge/edge_internal.h"

#define PIECE_BYTES ((size_t)64 << 10)

static void
on_turn(uv_idle_t *turn)
{
    role_is_lane();
    struct lane *lane = turn->loop->data;
    struct edge_reading *reading = &lane->reading;
    struct client *client =
        LIST_OWNER(reading->line.next, struct client, reading);
    const struct client_framing *framing = &client->framing;

    CHECK(!list_is_empty(&reading->line));
    if (reading->begun && !route_ahead_more(&reading->ahead, PIECE_BYTES)) {
        return;
    }
    client_read_head(client);
    if (!reading->begun) {
        const struct slice body = {.ptr = client->in + framing->head_bytes,
                                   .len = framing->body_bytes};
        lane->route.isolation = &framing->admission.isolation;
        reading->live_version = lane->live_version;
        reading->begun = route_ahead_begin(&reading->ahead, &lane->route, body,
                                           route_api(&lane->head)) == 0;
        if (reading->begun) {
            return;
        }
    }
    /* What cannot be read is read once more, to be refused. So is what was
     * scanned for names that a reload has changed since. */
    reading->whole =
        reading->begun && reading->live_version == lane->live_version ? client
                                                                      : NULL;
    reading_drop(client);
    request_serve(client);
    reading->whole = NULL;
}

bool
reading_begin(struct client *client)
{
    struct lane *lane = client->lane;
    struct client_framing *framing = &client->framing;

    if (framing->body_bytes <= PIECE_BYTES || framing->missing != 0 ||
        route_kind_of(&lane->head, lane->node->config->paths) != ROUTE_PROMPT ||
        request_is_encoded(&lane->head)) {
        return false;
    }
    framing->whole_us = lane_clock_us();
    list_append(&lane->reading.line, &client->reading);
    (void)uv_idle_start(&lane->reading.turn, on_turn); /* cannot fail */
    return true;
}

void
reading_drop(struct client *client)
{
    struct edge_reading *reading = &client->lane->reading;

    if (reading->line.next == &client->reading) {
        reading->begun = false;
    }
    list_remove(&client->reading);
    if (list_is_empty(&reading->line)) {
        (void)uv_idle_stop(&reading->turn);
    }
}

int
reading_take(struct exchange *x)
{
    struct lane *lane = x->client->lane;

    if (lane->reading.whole != x->client) {
        return route_read(&lane->route, x->body, x->api);
    }
    route_ahead_take(&lane->reading.ahead, &lane->route, x->body);
    return 0;
}

int
reading_lane_init(struct lane *lane)
{
    list_init(&lane->reading.line);
    CHECK(uv_idle_init(&lane->loop, &lane->reading.turn) == 0);
    return route_ahead_init(&lane->reading.ahead, lane->node->config);
}

void
reading_lane_close(struct lane *lane)
{
    CHECK(list_is_empty(&lane->reading.line));
    uv_close((uv_handle_t *)&lane->reading.turn, NULL);
}

void
reading_lane_fini(struct lane *lane)
{
    route_ahead_fini(&lane->reading.ahead);
}
