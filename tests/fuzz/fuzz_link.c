/*
 * A node's mesh port, and whoever connects to it or is dialled by it. Input is
 * a list of what two such strangers do: they connect, greet, send bytes,
 * messages, frames that are whole, and hellos that the link takes; a port of
 * theirs is dialled, and answers. Whatever they say, the link stays within its
 * bounds, and lets go of everything at its end.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mesh/frame.h"
#include "mesh/link.h"

#define STRANGERS 2U
#define DIALLED   4U
#define TURNS     3U
#define NUMBER    32U

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at;
    size_t left;
};

struct world {
    uv_loop_t loop;
    struct mesh_link *link;
    bool secret;
    int strangers[STRANGERS];
    int port; /* where strangers are dialled */
    char address[MESH_ADDRESS_MAX];
    int dialled[DIALLED];
    uint64_t nonces[FRAME_CHANNELS]; /* of the link's hellos, to be echoed */
    unsigned received, ups, downs;
};

static struct world world;
static char secret_path[] = "/tmp/kvasir-fuzz-secret-XXXXXX";

/* ---- what the link tells ---- */

static void
on_received(void *context, const struct mesh_link_from *from, struct slice body)
{
    struct world *w = context;

    CHECK(from->channel < MESH_CHANNELS && from->session != 0);
    CHECK(body.len <= MESH_BODY_MAX && from->name[0] != '\0');
    w->received++;
    if (body.len > 0 && body.ptr[0] == 'd') {
        mesh_link_drop(w->link, from->address);
    } else if (body.len > 0 && body.ptr[0] == '?') {
        mesh_link_doubt(w->link, from->address);
    } else {
        CHECK(mesh_link_send(w->link, from->address, from->channel, body) >= 0);
    }
}

static void
on_up(void *context, const char *address, uint64_t session)
{
    struct world *w = context;

    (void)address;
    CHECK(session != 0);
    w->ups++;
}

static void
on_down(void *context, const char *address, const char *reason)
{
    struct world *w = context;

    (void)address;
    CHECK(reason != NULL);
    w->downs++;
}

static void
on_resumed(void *context, const char *address)
{
    (void)context;
    (void)address;
}

static void
on_refused(void *context, enum mesh_refusal reason, const char *from,
           const char *what, uint64_t count)
{
    (void)context;
    CHECK(reason < MESH_REFUSALS && from != NULL && what != NULL && count > 0);
}

static void
on_certificate(void *context, enum mesh_certificate what, int64_t expiry_s,
               const char *why)
{
    (void)context;
    (void)what;
    (void)expiry_s;
    CHECK(why != NULL);
}

/* ---- sockets of the strangers ---- */

/* Leaves no connection behind that would keep its port. */
static void
hang_up(int *fd)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    if (*fd >= 0) {
        (void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        (void)close(*fd);
        *fd = -1;
    }
}

