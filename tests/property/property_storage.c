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
 * In every other world mirror and ledger stand apart, as on two threads: each
 * has a cut of its own, the ledger's ends first, and what the ledger told by
 * then is applied before the mirror's does. What comes back is the ledger as it
 * was at its own position, never ahead of the mirror; what lies between is read
 * once more and tells what it told.
 *
 *   property_storage ROUNDS [SEED]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/property/storage_world.h"

#define STATES 4096U

/* A snapshot's streams as the ledger had them when its cut ended. */
struct mark {
    struct storage_stream stream[STREAMS]; /* ledger, blocks, epoch_no, pos */
    uint64_t print[STREAMS];
    uint64_t told; /* by then */
};

struct life {
    struct world w;
    struct storage_io *io;
    struct storage_save *save;
    struct storage_cut *cut;  /* of both, or the mirror's */
    struct storage_cut *twin; /* NULL, or the ledger's */
    bool taking;
    bool walked[2]; /* the cut, the twin */
    bool marked;
    struct mark mark;
    uint8_t position[STREAMS][8]; /* what is kept beside a stream */
    uint64_t committed[STATES];   /* prints */
    uint32_t states;
    uint64_t doubtful; /* of a commit that failed, or of the last one of a
                          disk that lies */
    bool lies;
    uint64_t commits, failures, restored, cold, refused, incremental;
    uint64_t again;   /* streams with something to be read once more */
    uint64_t without; /* streams without a ledger */
};

/* ---- what is there, as a number ---- */

static void
mark_now(struct life *l)
{
    struct world *w = &l->w;

    world_check(w);
    for (uint32_t i = 0; i < STREAMS; i++) {
        const struct ahead *a = &w->ahead[i];
        l->mark.stream[i] = (struct storage_stream){
            .ledger = a->stream,
            .ledger_blocks = ledger_blocks(w->ledger, a->stream),
            .epoch_no = a->epoch_no,
            .pos = a->pos};
        l->mark.print[i] = world_ledger_print(w, a->stream);
    }
    l->mark.told = w->told_count;
    l->marked = true;
}

/* The mirror as it is, the ledger as it was at the mark. */
static uint64_t
print_of(struct life *l)
{
    struct world *w = &l->w;
    uint64_t words[STREAMS * 7];
    uint32_t n = 0;

    world_check(w);
    for (uint32_t i = 0; i < STREAMS; i++) {
        const struct storage_stream *s = &w->stream[i];
        bool ledger = s->ledger != STORAGE_NONE;
        words[n++] = s->epoch_no;
        words[n++] = s->pos;
        words[n++] = world_mirror_print(w, i);
        words[n++] = mirror_slot_blocks(w->mirror, s->slot);
        words[n++] = ledger;
        words[n++] = ledger ? l->mark.stream[i].pos : 0;
        words[n++] = ledger ? l->mark.print[i] : 0;
    }
    return key_digest(
        (struct slice){.ptr = (const char *)words, .len = sizeof words});
}

/* ---- snapshots ---- */

static void
begin(struct life *l)
{
    bool whole = storage_save_whole(l->save);

    storage_save_begin(l->save);
    storage_cut_begin(l->cut, whole);
    l->walked[0] = false;
    l->walked[1] = l->twin == NULL;
    if (l->twin != NULL) {
        storage_cut_begin(l->twin, whole);
    }
    l->incremental += !whole;
    l->marked = false;
    l->taking = true;
}

static void
give(struct life *l, const struct storage_part *part)
{
    storage_save_part(l->save, part->kind, part->number,
                      (struct slice){.ptr = part->bytes, .len = part->len});
    free(part->bytes);
}

static void
give_rest(struct life *l, struct storage_cut *cut)
{
    struct storage_part part;
    enum storage_step step;

    while ((step = storage_cut_next(cut, &part)) == STORAGE_STEP_PART) {
        give(l, &part);
    }
    if (step != STORAGE_STEP_DONE) {
        world_fail("the cut failed");
    }
}

/* The mirror has a stream in the process in which the ledger had it. */
static void
fill_facts(struct life *l)
{
    for (uint32_t i = 0; i < STREAMS; i++) {
        struct storage_stream *s = &l->w.stream[i];
        const struct storage_stream *m = &l->mark.stream[i];
        s->ledger = STORAGE_NONE;
        s->ledger_blocks = 0;
        s->reading = (struct slice){0};
        if (s->epoch_no != m->epoch_no) {
            continue;
        }
        if (m->pos > s->pos) {
            world_fail("the ledger is ahead of the mirror");
        }
        s->ledger = m->ledger;
        s->ledger_blocks = m->ledger_blocks;
        for (unsigned b = 0; b < 8; b++) {
            l->position[i][b] = (uint8_t)(m->pos >> (8 * b));
        }
        s->reading =
            (struct slice){.ptr = (const char *)l->position[i], .len = 8};
    }
}

