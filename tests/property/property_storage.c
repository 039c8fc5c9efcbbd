/*
 * Snapshots of an index that goes on changing, on a disk that fails, lies and
 * loses power, against what the index was.
 *
 * A world stores and removes blocks of a few streams at random, opens and
 * closes streams, and takes one snapshot after another, part by part between
 * the changes. At random moments the process dies. What is found then must be
 * a state that was committed, whole: block for block, tier for tier, name for
 * name; and the world goes on from it.
 *
 *   property_storage ROUNDS [SEED]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/qsbr.h"
#include "index/base/rng.h"
#include "index/index.h"
#include "storage/storage.h"

#define STREAMS   6U
#define RECENT    512U
#define RUN_MAX   12U
#define STATES    4096U
#define TOKENS    4U
#define BYTES_MAX ((size_t)256 << 20)

/* What was snapshot, as a number. */
struct state {
    uint64_t print;
};

struct world {
    struct rng rng;
    struct qsbr qsbr;
    struct mirror *mirror;
    struct ledger *ledger;
    struct storage_io *io;
    struct storage_save *save;
    struct storage_cut *cut;
    struct storage_stream stream[STREAMS];
    uint64_t recent[STREAMS][RECENT];
    bool taking;
    struct state committed[STATES];
    uint32_t states;
    uint64_t doubtful; /* of a commit that failed, or of the last one of a
                          disk that lies */
    bool lies;
    uint64_t commits, failures, restored, cold, refused, incremental;
};

static void
fail_with(const struct world *w, const char *what)
{
    (void)w;
    fprintf(stderr, "property_storage: %s\n", what);
    abort();
}

/* ---- the index ---- */

static void
open_stream(struct world *w, uint32_t i)
{
    struct storage_stream *s = &w->stream[i];

    *s = (struct storage_stream){.name = {.worker = i + 1},
                                 .slot = STORAGE_NONE,
                                 .ledger = STORAGE_NONE};
    if (mirror_open(w->mirror, &s->slot) != 0) {
        fail_with(w, "no slot");
    }
    if (ledger_open(w->ledger, &s->ledger) != 0) {
        fail_with(w, "no stream");
    }
    s->epoch_no = (uint32_t)rng_below(&w->rng, 1000);
}

static void
index_new(struct world *w)
{
    struct mirror_limits mirror_limits = {.bytes_max = BYTES_MAX};
    struct ledger_limits ledger_limits = {.bytes_max = BYTES_MAX};

    qsbr_init(&w->qsbr);
    if (mirror_new(&w->mirror, &mirror_limits, &w->qsbr) != 0 ||
        ledger_new(&w->ledger, &ledger_limits) != 0) {
        fail_with(w, "no memory");
    }
}

static void
index_free(struct world *w)
{
    mirror_free(w->mirror);
    ledger_free(w->ledger);
}

/* What came out of the ledger goes into the mirror. */
static void
apply(struct world *w, struct storage_stream *s, const struct event_words *out)
{
    s->pos++;
    s->holes = ledger_holes(w->ledger, s->ledger);
    if (mirror_apply(w->mirror, s->slot, out->words, out->count, s->holes) !=
        0) {
        fail_with(w, "the mirror is full");
    }
}

static uint64_t
name_of(uint32_t stream, uint64_t key)
{
    /* Streams 0 to 2 name alike, the others each in their own way. */
    return rng_mix(key + (stream < 3 ? 0 : stream));
}

