/*
 * Lanes that remember, look up and forget turns of the same few conversations at
 * once, in little memory: each key that is found is that of its conversation, and
 * the cache is whole in the end.
 *
 *   stress_token_cache [ROUNDS]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "index/base/rng.h"
#include "index/index.h"
#include "node/tokens/token_cache.h"

#define LANES     4U
#define TALKS     8U
#define TURNS_MAX 12U
#define TURN      40U /* tokens that each turn adds */
#define SIZE      16U
#define BYTES_MAX 6000U
#define ROOT      5U

struct lane {
    pthread_t thread;
    struct rng rng;
    uint64_t rounds;
    uint64_t found;
};

static struct token_cache *cache;
static uint32_t tokens[TALKS][TURNS_MAX * TURN];
static uint64_t keys[TALKS][TURNS_MAX * TURN / SIZE];

#define REQUIRE(condition)                                           \
    do {                                                             \
        if (!(condition)) {                                          \
            printf("stress_token_cache: %s (line %d)\n", #condition, \
                   __LINE__);                                        \
            exit(1);                                                 \
        }                                                            \
    } while (0)

static void
make_talks(void)
{
    for (uint32_t t = 0; t < TALKS; t++) {
        uint64_t key = ROOT;
        for (uint32_t i = 0; i < TURNS_MAX * TURN; i++) {
            tokens[t][i] = t * 100000 + i;
        }
        for (uint32_t i = 0; i < TURNS_MAX * TURN / SIZE; i++) {
            key = key_next(key, tokens[t] + (size_t)i * SIZE,
                           SIZE * sizeof(tokens[t][0]));
            keys[t][i] = key;
        }
    }
}

static void
look(struct lane *lane, const struct conversation *c, uint32_t talk)
{
    static const uint32_t size = SIZE;
    uint64_t copied[TURNS_MAX * TURN / SIZE];
    struct token_room room = {copied, TURNS_MAX * TURN / SIZE};
    struct token_prompt prompt;

    if (!token_cache_find(cache, c, &size, 1, &room, &prompt)) {
        return;
    }
    lane->found++;
    REQUIRE(prompt.groups[0].count <= c->count * TURN / SIZE);
    for (uint32_t i = 0; i < prompt.groups[0].count; i++) {
        REQUIRE(prompt.groups[0].keys[i] == keys[talk][i]);
    }
    if (rng_below(&lane->rng, 16) == 0) {
        token_cache_forget(cache, prompt.name);
    }
}

static void *
run(void *context)
{
    static const uint32_t size = SIZE;
    struct lane *lane = context;

    for (uint64_t i = 0; i < lane->rounds; i++) {
        uint32_t talk = (uint32_t)rng_below(&lane->rng, TALKS);
        struct conversation c = {
            .count = 1 + (uint32_t)rng_below(&lane->rng, TURNS_MAX)};
        for (uint32_t k = 0; k < c.count; k++) {
            c.keys[k] = talk * 1000 + k;
            c.bytes[k] = (k + 1) * 100;
        }
        if (rng_below(&lane->rng, 3) == 0) {
            struct token_text text = {.tokens = tokens[talk],
                                      .count = c.count * TURN};
            token_cache_add(cache, &c, ROOT, &text, &size, 1);
        } else {
            look(lane, &c, talk);
        }
    }
    return NULL;
}

int
main(int argc, char **argv)
{
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;
    struct lane lanes[LANES];
    struct token_cache_stats stats;
    const char *reason;
    uint64_t found = 0;

    make_talks();
    REQUIRE(token_cache_new(&cache, BYTES_MAX) == 0);
    for (uint32_t i = 0; i < LANES; i++) {
        lanes[i] = (struct lane){.rounds = rounds};
        rng_init(&lanes[i].rng, i + 1);
        REQUIRE(pthread_create(&lanes[i].thread, NULL, run, &lanes[i]) == 0);
    }
    for (uint32_t i = 0; i < LANES; i++) {
        REQUIRE(pthread_join(lanes[i].thread, NULL) == 0);
        found += lanes[i].found;
    }
    token_cache_stats(cache, &stats);
    REQUIRE(token_cache_check(cache, &reason));
    REQUIRE(found > 0 && found == stats.whole + stats.prefix);
    REQUIRE(rounds < 1000 || stats.evicted > 0);
    token_cache_free(cache);
    printf("found %llu, evicted %llu\n", (unsigned long long)found,
           (unsigned long long)stats.evicted);
    return 0;
}
