/*
 * The inside of intake.h, shared by its files: intake.c is control's side,
 * intake_load.c what it is given before it starts, intake_loop.c the thread,
 * intake_rank.c one rank's sockets and stream, intake_nats.c its connections to
 * NATS, intake_emit.c what goes to control.
 */
#ifndef NODE_INTAKE_INTERNAL_H
#define NODE_INTAKE_INTERNAL_H

#include "node/events/intake.h"

#define INTAKE_FRAMES_MAX    4U
#define INTAKE_LIVE_BUDGET   64U  /* messages of a SUB socket per turn */
#define INTAKE_REPLAY_BUDGET 256U /* ... of a DEALER */
#define INTAKE_GAP_US        UINT64_C(2000000)
#define INTAKE_REOPEN_US     UINT64_C(100000)
#define INTAKE_RETRY_MS      100U /* between two replays of a rank */
#define INTAKE_KEEPALIVE_S   10   /* of silence, then three probes 5 s apart */

/* A record is a quarter of the ring at most. */
#define INTAKE_ITEM_BYTES_MAX (INTAKE_RING_BYTES / 4)
#define INTAKE_RECORD_WORDS_MAX                                    \
    ((uint32_t)((INTAKE_ITEM_BYTES_MAX - DECODER_ITEM_BYTES(64)) / \
                sizeof(uint64_t) / 2))

struct intake_source;

/*
 * A socket of ZeroMQ's, and who reads it when its descriptor is readable, which
 * it is while there is something that the socket was not asked about yet.
 * (zmq_poll() would ask each socket, with a system call of its own, at each
 * turn: half a millisecond for 100 workers.)
 */
struct intake_watch {
    void *socket; /* NULL: there is none now */
    struct intake_rank *rank;
    void (*read)(struct intake_rank *rank);
};

struct intake_nats;

/* One rank of a worker. Owned by the thread, except for the numbers. */
struct intake_rank {
    struct intake *intake;
    struct intake_source *source;
    struct intake_nats *nats; /* NULL: by ZeroMQ; the sockets are none else */
    struct intake_watch sub;  /* none while it is not time to connect */
    struct intake_watch monitor; /* of sub */
    struct intake_watch dealer;  /* none: no replay ran by this connection */
    bool asked;                  /* the dealer, and its answer has not ended */
    bool look; /* a socket may have more than its descriptor says */
    bool connected;
    uint64_t opened_us;
    struct decoder decoder;
    bool resumes; /* INTAKE_RESUME must be emitted when it opens */
    struct intake_numbers numbers;
};

/* What a snapshot held of a rank. */
struct intake_loaded {
    struct event_stream name;
    uint32_t ledger_stream;
    uint32_t len;
    char *bytes;
};

/* One worker, made and freed where intake_add() and the thread say. */
struct intake_source {
    struct intake_source *next; /* the thread's list */
    struct intake_worker worker;
    /* Of its hosts that are names; "": nowhere, for now. The thread's. */
    char moved[INTAKE_PLACES][INTAKE_ADDRESS_SIZE];
    struct intake_rank ranks[]; /* worker.ranks of them */
};

enum intake_command_kind {
    INTAKE_ADD,
    INTAKE_REMOVE,
    INTAKE_REREAD,
    INTAKE_FORGET, /* a stream of the ledger that no worker claimed */
    INTAKE_HAND,   /* a rank goes on from names */
    INTAKE_MOVE,   /* a name leads elsewhere */
};

struct intake_command {
    uint32_t kind;
    uint32_t slot;
    uint32_t generation;
    uint32_t rank;
    uint64_t ask;                 /* INTAKE_REREAD */
    bool prove;                   /* INTAKE_REREAD: proof will do */
    uint32_t ledger_stream;       /* INTAKE_FORGET */
    struct intake_source *source; /* INTAKE_ADD: handed over */
    struct decoder_hand *hand;    /* INTAKE_HAND: handed over */
    enum intake_place place;      /* INTAKE_MOVE */
    char address[INTAKE_ADDRESS_SIZE];
};

/* struct ledger_stats, as the thread published it. */
struct intake_ledger {
    struct counter bytes;
    struct counter names;
    struct counter blocks;
    struct counter copies;
    struct counter open;
    struct counter sweeping;
};

struct intake {
    /* Set before the thread starts. */
    struct config_events events;
    uv_async_t *wake;
    uint64_t seed;
    int bell;  /* eventfd: commands, or the end */
    int epoll; /* of the bell and of sockets; data: struct intake_watch */
    void *zmq;
    struct storage_twin *twin; /* NULL: no snapshots are taken */
    size_t ledger_bytes_max;

    /* Between the threads. */
    struct ring items;
    struct ring commands;
    struct gauge ending;
    struct counter hands_done;
    struct intake_ledger ledger_told;

    /* Control's. */
    uv_thread_t thread;
    bool runs;
    uint64_t hands_sent;
    uint32_t ranks_count;
    uint32_t loaded_count;
    struct intake_loaded loaded[WORKERS_MAX];
    struct intake_source *by_slot[WORKERS_MAX];
    struct kv_counters gone; /* of ranks that are not followed any more */

