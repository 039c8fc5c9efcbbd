/* One rule of the roster each, on two or three nodes that hear each other at
 * once. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "gossip/roster_internal.h"
#include "index/base/pack.h"

#define NODES 3U
#define START UINT64_C(1000000)

struct node {
    struct roster *r;
    uint32_t told;      /* CHANGED, ever */
    uint64_t told_by;   /* of the last one */
    char told_spec[32]; /* ... */
    bool told_removed;  /* ... */
    bool told_draining; /* ... */
    uint32_t frames;    /* sent, ever */
    bool severed;       /* what it sends is lost */
};

static struct node nodes[NODES];
static uint32_t count;
static uint64_t now_us;

static void
begin(uint32_t n, const struct roster_config *config)
{
    now_us = START;
    count = n;
    for (uint32_t i = 0; i < n; i++) {
        nodes[i] = (struct node){0};
        cr_assert_eq(roster_new(&nodes[i].r, config, now_us, i + 1), 0);
    }
}

static void
end(void)
{
    for (uint32_t i = 0; i < count; i++) {
        roster_free(nodes[i].r);
    }
}

static void
note(struct node *node, const struct roster_out *out)
{
    node->told++;
    node->told_by = out->entry.from;
    node->told_removed = out->entry.removed;
    node->told_draining = out->entry.draining;
    snprintf(node->told_spec, sizeof node->told_spec, "%.*s",
             (int)out->entry.spec.len,
             out->entry.spec.len > 0 ? out->entry.spec.ptr : "");
}

static bool
pull(uint32_t at)
{
    struct node *node = &nodes[at];
    struct roster_out out;
    const char *reason = "";
    bool any = false;

    while (roster_next_out(node->r, &out)) {
        any = true;
        if (out.kind == ROSTER_CHANGED) {
            note(node, &out);
            continue;
        }
        node->frames++;
        cr_assert_leq(out.len, 64 * 1024);
        if (!node->severed && !nodes[out.peer - 1].severed) {
            int rc = roster_recv(nodes[out.peer - 1].r, at + 1, out.bytes,
                                 out.len, now_us);
            cr_assert(rc == 0 || rc == ROSTER_E_STRANGER);
        }
    }
    cr_assert(roster_check(node->r, &reason), "%s", reason);
    return any;
}

static void
settle(void)
{
    bool any = true;

    while (any) {
        any = false;
        for (uint32_t i = 0; i < count; i++) {
            any |= pull(i);
        }
    }
}

static void
run(uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i += 10) {
        now_us += 10000;
        for (uint32_t i2 = 0; i2 < count; i2++) {
            roster_tick(nodes[i2].r, now_us);
        }
        settle();
    }
}

static void
join_all(void)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < count; j++) {
            if (i != j) {
                cr_assert_eq(roster_peer_up(nodes[i].r, j + 1, now_us), 0);
            }
        }
    }
    settle();
}

static void
put(uint32_t at, const char *id, const char *spec)
{
    cr_assert_eq(roster_put(nodes[at].r, id, slice_of(spec), now_us), 0);
}

/* "-" not there, "x" removed, "d" before the spec of one that drains. */
static const char *
says(uint32_t at, const char *id)
{
    static char text[64];
    struct roster_entry entry;

    if (!roster_find(nodes[at].r, id, &entry)) {
        return "-";
    }
    snprintf(text, sizeof text, "%s%.*s",
             entry.removed    ? "x"
             : entry.draining ? "d"
                              : "",
             (int)entry.spec.len, entry.spec.len > 0 ? entry.spec.ptr : "");
    return text;
}

static uint64_t
version(uint32_t at, const char *id)
{
    struct roster_entry entry;

    return roster_find(nodes[at].r, id, &entry) ? entry.version : 0;
}

/* How many operators' words led to what there is. */
static uint64_t
words(uint32_t at, const char *id)
{
    return (version(at, id) - ROSTER_OPERATION) / ROSTER_WORD;
}

