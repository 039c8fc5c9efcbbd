/*
 * The serving port from the inside: lanes, client connections, exchanges and
 * upstream connections. Private to the files of the request path:
 *
 *   lane.c      the loop: accepting, timeouts, draining
 *   client.c    one client connection: reading requests, writing answers;
 *               with client_frame.c and client_out.c
 *   admit.c     whose request it is, and which models are for it
 *   reading.c   large bodies, which are read in pieces
 *   request.c   a whole request: refused, answered here, or made an exchange
 *   form.c      forms that go to a worker while they come
 *   inquiry.c   what a request's tokens are, asked of an engine
 *   counting.c  counts of tokens that are made here
 *   limit.c     what a tenant may ask for: taken before, settled after
 *   waiting.c   requests that wait for a worker with room
 *   naming.c    requests whose name stands for models
 *   caching.c   answers that are kept for requests that repeat
 *   resembling.c, sharing.c  ... that say the same in other words, of all nodes
 *   exchange.c  one request on its way: does what node/route/dispatch.h decides
 *   refusing.c  what clients of refused requests are told
 *   upstream.c  connections to workers and their pools
 *   response.c  a worker's answer on its way back; rewriting.c: one that does
 *               not pass as it comes
 *   translating.c  requests that an engine gets in another form
 *   alive.c     comments to clients that wait for the first of a stream
 *   whole.c     answers that are held until they are whole
 *   prefill.c   of a split request the half that computes the prompt
 *   resuming.c  streams that go on at another worker
 *   storing.c   what workers store, and who asks for it
 *   reply.c     answers of our own
 *   tracing.c   which requests are traced, and the steps of their way
 *   picker.c    requests that a gateway holds: see picking_internal.h
 *
 * A client has at most one exchange at a time, an exchange at most one
 * upstream connection, and one more for the prefill half of a split request.
 * Bytes are read into a buffer once and leave from there: a request's from the
 * client's input buffer, an answer's from the lane's scratch, and only what the
 * kernel does not take is copied. Whoever cannot write stops the other side's
 * reading, so each stream holds at most one scratch of bytes. Exceptions are
 * answers held until they are whole, and streams that may go on elsewhere.
 *
 * Role: shell. Thread: everything below belongs to one lane, and only what is
 * reached through struct node is shared.
 */
#ifndef NODE_EDGE_INTERNAL_H
#define NODE_EDGE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "index/base/buf.h"
#include "index/base/gate.h"
#include "index/base/ring.h"
#include "index/base/rng.h"
#include "index/base/role.h"
#include "index/base/worker_set.h"
#include "node/base/deadline.h"
#include "node/base/pace.h"
#include "node/base/sock.h"
#include "node/content/content.h"
#include "node/dialect/dialect.h"
#include "node/edge/lane_memory_internal.h"
#include "node/edge/parts_internal.h"
#include "node/edge/reading_internal.h"
#include "node/http/http_chunk.h"
#include "node/http/http_cors.h"
#include "node/http/http_head.h"
#include "node/http/http_status.h"
#include "node/http/http_trace.h"
#include "node/keys/keys_check.h"
#include "node/keys/keys_token.h"
#include "node/limits/limits_table.h"
#include "node/local/local_tokens.h"
#include "node/route/alias.h"
#include "node/route/dispatch.h"
#include "node/route/resume.h"
#include "node/route/route.h"
#include "node/route/session.h"
#include "node/route/shared.h"
#include "node/route/split.h"
#include "node/route/stored.h"
#include "node/text/usage.h"
#include "node/text/usage_strip.h"
#include "node/tokens/token_ask.h"
#include "node/tokens/token_cache.h"
#include "node/view/metrics.h"

#define EDGE_SCRATCH_BYTES ((size_t)64 << 10) /* of one read from a worker */
#define EDGE_ADDED_BYTES   ((size_t)4 << 10) /* to a head on its way, at most */
#define EDGE_INPUT_BYTES   LANE_MEMORY_SMALL /* first read of a request */
#define WAITING_ANSWER_MAX 4096 /* tokens of an answer that count in turns */
#define UPSTREAM_LINES_MAX (URL_TEXT_MAX + CONFIG_SECRET_MAX + 64U)
#define EDGE_LINGER_BYTES  ((size_t)64 << 20) /* read and dropped at the end */

