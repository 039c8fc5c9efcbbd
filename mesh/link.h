/*
 * Links: bytes from this node to others and back, bounded, on the loop.
 *
 * The wire is that of NNG's PUSH and PULL, with TLS or without: one listener,
 * and for each peer two outbound connections, the channels `ctl` and `bulk`.
 * Frames go one way on a connection, so there is a link in each direction. They
 * cannot overtake each other, so there are two channels: a probe of the
 * membership never waits behind a page of state.
 *
 * NNG no longer carries these links. With TLS, its version 1.5.2 hangs when
 * connections are closed while they come up: of 400 restarts of three nodes 2
 * never ended, and 4 times nodes stayed without links. Without TLS, it ends the
 * process ("appending node already on a list") in 3 of 72 runs, under load, of
 * strangers that leave when they are refused. On libuv none of 1,200 restarts
 * without cuts and of 300 under cuts showed either (tests/stress/restarts.py).
 *
 * A link is up when both sides hear each other on both channels: each
 * connection starts with a hello (frame.h) that carries a random number, and
 * the other side's hellos return that number. So we detect a loss in one
 * direction, a new process behind a known address, and a stranger that accepts
 * connections. An unknown node that says hello is dialled back.
 *
 * - A connection that is kept through a partition of 30 s resumes 23 s after
 *   it. If it is closed and dialled again each second, a new one is up after
 *   0.1 s. We dial every redial_ms with a quarter of jitter, and every
 *   redial_slow_ms from redial_slow_after_ms on. Each third dial may take
 *   three redial_ms more.
 * - Connections of a superseded process, and those that are silent for
 *   silent_ms, are closed. A node with nothing to say sends an idle frame each
 *   idle_ms.
 * - A connection has one frame at a time; the others wait here, counted. A peer
 *   that does not read fills only its own channel. When bulk is full, all of it
 *   is dropped, and the peer is lagging until it reads again: half of a stream
 *   is useless, and comparing digests finds what was dropped.
 * - Received frames go to a bounded inbox. When it is full, we read nothing,
 *   and TCP holds the senders back.
 *
 * With TLS (1.2 or later, mutual, one CA, both sides' names checked) a stranger
 * never gets as far as a hello. A shared secret has the same effect: each side
 * of a connection first proves that it knows the secret
 * (link_proof_internal.h). Changed files are read again. Without TLS and a
 * secret, the listener is bound to loopback, unless `insecure` says otherwise;
 * mesh_link_warning() has the sentence for the log. No host is banned for a
 * wrong hello: hosts are shared, and a refusal costs one hello a second.
 *
 * Role: shell. Owns: connections, queues, one timer and one idle handle on
 * the loop. Thread: the loop's; callbacks come from it. Limits: struct
 * mesh_link_limits. Errors: below zero -errno; outcomes MESH_LINK_E_*.
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
    MESH_CTL,  /* membership, gauges, digests: small and urgent */
    MESH_BULK, /* deltas and state */
    MESH_CHANNELS,
};

enum {
    MESH_LINK_E_FULL = 1, /* this peer's channel is full; see
                             mesh_link_send() */
    MESH_LINK_E_DOWN,     /* bulk: the link is not up; nothing was queued */
    MESH_LINK_E_SIZE,     /* longer than MESH_BODY_MAX: split it */
    MESH_LINK_E_ADDRESS,  /* not a numeric HOST:PORT, or our own */
    MESH_LINK_E_PEERS,    /* so many as peers_max are there */
    MESH_LINK_E_CONFIG,   /* mesh_link_new(): *why says what is wrong */
};

/* Why this side closed a connection. */
enum mesh_refusal {
    MESH_REFUSED_GARBAGE,   /* not a frame of ours, or damaged */
    MESH_REFUSED_VERSION,   /* an unsupported major version */
    MESH_REFUSED_CLUSTER,   /* a node of another cluster */
    MESH_REFUSED_HELLO,     /* frames before a hello, or an impossible hello */
    MESH_REFUSED_SELF,      /* our own hello came back: a peer's address is our
                               own; harmless */
    MESH_REFUSED_ADDRESS,   /* the peer claims an address that it does not
                               connect from */
    MESH_REFUSED_SEQUENCE,  /* a frame of another session, or an old frame */
    MESH_REFUSED_SILENT,    /* no frame for silent_ms, no hello for hello_ms */
    MESH_REFUSED_PEERS,     /* so many as peers_max are there */
    MESH_REFUSED_PIPES,     /* more connections than the peers can have */
    MESH_REFUSED_TRANSPORT, /* no TLS, no certificate or a wrong one, an
                               oversized message, not our wire */
    MESH_REFUSALS,
};

