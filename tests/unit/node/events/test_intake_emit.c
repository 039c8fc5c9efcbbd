/* What of a rank's batches goes to control. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "node/events/intake_internal.h"
#include "tests/unit/node/events/kv_batch.h"

#define BLOCK     4U
#define WORDS_MAX 64U

struct rig {
    struct intake intake;
    struct intake_source *source;
    struct intake_rank *rank;
    uint64_t words[WORDS_MAX];
    uint64_t now_us;
    uint64_t seq;
    bool replayed;  /* batches come by the replay */
    bool asked;     /* ... for which the stream waits */
    uint64_t epoch; /* as control was told */
    uint32_t begins;
    uint64_t ask; /* that the last one answers */
    uint32_t gaps;
    uint32_t records;
    bool last;      /* the last record was its batch's */
    uint64_t ahead; /* ... and said that there is this one */
    bool cleared;   /* ... and said that the cache is cleared */
};

static struct rig rig;

static void
open_stream(bool has_replay)
{
    const struct kv_stream_config config = {.has_replay = has_replay,
                                            .replay_timeout_ms = 1000,
                                            .replay_rounds = 5,
                                            .probe_interval_ms = 1000,
                                            .retry_ms = 100,
                                            .pending_bytes_max = 1 << 20};

    kv_stream_free(rig.rank->decoder.stream);
    cr_assert_eq(kv_stream_new(&rig.rank->decoder.stream, &config,
                               &rig.rank->numbers.kv, 1, 1),
                 0);
    kv_stream_connected(rig.rank->decoder.stream, 1);
}

static void
open_rank(void)
{
    rig.source = calloc(1, sizeof *rig.source + sizeof rig.source->ranks[0]);
    cr_assert_not_null(rig.source);
    rig.rank = &rig.source->ranks[0];
    rig.rank->intake = &rig.intake;
    rig.rank->source = rig.source;
    intake_emit_open(rig.rank, 0);
    open_stream(false);
}

static void
open_rig(void)
{
    const struct ledger_limits ledger = {.bytes_max = (size_t)16 << 20};

    memset(&rig, 0, sizeof rig);
    rig.now_us = 2;
    cr_assert_eq(ring_init(&rig.intake.items, 1 << 20), 0);
    cr_assert_eq(kv_reader_new(&rig.intake.tools.reader, &KV_LIMITS_DEFAULT),
                 0);
    cr_assert_eq(ledger_new(&rig.intake.tools.ledger, &ledger), 0);
    rig.intake.tools.words.words = rig.words;
    rig.intake.tools.words.max = WORDS_MAX;
    rig.intake.tools.record_words_max = INTAKE_RECORD_WORDS_MAX;
    open_rank();
}

static void
close_rig(void)
{
    kv_stream_free(rig.rank->decoder.stream);
    free(rig.source);
    ledger_free(rig.intake.tools.ledger);
    kv_reader_free(rig.intake.tools.reader);
    ring_fini(&rig.intake.items);
}

TestSuite(node_intake_emit, .init = open_rig, .fini = close_rig);

static void
carry_out(void)
{
    struct kv_out out;

    while (kv_stream_next_out(rig.rank->decoder.stream, &out)) {
        rig.asked = out.kind == KV_OUT_REPLAY ||
                    (rig.asked && out.kind != KV_OUT_HANGUP);
        intake_emit(rig.rank, &out);
    }
}

static void
publish(const struct kv_batch *b)
{
    struct kv_stream *stream = rig.rank->decoder.stream;

    if (rig.replayed) {
        kv_stream_replayed(stream, rig.seq++, kv_batch_slice(b), rig.now_us);
    } else {
        kv_stream_live(stream, rig.seq++, kv_batch_slice(b), rig.now_us);
    }
    carry_out();
}

/* A batch of the event with this tag, which has no more to it. */
static void
say(const char *tag)
{
    static struct kv_batch b;

    b.len = 0;
    put_array(&b, 2);
    put_number(&b, 0xcb, 0x3ff0000000000000 + rig.seq, 8);
    if (tag == NULL) {
        put_array(&b, 0);
    } else {
        put_array(&b, 1);
        put_array(&b, 1);
        put_text(&b, tag);
    }
    publish(&b);
}

/* The event that stores count blocks from that hash on, behind the one before
 * unless it is the first. */
