/*
 * Opens many paced streams at once, through a proxy or straight to backend.c,
 * and checks every byte of every one.
 *
 *   sse_client --port P [--streams N] [--events N] [--opening N]
 *              [--timeout-s S]
 *
 * Streams are opened with at most `opening` on their way; when all N are open
 * it prints `open events=E`, when the first has ended `closing events=E us=U`.
 * Between these two lines the load is steady: whoever measures a proxy's
 * processes reads their counters there, and delays are recorded only there.
 * At the end it prints one line of JSON.
 *
 * A stream is complete when its events came whole, in order, undamaged and its
 * own, with the tail and the last HTTP chunk behind them (sse_check.h).
 * delay: from backend's send to this program's receive. gap: how much longer
 * the time between two events was here than at the backend.
 *
 * Role: shell, a test program. Owns: its sockets. Thread: one. Limits:
 * streams by RLIMIT_NOFILE, which is raised to its maximum; the whole run by
 * timeout. Errors: exit code 0 when all streams were open at once and all are
 * complete, 1 when not, 2 for bad usage.
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
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "index/base/check.h"
#include "sse_check.h"
#include "wide_histogram.h"

#define READ_BYTES    65536
#define EPOLL_BATCH   256
#define STREAMS_MAX   100000
#define REQUEST_BYTES 2048

enum outcome {
    WAITING, /* not started */
    RUNNING,
    COMPLETE,
    FAILED_CONNECT,
    FAILED_STATUS,  /* not 200, or not chunked */
    FAILED_FRAMING, /* not a chunked body */
    FAILED_DAMAGED, /* not the bytes that the backend sent to this stream */
    FAILED_SEVERED, /* closed before its end */
    FAILED_TIMEOUT,
    OUTCOMES,
};

static const char *const outcome_names[OUTCOMES] = {
    "waiting", "running", "complete", "connect", "status",
    "framing", "damaged", "severed",  "timeout"};

struct stream {
    int fd;
    enum outcome outcome;
    bool sent;         /* the request */
    uint64_t stamp_us; /* of the last event */
    uint64_t received_us;
    struct sse_check check;
};

struct client {
    int epoll_fd;
    uint16_t port;
    uint32_t streams_count;
    uint32_t events_count;
    uint32_t opening_max;
    uint64_t timeout_us;

    struct stream *streams;
    uint32_t started;
    uint32_t opened; /* had their first event */
    uint32_t ended;
    uint32_t open_now;
    uint32_t open_peak;
    uint64_t events;
    uint64_t bytes;
    bool steady;
    uint64_t steady_from_us;
    uint64_t steady_us;
    uint64_t steady_events;
    uint32_t outcomes[OUTCOMES];
    struct wide_histogram delay;
    struct wide_histogram gap;
};

