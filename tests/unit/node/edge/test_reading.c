/* Large bodies, read in pieces: a lane with nothing but its loop, of which each
 * turn is one piece, and a request that is served as soon as it may be. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "node/edge/client_internal.h"
#include "node/edge/edge_internal.h"

#define BODY_BYTES ((size_t)1 << 20)
#define TURNS_MAX  64U
#define DEPTH_MAX  4096U

static struct config config;
static struct node_shared node;
static struct lane *lane;
static const struct client *served[4]; /* in that order */
static unsigned served_count;
static bool ahead[4]; /* its keys were there */
static uint64_t last_key[4];
static struct slice pipelined; /* the body that is served next, within that */
static bool refused_unread;    /* the first one is refused for its head */

/* What stands around reading.c. */

uint64_t
lane_clock_us(void)
{
    return 1;
}

bool
request_is_encoded(const struct http_head *head)
{
    (void)head;
    return false;
}

void
client_read_head(struct client *client)
{
    cr_assert_eq(http_head_parse_request(client->in, client->in_len,
                                         &lane->request_limits, &lane->head),
                 0);
}

void
client_update_interest(struct client *client)
{
    cr_assert(list_is_empty(&client->reading));
}

/* The request was answered at once, so the next one of its connection is served
 * before request_serve() returns: it lies where the first one lay. */
static void ON_LANE
serve_pipelined(struct client *client)
{
    struct slice next = pipelined;

    pipelined = (struct slice){.ptr = NULL, .len = 0};
    memcpy(client->in + client->framing.head_bytes, next.ptr, next.len);
    client->framing = (struct client_framing){
        .head_bytes = client->framing.head_bytes, .body_bytes = next.len};
    request_serve(client);
}

void
request_serve(struct client *client)
{
    static struct exchange x;

    x.client = client;
    x.api = SCAN_API_CHAT;
    x.body = (struct slice){.ptr = client->in + client->framing.head_bytes,
                            .len = client->framing.body_bytes};
    served[served_count] = client;
    ahead[served_count] = client->framing.ahead;
    if (!refused_unread && reading_take(&x) == 0) {
        last_key[served_count] =
            lane->route.blocks.keys[lane->route.blocks.count - 1];
    }
    served_count++;
    refused_unread = false;
    if (pipelined.len != 0) {
        serve_pipelined(client);
    }
}

static void
open_lane(void)
{
    role_is_lane();
    config = (struct config){
        .limits = {.json_depth_max = 16, .spans_max = 64},
        .belief = {.block_bytes = 256, .depth_max = DEPTH_MAX},
    };
    lane = calloc(1, sizeof(*lane));
    node.config = &config;
    lane->node = &node;
    lane->limits.inflight_max = 100;
    lane->request_limits = (struct http_limits){.head_bytes_max = 1 << 10,
                                                .target_bytes_max = 1 << 8,
                                                .headers_max = 8};
    served_count = 0;
    pipelined = (struct slice){.ptr = NULL, .len = 0};
    refused_unread = false;
    cr_assert_eq(uv_loop_init(&lane->loop), 0);
    lane->loop.data = lane;
    cr_assert_eq(route_scratch_init(&lane->route, &config), 0);
    cr_assert_eq(reading_lane_init(lane), 0);
}

static void
close_lane(void)
{
    role_is_lane();
    reading_lane_close(lane);
    (void)uv_run(&lane->loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&lane->loop), 0);
    reading_lane_fini(lane);
    route_scratch_fini(&lane->route);
    free(lane);
}

TestSuite(node_edge_reading, .init = open_lane, .fini = close_lane);

/* One with a whole chat of that many bytes, filled with `letter`. */
static struct client *
client_with(size_t bytes, char letter)
{
    role_is_lane();
    static const char begin[] =
        "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"";
    static const char end[] = "\"}]}";
    struct client *client = calloc(1, sizeof(*client));

    client->lane = lane;
    list_init(&client->reading);
    client->in = malloc(bytes + 256);
    int head = snprintf(client->in, 256,
                        "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n"
                        "Content-Type: application/json\r\n"
                        "Content-Length: %zu\r\n\r\n",
                        bytes);
    char *body = client->in + head;
    memset(body, letter, bytes);
    memcpy(body, begin, sizeof(begin) - 1);
    memcpy(body + bytes - (sizeof(end) - 1), end, sizeof(end) - 1);
    client->framing.head_bytes = (size_t)head;
    client->framing.body_bytes = bytes;
    client->in_len = (size_t)head + bytes;
    client_read_head(client);
    return client;
}

static void
free_client(struct client *client)
{
    free(client->in);
    free(client);
}

static void
begin(struct client *client)
{
    role_is_lane();
    cr_assert(reading_begin(client));
}

/* One turn of the loop; another request has the lane's scratch behind it. */
static void
turn(void)
{
    (void)uv_run(&lane->loop, UV_RUN_NOWAIT);
    cr_assert_eq(route_read(&lane->route,
                            SLICE("{\"model\":\"other\",\"prompt\":\"x\"}"),
                            SCAN_API_TEXT),
                 0);
}

