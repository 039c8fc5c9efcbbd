/*
 * The intake: one thread that reads every worker's KV events over ZeroMQ or
 * NATS, decodes them, and hands records to the control thread.
 *
 * Each rank of a worker has a SUB socket with a monitor, and during a replay a
 * DEALER, a new one for each request. A SUB socket lives for one connection:
 * when the connection is lost, the socket is closed and another one opened.
 * ZeroMQ would reconnect by itself and continue as if nothing had happened,
 * with messages of two engine processes in one queue. The same is done after
 * the thread slept (SIGSTOP, a suspended machine). Each turn takes a bounded
 * number of messages from each socket, so that one flooding engine starves no
 * other. When the ring to control is full, the thread stops reading: further
 * messages wait in ZeroMQ up to its high-water mark, and beyond that are lost
 * there; the loss shows as a gap and is replayed.
 *
 * The ledger can be filled from a snapshot before the thread starts. What was
 * read of a worker then waits for intake_add() of that worker, whose streams
 * continue from there. The thread itself cuts snapshots of the ledger
 * (storage/twin.h), and then writes each stream's position into the ring,
 * behind all that it emitted.
 *
 * With NATS a rank has a connection to the server in place of the SUB socket,
 * and another one, where a JetStream stream keeps the batches, in place of the
 * DEALER. Both are kept as ZeroMQ's are: one reading for each connection, and a
 * fresh one for each question that was not answered to its end. As the connection
 * is to the server, another process of the engine shows in the messages: by the
 * life in their header (nats_wire_internal.h).
 *
 * ZeroMQ is given addresses only, because it would look up a name whenever it
 * connects, and connect to whatever it finds. What a name leads to is decided by
 * the owner, who says it with intake_move(); until then nothing is connected.
 *
 * Role: shell. Owns: its thread, its sockets, the ledger, the streams. Thread:
 * intake_* by control; the inside by its own thread. Limits: WORKERS_MAX
 * streams, INTAKE_RING_BYTES, the configuration's. Errors: below zero -errno.
 */
#ifndef NODE_INTAKE_H
#define NODE_INTAKE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "index/base/ring.h"
#include "index/index.h"
#include "node/config/config.h"
#include "node/events/decoder.h" /* IWYU pragma: export */
#include "node/text/url.h"
#include "storage/storage.h"

#define INTAKE_RING_BYTES   ((size_t)32 << 20)
#define INTAKE_ADDRESS_SIZE 46 /* an IPv6 address and its NUL */

struct intake;

/* The sockets of a worker that have an address. */
enum intake_place {
    INTAKE_EVENTS,
    INTAKE_REPLAY,
    INTAKE_PLACES,
};

/* What control finds in the ring are items of decoder.h. */

/* A worker as the intake needs it; copied. */
struct intake_worker {
    uint32_t slot;
    uint32_t generation;
    uint32_t reading; /* comes back with each item */
    uint64_t identity;
    uint32_t ranks;    /* ports follow each other from those of the URLs; of
                          several, nats: the subject is followed by .RANK */
    struct url events; /* tcp or nats; a name: see intake_move() */
    struct url replay; /* likewise; host "": none */
    char topic[CONFIG_LABEL_MAX]; /* exact topic; "": every one */
    char id[CONFIG_LABEL_MAX];
};

/* wake: sent after each turn that put something into the ring, and while the
 * ring is full; to be closed after intake_free(). 0 and *out, or -errno. */
int intake_new(struct intake **out, const struct config *config,
               uv_async_t *wake, uint64_t seed) MUST_CHECK;

/* Starts the thread, once. 0 or -errno. */
int intake_start(struct intake *intake) MUST_CHECK;

/* ---- before the start ---- */

/* The thread tells this listener (its functions and context) of blocks that
 * engines store. */
void intake_listen(struct intake *intake, const struct kv_listener *listener);

