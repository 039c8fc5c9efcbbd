/*
 * Lookups as the system is set up: each test has a network and an /etc of its
 * own, in namespaces, with dnsmasq at port 53.
 */
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

#include "tests/unit/node/peers/resolve_rig.h"

TestSuite(node_resolve_system, .timeout = 60);

static char resolv_conf[] = "/tmp/kvasir-resolv-conf-XXXXXX";

/* From here on /etc's file reads as this one. */
static void
put_over(const char *path, const char *file)
{
    cr_assert_eq(mount(path, file, NULL, MS_BIND, NULL), 0);
    (void)unlink(path);
}

static void
set_resolv_conf(const char *text)
{
    int fd = open("/etc/resolv.conf", O_WRONLY | O_TRUNC | O_CLOEXEC);

    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    cr_assert_eq(close(fd), 0);
}

/* A network with nothing but its loopback, and files of our own. */
static void
enter_system(const char *hosts)
{
    char hosts_path[] = "/tmp/kvasir-hosts-XXXXXX";
    struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int fd;

    if (unshare(CLONE_NEWNS | CLONE_NEWNET) != 0) {
        cr_skip_test("skipped: namespaces need root");
    }
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        cr_skip_test("skipped: / is no mount point, as in a chroot");
    }
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(ioctl(fd, SIOCSIFFLAGS, &up), 0);
    (void)close(fd);
    write_file(hosts_path, hosts);
    write_file(resolv_conf, "");
    put_over(hosts_path, "/etc/hosts");
    put_over(resolv_conf, "/etc/resolv.conf");
}

/* Waits until a server answers there. */
static pid_t
serve(const char *host)
{
    char hosts[] = "/tmp/kvasir-resolve-XXXXXX";
    char conf[] = "/tmp/kvasir-resolve-XXXXXX";

    write_file(hosts, "127.0.0.5 node.mesh.test\n127.0.0.6 node.test\n");
    write_file(conf, "srv-host=_kvasir._tcp.mesh.test,node.mesh.test,7001\n");
    pid_t pid = dnsmasq_start(host, 53, hosts, conf);
    rig_init(host, 53, 30000);
    while (look_up(DISCOVER_HOST, "node.test") != DISCOVER_FOUND) {
        cr_assert_eq(waitpid(pid, NULL, WNOHANG), 0);
    }
    rig_fini();
    (void)unlink(hosts);
    (void)unlink(conf);
    return pid;
}

/* Named by the hosts file, as on every Debian machine: c-ares 1.18.1 knows it
 * without one, too, but then leaks the name's ten bytes. */
Test(node_resolve_system, localhost_needs_no_server)
{
    enter_system("127.0.0.1 localhost\n");
    rig_init(NULL, 0, 30000);
    cr_assert_eq(look_up(DISCOVER_HOST, "localhost"), DISCOVER_FOUND);
    cr_assert_geq(rig.ips_count, 1);
    rig_fini();
}

Test(node_resolve_system, all_addresses_of_the_hosts_file_are_found)
{
    enter_system("127.0.0.7 other.test here.test\n"
                 "127.0.0.8 here.test\n::9 here.test\n");
    rig_init(NULL, 0, 30000);
    cr_assert_eq(look_up(DISCOVER_HOST, "here.test"), DISCOVER_FOUND);
    cr_assert_eq(rig.ips_count, 3);
    cr_assert_eq(ips_sum(4), 7 + 8);
    cr_assert_eq(ips_sum(16), 9);
    rig_fini();
}

Test(node_resolve_system, the_search_list_is_followed)
{
    enter_system("");
    pid_t pid = serve("127.0.0.1");

    set_resolv_conf("nameserver 127.0.0.1\n"
                    "search nobody.test mesh.test\noptions ndots:2\n");
    rig_init(NULL, 0, 30000);
    cr_assert_eq(look_up(DISCOVER_HOST, "node"), DISCOVER_FOUND);
    cr_assert_eq(ips_sum(4), 5);
    cr_assert_eq(look_up(DISCOVER_SERVICE, "_kvasir._tcp"), DISCOVER_FOUND);
    cr_assert_str_eq(rig.targets[0].name, "node.mesh.test");
    cr_assert_eq(look_up(DISCOVER_HOST, "node.test"), DISCOVER_FOUND);
    cr_assert_eq(ips_sum(4), 6);
    rig_fini();
    dnsmasq_stop(pid);
}

Test(node_resolve_system, a_name_that_ends_in_a_dot_is_not_searched_for)
{
    enter_system("");
    pid_t pid = serve("127.0.0.1");

    set_resolv_conf("nameserver 127.0.0.1\nsearch mesh.test\n");
    rig_init(NULL, 0, 30000);
    cr_assert_neq(look_up(DISCOVER_HOST, "node."), DISCOVER_FOUND);
    cr_assert_neq(look_up(DISCOVER_SERVICE, "_kvasir._tcp."), DISCOVER_FOUND);
    rig_fini();
    dnsmasq_stop(pid);
}

Test(node_resolve_system, changed_servers_count_from_the_next_lookup_on)
{
    enter_system("");
    pid_t pid = serve("127.0.0.1");

    set_resolv_conf("nameserver 127.0.0.9\n");
    rig_init(NULL, 0, 30000);
    cr_assert_eq(look_up(DISCOVER_HOST, "node.mesh.test"), DISCOVER_FAILED);
    set_resolv_conf("nameserver 127.0.0.1\n");
    cr_assert_eq(look_up(DISCOVER_HOST, "node.mesh.test"), DISCOVER_FOUND);
    rig_fini();
    dnsmasq_stop(pid);
}

Test(node_resolve_system, the_second_server_is_asked_when_the_first_is_down)
{
    enter_system("");
    pid_t pid = serve("::1");

    set_resolv_conf("nameserver 127.0.0.9\nnameserver ::1\n");
    rig_init(NULL, 0, 5000);
    cr_assert_eq(look_up(DISCOVER_HOST, "node.mesh.test"), DISCOVER_FOUND);
    cr_assert_eq(look_up(DISCOVER_SERVICE, "_kvasir._tcp.mesh.test"),
                 DISCOVER_FOUND);
    rig_fini();
    dnsmasq_stop(pid);
}

Test(node_resolve_system, the_second_server_is_asked_when_the_first_is_silent)
{
    struct sockaddr_in address = raw_socket_loopback(53);
    int fd;

    enter_system("");
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 8);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    pid_t pid = serve("127.0.0.1");

    set_resolv_conf("nameserver 127.0.0.9\nnameserver 127.0.0.1\n");
    rig_init(NULL, 0, 5000);
    cr_assert_eq(look_up(DISCOVER_HOST, "node.mesh.test"), DISCOVER_FOUND);
    rig_fini();
    dnsmasq_stop(pid);
    (void)close(fd);
}
