/*
 * A reader's pushes reach all nodes, however many there are, in a few hops, and
 * cost it a constant number of frames: 3, 7, 20 and 64 nodes on a quiet
 * network, and then on one that loses frames, whose links break, and whose
 * nodes freeze and die. There everybody has everything in the end. Where nodes
 * know which half of the fleet they are in, a push crosses once.
 *
 *   property_spread SEEDS [FIRST]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gossip/gossip.h"
#include "index/base/rng.h"

#define NODES_MAX   64U
#define FLIGHT_MAX  100000U
#define MS          UINT64_C(1000)
#define BATCHES     570U  /* 3 s */
#define PERIOD_US   5263U /* 190 a second */
#define BLOCKS      16U   /* that a batch stores, a prompt's */
#define HELD        50U /* batches: then each removes what an old one stored */
#define WORDS_MAX   256U
#define HOP_US      300U /* up to twice that, in order on each link */
#define SEEN_P99_US (20 * MS)
#define FANOUT      4U
#define QUIET_MS    3000U
#define NOTICE_US   (100 * MS)  /* until a broken link is noticed */
#define SUSPECT_US  (1000 * MS) /* ... and a node that is frozen */

static const struct event_stream stream = {.worker = 7};

struct frame {
    uint64_t at_us;
    uint32_t from, to;
    uint8_t *bytes;
    size_t len;
};

struct node {
    struct gossip *g;
    bool frozen;
    bool dead;
    uint64_t seen;   /* batches applied, in order */
    uint64_t pushes; /* frames on the bulk channel */
};

struct world {
    struct rng rng;
    uint64_t now_us;
    uint32_t count;
    bool named; /* records tell the engine's names */
    struct node nodes[NODES_MAX];
    bool severed[NODES_MAX][NODES_MAX];
    uint64_t last_us[NODES_MAX][NODES_MAX]; /* of the link's last frame */
    uint32_t loss_permille;
    struct frame *flight;
    uint32_t flight_count;
    uint32_t parts;     /* of the fleet, as nodes know: by number; 1: none */
    uint64_t across;    /* bytes between nodes of even and of odd numbers */
    uint64_t crossings; /* ... and frames of the bulk channel */
    uint64_t born_us[BATCHES];
    uint32_t *delays_us;
    uint32_t delays_count;
};

static struct world w;

static void
fail(const char *what, uint64_t seed, uint64_t number)
{
    printf("property_spread: %s: %llu, %u nodes, seed %llu\n", what,
           (unsigned long long)number, w.count, (unsigned long long)seed);
    exit(1);
}

static uint64_t
id_of(uint32_t node)
{
    return node + 1;
}

static void
send_frame(uint32_t from, const struct gossip_out *out)
{
    uint32_t to = (uint32_t)out->peer - 1;
    bool lost = rng_below(&w.rng, 1000) < w.loss_permille;

    w.nodes[from].pushes += out->channel == GOSSIP_BULK;
    w.across += from % 2 != to % 2 ? out->len : 0;
    w.crossings += from % 2 != to % 2 && out->channel == GOSSIP_BULK;
    if (lost || w.severed[from][to] || w.nodes[to].dead ||
        w.flight_count == FLIGHT_MAX) {
        return;
    }
    uint64_t at_us = w.now_us + HOP_US + rng_below(&w.rng, HOP_US + 1);
    uint64_t *last_us = &w.last_us[from][to];

    *last_us = at_us > *last_us ? at_us : *last_us;
    struct frame *frame = &w.flight[w.flight_count++];
    *frame = (struct frame){.at_us = *last_us,
                            .from = from,
                            .to = to,
                            .bytes = malloc(out->len),
                            .len = out->len};
    memcpy(frame->bytes, out->bytes, out->len);
}

static void
apply(uint32_t node, const struct event_record *record, uint64_t seed)
{
    uint64_t batch = record->seq >> 8;

    if (batch != w.nodes[node].seen) {
        fail("a batch is applied out of turn", seed, batch);
    }
    w.nodes[node].seen++;
    if (node != 0) {
        w.delays_us[w.delays_count++] = (uint32_t)(w.now_us - w.born_us[batch]);
    }
}

static void
pull(uint32_t node, uint64_t seed)
{
    struct gossip_out out;

    while (gossip_next_out(w.nodes[node].g, &out)) {
        if (out.kind == GOSSIP_SEND) {
            send_frame(node, &out);
        } else if (out.kind == GOSSIP_APPLY) {
            apply(node, out.record, seed);
        } else if (out.kind == GOSSIP_EXPORT) {
            fail("a log did not reach back", seed, node);
        }
    }
}

