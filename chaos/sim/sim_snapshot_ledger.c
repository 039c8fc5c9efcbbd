/*
 * The ledger's half of snapshots, on the intake's thread: its cut, the
 * positions of its readings, and readings that continue from there in the next
 * life.
 */
#include <stdlib.h>

#include "chaos/sim/sim_snapshot_internal.h"

#define WAITS_US UINT64_C(5000) /* for the disk */

/* Waking: called within the twin's, so nothing is done at once. */

static void
wake_ledger(void *context)
{
    struct sim_store *d = context;
    struct sim_world *w = d->world;

    if (!d->cutting) {
        d->cutting = true;
        sim_add(w, w->time.now_us + 1 + rng_below(&w->stores->rng, 2000),
                SIM_EV_LEDGER, d->node, w->nodes[d->node].life);
    }
}

static void
wake_control(void *context)
{
    struct sim_store *d = context;

    sim_snapshot_arm(d->world, d->node, 0);
}

/* A life */

void
sim_ledger_begin(struct sim_world *w, uint32_t node)
{
    struct sim_store *d = sim_store_of(w, node);
    const struct storage_twin_calls calls = {.wake_ledger = wake_ledger,
                                             .ledger_context = d,
                                             .wake_control = wake_control,
                                             .control_context = d};

    d->world = w;
    d->node = node;
    d->cutting = false;
    d->twin = storage_twin_new(w->nodes[node].tools.ledger, &calls);
    CHECK(d->twin != NULL);
    storage_take_with(&d->take, d->twin);
}

static void
drop(struct sim_held *held)
{
    free(held->at);
    *held = (struct sim_held){.at = NULL};
}

void
sim_ledger_end(struct sim_world *w, uint32_t node)
{
    struct sim_store *d = sim_store_of(w, node);

    storage_twin_free(d->twin);
    d->twin = NULL;
    for (uint32_t i = 0; i < SIM_STREAMS; i++) {
        drop(&d->position[i]);
        drop(&d->resume[i]);
    }
}

/* The thread's turns */

static void
tell_positions(struct sim_world *w, uint32_t node, uint64_t cut)
{
    struct sim_node *n = &w->nodes[node];

    for (uint32_t i = 0; i < w->engines_count; i++) {
        if (n->readers[i].on) {
            decoder_tell_position(&n->readers[i].decoder, cut);
        }
    }
    struct intake_item *item = ring_reserve(&n->items, sizeof *item);
    CHECK(item != NULL);
    *item = (struct intake_item){.kind = INTAKE_CUT, .cut = cut};
    ring_commit(&n->items);
    sim_node_want(w, node);
}

void
sim_ledger_turn(struct sim_world *w, uint32_t node)
{
    struct sim_store *d = sim_store_of(w, node);
    uint64_t after_us = 1 + rng_below(&w->stores->rng, w->stores->turn_us);
    uint64_t cut;

    d->cutting = false;
    switch (storage_twin_turn(d->twin, w->stores->take.turn_bytes, &cut)) {
    case STORAGE_TWIN_ENDED:
        tell_positions(w, node, cut);
        break;
    case STORAGE_TWIN_BUSY:
        break;
    case STORAGE_TWIN_WAITS:
        after_us = WAITS_US;
        break;
    case STORAGE_TWIN_NOTHING:
        return;
    }
    if (!d->cutting) {
        d->cutting = true;
        sim_add(w, w->time.now_us + after_us, SIM_EV_LEDGER, node,
                w->nodes[node].life);
    }
}

/* Items of the intake */

bool
sim_snapshot_item(struct sim_world *w, uint32_t node,
                  const struct intake_item *item)
{
    struct sim_store *d = sim_store_of(w, node);
    struct sim_held *held = d == NULL ? NULL : &d->position[item->worker];

    if (d == NULL) {
        return false;
    }
    if (item->kind == INTAKE_BEGIN) {
        drop(held);
        return false;
    }
    if (item->kind == INTAKE_CUT) {
        storage_take_told(&d->take, item->cut);
        sim_snapshot_arm(w, node, 0);
    }
    if (item->kind == INTAKE_POSITION) {
        const struct decoder_position *from = (const void *)(item + 1);
        size_t size = sizeof *from + from->len;
        drop(held);
        held->at = malloc(size);
        CHECK(held->at != NULL);
        memcpy(held->at, from, size);
        held->cut = item->cut;
    }
    return item->kind == INTAKE_CUT || item->kind == INTAKE_POSITION;
}

void
sim_snapshot_unread(struct sim_world *w, uint32_t node, uint32_t engine)
{
    struct sim_store *d = sim_store_of(w, node);

    if (d != NULL) {
        drop(&d->position[engine]);
    }
}

/* What the facts have of it. */
void
sim_ledger_position(struct sim_world *w, uint32_t node, uint32_t engine,
                    struct storage_stream *stream)
{
    struct sim_store *d = sim_store_of(w, node);
    const struct sim_held *held = &d->position[engine];
    uint64_t number = storage_take_number(&d->take);

    if (held->at != NULL && number != 0 && held->cut == number) {
        snapshot_stream_position(
            w->nodes[node].ingest, held->at,
            (struct slice){.ptr = held->at->bytes, .len = held->at->len},
            stream);
    }
}

/* The next life */

/* At that time the reading knew what the engine had published. */
static void
check_ledger(struct sim_world *w, uint32_t node, uint32_t engine,
             const struct storage_stream *stream)
{
    const struct sim_engine *e = &w->engines[engine];
    uint32_t process = sim_engine_process(e, stream->epoch_id);
    uint64_t seq = 0;

    if (!decoder_image_check(stream->reading, &seq) || process == UINT32_MAX ||
        !stream->complete) {
        return;
    }
    if (seq >= e->processes[process].count ||
        ledger_blocks(w->nodes[node].tools.ledger, stream->ledger) !=
            e->processes[process].batches[seq].count) {
        sim_fail(w, "loaded names that the engine never had", node, engine);
    }
}

void
sim_ledger_restore(struct sim_world *w, uint32_t node, uint32_t engine,
                   const struct storage_stream *stream)
{
    struct sim_store *d = sim_store_of(w, node);
    struct sim_held *held = &d->resume[engine];
    size_t len = stream->reading.len;

    if (stream->ledger == STORAGE_NONE) {
        return;
    }
    check_ledger(w, node, engine, stream);
    drop(held);
    held->at = malloc(sizeof *held->at + len);
    CHECK(held->at != NULL);
    *held->at = (struct decoder_position){.ledger = stream->ledger,
                                          .len = (uint32_t)len};
    memcpy(held->at->bytes, stream->reading.ptr, len);
}

void
sim_snapshot_resume(struct sim_world *w, uint32_t node, uint32_t engine,
                    struct decoder *decoder)
{
    struct sim_store *d = sim_store_of(w, node);

    if (d == NULL || d->resume[engine].at == NULL) {
        return;
    }
    const struct decoder_position *at = d->resume[engine].at;
    if (decoder_resume(decoder, at->ledger,
                       (struct slice){.ptr = at->bytes, .len = at->len})) {
        decoder_tell_resume(decoder);
        sim_trace(w, "resume", sim_reader_of(node, engine), at->len);
        sim_saw(w, SIM_SAW_RESUMED, 1);
    }
    drop(&d->resume[engine]);
}
