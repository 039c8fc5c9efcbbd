#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "node/peers/resolve_read_internal.h"

/* A DNS message as it is put together. */
struct message {
    uint8_t bytes[16384];
    size_t size;
    uint16_t answers;
};

static struct message m;
static struct resolve_found found;

static void
put(const void *bytes, size_t size)
{
    cr_assert_leq(m.size + size, sizeof m.bytes);
    memcpy(m.bytes + m.size, bytes, size);
    m.size += size;
}

static void
put_16(unsigned value)
{
    put((uint8_t[]){(uint8_t)(value >> 8), (uint8_t)value}, 2);
}

/* One question: mesh.test, at offset 12. */
static void
start(void)
{
    static const uint8_t question[] = "\4mesh\4test";

    memset(&m, 0, sizeof m);
    memset(&found, 0, sizeof found);
    put((uint8_t[12]){0x12, 0x34, 0x81, 0x80, 0, 1}, 12);
    put(question, sizeof question);
    put_16(1);
    put_16(1);
}

/* A record of the question's name. */
static void
put_record(unsigned type, const void *data, size_t size)
{
    put_16(0xC00C);
    put_16(type);
    put_16(1);
    put_16(0);
    put_16(60);
    put_16((unsigned)size);
    put(data, size);
    m.answers++;
    m.bytes[6] = (uint8_t)(m.answers >> 8);
    m.bytes[7] = (uint8_t)m.answers;
}

/* From a copy of that size, so that a sanitizer sees reads beyond it. */
static void
read_part(size_t size, enum resolve_type type)
{
    uint8_t *copy = malloc(size + 1);

    cr_assert_not_null(copy);
    memcpy(copy + 1, m.bytes, size);
    memset(&found, 0, sizeof found);
    resolve_read(copy + 1, size, type, &found);
    free(copy);
}

#define A(last)    put_record(1, (uint8_t[]){10, 0, 0, last}, 4)
#define AAAA(last) put_record(28, (uint8_t[16]){0x20, 1, [15] = last}, 16)
#define SRV(port, name)                  \
    put_record(33, "\0\1\0\2" port name, \
               sizeof("\0\1\0\2" port name) - 1 + (sizeof(name) > 1))

Test(node_resolve_read, every_record_of_the_wanted_type_counts)
{
    start();
    A(1);
    AAAA(2);
    A(3);
    read_part(m.size, RESOLVE_A);
    cr_assert_eq(found.ips_count, 2);
    cr_assert_eq(found.ips[0].size, 4);
    cr_assert_eq(found.ips[0].bytes[3], 1);
    cr_assert_eq(found.ips[1].bytes[3], 3);
    read_part(m.size, RESOLVE_AAAA);
    cr_assert_eq(found.ips_count, 1);
    cr_assert_eq(found.ips[0].size, 16);
    cr_assert_eq(found.ips[0].bytes[15], 2);
}

Test(node_resolve_read, records_behind_an_alias_count)
{
    start();
    put_record(5, "\5other\300\21", 8);
    put("\5other\300\21", 8);
    put_16(1);
    put_16(1);
    put_16(0);
    put_16(60);
    put_16(4);
    put("\12\0\0\7", 4);
    m.bytes[7] = 2;
    read_part(m.size, RESOLVE_A);
    cr_assert_eq(found.ips_count, 1);
    cr_assert_eq(found.ips[0].bytes[3], 7);
}

Test(node_resolve_read, targets_are_unfolded)
{
    start();
    SRV("\33\131", "\4node\300\14");
    SRV("\33\132", "\1x");
    read_part(m.size, RESOLVE_SRV);
    cr_assert_eq(found.targets_count, 2);
    cr_assert_str_eq(found.targets[0].name, "node.mesh.test");
    cr_assert_eq(found.targets[0].port, 7001);
    cr_assert_str_eq(found.targets[1].name, "x");
    cr_assert_eq(found.targets[1].port, 7002);
}

Test(node_resolve_read, records_of_a_wrong_size_are_left_out)
{
    start();
    put_record(1, "\12\0\0", 3);
    put_record(1, "\12\0\0\1\1", 5);
    put_record(28, "\12\0\0\1", 4);
    put_record(33, "\0\0\0\0\0\1", 6);
    A(9);
    read_part(m.size, RESOLVE_A);
    cr_assert_eq(found.ips_count, 1);
    cr_assert_eq(found.ips[0].bytes[3], 9);
    read_part(m.size, RESOLVE_AAAA);
    cr_assert_eq(found.ips_count, 0);
    read_part(m.size, RESOLVE_SRV);
    cr_assert_eq(found.targets_count, 0);
}

Test(node_resolve_read, names_that_point_at_themselves_are_left_out)
{
    start();
    size_t at = m.size + 12 + 6;
    uint8_t data[] = {0, 0, 0, 0, 0, 1, (uint8_t)(0xC0 | at >> 8), (uint8_t)at};
    put_record(33, data, sizeof data);
    read_part(m.size, RESOLVE_SRV);
    cr_assert_eq(found.targets_count, 0);
}

Test(node_resolve_read, an_answer_cut_anywhere_names_what_came_whole_or_less)
{
    start();
    A(1);
    size_t one = m.size;
    SRV("\33\131", "\4node\300\14");
    A(2);
    for (size_t size = 0; size < m.size; size++) {
        read_part(size, RESOLVE_A);
        cr_assert_leq(found.ips_count, size >= one ? 1U : 0U, "%zu", size);
        read_part(size, RESOLVE_SRV);
        cr_assert_leq(found.targets_count, 1);
    }
    read_part(m.size, RESOLVE_A);
    cr_assert_eq(found.ips_count, 2);
}

Test(node_resolve_read, more_than_fits_is_left_out)
{
    start();
    for (unsigned i = 0; i < DISCOVER_IPS_MAX + 5; i++) {
        A((uint8_t)i);
        SRV("\33\131", "\4node\300\14");
    }
    read_part(m.size, RESOLVE_A);
    cr_assert_eq(found.ips_count, DISCOVER_IPS_MAX);
    read_part(m.size, RESOLVE_SRV);
    cr_assert_eq(found.targets_count, DISCOVER_TARGETS_MAX);
}

Test(node_resolve_read, only_internet_addresses_are_added)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct sockaddr other = {.sa_family = AF_UNIX};

    memset(&found, 0, sizeof found);
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    v6.sin6_addr.s6_addr[15] = 1;
    resolve_add(&found, (const struct sockaddr *)&v4);
    resolve_add(&found, (const struct sockaddr *)&v6);
    resolve_add(&found, &other);
    cr_assert_eq(found.ips_count, 2);
    cr_assert_eq(found.ips[0].size, 4);
    cr_assert_eq(found.ips[1].size, 16);
    cr_assert_eq(found.ips[1].bytes[15], 1);
}
