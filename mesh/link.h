/*
 * Links: bytes from this node to others and back, bounded, over NNG 1.5.2.
 *
 * PUSH -> PULL: a node has one PULL listener, and for each peer two PUSH
 * sockets with one dialer each, the channels `ctl` and `bulk`. Chosen because
 * it is the one protocol that addresses a peer, says so when it is full instead
 * of losing silently, and accepts a peer that restarted. In bursts of 128
 * frames BUS lost 57 %, PAIR1 poly 72 %, both silently (PUB 0.14 % with a
 * buffer of 1,024, 40 to 94 % when flooded); plain PAIR1 turned a restarted
 * peer away 235 times in 8 s, for it still had the half-open connection;
 * REQ/REP resends after reconnects. PUSH lost nothing and did 520-690 thousand
 * frames of 64 bytes a second, 178 thousand with TLS. What it cannot do is
 * answer, so there is a link each way; and it cannot overtake, so there are
 * two channels: a probe of the membership never waits behind a page of state.
 *
 * A link is up when both sides hear each other on both channels: each
 * connection starts with a hello (frame.h) that carries a random number, and
 * the other side's hellos carry it back. So a loss in one direction, a process
 * that was replaced behind an address, and a stranger that accepts connections
 * are all seen for what they are. Who says hello and is not known is dialled
 * back.
 *
 * - Redialling is ours (NNG's delays are broken in 1.5.2, and a connection it
 *   holds through a partition resumed 23 s after a cut of 30 s; closed and
 *   dialled anew each second: 0.1 s): every redial_ms with a quarter of
 *   jitter, from redial_slow_after_ms on every redial_slow_ms; each third dial
 *   may take three redial_ms more.
 * - Connections of a superseded process, or silent for silent_ms, are closed;
 *   who has nothing to say says so each idle_ms.
 * - NNG buffers nothing (a buffer would survive a reconnect and speak before
 *   the hello): frames wait here, counted. A peer that does not read fills its
 *   own channel only. When bulk is full, all of it is dropped and the peer is
 *   lagging until it reads again: half of a stream is worth nothing, and what
 *   was dropped is found by comparing digests.
 * - NNG's threads only move a message into a bounded ring and wake the loop;
 *   when that is full they stop asking, and TCP holds the senders. (Its receive
 *   descriptor in the loop: 34 thousand frames a second against 367.)
 * - A PUSH socket serves one connection only: used on after it broke, NNG
 *   crashes (link_internal.h). And a connection that breaks while it is flooded
 *   may take a frame or two along that NNG never frees.
 * - Sockets are closed on one of libuv's threads: closing can take 170 ms with
 *   TLS. A connection is closed only when it is quiet, and until then what it
 *   brings is thrown away: closed under a flood, NNG hangs (link_internal.h).
 *
 * With TLS (1.2, mutual, one CA, the server's name always checked) a stranger
 * does not get as far as a hello. NNG 1.5 cannot read a certificate's name: any
 * certificate of the CA may claim any node's name. Without TLS the listener is
 * bound to loopback, unless `insecure` says otherwise; mesh_link_warning()
 * has the sentence for the log. No host is banned for a wrong hello: hosts are
 * shared, and a refusal costs a hello a second.
 *
 * Role: shell. Owns: sockets, queues, one timer and one async handle on the
 * loop. Thread: the loop's; callbacks come from it. Limits: mesh_link_limits.
 * Errors: below zero -errno; outcomes MESH_LINK_E_*.
 */
#ifndef MESH_LINK_H
#define MESH_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "index/base/check.h"
#include "index/base/slice.h"

#define MESH_ADDRESS_MAX 64U /* numeric HOST:PORT or [HOST]:PORT, with NUL */
#define MESH_BODY_MAX    ((size_t)256 << 10)

enum mesh_channel {
    MESH_CTL,  /* membership, gauges, digests: small, soon */
    MESH_BULK, /* deltas and state */
    MESH_CHANNELS,
};

