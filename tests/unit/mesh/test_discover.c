#include <criterion/criterion.h>
#include <stdio.h>

#include "mesh/discover.h"

#define MS UINT64_C(1000)
#define S  UINT64_C(1000000)

TestSuite(mesh_discover, .timeout = 60);

/* A discovery, and everything that came out of it since the last pull(). */
static struct discover d;
static uint64_t now;
static struct {
    char resolve[512][DISCOVER_NAME_MAX];
    enum discover_kind lookup[512];
    uint64_t ticket[512];
    size_t resolves;
    char hint[512][DISCOVER_ADDRESS_MAX];
    size_t hints;
    enum discover_outcome news;
    size_t newses;
} got;

static void
check(void)
{
    const char *reason;

    cr_assert(discover_check(&d, &reason), "%s", reason);
}

static void
pull(void)
{
    struct discover_out out;

    memset(&got, 0, sizeof got);
    while (discover_next_out(&d, &out)) {
        switch (out.kind) {
        case DISCOVER_OUT_RESOLVE:
            (void)snprintf(got.resolve[got.resolves], DISCOVER_NAME_MAX, "%s",
                           out.name);
            got.lookup[got.resolves] = out.lookup;
            got.ticket[got.resolves++] = out.ticket;
            break;
        case DISCOVER_OUT_HINT:
            (void)snprintf(got.hint[got.hints++], DISCOVER_ADDRESS_MAX, "%s",
                           out.address);
            break;
        case DISCOVER_OUT_NEWS:
            got.news = out.outcome;
            got.newses++;
            break;
        }
    }
    check();
}

static void
tick(uint64_t at_us)
{
    now = at_us;
    discover_tick(&d, now);
    check();
    pull();
}

/* To the next deadline, which must lie ahead. */
static void
step(void)
{
    uint64_t at = discover_deadline(&d);

    cr_assert_neq(at, UINT64_MAX);
    tick(at > now ? at : now);
}

static int
join(const char *text)
{
    struct discover_join spec;

    cr_assert_null(discover_parse(slice_of(text), &spec), "%s", text);
    return discover_add(&d, &spec, now);
}

static void
start(const char *text)
{
    struct discover_config config = discover_config_default();

    now = 1000 * S;
    discover_init(&d, &config, now, 1);
    if (text != NULL) {
        cr_assert_eq(join(text), 0);
        tick(now);
    }
}

static uint64_t
ticket_of(const char *name)
{
    for (size_t i = 0; i < got.resolves; i++) {
        if (strcmp(got.resolve[i], name) == 0) {
            return got.ticket[i];
        }
    }
    cr_assert(false, "%s was not asked for", name);
    return 0;
}

static void
fail_with(uint64_t ticket, enum discover_outcome outcome)
{
    struct discover_answer answer = {.ticket = ticket, .outcome = outcome};

    discover_answered(&d, &answer, now);
    pull();
}

/* Addresses 10.0.0.first and the ones after it. */
static void
answer_ips(uint64_t ticket, unsigned first, size_t count)
{
    struct discover_ip ips[1024];

    cr_assert_leq(count, 1024);
    for (unsigned i = 0; i < count; i++) {
        ips[i] = (struct discover_ip){.size = 4, .bytes = {10}};
        ips[i].bytes[2] = (uint8_t)((first + i) >> 8);
        ips[i].bytes[3] = (uint8_t)(first + i);
    }
    struct discover_answer answer = {.ticket = ticket,
                                     .outcome = DISCOVER_FOUND,
                                     .ips = ips,
                                     .ips_count = count};
    discover_answered(&d, &answer, now);
    pull();
}

/* Targets node-first and the ones after it, at port 7000 + their number. */
static void
answer_targets(uint64_t ticket, unsigned first, size_t count)
{
    static struct discover_target targets[256];

    cr_assert_leq(count, 256);
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(targets[i].name, sizeof targets[i].name, "node-%u",
                       first + i);
        targets[i].port = (uint16_t)(7000 + first + i);
    }
    struct discover_answer answer = {.ticket = ticket,
                                     .outcome = DISCOVER_FOUND,
                                     .targets = targets,
                                     .targets_count = count};
    discover_answered(&d, &answer, now);
    pull();
}