static uint64_t
key_at(uint32_t batch, uint32_t i)
{
    return rng_mix(batch * BLOCKS + i);
}

/* The engine's. */
static uint64_t
name_at(uint32_t batch, uint32_t i)
{
    return rng_mix(~(uint64_t)(batch * BLOCKS + i));
}

static uint32_t
put_op(struct event_record *record, enum event_kind kind, uint32_t batch)
{
    uint64_t *at = record->words + record->words_count;

    at[0] = event_op(kind, TIER_DEVICE, BLOCKS);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        at[i + 1] = key_at(batch, i);
    }
    return BLOCKS + 1;
}

/* Behind the words of a record: the names that they are about. */
static void
put_names(struct event_record *record, uint32_t batch)
{
    struct names_said said = {.last = 0};

    words_init(&said.words, WORDS_MAX);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        names_say_enter(&said, &(struct names_block){
                                   .name = name_at(batch, i),
                                   .key = key_at(batch, i),
                                   .parent = i > 0 ? key_at(batch, i - 1) : 0,
                                   .has_parent = i > 0});
    }
    for (uint32_t i = 0; i < BLOCKS && batch >= HELD; i++) {
        names_say_leave(&said, name_at(batch - HELD, i));
    }
    if (said.words.failed) {
        abort();
    }
    memcpy(record->words + record->words_count, said.words.word,
           said.words.count * sizeof(uint64_t));
    record->names_count = EVENT_NAMED | (uint32_t)said.words.count;
    words_fini(&said.words);
}

static void
publish(uint32_t batch, uint64_t seed)
{
    static uint64_t
        room[sizeof(struct event_record) / sizeof(uint64_t) + WORDS_MAX];
    struct event_record *record = (void *)room;

    *record = (struct event_record){.seq = batch, .block_tokens = 16};
    record->words_count += put_op(record, EVENT_STORE, batch);
    if (batch >= HELD) {
        record->words_count += put_op(record, EVENT_REMOVE, batch - HELD);
    }
    if (w.named) {
        put_names(record, batch);
    }
    w.born_us[batch] = w.now_us;
    gossip_local_record(w.nodes[0].g, stream, record, batch, true, w.now_us);
    pull(0, seed);
}

/* The frame that is there next; flight_count: none. */
static uint32_t
next_frame(void)
{
    uint32_t next = 0;

    for (uint32_t i = 1; i < w.flight_count; i++) {
        next = w.flight[i].at_us < w.flight[next].at_us ? i : next;
    }
    return next;
}

static void
hand_over(uint32_t at, uint64_t seed)
{
    struct frame frame = w.flight[at];
    struct node *node = &w.nodes[frame.to];

    w.flight[at] = w.flight[--w.flight_count];
    if (!node->dead && !node->frozen) {
        int rc = gossip_recv(node->g, id_of(frame.from), frame.bytes, frame.len,
                             w.now_us);
        if (rc != 0 && rc != GOSSIP_E_STRANGER) {
            fail("a frame makes no sense", seed, frame.to);
        }
        pull(frame.to, seed);
    }
    free(frame.bytes);
}

static uint64_t
earliest_us(void)
{
    uint64_t at_us = UINT64_MAX;

    for (uint32_t i = 0; i < w.count; i++) {
        const struct node *node = &w.nodes[i];
        if (!node->dead && !node->frozen) {
            uint64_t due_us = gossip_deadline(node->g);
            at_us = due_us < at_us ? due_us : at_us;
        }
    }
    return at_us;
}

static void
tick_all(uint64_t seed)
{
    for (uint32_t i = 0; i < w.count; i++) {
        struct node *node = &w.nodes[i];
        if (!node->dead && !node->frozen &&
            gossip_deadline(node->g) <= w.now_us) {
            gossip_tick(node->g, w.now_us);
            pull(i, seed);
        }
    }
}

/* Everything that is due until then. */
static void
run_until(uint64_t end_us, uint64_t seed)
{
    for (;;) {
        uint32_t next = next_frame();
        uint64_t frame_us =
            w.flight_count > 0 ? w.flight[next].at_us : UINT64_MAX;
        uint64_t due_us = earliest_us();
        uint64_t at_us = frame_us < due_us ? frame_us : due_us;

        if (at_us > end_us) {
            w.now_us = end_us;
            return;
        }
        w.now_us = at_us > w.now_us ? at_us : w.now_us;
        if (frame_us <= due_us) {
            hand_over(next, seed);
        } else {
            tick_all(seed);
        }
    }
}