static void
assert_alike(void)
{
    for (uint32_t i = 1; i < count; i++) {
        cr_assert_eq(roster_digest(nodes[i].r), roster_digest(nodes[0].r));
    }
}

static void
begin_default(uint32_t n)
{
    struct roster_config config = roster_config_default();

    begin(n, &config);
    join_all();
}

Test(roster, a_word_reaches_all_peers_at_once)
{
    begin_default(3);
    put(1, "w", "one");
    settle();
    cr_assert_str_eq(says(0, "w"), "one");
    cr_assert_str_eq(says(2, "w"), "one");
    cr_assert_eq(nodes[0].told, 1);
    cr_assert_eq(nodes[0].told_by, 2, "who told");
    cr_assert_eq(nodes[1].told, 1, "own changes are told too");
    cr_assert_eq(nodes[1].told_by, 0);
    cr_assert_eq(words(0, "w"), 1);
    assert_alike();
    end();
}

Test(roster, drain_undrain_and_remove_follow_each_other)
{
    begin_default(2);
    put(0, "w", "one");
    settle();
    cr_assert_eq(roster_drain(nodes[1].r, "w", true, now_us), 0);
    settle();
    cr_assert_str_eq(says(0, "w"), "done");
    cr_assert(nodes[0].told_draining);
    cr_assert_eq(roster_drain(nodes[0].r, "w", false, now_us), 0);
    settle();
    cr_assert_str_eq(says(1, "w"), "one");
    cr_assert_eq(roster_remove(nodes[1].r, "w", now_us), 0);
    settle();
    cr_assert_str_eq(says(0, "w"), "x");
    cr_assert(nodes[0].told_removed);
    cr_assert_str_eq(nodes[0].told_spec, "");
    put(0, "w", "two");
    settle();
    cr_assert_str_eq(says(1, "w"), "two");
    cr_assert_eq(words(1, "w"), 5);
    end();
}

Test(roster, put_ends_draining)
{
    begin_default(1);
    put(0, "w", "one");
    cr_assert_eq(roster_drain(nodes[0].r, "w", true, now_us), 0);
    put(0, "w", "one");
    cr_assert_str_eq(says(0, "w"), "one");
    end();
}

Test(roster, what_an_operator_says_outranks_a_renewal_elsewhere)
{
    /* One of two specs has the greater digest: it would win in any case. */
    for (uint32_t turn = 0; turn < 16; turn++) {
        char spec[2][8];
        char drained[16];
        snprintf(spec[0], sizeof spec[0], "a%u", turn);
        snprintf(spec[1], sizeof spec[1], "b%u", turn);
        snprintf(drained, sizeof drained, "d%s", spec[0]);
        begin_default(2);
        put(0, "w", spec[0]);
        settle();
        cr_assert_eq(roster_renew(nodes[0].r, "w", slice_of(spec[1]), now_us),
                     0);
        cr_assert_eq(roster_drain(nodes[1].r, "w", true, now_us), 0);
        settle();
        assert_alike();
        cr_assert_str_eq(says(0, "w"), drained);
        cr_assert_eq(roster_renew(nodes[0].r, "w", slice_of(spec[1]), now_us),
                     0);
        cr_assert_eq(roster_drain(nodes[1].r, "w", false, now_us), 0);
        settle();
        assert_alike();
        cr_assert_str_eq(says(0, "w"), spec[0]);
        cr_assert_eq(roster_renew(nodes[0].r, "w", slice_of(spec[1]), now_us),
                     0);
        cr_assert_eq(roster_remove(nodes[1].r, "w", now_us), 0);
        settle();
        assert_alike();
        cr_assert_str_eq(says(0, "w"), "x");
        end();
    }
}