static bool
hinted(const char *address)
{
    for (size_t i = 0; i < got.hints; i++) {
        if (strcmp(got.hint[i], address) == 0) {
            return true;
        }
    }
    return false;
}

/* Goes on until the one name is asked for again. */
static void
next_lookup(void)
{
    do {
        step();
    } while (got.resolves == 0);
}

Test(mesh_discover, without_joins_nothing_is_ever_due)
{
    start(NULL);
    cr_assert_eq(discover_deadline(&d), UINT64_MAX);
    tick(now + 3600 * S);
    cr_assert_eq(got.resolves + got.hints + got.newses, 0);
    discover_members(&d, 1, now);
    cr_assert_eq(discover_deadline(&d), UINT64_MAX);
}

Test(mesh_discover, a_join_is_looked_up_at_once)
{
    start("dns:mesh:7946");
    cr_assert_eq(got.resolves, 1);
    cr_assert_str_eq(got.resolve[0], "mesh");
    cr_assert_eq(got.lookup[0], DISCOVER_HOST);
    cr_assert_neq(got.ticket[0], 0);
}

Test(mesh_discover, every_address_of_an_answer_is_hinted_with_the_port)
{
    struct discover_ip ips[] = {{4, {10, 0, 0, 1}},
                                {16, {0x20, 1, 0xD, 0xB8, [15] = 2}},
                                {4, {10, 0, 0, 3}},
                                {4, {10, 0, 0, 1}}};
    struct discover_answer answer = {
        .outcome = DISCOVER_FOUND, .ips = ips, .ips_count = 4};

    start("dns:mesh:7946");
    answer.ticket = got.ticket[0];
    discover_answered(&d, &answer, now);
    pull();
    cr_assert_eq(got.hints, 3);
    cr_assert_eq(d.stats.hints, 3);
    cr_assert(hinted("10.0.0.1:7946"));
    cr_assert(hinted("10.0.0.3:7946"));
    cr_assert(hinted("[2001:db8::2]:7946"));
    cr_assert_eq(got.newses, 1);
    cr_assert_eq(got.news, DISCOVER_FOUND);
}

Test(mesh_discover, alone_it_looks_within_a_second_and_in_company_within_five)
{
    start("dns:mesh:7946");
    for (unsigned i = 0; i < 200; i++) {
        uint64_t asked = now;
        answer_ips(got.ticket[0], 1, 2);
        next_lookup();
        uint64_t most = i < 100 ? 1 * S : 5 * S;
        cr_assert_leq(now - asked, most);
        cr_assert_geq(now - asked, most * 4 / 5);
        if (i == 99) {
            discover_members(&d, 2, now);
        }
    }
}

Test(mesh_discover, looks_are_not_in_step)
{
    uint64_t wait[20];
    unsigned equal = 0;

    start("dns:mesh:7946");
    for (unsigned i = 0; i < 20; i++) {
        uint64_t asked = now;
        answer_ips(got.ticket[0], 1, 1);
        next_lookup();
        wait[i] = now - asked;
        equal += i > 0 && wait[i] == wait[i - 1];
    }
    cr_assert_leq(equal, 1);
}

Test(mesh_discover, losing_members_brings_the_next_look_forward)
{
    start("dns:mesh:7946");
    discover_members(&d, 3, now);
    answer_ips(got.ticket[0], 1, 2);
    cr_assert_geq(discover_deadline(&d), now + 4 * S);
    discover_members(&d, 1, now);
    cr_assert_leq(discover_deadline(&d), now + 1 * S);
    discover_members(&d, 3, now);
    cr_assert_leq(discover_deadline(&d), now + 1 * S);
}

Test(mesh_discover, below_the_expected_size_it_looks_as_often_as_alone)
{
    struct discover_config config = discover_config_default();

    config.expected = 5;
    now = 0;
    discover_init(&d, &config, now, 1);
    cr_assert_eq(join("dns:mesh:7946"), 0);
    discover_members(&d, 4, now);
    tick(now);
    answer_ips(got.ticket[0], 1, 3);
    cr_assert_leq(discover_deadline(&d), now + 1 * S);
    discover_members(&d, 5, now);
    next_lookup();
    answer_ips(got.ticket[0], 1, 4);
    cr_assert_geq(discover_deadline(&d), now + 4 * S);
}

