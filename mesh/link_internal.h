/*
 * The links' insides (link.h has the contract).
 *
 * `lock` guards what NNG's threads and the loop share: the inbox, which
 * inlets exist, and the part of a channel marked so. It is held for a few
 * instructions and never across a call into NNG. NNG's callbacks
 * (channel_on_*, inlet_on_*) do no more than note, move one message on, and
 * wake the loop.
 */
#ifndef MESH_LINK_INTERNAL_H
#define MESH_LINK_INTERNAL_H

#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>

#include "index/base/rng.h"
#include "mesh/frame.h"
#include "mesh/link.h"

_Static_assert(MESH_ADDRESS_MAX == FRAME_TEXT_MAX, "a hello holds addresses");
/* NOLINTNEXTLINE(misc-redundant-expression): two equal definitions. */
_Static_assert(MESH_BODY_MAX == FRAME_BODY_MAX, "a frame holds bodies");
_Static_assert((unsigned)MESH_CHANNELS == FRAME_CHANNELS,
               "a hello names channels");

/* What a listener accepts as one message: frames, and what a later minor
 * version may add to their heads. */
#define LINK_MESSAGE_MAX ((size_t)1 << 20)

struct mesh_link;
struct peer;

struct waiting {
    nng_msg *msg;
    uint64_t at_us;
    bool hello; /* of one connection: worth nothing on the next */
};

/*
 * One outbound connection: a PUSH socket and its dialer, never used again. NNG
 * 1.5.2 puts a connection that is closed while it finishes sending back among
 * those that are ready, frees it, and crashes with the next frame sent on that
 * socket. So frames go out under `calls`, and none once the connection is lost;
 * NNG tells us of that before it frees anything.
 */
struct outlet {
    struct outlet *next; /* of those to be closed */
    struct mesh_link *link;
    nng_socket socket;
    nng_aio *aio; /* the one send under way */
    nng_dialer dialer;
    uv_mutex_t calls;
    bool lost; /* under it */

    /* Shared, under the link's lock. */
    struct channel *channel; /* NULL: given up, what comes of it is ignored */
    uint32_t pipe;           /* its one connection, 0: none yet */
};

/* What goes to a peer, by one outlet after the other. */
struct channel {
    struct mesh_link *link;
    struct peer *peer;
    enum mesh_channel kind;

    /* Shared, under the link's lock. */
    bool attached; /* the outlet is connected and takes messages */
    bool greeted;  /* ... and begins with our hello */
    bool broken;   /* it went, the loop does not know yet */
    bool sending;  /* the outlet's aio is NNG's */
    bool lagging;  /* bulk: dropped, nothing is taken */
    bool drained;  /* ... and then sent what was under way */
    struct waiting *queue;
    uint32_t room; /* one more than frames_max, for a hello */
    uint32_t head;
    uint32_t count;
    size_t bytes;
    uint64_t sent_frames;
    uint64_t sent_bytes;

    /* The loop's. */
    struct outlet *outlet; /* NULL: none */
    uint32_t frames_max;
    size_t bytes_max;
    bool echoed;       /* the peer hears this connection */
    bool proven;       /* ... or did once */
    uint64_t nonce;    /* of this connection, or of the one dialled for */
    uint64_t sequence; /* of the last data frame, since the session began */
    uint64_t dial_us;  /* when to dial (anew), while not attached */
    uint64_t dialled_us;
    uint32_t tries;       /* since it was last attached */
    uint64_t since_us;    /* attached since, or in doubt */
    uint64_t patience_us; /* how long the echo may take from then */
    uint64_t spoke_us;    /* something was queued */
};

/* One inbound connection. */
struct inlet {
    /* Shared, under the link's lock. */
    uint32_t pipe; /* 0: the slot is free; set by NNG, cleared by the loop */
    bool gone;
    uint64_t gone_at; /* the inbox's tail then: no frame of it comes after */
    char from[MESH_ADDRESS_MAX];

    /* The loop's, once `seen`. */
    bool seen;
    bool closed; /* for us: what still comes is ignored */
    bool shut;   /* ... and really, since it was quiet */
    uint32_t id; /* = pipe */
    uint64_t added_us;
    uint64_t heard_us;
    struct peer *peer; /* once it said hello */
    enum mesh_channel channel;
};

