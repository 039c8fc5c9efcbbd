/*
 * The least that any proxy can cost: a relay that reads bytes from one side
 * and writes them to the other, and looks at none of them.
 *
 *   relay --to PORT [--to PORT]...
 *
 * Each client gets a connection of its own to the next of the ports. What a
 * real proxy costs above this is its own doing; what this costs is the
 * kernel's. It has no back-pressure: a peer that does not take a whole message
 * at once is cut, which never happens with the benchmarks' messages.
 *
 * Role: shell, a test program. Owns: its sockets. Thread: one. Limits:
 * RLIMIT_NOFILE, TO_MAX. Errors: a connection's end its pair, the program's
 * are printed, exit code 1 or 2. Prints `ready http=H:P`.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define TO_MAX      64
#define BUFFER_SIZE 65536
#define EPOLL_BATCH 256

struct pair;

struct side {
    int fd;
    struct pair *pair; /* NULL: the listener */
    struct side *other;
};

struct pair {
    struct side client;
    struct side server;
    bool dead; /* freed after the batch of events that saw it die */
    struct pair *next_dead;
};

struct relay {
    int epoll_fd;
    struct side listener;
    uint16_t to[TO_MAX];
    unsigned to_count;
    unsigned to_next;
    struct pair *dead;
};

static struct sockaddr_in
loopback(uint16_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons(port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int
watch(struct relay *r, struct side *side, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = side};
    int on = 1;

    (void)setsockopt(side->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, side->fd, &event);
}

static void
pair_close(struct relay *r, struct pair *pair)
{
    if (pair->dead) {
        return;
    }
    pair->dead = true;
    (void)close(pair->client.fd);
    (void)close(pair->server.fd);
    pair->next_dead = r->dead;
    r->dead = pair;
}

static void
bury(struct relay *r)
{
    while (r->dead != NULL) {
        struct pair *pair = r->dead;
        r->dead = pair->next_dead;
        free(pair);
    }
}

/* A client and its server; the connect is waited for, it is on loopback. */
static void
pair_new(struct relay *r, int fd)
{
    struct sockaddr_in to = loopback(r->to[r->to_next++ % r->to_count]);
    struct pair *pair = calloc(1, sizeof(*pair));
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (pair == NULL || server < 0) {
        free(pair);
        (void)close(fd);
        (void)close(server);
        return;
    }
    pair->client = (struct side){fd, pair, &pair->server};
    pair->server = (struct side){server, pair, &pair->client};
    if (connect(server, (struct sockaddr *)&to, sizeof(to)) != 0 ||
        watch(r, &pair->client, EPOLLIN | EPOLLRDHUP | EPOLLET) != 0 ||
        watch(r, &pair->server, EPOLLIN | EPOLLRDHUP | EPOLLET) != 0) {
        pair_close(r, pair);
    }
}

static void
pass(struct relay *r, struct side *side, uint32_t events)
{
    static char buffer[BUFFER_SIZE];
    ssize_t n;

    if (side->pair->dead) {
        return;
    }
    do {
        n = recv(side->fd, buffer, sizeof(buffer), MSG_DONTWAIT);
        if (n <= 0) {
            break;
        }
        if (send(side->other->fd, buffer, (size_t)n,
                 MSG_DONTWAIT | MSG_NOSIGNAL) != n) {
            pair_close(r, side->pair);
            return;
        }
    } while (n == (ssize_t)sizeof(buffer));
    if (n == 0 || (n < 0 && errno != EAGAIN) ||
        (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
        pair_close(r, side->pair);
    }
}

static void
accept_all(struct relay *r)
{
    for (int i = 0; i < EPOLL_BATCH; i++) {
        int fd = accept4(r->listener.fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            return;
        }
        pair_new(r, fd);
    }
}

/* Until SIGTERM, which needs no cleaning up. */
static void
run(struct relay *r)
{
    struct epoll_event events[EPOLL_BATCH];

    for (;;) {
        int n = epoll_wait(r->epoll_fd, events, EPOLL_BATCH, -1);
        for (int i = 0; i < n; i++) {
            struct side *side = events[i].data.ptr;
            if (side->pair == NULL) {
                accept_all(r);
            } else {
                pass(r, side, events[i].events);
            }
        }
        bury(r);
    }
}

static int
setup(struct relay *r)
{
    struct sockaddr_in at = loopback(0);
    socklen_t len = sizeof(at);

    r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    r->listener.fd =
        socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (r->epoll_fd < 0 || r->listener.fd < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 ||
        bind(r->listener.fd, (struct sockaddr *)&at, len) != 0 ||
        listen(r->listener.fd, 4096) != 0 ||
        getsockname(r->listener.fd, (struct sockaddr *)&at, &len) != 0 ||
        watch(r, &r->listener, EPOLLIN) != 0) {
        return -1;
    }
    printf("ready http=127.0.0.1:%u\n", ntohs(at.sin_port));
    return fflush(stdout);
}

int
main(int argc, char **argv)
{
    static const struct option options[] = {
        {"to", required_argument, NULL, 't'}, {0}};
    static struct relay r;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) == 't' &&
           r.to_count < TO_MAX) {
        r.to[r.to_count++] = (uint16_t)strtoul(optarg, NULL, 10);
    }
    if (option != -1 || optind != argc || r.to_count == 0) {
        (void)fprintf(stderr, "usage: relay --to PORT [--to PORT]...\n");
        return 2;
    }
    if (setup(&r) != 0) {
        perror("relay");
        return 1;
    }
    run(&r);
    return 0;
}