Test(mesh_discover, a_failed_lookup_takes_nothing_away_and_hints_again)
{
    static const enum discover_outcome failures[] = {
        DISCOVER_ABSENT, DISCOVER_TIMEOUT, DISCOVER_FAILED};

    start("dns:mesh:7946");
    answer_ips(got.ticket[0], 1, 2);
    for (unsigned i = 0; i < 3000; i++) {
        next_lookup();
        fail_with(got.ticket[0], failures[i % 3]);
        cr_assert_eq(got.hints, 2);
        cr_assert(hinted("10.0.0.1:7946"));
        cr_assert(hinted("10.0.0.2:7946"));
    }
    cr_assert_eq(d.stats.forgotten, 0);
}

Test(mesh_discover, an_answer_without_usable_addresses_is_an_absent_one)
{
    start("dns:mesh:7946");
    answer_ips(got.ticket[0], 1, 2);
    for (unsigned i = 0; i < 500; i++) {
        struct discover_ip nowhere = {.size = 4};
        struct discover_answer answer = {
            .outcome = DISCOVER_FOUND, .ips = &nowhere, .ips_count = i % 2};
        next_lookup();
        answer.ticket = got.ticket[0];
        discover_answered(&d, &answer, now);
        pull();
        cr_assert_eq(got.hints, 2);
    }
    cr_assert_eq(d.stats.answers[DISCOVER_ABSENT], 500);
    cr_assert_eq(d.stats.unusable, 250);
}

Test(mesh_discover, what_good_answers_leave_out_is_hinted_for_a_while)
{
    unsigned max = discover_config_default().missed_max;

    start("dns:mesh:7946");
    answer_ips(got.ticket[0], 1, 2);
    for (unsigned i = 0; i < max; i++) {
        next_lookup();
        answer_ips(got.ticket[0], 2, 1);
        cr_assert(hinted("10.0.0.1:7946"));
    }
    next_lookup();
    answer_ips(got.ticket[0], 2, 1);
    cr_assert_not(hinted("10.0.0.1:7946"));
    cr_assert(hinted("10.0.0.2:7946"));
    cr_assert_eq(d.stats.forgotten, 1);
}

Test(mesh_discover, being_named_again_starts_the_count_afresh)
{
    unsigned max = discover_config_default().missed_max;

    start("dns:mesh:7946");
    answer_ips(got.ticket[0], 1, 2);
    for (unsigned i = 0; i < 4 * max; i++) {
        next_lookup();
        answer_ips(got.ticket[0], i % max == 0 ? 1 : 2, 1);
        cr_assert(hinted("10.0.0.1:7946"));
    }
    cr_assert_eq(d.stats.forgotten, 0);
}

Test(mesh_discover, what_another_name_still_names_is_not_forgotten)
{
    unsigned max = discover_config_default().missed_max;
    bool seen = false;

    start("dns:one:7946");
    answer_ips(got.ticket[0], 1, 2);
    cr_assert_eq(join("dns:two:7946"), 0);
    tick(now);
    for (unsigned i = 0; i < 8 * max; i++) {
        while (got.resolves == 0) {
            step();
        }
        seen = false;
        if (strcmp(got.resolve[0], "one") == 0) {
            answer_ips(got.ticket[0], 2, 1);
        } else {
            answer_ips(got.ticket[0], 1, 1);
            seen = hinted("10.0.0.1:7946");
            cr_assert(seen);
        }
    }
    cr_assert_eq(d.stats.forgotten, 0);
}

Test(mesh_discover, addresses_of_the_configuration_stay_and_are_hinted_again)
{
    start("10.0.0.1:7946");
    cr_assert_eq(got.hints, 1);
    cr_assert(hinted("10.0.0.1:7946"));
    cr_assert_eq(join("[::1]:7946"), 0);
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t before = now;
        step();
        cr_assert_eq(got.hints, 2);
        cr_assert(i == 0 || now - before >= 800 * MS);
        cr_assert_leq(now - before, 1 * S);
    }
}

