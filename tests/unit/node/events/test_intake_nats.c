/* Connections to NATS: what one turn reads of a peer that never ends, and what is
 * left of one that is closed. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "node/events/intake_internal.h"

#define ENDLESS 10000U /* reads, after which it ends all the same */
#define WAIT_MS 60000

static struct config config;
static struct intake *intake;
static struct intake_source *source;
static struct intake_rank *rank;
static uv_async_t wake;
static int listener;
static int peer;
static uint32_t reads;
static bool endless;

/* In place of the system's: when there is nothing, an endless peer has more. */
ssize_t
recv(int fd, void *buf, size_t n, int flags)
{
    ssize_t got = recvfrom(fd, buf, n, flags, NULL, NULL);

    if (got < 0 && errno == EAGAIN && endless && reads < ENDLESS) {
        reads++;
        memset(buf, 'x', n);
        return (ssize_t)n;
    }
    return got;
}

static uint16_t
listen_here(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;

    listener = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_geq(listener, 0);
    cr_assert_eq(bind(listener, (struct sockaddr *)&at, size), 0);
    cr_assert_eq(listen(listener, 1), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    return ntohs(at.sin_port);
}

static void
setup(void)
{
    struct intake_worker worker = {
        .generation = 1,
        .ranks = 1,
        .events = {.host = "127.0.0.1", .path = "/kv.a"}};

    worker.events.port = listen_here();
    endless = false;
    reads = 0;
    config_init(&config);
    cr_assert_eq(intake_new(&intake, &config, &wake, 1), 0);
    cr_assert_eq(intake_add(intake, &worker), 0);
    source = intake->by_slot[0];
    rank = &source->ranks[0];
    peer = -1;
    uint64_t rings;
    cr_assert_eq(read(intake->bell, &rings, sizeof rings), sizeof rings);
}

static void
teardown(void)
{
    intake_rank_close(rank);
    intake_free(intake);
    config_fini(&config);
    (void)close(listener);
    (void)close(peer);
}

TestSuite(node_intake_nats, .init = setup, .fini = teardown);

static void
say(const char *words)
{
    if (peer < 0) {
        peer = accept(listener, NULL, NULL);
        cr_assert_geq(peer, 0);
    }
    cr_assert_eq(send(peer, words, strlen(words), 0), (ssize_t)strlen(words));
}

/* What the thread would read; NULL: nothing, after so long. */
static const struct intake_watch *
ready(int wait_ms)
{
    struct epoll_event event;

    return epoll_wait(intake->epoll, &event, 1, wait_ms) == 1 ? event.data.ptr
                                                              : NULL;
}

static const struct intake_watch *
hear(const char *words)
{
    say(words);
    const struct intake_watch *watch = ready(WAIT_MS);
    cr_assert_not_null(watch);
    return watch;
}

Test(node_intake_nats, a_message_that_does_not_end_takes_bounded_turns)
{
    intake_nats_open(rank);
    const struct intake_watch *watch = hear("MSG kv.a 1 4000000000\r\n");
    endless = true;
    for (uint32_t turn = 1; turn <= 3; turn++) {
        rank->look = false;
        watch->read(rank);
        cr_assert_leq(reads, turn * INTAKE_LIVE_BUDGET);
        cr_assert_geq(reads, turn * (INTAKE_LIVE_BUDGET - 2));
        cr_assert(rank->look, "it goes on in the next turn");
    }
}

Test(node_intake_nats, an_answer_that_does_not_end_takes_bounded_turns)
{
    source->worker.replay = source->worker.events;
    intake_nats_ask(rank, 0);
    const struct intake_watch *watch = hear("MSG kv.a 1 4000000000\r\n");
    endless = true;
    watch->read(rank);
    cr_assert_leq(reads, INTAKE_REPLAY_BUDGET);
    cr_assert_geq(reads, INTAKE_REPLAY_BUDGET - 2);
    cr_assert(rank->look);
    intake_nats_hang_up(rank);
}

/* As while a program is being started: the child has the descriptor, too. */
Test(node_intake_nats,
     a_closed_connection_is_not_read_though_it_is_open_elsewhere)
{
    struct sockaddr_in at;
    socklen_t size = sizeof at;
    int next = dup(listener); /* the number that comes next */

    (void)close(next);
    intake_nats_open(rank);
    (void)hear("INFO {}\r\n");
    int copy = dup(next);
    cr_assert_eq(getpeername(copy, (struct sockaddr *)&at, &size), 0);
    intake_nats_close(rank);
    say("PING\r\n");
    struct pollfd there = {.fd = copy, .events = POLLIN};
    cr_assert_eq(poll(&there, 1, WAIT_MS), 1);
    cr_expect_null(ready(0), "its rank may be freed");
    (void)close(copy);
}
