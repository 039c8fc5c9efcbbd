/*
 * Connections of backend.c: requests in, answers and paced streams out.
 *
 * Role: shell, a test program. Owns: connections, their buffers, the queue of
 * streams. Thread: one. Limits: HEAD_BYTES_MAX, CONTENT_BYTES_MAX, IN_BYTES;
 * over one the connection is closed. Errors: end the connection.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend.h"

#define HEAD_BYTES_MAX    ((size_t)16384)
#define HINT_BYTES        ((size_t)512)
#define READ_BYTES        ((size_t)32768)
#define IN_BYTES          (HEAD_BYTES_MAX + HINT_BYTES + READ_BYTES)
#define CONTENT_BYTES_MAX ((uint64_t)1 << 32)
#define TURN_EVENTS_MAX   64 /* sent to one stream before others get a turn */

static const struct slice stream_head =
    SLICE("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
          "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n");

/* Whole answers, built once. */
static char chat_answer[2048];
static char models_answer[1024];
static char metrics_answer[2048];
static const char health_answer[] =
    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
static const char version_answer[] =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    "Content-Length: 20\r\n\r\n{\"version\":\"0.11.0\"}";
static const char unknown_answer[] =
    "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

static void
build_answer(char *out, size_t size, const char *type, const char *body)
{
    int n = snprintf(out, size,
                     "HTTP/1.1 200 OK\r\nContent-Type: %s\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     type, strlen(body), body);

    CHECK(n > 0 && (size_t)n < size);
}

void
backend_answers_build(void)
{
    char body[1600];
    char text[700];

    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        text[i] = i % 7 == 6 ? ' ' : (char)('a' + (i * 11) % 26);
    }
    text[sizeof(text) - 1] = '\0';
    (void)snprintf(body, sizeof(body),
                   "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\","
                   "\"created\":1700000000,\"model\":\"bench\",\"choices\":[{"
                   "\"index\":0,\"message\":{\"role\":\"assistant\","
                   "\"content\":\"%s\"},\"logprobs\":null,"
                   "\"finish_reason\":\"stop\"}],\"usage\":{"
                   "\"prompt_tokens\":1000,\"completion_tokens\":150,"
                   "\"total_tokens\":1150,\"prompt_tokens_details\":{"
                   "\"cached_tokens\":512}}}",
                   text);
    build_answer(chat_answer, sizeof(chat_answer), "application/json", body);
    build_answer(models_answer, sizeof(models_answer), "application/json",
                 "{\"object\":\"list\",\"data\":[{\"id\":\"bench\","
                 "\"object\":\"model\",\"created\":1700000000,"
                 "\"owned_by\":\"vllm\",\"root\":\"bench\",\"parent\":null,"
                 "\"max_model_len\":131072,\"permission\":[]}]}");
    build_answer(metrics_answer, sizeof(metrics_answer),
                 "text/plain; version=0.0.4",
                 "# TYPE vllm:num_requests_running gauge\n"
                 "vllm:num_requests_running{model_name=\"bench\"} 0.0\n"
                 "# TYPE vllm:num_requests_waiting gauge\n"
                 "vllm:num_requests_waiting{model_name=\"bench\"} 0.0\n"
                 "# TYPE vllm:kv_cache_usage_perc gauge\n"
                 "vllm:kv_cache_usage_perc{model_name=\"bench\"} 0.1\n"
                 "# TYPE vllm:cache_config_info gauge\n"
                 "vllm:cache_config_info{block_size=\"16\","
                 "num_gpu_blocks=\"65536\"} 1.0\n");
}

/* The pace queue. */

static void
pace_add(struct backend *b, struct conn *conn, uint64_t due_us)
{
    CHECK(!conn->is_queued);
    CHECK(b->last == NULL || b->last->due_us <= due_us);
    conn->due_us = due_us;
    conn->is_queued = true;
    conn->next = NULL;
    conn->prev = b->last;
    *(b->last != NULL ? &b->last->next : &b->first) = conn;
    b->last = conn;
}

