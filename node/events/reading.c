#include "node/events/reading.h"
#include "index/base/mutant.h"

#include <stdio.h>
#include <string.h>

static struct intake_item
item_of(const struct reading *reading, enum intake_item_kind kind)
{
    return (struct intake_item){
        .kind = (uint32_t)kind,
        .worker = reading->worker,
        .generation = reading->generation,
        .rank = reading->rank,
        .reading = reading->number,
        .state = (uint32_t)kv_stream_state(reading->stream),
    };
}

static void *
reserve(const struct reading *reading, size_t size)
{
    return reading->sink.reserve(reading->sink.context, size);
}

static void
commit(const struct reading *reading)
{
    reading->sink.commit(reading->sink.context);
}

static void
note(const struct reading *reading, enum reading_note what, uint64_t seq)
{
    reading->sink.note(reading->sink.context, what, seq);
}

/* An item without a record. */
static void
tell_plain(struct reading *reading, enum intake_item_kind kind)
{
    struct intake_item *item = reserve(reading, sizeof *item);

    if (item != NULL) {
        *item = item_of(reading, kind);
        commit(reading);
    }
}

static void
tell_gap(struct reading *reading)
{
    reading->whole = false;
    reading->gap = true;
    tell_plain(reading, INTAKE_GAP);
}

/* A closed stream of the ledger is free again only when it was swept. */
static void
open_ledger(struct reading *reading)
{
    struct ledger *ledger = reading->tools->ledger;
    int outcome = ledger_open(ledger, &reading->ledger_stream);

    while (outcome == LEDGER_E_FULL && ledger_work(ledger, UINT32_MAX)) {
        outcome = ledger_open(ledger, &reading->ledger_stream);
    }
    if (outcome == LEDGER_E_FULL) {
        outcome = ledger_open(ledger, &reading->ledger_stream);
    }
    reading->has_ledger = outcome == 0;
    if (outcome != 0) {
        note(reading, READING_LEDGER_FULL, 0);
    }
}

/* The ledger knows nothing of the rank's blocks any more. */
static void
forget(struct reading *reading)
{
    if (reading->has_ledger) {
        ledger_close(reading->tools->ledger, reading->ledger_stream);
    }
    open_ledger(reading);
    reading->apply = (struct kv_apply){.rank = reading->rank};
}

