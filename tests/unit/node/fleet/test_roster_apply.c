/* What is said on one node is so in the fleets of both. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "node/fleet/roster_apply.h"
#include "tests/unit/node/fleet/fleet_settings.h"

#define NODES 2U

struct node {
    struct qsbr qsbr;
    struct fleet *fleet;
    struct roster *roster;
    struct roster_apply *apply;
    struct config config;
};

static struct node nodes[NODES];
static uint64_t now_us;
static bool severed; /* what they send each other is lost */
static bool secrets;

static struct config_worker
worker_of(const char *text)
{
    struct config_errors errors;
    struct config_worker worker;

    config_errors_init(&errors);
    cr_assert_eq(config_parse_worker(slice_of(text), "test", &worker, &errors),
                 0);
    config_errors_fini(&errors);
    return worker;
}

static void
start(struct node *node, uint32_t at)
{
    struct roster_config roster = roster_config_default();
    struct fleet_config fleet = fleet_settings();

    qsbr_init(&node->qsbr);
    cr_assert_eq(fleet_new(&node->fleet, &fleet, &node->qsbr), 0);
    cr_assert_eq(roster_new(&node->roster, &roster, now_us, at), 0);
    cr_assert_eq(roster_apply_new(&node->apply, node->fleet, node->roster,
                                  &node->config, secrets),
                 0);
}

static void
begin(void)
{
    now_us = 1000000;
    severed = false;
    for (uint32_t i = 0; i < NODES; i++) {
        start(&nodes[i], i);
    }
    for (uint32_t i = 0; i < NODES; i++) {
        cr_assert_eq(roster_peer_up(nodes[i].roster, 2 - i, now_us), 0);
    }
}

static void
end(void)
{
    for (uint32_t i = 0; i < NODES; i++) {
        const char *reason = "";
        cr_assert(fleet_check(nodes[i].fleet, &reason), "%s", reason);
        roster_apply_free(nodes[i].apply);
        roster_free(nodes[i].roster);
        fleet_free(nodes[i].fleet);
        qsbr_fini(&nodes[i].qsbr);
    }
}

TestSuite(node_roster_apply, .init = begin, .fini = end);

static bool
pull(uint32_t at)
{
    struct roster_out out;
    bool any = false;

    while (roster_next_out(nodes[at].roster, &out)) {
        any = true;
        if (out.kind == ROSTER_CHANGED) {
            roster_apply_entry(nodes[at].apply, &out.entry,
                               out.entry.from != 0 ? "other" : NULL, now_us);
        } else if (!severed) {
            cr_assert_eq(roster_recv(nodes[1 - at].roster, at + 1, out.bytes,
                                     out.len, now_us),
                         0);
        }
    }
    return any;
}

static void
settle(void)
{
    struct fleet_out out;

    while (pull(0) || pull(1)) {
    }
    for (uint32_t i = 0; i < NODES; i++) {
        while (fleet_next_out(nodes[i].fleet, &out)) {
            if (out.kind == FLEET_OUT_VIEW) {
                cr_assert_eq(fleet_publish(nodes[i].fleet), 0);
            } else if (out.kind == FLEET_OUT_EVENT &&
                       out.event == FLEET_REMOVED) {
                fleet_swept(nodes[i].fleet, out.worker->slot);
            }
        }
        (void)qsbr_reclaim(&nodes[i].qsbr);
    }
}

static void
mend(void)
{
    severed = false;
    cr_assert_eq(roster_peer_up(nodes[0].roster, 2, now_us), 0);
    cr_assert_eq(roster_peer_up(nodes[1].roster, 1, now_us), 0);
    settle();
}

/* As the admin port does it. */
static void
put(uint32_t at, const char *text)
{
    struct config_worker worker = worker_of(text);

    roster_apply_complete(nodes[at].apply, &worker);
    cr_assert_eq(fleet_add(nodes[at].fleet, &worker, now_us, NULL), 0);
    cr_assert_eq(roster_apply_put(nodes[at].apply, &worker, false, now_us), 0);
    settle();
}

