/*
 * The door of gossip/: which records a peer is missing, and what to merge.
 *
 * Every node keeps a replica of every stream (the records of one rank of a
 * worker). Some nodes read a stream from its engine; the others apply the
 * deltas that the readers send. All replicas end with the same set of blocks,
 * even when messages between nodes are lost, repeated or reordered, because
 * three things hold:
 *
 * 1. A stream is a sequence of records, and all its readers number them alike.
 *    An epoch is one such sequence: what one process of the engine published
 *    from its start on. The epoch's id is the identity of that process. It is
 *    derived from evidence (the fingerprint of the first batch), so two readers
 *    choose the same id without talking to each other. A position is (seq of
 *    the batch << 8 | part). A record covers the positions after its
 *    predecessor's up to its own.
 * 2. A replica at a position is the result of all records up to that position.
 *    The replica applies a record that begins at or before its position and
 *    ends after it, drops a record that ends before it, and asks for the
 *    missing records if a record begins after it. So every record must pass the
 *    version vector, which is the stream's (epoch, position), whether it comes
 *    from a peer or from this node's own intake.
 * 3. State that cannot be had record by record is transferred as a whole.
 *
 * The rule: nothing that happens to the mesh makes the fleet know less about a
 * living engine than its best-informed living node knew. Engines repeat a
 * bounded number of batches, so what every node dropped cannot be read again.
 *
 * Epochs. An epoch is a pair (no, id). The larger no wins, then the larger id,
 * except where the next two paragraphs keep a better-informed epoch. Equal ids
 * are the same epoch, whatever their numbers, and both sides go on with the
 * larger number. A reader that finds a new process mints the next number after
 * all that it ever saw. (A number that is out of reach of these is no number: it
 * would leave none above it.) A node that does not read, and learns of a higher epoch
 * from a living reader of it, drops the old epoch's state at once, so it does not
 * credit a dead process's cache while it fetches the new state. Only if it has a
 * complete state, and the new epoch is not whole, so that it may be of the same
 * process, does it keep its state until the first records or the first page of
 * the new one are there, or for 4 judge_ms: that reader may die first. If it
 * learns of the new epoch from another node, and has a complete state and its
 * names, it waits 3 judge_ms: who begins to read meanwhile may go on where it is.
 * (They begin anew when the old epoch's number is raised.) So does who read the
 * old epoch to the last, but asks a living reader of the new one for proof (WHO):
 * that reader's connection may be to a process that is gone. Of two complete
 * epochs of one process that nobody reads, the one that goes further stays, and
 * takes the higher number.
 *
 * The live observer wins. The numbers cannot tell which of two processes is
 * alive; only a node that is connected to the process can. So when a reader
 * whose reading leads its epoch meets a higher one, it keeps its epoch
 * and asks its intake for proof that the process lives (REREAD with `prove`): a
 * replay from the last batch on shows that, and nothing is read again. With the
 * proof, the reader raises its epoch's number above the other one, so that
 * every node that followed the higher number follows again. If the intake finds
 * another process instead, it begins to read that one, and the reader joins the
 * epoch that it met or mints one.
 *
 * A reader gives way to proof alone. Answers are lost, processes stand still, and
 * connections break without a word, to the one engine as well as to the other.
 * So a reader that has no answer after 20 judge_ms (only time in which it runs
 * counts), or whose connection is broken, asks those who read the other epoch
 * (WHO) to prove that their process lives. If one of them does, it follows that
 * epoch, and reads again from the start. If nobody does, both epochs stay, each
 * with who reads it, until one of the engines speaks: what a reader drops on the
 * word of a number may be all that anybody knew of a living engine. Its own intake
 * is asked again every 20 judge_ms. (A reader that keeps up with a partial epoch of
 * its own process does not leave a complete one for it at all: what proves the one
 * proves the other.)
 *
 * Of two readers that have both proved their epochs 20 times (3 times while the
 * stream is contested, see below), the number decides. An answer counts only if
 * it was begun after the question: every REREAD has a number, and the answer
 * repeats it; a peer's proof counts if it was told after it was asked for. A
 * reading that was already under way says nothing about an epoch that arrived
 * later. A stream whose process changes more than 3 times
 * within 60 s is contested: two engines sit behind one address. Only what shows
 * another process counts: a reading of one, a fingerprint that differs, or a
 * peer's whole epoch in place of a whole one. Who takes over from a reader that
 * is gone begins an epoch, and changes no process. (The end of an epoch without
 * a single record does not count either.)
 *
 * Whole before partial. An epoch is whole if it is known from the process's
 * first batch on. A partial epoch of a higher number displaces a whole one only
 * if no reader defends that as above, and only after judge_ms / 2 (3 judge_ms
 * where the whole one's names are known), so that who reads the partial epoch
 * can learn of the whole one and join it. A
 * reader that leads a partial epoch compares the fingerprint that a peer's
 * vector shows of a whole epoch with those it read (prints.c). If they agree at
 * one position, both epochs are of one process, and the reader joins the whole
 * one under a number above both, if the peer leads it with a live reading, if it
 * goes as far as the partial one, or if the peer has the names, from which the
 * reading may go on: old ones, too, if the reading had their batch, which the peer's
 * vector shows. (A complete epoch is given up only for a reader that has come
 * as far.) (If it took over from that very epoch, only a living
 * reader counts, or names that it has not tried.) Otherwise nobody can read on
 * in the whole epoch: the reader proves that its process lives, and keeps its
 * own. It does the same if the fingerprints differ. If neither reaches the
 * other, it keeps its epoch as long as it can prove that.
 *
 * A partial epoch that is complete, because its process cleared its cache
 * meanwhile, counts as a whole one in all this. Two complete states of one process
 * at one position are the same, so whoever moves from the one epoch to the other
 * keeps its state and its names, and tells its older records to nobody. Of two partial epochs that are not
 * complete, a reader keeps its own as it keeps a whole one, by proof, unless
 * fingerprints show that both are of one process: then a reader that reads on in
 * the one with more blocks keeps it, and raises its number (20 times at most
 * against the same epoch), and the other one follows. Whoever does not read, and has
 * what fingerprints show to be the larger part, waits judge_ms (for the peer's
 * vector judge_ms / 2 at first, where records alone tell of its epoch); a reader of
 * the smaller part joins the larger one on the same terms as a whole one. Nor does
 * who does not read give up a part for a complete epoch that ends before it, has
 * fewer blocks, and is read by nobody: for 3 judge_ms a reader may go on in that
 * one, or come to the part.
 *
 * Partial readings. A reader that can no longer see the process's first batch
 * knows neither the process's identity nor the names of earlier blocks. It is a
 * follower: its records are not applied, but compared with the log by position
 * and fingerprint. As long as they agree, or other nodes' deltas keep the
 * replica level with them, there is a better reader and nothing needs to be
 * done. If the fingerprints differ, or if the replica stays behind (or ahead
 * of) the live reading for judge_ms (for three while a peer is known to have what
 * is missing here, names included), there is no better reader. Then the
 * follower takes over: it reads again and mints an epoch of its own, which is
 * not complete. Without peers it takes over at once. Otherwise it first asks
 * who leads the epoch (WHO), and yields to a living reader as long as it has
 * itself received nothing since, or the replica has moved. Without this rule,
 * two readers that both began in the middle would take over from each other
 * without end, and drop the state each time. A follower answers, too, if its
 * reading had the replica's last batch last, by its fingerprint: nobody may be
 * able to lead the epoch of an engine that repeats nothing, and while that engine
 * is silent, who begins to read it hears nothing. What the follower reads in order
 * to take over counts only against the epoch that was judged, not against an
 * epoch that arrived later. The same holds for a reader that lost batches for
 * good: other nodes' logs may have them. Only if no node has them does the
 * stream go on without them, in an epoch derived from the process's own; a
 * record then says that records before it are missing, and so do all that this
 * reading tells, up to the next CLEAR: peers may have had the first ones already.
 * And it holds, once for each process, for a reader that keeps up, while its
 * epoch is said to go a million batches further: some peer said what cannot be,
 * and all that is read would be dropped as old on all nodes.
 *
 * Handing over. All nodes keep the engine's names of the blocks, as the reader
 * of the epoch says them with its records (index/names.h). A node whose own
 * reading is partial does not have to take over, if it knows the names: its
 * intake goes on from them, behind the last batch that the replica has, in the
 * same epoch. It is given a copy, which is made in pieces (hand_over.c). That is exact, provided that the engine's replay still reaches
 * that batch, which the batch's fingerprint proves. It is tried once for each
 * position, and once more where this node's own doubts ended the reading: at once, when the reading, the replica and the names are level (three
 * times in an epoch), and before every takeover: before it is asked for, and once more when
 * it was read, for names may have come meanwhile. While newer names are asked for, that
 * means those of before. If the replay does not reach, or
 * is of another process, the reading begins in the middle again, and the rules
 * above hold. A node that has a peer's state is level only when it has the
 * names, too, so nodes can be restarted one after another. Names are in the
 * snapshots of a node that has peers, so all nodes can be restarted at once, too.
 * Names belong to the epoch: they stay when a peer's state takes the place of
 * the own one, and when a record does not tell what it changes. They are then
 * those of an older batch, until newer ones are there; a reading can go on from
 * them all the same, as far back as the engine's replay reaches. So they are handed
 * on, too, where no peer has any as of its state.
 *
 * What is held is what has a name. So a node that lost its state builds it from
 * the names (rebuild.c), and asks neither a peer nor the engine for it. If the
 * names are in doubt, too, peers are asked, and then the engine; if the engine
 * no longer repeats its first batch, the names are still the best there is.
 *
 * `complete` means that the set is the engine's own at this position. It is a
 * property of the epoch and the position, and the same on all nodes: true from
 * the start of a process's epoch; false after a record that follows a gap, and
 * in an epoch that began in the middle; true again after a CLEAR.
 *
 * When the engine restarts while two nodes read it, both find the new process
 * by themselves and give it the same id. The first one mints no + 1 and pushes.
 * The other one is asked for proof, finds the new process instead and joins:
 * the ids are equal, so nothing is minted twice. If both mint
 * before they hear of each other, no and id are equal. The slower reader's last
 * records of the old process carry the lower epoch, and every node drops them.
 *
 * During a partition, both sides go on reading and serving, and neither waits
 * for the other. Both choose the same ids, so after the partition the version
 * vectors differ in positions at most, and the side that is behind pulls. If
 * one side saw two restarts and the other one saw one, the first side has a
 * larger no under the same id: the other side takes the number over and drops
 * nothing. A side that reaches no engine keeps its last epoch. If that epoch's
 * no is not above the other side's, it adopts the other side's. If it is above
 * (this side saw a process under a higher no that is dead by now), it wins for
 * a moment; then the live readers read again and mint an epoch above it.
 *
 * When a stale node comes back (from a partition, a suspension, or a restart
 * with a snapshot that gossip_load() told of), what it pushes has a lower epoch
 * or position and is dropped, so nothing runs backwards. Its vector shows what
 * it is missing, and it pulls. Where the logs no longer reach back far enough,
 * it transfers the state as a whole. An engine process that restarted is
 * another epoch: what the node had is dropped, not trusted.
 *
 * Push. The primary reader (the caller names it with gossip_role()) sends its
 * records to all peers, push_ms after the first of them: to a few by itself,
 * who pass them on to the others (spread.c says how). The second reader
 * stays silent while the primary's deltas keep up with its own reading. It
 * pushes the records that are lag_ms late, or pushes at once when the primary
 * is suspect or gone. A node that becomes primary pushes at once; the former
 * primary goes on until it has seen the new one's deltas. Records that are
 * pushed twice do no harm.
 *
 * Gap repair. A question goes to a peer that has shown that it has more. The
 * peer answers it from its log, or with LOST where the log no longer reaches,
 * which starts a transfer. Each stream has one open question at a time. The
 * answer is judged only against (epoch, position) at the time of the question.
 *
 * Transfer is a fuzzy snapshot. The receiver asks for page after page, by a
 * cursor that only the owner of the state understands; no node stops working
 * for it. Let S0 be the position at the first page and E the position at the
 * last. The pages, and then the records after S0 in order, give exactly the
 * state at E: a block that no record touched is on a page as it was, and for
 * every other block the last record decides. Until E the replica is torn: it is
 * stale, and this node serves it to nobody. The server keeps nothing between
 * pages.
 *
 * Anti-entropy. Every vector_ms +- vector_jitter_ms a node sends a random peer
 * 8 bytes that summarise its vector and digests. If the peer's own differ, they
 * exchange their vectors, and each side pulls. When a link comes up, both sides
 * send their vectors at once. Digests (which the caller supplies with
 * gossip_digest(): the count and the XOR of the mixed keys) are compared at
 * equal positions. Where they differ, the state is healed: from the names; if
 * that does not help, by a transfer of a reader's state, and on a reader itself
 * by a new reading. Two complete states that differ are a bug or a corruption,
 * and are counted. Incomplete ones may differ by the names of blocks that their
 * readers knew: the larger one stays, a complete one before all, because an engine
 * that is read again tells less than was known, and so do names. That is an order
 * of states, so all nodes come to the same one.
 *
 * A replay may come in pieces, with holes between them. Then a record says how far
 * its reader was shown that the epoch goes, and all nodes know that they are behind.
 * A replica is stale while it is torn, when it has been behind for stale_ms,
 * and when no node has been able to read the engine for that long
 * (gossip_unread()): the state is then an old one, and the engine may be
 * another process by now.
 *
 * Removed streams are remembered for tombstone_ms, so that an epoch's numbers
 * continue if the stream comes back. Only the caller adds and removes streams;
 * a frame never creates one.
 *
 * Gauges say, among other things, how many requests a node has in flight at
 * each worker. Each gauge has one writer; its versions rise within one boot of
 * the node (its peer id), the newest version wins, and all of a node's gauges
 * are dropped when the node goes. Between two frames of gauges, a peer's
 * decisions (below) say sooner which requests it sent where, and which ended.
 * Each decision counts as one request more or less in flight there until the
 * next gauges that include it, but for two gauge_ms at most. A frame of
 * decisions names the version of the gauges that were sent before it, so no
 * decision counts twice, whichever of the two frames arrives first.
 *
 * Belief is a node's routing decisions, as hashes of blocks and never as text.
 * A decision without blocks says only that a request was sent to a worker, or
 * ended there, and is not handed out. Blocks of tokens that were sent to a
 * worker's rank and that it does not hold yet are a decision of their own
 * (`expected`). It does not count as a request. It travels in a frame type of
 * its own, which nodes that do not know it skip. Decisions are lossy on
 * purpose: those made within belief_ms of the last frame wait and go out in one
 * frame. If they fill belief_bytes before that, older decisions are dropped in
 * favour of newer ones, taken from whichever of the two kinds has more than
 * half of the bytes. No node asks for a lost decision again: it costs a cache
 * miss, and the engine's own events tell the truth later.
 *
 * Pages are not compressed: keys are hashes and do not shrink. The frame's
 * flags reserve a place for compression, which is refused until it exists.
 *
 * Grammar. Time, bytes and the seed are arguments. After each call, the caller
 * pulls outputs until there are none before it makes the next call (except for
 * gossip_digest() and gossip_exported(), which answer an output). What an
 * output points at is valid until the next output.
 *
 * Role: core. Owns: logs and frames. Thread: one owner. Limits: struct
 * gossip_config. Errors: named outcomes; -ENOMEM from gossip_new() and
 * gossip_stream_add(). Later, a lack of memory costs a frame, which is counted
 * and which anti-entropy makes good. Source: version vectors and anti-entropy
 * after Demers et al. 1987.
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

#define GOSSIP_PAGE_WORDS  8192U      /* per page at most */
#define GOSSIP_CURSOR_END  UINT64_MAX /* no page after this one */
#define GOSSIP_RANK_NONE   UINT32_MAX /* this node does not read the stream */
#define GOSSIP_FLIPS_MAX   3U
#define GOSSIP_FLIPS_US    UINT64_C(60000000)
#define GOSSIP_PEERS_MAX   64U
#define GOSSIP_STREAMS_MAX 4096U

