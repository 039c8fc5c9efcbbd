/*
 * A few nodes on a bench: frames are carried at once, by hand, or not at all;
 * each node's index is a set of small numbers.
 */
#ifndef TESTS_UNIT_GOSSIP_LAB_H
#define TESTS_UNIT_GOSSIP_LAB_H

#include "gossip/gossip.h"

#define LAB_NODES  4
#define LAB_KEYS   2048
#define LAB_FRAMES 4096
#define LAB_MS     UINT64_C(1000)
#define LAB_READER 0x5eadU

struct lab_node {
    struct gossip *g;
    uint64_t id; /* node at + 1, and 100 for each life */
    bool held[LAB_KEYS];
    uint64_t name;
    uint32_t resets;
    uint32_t applied; /* records */
    uint64_t seq;     /* of the last one */
    uint32_t holes;
    uint32_t holes_unknown; /* records whose are not */
    uint64_t ask;           /* of the last REREAD */
    uint32_t rereads;
    bool prove; /* ... which asked for proof only */
    bool complete;
    bool stale;
    bool contested;
    uint32_t beliefs;
    struct gossip_belief belief; /* the last one; its keys are gone */
    uint64_t belief_first;
    uint64_t belief_last;
    bool refuses; /* pages */
    bool halts;   /* EXPORTs wait in `token` */
    uint64_t token;
    uint64_t cursor;
};

struct lab_frame {
    uint64_t from;
    uint64_t to;
    enum gossip_channel channel;
    uint8_t *bytes;
    size_t len;
};

struct lab {
    struct gossip_config config;
    uint64_t now_us;
    uint32_t count;
    struct lab_node nodes[LAB_NODES];
    struct lab_frame frames[LAB_FRAMES];
    uint32_t frames_count;
    bool severed[LAB_NODES]; /* what it sends and is sent is lost */
    uint64_t carried;        /* frames */
    uint64_t sent_by[LAB_NODES];
    uint64_t types[16]; /* frames sent, by type */
};

extern const struct event_stream lab_stream;

/* count nodes that know the stream and each other. */
void lab_begin(struct lab *lab, const struct gossip_config *config,
               uint32_t count);
void lab_end(struct lab *lab);

/* A node made, with the stream, linked to nobody. */
void lab_start(struct lab *lab, uint32_t at);
void lab_stop(struct lab *lab, uint32_t at);
void lab_link(struct lab *lab, uint32_t a, uint32_t b);
void lab_unlink(struct lab *lab, uint32_t a, uint32_t b);

/* Outputs of all nodes; frames are kept. */
void lab_pull(struct lab *lab);
/* Frames there are, and those they cause, until there are none. */
void lab_carry(struct lab *lab);
/* Frames there are are lost. */
void lab_lose(struct lab *lab);
/* Time passes by the millisecond; frames are carried. */
void lab_run(struct lab *lab, uint64_t ms);

/* A batch of node's reading that stores (or removes) a key. */
void lab_read(struct lab *lab, uint32_t at, uint64_t seq, enum event_kind kind,
              uint32_t key);
/* ... of many keys, from key on. */
void lab_read_many(struct lab *lab, uint32_t at, uint64_t seq, uint32_t key,
                   uint32_t count);
/* ... that stores block `key` under the name key + 1000, which is told if `named`;
 * LAB_READER is the ledger's only row. */
void lab_read_named(struct lab *lab, uint32_t at, uint64_t seq, uint32_t key,
                    bool named);
/* ... that clears the cache, and tells that nothing has a name any more. */
void lab_clear(struct lab *lab, uint32_t at, uint64_t seq);
void lab_begin_reading(struct lab *lab, uint32_t at, uint64_t process,
                       bool whole);

uint32_t lab_held(const struct lab *lab, uint32_t at);
bool lab_same(const struct lab *lab, uint32_t a, uint32_t b);
struct gossip_status lab_status(const struct lab *lab, uint32_t at);
struct gossip_stats lab_stats(const struct lab *lab, uint32_t at);

/* Answers the EXPORT that waits. */
void lab_export(struct lab *lab, uint32_t at);

#endif
