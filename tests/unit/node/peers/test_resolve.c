/*
 * Lookups against dnsmasq on a free loopback port, where it is installed, and
 * against a port where nobody answers.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/peers/resolve.h"
#include "tests/unit/node/http/wire.h"

#define DNSMASQ "/usr/sbin/dnsmasq"
#define MANY    64 /* addresses of one name: more than a datagram carries */

TestSuite(node_resolve, .timeout = 60);

/* A loop, its resolver, and what it answered. */
struct rig {
    uv_loop_t loop;
    struct resolve *resolve;
    uint64_t asked;
    bool asking;
    bool again; /* ask for the same once more from within `answered` */
    uint64_t answered;
    uint64_t tickets; /* all that were answered, added up */
    enum discover_outcome outcome;
    size_t ips_count;
    size_t targets_count;
    struct discover_ip ips[DISCOVER_IPS_MAX];
    struct discover_target targets[DISCOVER_TARGETS_MAX];
};

static struct rig rig;

static void
ask(enum discover_kind lookup, const char *name)
{
    struct discover_out out = {.kind = DISCOVER_OUT_RESOLVE,
                               .lookup = lookup,
                               .ticket = ++rig.asked,
                               .name = name};

    rig.asking = true;
    cr_assert_eq(resolve_ask(rig.resolve, &out), 0);
    rig.asking = false;
}

static void
on_answered(void *context, const struct discover_answer *answer)
{
    (void)context;
    cr_assert_not(rig.asking);
    rig.answered++;
    rig.tickets += answer->ticket;
    rig.outcome = answer->outcome;
    rig.ips_count = answer->ips_count;
    rig.targets_count = answer->targets_count;
    if (answer->ips_count > 0) {
        memcpy(rig.ips, answer->ips, answer->ips_count * sizeof rig.ips[0]);
    }
    if (answer->targets_count > 0) {
        memcpy(rig.targets, answer->targets,
               answer->targets_count * sizeof rig.targets[0]);
    }
    if (rig.again) {
        rig.again = false;
        ask(DISCOVER_HOST, "127.0.0.1");
    }
}

/* server_port 0: the system's. */
static void
rig_init(uint16_t server_port, uint32_t timeout_ms)
{
    struct resolve_config config = {.timeout_ms = timeout_ms};
    struct resolve_owner owner = {.answered = on_answered};

    memset(&rig, 0, sizeof rig);
    if (server_port != 0) {
        config.server = wire_loopback(server_port);
    }
    cr_assert_eq(uv_loop_init(&rig.loop), 0);
    cr_assert_eq(resolve_new(&rig.resolve, &rig.loop, &config, &owner), 0);
}

