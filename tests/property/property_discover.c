/*
 * Discovery in a bad world: what DNS names changes all the time, answers come
 * late, out of order, twice, never, or fail, members come and go, time jumps
 * and the node starts anew. At every step the core's invariants hold, no name
 * is looked up twice at a time, and nothing is hinted that neither an answer
 * nor the configuration named. Once all is well, every address that DNS names is
 * hinted within one poll, and one that it no longer names is hinted no more
 * after missed_max answers.
 *
 *   property_discover SEEDS [FIRST]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mesh/discover.h"

#define MS         UINT64_C(1000)
#define S          UINT64_C(1000000)
#define HOSTS      24U /* addresses that a name may stand for: 10.0.0.N */
#define NAMES      5U  /* of hosts: joins a, b; targets t0, t1, t2 */
#define TARGETS    3U
#define FLIGHT     64U
#define CHAOS_STEP 400U
#define MISSED_MAX 3U
#define FIXED      "10.0.0.99:7001"

static const char *const names[NAMES] = {"a.test", "b.test", "t0.test",
                                         "t1.test", "t2.test"};

struct flight {
    uint64_t at_us;
    uint64_t ticket;
    uint32_t name; /* NAMES: the service */
    enum discover_outcome outcome;
    uint32_t named; /* addresses or targets, a bit each, when it was asked */
};

static struct world {
    struct discover d;
    struct rng rng;
    uint64_t seed;
    uint64_t now_us;
    uint32_t named[NAMES + 1]; /* bits: what DNS says now */
    uint32_t told[NAMES];      /* bits: what any answer said in this life */
    uint64_t open[NAMES + 1];  /* ticket in progress; 0: none */
    struct flight flight[FLIGHT];
    uint32_t flights;
    uint32_t hinted; /* bits of addresses since the last clearing */
    bool fixed_hinted;
} w;

static void
fault(const char *what)
{
    printf("property_discover: %s, at %llu ms, seed %llu\n", what,
           (unsigned long long)(w.now_us / MS), (unsigned long long)w.seed);
    exit(1);
}

static uint32_t
below(uint64_t bound)
{
    return (uint32_t)rng_below(&w.rng, bound);
}

static void
ask(const struct discover_out *out, bool bad)
{
    uint32_t name = 0;

    while (name < NAMES && strcmp(out->name, names[name]) != 0) {
        name++;
    }
    if ((name == NAMES) != (out->lookup == DISCOVER_SERVICE)) {
        fault("a name is looked up that nobody gave");
    }
    w.open[name] = out->ticket;
    uint32_t copies = bad ? below(10) : 1;
    copies = copies == 0 ? 0 : copies == 1 && bad ? 2 : 1;
    for (uint32_t i = 0; i < copies && w.flights < FLIGHT; i++) {
        enum discover_outcome outcome = DISCOVER_FOUND;
        if (bad && below(4) == 0) {
            outcome = (enum discover_outcome)(DISCOVER_ABSENT + below(3));
        }
        w.flight[w.flights++] = (struct flight){
            .at_us = w.now_us + (bad ? below(8000) : below(50)) * MS,
            .ticket = out->ticket,
            .name = name,
            .outcome = outcome,
            .named = w.named[name]};
    }
}

/* Of any name that this address was told of. */
static bool
was_told(uint32_t host)
{
    uint32_t all = 0;

    for (uint32_t i = 0; i < NAMES; i++) {
        all |= w.told[i];
    }
    return (all >> host & 1) != 0;
}

static void
hinted(const char *address)
{
    unsigned host = 0;
    unsigned port = 0;

    if (strcmp(address, FIXED) == 0) {
        w.fixed_hinted = true;
        return;
    }
    if (sscanf(address, "10.0.0.%u:%u", &host, &port) != 2 || host >= HOSTS ||
        port != 7001 || !was_told(host)) {
        fault("an address is hinted that nobody named");
    }
    w.hinted |= UINT32_C(1) << host;
}

static void
pull(bool bad)
{
    struct discover_out out;
    const char *reason;

    while (discover_next_out(&w.d, &out)) {
        if (out.kind == DISCOVER_OUT_RESOLVE) {
            ask(&out, bad);
        } else if (out.kind == DISCOVER_OUT_HINT) {
            hinted(out.address);
        }
    }
    if (!discover_check(&w.d, &reason)) {
        fault(reason);
    }
}