static void
put_store(struct kv_batch *b, uint64_t first, unsigned count)
{
    put_array(b, 5);
    put_text(b, "BlockStored");
    put_array(b, count);
    for (unsigned i = 0; i < count; i++) {
        put_uint(b, first + i);
    }
    if (first == 1) {
        put_nil(b);
    } else {
        put_uint(b, first - 1);
    }
    put_array(b, count * BLOCK);
    for (unsigned i = 0; i < count * BLOCK; i++) {
        put_uint(b, first * BLOCK + i);
    }
    put_uint(b, BLOCK);
}

/* A batch of it. */
static void
store(uint64_t first, unsigned count)
{
    static struct kv_batch b;

    b.len = 0;
    put_array(&b, 2);
    put_number(&b, 0xcb, 0x3ff0000000000000 + first, 8); /* the clock */
    put_array(&b, 1);
    put_store(&b, first, count);
    publish(&b);
}

/* Blocks in a record of stores, after a CLEAR if there is one. */
static uint32_t
blocks_in(const struct event_record *record, uint32_t before)
{
    for (uint32_t at = 0; at < record->words_count;) {
        uint64_t op = record->words[at];
        before =
            event_op_kind(op) == EVENT_CLEAR ? 0 : before + event_op_count(op);
        at += 1 + event_op_count(op);
    }
    return before;
}

/* What control would know: blocks, since the last beginning. */
static uint32_t
told(void)
{
    const struct intake_item *item;
    uint32_t blocks = 0;
    size_t size;

    while ((item = ring_peek(&rig.intake.items, &size)) != NULL) {
        const struct event_record *record = (const void *)(item + 1);
        rig.gaps += item->kind == INTAKE_GAP;
        if (item->kind == INTAKE_BEGIN) {
            blocks = 0;
            rig.epoch = item->process;
            rig.begins++;
            rig.ask = item->ask;
        } else if (item->kind == INTAKE_RECORD) {
            cr_assert(event_check(record->words, record->words_count));
            cr_assert_eq(record->epoch, rig.epoch);
            blocks = blocks_in(record, blocks);
            rig.records++;
            rig.last = item->last;
            rig.ahead = record->ahead;
            rig.cleared = record->words_count == 1 &&
                          event_op_kind(record->words[0]) == EVENT_CLEAR;
        }
        ring_consume(&rig.intake.items);
    }
    return blocks;
}

Test(node_intake_emit, what_a_batch_stores_is_told)
{
    store(1, 3);
    store(4, 2);
    cr_assert_eq(kv_stream_state(rig.rank->decoder.stream), KV_STREAM_LIVE);
    cr_assert_eq(told(), 5);
}

/* Whether or not the stream is whole: control never knows of less than is
 * gone, nor the ledger of more than was told. */
Test(node_intake_emit, a_batch_too_long_to_be_told_empties_both_sides)
{
    for (unsigned round = 0; round < 2; round++) {
        store(1, 3);
        rig.intake.tools.words.max = 2;
        store(4, 3);
        cr_assert_eq(told(), 0);
        cr_assert_eq(rig.gaps, round + 1);
        cr_assert_eq(ledger_blocks(rig.intake.tools.ledger,
                                   rig.rank->decoder.ledger_stream),
                     0);
        cr_assert_eq(kv_stream_state(rig.rank->decoder.stream),
                     KV_STREAM_PARTIAL);
        rig.intake.tools.words.max = WORDS_MAX;
    }
    store(1, 3);
    cr_assert_eq(told(), 3);
    cr_assert_eq(counter_read(&rig.rank->numbers.kv.rereads), 0U);
}

/* Any of the blocks may be gone. */
static void
remove_unreadably(void (*put_hashes)(struct kv_batch *b))
{
    static struct kv_batch b;

    store(1, 3);
    put_envelope(&b, 2);
    put_array(&b, 2);
    put_text(&b, "BlockRemoved");
    put_hashes(&b);
    put_store(&b, 4, 2);
    publish(&b);
    cr_assert_eq(told(), 0);
    cr_assert_eq(
        ledger_blocks(rig.intake.tools.ledger, rig.rank->decoder.ledger_stream),
        0);
    cr_assert_eq(kv_stream_state(rig.rank->decoder.stream), KV_STREAM_PARTIAL);
    store(1, 3);
    cr_assert_eq(told(), 3);
}

static void
put_text_for_hashes(struct kv_batch *b)
{
    put_text(b, "1");
}