static void
begin(struct reading *reading, const struct kv_out *out)
{
    struct intake_item *item = reserve(reading, sizeof *item);

    forget(reading);
    reading->process = out->process;
    reading->whole = out->whole;
    reading->gap = false;
    if (item != NULL) {
        *item = item_of(reading, INTAKE_BEGIN);
        item->process = out->process;
        item->whole = out->whole;
        item->ask = out->ask;
        (void)snprintf(item->reason, sizeof item->reason, "%s", out->reason);
        commit(reading);
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
fit(const struct batch *batch, uint32_t words_max, uint32_t *split)
{
    uint32_t at = 0;

    *split = 0;
    while (at < batch->left) {
        uint32_t keys = event_op_count(batch->words[at]);
        uint32_t room = words_max - at;
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
emit_record(struct reading *reading, struct batch *batch)
{
    uint32_t split;
    uint32_t count = fit(batch, reading->tools->record_words_max, &split);
    struct intake_item *item = reserve(reading, READING_ITEM_BYTES(count));

    if (item == NULL) {
        return false;
    }
    struct event_record *record = (void *)(item + 1);
    *item = item_of(reading, INTAKE_RECORD);
    item->sent_us = batch->sent_us;
    item->print = batch->print;
    *record = (struct event_record){
        .stream = {.worker = reading->identity, .rank = reading->rank},
        .epoch = reading->process,
        .seq = batch->seq,
        .block_tokens = reading->apply.block_tokens,
        .words_count = count,
    };
    take_words(batch, record->words, count, split);
    record->holes = batch->left == 0 ? ledger_holes(reading->tools->ledger,
                                                    reading->ledger_stream)
                                     : EVENT_HOLES_UNKNOWN;
    item->last = batch->left == 0;
    commit(reading);
    return true;
}

static void
emit_records(struct reading *reading, struct batch batch)
{
    while (emit_record(reading, &batch) && batch.left > 0) {
    }
    reading->gap = false;
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
take_unfit(struct reading *reading, const struct kv_out *out, uint64_t now_us)
{
    if (reading->unfit_print == out->print && reading->unfit_seq == out->seq) {
        note(reading, READING_DO_NOT_FIT, out->seq);
        kv_stream_not_whole(reading->stream);
        tell_gap(reading);
        return;
    }
    reading->unfit_print = out->print;
    reading->unfit_seq = out->seq;
    kv_stream_reread(reading->stream, "events missing", 0, now_us);
}

/* The engine cleared its cache, or it is as if: what the batch said before is
 * gone with the rest. */
static void
clear(struct reading *reading, struct event_words *words)
{
    forget(reading);
    kv_stream_cleared(reading->stream);
    *words = (struct event_words){.words = words->words, .max = words->max};
    if (!MUTANT(NO_CLEAR)) {
        (void)event_words_add(words, EVENT_CLEAR, TIER_DEVICE, 0);
    }
}

static void
tell(struct reading *reading, const struct kv_out *out,
     const struct event_words *words)
{
    emit_records(reading, (struct batch){.seq = out->seq,
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
start_over(struct reading *reading, const struct kv_out *out,
           struct event_words *words)
{
    if (reading->has_ledger) {
        note(reading, READING_TOO_LONG, out->seq);
    }
    clear(reading, words);
    tell(reading, out, words);
    kv_stream_not_whole(reading->stream);
    tell_gap(reading);
}

/* The batch is applied whole before any of it is told. */
static void
apply(struct reading *reading, const struct kv_out *out, uint64_t now_us)
{
    struct event_words *words = &reading->tools->words;
    int outcome;

    *words = (struct event_words){.words = words->words, .max = words->max};
    if (!reading->has_ledger) {
        start_over(reading, out, words);
        return;
    }
    /* A batch that cannot be begun is for kv_apply() to count. */
    if (kv_reader_begin(reading->tools->reader, out->payload) != 0) {
        note(reading, READING_UNREADABLE, out->seq);
    }
    while ((outcome = kv_apply(&reading->apply, reading->tools->reader,
                               reading->tools->ledger, reading->ledger_stream,
                               reading->counters, words)) ==
           KV_APPLY_E_CLEARED) {
        clear(reading, words);
        if (!reading->has_ledger) {
            break;
        }
    }
    if (words->failed || !reading->has_ledger) {
        start_over(reading, out, words);
        return;
    }
    if (outcome == KV_APPLY_E_DAMAGED && kv_stream_is_whole(reading->stream)) {
        take_unfit(reading, out, now_us);
    }
    tell(reading, out, words);
}

void
reading_take(struct reading *reading, const struct kv_out *out, uint64_t now_us)
{
    switch (out->kind) {
    case KV_OUT_APPLY:
        apply(reading, out, now_us);
        break;
    case KV_OUT_BEGIN:
        begin(reading, out);
        break;
    case KV_OUT_GAP:
        tell_gap(reading);
        break;
    case KV_OUT_STATE:
        tell_plain(reading, INTAKE_STATE);
        break;
    case KV_OUT_REPLAY:
    case KV_OUT_HANGUP:
        break;
    }
}

/* Another life */

void
reading_tell_resume(struct reading *reading)
{
    struct intake_item *item = reserve(reading, sizeof *item);

    if (item != NULL) {
        *item = item_of(reading, INTAKE_RESUME);
        item->process = reading->process;
        item->whole = reading->whole;
        item->seq = kv_stream_next_seq(reading->stream) - 1;
        commit(reading);
    }
    if (reading->gap) {
        tell_gap(reading);
    }
}

void
reading_tell_position(struct reading *reading, uint64_t cut)
{
    struct buf bytes;

    buf_init(&bytes, READING_BYTES_MAX);
    if (reading->has_ledger && reading_image(reading, &bytes)) {
        struct intake_item *item =
            reserve(reading,
                    sizeof *item + sizeof(struct reading_position) + bytes.len);
        if (item != NULL) {
            struct reading_position *position = (void *)(item + 1);
            *item = item_of(reading, INTAKE_POSITION);
            item->cut = cut;
            *position = (struct reading_position){
                .ledger = reading->ledger_stream,
                .len = (uint32_t)bytes.len,
                .blocks = ledger_blocks(reading->tools->ledger,
                                        reading->ledger_stream),
                .seq = kv_stream_next_seq(reading->stream) - 1,
                .process = reading->process,
            };
            memcpy(position->bytes, bytes.ptr, bytes.len);
            commit(reading);
        }
    }
    buf_fini(&bytes);
}

void
reading_close(struct reading *reading)
{
    if (reading->has_ledger) {
        ledger_close(reading->tools->ledger, reading->ledger_stream);
        reading->has_ledger = false;
    }
}
