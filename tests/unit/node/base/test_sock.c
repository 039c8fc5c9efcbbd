/* How much of what there is one call sends and reads; what connections begin with. */
#include "node/base/sock.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#define PART  ((size_t)70000)
#define PARTS 3U

static char sent[PARTS * PART];
static char got[PARTS * PART];
static struct sock one;
static struct sock other;

/* Two ends with room for all of it. */
static void
setup(void)
{
    int fd[2];
    int room = (int)sizeof(sent);

    cr_assert_eq(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd),
        0);
    cr_assert_eq(setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)),
                 0);
    one = (struct sock){.fd = fd[0]};
    other = (struct sock){.fd = fd[1]};
    for (size_t i = 0; i < sizeof(sent); i++) {
        sent[i] = (char)(i % 251);
    }
}

static void
teardown(void)
{
    (void)close(one.fd);
    (void)close(other.fd);
}

/* As parts, from the at-th byte on. */
static unsigned
rest(size_t at, struct iovec *parts)
{
    unsigned count = 0;

    for (unsigned i = 0; i < PARTS; i++) {
        size_t begin = i * PART < at ? at : i * PART;
        if (begin < (i + 1) * PART) {
            parts[count++] = (struct iovec){.iov_base = sent + begin,
                                            .iov_len = (i + 1) * PART - begin};
        }
    }
    return count;
}

TestSuite(node_sock, .init = setup, .fini = teardown);

Test(node_sock, one_call_sends_and_reads_no_more_than_a_turn_of_many_parts)
{
    struct iovec parts[PARTS];

    cr_assert_eq(sock_send(&one, parts, rest(0, parts)),
                 (ssize_t)SOCK_TURN_BYTES);
    cr_assert_eq(sock_send(&one, parts, rest(SOCK_TURN_BYTES, parts)),
                 (ssize_t)(sizeof(sent) - SOCK_TURN_BYTES));
    cr_assert_eq(sock_recv(&other, got, sizeof(got)), (ssize_t)SOCK_TURN_BYTES);
    cr_assert_eq(sock_recv(&other, got + SOCK_TURN_BYTES, sizeof(got)),
                 (ssize_t)(sizeof(sent) - SOCK_TURN_BYTES));
    cr_assert_eq(memcmp(sent, got, sizeof(sent)), 0);
}

Test(node_sock, one_call_sends_no_more_than_a_turn_of_one_part)
{
    const struct iovec all = {.iov_base = sent, .iov_len = sizeof(sent)};

    cr_assert_eq(sock_send(&one, &all, 1), (ssize_t)SOCK_TURN_BYTES);
    cr_assert_eq(sock_recv(&other, got, sizeof(got)), (ssize_t)SOCK_TURN_BYTES);
    cr_assert_eq(memcmp(sent, got, SOCK_TURN_BYTES), 0);
}

static int
option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);

    cr_assert_eq(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

/* Without these a request to an engine whose machine lost its power waits for
 * timeouts.first_byte, as no packet ever says so. */
Test(node_sock, a_connection_ends_when_its_peer_is_silent)
{
    struct sockaddr_in port = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(port);
    const struct sockaddr *address = (const struct sockaddr *)&port;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert(listener >= 0);
    cr_assert_eq(bind(listener, address, len), 0);
    cr_assert_eq(listen(listener, 1), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&port, &len), 0);
    int fd = sock_connect_begin(address, len);
    cr_assert(fd >= 0);
    cr_expect_eq(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    cr_expect_eq(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT),
                 SOCK_SILENT_S * 1000);
    cr_expect(option(fd, IPPROTO_TCP, TCP_KEEPIDLE) +
                  option(fd, IPPROTO_TCP, TCP_KEEPINTVL) <
              SOCK_SILENT_S);
    (void)close(fd);
    (void)close(listener);
}