static uint64_t
clock_us(void)
{
    struct timespec now;

    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void
steady_begin(struct client *c)
{
    c->steady = true;
    c->steady_from_us = clock_us();
    c->steady_events = c->events;
    printf("open events=%llu\n", (unsigned long long)c->events);
    (void)fflush(stdout);
}

static void
steady_end(struct client *c)
{
    c->steady = false;
    c->steady_us = clock_us() - c->steady_from_us;
    c->steady_events = c->events - c->steady_events;
    printf("closing events=%llu us=%llu\n", (unsigned long long)c->events,
           (unsigned long long)c->steady_us);
    (void)fflush(stdout);
}

static void
stream_end(struct client *c, struct stream *s, enum outcome outcome)
{
    CHECK(s->outcome == RUNNING);
    if (c->steady) {
        steady_end(c);
    }
    if (s->check.seq > 0) {
        c->open_now--;
    } else {
        c->opened++; /* it never will be, but it does not block the others */
    }
    s->outcome = outcome;
    c->outcomes[outcome]++;
    c->ended++;
    if (s->fd >= 0) {
        (void)close(s->fd);
    }
}

/* An event came whole at now_us. */
static void
stream_take_event(struct client *c, struct stream *s, uint64_t now_us)
{
    uint64_t gap_us = now_us - s->received_us;
    uint64_t sent_gap_us = s->check.stamp_us - s->stamp_us;

    c->events++;
    if (s->check.seq == 1) {
        c->opened++;
        c->open_now++;
        if (c->open_now > c->open_peak) {
            c->open_peak = c->open_now;
        }
    } else if (c->steady) {
        wide_histogram_add(&c->delay, now_us - s->check.stamp_us);
        wide_histogram_add(&c->gap,
                           gap_us > sent_gap_us ? gap_us - sent_gap_us : 0);
    }
    s->stamp_us = s->check.stamp_us;
    s->received_us = now_us;
    if (c->open_now == c->streams_count && c->steady_from_us == 0) {
        steady_begin(c);
    }
}

static enum outcome
stream_take(struct client *c, struct stream *s, const char *bytes, size_t len)
{
    static const enum outcome outcomes[] = {
        [SSE_MORE] = RUNNING,           [SSE_EVENT] = RUNNING,
        [SSE_COMPLETE] = COMPLETE,      [SSE_STATUS] = FAILED_STATUS,
        [SSE_FRAMING] = FAILED_FRAMING, [SSE_DAMAGED] = FAILED_DAMAGED};
    uint64_t now_us = clock_us();
    enum sse_outcome outcome = SSE_EVENT;

    c->bytes += len;
    while (len > 0 && outcome == SSE_EVENT) {
        size_t used_len;
        outcome = sse_check_take(&s->check, bytes, len, &used_len);
        if (outcome == SSE_EVENT) {
            stream_take_event(c, s, now_us);
        }
        bytes += used_len;
        len -= used_len;
    }
    return outcomes[outcome];
}

static enum outcome
stream_read(struct client *c, struct stream *s)
{
    static char bytes[READ_BYTES];
    ssize_t n;

    do {
        enum outcome outcome;
        n = recv(s->fd, bytes, sizeof(bytes), 0);
        if (n < 0) {
            return errno == EAGAIN ? RUNNING : FAILED_SEVERED;
        }
        if (n == 0) {
            return FAILED_SEVERED;
        }
        outcome = stream_take(c, s, bytes, (size_t)n);
        if (outcome != RUNNING) {
            return outcome;
        }
    } while ((size_t)n == sizeof(bytes));
    return RUNNING;
}

/* A chat of ~1.2 KB: one of eight system prompts, the rest the stream's own. */
static size_t
compose_request(const struct client *c, const struct stream *s, char *out)
{
    char body[REQUEST_BYTES - 300];
    char system[600];
    char user[500];
    int body_len;
    int len;

    for (size_t i = 0; i < sizeof(system) - 1; i++) {
        size_t mixed = i * 7 + (s->check.stream % 8) * 13;
        system[i] = i % 6 == 5 ? ' ' : (char)('a' + mixed % 26);
    }
    for (size_t i = 0; i < sizeof(user) - 1; i++) {
        size_t mixed =
            i * 5 + s->check.stream * 17 + (s->check.stream >> (i % 16));
        user[i] = i % 6 == 5 ? ' ' : (char)('a' + mixed % 26);
    }
    system[sizeof(system) - 1] = '\0';
    user[sizeof(user) - 1] = '\0';
    body_len = snprintf(body, sizeof(body),
                        "{\"model\":\"bench\",\"stream\":true,"
                        "\"max_tokens\":%u,\"user\":\"s%08x\",\"messages\":["
                        "{\"role\":\"system\",\"content\":\"%s\"},"
                        "{\"role\":\"user\",\"content\":\"%s\"}]}",
                        c->events_count, s->check.stream, system, user);
    CHECK(body_len > 0 && (size_t)body_len < sizeof(body));
    len = snprintf(out, REQUEST_BYTES,
                   "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\n"
                   "Accept: text/event-stream\r\n"
                   "Content-Type: application/json\r\n"
                   "Content-Length: %d\r\n\r\n%s",
                   body_len, body);
    CHECK(len > 0 && len < REQUEST_BYTES);
    return (size_t)len;
}

static bool
stream_send(const struct client *c, struct stream *s)
{
    char request[REQUEST_BYTES];
    size_t len = compose_request(c, s, request);

    s->sent = true;
    return send(s->fd, request, len, MSG_NOSIGNAL) == (ssize_t)len;
}

/* False: could not even begin. */
static bool
stream_connect(struct client *c, struct stream *s)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(c->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = s};

    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0) {
        return false;
    }
    if (connect(s->fd, (struct sockaddr *)&to, sizeof(to)) != 0 &&
        errno != EINPROGRESS) {
        return false;
    }
    return epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, s->fd, &event) == 0;
}

static void
open_more(struct client *c)
{
    while (c->started < c->streams_count &&
           c->started - c->opened < c->opening_max) {
        struct stream *s = &c->streams[c->started];
        sse_check_init(&s->check, c->started++, c->events_count);
        s->outcome = RUNNING;
        if (!stream_connect(c, s)) {
            stream_end(c, s, FAILED_CONNECT);
        }
    }
}

static void
stream_event(struct client *c, struct stream *s, uint32_t events)
{
    enum outcome outcome = RUNNING;

    if ((events & EPOLLOUT) != 0 && !s->sent &&
        (events & (EPOLLERR | EPOLLHUP)) == 0) {
        outcome = stream_send(c, s) ? RUNNING : FAILED_CONNECT;
    }
    if (outcome == RUNNING &&
        (events & (EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP)) != 0) {
        outcome = s->sent ? stream_read(c, s) : FAILED_CONNECT;
        if (outcome == RUNNING && (events & EPOLLRDHUP) != 0) {
            outcome = stream_read(c, s); /* what a short read left: the end */
        }
    }
    if (outcome != RUNNING) {
        stream_end(c, s, outcome);
    }
}