Test(roster, words_that_change_nothing_are_no_change)
{
    begin_default(1);
    cr_assert_eq(roster_drain(nodes[0].r, "w", true, now_us), 0);
    cr_assert_eq(roster_remove(nodes[0].r, "w", now_us), 0);
    cr_assert_str_eq(says(0, "w"), "-");
    put(0, "w", "one");
    put(0, "w", "one");
    cr_assert_eq(roster_drain(nodes[0].r, "w", false, now_us), 0);
    cr_assert_eq(words(0, "w"), 1);
    cr_assert_eq(roster_remove(nodes[0].r, "w", now_us), 0);
    cr_assert_eq(roster_remove(nodes[0].r, "w", now_us), 0);
    cr_assert_eq(words(0, "w"), 2);
    settle();
    cr_assert_eq(nodes[0].told, 1, "what changed twice is told as it is");
    end();
}

Test(roster, a_configuration_is_older_than_any_word)
{
    struct roster_config config = roster_config_default();

    begin(2, &config);
    cr_assert_eq(roster_configure(nodes[0].r, "w", SLICE("file"), now_us), 0);
    put(0, "w", "word");
    cr_assert_eq(roster_configure(nodes[0].r, "w", SLICE("file"), now_us), 0);
    cr_assert_str_eq(says(0, "w"), "word");
    cr_assert_eq(roster_remove(nodes[0].r, "w", now_us), 0);
    cr_assert_eq(roster_configure(nodes[1].r, "w", SLICE("file"), now_us), 0);
    settle();
    join_all();
    cr_assert_str_eq(says(1, "w"), "x", "a removal too");
    end();
}

static void
configure(uint32_t at, const char *spec)
{
    cr_assert_eq(roster_configure(nodes[at].r, "w", slice_of(spec), now_us), 0);
}

static void
pass(uint64_t ms)
{
    now_us += ms * 1000;
    run(10);
}

/* The next process of a node, with another configuration. */
static void
restart_with(uint32_t at, const char *spec)
{
    struct roster_config config = roster_config_default();

    for (uint32_t i = 0; i < count; i++) {
        if (i != at) {
            roster_peer_down(nodes[i].r, at + 1);
        }
    }
    roster_free(nodes[at].r);
    cr_assert_eq(roster_new(&nodes[at].r, &config, now_us, at), 0);
    configure(at, spec);
    settle();
    join_all();
}

/* One of them has the greater digest: it would win if that decided. */
static const char *const specs[] = {"one", "another"};

Test(roster, a_new_configuration_spreads_with_the_first_node_that_has_it)
{
    for (uint32_t turn = 0; turn < 2; turn++) {
        begin_default(3);
        for (uint32_t i = 0; i < 3; i++) {
            configure(i, specs[turn]);
        }
        settle();
        pass(3600 * 1000);
        for (uint32_t i = 0; i < 3; i++) {
            restart_with(i, specs[1 - turn]);
            for (uint32_t j = 0; j < 3; j++) {
                cr_assert_str_eq(says(j, "w"), specs[1 - turn]);
            }
            pass(10 * 1000);
        }
        assert_alike();
        end();
    }
}

Test(roster, the_configuration_loaded_last_holds_an_old_one_too)
{
    begin_default(2);
    configure(0, "new");
    configure(1, "new");
    settle();
    for (uint32_t i = 0; i < 20; i++) {
        pass(60 * 1000);
        restart_with(i % 2, i % 2 == 0 ? "old" : "new");
        cr_assert_str_eq(says(1 - i % 2, "w"), i % 2 == 0 ? "old" : "new");
    }
    cr_assert_lt(version(0, "w"), ROSTER_OPERATION);
    end();
}

Test(roster, a_word_outlives_any_configuration)
{
    begin_default(2);
    configure(0, "old");
    put(0, "w", "word");
    settle();
    pass(3600 * 1000);
    restart_with(1, "new");
    cr_assert_str_eq(says(0, "w"), "word");
    cr_assert_str_eq(says(1, "w"), "word");
    cr_assert_eq(words(1, "w"), 1);
    end();
}

Test(roster, configurations_loaded_together_end_alike)
{
    begin_default(2);
    configure(0, "one");
    configure(1, "another");
    settle();
    pass(60 * 1000);
    assert_alike();
    cr_assert_eq(version(0, "w"), 1, "nobody is the younger");
    end();
}

