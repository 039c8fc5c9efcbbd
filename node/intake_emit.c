#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "node/intake_inner.h"
#include "node/log.h"

#define FULL_WAIT_MS 1L /* between two looks at a full ring */

/* A record is a quarter of the ring at most. */
#define ITEM_BYTES_MAX (INTAKE_RING_BYTES / 4)
#define HEADS_BYTES    (sizeof(struct intake_item) + sizeof(struct event_record))
#define RECORD_WORDS_MAX \
    ((uint32_t)((ITEM_BYTES_MAX - HEADS_BYTES) / sizeof(uint64_t)))

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
reserve(struct intake *intake, size_t size)
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
commit(struct intake *intake)
{
    ring_commit(&intake->items);
    intake->emitted = true;
}

static struct intake_item
item_of(const struct intake_rank *rank, enum intake_item_kind kind)
{
    return (struct intake_item){
        .kind = (uint32_t)kind,
        .worker = rank->source->worker.slot,
        .generation = rank->source->worker.generation,
        .rank = rank->rank,
        .reading = rank->source->worker.reading,
        .state = (uint32_t)kv_stream_state(rank->stream),
    };
}

void
intake_emit_state(struct intake_rank *rank)
{
    struct intake_item *item = reserve(rank->intake, sizeof *item);

    gauge_set(&rank->numbers.state, (int32_t)kv_stream_state(rank->stream));
    if (item != NULL) {
        *item = item_of(rank, INTAKE_STATE);
        commit(rank->intake);
    }
}

/* A closed stream of the ledger is free again only when it was swept. */
static void
open_ledger(struct intake_rank *rank)
{
    struct ledger *ledger = rank->intake->ledger;
    int outcome = ledger_open(ledger, &rank->ledger_stream);

    while (outcome == LEDGER_E_FULL && ledger_work(ledger, UINT32_MAX)) {
        outcome = ledger_open(ledger, &rank->ledger_stream);
    }
    if (outcome == LEDGER_E_FULL) {
        outcome = ledger_open(ledger, &rank->ledger_stream);
    }
    rank->has_ledger = outcome == 0;
    if (outcome != 0) {
        LOG_WARNING("events_ledger_full", KV("worker", rank->source->worker.id),
                    KV("rank", rank->rank));
    }
}

/* The ledger knows nothing of the rank's blocks any more. */
static void
forget(struct intake_rank *rank)
{
    if (rank->has_ledger) {
        ledger_close(rank->intake->ledger, rank->ledger_stream);
    }
    open_ledger(rank);
    rank->apply = (struct kv_apply){.rank = rank->rank};
}

void
intake_emit_begin(struct intake_rank *rank, const struct kv_out *out)
{
    struct intake_item *item = reserve(rank->intake, sizeof *item);

    forget(rank);
    rank->process = out->process;
    if (item != NULL) {
        *item = item_of(rank, INTAKE_BEGIN);
        item->process = out->process;
        item->whole = out->whole;
        item->ask = out->ask;
        (void)snprintf(item->reason, sizeof item->reason, "%s", out->reason);
        commit(rank->intake);
    }
}

void
intake_emit_gap(struct intake_rank *rank)
{
    struct intake_item *item = reserve(rank->intake, sizeof *item);

    if (item != NULL) {
        *item = item_of(rank, INTAKE_GAP);
        commit(rank->intake);
    }
}

/* Records */

/* What one batch says, on its way into records. */
struct batch {
    uint64_t seq;
    uint64_t print;
    uint64_t sent_us;
    uint64_t *words; /* whole ops; those taken are overwritten */
    uint32_t left;
};

/* How many words fit into one record: whole ops and, of the one that does not
 * fit any more, as many keys as do; *split says how many, 0: none. */
static uint32_t
fit(const struct batch *batch, uint32_t *split)
{
    uint32_t at = 0;

    *split = 0;
    while (at < batch->left) {
        uint32_t keys = event_op_count(batch->words[at]);
        uint32_t room = RECORD_WORDS_MAX - at;
        if (room <= 1 && keys >= room) {
            break;
        }
        if (keys >= room) {
            *split = room - 1;
            return at + room;
        }
        at += 1 + keys;
    }
    return at;
}

/* Moves the first `count` words out of the batch; the op that is split there
 * after `split` keys goes on in the batch under a head of its own. */
static void
take_words(struct batch *batch, uint64_t *into, uint32_t count, uint32_t split)
{
    memcpy(into, batch->words, count * sizeof *into);
    batch->words += count;
    batch->left -= count;
    if (split == 0) {
        return;
    }
    uint64_t op = into[count - 1 - split];
    uint32_t rest = event_op_count(op) - split;
    into[count - 1 - split] =
        event_op(event_op_kind(op), event_op_tier(op), split);
    if (rest > 0) {
        batch->words--; /* a key that was taken */
        batch->left++;
        *batch->words = event_op(event_op_kind(op), event_op_tier(op), rest);
    }
}

