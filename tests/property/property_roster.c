/*
 * Rosters in a bad world: operators say anything on any node, frames are lost,
 * doubled and overtake each other, nodes are cut off and restart. At every
 * step the invariants hold, what CHANGED told is what the roster says, and
 * nothing runs backwards while its tombstone lives. After the world has healed
 * all nodes know the same: what one roster makes of all that was known then,
 * in any order.
 *
 *   property_roster SEEDS [FIRST]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gossip/roster.h"
#include "index/base/rng.h"

#define NODES_MAX 7U
#define IDS       8U
#define FLIGHTS   4096U
#define STEP_US   5000U
#define CHAOS     2000U /* steps */
#define QUIET_MAX 8000U

struct seen { /* of a worker by a node */
    uint64_t version;
    uint64_t until_us; /* removed: does not run backwards before */
    bool removed;
};

struct own {       /* what a node's configuration says of a worker */
    char spec[16]; /* "": nothing */
    uint64_t us;
};

struct node {
    struct roster *r;
    struct own own[IDS];
    uint64_t id;
    uint32_t side; /* of the partition */
    struct seen seen[IDS];
    bool told_removed[IDS];
    uint64_t told_version[IDS];
};

struct flight {
    uint64_t from, to, due_us;
    size_t len;
    uint8_t *bytes;
};

struct world {
    struct rng rng;
    struct roster_config config;
    struct node nodes[NODES_MAX];
    struct flight flights[FLIGHTS];
    uint32_t count, flights_count;
    uint64_t now_us, ids;
    bool bad;    /* frames are lost, doubled, late */
    bool full;   /* fewer entries than workers */
    bool silent; /* no operator says anything */
};

static uint64_t seed_now;
static struct world world;

static void
must(bool holds, const char *why)
{
    if (!holds) {
        printf("property_roster: %s, seed %llu\n", why,
               (unsigned long long)seed_now);
        exit(1);
    }
}

static uint64_t
below(struct world *w, uint64_t n)
{
    return rng_below(&w->rng, n);
}

static const char *
name(uint64_t n)
{
    static char text[8];

    snprintf(text, sizeof text, "w%u", (unsigned)n);
    return text;
}

/* Frames */

static void
post(struct world *w, uint64_t from, const struct roster_out *out)
{
    uint64_t copies = w->bad ? below(w, 10) : 5;

    copies = copies < 2 ? 0 : copies == 9 ? 2 : 1;
    for (uint64_t i = 0; i < copies && w->flights_count < FLIGHTS; i++) {
        struct flight *f = &w->flights[w->flights_count++];
        *f = (struct flight){.from = from,
                             .to = out->peer,
                             .due_us = w->now_us + below(w, 60000),
                             .len = out->len,
                             .bytes = malloc(out->len)};
        must(f->bytes != NULL, "memory");
        memcpy(f->bytes, out->bytes, out->len);
    }
}

static struct node *
node_of(struct world *w, uint64_t id)
{
    for (uint32_t i = 0; i < w->count; i++) {
        if (w->nodes[i].id == id) {
            return &w->nodes[i];
        }
    }
    return NULL;
}

static void
arrive(struct world *w, uint32_t at)
{
    struct flight f = w->flights[at];
    struct node *from = node_of(w, f.from);
    struct node *to = node_of(w, f.to);

    w->flights[at] = w->flights[--w->flights_count];
    if (to != NULL && from != NULL && from->side == to->side) {
        int rc = roster_recv(to->r, f.from, f.bytes, f.len, w->now_us);
        must(rc == 0 || rc == ROSTER_E_STRANGER, "a frame is refused");
    }
    free(f.bytes);
}

/* Looking at a node */

static void
look_at(struct world *w, struct node *node, const struct roster_entry *entry)
{
    uint64_t n = strtoull(entry->id + 1, NULL, 10);
    struct seen *seen = &node->seen[n];

    must(entry->version > 0, "a version of 0");
    if (entry->version < seen->version && !w->full) {
        must(seen->removed && w->now_us + 1000 > seen->until_us,
             "runs backwards");
    }
    must(node->told_version[n] == entry->version &&
             node->told_removed[n] == entry->removed,
         "not told");
    /* The age is of when the roster last heard the time. */
    uint64_t age_ms = entry->removed ? entry->age_ms : 0;
    uint64_t until_us = w->now_us + (w->config.tombstone_ms - age_ms) * 1000;
    if (entry->version == seen->version && seen->removed &&
        seen->until_us < until_us) {
        until_us = seen->until_us;
    }
    *seen = (struct seen){.version = entry->version,
                          .removed = entry->removed,
                          .until_us = until_us};
}