static void
put_deep_hashes(struct kv_batch *b)
{
    for (unsigned i = 0; i < 20; i++) {
        put_array(b, 1);
    }
    put_uint(b, 1);
}

Test(node_intake_emit, a_removal_that_cannot_be_read_empties_both_sides)
{
    remove_unreadably(put_text_for_hashes);
    remove_unreadably(put_deep_hashes);
}

/* Its bytes would be the same, so it is not read again. */
Test(node_intake_emit, a_batch_that_cannot_be_begun_is_passed_over)
{
    static struct kv_batch b;

    store(1, 3);
    put_nil(&b);
    publish(&b);
    cr_assert_eq(kv_stream_state(rig.rank->decoder.stream), KV_STREAM_PARTIAL);
    store(4, 2);
    cr_assert_eq(told(), 5);
    cr_assert_eq(rig.gaps, 1);
    cr_assert_eq(rig.begins, 1);
    cr_assert_eq(rig.records, 3);
}

Test(node_intake_emit, a_batch_that_changes_nothing_is_told_too)
{
    store(1, 3);
    say(NULL);
    cr_assert_eq(told(), 3);
    cr_assert_eq(rig.records, 2);
    cr_assert(rig.last);
}

Test(node_intake_emit, a_cleared_cache_is_an_op_and_the_ledger_forgets)
{
    store(1, 3);
    say("AllBlocksCleared");
    cr_assert_eq(told(), 0);
    cr_assert_eq(rig.records, 2);
    cr_assert_eq(
        ledger_blocks(rig.intake.tools.ledger, rig.rank->decoder.ledger_stream),
        0);
    cr_assert_eq(kv_stream_state(rig.rank->decoder.stream), KV_STREAM_LIVE);
    store(1, 2);
    cr_assert_eq(told(), 2, "names of before are free again");
}

static bool
wants(void *context, uint32_t worker)
{
    (void)context;
    return worker == rig.rank->decoder.worker;
}

static void
count_stored(void *context, const struct kv_listener *listener,
             const struct kv_stored *stored)
{
    uint32_t *tokens = context;

    (void)listener;
    *tokens += stored->tokens_count;
}

Test(node_intake_emit, who_listens_hears_what_a_cleared_engine_stores)
{
    static struct kv_batch b;
    uint32_t tokens = 0;

    rig.intake.tools.listener = (struct kv_listener){
        .wants = wants, .stored = count_stored, .context = &tokens};
    store(1, 3);
    cr_assert_eq(tokens, 3 * BLOCK);
    put_array(&b, 2);
    put_number(&b, 0xcb, 0x3ff0000000000000, 8);
    put_array(&b, 3);
    put_store(&b, 4, 1);
    put_array(&b, 1);
    put_text(&b, "AllBlocksCleared");
    put_store(&b, 1, 2);
    publish(&b);
    cr_assert_eq(told(), 2);
    cr_assert_eq(tokens, (3 + 1 + 2) * BLOCK);
}

static void
ask_once(uint64_t ask)
{
    (void)told();
    rig.begins = 0;
    rig.records = 0;
    decoder_reread(&rig.rank->decoder, ask, 2);
    carry_out();
}

Test(node_intake_emit, a_cleared_cache_that_was_told_answers_a_question)
{
    store(1, 3);
    say("AllBlocksCleared");
    for (uint64_t ask = 1; ask <= 3; ask++) { /* however many there are */
        ask_once(ask);
        cr_assert_eq(told(), 0);
        cr_assert_eq(rig.begins, 1);
        cr_assert_eq(rig.ask, ask);
        cr_assert_eq(rig.records, 1);
        cr_assert(rig.cleared && rig.last);
        cr_assert_eq(kv_stream_state(rig.rank->decoder.stream), KV_STREAM_LIVE);
    }
    store(1, 2);
    cr_assert_eq(told(), 2);
    cr_assert_eq(rig.gaps, 0);
    cr_assert_eq(kv_stream_state(rig.rank->decoder.stream), KV_STREAM_LIVE);
}

/* What the engine stored since cannot be told once more. */
Test(node_intake_emit, what_came_after_a_clear_is_forgotten_by_a_question)
{
    say("AllBlocksCleared");
    store(1, 2);
    ask_once(1);
    store(3, 1);
    cr_assert_eq(told(), 0, "its parent is not known any more");
    cr_assert_eq(rig.begins, 1);
    cr_assert_eq(rig.ask, 1);
    cr_assert_not(rig.cleared);
    cr_assert_eq(kv_stream_state(rig.rank->decoder.stream), KV_STREAM_PARTIAL);
}