static void
store(struct world *w, uint32_t i)
{
    struct storage_stream *s = &w->stream[i];
    uint64_t words[RUN_MAX + 2];
    uint64_t hashes[RUN_MAX];
    uint32_t tokens[RUN_MAX * TOKENS];
    struct event_words out = {.words = words, .max = RUN_MAX + 2};
    struct ledger_run run = {
        .hashes = hashes,
        .tokens = tokens,
        .block_tokens = TOKENS,
        .root = 7,
        .count = 1 + (uint32_t)rng_below(&w->rng, RUN_MAX)};
    struct ledger_done done;
    uint64_t chain = rng_below(&w->rng, 3);

    run.has_parent = rng_below(&w->rng, 4) != 0;
    run.parent = w->recent[i][rng_below(&w->rng, RECENT)];
    run.tier = rng_below(&w->rng, 5) == 0 ? TIER_HOST : TIER_DEVICE;
    if (run.has_parent && run.parent == 0) {
        return;
    }
    chain += run.has_parent ? run.parent : 0;
    for (uint32_t b = 0; b < run.count; b++) {
        chain = rng_mix(chain + rng_below(&w->rng, 2));
        hashes[b] = name_of(i, chain);
        for (uint32_t t = 0; t < TOKENS; t++) {
            tokens[b * TOKENS + t] = (uint32_t)(chain >> t);
        }
        w->recent[i][rng_below(&w->rng, RECENT)] = hashes[b];
    }
    if (ledger_store(w->ledger, s->ledger, &run, &out, &done) == 0) {
        apply(w, s, &out);
    }
}

static void
remove_some(struct world *w, uint32_t i)
{
    struct storage_stream *s = &w->stream[i];
    uint64_t words[RUN_MAX + 2];
    uint64_t hashes[RUN_MAX];
    struct event_words out = {.words = words, .max = RUN_MAX + 2};
    struct ledger_done done;
    uint32_t count = 1 + (uint32_t)rng_below(&w->rng, RUN_MAX - 1);
    enum tier tier = rng_below(&w->rng, 3) == 0 ? TIER_HOST : TIER_DEVICE;

    for (uint32_t b = 0; b < count; b++) {
        hashes[b] = w->recent[i][rng_below(&w->rng, RECENT)];
    }
    ledger_remove(w->ledger, s->ledger, hashes, count, NULL, tier, &out, &done);
    apply(w, s, &out);
}

static void
place(struct world *w, uint32_t i)
{
    struct storage_stream *s = &w->stream[i];
    uint64_t words[4];
    struct event_words out = {.words = words, .max = 4};
    struct ledger_done done;
    uint64_t hash = w->recent[i][rng_below(&w->rng, RECENT)];

    if (ledger_place(w->ledger, s->ledger, hash,
                     (enum tier)rng_below(&w->rng, TIERS), &out, &done) == 0) {
        apply(w, s, &out);
    }
}

static void
reopen(struct world *w, uint32_t i)
{
    mirror_close(w->mirror, w->stream[i].slot);
    ledger_close(w->ledger, w->stream[i].ledger);
    open_stream(w, i);
}

static void
change(struct world *w)
{
    uint32_t i = (uint32_t)rng_below(&w->rng, STREAMS);
    uint64_t what = rng_below(&w->rng, 100);

    if (what < 55) {
        store(w, i);
    } else if (what < 80) {
        remove_some(w, i);
    } else if (what < 90) {
        place(w, i);
    } else if (what < 98) {
        (void)mirror_work(w->mirror, 64);
        (void)ledger_work(w->ledger, 64);
    } else if (rng_below(&w->rng, 6) == 0) {
        reopen(w, i);
    }
}

/* ---- what it is, as a number ---- */

static uint64_t
slot_print(const struct world *w, const struct storage_stream *s)
{
    static uint64_t room[4096];
    uint64_t print = 0;
    uint64_t cursor = 0;

    while (cursor != MIRROR_PAGE_END) {
        struct event_words out = {.words = room, .max = 4096};
        cursor = mirror_page(w->mirror, s->slot, cursor, &out);
        for (uint32_t at = 0; at < out.count;) {
            uint64_t op = out.words[at++];
            for (uint32_t n = event_op_count(op); n > 0; n--) {
                print ^= rng_mix(out.words[at++] + event_op_tier(op) * 3);
            }
        }
    }
    return print;
}