enum lane_timeout {
    LANE_TIMEOUT_HEAD,
    LANE_TIMEOUT_BODY,
    LANE_TIMEOUT_IDLE,
    LANE_TIMEOUT_WRITE,
    LANE_TIMEOUT_LINGER,
    LANE_TIMEOUT_RESERVED, /* of a client that asks for health: all of it */
    LANE_TIMEOUT_CLIENTS,  /* those above are of clients, below of upstreams */
    LANE_TIMEOUT_CONNECT = LANE_TIMEOUT_CLIENTS,
    LANE_TIMEOUT_FIRST_BYTE,
    LANE_TIMEOUT_AWAY_CONNECT, /* of a worker of another island */
    LANE_TIMEOUT_AWAY_FIRST_BYTE,
    LANE_TIMEOUT_HOLD, /* a head waits for the first of its body: response.c */
    LANE_TIMEOUT_STREAM_IDLE,
    LANE_TIMEOUT_UPSTREAM_IDLE,
    LANE_TIMEOUT_TOKENS, /* of an exchange that waits for an engine's word */
    LANE_TIMEOUT_LOCAL,  /* ... for a thread of this node */
    LANE_TIMEOUT_COUNT,  /* ... and the count is all that it wants */
    LANE_TIMEOUT_YIELD,  /* ... for its node's moment: view/moment.h */
    LANE_TIMEOUT_QUEUE, /* ... for a worker with room, if control says nothing */
    LANE_TIMEOUT_LIMIT,  /* ... for its share of a limit: see limit_look() */
    LANE_TIMEOUT_CACHE,  /* ... for the first of its kind: see caching_look() */
    LANE_TIMEOUT_ALIVE,  /* of a stream's client, until it is told something */
    LANE_TIMEOUT_PICKER, /* of a gateway that says nothing yet, or takes none */
    LANE_TIMEOUTS,
};

struct client;
struct inquiry;
struct exchange;
struct upstream;
struct pick;
struct picker;

/* A lane's kept connections to one worker, and what it needs to make more. */
struct upstream_pool {
    uint32_t slot;
    uint32_t generation;   /* of the worker in that slot */
    uint32_t refs;         /* connections and exchanges */
    bool current;          /* still the lane's pool for the slot */
    uint64_t view_version; /* that `worker` was copied from */
    bool usage_unknown;    /* it refuses a body that asks for usage */
    uint32_t idle_count;
    struct upstream *idle;          /* most recently used first */
    struct fleet_worker worker;     /* a copy: outlives the view */
    struct sock_tls_kept kept;      /* with https */
    char lines[UPSTREAM_LINES_MAX]; /* Host, and its Authorization if any */
    size_t lines_len;
};

struct lane {
    uv_loop_t loop;
    uv_thread_t thread;
    uv_timer_t tick;
    uv_prepare_t turn;     /* counts: a loop that spins shows in the metrics */
    uint64_t looked_us;    /* when the loop last turned to its sockets */
    uv_timer_t tokens_due; /* the first of LANE_TIMEOUT_TOKENS */
    uv_timer_t yield_due;  /* the lane's moment, for which some wait */
    uv_timer_t accept_again; /* after running out of descriptors */
    uv_async_t wake;         /* the control thread asks for a drain */
    struct sock listener;
    uint16_t port;
    unsigned number;
    bool listening;
    bool leaving; /* each answer is the last one of its connection */
    bool draining;
    uint64_t drain_due_us;

    struct node_shared *node;
    struct lane_shared *shared; /* what the control thread reads of this lane */
    struct lane_memory memory;
    struct waiting_place *waits; /* waits_max of them */
    uint32_t waits_max;
    uint32_t waits_used;  /* those after it never were */
    uint32_t waits_free;  /* the first that is free again, and ... */
    uint32_t waits_count; /* how many are taken */
    uint32_t waits_seq;
    struct keys_checker *checker;     /* NULL: nobody needs a key */
    struct keys_token_reader *tokens; /* NULL: none is taken for a key */
    struct sock_tls_context *workers_tls;
    uint64_t workers_tls_version;     /* of what that is a share of */
    struct token_ask *token_ask;      /* NULL: no engine is ever asked */
    struct inquiry *inquiries;        /* all that are open */
    uint32_t local_open;              /* of these, on threads of this node */
    struct local_answer local_answer; /* of the request being looked at */
    struct deadline_list expiries[LANE_TIMEOUTS];
    struct sock picker_listener; /* of extproc.listen */
    bool picker_listening;
    struct picker *pickers; /* gateways' connections; those that close are
                               counted still */
    uint32_t pickers_count;
    uint32_t picks_count;
    struct client *clients; /* all of them */
    uint32_t clients_count;
    uint32_t refused_count; /* of these, that only hear so */
    struct client *free_clients;
    struct exchange *free_exchanges;
    struct upstream *free_upstreams;
    struct upstream_pool *pools[WORKERS_MAX];
    struct rng rng;

