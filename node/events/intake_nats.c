/* One rank's connections to NATS: of the live batches, and of a stream's. */
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "index/base/rng.h"
#include "node/base/log.h"
#include "node/base/nkey.h"
#include "node/base/sock_tls.h"
#include "node/events/intake_internal.h"
#include "node/events/nats_replay_internal.h"

#define HANDSHAKE_US  UINT64_C(5000000)
#define RETRY_MAX_US  UINT64_C(5000000)
#define DOUBLINGS_MAX 6
#define READ_BYTES    ((size_t)64 << 10)
#define KEEP_BYTES    ((size_t)1 << 20) /* of a buffer that is empty again */
#define NONCE_MAX     64U
#define WORDS_BYTES   4096U /* what is said at once */
#define LIVE_SID      1U

/* A connection. Its buffer outlives it: who took a batch may look at it still. */
struct link {
    struct intake_watch watch;
    int fd;                /* -1: none */
    uint32_t number;       /* another one after each close */
    struct sock_tls *tls;  /* NULL: it is plain, still or at all */
    bool shaking;          /* ... whose handshake is under way */
    bool said;             /* CONNECT */
    char nonce[NONCE_MAX]; /* of INFO, to be signed; or "" */
    bool stands;           /* and its PING was answered */
    struct buf in;
    size_t at;   /* of what is read and not taken yet */
    size_t skip; /* bytes of a message that is too long */
};

struct intake_nats {
    struct link live;
    struct link reply;
    uint64_t opened_us; /* the live one was last tried */
    uint32_t fails;     /* in a row */
    char subject[URL_PATH_MAX + 8];
    char life[NATS_LIFE_MAX]; /* of the live messages; "": none came */
    uint64_t seq;             /* the highest of them */
    bool waits;               /* a question, for its connection */
    uint64_t from;
    struct nats_replay replay;
};

static void read_live(struct intake_rank *rank);
static void read_reply(struct intake_rank *rank);

/* With its headers. What is longer is not kept. */
static size_t
message_max(const struct intake_rank *rank)
{
    return (size_t)rank->intake->events.payload_bytes_max + NATS_LINE_MAX;
}

static void
init_link(struct link *link, const struct intake_rank *rank)
{
    link->fd = -1;
    buf_init(&link->in, message_max(rank) + NATS_LINE_MAX + 2 * READ_BYTES);
}

int
intake_nats_new(struct intake_rank *rank)
{
    const struct intake_worker *worker = &rank->source->worker;
    struct rng rng;

    if (!url_is_nats(&worker->events)) {
        return 0;
    }
    struct intake_nats *nats = calloc(1, sizeof *nats);
    if (nats == NULL) {
        return -ENOMEM;
    }
    rank->nats = nats;
    init_link(&nats->live, rank);
    init_link(&nats->reply, rank);
    if (worker->ranks > 1) {
        (void)snprintf(nats->subject, sizeof nats->subject, "%s.%" PRIu32,
                       worker->events.path + 1, rank->decoder.rank);
    } else {
        (void)snprintf(nats->subject, sizeof nats->subject, "%s",
                       worker->events.path + 1);
    }
    nats->replay.subject = slice_of(nats->subject);
    nats->replay.stream =
        slice_of(worker->replay.path[0] != '\0' ? worker->replay.path + 1 : "");
    rng_init(&rng, rank->intake->seed ^ rng_mix(intake_now_us()) ^
                       rng_mix(worker->identity + rank->decoder.rank));
    (void)snprintf(nats->replay.inbox, sizeof nats->replay.inbox,
                   "_INBOX.kvasir%016" PRIx64, rng_next(&rng));
    return 0;
}

/* epoll forgets what is closed, but not while a program that is being started
 * has it, too. */
static void
close_link(struct link *link)
{
    if (link->fd >= 0) {
        (void)epoll_ctl(link->watch.rank->intake->epoll, EPOLL_CTL_DEL,
                        link->fd, NULL);
        if (link->tls != NULL) {
            sock_tls_end(link->tls);
            sock_tls_free(link->tls);
            link->tls = NULL;
        }
        (void)close(link->fd);
        link->fd = -1;
        link->number++;
        link->shaking = link->said = link->stands = false;
    }
}