struct gossip_config {
    uint32_t peers_max;
    uint32_t streams_max;   /* tombstones included */
    uint32_t log_bytes;     /* per stream */
    uint32_t log_records;   /* per stream */
    size_t logs_bytes_max;  /* of all logs together */
    uint32_t frame_bytes;   /* longest frame; 128 KiB or more */
    uint32_t sends_max;     /* frames that wait to be pulled */
    uint32_t exports_max;   /* pages that peers asked for, unanswered */
    uint32_t transfers_max; /* transfers received at the same time */
    uint32_t push_ms;       /* records wait this long for others */
    uint32_t vector_ms;     /* between two rounds of anti-entropy */
    uint32_t vector_jitter_ms;
    uint32_t question_ms;     /* until a question is asked again */
    uint32_t lag_ms;          /* how far the primary may be behind the second
                                 reader */
    uint32_t judge_ms;        /* until a follower is judged */
    uint32_t stale_ms;        /* how long a replica may be behind before it is
                                 stale */
    uint32_t heal_ms;         /* between two attempts to heal a stream */
    uint32_t tombstone_ms;    /* how long a removed stream is remembered */
    uint32_t workers_max;     /* workers with gauges per origin; ranks, limits
                                 and the node itself have gauges, too */
    uint32_t gauge_ms;        /* between frames with changed gauges */
    uint32_t gauge_all_ms;    /* between frames with all gauges */
    uint32_t gauge_silent_ms; /* until the gauges of a silent origin are
                                 dropped */
    uint32_t belief_ms;       /* between frames with decisions */
    uint32_t belief_bytes;    /* of waiting decisions; at most frame_bytes */
    size_t names_bytes_max;   /* of all streams' names together */
};

