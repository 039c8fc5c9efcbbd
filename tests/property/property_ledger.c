/*
 * The ledger against a naive model: every block that was ever named, as
 * (name, key, block before it), with its copies per stream and tier in plain
 * arrays, and holes found by looking at each. After each operation outcome,
 * words, counts, blocks and holes must agree; the ledger's own check runs in
 * between. Streams of one naming share names, others do not; one naming is so
 * short that names mean several things, one knows nothing of namespaces, one
 * has names of its own for the first blocks only.
 * Some rounds have a tight byte bound or an allocator that fails: what is then
 * refused must have changed nothing.
 *
 * What the ledger says of its names goes into a table for each stream, which
 * must have the model's names at all times. Now and then another ledger's
 * stream takes over from the table, and must then behave as the first one.
 *
 *   property_ledger SEEDS [FIRST]
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "index/index.h"
#include "tests/unit/failing_alloc.h"

#define STREAMS   8
#define DEPTH     7
#define RUN_MAX   (DEPTH + 2)
#define NODES_MAX 8192
#define HEADS     4096
#define STEPS     6000
#define NONE      0

struct node {
    uint64_t name;
    uint64_t key;
    uint32_t parent;
    uint32_t next;
    uint16_t copies[STREAMS][TIERS];
};

struct block {
    uint64_t name;
    uint64_t key;
    uint32_t token;
    uint64_t extra;
};

struct key_list {
    uint64_t key[RUN_MAX];
    uint32_t count;
};

static struct node node[NODES_MAX];
static uint32_t nodes;
static uint32_t head[HEADS];
static bool open_model[STREAMS];
static uint32_t id[STREAMS]; /* the ledger's */
static uint32_t naming[STREAMS];
static bool adopted[STREAMS]; /* so holes may be counted that are healed */
static struct ledger *ledger;
static struct names table[STREAMS];
static struct names_room room;
static struct names_said said;
static struct rng rng;
static bool bounded; /* FULL may happen */
static bool starved; /* -ENOMEM may happen */
static uint64_t seed;
static uint64_t steps;
static uint64_t refused;

