/*
 * The door of gossip/: what a peer is missing, and what to merge.
 *
 * Every node keeps a replica of every stream (a worker's rank). Some nodes
 * read a stream from its engine; the others live from their deltas. All end
 * with the same set of blocks, whatever is lost, repeated or reordered between
 * them, because three things hold:
 *
 * 1. A stream is a sequence of records, numbered alike by all who read it. An
 *    epoch is one such sequence: what one process of the engine said from its
 *    start on. Its id is the process's identity, derived from evidence (the
 *    fingerprint of the first batch), so two readers name it alike without
 *    talking to each other. A position is (seq of the batch << 8 | part), and a
 *    record covers the positions after the one before it up to its own.
 * 2. A replica at a position is the result of all records up to there. It
 *    takes a record that begins at or before its position and ends after it,
 *    drops one that ends before, and asks for what is missing if it begins
 *    after. So every record is gated by the version vector, the stream's
 *    (epoch, position), whoever it comes from, the own intake included.
 * 3. What cannot be had record by record is had whole (transfer).
 *
 * Epochs. (no, id); the larger no wins, then the larger id; an equal id is the
 * same epoch whatever the no, and both sides go on with the larger one. A
 * reader that finds another process mints the next no after all it ever saw.
 * Who learns of a higher epoch drops the old one's state at once: nobody
 * credits a dead process's cache while the new one's is fetched.
 *
 * The live observer wins. No order of numbers can say which of two processes
 * is the living one; only who is connected to it can. So a reader whose own
 * reading a higher epoch contradicts adopts it, and asks its intake to read
 * again from the start (REREAD). If that finds the epoch's process, it joins;
 * if it finds another one, it mints, and wins. An answer counts only if it was
 * begun after the question: every REREAD has a number, which the reading it
 * causes repeats; a reading that was under way before says nothing about an
 * epoch that came since. More than 3 changes of epoch within 60 s, and the
 * stream is contested: two engines sit behind one address. (The end of an epoch
 * in which nobody said anything is no change.)
 *
 * Partial readings. A reader that cannot see the process's first batch any
 * more does not know the process's identity, nor names of blocks from before.
 * It is a follower: its records are not applied but compared with the log by
 * position and fingerprint. While they agree, or the replica keeps up with
 * them by others' deltas, there is a better reader, and all is well. When the
 * fingerprints differ, or the replica stays behind (or ahead of) the live
 * reading for judge_ms, there is none: it takes over, by reading again and
 * minting an epoch of its own, which is not complete; at once where there are
 * no peers. Before, it asks who leads the epoch (WHO). To a living reader it
 * yields, as long as it has itself heard nothing since, or the replica has
 * moved: two who both began in the middle would else take over from each other
 * without end, and drop what is known each time. What it reads to take over
 * counts only against the epoch that was judged, not against one that came
 * since. The same for a reader that lost batches for good: the others' logs may
 * have them; only if nobody does, the stream goes on without (a record then
 * says that something before it is missing) in an epoch derived from the
 * process's.
 *
 * `complete`: the set is the engine's own at this position. It is a property
 * of epoch and position, the same on all nodes: true from the start of a
 * process's epoch, false after a record that follows a gap or in an epoch
 * that began in the middle, true again after a CLEAR.
 *
 * When the engine restarts while two nodes read it. Both find the new process
 * by themselves and name it alike. Whoever is first mints no + 1 and pushes;
 * the other adopts, is contradicted by its own old reading, reads again and
 * joins: same id, nothing is minted twice. If both mint before they hear of
 * each other, no and id are equal. The slower one's last records of the old
 * process carry the lower epoch and are dropped everywhere.
 *
 * During a partition. Both sides go on reading and serving; no side waits for
 * the other. Ids agree, so on heal the version vectors differ in positions at
 * most, and the side behind pulls. A side that saw two restarts while the
 * other saw one has a larger no under the same id: taken over, nothing is
 * dropped. A side that reaches no engine keeps its last epoch, whose no is not
 * above the other's, and adopts. If it is above (it saw a process that is dead
 * by now under a higher no), it wins for a moment; the live readers read again
 * and mint above it.
 *
 * A stale node coming back (partitioned, suspended, restarted from a snapshot
 * by gossip_load()). What it pushes is of a lower epoch or position and is
 * dropped: nothing runs backwards. Its vector shows what it misses and it
 * pulls; where logs no longer reach, it takes the state whole. A process that
 * restarted is another epoch: what the node had is dropped, not trusted.
 *
 * Push. The primary reader (gossip_role(): told from outside) sends its
 * records to all peers, push_ms after the first; the second one stays silent
 * while the primary's deltas follow its own reading, and speaks up for what is
 * lag_ms late, or at once when the primary is suspect or gone. A node that
 * becomes primary pushes at once; the one that was goes on until it has seen
 * the new one's deltas. Doubled pushes are harmless.
 *
 * Gap repair. A question goes to whoever showed that it has more; it is
 * answered from the log, or with LOST where the log no longer reaches, which
 * starts a transfer. One question per stream is open at a time; it is judged
 * against (epoch, position) as they were when it was asked, and by nothing
 * else.
 *
 * Transfer is a fuzzy snapshot. The receiver asks page after page, by a cursor
 * that only the state's owner understands; nobody stands still. With S0 the
 * position at the first page and E that at the last, pages and then the
 * records after S0 in order give exactly the state at E: what no record
 * touched is on a page as it was, and for the rest the last record has the
 * last word. Until E the replica is torn: stale, and it serves nobody.
 * The server keeps nothing between pages.
 *
 * Anti-entropy. Every vector_ms +- vector_jitter_ms a node sends one random
 * peer 8 bytes that summarise its vector and digests; where they differ, the
 * vectors follow, and each side pulls. At link-up vectors go both ways at
 * once. Digests (gossip_digest(): count and XOR of mixed keys, told from
 * outside) are compared at equal positions: if they differ there is a bug or
 * corruption, which is counted and healed, by transfer from a reader's state,
 * and by a reader itself with a new reading.
 *
 * A replica is stale while it is torn, once it was behind for stale_ms, and
 * once nobody has been able to read the engine for that long (gossip_unread()):
 * what is known then is what was, and the engine may be another process by now.
 *
 * Removed streams are remembered for tombstone_ms, so that numbers go on where
 * they were if one comes back. Which streams there are is told from outside:
 * frames create none.
 *
 * Gauges: how many requests a node has in flight at each worker, and the like.
 * One writer each, versions rise within a node's boot (its peer id), the
 * newest wins, and all of them are gone with their origin. Between two of them
 * a peer's decisions tell sooner what it sent where (below), and what ended:
 * each counts as one request more or less in flight there until the next gauges
 * that know of it, for two gauge_ms at most. A frame of decisions says which
 * gauges were the last before it, so none counts twice, whichever of the two
 * comes first.
 *
 * Belief: a node's routing decisions, as hashes of blocks and never as text.
 * Those without blocks say only that a request went to a worker, or ended, and
 * are not handed out. What a worker's rank was sent in blocks of tokens, beyond
 * what it holds, is a decision of its own (`expected`): it counts as no
 * request, and travels in a type of frame of its own, which nodes that do not
 * know it skip.
 * Decisions are lossy on purpose: what comes within belief_ms of the last frame
 * goes out in one, and if belief_bytes are full before, the newest decisions
 * matter and the older ones are dropped; of the two kinds, that one which has
 * more than half. Nothing is asked for again: a lost decision costs a cache
 * miss, and the engine's own events tell the truth later.
 *
 * Compression of pages is left out: keys are hashes and do not shrink. The
 * frame's flags keep a place for it, refused until there is something there.
 *
 * Grammar. Time, bytes and the seed come in as arguments; after each call the
 * outputs are pulled until there are none, before the next call (but for
 * gossip_digest() and gossip_exported(), which answer an output). What an
 * output points at is good until the next one.
 *
 * Role: core. Owns: logs and frames. Thread: one owner.
 * Limits: struct gossip_config. Errors: named outcomes, -ENOMEM from
 * gossip_new() and gossip_stream_add(); later, a lack of memory costs a frame
 * (counted), which anti-entropy makes good.
 * Source: version vectors and anti-entropy after Demers et al. 1987.
 */
