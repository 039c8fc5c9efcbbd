/*
 * The simulator: a whole mesh in one process, on a virtual clock, from a seed.
 *
 * Nodes are made of the cores that `kvasir serve` runs: cluster (discovery,
 * membership, ownership, gossip, roster), kv_stream, kv_apply and the ledger
 * (decoder.h), the way through gossip to the writer and the mirror
 * (ingest_stream.h), snapshots (storage). Engines are the model
 * (engine_model.h) and the payloads that it publishes (engine_events.h).
 * Everything between them is simulated: links, DNS, sockets of events and
 * replays, disks, clocks.
 *
 * A run. A seed draws a world: nodes, engines, configuration, which classes of
 * faults there are and how often. Faults happen for chaos_ms. Then everything
 * is healed, traffic ends, and within SIM_QUIET_MS all nodes must agree, and
 * must go on to agree. Invariants are checked at each step.
 *
 * The same options give the same run, with the same hash of the trace. Each
 * class of faults draws from a generator of its own. So leaving one class out
 * changes little of the others, and runs can be shrunk (sim_apart.h).
 *
 * Role: core. Owns: everything that it makes, until it returns. Thread: one
 * owner. Limits: SIM_NODES_MAX, SIM_ENGINES_MAX. Errors: the result says what
 * does not hold; a mistake of the program's own fails a CHECK and ends it.
 */
#ifndef CHAOS_SIM_H
#define CHAOS_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define SIM_NODES_MAX   20U
#define SIM_ENGINES_MAX 6U
#define SIM_HOUR_MS     3600000U
#define SIM_QUIET_MS    20000U /* healed to agreed, at most */
#define SIM_TEXT_MAX    160U

struct fault_script;

/* X(NAME, name, what it does) */
#define SIM_FAULTS(X)                                                       \
    X(PARTITION, partition, "nodes are severed from each other, both ways") \
    X(ONEWAY, oneway, "one way between two nodes is severed")               \
    X(LOSS, loss, "packets are lost and sent again")                        \
    X(DATAGRAM, datagram, "frames are lost, doubled and overtake others")   \
    X(JITTER, jitter, "delays between nodes vary")                          \
    X(SLOW, slow, "a node takes frames slowly, so that queues fill up")     \
    X(PAUSE, pause, "a node stops for a while, up to minutes")              \
    X(CRASH, crash, "a node is killed and started again")                   \
    X(LEAVE, leave, "a node says goodbye and is started again")             \
    X(CLOCK, clock, "a node's clock jumps ahead")                           \
    X(DNS, dns, "lookups fail, time out, are empty, or name others")        \
    X(RESTART, restart, "an engine's process is another one")               \
    X(CLEAR, clear, "an engine forgets its cache")                          \
    X(DROP, drop, "events are lost between engine and reader")              \
    X(REPEAT, repeat, "events come twice")                                  \
    X(BREAK, break, "the connection to an engine breaks")                   \
    X(SEVER, sever, "a node cannot reach an engine for a while")            \
    X(ROLL, roll, "engines keep few batches to replay")                     \
    X(REPLY, reply, "replies of a replay are lost")                         \
    X(HOLE, hole, "an engine loses a batch for good")                       \
    X(LOST, lost, "what a node has of a stream is lost there")              \
    X(ROSTER, roster, "workers are put, drained and removed on any node")   \
    X(REQUEST, request, "clients send requests through nodes")              \
    X(SICK, sick, "engines refuse requests, fall silent, break off")        \
    X(DISK_FULL, disk_full, "a disk is full for a while, or fails once")    \
    X(DISK_TEAR, disk_tear, "power goes while a snapshot is written")       \
    X(DISK_STALE, disk_stale, "a node comes back with an old disk")         \
    X(DISK_LIE, disk_lie, "a disk forgets what it wrote, or flips bits")    \
    X(DISK_SWAP, disk_swap, "a node comes back with another one's disk")    \
    X(DAY, day, "a node's clock jumps a day ahead, an engine's either way") \
    X(SKEW, skew, "some nodes are of a later version")                      \
    X(LIE, lie, "DNS names engines, strangers, other nodes")                \
    X(LIMIT, limit, "a tenant asks for more than its limit")                \
    X(QUEUE, queue, "workers have few places, so requests wait")            \
    X(STREAM, stream, "requests stream, and go on when an engine ends")     \
    X(SCALE, scale, "engines are asked for and given back")                 \
    X(SPEED, speed, "nodes tell engines' speeds, and take turns")           \
    X(ISLAND, island, "nodes and engines are on islands")