static void
pace_remove(struct backend *b, struct conn *conn)
{
    if (!conn->is_queued) {
        return;
    }
    *(conn->prev != NULL ? &conn->prev->next : &b->first) = conn->next;
    *(conn->next != NULL ? &conn->next->prev : &b->last) = conn->prev;
    conn->is_queued = false;
}

/* Connections. */

static void
conn_free(struct backend *b, struct conn *conn)
{
    pace_remove(b, conn);
    if (conn->is_streaming) {
        conn->listener->severed_count++;
    }
    (void)close(conn->source.fd);
    free(conn->in);
    free(conn);
    b->conns_count--;
}

/* Writes what is pending. False: the connection is broken. */
static bool
conn_flush(struct conn *conn)
{
    while (conn->out_len > 0) {
        ssize_t n =
            send(conn->source.fd, conn->out, conn->out_len, MSG_NOSIGNAL);
        if (n < 0) {
            return errno == EAGAIN; /* EPOLLOUT comes by itself (edge) */
        }
        conn->out += n;
        conn->out_len -= (size_t)n;
    }
    return true;
}

static void
conn_put(struct conn *conn, const char *text, size_t len)
{
    CHECK(conn->out_len == 0);
    conn->out = text;
    conn->out_len = len;
}

/* Frames the next event, or the end, into `piece` behind `offset` bytes. */
static void
stream_compose(struct conn *conn, size_t offset, uint64_t now_us)
{
    char *at = conn->piece + offset;
    struct sse_event event = {
        .stream = conn->stream, .seq = conn->seq, .stamp_us = now_us};
    int n;

    if (conn->seq < conn->events_count) {
        n = sprintf(at, "%zx\r\n", SSE_EVENT_BYTES);
        sse_event_write(at + n, &event);
        memcpy(at + n + SSE_EVENT_BYTES, "\r\n", 2);
        conn_put(conn, conn->piece, offset + (size_t)n + SSE_EVENT_BYTES + 2);
        conn->seq++;
        return;
    }
    const char *usage = conn->tells_usage ? SSE_USAGE : "";
    n = sprintf(at, "%zx\r\n%s%s\r\n0\r\n\r\n", strlen(usage) + SSE_TAIL_BYTES,
                usage, SSE_TAIL);
    conn_put(conn, conn->piece, offset + (size_t)n);
    conn->is_streaming = false;
}

/* Sends what is due of a stream and queues it again. False: broken. */
static bool
stream_turn(struct backend *b, struct conn *conn)
{
    uint64_t due_us = conn->due_us;
    uint64_t now_us = backend_clock_us();

    for (int i = 0; i < TURN_EVENTS_MAX; i++) {
        if (conn->out_len > 0 && !conn_flush(conn)) {
            return false;
        }
        if (conn->out_len > 0 || !conn->is_streaming) {
            return true; /* a slow client resumes at EPOLLOUT */
        }
        if (due_us > now_us) {
            break;
        }
        stream_compose(conn, 0, now_us);
        due_us += b->interval_us;
    }
    if (!conn_flush(conn)) {
        return false;
    }
    if (conn->is_streaming && conn->out_len == 0) {
        /* A client that fell behind is not made to catch up in a burst. */
        uint64_t least_us = b->interval_us == 0 ? now_us : due_us;
        bool is_late = b->last != NULL && least_us < b->last->due_us;
        pace_add(b, conn, is_late ? b->last->due_us : least_us);
    }
    return true;
}

static bool
stream_begin(struct backend *b, struct conn *conn, uint32_t stream,
             uint32_t events_count)
{
    uint64_t now_us = backend_clock_us();

    conn->listener->streams_count++;
    conn->is_streaming = true;
    conn->stream = stream;
    conn->seq = 0;
    conn->events_count = events_count;
    memcpy(conn->piece, stream_head.ptr, stream_head.len);
    stream_compose(conn, stream_head.len, now_us);
    conn->due_us = now_us + b->interval_us;
    return stream_turn(b, conn);
}

/* Requests. */