static void
pull(struct world *w, struct node *node)
{
    struct roster_out out;
    struct roster_entry entry;
    const char *reason = "";

    while (roster_next_out(node->r, &out)) {
        if (out.kind == ROSTER_SEND) {
            post(w, node->id, &out);
        } else {
            uint64_t n = strtoull(out.entry.id + 1, NULL, 10);
            node->told_version[n] = out.entry.version;
            node->told_removed[n] = out.entry.removed;
        }
    }
    must(roster_check(node->r, &reason), reason);
    for (uint32_t i = 0; roster_get(node->r, i, &entry); i++) {
        look_at(w, node, &entry);
    }
}

/* What happens */

static void
allow(const struct world *w, int rc)
{
    must(rc == 0 || (rc == ROSTER_E_FULL && w->full), "a word is refused");
}

static void
say(struct world *w, struct node *node)
{
    char spec[16];
    const char *id = name(below(w, w->ids));
    int len = snprintf(spec, sizeof spec, "s%u", (unsigned)below(w, 5));
    struct slice text = {.ptr = spec, .len = (size_t)len};

    switch (w->silent ? 3 : below(w, 4)) {
    case 0:
        allow(w, roster_put(node->r, id, text, w->now_us));
        break;
    case 1:
        allow(w, roster_drain(node->r, id, below(w, 2) == 0, w->now_us));
        break;
    case 2:
        allow(w, roster_remove(node->r, id, w->now_us));
        break;
    default:
        allow(w, roster_configure(node->r, id, text, w->now_us));
        struct own *own = &node->own[id[1] - '0'];
        memcpy(own->spec, spec, sizeof(own->spec));
        own->us = w->now_us;
    }
}

static void
link_all(struct world *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        for (uint32_t j = 0; j < w->count; j++) {
            if (i != j) {
                must(roster_peer_up(w->nodes[i].r, w->nodes[j].id, w->now_us) ==
                         0,
                     "a peer is refused");
            }
        }
    }
}

static void
start(struct world *w, struct node *node, uint64_t id)
{
    *node = (struct node){.id = id, .side = node->side};
    must(roster_new(&node->r, &w->config, w->now_us, id ^ seed_now) == 0,
         "memory");
}

/* The next process of a node: with what a snapshot had, or nothing. */
static void
restart(struct world *w, struct node *node)
{
    struct roster *old = node->r;
    struct roster_entry entry;
    bool keeps = below(w, 2) == 0;

    for (uint32_t i = 0; i < w->count; i++) {
        if (&w->nodes[i] != node) {
            roster_peer_down(w->nodes[i].r, node->id);
        }
    }
    start(w, node, node->id + NODES_MAX);
    for (uint32_t i = 0; keeps && roster_get(old, i, &entry); i++) {
        allow(w, roster_load(node->r, &entry, w->now_us));
    }
    roster_free(old);
    link_all(w);
}

static void
part(struct world *w)
{
    bool noticed = below(w, 2) == 0;

    for (uint32_t i = 0; i < w->count; i++) {
        w->nodes[i].side = (uint32_t)below(w, 3);
    }
    for (uint32_t i = 0; noticed && i < w->count; i++) {
        for (uint32_t j = 0; j < w->count; j++) {
            if (w->nodes[i].side != w->nodes[j].side) {
                roster_peer_down(w->nodes[i].r, w->nodes[j].id);
            }
        }
    }
}

static void
mend(struct world *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        w->nodes[i].side = 0;
    }
    link_all(w);
}

static void
step(struct world *w)
{
    w->now_us += STEP_US;
    for (uint32_t i = w->flights_count; i-- > 0;) {
        if (i < w->flights_count && w->flights[i].due_us <= w->now_us) {
            arrive(w, i);
            for (uint32_t n = 0; n < w->count; n++) {
                pull(w, &w->nodes[n]);
            }
        }
    }
    for (uint32_t i = 0; i < w->count; i++) {
        if (roster_deadline(w->nodes[i].r) <= w->now_us) {
            roster_tick(w->nodes[i].r, w->now_us);
            must(roster_deadline(w->nodes[i].r) > w->now_us, "never asleep");
        }
        pull(w, &w->nodes[i]);
    }
}

static void
happen(struct world *w)
{
    struct node *node = &w->nodes[below(w, w->count)];

    switch (below(w, 100)) {
    case 0:
        restart(w, node);
        break;
    case 1:
        part(w);
        break;
    case 2:
    case 3:
        mend(w);
        break;
    default:
        if (below(w, 4) == 0) {
            say(w, node);
        }
    }
    for (uint32_t i = 0; i < w->count; i++) {
        pull(w, &w->nodes[i]);
    }
}

/* The end */