/* Who knows a part does not know that the rest is nothing; nor does who was
 * disconnected. */
Test(node_intake_emit, a_question_is_not_answered_by_what_is_not_known)
{
    rig.seq = 5;
    say(NULL);
    ask_once(1);
    (void)told();
    cr_assert_not(rig.cleared);
    say("AllBlocksCleared");
    kv_stream_disconnected(rig.rank->decoder.stream, 2);
    kv_stream_connected(rig.rank->decoder.stream, 2);
    carry_out();
    (void)told();
    rig.cleared = false;
    ask_once(2);
    (void)told();
    cr_assert_not(rig.cleared);
}

/* The second question so soon after the first one has to wait. */
static void
ask_twice(void)
{
    struct kv_stream *stream = rig.rank->decoder.stream;

    store(1, 3);
    for (uint64_t ask = 1; ask <= 2; ask++) {
        kv_stream_reread(stream, "asked for", ask, 2);
        carry_out();
        store(4, 1);
    }
    (void)told();
    cr_assert_eq(rig.ask, 1);
    cr_assert_eq(kv_stream_state(stream), KV_STREAM_STALE);
    rig.begins = 0;
}

/* Whatever is due. */
static void
wait_long(void)
{
    kv_stream_tick(rig.rank->decoder.stream, UINT64_C(3600000000));
    carry_out();
}

Test(node_intake_emit, a_cleared_cache_answers_the_question_that_waits)
{
    ask_twice();
    say("AllBlocksCleared");
    store(1, 2);
    wait_long();
    store(3, 1);
    cr_assert_eq(told(), 3, "nothing of what was known since is forgotten");
    cr_assert_eq(rig.begins, 1);
    cr_assert_eq(rig.ask, 2);
    cr_assert_eq(kv_stream_state(rig.rank->decoder.stream), KV_STREAM_LIVE);
}

Test(node_intake_emit, a_reading_that_begins_by_itself_answers_what_waits)
{
    struct kv_stream *stream = rig.rank->decoder.stream;

    ask_twice();
    kv_stream_disconnected(stream, 2);
    kv_stream_connected(stream, 2);
    store(1, 2);
    (void)told();
    cr_assert_eq(rig.begins, 1);
    cr_assert_eq(rig.ask, 2);
    wait_long();
    store(3, 1);
    (void)told();
    cr_assert_eq(rig.begins, 1, "what was known since is not forgotten");
}

Test(node_intake_emit, a_cleared_cache_is_not_read_again_for_what_was_before)
{
    ask_twice();
    wait_long(); /* that one is answered */
    store(5, 1);
    kv_stream_reread(rig.rank->decoder.stream, "events missing", 0,
                     UINT64_C(3600000000));
    (void)told();
    rig.begins = 0;
    say("AllBlocksCleared");
    store(1, 2);
    kv_stream_tick(rig.rank->decoder.stream, UINT64_C(7200000000));
    carry_out();
    store(3, 1);
    cr_assert_eq(told(), 3);
    cr_assert_eq(rig.begins, 0);
}

/* Its names are for nobody to go on from until it is read again. */
Test(node_intake_emit, a_ledger_that_a_batch_did_not_fit_is_doubted)
{
    const struct decoder *decoder = &rig.rank->decoder;

    store(1, 3);
    store(9, 1); /* behind a block that nobody stored: read again at once */
    for (uint64_t block = 19; block <= 29; block += 10) {
        say("AllBlocksCleared");
        cr_assert_not(decoder->doubted);
        store(block, 1); /* so soon after that it has to wait */
        cr_assert(decoder->doubted);
    }
    wait_long();
    cr_assert_not(decoder->doubted);
}

/* What an engine has told so far: twice of a block behind one that it never
 * stored, and of a cleared cache between the two. */
static void
tell_history(void)
{
    store(1, 3);
    store(9, 1);
    say("AllBlocksCleared");
    store(1, 2);
    store(19, 1);
}

