/* Applies one rank's batches to the ledger, and emits their changes as
 * items. */
#include "node/events/decoder.h"
#include "index/base/mutant.h"

#include <stdio.h>
#include <string.h>

static struct intake_item
item_of(const struct decoder *decoder, enum intake_item_kind kind)
{
    return (struct intake_item){
        .kind = (uint32_t)kind,
        .worker = decoder->worker,
        .generation = decoder->generation,
        .rank = decoder->rank,
        .reading = decoder->number,
        .state = (uint32_t)kv_stream_state(decoder->stream),
    };
}

static void *
reserve(const struct decoder *decoder, size_t size)
{
    return decoder->sink.reserve(decoder->sink.context, size);
}

static void
commit(const struct decoder *decoder)
{
    decoder->sink.commit(decoder->sink.context);
}

static void
note(const struct decoder *decoder, enum decoder_note what, uint64_t seq)
{
    decoder->sink.note(decoder->sink.context, what, seq);
}

/* An item without a record. */
static void
tell_plain(struct decoder *decoder, enum intake_item_kind kind, uint64_t ask)
{
    struct intake_item *item = reserve(decoder, sizeof *item);

    if (item != NULL) {
        *item = item_of(decoder, kind);
        item->ask = ask;
        commit(decoder);
    }
}

static void
tell_gap(struct decoder *decoder)
{
    decoder->whole = false;
    decoder->gap = true;
    tell_plain(decoder, INTAKE_GAP, 0);
}

/* A closed stream of the ledger is free again only when it was swept. */
static void
open_ledger(struct decoder *decoder)
{
    struct ledger *ledger = decoder->tools->ledger;
    int outcome = ledger_open(ledger, &decoder->ledger_stream);

    while (outcome == LEDGER_E_FULL && ledger_work(ledger, UINT32_MAX)) {
        outcome = ledger_open(ledger, &decoder->ledger_stream);
    }
    if (outcome == LEDGER_E_FULL) {
        outcome = ledger_open(ledger, &decoder->ledger_stream);
    }
    decoder->has_ledger = outcome == 0;
    if (outcome != 0) {
        note(decoder, DECODER_LEDGER_FULL, 0);
    }
}

/* What changes in the ledger is told from here on, if names are told. */
static void
begin_names(struct decoder *decoder)
{
    struct decoder_tools *tools = decoder->tools;

    names_said_clear(&tools->names);
    if (tools->names.words.words_max > 0 && decoder->has_ledger) {
        ledger_say(tools->ledger, decoder->ledger_stream, &tools->names);
    }
}

static void
end_names(struct decoder *decoder, uint64_t seq)
{
    struct decoder_tools *tools = decoder->tools;
    uint64_t words[NAMES_READER_MAX];

    ledger_say(tools->ledger, 0, NULL);
    if (tools->names.words.words_max == 0) {
        return;
    }
    bool again = decoder->reader_again && seq >= decoder->told_end;
    if (again || seq % DECODER_READER_EACH == 0) {
        decoder->reader_again = decoder->reader_again && !again;
        decoder->reader_told = false; /* or not to peers, who had the batches */
    }
    uint32_t count = decoder_reader(decoder, words);
    if (!decoder->reader_told || count != decoder->reader_count ||
        memcmp(words, decoder->reader, count * sizeof *words) != 0) {
        names_say_reader(&tools->names, words, count);
        decoder->reader_told = true;
        decoder->reader_count = count;
        memcpy(decoder->reader, words, count * sizeof *words);
    }
}

/* The ledger no longer knows any of the rank's blocks. */
static void
forget(struct decoder *decoder)
{
    ledger_say(decoder->tools->ledger, 0, NULL);
    if (decoder->has_ledger) {
        ledger_close(decoder->tools->ledger, decoder->ledger_stream);
    }
    open_ledger(decoder);
    decoder->apply = (struct kv_apply){.rank = decoder->rank,
                                       .listener = decoder->apply.listener};
    decoder->doubted = false;
}

static void
tell_begin(struct decoder *decoder, uint64_t ask, const char *reason)
{
    struct intake_item *item = reserve(decoder, sizeof *item);

    CHECK(reason != NULL);
    decoder->gap = false;
    decoder->reader_told = false;
    if (item != NULL) {
        *item = item_of(decoder, INTAKE_BEGIN);
        item->process = decoder->process;
        item->whole = decoder->whole;
        item->ask = ask;
        (void)snprintf(item->reason, sizeof item->reason, "%s", reason);
        commit(decoder);
    }
}

