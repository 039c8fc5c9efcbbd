#include "node/events/kv_sse_internal.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct kv_sse sse;
static struct buf out; /* what was pulled, in words */
static uint64_t asked; /* by the last BEGIN */
static uint64_t seq;   /* of the last record */
static bool whole;

static void
setup(void)
{
    kv_sse_init(&sse, 77, 1, 1);
    buf_init(&out, 1 << 16);
}

static void
teardown(void)
{
    buf_fini(&out);
}

TestSuite(node_kv_sse, .init = setup, .fini = teardown);

static void
put_words(const struct event_record *record)
{
    static const char *const kinds[] = {"store", "remove", "clear"};

    cr_assert(event_check(record->words, record->words_count));
    for (uint32_t at = 0; at < record->words_count;) {
        uint64_t op = record->words[at++];
        buf_printf(&out, " %s.%s", kinds[event_op_kind(op)],
                   event_tier_name(event_op_tier(op)));
        for (uint32_t i = 0; i < event_op_count(op); i++) {
            buf_printf(&out, "=%llx", (unsigned long long)record->words[at++]);
        }
    }
}

static void
pull(void)
{
    struct kv_sse_out o;

    while (kv_sse_next_out(&sse, &o)) {
        switch (o.kind) {
        case KV_SSE_BEGIN:
            buf_printf(&out, "begin%u;", o.rank);
            cr_assert_not_null(o.reason);
            cr_assert_eq(o.process, sse.process);
            asked = o.ask;
            whole = o.whole;
            break;
        case KV_SSE_STATE:
            buf_printf(&out, "%s%u;", kv_stream_state_name(o.state), o.rank);
            break;
        case KV_SSE_RECORD:
            buf_printf(&out, "rank%u:", o.rank);
            put_words(o.record);
            buf_add_text(&out, ";");
            cr_assert_eq(o.record->epoch, sse.process);
            seq = o.record->seq;
            cr_assert_eq(o.record->holes, EVENT_HOLES_UNKNOWN);
            cr_assert_eq(o.record->stream.worker, 77);
            cr_assert_eq(o.record->stream.rank, o.rank);
            break;
        case KV_SSE_HANGUP:
            buf_add_text(&out, "hangup;");
            break;
        }
    }
}

/* What came out since the last time. */
static void
expect_at(const char *expected, int line)
{
    struct slice got = buf_slice(&out);

    cr_assert(slice_equal(got, slice_of(expected)),
              "line %d: got \"%.*s\", not \"%s\"", line, (int)got.len, got.ptr,
              expected);
    buf_clear(&out);
}
#define EXPECT(expected) expect_at((expected), __LINE__)

static void
event(const char *id, const char *type, const char *data)
{
    kv_sse_event(&sse, &(struct sse_event){.type = slice_of(type),
                                           .data = slice_of(data),
                                           .id = slice_of(id)});
    pull();
}

static void
created(const char *id, const char *key)
{
    char data[100];

    (void)snprintf(data, sizeof data, "{\"prefix_hash\":%s,\"token_count\":16}",
                   key);
    event(id, "cache_created", data);
}

static void
connect_it(void)
{
    kv_sse_connected(&sse);
    pull();
}

static void
lose_it(void)
{
    kv_sse_disconnected(&sse);
    pull();
}

/* In step, in full, nothing pulled. */
static void
live(void)
{
    connect_it();
    created("b-1", "1");
    created("b-2", "2");
    buf_clear(&out);
}

Test(node_kv_sse, each_type_is_what_it_says)
{
    static const struct {
        const char *type;
        const char *words;
    } cases[] = {
        {"cache_created", "rank0: store.device=abc;"},
        {"cache_evicted", "rank0: remove.device=abc remove.host=abc "
                          "remove.disk=abc remove.external=abc;"},
        {"cache_offloaded", "rank0: store.host=abc remove.device=abc;"},
        {"cache_reloaded", "rank0: store.device=abc;"},
        {"cache_purged", "rank0: remove.device=abc remove.host=abc "
                         "remove.disk=abc remove.external=abc;"},
    };

    live();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        event("b-2", cases[i].type,
              "{\"prefix_hash\":\"0000000000000ABC\",\"token_count\":160}");
        EXPECT(cases[i].words);
    }
    cr_assert_eq(sse.stats.applied, 7);
}

