#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "mesh/discover.h"

static struct discover_join join;

static const char *
parse(const char *text)
{
    /* A copy of that size, so that a sanitizer sees reads beyond it. */
    size_t len = strlen(text);
    char *copy = malloc(len + 1);

    cr_assert_not_null(copy);
    memcpy(copy, text, len);
    char *tight = realloc(copy, len == 0 ? 1 : len);
    const char *wanted = discover_parse((struct slice){tight, len}, &join);
    free(tight);
    return wanted;
}

static void
expect(const char *text, enum discover_kind kind, const char *name,
       uint16_t port)
{
    const char *wanted = parse(text);

    cr_assert_null(wanted, "%s: expected %s", text, wanted);
    cr_assert_eq(join.kind, kind, "%s", text);
    cr_assert_str_eq(join.name, name);
    cr_assert_eq(join.port, port, "%s", text);
}

Test(mesh_discover_join, an_address_needs_no_lookup)
{
    expect("10.0.0.1:7946", DISCOVER_ADDRESS, "10.0.0.1:7946", 0);
    expect("127.0.0.1:1", DISCOVER_ADDRESS, "127.0.0.1:1", 0);
    expect("dns:10.0.0.1:65535", DISCOVER_ADDRESS, "10.0.0.1:65535", 0);
    expect("[::1]:7946", DISCOVER_ADDRESS, "[::1]:7946", 0);
}

Test(mesh_discover_join, ways_to_write_an_address_become_one)
{
    expect("[2001:DB8:0:0::0001]:7946", DISCOVER_ADDRESS, "[2001:db8::1]:7946",
           0);
    expect("[::ffff:10.0.0.1]:7946", DISCOVER_ADDRESS, "10.0.0.1:7946", 0);
}

Test(mesh_discover_join, a_name_with_a_port_is_a_host)
{
    expect("dns:Mesh.Example:7946", DISCOVER_HOST, "mesh.example", 7946);
    expect("DNS:mesh:80", DISCOVER_HOST, "mesh", 80);
    expect("mesh-0.mesh:7946", DISCOVER_HOST, "mesh-0.mesh", 7946);
    expect("dns:mesh.example.:7946", DISCOVER_HOST, "mesh.example.", 7946);
    expect("a_container:7946", DISCOVER_HOST, "a_container", 7946);
    expect("10.0.0.1.nip.io:7946", DISCOVER_HOST, "10.0.0.1.nip.io", 7946);
}

Test(mesh_discover_join, srv_and_names_with_an_underscore_are_services)
{
    expect("srv:_kvasir._tcp.Example", DISCOVER_SERVICE, "_kvasir._tcp.example",
           0);
    expect("dns:_kvasir._tcp.example", DISCOVER_SERVICE, "_kvasir._tcp.example",
           0);
    expect("srv:mesh", DISCOVER_SERVICE, "mesh", 0);
}

Test(mesh_discover_join, what_cannot_be_looked_up_is_refused)
{
    static const char *const bad[] = {
        "",
        ":",
        ":7946",
        "mesh",
        "10.0.0.1",
        "mesh:",
        "mesh:0",
        "mesh:65536",
        "mesh:999999",
        "mesh:79x",
        "mesh: 80",
        "me sh:80",
        "mesh..x:80",
        ".mesh:80",
        "-mesh:80",
        "mesh/:80",
        "http://mesh:80",
        "10.0.0:80",
        "10.0.0.256:80",
        "0.0.0.0:80",
        "224.0.0.1:80",
        "255.255.255.255:80",
        "::1:80",
        "[::1]",
        "[::1]80",
        "[]:80",
        "[:80",
        "[::]:80",
        "[ff02::1]:80",
        "[fe80::1]:80",
        "[fe80::1%eth0]:80",
        "[10.0.0.1]:80",
        "[mesh]:80",
        /* One byte longer than the longest address. */
        "[0000:0000:0000:0000:0000:ffff:255.255.255.2555]:80",
        "dns:",
        "dns:mesh",
        "dns::80",
        "dns:dns:mesh:80",
        "srv:",
        "srv:.",
        "srv:_a..b",
        "srv:_kvasir._tcp.mesh:80",
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_not_null(parse(bad[i]), "%s", bad[i]);
    }
}

Test(mesh_discover_join, a_name_without_a_port_is_told_of_srv)
{
    cr_assert_not_null(strstr(parse("dns:mesh.example"), "underscore"));
}

Test(mesh_discover_join, names_are_as_long_as_dns_allows_and_no_longer)
{
    char label[64 + 1] = {0};
    char name[sizeof label * 4];
    char text[300];

    memset(label, 'a', 63);
    (void)snprintf(name, sizeof name, "%.63s.%.63s.%.63s.%.61s", label, label,
                   label, label);
    cr_assert_eq(strlen(name), 253);
    (void)snprintf(text, sizeof text, "dns:%s:80", name);
    expect(text, DISCOVER_HOST, name, 80);
    (void)snprintf(text, sizeof text, "dns:%s.:80", name);
    cr_assert_null(parse(text));
    (void)snprintf(text, sizeof text, "dns:%sa:80", name);
    cr_assert_not_null(parse(text));
    (void)snprintf(text, sizeof text, "dns:a%s:80", label);
    cr_assert_not_null(parse(text));
}

static const char *
formatted(size_t size, const uint8_t *bytes, uint16_t port)
{
    static char text[DISCOVER_ADDRESS_MAX];
    struct discover_ip ip = {.size = (uint8_t)size};

    memcpy(ip.bytes, bytes, size > 16 ? 16 : size);
    return discover_format(&ip, port, text) ? text : "";
}

Test(mesh_discover_join, addresses_nobody_can_be_at_have_no_text)
{
    cr_assert_str_eq(formatted(4, (uint8_t[]){192, 0, 2, 1}, 80),
                     "192.0.2.1:80");
    cr_assert_str_eq(formatted(4, (uint8_t[]){192, 0, 2, 1}, 0), "");
    cr_assert_str_eq(formatted(4, (uint8_t[]){0, 0, 0, 0}, 80), "");
    cr_assert_str_eq(formatted(4, (uint8_t[]){239, 1, 1, 1}, 80), "");
    cr_assert_str_eq(formatted(4, (uint8_t[]){255, 255, 255, 255}, 80), "");
    cr_assert_str_eq(formatted(4, (uint8_t[]){240, 0, 0, 1}, 80),
                     "240.0.0.1:80");
    cr_assert_str_eq(formatted(4, (uint8_t[]){255, 255, 255, 254}, 80),
                     "255.255.255.254:80");
    cr_assert_str_eq(formatted(5, (uint8_t[]){192, 0, 2, 1, 1}, 80), "");
    cr_assert_str_eq(formatted(16, (uint8_t[16]){0xFE, 0x80, [15] = 1}, 80),
                     "");
    cr_assert_str_eq(formatted(16, (uint8_t[16]){0xFE, 0xC0, [15] = 1}, 80),
                     "[fec0::1]:80");
    cr_assert_str_eq(
        formatted(16, (uint8_t[16]){[10] = 0xFF, 0xFF, 0, 0, 0, 0}, 80), "");
    cr_assert_str_eq(
        formatted(16, (uint8_t[16]){[10] = 0xFF, 0xFF, 10, 0, 0, 9}, 65535),
        "10.0.0.9:65535");
}
