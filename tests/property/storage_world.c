/* The changes of the index, and their memory for a replay. */
#include "tests/property/storage_world.h"

#include <stdio.h>
#include <stdlib.h>

#include "index/ledger_internal.h"

#define BYTES_MAX ((size_t)256 << 20)

void
world_fail(const char *what)
{
    fprintf(stderr, "property_storage: %s\n", what);
    abort();
}

void
world_new(struct world *w)
{
    struct mirror_limits mirror_limits = {.bytes_max = BYTES_MAX};
    struct ledger_limits ledger_limits = {.bytes_max = BYTES_MAX};

    qsbr_init(&w->qsbr);
    if (mirror_new(&w->mirror, &mirror_limits, &w->qsbr) != 0 ||
        ledger_new(&w->ledger, &ledger_limits) != 0) {
        world_fail("no memory");
    }
    w->told_count = 0;
    w->applied = 0;
}

void
world_free(struct world *w)
{
    mirror_free(w->mirror);
    ledger_free(w->ledger);
}

/* ---- the mirror's end ---- */

static void
open_mirror(struct world *w, uint32_t i, uint32_t epoch_no)
{
    struct storage_stream *s = &w->stream[i];

    *s = (struct storage_stream){.name = {.worker = i + 1},
                                 .slot = STORAGE_NONE,
                                 .ledger = STORAGE_NONE,
                                 .epoch_no = epoch_no};
    if (mirror_open(w->mirror, &s->slot) != 0) {
        world_fail("no slot");
    }
}

void
world_apply(struct world *w)
{
    const struct told *told = &w->told[w->applied++ % TOLD_MAX];
    struct storage_stream *s = &w->stream[told->stream];

    if (told->begins) {
        mirror_close(w->mirror, s->slot);
        open_mirror(w, told->stream, told->epoch_no);
        return;
    }
    if (told->pos <= s->pos) {
        return; /* read once more */
    }
    if (told->pos != s->pos + 1) {
        world_fail("something between was left out");
    }
    s->pos = told->pos;
    s->holes = told->holes;
    if (mirror_apply(w->mirror, s->slot, told->words, told->count,
                     told->holes) != 0) {
        world_fail("the mirror is full");
    }
}

/* ---- the ledger's end ---- */

/* Room for one more, which may wait until some are applied. */
static struct told *
tell(struct world *w)
{
    while (w->told_count - w->applied >= (w->apart ? TOLD_MAX : 1)) {
        world_apply(w);
    }
    return &w->told[w->told_count++ % TOLD_MAX];
}

static void
open_ledger(struct world *w, uint32_t i)
{
    struct ahead *a = &w->ahead[i];

    if (ledger_open(w->ledger, &a->stream) != 0) {
        world_fail("no stream");
    }
    a->epoch_no = (uint32_t)rng_below(&w->rng, 1U << 30);
    a->pos = 0;
}

void
world_open(struct world *w, uint32_t i)
{
    open_ledger(w, i);
    open_mirror(w, i, w->ahead[i].epoch_no);
}

static void
reopen(struct world *w, uint32_t i)
{
    ledger_close(w->ledger, w->ahead[i].stream);
    open_ledger(w, i);
    *tell(w) = (struct told){
        .stream = i, .begins = true, .epoch_no = w->ahead[i].epoch_no};
}

/* Puts an op into the ledger; false: it refused. */
static bool
perform(struct world *w, uint32_t i, const struct op *op,
        struct event_words *out)
{
    struct ledger_done done;
    uint32_t stream = w->ahead[i].stream;
    struct ledger_run run = {.has_parent = op->has_parent,
                             .parent = op->parent,
                             .hashes = op->hashes,
                             .tokens = op->tokens,
                             .block_tokens = TOKENS,
                             .root = 7,
                             .count = op->count,
                             .tier = op->tier};

    switch (op->kind) {
    case OP_STORE:
        return ledger_store(w->ledger, stream, &run, out, &done) == 0;
    case OP_PLACE:
        return ledger_place(w->ledger, stream, op->hashes[0], op->tier, out,
                            &done) == 0;
    case OP_REMOVE:
    default:
        ledger_remove(w->ledger, stream, op->hashes, op->count, NULL, op->tier,
                      out, &done);
        return true;
    }
}

static uint64_t
words_print(const struct event_words *out)
{
    return key_digest((struct slice){.ptr = (const char *)out->words,
                                     .len = out->count * sizeof(uint64_t)});
}

/* A batch that the ledger took is told, and in the engine's replay. */
static void
act(struct world *w, uint32_t i, struct op *op)
{
    struct ahead *a = &w->ahead[i];
    struct told *told = tell(w);
    struct event_words out = {.words = told->words, .max = RUN_MAX + 2};

    *told = (struct told){.stream = i};
    if (!perform(w, i, op, &out)) {
        w->told_count--;
        return;
    }
    told->pos = ++a->pos;
    told->count = out.count;
    told->holes = ledger_holes(w->ledger, a->stream);
    op->pos = a->pos;
    op->print = words_print(&out);
    a->ops[op->pos % OPS_MAX] = *op;
}