Test(node_kv_sse, a_tier_is_taken_where_it_is_told)
{
    static const struct {
        const char *type;
        const char *tier;
        const char *words;
    } cases[] = {
        {"cache_created", "disk", "rank0: store.disk=1;"},
        {"cache_created", "GPU", "rank0: store.device=1;"},
        {"cache_evicted", "cpu", "rank0: remove.host=1;"},
        {"cache_evicted", "device", "rank0: remove.device=1;"},
        {"cache_offloaded", "external",
         "rank0: store.external=1 remove.device=1;"},
        {"cache_offloaded", "gpu", "rank0: store.host=1 remove.device=1;"},
        {"cache_created", "tape", ""},
        {"cache_created", "", ""},
        {"cache_created", "a name that is far too long for one", ""},
    };

    live();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char data[100];
        (void)snprintf(data, sizeof data, "{\"tier\":\"%s\",\"prefix_hash\":1}",
                       cases[i].tier);
        event("b-2", cases[i].type, data);
        EXPECT(cases[i].words);
    }
    cr_assert_eq(sse.stats.drop_tier, 3);
}

Test(node_kv_sse, a_key_is_16_digits_or_a_number)
{
    live();
    created("b-2", "\"ffffffffffffffff\"");
    EXPECT("rank0: store.device=ffffffffffffffff;");
    created("b-2", "18446744073709551615");
    EXPECT("rank0: store.device=ffffffffffffffff;");
    created("b-2", "0");
    EXPECT("rank0: store.device=0;");
    static const char *const bad[] = {
        "\"fffffffffffffff\"",
        "\"fffffffffffffffff\"",
        "\"0xffffffffffffff\"",
        "18446744073709551616",
        "-1",
        "1.5",
        "null",
        "[1]",
        "{}",
        "true",
        "",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        created("b-2", bad[i]);
        EXPECT("");
    }
    cr_assert_eq(sse.stats.drop_malformed, sizeof bad / sizeof *bad);
}

Test(node_kv_sse, data_that_breaks_the_contract_is_dropped)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"token_count\":16}",
        "{\"prefix_hash\":1}x",
        "{\"prefix_hash\":1",
        "{\"prefix_hash\":1,\"token_count\":\"16\"}",
        "{\"prefix_hash\":1,\"block_tokens\":0}",
        "{\"prefix_hash\":1,\"rank\":-1}",
        "{\"prefix_hash\":1,\"tier\":2}",
    };

    live();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        event("b-2", "cache_created", bad[i]);
        EXPECT("");
    }
    cr_assert_eq(sse.stats.drop_malformed, sizeof bad / sizeof *bad);
    event("b-2", "cache_created",
          "{\"prefix_hash\":1,\"more\":{\"rank\":[9]},\"token_count\":32}");
    EXPECT("rank0: store.device=1;");
}

Test(node_kv_sse, the_first_event_tells_the_block_size)
{
    connect_it();
    event("1", "cache_created", "{\"prefix_hash\":1,\"block_tokens\":32}");
    cr_assert_eq(sse.block_tokens, 32);
    buf_clear(&out);
    created("2", "2"); /* 16 tokens */
    event("3", "cache_created", "{\"prefix_hash\":1,\"block_tokens\":16}");
    event("4", "cache_created", "{\"prefix_hash\":1,\"token_count\":0}");
    EXPECT("");
    cr_assert_eq(sse.stats.drop_unaligned, 2);
    cr_assert_eq(sse.stats.drop_block_size, 1);
    event("5", "cache_created", "{\"prefix_hash\":9,\"token_count\":64}");
    EXPECT("rank0: store.device=9;");
}

Test(node_kv_sse, without_a_word_a_block_has_16_tokens)
{
    connect_it();
    event("1", "cache_purged", "{}");
    cr_assert_eq(sse.block_tokens, 0);
    event("2", "cache_created", "{\"prefix_hash\":1}");
    cr_assert_eq(sse.block_tokens, 16);
}

