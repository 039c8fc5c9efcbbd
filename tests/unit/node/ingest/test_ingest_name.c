#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>

#include "node/ingest/ingest_name.h"

#define AGAIN_US UINT64_C(5000000)

static struct ingest_name name;
static struct ranges deny;
static struct ingest_name_denied denied;
static uint64_t now_us;

static void
setup(void)
{
    ingest_name_init(&name);
    now_us = 1000;
    cr_assert_null(ranges_parse(slice_of("169.254.0.0/16 fe80::/10"), &deny));
}

TestSuite(node_ingest_name, .init = setup);

static struct sockaddr_storage
address(const char *text)
{
    struct sockaddr_storage out = {.ss_family = AF_UNSPEC};
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        memcpy(&out, &v4, sizeof v4);
    } else {
        cr_assert_eq(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
        memcpy(&out, &v6, sizeof v6);
    }
    return out;
}

/* A lookup finds these. */
static bool
look(bool works, size_t count, const char *const *found)
{
    struct sockaddr_storage addresses[INGEST_ADDRESSES_MAX];

    for (size_t i = 0; i < count; i++) {
        addresses[i] = address(found[i]);
    }
    cr_assert(ingest_name_due(&name, works, now_us));
    bool moved = ingest_name_take(&name, &deny, addresses, count, now_us,
                                  AGAIN_US, &denied);
    now_us += AGAIN_US;
    return moved;
}

#define LOOK(works, ...)                                                      \
    look(works, sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *), \
         (const char *[]){__VA_ARGS__})

Test(node_ingest_name, a_name_leads_to_its_first_address)
{
    cr_assert(LOOK(false, "10.0.0.1", "2001:db8::1"));
    cr_assert_str_eq(name.address, "10.0.0.1");
    cr_assert_eq(name.state, INGEST_NAME_FOUND);
    cr_assert_null(denied.range);
}

Test(node_ingest_name, an_address_may_be_ipv6)
{
    cr_assert(LOOK(false, "2001:db8::1"));
    cr_assert_str_eq(name.address, "2001:db8::1");
}

Test(node_ingest_name, a_denied_address_is_left_out)
{
    cr_assert(LOOK(false, "169.254.169.254", "10.0.0.1"));
    cr_assert_str_eq(name.address, "10.0.0.1");
    cr_assert_str_eq(denied.address, "169.254.169.254");
}

Test(node_ingest_name, a_name_with_denied_addresses_only_leads_nowhere)
{
    cr_assert_not(LOOK(false, "169.254.169.254", "fe80::1"));
    cr_assert_str_eq(name.address, "");
    cr_assert_eq(name.state, INGEST_NAME_DENIED);
    cr_assert_str_eq(denied.address, "169.254.169.254");
}

Test(node_ingest_name, an_address_that_became_denied_is_given_up)
{
    cr_assert(LOOK(false, "10.0.0.1"));
    cr_assert(LOOK(false, "169.254.0.1"));
    cr_assert_str_eq(name.address, "");
}

Test(node_ingest_name, an_ipv4_address_in_ipv6_is_judged_as_itself)
{
    cr_assert_not(LOOK(false, "::ffff:169.254.169.254"));
    cr_assert_eq(name.state, INGEST_NAME_DENIED);
}

Test(node_ingest_name, an_engine_that_moved_is_followed)
{
    cr_assert(LOOK(false, "10.0.0.1"));
    cr_assert(LOOK(false, "10.0.0.2"));
    cr_assert_str_eq(name.address, "10.0.0.2");
}

Test(node_ingest_name, the_next_address_is_tried_where_one_does_not_work)
{
    cr_assert(LOOK(false, "::1", "127.0.0.1"));
    cr_assert(LOOK(false, "::1", "127.0.0.1"));
    cr_assert_str_eq(name.address, "127.0.0.1");
    cr_assert(LOOK(false, "::1", "127.0.0.1"));
    cr_assert_str_eq(name.address, "::1");
}

Test(node_ingest_name, an_address_that_began_to_work_meanwhile_stays)
{
    cr_assert(LOOK(false, "::1", "127.0.0.1"));
    cr_assert(ingest_name_due(&name, false, now_us));
    cr_assert_not(ingest_name_due(&name, true, now_us)); /* one runs */
    struct sockaddr_storage found[] = {address("127.0.0.1"), address("::1")};
    cr_assert_not(
        ingest_name_take(&name, &deny, found, 2, now_us, AGAIN_US, &denied));
    cr_assert_str_eq(name.address, "::1");
}

Test(node_ingest_name, a_lookup_that_fails_leaves_the_last_address)
{
    cr_assert(LOOK(false, "10.0.0.1"));
    cr_assert_not(look(false, 0, NULL));
    cr_assert_str_eq(name.address, "10.0.0.1");
    cr_assert_eq(name.state, INGEST_NAME_UNRESOLVED);
}

Test(node_ingest_name, a_name_is_not_looked_up_while_its_address_works)
{
    cr_assert(LOOK(false, "10.0.0.1"));
    cr_assert_not(ingest_name_due(&name, true, now_us));
    cr_assert(ingest_name_due(&name, false, now_us));
}

Test(node_ingest_name, lookups_keep_their_distance_and_come_one_at_a_time)
{
    cr_assert(ingest_name_due(&name, false, now_us));
    cr_assert_not(ingest_name_due(&name, false, now_us + 9 * AGAIN_US));
    cr_assert_not(
        ingest_name_take(&name, &deny, NULL, 0, now_us, AGAIN_US, &denied));
    cr_assert_not(ingest_name_due(&name, false, now_us + AGAIN_US - 1));
    cr_assert(ingest_name_due(&name, false, now_us + AGAIN_US));
}

Test(node_ingest_name, what_is_no_name_is_never_looked_up)
{
    name = (struct ingest_name){.state = INGEST_NAME_NONE};
    cr_assert_not(ingest_name_due(&name, false, now_us));
}
