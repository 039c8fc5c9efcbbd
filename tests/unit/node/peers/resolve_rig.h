/*
 * A loop, a resolver on it and what it answered; and dnsmasq, where that is
 * installed, as the DNS server.
 */
#ifndef TESTS_UNIT_NODE_PEERS_RESOLVE_RIG_H
#define TESTS_UNIT_NODE_PEERS_RESOLVE_RIG_H

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/peers/resolve.h"
#include "tests/unit/node/http/raw_socket.h"

#define DNSMASQ "/usr/sbin/dnsmasq"

struct rig {
    uv_loop_t loop;
    struct resolve *resolve;
    uint64_t asked;
    bool asking;
    bool again; /* ask once more from within `answered` */
    uint64_t answered;
    uint64_t tickets; /* all that were answered, added up */
    enum discover_outcome outcome;
    size_t ips_count;
    size_t targets_count;
    struct discover_ip ips[DISCOVER_IPS_MAX];
    struct discover_target targets[DISCOVER_TARGETS_MAX];
};

static struct rig rig;

static inline void
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

static inline void
on_answered(void *context, const struct discover_answer *answer)
{
    (void)context;
    cr_assert_not(rig.asking);
    rig.answered++;
    rig.tickets += answer->ticket;
    rig.outcome = answer->outcome;
    rig.ips_count = answer->ips_count;
    rig.targets_count = answer->targets_count;
    cr_assert_eq(answer->ips_count + answer->targets_count > 0,
                 answer->outcome == DISCOVER_FOUND);
    if (answer->ips_count > 0) {
        memcpy(rig.ips, answer->ips, answer->ips_count * sizeof rig.ips[0]);
    }
    if (answer->targets_count > 0) {
        memcpy(rig.targets, answer->targets,
               answer->targets_count * sizeof rig.targets[0]);
    }
    if (rig.again) {
        rig.again = false;
        ask(DISCOVER_HOST, "localhost");
    }
}

/* host NULL: the system's servers. */
static inline void
rig_init(const char *host, uint16_t port, uint32_t timeout_ms)
{
    struct url server = {.port = port};
    struct resolve_config config = {.timeout_ms = timeout_ms,
                                    .server = &server};
    struct resolve_owner owner = {.answered = on_answered};

    memset(&rig, 0, sizeof rig);
    (void)snprintf(server.host, sizeof server.host, "%s", host ? host : "");
    cr_assert_eq(uv_loop_init(&rig.loop), 0);
    cr_assert_eq(resolve_new(&rig.resolve, &rig.loop, &config, &owner), 0);
}

static inline void
rig_fini(void)
{
    uint64_t answered = rig.answered;

    resolve_free(rig.resolve);
    cr_assert_eq(uv_run(&rig.loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(uv_loop_close(&rig.loop), 0);
    cr_assert_eq(rig.answered, answered);
}

static inline enum discover_outcome
look_up(enum discover_kind lookup, const char *name)
{
    uint64_t before = rig.answered;

    ask(lookup, name);
    WAIT(&rig.loop, rig.answered == before + 1);
    return rig.outcome;
}

/* The last bytes of the addresses of that size, added up. */
static inline unsigned
ips_sum(size_t size)
{
    unsigned sum = 0;

    for (size_t i = 0; i < rig.ips_count; i++) {
        sum += rig.ips[i].size == size ? rig.ips[i].bytes[size - 1] : 0;
    }
    return sum;
}

/* A port of 127.0.0.1, and a socket that holds it and never answers. */
static inline int
silent_port(uint16_t *port)
{
    struct sockaddr_in address = raw_socket_loopback(0);
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    cr_assert_eq(bind(fd, (struct sockaddr *)&address, len), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* A file of its own for that text; path ends in XXXXXX. */
static inline void
write_file(char *path, const char *text)
{
    int fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    cr_assert_eq(close(fd), 0);
}

/* A server that knows the names of these files and refuses to look for others
 * but below test. It ends with the test. */
static inline pid_t
dnsmasq_start(const char *host, uint16_t port, const char *hosts,
              const char *conf)
{
    char host_option[64];
    char port_option[32];
    char hosts_option[64];
    char conf_option[64];
    pid_t pid;

    if (access(DNSMASQ, X_OK) != 0) {
        cr_skip_test("skipped: no dnsmasq, see deploy/packages");
    }
    pid = fork();
    cr_assert_geq(pid, 0);
    if (pid != 0) {
        return pid;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)snprintf(host_option, sizeof host_option, "--listen-address=%s",
                   host);
    (void)snprintf(port_option, sizeof port_option, "--port=%u", port);
    (void)snprintf(hosts_option, sizeof hosts_option, "--addn-hosts=%s", hosts);
    (void)snprintf(conf_option, sizeof conf_option, "--conf-file=%s", conf);
    if (freopen("/dev/null", "w", stderr) == NULL) {
        _exit(127);
    }
    /* As a daemon it would change its user, and forget the signal. */
    (void)execl(DNSMASQ, DNSMASQ, "--no-daemon", conf_option, "--no-resolv",
                "--no-hosts", "--bind-interfaces",
                "--pid-file=", "--local=/test/", host_option, port_option,
                hosts_option, (char *)NULL);
    _exit(127);
}

static inline void
dnsmasq_stop(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

#endif
