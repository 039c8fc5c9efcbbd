/* The pairs of sockets between a pick, its client and its upstream. */
#include <errno.h>
#include <unistd.h>

#include "node/edge/picking_internal.h"

#define PARTS (sizeof(((struct pick_pipe *)NULL)->left) / sizeof(struct slice))

static struct pick_pipe *
pipe_of(struct sock *sock)
{
    return (struct pick_pipe *)(void *)sock; /* its first member */
}

bool
pick_pipe_waits(const struct pick_pipe *pipe)
{
    for (size_t i = 0; i < PARTS; i++) {
        if (pipe->left[i].len != 0) {
            return true;
        }
    }
    return false;
}

static void
on_closed(struct sock *sock)
{
    role_is_lane();
    struct pick_pipe *pipe = pipe_of(sock);

    pipe->alive = false;
    pick_check(pipe->pick);
}

void
pick_pipe_close(struct pick_pipe *pipe)
{
    if (pipe->open) {
        pipe->open = false;
        memset(pipe->left, 0, sizeof pipe->left);
        sock_close(&pipe->sock, false, on_closed);
    }
}

static void ON_LANE
flush(struct pick_pipe *pipe)
{
    struct iovec parts[PARTS];
    unsigned count = 0;

    for (size_t i = 0; i < PARTS; i++) {
        if (pipe->left[i].len != 0) {
            parts[count++] = (struct iovec){
                .iov_base = (void *)(uintptr_t)pipe->left[i].ptr,
                .iov_len = pipe->left[i].len,
            };
        }
    }
    ssize_t n = count != 0 ? sock_send(&pipe->sock, parts, count) : 0;
    if (n < 0) { /* the other end has gone, as is heard at the client's */
        memset(pipe->left, 0, sizeof pipe->left);
        n = 0;
    }
    size_t sent = (size_t)n;
    for (size_t i = 0; i < PARTS; i++) {
        size_t part = sent < pipe->left[i].len ? sent : pipe->left[i].len;
        slice_skip(&pipe->left[i], part);
        sent -= part;
    }
    sock_want(&pipe->sock,
              pick_pipe_waits(pipe) ? SOCK_READ | SOCK_WRITE : SOCK_READ);
}

/* From the client: what the node answers. From the upstream nothing but its
 * end. */
static void ON_LANE
read_pipe(struct pick_pipe *pipe)
{
    struct pick *pick = pipe->pick;
    char *scratch = pick->lane->scratch;
    ssize_t n = sock_recv(&pipe->sock, scratch, EDGE_SCRATCH_BYTES);

    if (n == -EAGAIN) {
        return;
    }
    if (n > 0) {
        if (pipe == &pick->front) {
            pick_answered(pick, (struct slice){scratch, (size_t)n});
        }
        return;
    }
    pick_pipe_close(pipe);
    if (pipe == &pick->front) {
        pick_pipe_close(&pick->back);
        if (pick->call != NULL && pick->state < PICK_ANSWER) {
            pick_finish(pick, GRPC_UNAVAILABLE);
        }
    }
}

static void
on_ready(struct sock *sock, int events)
{
    role_is_lane();
    struct pick_pipe *pipe = pipe_of(sock);
    struct pick *pick = pipe->pick;

    if ((events & SOCK_WRITE) != 0) {
        flush(pipe);
    }
    if ((events & SOCK_READ) != 0) {
        read_pipe(pipe);
    }
    if (pick->call != NULL) {
        pick_turn(pick);
        picker_flush(pick->picker); /* it may be gone after this */
    }
}

int
pick_pipe_open(struct pick *pick, struct pick_pipe *pipe)
{
    int fds[2];

    CHECK(!pipe->alive);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                   fds) != 0) {
        return -errno;
    }
    int error = sock_open(&pipe->sock, &pick->lane->loop, fds[0], on_ready);
    if (error < 0) {
        (void)close(fds[1]);
        return error;
    }
    pipe->pick = pick;
    pipe->open = true;
    pipe->alive = true;
    sock_want(&pipe->sock, SOCK_READ);
    return fds[1];
}

void
pick_pipe_send(struct pick_pipe *pipe, struct slice a, struct slice b,
               struct slice c)
{
    if (!pipe->open) {
        return;
    }
    CHECK(!pick_pipe_waits(pipe));
    pipe->left[0] = a;
    pipe->left[1] = b;
    pipe->left[2] = c;
    flush(pipe);
}