enum {
    MESH_LINK_E_FULL = 1, /* this channel of this peer is full; see send */
    MESH_LINK_E_DOWN,     /* bulk: the link is not up; nothing was queued */
    MESH_LINK_E_SIZE,     /* over MESH_BODY_MAX: split it */
    MESH_LINK_E_ADDRESS,  /* not a numeric HOST:PORT, or our own */
    MESH_LINK_E_PEERS,    /* peers_max are there already */
    MESH_LINK_E_CONFIG,   /* new: *why says what is wrong */
};

/* Why a connection was closed from this side. */
enum mesh_refusal {
    MESH_REFUSED_GARBAGE,   /* not a frame of ours, or damaged */
    MESH_REFUSED_VERSION,   /* a major version not spoken here */
    MESH_REFUSED_CLUSTER,   /* another cluster's node */
    MESH_REFUSED_HELLO,     /* frames before a hello, or one that cannot be */
    MESH_REFUSED_SELF,      /* our own hello came back: our address is in use
                               as a peer's, harmless */
    MESH_REFUSED_ADDRESS,   /* says to be where it does not come from */
    MESH_REFUSED_SEQUENCE,  /* a frame of another session, or an old one */
    MESH_REFUSED_SILENT,    /* no frame for silent_ms, no hello for hello_ms */
    MESH_REFUSED_PEERS,     /* peers_max are there already */
    MESH_REFUSED_PIPES,     /* more connections than the peers can have */
    MESH_REFUSED_TRANSPORT, /* no TLS, no or a wrong certificate, a message
                               over the size, not NNG. Who it was is not known */
    MESH_REFUSALS,
};

/* 0 stands for the default in brackets. */
struct mesh_link_limits {
    uint32_t peers_max;            /* [64] */
    uint32_t ctl_frames;           /* waiting per peer [256] */
    uint32_t bulk_frames;          /* [512] */
    size_t bulk_bytes;             /* [4 MiB], at least a frame */
    uint32_t inbox_frames;         /* received and not yet told [4096] */
    size_t inbox_bytes;            /* [16 MiB]; passed by one frame at most */
    uint32_t redial_ms;            /* [1000] */
    uint32_t redial_slow_ms;       /* [5000] */
    uint32_t redial_slow_after_ms; /* without being up [60000] */
    uint32_t idle_ms;              /* [3000] */
    uint32_t silent_ms;            /* [10000] */
    uint32_t hello_ms;             /* [5000] */
    uint32_t stale_ms;  /* ctl frames that waited longer for a connection are
                           dropped [2000] */
    uint32_t forget_ms; /* peers that are not up and not sent to go [60000] */
};

/* Paths of PEM files. All four or none. */
struct mesh_link_tls {
    const char *ca;
    const char *cert;
    const char *key;
    const char *server_name; /* each node's certificate has it as DNS name */
};

/* Copied; texts are borrowed for the call. */
struct mesh_link_config {
    const char *listen;    /* numeric; port 0: a free one */
    const char *advertise; /* where others reach us; NULL: as `listen` became.
                              Required with a wildcard; port 0: the bound one */
    const char *cluster;   /* printable ASCII without spaces, 63 at most */
    const char *name;      /* of the node; the same */
    uint64_t session;      /* of this process: random, not 0 */
    uint64_t seed;         /* of jitter */
    bool insecure;         /* without TLS, not only loopback */
    struct mesh_link_tls tls;
    struct mesh_link_limits limits;
};

/* Who sent a frame: good for the call. */
struct mesh_link_from {
    uint64_t session;
    const char *address; /* to send to */
    const char *name;
    enum mesh_channel channel;
};

/*
 * Where it goes. Texts and bytes are good for the call. Everything but
 * mesh_link_free() may be called from within. `received` may be NULL no more
 * than the others.
 */
struct mesh_link_sink {
    void *context;
    /* In order per sender and channel, each at most once. May come before up():
     * then the sender hears us not yet. */
    void (*received)(void *context, const struct mesh_link_from *from,
                     struct slice body);
    void (*up)(void *context, const char *address, uint64_t session);
    void (*down)(void *context, const char *address, const char *reason);
    /* Bulk that was dropped (MESH_LINK_E_FULL) is accepted again. */
    void (*resumed)(void *context, const char *address);
    /* For the log, rate-limited there: who it was, and what it said to be or
     * what was wrong; `count` of them for MESH_REFUSED_TRANSPORT, else 1. */
    void (*refused)(void *context, enum mesh_refusal reason, const char *from,
                    const char *what, uint64_t count);
};