void
intake_nats_free(struct intake_nats *nats)
{
    if (nats != NULL) {
        close_link(&nats->live);
        close_link(&nats->reply);
        buf_fini(&nats->live.in);
        buf_fini(&nats->reply.in);
        free(nats);
    }
}

static void
log_nats(const struct intake_rank *rank, const char *what, struct slice why)
{
    LOG_WARNING("events_nats", KV("worker", rank->source->worker.id),
                KV("rank", rank->decoder.rank), KV("what", what),
                KV("why", why),
                KV("hint", "it is tried again; kvasir doctor tries the "
                           "worker's events and replay"));
}

/* Connecting */

static bool
connect_link(struct link *link, const struct sockaddr_storage *to)
{
    const struct {
        int level;
        int name;
        int value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, INTAKE_KEEPALIVE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, INTAKE_KEEPALIVE_S / 2},
        {IPPROTO_TCP, TCP_KEEPCNT, 3},
    };
    socklen_t size = to->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                               : sizeof(struct sockaddr_in);

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (setsockopt(link->fd, options[i].level, options[i].name,
                       &options[i].value, sizeof options[i].value) != 0) {
            return false;
        }
    }
    return connect(link->fd, (const struct sockaddr *)to, size) == 0 ||
           errno == EINPROGRESS;
}

/* Where the connection leads. */
static const struct url *
url_of(const struct intake_rank *rank, const struct link *link)
{
    const struct intake_worker *worker = &rank->source->worker;

    return link == &rank->nats->live ? &worker->events : &worker->replay;
}

/* The server speaks first. False: there is no connection; errno. */
static bool
open_link(struct intake_rank *rank, struct link *link, enum intake_place place,
          void (*read)(struct intake_rank *rank))
{
    struct url url = *url_of(rank, link);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &link->watch};
    struct sockaddr_storage to;

    CHECK(link->fd < 0);
    (void)snprintf(url.host, sizeof url.host, "%s",
                   intake_rank_address(rank, place));
    errno = EINVAL;
    if (url_sockaddr(&url, &to) != 0) {
        return false;
    }
    link->fd =
        socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (link->fd < 0) {
        return false;
    }
    buf_clear(&link->in);
    link->at = link->skip = 0;
    link->watch = (struct intake_watch){.rank = rank, .read = read};
    if (!connect_link(link, &to) ||
        epoll_ctl(rank->intake->epoll, EPOLL_CTL_ADD, link->fd, &event) != 0) {
        int error = errno;
        close_link(link);
        errno = error;
        return false;
    }
    return true;
}

/* What fits into no socket at once, where so little is said, is not read there. */
static bool
say(const struct link *link, const struct buf *words)
{
    const struct iovec part = {.iov_base = words->ptr, .iov_len = words->len};

    if (words->failed) {
        return false;
    }
    ssize_t sent = link->tls != NULL
                       ? sock_tls_send(link->tls, &part, 1)
                       : send(link->fd, words->ptr, words->len, MSG_NOSIGNAL);
    return sent == (ssize_t)words->len;
}

/* By the file of credentials, if there is one. NULL, or why not. */
static const char *
prove(const struct config_events *events, const struct link *link,
      struct nkey *key, char sig[NKEY_SIGNED_MAX])
{
    const char *why = NULL;

    key->jwt[0] = sig[0] = '\0';
    if (events->nats_creds_file[0] == '\0') {
        return NULL;
    }
    if (link->nonce[0] == '\0') {
        return "the server asks for no signature: it knows no credentials";
    }
    if (nkey_load(events->nats_creds_file, key, &why) == 0 &&
        !nkey_sign(key, slice_of(link->nonce), sig)) {
        why = "no memory for a signature";
    }
    return why;
}

/* What both connections say first. NULL, or why the connection is over. */
static const char *
greet(struct intake_rank *rank, struct link *link)
{
    const struct config_events *events = &rank->intake->events;
    char bytes[WORDS_BYTES + NKEY_JWT_MAX];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct nkey key;
    char sig[NKEY_SIGNED_MAX];

    link->said = true;
    const char *why = prove(events, link, &key, sig);
    const struct nats_login login = {events->nats_login, key.jwt, sig};
    if (why == NULL) {
        nats_wire_connect(&out, &login);
    }
    nkey_wipe(&key);
    if (why != NULL) {
        return why;
    }
    if (link == &rank->nats->live) {
        buf_printf(&out, "SUB %s %u\r\n", rank->nats->subject, LIVE_SID);
    }
    buf_add_text(&out, "PING\r\n");
    return say(link, &out) ? NULL : "it does not read";
}

