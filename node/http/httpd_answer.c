/* The server: what the handler calls to answer a request. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>

#include "node/http/http_status.h"
#include "node/http/httpd_conn_internal.h"

#define PIECES_MAX 8

/* What httpd_out_write() takes, in the order of the wire. */
struct pieces {
    struct iovec items[PIECES_MAX];
    unsigned count;
};

/* Gathered writes have no constant buffers, but only read these. */
static void
add(struct pieces *pieces, const char *bytes, size_t len)
{
    CHECK(pieces->count < PIECES_MAX);
    if (len != 0) {
        union {
            const char *given;
            char *wanted;
        } base = {.given = bytes};
        pieces->items[pieces->count++] =
            (struct iovec){.iov_base = base.wanted, .iov_len = len};
    }
}

static void
add_slice(struct pieces *pieces, struct slice s)
{
    add(pieces, s.ptr, s.len);
}

/* The last lines of a head, by the framing of the body. */
static struct slice
framing_lines(const struct httpd_conn *conn, bool has_length, size_t body_size,
              char *out, size_t room)
{
    const struct httpd_request *request = &conn->request;
    const char *connection = "";
    char length[48] = "";

    if (has_length) {
        (void)snprintf(length, sizeof(length), "Content-Length: %zu\r\n",
                       body_size);
    }
    if (conn->close_after) {
        connection = "Connection: close\r\n";
    } else if (request->head.minor == 0) {
        connection = "Connection: keep-alive\r\n";
    }
    int len = snprintf(out, room, "%s%s%s\r\n", length,
                       request->chunked ? "Transfer-Encoding: chunked\r\n" : "",
                       connection);
    CHECK(len > 0 && (size_t)len < room);
    return (struct slice){.ptr = out, .len = (size_t)len};
}

struct answer {
    unsigned status;
    const char *content_type;
    struct slice extra;
    bool has_length;
    struct slice body;
};

static void
send_answer(struct httpd_conn *conn, const struct answer *answer)
{
    struct pieces pieces = {.count = 0};
    char first[96];
    char last[160];
    struct slice extra = answer->extra;
    bool typed = answer->content_type != NULL;

    CHECK(answer->status >= 200 && answer->status <= 599);
    CHECK(extra.len == 0 || extra.ptr[extra.len - 1] == '\n');
    int len = snprintf(first, sizeof(first), "HTTP/1.1 %u %s\r\n%s",
                       answer->status, http_status_reason(answer->status),
                       typed ? "Content-Type: " : "");
    CHECK(len > 0 && (size_t)len < sizeof(first));
    add(&pieces, first, (size_t)len);
    if (typed) {
        add_slice(&pieces, slice_of(answer->content_type));
        add_slice(&pieces, SLICE("\r\n"));
    }
    add_slice(&pieces, extra);
    add_slice(&pieces, framing_lines(conn, answer->has_length, answer->body.len,
                                     last, sizeof(last)));
    if (!conn->request.bodiless) {
        add_slice(&pieces, answer->body);
    }
    httpd_out_write(conn, pieces.items, pieces.count);
}

static bool
status_has_body(unsigned status)
{
    return status != 204 && status != 304;
}

/* Common to every answer of a handler: what the request and the server's
 * state say about it. */
static void
begin(struct httpd_request *request, unsigned status)
{
    struct httpd_conn *conn = request->conn;

    CHECK(request->open && !request->begun);
    request->begun = true;
    request->bodiless =
        request->head.method_id == HTTP_HEAD || !status_has_body(status);
    if (conn->httpd->stopped && !conn->close_after) {
        conn->close_after = true;
        conn->linger = true;
    }
}

static void
finish(struct httpd_request *request)
{
    CHECK(request->open);
    request->open = false;
    request->conn->httpd->stats.requests_open--;
    httpd_conn_answered(request->conn);
}

const struct http_head *
httpd_head(const struct httpd_request *request)
{
    return &request->head;
}

struct slice
httpd_body(const struct httpd_request *request)
{
    return request->body;
}