static void
drain(uint32_t at, const char *id, bool draining)
{
    cr_assert_eq(roster_drain(nodes[at].roster, id, draining, now_us), 0);
    settle();
}

static void
take_away(uint32_t at, const char *id)
{
    cr_assert_eq(roster_remove(nodes[at].roster, id, now_us), 0);
    settle();
}

static uint32_t
slot_of(uint32_t at, const char *id)
{
    return fleet_find(nodes[at].fleet, slice_of(id));
}

/* "-": not there. */
static const char *
state(uint32_t at, const char *id)
{
    struct fleet_status status;
    uint32_t slot = slot_of(at, id);

    if (slot == WORKER_NONE || !fleet_status(nodes[at].fleet, slot, &status)) {
        return "-";
    }
    return status.draining ? "draining" : "there";
}

static const struct config_worker *
config_of(uint32_t at, const char *id)
{
    static struct fleet_status status;

    cr_assert(fleet_status(nodes[at].fleet, slot_of(at, id), &status));
    return status.config;
}

static void
configure(uint32_t at, struct config_worker *workers, uint32_t count)
{
    nodes[at].config.workers = workers;
    nodes[at].config.workers_count = count;
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(fleet_add(nodes[at].fleet, &workers[i], now_us, NULL), 0);
    }
    cr_assert_eq(roster_apply_configure(nodes[at].apply, now_us), 0);
    settle();
}

Test(node_roster_apply, the_step_is_what_lies_between)
{
    struct config_worker a = worker_of("http://a:1,id=w");
    struct config_worker b = worker_of("http://a:1,id=w,pool=p");

    cr_assert_eq(roster_step(NULL, false, NULL, false), ROSTER_KEEP);
    cr_assert_eq(roster_step(NULL, false, &a, true), ROSTER_ADD);
    cr_assert_eq(roster_step(&a, true, NULL, false), ROSTER_REMOVE);
    cr_assert_eq(roster_step(&a, false, &b, false), ROSTER_REPLACE);
    cr_assert_eq(roster_step(&a, false, &a, false), ROSTER_KEEP);
    cr_assert_eq(roster_step(&a, true, &a, true), ROSTER_KEEP);
    cr_assert_eq(roster_step(&a, false, &a, true), ROSTER_DRAIN);
    cr_assert_eq(roster_step(&a, true, &a, false), ROSTER_UNDRAIN);
    memcpy(b.pool, "", 1);
    memcpy(b.api_key, "key", 4);
    cr_assert_eq(roster_step(&a, false, &b, false), ROSTER_REPLACE,
                 "a key is part of it");
    b = a;
    memcpy(b.from, "dns:a:1", 8);
    b.left = true;
    cr_assert_eq(roster_step(&a, true, &b, true), ROSTER_KEEP);
}

Test(node_roster_apply, what_is_said_on_one_node_is_so_on_both)
{
    put(0, "http://a:1,id=w,pool=p,ranks=2");
    cr_assert_str_eq(state(1, "w"), "there");
    cr_assert_eq(memcmp(config_of(0, "w"), config_of(1, "w"),
                        sizeof(struct config_worker)),
                 0);
    drain(1, "w", true);
    cr_assert_str_eq(state(0, "w"), "draining");
    cr_assert_str_eq(state(1, "w"), "draining");
    drain(0, "w", false);
    cr_assert_str_eq(state(0, "w"), "there");
    cr_assert_str_eq(state(1, "w"), "there");
    take_away(1, "w");
    cr_assert_str_eq(state(0, "w"), "-");
    cr_assert_str_eq(state(1, "w"), "-");
    put(1, "http://a:1,id=w");
    cr_assert_str_eq(state(0, "w"), "there");
}

Test(node_roster_apply, a_denied_address_that_a_peer_says_is_left_out)
{
    struct config_worker worker = worker_of("http://169.254.169.254,id=w");
    struct roster_entry entry;

    cr_assert_eq(roster_apply_put(nodes[0].apply, &worker, false, now_us), 0);
    settle();
    cr_assert_str_eq(state(1, "w"), "-");
    cr_assert(roster_find(nodes[1].roster, "w", &entry));
    cr_assert_str_eq(roster_apply_left_out(nodes[1].apply, &entry),
                     "workers.deny denies its address");
}