static bool
emit_record(struct intake_rank *rank, struct batch *batch)
{
    struct intake *intake = rank->intake;
    uint32_t split;
    uint32_t count = fit(batch, &split);
    struct intake_item *item =
        reserve(intake, HEADS_BYTES + count * sizeof(uint64_t));

    if (item == NULL) {
        return false;
    }
    struct event_record *record = (void *)(item + 1);
    *item = item_of(rank, INTAKE_RECORD);
    item->sent_us = batch->sent_us;
    item->print = batch->print;
    *record = (struct event_record){
        .stream = {.worker = rank->source->worker.identity, .rank = rank->rank},
        .epoch = rank->process,
        .seq = batch->seq,
        .block_tokens = rank->apply.block_tokens,
        .words_count = count,
    };
    take_words(batch, record->words, count, split);
    record->holes = batch->left == 0
                        ? ledger_holes(intake->ledger, rank->ledger_stream)
                        : EVENT_HOLES_UNKNOWN;
    item->last = batch->left == 0;
    commit(intake);
    return true;
}

static void
emit_records(struct intake_rank *rank, struct batch batch)
{
    while (emit_record(rank, &batch) && batch.left > 0) {
    }
}

/* The publisher's wall clock: a float of seconds, the first element. */
static uint64_t
sent_us(struct slice payload)
{
    const unsigned char *at = (const unsigned char *)payload.ptr;
    uint64_t bits = 0;
    double seconds;

    if (payload.len < 10 || (at[0] & 0xf0) != 0x90 || at[1] != 0xcb) {
        return 0;
    }
    for (int i = 2; i < 10; i++) {
        bits = bits << 8 | at[i];
    }
    memcpy(&seconds, &bits, sizeof seconds);
    return seconds > 0 && seconds < 1e12 ? (uint64_t)(seconds * 1e6) : 0;
}

/*
 * A batch that does not fit although all before it is known: something was
 * lost on the way, and reading again helps. If the same batch does not fit
 * then, the engine says what cannot be true, and reading again would not end:
 * from there on not all is known.
 */
static void
take_unfit(struct intake_rank *rank, const struct kv_out *out)
{
    if (rank->unfit_print == out->print && rank->unfit_seq == out->seq) {
        LOG_WARNING("events_do_not_fit", KV("worker", rank->source->worker.id),
                    KV("rank", rank->rank), KV("seq", out->seq));
        kv_stream_not_whole(rank->stream);
        intake_emit_gap(rank);
        return;
    }
    rank->unfit_print = out->print;
    rank->unfit_seq = out->seq;
    kv_stream_reread(rank->stream, "events missing", 0, rank->intake->now_us);
}

/* The engine cleared its cache, or it is as if: what the batch said before is
 * gone with the rest. */
static void
clear(struct intake_rank *rank, struct event_words *words)
{
    forget(rank);
    kv_stream_cleared(rank->stream);
    *words = (struct event_words){.words = words->words, .max = words->max};
    (void)event_words_add(words, EVENT_CLEAR, TIER_DEVICE, 0);
}

static void
tell(struct intake_rank *rank, const struct kv_out *out,
     const struct event_words *words)
{
    emit_records(rank, (struct batch){.seq = out->seq,
                                      .print = out->print,
                                      .sent_us = sent_us(out->payload),
                                      .words = words->words,
                                      .left = words->count});
}

/*
 * The ledger knows what cannot be told, or there is none: it forgets, and so
 * do all others. What the stream says from here on is true, and not all there
 * is.
 */
static void
start_over(struct intake_rank *rank, const struct kv_out *out,
           struct event_words *words)
{
    if (rank->has_ledger) {
        LOG_WARNING("events_batch_too_long",
                    KV("worker", rank->source->worker.id),
                    KV("rank", rank->rank), KV("seq", out->seq));
    }
    clear(rank, words);
    tell(rank, out, words);
    kv_stream_not_whole(rank->stream);
    intake_emit_gap(rank);
}

/* The batch is applied whole before any of it is told. */
void
intake_emit_apply(struct intake_rank *rank, const struct kv_out *out)
{
    struct intake *intake = rank->intake;
    struct event_words *words = &intake->words;
    int outcome;

    *words = (struct event_words){.words = words->words, .max = words->max};
    if (!rank->has_ledger) {
        start_over(rank, out, words);
        return;
    }
    /* A batch that cannot be begun is for kv_apply() to count. */
    if (kv_reader_begin(intake->reader, out->payload) != 0) {
        LOG_WARNING("events_unreadable", KV("worker", rank->source->worker.id),
                    KV("rank", rank->rank), KV("seq", out->seq));
    }
    while ((outcome = kv_apply(&rank->apply, intake->reader, intake->ledger,
                               rank->ledger_stream, &rank->numbers.kv,
                               words)) == KV_APPLY_E_CLEARED) {
        clear(rank, words);
        if (!rank->has_ledger) {
            break;
        }
    }
    if (words->failed || !rank->has_ledger) {
        start_over(rank, out, words);
        return;
    }
    if (outcome == KV_APPLY_E_DAMAGED && kv_stream_is_whole(rank->stream)) {
        take_unfit(rank, out);
    }
    tell(rank, out, words);
}