/* News of this node's certificate or secret. */
enum mesh_certificate {
    MESH_CERTIFICATE_LOADED, /* new connections use the changed files */
    MESH_CERTIFICATE_BAD,    /* the changed files cannot be used */
    MESH_CERTIFICATE_ENDS,   /* it ends within two weeks; told twice a day */
    MESH_CERTIFICATE_ENDED,  /* it has ended, and others refuse it; likewise */
    MESH_SECRET_BAD, /* the secret's file cannot be used, and the secrets
                                read before stay; told each idle_ms */
};

/* 0 stands for the default in brackets. */
struct mesh_link_limits {
    uint32_t peers_max;            /* [64]; who is not there gives way */
    uint32_t ctl_frames;           /* most waiting ctl frames per peer [256] */
    uint32_t bulk_frames;          /* [512] */
    size_t queue_bytes;            /* of bulk per peer [4 MiB], at least one
                                      frame; of control twice as many */
    uint32_t inbox_frames;         /* received and not yet delivered [4096] */
    size_t inbox_bytes;            /* [16 MiB]; exceeded by one frame at most */
    uint32_t redial_ms;            /* [1000] */
    uint32_t redial_slow_ms;       /* [5000] */
    uint32_t redial_slow_after_ms; /* after this time without being up
                                      [60000] */
    uint32_t idle_ms;              /* [3000] */
    uint32_t silent_ms;            /* [10000] */
    uint32_t hello_ms;             /* [5000] */
    uint32_t stale_ms;  /* ctl frames that waited longer for a connection are
                           dropped [2000] */
    uint32_t forget_ms; /* peers that are not up and that nobody sends to are
                           forgotten [60000] */
};

/* Paths of PEM files. All four or none. */
struct mesh_link_tls {
    const char *ca;
    const char *cert;
    const char *key;
    const char *server_name; /* a DNS name in each node's certificate */
};

/* The configuration is copied; texts are borrowed for the call. */
struct mesh_link_config {
    const char *listen;    /* numeric; port 0: any free port */
    const char *advertise; /* where others reach us; NULL: the address that
                              `listen` was bound to. Required with a wildcard;
                              port 0: the bound port */
    const char *cluster;   /* printable ASCII without spaces, at most 63 */
    const char *name;      /* of the node; same rules */
    uint64_t session;      /* of this process: random, not 0 */
    uint64_t seed;         /* of jitter */
    bool insecure;         /* allows more than loopback without TLS or secret */
    struct mesh_link_tls tls;
    const char *secret_path; /* in place of tls: a file of one or two secrets
                                that all nodes share, one per line; we make
                                proofs with the first. NULL: no secret */
    struct mesh_link_limits limits;
};

/* The sender of a frame; valid for the call. */
struct mesh_link_from {
    uint64_t session;
    const char *address; /* where to send an answer */
    const char *name;
    enum mesh_channel channel;
};

/*
 * The owner's callbacks. All are required. Texts and bytes are valid for the
 * call. A callback may call everything but mesh_link_free().
 */
struct mesh_link_sink {
    void *context;
    /* Frames arrive in order per sender and channel, each at most once. They
     * may arrive before up(): then the sender does not hear us yet. */
    void (*received)(void *context, const struct mesh_link_from *from,
                     struct slice body);
    void (*up)(void *context, const char *address, uint64_t session);
    void (*down)(void *context, const char *address, const char *reason);
    /* After MESH_LINK_E_FULL on bulk: bulk frames are accepted again. */
    void (*resumed)(void *context, const char *address);
    /* For the log, which limits the rate: where the connection came from, and
     * what it claimed to be or what was wrong. `count` refusals for
     * MESH_REFUSED_TRANSPORT, else 1. */
    void (*refused)(void *context, enum mesh_refusal reason, const char *from,
                    const char *what, uint64_t count);
    /* With TLS or a secret. expiry_s: the end of the certificate in use, in
     * seconds since 1970, INT64_MAX without TLS; why: what is wrong with the
     * file, or "". */
    void (*certificate)(void *context, enum mesh_certificate what,
                        int64_t expiry_s, const char *why);
};

struct mesh_link;

