/*
 * The inside of gossip.h, shared by its files; README.md says what each file
 * does.
 *
 * Role: core. Thread: the one owner.
 */
#ifndef GOSSIP_GOSSIP_INTERNAL_H
#define GOSSIP_GOSSIP_INTERNAL_H

#include "gossip/codec_internal.h"
#include "gossip/gossip.h"
#include "gossip/rival_internal.h"
#include "gossip/stream_internal.h"
#include "index/base/rng.h"

#define GOSSIP_PART_WORDS  4096U /* of one log record, at most */
#define GOSSIP_SEQ_MAX     (UINT64_C(1) << 55)
#define GOSSIP_NO_MAX      (UINT32_MAX - 1)
#define GOSSIP_NO_LEAP     (UINT32_C(1) << 28)
#define GOSSIP_PEER_NONE   UINT32_MAX
#define GOSSIP_FANOUT      4U    /* peers that a push is sent to */
#define GOSSIP_FRAME_ROOM  1024U /* around a record's body in a frame */
#define GOSSIP_NAMES_BUILD ((size_t)96 * 1024)
#define GOSSIP_PRINTS      16384U /* batches; a power of two */
#define GOSSIP_RETURNS     3U     /* to an epoch that was left, untried */
#define GOSSIP_FAR         (UINT64_C(1) << 20) /* batches: 17 min at 1,000/s */

enum gossip_frame_type {
    GOSSIP_FRAME_SUMMARY = 1, /* of the sender's vector */
    GOSSIP_FRAME_VECTOR,
    GOSSIP_FRAME_DELTA, /* records, pushed or pulled */
    GOSSIP_FRAME_PULL,  /* asks for records after a position */
    GOSSIP_FRAME_LOST,  /* the log does not reach that far back */
    GOSSIP_FRAME_ASK,   /* asks for a page */
    GOSSIP_FRAME_PAGE,  /* a page, or the reason why there is none */
    GOSSIP_FRAME_GAUGES,
    GOSSIP_FRAME_BELIEF,
    GOSSIP_FRAME_EXPECT,    /* blocks of tokens on their way to a rank */
    GOSSIP_FRAME_WHO,       /* asks who leads a stream's epoch, or for proof */
    GOSSIP_FRAME_RELAY,     /* a push, and whom it is to be passed on to */
    GOSSIP_FRAME_NAMES_ASK, /* asks for a page of names */
    GOSSIP_FRAME_NAMES,     /* a page of names, or that there is none */
};

struct gossip_peer {
    uint64_t id; /* 0: the slot is free */
    uint64_t away;
    bool suspect;
};

/* A frame on its way to peers. */
struct gossip_frame {
    uint32_t refs;
    uint32_t len;
    uint8_t bytes[];
};

struct gossip_send {
    struct gossip_frame *frame;
    uint64_t peer;
    enum gossip_channel channel;
};

struct gossip_export {
    bool open;
    bool handed;
    struct event_stream stream;
    uint64_t epoch_id;
    uint64_t peer;
    uint64_t peer_token;
    uint64_t cursor;
    uint64_t token;
};

struct gossip_gauge_row {
    uint64_t worker;
    struct gossip_gauge gauge;
    uint64_t version; /* own rows: version of the last change */
    int32_t moved;    /* a peer's rows: requests that it sent there since this
                      gauge, less those that ended */
};

struct gossip_origin {
    struct gossip_gauge_row *rows; /* room for workers_max, or NULL */
    uint16_t *index;               /* in the same memory */
    uint32_t index_size;           /* a power of two */
    uint32_t places;               /* of it that are taken */
    uint32_t count;
    bool whole; /* no row of the peer's is missing */
    uint64_t version;
    uint64_t heard_us;
    uint64_t moved_us; /* some row has `moved` since then; 0: none has */
};

enum gossip_waiting_kind {
    GOSSIP_WAITING_BELIEF,
    GOSSIP_WAITING_EXPECT,
    GOSSIP_WAITING, /* how many there are */
};

/* Decisions that wait for the next frame. */
struct gossip_waiting {
    struct codec_out out;
    uint32_t count;
};

struct gossip {
    struct gossip_config config;
    uint64_t self;
    uint64_t now_us;
    uint64_t awake_us; /* gossip_awake() at the last tick */
    uint64_t tick_us;  /* that tick */
    bool awaits;       /* set by gossip_await() */
    struct rng rng;
    struct delta_log_store store;
    struct gossip_stats stats;