static void
say(int fd, const void *bytes, size_t size)
{
    if (fd >= 0 && size > 0) {
        (void)!send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

static void
come(struct world *w, unsigned n)
{
    const char *port = strrchr(mesh_link_address(w->link), ':') + 1;
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(port)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};

    hang_up(&w->strangers[n]);
    w->strangers[n] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(w->strangers[n] >= 0);
    if (connect(w->strangers[n], (struct sockaddr *)&to, sizeof to) != 0) {
        hang_up(&w->strangers[n]);
    }
}

static void
open_port(struct world *w)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;

    w->port = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(w->port >= 0);
    CHECK(bind(w->port, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(listen(w->port, DIALLED) == 0);
    CHECK(getsockname(w->port, (struct sockaddr *)&at, &len) == 0);
    (void)snprintf(w->address, sizeof w->address, "127.0.0.1:%u",
                   (unsigned)ntohs(at.sin_port));
}

/* Takes the link's dial, and closes the oldest of several. */
static void
pick_up(struct world *w)
{
    int fd = accept4(w->port, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0) {
        hang_up(&w->dialled[DIALLED - 1]);
        memmove(&w->dialled[1], &w->dialled[0],
                (DIALLED - 1) * sizeof w->dialled[0]);
        w->dialled[0] = fd;
    }
}

/* Remembers the number of a hello among the bytes that the link sent there. */
static void
hear(struct world *w, int fd)
{
    uint8_t bytes[4096];
    ssize_t got = fd >= 0 ? recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) : -1;

    for (size_t at = 0; got > 0 && at + FRAME_HEAD_SIZE < (size_t)got; at++) {
        struct frame_hello hello;
        struct frame frame;
        for (size_t end = (size_t)got; end > at + FRAME_HEAD_SIZE; end--) {
            if (frame_read(bytes + at, end - at, &frame) == 0 &&
                frame.type == FRAME_HELLO &&
                frame_hello_read(frame.body, &hello) == 0) {
                w->nonces[hello.channel] = hello.nonce;
                return;
            }
            if (bytes[at] != 'K') { /* no frame begins here */
                break;
            }
        }
    }
}

/* ---- what strangers say ---- */

static uint8_t
take(struct input *in)
{
    if (in->left == 0) {
        return 0;
    }
    in->left--;
    return *in->at++;
}

static struct slice
take_bytes(struct input *in)
{
    size_t len = take(in);

    len = len < in->left ? len : in->left;
    struct slice bytes = {(const char *)in->at, len};
    in->at += len;
    in->left -= len;
    return bytes;
}

static void
greet(const struct world *w, int fd, bool server)
{
    const uint8_t greeting[8] = {
        0, 'S', 'P', 0, 0, server ? 0x51 : 0x50, 0, w->secret ? 2 : 0};
    static const uint8_t number[NUMBER] = {7};

    say(fd, greeting, sizeof greeting);
    if (w->secret) {
        say(fd, number, sizeof number);
    }
}

static void
say_message(int fd, const void *bytes, size_t size)
{
    uint8_t head[8];

    for (size_t i = 0; i < sizeof head; i++) {
        head[i] = (uint8_t)((uint64_t)size >> (8 * (sizeof head - 1 - i)));
    }
    say(fd, head, sizeof head);
    say(fd, bytes, size);
}

static void
say_frame(int fd, struct input *in, enum frame_type type, struct slice body)
{
    static uint8_t bytes[FRAME_HEAD_SIZE + FRAME_HELLO_MAX + 256];
    uint8_t session = take(in);
    struct frame frame = {.major = FRAME_MAJOR_MAX,
                          .minor = FRAME_MINOR,
                          .type = (uint8_t)type,
                          .session = session % 4,
                          .sequence = session >> 2};

    CHECK(FRAME_HEAD_SIZE + body.len <= sizeof bytes);
    if (body.len > 0) {
        memcpy(bytes + FRAME_HEAD_SIZE, body.ptr, body.len);
    }
    frame_seal(&frame, bytes, FRAME_HEAD_SIZE + body.len);
    say_message(fd, bytes, FRAME_HEAD_SIZE + body.len);
}

static void
say_hello(struct world *w, int fd, struct input *in)
{
    uint8_t bytes[FRAME_HELLO_MAX];
    uint8_t how = take(in);
    struct frame_hello hello = {.channel = how & 1,
                                .major_min = FRAME_MAJOR_MIN,
                                .major_max = FRAME_MAJOR_MAX,
                                .cluster = "blue",
                                .name = "stranger",
                                .nonce = 1 + (how >> 1) % 4};

    (void)snprintf(hello.address, sizeof hello.address, "%s",
                   (how & 8) != 0 ? mesh_link_address(w->link) : w->address);
    if ((how & 16) == 0) {
        memcpy(hello.echo, w->nonces, sizeof hello.echo);
    }
    size_t size = frame_hello_write(&hello, bytes);
    say_frame(fd, in, FRAME_HELLO, (struct slice){(char *)bytes, size});
}

static void
step(struct world *w, struct input *in)
{
    uint8_t op = take(in);
    unsigned n = op >> 4 & (STRANGERS - 1);
    int fd = (op & 32) == 0 ? w->strangers[n] : w->dialled[n];
    struct slice bytes;

    switch (op % 9) {
    case 0:
        come(w, n);
        break;
    case 1:
        bytes = take_bytes(in);
        say(fd, bytes.ptr, bytes.len);
        break;
    case 2:
        greet(w, fd, (op & 32) != 0);
        break;
    case 3:
        bytes = take_bytes(in);
        say_message(fd, bytes.ptr, bytes.len);
        break;
    case 4:
        n = take(in);
        say_frame(fd, in, (enum frame_type)n, take_bytes(in));
        break;
    case 5:
        say_hello(w, fd, in);
        break;
    case 6:
        pick_up(w);
        break;
    case 7:
        hear(w, fd);
        break;
    default:
        hang_up((op & 32) == 0 ? &w->strangers[n] : &w->dialled[n]);
        break;
    }
}

/* ---- the world ---- */

static void
open_link(struct world *w)
{
    const struct mesh_link_sink sink = {.context = w,
                                        .received = on_received,
                                        .up = on_up,
                                        .down = on_down,
                                        .resumed = on_resumed,
                                        .refused = on_refused,
                                        .certificate = on_certificate};
    const struct mesh_link_config config = {
        .listen = "127.0.0.1:0",
        .cluster = "blue",
        .name = "node",
        .session = 99,
        .seed = 1,
        .secret_path = w->secret ? secret_path : NULL,
        .limits = {.peers_max = 2, .inbox_frames = 4}};
    const char *why;

    CHECK(mesh_link_new(&w->link, &w->loop, &config, &sink, &why) == 0);
}

static void
check(struct world *w)
{
    struct mesh_link_stats stats;
    struct mesh_link_peer peer;

    mesh_link_stats(w->link, &stats);
    CHECK(stats.peers <= 2 && stats.pipes <= 4 * 2 + 16);
    CHECK(stats.inbox_peak <= 4 && w->downs <= w->ups);
    CHECK(!w->secret || stats.pipes == 0); /* nobody knew it */
    for (uint32_t i = 0; mesh_link_peer(w->link, i, &peer); i++) {
        CHECK(peer.address[0] != '\0');
    }
}

static void
forget_secret(void)
{
    (void)unlink(secret_path);
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char secret[] = "sixteen characters, and more\n";
    int fd = mkstemp(secret_path);

    (void)argc;
    (void)argv;
    (void)signal(SIGPIPE, SIG_IGN);
    CHECK(fd >= 0 && write(fd, secret, sizeof secret - 1) > 0);
    (void)close(fd);
    CHECK(atexit(forget_secret) == 0);
    return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};

    world = (struct world){.secret = take(&in) % 4 == 3};
    for (unsigned i = 0; i < STRANGERS; i++) {
        world.strangers[i] = -1;
    }
    for (unsigned i = 0; i < DIALLED; i++) {
        world.dialled[i] = -1;
    }
    CHECK(uv_loop_init(&world.loop) == 0);
    open_link(&world);
    open_port(&world);
    while (in.left > 0) {
        step(&world, &in);
        for (unsigned i = 0; i < TURNS; i++) {
            (void)uv_run(&world.loop, UV_RUN_NOWAIT);
        }
        check(&world);
    }
    mesh_link_free(world.link);
    for (unsigned i = 0; i < STRANGERS; i++) {
        hang_up(&world.strangers[i]);
    }
    for (unsigned i = 0; i < DIALLED; i++) {
        hang_up(&world.dialled[i]);
    }
    hang_up(&world.port);
    CHECK(uv_run(&world.loop, UV_RUN_DEFAULT) == 0);
    CHECK(uv_loop_close(&world.loop) == 0);
    return 0;
}