    /* The thread's. */
    struct intake_source *sources;
    struct decoder_tools tools; /* made before it runs; control keeps off */
    uint64_t now_us;
    uint64_t turn_us;              /* when the thread was last known to run */
    uint64_t told_us;              /* the ledger's numbers */
    bool emitted;                  /* something new is in items */
    struct decoder_hand *hand;     /* NULL: no rank is about to go on */
    struct intake_rank *hand_rank; /* ... which one */
};

/* Monotonic, the thread's clock. */
uint64_t intake_now_us(void);
/* The thread's main function; arg: the struct intake. */
void intake_thread(void *arg);
/* Frees a worker's ranks, whose sockets are closed. NULL is fine. */
void intake_source_free(struct intake_source *source);

/* The thread may sleep. */
void intake_ring_bell(struct intake *intake);
/* 0 or -EAGAIN. */
int intake_send_command(struct intake *intake,
                        const struct intake_command *command) MUST_CHECK;
/* Continues a new rank from its loaded state, if there is one. */
void intake_load_rank(struct intake *intake, struct intake_rank *rank);
/* Frees the loaded state that no worker took. */
void intake_load_drop(struct intake *intake);

/* Whether intake_free() was called, so that the thread must end. */
bool intake_is_ending(const struct intake *intake);

/* Rank */
void intake_rank_open(struct intake_rank *rank);
/* Closes its sockets; the rank may be opened again. */
void intake_rank_close(struct intake_rank *rank);
/* The machine slept: its connection is taken for lost. */
void intake_rank_suspend(struct intake_rank *rank);
/* Does what is due: ticks, reconnects, carries out what the stream requests. */
void intake_rank_turn(struct intake_rank *rank);
/* Reads its SUB socket, INTAKE_LIVE_BUDGET messages at most. */
void intake_rank_read_live(struct intake_rank *rank);
/* Reads ZeroMQ's reports about the rank's connection. */
void intake_rank_read_monitor(struct intake_rank *rank);
/* Reads its DEALER, INTAKE_REPLAY_BUDGET messages at most. */
void intake_rank_read_replay(struct intake_rank *rank);
/* Reads what poll() cannot know of: what a budget left, and what a socket took
 * in while it was used otherwise. */
void intake_rank_look(struct intake_rank *rank);
/* Reads from scratch, or proves that it need not; ask: the question's number,
 * 0: none. */
void intake_rank_reread(struct intake_rank *rank, uint64_t ask, bool prove);
/* Its source's place has another address. */
void intake_rank_moved(struct intake_rank *rank, enum intake_place place);
/* For intake_nats.c. A numeric address; "": there is none now. */
const char *intake_rank_address(const struct intake_rank *rank,
                                enum intake_place place);
/* The connection of the live events stands; is lost; leads to another process. */
void intake_rank_came(struct intake_rank *rank);
void intake_rank_lost(struct intake_rank *rank);
void intake_rank_renewed(struct intake_rank *rank);
/* A batch, live and of a replay; its end. Borrowed for the call. */
void intake_rank_live(struct intake_rank *rank, uint64_t seq,
                      struct slice payload);
void intake_rank_replayed(struct intake_rank *rank, uint64_t seq,
                          struct slice payload);
void intake_rank_replay_end(struct intake_rank *rank);

/* NATS: rank->nats, or none where its events come by ZeroMQ. 0 or -ENOMEM. */
int intake_nats_new(struct intake_rank *rank) MUST_CHECK;
/* Both connections are closed. NULL is fine. */
void intake_nats_free(struct intake_nats *nats);
/* The connection of the live events. */
void intake_nats_open(struct intake_rank *rank);
void intake_nats_close(struct intake_rank *rank);
/* When it is opened again, or given up as it is not answered; UINT64_MAX: it
 * stands. intake_nats_turn() does it. */
uint64_t intake_nats_deadline(const struct intake_rank *rank);
void intake_nats_turn(struct intake_rank *rank);
/* Asks the stream for batches from there on; gives that up. */
void intake_nats_ask(struct intake_rank *rank, uint64_t from);
void intake_nats_hang_up(struct intake_rank *rank);
/* What a budget left. */
void intake_nats_look(struct intake_rank *rank);

/* A new stream for the rank. 0 or -ENOMEM. */
int intake_make_stream(struct intake_rank *rank, struct kv_stream **out)
    MUST_CHECK;
/* When intake_rank_turn() is due, in microseconds. */
uint64_t intake_rank_deadline(const struct intake_rank *rank);

/* Hand: a rank that goes on from names. rank: NULL: it is gone. */
void intake_hand_take(struct intake *intake, struct intake_rank *rank,
                      struct decoder_hand *hand);
/* The rank goes on from no hand. */
void intake_hand_drop(struct intake_rank *rank);
/* A piece of it. True: there is more to do. */
bool intake_hand_turn(struct intake *intake);

/* Emit: what a stream says, carried out. Of a fresh rank of the source. */
void intake_emit_open(struct intake_rank *rank, uint32_t number);
/* Carries out an output of the rank's stream, but those of sockets. */
void intake_emit(struct intake_rank *rank, const struct kv_out *out);
/* Wakes control if something was emitted since the last call. */
void intake_emit_wake(struct intake *intake);
/* The ledger's cut ended, after everything emitted so far. */
void intake_emit_cut(struct intake *intake, uint64_t cut);

#endif
