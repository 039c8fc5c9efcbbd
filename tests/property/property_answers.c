/*
 * The cache against a model that remembers every answer with its time: what it
 * gives is the latest that was kept under that name, no older than it may be and
 * not cleared; a name has one flight at a time; counts and bounds hold.
 *
 *   property_answers ROUNDS SEED
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "node/answers/answers_table_internal.h"

#define NAMES 40U
#define STEPS 2000U

struct told {
    struct answers_key key;
    struct answers_flight *flight; /* NULL: none */
    bool stale;
    bool followed;
    uint64_t kept; /* which one; 0: none */
    uint64_t since_us;
};

static struct told told[NAMES];
static uint64_t seed_now;

static void
must(bool condition, const char *why)
{
    if (!condition) {
        printf("seed %llu: %s\n", (unsigned long long)seed_now, why);
        exit(1);
    }
}

static void
ask(struct answers_table *table, struct rng *rng, uint64_t now_us)
{
    struct told *t = &told[rng_below(rng, NAMES)];
    struct answers_asker asker = {
        .lane = (uint32_t)rng_below(rng, 64),
        .leads = rng_below(rng, 3) != 0,
        .anew = rng_below(rng, 10) == 0,
    };
    struct answers_got got;
    uint64_t number;

    if (asker.anew) {
        t->kept = 0;
    }
    switch (answers_table_ask(table, &t->key, &asker, now_us, &got)) {
    case ANSWERS_HIT:
        memcpy(&number, got.answer->body, sizeof(number));
        must(number == t->kept, "an answer is another one's, or old");
        must(now_us < t->since_us + table->ttl_us, "an answer is too old");
        answers_table_put((struct answers_kept *)(uintptr_t)got.answer);
        break;
    case ANSWERS_FLYING:
        must(t->flight != NULL && !t->stale && !asker.anew, "no such flight");
        t->followed = true;
        break;
    case ANSWERS_LEADS:
        must(t->flight == NULL && asker.leads, "two flights of one name");
        t->flight = got.flight;
        t->stale = t->followed = false;
        t->kept = 0;
        break;
    case ANSWERS_NONE:
        must(t->flight == NULL ? !asker.leads : t->stale || asker.anew,
             "sent off for nothing");
        break;
    }
}

static void
land(struct answers_table *table, struct rng *rng, uint64_t now_us,
     uint64_t number)
{
    struct told *t = &told[rng_below(rng, NAMES)];
    struct answers_kept *answer = NULL;

    if (t->flight == NULL) {
        return;
    }
    if (rng_below(rng, 5) != 0) {
        answer = answers_kept_new(sizeof(number) +
                                  rng_below(rng, table->bytes_max / 3));
        must(answer != NULL, "no memory");
        memcpy(answer->body, &number, sizeof(number));
        t->kept = t->stale ? 0 : number;
        t->since_us = now_us;
    }
    uint64_t lanes = answers_table_land(table, t->flight, answer, now_us);
    must((lanes != 0) == t->followed, "followers are not told, or none are");
    t->flight = NULL;
}

static void
clear(struct answers_table *table, struct rng *rng)
{
    struct answers_which which = {
        .tenants = rng_below(rng, 2) != 0,
        .models = rng_below(rng, 2) != 0,
        .tenant = rng_below(rng, 3),
        .model = rng_below(rng, 2),
    };

    (void)answers_table_clear(table, &which);
    for (unsigned i = 0; i < NAMES; i++) {
        if ((!which.tenants || told[i].key.tenant == which.tenant) &&
            (!which.models || told[i].key.model == which.model)) {
            told[i].kept = 0;
            told[i].stale = true;
        }
    }
}

static void
play(struct rng *rng)
{
    struct answers_table table;
    uint64_t now_us = 0;

    must(answers_table_init(&table, 4096 + rng_below(rng, 60000),
                            1 + rng_below(rng, 3000)) == 0,
         "no memory");
    memset(told, 0, sizeof(told));
    for (unsigned i = 0; i < NAMES; i++) {
        told[i].key = (struct answers_key){
            .name = {i / 6, i % 2}, .tenant = i % 3, .model = i / 3 % 2};
    }
    for (unsigned i = 1; i <= STEPS; i++) {
        uint64_t what = rng_below(rng, 20);
        now_us += rng_below(rng, 30);
        if (what < 11) {
            ask(&table, rng, now_us);
        } else if (what < 19) {
            land(&table, rng, now_us, i);
        } else if (rng_below(rng, 10) == 0) {
            clear(&table, rng);
        }
        must(answers_table_check(&table), "its counts are wrong");
    }
    for (unsigned i = 0; i < NAMES; i++) {
        if (told[i].flight != NULL) {
            (void)answers_table_land(&table, told[i].flight, NULL, now_us);
        }
    }
    must(table.stats.flights == 0, "flights are left");
    answers_table_fini(&table);
}

int
main(int argc, char **argv)
{
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct rng rng;

    for (unsigned long i = 0; i < rounds; i++) {
        seed_now = seed + i;
        rng_init(&rng, seed_now);
        play(&rng);
    }
    printf("%lu rounds of %u steps, all as remembered\n", rounds, STEPS);
    return 0;
}