/* TLS */

/* Goes on with the handshake; nothing is said before it is done. The same. */
static const char *
shake(struct intake_rank *rank, struct link *link)
{
    int error = sock_tls_shake(link->tls);

    link->shaking = error == -EAGAIN;
    if (link->shaking) {
        return NULL;
    }
    if (error != 0) {
        const char *why = sock_tls_why(link->tls);
        return why[0] != '\0' ? why : uv_strerror(error);
    }
    return greet(rank, link);
}

/* A NATS server says INFO in plain, and speaks TLS from there on: whatever else is
 * in plain was put in by others. The files are read for each connection, so that
 * renewed ones hold from the next. */
static const char *
begin_tls(struct intake_rank *rank, struct link *link)
{
    const struct config_events *events = &rank->intake->events;
    struct sock_tls_files files = {.cert = events->nats_cert_file,
                                   .key = events->nats_key_file,
                                   .ca = events->nats_ca_file};
    struct sock_tls_context *context;
    const char *why = "no memory for TLS";

    if (link->at != link->in.len) {
        return "it speaks before TLS";
    }
    if (sock_tls_context_new_client(&context, &files, &why) != 0) {
        return why;
    }
    link->tls =
        sock_tls_connect(context, link->fd, url_of(rank, link)->host, NULL);
    sock_tls_context_free(context);
    return link->tls != NULL ? shake(rank, link) : "no memory for TLS";
}

/* Reading */

/* Bytes, or -errno. */
static ssize_t
take_bytes(const struct link *link, char *room)
{
    if (link->tls != NULL) {
        return sock_tls_recv(link->tls, room, READ_BYTES);
    }
    ssize_t got = recv(link->fd, room, READ_BYTES, 0);
    return got < 0 ? -errno : got;
}

/* Why nothing comes any more. */
static const char *
why_over(const struct link *link, ssize_t got)
{
    const char *why = link->tls != NULL ? sock_tls_why(link->tls) : "";

    return got == 0         ? "the server hung up"
           : why[0] != '\0' ? why
                            : uv_strerror((int)got);
}

/* False: the connection is over; why. */
static bool
receive(struct link *link, bool *none, const char **why)
{
    *none = false;
    buf_drop(&link->in, link->at);
    link->at = 0;
    if (link->in.len == 0 && link->in.size > KEEP_BYTES) {
        size_t most = link->in.max_bytes;
        buf_fini(&link->in);
        buf_init(&link->in, most);
    }
    char *room = buf_reserve(&link->in, READ_BYTES);
    if (room == NULL) {
        *why = "no memory for its messages";
        return false;
    }
    ssize_t got = take_bytes(link, room);
    if (got > 0) {
        link->in.len += (size_t)got;
        return true;
    }
    *none = got == -EAGAIN || got == -EINTR;
    *why = why_over(link, got);
    return *none;
}

/* What was received and not taken; of a message to be skipped, nothing. */
static struct slice
unread(struct link *link)
{
    struct slice bytes = buf_slice(&link->in);

    slice_skip(&bytes, link->at);
    size_t skip = link->skip < bytes.len ? link->skip : bytes.len;
    link->at += skip;
    link->skip -= skip;
    slice_skip(&bytes, skip);
    return bytes;
}

/* Reads operations, as many as most, of which a part that is received counts as
 * one; take() is told of each message. A connection that take() closed is not read
 * further. NULL, or why the connection is over. */
static const char *
read_link(struct intake_rank *rank, struct link *link, uint32_t most,
          const char *(*take)(struct intake_rank *rank,
                              const struct nats_said *said))
{
    uint32_t number = link->number;
    struct nats_said said;
    const char *why = NULL;
    bool none = false;

    if (link->shaking) {
        why = shake(rank, link);
    }
    uint32_t n = 0;
    while (why == NULL && n < most && link->fd >= 0 && link->number == number &&
           !link->shaking) {
        nats_wire_read(unread(link), message_max(rank), &said);
        if (said.op == NATS_BAD) {
            return "what it says is not NATS";
        }
        if (said.op == NATS_PART) {
            if (!receive(link, &none, &why)) {
                return why;
            }
            if (none) {
                return NULL;
            }
            n++;
            continue;
        }
        link->at += said.used;
        link->skip = said.skip;
        n++;
        bool early = url_of(rank, link)->tls && link->tls == NULL;
        why = early && said.op != NATS_INFO ? "it speaks before TLS"
                                            : take(rank, &said);
    }
    rank->look = rank->look || n == most;
    return why;
}