static void
begin(struct decoder *decoder, const struct kv_out *out)
{
    bool same = decoder->process == out->process;

    forget(decoder);
    decoder->told_end = same ? decoder->told_end : 0;
    decoder->reader_again = decoder->told_end > 0;
    decoder->process = out->process;
    decoder->whole = out->whole;
    tell_begin(decoder, out->ask, out->reason);
}

/* Records */

/* The contents of one batch, on their way into records. */
struct batch {
    uint64_t seq;
    uint64_t fingerprint;
    uint64_t *words; /* whole ops; those taken are overwritten */
    uint32_t left;
    const struct names_said *names; /* NULL: they are not told */
    struct names_at names_at;
};

/* How many words fit into one record: whole ops and, of the first op that does
 * not fit, as many keys as do; *split: how many keys, 0: none. */
static uint32_t
fit(const struct batch *batch, uint32_t words_max, uint32_t *split)
{
    uint32_t at = 0;

    CHECK(words_max > 1); /* a head and a key */
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
    CHECK(at <= batch->left && at <= words_max);
    return at;
}

/* Moves the first `count` words out of the batch; the op that is split there
 * after `split` keys goes on in the batch under a head of its own. */
static void
take_words(struct batch *batch, uint64_t *into, uint32_t count, uint32_t split)
{
    CHECK(count <= batch->left && (split == 0 || split < count));
    memcpy(into, batch->words, count * sizeof *into);
    batch->words += count;
    batch->left -= count;
    if (split == 0) {
        return;
    }
    uint64_t op = into[count - 1 - split];
    CHECK(event_op_count(op) >= split);
    uint32_t rest = event_op_count(op) - split;
    into[count - 1 - split] =
        event_op(event_op_kind(op), event_op_tier(op), split);
    if (rest > 0) {
        batch->words--; /* a key that was taken */
        batch->left++;
        *batch->words = event_op(event_op_kind(op), event_op_tier(op), rest);
    }
}

/* The words of names that were not taken yet; a run that was parted needs no
 * more. */
static size_t
names_left(const struct batch *batch)
{
    return batch->names == NULL
               ? 0
               : batch->names->words.count - batch->names_at.at;
}

/* Room for `room` words of names is behind the record's own. */
static void
take_names(struct batch *batch, struct event_record *record, size_t room)
{
    const struct words *words =
        batch->names == NULL ? NULL : &batch->names->words;

    record->names_count = batch->names == NULL ? 0 : EVENT_NAMED;
    if (words != NULL && room > 0) {
        record->names_count |=
            (uint32_t)names_take(words->word, words->count, &batch->names_at,
                                 record->words + record->words_count, room);
    }
}

static bool
emit_record(struct decoder *decoder, struct batch *batch)
{
    uint32_t split;
    uint32_t words_max = decoder->tools->record_words_max;
    uint32_t count = fit(batch, words_max, &split);
    CHECK(count > 0 || batch->left == 0);
    size_t names = names_left(batch) < DECODER_NAMES_MAX(words_max)
                       ? names_left(batch)
                       : DECODER_NAMES_MAX(words_max);
    struct intake_item *item =
        reserve(decoder, DECODER_ITEM_BYTES(count + names));

    if (item == NULL) {
        return false;
    }
    struct event_record *record = (void *)(item + 1);
    *item = item_of(decoder, INTAKE_RECORD);
    item->fingerprint = batch->fingerprint;
    *record = (struct event_record){
        .stream = {.worker = decoder->identity, .rank = decoder->rank},
        .epoch = decoder->process,
        .seq = batch->seq,
        .ahead = kv_stream_ahead(decoder->stream),
        .block_tokens = kv_apply_shape(&decoder->apply),
        .words_count = count,
    };
    take_words(batch, record->words, count, split);
    CHECK_SLOW(event_check(record->words, count));
    take_names(batch, record, names);
    bool last = batch->left == 0 && names_left(batch) == 0;
    record->holes =
        last ? ledger_holes(decoder->tools->ledger, decoder->ledger_stream)
             : EVENT_HOLES_UNKNOWN;
    item->last = last;
    commit(decoder);
    return true;
}

static void
emit_records(struct decoder *decoder, struct batch batch)
{
    while (emit_record(decoder, &batch) &&
           (batch.left > 0 || names_left(&batch) > 0)) {
    }
    decoder->gap = false;
}

