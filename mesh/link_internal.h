/*
 * The inside of the links; link.h has the contract.
 *
 * What happens to a connection is noted where it is noticed, and told on the
 * loop's next turn: so no callback of the owner's comes from within a call of
 * its own, and none while a connection is being handled.
 */
#ifndef MESH_LINK_INTERNAL_H
#define MESH_LINK_INTERNAL_H

#include "index/base/rng.h"
#include "mesh/frame.h"
#include "mesh/link.h"
#include "mesh/link_proof_internal.h"
#include "mesh/link_tls_internal.h"

_Static_assert(MESH_ADDRESS_MAX == FRAME_TEXT_MAX, "a hello holds addresses");
/* NOLINTNEXTLINE(misc-redundant-expression): two equal definitions. */
_Static_assert(MESH_BODY_MAX == FRAME_BODY_MAX, "a frame holds bodies");
_Static_assert((unsigned)MESH_CHANNELS == FRAME_CHANNELS,
               "a hello names channels");

/* The longest message that a listener accepts. It leaves room for what a later
 * minor version may add to a frame's head. */
#define LINK_MESSAGE_MAX ((size_t)1 << 20)

/* The same for the first message of a connection, which is a hello. */
#define LINK_FIRST_MAX ((size_t)4 << 10)

/* The most bytes that one read of a connection brings. */
#define LINK_READ_MAX ((size_t)64 << 10)

struct mesh_link;
struct peer;
struct wire;

/* A frame that is being sent or was received. */
struct message {
    size_t len;
    struct inlet *inlet; /* received: where it came in */
    uint8_t bytes[];
};

struct waiting {
    struct message *msg;
    uint64_t at_us;
    bool hello; /* useless on another connection */
};

/* What is sent to a peer, through one outbound connection after another. */
struct channel {
    struct mesh_link *link;
    struct peer *peer;
    enum mesh_channel kind;
    struct wire *wire; /* the connection, or NULL */
    bool attached;     /* it is open and takes messages */
    bool greeted;      /* the queue on it begins with our hello */
    bool broken;       /* it broke, and the owner was not told yet */
    bool sending;      /* it has a frame */
    bool lagging;      /* bulk was dropped: no frame is accepted */
    bool drained;      /* while lagging: all that was in progress was sent */
    struct waiting *queue;
    uint32_t room; /* frames_max and one more, for a hello */
    uint32_t head;
    uint32_t count;
    size_t bytes;
    uint64_t sent_frames;
    uint64_t sent_bytes;
    uint32_t frames_max;
    size_t bytes_max;
    bool echoed;       /* the peer hears this connection */
    bool proven;       /* it heard this connection at some time */
    uint64_t nonce;    /* of this connection, or of the one being dialled */
    uint64_t sequence; /* of the last data frame in this session */
    uint64_t dial_us;  /* while not attached: when to dial (again) */
    uint64_t dialled_us;
    uint32_t tries;       /* dials since it was last attached */
    uint64_t since_us;    /* when it was attached, or doubted */
    uint64_t patience_us; /* how long from then the echo may take */
    uint64_t spoke_us;    /* when a frame was last queued */
};

/* One inbound connection. */
struct inlet {
    bool used;         /* false: the slot is free */
    struct wire *wire; /* NULL: lost */
    uint64_t gone_at;  /* the inbox's tail at that time: no frame of this inlet
                          follows */
    char from[MESH_ADDRESS_MAX];
    bool closed; /* its further messages are ignored */
    uint64_t added_us;
    uint64_t heard_us;
    struct peer *peer; /* after its hello */
    enum mesh_channel channel;
    uint8_t who[WHO_SIZE]; /* with a secret: whose hellos it brings */
};

struct peer {
    struct mesh_link *link;
    char address[MESH_ADDRESS_MAX];
    char name[FRAME_TEXT_MAX]; /* from its hello */
    struct channel channels[MESH_CHANNELS];
    struct inlet *inlets[MESH_CHANNELS];
    uint64_t session;               /* of the inlets; 0: no hello yet */
    uint64_t hellos[MESH_CHANNELS]; /* numbers of its latest hellos */
    uint64_t echo[MESH_CHANNELS];   /* nonces of its inlets */
    uint64_t heard[MESH_CHANNELS];  /* last sequence number of this session */
    bool up;
    uint64_t down_us;   /* since when it is not up */
    uint64_t wanted_us; /* when the owner last sent to it, or it said hello */
    bool closing;       /* out of the list; its channels must not be used */
    struct peer *next_closed;
};