static void
meet(uint32_t node, uint32_t peer)
{
    struct gossip *g = w.nodes[node].g;
    uint32_t part = peer % w.parts;

    if (gossip_peer_up(g, id_of(peer), w.now_us) != 0) {
        abort();
    }
    gossip_peer_away(g, id_of(peer), part != node % w.parts ? 1 + part : 0);
}

static void
begin(uint32_t count, uint32_t parts, uint64_t seed)
{
    struct gossip_config config = gossip_config_default();

    rng_init(&w.rng, seed);
    w.now_us = 1;
    w.count = count;
    w.parts = parts;
    w.delays_us = calloc((size_t)count * BATCHES, sizeof *w.delays_us);
    w.flight = calloc(FLIGHT_MAX, sizeof *w.flight);
    for (uint32_t i = 0; i < count; i++) {
        if (gossip_new(&w.nodes[i].g, &config, id_of(i), w.now_us,
                       rng_next(&w.rng)) != 0 ||
            gossip_stream_add(w.nodes[i].g, stream, w.now_us) != 0) {
            abort();
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < count; k++) {
            if (k != i) {
                meet(i, k);
            }
        }
        gossip_role(w.nodes[i].g, stream, i == 0 ? 0 : GOSSIP_RANK_NONE,
                    i == 0 ? 0 : id_of(0), w.now_us);
    }
    gossip_local_begin(w.nodes[0].g, stream, 99, true, 0, w.now_us);
    gossip_local_live(w.nodes[0].g, stream, true, w.now_us);
}

static void
end(void)
{
    for (uint32_t i = 0; i < w.count; i++) {
        gossip_free(w.nodes[i].g);
    }
    while (w.flight_count > 0) {
        free(w.flight[--w.flight_count].bytes);
    }
    free(w.flight);
    free(w.delays_us);
    w = (struct world){.count = 0};
}

/* ---- a quiet network ---- */

static int
compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* CPU time of this process: of all nodes, and of this file's network. */
static double
cpu_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void
run_quiet(uint32_t count, uint32_t parts, uint32_t period_us, bool named,
          uint64_t seed)
{
    struct gossip_stats before;
    struct gossip_stats after;

    begin(count, parts, seed);
    w.named = named;
    run_until(100 * MS, seed);
    gossip_stats(w.nodes[0].g, &before);
    uint64_t pushes = w.nodes[0].pushes;
    uint64_t across = w.across;
    uint64_t crossings = w.crossings;
    double cpu = cpu_us();
    for (uint32_t i = 0; i < BATCHES; i++) {
        publish(i, seed);
        run_until(w.now_us + period_us, seed);
    }
    cpu = cpu_us() - cpu;
    gossip_stats(w.nodes[0].g, &after);
    pushes = w.nodes[0].pushes - pushes;
    across = w.across - across;
    crossings = w.crossings - crossings;
    run_until(w.now_us + QUIET_MS * MS, seed);
    for (uint32_t i = 0; i < count; i++) {
        if (w.nodes[i].seen != BATCHES) {
            fail("a node has less than the reader", seed, i);
        }
    }
    qsort(w.delays_us, w.delays_count, sizeof *w.delays_us, compare);
    uint32_t p99_us = w.delays_us[(size_t)w.delays_count * 99 / 100];
    double seconds = BATCHES * (double)period_us / 1e6;
    printf("%2u nodes, %4.0f batches/s, names %-3s: %.1f kB/s and %.1f pushes "
           "out of the reader per batch, %.1f kB/s between two halves%s, "
           "%.1f us of CPU per batch and node; "
           "seen after p50 %.1f p99 %.1f max %.1f ms\n",
           count, 1e6 / period_us, named ? "yes" : "no",
           (double)(after.bytes_out - before.bytes_out) / seconds / 1e3,
           (double)pushes / BATCHES, (double)across / seconds / 1e3,
           parts > 1 ? " that are known" : "", cpu / BATCHES / count,
           w.delays_us[w.delays_count / 2] / 1e3, p99_us / 1e3,
           w.delays_us[w.delays_count - 1] / 1e3);
    if (p99_us > SEEN_P99_US) {
        fail("it is late, in us", seed, p99_us);
    }
    if (pushes > (uint64_t)(FANOUT + parts) * BATCHES) {
        fail("the reader sends too many pushes", seed, pushes);
    }
    if (parts > 1 &&
        crossings > BATCHES + BATCHES / 20) { /* few are no pushes */
        fail("pushes cross more than once", seed, crossings);
    }
    end();
}

/* ---- a bad one ---- */