/* Something is missing that no reading brings. */
static void
miss(struct decoder *decoder)
{
    kv_stream_not_whole(decoder->stream);
    tell_gap(decoder);
    CHECK(!decoder->whole && !kv_stream_is_whole(decoder->stream));
}

/*
 * A batch that does not fit although everything before it is known: something
 * was lost on the way, and reading again helps. If the same batch still does
 * not fit, or one that was read before, the engine claims something that cannot
 * be true, and reading again would never end: from there on the stream is
 * incomplete.
 */
static void
take_unfit(struct decoder *decoder, const struct kv_out *out, uint64_t now_us)
{
    bool same = decoder->unfit_fingerprint == out->fingerprint &&
                decoder->unfit_seq == out->seq;

    CHECK(decoder->has_ledger && kv_stream_is_whole(decoder->stream));
    if (same || out->seq < decoder->told_end) {
        note(decoder, DECODER_DO_NOT_FIT, out->seq);
        miss(decoder);
        return;
    }
    decoder->unfit_fingerprint = out->fingerprint;
    decoder->unfit_seq = out->seq;
    decoder->doubted = true;
    kv_stream_reread(decoder->stream, "events missing", 0, now_us);
}

/* The engine cleared its cache, or it is as if: what the batch said before is
 * dropped with the rest. */
static void
clear(struct decoder *decoder, struct event_words *words)
{
    forget(decoder);
    begin_names(decoder);
    kv_stream_cleared(decoder->stream);
    *words = (struct event_words){.words = words->words, .max = words->max};
    if (!MUTANT(NO_CLEAR)) {
        (void)event_words_add(words, EVENT_CLEAR, TIER_DEVICE, 0);
    }
    CHECK(!words->failed && words->count <= 1);
}

static void
tell(struct decoder *decoder, const struct kv_out *out,
     const struct event_words *words)
{
    CHECK(decoder->has_ledger || words->count <= 1);
    CHECK(!words->failed && words->count <= words->max);
    end_names(decoder, out->seq);
    if (out->seq >= decoder->told_end) {
        decoder->told_end = out->seq + 1;
    }
    const struct names_said *names = &decoder->tools->names;
    bool named = names->words.words_max > 0 && !names->words.failed;
    decoder->reader_told = decoder->reader_told && named;
    emit_records(decoder, (struct batch){.seq = out->seq,
                                         .fingerprint = out->fingerprint,
                                         .words = words->words,
                                         .left = words->count,
                                         .names = named ? names : NULL});
}

/*
 * The ledger holds something that cannot be emitted or may be gone, or there is
 * no ledger: it forgets everything, and so do all readers. What the stream says
 * from here on is true, but incomplete.
 */
static void
start_over(struct decoder *decoder, const struct kv_out *out,
           struct event_words *words)
{
    if (decoder->has_ledger) {
        note(decoder, DECODER_TOO_LONG, out->seq);
    }
    clear(decoder, words);
    tell(decoder, out, words);
    miss(decoder);
}

/* The batch is applied whole before any of it is emitted. */
static void
apply(struct decoder *decoder, const struct kv_out *out, uint64_t now_us)
{
    struct event_words *words = &decoder->tools->words;
    bool cleared = false;
    uint64_t ask;
    int outcome;

    *words = (struct event_words){.words = words->words, .max = words->max};
    begin_names(decoder);
    if (!decoder->has_ledger) {
        start_over(decoder, out, words);
        return;
    }
    /* A batch that cannot be begun is for kv_apply() to count. */
    bool begun = kv_reader_begin(decoder->tools->reader, out->payload) == 0;
    if (!begun) {
        note(decoder, DECODER_UNREADABLE, out->seq);
    }
    if (decoder->tools->listener.wants != NULL) {
        decoder->listener = decoder->tools->listener;
        decoder->listener.worker = decoder->worker;
        decoder->listener.generation = decoder->generation;
        decoder->apply.listener = &decoder->listener;
    }
    while ((outcome = kv_apply(&decoder->apply, decoder->tools->reader,
                               decoder->tools->ledger, decoder->ledger_stream,
                               decoder->counters, words)) ==
           KV_APPLY_E_CLEARED) {
        clear(decoder, words);
        cleared = true;
        if (!decoder->has_ledger) {
            break;
        }
    }
    if (words->failed || outcome == KV_APPLY_E_GONE || !decoder->has_ledger) {
        start_over(decoder, out, words);
        return;
    }
    if (cleared && kv_stream_cleared_answers(decoder->stream, &ask)) {
        tell_begin(decoder, ask, "cleared");
    }
    if (outcome == KV_APPLY_E_DAMAGED && kv_stream_is_whole(decoder->stream)) {
        if (begun) {
            take_unfit(decoder, out, now_us);
        } else {
            miss(decoder); /* its bytes would be the same */
        }
    }
    tell(decoder, out, words);
}

