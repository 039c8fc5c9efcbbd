#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "node/peers/resolve_found_internal.h"

static struct resolve_found found;

/* An answer to _a._tcp with one SRV record: target node.x, port 7001. */
static const unsigned char answer[] =
    "\x12\x34\x81\x80\0\1\0\1\0\0\0\0"
    "\2_a\4_tcp\0\0\41\0\1"
    "\300\14\0\41\0\1\0\0\0\74\0\16\0\1\0\2\33\131\4node\1x";

static enum discover_outcome
read_part(size_t size)
{
    unsigned char *copy = malloc(size + 1);

    cr_assert_not_null(copy);
    memcpy(copy + 1, answer, size);
    enum discover_outcome outcome =
        resolve_found_service(&found, ARES_SUCCESS, copy + 1, (int)size);
    free(copy);
    return outcome;
}

Test(node_resolve_found, a_target_has_its_name_and_its_port)
{
    cr_assert_eq(read_part(sizeof answer), DISCOVER_FOUND);
    cr_assert_eq(found.ips_count, 0);
    cr_assert_eq(found.targets_count, 1);
    cr_assert_str_eq(found.targets[0].name, "node.x");
    cr_assert_eq(found.targets[0].port, 7001);
}

Test(node_resolve_found, an_answer_that_ends_early_names_nothing)
{
    for (size_t size = 0; size < sizeof answer; size++) {
        cr_assert_eq(read_part(size), DISCOVER_FAILED, "%zu", size);
        cr_assert_eq(found.targets_count, 0);
    }
}

Test(node_resolve_found, only_internet_addresses_are_kept)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct sockaddr other = {.sa_family = AF_UNIX};
    struct ares_addrinfo_node nodes[] = {
        {.ai_addr = (struct sockaddr *)&v4, .ai_next = &nodes[1]},
        {.ai_addr = &other, .ai_next = &nodes[2]},
        {.ai_addr = (struct sockaddr *)&v6},
    };
    struct ares_addrinfo list = {.nodes = nodes};

    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    v6.sin6_addr.s6_addr[15] = 1;
    cr_assert_eq(resolve_found_hosts(&found, ARES_SUCCESS, &list),
                 DISCOVER_FOUND);
    cr_assert_eq(found.ips_count, 2);
    cr_assert_eq(found.ips[0].size, 4);
    cr_assert_eq(found.ips[1].size, 16);
    cr_assert_eq(found.ips[1].bytes[15], 1);
}

Test(node_resolve_found, no_answer_replaces_what_was_found_before)
{
    cr_assert_eq(read_part(sizeof answer), DISCOVER_FOUND);
    cr_assert_eq(resolve_found_hosts(&found, ARES_SUCCESS, NULL),
                 DISCOVER_ABSENT);
    cr_assert_eq(found.targets_count, 0);
    cr_assert_eq(resolve_found_hosts(&found, ARES_ENODATA, NULL),
                 DISCOVER_ABSENT);
    cr_assert_eq(resolve_found_hosts(&found, ARES_ETIMEOUT, NULL),
                 DISCOVER_TIMEOUT);
    cr_assert_eq(resolve_found_service(&found, ARES_ESERVFAIL, NULL, 0),
                 DISCOVER_FAILED);
}