enum sim_fault {
#define SIM_FAULT_ENUM(NAME, name, help) SIM_##NAME,
    SIM_FAULTS(SIM_FAULT_ENUM)
#undef SIM_FAULT_ENUM
    SIM_FAULT_KINDS,
};

/* These and later faults are drawn separately, so that a seed from before them
 * still draws the same world. */
#define SIM_FAULTS_LATER SIM_REQUEST

#define SIM_FAULTS_ALL ((UINT64_C(1) << SIM_FAULT_KINDS) - 1)
#define SIM_FAULTS_OF_DISKS                                        \
    (UINT64_C(1) << SIM_DISK_FULL | UINT64_C(1) << SIM_DISK_TEAR | \
     UINT64_C(1) << SIM_DISK_STALE | UINT64_C(1) << SIM_DISK_LIE | \
     UINT64_C(1) << SIM_DISK_SWAP)

/* The name of a fault, such as "partition". Static text. */
const char *sim_fault_name(enum sim_fault fault);
/* What the fault does, in one line. Static text. */
const char *sim_fault_help(enum sim_fault fault);

struct sim_options {
    uint64_t seed;
    uint64_t faults;     /* bits of enum sim_fault: those allowed */
    uint32_t nodes;      /* 0: drawn */
    uint32_t engines;    /* 0: drawn */
    uint32_t chaos_ms;   /* 0: drawn */
    uint32_t faults_max; /* further ones do not happen */
    FILE *trace;         /* a line for each event; NULL: none */

    /* Further faults; NULL: none. Borrowed. See sim_options_script(). */
    const struct fault_script *script;
};

/* Options with this seed and with all faults allowed. */
struct sim_options sim_options_default(uint64_t seed);

/* Plays the script, with its nodes and engines, until its end, and no other
 * faults. */
void sim_options_script(struct sim_options *options,
                        const struct fault_script *script);

/* X(NAME, name): what a batch of seeds must reach at least once; otherwise the
 * seeds test less than they seem to. */