/* Each of the two would have it read again, of which neither comes to fit. */
Test(node_intake_emit, two_batches_that_never_fit_are_read_again_once_each)
{
    struct kv_stream *stream;

    open_stream(true);
    stream = rig.rank->decoder.stream;
    tell_history();
    for (unsigned i = 0; i < 20; i++) {
        rig.now_us += UINT64_C(3600000000);
        kv_stream_tick(stream, rig.now_us);
        carry_out();
        if (!rig.asked) {
            continue;
        }
        rig.replayed = true;
        rig.seq = 0;
        tell_history();
        if (rig.asked) {
            kv_stream_replay_end(stream, rig.now_us);
            carry_out();
        }
        (void)told();
    }
    cr_assert_eq(counter_read(&rig.rank->numbers.kv.rereads), 2);
    cr_assert(kv_stream_state_is_live(kv_stream_state(stream)));
}

/* That is no word of the engine's. */
Test(node_intake_emit, what_is_too_long_to_be_told_answers_nothing)
{
    ask_twice();
    rig.intake.tools.words.max = 2;
    store(5, 3);
    rig.intake.tools.words.max = WORDS_MAX;
    (void)told();
    cr_assert_eq(rig.begins, 0);
    wait_long();
    (void)told();
    cr_assert_eq(rig.begins, 1);
    cr_assert_eq(rig.ask, 2);
}

Test(node_intake_emit, what_is_missing_for_good_is_told_as_a_gap)
{
    store(1, 3);
    rig.seq += 2;
    store(4, 1);
    (void)told();
    cr_assert_eq(rig.gaps, 1);
}

/* What the names of the last batch said of the reader: how many words; -1:
 * nothing. */
static int
reader_said(void)
{
    const struct names_said *said = &rig.intake.tools.names;
    uint64_t op;

    if (said->words.count == 0) {
        return -1;
    }
    op = said->words.word[said->last];
    return names_op_kind(op) == NAMES_READER ? (int)names_op_count(op) : -1;
}

/* Peers have those batches, and take nothing of them a second time. */
Test(node_intake_emit, who_reads_again_is_told_with_the_first_batch_that_is_new)
{
    words_init(&rig.intake.tools.names.words, 1024);
    open_stream(true);
    struct kv_stream *stream = rig.rank->decoder.stream;
    store(1, 3);
    int words = reader_said();
    cr_assert_gt(words, 0);
    store(9, 1); /* it does not fit: the reading begins again */
    cr_assert_eq(reader_said(), 0, "nobody can go on from these names");
    rig.now_us = 1000000; /* the replay is asked for */
    kv_stream_tick(stream, rig.now_us);
    carry_out();
    rig.replayed = true;
    rig.seq = 0;
    store(1, 3);
    cr_assert_eq(reader_said(), words);
    store(4, 2);
    cr_assert_eq(reader_said(), -1);
    kv_stream_replay_end(stream, rig.now_us);
    carry_out();
    rig.replayed = false;
    rig.seq--;
    store(4, 2); /* the connection leads to this process */
    store(6, 2);
    cr_assert_eq(reader_said(), words);
    store(8, 2);
    cr_assert_eq(reader_said(), -1, "once");
    cr_assert_eq(told(), 9);
    words_fini(&rig.intake.tools.names.words);
}

static void
ask_replay(void)
{
    rig.now_us += 1000000;
    kv_stream_tick(rig.rank->decoder.stream, rig.now_us);
    carry_out();
    rig.replayed = true;
    rig.seq = 0;
}

Test(node_intake_emit, a_record_says_how_far_a_replay_was_seen_to_go)
{
    open_stream(true);
    ask_replay();
    store(1, 3);
    rig.seq = 5; /* those before it were lost on the way */
    store(10, 1);
    (void)told();
    cr_assert_eq(rig.ahead, 0);
    kv_stream_replay_end(rig.rank->decoder.stream, rig.now_us);
    carry_out();
    ask_replay();
    store(1, 3);
    store(4, 2);
    (void)told();
    cr_assert_eq(rig.ahead, 5);
}

/* Where another reader is ahead, peers have those batches, too. */
Test(node_intake_emit, who_reads_is_told_now_and_then)
{
    words_init(&rig.intake.tools.names.words, 1024);
    open_stream(true);
    store(1, 2);
    int words = reader_said();
    cr_assert_gt(words, 0);
    for (unsigned i = 1; i < DECODER_READER_EACH; i++) {
        store(1 + 2 * i, 2);
        cr_assert_eq(reader_said(), -1, "batch %u", i);
        (void)told();
    }
    store(1 + 2 * DECODER_READER_EACH, 2);
    cr_assert_eq(reader_said(), words);
    words_fini(&rig.intake.tools.names.words);
}
