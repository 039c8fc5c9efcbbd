/*
 * Remembers how conversations were tokenised, as block keys, so that an
 * engine's renderer is asked once for a long shared prefix.
 *
 * A conversation is named by a chain of keys, one for each message: the last
 * names the whole, each before it a prefix that an earlier turn may have been.
 * An entry holds the keys of all full blocks of one rendered prompt, for every
 * block size that was in use, and how many tokens it had. A lookup finds the
 * whole, or else the longest earlier turn: its blocks begin this prompt too,
 * which is exact as far as it goes.
 * [where that can be wrong: templates that rewrite history; cost, bound]
 *
 * Role: core. Owns: its entries. Thread: one owner (a lane).
 * Limits: bytes_max, the least recently used entries give way; CONVERSATION_MAX
 * messages. Errors: named outcomes.
 */
#ifndef NODE_TOKEN_CACHE_H
#define NODE_TOKEN_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "node/mirror_view.h"
#include "node/scan.h"

#define CONVERSATION_MAX 1024 /* messages; those in between are one step */

/* A conversation's names. */
struct conversation {
    uint64_t keys[CONVERSATION_MAX];  /* of the first i + 1 messages */
    uint32_t bytes[CONVERSATION_MAX]; /* of text in them, in all */
    uint32_t count;
};

/* Names the prompt in a scanned body: its messages or its string, under
 * everything that changes how it is rendered (model, tools, and the options
 * that scan.h keeps), and the namespace root. */
void conversation_cut(struct conversation *conversation, const char *body,
                      const struct scan *scan, uint64_t root);

/* The blocks of a prompt at one block size. */
struct token_blocks {
    uint32_t block_tokens;
    uint32_t count;
    const uint64_t *keys;
};

struct token_prompt {
    uint32_t tokens; /* of the whole prompt; estimated unless `whole` */
    bool whole;      /* every full block is there, else those of an earlier
                        turn */
    uint32_t covered_bytes; /* of the conversation's text, by what is there */
    uint32_t groups_count;
    struct token_blocks groups[MIRROR_GROUPS_MAX];
};

struct token_cache;

/* 0 and *out, or -ENOMEM. */
int token_cache_new(struct token_cache **out, size_t bytes_max) MUST_CHECK;

void token_cache_free(struct token_cache *cache);

/*
 * What is known of a conversation for these block sizes: true and *prompt,
 * whose keys are good until the next call on the cache. False: nothing.
 */
bool token_cache_find(struct token_cache *cache,
                      const struct conversation *conversation,
                      const uint32_t *block_tokens, uint32_t sizes_count,
                      struct token_prompt *prompt);

/* Keeps the tokens of a whole prompt: cut into blocks of each size below
 * root. The entry may be refused (too large for the bound): nothing is lost
 * but the knowledge. */
void token_cache_add(struct token_cache *cache,
                     const struct conversation *conversation, uint64_t root,
                     const uint32_t *tokens, uint32_t count,
                     const uint32_t *block_tokens, uint32_t sizes_count);

struct token_cache_stats {
    size_t bytes;
    uint64_t entries;
    uint64_t whole;  /* lookups that found everything */
    uint64_t prefix; /* ... an earlier turn */
    uint64_t missed;
    uint64_t evicted;
};

void token_cache_stats(const struct token_cache *cache,
                       struct token_cache_stats *stats);

bool token_cache_check(const struct token_cache *cache, const char **reason);

#endif