    struct gossip_peer peers[GOSSIP_PEERS_MAX];
    uint32_t peers_high; /* higher slots were never used */
    struct gossip_stream **streams;
    uint32_t streams_count;
    struct gossip_stream **hash;
    uint32_t hash_mask;

    struct gossip_stream *push_first;
    uint64_t push_due_us;
    uint64_t vector_of; /* the peer whose vector is to be asked for once the
                           frame was taken; 0: none */
    bool leaves;      /* all that was read here goes out, whoever is primary */
    uint64_t tree;    /* drawn: the order in which pushes reach peers */
    uint64_t tree_us; /* another one is drawn then */
    uint64_t vector_due_us;
    uint64_t wake_us; /* no stream's timer is due before this */
    uint64_t tokens;
    uint32_t transfers; /* active transfers */

    struct gossip_stream *ready_first;
    struct gossip_stream *ready_last;
    struct gossip_send *sends;
    uint32_t sends_first;
    uint32_t sends_count;
    struct gossip_export *exports;
    struct gossip_frame *lent_frame;
    struct gossip_direct *lent_direct;

    struct gossip_origin own;
    struct gossip_origin origins[GOSSIP_PEERS_MAX];
    uint64_t gauge_due_us;
    uint64_t gauge_all_us;
    uint64_t gauge_sent;   /* version of the gauges sent last */
    uint64_t gauges_heard; /* how often origins changed */

    struct gossip_waiting waiting[GOSSIP_WAITING];
    uint64_t belief_due_us;
    uint64_t belief_sent_us;
    uint8_t *belief_bytes; /* of the frame being handed out, or NULL */
    struct codec_in belief_in;
    uint64_t belief_peer;
    enum gossip_waiting_kind belief_kind;

    struct codec_out build; /* a frame under construction, in memory of its
                               own */
    struct event_record *record;
    struct names_room names_room;
    struct words *names_journal;       /* NULL: nobody copies the tables */
    struct names_twin *hand;           /* NULL: no reading is about to go on */
    struct gossip_stream *hand_stream; /* ... of whose names it is a copy */
    uint8_t *names_build; /* GOSSIP_NAMES_BUILD bytes: a record's names, or a
                             page of a table */
};

/* Milliseconds as microseconds. */
static inline uint64_t
gossip_us(uint32_t ms)
{
    return (uint64_t)ms * 1000;
}

/* For how long this process ran, and never 0: when it stood still, or its clock
 * jumped, that counts as a quarter of judge_ms at most. */
static inline uint64_t
gossip_awake(const struct gossip *g)
{
    uint64_t most_us = gossip_us(g->config.judge_ms) / 4;
    uint64_t since_us = g->now_us - g->tick_us;

    return g->awake_us + (since_us < most_us ? since_us : most_us);
}

/* When to look whether gossip_awake() has come to until_us. */
static inline uint64_t
gossip_awake_due(const struct gossip *g, uint64_t until_us)
{
    uint64_t most_us = gossip_us(g->config.judge_ms) / 4;
    uint64_t awake_us = gossip_awake(g);
    uint64_t left_us = until_us > awake_us ? until_us - awake_us : 0;

    return g->now_us + (left_us < most_us ? left_us : most_us);
}

/* The epoch of a process whose batches no node has in full. */
static inline uint64_t
gossip_broken_id(uint64_t process)
{
    return rng_mix(process ^ UINT64_C(0x6272656b));
}

/* gossip.c */
struct gossip_stream *gossip_find(const struct gossip *g,
                                  struct event_stream name);

/* The slot of a peer that is up, or GOSSIP_PEER_NONE. */
uint32_t gossip_peer_at(const struct gossip *g, uint64_t peer);

/* The peer is up and not suspected. */
bool gossip_peer_is_good(const struct gossip *g, uint64_t peer);

/* The stream's epoch changed too often lately: two engines may sit behind one
 * address. */
bool gossip_is_contested(const struct gossip_stream *s, uint64_t now_us);

/* What is known of the stream may be out of date; see gossip.h. */
bool gossip_is_stale(const struct gossip *g, const struct gossip_stream *s);

/* out.c: what goes out */
void gossip_ready(struct gossip *g, struct gossip_stream *s);

/* tick_streams() will run at that time or before. */
void gossip_wake_at(struct gossip *g, uint64_t at_us);

/* Begins a frame of that type in g->build, and discards what was there. */
void gossip_frame_begin(struct gossip *g, enum gossip_frame_type type);

/* Sends the built frame to a peer, or to all peers (0). */
void gossip_frame_send(struct gossip *g, uint64_t peer,
                       enum gossip_channel channel);