static void
answer(const struct flight *f, bool bad)
{
    static struct discover_ip ips[HOSTS];
    static struct discover_target targets[TARGETS];
    struct discover_answer a = {.ticket = f->ticket, .outcome = f->outcome};

    for (uint32_t i = 0; i < HOSTS && f->outcome == DISCOVER_FOUND; i++) {
        if ((f->named >> i & 1) == 0) {
            continue;
        }
        if (f->name < NAMES) {
            ips[a.ips_count++] = (struct discover_ip){
                .size = 4, .bytes = {10, 0, 0, (uint8_t)i}};
        } else {
            struct discover_target *t = &targets[a.targets_count++];
            t->port = 7001;
            (void)snprintf(t->name, sizeof t->name, "%s", names[2 + i]);
        }
    }
    a.ips = ips;
    a.targets = targets;
    if (w.open[f->name] == f->ticket) {
        w.open[f->name] = 0;
        if (f->name < NAMES && f->outcome == DISCOVER_FOUND) {
            w.told[f->name] |= f->named;
        }
    }
    discover_answered(&w.d, &a, w.now_us);
    pull(bad);
}

/* Answers that are due, in the order in which they happen to lie. */
static void
deliver(bool bad)
{
    for (uint32_t i = 0; i < w.flights;) {
        struct flight f = w.flight[i];
        if (f.at_us > w.now_us) {
            i++;
            continue;
        }
        w.flight[i] = w.flight[--w.flights];
        answer(&f, bad);
    }
}

static void
start(void)
{
    static const char *const joins[] = {"dns:a.test:7001", "b.test:7001",
                                        "srv:_k._tcp.test", FIXED};
    struct discover_config config = discover_config_default();

    config.missed_max = MISSED_MAX;
    discover_init(&w.d, &config, w.now_us, rng_next(&w.rng));
    w.flights = 0; /* whoever was asked before answers nobody */
    memset(w.told, 0, sizeof w.told);
    memset(w.open, 0, sizeof w.open);
    for (uint32_t i = 0; i < 4; i++) {
        struct discover_join join;
        CHECK(discover_parse(slice_of(joins[i]), &join) == NULL);
        CHECK(discover_add(&w.d, &join, w.now_us) == 0);
    }
    pull(true);
}

static void
change_dns(void)
{
    uint32_t name = below(NAMES + 1);
    uint32_t bits = name == NAMES ? TARGETS : HOSTS;

    w.named[name] ^= UINT32_C(1) << below(bits);
    if (below(10) == 0) {
        w.named[name] = 0; /* the name is gone for a while */
    }
}

static void
break_something(void)
{
    change_dns();
    if (below(40) == 0) {
        start();
    }
    if (below(3) == 0) {
        discover_members(&w.d, below(4), w.now_us);
        pull(true);
    }
    if (below(50) == 0) {
        discover_tick(&w.d, w.now_us - below(5) * S); /* an older time */
        pull(true);
    }
}

static void
pass(uint64_t us, bool bad)
{
    uint64_t end_us = w.now_us + us;

    while (w.now_us < end_us) {
        w.now_us += 10 * MS;
        deliver(bad);
        if (discover_deadline(&w.d) <= w.now_us) {
            discover_tick(&w.d, w.now_us);
            pull(bad);
        }
    }
}

/* Addresses that DNS names now by names that are joins or targets now. */
static uint32_t
truth(void)
{
    uint32_t all = w.named[0] | w.named[1];

    for (uint32_t i = 0; i < TARGETS; i++) {
        if ((w.named[NAMES] >> i & 1) != 0) {
            all |= w.named[2 + i];
        }
    }
    return all;
}

static void
run(uint64_t seed)
{
    uint64_t poll_us = discover_config_default().poll_ms * MS;

    memset(&w, 0, sizeof w);
    rng_init(&w.rng, seed);
    w.seed = seed;
    w.now_us = 10 * S;
    for (uint32_t i = 0; i < NAMES; i++) {
        w.named[i] = UINT32_C(1) << below(HOSTS);
    }
    start();
    for (uint32_t i = 0; i < CHAOS_STEP; i++) {
        break_something();
        pass(below(1000) * MS, true);
    }
    /* All is well from now on; what is still under way may be wrong. A lookup
     * that got lost is asked again after half a minute. */
    for (uint32_t i = 0; i < NAMES; i++) {
        w.named[i] |= UINT32_C(1) << i; /* each name has an address */
    }
    w.named[NAMES] |= 1;
    discover_members(&w.d, 2, w.now_us);
    pass(90 * S, false);
    pass((MISSED_MAX + 2) * 2 * poll_us, false);
    w.hinted = 0;
    w.fixed_hinted = false;
    pass(2 * poll_us, false);
    if ((truth() & ~w.hinted) != 0) {
        fault("an address that DNS names is not hinted");
    }
    if ((w.hinted & ~truth()) != 0) {
        fault("an address is hinted that DNS has not named for long");
    }
    if (!w.fixed_hinted) {
        fault("the configuration's address is not hinted");
    }
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    for (uint64_t i = 0; i < seeds; i++) {
        run(first + i);
    }
    printf("%llu seeds from %llu\n", (unsigned long long)seeds,
           (unsigned long long)first);
    return 0;
}