    uint64_t live_version; /* of what these are copies of */
    struct config_limits limits;
    struct config_timeouts timeouts;
    struct elect_config elect;
    struct config_choices policies; /* of models with a rule of their own */
    bool placement_headers;
    struct session_rule session;
    struct config_aliases aliases;
    struct content_scratch *content; /* NULL without content.file */
    struct config_cors cors;
    struct config_messages messages;
    struct config_answer_cache answer_cache;
    struct redis *redis;           /* that answers are shared by; NULL: none */
    struct redis_call redis_keeps; /* all answers that it was sent */
    struct gate redis_refusals;    /* lines of the log about them */
    struct edge_embedders embedders[EDGE_EMBEDS];
    struct http_tokens operators;
    bool usage_ask;
    uint32_t log_requests;    /* as config_log; see logging_internal.h */
    uint32_t logged_count;    /* requests that it might have told of */
    const char *refusal_code; /* of the error that ends a request now; static */
    struct pace body_pace;
    struct http_limits request_limits;
    struct http_limits response_limits;
    struct http_head head;      /* the message being looked at, no longer */
    struct route_scratch route; /* the request being looked at, no longer */
    struct edge_reading reading;
    struct dispatch_lane dispatch;
    struct buf text;         /* heads and replies being written */
    struct edge_rooms rooms; /* of the answer being looked at */
    char scratch[EDGE_SCRATCH_BYTES];
};

enum client_state {
    CLIENT_READING, /* waiting for a request, or in the middle of one */
    CLIENT_BUSY,    /* its exchange runs, or an answer is being flushed */
    CLIENT_LINGER,  /* had its last answer: reads and drops, then closes */
    CLIENT_CLOSED,  /* waits for the loop to let go of the handle */
};

/* How the request at the start of `in` is framed. */
struct client_framing {
    bool known; /* its head was parsed */
    bool keep_alive;
    bool minor_0;   /* HTTP/1.0 */
    bool head_only; /* HEAD: answers have no body */
    bool messages;  /* of Anthropic's API, as its errors are */
    bool expect;    /* wants a 100 Continue that was not sent yet */
    bool chunked;
    bool form; /* form_may_go(), as far as is known */
    size_t head_bytes;
    size_t body_bytes;   /* with chunked: decoded so far */
    size_t raw_at;       /* with chunked: undecoded bytes start here */
    size_t missing;      /* of a form that goes already: has yet to come */
    size_t dropped;      /* of its beginning: is not held any more */
    uint32_t origin_at;  /* of the page's, in the request; as it was sent */
    uint32_t origin_len; /* 0: it says none */
    uint64_t since_us;   /* waits for the rest of its body; 0: never did */
    uint64_t stopped_us; /* ... and is not read, as nobody takes it; or 0 */
    uint64_t whole_us;   /* is whole since then, and read in pieces; or 0 */
    bool ahead;          /* the lane's `reading.ahead` has its body */
    struct http_chunk chunk;
    struct admission admission;
};

struct client {
    struct sock sock;
    struct deadline deadline;
    struct lane *lane;
    struct client *next;
    struct client **prev;
    struct exchange *exchange;
    struct list_link reading;   /* in the lane's line of these */
    struct quota_bucket *quota; /* of its address; NULL: it was refused */
    enum client_state state;
    struct pick *pick; /* the gateway's request that it is; NULL: none now */
    bool picked;       /* it is, or was, one */
    bool reserved;     /* the node is full but for /health and /ready */
    bool close_after;  /* the current answer is the last one */
    bool drop;         /* ... and unread input is in the way: linger */
    bool judged;       /* the lane's head is this one's, and nothing else yet */
    bool processing;   /* inside the loop over pipelined requests */
    uint8_t peer_size; /* 4 or 16 bytes of its IP address */
    uint8_t peer[16];

    char *in; /* the request being read, then pipelined bytes; or NULL */
    size_t in_size;
    size_t in_len;
    size_t request_bytes; /* of `in`, once the request is whole */
    struct client_framing framing;

    char *out; /* what the kernel did not take; or NULL */
    size_t out_size;
    size_t out_len;
    size_t out_at;
    size_t lingered;
};

struct exchange {
    struct client *client;
    struct upstream *upstream; /* NULL between attempts */
    struct exchange *next_free;

    /* The request. */
    enum http_method method;
    bool minor_0;
    bool shown;              /* its client may be told where it went */
    bool traced;             /* it is part of a trace: goes on with it */
    bool sampled;            /* ... and its spans are told: see tracing.c */
    bool stepping;           /* the last of its steps has not ended */
    uint32_t steps_count;    /* of `steps` */
    struct fact_step *steps; /* FACT_STEPS_MAX: a part, with `sampled` */
    uint8_t trace_parent[8]; /* the client's span, or all 0 */
    struct http_trace trace; /* what goes on, its span ours */
    bool read; /* the lane's route scratch holds it; not once it waits */
    enum scan_api api; /* of its path */
    struct slice body; /* in client->in or naming.body, until the answer
                          begins, or as long as that may be resumed; of a form
                          that goes while it comes what is held */
    struct edge_naming naming;
    /* METHOD, target and version, fields with their blank line, then the
     * client's Authorization line, each from where the one before ends. What
     * depends on the worker goes in between: see gather() in upstream.c. */
    struct buf head; /* its memory is kept from request to request */
    size_t method_end;
    size_t line_end;
    size_t length_at; /* of the body's length, the last of the fields */
    size_t fields_end;
    struct edge_ask ask;
    struct edge_salt salt;
    struct edge_resuming resuming;
    struct edge_dialect dialect;
    struct edge_counting counting;
    enum edge_apt apt;
    struct edge_split *split; /* with EDGE_APT: a part; else NULL */

