/*
 * The inside of the model: three nodes around one engine.
 */
#ifndef CHAOS_MODEL_INTERNAL_H
#define CHAOS_MODEL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gossip/gossip.h"

#define MODEL_NODES   3U
#define MODEL_READERS 2U
#define MODEL_KEYS    64U /* batches of one process, at most */
#define MODEL_REPLAY  4U  /* batches that the engine repeats */
#define MODEL_FRAMES  4096U

/* What a node had when it ended. */
struct model_disk {
    struct gossip_status status; /* pos 0: nothing */
    struct names_twin names;
    uint64_t print; /* of the batch that they are as of; 0: there are none */
    bool held[MODEL_KEYS];
};

struct model_node {
    struct gossip *g; /* NULL: it does not run */
    struct model_disk disk;
    uint64_t id;                  /* another one after each start */
    bool severed;                 /* from all others */
    bool apart;                   /* from the next node (0 is after 2) */
    bool cut;                     /* from the engine */
    bool unable;                  /* it says so */
    bool claims[MODEL_NODES];     /* what others said of themselves */
    uint64_t linked[MODEL_NODES]; /* the peer's id; 0 */
    /* The intake. */
    bool reads;
    uint64_t reads_us; /* since when */
    bool begun;
    bool live;
    bool whole;
    uint64_t process;
    uint64_t called; /* what it calls the process */
    uint64_t next_seq;
    uint64_t ask; /* to be answered; 0: nothing is */
    bool prove;
    bool resumes; /* it may go on from the names */
    /* The index. */
    bool held[MODEL_KEYS];
    /* It leads the process's epoch, and must not forget it. */
    bool witness;
};

struct model_frame {
    uint64_t from;
    uint64_t to;
    size_t len;
    uint8_t *bytes;
};

struct model {
    const char *word;
    bool told;
    uint64_t now_us;
    uint64_t lives;
    uint64_t process;
    uint64_t count; /* batches that it published */
    bool lost;      /* nobody can know all of it any more */
    struct model_node node[MODEL_NODES];
    struct model_frame frame[MODEL_FRAMES];
    uint32_t frames;
    uint64_t words;
    uint64_t kept; /* words at whose end all could be known */
    uint64_t resumed;
};

extern struct model model;

/* The one stream. */
extern const struct event_stream model_stream;

/* A bug is planted: it must be found. */
extern const bool model_mutated;

/* Says what is wrong and in which word, and ends the program, which has failed
 * unless a bug is planted. */
void model_fail(const char *what, uint32_t node);

/* The first batch that the engine repeats. */
uint64_t model_low(void);

/* Starts a node that does not run; from_disk: with what it had at its end. */
void model_node_start(struct model_node *node, bool from_disk);

/* Ends it; what it has then is on its disk. */
void model_node_stop(struct model_node *node);

/* Frees its disk. */
void model_node_fini(struct model_node *node);

/* Does what gossip says; frames go to model.frame. */
void model_node_pull(struct model_node *node);

/* Its intake reads what the engine published, and does what it was asked. */
void model_node_read(struct model_node *node);

/* It reads no longer. */
void model_node_end(struct model_node *node);

/* Whether its blocks are the living process's, all of them. */
bool model_node_knows_all(const struct model_node *node);

/* How many blocks it holds, of whichever process. */
uint64_t model_node_blocks(const struct model_node *node);

/* How many batches of the living process it knows the outcome of, the engine's
 * names of the blocks included. */
uint64_t model_node_names(const struct model_node *node);

#endif