/* What both connections do with all but messages and PONG. */
static const char *
take_other(struct intake_rank *rank, struct link *link,
           const struct nats_said *said, struct buf *out)
{
    if (said->op == NATS_PING) {
        buf_add_text(out, "PONG\r\n");
    } else if (said->op == NATS_ERR) {
        log_nats(rank, "server", said->text);
        return "the server refused";
    } else if (said->op == NATS_INFO && !link->said) {
        struct slice nonce = nats_wire_nonce(said->text);
        bool fits = nonce.len < sizeof link->nonce;
        (void)snprintf(link->nonce, sizeof link->nonce, "%.*s",
                       fits ? (int)nonce.len : 0, nonce.ptr);
        if (url_of(rank, link)->tls) {
            return begin_tls(rank, link);
        }
        return nats_wire_wants_tls(said->text)
                   ? "the server wants TLS: tls:// in place of nats://"
                   : greet(rank, link);
    }
    return out->len == 0 || say(link, out) ? NULL : "it does not read";
}

/* The live batches */

static void
note_bad(struct intake_rank *rank, const struct nats_said *said)
{
    counter_bump(&rank->numbers.kv.bad_frames, 1);
    log_nats(rank, "message",
             said->skip != 0
                 ? SLICE("it is longer than events.payload_bytes_max")
                 : SLICE("it has no header Nats-Msg-Id of LIFE-SEQ"));
}

/* Another life is another process, as another connection is with ZeroMQ. */
static void
take_batch(struct intake_rank *rank, const struct nats_said *said)
{
    struct intake_nats *nats = rank->nats;
    uint32_t number = nats->live.number;
    struct slice life;
    uint64_t seq;

    if (!nats_wire_batch(said->headers, &life, &seq)) {
        note_bad(rank, said);
        return;
    }
    if (nats->life[0] != '\0' && !slice_equal(life, slice_of(nats->life))) {
        intake_rank_renewed(rank);
    }
    if (nats->live.number == number) {
        bool same = slice_equal(life, slice_of(nats->life));
        nats->seq = same && seq < nats->seq ? nats->seq : seq;
        memcpy(nats->life, life.ptr, life.len);
        nats->life[life.len] = '\0';
        intake_rank_live(rank, seq, said->payload);
    }
}

static const char *
take_live(struct intake_rank *rank, const struct nats_said *said)
{
    struct intake_nats *nats = rank->nats;
    char bytes[WORDS_BYTES];
    struct buf out = buf_over(bytes, sizeof bytes);

    if (said->op == NATS_MSG) {
        if (rank->connected) {
            take_batch(rank, said);
        }
        return NULL;
    }
    if (said->op == NATS_PONG && !nats->live.stands) {
        nats->live.stands = true;
        nats->fails = 0;
        intake_rank_came(rank);
        return NULL;
    }
    return take_other(rank, &nats->live, said, &out);
}

static void
read_live(struct intake_rank *rank)
{
    const char *why =
        read_link(rank, &rank->nats->live, INTAKE_LIVE_BUDGET, take_live);

    if (why != NULL) {
        log_nats(rank, "events", slice_of(why));
        intake_rank_lost(rank);
    }
}

static uint64_t
retry_us(const struct intake_nats *nats)
{
    uint32_t doublings =
        nats->fails < DOUBLINGS_MAX ? nats->fails : DOUBLINGS_MAX;
    uint64_t us = INTAKE_REOPEN_US << doublings;

    return us < RETRY_MAX_US ? us : RETRY_MAX_US;
}

void
intake_nats_open(struct intake_rank *rank)
{
    struct intake_nats *nats = rank->nats;

    nats->opened_us = rank->intake->now_us;
    nats->fails++;
    nats->life[0] = '\0';
    if (!open_link(rank, &nats->live, INTAKE_EVENTS, read_live)) {
        log_nats(rank, "connect", slice_of(uv_strerror(-errno)));
    }
}