    uint64_t tenant;  /* hash of its name; 0: nobody needs a key */
    uint64_t session; /* session_key(); 0: it has none */
    uint64_t stored;  /* stored_key() of what it is about; 0: nothing */
    struct stored_watch *storing; /* a part: what its worker stores; or NULL */
    struct edge_wait wait;        /* for a worker with room */
    struct edge_limit limit;
    struct edge_caching caching;
    struct inquiry *inquiry; /* while it waits for its tokens */
    uint64_t remembered;    /* name of the turn that its tokens come from; 0: an
                            engine was asked for them, or they are ids */
    uint64_t local_version; /* of the model whose files its tokens were made
                               by; 0: they were not made here */
    enum local_way local_way;
    uint32_t local_tokens; /* how many; 0: of the first of several prompts */
    uint32_t sample;       /* of local_samples.h; 0: they are not compared */
    struct deadline deadline;

    /* The attempt. */
    struct upstream_pool *pool; /* NULL between attempts */

    /* The answer. */
    enum http_body body_kind;
    bool unchunk; /* a chunked answer for an HTTP/1.0 client */
    bool strips;  /* a stream, with usage in it that is not for the client */
    uint64_t body_left;
    struct http_chunk chunk;
    bool finished; /* the answer is whole, its last bytes may be pending */
    struct edge_alive alive;
    struct edge_whole whole;

    struct usage_watch watch;
    struct usage_strip strip;
    struct edge_rooms *rooms; /* of these, while they keep something */
    size_t rooms_size;

    struct dispatch dispatch; /* what happens to it, and when */
    struct edge_part *parts;  /* all that it got; they end with it */
};

enum upstream_state {
    UPSTREAM_CONNECTING,
    UPSTREAM_BUSY,
    UPSTREAM_IDLE,
    UPSTREAM_CLOSED,
};

struct upstream {
    struct sock sock;
    struct deadline deadline;
    struct lane *lane;
    struct upstream_pool *pool;
    struct exchange *exchange; /* while connecting or busy */
    struct upstream *next;     /* idle or free list */
    struct upstream *prev;     /* idle list */
    enum upstream_state state;
    bool prefills; /* it has the prefill half of `exchange` */
    bool picked;   /* a gateway asks the worker: nothing is sent there */
    bool reused;   /* has answered before */
    bool answered; /* bytes of the current answer have arrived */
    bool held;     /* its head is held back, in `partial`, until it goes, ... */
    bool thinks;   /* ... which is with the first byte behind it */
    bool reusable; /* after the current answer */
    size_t sent;   /* bytes of the current request */
    uint64_t sent_before; /* ... of those before it */
    char *partial;        /* the beginning of a head; or NULL */
    size_t partial_size;
    size_t partial_len;
};

/* lane.c */

/* Microseconds as of the last time the loop woke: for timeouts. */
uint64_t lane_now_us(struct lane *lane) ON_LANE;
/* Microseconds, read now: for measurements. */
uint64_t lane_clock_us(void);
/* Restarts the deadline: it expires after the configured time for that kind,
 * counted from lane_now_us(). */
void lane_time(struct lane *lane, struct deadline *deadline,
               enum lane_timeout kind) ON_LANE;
/* The exchange waits for its tokens, so long as tokens.wait; local: for a
 * thread of this node, which is sure to answer. */
void lane_time_tokens(struct lane *lane, struct deadline *deadline, bool local)
    ON_LANE;
/* The exchange waits for the lane's moment, which is so far away. */
void lane_time_yield(struct lane *lane, struct deadline *deadline, uint32_t us)
    ON_LANE;
/* The lane has one client or exchange less; ends the loop when draining. */
void lane_check_drained(struct lane *lane) ON_LANE;

/* Looks at timeouts often while there are clients, and rarely otherwise. */
void lane_set_tick(struct lane *lane) ON_LANE;

/* client.c */

/* Takes over an accepted descriptor; peer is its other end. pick: it is of that
 * one; or NULL. NULL: it was refused, and is closed. */