struct peer {
    struct mesh_link *link;
    char address[MESH_ADDRESS_MAX];
    char name[FRAME_TEXT_MAX]; /* as its hello says */
    struct channel channels[MESH_CHANNELS];
    struct inlet *inlets[MESH_CHANNELS];
    uint64_t session;               /* of the inlets; 0: no hello yet */
    uint64_t hellos[MESH_CHANNELS]; /* numbers of its latest ones */
    uint64_t echo[MESH_CHANNELS];   /* nonces of the inlets */
    uint64_t heard[MESH_CHANNELS];  /* last sequence of this session */
    bool up;
    uint64_t down_us;   /* since, while not up */
    uint64_t wanted_us; /* the owner sent something, or it said hello */
    bool closing; /* out of the list; its channels are not to be touched */
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
    nng_tls_config *tls_server;
    nng_tls_config *tls_client;
    nng_socket pull;
    nng_listener listener;
    bool listening;
    nng_aio *recv; /* the one receive under way */
    uv_async_t async;
    uv_timer_t timer;
    uint32_t handles; /* of libuv, not closed yet */
    bool closing;
    uv_work_t work; /* closes outlets and, at the end, the PULL socket */
    bool sweeping;  /* ... under way */
    bool swept_last;
    struct outlet *swept;   /* what it closes */
    struct outlet *retired; /* what the next one will close */
    uint32_t retired_count; /* ... how many */
    struct peer *closed;    /* to be freed, from no callback of theirs */
    uint64_t ticked_us;
    uint64_t polled_us;         /* NNG's counters were read */
    uint64_t transport_refused; /* ... and said this */
    uint64_t sequence_floor;    /* of dropped peers, who may remember it */
    uint64_t hellos;            /* said so far, to all */
    uint32_t peers_count;
    struct peer **peers;
    struct mesh_link_stats stats; /* the loop's part */

    uv_mutex_t lock;
    bool changed;      /* a channel or an inlet has news */
    uint64_t messages; /* built here, and neither freed nor NNG's yet */
    bool armed;        /* the receive aio is NNG's */
    nng_msg **inbox;
    uint64_t inbox_head; /* both only grow; modulo limits.inbox_frames */
    uint64_t inbox_tail;
    size_t inbox_bytes;
    uint32_t inlets_max;
    struct inlet *inlets;
    uint64_t pipes_refused; /* not told to the owner yet */
    uint64_t pauses;
    uint32_t inbox_peak;
    size_t inbox_peak_bytes;
};

/* The loop's time of this turn. */
static inline uint64_t
link_now_us(const struct mesh_link *link)
{
    return uv_now(link->loop) * 1000;
}

/* link.c */

/* All sockets are closed. */
void link_closed(struct mesh_link *link);

/* link_address.c */

/* The canonical form of a numeric HOST:PORT; false when it is none. */
bool link_address_read(const char *text, char out[MESH_ADDRESS_MAX]) MUST_CHECK;

/* Whether a canonical address is of loopback, or stands for any host; its
 * port. */
bool link_address_loopback(const char *address);
bool link_address_wildcard(const char *address);
uint16_t link_address_port(const char *address);

/* Same host and another port, or loopback (of the same family) with this
 * port. */
void link_address_with_port(char address[MESH_ADDRESS_MAX], uint16_t port);
void link_address_to_loopback(char address[MESH_ADDRESS_MAX]);

/* True when the two name the same host, or loopback both. */
bool link_address_same_host(const char *a, const char *b);

/* Where a connection comes from, as a canonical address; "unknown" when it is
 * neither IPv4 nor IPv6. */
void link_address_of(const nng_sockaddr *from, char out[MESH_ADDRESS_MAX]);

/* link_tls.c */

/* Both configs, 0; or -errno or MESH_LINK_E_CONFIG, and *why. */
int link_tls_open(struct mesh_link *link, const struct mesh_link_tls *tls,
                  const char **why) MUST_CHECK;

/* Gives back what link_tls_open() made; nothing is fine. */
void link_tls_close(struct mesh_link *link);

/* link_outlet.c */

/* Dials; the channel hears of it. NULL: it could not, try again later. */
struct outlet *outlet_open(struct channel *channel, const char *address)
    MUST_CHECK;

/* Under the lock: a message of ours that did not become NNG's. */
void link_message_free(struct mesh_link *link, nng_msg *msg);

/* While nothing else is under way on it. Takes the message. */
void outlet_send(struct outlet *outlet, nng_msg *msg);

/* Closed and freed in a while: as with inlets, when it is quiet. */
void outlet_retire(struct outlet *outlet);

/* Closes what was retired; the sockets too once the link is being freed. */
void sweep(struct mesh_link *link);

/* link_channel.c */

/* NNG's error as -errno. */
int link_errno(int rv);

/* Makes a channel that dials at its next tick. 0 or -ENOMEM; after either,
 * channel_fini() is due. */
int channel_open(struct channel *channel, struct peer *peer,
                 enum mesh_channel kind) MUST_CHECK;