Test(roster, contradictions_end)
{
    begin_default(2);
    pass(60 * 1000);
    configure(0, "mine");
    settle();
    for (uint32_t i = 0; i < 3 * ROSTER_BIDS; i++) {
        uint8_t bytes[128] = {2, 0x80}; /* FRAME_ENTRIES, an empty head */
        struct buf frame = buf_over(bytes, sizeof bytes);
        frame.len = 2;
        struct pack_map entry = pack_open(&frame);
        pack_put_text(&entry, "id", SLICE("w"));
        pack_put_uint(&entry, "v", version(0, "w") + 1);
        pack_put_bytes(&entry, "spec", SLICE("ancient"));
        pack_put_uint(&entry, "age", UINT32_MAX);
        pack_close(&entry);
        cr_assert_eq(roster_recv(nodes[0].r, 2, bytes, frame.len, now_us), 0);
        cr_assert_str_eq(says(0, "w"), i < ROSTER_BIDS ? "mine" : "ancient");
    }
    end();
}

Test(roster, equal_versions_end_alike_whatever_came_first)
{
    const char *first[2];

    for (uint32_t turn = 0; turn < 2; turn++) {
        struct roster_config config = roster_config_default();
        static char kept[2][64];
        begin(2, &config);
        put(turn, "w", "left");
        put(1 - turn, "w", "right");
        settle();
        join_all();
        assert_alike();
        snprintf(kept[turn], sizeof kept[turn], "%s", says(0, "w"));
        first[turn] = kept[turn];
        end();
    }
    cr_assert_str_eq(first[0], first[1]);
}

Test(roster, nothing_is_owed_to_who_went)
{
    begin_default(2);
    put(0, "w", "one");
    roster_peer_down(nodes[0].r, 2);
    settle(); /* checks it */
    end();
}

Test(roster, who_is_behind_is_told_at_once)
{
    begin_default(2);
    put(0, "w", "one");
    settle();
    nodes[1].severed = true;
    put(0, "w", "two");
    put(0, "w", "three");
    settle();
    nodes[1].severed = false;
    cr_assert_eq(roster_drain(nodes[1].r, "w", true, now_us), 0);
    settle(); /* an older version than node 0's */
    cr_assert_str_eq(says(1, "w"), "three");
    assert_alike();
    end();
}

Test(roster, what_was_lost_comes_with_a_summary)
{
    begin_default(3);
    nodes[2].severed = true;
    put(0, "a", "one");
    put(1, "b", "two");
    put(2, "c", "three");
    settle();
    nodes[2].severed = false;
    run(4000);
    assert_alike();
    cr_assert_str_eq(says(2, "a"), "one");
    cr_assert_str_eq(says(0, "c"), "three");
    end();
}

Test(roster, nodes_that_know_the_same_send_summaries_only)
{
    struct roster_stats stats;

    begin_default(2);
    put(0, "w", "one");
    settle();
    uint32_t frames = nodes[0].frames + nodes[1].frames;
    run(10000);
    frames = nodes[0].frames + nodes[1].frames - frames;
    cr_assert(frames >= 16 && frames <= 26, "%u", frames);
    roster_stats(nodes[0].r, &stats);
    cr_assert_geq(stats.summaries_equal, 8);
    end();
}

Test(roster, an_answer_has_only_what_the_asker_lacks)
{
    struct roster_stats before;
    struct roster_stats after;
    struct roster_config config = roster_config_default();
    char id[8];

    begin(2, &config);
    for (uint32_t i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "w%u", i);
        put(0, id, "alike");
        put(1, id, "alike");
    }
    put(0, "x", "left");
    settle();
    cr_assert_eq(roster_peer_up(nodes[0].r, 2, now_us), 0);
    cr_assert_eq(roster_peer_up(nodes[1].r, 1, now_us), 0);
    roster_stats(nodes[0].r, &before);
    settle();
    roster_stats(nodes[0].r, &after);
    assert_alike();
    cr_assert_lt(after.bytes_out - before.bytes_out, 4000);
    end();
}

