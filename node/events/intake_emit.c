/* Writes the items of a rank's decoder into the ring to control. */
#include <zmq.h>

#include "node/base/log.h"
#include "node/events/intake_internal.h"

#define FULL_WAIT_MS 1L /* between two looks at a full ring */

void
intake_emit_wake(struct intake *intake)
{
    if (intake->emitted) {
        intake->emitted = false;
        (void)uv_async_send(intake->wake);
    }
}

/*
 * Room in the ring, waited for while there is none: no socket is read
 * meanwhile. NULL: the intake ends.
 */
static void *
reserve_item(struct intake *intake, size_t size)
{
    void *room = ring_reserve(&intake->items, size);

    while (room == NULL && !intake_is_ending(intake)) {
        intake->emitted = true;
        intake_emit_wake(intake);
        (void)zmq_poll(NULL, 0, FULL_WAIT_MS);
        intake->turn_us = intake_now_us();
        room = ring_reserve(&intake->items, size);
    }
    return room;
}

static void
commit_item(struct intake *intake)
{
    ring_commit(&intake->items);
    intake->emitted = true;
}

static void *
reserve(void *context, size_t size)
{
    return reserve_item(((struct intake_rank *)context)->intake, size);
}

static void
commit(void *context)
{
    commit_item(((struct intake_rank *)context)->intake);
}

void
intake_emit_cut(struct intake *intake, uint64_t cut)
{
    struct intake_item *item = reserve_item(intake, sizeof *item);

    if (item != NULL) {
        *item = (struct intake_item){.kind = INTAKE_CUT, .cut = cut};
        commit_item(intake);
    }
}

static void
note(void *context, enum decoder_note what, uint64_t seq)
{
    const struct intake_rank *rank = context;
    const char *id = rank->source->worker.id;
    uint32_t number = rank->decoder.rank;

    switch (what) {
    case DECODER_LEDGER_FULL:
        LOG_WARNING(
            "events_ledger_full", KV("worker", id), KV("rank", number),
            KV("hint",
               "this rank's cache is not followed: fewer workers, or ranks"));
        break;
    case DECODER_DO_NOT_FIT:
        LOG_WARNING(
            "events_do_not_fit", KV("worker", id), KV("rank", number),
            KV("seq", seq),
            KV("hint", "the engine's events contradict each other; the reading "
                       "goes on without what it cannot place. If it repeats, "
                       "is the engine newer than this node?"));
        break;
    case DECODER_TOO_LONG:
        LOG_WARNING("events_batch_too_long", KV("worker", id),
                    KV("rank", number), KV("seq", seq),
                    KV("hint", "the engine stored or removed more at once than "
                               "a node takes, or what it removed cannot be "
                               "read; none of its blocks is claimed"));
        break;
    case DECODER_UNREADABLE:
        LOG_WARNING(
            "events_unreadable", KV("worker", id), KV("rank", number),
            KV("seq", seq),
            KV("hint", "kvasir_events_dropped_total say what is wrong; is the "
                       "engine newer than this node?"));
        break;
    }
}

void
intake_emit_open(struct intake_rank *rank, uint32_t number)
{
    const struct intake_worker *worker = &rank->source->worker;

    rank->decoder = (struct decoder){
        .tools = &rank->intake->tools,
        .counters = &rank->numbers.kv,
        .sink = {.context = rank,
                 .reserve = reserve,
                 .commit = commit,
                 .note = note},
        .identity = worker->identity,
        .worker = worker->slot,
        .generation = worker->generation,
        .rank = number,
        .number = worker->reading,
        .apply = {.rank = number},
    };
}

void
intake_emit(struct intake_rank *rank, const struct kv_out *out)
{
    if (out->kind == KV_OUT_STATE) {
        gauge_set(&rank->numbers.state,
                  (int32_t)kv_stream_state(rank->decoder.stream));
    }
    decoder_take(&rank->decoder, out, rank->intake->now_us);
}