Test(mesh_discover, a_configured_address_stays_when_dns_no_longer_names_it)
{
    unsigned max = discover_config_default().missed_max;

    start("dns:mesh:7946");
    answer_ips(got.ticket[0], 1, 2);
    cr_assert_eq(join("10.0.0.1:7946"), 0);
    for (unsigned i = 0; i < 2 * max; i++) {
        next_lookup();
        answer_ips(got.ticket[0], i == 0 ? 1 : 2, 1);
    }
    cr_assert_eq(d.stats.forgotten, 0);
    cr_assert_not(hinted("10.0.0.1:7946"));
    do {
        step();
    } while (got.hints == 0);
    cr_assert(hinted("10.0.0.1:7946"));
}

Test(mesh_discover, the_same_join_twice_is_one)
{
    start("dns:mesh:7946");
    cr_assert_eq(join("DNS:Mesh:7946"), 0);
    tick(now);
    cr_assert_eq(got.resolves, 0);
    cr_assert_eq(d.joins, 1);
    cr_assert_eq(join("dns:mesh:7947"), 0);
    tick(now);
    cr_assert_eq(got.resolves, 1);
}

Test(mesh_discover, targets_of_a_service_are_looked_up_with_their_ports)
{
    start("srv:_kvasir._tcp.mesh");
    cr_assert_eq(got.lookup[0], DISCOVER_SERVICE);
    answer_targets(got.ticket[0], 1, 2);
    tick(now);
    cr_assert_eq(got.resolves, 2);
    cr_assert_eq(got.lookup[0], DISCOVER_HOST);
    uint64_t one = ticket_of("node-1");
    uint64_t two = ticket_of("node-2");
    answer_ips(one, 1, 1);
    cr_assert_eq(got.hints, 1);
    cr_assert(hinted("10.0.0.1:7001"));
    answer_ips(two, 1, 2);
    cr_assert_eq(got.hints, 2);
    cr_assert(hinted("10.0.0.1:7002"));
    cr_assert(hinted("10.0.0.2:7002"));
}

/* Answers `count` looks at the service with node-2 alone, but each `every`th
 * with node-1 too; a target's lookups with one address. */
static void
serve_service(unsigned count, unsigned every)
{
    static enum discover_kind lookup[512];
    static uint64_t ticket[512];
    static unsigned node[512];
    unsigned answers = 0;

    while (answers < count) {
        step();
        size_t resolves = got.resolves;
        for (size_t i = 0; i < resolves; i++) {
            lookup[i] = got.lookup[i];
            ticket[i] = got.ticket[i];
            node[i] = got.resolve[i][5] == '1' ? 1 : 2;
        }
        for (size_t i = 0; i < resolves; i++) {
            if (lookup[i] == DISCOVER_HOST) {
                answer_ips(ticket[i], node[i], 1);
            } else if (answers++ % every == every - 1) {
                answer_targets(ticket[i], 1, 2);
            } else {
                answer_targets(ticket[i], 2, 1);
            }
        }
    }
}

Test(mesh_discover, a_target_that_is_left_out_goes_with_its_addresses)
{
    unsigned max = discover_config_default().missed_max;
    struct discover_stats stats;

    start("srv:_kvasir._tcp.mesh");
    answer_targets(got.ticket[0], 1, 2);
    serve_service(max, UINT32_MAX);
    discover_stats(&d, &stats);
    cr_assert_eq(stats.names, 3);
    cr_assert_eq(stats.addresses, 2);
    serve_service(1, UINT32_MAX);
    discover_stats(&d, &stats);
    cr_assert_eq(stats.names, 2);
    cr_assert_eq(stats.addresses, 1);
}

Test(mesh_discover, a_target_that_is_named_again_starts_afresh)
{
    unsigned max = discover_config_default().missed_max;

    start("srv:_kvasir._tcp.mesh");
    answer_targets(got.ticket[0], 1, 2);
    serve_service(4 * max, max);
    cr_assert_eq(d.stats.forgotten, 0);
}

