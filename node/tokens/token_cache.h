/*
 * Remembers how conversations were tokenized, as block keys, so that an
 * engine's renderer is asked only once for a long shared prefix.
 *
 * A conversation is named by a chain of keys, one for each message: the last
 * names the whole, and each key before it names a prefix that an earlier turn
 * may have been. A turn holds the keys of all full blocks of one rendered
 * prompt, for every grain that was in use, and its count of tokens. A
 * lookup finds the whole conversation, or else its longest earlier turn: the
 * blocks of that turn begin this prompt too, so the result is exact as far as
 * it goes.
 *
 * It is wrong for templates that rewrite history (drop the reasoning of earlier
 * turns, move the tools) or open the answer differently from how they show it
 * later. Then a prefix promises some blocks that this prompt does not have,
 * which costs a cache miss there and nothing else. Once the later turn itself
 * was tokenized, the earlier one is shortened to what both share. Members of
 * messages that the scanner ignores (such as tool_call_id) are not part of a
 * name. Neither is the template: if an engine restarts with another one, the
 * cache is wrong until the conversation is tokenized again.
 *
 * The turns of one conversation share one line of keys, the longest turn's;
 * each turn knows how far along it goes. So n turns cost what the last one
 * costs, not n / 2 times that; and a line is the unit of eviction. (Linked
 * suffixes would also share the beginnings of different conversations, but each
 * lookup would have to collect keys through all turns, and a parent would
 * outlive its use.) A turn that does not continue the line's longest turn (a
 * branch) begins a line of its own.
 *
 * All lanes share it, because a conversation's turns come to any of them. A
 * lock is held while names are looked up and keys copied, or a line linked;
 * never while tokens are hashed.
 *
 * Cost: adding hashes all tokens, because only that shows where prompts differ:
 * 63 us for 131072 of them; naming 400 KB of text takes 24 us. A lookup takes
 * one step in a hash table per message after the turn that is found: 1.7 us
 * when none of 1024 is known.
 *
 * Role: core, behind a lock. Owns: its lines. Thread: any. Limits: bytes_max,
 * the least recently used lines are evicted; CONVERSATION_MAX messages. Errors:
 * named outcomes.
 */
#ifndef NODE_TOKEN_CACHE_H
#define NODE_TOKEN_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "node/scan/scan.h"
#include "node/tokens/token_media.h"
#include "node/view/mirror_view.h"

#define CONVERSATION_MAX 1024

/* A conversation's names; of one with more messages, those of the first and
 * of the last half of CONVERSATION_MAX. */
struct conversation {
    uint64_t keys[CONVERSATION_MAX];  /* of all up to the message */
    uint32_t bytes[CONVERSATION_MAX]; /* of text up to there, unescaped */
    uint32_t count;
};

/*
 * Names the prompt in a scanned body: its messages or its string, under
 * everything that changes how it is rendered (API, model, tools, and the
 * options that scan.h keeps), and the namespace root. Different escapes of one text
 * give one name; options and tools count as they are written. Of several
 * strings the first counts. A prompt that is truncated has one name, for the
 * whole. There are no names (count 0) for a prompt of token
 * ids, for no prompt or no messages, and when the scanner had no room for all
 * spans.
 */
void conversation_name(struct conversation *conversation, const char *body,
                       const struct scan *scan, uint64_t root);

/* The blocks of a prompt at one grain (index/shape.h). */
struct token_blocks {
    uint32_t grain;
    uint32_t count;
    const uint64_t *keys;
};

struct token_prompt {
    /* Of the whole prompt. Unless `whole` an estimate: as many for each byte
     * of text as the earlier turn had, and not fewer than that had. */
    uint32_t tokens;
    bool whole; /* it has every full block; false: it has those of an earlier
                   turn, or those that a later turn left of this one */
    uint32_t covered_bytes; /* bytes of the conversation's text that the blocks
                               cover */
    uint64_t name; /* of the turn that was found: token_cache_forget() */
    uint32_t groups_count;
    struct token_blocks groups[MIRROR_GROUPS_MAX];
};

/* Where a lookup puts keys. */
struct token_room {
    uint64_t *keys; /* count_max for each grain that is asked for */
    uint32_t count_max;
};

/* A whole prompt in tokens; borrowed. */
struct token_text {
    const uint32_t *tokens;
    uint32_t count;
    const struct token_media *media; /* NULL: none */
};

struct token_cache;

/* 0 and *out, which the caller frees with token_cache_free(), or -ENOMEM.
 * bytes_max bounds all its memory; below about a KiB it keeps nothing. */
int token_cache_new(struct token_cache **out, size_t bytes_max) MUST_CHECK;

/* Frees all of it. NULL is fine. */
void token_cache_free(struct token_cache *cache);

/*
 * What is known of a conversation for these grains: true and *prompt, a
 * group for each grain in their order, whose keys are copied to the room: as
 * many as it takes, and then the prompt is not whole. At most MIRROR_GROUPS_MAX
 * grains. Turns that were not split into blocks of all these are skipped,
 * and so are earlier turns without a full block. False: nothing is known, and
 * *prompt is unchanged.
 */
bool token_cache_find(struct token_cache *cache,
                      const struct conversation *conversation,
                      const uint32_t *grains, uint32_t grains_count,
                      const struct token_room *room,
                      struct token_prompt *prompt);

/*
 * Keeps the keys of a whole prompt, split into blocks of each
 * grain (at most MIRROR_GROUPS_MAX, none 0) below root. Replaces an
 * earlier entry of the same name. Tokens are borrowed for the call. A prompt
 * that exceeds the bound or finds no memory is refused, which is counted.
 */
void token_cache_add(struct token_cache *cache,
                     const struct conversation *conversation, uint64_t root,
                     const struct token_text *prompt, const uint32_t *grains,
                     uint32_t grains_count);

/* What was found under that name was wrong: drops it and all turns that share
 * its keys. Harmless when it is gone. */
void token_cache_forget(struct token_cache *cache, uint64_t name);

struct token_cache_stats {
    size_t bytes; /* all that is allocated, never more than bytes_max */
    uint64_t turns;
    uint64_t lines;
    uint64_t whole;  /* lookups that found everything */
    uint64_t prefix; /* ... an earlier turn, or less than everything */
    uint64_t missed;
    uint64_t evicted; /* turns that gave way to others */
    uint64_t refused; /* turns that did not fit, or found no memory */
};

/* Copies the counters and levels of now. */
void token_cache_stats(struct token_cache *cache,
                       struct token_cache_stats *stats);

/* Verifies every invariant, while nobody else uses it. False and *reason
 * (static text) when one is broken, else *reason is NULL. */
bool token_cache_check(const struct token_cache *cache, const char **reason);

#endif
