/*
 * Members over many seeds. Each seed draws a size of 3..16 and runs
 * - calm: ten minutes at 10 % loss, 10 % doubled, 50 ms jitter: nobody dies;
 * - death: one crashes; how long until nobody counts it in;
 * - partition: two halves, a minute, healed; how long until all see all;
 * - storm: crashes, restarts here and elsewhere, pauses, goodbyes, one-way and
 *   links severed both ways, loss; then calm, and all see all.
 * Invariants hold after each call. Ends with a summary.
 *
 *   property_member SEEDS [FIRST]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "member_net.h"

#define HOSTS_MAX 16U

/* Spans seen, in microseconds. */
struct spans {
    uint64_t *us;
    size_t len;
    size_t size;
};

static struct net net;
static uint64_t seed;
static const char *phase;
static struct spans deaths;
static struct spans deaths_lossy;
static struct spans heals;
static struct spans settles;
static uint64_t suspicions;
static uint64_t calm_member_s;

/* Who sees what, for whoever looks for the fault. */
static void
describe(void)
{
    struct member_info info;

    for (uint32_t i = 0; i < NET_HOSTS; i++) {
        const struct net_host *h = &net.host[i];
        if (h->table == NULL) {
            continue;
        }
        printf("host %u %s #%llu:", i, h->name,
               (unsigned long long)h->id.word[1]);
        for (uint32_t at = 0; member_get(h->table, at, &info); at++) {
            printf(" %s#%llu@%.11s:%s/%u", info.update.name,
                   (unsigned long long)info.update.id.word[1],
                   info.update.address,
                   member_state_name((enum member_state)info.update.state),
                   info.update.incarnation);
        }
        printf("\n");
    }
}

static void
failed(const char *reason)
{
    describe();
    printf("property_member: %s: %s, seed %llu, at %.3f s\n", phase, reason,
           (unsigned long long)seed, (double)(net.now_us - 1000 * NET_S) / 1e6);
    exit(1);
}

#define REQUIRE(condition)      \
    do {                        \
        if (!(condition)) {     \
            failed(#condition); \
        }                       \
    } while (0)

static void
add(struct spans *spans, uint64_t us)
{
    if (spans->len == spans->size) {
        spans->size = spans->size * 2 + 64;
        spans->us = realloc(spans->us, spans->size * sizeof *spans->us);
        CHECK(spans->us != NULL);
    }
    spans->us[spans->len++] = us;
}

static int
by_size(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;

    return (*x > *y) - (*x < *y);
}

static void
show(const char *what, struct spans *spans)
{
    if (spans->len == 0) {
        return;
    }
    qsort(spans->us, spans->len, sizeof *spans->us, by_size);
    printf("%-28s n %6zu  p50 %5.2f s  p99 %5.2f s  max %5.2f s\n", what,
           spans->len, (double)spans->us[spans->len / 2] / 1e6,
           (double)spans->us[spans->len * 99 / 100] / 1e6,
           (double)spans->us[spans->len - 1] / 1e6);
    free(spans->us);
}

static uint32_t
below(uint32_t bound)
{
    return (uint32_t)rng_below(&net.rng, bound);
}

static void
bad_network(void)
{
    net.loss_permille = 100;
    net.double_permille = 100;
    net.jitter_us = 50 * NET_MS;
}

static void
good_network(void)
{
    net.loss_permille = 0;
    net.double_permille = 0;
    net.jitter_us = NET_MS;
}

static void
begin(const char *name, uint32_t hosts)
{
    net_init(&net, seed);
    net.failed = failed;
    phase = name;
    net_mesh(&net, hosts, 5 * NET_S);
    REQUIRE(net_converge(&net, 0) == 0);
}

static void
calm(uint32_t hosts)
{
    begin("calm", hosts);
    bad_network();
    net_run(&net, 600 * NET_S);
    for (uint32_t i = 0; i < hosts; i++) {
        REQUIRE(net.host[i].events[MEMBER_DIED] == 0);
        REQUIRE(net.host[i].events[MEMBER_DUPLICATE] == 0);
        suspicions += net.host[i].events[MEMBER_SUSPECTED];
    }
    calm_member_s += UINT64_C(600) * hosts;
    net_fini(&net);
}

static void
death(uint32_t hosts, bool lossy)
{
    begin("death", hosts);
    if (lossy) {
        bad_network();
    }
    net_run(&net, 10 * NET_S + below(1000) * NET_MS);
    uint32_t host = below(hosts);
    struct member_id id = net.host[host].id;

    net_crash(&net, host);
    uint64_t us = net_excluded(&net, id, 20 * NET_S);
    REQUIRE(us != UINT64_MAX);
    add(lossy ? &deaths_lossy : &deaths, us);
    net_run(&net, 5 * NET_S);
    for (uint32_t i = 0; i < hosts; i++) {
        REQUIRE(net.host[i].table == NULL ||
                net.host[i].events[MEMBER_DIED] == 1);
    }
    net_fini(&net);
}

static void
partition(uint32_t hosts)
{
    uint64_t all = (UINT64_C(1) << hosts) - 1;

    begin("partition", hosts);
    uint64_t one = 1 + rng_below(&net.rng, all - 1);
    net_split(&net, one, all & ~one);
    net_run(&net, (5 + below(120)) * NET_S);
    net_heal(&net);
    uint64_t us = net_converge(&net, 20 * NET_S);
    REQUIRE(us != UINT64_MAX);
    add(&heals, us);
    net_fini(&net);
}

/* Somewhere nobody lives, or HOSTS_MAX. */
static uint32_t
empty_host(void)
{
    uint32_t host = below(HOSTS_MAX);

    for (uint32_t i = 0; i < HOSTS_MAX; i++) {
        if (net.host[(host + i) % HOSTS_MAX].table == NULL) {
            return (host + i) % HOSTS_MAX;
        }
    }
    return HOSTS_MAX;
}

static uint32_t
living_host(void)
{
    uint32_t host = below(HOSTS_MAX);

    while (net.host[host].table == NULL) {
        host = (host + 1) % HOSTS_MAX;
    }
    return host;
}

static uint32_t
living(void)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < HOSTS_MAX; i++) {
        count += net.host[i].table != NULL;
    }
    return count;
}