const char *
httpd_peer(const struct httpd_request *request, char out[HTTPD_PEER_MAX])
{
    struct sockaddr_storage name = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof name;
    char host[48] = "";

    out[0] = '\0';
    if (request->conn->state == HTTPD_CLOSED ||
        getpeername(request->conn->sock.fd, (struct sockaddr *)&name, &len) !=
            0) {
        return out;
    }
    bool v6 = name.ss_family == AF_INET6;
    const struct sockaddr_in6 *ip6 = (const struct sockaddr_in6 *)&name;
    const struct sockaddr_in *ip4 = (const struct sockaddr_in *)&name;
    int error = v6 ? uv_ip6_name(ip6, host, sizeof host)
                   : uv_ip4_name(ip4, host, sizeof host);
    if (error == 0) {
        (void)snprintf(out, HTTPD_PEER_MAX, v6 ? "[%s]:%u" : "%s:%u", host,
                       ntohs(v6 ? ip6->sin6_port : ip4->sin_port));
    }
    return out;
}

void **
httpd_user(struct httpd_request *request)
{
    return &request->user;
}

void
httpd_answer(struct httpd_request *request, unsigned status,
             const char *content_type, struct slice extra, struct slice body)
{
    begin(request, status);
    struct answer answer = {.status = status,
                            .content_type = content_type,
                            .extra = extra,
                            .has_length = status_has_body(status),
                            .body = body};
    send_answer(request->conn, &answer);
    finish(request);
}

void
httpd_error(struct httpd_request *request, unsigned status, const char *code,
            const char *message)
{
    char body[HTTP_ERROR_ROOM];

    httpd_answer(request, status, "application/json", SLICE(""),
                 http_error_body(status, code, message, body));
}

void
httpd_answer_refuse(struct httpd_conn *conn, unsigned status,
                    const char *message)
{
    char body[HTTP_ERROR_ROOM];
    struct answer answer = {.status = status,
                            .content_type = "application/json",
                            .has_length = true};

    answer.body =
        http_error_body(status, http_status_code(status), message, body);
    conn->httpd->stats.bad_requests++;
    conn->close_after = true;
    conn->linger = true;
    conn->request.chunked = conn->request.bodiless = false;
    deadline_clear(&conn->deadline);
    send_answer(conn, &answer);
    httpd_conn_answered(conn);
}

void
httpd_begin(struct httpd_request *request, unsigned status,
            const char *content_type, struct slice extra)
{
    begin(request, status);
    request->streaming = true;
    request->chunked = request->head.minor != 0 && status_has_body(status);
    if (request->head.minor == 0) {
        request->conn->close_after = true; /* how its end is told */
    }
    struct answer answer = {
        .status = status, .content_type = content_type, .extra = extra};
    send_answer(request->conn, &answer);
}

int
httpd_send(struct httpd_request *request, struct slice piece)
{
    struct httpd_conn *conn = request->conn;
    struct pieces pieces = {.count = 0};
    size_t unsent = httpd_out_unsent(conn);
    char size[24];

    CHECK(request->open && request->streaming);
    if (piece.len == 0 || request->bodiless || conn->state == HTTPD_CLOSED) {
        return 0;
    }
    if (unsent != 0 &&
        unsent + piece.len > conn->httpd->limits.unsent_bytes_max) {
        conn->httpd->stats.sends_refused++;
        return -ENOBUFS;
    }
    if (!request->chunked) {
        add_slice(&pieces, piece);
    } else {
        int len = snprintf(size, sizeof(size), "%zx\r\n", piece.len);
        CHECK(len > 0 && (size_t)len < sizeof(size));
        add(&pieces, size, (size_t)len);
        add_slice(&pieces, piece);
        add_slice(&pieces, SLICE("\r\n"));
    }
    httpd_out_write(conn, pieces.items, pieces.count);
    return 0;
}

void
httpd_end(struct httpd_request *request)
{
    struct pieces pieces = {.count = 0};

    CHECK(request->open && request->streaming);
    if (request->chunked && !request->bodiless) {
        add_slice(&pieces, SLICE("0\r\n\r\n"));
        httpd_out_write(request->conn, pieces.items, pieces.count);
    }
    finish(request);
}

void
httpd_abort(struct httpd_request *request)
{
    CHECK(request->open);
    request->open = false;
    request->conn->httpd->stats.requests_open--;
    httpd_conn_close(request->conn);
}
