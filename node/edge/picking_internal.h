/*
 * The picker: requests that a gateway (Envoy) holds, and asks a worker for. It
 * speaks external processing (node/extproc), a stream of gRPC for each of its
 * requests.
 *
 *   picker.c      a gateway's connection
 *   pick.c        one of its streams: its begin, what comes, its end
 *   pick_take.c   what it says, handed on
 *   pick_tell.c   what it is told: a worker, or an answer of the node
 *   pick_pipe.c   what connects a pick with its client and its upstream
 *
 * A pick is a client and a worker at once. What the gateway tells of a request
 * goes as HTTP/1.1 over a pair of sockets to a client like every other, so that
 * keys, limits, aliases, tokens, waiting and the election are the same. Where
 * another request is sent to its worker, this one's worker is told to the gateway
 * (pick_connect()), and what it tells of the answer comes over a second pair of
 * sockets as if the worker had sent it. So the lease is held, and what a prompt
 * teaches is learned, as for requests that pass here.
 *
 * What differs for such a client (`picked`): once a worker was told nobody else is
 * asked, for the gateway does that; an answer does not pass here but is only
 * looked at, so nothing is asked for that would have to be taken out of it,
 * nothing of it is kept, and no stream goes on elsewhere.
 *
 * Role: shell, private to them. Thread: the lane's. Limits: PICKERS_MAX
 * connections of a lane, H2_CALLS_MAX streams of each, limits.inflight_max of
 * them in all; a message's bytes are charged as a client's are.
 */
#ifndef NODE_PICKING_INTERNAL_H
#define NODE_PICKING_INTERNAL_H

#include "node/edge/client_internal.h"
#include "node/edge/edge_internal.h"
#include "node/extproc/extproc.h"
#include "node/extproc/h2.h"

#define PICKERS_MAX       256U
#define PICK_OUT_MAX      ((size_t)512 << 10) /* unsent, until it waits */
#define PICK_PIECE_BYTES  ((size_t)60 << 10)
#define PICK_ANSWER_MAX   ((size_t)2 << 20)  /* of the node's own */
#define PICK_MESSAGE_MORE ((size_t)64 << 10) /* beside a body */
#define PICK_ENDPOINT_MAX 64U                /* [ip]:port */

struct picker {
    struct sock sock; /* first */
    struct deadline deadline;
    struct lane *lane;
    struct picker *next;
    struct picker **prev;
    struct quota_bucket *quota;
    struct sockaddr_storage peer;
    struct h2 *h2;
    struct slice left; /* of its output, what the kernel did not take */
    struct pick *picks;
    bool heard; /* its first bytes came: with TLS none may go out before */
    bool closed;
};

/* Our end of a pair of sockets. */
struct pick_pipe {
    struct sock sock; /* first */
    struct pick *pick;
    bool open;
    bool alive;           /* the loop has not let go of it */
    struct slice left[3]; /* that the kernel did not take */
};

enum pick_state {
    PICK_HEAD,   /* nothing was said yet */
    PICK_BODY,   /* the request's body comes */
    PICK_ASKED,  /* the request is whole */
    PICK_GIVEN,  /* a worker was told */
    PICK_ANSWER, /* it has begun to answer */
    PICK_OVER,   /* whatever comes changes nothing */
};