Test(mesh_discover, a_service_that_has_no_answer_keeps_its_targets)
{
    struct discover_target none = {.name = ".", .port = 7946};
    struct discover_answer answer = {
        .outcome = DISCOVER_FOUND, .targets = &none, .targets_count = 1};

    start("srv:_kvasir._tcp.mesh");
    answer_targets(got.ticket[0], 1, 3);
    for (unsigned i = 0; i < 2000; i++) {
        step();
        for (size_t j = 0; j < got.resolves; j++) {
            if (got.lookup[j] == DISCOVER_SERVICE) {
                answer.ticket = got.ticket[j];
                discover_answered(&d, &answer, now);
                check();
            }
        }
    }
    cr_assert_eq(d.stats.forgotten, 0);
    cr_assert_gt(d.stats.answers[DISCOVER_ABSENT], 100);
}

Test(mesh_discover, an_answer_to_no_question_changes_nothing)
{
    start("dns:mesh:7946");
    uint64_t ticket = got.ticket[0];
    fail_with(ticket + 1, DISCOVER_FAILED);
    answer_ips(0, 1, 1);
    cr_assert_eq(got.hints, 0);
    answer_ips(ticket, 1, 1);
    answer_ips(ticket, 5, 1);
    answer_ips(0, 6, 1);
    cr_assert_eq(got.hints, 0);
    cr_assert_eq(d.stats.strays, 4);
}

Test(mesh_discover, a_lookup_that_nobody_came_back_from_is_asked_again)
{
    start("dns:mesh:7946");
    uint64_t first = got.ticket[0];
    tick(now + 59 * S);
    cr_assert_eq(got.resolves, 0);
    tick(now + 1 * S);
    cr_assert_eq(got.resolves, 1);
    cr_assert_neq(got.ticket[0], first);
    uint64_t second = got.ticket[0];
    answer_ips(first, 1, 1);
    cr_assert_eq(d.stats.strays, 1);
    answer_ips(second, 1, 1);
    cr_assert_eq(got.hints, 1);
}

Test(mesh_discover, one_lookup_of_a_name_runs_at_a_time)
{
    start("dns:mesh:7946");
    for (unsigned i = 0; i < 59; i++) {
        discover_members(&d, i % 2, now);
        tick(now + 1 * S);
        cr_assert_eq(got.resolves, 0);
    }
}

Test(mesh_discover, an_outcome_is_news_when_it_changes)
{
    start("dns:mesh:7946");
    fail_with(got.ticket[0], DISCOVER_ABSENT);
    cr_assert_eq(got.newses, 1);
    cr_assert_eq(got.news, DISCOVER_ABSENT);
    next_lookup();
    fail_with(got.ticket[0], DISCOVER_ABSENT);
    cr_assert_eq(got.newses, 0);
    next_lookup();
    answer_ips(got.ticket[0], 1, 1);
    cr_assert_eq(got.news, DISCOVER_FOUND);
}

Test(mesh_discover, one_name_cannot_fill_more_than_its_share)
{
    start("dns:mesh:7946");
    answer_ips(got.ticket[0], 1, 1000);
    cr_assert_eq(got.hints, DISCOVER_IPS_MAX);
    cr_assert_eq(d.stats.full, 1000 - DISCOVER_IPS_MAX);
    cr_assert_eq(join("dns:other:7946"), 0);
    tick(now);
    answer_ips(got.ticket[0], 2000, 1);
    cr_assert_eq(got.hints, 1);
}

Test(mesh_discover, when_full_what_was_left_out_gives_way_to_what_is_named)
{
    start("dns:mesh:7946");
    answer_ips(got.ticket[0], 1, DISCOVER_IPS_MAX);
    next_lookup();
    answer_ips(got.ticket[0], 2, DISCOVER_IPS_MAX - 1);
    next_lookup();
    answer_ips(got.ticket[0], 2, DISCOVER_IPS_MAX);
    cr_assert_eq(got.hints, DISCOVER_IPS_MAX);
    cr_assert_not(hinted("10.0.0.1:7946"));
    cr_assert(hinted("10.0.0.129:7946"));
}