/* A process comes up somewhere: under a name that nobody living has. */
static void
come(void)
{
    uint32_t host = empty_host();
    uint32_t seed_host = living_host();
    char name[MEMBER_NAME_MAX];

    if (host == HOSTS_MAX) {
        return;
    }
    (void)snprintf(name, sizeof name, "node-%u", below(HOSTS_MAX));
    for (uint32_t i = 0; i < HOSTS_MAX; i++) {
        if (net.host[i].table != NULL && strcmp(net.host[i].name, name) == 0) {
            return;
        }
    }
    net_start(&net, host, name, seed_host);
}

static void
trouble(void)
{
    uint32_t host = living_host();

    switch (below(8)) {
    case 0:
        if (living() > 2) {
            net_crash(&net, host);
            if (below(2) == 0) {
                net_links(&net, host, false);
            }
        }
        break;
    case 1:
        if (living() > 2 && net.now_us >= net.host[host].paused_until_us) {
            net_leave(&net, host);
        }
        break;
    case 2:
        net_pause(&net, host, below(10000) * NET_MS);
        break;
    case 3:
        net_sever(&net, rng_next(&net.rng) & 0xFFFF,
                  rng_next(&net.rng) & 0xFFFF, true);
        break;
    case 4:
        net_heal(&net);
        break;
    default:
        come();
        break;
    }
}

/* What DNS says now and then: where someone is. Who joined through one that
 * died before it said a word knows nobody else. */
static void
discover(void)
{
    uint32_t there = living_host();

    for (uint32_t i = 0; i < HOSTS_MAX; i++) {
        net_hint(&net, i, there);
    }
}

static bool
sleeping(void)
{
    for (uint32_t i = 0; i < HOSTS_MAX; i++) {
        if (net.host[i].table != NULL &&
            net.now_us < net.host[i].paused_until_us) {
            return true;
        }
    }
    return false;
}

static void
storm(uint32_t hosts)
{
    begin("storm", hosts);
    bad_network();
    for (uint32_t i = 0; i < 60; i++) {
        trouble();
        net_run(&net, below(3000) * NET_MS);
    }
    net_heal(&net);
    good_network();
    while (sleeping()) {
        net_run(&net, 10 * NET_MS);
    }
    discover();
    for (uint32_t i = 0; i < HOSTS_MAX; i++) {
        REQUIRE(net.host[i].table == NULL ||
                net.host[i].events[MEMBER_DUPLICATE] == 0);
    }
    uint64_t us = net_converge(&net, 60 * NET_S);
    REQUIRE(us != UINT64_MAX);
    add(&settles, us);
    net_run(&net, 30 * NET_S);
    REQUIRE(net_converge(&net, 0) == 0);
    net_fini(&net);
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 10;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    for (seed = first; seed < first + seeds; seed++) {
        uint32_t hosts = 3 + (uint32_t)(rng_mix(seed) % 14);
        calm(hosts);
        for (uint32_t i = 0; i < 10; i++) {
            seed += (uint64_t)i << 32;
            death(hosts, false);
            death(hosts, true);
            partition(hosts);
            storm(hosts);
            seed -= (uint64_t)i << 32;
        }
    }
    show("death to excluded", &deaths);
    show("the same, 10 % loss, jitter", &deaths_lossy);
    show("partition healed", &heals);
    show("storm settled", &settles);
    printf("property_member: %llu seeds, %.1f member hours at 10 %% loss: "
           "0 false deaths, %llu suspicions\n",
           (unsigned long long)seeds, (double)calm_member_s / 3600,
           (unsigned long long)suspicions);
    return 0;
}