struct pick {
    struct picker *picker;
    struct h2_call *call; /* NULL: it is over */
    struct lane *lane;
    struct quota_bucket *quota;
    struct pick *next; /* of its picker's, while there is a call */
    struct pick **prev;
    struct client *client; /* NULL: none, or it has ended */
    enum pick_state state;
    bool has_body;  /* of the request */
    bool duplex;    /* its body goes on as it is sent back */
    bool echoes;    /* the same of the answer's */
    bool head_only; /* HEAD */
    bool trailers;  /* the request has some, which wait for its body */
    bool bodyless;  /* the answer has no body, by its status or method */
    bool body_seen; /* of the answer */
    bool done;      /* the answer was whole */
    bool ended;     /* the gateway says no more */
    bool finished;  /* nor does the node */
    bool stalled;   /* it waits until something was taken */
    bool subset_known;
    struct slice overrides; /* fields that no worker gets, one a line, ... */
    struct slice subset;    /* ... and endpoints that it may be one of */
    struct buf names;       /* both */
    size_t body_at;         /* of the request's body: sent back */
    size_t body_size;       /* with duplex: all of it; 0: it need not be */
    char endpoints[(CONFIG_FALLBACKS_MAX + 1) * (PICK_ENDPOINT_MAX + 1)];
    struct pick_pipe front; /* to its client */
    struct pick_pipe back;  /* to its upstream */
    char *in;               /* messages that came, charged; or NULL */
    size_t in_size;
    size_t in_len;
    size_t in_at;      /* of these, read, and ... */
    size_t held;       /* ... of the message that was read last */
    size_t owed;       /* bytes that the gateway was not told to be taken */
    struct buf text;   /* heads that go through the pipes */
    struct buf answer; /* of the node, as far as it came */
};

/* picker.c */

/* Sends what there is to be sent, and has stalled picks go on. May close the
 * picker, and end its picks. */
void picker_flush(struct picker *picker) ON_LANE;
/* The same, when the loop comes to it. */
void picker_flush_later(struct picker *picker) ON_LANE;

/* pick.c */

/* For h2.h: calls of ExternalProcessor/Process. NULL: limits.inflight_max of them
 * are open, or no memory. */
struct pick *pick_new(struct picker *picker, struct h2_call *call) ON_LANE;
void pick_came(struct pick *pick, struct slice bytes) ON_LANE;
void pick_ended(struct pick *pick) ON_LANE;
void pick_gone(struct pick *pick) ON_LANE;
/* Reads what came, as far as its pipes and the gateway take what follows. */
void pick_turn(struct pick *pick) ON_LANE;
/* Frees it, once nothing of it is left. */
void pick_check(struct pick *pick) ON_LANE;
/* Nothing more of its request is of interest. */
void pick_drop_client(struct pick *pick) ON_LANE;
/* The stream ends. */
void pick_finish(struct pick *pick, enum grpc_status status) ON_LANE;

/* It ends with an error of the gateway's, or of ours. */
void pick_break_off(struct pick *pick, enum grpc_status status) ON_LANE;

/* request.c */

/* Whether it is a field with which SGLang replaces members of a chat: its rank, its
 * priority, where its prompt's blocks come from. */
bool request_is_override(struct slice name);

/* pick_take.c */

/* A message, which stays where it is until its bytes went through the pipes. */
void pick_take(struct pick *pick, const struct extproc_message *message)
    ON_LANE;
/* The answer was whole, if it has begun. */
void pick_end_answer(struct pick *pick) ON_LANE;

/* pick_tell.c */

/* More of the request's body is sent back, as far as it is to be. */
void pick_send_body(struct pick *pick) ON_LANE;
/* The gateway answers with an error of ours. */
void pick_refuse(struct pick *pick, unsigned status, const char *code,
                 const char *message) ON_LANE;
/* Bytes of what the node answers its client. */
void pick_answered(struct pick *pick, struct slice bytes) ON_LANE;
/* Whether this is the worker that was told first. */
bool pick_is_first(const struct pick *pick, struct slice endpoint);

/* pick_pipe.c */

/* Our end of a new pair. The other one's descriptor, or -errno. */
int pick_pipe_open(struct pick *pick, struct pick_pipe *pipe)
    ON_LANE MUST_CHECK;
/* Sends these, one after the other; what the kernel does not take stays the
 * caller's until it has. None may be waiting. */
void pick_pipe_send(struct pick_pipe *pipe, struct slice a, struct slice b,
                    struct slice c) ON_LANE;
bool pick_pipe_waits(const struct pick_pipe *pipe);
void pick_pipe_close(struct pick_pipe *pipe) ON_LANE;

#endif