Test(node_kv_sse, a_purge_of_one_block_leaves_the_others)
{
    kv_sse_init(&sse, 77, 2, 1);
    connect_it();
    event("4", "cache_created", "{\"prefix_hash\":9}");
    buf_clear(&out);
    event("5", "cache_purged", "{\"prefix_hash\":9,\"tier\":\"host\"}");
    event("6", "cache_purged",
          "{\"prefix_hash\":9,\"tier\":\"disk\",\"rank\":1}");
    event("7", "cache_purged", "{}");
    EXPECT("rank0: remove.host=9;rank1: remove.disk=9;"
           "rank0: clear.device;rank1: clear.device;");
}

Test(node_kv_sse, null_is_as_good_as_nothing)
{
    kv_sse_init(&sse, 77, 2, 1);
    connect_it();
    event("4", "cache_created",
          "{\"prefix_hash\":9,\"token_count\":null,\"block_tokens\":null,"
          "\"rank\":null,\"tier\":null}");
    cr_assert_eq(sse.block_tokens, 16);
    buf_clear(&out);
    event("5", "cache_purged", "{\"prefix_hash\":null,\"rank\":null}");
    EXPECT("rank0: clear.device;rank1: clear.device;");
    cr_assert_eq(sse.stats.drop_malformed, 0);
}

Test(node_kv_sse, ranks_are_told_apart_and_purged_together)
{
    kv_sse_init(&sse, 77, 3, 1);
    connect_it();
    EXPECT("begin0;begin1;begin2;partial0;partial1;partial2;");
    event("5", "cache_created", "{\"prefix_hash\":1,\"rank\":2}");
    event("6", "cache_purged", "{}");
    event("7", "cache_purged", "{\"rank\":1}");
    event("8", "cache_purged", "{\"rank\":3}");
    EXPECT("begin0;begin1;begin2;partial0;partial1;partial2;"
           "rank2: store.device=1;"
           "rank0: clear.device;rank1: clear.device;rank2: clear.device;"
           "rank1: clear.device;");
    cr_assert_eq(sse.stats.drop_rank, 1);
}

Test(node_kv_sse, other_events_are_skipped)
{
    live();
    event("b-3", "heartbeat", "");
    event("b-4", "", "{}");
    EXPECT("");
    cr_assert_eq(sse.stats.other, 2);
}

Test(node_kv_sse, who_starts_at_the_first_number_tells_all)
{
    connect_it();
    EXPECT("begin0;partial0;");
    created("1", "1");
    EXPECT("begin0;live0;rank0: store.device=1;");
}

Test(node_kv_sse, who_starts_later_or_without_numbers_does_not)
{
    connect_it();
    created("b-2", "1");
    EXPECT("begin0;partial0;begin0;partial0;rank0: store.device=1;");
    teardown();
    setup();
    connect_it();
    created("x", "1");
    EXPECT("begin0;partial0;rank0: store.device=1;");
}

Test(node_kv_sse, the_next_number_goes_on_after_a_lost_connection)
{
    live();
    uint64_t epoch = sse.process;
    lose_it();
    EXPECT("connecting0;");
    cr_assert(slice_equal(kv_sse_last_id(&sse), SLICE("b-2")));
    connect_it();
    EXPECT(""); /* nothing is proved yet */
    created("b-3", "3");
    EXPECT("live0;rank0: store.device=3;");
    cr_assert_eq(sse.process, epoch);
    cr_assert_eq(sse.stats.resumed, 1);
    cr_assert_eq(sse.stats.restarted, 0);
}

Test(node_kv_sse, a_heartbeat_with_the_last_id_proves_as_much)
{
    live();
    lose_it();
    connect_it();
    buf_clear(&out);
    event("b-2", "heartbeat", "");
    EXPECT("live0;");
    created("b-3", "3");
    EXPECT("rank0: store.device=3;");
}