struct mesh_link;

/*
 * Listens at once. 0 and *out, -errno (of the listener: EADDRINUSE), or
 * MESH_LINK_E_CONFIG and *why, static text. *why may be set for -errno too,
 * else it is NULL.
 */
int mesh_link_new(struct mesh_link **out, uv_loop_t *loop,
                  const struct mesh_link_config *config,
                  const struct mesh_link_sink *sink, const char **why)
    MUST_CHECK;

/* No callback follows. What still waits is lost, and what NNG accepted last
 * may be: see mesh_link_waiting(). Memory goes once the loop has run on and
 * the sockets are closed. NULL is fine. */
void mesh_link_free(struct mesh_link *link);

/* Where others reach us, as told to them. Good as long as the link. */
const char *mesh_link_address(const struct mesh_link *link);

/* One sentence for the operator about missing TLS, or NULL. Static text. */
const char *mesh_link_warning(const struct mesh_link *link);

/*
 * A copy of body goes to who is at address. Never waits. The peer is dialled
 * if it is not known. 0: queued, which is no promise. MESH_LINK_E_FULL, ctl:
 * not queued; bulk: all that waited is dropped too, and nothing is taken until
 * resumed(), or up() again. Other outcomes: DOWN, SIZE, ADDRESS, PEERS;
 * -ENOMEM.
 */
int mesh_link_send(struct mesh_link *link, const char *address,
                   enum mesh_channel channel, struct slice body) MUST_CHECK;

/* The membership suspects who is there: unless a fresh connection proves
 * otherwise, the link is down. Dialled anew at once. */
void mesh_link_doubt(struct mesh_link *link, const char *address);

/* Forgets the peer and closes what is open to and from it. No down() for it. */
void mesh_link_drop(struct mesh_link *link, const char *address);

/* Frames that wait here for this peer or, with NULL, for all: 0 before a
 * goodbye can be followed by mesh_link_free(). */
size_t mesh_link_waiting(struct mesh_link *link, const char *address);

/* One peer, in no order; false at the end. */
struct mesh_link_peer {
    const char *address; /* good until the next call */
    const char *name;    /* "" while it said no hello */
    uint64_t session;    /* 0, the same */
    bool up;
    bool lagging;
    uint32_t frames[MESH_CHANNELS]; /* waiting */
    size_t bytes[MESH_CHANNELS];
};
bool mesh_link_peer(struct mesh_link *link, uint32_t at,
                    struct mesh_link_peer *peer) MUST_CHECK;

/* Counted since mesh_link_new(), but for the last four. */
struct mesh_link_stats {
    uint64_t frames_sent; /* accepted by NNG, of all types */
    uint64_t bytes_sent;
    uint64_t frames_received; /* in order and told */
    uint64_t bytes_received;
    uint64_t frames_dropped; /* bulk that waited, when it was full or broke */
    uint64_t frames_stale;   /* ctl that waited for a connection too long */
    uint64_t frames_lost;    /* gaps in what others sent us */
    uint64_t frames_unknown; /* of types of a later version */
    uint64_t sends_full;     /* MESH_LINK_E_FULL */
    uint64_t dials;
    uint64_t ups;
    uint64_t downs;
    uint64_t pauses; /* times the inbox was full */
    uint64_t refused[MESH_REFUSALS];
    uint32_t peers;
    uint32_t peers_up;
    uint32_t pipes;      /* inbound connections */
    uint32_t inbox_peak; /* frames at once, ever */
    size_t inbox_peak_bytes;
};

/* The counters since mesh_link_new(), and what there is now. */
void mesh_link_stats(struct mesh_link *link, struct mesh_link_stats *stats);

/* "garbage", "version", ...: labels of a metric. Static text. */
const char *mesh_refusal_name(enum mesh_refusal reason);

#endif
