/*
 * The token cache against a model that remembers every turn with all of its
 * tokens: what the cache answers must be true of the prompt that was added
 * under that name, and what it may not have dropped must be there.
 *
 *   property_token_cache ROUNDS SEED
 */
#include <stdio.h>
#include <stdlib.h>

#include "index/base/rng.h"
#include "index/index.h"
#include "node/tokens/token_cache.h"

#define TURNS_MAX  4096
#define TOKENS_MAX 600
#define DEEP       12

struct told {
    uint64_t name;
    uint32_t count;
    uint32_t bytes;
    uint32_t tokens[TOKENS_MAX];
};

struct model {
    struct rng rng;
    struct token_cache *cache;
    struct told told[TURNS_MAX];
    uint32_t count;
    bool roomy;  /* the bound is never reached */
    bool steady; /* histories are never rewritten, grains are the same */
};

static uint64_t seed_now;

static void
die(const char *why)
{
    printf("seed %llu: %s\n", (unsigned long long)seed_now, why);
    exit(1);
}

static void
must(bool condition, const char *why)
{
    if (!condition) {
        die(why);
    }
}

static uint64_t
below(struct model *m, uint64_t n)
{
    return rng_below(&m->rng, n);
}

static struct told *
told_of(struct model *m, uint64_t name)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->told[i].name == name) {
            return &m->told[i];
        }
    }
    return NULL;
}

/* A path in a tree of few branches: many conversations share beginnings. */
static void
make_conversation(struct model *m, struct conversation *c)
{
    uint64_t key = below(m, 3);
    uint32_t bytes = 0;

    c->count = 1 + (uint32_t)below(m, DEEP);
    for (uint32_t i = 0; i < c->count; i++) {
        key = rng_mix(key * 4 + (below(m, 10) == 0 ? below(m, 4) : 0));
        bytes += 1 + (uint32_t)(key % 90);
        c->keys[i] = key;
        c->bytes[i] = bytes;
    }
}

/* The tokens of a conversation follow from its names: a later turn's begin
 * with an earlier one's, but for rewritten ones. */
static uint32_t
make_tokens(struct model *m, const struct conversation *c, uint32_t *tokens)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < c->count; i++) {
        for (uint32_t k = (uint32_t)(c->keys[i] >> 8) % 50; k > 0; k--) {
            tokens[count] = (uint32_t)(c->keys[i] + k);
            count++;
        }
    }
    if (!m->steady && count != 0 && below(m, 4) == 0) {
        tokens[below(m, count)] ^= 1;
    }
    return count;
}

/* Some look ahead. */
static uint32_t
make_grains(struct model *m, uint32_t *grains)
{
    const uint32_t some[] = {shape_grain_of(1, 3), 4, shape_grain_of(16, 1),
                             24};
    uint32_t count = m->steady ? 2 : 1 + (uint32_t)below(m, MIRROR_GROUPS_MAX);
    uint32_t from = m->steady ? 1 : (uint32_t)below(m, 4);

    for (uint32_t i = 0; i < count; i++) {
        grains[i] = some[(from + i) % 4];
    }
    return count;
}

static void
add(struct model *m)
{
    struct conversation c;
    uint32_t grains[MIRROR_GROUPS_MAX];
    uint32_t grains_count = make_grains(m, grains);
    struct told *told;

    make_conversation(m, &c);
    told = told_of(m, c.keys[c.count - 1]);
    if (told == NULL && m->count < TURNS_MAX) {
        told = &m->told[m->count++];
    }
    if (told == NULL) {
        return;
    }
    told->name = c.keys[c.count - 1];
    told->bytes = c.bytes[c.count - 1];
    told->count = make_tokens(m, &c, told->tokens);
    token_cache_add(
        m->cache, &c, 5,
        &(struct token_text){.tokens = told->tokens, .count = told->count},
        grains, grains_count);
}

/* The key of a turn's block behind the block of that key. */
static uint64_t
key_behind(uint64_t key, const struct told *told, uint32_t block,
           uint32_t grain)
{
    uint32_t size = shape_tokens(grain);
    const uint32_t *tokens = told->tokens + (size_t)block * size;

    return key_next_apart(key, key_ahead(0, tokens + size, shape_ahead(grain)),
                          tokens, size * sizeof(*tokens));
}

