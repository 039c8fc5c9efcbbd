/* The loops, nodes and strangers of the tests of links. */
#include "tests/unit/mesh/link_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SAY_AGAIN_US UINT64_C(500000)

struct rig rig;

static uint64_t wait_until_us;

static void
on_received(void *context, const struct mesh_link_from *from, struct slice body)
{
    struct rig_node *node = context;

    node->received[from->channel]++;
    node->from_session = from->session;
    (void)snprintf(node->from_name, sizeof node->from_name, "%s", from->name);
    if (node->text.len < 4096) {
        buf_add_slice(&node->text,
                      (struct slice){body.ptr, body.len < 64 ? body.len : 64});
        buf_add_text(&node->text, ";");
    }
    if (node->echo_to[0] != '\0') {
        cr_assert_geq(
            mesh_link_send(node->link, node->echo_to, from->channel, body), 0);
    }
}

static void
on_up(void *context, const char *address, uint64_t session)
{
    struct rig_node *node = context;

    (void)address;
    node->ups++;
    node->up_session = session;
}

static void
on_down(void *context, const char *address, const char *reason)
{
    struct rig_node *node = context;

    (void)address;
    node->downs++;
    (void)snprintf(node->down_reason, sizeof node->down_reason, "%s", reason);
    if (node->drop_on_down != NULL) {
        mesh_link_drop(node->link, node->drop_on_down);
    }
}

static void
on_resumed(void *context, const char *address)
{
    struct rig_node *node = context;

    (void)address;
    node->resumed++;
}

static void
on_refused(void *context, enum mesh_refusal reason, const char *from,
           const char *what, uint64_t count)
{
    struct rig_node *node = context;

    node->refused[reason] += (unsigned)count;
    (void)snprintf(node->refused_what, sizeof node->refused_what, "%s", what);
    (void)snprintf(node->refused_from, sizeof node->refused_from, "%s", from);
}

static void
on_certificate(void *context, enum mesh_certificate what, int64_t expiry_s,
               const char *why)
{
    struct rig_node *node = context;

    node->certificate[what]++;
    node->expiry_s = expiry_s;
    if (what == MESH_CERTIFICATE_BAD) {
        (void)snprintf(node->certificate_why, sizeof node->certificate_why,
                       "%s", why);
    }
}

void
rig_init(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    memset(&rig, 0, sizeof rig);
    cr_assert_eq(uv_loop_init(&rig.loop), 0);
    cr_assert_eq(uv_loop_init(&rig.other), 0);
    for (unsigned n = 0; n < RIG_NODES; n++) {
        buf_init(&rig.nodes[n].text, 1 << 20);
    }
}

