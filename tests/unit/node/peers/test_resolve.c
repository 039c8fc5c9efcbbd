/*
 * Lookups with a server of our own: dnsmasq on a free port, and ports where
 * nobody answers.
 */
#include "tests/unit/node/peers/resolve_rig.h"

#define MANY     64 /* addresses of one name: more than a datagram carries */
#define TOO_MANY (DISCOVER_IPS_MAX + 72)

TestSuite(node_resolve, .timeout = 60);

static void
write_names(char *hosts_path, char *conf_path)
{
    static char hosts[16384] = "127.0.0.1 mesh.test\n127.0.0.2 mesh.test\n"
                               "127.0.0.4 mesh.test\n::1 mesh.test\n"
                               "::1 six.test\n";
    static char conf[16384] =
        "srv-host=_kvasir._tcp.mesh.test,node-1.mesh.test,7001\n"
        "srv-host=_kvasir._tcp.mesh.test,node-2.mesh.test,7002\n"
        "cname=alias.test,mesh.test\n"
        "cname=_alias._tcp.mesh.test,_kvasir._tcp.mesh.test\n";
    size_t hosts_len = strlen(hosts);
    size_t conf_len = strlen(conf);

    for (unsigned i = 1; i <= TOO_MANY; i++) {
        hosts_len += (size_t)snprintf(
            hosts + hosts_len, sizeof hosts - hosts_len,
            "127.0.2.%u too-many.test\n%s127.0.1.%u many.test\n", i,
            i <= MANY ? "" : "#", i);
        conf_len +=
            (size_t)snprintf(conf + conf_len, sizeof conf - conf_len,
                             "srv-host=_many._tcp.test,node-%u.test,7001\n", i);
    }
    write_file(hosts_path, hosts);
    write_file(conf_path, conf);
}

/* Starts it on a free port, tried again should somebody take that first. */
static pid_t
serve_at(const char *host)
{
    char hosts[] = "/tmp/kvasir-resolve-XXXXXX";
    char conf[] = "/tmp/kvasir-resolve-XXXXXX";
    uint16_t port;
    int gone;

    write_names(hosts, conf);
    for (;;) {
        (void)close(silent_port(&port));
        pid_t pid = dnsmasq_start(host, port, hosts, conf);
        rig_init(host, port, 30000);
        while (waitpid(pid, &gone, WNOHANG) == 0) {
            if (look_up(DISCOVER_HOST, "six.test") == DISCOVER_FOUND) {
                (void)unlink(hosts);
                (void)unlink(conf);
                return pid;
            }
        }
        rig_fini();
    }
}

static pid_t
serve(void)
{
    return serve_at("127.0.0.1");
}

static void
stop(pid_t pid)
{
    rig_fini();
    dnsmasq_stop(pid);
}

Test(node_resolve, all_addresses_of_both_families_are_found)
{
    pid_t pid = serve();

    cr_assert_eq(look_up(DISCOVER_HOST, "mesh.test"), DISCOVER_FOUND);
    cr_assert_eq(rig.ips_count, 4);
    cr_assert_eq(ips_sum(4), 1 + 2 + 4);
    cr_assert_eq(ips_sum(16), 1);
    cr_assert_eq(look_up(DISCOVER_HOST, "six.test"), DISCOVER_FOUND);
    cr_assert_eq(rig.ips_count, 1);
    cr_assert_eq(look_up(DISCOVER_HOST, "alias.test."), DISCOVER_FOUND);
    cr_assert_eq(rig.ips_count, 4);
    stop(pid);
}

Test(node_resolve, a_server_may_have_an_ipv6_address)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6,
                                   .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        cr_skip_test("skipped: no IPv6 here");
    }
    (void)close(fd);
    stop(serve_at("::1"));
}

static void
expect_both_targets(void)
{
    cr_assert_eq(rig.targets_count, 2);
    cr_assert_eq(rig.targets[0].port + rig.targets[1].port, 7001 + 7002);
    for (unsigned i = 0; i < 2; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "node-%d.mesh.test",
                       rig.targets[i].port - 7000);
        cr_assert_str_eq(rig.targets[i].name, name);
    }
}

Test(node_resolve, all_targets_of_a_service_are_found)
{
    pid_t pid = serve();

    cr_assert_eq(look_up(DISCOVER_SERVICE, "_kvasir._tcp.mesh.test"),
                 DISCOVER_FOUND);
    expect_both_targets();
    stop(pid);
}

Test(node_resolve, an_answer_cut_for_its_size_is_asked_for_by_tcp)
{
    pid_t pid = serve();

    cr_assert_eq(look_up(DISCOVER_HOST, "many.test"), DISCOVER_FOUND);
    cr_assert_eq(rig.ips_count, MANY);
    cr_assert_eq(ips_sum(4), MANY * (MANY + 1) / 2);
    stop(pid);
}

Test(node_resolve, more_than_fits_is_left_out)
{
    pid_t pid = serve();

    cr_assert_eq(look_up(DISCOVER_HOST, "too-many.test"), DISCOVER_FOUND);
    cr_assert_eq(rig.ips_count, DISCOVER_IPS_MAX);
    cr_assert_eq(look_up(DISCOVER_SERVICE, "_many._tcp.test"), DISCOVER_FOUND);
    cr_assert_eq(rig.targets_count, DISCOVER_TARGETS_MAX);
    stop(pid);
}

