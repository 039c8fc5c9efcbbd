/*
 * Whole nodes over many seeds. Each seed draws 2..7 nodes, 1..6 workers, how
 * many read each, and runs
 * - storm: partitions, crashes, goodbyes, starts, pauses, engines that restart
 *   or cannot be reached, workers put and removed on any node, under loss,
 *   doubling and jitter;
 * - calm: everything is healed, but that some nodes reach some engines no
 *   more; all meet, know the same workers and have the engines' state within
 *   HEAL_MS, and within READ_MS each worker is read by as many nodes as it
 *   should be, and by nobody else; and so it stays;
 * - death: one crashes; its workers are read elsewhere, and what is published
 *   is seen everywhere.
 * Invariants hold after each call. Ends with a summary.
 *
 *   property_cluster SEEDS [FIRST]
 */
#include <stdio.h>
#include <stdlib.h>

#include "cluster_net.h"

#define STORM_MS 20000U
#define HEAL_MS  15000U
#define READ_MS  20000U
#define DEATH_MS 10000U

struct spans {
    uint64_t *ms;
    uint32_t count;
};

static struct net net;
static uint64_t seed;
static uint32_t hosts;
static uint32_t specs;
static struct spans meets;
static struct spans equals;
static struct spans reads;
static struct spans deaths;
static struct spans lags;
static struct gossip_stats sum;

static void
fail(const char *what)
{
    printf("property_cluster: %s, seed %llu\n", what, (unsigned long long)seed);
    net_print(&net);
    exit(1);
}

static void
add_span(struct spans *spans, uint64_t ms)
{
    spans->ms[spans->count++] = ms;
}

static uint32_t
below(uint64_t bound)
{
    return (uint32_t)rng_below(&net.rng, bound);
}

static bool
chance(uint32_t of_100000)
{
    return below(100000) < of_100000;
}

static bool
lives(uint32_t host)
{
    return net.host[host].cluster != NULL;
}

static void
change_workers(uint32_t host)
{
    struct roster *roster = cluster_roster(net.host[host].cluster);
    char id[16];
    char spec[16];

    (void)snprintf(id, sizeof id, "w%u", below(net.workers));
    (void)snprintf(spec, sizeof spec, "spec %u", ++specs);
    int rc = 0;
    switch (below(4)) {
    case 0:
        rc = roster_remove(roster, id, net.now_us);
        break;
    case 1:
        rc = roster_drain(roster, id, below(2) == 0, net.now_us);
        break;
    default:
        rc = roster_put(roster, id, slice_of(spec), net.now_us);
        break;
    }
    if (rc < 0) {
        fail("the roster has no memory");
    }
    net_pull(&net, host);
}

static void
break_host(uint32_t host)
{
    bool runs = lives(host) && net.now_us >= net.host[host].paused_until_us;

    if (!lives(host)) {
        if (chance(100)) {
            net_start(&net, host);
        }
    } else if (chance(10)) {
        net_crash(&net, host);
    } else if (runs && chance(5)) {
        net_leave(&net, host);
    } else if (runs && chance(10)) {
        net_pause(&net, host, 1 + below(8000));
    } else if (chance(20)) {
        bool *severed = &net.host[host].engine_severed[below(net.workers)];
        *severed = !*severed;
    } else if (runs && chance(20)) {
        change_workers(host);
    }
}

static void
storm(void)
{
    for (uint32_t ms = 0; ms < STORM_MS; ms++) {
        if (chance(50)) {
            uint32_t groups = below(1U << hosts);
            net_heal(&net);
            net_split(&net, groups, ~groups);
        } else if (chance(50)) {
            net_heal(&net);
        } else if (chance(10)) {
            uint32_t a = below(hosts);
            net.severed[a][below(hosts)] = true; /* one way */
        }
        if (chance(10)) {
            net_engine_restart(&net, below(net.workers));
        }
        break_host(below(hosts));
        net_step(&net);
    }
}

static void
begin(void)
{
    net_init(&net, seed);
    hosts = 2 + below(6);
    net.ranks = 1 + below(NET_RANKS);
    net.loss_permille = below(2) == 0 ? below(100) : 0;
    net.double_permille = below(2) == 0 ? below(100) : 0;
    net.jitter_us = below(2) == 0 ? 500 : below(40000);
    net.batch_ms = 2 + below(40);
    net.dns = (1U << hosts) - 1;
    net.config.replicas = 1 + below(3);
    net.config.replicas_all = below(5);
    net.config.hand_over_ms = 1000 + below(4000);
    net.config.gossip.log_records = 40 + below(100); /* which are walked */
    net_mesh(&net, hosts, 1 + below(NET_WORKERS));
    for (uint32_t i = 0; i < hosts; i++) {
        for (uint32_t w = 0; w < net.workers; w++) {
            net.configured[i][w] = below(2) == 0;
        }
    }
}