/* What a node uses unless its configuration says otherwise. */
struct gossip_config gossip_config_default(void);

enum {
    GOSSIP_E_BAD = 1,  /* the frame is malformed: what stood before the fault
                          was applied */
    GOSSIP_E_STRANGER, /* the sender is no peer that is up: nothing was
                          applied */
    GOSSIP_E_FULL,     /* the bound on streams or peers is reached */
    GOSSIP_E_MORE,     /* it is not done yet */
    GOSSIP_E_LOST,     /* it never will be */
};

enum gossip_channel {
    GOSSIP_CTL,  /* short frames, which must not wait behind the others */
    GOSSIP_BULK, /* deltas and pages */
};

struct gossip_epoch {
    uint32_t no; /* 0: none yet */
    uint64_t id;
};

/*
 * A routing decision: a prompt's blocks from index `from` on were sent to a
 * worker. With count 0 it says only that a request was sent there, without its
 * blocks; or, if `ended`, that a request ended there. If `expected`: one or
 * more blocks of tokens are on their way to one of the worker's ranks. Such a
 * decision has no root, parent and from, because the key of a block of tokens
 * names all that precedes it.
 */
struct gossip_belief {
    uint64_t worker;
    uint32_t rank;   /* expected */
    uint64_t root;   /* key of the prompt's namespace (key_root()) */
    uint64_t parent; /* key of the block before the first one; root if `from` is
                        0 */
    uint32_t from;
    uint32_t count;
    const uint64_t *keys;
    bool ended;
    bool expected;
};