static unsigned
turns_until_served(unsigned count)
{
    unsigned turns = 0;

    for (; served_count < count; turns++) {
        cr_assert_lt(turns, TURNS_MAX);
        turn();
    }
    return turns;
}

/* The key of its whole prompt, read at once. */
static uint64_t
key_at_once(const struct client *client)
{
    struct slice body = {.ptr = client->in + client->framing.head_bytes,
                         .len = client->framing.body_bytes};

    cr_assert_eq(route_read(&lane->route, body, SCAN_API_CHAT), 0);
    return lane->route.blocks.keys[lane->route.blocks.count - 1];
}

Test(node_edge_reading, a_large_body_is_read_over_many_turns_to_the_same_keys)
{
    struct client *client = client_with(BODY_BYTES, 'a');

    begin(client);
    cr_assert_geq(turns_until_served(1), BODY_BYTES / (64U << 10));
    cr_assert(ahead[0]);
    cr_assert_eq(last_key[0], key_at_once(client));
    cr_assert(!uv_is_active((uv_handle_t *)&lane->reading.piece));
    free_client(client);
}

Test(node_edge_reading, a_small_body_is_read_at_once)
{
    role_is_lane();
    struct client *client = client_with(4096, 'a');

    cr_assert(!reading_begin(client));
    cr_assert(!uv_is_active((uv_handle_t *)&lane->reading.piece));
    free_client(client);
}

Test(node_edge_reading, one_is_read_after_the_other)
{
    struct client *first = client_with(BODY_BYTES, 'a');
    struct client *second = client_with(BODY_BYTES, 'b');

    begin(first);
    begin(second);
    (void)turns_until_served(2);
    cr_assert(served[0] == first && served[1] == second);
    cr_assert(ahead[0] && ahead[1]);
    cr_assert_eq(last_key[0], key_at_once(first));
    cr_assert_eq(last_key[1], key_at_once(second));
    free_client(first);
    free_client(second);
}

/* As when it goes away, a drain's time is over, or a signal severs it. */
Test(node_edge_reading, who_is_closed_between_two_pieces_leaves_the_line)
{
    role_is_lane();
    struct client *first = client_with(BODY_BYTES, 'a');
    struct client *second = client_with(BODY_BYTES, 'b');
    struct client *third = client_with(BODY_BYTES, 'c');

    begin(first);
    begin(second);
    begin(third);
    for (unsigned i = 0; i < 5; i++) {
        turn();
    }
    reading_drop(first);
    free_client(first);
    reading_drop(second);
    free_client(second);
    (void)turns_until_served(1);
    cr_assert(served[0] == third && ahead[0]);
    cr_assert_eq(last_key[0], key_at_once(third));
    cr_assert(!uv_is_active((uv_handle_t *)&lane->reading.piece));
    free_client(third);
}

Test(node_edge_reading, the_last_one_that_leaves_stops_the_turns)
{
    role_is_lane();
    struct client *client = client_with(BODY_BYTES, 'a');

    begin(client);
    turn();
    turn();
    reading_drop(client);
    reading_drop(client); /* harmless */
    cr_assert(!uv_is_active((uv_handle_t *)&lane->reading.piece));
    turn();
    cr_assert_eq(served_count, 0);
    free_client(client);
}

Test(node_edge_reading, what_is_no_json_is_served_to_be_refused)
{
    struct client *client = client_with(BODY_BYTES, 'a');

    client->in[client->framing.head_bytes + BODY_BYTES / 2] = '"';
    begin(client);
    cr_assert_eq(turns_until_served(1), 1);
    cr_assert(!ahead[0]);
    free_client(client);
}

Test(node_edge_reading, a_reload_between_two_pieces_has_it_read_anew)
{
    struct client *client = client_with(BODY_BYTES, 'a');

    begin(client);
    turn();
    lane->live_version++;
    (void)turns_until_served(1);
    cr_assert(!ahead[0]);
    cr_assert_eq(last_key[0], key_at_once(client));
    free_client(client);
}

/* What was read is that of one request, not of its connection. */
static void
serves_the_next_one_by_its_own_body(bool unread)
{
    struct client *client = client_with(BODY_BYTES, 'a');
    struct client *next = client_with(4096, 'b');

    pipelined =
        (struct slice){.ptr = next->in + next->framing.head_bytes, .len = 4096};
    refused_unread = unread;
    begin(client);
    (void)turns_until_served(2);
    cr_assert(ahead[0] && !ahead[1]);
    cr_assert_eq(last_key[1], key_at_once(next));
    free_client(client);
    free_client(next);
}

Test(node_edge_reading, the_next_request_is_read_by_itself)
{
    serves_the_next_one_by_its_own_body(false);
}

Test(node_edge_reading, the_next_request_is_read_by_itself_after_a_refusal)
{
    serves_the_next_one_by_its_own_body(true);
}

Test(node_edge_reading, a_full_node_reads_nothing_in_pieces)
{
    role_is_lane();
    struct client *client = client_with(BODY_BYTES, 'a');

    lane->limits.inflight_max = 1;
    gauge_add(&node.inflight, 1);
    cr_assert(!reading_begin(client));
    gauge_add(&node.inflight, -1);
    cr_assert(reading_begin(client));
    reading_drop(client);
    free_client(client);
}