/* All is well, but some cannot reach some engines; somebody can. */
static void
calm(void)
{
    net_heal(&net);
    net.loss_permille = 0;
    net.batch_ms = 0;
    for (uint32_t i = 0; i < hosts; i++) {
        net.host[i].paused_until_us = 0;
        if (!lives(i)) {
            net_start(&net, i);
        }
        for (uint32_t w = 0; w < net.workers; w++) {
            net.host[i].engine_severed[w] = i > 0 && below(5) == 0;
        }
    }
}

static bool
same_workers(void)
{
    uint64_t digest = roster_digest(cluster_roster(net.host[0].cluster));

    for (uint32_t i = 1; i < NET_HOSTS; i++) {
        if (lives(i) &&
            roster_digest(cluster_roster(net.host[i].cluster)) != digest) {
            return false;
        }
    }
    return true;
}

static bool
all_agree(struct net *n)
{
    return same_workers() && net_all_equal(n);
}

static void
check_ready(void)
{
    for (uint32_t i = 0; i < hosts; i++) {
        if (lives(i) && net.host[i].ready == CLUSTER_CATCHING_UP) {
            fail("a node is not ready");
        }
    }
}

static void
heal(void)
{
    calm();
    for (uint32_t ms = 0; ms < 100; ms++) {
        net_step(&net); /* who reaches its engine again says so */
    }
    uint64_t met = net_until(&net, net_all_met, HEAL_MS);
    if (met == NET_NEVER) {
        fail("not all met");
    }
    uint64_t equal = net_until(&net, all_agree, HEAL_MS);
    if (equal == NET_NEVER) {
        fail(same_workers() ? "not all equal" : "workers differ");
    }
    uint64_t read = net_until(&net, net_all_read, READ_MS);
    if (read == NET_NEVER) {
        fail("not read by those who should");
    }
    add_span(&meets, met);
    add_span(&equals, met + equal);
    add_span(&reads, met + equal + read);
    for (uint32_t ms = 0; ms < 3000; ms++) {
        net_step(&net);
        if (!net_all_met(&net) || !all_agree(&net)) {
            fail("agreement does not last");
        }
        if (!net_all_read(&net)) {
            fail("readers change for no reason");
        }
    }
    check_ready();
}

static void
die(void)
{
    uint32_t victim = 1 + below(hosts - 1); /* 0 can reach all engines */

    net.batch_ms = 10;
    net_run(&net, 500);
    net.lag_max_us = 0;
    net_crash(&net, victim);
    uint64_t ms = net_until(&net, net_all_met, DEATH_MS);
    uint64_t read =
        ms != NET_NEVER ? net_until(&net, net_all_read, DEATH_MS) : NET_NEVER;
    if (read == NET_NEVER) {
        fail("a dead node's workers are not read elsewhere");
    }
    net_run(&net, 500);
    add_span(&deaths, ms + read);
    add_span(&lags, net.lag_max_us / 1000);
    net.batch_ms = 0;
    if (net_until(&net, all_agree, 2000) == NET_NEVER) {
        fail("a death left a gap");
    }
}

static void
add_stats(void)
{
    for (uint32_t i = 0; i < hosts; i++) {
        if (!lives(i)) {
            continue;
        }
        struct gossip_stats stats = net_gossip(&net, i);
        uint64_t *to = (uint64_t *)(void *)&sum;
        for (size_t k = 0; k < sizeof stats / sizeof *to; k++) {
            to[k] += ((const uint64_t *)(const void *)&stats)[k];
        }
    }
}

static void
run(void)
{
    begin();
    storm();
    heal();
    die();
    add_stats();
    net_fini(&net);
}

static int
compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void
print_spans(const char *name, struct spans *spans)
{
    qsort(spans->ms, spans->count, sizeof *spans->ms, compare);
    printf("  %-34s p50 %llu p90 %llu p99 %llu max %llu ms\n", name,
           (unsigned long long)spans->ms[spans->count / 2],
           (unsigned long long)spans->ms[spans->count * 9 / 10],
           (unsigned long long)spans->ms[spans->count * 99 / 100],
           (unsigned long long)spans->ms[spans->count - 1]);
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct spans *all[] = {&meets, &equals, &reads, &deaths, &lags};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        all[i]->ms = calloc(seeds, sizeof(uint64_t));
    }
    for (uint64_t i = 0; i < seeds; i++) {
        seed = first + i;
        run();
    }
    printf("%llu seeds from %llu\n", (unsigned long long)seeds,
           (unsigned long long)first);
    print_spans("healed to all met", &meets);
    print_spans("healed to equal digests", &equals);
    print_spans("healed to read as it should be", &reads);
    print_spans("death to read elsewhere", &deaths);
    print_spans("a batch to seen, over a death", &lags);
    printf("  rereads %llu, takeovers %llu, transfers %llu of them done %llu, "
           "digest mismatches %llu\n",
           (unsigned long long)sum.rereads, (unsigned long long)sum.takeovers,
           (unsigned long long)sum.transfers,
           (unsigned long long)sum.transfers_done,
           (unsigned long long)sum.digest_mismatches);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]->ms);
    }
    return 0;
}