enum gossip_out_kind {
    GOSSIP_SEND,   /* send bytes to peer by channel; may be lost */
    GOSSIP_RESET,  /* forget the stream; records of another epoch follow */
    GOSSIP_APPLY,  /* apply record, then call gossip_digest() */
    GOSSIP_EXPORT, /* read a page of the stream's state from cursor on, and
                      answer with gossip_exported(token) */
    GOSSIP_STATE,  /* complete, stale or contested changed */
    GOSSIP_REREAD, /* the local intake must read the stream from its start
                      again, and begin with this ask; or go on from what
                      gossip_names() tells */
    GOSSIP_BELIEF, /* a peer's decision */
};

struct gossip_out {
    enum gossip_out_kind kind;
    enum gossip_channel channel; /* SEND */
    uint64_t peer;               /* SEND, BELIEF */
    const uint8_t *bytes;        /* SEND */
    size_t len;                  /* SEND */
    struct event_stream stream;  /* all but SEND and BELIEF */
    struct gossip_epoch epoch;   /* all but SEND and BELIEF: the stream's epoch
                                    now */
    /* RESET, APPLY: names what is applied from the last RESET on; it becomes
     * event_record.epoch. It is the epoch's id, or another value if the same
     * epoch is applied once more. */
    uint64_t name;
    const char *reason; /* RESET, REREAD: static text */
    /* APPLY: seq is the position. It is 0 in pages, whose holes are unknown. */
    const struct event_record *record;
    uint64_t
        cursor; /* EXPORT: 0 at the start, then a value that gossip_exported()
                   gave */
    uint64_t token; /* EXPORT */
    uint64_t ask;   /* REREAD */
    /* REREAD: it is enough to prove that the reading's process lives
     * (gossip_local_proved()), if the intake can do that without reading
     * again. */
    bool prove;
    /* REREAD: nothing is asked. The reading may go on from what gossip_names()
     * tells now, and gossip_local_resume() then tells of it. */
    bool resume;
    struct gossip_belief belief; /* BELIEF */
    bool complete;               /* STATE */
    bool stale;                  /* STATE */
    bool contested;              /* STATE */
};