Test(mesh_discover, one_join_too_many_is_refused)
{
    char text[64];

    start(NULL);
    for (unsigned i = 0; i < DISCOVER_JOINS_MAX; i++) {
        (void)snprintf(text, sizeof text, "dns:mesh-%u:7946", i);
        cr_assert_eq(join(text), 0);
    }
    cr_assert_eq(join("dns:one-more:7946"), DISCOVER_E_FULL);
    cr_assert_eq(join("dns:mesh-0:7946"), 0);
    for (unsigned i = 0; i < DISCOVER_IPS_MAX; i++) {
        (void)snprintf(text, sizeof text, "10.0.0.%u:7946", i);
        cr_assert_eq(join(text), 0);
    }
    cr_assert_eq(join("10.0.1.0:7946"), DISCOVER_E_FULL);
    cr_assert_eq(join("10.0.0.0:7946"), 0);
    check();
}

Test(mesh_discover, services_cannot_push_out_joins_nor_each_other)
{
    start("srv:_a._tcp.mesh");
    cr_assert_eq(join("srv:_b._tcp.mesh"), 0);
    uint64_t a = got.ticket[0];
    tick(now);
    uint64_t b = got.ticket[0];
    answer_targets(a, 1, 200);
    answer_targets(b, 300, 200);
    struct discover_stats stats;
    discover_stats(&d, &stats);
    cr_assert_eq(stats.names, DISCOVER_NAMES_MAX);
    cr_assert_eq(stats.full, 200 - 64 + 200 - 62);
    cr_assert_eq(d.joins, 2);
    cr_assert_eq(join("dns:mesh:7946"), DISCOVER_E_FULL);
}

Test(mesh_discover, time_that_goes_back_stands_still)
{
    start("dns:mesh:7946");
    answer_ips(got.ticket[0], 1, 1);
    uint64_t due = discover_deadline(&d);
    discover_tick(&d, 0);
    discover_members(&d, 1, 5);
    cr_assert_leq(discover_deadline(&d), due);
    cr_assert_geq(discover_deadline(&d), 1000 * S + 800 * MS);
}

static void
answer_somehow(struct rng *rng, enum discover_kind lookup, uint64_t ticket)
{
    unsigned first = (unsigned)rng_below(rng, 400);
    size_t count = rng_below(rng, rng_below(rng, 4) == 0 ? 200 : 4);

    switch (rng_below(rng, 8)) {
    case 0:
        fail_with(ticket, DISCOVER_ABSENT);
        return;
    case 1:
        return; /* is lost */
    default:
        (lookup == DISCOVER_HOST ? answer_ips : answer_targets)(ticket, first,
                                                                count);
    }
}

/* Names whose servers answer at random; whatever they say, it stays within its
 * bounds, goes on asking, and hints what it was told last. */
static void
live(uint64_t seed)
{
    static enum discover_kind lookup[512];
    static uint64_t ticket[512];
    struct rng rng;
    struct discover_config config = discover_config_default();

    rng_init(&rng, seed);
    now = 0;
    config.missed_max = (uint32_t)rng_below(&rng, 5);
    discover_init(&d, &config, now, seed);
    cr_assert_eq(join("dns:a:7001"), 0);
    cr_assert_eq(join("dns:b:7001"), 0);
    cr_assert_eq(join("srv:_c._tcp.mesh"), 0);
    cr_assert_eq(join("10.0.0.7:7001"), 0);
    for (unsigned i = 0; i < 120; i++) {
        step();
        size_t count = got.resolves;
        memcpy(lookup, got.lookup, sizeof lookup);
        memcpy(ticket, got.ticket, sizeof ticket);
        for (size_t j = 0; j < count; j++) {
            answer_somehow(&rng, lookup[j], ticket[j]);
        }
        discover_members(&d, (uint32_t)rng_below(&rng, 4), now);
        cr_assert_leq(discover_deadline(&d), now + 60 * S, "seed %lu",
                      (unsigned long)seed);
    }
}

Test(mesh_discover, whatever_servers_say_it_stays_within_bounds_and_asks_on)
{
    for (uint64_t seed = 1; seed <= 8; seed++) {
        live(seed);
    }
}