void
world_catch_up(struct world *w, uint32_t i)
{
    struct ahead *a = &w->ahead[i];

    while (a->pos < w->stream[i].pos) {
        const struct op *op = &a->ops[(a->pos + 1) % OPS_MAX];
        uint64_t room[RUN_MAX + 2];
        struct event_words out = {.words = room, .max = RUN_MAX + 2};
        if (op->pos != a->pos + 1) {
            world_fail("the replay does not reach so far back");
        }
        if (!perform(w, i, op, &out) || words_print(&out) != op->print) {
            world_fail("what was read once more tells something else");
        }
        a->pos++;
    }
    if (ledger_holes(w->ledger, a->stream) != w->stream[i].holes) {
        world_fail("other holes");
    }
}

/* ---- at random ---- */

static uint64_t
name_of(uint32_t stream, uint64_t key)
{
    /* Streams 0 to 2 name alike, the others each in their own way. */
    return rng_mix(key + (stream < 3 ? 0 : stream));
}

static uint64_t
some_recent(struct world *w, uint32_t i)
{
    return w->recent[i][rng_below(&w->rng, RECENT)];
}

static void
store(struct world *w, uint32_t i)
{
    struct op op = {.kind = OP_STORE,
                    .count = 1 + (uint32_t)rng_below(&w->rng, RUN_MAX)};
    uint64_t chain = rng_below(&w->rng, 3);

    op.has_parent = rng_below(&w->rng, 4) != 0;
    op.parent = some_recent(w, i);
    op.tier = rng_below(&w->rng, 5) == 0 ? TIER_HOST : TIER_DEVICE;
    if (op.has_parent && op.parent == 0) {
        return;
    }
    chain += op.has_parent ? op.parent : 0;
    for (uint32_t b = 0; b < op.count; b++) {
        chain = rng_mix(chain + rng_below(&w->rng, 2));
        op.hashes[b] = name_of(i, chain);
        for (uint32_t t = 0; t < TOKENS; t++) {
            op.tokens[b * TOKENS + t] = (uint32_t)(chain >> t);
        }
        w->recent[i][rng_below(&w->rng, RECENT)] = op.hashes[b];
    }
    act(w, i, &op);
}

static void
remove_some(struct world *w, uint32_t i)
{
    struct op op = {.kind = OP_REMOVE,
                    .count = 1 + (uint32_t)rng_below(&w->rng, RUN_MAX - 1)};

    op.tier = rng_below(&w->rng, 3) == 0 ? TIER_HOST : TIER_DEVICE;
    for (uint32_t b = 0; b < op.count; b++) {
        op.hashes[b] = some_recent(w, i);
    }
    act(w, i, &op);
}

static void
place(struct world *w, uint32_t i)
{
    struct op op = {.kind = OP_PLACE, .count = 1};

    op.hashes[0] = some_recent(w, i);
    op.tier = (enum tier)rng_below(&w->rng, TIERS);
    act(w, i, &op);
}

void
world_change(struct world *w)
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
    } else if (rng_below(&w->rng, 3) == 0) {
        reopen(w, i);
    }
    while (w->applied < w->told_count &&
           (!w->apart || rng_below(&w->rng, 3) != 0)) {
        world_apply(w);
    }
}

/* ---- as numbers ---- */

uint64_t
world_mirror_print(const struct world *w, uint32_t i)
{
    static uint64_t room[4096];
    uint64_t print = 0;
    uint64_t cursor = 0;

    while (cursor != MIRROR_PAGE_END) {
        struct event_words out = {.words = room, .max = 4096};
        cursor = mirror_page(w->mirror, w->stream[i].slot, cursor, &out);
        for (uint32_t at = 0; at < out.count;) {
            uint64_t op = out.words[at++];
            for (uint32_t n = event_op_count(op); n > 0; n--) {
                print ^= rng_mix(out.words[at++] + event_op_tier(op) * 3);
            }
        }
    }
    return print;
}

uint64_t
world_ledger_print(const struct world *w, uint32_t stream)
{
    const struct ledger *l = w->ledger;
    uint64_t print = 0;

    for (uint32_t ref = 1; ref < l->entries.fresh; ref++) {
        const struct entry *entry = entry_at(l, ref);
        if (entry->link == 0 || !holders_has(l, entry->holders, stream)) {
            continue;
        }
        uint32_t parent = ledger_parent(l, entry);
        uint64_t above = parent == REF_NONE ? 1 : entry_at(l, parent)->name;
        print ^= rng_mix(rng_mix(entry->name) + rng_mix(entry->key * 3) +
                         rng_mix(above * 5) + ledger_copies(l, ref, stream));
    }
    return print;
}

void
world_check(struct world *w)
{
    const char *reason;

    while (ledger_work(w->ledger, 1U << 20)) {
    }
    if (!ledger_check(w->ledger, &reason) ||
        !mirror_check(w->mirror, &reason)) {
        world_fail(reason);
    }
}