Test(node_roster_apply, a_worker_that_did_not_change_keeps_its_slot)
{
    put(0, "http://a:1,id=w");
    put(0, "http://b:1,id=v");
    uint32_t slot = slot_of(1, "v");
    uint32_t own = slot_of(0, "v");
    drain(0, "v", true);
    drain(1, "v", false);
    mend();
    cr_assert_eq(slot_of(1, "v"), slot);
    cr_assert_eq(slot_of(0, "v"), own);
}

Test(node_roster_apply, a_worker_of_another_spec_is_replaced)
{
    put(0, "http://a:1,id=w");
    uint32_t slot = slot_of(1, "w");
    severed = true;
    take_away(0, "w");
    put(0, "http://b:2,id=w,pool=p");
    mend();
    cr_assert_str_eq(state(1, "w"), "there");
    cr_assert_str_eq(config_of(1, "w")->url.host, "b");
    cr_assert_neq(slot_of(1, "w"), slot);
}

Test(node_roster_apply, a_worker_comes_draining_if_it_drains)
{
    severed = true;
    put(0, "http://a:1,id=w");
    drain(0, "w", true);
    mend();
    cr_assert_str_eq(state(1, "w"), "draining");
}

Test(node_roster_apply, configured_workers_are_known_to_others)
{
    struct config_worker workers[] = {worker_of("http://a:1,id=a"),
                                      worker_of("http://b:1,id=b")};

    configure(0, workers, 2);
    cr_assert_str_eq(state(1, "a"), "there");
    cr_assert_str_eq(state(1, "b"), "there");
    cr_assert_str_eq(state(0, "a"), "there");
    take_away(1, "a");
    cr_assert_str_eq(state(0, "a"), "-", "removed where it is configured");
}

Test(node_roster_apply, a_removal_beats_a_configuration_that_comes_later)
{
    struct config_worker workers[] = {worker_of("http://a:1,id=a")};

    put(0, "http://a:1,id=a");
    severed = true;
    take_away(0, "a");
    take_away(1, "a");
    configure(1, workers, 1);
    mend();
    cr_assert_str_eq(state(1, "a"), "-");
}

Test(node_roster_apply, a_key_stays_on_the_node_that_was_told)
{
    struct config_worker workers[] = {
        worker_of("http://a:1,id=a,api_key=mine")};

    configure(1, workers, 1);
    cr_assert_str_eq(config_of(0, "a")->api_key, "");
    cr_assert_str_eq(config_of(1, "a")->api_key, "mine");
    drain(0, "a", true);
    cr_assert_str_eq(config_of(1, "a")->api_key, "mine");
    put(0, "http://b:1,id=b,api_key=here");
    drain(1, "b", true);
    drain(1, "b", false);
    cr_assert_str_eq(config_of(0, "b")->api_key, "here");
    cr_assert_str_eq(config_of(1, "b")->api_key, "");
    /* An operator's key is forgotten with the worker, a configured one not. */
    take_away(1, "b");
    put(1, "http://b:1,id=b");
    cr_assert_str_eq(config_of(0, "b")->api_key, "");
    take_away(0, "a");
    put(0, "http://a:1,id=a");
    cr_assert_str_eq(config_of(1, "a")->api_key, "mine");
}

/* As a reload does it. */
static void
reload(uint32_t at, const char *id, const char *text)
{
    static struct config now;
    static struct config_worker worker;

    worker = worker_of(text);
    now = (struct config){.workers = &worker, .workers_count = 1};
    roster_apply_use(nodes[at].apply, &now);
    take_away(at, id);
    put(at, text);
}