void
decoder_take(struct decoder *decoder, const struct kv_out *out, uint64_t now_us)
{
    CHECK(decoder->stream != NULL && decoder->tools->ledger != NULL);
    CHECK(decoder->tools->reader != NULL && decoder->counters != NULL);
    CHECK(decoder->sink.reserve != NULL && decoder->sink.commit != NULL &&
          decoder->sink.note != NULL);
    switch (out->kind) {
    case KV_OUT_APPLY:
        apply(decoder, out, now_us);
        break;
    case KV_OUT_BEGIN:
        begin(decoder, out);
        break;
    case KV_OUT_GAP:
        tell_gap(decoder);
        break;
    case KV_OUT_PROVED:
        tell_plain(decoder, INTAKE_PROVED, out->ask);
        break;
    case KV_OUT_STATE:
        tell_plain(decoder, INTAKE_STATE, 0);
        break;
    case KV_OUT_REPLAY:
    case KV_OUT_HANGUP:
        break;
    }
}

/* The engine is known to hold nothing: that is told once more. */
static bool
answer_empty(struct decoder *decoder, uint64_t ask)
{
    struct event_words *words = &decoder->tools->words;
    struct kv_out last = {.kind = KV_OUT_APPLY};

    if (!decoder->has_ledger ||
        ledger_blocks(decoder->tools->ledger, decoder->ledger_stream) != 0 ||
        !kv_stream_empty_answers(decoder->stream, ask, &last.seq,
                                 &last.fingerprint)) {
        return false;
    }
    clear(decoder, words);
    tell_begin(decoder, ask, "holds nothing");
    tell(decoder, &last, words);
    return true;
}

void
decoder_reread(struct decoder *decoder, uint64_t ask, uint64_t now_us)
{
    if (!answer_empty(decoder, ask)) {
        kv_stream_reread(decoder->stream, "asked for", ask, now_us);
    }
}

/* Another life */

void
decoder_tell_resume(struct decoder *decoder)
{
    struct intake_item *item = reserve(decoder, sizeof *item);

    CHECK(decoder->has_ledger && kv_stream_next_seq(decoder->stream) > 0);
    if (item != NULL) {
        *item = item_of(decoder, INTAKE_RESUME);
        item->process = decoder->process;
        item->whole = decoder->whole;
        item->seq = kv_stream_next_seq(decoder->stream) - 1;
        commit(decoder);
    }
    if (decoder->gap) {
        tell_gap(decoder);
    }
}

void
decoder_tell_position(struct decoder *decoder, uint64_t cut)
{
    struct buf bytes;

    buf_init(&bytes, DECODER_BYTES_MAX);
    if (decoder->has_ledger && decoder_image(decoder, &bytes)) {
        struct intake_item *item =
            reserve(decoder,
                    sizeof *item + sizeof(struct decoder_position) + bytes.len);
        if (item != NULL) {
            struct decoder_position *position = (void *)(item + 1);
            CHECK(bytes.len <= DECODER_BYTES_MAX);
            *item = item_of(decoder, INTAKE_POSITION);
            item->cut = cut;
            *position = (struct decoder_position){
                .ledger = decoder->ledger_stream,
                .len = (uint32_t)bytes.len,
                .blocks = ledger_blocks(decoder->tools->ledger,
                                        decoder->ledger_stream),
                .seq = kv_stream_next_seq(decoder->stream) - 1,
                .process = decoder->process,
            };
            memcpy(position->bytes, bytes.ptr, bytes.len);
            commit(decoder);
        }
    }
    buf_fini(&bytes);
}

void
decoder_close(struct decoder *decoder)
{
    if (decoder->has_ledger) {
        ledger_close(decoder->tools->ledger, decoder->ledger_stream);
        decoder->has_ledger = false;
    }
    CHECK(!decoder->has_ledger);
}
