/*
 * Lanes that ask for the same few names at once, take off, land and wait, while
 * control clears: an answer is whole and that of its name for as long as it is
 * held, a name has one flight at a time, and whoever waits is told.
 *
 *   stress_answers [ROUNDS]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/counter.h"
#include "index/base/rng.h"
#include "node/answers/answers.h"

#define LANES     4U
#define NAMES     32U
#define OPEN_MAX  6U /* flights of a lane at a time */
#define LEN_MAX   2000U
#define BYTES_MAX ((size_t)1 << 20)

struct lane {
    pthread_t thread;
    uint32_t number;
    struct rng rng;
    uint64_t rounds;
    struct answers_flight *flight[NAMES];
    uint32_t open;
    bool waits[NAMES];
    uint32_t told; /* how often, as far as was looked at */
    uint64_t hits;
};

static struct answers *answers;
static struct gauge flying[NAMES];
static struct gauge told[LANES];
static struct gauge done;

#define REQUIRE(condition)                                                  \
    do {                                                                    \
        if (!(condition)) {                                                 \
            printf("stress_answers: %s (line %d)\n", #condition, __LINE__); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static struct answers_key
key_of(uint32_t name)
{
    return (struct answers_key){
        .name = {name / 2, 7}, .tenant = name % 2, .model = name % 3};
}

static void
read_answer(const struct answers_kept *answer, uint32_t name)
{
    REQUIRE(answer->len <= LEN_MAX);
    for (size_t i = 0; i < answer->len; i++) {
        REQUIRE((unsigned char)answer->body[i] == name);
    }
}

static struct answers_kept *
make_answer(struct lane *lane, uint32_t name)
{
    struct answers_kept *answer =
        answers_kept_new(rng_below(&lane->rng, LEN_MAX));

    REQUIRE(answer != NULL);
    memset(answer->body, (int)name, answer->len);
    return answer;
}

static void
land(struct lane *lane, uint32_t name)
{
    struct answers_key key = key_of(name);
    struct answers_kept *answer =
        rng_below(&lane->rng, 4) != 0 ? make_answer(lane, name) : NULL;

    gauge_add(&flying[name], -1);
    uint64_t lanes =
        answers_land(answers, &key, lane->flight[name], answer, lane->rounds);
    lane->flight[name] = NULL;
    lane->open--;
    for (uint32_t i = 0; i < LANES; i++) {
        gauge_add(&told[i], (int32_t)(lanes >> i & 1));
    }
    REQUIRE(lanes >> LANES == 0);
}

static enum answers_found
ask(struct lane *lane, uint32_t name, bool leads)
{
    struct answers_key key = key_of(name);
    struct answers_asker asker = {.lane = lane->number, .leads = leads};
    struct answers_got got;
    enum answers_found found =
        answers_ask(answers, &key, &asker, lane->rounds, &got);

    if (found == ANSWERS_HIT) {
        read_answer(got.answer, name);
        answers_give_back(answers, &key, got.answer);
        lane->hits++;
    } else if (found == ANSWERS_LEADS) {
        gauge_add(&flying[name], 1);
        REQUIRE(gauge_read(&flying[name]) == 1);
        lane->flight[name] = got.flight;
        lane->open++;
    }
    return found;
}

/* As a lane does that was woken. */
static void
look(struct lane *lane)
{
    uint32_t now = gauge_read(&told[lane->number]);

    if (now == lane->told) {
        return;
    }
    lane->told = now;
    for (uint32_t name = 0; name < NAMES; name++) {
        if (lane->waits[name]) {
            lane->waits[name] = ask(lane, name, false) == ANSWERS_FLYING;
        }
    }
}

static void *
run(void *argument)
{
    struct lane *lane = argument;
    uint64_t rounds = lane->rounds;

    for (lane->rounds = 0; lane->rounds < rounds; lane->rounds++) {
        uint32_t name = (uint32_t)rng_below(&lane->rng, NAMES);
        if (lane->flight[name] != NULL) {
            land(lane, name);
        } else if (!lane->waits[name]) {
            lane->waits[name] =
                ask(lane, name, lane->open < OPEN_MAX) == ANSWERS_FLYING;
        }
        look(lane);
    }
    for (uint32_t name = 0; name < NAMES; name++) {
        if (lane->flight[name] != NULL) {
            land(lane, name);
        }
    }
    gauge_add(&done, 1);
    return NULL;
}

static void
clear(struct rng *rng)
{
    struct answers_which which = {.tenants = true,
                                  .tenant = rng_below(rng, 2),
                                  .models = rng_below(rng, 2) != 0,
                                  .model = rng_below(rng, 3)};
    struct answers_stats stats;

    (void)answers_clear(answers, &which);
    answers_stats(answers, &stats);
    REQUIRE(stats.bytes <= BYTES_MAX);
}

int
main(int argc, char **argv)
{
    static struct lane lanes[LANES];
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
    struct answers_stats stats;
    struct rng rng;
    uint64_t hits = 0;

    rng_init(&rng, 1);
    REQUIRE(answers_new(&answers, BYTES_MAX, 10, 1) == 0);
    for (uint32_t i = 0; i < LANES; i++) {
        lanes[i].number = i;
        lanes[i].rounds = rounds;
        rng_init(&lanes[i].rng, i + 2);
        REQUIRE(pthread_create(&lanes[i].thread, NULL, run, &lanes[i]) == 0);
    }
    while (gauge_read(&done) != LANES) {
        clear(&rng);
    }
    for (uint32_t i = 0; i < LANES; i++) {
        REQUIRE(pthread_join(lanes[i].thread, NULL) == 0);
        hits += lanes[i].hits;
    }
    answers_stats(answers, &stats);
    REQUIRE(stats.flights == 0);
    for (uint32_t i = 0; i < LANES; i++) {
        look(&lanes[i]);
        for (uint32_t name = 0; name < NAMES; name++) {
            REQUIRE(!lanes[i].waits[name]);
        }
    }
    answers_free(answers);
    printf("%llu rounds of %u lanes, %llu hits\n", (unsigned long long)rounds,
           LANES, (unsigned long long)hits);
    return 0;
}