/* Runs on until all that runs has ended. */
static void
rig_fini(void)
{
    uint64_t answered = rig.answered;

    resolve_free(rig.resolve);
    cr_assert_eq(uv_run(&rig.loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(uv_loop_close(&rig.loop), 0);
    cr_assert_eq(rig.answered, answered);
}

static enum discover_outcome
look_up(enum discover_kind lookup, const char *name)
{
    uint64_t before = rig.answered;

    ask(lookup, name);
    WAIT(&rig.loop, rig.answered == before + 1);
    return rig.outcome;
}

/* The last bytes of the addresses found, in order of size and number. */
static unsigned
ips_sum(size_t size)
{
    unsigned sum = 0;

    for (size_t i = 0; i < rig.ips_count; i++) {
        sum += rig.ips[i].size == size ? rig.ips[i].bytes[size - 1] : 0;
    }
    return sum;
}

/* A loopback port, and a socket that holds it and never answers. */
static int
silent_port(uint16_t *port)
{
    struct sockaddr_in address = wire_loopback(0);
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    cr_assert_eq(bind(fd, (struct sockaddr *)&address, len), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* A server that knows these names and no others, and ends with the test. */
static pid_t
start_server(uint16_t port, const char *hosts)
{
    char port_option[32];
    char hosts_option[64];
    pid_t pid = fork();

    cr_assert_geq(pid, 0);
    if (pid != 0) {
        return pid;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)snprintf(port_option, sizeof port_option, "--port=%u", port);
    (void)snprintf(hosts_option, sizeof hosts_option, "--addn-hosts=%s", hosts);
    (void)freopen("/dev/null", "w", stderr);
    /* As a daemon it would change its user, and forget the signal. */
    (void)execl(DNSMASQ, DNSMASQ, "--no-daemon", "--conf-file=/dev/null",
                "--no-resolv", "--no-hosts", "--listen-address=127.0.0.1",
                "--bind-interfaces", "--pid-file=", "--local=/test/",
                "--srv-host=_kvasir._tcp.mesh.test,node-1.mesh.test,7001",
                "--srv-host=_kvasir._tcp.mesh.test,node-2.mesh.test,7002",
                "--cname=alias.test,mesh.test", port_option, hosts_option,
                (char *)NULL);
    _exit(127);
}

static void
write_hosts(char *path)
{
    FILE *file;
    int fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    file = fdopen(fd, "w");
    cr_assert_not_null(file);
    (void)fprintf(file, "127.0.0.1 mesh.test\n127.0.0.2 mesh.test\n"
                        "127.0.0.4 mesh.test\n::1 mesh.test\n"
                        "::1 six.test\n");
    for (unsigned i = 1; i <= MANY; i++) {
        (void)fprintf(file, "127.0.1.%u many.test\n", i);
    }
    cr_assert_eq(fclose(file), 0);
}

/* Starts it on a free port, tried again should somebody take that first. */
static pid_t
serve(void)
{
    char path[] = "/tmp/kvasir-resolve-XXXXXX";
    uint16_t port;
    int gone;

    if (access(DNSMASQ, X_OK) != 0) {
        cr_skip_test("skipped: no dnsmasq, see deploy/packages");
    }
    write_hosts(path);
    for (;;) {
        (void)close(silent_port(&port));
        pid_t pid = start_server(port, path);
        rig_init(port, 30000);
        while (waitpid(pid, &gone, WNOHANG) == 0) {
            if (look_up(DISCOVER_HOST, "six.test") == DISCOVER_FOUND) {
                (void)unlink(path);
                return pid;
            }
        }
        rig_fini();
    }
}

static void
stop(pid_t pid)
{
    rig_fini();
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
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

Test(node_resolve, all_targets_of_a_service_are_found)
{
    pid_t pid = serve();

    cr_assert_eq(look_up(DISCOVER_SERVICE, "_kvasir._tcp.mesh.test"),
                 DISCOVER_FOUND);
    cr_assert_eq(rig.targets_count, 2);
    cr_assert_eq(rig.targets[0].port + rig.targets[1].port, 7001 + 7002);
    for (unsigned i = 0; i < 2; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "node-%d.mesh.test",
                       rig.targets[i].port - 7000);
        cr_assert_str_eq(rig.targets[i].name, name);
    }
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

Test(node_resolve, no_such_name_and_no_such_records_are_absent)
{
    pid_t pid = serve();

    cr_assert_eq(look_up(DISCOVER_HOST, "nobody.test"), DISCOVER_ABSENT);
    cr_assert_eq(look_up(DISCOVER_SERVICE, "nobody.test"), DISCOVER_ABSENT);
    cr_assert_eq(look_up(DISCOVER_SERVICE, "mesh.test"), DISCOVER_ABSENT);
    cr_assert_eq(rig.ips_count + rig.targets_count, 0);
    stop(pid);
}

Test(node_resolve, more_than_run_at_a_time_are_all_answered)
{
    pid_t pid = serve();
    uint64_t before = rig.answered;

    rig.tickets = 0;
    uint64_t expected = 0;
    for (unsigned i = 0; i < RESOLVE_WAITING_MAX; i++) {
        ask(DISCOVER_HOST, i % 2 == 0 ? "mesh.test" : "nobody.test");
        expected += rig.asked;
    }
    struct discover_out out = {.kind = DISCOVER_OUT_RESOLVE,
                               .lookup = DISCOVER_HOST,
                               .ticket = 1000000,
                               .name = "x"};
    cr_assert_eq(resolve_ask(rig.resolve, &out), RESOLVE_E_FULL);
    WAIT(&rig.loop, rig.answered == before + RESOLVE_WAITING_MAX);
    cr_assert_eq(rig.tickets, expected);
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

Test(node_resolve, the_system_knows_localhost)
{
    rig_init(0, 30000);
    cr_assert_eq(look_up(DISCOVER_HOST, "localhost"), DISCOVER_FOUND);
    cr_assert_geq(rig.ips_count, 1);
    cr_assert_eq(look_up(DISCOVER_HOST, "127.0.0.9"), DISCOVER_FOUND);
    cr_assert_eq(rig.ips_count, 1);
    cr_assert_eq(ips_sum(4), 9);
    rig_fini();
}

Test(node_resolve, a_server_that_never_answers_is_a_timeout)
{
    uint16_t port;
    int fd = silent_port(&port);
    struct resolve_stats stats;

    rig_init(port, 1);
    ask(DISCOVER_HOST, "one.test");
    ask(DISCOVER_SERVICE, "two.test");
    ask(DISCOVER_HOST, "three.test");
    WAIT(&rig.loop, rig.answered == 3);
    cr_assert_eq(rig.outcome, DISCOVER_TIMEOUT);
    cr_assert_eq(rig.tickets, 1 + 2 + 3);
    resolve_stats(rig.resolve, &stats);
    cr_assert_eq(stats.timeouts, 3);
    cr_assert_leq(stats.running, RESOLVE_RUNNING_MAX);
    cr_assert_eq(stats.waiting, 0);
    rig_fini();
    (void)close(fd);
}

Test(node_resolve, a_name_that_hangs_leaves_room_for_others)
{
    uint16_t port;
    int fd = silent_port(&port);
    struct resolve_stats stats;

    rig_init(port, 1);
    for (unsigned i = 1; i <= 20; i++) {
        cr_assert_eq(look_up(DISCOVER_HOST, "hangs.test"), DISCOVER_TIMEOUT);
    }
    resolve_stats(rig.resolve, &stats);
    cr_assert_leq(stats.running, 1);
    rig_fini();
    (void)close(fd);
}

Test(node_resolve, a_timeout_comes_once_and_what_comes_late_is_dropped)
{
    uint16_t port;
    int fd = silent_port(&port);
    struct resolve_stats stats;

    rig_init(port, 1);
    cr_assert_eq(look_up(DISCOVER_SERVICE, "late.test"), DISCOVER_TIMEOUT);
    do {
        (void)uv_run(&rig.loop, UV_RUN_ONCE);
        resolve_stats(rig.resolve, &stats);
    } while (stats.running > 0);
    cr_assert_eq(stats.late, 1);
    cr_assert_eq(rig.answered, 1);
    rig_fini();
    (void)close(fd);
}

Test(node_resolve, freed_while_lookups_wait_and_run_it_answers_none)
{
    uint16_t port;
    int fd = silent_port(&port);

    rig_init(port, 1000);
    for (unsigned i = 0; i < 10; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n%u.test", i);
        ask(DISCOVER_SERVICE, name);
    }
    (void)uv_run(&rig.loop, UV_RUN_NOWAIT);
    (void)uv_run(&rig.loop, UV_RUN_NOWAIT);
    rig_fini();
    cr_assert_eq(rig.answered, 0);
    (void)close(fd);
    resolve_free(NULL);
}

Test(node_resolve, more_can_be_asked_for_from_within_an_answer)
{
    rig_init(0, 30000);
    rig.again = true;
    ask(DISCOVER_HOST, "127.0.0.1");
    WAIT(&rig.loop, rig.answered == 2);
    cr_assert_eq(rig.outcome, DISCOVER_FOUND);
    rig_fini();
}

Test(node_resolve, a_server_that_is_not_there_says_nothing_of_the_name)
{
    uint16_t port;

    (void)close(silent_port(&port));
    rig_init(port, 30000);
    enum discover_outcome outcome = look_up(DISCOVER_HOST, "one.test");
    cr_assert(outcome == DISCOVER_FAILED || outcome == DISCOVER_TIMEOUT);
    outcome = look_up(DISCOVER_SERVICE, "one.test");
    cr_assert(outcome == DISCOVER_FAILED || outcome == DISCOVER_TIMEOUT);
    rig_fini();
}