#define REQUIRE(condition)                                                  \
    do {                                                                    \
        if (!(condition)) {                                                 \
            printf("property_ledger: %s (line %d), seed %llu, step %llu\n", \
                   #condition, __LINE__, (unsigned long long)seed,          \
                   (unsigned long long)steps);                              \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static uint32_t
below(uint32_t bound)
{
    return (uint32_t)rng_below(&rng, bound);
}

/* ---- the model ---- */

/* Looked at for every node after every operation: at all tiers in one. */
static bool
holds(uint32_t stream, uint32_t at)
{
    uint64_t copies;

    _Static_assert(sizeof copies == sizeof node[at].copies[stream], "TIERS");
    memcpy(&copies, node[at].copies[stream], sizeof copies);
    return copies != 0;
}

static uint32_t
held(uint32_t stream, uint64_t name)
{
    for (uint32_t at = head[name % HEADS]; at != NONE; at = node[at].next) {
        if (node[at].name == name && holds(stream, at)) {
            return at;
        }
    }
    return NONE;
}

static uint32_t
intern(uint64_t name, uint64_t key, uint32_t parent)
{
    uint32_t *first = &head[name % HEADS];

    for (uint32_t at = *first; at != NONE; at = node[at].next) {
        if (node[at].name == name && node[at].key == key &&
            node[at].parent == parent) {
            return at;
        }
    }
    REQUIRE(nodes < NODES_MAX);
    node[nodes] = (struct node){
        .name = name, .key = key, .parent = parent, .next = *first};
    *first = nodes;
    return nodes++;
}

static uint64_t
model_blocks(uint32_t stream)
{
    uint64_t blocks = 0;

    for (uint32_t at = 1; at < nodes; at++) {
        blocks += holds(stream, at);
    }
    return blocks;
}

static uint32_t
model_holes(uint32_t stream)
{
    uint32_t holes = 0;

    for (uint32_t at = 1; at < nodes; at++) {
        holes += holds(stream, at) && node[at].parent != NONE &&
                 !holds(stream, node[at].parent);
    }
    return holes;
}

static uint64_t
model_copies(void)
{
    uint64_t pairs = 0;

    for (uint32_t stream = 0; stream < STREAMS; stream++) {
        for (uint32_t at = 1; at < nodes; at++) {
            bool several = false;
            for (uint32_t tier = 0; tier < TIERS; tier++) {
                several = several || node[at].copies[stream][tier] > 1;
            }
            pairs += several;
        }
    }
    return pairs;
}

static void
model_forget(uint32_t stream)
{
    for (uint32_t at = 1; at < nodes; at++) {
        memset(node[at].copies[stream], 0, sizeof node[at].copies[stream]);
    }
}

/* True when it is news. */
static bool
model_add(uint32_t stream, uint32_t at, enum tier tier)
{
    uint16_t *copies = &node[at].copies[stream][tier];

    *copies = (uint16_t)(*copies + (*copies < names_copies_most(tier)));
    return *copies == 1;
}

static int
model_store(uint32_t stream, const struct ledger_run *run,
            const struct block *block, struct key_list *news)
{
    uint32_t parent = NONE;

    news->count = 0;
    if (run->has_parent) {
        parent = held(stream, run->parent);
        if (parent == NONE) {
            return LEDGER_E_PARENT;
        }
    }
    for (uint32_t i = 0; i < run->count; i++) {
        uint32_t at = held(stream, block[i].name);
        bool twice = run->has_parent && run->parent == block[i].name;
        for (uint32_t k = 0; k < i; k++) {
            twice = twice || block[k].name == block[i].name;
        }
        if (twice || (at != NONE && node[at].key != block[i].key)) {
            return LEDGER_E_CONFLICT;
        }
    }
    return 0;
}

static void
model_enter(uint32_t stream, const struct ledger_run *run,
            const struct block *block, struct key_list *news)
{
    uint32_t parent = run->has_parent ? held(stream, run->parent) : NONE;

    for (uint32_t i = 0; i < run->count; i++) {
        uint32_t at = held(stream, block[i].name);
        if (at == NONE) {
            at = intern(block[i].name, block[i].key, parent);
        }
        if (model_add(stream, at, run->tier)) {
            news->key[news->count++] = block[i].key;
        }
        parent = at;
    }
}

/* ---- inputs ---- */

static uint64_t
name_of(uint32_t how, uint32_t depth, uint64_t key, uint64_t bare)
{
    switch (how) {
    case 0:
        return rng_mix(key);
    case 1:
        return rng_mix(key + 1);
    case 2:
        return bare; /* knows nothing of namespaces */
    case 4: /* names the first blocks otherwise, the ones behind alike */
        return rng_mix(depth < 3 ? key + 2 : key);
    default:
        return key % 97; /* means several things */
    }
}

/* A whole path from a root in the stream's naming; one level is wide. */
static void
make_path(uint32_t stream, uint64_t root, struct block *path)
{
    uint64_t key = root;
    uint64_t bare = 1;

    for (uint32_t i = 0; i < DEPTH; i++) {
        path[i].token = below(i == 2 ? 24 : 2);
        path[i].extra = i == 1 && path[i].token == 1 ? 77 : 0;
        key = key_next_apart(key, path[i].extra, &path[i].token, 4);
        bare = key_next_apart(bare, path[i].extra, &path[i].token, 4);
        path[i].key = key;
        path[i].name = name_of(naming[stream], i, key, bare);
    }
}

/* A held block of the stream, at random, or NONE. */
static uint32_t
some_held(uint32_t stream)
{
    uint32_t from = 1 + below(nodes);

    for (uint32_t i = 0; i < nodes; i++) {
        uint32_t at = 1 + (from + i) % nodes;
        if (at < nodes && holds(stream, at)) {
            return at;
        }
    }
    return NONE;
}

static enum tier
some_tier(void)
{
    return below(3) != 0 ? TIER_DEVICE : (enum tier)below(TIERS);
}

/* ---- the comparison ---- */

static void
require_words(const struct event_words *out, enum event_kind kind,
              enum tier tier, const struct key_list *news)
{
    REQUIRE(!out->failed);
    REQUIRE(out->count == (news->count == 0 ? 0 : news->count + 1));
    if (news->count > 0) {
        REQUIRE(out->words[0] == event_op(kind, tier, news->count));
        REQUIRE(memcmp(out->words + 1, news->key, news->count * 8) == 0);
    }
}

/* Whether the answer is one of those that only memory explains. */
static bool
refusal(int rc)
{
    bool is = (rc == LEDGER_E_FULL && bounded) || (rc == -ENOMEM && starved);

    refused += is;
    return is;
}

static void
do_store(uint32_t stream)
{
    struct block path[RUN_MAX];
    uint64_t hashes[RUN_MAX];
    uint32_t tokens[RUN_MAX];
    uint64_t extras[RUN_MAX];
    uint64_t words[2 * RUN_MAX];
    uint64_t root = 5 + below(2);
    uint32_t from = below(2) == 0 ? 0 : below(DEPTH);
    uint32_t count = 1 + below(DEPTH - from);
    bool extra = below(4) == 0;

    make_path(stream, root, path);
    struct block *block = path + from;
    if (below(64) == 0 && count > 1) {
        block[count - 1].name = block[below(count - 1)].name;
    }
    for (uint32_t i = 0; i < count; i++) {
        hashes[i] = block[i].name;
        tokens[i] = block[i].token;
        extras[i] = block[i].extra;
        extra = extra || extras[i] != 0;
    }
    struct ledger_run run = {.has_parent = from > 0,
                             .parent = from > 0 ? path[from - 1].name : 0,
                             .root = root,
                             .hashes = hashes,
                             .count = count,
                             .block_tokens = 1,
                             .tokens = tokens,
                             .extras = extra ? extras : NULL,
                             .tier = some_tier()};
    if (run.has_parent && held(stream, run.parent) != NONE) {
        /* A short name may stand for another block: its kids go below that. */
        uint64_t key = node[held(stream, run.parent)].key;
        for (uint32_t i = 0; i < count; i++) {
            key = key_next_apart(key, extras[i], &tokens[i], 4);
            block[i].key = key;
        }
    }
    struct event_words out = {.words = words, .max = count + 1};
    struct ledger_done done;
    struct key_list news;
    int expected = model_store(stream, &run, block, &news);
    int rc = ledger_store(ledger, id[stream], &run, &out, &done);
    if (rc != expected) {
        REQUIRE(refusal(rc));
    }
    if (rc == 0) {
        model_enter(stream, &run, block, &news);
        REQUIRE(done.duplicates == count - news.count);
    }
    REQUIRE(done.changed == news.count && done.unknown == 0);
    REQUIRE(rc == 0 || done.duplicates == 0);
    require_words(&out, EVENT_STORE, run.tier, &news);
}

static void
do_place(uint32_t stream)
{
    uint64_t words[2];
    struct event_words out = {.words = words, .max = 2};
    struct ledger_done done;
    struct key_list news = {.count = 0};
    uint32_t at = below(8) == 0 ? NONE : some_held(stream);
    uint64_t name = at == NONE ? rng_next(&rng) : node[at].name;
    enum tier tier = (enum tier)below(TIERS);
    int rc = ledger_place(ledger, id[stream], name, tier, &out, &done);

    if (at == NONE) {
        REQUIRE(rc == LEDGER_E_UNKNOWN);
    } else if (rc == 0) {
        if (model_add(stream, at, tier)) {
            news.key[news.count++] = node[at].key;
        }
        REQUIRE(done.duplicates == 1 - news.count);
    } else {
        REQUIRE(refusal(rc));
    }
    REQUIRE(done.changed == news.count);
    require_words(&out, EVENT_STORE, tier, &news);
}

/* The copies that are left of one, by the engine's own count if it says. */
static uint32_t
model_left(uint32_t copies, enum tier tier, const uint32_t *remaining)
{
    uint32_t most = names_copies_most(tier);
    uint32_t left = remaining == NULL ? copies - 1 : *remaining;

    return left > most ? most : left;
}

static void
model_take(uint32_t stream, uint64_t name, const uint32_t *remaining,
           enum tier tier, struct key_list *news, struct ledger_done *done)
{
    uint32_t at = held(stream, name);
    uint16_t *copies = at == NONE ? NULL : &node[at].copies[stream][tier];

    if (copies == NULL || *copies == 0) {
        done->unknown++;
        return;
    }
    *copies = (uint16_t)model_left(*copies, tier, remaining);
    if (*copies == 0) {
        news->key[news->count++] = node[at].key;
        done->changed++;
    } else {
        done->duplicates++;
    }
}

static void
do_remove(uint32_t stream)
{
    uint64_t hashes[RUN_MAX];
    uint32_t remaining[RUN_MAX];
    uint64_t words[RUN_MAX + 1];
    uint32_t count = below(RUN_MAX + 1);
    bool told = below(8) == 0;
    enum tier tier = some_tier();
    struct key_list news = {.count = 0};
    struct ledger_done done;
    struct ledger_done expected = {0};
    struct event_words out = {.words = words, .max = count + 1};

    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = below(8) == 0 ? NONE : some_held(stream);
        uint64_t any = naming[stream] == 3 ? below(97) : rng_next(&rng);
        hashes[i] = at == NONE ? any : node[at].name;
        /* Without memory the ledger cannot note more copies than it knew. */
        remaining[i] = bounded || starved ? 0 : below(11);
    }
    ledger_remove(ledger, id[stream], hashes, count, told ? remaining : NULL,
                  tier, &out, &done);
    for (uint32_t i = 0; i < count; i++) {
        model_take(stream, hashes[i], told ? remaining + i : NULL, tier, &news,
                   &expected);
    }
    REQUIRE(memcmp(&done, &expected, sizeof(done)) == 0);
    require_words(&out, EVENT_REMOVE, tier, &news);
}

/* Eviction as engines do it, a path from its end. */
static void
do_evict(uint32_t stream)
{
    uint64_t words[2];
    uint32_t at = some_held(stream);

    for (uint32_t i = 0; i < DEPTH && at != NONE; i++) {
        uint32_t parent = node[at].parent;
        struct event_words out = {.words = words, .max = 2};
        struct ledger_done done;
        struct ledger_done expected = {0};
        struct key_list news = {.count = 0};
        uint64_t name = node[at].name;
        model_take(stream, name, NULL, TIER_DEVICE, &news, &expected);
        ledger_remove(ledger, id[stream], &name, 1, NULL, TIER_DEVICE, &out,
                      &done);
        REQUIRE(memcmp(&done, &expected, sizeof(done)) == 0);
        require_words(&out, EVENT_REMOVE, TIER_DEVICE, &news);
        at = parent;
    }
}

static void
do_open(uint32_t stream)
{
    int rc = ledger_open(ledger, &id[stream]);

    REQUIRE(rc == 0);
    open_model[stream] = true;
    naming[stream] = below(6) < 4 ? stream % 4 : below(5);
    REQUIRE(ledger_blocks(ledger, id[stream]) == 0);
    REQUIRE(ledger_holes(ledger, id[stream]) == 0);
}

static void
do_close(uint32_t stream)
{
    ledger_close(ledger, id[stream]);
    model_forget(stream);
    open_model[stream] = false;
}

/* ---- names ---- */

static uint64_t
model_digest(uint32_t stream)
{
    uint64_t digest = 0;

    for (uint32_t at = 1; at < nodes; at++) {
        struct names_block block = {.name = node[at].name,
                                    .key = node[at].key,
                                    .has_parent = node[at].parent != NONE,
                                    .parent = node[node[at].parent].key};
        if (node[at].parent == NONE) {
            block.parent = 0;
        }
        for (uint32_t tier = 0; tier < TIERS; tier++) {
            block.copies |= (uint32_t)node[at].copies[stream][tier]
                            << names_copies_shift(tier);
        }
        if (holds(stream, at)) {
            digest ^= names_block_digest(&block);
        }
    }
    return digest;
}

static void
begin_names(uint32_t stream)
{
    names_said_clear(&said);
    ledger_say(ledger, id[stream], &said);
}

/* A table that was told the same twice is the same. */
static void
end_names(uint32_t stream)
{
    const char *reason;

    ledger_say(ledger, id[stream], NULL);
    REQUIRE(!said.words.failed);
    for (uint32_t i = 0; i < 1 + below(2); i++) {
        REQUIRE(names_apply(&table[stream], &room, said.words.word,
                            said.words.count) == 0);
    }
    if (below(256) == 0) {
        REQUIRE(names_check(&table[stream], &reason));
    }
    REQUIRE(table[stream].count == model_blocks(stream));
    REQUIRE(below(16) != 0 || table[stream].digest == model_digest(stream));
}

/* Now and then one that changes something. */
static void
some_batch(uint32_t stream)
{
    begin_names(stream);
    if (below(4) == 0) {
        do_store(stream);
    } else if (below(4) == 0) {
        do_evict(stream);
    }
    end_names(stream);
}

/* The table by pages, while names leave and come between two pages. */
static void
copy_table(uint32_t stream, struct names *into)
{
    struct names_block page[9];
    uint64_t cursor = 0;

    names_keep_left(into);
    do {
        uint32_t count =
            names_page(&table[stream], cursor, page, 1 + below(9), &cursor);
        for (uint32_t i = 0; i < count; i++) {
            REQUIRE(names_fill(into, &room, &page[i]) == 0);
        }
        some_batch(stream);
        REQUIRE(names_apply(into, &room, said.words.word, said.words.count) ==
                0);
    } while (cursor != NAMES_END);
    names_settle(into);
    REQUIRE(into->count == table[stream].count);
    REQUIRE(into->digest == table[stream].digest);
}

/* Fills the stream in steps, while other streams change. */
static void
adopt(uint32_t stream, const struct names_block *blocks, size_t count)
{
    struct ledger_adoption *adoption;
    uint32_t most = below(4) == 0 ? UINT32_MAX : 1 + below(50);
    int rc;
    REQUIRE(ledger_adopt_begin(ledger, id[stream], blocks, count, &adoption) ==
            0);
    while ((rc = ledger_adopt_step(adoption, most)) == LEDGER_E_MORE) {
        uint32_t other = below(STREAMS);
        if (other != stream && open_model[other]) {
            some_batch(other);
        }
        (void)ledger_work(ledger, below(20));
    }
    REQUIRE(rc == 0);
    ledger_adopt_end(adoption);
}

/* A twin of the table, made while the table changes. */
static void
copy_twin(uint32_t stream, struct names_twin *twin)
{
    names_twin_init(twin);
    while (!names_twin_copy(twin, &table[stream],
                            below(20) * sizeof(struct names_block))) {
        some_batch(stream);
        names_twin_apply(twin, said.words.word, said.words.count);
    }
    REQUIRE(!twin->failed && twin->table.count == table[stream].count);
    REQUIRE(twin->table.digest == table[stream].digest);
}

/* Another stream takes over from a copy of the table. */
static void
do_take_over(uint32_t stream)
{
    struct names copy = {.count = 0};
    struct names_twin twin;
    struct names_block *blocks;
    size_t count = 0;

    copy_table(stream, &copy);
    names_clear(&copy, &room);
    copy_twin(stream, &twin);
    blocks = calloc(twin.table.count + 1, sizeof *blocks);
    REQUIRE(blocks != NULL);
    for (uint32_t part = 0; part < NAMES_PARTS; part++) {
        count += names_take_part(&twin.table, &twin.room, part, blocks + count);
    }
    REQUIRE(count == table[stream].count && twin.room.bytes == 0);
    ledger_close(ledger, id[stream]);
    while (ledger_work(ledger, 1000)) {
    }
    REQUIRE(ledger_open(ledger, &id[stream]) == 0);
    adopt(stream, blocks, count);
    REQUIRE(ledger_holes(ledger, id[stream]) == model_holes(stream));
    adopted[stream] = true;
    free(blocks);
    names_said_clear(&said);
    ledger_say_all(ledger, id[stream], &said);
    REQUIRE(names_apply(&copy, &room, said.words.word, said.words.count) == 0 &&
            copy.digest == table[stream].digest);
    names_clear(&copy, &room);
}

static void
forget_names(uint32_t stream)
{
    names_clear(&table[stream], &room);
    adopted[stream] = false;
}

static void
change(uint32_t stream, uint32_t op)
{
    begin_names(stream);
    if (op < 45) {
        do_store(stream);
    } else if (op < 55) {
        do_place(stream);
    } else if (op < 80) {
        do_remove(stream);
    } else {
        do_evict(stream);
    }
    failing_alloc_stop();
    end_names(stream);
}

static void
step(uint32_t stream)
{
    uint32_t op = below(100);

    if (!open_model[stream]) {
        do_open(stream);
        forget_names(stream);
    } else if (op < 90) {
        change(stream, op);
    } else if (op == 99 && below(4) == 0) {
        do_close(stream);
        forget_names(stream);
    } else if (op == 98 && !bounded && !starved && naming[stream] != 3) {
        do_take_over(stream);
    } else {
        (void)ledger_work(ledger, below(200));
    }
    if (open_model[stream]) {
        REQUIRE(ledger_blocks(ledger, id[stream]) == model_blocks(stream));
        uint32_t holes = model_holes(stream);
        REQUIRE(adopted[stream] ? ledger_holes(ledger, id[stream]) >= holes
                                : ledger_holes(ledger, id[stream]) == holes);
    }
}

static void
check_whole(size_t bytes_max)
{
    const char *reason;
    struct ledger_stats stats;
    uint64_t blocks = 0;

    if (!ledger_check(ledger, &reason)) {
        printf("property_ledger: %s\n", reason);
        REQUIRE(false);
    }
    for (uint32_t i = 0; i < STREAMS; i++) {
        blocks += model_blocks(i);
    }
    ledger_stats(ledger, &stats);
    REQUIRE(stats.blocks == blocks && stats.copies == model_copies());
    REQUIRE(stats.bytes <= bytes_max);
}

/* Everything closed and swept leaves nothing behind. */
static void
finish(void)
{
    struct ledger_stats stats;
    const char *reason;

    for (uint32_t i = 0; i < STREAMS; i++) {
        if (open_model[i]) {
            do_close(i);
        }
        forget_names(i);
    }
    REQUIRE(room.bytes == 0);
    while (ledger_work(ledger, 100)) {
    }
    ledger_stats(ledger, &stats);
    REQUIRE(stats.names == 0 && stats.blocks == 0 && stats.sweeping == 0);
    REQUIRE(ledger_check(ledger, &reason));
}

static void
round_of(uint64_t number)
{
    uint32_t kind = (uint32_t)(number % 4);

    seed = number;
    rng_init(&rng, seed);
    bounded = kind == 1;
    starved = kind == 2;
    nodes = 1;
    memset(head, 0, sizeof(head));
    memset(open_model, 0, sizeof(open_model));
    size_t bytes_max = bounded ? 90000 + below(250000) : (size_t)64 << 20;
    struct ledger_limits limits = {.bytes_max = bytes_max};
    int rc = ledger_new(&ledger, &limits);
    if (rc == -EINVAL && bounded) {
        return;
    }
    REQUIRE(rc == 0);
    for (steps = 0; steps < STEPS && nodes < NODES_MAX - 100; steps++) {
        if (starved) {
            (void)failing_alloc_after(below(3));
        }
        step(below(STREAMS));
        failing_alloc_stop();
        if (steps % 128 == 0) {
            check_whole(bytes_max);
        }
    }
    check_whole(bytes_max);
    finish();
    ledger_free(ledger);
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    uint64_t total = 0;

    room.bytes_max = (size_t)64 << 20;
    words_init(&said.words, 1U << 20);
    words_reserve(&said.words, 1U << 20);
    for (uint64_t number = first; number < first + seeds; number++) {
        round_of(number);
        total += steps;
    }
    printf("%llu seeds, %llu operations, %llu refused\n",
           (unsigned long long)seeds, (unsigned long long)total,
           (unsigned long long)refused);
    words_fini(&said.words);
    return 0;
}