Test(node_kv_sse, anything_else_starts_a_new_epoch)
{
    static const struct {
        const char *id;
        const char *state;
    } cases[] = {
        {"b-4", "partial0;"},
        {"b-2", "partial0;"},
        {"b-1", "live0;"},
        {"c-3", "partial0;"},
        {"c-1", "live0;"},
        {"", "partial0;"},
        {"3", "partial0;"},
        {"b-", "partial0;"},
        {"b-18446744073709551617", "partial0;"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[100];
        teardown();
        setup();
        live();
        uint64_t epoch = sse.process;
        lose_it();
        connect_it();
        buf_clear(&out);
        created(cases[i].id, "3");
        (void)snprintf(expected, sizeof expected,
                       "begin0;%srank0: store.device=3;", cases[i].state);
        EXPECT(expected);
        cr_assert_neq(sse.process, epoch);
        cr_assert_eq(sse.stats.restarted, 1);
    }
}

Test(node_kv_sse, without_ids_every_connection_is_an_epoch)
{
    connect_it();
    created("", "1");
    lose_it();
    buf_clear(&out);
    connect_it();
    EXPECT("begin0;partial0;");
}

Test(node_kv_sse, an_epoch_without_an_event_needs_no_other)
{
    connect_it();
    lose_it();
    connect_it();
    EXPECT("begin0;partial0;connecting0;partial0;");
}

Test(node_kv_sse, a_number_left_out_hangs_up_and_asks_again)
{
    live();
    created("b-4", "4");
    created("b-5", "5");
    EXPECT("hangup;");
    cr_assert_eq(sse.stats.gaps, 1);
    cr_assert_eq(sse.stats.drop_gap, 2);
    cr_assert(slice_equal(kv_sse_last_id(&sse), SLICE("b-2")));
    lose_it();
    connect_it();
    buf_clear(&out);
    created("b-3", "3");
    EXPECT("live0;rank0: store.device=3;");
}

Test(node_kv_sse, ids_that_do_not_count_hang_nothing_up)
{
    connect_it();
    created("1700000000", "1");
    created("1700000500", "2");
    created("1700000501", "3");
    created("1700000900", "4");
    EXPECT("begin0;partial0;begin0;partial0;rank0: store.device=1;"
           "rank0: store.device=2;"
           "rank0: store.device=3;rank0: store.device=4;");
    cr_assert_eq(kv_sse_last_id(&sse).len, 0);
    lose_it();
    buf_clear(&out);
    connect_it();
    EXPECT("begin0;partial0;");
}

Test(node_kv_sse, a_source_that_counts_anew_is_another_one)
{
    live();
    created("c-1", "9");
    EXPECT("begin0;live0;rank0: store.device=9;");
    created("c-2", "8");
    created("b-9", "7");
    EXPECT("rank0: store.device=8;begin0;partial0;rank0: store.device=7;");
}

Test(node_kv_sse, a_reread_forgets_and_connects_anew)
{
    live();
    kv_sse_reread(&sse, "wrong", 3);
    pull();
    EXPECT("begin0;connecting0;hangup;");
    cr_assert_eq(kv_sse_last_id(&sse).len, 0);
    created("b-3", "3");
    EXPECT(""); /* of the old connection */
    lose_it();
    connect_it();
    created("b-4", "4");
    EXPECT("partial0;begin0;partial0;rank0: store.device=4;");
    cr_assert_eq(asked, 3);
}

Test(node_kv_sse, two_who_hear_a_source_that_counts_name_and_number_it_alike)
{
    connect_it();
    created("b-7", "1");
    created("b-9", "2");
    uint64_t process = sse.process;
    cr_assert_not(whole);
    cr_assert_eq(seq, 8, "9 does not go on from 7: these ids do not count");
    kv_sse_init(&sse, 77, 1, 2);
    connect_it();
    created("b-7", "1");
    cr_assert_eq(sse.process, process);
    cr_assert_eq(seq, 7);
    created("b-8", "2");
    cr_assert_eq(seq, 8);
}

Test(node_kv_sse, who_tells_all_is_read_whole)
{
    live();
    cr_assert(whole);
    cr_assert_eq(seq, 2);
}

Test(node_kv_sse, two_who_hear_one_that_does_not_count_name_it_differently)
{
    connect_it();
    created("x", "1");
    uint64_t process = sse.process;
    kv_sse_init(&sse, 77, 1, 2);
    connect_it();
    created("x", "1");
    cr_assert_neq(sse.process, process);
}

Test(node_kv_sse, a_question_is_answered_by_the_first_event_after_it)
{
    connect_it();
    created("", "1");
    kv_sse_reread(&sse, "wrong", 5);
    lose_it();
    connect_it();
    cr_assert_eq(asked, 0);
    created("", "1");
    cr_assert_eq(asked, 5);
}