/* self: this process's id in the mesh, new with each start. The caller owns
 * *out. 0 or -ENOMEM. */
int gossip_new(struct gossip **out, const struct gossip_config *config,
               uint64_t self, uint64_t now_us, uint64_t seed) MUST_CHECK;

/* g may be NULL. */
void gossip_free(struct gossip *g);

/* Adds a stream; adding a stream again changes nothing. 0, GOSSIP_E_FULL or
 * -ENOMEM. */
int gossip_stream_add(struct gossip *g, struct event_stream stream,
                      uint64_t now_us) MUST_CHECK;

/* The stream is no longer wanted: its state is dropped, and its epoch's number
 * is remembered for tombstone_ms. An unknown stream is ignored. */
void gossip_stream_remove(struct gossip *g, struct event_stream stream,
                          uint64_t now_us);

/* Whether an epoch and a position that a snapshot names can be loaded: the
 * stream is there, nothing is known of it, peers could accept them, and enough
 * numbers are left for the epochs that follow. */
bool gossip_can_load(const struct gossip *g, struct event_stream stream,
                     struct gossip_epoch epoch, uint64_t pos) MUST_CHECK;

/* What a snapshot said of a stream whose state the caller has loaded already.
 * Call it after gossip_stream_add(), before anything else is known of the
 * stream, and if gossip_can_load() where the record may be senseless. whole:
 * the epoch is known from its process's first batch on. */
void gossip_load(struct gossip *g, struct event_stream stream,
                 struct gossip_epoch epoch, bool whole, uint64_t pos,
                 bool complete);

/* Call it after gossip_load(): what the stream's last records said of holes and
 * of the size of blocks, for peers that will transfer its state. */
void gossip_load_sizes(struct gossip *g, struct event_stream stream,
                       uint32_t holes, uint32_t block_tokens);

/* This node is the rank-th reader of the stream (GOSSIP_RANK_NONE: it does not
 * read it). primary: the peer of rank 0; 0 if it is unknown or this node. */