#define SIM_SOMETIMES(X)                                    \
    X(PULLED, "repaired from a peer's log")                 \
    X(PULL_LOST, "a peer's log did not reach")              \
    X(TRANSFERRED, "state transferred whole")               \
    X(REPLAYED, "replayed by an engine")                    \
    X(REPLAY_ROLLED, "history was gone")                    \
    X(RESTART_IDLE, "an engine restarted idle")             \
    X(MINTED, "epoch minted")                               \
    X(ADOPTED, "epoch adopted")                             \
    X(REREAD, "asked to read again")                        \
    X(TAKEOVER, "a reader took over")                       \
    X(CONTESTED, "a stream was contested")                  \
    X(FOLLOWED, "records that a follower only compared")    \
    X(OLD_DROPPED, "old records dropped")                   \
    X(EPOCH_DROPPED, "records of a lower epoch dropped")    \
    X(SUSPECTED, "a member suspected")                      \
    X(REFUTED, "a suspicion refuted")                       \
    X(DIED, "a member dead")                                \
    X(REPLACED, "a name taken over")                        \
    X(WOKEN, "a node slept and noticed")                    \
    X(QUEUE_DROPPED, "a full queue dropped")                \
    X(STRANGER, "a frame from nobody")                      \
    X(HANDED_OVER, "a worker got other readers")            \
    X(UNABLE, "a node said that it cannot reach an engine") \
    X(LEVEL, "caught up before serving")                    \
    X(INCOMPLETE, "an epoch that is not complete")          \
    X(GAP, "batches missing for good")                      \
    X(LATE_FRAME, "a frame of a dead process")              \
    X(ANSWERED, "a request answered")                       \
    X(FAILED, "a request not answered")                     \
    X(RETRIED, "a node sent a request elsewhere")           \
    X(RESENT, "a client went to another node")              \
    X(BROKEN_OFF, "an answer broke off")                    \
    X(SKIPPED, "something of a later version skipped")      \
    X(OTHER_MAJOR, "another major version refused")         \
    X(LONG_RECORD, "a record with long unknown fields")     \
    X(LEFT, "a client left before an answer")               \
    X(FULL, "an engine had no room")                        \
    X(AFFINITY, "elected for the prefix")                   \
    X(BALANCE, "elected for the load")                      \
    X(IMBALANCED, "elected to even out loads")              \
    X(PREDICTED, "cached tokens predicted at quiet")        \
    X(EXPECTED, "a peer's decision expected")               \
    X(CIRCUIT, "a circuit opened")                          \
    X(TRIAL, "a circuit half open")                         \
    X(WRONG, "answers that differ, read again for")         \
    X(SNAPSHOT, "a snapshot taken")                         \
    X(SNAPSHOT_FAILED, "a snapshot failed")                 \
    X(SNAPSHOT_LAST, "a last snapshot before the goodbye")  \
    X(SET_ASIDE, "a snapshot set aside")                    \
    X(FOREIGN, "a snapshot of another cluster")             \
    X(RESTORED, "a snapshot loaded")                        \
    X(LOADED_JOURNAL, "... that was cut amid changes")      \
    X(LOADED_STALE, "... that is not the last one")         \
    X(LOADED_NAMES, "a loaded stream with its names")       \
    X(LOADED_OLD, "a loaded stream had gone on")            \
    X(LOADED_OTHER, "a loaded stream of a dead process")    \
    X(LOADED_DROPPED, "a loaded stream dropped")            \
    X(LOADED_CAUGHT_UP, "a loaded stream caught up with")   \
    X(RESUMED, "a reading went on from a snapshot")         \
    X(NAMES, "names compared with a ledger")                \
    X(HANDED, "a reading went on from names")               \
    X(LIMITED, "a limit refused")                           \
    X(SIDES, "a limit was kept by several sides")           \
    X(QUEUED, "a request waited for a place")               \
    X(PLACED, "one that waited was given a place")          \
    X(LATE, "one waited too long")                          \
    X(GAVE_WAY, "one had to give way in a full queue")      \
    X(WENT_ON, "a stream went on at another worker")        \
    X(MADE, "an engine was asked for and made")             \
    X(GIVEN_BACK, "one was given back")                     \
    X(CUT_OFF, "a call of a lower epoch refused")           \
    X(SPEEDS, "a peer's samples of a speed counted")

enum sim_sometimes {
#define SIM_SOMETIMES_ENUM(NAME, help) SIM_SAW_##NAME,
    SIM_SOMETIMES(SIM_SOMETIMES_ENUM)
#undef SIM_SOMETIMES_ENUM
    SIM_SOMETIMES_KINDS,
};

/* Static text. */
const char *sim_sometimes_name(enum sim_sometimes what);

struct sim_result {
    bool failed;
    char what[SIM_TEXT_MAX]; /* the invariant, and where */
    uint64_t hash;           /* of the trace */
    uint64_t events;
    uint64_t virtual_ms;
    uint64_t agreed_ms; /* time from healing to agreement */
    uint64_t bytes_max; /* of a node at rest, in logs and indexes */
    uint32_t nodes;     /* as drawn, or given */
    uint32_t engines;
    uint32_t chaos_ms;
    uint64_t faults[SIM_FAULT_KINDS];
    uint64_t saw[SIM_SOMETIMES_KINDS];
};

/* Runs one seed to its end, or until an invariant does not hold. Fills
 * *result. */
void sim_run(const struct sim_options *options, struct sim_result *result);

#endif