/* The digits behind `name` in the hint, or `otherwise`. */
static uint64_t
hint_number(struct slice hint, const char *name, int base, uint64_t otherwise)
{
    const char *at = memmem(hint.ptr, hint.len, name, strlen(name));
    char digits[17] = "";
    size_t left;

    if (at == NULL) {
        return otherwise;
    }
    at += strlen(name);
    left = (size_t)(hint.ptr + hint.len - at);
    memcpy(digits, at, left < 16 ? left : 16);
    return strtoull(digits, NULL, base);
}

static bool
answer_post(struct backend *b, struct conn *conn, struct slice hint)
{
    static const char flag[] = "\"stream\":true";
    static const char asks[] = "\"include_usage\":true";
    uint64_t events;

    if (memmem(hint.ptr, hint.len, flag, sizeof(flag) - 1) == NULL) {
        conn_put(conn, chat_answer, strlen(chat_answer));
        return conn_flush(conn);
    }
    events = hint_number(hint, "\"max_tokens\":", 10, b->events_default);
    if (events > EVENTS_MAX) {
        events = EVENTS_MAX;
    }
    conn->tells_usage =
        memmem(hint.ptr, hint.len, asks, sizeof(asks) - 1) != NULL;
    return stream_begin(b, conn,
                        (uint32_t)hint_number(hint, "\"user\":\"s", 16, 0),
                        (uint32_t)events);
}

static bool
answer_get(struct conn *conn, struct slice target)
{
    const struct {
        struct slice target;
        const char *answer;
    } known[] = {
        {SLICE("/health"), health_answer},
        {SLICE("/version"), version_answer},
        {SLICE("/v1/models"), models_answer},
        {SLICE("/metrics"), metrics_answer},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (slice_equal(target, known[i].target)) {
            conn_put(conn, known[i].answer, strlen(known[i].answer));
            return conn_flush(conn);
        }
    }
    conn_put(conn, unknown_answer, sizeof(unknown_answer) - 1);
    return conn_flush(conn);
}

/* Answers the whole request in `in`, whose hint ends at hint_end. */
static bool
answer(struct backend *b, struct conn *conn, size_t hint_end)
{
    struct slice hint = {conn->in + conn->head_len, hint_end - conn->head_len};
    const char *space = memchr(conn->in, ' ', conn->head_len);
    const char *end;

    conn->listener->requests_count++;
    if (space == NULL) {
        return false;
    }
    if (strncmp(conn->in, "POST ", 5) == 0) {
        return answer_post(b, conn, hint);
    }
    space++;
    end = memchr(space, ' ', (size_t)(conn->in + conn->head_len - space));
    if (end == NULL || strncmp(conn->in, "GET ", 4) != 0) {
        return false;
    }
    return answer_get(conn, (struct slice){space, (size_t)(end - space)});
}

/* Content-Length of the head, 0 without one. False: a body that this server
 * does not read (chunked), or one too large. */
static bool
head_content_bytes(const char *head, size_t head_len, uint64_t *content_bytes)
{
    static const char length[] = "content-length:";
    static const char coding[] = "transfer-encoding:";
    const char *line = head;
    const char *end = head + head_len;

    *content_bytes = 0;
    while ((line = memchr(line, '\n', (size_t)(end - line))) != NULL) {
        size_t left;
        line++;
        left = (size_t)(end - line);
        if (left > sizeof(length) &&
            strncasecmp(line, length, sizeof(length) - 1) == 0) {
            *content_bytes = strtoull(line + sizeof(length) - 1, NULL, 10);
        }
        if (left > sizeof(coding) &&
            strncasecmp(line, coding, sizeof(coding) - 1) == 0) {
            return false;
        }
    }
    return *content_bytes <= CONTENT_BYTES_MAX;
}

/* Answers every whole request in `in`, as long as none has to wait for its
 * client or its next event. False: the connection is to be closed. */