/* Drops the frame that has waited longest; there must be a frame. */
void gossip_send_drop(struct gossip *g);

/* Appends the stream's name to the frame under construction. */
void gossip_put_stream(struct gossip *g, const struct gossip_stream *s);

/* Queues a record that must be applied and is in no log; the body is copied.
 * False: no memory, which is counted. */
bool gossip_direct_add(struct gossip *g, struct gossip_stream *s, uint64_t pos,
                       const uint8_t *body, uint32_t len);

/* Drops all records queued by gossip_direct_add(). */
void gossip_direct_drop(struct gossip_stream *s);

/* stream.c: a replica and its epoch */
enum gossip_took {
    GOSSIP_TOOK,
    GOSSIP_TOOK_OLD,
    GOSSIP_TOOK_GAP
};

/* Moves the stream to another epoch, which must differ from its present one:
 * the state is dropped. reason: static text, for RESET. */
void gossip_stream_begin(struct gossip *g, struct gossip_stream *s,
                         struct gossip_epoch epoch, bool whole,
                         const char *reason);

/* The engine is another process now: one of the changes that make a stream
 * contested. The end of an epoch without a record is none. */
void gossip_stream_flipped(const struct gossip *g, struct gossip_stream *s);

/* Drops the state and keeps the epoch, which is applied again from its
 * start. */
void gossip_stream_reset(struct gossip *g, struct gossip_stream *s,
                         const char *reason);

/* A peer is in this epoch: moves the stream to it if it is higher. True: both
 * are in the same epoch now. */
bool gossip_stream_meet(struct gossip *g, struct gossip_stream *s,
                        const struct gossip_met *met);

/* The state of the rival with this id was asked for, and is there: goes over to
 * its epoch. False: the rival is another one by now, or not above the stream's
 * epoch. */
bool gossip_stream_follow(struct gossip *g, struct gossip_stream *s,
                          uint64_t id);

/* The gate: takes a sound record of the stream's epoch that covers (prev, pos],
 * if it follows on. */
enum gossip_took gossip_stream_take(struct gossip *g, struct gossip_stream *s,
                                    uint64_t prev, uint64_t pos,
                                    struct codec_in body);

/* This record brought the replica to pos, which is beyond its old position. */
void gossip_stream_applied(struct gossip_stream *s,
                           const struct codec_body *body, uint64_t pos);

/* Some node has the epoch's records up to pos. */
void gossip_stream_known(struct gossip *g, struct gossip_stream *s,
                         uint64_t pos);

/* The replica's position or the known one changed: starts or stops the clocks
 * of being behind and of being torn. */
void gossip_stream_moved(struct gossip *g, struct gossip_stream *s);

/* rebuild.c: a state from the names */

/* Drops the state and builds it again from the names, as of their batch; the
 * log has what follows. False: they do not reach, and nothing was done, or there
 * was no memory, and nothing is held. reason: static text, for RESET. */
bool gossip_rebuild(struct gossip *g, struct gossip_stream *s,
                    const char *reason) MUST_CHECK;

/* Notes what the names can bring back of the state, which a peer's is about to
 * replace. If they can bring back nothing, what was noted before stays. */
void gossip_rebuild_note(struct gossip_stream *s);

/* Drops what came of the peer's state, and builds what was noted, if there still
 * are those names. */
void gossip_rebuild_back(struct gossip *g, struct gossip_stream *s,
                         const char *reason);

/* rival.c, see rival_internal.h */

/* The fingerprint of the batch at pos, lower half, if the log has it, or it was
 * read last, or the names are as of it. */
bool gossip_print_at(const struct gossip_stream *s, uint64_t pos,
                     uint32_t *print);

/* prints.c: the fingerprints of what was read */

/* Another reading begins. */
void gossip_prints_begin(struct gossip_prints *prints);

/* The reading had a batch. Without memory there are no fingerprints. */
void gossip_prints_add(struct gossip_prints *prints, uint64_t seq,
                       uint32_t print);

/* False: it is not known. */
bool gossip_prints_at(const struct gossip_prints *prints, uint64_t seq,
                      uint32_t *print);

void gossip_prints_fini(struct gossip_prints *prints);

/* local.c: readings */

/* Asks the intake to read the stream from its start; reason: static text. */
void gossip_reread(struct gossip *g, struct gossip_stream *s,
                   enum gossip_asked why, const char *reason);

/* The state is wrong: the node that leads reads again, any other transfers the
 * state from `from` (0: from no peer yet). Does nothing within heal_ms of the
 * last attempt. */
