/*
 * Asks a JetStream stream for one rank's batches from a number on, as an engine's
 * replay socket is asked: batches in order, then an end.
 *
 * A stream numbers the messages of all its subjects, and keeps those of earlier
 * lives of the engine. So first a consumer of the subject's last message alone
 * says which life it is and where it stands. The wanted batch is as many messages
 * before that one as there are numbers between: there a second consumer begins.
 * If other subjects share the stream, that is too late: the first message then
 * has a number beyond the wanted one, and the next consumer begins twice as far
 * back, down to the stream's beginning. What comes too early, or of an earlier
 * life, is passed over. So a stream of one subject takes four round trips, however
 * long it is. What the stream no longer has is missing at the beginning, as with
 * an engine whose buffer is too short.
 *
 * Messages are fetched (a pull consumer, NATS_REPLAY_FETCH at a time), so that the
 * server sends no more than is read. Consumers are ephemeral, in memory, without
 * acknowledgements; the server forgets them some seconds after the last fetch.
 * Each consumer's answers come by a subscription of its own: what an earlier one
 * still sends has another number.
 *
 * Role: core. Owns: nothing; texts are borrowed. Thread: one owner. Limits:
 * NATS_REPLAY_FETCH; the consumer's name. Errors: NATS_REPLAY_FAILED, with why.
 */
#ifndef NODE_NATS_REPLAY_INTERNAL_H
#define NODE_NATS_REPLAY_INTERNAL_H

#include "node/events/nats_wire_internal.h"

#define NATS_REPLAY_FETCH     256U
#define NATS_REPLAY_WHY_MAX   160
#define NATS_REPLAY_NAME_MAX  64
#define NATS_REPLAY_INBOX_MAX 48

enum nats_replay_outcome {
    NATS_REPLAY_WAITS,  /* nothing for the caller */
    NATS_REPLAY_BATCH,  /* a batch: seq, with the message's payload */
    NATS_REPLAY_END,    /* that was all */
    NATS_REPLAY_FAILED, /* no answer will come: why */
};

enum nats_replay_stage {
    NATS_REPLAY_IDLE,
    NATS_REPLAY_LAST,  /* the consumer of the last message is being made */
    NATS_REPLAY_FIND,  /* ... and its message fetched */
    NATS_REPLAY_MAKE,  /* the consumer of the batches is being made */
    NATS_REPLAY_FIRST, /* ... and its first message fetched */
    NATS_REPLAY_READ,  /* ... and the others */
};

struct nats_replay {
    /* Set by the owner. */
    struct slice stream;
    struct slice subject;
    char inbox[NATS_REPLAY_INBOX_MAX]; /* unlike anybody else's */

    enum nats_replay_stage stage;
    uint64_t sid; /* of the subscription in use; 0: none yet */
    uint64_t from;
    char live[NATS_LIFE_MAX]; /* the life of live messages; "": not known */
    uint64_t live_seq;        /* ... and the last one's number in it */
    char life[NATS_LIFE_MAX]; /* ... of the subject's last message */
    uint64_t last_at;         /* the last message's number in the stream */
    uint64_t back;            /* how far before it the consumer begins */
    uint32_t fetched; /* messages of this fetch that are still to come */
    bool over;        /* that batch was the last one */
    uint64_t seq;     /* BATCH: its number */
    bool bad_batch;   /* the message just read does not say what it is */
    char consumer[NATS_REPLAY_NAME_MAX];
    char why[NATS_REPLAY_WHY_MAX];
};

/* Begins a question; its first words go to out. An earlier one is given up. life,
 * seq: of the last live message, "" if none came: while the stream does not have
 * it, it is behind, and its answer would be wrong. */
void nats_replay_ask(struct nats_replay *replay, uint64_t from,
                     const char *life, uint64_t seq, struct buf *out);

/* A message of the connection; what is to be said next goes to out. After a BATCH
 * with `over`, it is at its end. */
enum nats_replay_outcome nats_replay_take(struct nats_replay *replay,
                                          const struct nats_said *said,
                                          struct buf *out) MUST_CHECK;

#endif