Test(roster, a_removed_worker_does_not_come_back_while_it_is_remembered)
{
    struct roster_config config = roster_config_default();

    config.tombstone_ms = 60000;
    begin(3, &config);
    join_all();
    put(0, "w", "one");
    settle();
    nodes[2].severed = true;
    cr_assert_eq(roster_remove(nodes[0].r, "w", now_us), 0);
    run(55000); /* faded by now */
    cr_assert_str_eq(says(2, "w"), "one");
    nodes[2].severed = false;
    run(3000);
    cr_assert_str_eq(says(0, "w"), "x");
    cr_assert_str_eq(says(2, "w"), "x");
    end();
}

Test(roster, all_forget_a_tombstone_and_nobody_revives_it)
{
    struct roster_config config = roster_config_default();

    config.tombstone_ms = 20000;
    begin(3, &config);
    join_all();
    put(0, "w", "one");
    cr_assert_eq(roster_remove(nodes[0].r, "w", now_us), 0);
    settle();
    nodes[2].severed = true;
    run(9000);
    nodes[2].severed = false;
    run(10000);
    cr_assert_str_eq(says(0, "w"), "x");
    run(1100);
    for (uint32_t i = 0; i < 3; i++) {
        struct roster_stats stats;
        cr_assert_str_eq(says(i, "w"), "-");
        roster_stats(nodes[i].r, &stats);
        cr_assert_eq(stats.entries, 0);
        roster_tick(nodes[i].r, now_us);
        cr_assert_geq(roster_deadline(nodes[i].r), now_us);
    }
    end();
}

Test(roster, the_age_of_a_removal_travels)
{
    struct roster_config config = roster_config_default();
    struct roster_entry entry;

    config.tombstone_ms = 60000;
    begin(2, &config);
    put(0, "w", "one");
    cr_assert_eq(roster_remove(nodes[0].r, "w", now_us), 0);
    settle();
    run(30000);
    join_all();
    cr_assert(roster_find(nodes[1].r, "w", &entry));
    cr_assert_eq(entry.age_ms, 30000);
    end();
}

Test(roster, of_two_ages_of_a_removal_the_greater_one_counts)
{
    struct roster_config config = roster_config_default();
    struct roster_entry entry;

    config.tombstone_ms = 60000;
    begin(1, &config);
    put(0, "w", "one");
    cr_assert_eq(roster_remove(nodes[0].r, "w", now_us), 0);
    settle();
    cr_assert(roster_find(nodes[0].r, "w", &entry));
    entry.id = "w";
    entry.age_ms = 50000;
    cr_assert_eq(roster_load(nodes[0].r, &entry, now_us), 0);
    run(10000);
    cr_assert_not(roster_find(nodes[0].r, "w", &entry));
    end();
}

Test(roster, the_oldest_tombstone_gives_way_and_workers_do_not)
{
    struct roster_config config = roster_config_default();

    config.entries_max = 3;
    begin(1, &config);
    put(0, "a", "");
    put(0, "b", "");
    put(0, "c", "");
    settle();
    cr_assert_eq(roster_put(nodes[0].r, "d", SLICE(""), now_us), ROSTER_E_FULL);
    cr_assert_eq(roster_remove(nodes[0].r, "b", now_us), 0);
    run(100);
    cr_assert_eq(roster_remove(nodes[0].r, "a", now_us), 0);
    settle();
    put(0, "d", "");
    cr_assert_str_eq(says(0, "b"), "-");
    cr_assert_str_eq(says(0, "a"), "x");
    settle();
    end();
}

