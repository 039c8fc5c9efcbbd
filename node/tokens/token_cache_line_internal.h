/*
 * Lines of keys and the turns along them: private to the token cache.
 *
 * Role: core. Owns: what the cache owns. Thread: the one that has the cache's
 * lock; any for a line that is not in it yet.
 */
#ifndef NODE_TOKEN_CACHE_LINE_INTERNAL_H
#define NODE_TOKEN_CACHE_LINE_INTERNAL_H

#include <uv.h>

#include "node/tokens/token_cache.h"

struct turn {
    struct turn *next_hashed; /* in its bucket */
    struct turn *next;        /* of its line, in no order */
    struct line *line;
    uint64_t name;
    uint32_t bytes;                    /* of its text */
    uint32_t tokens;                   /* of its prompt, in blocks or not */
    bool whole;                        /* no later turn has shortened it */
    uint32_t count[MIRROR_GROUPS_MAX]; /* its blocks in each group */
};

struct line {
    struct line *warmer; /* used more recently */
    struct line *colder;
    struct turn *turns;
    uint32_t turns_count; /* never 0 in a cache */
    uint32_t groups_count;
    uint32_t grains[MIRROR_GROUPS_MAX]; /* index/shape.h */
    uint32_t count[MIRROR_GROUPS_MAX];
    uint64_t keys[]; /* of one group behind those of the other */
};

struct token_cache {
    size_t bytes_max; /* the lock is not for this */
    uv_mutex_t lock;
    struct turn **buckets;
    size_t buckets_count; /* a power of two */
    struct line *warmest;
    struct line *coldest;
    struct token_cache_stats stats;
};

/* Fills in *shape, a line without keys: how many full blocks `count` tokens
 * make at each of the grains_count grains (at most MIRROR_GROUPS_MAX, none 0).
 */
void token_line_shape(struct line *shape, uint32_t count,
                      const uint32_t *grains, uint32_t grains_count);

/* Bytes of memory that the line takes with its keys; a shape will do. */
size_t token_line_size(const struct line *line);

/* The keys of one group (below groups_count), line->count[group] of them. */
static inline const uint64_t *
token_line_keys(const struct line *line, uint32_t group)
{
    const uint64_t *keys = line->keys;

    CHECK(group < MIRROR_GROUPS_MAX);
    for (uint32_t g = 0; g < group; g++) {
        keys += line->count[g];
    }
    return keys;
}

/* Whether both have the same grains in the same order. */
bool token_line_same_grains(const struct line *a, const struct line *b);

/* Computes all keys of the line below `root`; tokens are as many as its shape
 * was made for. */
void token_line_fill(struct line *line, uint64_t root,
                     const struct token_text *prompt);

/* Puts a line into the cache, as the warmest; the cache owns it now. */
void token_line_enter(struct token_cache *cache, struct line *line);

/* Makes a line of the cache the warmest. */
void token_line_touch(struct token_cache *cache, struct line *line);

/* Removes and frees a turn, and its line too if that was its last turn. */
void token_line_forget(struct token_cache *cache, struct turn *turn);

/* Removes and frees a line and its turns. */
void token_line_drop(struct token_cache *cache, struct line *line);

/* Gives all turns of `from` to `line`, each shortened to the keys that the two
 * lines share, and frees `from`. Both are in the cache, with the same grains. */
void token_line_merge(struct token_cache *cache, struct line *line,
                      struct line *from);

#endif
