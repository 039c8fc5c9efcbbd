/* A ZeroMQ socket watched by a libuv loop. */
#include "chaos/engine/engine_socket_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <zmq.h>

#include "node/node.h"

int
engine_socket_fault(void)
{
    int number = zmq_errno();

    return number > 0 && number < ZMQ_HAUSNUMERO ? -number : -EIO;
}

int
engine_socket_open(struct engine_socket *s, void *zmq_context, int type,
                   int hwm, const char *endpoint)
{
    static const int zero = 0;
    static const int one = 1;
    size_t size = sizeof(s->url);

    *s = (struct engine_socket){.zmq = zmq_socket(zmq_context, type)};
    if (s->zmq == NULL ||
        zmq_setsockopt(s->zmq, ZMQ_LINGER, &zero, sizeof(zero)) != 0 ||
        zmq_setsockopt(s->zmq, ZMQ_SNDHWM, &hwm, sizeof(hwm)) != 0) {
        return engine_socket_fault();
    }
    /* Only where it is meant: it changes how IPv4 addresses are written. */
    if (strchr(endpoint, '[') != NULL &&
        zmq_setsockopt(s->zmq, ZMQ_IPV6, &one, sizeof(one)) != 0) {
        return engine_socket_fault();
    }
    if (zmq_bind(s->zmq, endpoint) != 0 ||
        zmq_getsockopt(s->zmq, ZMQ_LAST_ENDPOINT, s->url, &size) != 0) {
        return engine_socket_fault();
    }
    return 0;
}

static void
on_poll(uv_poll_t *poll, int status, int events)
{
    struct engine_socket *s = poll->data;

    (void)status;
    (void)events;
    s->wake(s->context);
}

int
engine_socket_watch(struct engine_socket *s, uv_loop_t *loop,
                    void (*wake)(void *), void *context)
{
    int fd;
    size_t size = sizeof(fd);

    if (s->zmq == NULL) {
        return 0;
    }
    if (zmq_getsockopt(s->zmq, ZMQ_FD, &fd, &size) != 0) {
        return engine_socket_fault();
    }
    int r = uv_poll_init(loop, &s->poll, fd);
    if (r != 0) {
        return r;
    }
    s->poll.data = s;
    s->wake = wake;
    s->context = context;
    r = uv_poll_start(&s->poll, UV_READABLE, on_poll);
    if (r == 0) {
        /* Messages before the watch have been reported already. */
        wake(context);
    }
    return r;
}

int
engine_socket_events(struct engine_socket *s)
{
    int events = 0;
    size_t size = sizeof(events);

    return zmq_getsockopt(s->zmq, ZMQ_EVENTS, &events, &size) == 0 ? events : 0;
}

void
engine_socket_send(struct engine_socket *s, const struct slice *frames,
                   uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int flags = ZMQ_DONTWAIT | (i + 1 < count ? ZMQ_SNDMORE : 0);
        if (zmq_send(s->zmq, frames[i].ptr, frames[i].len, flags) < 0) {
            LOG_WARNING("event_not_sent", KV("why", zmq_strerror(zmq_errno())));
            return;
        }
    }
}

void
engine_socket_close(struct engine_socket *s)
{
    if (s->poll.data != NULL && !uv_is_closing((uv_handle_t *)&s->poll)) {
        uv_close((uv_handle_t *)&s->poll, NULL);
    }
    if (s->zmq != NULL) {
        CHECK(zmq_close(s->zmq) == 0);
        s->zmq = NULL;
    }
}

bool
engine_socket_endpoint(const char *text, const char *host, uint32_t any,
                       uint32_t rank, char out[ENGINE_URL_MAX])
{
    const char *colon = strrchr(text, ':');
    const char *number = colon != NULL ? colon + 1 : text;
    bool v6 = strchr(host, ':') != NULL;
    char *end;
    unsigned long port = strtoul(number, &end, 10);
    char port_text[16] = "*";

    if (*number < '0' || *number > '9' || *end != '\0') {
        return false;
    }
    port = port == 0 ? any : port;
    if (port > UINT16_MAX || port + rank > UINT16_MAX) {
        return false;
    }
    if (port != 0) {
        (void)snprintf(port_text, sizeof(port_text), "%lu", port + rank);
    }
    int n = colon != NULL
                ? snprintf(out, ENGINE_URL_MAX, "%.*s:%s", (int)(colon - text),
                           text, port_text)
                : snprintf(out, ENGINE_URL_MAX, "tcp://%s%s%s:%s",
                           v6 ? "[" : "", host, v6 ? "]" : "", port_text);
    return n > 0 && n < ENGINE_URL_MAX;
}

bool
engine_socket_any_port(const char *text)
{
    const char *colon = text != NULL ? strrchr(text, ':') : NULL;

    return text != NULL && strcmp(colon != NULL ? colon + 1 : text, "0") == 0;
}

void
engine_seq_encode(uint64_t seq, unsigned char bytes[ENGINE_SEQ_BYTES])
{
    for (int i = 0; i < ENGINE_SEQ_BYTES; i++) {
        bytes[i] = (unsigned char)(seq >> 8 * (ENGINE_SEQ_BYTES - 1 - i));
    }
}

uint64_t
engine_seq_decode(const unsigned char bytes[ENGINE_SEQ_BYTES])
{
    uint64_t seq = 0;

    for (int i = 0; i < ENGINE_SEQ_BYTES; i++) {
        seq = seq << 8 | bytes[i];
    }
    return seq;
}