static void
run(struct client *c)
{
    struct epoll_event events[EPOLL_BATCH];
    uint64_t deadline_us = clock_us() + c->timeout_us;

    while (c->ended < c->streams_count && clock_us() < deadline_us) {
        int n;
        open_more(c);
        n = epoll_wait(c->epoll_fd, events, EPOLL_BATCH, 100);
        CHECK(n >= 0 || errno == EINTR);
        for (int i = 0; i < n; i++) {
            stream_event(c, events[i].data.ptr, events[i].events);
        }
    }
    for (uint32_t i = 0; i < c->started; i++) {
        if (c->streams[i].outcome == RUNNING) {
            stream_end(c, &c->streams[i], FAILED_TIMEOUT);
        }
    }
}

static void
print_histogram(const char *name, const struct wide_histogram *h)
{
    printf(",\"%s\":{\"p50\":%llu,\"p99\":%llu,\"max\":%llu}", name,
           (unsigned long long)wide_histogram_quantile(h, 0.50),
           (unsigned long long)wide_histogram_quantile(h, 0.99),
           (unsigned long long)h->max);
}

static void
print_result(const struct client *c)
{
    printf("{\"streams\":%u,\"complete\":%u,\"open_peak\":%u,\"events\":%llu,"
           "\"bytes\":%llu,\"steady_events\":%llu,\"steady_us\":%llu",
           c->streams_count, c->outcomes[COMPLETE], c->open_peak,
           (unsigned long long)c->events, (unsigned long long)c->bytes,
           (unsigned long long)(c->steady_us > 0 ? c->steady_events : 0),
           (unsigned long long)c->steady_us);
    print_histogram("delay_us", &c->delay);
    print_histogram("gap_us", &c->gap);
    printf(",\"failed\":{");
    for (int i = FAILED_CONNECT; i < OUTCOMES; i++) {
        printf("%s\"%s\":%u", i > FAILED_CONNECT ? "," : "", outcome_names[i],
               c->outcomes[i]);
    }
    printf("}}\n");
}

static int
parse_arguments(struct client *c, int argc, char **argv)
{
    static const struct option options[] = {
        {"port", required_argument, NULL, 'p'},
        {"streams", required_argument, NULL, 'n'},
        {"events", required_argument, NULL, 'e'},
        {"opening", required_argument, NULL, 'o'},
        {"timeout-s", required_argument, NULL, 't'},
        {0},
    };
    int option;

    c->streams_count = 1;
    c->events_count = 50;
    c->opening_max = 32;
    c->timeout_us = 60000000;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        unsigned long value = optarg != NULL ? strtoul(optarg, NULL, 10) : 0;
        switch (option) {
        case 'p':
            c->port = (uint16_t)value;
            break;
        case 'n':
            c->streams_count = (uint32_t)value;
            break;
        case 'e':
            c->events_count = (uint32_t)value;
            break;
        case 'o':
            c->opening_max = (uint32_t)value;
            break;
        case 't':
            c->timeout_us = value * 1000000;
            break;
        default:
            return -1;
        }
    }
    return c->port != 0 && c->streams_count >= 1 &&
                   c->streams_count <= STREAMS_MAX && c->events_count >= 1 &&
                   c->opening_max >= 1 && optind == argc
               ? 0
               : -1;
}

static int
setup(struct client *c)
{
    struct rlimit files;

    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = files.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    if (c->streams_count + 16 > files.rlim_cur) {
        (void)fprintf(stderr, "sse_client: %u streams, but %llu files\n",
                      c->streams_count, (unsigned long long)files.rlim_cur);
        return -1;
    }
    c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    c->streams = calloc(c->streams_count, sizeof(*c->streams));
    return c->epoll_fd >= 0 && c->streams != NULL &&
                   prctl(PR_SET_PDEATHSIG, SIGTERM) == 0
               ? 0
               : -1;
}

int
main(int argc, char **argv)
{
    static struct client c;

    if (parse_arguments(&c, argc, argv) != 0) {
        (void)fprintf(stderr,
                      "usage: sse_client --port P [--streams 1..%d] "
                      "[--events N] [--opening N] [--timeout-s S]\n",
                      STREAMS_MAX);
        return 2;
    }
    if (setup(&c) != 0) {
        return 1;
    }
    run(&c);
    print_result(&c);
    free(c.streams);
    (void)close(c.epoll_fd);
    return c.outcomes[COMPLETE] == c.streams_count &&
                   c.open_peak == c.streams_count
               ? 0
               : 1;
}
