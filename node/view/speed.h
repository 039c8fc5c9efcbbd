/*
 * Speed: how slow each worker is beside the others of its set, learned from the
 * time to the first token of its answers. A set is those that serve the same
 * model (fleet_view_kin()).
 *
 * A sample is that time, and the prompt tokens that had to be computed first:
 * those that waited at the worker when the request was sent there, and its own
 * that were not held there, both as the election counted them. So the election
 * multiplies a worker's tokens with what they were seen to take. What an engine
 * says of its cache does not enter.
 *
 * Like is compared with like: times per token are kept by number of tokens, each
 * class four times as large as the one before, because a step has its own cost and a
 * batch hides small prompts. A worker's slowness is the mean of its distances
 * from the set's median in each class, on a scale of logarithms, together with
 * SPEED_PRIOR samples at the median. A worker with few samples is thus a usual
 * one, and so is each whose distance is below what engines alike show
 * (SPEED_SAME). One sample moves a mean by 1/16 of a factor of two at most, so
 * outliers cost little. Slowness stays within SPEED_LEAST and SPEED_MOST: an
 * engine that sends a first token at once, whatever it has to compute, counts as
 * four times as fast, not as infinitely fast, and its queue still counts.
 *
 * The time between two tokens of an answer, the mean of one request, is kept by
 * requests in flight in the same way. What a worker can do in time (struct
 * speed_slo) follows from both: between the middles of two classes times grow as
 * a power of the number, beyond them in proportion, but that more requests than
 * ever were in flight are in time until they are seen not to be. For first tokens it is what
 * a usual worker of the set can do, divided by the slowness; for steps the
 * worker's own times count where it has samples, else those of the set. A mean
 * on that scale is about the median, so half of the requests that just fit are
 * late. Where a client reads slowly, its worker looks slow, too.
 *
 * Samples fade: half of them are forgotten every SPEED_HALF_MS. A worker that is
 * avoided is a usual one again after some minutes, is tried, and learned anew.
 *
 * Nodes tell each other what they learned (speed_told.h).
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: WORKERS_MAX slots.
 * Errors: none.
 */
#ifndef NODE_SPEED_H
#define NODE_SPEED_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/worker_set.h"
#include "node/view/facts.h"

#define SPEED_CLASSES   6U      /* below 128 tokens, 512, 2,048, ... */
#define SPEED_STEPS     10U     /* 1 request in flight, 2, from 4, 8, ... */
#define SPEED_FLOOR     4U      /* samples of a class, for it to count */
#define SPEED_PRIOR     8U      /* samples at the median */
#define SPEED_COUNT_MAX 64U     /* samples remembered in a class */
#define SPEED_HALF_MS   300000U /* after which half of them are left */
#define SPEED_SAME      1500U   /* permille: what is nearer to 1 is 1 */
#define SPEED_LEAST     250U    /* permille of the usual time */
#define SPEED_MOST      8000U

/* All zero is an empty one. */
struct speed {
    uint64_t faded_us; /* when samples were last halved */
    struct speed_worker {
        uint32_t generation;
        struct speed_mean {
            int16_t time;                  /* log2 of ns per token, in 1/256 */
            int16_t number;                /* of tokens or requests, likewise */
            uint16_t count;                /* samples */
        } of[SPEED_CLASSES + SPEED_STEPS]; /* prompts', then answers' */
    } worker[WORKERS_MAX];
};

/* A first token came this long after its request was sent to the slot's worker
 * of this generation; what was learned of another one there is forgotten. */
void speed_add(struct speed *speed, uint32_t slot, uint32_t generation,
               uint32_t tokens, uint64_t us);

/* Tokens of an answer came so far apart, with so many requests in flight there
 * as it was sent, itself included. */
void speed_add_step(struct speed *speed, uint32_t slot, uint32_t generation,
                    uint32_t requests, uint64_t us);

/* What a request's end tells of its worker: the first token of a stream, unless
 * an attempt elsewhere came before, and the time between its tokens. Of the
 * first, away_us went by on the way to another island and back: the worker is
 * no slower for that. */
void speed_take(struct speed *speed, const struct fact_decision *fact,
                uint32_t away_us);

/* Time passes: forgets old samples. */
void speed_pass(struct speed *speed, uint64_t now_us);

/*
 * The time that each worker of the set takes, in thousandths of the usual
 * worker's, into an array of WORKERS_MAX by slot; 1,000 where little is known.
 * True: some are not 1,000.
 */
bool speed_slowness(const struct speed *speed, const struct worker_set *set,
                    uint32_t *permille);

/* Times that answers are to keep, of a prompt's first token and between any two,
 * in us; 0: any. */
struct speed_slo {
    uint64_t ttft_us;
    uint64_t itl_us;
};

#define SPEED_ANY UINT32_C(0x7fffffff)

/* What each worker of the set can do within its own SLO, as elect.h counts it,
 * into arrays of WORKERS_MAX by slot: tokens before an answer, and requests in
 * flight. SPEED_ANY where the SLO does not say, or too little is known. slo and
 * slowness are such arrays, too. */
void speed_in_time(const struct speed *speed, const struct worker_set *set,
                   const struct speed_slo *slo, const uint32_t *slowness,
                   uint32_t *tokens, uint32_t *requests);

/* Prompt tokens per second, in the largest class with samples enough; 0: there
 * is none. */
uint32_t speed_rate(const struct speed *speed, uint32_t slot);

#endif
