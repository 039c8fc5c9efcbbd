/*
 * A worker's answer on its way back, and what stands between it and its client
 * where it does not pass as it comes:
 *
 *   response.c     the answer's head and body
 *   rewriting.c    bodies that do not pass as they come
 *   resuming.c     streams that go on at another worker
 *   storing.c      what workers store, and who asks for it
 *   translating.c  requests that an engine gets in another form, and their answers
 *   alive.c        comments to clients that wait for the first of a stream
 *   whole.c        answers that are held until they are whole
 *   caching.c      answers that are kept for requests that repeat
 *   sharing.c      ... and shared by all nodes
 *   resembling.c   ... and given to those that ask the same in other words
 *   vectors.c      engines asked for vectors
 *   sorting.c      ... for rules that choose a model by what a request is about
 *   counting.c     counts of tokens, which are answered here
 *
 * Role: shell, private to node/edge. Thread: the exchange's lane.
 */
#ifndef NODE_EDGE_ANSWER_INTERNAL_H
#define NODE_EDGE_ANSWER_INTERNAL_H

#include "node/edge/edge_internal.h"
#include "node/fleet/embedding.h"

/* response.c */

/* Looks for the final head at bytes, into lane->head. True: it is complete;
 * *len and *bytes are what follows it. False: up waits for more, or is gone. */
bool response_find_head(struct upstream *up, const char **bytes, size_t *len)
    ON_LANE MUST_CHECK;
/* Keeps bytes until more come, behind those in up->partial: 0, or -ENOBUFS. */
int response_keep(struct upstream *up, const char *bytes, size_t len)
    ON_LANE MUST_CHECK;
/* They are not needed any more. Repeating it is harmless. */
void response_drop_partial(struct upstream *up) ON_LANE;

/* Bytes of an answer, in the lane's scratch or in up->partial. */
void response_bytes(struct upstream *up, const char *bytes, size_t len) ON_LANE;
/* The worker closed its side (0), or the connection broke (-errno). */
void response_end(struct upstream *up, int error) ON_LANE;

enum {
    RESPONSE_MORE,
    RESPONSE_END,
    RESPONSE_BAD,
};
/* How many of the bytes belong to the body, and whether it ends there. */
int response_take(struct exchange *x, const char *bytes, size_t len,
                  size_t *taken);
/* The same of an outcome of http_chunk_walk(). */
int response_of_chunks(int outcome);
/* The answer broke off. True: behind its last word, and the client gets its end;
 * x may be gone. */
bool response_finish(struct exchange *x) ON_LANE MUST_CHECK;
/* Sends some of the answer to up's request, and goes on with it; may free the
 * exchange. whole: nothing else follows. */
void response_send(struct upstream *up, const struct iovec *parts,
                   unsigned count, bool whole) ON_LANE;

/* rewriting.c */

/* The body is looked at event by event, or follows a head of our own: it may not
 * pass as it came. */
bool rewriting_is_on(const struct exchange *x);
/* Whether it goes out in chunks of our own. */
bool rewriting_rechunks(const struct exchange *x);
/* Whether its client sees where it ends; else the connection's end says so. */
bool rewriting_is_framed(const struct exchange *x);
/* Adds the size line of a chunk. */
void rewriting_put_size(struct buf *out, size_t size);
/* Adds some of the body. */
void rewriting_put(const struct exchange *x, struct slice data,
                   struct buf *out);
/* Adds its end. */
void rewriting_put_end(const struct exchange *x, struct buf *out);
/* Looks for the usage in some of the body, which passes as it came. */
void rewriting_watch(struct exchange *x, struct slice bytes) ON_LANE;
/* As response_take(); what is to be sent goes to out, behind what is there. */
int rewriting_take(struct exchange *x, const char *bytes, size_t len,
                   size_t *taken, struct buf *out) ON_LANE;
/* The worker's body is over: adds what was held back. False: it is not whole. */
bool rewriting_end(struct exchange *x, struct buf *out) ON_LANE;
/* The answer broke off: adds its end, if that is all that is missing. False:
 * more is. */
bool rewriting_finish(struct exchange *x, struct buf *out) ON_LANE;
/* Adds what the engine said of its failure. */
void rewriting_fail(struct exchange *x, struct buf *out);
/* x ends. */
void rewriting_fini(struct exchange *x) ON_LANE;

/* resuming.c */

/* Whether the answer to x, which was just read, may be resumed. */
void resuming_init(struct exchange *x, const struct scan *scan) ON_LANE;
/* A good stream begins. */
void resuming_begin(struct exchange *x) ON_LANE;
/* Whether the attempt's engine, which was elected, is asked for usage. */
void resuming_count(struct exchange *x) ON_LANE;
/* The answer of the attempt's engine follows: the usage that it was asked for, and
 * the client did not ask for, is not for the client. */