Test(node_roster_apply, a_key_that_the_configuration_has_no_more_is_not_used)
{
    struct config_worker first = worker_of("http://a:1,id=a,api_key=old");

    configure(0, &first, 1);
    reload(0, "a", "http://a:1,id=a,api_key=new");
    cr_assert_str_eq(config_of(0, "a")->api_key, "new");
    reload(0, "a", "http://a:1,id=a,pool=p,api_key=new");
    drain(1, "a", true);
    cr_assert_str_eq(config_of(0, "a")->api_key, "new");
    reload(0, "a", "http://a:1,id=a");
    drain(1, "a", true);
    cr_assert_str_eq(config_of(0, "a")->api_key, "");
}

/* An engine at that url, which announces itself under that id. */
static void
announce(uint32_t at, const char *text, struct config_worker *whole)
{
    *whole = worker_of(text);
    (void)snprintf(whole->from, sizeof whole->from, "announced:1s:a");
    roster_apply_complete(nodes[at].apply, whole);
}

Test(node_roster_apply, who_announces_himself_gets_no_key_of_another_url)
{
    struct config_worker ours = worker_of("http://a:1,id=a,api_key=ours");
    struct config_worker whole;

    configure(0, &ours, 1);
    put(0, "http://b:1,id=b,api_key=theirs");
    announce(0, "http://evil:1,id=a", &whole);
    cr_assert_str_eq(whole.api_key, "");
    announce(0, "http://evil:1,id=b", &whole);
    cr_assert_str_eq(whole.api_key, "");
    announce(0, "https://a:1,id=a", &whole);
    cr_assert_str_eq(whole.api_key, "");
    announce(0, "http://a:1,id=a,sse=http://evil:1/e", &whole);
    cr_assert_str_eq(whole.api_key, "");
    announce(0, "http://a:1,id=a", &whole);
    cr_assert_str_eq(whole.api_key, "ours");
    /* Through a peer, too, whoever of its engines says that it is b. */
    announce(1, "http://b:1,id=b", &whole);
    cr_assert_eq(roster_apply_put(nodes[1].apply, &whole, true, now_us), 0);
    settle();
    cr_assert_str_eq(config_of(0, "b")->api_key, "theirs");
    announce(1, "http://evil:1,id=b", &whole);
    cr_assert_eq(roster_apply_put(nodes[1].apply, &whole, true, now_us), 0);
    settle();
    cr_assert_str_eq(config_of(0, "b")->url.host, "evil");
    cr_assert_str_eq(config_of(0, "b")->api_key, "");
}

Test(node_roster_apply, a_source_that_has_a_key_no_more_is_believed)
{
    struct config_worker source = worker_of("file:/w.yaml");
    struct config_worker listed = worker_of("http://a:1,id=a,api_key=old");

    nodes[0].config = (struct config){.workers = &source, .workers_count = 1};
    memcpy(listed.from, source.from, sizeof listed.from);
    cr_assert_eq(fleet_add(nodes[0].fleet, &listed, now_us, NULL), 0);
    cr_assert_eq(roster_apply_put(nodes[0].apply, &listed, false, now_us), 0);
    settle();
    drain(1, "a", true);
    cr_assert_str_eq(config_of(0, "a")->api_key, "old");
    listed.api_key[0] = '\0';
    roster_apply_complete(nodes[0].apply, &listed);
    cr_assert_str_eq(listed.api_key, "");
    cr_assert_eq(roster_apply_put(nodes[0].apply, &listed, true, now_us), 0);
    drain(1, "a", false);
    cr_assert_str_eq(config_of(0, "a")->api_key, "");
}

Test(node_roster_apply, keys_travel_where_links_have_tls)
{
    end();
    secrets = true;
    begin();
    put(0, "http://a:1,id=a,api_key=ours");
    cr_assert_str_eq(config_of(1, "a")->api_key, "ours");
    drain(1, "a", true);
    cr_assert_str_eq(config_of(0, "a")->api_key, "ours");
}

