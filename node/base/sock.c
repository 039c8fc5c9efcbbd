/* A non-blocking TCP socket: readiness from libuv, bytes from the kernel. */
#include "node/base/sock.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define FLAT_BYTES  8192U
#define RECORDS_MAX 8 /* of TLS in one turn of the loop */

/* tcpi_bytes_acked in the kernel's struct tcp_info, in words of 8 bytes. The one
 * of <netinet/tcp.h> is shorter, and <linux/tcp.h> contradicts it. */
#define ACKED_WORD 15

/* The owner hears of what it waits for, and of what TLS has decrypted already;
 * then the loop waits for what is left. */
static void
on_tls(struct sock *sock, int events)
{
    int told = sock_tls_came(sock->tls, events);

    if (told != 0) {
        sock->ready(sock, told);
    }
    for (int i = 1;
         i < RECORDS_MAX && sock->tls != NULL && sock_tls_holds(sock->tls) &&
         (sock_tls_wanted(sock->tls) & SOCK_READ) != 0;
         i++) {
        sock->ready(sock, SOCK_READ);
    }
    if (sock->tls != NULL) {
        sock_want(sock, sock_tls_wanted(sock->tls));
    }
}

static void
on_poll(uv_poll_t *poll, int status, int events)
{
    struct sock *sock = poll->data;

    if (status < 0) {
        /* libuv has stopped watching. But there may be bytes before the error,
         * and the reader of those must be called again for what follows
         * them. */
        int wanted =
            sock->tls != NULL ? sock_tls_wanted(sock->tls) : sock->wanted;
        sock->wanted = 0;
        sock_want(sock, wanted);
    }
    if (sock->tls != NULL && status >= 0) {
        on_tls(sock, events);
        return;
    }
    /* An error shows again, with its number, in the recv or send it causes. */
    sock->ready(sock, status < 0 ? SOCK_READ | SOCK_WRITE : events);
}

int
sock_open(struct sock *sock, uv_loop_t *loop, int fd,
          void (*ready)(struct sock *sock, int events))
{
    CHECK(fd >= 0 && ready != NULL);
    int error = uv_poll_init(loop, &sock->poll, fd);

    if (error < 0) {
        (void)close(fd);
        sock->fd = -1;
        return error;
    }
    sock->poll.data = sock;
    sock->fd = fd;
    sock->wanted = 0;
    sock->ready = ready;
    sock->closed = NULL;
    sock->tls = NULL;
    return 0;
}

int
sock_secure(struct sock *sock, const struct sock_tls_context *context)
{
    CHECK(sock->tls == NULL && sock->wanted == 0);
    sock->tls = sock_tls_accept(context, sock->fd);
    return sock->tls != NULL ? 0 : -ENOMEM;
}

int
sock_secure_h2(struct sock *sock, const struct sock_tls_context *context)
{
    int error = sock_secure(sock, context);

    if (error == 0) {
        sock_tls_speak_h2(sock->tls);
    }
    return error;
}

int
sock_secure_to(struct sock *sock, const struct sock_tls_context *context,
               const char *host, struct sock_tls_kept *kept)
{
    CHECK(sock->tls == NULL);
    sock_want(sock, 0);
    sock->tls = sock_tls_connect(context, sock->fd, host, kept);
    return sock->tls != NULL ? 0 : -ENOMEM;
}

int
sock_shake(struct sock *sock)
{
    int error = sock_tls_shake(sock->tls);

    if (error == -EAGAIN) {
        sock_want(sock, SOCK_READ);
    }
    return error;
}

const char *
sock_why(const struct sock *sock)
{
    return sock->tls != NULL ? sock_tls_why(sock->tls) : "";
}

void
sock_want(struct sock *sock, int events)
{
    if (sock->tls != NULL) {
        events = sock_tls_want(sock->tls, events);
    }
    if (sock->wanted == events) {
        return;
    }
    CHECK(sock->fd >= 0);
    sock->wanted = events;
    if (events == 0) {
        CHECK(uv_poll_stop(&sock->poll) == 0);
    } else {
        CHECK(uv_poll_start(&sock->poll, events, on_poll) == 0);
    }
}