void gossip_role(struct gossip *g, struct event_stream stream, uint32_t rank,
                 uint64_t primary, uint64_t now_us);

/* unread: as far as is known, nobody can reach the stream's engine. Unless this
 * node's own reading is live, the stream is then stale after stale_ms. */
void gossip_unread(struct gossip *g, struct event_stream stream, bool unread,
                   uint64_t now_us);

/* others: peers may be about to come (false at first). A partial reading is
 * then judged as if they were here, because they may know more of the process
 * than can still be read from it. */
void gossip_await(struct gossip *g, bool others, uint64_t now_us);

/* Whether the peer of rank 0 pushed a delta of the stream since gossip_role()
 * named it. */
bool gossip_primary_heard(const struct gossip *g, struct event_stream stream);

/* What the local intake reads. Calls for unknown streams are ignored. */

/*
 * A reading of a process begins, or begins again. `process` identifies the
 * process; `whole` says that everything since its start follows. ask: the
 * number of the stream's last REREAD that the intake knew when it began to
 * read; 0: none.
 */
void gossip_local_begin(struct gossip *g, struct event_stream stream,
                        uint64_t process, bool whole, uint64_t ask,
                        uint64_t now_us);

/*
 * The reading that began last is proved to be of the living process. ask: the
 * number of the REREAD that asked for the proof; another number says nothing.
 */
void gossip_local_proved(struct gossip *g, struct event_stream stream,
                         uint64_t ask, uint64_t now_us);

/*
 * A reading of the process continues where a snapshot or a table of names
 * ended, after the batch `seq`. The first record, or another begin, shows
 * whether it is the living process's. whole: as in gossip_local_begin(),
 * without a gap since. This call mints nothing: if the stream is in another
 * epoch by now, it is read again. Names that were handed out in the epoch may
 * call its process otherwise.
 */
void gossip_local_resume(struct gossip *g, struct event_stream stream,
                         uint64_t process, bool whole, uint64_t seq,
                         uint64_t now_us);

/*
 * One batch of the reading, in one call per record that it came in; seqs rise,
 * and `last` ends the batch. It holds everything that the batch changed (a
 * CLEAR is an ordinary op). A batch that changed nothing is passed, too.
 * record: its words are checked, borrowed for the call; its stream and epoch
 * are ignored. Its names are those that the batch changed; after a record
 * without names, the stream's names stay those of the batch before it.
 */
void gossip_local_record(struct gossip *g, struct event_stream stream,
                         const struct event_record *record,
                         uint64_t fingerprint, bool last, uint64_t now_us);

/*
 * What a stream's reading would have to know to go on from here: the engine's
 * names as of the end of batch `seq`, whose fingerprint and names are as the
 * readers of the epoch said.
 */
struct gossip_names {
    struct gossip_epoch epoch;
    bool whole;
    uint64_t seq;
    uint64_t fingerprint;
    const struct names *table; /* valid until the next call into gossip */
};

/* False: they are not known. */
bool gossip_names(const struct gossip *g, struct event_stream stream,
                  struct gossip_names *names) MUST_CHECK;

/* Begins a copy of a stream's names for the intake, after a REREAD with
 * `resume`; one stream's at a time. The twin is borrowed until the copy is
 * complete, lost or given up, and then for the caller to clear. False: the
 * reading cannot go on from them, or not now. */
bool gossip_hand_begin(struct gossip *g, struct event_stream stream,
                       struct names_twin *twin) MUST_CHECK;

/* Copies about so many bytes of it. 0: the twin is complete, and *names says
 * what it is as of (names->table is the stream's own). GOSSIP_E_MORE: go on.
 * GOSSIP_E_LOST: the names are other ones now, there was no memory, or the
 * reading is not to go on any more. */
int gossip_hand_step(struct gossip *g, size_t bytes, struct gossip_names *names,
                     uint64_t now_us) MUST_CHECK;

/* Gives the copy up, if there is one. */
void gossip_hand_end(struct gossip *g);

/* The stream's copy, or the intake, takes longer: the reading that is to go on
 * has judge_ms from now on. */
void gossip_hand_waits(struct gossip *g, struct event_stream stream,
                       uint64_t now_us);

/* The table of names of the at-th stream (gossip_status()), for a copy, or NULL
 * where they are not known. False: there is no such stream. */
bool gossip_names_table(const struct gossip *g, uint32_t at,
                        struct event_stream *stream, const struct names **table)
    MUST_CHECK;

/* From now on, what is done to the tables is appended to the journal
 * (names_copy_put()), which is borrowed. NULL: no more. */
void gossip_names_watch(struct gossip *g, struct words *journal);

/* Call it after gossip_load(), where the snapshot has the names as of the same
 * position: takes over the table and empties *table. fingerprint: of the last
 * batch. False: they cannot be the stream's, or there is no room; the table
 * stays the caller's. */