#ifndef GOSSIP_GOSSIP_H
#define GOSSIP_GOSSIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gossip/roster.h" /* IWYU pragma: export */
#include "index/base/check.h"
#include "index/index.h"

struct gossip;

#define GOSSIP_PAGE_WORDS  8192U      /* of one page, at most */
#define GOSSIP_CURSOR_END  UINT64_MAX /* no page after this one */
#define GOSSIP_RANK_NONE   UINT32_MAX /* does not read the stream */
#define GOSSIP_FLIPS_MAX   3U
#define GOSSIP_FLIPS_US    UINT64_C(60000000)
#define GOSSIP_PEERS_MAX   64U
#define GOSSIP_STREAMS_MAX 4096U

struct gossip_config {
    uint32_t peers_max;
    uint32_t streams_max;   /* tombstones included */
    uint32_t log_bytes;     /* of one stream */
    uint32_t log_records;   /* of one stream */
    size_t logs_bytes_max;  /* of all logs */
    uint32_t frame_bytes;   /* 128 KiB or more; no frame is longer */
    uint32_t sends_max;     /* frames waiting to be pulled */
    uint32_t exports_max;   /* pages asked of this node and not answered */
    uint32_t transfers_max; /* this node receives at once */
    uint32_t push_ms;       /* records wait for company */
    uint32_t vector_ms;     /* between two rounds of anti-entropy */
    uint32_t vector_jitter_ms;
    uint32_t question_ms;     /* until one is asked again */
    uint32_t lag_ms;          /* the primary may be behind the second reader */
    uint32_t judge_ms;        /* a reading stays a follower */
    uint32_t stale_ms;        /* a replica may be behind before it counts */
    uint32_t heal_ms;         /* between two attempts at one stream */
    uint32_t tombstone_ms;    /* a removed stream is remembered */
    uint32_t workers_max;     /* with gauges, of one origin; ranks and the
                                 node itself have theirs, too */
    uint32_t gauge_ms;        /* between frames with what changed */
    uint32_t gauge_all_ms;    /* ... with all of them */
    uint32_t gauge_silent_ms; /* until an origin's are forgotten */
    uint32_t belief_ms;       /* between frames with decisions */
    uint32_t belief_bytes;    /* of decisions that wait; frame_bytes at most */
};