Test(node_resolve, no_such_name_and_no_such_records_are_absent)
{
    pid_t pid = serve();

    cr_assert_eq(look_up(DISCOVER_HOST, "nobody.test"), DISCOVER_ABSENT);
    cr_assert_eq(look_up(DISCOVER_HOST, "nobody.test."), DISCOVER_ABSENT);
    cr_assert_eq(look_up(DISCOVER_SERVICE, "nobody.test"), DISCOVER_ABSENT);
    cr_assert_eq(look_up(DISCOVER_SERVICE, "mesh.test"), DISCOVER_ABSENT);
    stop(pid);
}

Test(node_resolve, a_server_that_refuses_says_nothing_of_the_name)
{
    pid_t pid = serve();

    cr_assert_eq(look_up(DISCOVER_HOST, "refused.example"), DISCOVER_FAILED);
    cr_assert_eq(look_up(DISCOVER_SERVICE, "refused.example"), DISCOVER_FAILED);
    stop(pid);
}

Test(node_resolve, a_server_of_ours_is_asked_alone)
{
    pid_t pid = serve();

    cr_assert_neq(look_up(DISCOVER_HOST, "localhost"), DISCOVER_FOUND);
    stop(pid);
}

Test(node_resolve, as_many_as_may_run_are_all_answered)
{
    pid_t pid = serve();
    uint64_t before = rig.answered;
    struct discover_out out = {.kind = DISCOVER_OUT_RESOLVE,
                               .lookup = DISCOVER_HOST,
                               .ticket = 1000000,
                               .name = "x"};

    rig.tickets = 0;
    uint64_t expected = 0;
    for (unsigned i = 0; i < RESOLVE_LOOKUPS_MAX; i++) {
        ask(DISCOVER_HOST, i % 2 == 0 ? "mesh.test" : "nobody.test");
        expected += rig.asked;
    }
    cr_assert_eq(resolve_ask(rig.resolve, &out), RESOLVE_E_FULL);
    WAIT(&rig.loop, rig.answered == before + RESOLVE_LOOKUPS_MAX);
    cr_assert_eq(rig.tickets, expected);
    cr_assert_eq(look_up(DISCOVER_HOST, "mesh.test"), DISCOVER_FOUND);
    stop(pid);
}

Test(node_resolve, discovery_finds_what_the_server_names)
{
    pid_t pid = serve();
    static struct discover d;
    struct discover_config config = discover_config_default();
    struct discover_join join;
    struct discover_out out;
    unsigned hints = 0;

    cr_assert_null(discover_parse(SLICE("dns:mesh.test:7946"), &join));
    discover_init(&d, &config, 0, 1);
    cr_assert_eq(discover_add(&d, &join, 0), 0);
    discover_tick(&d, 0);
    cr_assert(discover_next_out(&d, &out));
    cr_assert_eq(look_up(out.lookup, out.name), DISCOVER_FOUND);
    struct discover_answer answer = {.ticket = out.ticket,
                                     .outcome = rig.outcome,
                                     .ips = rig.ips,
                                     .ips_count = rig.ips_count};
    discover_answered(&d, &answer, 0);
    while (discover_next_out(&d, &out)) {
        hints += out.kind == DISCOVER_OUT_HINT;
    }
    cr_assert_eq(hints, 4);
    stop(pid);
}

Test(node_resolve, a_server_that_never_answers_is_a_timeout)
{
    uint16_t port;
    int fd = silent_port(&port);

    rig_init("127.0.0.1", port, 1);
    ask(DISCOVER_HOST, "one.test");
    ask(DISCOVER_SERVICE, "two.test");
    ask(DISCOVER_HOST, "three.test");
    WAIT(&rig.loop, rig.answered == 3);
    cr_assert_eq(rig.outcome, DISCOVER_TIMEOUT);
    cr_assert_eq(rig.tickets, 1 + 2 + 3);
    rig_fini();
    (void)close(fd);
}

Test(node_resolve, freed_while_lookups_run_it_ends_at_once_and_answers_none)
{
    uint16_t port;
    int fd = silent_port(&port);

    rig_init("127.0.0.1", port, 1000000000);
    for (unsigned i = 0; i < 10; i++) {
        ask(i % 2 == 0 ? DISCOVER_SERVICE : DISCOVER_HOST, "silent.test");
    }
    (void)uv_run(&rig.loop, UV_RUN_NOWAIT);
    (void)uv_run(&rig.loop, UV_RUN_NOWAIT);
    ask(DISCOVER_HOST, "not-begun.test");
    rig_fini();
    cr_assert_eq(rig.answered, 0);
    (void)close(fd);
    resolve_free(NULL);
}

Test(node_resolve, more_can_be_asked_for_from_within_an_answer)
{
    rig_init(NULL, 0, 30000);
    rig.again = true;
    ask(DISCOVER_HOST, "localhost");
    WAIT(&rig.loop, rig.answered == 2);
    cr_assert_eq(rig.outcome, DISCOVER_FOUND);
    rig_fini();
}

Test(node_resolve, a_server_that_is_not_there_says_nothing_of_the_name)
{
    uint16_t port;

    (void)close(silent_port(&port));
    rig_init("127.0.0.1", port, 30000);
    cr_assert_eq(look_up(DISCOVER_HOST, "one.test"), DISCOVER_FAILED);
    cr_assert_eq(look_up(DISCOVER_SERVICE, "one.test"), DISCOVER_FAILED);
    rig_fini();
}

Test(node_resolve, a_server_that_is_no_address_fails_every_lookup)
{
    rig_init("not-an-address", 53, 30000);
    cr_assert_eq(look_up(DISCOVER_HOST, "one.test"), DISCOVER_FAILED);
    cr_assert_eq(look_up(DISCOVER_SERVICE, "one.test"), DISCOVER_FAILED);
    rig_fini();
}