static uint64_t
print_of(struct world *w)
{
    struct words all;
    const char *reason;

    while (ledger_work(w->ledger, 1U << 20)) {
    }
    if (!ledger_check(w->ledger, &reason) ||
        !mirror_check(w->mirror, &reason)) {
        fail_with(w, reason);
    }
    words_init(&all, SIZE_MAX / 16);
    for (uint32_t i = 0; i < STREAMS; i++) {
        const struct storage_stream *s = &w->stream[i];
        words_push(&all, s->epoch_no);
        words_push(&all, s->pos);
        words_push(&all, slot_print(w, s));
        words_push(&all, ledger_holes(w->ledger, s->ledger));
        words_push(&all, mirror_slot_blocks(w->mirror, s->slot));
    }
    for (uint32_t p = 0; p < ledger_parts(w->ledger); p++) {
        size_t before = all.count;
        ledger_image(w->ledger, p, &all);
        all.count -= all.count == before + 1; /* nothing lives there */
    }
    uint64_t print = key_digest((struct slice){
        .ptr = (const char *)all.word, .len = all.count * sizeof(uint64_t)});
    words_fini(&all);
    return print;
}

/* ---- snapshots ---- */

static void
begin(struct world *w)
{
    bool whole = storage_save_whole(w->save);

    storage_save_begin(w->save);
    storage_cut_begin(w->cut, whole);
    w->incremental += !whole;
    w->taking = true;
}

static void
end(struct world *w)
{
    struct storage_about about = {.cluster = "c", .node = "n"};
    struct storage_facts facts = {.streams = w->stream,
                                  .streams_count = STREAMS};
    struct storage_part part;
    enum storage_step step;
    uint64_t print = print_of(w);

    storage_cut_end(w->cut, &facts, &about);
    while ((step = storage_cut_next(w->cut, &part)) == STORAGE_STEP_PART) {
        storage_save_part(w->save, part.kind, part.number,
                          (struct slice){.ptr = part.bytes, .len = part.len});
        free(part.bytes);
    }
    if (step != STORAGE_STEP_DONE) {
        fail_with(w, "the cut failed");
    }
    bool committed = storage_save_commit(w->save, &about) == STORAGE_OK;
    storage_cut_done(w->cut, committed);
    w->taking = false;
    if (committed) {
        w->commits++;
        w->committed[w->states++ % STATES].print = print;
    } else {
        w->failures++;
        w->doubtful = print;
    }
}

static void
step_snapshot(struct world *w)
{
    struct storage_part part;

    if (!w->taking) {
        begin(w);
        return;
    }
    switch (storage_cut_next(w->cut, &part)) {
    case STORAGE_STEP_PART:
        storage_save_part(w->save, part.kind, part.number,
                          (struct slice){.ptr = part.bytes, .len = part.len});
        free(part.bytes);
        break;
    case STORAGE_STEP_MORE:
        break;
    case STORAGE_STEP_WALKED:
        if (rng_below(&w->rng, 20) == 0) {
            storage_cut_cancel(w->cut);
            storage_save_abort(w->save);
            w->taking = false;
        } else {
            end(w);
        }
        break;
    case STORAGE_STEP_DONE:
    case STORAGE_STEP_FAILED:
    default:
        fail_with(w, "the cut failed");
    }
}

/* ---- dying and coming back ---- */

static void
die(struct world *w)
{
    storage_cut_free(w->cut);
    w->cut = NULL;
    index_free(w);
    sim_disk_crash(w->io, w->lies || rng_below(&w->rng, 2) == 0);
    storage_save_free(w->save);
    w->taking = false;
}

/* With a disk that lies any state that was may come back, else the last. */
static bool
known(const struct world *w, uint64_t print)
{
    uint32_t from = w->lies ? 0 : w->states - (w->states > 0);

    for (uint32_t i = from; i < w->states && i < STATES; i++) {
        if (w->committed[i % STATES].print == print) {
            return true;
        }
    }
    return print == w->doubtful;
}

