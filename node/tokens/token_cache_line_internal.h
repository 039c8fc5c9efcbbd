/*
 * Lines of keys and the turns along them: private to the token cache.
 *
 * Role: core. Owns: what the cache owns. Thread: the cache's.
 */
#ifndef NODE_TOKEN_CACHE_LINE_INTERNAL_H
#define NODE_TOKEN_CACHE_LINE_INTERNAL_H

#include "node/tokens/token_cache.h"

struct turn {
    struct turn *next_hashed; /* in its bucket */
    struct turn *next;        /* of its line, in no order */
    struct line *line;
    uint64_t name;
    uint32_t bytes;                    /* of its text */
    uint32_t tokens;                   /* of its prompt, in blocks or not */
    bool whole;                        /* no later turn has cut it */
    uint32_t count[MIRROR_GROUPS_MAX]; /* its blocks in each group */
};

struct line {
    struct line *warmer; /* used more recently */
    struct line *colder;
    struct turn *turns;
    uint32_t turns_count; /* never 0 in a cache */
    uint32_t groups_count;
    uint32_t block_tokens[MIRROR_GROUPS_MAX];
    uint32_t count[MIRROR_GROUPS_MAX];
    uint64_t keys[]; /* of one group behind those of the other */
};

struct token_cache {
    size_t bytes_max;
    struct turn **buckets;
    size_t buckets_count; /* a power of two */
    struct line *warmest;
    struct line *coldest;
    struct token_cache_stats stats;
};

/* What a line of count tokens will be, but for its keys. */
void token_line_shape(struct line *shape, uint32_t count,
                      const uint32_t *block_tokens, uint32_t sizes_count);

/* With its keys; bytes. */
size_t token_line_size(const struct line *line);

static inline const uint64_t *
token_line_keys(const struct line *line, uint32_t group)
{
    const uint64_t *keys = line->keys;

    for (uint32_t g = 0; g < group; g++) {
        keys += line->count[g];
    }
    return keys;
}

bool token_line_same_sizes(const struct line *a, const struct line *b);

/* Hashes the tokens, as many as its shape was made for. */
void token_line_fill(struct line *line, uint64_t root, const uint32_t *tokens);

/* Puts a line into the cache, as the warmest. */
void token_line_enter(struct token_cache *cache, struct line *line);

/* It was used now. */
void token_line_touch(struct token_cache *cache, struct line *line);

/* Removes a turn; and its line, when it was the last. */
void token_line_forget(struct token_cache *cache, struct turn *turn);

/* Removes a line and its turns. */
void token_line_drop(struct token_cache *cache, struct line *line);

/* Gives all turns of `from` to line, each cut to what the two share, and frees
 * it. */
void token_line_merge(struct token_cache *cache, struct line *line,
                      struct line *from);

#endif