void resuming_strip(struct exchange *x) ON_LANE;
/* As resume_give(), with room for it if there is any. */
void resuming_give(struct exchange *x, struct slice piece) ON_LANE;
/* Whether the bytes given were no continuation. */
bool resuming_is_torn(const struct exchange *x);
/* Nobody goes on with the answer. */
void resuming_give_up(struct exchange *x);
/* Bytes have passed: a request that is not needed any more is let go. */
void resuming_settle(struct exchange *x) ON_LANE;
/* The answer broke off. True: x asks for the rest of it, if another worker
 * takes it. */
bool resuming_ask(struct exchange *x) ON_LANE MUST_CHECK;
/* Whether the worker of x's pool can go on with the answer. */
bool resuming_suits(const struct exchange *x) ON_LANE;
/* x ends. */
void resuming_fini(struct exchange *x) ON_LANE;

/* storing.c */

/* Whether x is about what a worker stores; the scratch has read it, and its
 * tenant is known. False: no memory for that. */
bool storing_begin(struct exchange *x, const struct http_head *head)
    ON_LANE MUST_CHECK;
/* These bytes of the answer's body pass, of one that stores. */
void storing_pass(struct exchange *x, struct slice bytes) ON_LANE;

/* translating.c */

/* x was just read, of its path. */
void translating_init(struct exchange *x) ON_LANE;
/* What marks it for caches, where dialect.marks says so. */
struct body_edit translating_mark(const struct exchange *x);
/* A worker was elected for x: whether it gets a chat. */
void translating_elect(struct exchange *x) ON_LANE;
/* Makes the chat, unless it is there. False: there is none, see dialect.why. */
bool translating_prepare(struct exchange *x) ON_LANE MUST_CHECK;
/* Whether its worker may go on with a chat's stream: it takes the chat as it was
 * made. */
bool translating_suits(const struct exchange *x) MUST_CHECK;
/* Tells the client so. Frees x. */
void translating_refuse(struct exchange *x) ON_LANE;
/* Whether an answer of that status says that the engine does not know x's path,
 * so that it is to get a chat. */
bool translating_unknown(struct exchange *x, unsigned status)
    ON_LANE MUST_CHECK;
/* An answer of that status is the client's. */
void translating_answered(struct exchange *x, unsigned status) ON_LANE;
/* A good stream of a chat begins. False: no memory for that. */
bool translating_begin(struct exchange *x) ON_LANE MUST_CHECK;
/* Some of it, and its end: what the client gets of that. False: it is none or
 * broke off, and the client is told. */
bool translating_put(struct exchange *x, struct slice piece, struct buf *out);
bool translating_put_end(struct exchange *x, struct buf *out);
/* The chat is not needed any more, or not as it is. Repeating it is harmless. */
void translating_release(struct exchange *x) ON_LANE;
/* x ends. */
void translating_fini(struct exchange *x) ON_LANE;

/* alive.c */

/* x, which was just read, waits for an answer: its client is told so now and
 * then, if it has asked for a stream. Again when another worker goes on. */
void alive_begin(struct exchange *x) ON_LANE;
/* Whether it will be. */
bool alive_waits(const struct exchange *x);
/* The time for a comment has come. May free x. */
void alive_expired(struct exchange *x) ON_LANE;
/* Something of the answer passes, or x ends. Repeating it is harmless. */
static inline void
alive_end(struct exchange *x)
{
    deadline_clear(&x->alive.deadline);
}
/* Adds the event that tells of an error, and the stream's end, for a client
 * that was told a head. body: the error, as an answer of its API has it. */
void alive_put_error(const struct exchange *x, struct slice body,
                     struct buf *out);
/* Sends them. Frees x. */
void alive_refuse(struct exchange *x, unsigned status, struct slice body)
    ON_LANE;
/* Sends what is in out as the rest of x's answer, which then is one of our own.
 * Frees x. */
void alive_close(struct exchange *x, unsigned status, struct buf *out) ON_LANE;

/* whole.c */

/* The answer's head came: its body is held. */
void whole_begin(struct exchange *x, const struct http_head *head) ON_LANE;
/* The next bytes of it. */
void whole_give(struct exchange *x, struct slice bytes) ON_LANE;
/* It is whole (broken: it broke off): sends what the client gets for it. May
 * free the exchange. */
void whole_end(struct upstream *up, bool broken) ON_LANE;
/* Frees what is held. Repeating it is harmless. */
void whole_fini(struct exchange *x) ON_LANE;

/* caching.c: callers look at node->answers, caching.asks, .records and .flight
 * first, so that a node without a cache pays for these looks alone. */

/* x was just read, its name stands for itself, and head is its: whether it asks
 * the cache. */
void caching_read(struct exchange *x, const struct http_head *head) ON_LANE;
/* Asks the cache; x has its share of the limits of requests. True: x was answered
 * and is gone, or it waits and goes on by exchange_limited(). */
bool caching_ask(struct exchange *x) ON_LANE MUST_CHECK;
/* Some that were waited for have landed. */
void caching_look(struct lane *lane) ON_LANE;
/* x has waited long enough. May free x. */
void caching_expired(struct exchange *x) ON_LANE;
/* Takes down what goes out to the client, with caching.records. */
void caching_pass(struct exchange *x, const struct iovec *parts, unsigned count)
    ON_LANE;