Test(roster, entries_are_in_order_of_ids)
{
    static const char *const ids[] = {"c", "a", "d", "b"};
    struct roster_entry entry;

    begin_default(1);
    for (uint32_t i = 0; i < 4; i++) {
        put(0, ids[i], "s");
    }
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert(roster_get(nodes[0].r, i, &entry));
        cr_assert_eq(entry.id[0], 'a' + (char)i);
        cr_assert(slice_equal(entry.spec, SLICE("s")));
    }
    cr_assert(!roster_get(nodes[0].r, 4, &entry));
    settle();
    end();
}

Test(roster, bounds_are_outcomes)
{
    char id[ROSTER_ID_MAX + 1] = {0};
    char *spec = calloc(1, ROSTER_SPEC_MAX + 1);
    struct slice longest = {.ptr = spec, .len = ROSTER_SPEC_MAX};
    struct slice longer = {.ptr = spec, .len = ROSTER_SPEC_MAX + 1};

    begin_default(2);
    memset(id, 'i', ROSTER_ID_MAX);
    cr_assert_eq(roster_put(nodes[0].r, id, SLICE(""), now_us), ROSTER_E_SIZE);
    id[ROSTER_ID_MAX - 1] = 0;
    cr_assert_eq(roster_put(nodes[0].r, id, longer, now_us), ROSTER_E_SIZE);
    cr_assert_eq(roster_configure(nodes[0].r, id, longer, now_us),
                 ROSTER_E_SIZE);
    cr_assert_eq(roster_put(nodes[0].r, "", longest, now_us), ROSTER_E_BAD);
    cr_assert_eq(roster_put(nodes[0].r, id, longest, now_us), 0);
    settle();
    assert_alike();
    cr_assert_eq(words(1, id), 1);
    free(spec);
    end();
}

Test(roster, many_large_entries_come_in_bounded_frames)
{
    struct roster_config config = roster_config_default();
    char *spec = calloc(1, ROSTER_SPEC_MAX);
    char id[8];

    config.frame_bytes = ROSTER_SPEC_MAX + 256;
    begin(2, &config);
    for (uint32_t i = 0; i < 50; i++) {
        snprintf(id, sizeof id, "w%u", i);
        cr_assert_eq(
            roster_put(nodes[i % 2].r, id,
                       (struct slice){.ptr = spec, .len = ROSTER_SPEC_MAX},
                       now_us),
            0);
    }
    settle();
    join_all();
    assert_alike();
    cr_assert_eq(words(0, "w49"), 1);
    cr_assert_eq(words(1, "w48"), 1);
    free(spec);
    end();
}

Test(roster, a_snapshot_is_merged_like_a_peers_word)
{
    struct roster_entry entry = {.id = "w",
                                 .version = ROSTER_OPERATION + 5 * ROSTER_WORD,
                                 .spec = SLICE("kept")};
    struct roster_entry gone = {.id = "v",
                                .version = ROSTER_OPERATION + 3 * ROSTER_WORD,
                                .removed = true,
                                .age_ms = 1000};

    begin_default(1);
    put(0, "w", "newer?");
    cr_assert_eq(roster_load(nodes[0].r, &entry, now_us), 0);
    cr_assert_str_eq(says(0, "w"), "kept");
    entry.version = ROSTER_OPERATION + 4 * ROSTER_WORD;
    entry.spec = SLICE("older");
    cr_assert_eq(roster_load(nodes[0].r, &entry, now_us), 0);
    cr_assert_str_eq(says(0, "w"), "kept");
    cr_assert_eq(roster_load(nodes[0].r, &gone, now_us), 0);
    cr_assert_str_eq(says(0, "v"), "x");
    entry.version = 0;
    cr_assert_eq(roster_load(nodes[0].r, &entry, now_us), ROSTER_E_BAD);
    settle();
    end();
}

Test(roster, a_version_that_cannot_rise_is_an_outcome)
{
    struct roster_entry entry = {.id = "w"};

    begin_default(1);
    for (uint32_t i = 0; i < UINT16_MAX; i++) {
        entry.version += ROSTER_LEAP;
        cr_assert_eq(roster_load(nodes[0].r, &entry, now_us), 0);
    }
    entry.version = UINT64_MAX;
    cr_assert_eq(roster_load(nodes[0].r, &entry, now_us), 0);
    cr_assert_eq(roster_remove(nodes[0].r, "w", now_us), ROSTER_E_FULL);
    settle();
    end();
}