struct mesh_link {
    uv_loop_t *loop;
    struct mesh_link_sink sink;
    struct mesh_link_limits limits;
    char cluster[FRAME_TEXT_MAX];
    char name[FRAME_TEXT_MAX];
    char address[MESH_ADDRESS_MAX];
    uint64_t session;
    const char *warning;
    struct rng rng;
    bool tls;
    struct tls_files *tls_files;
    bool secret; /* nodes share one, in place of TLS */
    struct secrets secrets;
    char *secret_path;
    struct wire *wires; /* all connections */
    uint32_t wires_count;
    uv_tcp_t port; /* the listener */
    bool port_is_open;
    bool accepts;         /* false: a connection waits for memory */
    int64_t expiry_say_s; /* wall time of the next line about our certificate */
    char *read_buffer;    /* LINK_READ_MAX */
    uv_idle_t idle;       /* active: there is something to tell */
    uv_timer_t timer;
    uint32_t handles; /* libuv handles that are not closed yet */
    bool closing;
    struct peer *closed; /* to be freed, but not from their own callbacks */
    uint64_t ticked_us;
    uint32_t tick_ms;
    uint64_t looked_us;      /* when certificates were last looked at */
    uint64_t sequence_floor; /* of dropped peers, which may remember it */
    uint64_t hellos;         /* sent so far, to all peers */
    uint32_t peers_count;
    struct peer **peers;
    struct mesh_link_stats stats; /* without those of the peers' channels */
    bool armed;                   /* the inbox had room */
    struct message **inbox;
    uint64_t inbox_head; /* head and tail only grow; modulo
                            limits.inbox_frames */
    uint64_t inbox_tail;
    size_t inbox_bytes;
    uint32_t inlets_max;
    struct inlet *inlets;
    uint64_t pipes_refused; /* not yet reported to the owner */
};

/* The loop's time in this turn. */
static inline uint64_t
link_now_us(const struct mesh_link *link)
{
    return uv_now(link->loop) * 1000;
}

/* A time, moved by a gap in which this process stood still; not beyond now: it
 * may have been noted after the gap. */
static inline uint64_t
link_forgiven_us(const struct mesh_link *link, uint64_t at_us, uint64_t gap_us)
{
    uint64_t now_us = link_now_us(link);

    return at_us + gap_us < now_us ? at_us + gap_us : now_us;
}

/* link.c */

/* A part of a link that is being freed has closed. After the last part the link
 * frees itself. */
void link_closed_part(struct mesh_link *link);

/* Handles and tells what was noted, on the loop's next turn. */
void link_wake(struct mesh_link *link);

/* Counts a connection above the limit; the owner hears of it later. */
void link_count_refused_pipe(struct mesh_link *link);

/* link_address.c */

/* Writes the canonical form of a numeric HOST:PORT; false if text is none. */
bool link_address_read(const char *text, char out[MESH_ADDRESS_MAX]) MUST_CHECK;

/* Whether a canonical address is loopback; whether it is a wildcard; its
 * port. */
bool link_address_loopback(const char *address);
bool link_address_wildcard(const char *address);
uint16_t link_address_port(const char *address);

/* Changes the port of an address; or changes its host to loopback of the same
 * family, and keeps the port. */
void link_address_with_port(char address[MESH_ADDRESS_MAX], uint16_t port);
void link_address_to_loopback(char address[MESH_ADDRESS_MAX]);

/* Both addresses name the same host, or both are loopback. */
bool link_address_same_host(const char *a, const char *b);

/* The canonical address that a connection comes from; "unknown" if it is
 * neither IPv4 nor IPv6. */
void link_address_of_sockaddr(const struct sockaddr_storage *from,
                              char out[MESH_ADDRESS_MAX]);

/* A canonical address, for libuv. */
void link_address_to_sockaddr(const char *address,
                              struct sockaddr_storage *out);

/* link_channel.c */

/* Makes a channel that dials at its next tick. 0 or -ENOMEM; in either case the
 * caller must call channel_fini(). */
