/* A gateway's connection, over which it asks for workers, and whether the node
 * is well. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "node/base/log.h"
#include "node/edge/picking_internal.h"
#include "node/extproc/grpc_health.h"

#define PROCESS "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
#define HEALTH  "/grpc.health.v1.Health/Check"

#define HEALTH_MAX 256U /* bytes of a question */

/* What a call is about. */
struct call {
    struct pick *pick; /* NULL: whether the node is well */
    struct lane *lane;
    struct h2_call *call;
    size_t len;
    char question[HEALTH_MAX];
};

static struct picker *
picker_of(struct sock *sock)
{
    return (struct picker *)(void *)sock; /* its first member */
}

/* Calls */

static enum grpc_status
on_begun(void *owner, struct h2_call *h2_call, struct slice path,
         void **context)
{
    role_is_lane();
    struct picker *picker = owner;
    bool picks = slice_equal(path, SLICE(PROCESS));

    if (!picks && !slice_equal(path, SLICE(HEALTH))) {
        return GRPC_UNIMPLEMENTED;
    }
    struct call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        return GRPC_UNAVAILABLE;
    }
    call->lane = picker->lane;
    call->call = h2_call;
    call->pick = picks ? pick_new(picker, h2_call) : NULL;
    if (picks && call->pick == NULL) {
        free(call);
        return GRPC_UNAVAILABLE;
    }
    *context = call;
    return GRPC_OK;
}

static void
on_came(void *context, struct slice bytes)
{
    role_is_lane();
    struct call *call = context;

    if (call->pick != NULL) {
        pick_came(call->pick, bytes);
        return;
    }
    size_t room = sizeof call->question - call->len;
    size_t n = bytes.len < room ? bytes.len : room;
    memcpy(call->question + call->len, bytes.ptr, n);
    call->len += n;
    h2_taken(call->call, bytes.len);
}

/* That the process lives shows in any answer. */
static void ON_LANE
tell_health(struct call *call)
{
    struct slice in = {call->question, call->len};
    struct slice message;

    if (grpc_take(in, HEALTH_MAX, &message) != 0) {
        h2_finish(call->call, GRPC_INVALID);
        return;
    }
    bool lives = slice_equal(grpc_health_service(message), SLICE("liveness"));
    grpc_health_put(h2_begin(call->call), lives || reply_is_ready(call->lane));
    h2_end(call->call);
    h2_finish(call->call, GRPC_OK);
}

static void
on_ended(void *context)
{
    role_is_lane();
    struct call *call = context;

    if (call->pick != NULL) {
        pick_ended(call->pick);
    } else {
        tell_health(call);
    }
}

static void
on_gone(void *context)
{
    role_is_lane();
    struct call *call = context;

    if (call->pick != NULL) {
        pick_gone(call->pick);
    }
    free(call);
}

static const struct h2_events events = {
    .begun = on_begun,
    .came = on_came,
    .ended = on_ended,
    .gone = on_gone,
};

/* The connection */

static void
on_closed(struct sock *sock)
{
    role_is_lane();
    struct picker *picker = picker_of(sock);
    struct lane *lane = picker->lane;

    free(picker);
    CHECK(lane->pickers_count != 0);
    lane->pickers_count--;
    lane_check_drained(lane);
}

void
picker_close(struct picker *picker, bool reset)
{
    if (picker->closed) {
        return;
    }
    picker->closed = true;
    deadline_clear(&picker->deadline);
    *picker->prev = picker->next;
    if (picker->next != NULL) {
        picker->next->prev = picker->prev;
    }
    h2_free(picker->h2);
    picker->h2 = NULL;
    CHECK(picker->picks == NULL);
    sock_close(&picker->sock, reset, on_closed);
}

void
picker_flush_later(struct picker *picker)
{
    sock_want(&picker->sock, SOCK_READ | SOCK_WRITE);
}

enum {
    SENT_ALL = 1,
    SENT_SOME,
};

/* As much as the kernel takes. SENT_*, or -errno. */
static int ON_LANE
send_out(struct picker *picker)
{
    for (;;) {
        if (picker->left.len == 0) {
            int error = h2_next_out(picker->h2, &picker->left);
            if (error < 0) {
                return error;
            }
            if (picker->left.len == 0) {
                return SENT_ALL;
            }
        }
        struct iovec part = {
            .iov_base = (void *)(uintptr_t)picker->left.ptr,
            .iov_len = picker->left.len,
        };
        ssize_t n = sock_send(&picker->sock, &part, 1);
        if (n < 0) {
            return (int)n;
        }
        picker->left.ptr += n;
        picker->left.len -= (size_t)n;
        if (picker->left.len != 0) {
            return SENT_SOME;
        }
    }
}

/* Whether one of them has more to say now: bytes, or that it has taken some, or
 * that it is over. */
