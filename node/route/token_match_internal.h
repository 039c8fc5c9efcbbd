/*
 * Looks up a prompt's blocks of tokens in the mirror of each worker that
 * publishes its events. The result is exact where text gives only an estimate.
 *
 * For each rank of a worker, the predicted cached prefix is what its events say
 * (the mirror) and, from there on, what was sent there and is on its way
 * (expectations.h). Where sliding windows limit a hit (index/shape.h), what is on
 * its way counts if it is all that the prompt needs: then its end is in the
 * windows. The prediction is never the whole prompt: the last token is always
 * computed, so it covers at most the blocks below (tokens - 1). The prediction
 * is worth less to the election if blocks lie outside the device, or if the
 * mirror is not to be trusted at present.
 *
 * Role: core. Owns: its scratch memory. Thread: one owner; online in the qsbr
 * around token_match_find(). Limits: depth_max blocks of each size,
 * TOKEN_MATCH_IDS_PER tokens per block of them. Errors: -ENOMEM at
 * token_match_init().
 */
#ifndef NODE_TOKEN_MATCH_INTERNAL_H
#define NODE_TOKEN_MATCH_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/index.h"
#include "node/config/config.h"
#include "node/scan/scan.h"
#include "node/tokens/token_cache.h"
#include "node/view/decided.h"
#include "node/view/mirror_view.h"

#define TOKEN_MATCH_IDS_PER 32U /* tokens kept for each block of depth_max */
#define TOKEN_MATCH_WALK_MAX \
    16384U /* blocks whose tiers are looked up; further blocks count as in host
              memory */

/* Where to look. */
struct token_match_world {
    const struct mirror *mirror;
    const struct mirror *expected; /* under the mirror's slots */
    const struct mirror_view *view;
    const struct decided *decided; /* NULL: not known */
    struct mirror_weights weights;
};

/* One worker's best rank. */
struct token_match_rank {
    uint32_t tokens; /* predicted to be cached */
    uint32_t worth;  /* their worth, in tokens of a trusted device */
    uint32_t held;   /* blocks that its events promise */
    uint32_t grain;  /* of the worker (index/shape.h) */
    uint16_t slot;   /* of the mirror */
    uint16_t rank;
    uint8_t tier; /* enum tier: the farthest of the blocks */
};

struct token_match {
    bool known; /* prompt and root are of this request */
    bool cold;  /* nothing that a worker holds of it is of use */
    uint64_t root;
    struct token_prompt prompt;

    /* token_match_find() fills: by fleet slot, for those in workers. */
    struct worker_set workers;
    struct token_match_rank best[WORKERS_MAX];
    struct worker_set slots; /* of the mirror, that were looked up: */
    struct token_match_rank rank[WORKERS_MAX];

    struct worker_set tiered; /* slots whose blocks are not all in the device */
    uint32_t walk_left;       /* blocks whose tier may still be looked up */
    struct mirror_match mirrored;
    struct mirror_match expected;
    struct worker_set waiting; /* workers where prompts wait: the caller's */
    struct worker_set doubted; /* slots of these that order_depth limits */
    struct radix_match order;  /* kept keys (decided.h), by slot */
    uint64_t longest; /* the kept key of the longest prefix held; 0: none */
    uint32_t longest_tokens; /* as predicted to be cached */
    uint64_t *order_keys;    /* depth_max, and one more */
    uint32_t order_count;

    struct worker_set limited;    /* slots that windows may limit, and */
    uint32_t stored[WORKERS_MAX]; /* what these hold but for windows */
    uint32_t depth[WORKERS_MAX];  /* of both, by slot of the mirror */
    uint32_t *ids;                /* of a prompt of token ids */
    uint32_t ids_max;
    uint64_t *keys; /* depth_max for each group */
    uint32_t depth_max;
};

/* 0, or -ENOMEM. */
int token_match_init(struct token_match *match, uint32_t depth_max) MUST_CHECK;

void token_match_fini(struct token_match *match);

/* The request's blocks are not known in tokens. */
void token_match_forget(struct token_match *match);

/* The request is a list of token ids: splits it by the view's grains. */
void token_match_read_ids(struct token_match *match,
                          const struct mirror_view *view, uint64_t root,
                          const char *body, const struct scan *scan);

/* Takes the request's tokens, at most ids_max of them. */
void token_match_take(struct token_match *match, const struct mirror_view *view,
                      uint64_t root, const struct token_text *prompt);

/* The request was tokenised; keys are borrowed until the next request. */
void token_match_set(struct token_match *match, uint64_t root,
                     const struct token_prompt *prompt);

/* Looks up each slot of the view whose worker is in `asked`. */
void token_match_find(struct token_match *match,
                      const struct token_match_world *world,
                      const struct worker_set *asked);

/* The blocks of the request at a worker's grain; NULL: not known. */
const struct token_blocks *token_match_blocks(const struct token_match *match,
                                              uint32_t grain);

/* Blocks that a slot which was looked up holds but for sliding windows: the
 * next ones are on their way. */
static inline uint32_t
token_match_stored(const struct token_match *match,
                   const struct token_match_rank *rank)
{
    return worker_set_has(&match->limited, rank->slot)
               ? match->stored[rank->slot]
               : rank->held;
}

/* Where windows are kept of the request at a slot that was looked up: the key
 * of the last block that can be cached, in the first window group. 0: the slot
 * has no windows, its prompt's end is not known, or is held by now. */
uint64_t token_match_end(const struct token_match *match,
                         const struct token_match_rank *rank);

#endif