static bool
restore(struct world *w, const struct storage_find *find)
{
    struct storage_load load;
    struct storage_report report;
    struct storage_stream *streams;
    uint32_t count;

    if (storage_load_open(&load, w->io, find->chosen.file, "c", &report) !=
        STORAGE_OK) {
        fail_with(w, "what verified does not open");
    }
    if (storage_restore_streams(&load, &streams, &count) != STORAGE_OK ||
        count != STREAMS ||
        storage_restore_index(&load, w->mirror, w->ledger, streams, count) !=
            STORAGE_OK) {
        fail_with(w, "what verified does not restore");
    }
    for (uint32_t i = 0; i < count; i++) {
        w->stream[i] = streams[i];
        w->stream[i].reading = (struct slice){0};
    }
    free(streams);
    storage_load_close(&load);
    return true;
}

static void
come_back(struct world *w)
{
    struct storage_limits limits = storage_limits_default();
    struct storage_source source;
    struct storage_find find;

    limits.txn_bytes = 2000;
    index_new(w);
    if (storage_find(w->io, "c", &limits, 0, &find) != STORAGE_OK) {
        fail_with(w, "the directory cannot be read");
    }
    w->refused += find.refusals;
    if (find.found) {
        (void)restore(w, &find);
        if (!known(w, print_of(w))) {
            fail_with(w, "a state that never was");
        }
        w->restored++;
    } else {
        if (w->states > 0 && !w->lies) {
            fail_with(w, "a committed state is gone");
        }
        for (uint32_t i = 0; i < STREAMS; i++) {
            open_stream(w, i);
        }
        w->cold++;
    }
    w->save = storage_save_new(w->io, &limits, find.generation);
    source = (struct storage_source){
        .mirror = w->mirror,
        .ledger = w->ledger,
        .piece_lines = 1 + (uint32_t)rng_below(&w->rng, 3)};
    w->cut = storage_cut_new(&source);
    if (w->save == NULL || w->cut == NULL) {
        fail_with(w, "no memory");
    }
}

static void
plan_fault(struct world *w)
{
    static const enum storage_outcome faults[] = {STORAGE_E_IO, STORAGE_E_FULL,
                                                  STORAGE_E_MEMORY};

    sim_disk_fail(w->io,
                  rng_below(&w->rng, 4) == 0 ? 0 : 1 + rng_below(&w->rng, 900),
                  faults[rng_below(&w->rng, 3)]);
    sim_disk_limit(w->io, rng_below(&w->rng, 4) == 0
                              ? 20000 + rng_below(&w->rng, 100000)
                              : 0);
}

static void
run(struct world *w, uint64_t seed)
{
    uint64_t lives = 6;

    rng_init(&w->rng, seed);
    w->io = sim_disk_new(seed);
    w->lies = seed % 4 == 3;
    sim_disk_lie(w->io, w->lies);
    come_back(w);
    for (; lives > 0; lives--) {
        uint64_t steps = rng_below(&w->rng, 3000);
        uint64_t pace = 1 + rng_below(&w->rng, 8);
        for (uint64_t i = 0; i < steps; i++) {
            change(w);
            if (i % 400 == 0) {
                plan_fault(w);
            }
            if (i % pace == 0) {
                step_snapshot(w);
            }
        }
        die(w);
        come_back(w);
    }
    die(w);
    index_new(w);
    index_free(w);
    storage_io_free(w->io);
}

int
main(int argc, char **argv)
{
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    static struct world w;
    struct world sum = {0};

    for (uint64_t i = 0; i < rounds; i++) {
        memset(&w, 0, sizeof w);
        printf("seed %" PRIu64 "\r", seed + i);
        (void)fflush(stdout);
        run(&w, seed + i);
        sum.commits += w.commits;
        sum.failures += w.failures;
        sum.restored += w.restored;
        sum.cold += w.cold;
        sum.refused += w.refused;
        sum.incremental += w.incremental;
    }
    printf("%" PRIu64 " snapshots (%" PRIu64 " begun as increments), %" PRIu64
           " failed; %" PRIu64 " starts warm, %" PRIu64 " cold, %" PRIu64
           " files refused\n",
           sum.commits, sum.incremental, sum.failures, sum.restored, sum.cold,
           sum.refused);
    return sum.commits > 0 && sum.restored > 0 ? 0 : 1;
}
