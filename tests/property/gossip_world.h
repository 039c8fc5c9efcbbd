/*
 * A world for the gossip core: engines that restart, forget and clear, readers
 * that follow them more or less well, nodes that stop and come back, and a
 * network that loses, doubles, delays and parts. Everything from one seed, on
 * virtual time.
 */
#ifndef TESTS_PROPERTY_GOSSIP_WORLD_H
#define TESTS_PROPERTY_GOSSIP_WORLD_H

#include "gossip/gossip.h"
#include "index/base/rng.h"

#define WORLD_NODES     7
#define WORLD_STREAMS   3
#define WORLD_KEYS      96
#define WORLD_PROCESSES 48 /* of one engine */
#define WORLD_ALIASES   4096
#define WORLD_BATCHES   2600
#define WORLD_WORDS     24
#define WORLD_FLIGHT    60000
#define WORLD_MS        UINT64_C(1000)

/* What each block is in: bits of tiers. */
struct world_set {
    uint8_t tiers[WORLD_KEYS];
};

struct world_batch {
    uint32_t count;
    uint64_t words[WORLD_WORDS];
    struct world_set after; /* what the engine holds then */
};

struct world_process {
    uint64_t id;
    uint64_t next_seq;
    uint64_t low; /* the oldest that is replayed */
    struct world_batch *batches;
};

/* An id that some reading gave to a process. */
struct world_alias {
    uint64_t id;
    uint32_t process;
};

struct world_engine {
    struct event_stream name;
    struct world_alias aliases[WORLD_ALIASES];
    uint32_t aliases_count;
    struct world_process *process;
    uint32_t count; /* of processes; the last one lives */
};

/* What a reading goes on from. */
struct world_hand {
    uint64_t id;
    uint64_t seq;
    uint64_t print;
    bool whole;
    struct world_set known;
};

/* What reads one engine at one node, as an intake does. */
struct world_reader {
    bool on;
    bool begun;
    bool live;
    uint32_t process;
    uint64_t next_seq;
    bool partial;           /* began in the middle */
    struct world_set known; /* what its ledger has a name for */
    uint64_t look_us;       /* when it sees what is there */
    uint64_t ask;           /* the last REREAD it knows of */
    uint64_t reread_us;     /* when it acts on it; 0: not */
    uint64_t id;            /* of the epoch that it reads */
    uint64_t hand_us;       /* when it goes on from this; 0: not */
    struct world_hand hand;
};

/* A node's index of one stream. */
struct world_replica {
    uint64_t name; /* told by RESET */
    struct world_set set;
    bool stale;
    bool complete;
};

struct world_snapshot {
    bool any;
    struct gossip_epoch epoch;
    uint64_t pos;
    bool whole;
    bool complete;
    struct world_set set;
};

struct world_node {
    bool up;
    uint64_t self;
    uint64_t life;
    struct gossip *g;
    struct world_replica replica[WORLD_STREAMS];
    struct world_reader reader[WORLD_STREAMS];
    struct world_snapshot disk[WORLD_STREAMS];
    bool engine_severed[WORLD_STREAMS];
    uint64_t link_us[WORLD_NODES]; /* when it notices a change of the link */
    uint64_t linked[WORLD_NODES];  /* the peer's id it has up; 0 */
};

struct world_frame {
    uint64_t at_us;
    uint64_t from; /* id */
    uint64_t to;
    uint8_t *bytes;
    size_t len;
};

struct world_weather {
    uint32_t loss;   /* per 1000 frames */
    uint32_t copies; /* per 1000 frames */
    uint32_t jitter_us;
    uint32_t parts; /* per 10000 steps, as all below */
    uint32_t deaths;
    uint32_t restarts;
    uint32_t severs; /* of a node from an engine */
    uint32_t rereads;
    uint32_t losts; /* of a replica's state */
    uint32_t gaps;
    uint32_t rots; /* a block in an index is wrong */
    bool rolls;    /* replays forget */
    bool disks;    /* nodes come back with a snapshot */
};

struct world {
    struct rng rng;
    uint64_t seed;
    uint64_t now_us;
    struct world_weather weather;
    uint32_t nodes_count;
    uint32_t streams_count;
    struct world_node nodes[WORLD_NODES];
    struct world_engine engines[WORLD_STREAMS];
    bool parted[WORLD_NODES][WORLD_NODES];
    struct world_frame *flight;
    uint32_t flight_count;
    uint64_t lives;
    bool gapped; /* some reader lost something for good */
    bool rotten;
    struct gossip_stats total;
    uint64_t contested;
    uint64_t resumes; /* readings that went on from names */
};

/* Draws a world from a seed; the one before it is freed. */
void world_begin(struct world *world, uint64_t seed);
void world_end(struct world *world);

/* One millisecond: chaos says whether things break. */
void world_step(struct world *world, bool chaos, bool publish);

/* Every link and engine can be reached, every node is up. */
void world_heal(struct world *world);

/* Whether all nodes have the engines' state, and why not. */
bool world_agrees(struct world *world, const char **why);

/* Where everybody is. */
void world_print(struct world *world);

/* What cannot be at any time; exits and says so. */
void world_check(struct world *world, const char *when);

/* The key of a block of a stream's engine. */
uint64_t world_key_of(uint32_t stream, uint32_t key);

/* Puts the names of a batch behind the record's words: what the reader knew
 * before it, and knows after. */
void world_say_names(struct event_record *record, uint32_t stream,
                     const struct world_set *before,
                     const struct world_reader *reader);

/* Answers of a node's index to gossip. */
void world_tell_digest(struct world *world, struct world_node *node,
                       uint32_t stream);
void world_export_page(struct world *world, struct world_node *node,
                       const struct gossip_out *out);

/* A reading is to go on from the names that the node knows. */
void world_hand(struct world *world, struct world_node *node, uint32_t stream);

/* The fingerprint of a batch. */
uint64_t world_print_of(const struct world_process *process, uint64_t seq);

/* What a table says that has the names of a set. */
uint64_t world_names_digest(uint32_t stream, const struct world_set *set);

/* The process that runs now; which stream a name is of. */
struct world_process *world_living(struct world *world, uint32_t stream);
uint32_t world_stream_of(struct world *world, struct event_stream name);

/* Says what is wrong and where everybody is, and exits. */
void world_fault(struct world *world, const char *what, uint32_t node,
                 uint32_t stream);

#endif