/* Its answer is none to keep: who waits for it waits no longer. Repeating it is
 * harmless. */
void caching_drop(struct exchange *x) ON_LANE;
/* x, which has a flight, ends; done: with a whole answer. */
void caching_end(struct exchange *x, bool done) ON_LANE;
/* Some of the answer of x goes out. */
static inline void ON_LANE
caching_take(struct exchange *x, const struct iovec *parts, unsigned count)
{
    if (x->caching.records) {
        caching_pass(x, parts, count);
    }
}
/* The head of its answer came: only one of 200 is kept. */
static inline void ON_LANE
caching_answered(struct exchange *x, unsigned status)
{
    if (x->caching.flight != NULL && status != 200) {
        caching_drop(x);
    }
}
/* x ends. */
static inline void ON_LANE
caching_fini(struct exchange *x, bool done)
{
    if (x->caching.flight != NULL) {
        caching_end(x, done);
    }
}
/* x, which has a flight, is answered with an answer of that age that another node
 * got, which is the cache's from here on. Frees x. */
void caching_found(struct exchange *x, struct answers_kept *answer,
                   uint64_t age_us) ON_LANE;
/* x, which waits for an answer, goes on without. May free x. */
void caching_go_on(struct exchange *x) ON_LANE;
/* Adds what its client is told of it, if it has anything to do with a cache. */
void caching_add_headers(struct buf *out, const struct exchange *x) ON_LANE;
/* "hit", "miss", "bypass"; NULL: there is no cache. Static text. */
const char *caching_name(const struct exchange *x);

/* sharing.c: callers look at lane->redis first. */

/* Makes it, for a lane of a node that has one. 0 or -ENOMEM. */
int sharing_lane_init(struct lane *lane) MUST_CHECK;
/* Asks Redis for the answer; x has a flight. True: x waits, and goes on by
 * caching_found() or caching_go_on(). */
bool sharing_ask(struct exchange *x) ON_LANE MUST_CHECK;
/* x ends, and has asked. */
void sharing_forget(struct exchange *x) ON_LANE;
/* Sends Redis the answer of x, if it may be shared. */
void sharing_keep(struct exchange *x, const struct answers_kept *answer)
    ON_LANE;

/* resembling.c */

/* The question, in the body, of a request that the scratch has read, or nothing.
 * Whatever the settings: the answer's name depends on it, and nodes share names. */
struct slice resembling_question(const struct exchange *x) ON_LANE;
/* Notes whether the request, which asks the cache, may be answered by a question
 * like its own, which is this one. */
void resembling_read(struct exchange *x, struct slice question) ON_LANE;
/* x has a flight: asks for its question's vector, if it may. True: x waits, and
 * goes on by caching_found() or caching_go_on(). */
bool resembling_ask(struct exchange *x) ON_LANE MUST_CHECK;
/* The answer of x is kept: it is found for questions like its own. */
void resembling_keep(struct exchange *x) ON_LANE;
/* x has no flight any more. Repeating it is harmless. */
void resembling_forget(struct exchange *x) ON_LANE;

/* vectors.c */

/* Whether another engine may be asked now. */
bool vectors_may(struct lane *lane, enum edge_embeds whose) ON_LANE MUST_CHECK;
/* Asks the worker; ask has the model, the text, the time and whom to tell. False:
 * it cannot be asked, and nobody is told. */
bool vectors_call(struct lane *lane, enum edge_embeds whose,
                  struct edge_vector_call *call,
                  const struct fleet_worker *worker, struct embedding_ask ask)
    ON_LANE MUST_CHECK;
/* The call is over. The vector, the caller's to free(); NULL: there is none. */
struct text_vector *vectors_answered(struct lane *lane, enum edge_embeds whose,
                                     struct edge_vector_call *call,
                                     const struct httpc_answer *answer)
    ON_LANE MUST_CHECK;
/* Drops the call, if one is open. */
void vectors_cancel(struct lane *lane, enum edge_embeds whose,
                    struct edge_vector_call *call) ON_LANE;
/* No call is open any more. */
void vectors_lane_close(struct lane *lane) ON_LANE;

/* sorting.c */

/* The rules want the vector of what x says. True: x waits for it, and goes on by
 * request_go_on(). False: it goes on without; why is in naming.like. */
bool sorting_ask(struct exchange *x, struct slice text) ON_LANE MUST_CHECK;
/* The model is chosen, or x ends. Repeating it is harmless. */
void sorting_forget(struct exchange *x) ON_LANE;

/* request.c */

/* Goes on with a request that waited before its model was chosen. */
void request_go_on(struct exchange *x) ON_LANE;

/* counting.c */

/* x, whose counting.asks, has its share of the limits of requests, and the scratch
 * holds it: counts its tokens. True: x was answered and is gone, or it waits for
 * counting_end(). */
bool counting_begin(struct exchange *x) ON_LANE MUST_CHECK;
/* The thread has counted, or not in time: x is answered, or goes to an engine. */
void counting_end(struct exchange *x) ON_LANE;

#endif