void gossip_heal(struct gossip *g, struct gossip_stream *s, uint64_t from);

/* The stream moved to a peer's epoch: decides what the reading is to that
 * epoch. */
void gossip_local_met(struct gossip *g, struct gossip_stream *s);

/* The position up to which this node could read the epoch again by itself; 0:
 * it cannot. */
uint64_t gossip_local_known(const struct gossip_stream *s);

/* The stream's names are known from now on: a partial reading may go on from
 * them. */
void gossip_local_named(struct gossip *g, struct gossip_stream *s);

/* Whether this node's reading could go on from the stream's names. */
bool gossip_local_can_resume(const struct gossip *g,
                             const struct gossip_stream *s);

/* Judges a follower that is due. */
void gossip_local_tick(struct gossip *g, struct gossip_stream *s);

/* When gossip_local_tick() is due; UINT64_MAX: never. */
uint64_t gossip_local_timer(const struct gossip *g,
                            const struct gossip_stream *s);

/* push.c: deltas */

/* Pushes the stream's new records within push_ms, if it is this node's turn. */
void gossip_push_want(struct gossip *g, struct gossip_stream *s);

/* Sends the deltas that are due. */
void gossip_push_tick(struct gossip *g);

/* Starts or stops the clock for records that the primary has not pushed. */
void gossip_push_lag(struct gossip *g, struct gossip_stream *s);

/* This node pushes the stream's records to its peers. */
bool gossip_pushes(const struct gossip *g, const struct gossip_stream *s);

/* Sends a peer the records after `from`, as many as fit in a frame. */
void gossip_answer(struct gossip *g, const struct gossip_stream *s,
                   uint64_t peer, uint64_t from);

/* Takes a frame of that type, without its first two bytes, from a peer that is
 * up. 0, or GOSSIP_E_BAD: what stood before the fault was applied. The same
 * holds for each gossip_recv_...() below. */
int gossip_recv_delta(struct gossip *g, uint64_t peer, struct codec_in in);

/* As gossip_recv_delta(), of the DELTA that is in a RELAY. origin: who pushed
 * it, as the frame says. */
int gossip_recv_push(struct gossip *g, uint64_t peer, uint64_t origin,
                     struct codec_in in);

/* spread.c: pushes along a tree */

/* Sends the DELTA that was built to all peers, most of them by way of others.
 */
void gossip_spread(struct gossip *g);

/* As gossip_recv_delta(): takes the push and passes it on. */
int gossip_recv_relay(struct gossip *g, uint64_t peer, struct codec_in in);

/* pull.c: questions for records */

/* Asks a peer for the records after the replica's. */
void gossip_pull(struct gossip *g, struct gossip_stream *s, uint64_t peer);

/* A random peer that is up; 0: none is. */
uint64_t gossip_some_peer(struct gossip *g);

/* Asks the peer that showed the rival for its records from the first on, unless
 * another question is open. If they are in no log any more, its state is asked
 * for. */
void gossip_pull_rival(struct gossip *g, struct gossip_stream *s);

/* Asks another peer when an answer is overdue. */
void gossip_pull_tick(struct gossip *g, struct gossip_stream *s);

/* As gossip_recv_delta(). */
int gossip_recv_pull(struct gossip *g, uint64_t peer, struct codec_in in);

/* As gossip_recv_delta(). The peer's log does not reach back that far. */
int gossip_recv_lost(struct gossip *g, uint64_t peer, struct codec_in in);

/* vector.c: anti-entropy */

/* Sends a summary to a random peer when it is due. */
void gossip_vector_tick(struct gossip *g);

/* Sends a peer the whole vector; reply: this answers the peer's vector. */
void gossip_vector_send(struct gossip *g, uint64_t peer, bool reply);

/* As gossip_recv_delta(). */
int gossip_recv_summary(struct gossip *g, uint64_t peer, struct codec_in in);

/* As gossip_recv_delta(). */
int gossip_recv_vector(struct gossip *g, uint64_t peer, struct codec_in in);

/* transfer.c: whole states */

/* Begins to transfer the stream's state from a peer, or notes that it is wanted
 * while transfers_max others run. */
void gossip_transfer_start(struct gossip *g, struct gossip_stream *s,
                           uint64_t peer);

/* Asks the peer for the rival's state, unless a transfer runs, or transfers_max
 * others do. */
void gossip_transfer_rival(struct gossip *g, struct gossip_stream *s,
                           uint64_t peer);