static void
done(struct life *l, bool committed)
{
    storage_cut_done(l->cut, committed);
    if (l->twin != NULL) {
        storage_cut_done(l->twin, committed);
    }
    l->taking = false;
}

static void
end(struct life *l)
{
    struct storage_about about = {.cluster = "c", .node = "n"};
    struct storage_facts facts = {.streams = l->w.stream,
                                  .streams_count = STREAMS};

    fill_facts(l);
    uint64_t print = print_of(l);
    storage_cut_end(l->cut, &facts, &about);
    give_rest(l, l->cut);
    bool committed = storage_save_commit(l->save, &about) == STORAGE_OK;
    done(l, committed);
    if (committed) {
        l->commits++;
        l->committed[l->states++ % STATES] = print;
    } else {
        l->failures++;
        l->doubtful = print;
    }
}

static void
cancel(struct life *l)
{
    done(l, false);
    storage_save_abort(l->save);
}

/* Both are walked. */
static void
step_end(struct life *l)
{
    if (rng_below(&l->w.rng, 20) == 0) {
        cancel(l);
        return;
    }
    if (!l->marked) {
        mark_now(l);
        if (l->twin != NULL) {
            storage_cut_end(l->twin, NULL, NULL);
            give_rest(l, l->twin);
            return;
        }
    }
    bool soon = l->twin == NULL || rng_below(&l->w.rng, 8) == 0;
    if (l->w.applied >= l->mark.told && soon) {
        end(l);
    }
}

static void
step_snapshot(struct life *l)
{
    uint32_t which = l->twin != NULL && rng_below(&l->w.rng, 2) == 0;
    struct storage_part part;

    if (!l->taking) {
        begin(l);
        return;
    }
    if (l->walked[0] && l->walked[1]) {
        step_end(l);
        return;
    }
    switch (storage_cut_next(which ? l->twin : l->cut, &part)) {
    case STORAGE_STEP_PART:
        give(l, &part);
        break;
    case STORAGE_STEP_MORE:
        break;
    case STORAGE_STEP_WALKED:
        l->walked[which] = true;
        break;
    case STORAGE_STEP_DONE:
    case STORAGE_STEP_FAILED:
    default:
        world_fail("the cut failed");
    }
}

/* ---- dying and coming back ---- */

static void
die(struct life *l)
{
    storage_cut_free(l->cut);
    storage_cut_free(l->twin);
    l->cut = NULL;
    l->twin = NULL;
    world_free(&l->w);
    sim_disk_crash(l->io, l->lies || rng_below(&l->w.rng, 2) == 0);
    storage_save_free(l->save);
    l->taking = false;
}

/* With a disk that lies any state that was may come back, else the last. */
static bool
known(const struct life *l, uint64_t print)
{
    uint32_t from = l->lies ? 0 : l->states - (l->states > 0);

    for (uint32_t i = from; i < l->states && i < STATES; i++) {
        if (l->committed[i % STATES] == print) {
            return true;
        }
    }
    return print == l->doubtful;
}

/* As the engine's replay would have it: from another process, or too old, is
 * begun anew. */
static void
go_on(struct life *l, uint32_t i)
{
    struct world *w = &l->w;
    struct ahead *a = &w->ahead[i];
    const struct storage_stream *s = &w->stream[i];
    bool same = s->ledger != STORAGE_NONE && a->epoch_no == s->epoch_no &&
                a->ops[s->pos % OPS_MAX].pos == s->pos;

    if (!same || s->pos == 0) {
        if (s->ledger != STORAGE_NONE) {
            ledger_close(w->ledger, s->ledger);
        }
        l->without += s->ledger == STORAGE_NONE;
        mirror_close(w->mirror, s->slot);
        world_open(w, i);
        return;
    }
    a->stream = s->ledger;
    a->pos = l->mark.stream[i].pos;
    l->again += a->pos < s->pos;
    world_catch_up(w, i);
}

/* The state, with the ledger's positions as the mark. */
static void
restore(struct life *l, const struct storage_find *find)
{
    struct storage_load load;
    struct storage_report report;
    struct storage_stream *streams;
    uint32_t count;

    if (storage_load_open(&load, l->io, find->chosen.file, "c", &report) !=
        STORAGE_OK) {
        world_fail("what verified does not open");
    }
    if (storage_restore_streams(&load, &streams, &count) != STORAGE_OK ||
        count != STREAMS ||
        storage_restore_index(&load, l->w.mirror, l->w.ledger, streams,
                              count) != STORAGE_OK) {
        world_fail("what verified does not restore");
    }
    for (uint32_t i = 0; i < count; i++) {
        struct storage_stream *s = &streams[i];
        l->mark.stream[i].pos = 0;
        for (unsigned b = 0; b < 8 && s->reading.len == 8; b++) {
            l->mark.stream[i].pos |= (uint64_t)(uint8_t)s->reading.ptr[b]
                                     << (8 * b);
        }
        l->mark.print[i] = s->ledger == STORAGE_NONE
                               ? 0
                               : world_ledger_print(&l->w, s->ledger);
        s->reading = (struct slice){0};
        l->w.stream[i] = *s;
    }
    free(streams);
    storage_load_close(&load);
}