static bool
conn_advance(struct backend *b, struct conn *conn)
{
    while (!conn->is_streaming && conn->out_len == 0 && conn->in_len > 0) {
        size_t body_len;
        size_t used;
        if (conn->head_len == 0) {
            const char *end = memmem(conn->in, conn->in_len, "\r\n\r\n", 4);
            if (end == NULL) {
                return conn->in_len < HEAD_BYTES_MAX;
            }
            conn->head_len = (size_t)(end + 4 - conn->in);
            conn->dropped_bytes = 0;
            if (!head_content_bytes(conn->in, conn->head_len,
                                    &conn->content_bytes)) {
                return false;
            }
        }
        body_len = conn->in_len - conn->head_len;
        if (conn->dropped_bytes + body_len < conn->content_bytes) {
            if (body_len > HINT_BYTES) {
                conn->dropped_bytes += body_len - HINT_BYTES;
                conn->in_len = conn->head_len + HINT_BYTES;
            }
            return true;
        }
        used = conn->head_len +
               (size_t)(conn->content_bytes - conn->dropped_bytes);
        body_len = used - conn->head_len;
        if (!answer(b, conn,
                    conn->head_len +
                        (body_len < HINT_BYTES ? body_len : HINT_BYTES))) {
            return false;
        }
        conn->head_len = 0;
        conn->in_len -= used;
        memmove(conn->in, conn->in + used, conn->in_len);
    }
    if (conn->is_streaming && conn->in_len == 0) {
        free(conn->in); /* thousands of streams wait with nothing to read */
        conn->in = NULL;
    }
    return true;
}

/* Reads until the socket is empty. False: the connection is to be closed. */
static bool
conn_read(struct backend *b, struct conn *conn)
{
    size_t room;
    ssize_t n;

    do {
        if (conn->in == NULL) {
            conn->in = malloc(IN_BYTES);
            conn->in_len = 0;
            if (conn->in == NULL) {
                return false;
            }
        }
        room = IN_BYTES - conn->in_len;
        if (room == 0) {
            return false; /* more piled up behind an answer than is allowed */
        }
        n = recv(conn->source.fd, conn->in + conn->in_len, room, 0);
        if (n < 0) {
            return errno == EAGAIN;
        }
        if (n == 0) {
            return false;
        }
        conn->in_len += (size_t)n;
        if (!conn_advance(b, conn)) {
            return false;
        }
    } while ((size_t)n == room); /* edge-triggered: a short read emptied it */
    return true;
}

/* After EPOLLOUT: the rest of an answer, the next turn of a stream. */
static bool
conn_write(struct backend *b, struct conn *conn)
{
    if (conn->out_len == 0) {
        return true;
    }
    if (!conn_flush(conn)) {
        return false;
    }
    if (conn->out_len == 0 && conn->is_streaming && !conn->is_queued) {
        conn->due_us = backend_clock_us();
        if (!stream_turn(b, conn)) {
            return false;
        }
    }
    return conn_advance(b, conn);
}

void
backend_conn_event(struct backend *b, struct conn *conn, uint32_t events)
{
    bool alive = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0;

    if (alive && (events & EPOLLOUT) != 0) {
        alive = conn_write(b, conn);
    }
    if (alive && (events & EPOLLIN) != 0) {
        alive = conn_read(b, conn);
    }
    if (!alive) {
        conn_free(b, conn);
    }
}

void
backend_conn_accept(struct backend *b, struct listener *listener, int fd)
{
    struct epoll_event event = {.events =
                                    EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};
    struct conn *conn = NULL;
    int on = 1;

    if (b->conns_count < b->conns_max) {
        conn = calloc(1, sizeof(*conn));
    }
    if (conn == NULL) {
        (void)close(fd);
        return;
    }
    b->conns_count++;
    conn->source = (struct source){.kind = SOURCE_CONN, .fd = fd};
    conn->listener = listener;
    event.data.ptr = conn;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
        epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        conn_free(b, conn);
    }
}

void
backend_pace_run(struct backend *b)
{
    uint64_t now_us = b->first != NULL ? backend_clock_us() : 0;

    while (b->first != NULL && b->first->due_us <= now_us) {
        struct conn *conn = b->first;
        pace_remove(b, conn);
        if (!stream_turn(b, conn) || !conn_advance(b, conn)) {
            conn_free(b, conn);
        }
        if (b->interval_us == 0) {
            return; /* a burst must not keep the others from being read */
        }
    }
}