int channel_open(struct channel *channel, struct peer *peer,
                 enum mesh_channel kind) MUST_CHECK;

/* How long to wait for an echo at first; each echo that fails to come doubles
 * it. */
static inline uint64_t
channel_patience_us(const struct mesh_link_limits *limits)
{
    uint64_t ms = (uint64_t)5 * limits->redial_ms;

    return 1000 * (ms < limits->silent_ms ? ms : limits->silent_ms);
}

/* Gives up the connection for good. */
void channel_close(struct channel *channel);

/* After channel_close() or a failed channel_open(). */
void channel_fini(struct channel *channel);

/* Called by the channel's connection: it opened; it broke, or could not be
 * opened; it sent a message, and gets the next one, or NULL. */
void channel_on_attached(struct channel *channel);
void channel_on_lost(struct channel *channel);
struct message *channel_on_sent(struct channel *channel) MUST_CHECK;

/* Queues a data frame. 0, MESH_LINK_E_FULL or -ENOMEM. */
int channel_send(struct channel *channel, struct slice body) MUST_CHECK;

/* Queues a frame of the link's own; a hello goes to the front. Without memory
 * nothing is queued: the peer does not hear us, and we dial again. */
void channel_say(struct channel *channel, enum frame_type type,
                 struct slice body);

/* Our hello is in the queue, or was sent. */
bool channel_is_greeted(struct channel *channel) MUST_CHECK;

/* Gives up the connection and dials again after wait_ms. */
void channel_break(struct channel *channel, uint32_t wait_ms);

/* A new process listens at the address: stops waiting for a dial that its
 * predecessor did not answer. */
void channel_hurry(struct channel *channel);

/* Handles and tells what was noted. NULL, or why the connection is gone. */
const char *channel_news(struct channel *channel);

/* Lets time pass: dials, repeats hellos, sends idle frames, drops stale
 * frames. */
void channel_tick(struct channel *channel, uint64_t now_us);

/* link_peer.c */

/* The peer at a canonical address, or NULL. */
struct peer *peer_find(const struct mesh_link *link, const char *address);

/* 0 and *out, MESH_LINK_E_ADDRESS, MESH_LINK_E_PEERS, or -errno. */
int peer_get(struct mesh_link *link, const char *address, struct peer **out)
    MUST_CHECK;

/* Takes the peer off the list; the loop frees its memory later. */
void peer_close(struct peer *peer);

/* Frees the peers that left the list. */
void peer_free_closed(struct mesh_link *link);

/* Our hello on this channel, with the numbers that we heard. */
void peer_put_hello(const struct peer *peer, enum mesh_channel channel,
                    struct frame_hello *hello);

/* Sends it. */
void peer_say_hello(struct peer *peer, enum mesh_channel channel);

/* Decides whether the peer is up, and tells the owner of a change; reason: why
 * it may go down. */
void peer_judge(struct peer *peer, const char *reason);

/* A connection from the peer sent a valid hello. */
void peer_heard(struct peer *peer, struct inlet *inlet,
                const struct frame_hello *hello, uint64_t session,
                uint64_t number);

/* The connection no longer belongs to the peer. */
void peer_unheard(struct peer *peer, struct inlet *inlet, const char *reason);

/* Lets time pass for both channels, and forgets a peer that nobody needs. */
void peer_tick(struct peer *peer, uint64_t now_us);

/* link_inlet.c */

void inlet_fini(struct mesh_link *link);

/* Delivers a bounded part of the inbox, and wakes itself for the rest. */
void inlet_drain(struct mesh_link *link);

/* Handles the loss of connections, after their last messages. */
void inlet_news(struct mesh_link *link);

/* Reads on from all connections if the inbox has room. */
void inlet_arm(struct mesh_link *link);

/* Closes connections that are silent or sent no hello. */
void inlet_tick(struct mesh_link *link, uint64_t now_us);

/* Closes a connection without a refusal. */
void inlet_close(struct inlet *inlet, const char *reason);

/* link_judge.c */

/* Handles one message. */
void link_judge(struct mesh_link *link, const struct message *msg);

/* Closes a connection that did something wrong, counts the reason, and tells
 * the owner; what: what the peer claimed to be, or what was wrong. */
void link_refuse(struct mesh_link *link, struct inlet *inlet,
                 enum mesh_refusal reason, const char *what);

#endif