/* For an echo at first: twice as long each time that it fails to come. */
static inline uint64_t
channel_patience_us(const struct mesh_link_limits *limits)
{
    uint64_t ms = (uint64_t)5 * limits->redial_ms;

    return 1000 * (ms < limits->silent_ms ? ms : limits->silent_ms);
}

/* Gives up the outlet, for good. */
void channel_close(struct channel *channel);

/* After channel_close(), or a failed channel_open(). */
void channel_fini(struct channel *channel);

/* From its outlet, on NNG's threads, under the lock. on_sent: true when the
 * loop is to be woken; *next is what to send now, or NULL. */
void channel_on_attached(struct channel *channel);
void channel_on_broken(struct channel *channel);
bool channel_on_sent(struct channel *channel, bool sent, nng_msg **next);

/* A data frame goes to the end of the queue. 0, MESH_LINK_E_FULL, -ENOMEM. */
int channel_send(struct channel *channel, struct slice body) MUST_CHECK;

/* A frame of ours; a hello goes to the front. Without memory none does: the
 * peer does not hear us, and we dial again. */
void channel_say(struct channel *channel, enum frame_type type,
                 struct slice body);

/* Our hello is on its way, or arrived. */
bool channel_is_greeted(struct channel *channel) MUST_CHECK;

/* Lets go of the connection and dials anew after wait_ms. */
void channel_break(struct channel *channel, uint32_t wait_ms);

/* Another process is there, and listens: a dial that its predecessor did not
 * answer is not waited for. */
void channel_hurry(struct channel *channel);

/* News from NNG's threads. NULL, or why the connection is gone. */
const char *channel_news(struct channel *channel);

/* Lets time pass: dials, repeats hellos, says that it is idle, drops what is
 * stale. */
void channel_tick(struct channel *channel, uint64_t now_us);

/* link_peer.c */

/* The peer at a canonical address, or NULL. */
struct peer *peer_find(const struct mesh_link *link, const char *address);

/* 0 and *out, MESH_LINK_E_ADDRESS, MESH_LINK_E_PEERS, or -errno. */
int peer_get(struct mesh_link *link, const char *address, struct peer **out)
    MUST_CHECK;

/* Leaves the list; its memory goes later, from the loop. */
void peer_close(struct peer *peer);

/* Gives back the memory of peers that left the list and whose outlets are
 * gone. */
void peer_free_closed(struct mesh_link *link);

/* Our hello on this channel, with what we heard. */
void peer_say_hello(struct peer *peer, enum mesh_channel channel);

/* Up or down, and told; the reason is for going down. */
void peer_judge(struct peer *peer, const char *reason);

/* The hello of a connection from it was right. */
void peer_heard(struct peer *peer, struct inlet *inlet,
                const struct frame_hello *hello, uint64_t session,
                uint64_t number);

/* The connection is not the peer's any more. */
void peer_unheard(struct peer *peer, struct inlet *inlet, const char *reason);

/* Lets time pass for both channels, and forgets a peer that nobody wants. */
void peer_tick(struct peer *peer, uint64_t now_us);

/* link_inlet.c */

/* NNG 1.5.2 waits for ever when a connection is closed in the midst of what it
 * moves (each of 6 runs under a flood, within a second), and with its one
 * reaping thread so does every other closing. So nothing is closed that is not
 * quiet for so long. */
#define LINK_QUIET_MS 200U

/* Listens at a numeric address. 0 or -errno. */
int inlet_open(struct mesh_link *link, const char *listen) MUST_CHECK;

/* On any thread: nothing is received any more, and after LINK_QUIET_MS it can
 * be shut. */
void inlet_stop(struct mesh_link *link);
void inlet_shut(struct mesh_link *link);
void inlet_fini(struct mesh_link *link);

/* Tells what arrived, a bounded part of it; wakes itself for the rest. */
void inlet_drain(struct mesh_link *link);

/* Gone ones, and new ones. */
void inlet_news(struct mesh_link *link);

/* Asks NNG for the next message unless it is asked or the inbox is full. */
void inlet_arm(struct mesh_link *link);

/* Closes connections that are silent or never said hello. */
void inlet_tick(struct mesh_link *link, uint64_t now_us);

/* Closes a connection that did nothing wrong. */
void inlet_close(struct mesh_link *link, struct inlet *inlet,
                 const char *reason);

/* link_judge.c */

/* One message of an inlet's, or of none (NULL). */
void link_judge(struct mesh_link *link, struct inlet *inlet, nng_msg *msg);

/* Closes a connection that did something wrong, counts why, and tells the
 * owner; what: what it said to be, or what was wrong. */
void link_refuse(struct mesh_link *link, struct inlet *inlet,
                 enum mesh_refusal reason, const char *what);

/* link_transport.c: what NNG refused before there was a connection. */
void link_transport_poll(struct mesh_link *link);

#endif