struct client *client_new(struct lane *lane, int fd,
                          const struct sockaddr *peer, struct pick *pick)
    ON_LANE;
/* Sends an answer's bytes, and copies only those that the kernel does not take.
 * 0: all were sent; CLIENT_E_PENDING: client_drained() continues later, and
 * nothing may be sent before; below zero: the connection is dead. */
enum {
    CLIENT_E_PENDING = 1
};
int client_send(struct client *client, const struct iovec *parts,
                unsigned count) ON_LANE MUST_CHECK;
/* The answer is complete: the next request, or the end of the connection. */
void client_answered(struct client *client) ON_LANE;
/* Ends the connection at once; an open exchange is cancelled. */
void client_close(struct client *client, bool reset) ON_LANE;
/* The same after its last answer, but so that no answer is lost. */
void client_end(struct client *client) ON_LANE;
/* The lane's head is that of its request again, which is whole. */
void client_read_head(struct client *client) ON_LANE;
/* The request's bytes are no longer needed; pipelined ones stay. */
void client_release_request(struct client *client) ON_LANE;
/* Its deadline has passed: 408 for an incomplete request; otherwise closes. */
void client_expired(struct client *client) ON_LANE;
/* Closes at once when idle, otherwise after the current answer. */
void client_drain(struct client *client) ON_LANE;

/* admit.c */

#define ADMIT_KEY_FIELD SLICE("x-api-key")

/* What load balancers ask for: without a key, and no request of anybody. */
bool admit_is_probe(const struct http_head *head);

/* Whether the request that the lane's head is of has a good key, or needs none.
 * FRAME_WHOLE and *admission, or FRAME_REFUSED: it was answered. */
int admit_head(struct client *client, struct admission *admission)
    ON_LANE MUST_CHECK;
/* Whether the client's tenant may use the model ("": none is named), by these
 * keys: what is published, while online in the qsbr. */
bool admit_allows(struct client *client, const struct keys *keys,
                  struct slice model) ON_LANE;
/* The same for x, which is counted. model: "" where the node cannot be sure to
 * read it as engines do. False: it was refused, x is gone. */
bool admit_model(struct exchange *x, struct slice model) ON_LANE MUST_CHECK;
/* What it has cost, by limit_usage(), is its tenant's. */
void admit_count(const struct exchange *x, const struct usage *usage) ON_LANE;

/* request.c */

/* One whole request is at client->in; lane->head holds its parsed head. */
void request_serve(struct client *client) ON_LANE;
/* Whether its body is sent in another form than its own (Content-Encoding). */
bool request_is_encoded(const struct http_head *head);
/* The scratch is to read x's body, which is another one than before. */
void request_read_again(struct exchange *x) ON_LANE;
/* Refuses what could not be read whole, and closes. */
void request_refuse(struct client *client, unsigned status, const char *code,
                    const char *message) ON_LANE;

/* form.c */

/* Whether such a request may go before it is whole. */
bool form_may_go(const struct http_head *head);
/* The request at client->in, which is not whole, goes from now on: its model is
 * known. The lane's head need not be its. */
bool form_goes(struct client *client) ON_LANE MUST_CHECK;
/* It was put on its way, or has ended already: has the rest of it come. */
void form_begin(struct client *client) ON_LANE;
/* There is more of it to read, or its client is gone. May close the client. */
void form_read(struct client *client) ON_LANE;
/* Its worker has taken so much of what is held. Goes on reading, if the form has
 * yet to come. */
void form_taken(struct exchange *x, size_t taken) ON_LANE;
/* An answer goes out: what has not come by now is not wanted, and the client
 * is let go after that. Harmless for other requests. */
void form_cut(struct client *client) ON_LANE;

/* inquiry.c */

/* Creates the lane's token cache and its means to ask engines: 0, or -errno. */
int inquiry_lane_init(struct lane *lane) MUST_CHECK;
/* No answer comes any more; the loop runs on for a while. */
void inquiry_lane_close(struct lane *lane) ON_LANE;
/* Frees what inquiry_lane_init() made. */
void inquiry_lane_fini(struct lane *lane);
/*
 * Finds the tokens of x, which the route scratch has just read: makes them by
 * the model's own files where there are any; or looks its conversation up, and
 * asks an engine for the rest if that is worth it. What is known is then in the
 * scratch. True: too little is known to proceed; unless inquiry_leave() is
 * called, exchange_answered_tokens() follows.
 */
bool inquiry_begin(struct exchange *x) ON_LANE MUST_CHECK;
/* The same without asking: the scratch has read x's body again. */
void inquiry_recall(struct exchange *x) ON_LANE;
/* The engine has said how much it had of x's prompt: tokens that promised more,
 * and were remembered, are forgotten, so that the next turn asks again. They
 * may be wrong for good, as when an engine came back with another template. */