/* How many blocks of the turn the group has; each of them must be right. */
static void
check_group(const struct token_blocks *group, const struct told *told,
            uint32_t grain, bool whole)
{
    uint32_t most = shape_blocks(grain, told->count);
    uint64_t key = 5;

    must(group->grain == grain, "another grain");
    must(group->count <= most, "too many blocks");
    must(!whole || group->count == most, "too few blocks");
    for (uint32_t i = 0; i < group->count; i++) {
        key = key_behind(key, told, i, grain);
        must(group->keys[i] == key, "a wrong block");
    }
}

static void
check_found(struct model *m, const struct conversation *c,
            const struct token_prompt *p, const uint32_t *grains,
            uint32_t grains_count, uint32_t longest)
{
    struct told *told = NULL;
    uint32_t at = c->count;

    /* By the bytes that are covered one knows which turn it is, when steady. */
    while (told == NULL && at-- > 0) {
        told = told_of(m, c->keys[at]);
        if (m->steady && told != NULL && p->covered_bytes != c->bytes[at]) {
            told = NULL;
        }
    }
    must(told != NULL, "something from nothing");
    must(p->groups_count == grains_count, "another count of groups");
    if (m->steady) {
        must(at == longest || !m->roomy, "a longer turn is known");
        must(p->whole == (at + 1 == c->count), "whole or not");
        for (uint32_t i = 0; i < grains_count; i++) {
            check_group(&p->groups[i], told, grains[i], true);
        }
        uint64_t tokens =
            told->bytes == 0
                ? told->count
                : (uint64_t)told->count * c->bytes[c->count - 1] / told->bytes;
        must(p->tokens == tokens, "another estimate");
    } else if (p->whole) {
        told = told_of(m, c->keys[c->count - 1]);
        must(told != NULL && p->tokens == told->count, "another count");
        must(p->covered_bytes == told->bytes, "other bytes");
        for (uint32_t i = 0; i < grains_count; i++) {
            check_group(&p->groups[i], told, grains[i], true);
        }
    }
}

/* Some turn along the conversation begins with these blocks. */
static void
check_prefix(struct model *m, const struct conversation *c,
             const struct token_blocks *group)
{
    bool found = group->count == 0;

    for (uint32_t i = 0; i < c->count && !found; i++) {
        const struct told *told = told_of(m, c->keys[i]);
        uint64_t key = 5;
        uint32_t k = 0;
        if (told == NULL ||
            shape_blocks(group->grain, told->count) < group->count) {
            continue;
        }
        for (; k < group->count; k++) {
            key = key_behind(key, told, k, group->grain);
            if (key != group->keys[k]) {
                break;
            }
        }
        found = k == group->count;
    }
    must(found, "blocks that no turn has");
}

static void
find(struct model *m)
{
    struct conversation c;
    struct token_prompt p;
    uint32_t grains[MIRROR_GROUPS_MAX];
    uint32_t grains_count = make_grains(m, grains);
    uint32_t longest = UINT32_MAX;
    static uint64_t keys[MIRROR_GROUPS_MAX * TOKENS_MAX];
    struct token_room room = {keys, TOKENS_MAX};

    make_conversation(m, &c);
    for (uint32_t i = 0; i < c.count; i++) {
        const struct told *told = told_of(m, c.keys[i]);
        bool last = i + 1 == c.count;
        if (told != NULL && (last || told->count >= 4)) {
            longest = i;
        }
    }
    if (!token_cache_find(m->cache, &c, grains, grains_count, &room, &p)) {
        must(!m->roomy || !m->steady || longest == UINT32_MAX,
             "what was added is gone");
        return;
    }
    check_found(m, &c, &p, grains, grains_count, longest);
    for (uint32_t i = 0; i < grains_count; i++) {
        check_prefix(m, &c, &p.groups[i]);
    }
}

static void
play(struct model *m)
{
    const char *reason = NULL;

    must(token_cache_new(&m->cache, m->roomy ? 1U << 28 : 20000) == 0,
         "no memory");
    for (unsigned step = 0; step < 400; step++) {
        if (below(m, 2) == 0) {
            add(m);
        } else {
            find(m);
        }
        must(token_cache_check(m->cache, &reason), reason);
    }
    token_cache_free(m->cache);
}

int
main(int argc, char **argv)
{
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    static struct model m;

    for (uint64_t i = 0; i < rounds; i++) {
        seed_now = seed + i;
        m.count = 0;
        rng_init(&m.rng, seed_now);
        m.roomy = seed_now % 2 == 0;
        m.steady = seed_now / 2 % 2 == 0;
        play(&m);
    }
    printf("%llu rounds\n", (unsigned long long)rounds);
    return 0;
}