/* What a node uses unless its configuration says otherwise. */
struct gossip_config gossip_config_default(void);

enum {
    GOSSIP_E_BAD = 1,  /* the frame is malformed: what stood before the fault
                         was taken */
    GOSSIP_E_STRANGER, /* from no peer that is up: nothing was taken */
    GOSSIP_E_FULL,     /* the bound on streams or peers is reached */
};

enum gossip_channel {
    GOSSIP_CTL,  /* short, and not to wait behind the other */
    GOSSIP_BULK, /* deltas and pages */
};

struct gossip_epoch {
    uint32_t no; /* 0: none yet */
    uint64_t id;
};

/*
 * A decision: a prompt's blocks from the from-th on went to a worker. count 0:
 * a request did of which nothing is to be known; or, ended, a request ended
 * there. Or, expected: blocks of tokens, one or more, are on their way to one
 * of its ranks; of these there is no root, parent and from, as the key of such
 * a block says all that is before it.
 */
struct gossip_belief {
    uint64_t worker;
    uint32_t rank;   /* expected */
    uint64_t root;   /* key of the prompt's namespace (key_root()) */
    uint64_t parent; /* key of the block before the first one; root if from is
                        0 */
    uint32_t from;
    uint32_t count;
    const uint64_t *keys;
    bool ended;
    bool expected;
};

