/* Large bodies, which are read in pieces. */
#include "node/edge/client_internal.h"
#include "node/edge/edge_internal.h"

#define PIECE_BYTES ((size_t)64 << 10)

/* Serves the first one of the line; ahead: its body was read. */
static void ON_LANE
serve(struct lane *lane, struct client *client, bool ahead)
{
    struct edge_reading *reading = &lane->reading;

    /* A reload has changed names that it was scanned for: it is read anew. */
    client->framing.ahead =
        ahead && reading->live_version == lane->live_version;
    reading_drop(client);
    client_read_head(client);
    request_serve(client);
    client->framing.ahead = false;
    client_update_interest(client);
}

/* Scans the body of the first one. False: it is not to be read. */
static bool ON_LANE
scan_first(struct lane *lane, struct client *client)
{
    struct edge_reading *reading = &lane->reading;
    const struct client_framing *framing = &client->framing;
    const struct slice body = {.ptr = client->in + framing->head_bytes,
                               .len = framing->body_bytes};

    client_read_head(client);
    lane->route.isolation = &framing->admission.isolation;
    reading->live_version = lane->live_version;
    reading->begun = route_ahead_begin(&reading->ahead, &lane->route, body,
                                       route_api(&lane->head)) == 0;
    return reading->begun;
}

static void
next_piece(uv_idle_t *idle)
{
    role_is_lane();
    struct lane *lane = idle->loop->data;
    struct edge_reading *reading = &lane->reading;
    struct client *client =
        LIST_OWNER(reading->line.next, struct client, reading);

    CHECK(!list_is_empty(&reading->line));
    if (!reading->begun) {
        if (!scan_first(lane, client)) { /* it is refused */
            serve(lane, client, false);
        }
    } else if (route_ahead_more(&reading->ahead, PIECE_BYTES)) {
        serve(lane, client, true);
    }
}

bool
reading_begin(struct client *client)
{
    struct lane *lane = client->lane;
    struct client_framing *framing = &client->framing;

    if (framing->body_bytes <= PIECE_BYTES || framing->missing != 0 ||
        route_kind_of(&lane->head, lane->node->config->paths) != ROUTE_PROMPT ||
        request_is_encoded(&lane->head) ||
        gauge_read(&lane->node->inflight) >= lane->limits.inflight_max) {
        return false;
    }
    framing->whole_us = lane_clock_us();
    list_append(&lane->reading.line, &client->reading);
    (void)uv_idle_start(&lane->reading.piece, next_piece); /* cannot fail */
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
        (void)uv_idle_stop(&reading->piece);
    }
}

int
reading_take(struct exchange *x)
{
    struct lane *lane = x->client->lane;

    if (!x->client->framing.ahead) {
        return route_read(&lane->route, x->body, x->api);
    }
    x->client->framing.ahead = false;
    route_ahead_take(&lane->reading.ahead, &lane->route, x->body);
    return 0;
}

int
reading_lane_init(struct lane *lane)
{
    list_init(&lane->reading.line);
    CHECK(uv_idle_init(&lane->loop, &lane->reading.piece) == 0);
    return route_ahead_init(&lane->reading.ahead, lane->node->config);
}

void
reading_lane_close(struct lane *lane)
{
    CHECK(list_is_empty(&lane->reading.line));
    uv_close((uv_handle_t *)&lane->reading.piece, NULL);
}

void
reading_lane_fini(struct lane *lane)
{
    route_ahead_fini(&lane->reading.ahead);
}