static void
on_close(uv_handle_t *handle)
{
    struct sock *sock = handle->data;
    sock->closed(sock);
}

void
sock_end(struct sock *sock)
{
    if (sock->tls != NULL) {
        sock_tls_end(sock->tls);
    }
    (void)shutdown(sock->fd, SHUT_WR);
}

/* A reset says nothing: without TLS's own end the peer knows that bytes are
 * missing. */
static void
end_tls(struct sock *sock, bool reset)
{
    if (sock->tls != NULL && !reset) {
        sock_tls_end(sock->tls);
    }
    sock_tls_free(sock->tls);
    sock->tls = NULL;
}

void
sock_close(struct sock *sock, bool reset, void (*closed)(struct sock *sock))
{
    CHECK(sock->fd >= 0 && closed != NULL);
    if (reset) {
        struct linger now = {.l_onoff = 1, .l_linger = 0};
        (void)setsockopt(sock->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    }
    end_tls(sock, reset);
    sock->closed = closed;
    (void)uv_poll_stop(&sock->poll);
    uv_close((uv_handle_t *)&sock->poll, on_close);
    (void)close(sock->fd);
    sock->fd = -1;
}

ssize_t
sock_recv(struct sock *sock, void *at, size_t size)
{
    size = size < SOCK_TURN_BYTES ? size : SOCK_TURN_BYTES;
    if (sock->tls != NULL) {
        return sock_tls_recv(sock->tls, at, size);
    }
    for (;;) {
        ssize_t n = recv(sock->fd, at, size, 0);
        if (n >= 0) {
            return n;
        }
        if (errno != EINTR) {
            return -errno;
        }
    }
}

bool
sock_is_quiet(const struct sock *sock)
{
    char byte;

    return (sock->tls == NULL || sock_tls_is_quiet(sock->tls)) &&
           recv(sock->fd, &byte, 1, MSG_PEEK) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

bool
sock_got_past(const struct sock *sock, uint64_t bytes)
{
    uint64_t info[ACKED_WORD + 1];
    socklen_t len = sizeof info;

    if (getsockopt(sock->fd, IPPROTO_TCP, TCP_INFO, info, &len) != 0 ||
        len < sizeof info) {
        return true;
    }
    return info[ACKED_WORD] > bytes + 1; /* the SYN counts as one */
}

bool
sock_holds(const struct sock *sock)
{
    int unsent = 0;

    return ioctl(sock->fd, SIOCOUTQ, &unsent) == 0 && unsent > 0;
}

/* All parts in one run of bytes, when they are few: then the kernel has no
 * vector to import, which costs more than copying a chat's bytes. */
static size_t
flatten(const struct iovec *parts, unsigned count, char flat[FLAT_BYTES])
{
    size_t len = 0;

    for (unsigned i = 0; i < count; i++) {
        if (parts[i].iov_len > FLAT_BYTES - len) {
            return 0;
        }
        if (parts[i].iov_len != 0) { /* NULL may not be copied */
            memcpy(flat + len, parts[i].iov_base, parts[i].iov_len);
        }
        len += parts[i].iov_len;
    }
    return len;
}

/* What of the parts goes in one turn; how many parts that is. */
static unsigned
first_of(const struct iovec *parts, unsigned count, struct iovec *first)
{
    size_t left = SOCK_TURN_BYTES;
    unsigned taken = 0;

    while (taken < count && left != 0) {
        first[taken] = parts[taken];
        if (first[taken].iov_len > left) {
            first[taken].iov_len = left;
        }
        left -= first[taken++].iov_len;
    }
    return taken;
}

static ssize_t
send_parts(int fd, const struct iovec *parts, unsigned count)
{
    struct iovec copy[SOCK_PARTS_MAX];
    struct msghdr message = {.msg_iov = copy};
    char flat[FLAT_BYTES];

    if (count == 1) {
        size_t some =
            parts->iov_len < SOCK_TURN_BYTES ? parts->iov_len : SOCK_TURN_BYTES;
        return send(fd, parts->iov_base, some, MSG_NOSIGNAL);
    }
    size_t len = flatten(parts, count, flat);
    if (len != 0) {
        return send(fd, flat, len, MSG_NOSIGNAL);
    }
    CHECK(count <= SOCK_PARTS_MAX);
    message.msg_iovlen = first_of(parts, count, copy);
    return sendmsg(fd, &message, MSG_NOSIGNAL);
}

ssize_t
sock_send(struct sock *sock, const struct iovec *parts, unsigned count)
{
    if (sock->tls != NULL) {
        return sock_tls_send(sock->tls, parts, count);
    }
    for (;;) {
        ssize_t n = send_parts(sock->fd, parts, count);
        if (n >= 0) {
            return n;
        }
        if (errno == EAGAIN) {
            return 0;
        }
        if (errno != EINTR) {
            return -errno;
        }
    }
}

static void
no_delay(int fd)
{
    int one = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* The kernel asks nothing while bytes wait for their acknowledgement, and sends
 * those for a quarter of an hour: hence the last one. */
static void
keep_alive(int fd)
{
    const int on = 1;
    const int idle_s = SOCK_SILENT_S / 2;
    const int between_s = SOCK_SILENT_S / 6;
    const int gone_ms = SOCK_SILENT_S * 1000;

    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s,
                     sizeof(between_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &gone_ms,
                     sizeof(gone_ms));
}

void
sock_keep_alive(struct sock *sock)
{
    keep_alive(sock->fd);
}

int
sock_connect_begin(const struct sockaddr *address, socklen_t len)
{
    int fd = socket(address->sa_family,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -errno;
    }
    no_delay(fd);
    keep_alive(fd);
    if (connect(fd, address, len) != 0 && errno != EINPROGRESS) {
        int error = -errno;
        (void)close(fd);
        return error;
    }
    return fd;
}

int
sock_connect_result(const struct sock *sock)
{
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(sock->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) {
        return -errno;
    }
    return -error;
}

static uint16_t
bound_port(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.v6 = {.sin6_family = AF_UNSPEC}};
    socklen_t len = sizeof(address);

    if (getsockname(fd, &address.any, &len) != 0) {
        return 0;
    }
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port
                                                   : address.v4.sin_port);
}

/* A bound, not yet listening socket, or -errno. */
static int
bind_to(const struct sockaddr *address, socklen_t len, bool shared)
{
    int one = 1;
    int fd = socket(address->sa_family,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -errno;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        (shared &&
         setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) != 0) ||
        bind(fd, address, len) != 0) {
        int error = -errno;
        (void)close(fd);
        return error;
    }
    return fd;
}