Test(node_roster_apply,
     what_makes_no_sense_here_is_left_out_and_kept_for_others)
{
    struct roster_entry entry;

    cr_assert_eq(roster_put(nodes[0].roster, "w",
                            SLICE("url=quic://a:1\nnew=1\n"), now_us),
                 0);
    settle();
    cr_assert_str_eq(state(0, "w"), "-");
    cr_assert_str_eq(state(1, "w"), "-");
    cr_assert_eq(roster_put(nodes[0].roster, "v",
                            SLICE("url=http://a:1\nnew=1\n"), now_us),
                 0);
    settle();
    cr_assert_str_eq(state(1, "v"), "there");
    drain(1, "v", true);
    cr_assert(roster_find(nodes[0].roster, "v", &entry));
    cr_assert(slice_equal(entry.spec, SLICE("url=http://a:1\nnew=1\n")));
}

Test(node_roster_apply, of_two_with_one_url_all_have_the_same_one)
{
    severed = true;
    put(0, "http://a:1,id=right");
    put(1, "http://a:1,id=left");
    mend();
    for (uint32_t i = 0; i < NODES; i++) {
        cr_assert_str_eq(state(i, "left"), "there");
        cr_assert_str_eq(state(i, "right"), "-");
    }
    take_away(1, "left");
    cr_assert_str_eq(state(0, "left"), "-");
    now_us += 2000000;
    for (uint32_t i = 0; i < NODES; i++) {
        roster_apply_work(nodes[i].apply, now_us);
        settle();
        cr_assert_str_eq(state(i, "right"), "there",
                         "a url that becomes free is had later");
    }
}

Test(node_roster_apply, a_worker_beyond_the_slots_is_had_when_one_is_free)
{
    char text[32];

    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        (void)snprintf(text, sizeof text, "http://h%u:1,id=w%u", i, i);
        put(0, text);
    }
    cr_assert_eq(
        roster_put(nodes[1].roster, "x", SLICE("url=http://x:1\n"), now_us), 0);
    settle();
    cr_assert_str_eq(state(0, "x"), "-");
    take_away(0, "w7");
    for (uint32_t i = 0; i < 10; i++) {
        now_us += 1000000;
        fleet_tick(nodes[0].fleet, now_us);
        settle();
        roster_apply_work(nodes[0].apply, now_us);
        settle();
    }
    cr_assert_str_eq(state(0, "x"), "there");
}

/* Time enough for slots to be given back. */
static void
wait_for_slots(void)
{
    for (uint32_t i = 0; i < 10; i++) {
        now_us += 1000000;
        for (uint32_t node = 0; node < NODES; node++) {
            fleet_tick(nodes[node].fleet, now_us);
            settle();
            roster_apply_work(nodes[node].apply, now_us);
            settle();
        }
    }
}

Test(node_roster_apply, of_too_many_all_leave_out_the_same)
{
    struct roster_entry entry;
    char text[32];

    for (uint32_t i = 0; i < WORKERS_MAX - 1; i++) {
        (void)snprintf(text, sizeof text, "http://h%u:1,id=w%03u", i, i);
        put(0, text);
    }
    severed = true;
    put(0, "http://x:1,id=w0-x");
    put(1, "http://y:1,id=w0-y");
    mend();
    wait_for_slots();
    snprintf(text, sizeof text, "w%03u", WORKERS_MAX - 2);
    for (uint32_t i = 0; i < NODES; i++) {
        cr_assert_str_eq(state(i, "w0-x"), "there", "node %u", i);
        cr_assert_str_eq(state(i, "w0-y"), "there", "node %u", i);
        cr_assert_str_eq(state(i, text), "-", "node %u", i);
        cr_assert(roster_find(nodes[i].roster, text, &entry));
        cr_assert_str_eq(roster_apply_left_out(nodes[i].apply, &entry),
                         "no slot is free");
        cr_assert(roster_find(nodes[i].roster, "w0-x", &entry));
        cr_assert_null(roster_apply_left_out(nodes[i].apply, &entry));
    }
    take_away(1, "w007");
    wait_for_slots();
    for (uint32_t i = 0; i < NODES; i++) {
        cr_assert_str_eq(state(i, text), "there", "node %u", i);
    }
}