bool gossip_load_names(struct gossip *g, struct event_stream stream,
                       uint64_t fingerprint, struct names *table) MUST_CHECK;

/* Batches of the reading are lost for good. */
void gossip_local_gap(struct gossip *g, struct event_stream stream,
                      uint64_t now_us);

/* live: the reading is known to follow the living process. */
void gossip_local_live(struct gossip *g, struct event_stream stream, bool live,
                       uint64_t now_us);

/* This node no longer reads the stream. */
void gossip_local_end(struct gossip *g, struct event_stream stream,
                      uint64_t now_us);

/* Applied records of the stream were lost (no room, a fault): its state is
 * obtained again, from the names, from a peer, or else by a reading. A reading
 * that leads goes on meanwhile. */
void gossip_local_lost(struct gossip *g, struct event_stream stream,
                       uint64_t now_us);

/* As gossip_local_lost(), but the names may be wrong, too, and what is held may be
 * right: it is kept until a peer's state is there. Where no peer has it, who leads
 * reads again, and who does not builds it from the names. */
void gossip_local_doubted(struct gossip *g, struct event_stream stream,
                          uint64_t now_us);

/* Answers the APPLY that was pulled last: how many blocks of the stream are
 * held, and the XOR of rng_mix(key) over them. */
void gossip_digest(struct gossip *g, struct event_stream stream, uint64_t count,
                   uint64_t xor_keys);

/*
 * Answers an EXPORT with STOREs (event.h) of what is held now: count words, at
 * most GOSSIP_PAGE_WORDS, and the cursor of the next page or GOSSIP_CURSOR_END.
 * Each block that is held from the first page until the last must be on one of
 * the pages. words NULL: the state cannot be read.
 */
void gossip_exported(struct gossip *g, uint64_t token, const uint64_t *words,
                     uint32_t count, uint64_t next, uint64_t now_us);

/* A link to a peer came up; the peer is new, even if it was up before. 0 or
 * GOSSIP_E_FULL. */
int gossip_peer_up(struct gossip *g, uint64_t peer, uint64_t now_us) MUST_CHECK;

/* The link to a peer went down: nothing more is sent to it, and its open
 * questions go to other peers. A peer that is not up is ignored. */
void gossip_peer_down(struct gossip *g, uint64_t peer, uint64_t now_us);

/* suspect: the membership suspects the peer; until that ends, the next reader
 * pushes in its place. A peer that is not up is ignored. */
void gossip_peer_suspect(struct gossip *g, uint64_t peer, bool suspect,
                         uint64_t now_us);

/* away: the part of the fleet that the peer is in, as seen from this node, by any
 * number; 0, as at first: this node's own. Pushes go into each other part once.
 * A peer that is not up is ignored. */
void gossip_peer_away(struct gossip *g, uint64_t peer, uint64_t away);

/* The body of a frame from a peer. 0, GOSSIP_E_BAD or GOSSIP_E_STRANGER. */
int gossip_recv(struct gossip *g, uint64_t peer, const uint8_t *bytes,
                size_t len, uint64_t now_us) MUST_CHECK;

/* Lets time pass up to now_us, which must not be before any earlier call's. */
void gossip_tick(struct gossip *g, uint64_t now_us);

/* Pushes at once what waits to be pushed, and what this node read and the primary
 * has not pushed yet: this node is about to leave. */
void gossip_flush(struct gossip *g, uint64_t now_us);

/* When gossip_tick() is due. */
uint64_t gossip_deadline(const struct gossip *g);

/* The next output; false when there is none. What *out points at is valid until
 * the next call. */
bool gossip_next_out(struct gossip *g, struct gossip_out *out) MUST_CHECK;

/* Gauges of one worker. */
struct gossip_gauge {
    uint32_t inflight;      /* requests */
    uint32_t blocks;        /* held */
    uint64_t queued_tokens; /* of prompts */
};

/* Sets this node's own gauge. False: workers_max is reached, and no worker's
 * gauge is at zero and could be dropped. */
bool gossip_gauge_set(struct gossip *g, uint64_t worker,
                      const struct gossip_gauge *gauge, uint64_t now_us);

/* Sends this node's changed gauges at once, not after gauge_ms. */
void gossip_gauges_flush(struct gossip *g, uint64_t now_us);

/* The sum over this node's peers; blocks: the maximum. */
struct gossip_gauge gossip_gauge_others(const struct gossip *g,
                                        uint64_t worker);

/* One peer's own gauge. */
struct gossip_gauge_peer {
    uint64_t peer; /* its id: another one after each of its starts */
    bool told;     /* all its gauges were heard, so this one is, too */
    struct gossip_gauge gauge;
};

