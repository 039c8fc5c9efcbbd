#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "node/base/port_fault.h"

/* Lines as Linux 6.1 writes them on a machine of little-endian words. */
#define ROW(address, state, user, inode)                               \
    "   3: " address " 00000000:0000 " state                           \
    " 00000000:00000005 00:00000000 00000000 " user "        0 " inode \
    " 1 0000000000000000 100 0 0 10 0"
#define LOOPBACK_8080 "0100007F:1F90"
#define ANY_8080      "00000000:1F90"
#define ANY6_8080     "00000000000000000000000000000000:1F90"
#define LOOPBACK6     "00000000000000000000000001000000:1F90"

static struct port_fault_socket found;

static bool
matches(const char *row, bool wide, const char *host, uint16_t port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
                               .sin6_port = htons(port)};

    found = (struct port_fault_socket){.inode = 0};
    if (inet_pton(AF_INET, host, &in.sin_addr) == 1) {
        return port_fault_match(slice_of(row), wide, (struct sockaddr *)&in,
                                &found);
    }
    cr_assert_eq(inet_pton(AF_INET6, host, &in6.sin6_addr), 1);
    return port_fault_match(slice_of(row), wide, (struct sockaddr *)&in6,
                            &found);
}

Test(node_port_fault, a_listener_at_the_same_address_is_found_with_its_inode)
{
    const char *row = ROW(LOOPBACK_8080, "0A", "  33", "58231");

    cr_assert(matches(row, false, "127.0.0.1", 8080));
    cr_assert_eq(found.inode, 58231);
    cr_assert_eq(found.user, 33);
    cr_assert_not(matches(row, false, "127.0.0.2", 8080));
    cr_assert_not(matches(row, false, "127.0.0.1", 8081));
}

Test(node_port_fault, what_takes_all_addresses_collides_with_each)
{
    const char *any = ROW(ANY_8080, "0A", "0", "1");
    const char *any6 = ROW(ANY6_8080, "0A", "0", "1");
    const char *one = ROW(LOOPBACK_8080, "0A", "0", "1");
    const char *one6 = ROW(LOOPBACK6, "0A", "0", "1");

    cr_assert(matches(any, false, "10.0.0.1", 8080));
    cr_assert(matches(any6, true, "10.0.0.1", 8080));
    cr_assert(matches(one, false, "0.0.0.0", 8080));
    cr_assert(matches(one6, true, "::", 8080));
    cr_assert(matches(one6, true, "::1", 8080));
    cr_assert_not(matches(one6, true, "::2", 8080));
    cr_assert_not(matches(one6, true, "127.0.0.1", 8080));
}

Test(node_port_fault, a_connection_holds_no_port)
{
    cr_assert_not(
        matches(ROW(LOOPBACK_8080, "01", "0", "1"), false, "127.0.0.1", 8080));
}

Test(node_port_fault, what_is_no_line_of_the_table_matches_nothing)
{
    static const char *const rows[] = {
        "",
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when",
        "   3: 0100007F:1F90",
        "   3: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0",
        "   3: 0100007F 00000000:0000 0A 0:0 0:0 0 0 0 5",
        "   3: 0100007G:1F90 00000000:0000 0A 0:0 0:0 0 0 0 5",
        "   3: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 -1 0 5",
        "   3: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 x5",
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_not(matches(rows[i], false, "127.0.0.1", 8080), "%zu", i);
    }
    cr_assert_not(matches(ROW(ANY6_8080, "0A", "0", "1"), false, "::", 8080));
    cr_assert_not(matches(ROW(ANY_8080, "0A", "0", "1"), true, "::", 8080));
}

Test(node_port_fault, a_port_of_ones_own_is_told_as_that)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    char text[PORT_FAULT_TEXT_MAX];
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    cr_assert_geq(fd, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, len), 0);
    cr_assert_eq(listen(fd, 1), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    cr_assert_str_eq(
        port_fault_holder(-EADDRINUSE, (struct sockaddr *)&address, text),
        "this node");
    cr_assert_str_eq(
        port_fault_holder(-EACCES, (struct sockaddr *)&address, text),
        "nobody");
    (void)close(fd);
    cr_assert_str_eq(
        port_fault_holder(-EADDRINUSE, (struct sockaddr *)&address, text),
        "not known");
}

Test(node_port_fault, each_fault_has_a_hint_of_its_own)
{
    cr_assert_neq(strstr(port_fault_hint(-EADDRINUSE), "holder"), NULL);
    cr_assert_neq(strstr(port_fault_hint(-EADDRNOTAVAIL), "ip address"), NULL);
    cr_assert_neq(strstr(port_fault_hint(-EACCES), "CAP_NET_BIND"), NULL);
    cr_assert_neq(strstr(port_fault_hint(-EMFILE), "ulimit -n"), NULL);
    cr_assert_neq(strstr(port_fault_hint(-EIO), "ss -ltnp"), NULL);
}