void inquiry_judge(const struct exchange *x, const struct usage *usage) ON_LANE;

/* Its tokens are compared with what engines store, if they are to be: it was
 * elected to a worker; it has ended (usage: with a whole answer, or NULL). */
void inquiry_sent(const struct exchange *x) ON_LANE;
void inquiry_ended(struct exchange *x, const struct usage *usage) ON_LANE;
/* x waits no longer; an answer is remembered all the same. */
void inquiry_leave(struct exchange *x) ON_LANE;
/* What was found out of x's tokens is not of use: they will be looked at
 * again. */
void inquiry_forget(struct exchange *x) ON_LANE;
/* The client left: what has not begun for x alone is given up. */
void inquiry_cancel(struct exchange *x) ON_LANE;
/* Whether x waits for a thread of this node. */
bool inquiry_is_local(const struct exchange *x);

/* prefill.c */

/* Whether x, which the scratch holds, may be split in this view. */
enum split_asked prefill_asks(struct exchange *x, const struct fleet_view *view)
    ON_LANE MUST_CHECK;
/* x was elected, to two workers perhaps: what the prefill half is sent. The
 * caller is online in the qsbr. */
void prefill_elected(struct exchange *x, const struct fleet_view *view) ON_LANE;
/* Sends it: does what DISPATCH_PREFILL wants. */
void prefill_begin(struct exchange *x) ON_LANE;
/* Bytes of its answer; the worker's close (0), or -errno. */
void prefill_bytes(struct upstream *up, const char *bytes, size_t len) ON_LANE;
void prefill_end(struct upstream *up, int error) ON_LANE;
/* What the other half's body gets of it, and for it. */
void prefill_add_edits(const struct exchange *x, struct edge_edits *edits);
/* Its answer is none. */
void prefill_forget(struct exchange *x) ON_LANE;
/* Ends it, in whatever state. Repeating it is harmless. */
void prefill_drop(struct exchange *x) ON_LANE;

/* limit.c */

/* Takes what x needs of its tenant's limits: a place among the open requests,
 * and a request, before anything else is done for it. False: it waits, or was
 * refused and x is gone. */
bool limit_begin(struct exchange *x, struct slice model) ON_LANE MUST_CHECK;
/* The same for x that has waited. */
bool limit_again(struct exchange *x) ON_LANE MUST_CHECK;
/* ... and tokens, as far as they are known; the scratch holds x. False: the
 * same, and x holds nothing. */
bool limit_tokens(struct exchange *x) ON_LANE MUST_CHECK;
/* x is answered from the cache, or waits for that: its request is spent, and
 * limit_tokens() does not spend it again. Repeating it is harmless. */
void limit_let_through(struct exchange *x) ON_LANE;
/* Those that wait go on by exchange_limited(), if they can now. */
void limit_look(struct lane *lane, uint64_t now_us) ON_LANE;
/* Its tokens may be known better: takes the true number instead. */
void limit_recount(struct exchange *x) ON_LANE;
/* These bytes of its answer's body pass. */
void limit_pass(struct exchange *x, struct slice bytes) ON_LANE;
/* What it has cost: as its engine told at the end of a whole answer (or NULL),
 * or else as far as the node saw it. */
struct usage limit_usage(const struct exchange *x, const struct usage *told)
    ON_LANE;
/* It has ended: what it needed is spent. usage: as limit_usage() has it. */
void limit_end(struct exchange *x, const struct usage *usage) ON_LANE;
/* Adds the lines that say how its limits stand, if it has any; and when it may
 * come again, if it was refused for one. */
void limit_add_headers(struct buf *out, const struct exchange *x) ON_LANE;

/* waiting.c */

/* Makes the lane's table: 0, or -ENOMEM; and frees it. */
int waiting_lane_init(struct lane *lane) MUST_CHECK;
void waiting_lane_fini(struct lane *lane);
/* Reads an x-request-timeout: 2, 2.5, 2s, 500ms; a day at most. False: none. */
bool waiting_read_ms(struct slice text, uint64_t *ms);
/* Whether x has waited for as long as its client has patience. */
bool waiting_is_over(const struct exchange *x, uint64_t now_us);
/* Control is to find a place for x, which the scratch holds. */
void waiting_begin(struct exchange *x) ON_LANE;
/* x waits no longer: it took its place, or ended. Repeating it is harmless. */
void waiting_end(struct exchange *x) ON_LANE;
/* Takes what control told of those that wait. */
void waiting_take(struct lane *lane) ON_LANE;

/* naming.c */

/* Whether requests for that name get another one. */
bool naming_stands(struct lane *lane, struct slice name) ON_LANE MUST_CHECK;
/* The scratch has read x, which has its session: if its name stands for models,
 * it becomes one for one. False: refused, x is gone, or waits (sorting.c). */