/*
 * Starts to listen at once. 0 and *out, -errno (of the listener: EADDRINUSE),
 * or MESH_LINK_E_CONFIG and *why, static text. *why may be set for -errno too;
 * otherwise it is NULL.
 */
int mesh_link_new(struct mesh_link **out, uv_loop_t *loop,
                  const struct mesh_link_config *config,
                  const struct mesh_link_sink *sink, const char **why)
    MUST_CHECK;

/* Whether mesh_link_new() would take these files, of TLS or, where tls is NULL,
 * of a secret. Returns as it does. *doubt: NULL, or why nodes with the same CA
 * and name will refuse the certificate, static text. */
int mesh_link_read_files(const struct mesh_link_tls *tls,
                         const char *secret_path, const char **why,
                         const char **doubt) MUST_CHECK;

/* No callback follows. Frames that still wait are lost, and so may be the last
 * frames that were written: see mesh_link_waiting(). The memory is freed when
 * the loop has run on. link may be NULL. */
void mesh_link_free(struct mesh_link *link);

/* Where others reach us, as we advertise it. Valid as long as the link. */
const char *mesh_link_address(const struct mesh_link *link);

/* One sentence for the operator about missing TLS, or NULL. Static text. */
const char *mesh_link_warning(const struct mesh_link *link);

/*
 * Queues a copy of body for the peer at address. Never waits. An unknown peer
 * is dialled. 0: queued, which does not promise delivery. MESH_LINK_E_FULL: on
 * ctl, the frame is not queued; on bulk, all waiting frames are dropped as
 * well, and no frame is accepted until resumed() or the next up(). Other
 * outcomes: DOWN, SIZE, ADDRESS, PEERS; -ENOMEM.
 */
int mesh_link_send(struct mesh_link *link, const char *address,
                   enum mesh_channel channel, struct slice body) MUST_CHECK;

/* The membership suspects the peer at address: it is dialled again at once, and
 * unless the fresh connection proves the suspicion wrong, the link is down. */
void mesh_link_doubt(struct mesh_link *link, const char *address);

/* Forgets the peer and closes all connections to and from it, without a
 * down(). */
void mesh_link_drop(struct mesh_link *link, const char *address);

/* How many frames wait here for this peer or, with NULL, for all peers. Wait
 * for 0 after a goodbye before calling mesh_link_free(). */
size_t mesh_link_waiting(struct mesh_link *link, const char *address);

/* The at-th peer, in no particular order; false at the end. */
struct mesh_link_peer {
    const char *address; /* valid until the next call */
    const char *name;    /* "" before its hello */
    bool up;
    bool lagging;
    uint64_t down_ms;               /* how long it has not been up; 0: it is */
    uint32_t frames[MESH_CHANNELS]; /* waiting */
    size_t bytes[MESH_CHANNELS];
};
bool mesh_link_peer(struct mesh_link *link, uint32_t at,
                    struct mesh_link_peer *peer) MUST_CHECK;

/* Counters since mesh_link_new(); peers and all below it are present values or
 * maxima. */
struct mesh_link_stats {
    uint64_t frames_sent; /* written, of all types */
    uint64_t bytes_sent;
    uint64_t frames_received; /* in order, and delivered */
    uint64_t bytes_received;
    uint64_t frames_dropped; /* bulk frames that waited when the channel was
                                full or broke */
    uint64_t frames_stale;   /* ctl frames that waited too long for a
                                connection */
    uint64_t frames_lost;    /* gaps in what others sent us */
    uint64_t frames_unknown; /* of types that only a later version knows */
    uint64_t sends_full;     /* MESH_LINK_E_FULL */
    uint64_t dials;
    uint64_t ups;
    uint64_t downs;
    uint64_t pauses; /* how often the inbox was full */
    uint64_t refused[MESH_REFUSALS];
    uint32_t peers;
    uint32_t peers_up;
    uint32_t pipes;      /* inbound connections */
    uint32_t inbox_peak; /* most frames in the inbox at once */
    size_t inbox_peak_bytes;
    int64_t certificate_expiry_s; /* since 1970; 0: no TLS */
};

/* The counters since mesh_link_new(), and the present sizes. */
void mesh_link_stats(struct mesh_link *link, struct mesh_link_stats *stats);

/* "garbage", "version", ...: labels of a metric. Static text. */
const char *mesh_refusal_name(enum mesh_refusal reason);

#endif