enum gossip_out_kind {
    GOSSIP_SEND,   /* bytes to peer by channel; may be lost */
    GOSSIP_RESET,  /* forget the stream; records of another epoch follow */
    GOSSIP_APPLY,  /* apply record, then tell gossip_digest() */
    GOSSIP_EXPORT, /* read a page of the stream's state from cursor on, answer
                      with gossip_exported(token) */
    GOSSIP_STATE,  /* complete, stale or contested changed */
    GOSSIP_REREAD, /* the local intake is to read the stream from its start
                      again and to begin with this ask */
    GOSSIP_BELIEF, /* a peer's decision */
};

struct gossip_out {
    enum gossip_out_kind kind;
    enum gossip_channel channel; /* SEND */
    uint64_t peer;               /* SEND, BELIEF */
    const uint8_t *bytes;        /* SEND */
    size_t len;                  /* SEND */
    struct event_stream stream;  /* all others */
    struct gossip_epoch epoch;   /* all others: the stream's now */
    /* RESET, APPLY: names what was applied since the last RESET, as
     * event_record.epoch. The epoch's id, and something else where an epoch is
     * applied once more. */
    uint64_t name;
    const char *reason; /* RESET, REREAD: static */
    /* APPLY: seq is the position; 0 in pages, whose holes are unknown. */
    const struct event_record *record;
    uint64_t
        cursor; /* EXPORT: 0 at the start, else one of gossip_exported()'s */
    uint64_t token;              /* EXPORT */
    uint64_t ask;                /* REREAD */
    struct gossip_belief belief; /* BELIEF */
    bool complete;               /* STATE */
    bool stale;                  /* STATE */
    bool contested;              /* STATE */
};

/* self: this process's id in the mesh, new with each start. *out is owned by
 * the caller. 0 or -ENOMEM. */
int gossip_new(struct gossip **out, const struct gossip_config *config,
               uint64_t self, uint64_t now_us, uint64_t seed) MUST_CHECK;

/* NULL is fine. */
void gossip_free(struct gossip *g);

/* Which streams there are. Adding one that is there changes nothing. 0,
 * GOSSIP_E_FULL or -ENOMEM. */
int gossip_stream_add(struct gossip *g, struct event_stream stream,
                      uint64_t now_us) MUST_CHECK;

/* The stream is no longer wanted: its state is dropped, and its number is
 * remembered for tombstone_ms. One that is not there is ignored. */
void gossip_stream_remove(struct gossip *g, struct event_stream stream,
                          uint64_t now_us);

/* What a snapshot had of a stream, after adding it and before anything else is
 * known of it: its owner has the state already. */
void gossip_load(struct gossip *g, struct event_stream stream,
                 struct gossip_epoch epoch, uint64_t pos, bool complete);

/* After that: what the stream's records said last of holes and of the size of
 * blocks, for those who will have its state whole. */
void gossip_load_sizes(struct gossip *g, struct event_stream stream,
                       uint32_t holes, uint32_t block_tokens);

/* This node is the rank-th reader of the stream (GOSSIP_RANK_NONE: it does not
 * read); primary: the peer of rank 0, 0 if not known or self. */
void gossip_role(struct gossip *g, struct event_stream stream, uint32_t rank,
                 uint64_t primary, uint64_t now_us);

/* Nobody can reach the stream's engine, as far as is known: unless this node's
 * own reading is live, the stream is stale after stale_ms. */
void gossip_unread(struct gossip *g, struct event_stream stream, bool unread,
                   uint64_t now_us);

/* Whether others may be about to come (false at first): then a partial reading
 * is judged as if they were here, for they may know more of the process than
 * can be read of it now. */
void gossip_await(struct gossip *g, bool others, uint64_t now_us);

/* Whether the peer of rank 0 pushed a delta of the stream since gossip_role()
 * named it. */
bool gossip_primary_heard(const struct gossip *g, struct event_stream stream);

/* The local intake's readings; ignored for streams that are not there. */

/*
 * A reading of a process begins (again): `process` names it, `whole` says that
 * everything since its start follows. ask: the number of the last REREAD of
 * this stream that the intake knew of when it began to read; 0: none.
 */