/* Of the peer in a place below GOSSIP_PEERS_MAX, which it keeps while it is
 * linked. False: there is none. */
bool gossip_gauge_of(const struct gossip *g, uint32_t place, uint64_t worker,
                     struct gossip_gauge_peer *out);

/* Rises whenever a peer's gauges may have changed. */
uint64_t gossip_gauges_heard(const struct gossip *g);

/* Queues a decision of this node's for its peers; keys are copied. If it is
 * longer than belief_bytes, it is truncated: what remains is still a prefix. */
void gossip_belief_add(struct gossip *g, const struct gossip_belief *belief,
                       uint64_t now_us);

struct gossip_status {
    struct event_stream stream;
    struct gossip_epoch epoch;
    uint64_t pos;
    uint64_t pos_known; /* the furthest position that anyone claims to have */
    uint64_t log_low;
    uint64_t process; /* of this node's reading; 0: there is none */
    uint64_t count;   /* with xor_keys: the digest */
    uint64_t xor_keys;
    bool whole; /* the epoch is known from its process's first batch on */
    bool complete;
    bool stale;
    bool contested;
    bool digest_known;
    bool reads;    /* this node's own reading leads the replica */
    bool follower; /* this node's own reading is a follower */
    bool pushes;   /* this node pushes to its peers */
    bool waits;    /* ... and has records that wait to be pushed */
    bool torn;     /* between the first page of a transfer and its end */
    bool transfers;
    bool names_known;
    uint64_t names_pos;  /* of the batch that they are as of */
    uint64_t names_kept; /* the same of older ones, kept while a peer is asked
                            for newer ones; 0: none */
    uint64_t names_count;
    uint64_t names_digest;
};

/* The position after the whole batch `seq`. */
uint64_t gossip_pos_after(uint64_t seq);

/* Whether this node's own reading leads the stream's replica. */
bool gossip_reads(const struct gossip *g, struct event_stream stream);

/* The at-th stream, in the order in which they were added; false at the end. */
bool gossip_status(const struct gossip *g, uint32_t at,
                   struct gossip_status *status) MUST_CHECK;

/* The status of that stream; false: there is no such stream. */
bool gossip_status_of(const struct gossip *g, struct event_stream stream,
                      struct gossip_status *status) MUST_CHECK;

/* No stream is torn, being transferred, behind what peers are known to have, or
 * without names that a peer has. */
bool gossip_is_level(const struct gossip *g);

struct gossip_stats {
    uint64_t frames_in, bytes_in, frames_out, bytes_out;
    uint64_t frames_bad;      /* malformed */
    uint64_t frames_stranger; /* from a sender that is no peer that is up */
    uint64_t frames_unknown;  /* with a type or flag of another version */
    uint64_t sends_dropped;   /* sends_max was reached */
    uint64_t no_memory;
    uint64_t records_local, records_pushed, records_applied;
    uint64_t push_bytes;    /* of DELTAs pushed, counted for one peer */
    uint64_t relays_out;    /* pushes of others passed on, one for each peer */
    uint64_t relays_lost;   /* peers that nobody had a link to */
    uint64_t dropped_old;   /* records that were there already */
    uint64_t dropped_epoch; /* records of a lower epoch */
    uint64_t dropped_unknown;       /* records of unknown streams */
    uint64_t dropped_follower;      /* records of a reading that does not
                                       lead */
    uint64_t fingerprint_conflicts; /* two different records at one position */
    uint64_t gaps, pulls, pulls_answered, pulls_lost;
    uint64_t epochs_minted, epochs_adopted, epochs_raised, rereads, takeovers;
    uint64_t transfers, transfers_done, transfers_failed;
    uint64_t pages_in, pages_out, pages_refused;
    uint64_t vectors_in, summaries_equal, summaries_differ;
    uint64_t digest_mismatches; /* of two complete states */
    uint64_t beliefs_out, beliefs_in;
    uint64_t beliefs_dropped; /* to make room for newer ones */
    uint64_t expected_out, expected_in,
        expected_dropped; /* the same for `expected` */
    uint64_t log_spills;  /* records applied although the log was full */
    uint64_t log_dropped;
    size_t log_bytes;
    uint64_t resumes; /* readings that were to go on from names */
    uint64_t names_asked, names_pages_in, names_pages_out, names_refused;
    uint64_t names_lost; /* unknown or old from then on: no room, or not told */
    size_t names_bytes;
    uint32_t streams, tombstones, peers;
};

/* The counters since gossip_new(), and the present sizes. */
void gossip_stats(const struct gossip *g, struct gossip_stats *stats);

/* Verifies each invariant of the whole state; for tests and simulations. False:
 * *reason says which one is broken, static text. */
bool gossip_check(const struct gossip *g, const char **reason);

#endif