void
intake_nats_close(struct intake_rank *rank)
{
    if (rank->nats != NULL) {
        close_link(&rank->nats->live);
    }
}

uint64_t
intake_nats_deadline(const struct intake_rank *rank)
{
    const struct intake_nats *nats = rank->nats;

    if (nats->live.stands) {
        return UINT64_MAX;
    }
    return nats->opened_us +
           (nats->live.fd >= 0 ? HANDSHAKE_US : retry_us(nats));
}

void
intake_nats_turn(struct intake_rank *rank)
{
    struct intake_nats *nats = rank->nats;

    if (rank->intake->now_us < intake_nats_deadline(rank)) {
        return;
    }
    if (nats->live.fd >= 0) {
        log_nats(rank, "events", SLICE("the server does not answer"));
        intake_nats_close(rank);
    } else {
        intake_rank_open(rank);
    }
}

/* The batches of a stream */

static const char *
ask_stream(struct intake_nats *nats)
{
    char bytes[WORDS_BYTES];
    struct buf out = buf_over(bytes, sizeof bytes);

    nats->waits = false;
    nats_replay_ask(&nats->replay, nats->from, nats->life, nats->seq, &out);
    return say(&nats->reply, &out) ? NULL : "it does not read";
}

static const char *
take_answer(struct intake_rank *rank, const struct nats_said *said)
{
    struct intake_nats *nats = rank->nats;
    struct nats_replay *replay = &nats->replay;
    uint32_t number = nats->reply.number;
    char bytes[WORDS_BYTES];
    struct buf out = buf_over(bytes, sizeof bytes);

    counter_set(&rank->numbers.last_reply_us, rank->intake->now_us);
    enum nats_replay_outcome outcome = nats_replay_take(replay, said, &out);
    if (replay->bad_batch) {
        note_bad(rank, said);
    }
    if (out.len != 0 && !say(&nats->reply, &out)) {
        return "it does not read";
    }
    bool ends = outcome == NATS_REPLAY_END || replay->over;
    switch (outcome) {
    case NATS_REPLAY_BATCH:
        intake_rank_replayed(rank, replay->seq, said->payload);
        break;
    case NATS_REPLAY_FAILED:
        return replay->why;
    case NATS_REPLAY_WAITS:
        return NULL;
    case NATS_REPLAY_END:
        break;
    }
    if (ends && rank->asked && nats->reply.number == number) {
        intake_rank_replay_end(rank);
    }
    return NULL;
}

static const char *
take_reply(struct intake_rank *rank, const struct nats_said *said)
{
    struct intake_nats *nats = rank->nats;
    char bytes[WORDS_BYTES];
    struct buf out = buf_over(bytes, sizeof bytes);

    if (said->op == NATS_MSG) {
        return take_answer(rank, said);
    }
    if (said->op == NATS_PONG && !nats->reply.stands) {
        nats->reply.stands = true;
        return nats->waits ? ask_stream(nats) : NULL;
    }
    return take_other(rank, &nats->reply, said, &out);
}

/* A question whose connection is over has no answer: the stream waits for it in
 * vain, and asks again. */
static void
read_reply(struct intake_rank *rank)
{
    const char *why =
        read_link(rank, &rank->nats->reply, INTAKE_REPLAY_BUDGET, take_reply);

    if (why != NULL) {
        log_nats(rank, "replay", slice_of(why));
        intake_nats_hang_up(rank);
    }
}

void
intake_nats_ask(struct intake_rank *rank, uint64_t from)
{
    struct intake_nats *nats = rank->nats;
    const char *why = NULL;

    nats->from = from;
    nats->waits = true;
    if (nats->reply.fd < 0 &&
        !open_link(rank, &nats->reply, INTAKE_REPLAY, read_reply)) {
        why = uv_strerror(-errno);
    } else if (nats->reply.stands) {
        why = ask_stream(nats);
    }
    if (why != NULL) {
        log_nats(rank, "replay", slice_of(why));
        intake_nats_hang_up(rank);
    }
}

void
intake_nats_hang_up(struct intake_rank *rank)
{
    if (rank->nats != NULL) {
        close_link(&rank->nats->reply);
        rank->nats->waits = false;
    }
}

void
intake_nats_look(struct intake_rank *rank)
{
    if (rank->nats != NULL) {
        read_reply(rank);
        read_live(rank);
    }
}