/* Ends a transfer, whatever became of it; does nothing without one. */
void gossip_transfer_stop(struct gossip *g, struct gossip_stream *s);

/* Asks again for an overdue page, and begins a transfer that is wanted. */
void gossip_transfer_tick(struct gossip *g, struct gossip_stream *s);

/* The peer went: transfers from it have failed. */
void gossip_transfer_drop_peer(struct gossip *g, uint64_t peer);

/* As gossip_recv_delta(). */
int gossip_recv_ask(struct gossip *g, uint64_t peer, struct codec_in in);

/* As gossip_recv_delta(). */
int gossip_recv_page(struct gossip *g, uint64_t peer, struct codec_in in);

/* stream_names.c: the engine's names for a stream's blocks */

/* The stream begins: its names are none, and known. */
void gossip_names_begin(struct gossip *g, struct gossip_stream *s);

/* The stream moves to another epoch with its state: so do names of the same
 * batch. */
void gossip_names_moved(struct gossip *g, struct gossip_stream *s);

/* The names are not known. */
void gossip_names_forget(struct gossip *g, struct gossip_stream *s);

/* A record covers (prev, pos]; `words` are its words. It was handed out, or was
 * applied before. */
void gossip_names_record(struct gossip *g, struct gossip_stream *s,
                         const struct codec_body *body, const uint64_t *words,
                         uint64_t prev, uint64_t pos);

/* The state is a peer's from pos on: takes the names of the log's records up to
 * there. */
void gossip_names_skip(struct gossip *g, struct gossip_stream *s, uint64_t pos);

/* A peer in the stream's epoch knows the names. old: only those of this position,
 * which is before its own; 0: as of its own. */
void gossip_names_met(struct gossip *g, struct gossip_stream *s, uint64_t peer,
                      uint64_t old);

/* The names are not known, or old, and a peer has them, or newer ones. */
bool gossip_names_wanted(const struct gossip *g, const struct gossip_stream *s);

/* Those of before that were put aside are in their place again, and no peer is
 * asked for newer ones just now. */
void gossip_names_back(struct gossip *g, struct gossip_stream *s);

/* When gossip_names_tick() is due; UINT64_MAX: never. */
uint64_t gossip_names_timer(const struct gossip *g,
                            const struct gossip_stream *s);

/* Frees everything. */
void gossip_names_fini(struct gossip *g, struct gossip_stream *s);

/* These words were applied to the stream's table. */
void gossip_hand_said(struct gossip *g, const struct gossip_stream *s,
                      const struct words *words);

/* The table became another one in another way. */
void gossip_hand_lost(struct gossip *g, struct gossip_stream *s);

/* Asks again, or no longer. */
void gossip_names_tick(struct gossip *g, struct gossip_stream *s);

/* As gossip_recv_delta(). */
int gossip_recv_names_ask(struct gossip *g, uint64_t peer, struct codec_in in);

/* As gossip_recv_delta(). */
int gossip_recv_names(struct gossip *g, uint64_t peer, struct codec_in in);

/* gauges.c */

/* Sends this node's gauges, and drops those of silent peers, each when due. */
void gossip_gauges_tick(struct gossip *g);

/* When gossip_gauges_tick() is due; UINT64_MAX: never. */
uint64_t gossip_gauges_timer(const struct gossip *g);

/* Gives an origin memory for its rows, if it has none. False: -ENOMEM is
 * counted. */
bool gossip_gauges_open(struct gossip *g, struct gossip_origin *origin)
    MUST_CHECK;

/* Drops all gauges of an origin and frees their memory. */
void gossip_gauges_forget(struct gossip_origin *origin);

/* A request of the peer began or ended after the peer sent its gauges of
 * version `told`. */
void gossip_gauges_move(struct gossip *g, uint64_t peer,
                        const struct gossip_belief *belief, uint64_t told);

/* As gossip_recv_delta(). */
int gossip_recv_gauges(struct gossip *g, uint64_t peer, struct codec_in bytes);

/* belief.c */

/* Sends the waiting decisions when they are due. */
void gossip_belief_tick(struct gossip *g);

/* Sends the waiting decisions at once. */
void gossip_belief_flush(struct gossip *g);

/* The next decision of the frame that is being handed out; false: none. */
bool gossip_belief_out(struct gossip *g, struct gossip_out *out);

/* As gossip_recv_delta(). */
int gossip_recv_belief(struct gossip *g, uint64_t peer, struct codec_in in);

/* As gossip_recv_delta(). */
int gossip_recv_expect(struct gossip *g, uint64_t peer, struct codec_in in);

#endif
