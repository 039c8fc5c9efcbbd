/*
 * Streams that go on when their engine ends (SIM_STREAM).
 *
 * Most requests are chats at temperature 0 then, and stream words: each in an
 * event of its own, or up to three in one, which then tells how many there are.
 * A connection ends at any token, and inside an event; what
 * the node makes of that is node/route/resume.h and dispatch.h, as in a lane.
 * The next engine reads the request that the node made, finds out where it is to
 * go on, and computes the rest of the same tokens, behind a prompt that is so
 * much longer. Word for word, with ids, counts and the end, the client must have
 * what one engine says that nobody disturbs; and no stream may be severed whose
 * first engine ended while another one takes requests.
 *
 * Role: core, private to the simulator. Thread: one owner. Limits:
 * SIM_STREAM_WORDS, SIM_STREAM_BYTES.
 */
#ifndef CHAOS_SIM_STREAMS_INTERNAL_H
#define CHAOS_SIM_STREAMS_INTERNAL_H

#include "chaos/sim/sim_request_internal.h"
#include "node/node.h"

#define SIM_STREAM_WORDS 16U
#define SIM_STREAM_BYTES 8192U
#define SIM_STREAM_ID    24U

struct sim_speech {
    struct resume resume;
    bool begun;    /* a good answer has */
    bool untold;   /* it was ended at the node, and no engine told its usage */
    uint32_t from; /* the word with which the engine begins */
    uint32_t next; /* ... that it says next */
    uint32_t sent; /* ... behind those that have gone out */
    uint32_t breaks; /* its connection breaks behind so many of its words */
    char id[SIM_STREAM_ID];      /* the engine's, of its answer */
    char told_id[SIM_STREAM_ID]; /* that the client has been told */
    size_t got_len;
    char got[SIM_STREAM_BYTES]; /* the client's */
    char room[SIM_STREAM_BYTES];
};

struct sim_streams {
    struct rng rng;
    struct sim_speech stream[SIM_FLIGHTS_MAX]; /* by slot */
};

/* Makes them, in a world that has them. */
void sim_streams_begin(struct sim_world *w);
/* Frees everything. */
void sim_streams_end(struct sim_world *w);

/* Draws whether a new request is a stream, and how long. */
void sim_stream_draw(struct sim_world *w, struct sim_flight *f);
/* It comes to a node. */
void sim_stream_open(struct sim_world *w, struct sim_flight *f);
/* What its engine is asked: the output of the request, and behind the prompt's
 * tokens, which are there, what was said before. output: of SIM_STREAM_WORDS,
 * for as long as the request. */
void sim_stream_request(struct sim_world *w, struct sim_flight *f,
                        struct engine_request *request, uint32_t *tokens,
                        uint32_t *output);

/* At its node: the head of a good answer, with the first word; the next word;
 * the rest. */
void sim_stream_head(struct sim_world *w, struct sim_flight *f);
void sim_stream_token(struct sim_world *w, struct sim_flight *f);
void sim_stream_rest(struct sim_world *w, struct sim_flight *f);
/* A piece of the next event, and no more. */
void sim_stream_tear(struct sim_world *w, struct sim_flight *f);
/* The answer broke off, and nothing but its end is missing, which the client
 * then has. */
bool sim_stream_is_all(struct sim_world *w, struct sim_flight *f);
/* The same: another worker is to be asked for the rest. */
bool sim_stream_asks(struct sim_world *w, struct sim_flight *f);

/* The client has all of it. */
void sim_stream_judge(struct sim_world *w, struct sim_flight *f);
/* It is severed. */
void sim_stream_severed(struct sim_world *w, struct sim_flight *f);

#endif