int
sock_listen(const struct sockaddr *address, socklen_t len, int backlog,
            uint16_t *port)
{
    int fd = bind_to(address, len, true);

    if (fd < 0) {
        return fd;
    }
    if (listen(fd, backlog) != 0) {
        int error = -errno;
        (void)close(fd);
        return error;
    }
    *port = bound_port(fd);
    return fd;
}

int
sock_probe_free(const struct sockaddr *address, socklen_t len)
{
    int fd = bind_to(address, len, false);

    if (fd < 0) {
        return fd;
    }
    (void)close(fd);
    return 0;
}

int
sock_accept(struct sock *listener, struct sockaddr_storage *peer)
{
    for (;;) {
        socklen_t len = sizeof(*peer);
        int fd =
            accept4(listener->fd, (struct sockaddr *)peer,
                    peer != NULL ? &len : NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            no_delay(fd);
            return fd;
        }
        if (errno != EINTR && errno != ECONNABORTED) {
            return -errno;
        }
    }
}

uint64_t
sock_raise_limit(uint64_t wanted)
{
    struct rlimit all = {.rlim_cur = wanted, .rlim_max = wanted};
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) {
        return wanted;
    }
    if (limit.rlim_max < wanted && setrlimit(RLIMIT_NOFILE, &all) == 0) {
        return wanted;
    }
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
}