static bool ON_LANE
turn_stalled(struct picker *picker)
{
    bool turned = false;

    for (struct pick *pick = picker->picks; pick != NULL; pick = pick->next) {
        size_t before = h2_unsent(pick->call);
        if (pick->stalled && before < PICK_OUT_MAX) {
            pick_turn(pick);
            turned = turned || !pick->stalled || h2_unsent(pick->call) > before;
        }
    }
    return turned;
}

void
picker_flush(struct picker *picker)
{
    int outcome;

    if (picker->closed || !picker->heard) {
        return;
    }
    do {
        outcome = send_out(picker);
        if (outcome < 0) {
            picker_close(picker, true);
            return;
        }
    } while (outcome == SENT_ALL && turn_stalled(picker));
    if (outcome == SENT_SOME) {
        sock_want(&picker->sock, SOCK_READ | SOCK_WRITE);
        lane_time(picker->lane, &picker->deadline, LANE_TIMEOUT_PICKER);
        return;
    }
    sock_want(&picker->sock, SOCK_READ);
    if (!h2_is_new(picker->h2)) {
        deadline_clear(&picker->deadline);
    }
    if (h2_is_over(picker->h2)) {
        picker_close(picker, false);
    }
}

static void ON_LANE
read_some(struct picker *picker)
{
    struct lane *lane = picker->lane;
    ssize_t n = sock_recv(&picker->sock, lane->scratch, sizeof(lane->scratch));

    if (n == -EAGAIN) {
        return;
    }
    if (n <= 0) {
        counter_bump(&lane->shared->metrics.tls_failed, n == -EPROTO);
        picker_close(picker, false);
        return;
    }
    picker->heard = true;
    int error = h2_give(picker->h2, (struct slice){lane->scratch, (size_t)n});
    if (error < 0) {
        counter_bump(&lane->shared->metrics.extproc_faults, 1);
        LOG_WARNING("extproc_bad_connection", KV_FAULT("error", error),
                    KV("hint", "gateways speak gRPC (HTTP/2) at "
                               "extproc.listen, with TLS where tls.cert_file "
                               "is given"));
        (void)send_out(picker); /* it may say why */
        picker_close(picker, false);
    }
}

static void
on_ready(struct sock *sock, int ready)
{
    role_is_lane();
    struct picker *picker = picker_of(sock);

    if ((ready & SOCK_READ) != 0) {
        read_some(picker);
    }
    picker_flush(picker);
}

void
picker_expired(struct picker *picker)
{
    counter_bump(&picker->lane->shared->metrics.timeouts_client, 1);
    picker_close(picker, true);
}

void
picker_leave_all(struct lane *lane, bool final)
{
    struct picker *next;

    for (struct picker *p = lane->pickers; p != NULL; p = next) {
        next = p->next;
        h2_leave(p->h2, final);
        picker_flush(p);
        if (final && !p->heard) {
            picker_close(p, false); /* it could not be told */
        }
    }
}

void
picker_sever_all(struct lane *lane)
{
    while (lane->pickers != NULL) {
        picker_close(lane->pickers, true);
    }
}

/* As the serving port does. False: there is no memory for it. */
static bool ON_LANE
secure(struct picker *picker)
{
    struct node_shared *node = picker->lane->node;
    int error = 0;

    if (publish_get(&node->tls) == NULL) {
        return true;
    }
    qsbr_online(&node->qsbr, picker->lane->shared->reader);
    const struct node_tls *tls = publish_get(&node->tls);
    error = sock_secure_h2(&picker->sock, tls->context);
    qsbr_offline(picker->lane->shared->reader);
    return error == 0;
}

void
picker_new(struct lane *lane, int fd, const struct sockaddr_storage *peer)
{
    bool full = lane->pickers_count >= PICKERS_MAX || fd >= lane->node->fd_max;
    struct picker *picker = full ? NULL : calloc(1, sizeof *picker);

    if (picker == NULL) {
        counter_bump(&lane->shared->metrics.connections_refused, 1);
        (void)close(fd);
        return;
    }
    picker->lane = lane;
    picker->peer = *peer;
    picker->quota = quota_of(&lane->node->quota, (const struct sockaddr *)peer);
    if (h2_new(&picker->h2, &events, picker) != 0) {
        free(picker);
        (void)close(fd);
        return;
    }
    if (sock_open(&picker->sock, &lane->loop, fd, on_ready) < 0) {
        h2_free(picker->h2);
        free(picker);
        return;
    }
    sock_keep_alive(&picker->sock); /* it may be silent for long, not dead */
    counter_bump(&lane->shared->metrics.extproc_connections, 1);
    lane->pickers_count++;
    picker->next = lane->pickers;
    picker->prev = &lane->pickers;
    if (picker->next != NULL) {
        picker->next->prev = &picker->next;
    }
    lane->pickers = picker;
    lane_set_tick(lane);
    lane_time(lane, &picker->deadline, LANE_TIMEOUT_PICKER);
    if (!secure(picker)) {
        picker_close(picker, true);
        return;
    }
    sock_want(&picker->sock, SOCK_READ);
}