static void
start(struct life *l, const struct storage_find *find)
{
    if (find->found) {
        restore(l, find);
        if (!known(l, print_of(l))) {
            world_fail("a state that never was");
        }
        for (uint32_t i = 0; i < STREAMS; i++) {
            go_on(l, i);
        }
        l->restored++;
        return;
    }
    if (l->states > 0 && !l->lies) {
        world_fail("a committed state is gone");
    }
    for (uint32_t i = 0; i < STREAMS; i++) {
        world_open(&l->w, i);
    }
    l->cold++;
}

static void
come_back(struct life *l)
{
    struct storage_limits limits = storage_limits_default();
    struct storage_source source;
    struct storage_find find;

    limits.txn_bytes = 2000;
    world_new(&l->w);
    if (storage_find(l->io, "c", &limits, 0, &find) != STORAGE_OK) {
        world_fail("the directory cannot be read");
    }
    l->refused += find.refusals;
    start(l, &find);
    l->save = storage_save_new(l->io, &limits, find.generation);
    source = (struct storage_source){
        .mirror = l->w.mirror,
        .piece_lines = 1 + (uint32_t)rng_below(&l->w.rng, 3)};
    if (l->w.apart) {
        struct storage_source other = {.ledger = l->w.ledger};
        l->twin = storage_cut_new(&other);
    } else {
        source.ledger = l->w.ledger;
    }
    l->cut = storage_cut_new(&source);
    if (l->save == NULL || l->cut == NULL || (l->w.apart && l->twin == NULL)) {
        world_fail("no memory");
    }
}

static void
plan_fault(struct life *l)
{
    static const enum storage_outcome faults[] = {STORAGE_E_IO, STORAGE_E_FULL,
                                                  STORAGE_E_MEMORY};
    struct rng *rng = &l->w.rng;

    sim_disk_fail(l->io, rng_below(rng, 4) == 0 ? 0 : 1 + rng_below(rng, 900),
                  faults[rng_below(rng, 3)]);
    sim_disk_limit(l->io,
                   rng_below(rng, 4) == 0 ? 20000 + rng_below(rng, 100000) : 0);
}

static void
run(struct life *l, uint64_t seed)
{
    uint64_t lives = 6;

    rng_init(&l->w.rng, seed);
    l->io = sim_disk_new(seed);
    l->lies = seed % 4 == 3;
    l->w.apart = (seed & 4) != 0 || seed % 2 == 1;
    sim_disk_lie(l->io, l->lies);
    come_back(l);
    for (; lives > 0; lives--) {
        uint64_t steps = rng_below(&l->w.rng, 4000);
        uint64_t pace = 1 + rng_below(&l->w.rng, 8);
        for (uint64_t i = 0; i < steps; i++) {
            world_change(&l->w);
            if (i % 400 == 0) {
                plan_fault(l);
            }
            if (i % pace == 0) {
                step_snapshot(l);
                step_snapshot(l);
            }
        }
        die(l);
        come_back(l);
    }
    die(l);
    storage_io_free(l->io);
}

int
main(int argc, char **argv)
{
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    static struct life l;
    static struct life sum;

    for (uint64_t i = 0; i < rounds; i++) {
        memset(&l, 0, sizeof l);
        printf("seed %" PRIu64 "\r", seed + i);
        (void)fflush(stdout);
        run(&l, seed + i);
        sum.commits += l.commits;
        sum.failures += l.failures;
        sum.restored += l.restored;
        sum.cold += l.cold;
        sum.refused += l.refused;
        sum.incremental += l.incremental;
        sum.again += l.again;
        sum.without += l.without;
    }
    printf("%" PRIu64 " snapshots (%" PRIu64 " begun as increments), %" PRIu64
           " failed; %" PRIu64 " starts warm, %" PRIu64 " cold, %" PRIu64
           " files refused; %" PRIu64
           " streams read something once more, %" PRIu64 " had no ledger\n",
           sum.commits, sum.incremental, sum.failures, sum.restored, sum.cold,
           sum.refused, sum.again, sum.without);
    return sum.commits > 0 && sum.restored > 0 && sum.again > 0 ? 0 : 1;
}