void gossip_local_begin(struct gossip *g, struct event_stream stream,
                        uint64_t process, bool whole, uint64_t ask,
                        uint64_t now_us);

/*
 * A reading of the process goes on where a snapshot had it, after the batch of
 * that seq; whether it is the living process's shows with the first record, or
 * another begin. whole: as above, and no gap since. It mints nothing: where the
 * stream is in another epoch by now, it is read again.
 */
void gossip_local_resume(struct gossip *g, struct event_stream stream,
                         uint64_t process, bool whole, uint64_t seq,
                         uint64_t now_us);

/*
 * One batch of the reading, seqs rising: all that it changed, in as many
 * records as it came in (a CLEAR among them is an ordinary op); `last` ends
 * it. A batch that changed nothing is told too. record: words checked,
 * borrowed for the call; its stream and epoch are not looked at.
 */
void gossip_local_record(struct gossip *g, struct event_stream stream,
                         const struct event_record *record,
                         uint64_t fingerprint, bool last, uint64_t now_us);

/* Batches of the reading are missing for good. */
void gossip_local_gap(struct gossip *g, struct event_stream stream,
                      uint64_t now_us);

/* The reading is proved to follow the living process, or is not. */
void gossip_local_live(struct gossip *g, struct event_stream stream, bool live,
                       uint64_t now_us);

/* The node reads the stream no longer. */
void gossip_local_end(struct gossip *g, struct event_stream stream,
                      uint64_t now_us);

/* What was applied of the stream was lost (no room, a fault): it is had again,
 * by reading or by transfer. */
void gossip_local_lost(struct gossip *g, struct event_stream stream,
                       uint64_t now_us);

/* Blocks held of a stream, and the XOR of rng_mix(key) over them, after the
 * APPLY that was pulled last. */
void gossip_digest(struct gossip *g, struct event_stream stream, uint64_t count,
                   uint64_t xor_keys);

/*
 * Answers an EXPORT: STOREs (event.h) of what is held now, count words at most
 * GOSSIP_PAGE_WORDS, and the cursor to go on with or GOSSIP_CURSOR_END. Each
 * block that is held from the first page until the last must be on one of
 * them. words NULL: it cannot be read.
 */
void gossip_exported(struct gossip *g, uint64_t token, const uint64_t *words,
                     uint32_t count, uint64_t next, uint64_t now_us);

/* A link to a peer came up (again: it is new), or went. 0 or GOSSIP_E_FULL. */
int gossip_peer_up(struct gossip *g, uint64_t peer, uint64_t now_us) MUST_CHECK;

/* The link to a peer went: nothing is sent to it, and what it was asked is
 * asked of others. One that is not up is ignored. */
void gossip_peer_down(struct gossip *g, uint64_t peer, uint64_t now_us);

/* Whether the membership suspects a peer: the next reader pushes in its place
 * while it does. One that is not up is ignored. */
void gossip_peer_suspect(struct gossip *g, uint64_t peer, bool suspect,
                         uint64_t now_us);

/* A frame's body from a peer. 0, GOSSIP_E_BAD or GOSSIP_E_STRANGER. */
int gossip_recv(struct gossip *g, uint64_t peer, const uint8_t *bytes,
                size_t len, uint64_t now_us) MUST_CHECK;

/* Lets time pass up to now_us, which must not be before that of any earlier
 * call. */
void gossip_tick(struct gossip *g, uint64_t now_us);

/* When gossip_tick() is due. */
uint64_t gossip_deadline(const struct gossip *g);

/* The next output; false when there is none. What it points at is good until
 * the next call. */
bool gossip_next_out(struct gossip *g, struct gossip_out *out) MUST_CHECK;

/* Gauges of one worker. */
struct gossip_gauge {
    uint32_t inflight;      /* requests */
    uint32_t blocks;        /* held */
    uint64_t queued_tokens; /* of prompts */
};

/* Sets this node's own. False: workers_max is reached, and none of them is at
 * zero and could be forgotten. */