bool naming_begin(struct exchange *x) ON_LANE MUST_CHECK;
/* It becomes one for the next model: does what DISPATCH_RENAME wants. The
 * same. */
bool naming_next(struct exchange *x) ON_LANE MUST_CHECK;
/* x's body is not needed any more. Repeating it is harmless. */
void naming_release(struct exchange *x) ON_LANE;

/* refusing.c */

/* Tells x's client why it is refused: does what DISPATCH_REFUSE wants. Frees x. */
void exchange_refuse(struct exchange *x) ON_LANE;

/* exchange.c */

/* One more, by rising place. */
void exchange_add_edit(struct edge_edits *edits, struct body_edit edit);
/* All are added: how long the body is then. */
void exchange_end_edits(const struct exchange *x, struct edge_edits *edits);
/* What the body becomes for the elected worker: the same until it has it whole. */
void exchange_list_edits(const struct exchange *x, struct edge_edits *edits);
/* Header lines that tell the elected worker what is expected of it. */
uint32_t exchange_hints(const struct route_choice *choice,
                        char hints[EDGE_HINTS_MAX]);

/* An exchange for the client's request, not yet sent anywhere; NULL: no
 * memory. */
struct exchange *exchange_new(struct client *client) ON_LANE;
/* Zeroes for something that few requests have, until x ends; NULL: no memory.
 * Each is got once: so there are only so many. */
void *exchange_part(struct exchange *x, size_t size) ON_LANE MUST_CHECK;
/* Sends the request to the first candidate; the lane's route scratch has just
 * read it. May free x. */
void exchange_start(struct exchange *x) ON_LANE;
/* It has waited for a share of its limits, or for the first of its kind: goes
 * on, or is refused. May free x. */
void exchange_limited(struct exchange *x) ON_LANE;
/* The answer to the question for its tokens came. May free x. */
void exchange_answered_tokens(struct exchange *x) ON_LANE;
/* The time for the tokens is over. May free x. */
void exchange_expired(struct exchange *x) ON_LANE;
/* It has waited for room, and is elected now. May free x. */
void exchange_placed(struct exchange *x) ON_LANE;
/* It waited in vain. Frees x. */
void exchange_unplaced(struct exchange *x, enum dispatch_refusal why,
                       uint32_t retry_after_s) ON_LANE;
/* The worker did not take a body that asks for usage: it gets the client's own.
 * May free x. */
void exchange_unask(struct exchange *x) ON_LANE;
/* The worker does not know the path: it gets a chat. May free x. */
void exchange_translate(struct exchange *x) ON_LANE;
/* The attempt that was running failed before its answer; its upstream
 * connection is gone. May free x. */
void exchange_failed(struct exchange *x, const struct dispatch_failure *failure)
    ON_LANE;
/* The same of its prefill half, which failed, or is done: usable, as
 * dispatch_prefilled() has it. */
void exchange_prefill_failed(struct exchange *x,
                             const struct dispatch_failure *failure) ON_LANE;
void exchange_prefilled(struct exchange *x, bool usable) ON_LANE;
/* The worker did not take what that half came to. May free x. */
void exchange_unsplit(struct exchange *x) ON_LANE;
/* The worker exceeded the time that the exchange waits; likewise. */
void exchange_late(struct exchange *x) ON_LANE;
/* The head of the worker's answer has arrived. */
void exchange_answered(struct exchange *x, unsigned status) ON_LANE;
/* The answer ended too early: severs the client's connection, frees x. */
void exchange_broke_off(struct exchange *x) ON_LANE;
/* The client took everything that was pending. May free x. */
void exchange_drained(struct exchange *x) ON_LANE;
/* The answer is whole. Frees x. */
void exchange_end(struct exchange *x) ON_LANE;
/* An answer of our own goes out instead. Frees x. */
void exchange_drop(struct exchange *x, unsigned status) ON_LANE;
/* The client went away. Frees x. */
void exchange_cancel(struct exchange *x) ON_LANE;

/* upstream.c */

/* The lane's pool for a worker of the current view; takes a reference. */
struct upstream_pool *upstream_pool_get(struct lane *lane,
                                        const struct fleet_view *view,
                                        uint32_t slot) ON_LANE;
/* Gives a reference back; the last one of a retired pool frees it. */
void upstream_pool_put(struct lane *lane, struct upstream_pool *pool) ON_LANE;
/*
 * Gives x a connection to its pool's worker and sends, or begins to connect;
 * prefills: the prefill half of x, to that one's.
 * 0, or x has none: UPSTREAM_E_CONNECT, this worker cannot be reached;
 * UPSTREAM_E_EXHAUSTED, this node can open no connection, but may have kept
 * one to another.
 */