void
rig_fini(void)
{
    for (unsigned n = 0; n < RIG_NODES; n++) {
        rig_close(n);
        buf_fini(&rig.nodes[n].text);
    }
    cr_assert_eq(uv_run(&rig.loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(uv_loop_close(&rig.loop), 0);
    cr_assert_eq(uv_run(&rig.other, UV_RUN_DEFAULT), 0);
    cr_assert_eq(uv_loop_close(&rig.other), 0);
    uv_library_shutdown();
}

struct mesh_link_config
rig_config(unsigned n)
{
    static char names[RIG_NODES][16];

    (void)snprintf(names[n], sizeof names[n], "node-%u", n);
    return (struct mesh_link_config){
        .listen = "127.0.0.1:0",
        .cluster = "blue",
        .name = names[n],
        .session = n + 1,
        .seed = n + 1,
        .limits =
            {
                .redial_ms = 40,
                .redial_slow_ms = 80,
                .idle_ms = 100,
                .silent_ms = 3000,
                .hello_ms = 3000,
                .stale_ms = 60000,
            },
    };
}

const char *
rig_open(unsigned n, const struct mesh_link_config *config)
{
    const struct mesh_link_sink sink = {
        .context = &rig.nodes[n],
        .received = on_received,
        .up = on_up,
        .down = on_down,
        .resumed = on_resumed,
        .refused = on_refused,
        .certificate = on_certificate,
    };
    const char *why;
    uv_loop_t *loop = rig.on_other[n] ? &rig.other : &rig.loop;
    int rc;

    /* The port of a link that is being closed becomes free in a while. */
    RIG_UNTIL((rc = mesh_link_new(&rig.nodes[n].link, loop, config, &sink,
                                  &why)) != -EADDRINUSE);

    cr_assert_eq(rc, 0, "%d: %s", rc, why != NULL ? why : "");
    return mesh_link_address(rig.nodes[n].link);
}

const char *
rig_open_default(unsigned n)
{
    struct mesh_link_config config = rig_config(n);

    return rig_open(n, &config);
}

void
rig_close(unsigned n)
{
    mesh_link_free(rig.nodes[n].link);
    rig.nodes[n].link = NULL;
}

void
rig_wait_begin(void)
{
    wait_until_us = uv_hrtime() / 1000 + (uint64_t)RIG_WAIT_S * 1000000;
}

static void
on_tick(uv_timer_t *timer)
{
    (void)timer;
}

/* One turn of the loop, of some milliseconds at most. */
static void
turn(uint64_t ms)
{
    uv_timer_t timer;

    cr_assert_eq(uv_timer_init(&rig.loop, &timer), 0);
    cr_assert_eq(uv_timer_start(&timer, on_tick, ms, 0), 0);
    (void)uv_run(&rig.loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    (void)uv_run(&rig.loop, UV_RUN_NOWAIT);
    if (!rig.other_stopped) {
        (void)uv_run(&rig.other, UV_RUN_NOWAIT);
    }
}

void
rig_turn(const char *what, const char *file, int line)
{
    cr_assert(uv_hrtime() / 1000 < wait_until_us, "%s:%d: never: %s", file,
              line, what);
    turn(10);
}

void
rig_turns(unsigned ms)
{
    uint64_t until = uv_hrtime() + (uint64_t)ms * 1000000;

    while (uv_hrtime() < until) {
        turn(5);
    }
}

/* Says hello once more if it was lost with a connection. Frames keep their
 * order, so after the latest one no earlier one comes. */
static bool
is_heard(unsigned a, unsigned b, unsigned *said, uint64_t *said_us)
{
    uint64_t now_us = uv_hrtime() / 1000;
    const struct buf *heard = &rig.nodes[b].text;
    char text[16];

    int len = snprintf(text, sizeof text, "hi %u;", *said);
    if (*said > 0 && heard->len >= (size_t)len &&
        memcmp(heard->ptr + heard->len - len, text, (size_t)len) == 0) {
        return true;
    }
    if (*said == 0 || now_us - *said_us > SAY_AGAIN_US) {
        (void)snprintf(text, sizeof text, "hi %u", ++*said);
        (void)!rig_send(a, b, MESH_CTL, text);
        *said_us = now_us;
    }
    return false;
}

void
rig_meet(unsigned a, unsigned b)
{
    struct rig_node *one = &rig.nodes[a];
    struct rig_node *other = &rig.nodes[b];
    unsigned ups = one->ups;
    unsigned other_ups = other->ups;
    unsigned said = 0;
    uint64_t said_us = 0;

    cr_assert_eq(rig_send(a, b, MESH_CTL, "hi"), 0);
    RIG_UNTIL(one->ups > ups && other->ups > other_ups);
    RIG_UNTIL(is_heard(a, b, &said, &said_us));
    buf_clear(&other->text);
    memset(other->received, 0, sizeof other->received);
}

int
rig_send(unsigned from, unsigned to, enum mesh_channel channel,
         const char *text)
{
    return mesh_link_send(rig.nodes[from].link,
                          mesh_link_address(rig.nodes[to].link), channel,
                          slice_of(text));
}

struct mesh_link_stats
rig_stats(unsigned n)
{
    struct mesh_link_stats stats;

    mesh_link_stats(rig.nodes[n].link, &stats);
    return stats;
}

/* All of it, while the loop turns; what nobody reads any more is dropped. */
static void
write_all(int stranger, const void *bytes, size_t size)
{
    const char *at = bytes;

    rig_wait_begin();
    while (size > 0) {
        ssize_t count = send(stranger, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count < 0 && errno != EAGAIN) {
            return;
        }
        if (count < 0) {
            rig_turn("a stranger's bytes are read", __FILE__, __LINE__);
            continue;
        }
        at += count;
        size -= (size_t)count;
    }
}

int
rig_connect(unsigned n, uint32_t from)
{
    const char *port = strrchr(mesh_link_address(rig.nodes[n].link), ':') + 1;
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(port)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_addr = {htonl(from)}};

    cr_assert_geq(stranger, 0);
    cr_assert_eq(bind(stranger, (const struct sockaddr *)&at, sizeof at), 0);
    cr_assert_eq(connect(stranger, (struct sockaddr *)&to, sizeof to), 0);
    return stranger;
}

int
rig_stranger(unsigned n)
{
    int stranger = rig_connect(n, INADDR_LOOPBACK);

    write_all(stranger, "\0SP\0\0P\0", 8);
    return stranger;
}

void
rig_say(int stranger, const void *bytes, size_t size)
{
    uint8_t head[8];

    for (size_t i = 0; i < sizeof head; i++) {
        head[i] = (uint8_t)((uint64_t)size >> (8 * (sizeof head - 1 - i)));
    }
    write_all(stranger, head, sizeof head);
    write_all(stranger, bytes, size);
}

struct frame_hello
rig_hello(const char *address)
{
    struct frame_hello hello = {.channel = MESH_CTL,
                                .major_min = FRAME_MAJOR_MIN,
                                .major_max = FRAME_MAJOR_MAX,
                                .cluster = "blue",
                                .name = "stranger",
                                .nonce = 99};

    (void)snprintf(hello.address, sizeof hello.address, "%s", address);
    return hello;
}

void
rig_say_frame(int stranger, const struct frame *frame, const char *body)
{
    uint8_t bytes[FRAME_HEAD_SIZE + 1024];
    size_t len = strlen(body);

    cr_assert_leq(len, 1024);
    memcpy(bytes + FRAME_HEAD_SIZE, body, len);
    frame_seal(frame, bytes, FRAME_HEAD_SIZE + len);
    rig_say(stranger, bytes, FRAME_HEAD_SIZE + len);
}

void
rig_say_hello(int stranger, const struct frame_hello *hello, uint64_t session)
{
    uint8_t bytes[FRAME_HEAD_SIZE + FRAME_HELLO_MAX];
    const struct frame frame = {
        .major = FRAME_MAJOR_MAX, .type = FRAME_HELLO, .session = session};
    size_t size =
        FRAME_HEAD_SIZE + frame_hello_write(hello, bytes + FRAME_HEAD_SIZE);

    frame_seal(&frame, bytes, size);
    rig_say(stranger, bytes, size);
}