/* Both sides notice after a while. */
static void
set_link(uint32_t a, uint32_t b, bool up)
{
    w.severed[a][b] = !up;
    w.severed[b][a] = !up;
}

static void
tell_link(uint32_t a, uint32_t b)
{
    bool up = !w.severed[a][b];

    if (w.nodes[a].dead) {
        return;
    }
    if (up) {
        meet(a, b);
    } else {
        gossip_peer_down(w.nodes[a].g, id_of(b), w.now_us);
    }
}

static void
run_on(uint32_t *batch, uint64_t us, uint64_t seed)
{
    uint64_t end_us = w.now_us + us;

    while (w.now_us + PERIOD_US <= end_us && *batch < BATCHES) {
        publish((*batch)++, seed);
        run_until(w.now_us + PERIOD_US, seed);
    }
    run_until(end_us, seed);
}

/* A link between two who are not the reader breaks, and comes back. */
static void
break_link(uint32_t *batch, uint64_t seed)
{
    uint32_t a = 1 + (uint32_t)rng_below(&w.rng, w.count - 1);
    uint32_t b = 1 + (uint32_t)rng_below(&w.rng, w.count - 1);

    if (a == b || w.severed[a][b]) {
        return;
    }
    set_link(a, b, false);
    run_on(batch, NOTICE_US, seed);
    tell_link(a, b);
    tell_link(b, a);
    if (rng_below(&w.rng, 2) == 0) {
        run_on(batch, NOTICE_US, seed);
        set_link(a, b, true);
        tell_link(a, b);
        tell_link(b, a);
    }
}

/* A node stands still until it is suspected, and a while longer. */
static void
freeze(uint32_t *batch, uint64_t seed)
{
    uint32_t who = 1 + (uint32_t)rng_below(&w.rng, w.count - 1);

    w.nodes[who].frozen = true;
    run_on(batch, SUSPECT_US, seed);
    for (uint32_t i = 0; i < w.count; i++) {
        if (i != who) {
            gossip_peer_suspect(w.nodes[i].g, id_of(who), true, w.now_us);
        }
    }
    run_on(batch, NOTICE_US, seed);
    w.nodes[who].frozen = false;
    for (uint32_t i = 0; i < w.count; i++) {
        if (i != who) {
            gossip_peer_suspect(w.nodes[i].g, id_of(who), false, w.now_us);
        }
    }
}

static void
die(uint32_t *batch, uint64_t seed)
{
    uint32_t who = 1 + (uint32_t)rng_below(&w.rng, w.count - 1);

    if (w.nodes[who].dead) {
        return;
    }
    w.nodes[who].dead = true;
    run_on(batch, NOTICE_US, seed);
    for (uint32_t i = 0; i < w.count; i++) {
        if (i != who && !w.nodes[i].dead && !w.severed[i][who]) {
            gossip_peer_down(w.nodes[i].g, id_of(who), w.now_us);
        }
    }
}

static void
run_bad(uint64_t seed)
{
    const uint32_t counts[] = {3, 7, 12, 20};
    uint32_t batch = 0;
    uint32_t deaths = 0;

    rng_init(&w.rng, seed);
    begin(counts[rng_below(&w.rng, 4)], 1 + (uint32_t)(seed % 3), seed);
    w.loss_permille = (uint32_t)rng_below(&w.rng, 3) * 10;
    while (batch < BATCHES) {
        switch (rng_below(&w.rng, 4)) {
        case 0:
            break_link(&batch, seed);
            break;
        case 1:
            freeze(&batch, seed);
            break;
        case 2:
            if (deaths < w.count / 3) {
                die(&batch, seed);
                deaths++;
            }
            break;
        default:
            run_on(&batch, NOTICE_US, seed);
        }
    }
    w.loss_permille = 0;
    run_until(w.now_us + QUIET_MS * MS, seed);
    for (uint32_t i = 0; i < w.count; i++) {
        if (!w.nodes[i].dead && w.nodes[i].seen != BATCHES) {
            fail("a node has less than the reader", seed, i);
        }
    }
    end();
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    const uint32_t counts[] = {3, 7, 20, 64};
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t kind = 0; kind < 4; kind++) {
            run_quiet(counts[i], 1, kind < 2 ? PERIOD_US : PERIOD_US / 5,
                      kind % 2 == 1, first);
            run_quiet(counts[i], 2, kind < 2 ? PERIOD_US : PERIOD_US / 5,
                      kind % 2 == 1, first);
        }
    }
    for (uint64_t i = 0; i < seeds; i++) {
        run_bad(first + i);
    }
    return 0;
}