/* The ledger, to be filled. */
struct ledger *intake_ledger(const struct intake *intake);

/* It could not be filled: there is an empty one again. 0 or -errno: there is
 * none, and the start will fail. */
int intake_ledger_renew(struct intake *intake) MUST_CHECK;

/* Hands in what was read of a rank, and its stream in the ledger; bytes
 * (decoder_image()) are copied. False: no memory, or too many. */
bool intake_load(struct intake *intake, struct event_stream name,
                 uint32_t ledger_stream, struct slice bytes) MUST_CHECK;

/* Has snapshots of the ledger taken; control is woken by wake(context). The
 * twin is the intake's. 0 and *out, or -errno. */
int intake_twin(struct intake *intake, struct storage_twin **out,
                void (*wake)(void *context), void *context) MUST_CHECK;

/* ---- at any time ---- */

/* Forgets loaded streams that no worker has claimed. True: all are
 * forgotten. */
bool intake_forget_loaded(struct intake *intake);

/* Ends and joins the thread. NULL is fine. */
void intake_free(struct intake *intake);

/* Follow this worker; forget it; read a rank of it from scratch (ask: the
 * question's number, 0: none; see kv_stream_reread()). 0; -EAGAIN:
 * the queue of commands is full; -ENOMEM; -ENOSPC: that would be more than
 * WORKERS_MAX ranks; -EEXIST: another worker is followed in that slot. */
int intake_add(struct intake *intake, const struct intake_worker *worker)
    MUST_CHECK;
/* Forget the worker of that generation; the same outcomes. */
int intake_remove(struct intake *intake, uint32_t slot, uint32_t generation)
    MUST_CHECK;
/* Read a rank of it from scratch (ask: the question's number, 0: none), or
 * where that will do, prove that its process lives (kv_stream_prove()); the same
 * outcomes. */
int intake_reread(struct intake *intake, uint32_t slot, uint32_t generation,
                  uint32_t rank, uint64_t ask, bool prove) MUST_CHECK;

/* A rank of it goes on from there (decoder_hand_new()), in place of what it
 * reads until then; INTAKE_RESUME says that it did. If its reading begins with
 * its engine's process meanwhile, the hand is dropped. The same outcomes; after
 * 0 the hand is the intake's. One at a time: not while intake_is_handing(). */
int intake_hand(struct intake *intake, uint32_t slot, uint32_t generation,
                uint32_t rank, struct decoder_hand *hand) MUST_CHECK;

/* A rank has not gone on yet from the hand that the intake was given. */
bool intake_is_handing(const struct intake *intake);

/* Where a worker's name leads: a numeric address without brackets, or "":
 * nowhere. A connection that stands stays; the others are made anew. For a
 * place whose host is an address itself, it does nothing. The same outcomes. */
int intake_move(struct intake *intake, uint32_t slot, uint32_t generation,
                enum intake_place place,
                const char address[INTAKE_ADDRESS_SIZE]) MUST_CHECK;

/* Control's end of the ring. */
struct ring *intake_ring(struct intake *intake);

/* Live numbers of one stream, for metrics and status. */
struct intake_numbers {
    struct kv_counters kv;
    struct gauge state; /* enum kv_stream_state */
    struct counter next_seq;
    struct counter last_message_us; /* monotonic; 0: none yet */
    struct counter last_reply_us;   /* of the replay socket; likewise */
};

/* The counters of a rank that is followed now; otherwise NULL. Valid until
 * intake_remove() of the worker. */
const struct intake_numbers *intake_numbers(const struct intake *intake,
                                            uint32_t slot, uint32_t rank);

/* A counter of struct kv_counters, by its offset, of all ranks that were ever
 * followed. */
uint64_t intake_total(const struct intake *intake, size_t offset);

/* Of the ledger, as of the last second. */
void intake_ledger_stats(const struct intake *intake,
                         struct ledger_stats *stats);

#endif