bool gossip_gauge_set(struct gossip *g, uint64_t worker,
                      const struct gossip_gauge *gauge, uint64_t now_us);

/* The sum over this node and its peers; blocks: the greatest. */
struct gossip_gauge gossip_gauge_sum(struct gossip *g, uint64_t worker);

/* The same without this node's own. */
struct gossip_gauge gossip_gauge_others(struct gossip *g, uint64_t worker);

/* Rises whenever a peer's gauges may have changed. */
uint64_t gossip_gauges_heard(const struct gossip *g);

/* A decision of this node's, for its peers; keys are copied. One longer than
 * belief_bytes holds is cut at its end: what remains is still a prefix. */
void gossip_belief_add(struct gossip *g, const struct gossip_belief *belief,
                       uint64_t now_us);

struct gossip_status {
    struct event_stream stream;
    struct gossip_epoch epoch;
    uint64_t pos;
    uint64_t pos_known; /* the furthest that anyone said to have */
    uint64_t log_low;
    uint64_t process; /* that this node's reading is of; 0: there is none */
    uint64_t count;   /* the digest */
    uint64_t xor_keys;
    bool complete;
    bool stale;
    bool contested;
    bool digest_known;
    bool reads;    /* its own reading leads the replica */
    bool follower; /* ... or follows who does */
    bool pushes;   /* to peers */
    bool torn;     /* between the first page of a transfer and its end */
    bool transfers;
};

/* The position after all of the batch of that seq. */
uint64_t gossip_pos_after(uint64_t seq);

/* Whether this node's own reading leads the stream's replica. */
bool gossip_reads(const struct gossip *g, struct event_stream stream);

/* The at-th stream in order of their coming; false at the end. */
bool gossip_status(const struct gossip *g, uint32_t at,
                   struct gossip_status *status) MUST_CHECK;

/* That stream's; false: there is none. */
bool gossip_status_of(const struct gossip *g, struct event_stream stream,
                      struct gossip_status *status) MUST_CHECK;

/* No stream is behind what peers are known to have, torn or being
 * transferred. */
bool gossip_is_level(const struct gossip *g);

struct gossip_stats {
    uint64_t frames_in, bytes_in, frames_out, bytes_out;
    uint64_t frames_bad;      /* malformed */
    uint64_t frames_stranger; /* from nobody who is up */
    uint64_t frames_unknown;  /* of a type or flag of another version */
    uint64_t sends_dropped;   /* sends_max */
    uint64_t no_memory;
    uint64_t records_local, records_pushed, records_applied;
    uint64_t push_bytes;            /* of DELTAs pushed, to one peer */
    uint64_t dropped_old;           /* records that were there already */
    uint64_t dropped_epoch;         /* ... of a lower epoch */
    uint64_t dropped_unknown;       /* ... of no stream that there is */
    uint64_t dropped_follower;      /* ... of a reading that does not lead */
    uint64_t fingerprint_conflicts; /* another record at the same position */
    uint64_t gaps, pulls, pulls_answered, pulls_lost;
    uint64_t epochs_minted, epochs_adopted, rereads, takeovers;
    uint64_t transfers, transfers_done, transfers_failed;
    uint64_t pages_in, pages_out, pages_refused;
    uint64_t vectors_in, summaries_equal, summaries_differ;
    uint64_t digest_mismatches;
    uint64_t beliefs_out, beliefs_in;
    uint64_t beliefs_dropped; /* newer ones took their place */
    uint64_t expected_out, expected_in,
        expected_dropped; /* the same of those */
    uint64_t log_spills;  /* records applied past a full log */
    uint64_t log_dropped;
    size_t log_bytes;
    uint32_t streams, tombstones, peers;
};

/* The counters since gossip_new(), and what there is now. */
void gossip_stats(const struct gossip *g, struct gossip_stats *stats);

/* Walks everything and verifies each invariant; for tests and simulations. */
bool gossip_check(const struct gossip *g, const char **reason);

#endif