/* What one roster makes of all that the nodes know, in some order. */
static uint64_t
expected(struct world *w)
{
    struct roster *sum = NULL;
    uint32_t first = (uint32_t)below(w, w->count);

    must(roster_new(&sum, &w->config, w->now_us, 1) == 0, "memory");
    for (uint32_t i = 0; i < w->count; i++) {
        struct roster_entry entry;
        struct roster *r = w->nodes[(first + i) % w->count].r;
        for (uint32_t at = 0; roster_get(r, at, &entry); at++) {
            allow(w, roster_load(sum, &entry, w->now_us));
        }
    }
    uint64_t digest = roster_digest(sum);
    roster_free(sum);
    return digest;
}

static bool
agree(const struct world *w)
{
    for (uint32_t i = 1; i < w->count; i++) {
        if (roster_digest(w->nodes[i].r) != roster_digest(w->nodes[0].r)) {
            return false;
        }
    }
    return true;
}

static uint64_t
contradictions(const struct world *w)
{
    struct roster_stats stats;
    uint64_t all = 0;

    for (uint32_t i = 0; i < w->count; i++) {
        roster_stats(w->nodes[i].r, &stats);
        all += stats.contradicted;
    }
    return all;
}

/* Of a configured worker no node has a configuration that is younger than the
 * one that holds. */
static void
look_at_configured(const struct world *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        const struct node *node = &w->nodes[i];
        struct roster_entry entry;
        for (uint32_t at = 0; roster_get(node->r, at, &entry); at++) {
            const struct own *own = &node->own[entry.id[1] - '0'];
            uint64_t age_us = (uint64_t)entry.age_ms * 1000;
            /* The age is of when the roster last heard the time. */
            uint64_t slack_us = (uint64_t)w->config.contradict_ms * 1000 +
                                (uint64_t)w->config.summary_ms * 2000;
            must(entry.version > ROSTER_OPERATION || own->spec[0] == '\0' ||
                     slice_equal(entry.spec, slice_of(own->spec)) ||
                     own->us <= w->now_us - age_us + slack_us,
                 "an older configuration holds");
        }
    }
}

static void
drop_flights(struct world *w)
{
    for (uint32_t i = 0; i < w->flights_count; i++) {
        free(w->flights[i].bytes);
    }
    w->flights_count = 0;
}

static void
begin(struct world *w, uint64_t seed)
{
    *w = (struct world){.now_us = 1000000, .bad = true};
    rng_init(&w->rng, seed);
    w->count = 2 + (uint32_t)below(w, NODES_MAX - 1);
    w->config = roster_config_default();
    w->config.frame_bytes = ROSTER_SPEC_MAX + 256;
    w->config.summary_ms = 300;
    w->config.jitter_ms = 100;
    w->config.contradict_ms = 200;
    w->ids = 1 + below(w, IDS);
    w->full = seed % 5 == 4;
    w->silent = seed % 5 == 2;
    if (w->full) {
        w->ids = IDS;
        w->config.entries_max = 3;
    }
    if (seed % 5 >= 3) {
        w->config.tombstone_ms = 1500;
    }
    for (uint32_t i = 0; i < w->count; i++) {
        start(w, &w->nodes[i], i + 1);
    }
    link_all(w);
}

/* Steps from healing to agreement. */
static uint32_t
run(struct world *w, uint64_t seed)
{
    uint32_t steps = 0;

    begin(w, seed);
    for (uint32_t i = 0; i < CHAOS; i++) {
        happen(w);
        step(w);
    }
    w->bad = false;
    drop_flights(w);
    mend(w);
    uint64_t digest = expected(w);
    /* With more workers than places nobody can know all of them. */
    uint64_t bids = contradictions(w);
    while (!w->full && !agree(w)) {
        must(steps++ < QUIET_MAX, "no agreement");
        step(w);
    }
    /* What a younger configuration contradicts is not what was known. */
    if (w->config.tombstone_ms > 60000 && !w->full &&
        contradictions(w) == bids) {
        must(roster_digest(w->nodes[0].r) == digest,
             "agreed on something else");
    }
    if (!w->full) {
        look_at_configured(w);
    }
    for (uint32_t i = 0; i < 400; i++) {
        step(w);
    }
    must(w->full || agree(w), "agreement does not last");
    for (uint32_t i = 0; i < w->count; i++) {
        struct roster_stats stats;
        roster_stats(w->nodes[i].r, &stats);
        must(w->config.tombstone_ms > 60000 || stats.removed == 0,
             "tombstones for ever");
        roster_free(w->nodes[i].r);
    }
    drop_flights(w);
    return steps;
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint32_t longest = 0;

    for (uint64_t seed = first; seed < first + seeds; seed++) {
        seed_now = seed;
        uint32_t steps = run(&world, seed);
        longest = steps > longest ? steps : longest;
    }
    printf("property_roster: %llu worlds, agreement after %u ms at most\n",
           (unsigned long long)seeds, longest * (STEP_US / 1000));
    return 0;
}