/* No operator could say anything of that worker any more. */
Test(roster, a_version_out_of_reach_is_none)
{
    /* entries: "w" with the last version there is and the spec "s" */
    static const char frame[] = "\2\x80\x83\xa2id\xa1w\xa1v\xcf\xff\xff\xff\xff"
                                "\xff\xff\xff\xff\xa4spec\xc4\1s";
    struct roster_entry entry = {.id = "w", .version = UINT64_MAX};

    begin_default(1);
    put(0, "w", "x");
    cr_assert_eq(roster_load(nodes[0].r, &entry, now_us), ROSTER_E_BAD);
    cr_assert_eq(roster_peer_up(nodes[0].r, 7, now_us), 0);
    cr_assert_eq(roster_recv(nodes[0].r, 7, (const uint8_t *)frame,
                             sizeof frame - 1, now_us),
                 ROSTER_E_BAD);
    cr_assert_str_eq(says(0, "w"), "x");
    cr_assert_eq(roster_remove(nodes[0].r, "w", now_us), 0);
    end();
}

Test(roster, peers_have_a_bound_and_strangers_are_not_heard)
{
    struct roster_config config = roster_config_default();
    static const uint8_t frame[] = {2, 0x80};

    config.peers_max = 2;
    begin(1, &config);
    cr_assert_eq(roster_peer_up(nodes[0].r, 7, now_us), 0);
    cr_assert_eq(roster_peer_up(nodes[0].r, 8, now_us), 0);
    cr_assert_eq(roster_peer_up(nodes[0].r, 8, now_us), 0, "again is fine");
    cr_assert_eq(roster_peer_up(nodes[0].r, 9, now_us), ROSTER_E_FULL);
    cr_assert_eq(roster_recv(nodes[0].r, 9, frame, 2, now_us),
                 ROSTER_E_STRANGER);
    roster_peer_down(nodes[0].r, 7);
    roster_peer_down(nodes[0].r, 7);
    cr_assert_eq(roster_recv(nodes[0].r, 7, frame, 2, now_us),
                 ROSTER_E_STRANGER);
    cr_assert_eq(roster_peer_up(nodes[0].r, 9, now_us), 0);
    cr_assert_eq(roster_recv(nodes[0].r, 9, frame, 2, now_us), 0);
    end();
}

Test(roster, what_stands_before_a_fault_is_taken)
{
    /* entries: "a" version 2 spec "s"; then one whose id is no text */
    static const char frame[] = "\2\x80\x83\xa2id\xa1"
                                "a\xa1v\2\xa4spec\xc4\1s\x82\xa2id\7\xa1v\2";
    static const uint8_t unknown[] = {77, 1, 2, 3};
    struct roster_stats stats;

    begin(1, &(struct roster_config){.entries_max = 4,
                                     .peers_max = 1,
                                     .frame_bytes = 65536,
                                     .summary_ms = 1000,
                                     .tombstone_ms = 1000});
    cr_assert_eq(roster_peer_up(nodes[0].r, 7, now_us), 0);
    cr_assert_eq(roster_recv(nodes[0].r, 7, (const uint8_t *)frame,
                             sizeof frame - 1, now_us),
                 ROSTER_E_BAD);
    cr_assert_str_eq(says(0, "a"), "s");
    cr_assert_eq(roster_recv(nodes[0].r, 7, unknown, sizeof unknown, now_us), 0,
                 "a kind of a later version is skipped");
    cr_assert_eq(roster_recv(nodes[0].r, 7, NULL, 0, now_us), ROSTER_E_BAD);
    roster_stats(nodes[0].r, &stats);
    cr_assert_eq(stats.frames_bad, 2);
    cr_assert_eq(stats.frames_unknown, 1);
    end();
}
