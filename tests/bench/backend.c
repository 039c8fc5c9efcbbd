/*
 * The engine of the proxy benchmarks: an HTTP/1.1 server that costs as little
 * as one can, so that what is measured is the proxy in front of it.
 *
 *   backend [--ports N] [--interval-us U] [--events N]
 *
 * One process listens on N free ports and looks like N vLLM workers. It prints
 * `ready http=H:P ...` and runs until SIGTERM or until its parent dies; then it
 * prints `served port=P requests=N streams=N severed=N` for each port.
 *
 *   GET  /health, /version, /v1/models, /metrics    as an engine answers
 *   POST any path                                   a chat answer of ~1 KB, or
 *        with "stream":true as many events as "max_tokens" says, the first at
 *        once, the others one every U microseconds (0: as fast as they go)
 *
 * Only the first HINT_BYTES of a body are looked at: the benchmarks' clients
 * put stream, max_tokens and user there.
 *
 * Role: shell, a test program. Owns: listeners, connections, their buffers.
 * Thread: one. Limits: HEAD_BYTES_MAX, CONTENT_BYTES_MAX, EVENTS_MAX, and
 * connections by RLIMIT_NOFILE; over a limit the connection is closed.
 * Errors: a connection's end it, the program's are printed, exit code 1 or 2.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "backend.h"

uint64_t
backend_clock_us(void)
{
    struct timespec now;

    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void
listener_event(struct backend *b, struct listener *listener)
{
    for (int i = 0; i < EPOLL_BATCH; i++) {
        int fd = accept4(listener->source.fd, NULL, NULL,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            return;
        }
        backend_conn_accept(b, listener, fd);
    }
}

static int
wait_events(struct backend *b, struct epoll_event *events)
{
    struct timespec left = {0};
    const struct timespec *timeout = NULL;
    int n;

    if (b->first != NULL) {
        uint64_t now_us = backend_clock_us();
        uint64_t left_us =
            b->first->due_us > now_us ? b->first->due_us - now_us : 0;
        left.tv_sec = (time_t)(left_us / 1000000);
        left.tv_nsec = (long)(left_us % 1000000) * 1000;
        timeout = &left;
    }
    n = epoll_pwait2(b->epoll_fd, events, EPOLL_BATCH, timeout, NULL);
    CHECK(n >= 0 || errno == EINTR);
    return n;
}

static void
run(struct backend *b)
{
    struct epoll_event events[EPOLL_BATCH];

    while (!b->is_stopping) {
        int n = wait_events(b, events);
        for (int i = 0; i < n; i++) {
            struct source *source = events[i].data.ptr;
            switch (source->kind) {
            case SOURCE_LISTENER:
                listener_event(b, (struct listener *)source);
                break;
            case SOURCE_CONN:
                backend_conn_event(b, (struct conn *)source, events[i].events);
                break;
            case SOURCE_SIGNAL:
                b->is_stopping = true;
                break;
            }
        }
        backend_pace_run(b);
    }
}

/* Start and end. */

static int
watch(struct backend *b, struct source *source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};

    return epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, source->fd, &event);
}

static int
listen_free_port(struct backend *b, struct listener *listener)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 ||
        listen(fd, 4096) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        return -1;
    }
    listener->source = (struct source){.kind = SOURCE_LISTENER, .fd = fd};
    listener->port = ntohs(address.sin_port);
    return watch(b, &listener->source);
}

static int
setup(struct backend *b)
{
    struct rlimit files;
    sigset_t mask;

    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = files.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    b->conns_max = files.rlim_cur - PORTS_MAX - 16;
    b->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGTERM);
    (void)sigaddset(&mask, SIGINT);
    if (b->epoll_fd < 0 || sigprocmask(SIG_BLOCK, &mask, NULL) != 0 ||
        prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) {
        return -1;
    }
    b->signal.kind = SOURCE_SIGNAL;
    b->signal.fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    if (b->signal.fd < 0 || watch(b, &b->signal) != 0) {
        return -1;
    }
    for (unsigned i = 0; i < b->ports_count; i++) {
        if (listen_free_port(b, &b->listeners[i]) != 0) {
            return -1;
        }
    }
    return 0;
}

static int
parse_arguments(struct backend *b, int argc, char **argv)
{
    static const struct option options[] = {
        {"ports", required_argument, NULL, 'p'},
        {"interval-us", required_argument, NULL, 'i'},
        {"events", required_argument, NULL, 'e'},
        {0},
    };
    int option;

    b->ports_count = 1;
    b->events_default = 50;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        unsigned long value = optarg != NULL ? strtoul(optarg, NULL, 10) : 0;
        switch (option) {
        case 'p':
            b->ports_count = (unsigned)value;
            break;
        case 'i':
            b->interval_us = value;
            break;
        case 'e':
            b->events_default = (uint32_t)value;
            break;
        default:
            return -1;
        }
    }
    return b->ports_count >= 1 && b->ports_count <= PORTS_MAX &&
                   b->events_default <= EVENTS_MAX && optind == argc
               ? 0
               : -1;
}

int
main(int argc, char **argv)
{
    static struct backend b;

    if (parse_arguments(&b, argc, argv) != 0) {
        (void)fprintf(stderr,
                      "usage: backend [--ports 1..%d] [--interval-us U] "
                      "[--events 0..%d]\n",
                      PORTS_MAX, EVENTS_MAX);
        return 2;
    }
    backend_answers_build();
    if (setup(&b) != 0) {
        perror("backend");
        return 1;
    }
    printf("ready");
    for (unsigned i = 0; i < b.ports_count; i++) {
        printf(" http=127.0.0.1:%u", b.listeners[i].port);
    }
    printf("\n");
    (void)fflush(stdout);
    run(&b);
    for (unsigned i = 0; i < b.ports_count; i++) {
        const struct listener *l = &b.listeners[i];
        printf("served port=%u requests=%llu streams=%llu severed=%llu\n",
               l->port, (unsigned long long)l->requests_count,
               (unsigned long long)l->streams_count,
               (unsigned long long)l->severed_count);
    }
    return 0;
}