enum {
    UPSTREAM_E_CONNECT = 1,
    UPSTREAM_E_EXHAUSTED,
};
int upstream_begin(struct exchange *x, bool prefills) ON_LANE MUST_CHECK;
/* More of x's form has come: sends it, if there is a worker that takes it. */
void upstream_more(struct exchange *x) ON_LANE;
/* The connection failed before an answer: closes it and tells its exchange. */
void upstream_failed(struct upstream *up, enum dispatch_fault fault) ON_LANE;
/* The same for an answer to what we asked for beside the client. */
void upstream_unask(struct upstream *up) ON_LANE;
/* The same for one that does not know the path. */
void upstream_translate(struct upstream *up) ON_LANE;
void upstream_unsplit(struct upstream *up) ON_LANE;
/* The same for an answer that dispatch_drops(). */
void upstream_dropped(struct upstream *up,
                      const struct dispatch_failure *failure) ON_LANE;
/* When the answer that lane->head is of may be asked for again, if it says. */
void upstream_read_retry(const struct http_head *head,
                         struct dispatch_failure *failure);
/* It has no exchange any more, and its exchange no such connection. */
void upstream_detach(struct upstream *up) ON_LANE;
/* The connection's exchange ended: keeps it when it can be used again. */
void upstream_release(struct upstream *up) ON_LANE;
/* Closes the connection; it has no exchange. */
void upstream_close(struct upstream *up) ON_LANE;
/* Its deadline is over: closes it, and tells its exchange if it has one. */
void upstream_expired(struct upstream *up) ON_LANE;
/* The client takes no more for now: reads nothing, and no time runs. */
void upstream_pause(struct upstream *up) ON_LANE;
/* Reads on; timeouts.stream_idle runs from now. */
void upstream_resume(struct upstream *up) ON_LANE;
/* Closes the idle connections. */
void upstream_drop_idle(struct lane *lane) ON_LANE;

/* picker.c, pick.c, pick_tell.c: see picking_internal.h */

/* Takes over a gateway's connection. */
void picker_new(struct lane *lane, int fd, const struct sockaddr_storage *peer)
    ON_LANE;
void picker_close(struct picker *picker, bool reset) ON_LANE;
/* Its deadline has passed. */
void picker_expired(struct picker *picker) ON_LANE;
/* All of them are asked to connect anew, elsewhere; final: and end with what they
 * have begun. */
void picker_leave_all(struct lane *lane, bool final) ON_LANE;
/* They end at once. */
void picker_sever_all(struct lane *lane) ON_LANE;
/* The client of this one is no more. */
void pick_client_gone(struct pick *pick) ON_LANE;
/* Workers that the gateway does not allow count as tried. */
void pick_restrict(const struct pick *pick, const struct fleet_view *view,
                   struct worker_set *tried);
/* x, which the scratch holds, was elected: which workers are told. */
void pick_elected(struct exchange *x) ON_LANE;
/* Tells the gateway of x's worker. What its upstream is to read the answer from,
 * a descriptor, or -errno. */
int pick_connect(struct exchange *x) ON_LANE MUST_CHECK;

/* reply.c */

/* As /ready has it. */
bool reply_is_ready(struct lane *lane) ON_LANE;
/* The body of an error, as those who use the API of its request read it. */
struct slice reply_error_body(const struct client *client, unsigned status,
                              const char *code, const char *message,
                              char out[HTTP_ERROR_ROOM]);
/* Writes the head of an answer of our own. */
void reply_head(struct client *client, unsigned status,
                const char *content_type, size_t len, struct buf *out) ON_LANE;
/* Sends a whole answer of our own, with the exchange's headers if any. */
void reply_send(struct client *client, unsigned status,
                const char *content_type, struct slice body) ON_LANE;
/* {"error":{"message","type","code"}}; message is plain text. */
void reply_error(struct client *client, unsigned status, const char *code,
                 const char *message) ON_LANE;
/* The parsed head's path does not take its method. */
void reply_method(struct client *client) ON_LANE;
/* What the page that sent the client's request is told: http_cors_find(). */
struct slice reply_origin(const struct client *client) ON_LANE;
/* Adds what its browser has to be told, if it is a page's; while the client has
 * the request. */
void reply_add_cors(struct buf *out, const struct client *client) ON_LANE;
/* The answer to a browser's question beforehand. */
void reply_preflight(struct client *client, const struct http_head *head)
    ON_LANE;
/* Adds x-kvasir-* and x-request-id to the head of an exchange's answer. */
void reply_add_headers(struct buf *out, const struct exchange *x,
                       unsigned status) ON_LANE;
/* /health, /ready, /v1/models, /v1/models/ID: a ROUTE_LOCAL request. */
void reply_local(struct client *client, const struct http_head *head) ON_LANE;

#endif
