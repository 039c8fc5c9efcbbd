/* Numeric addresses, each with one spelling. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "mesh/link_internal.h"

/* A parsed address: network byte order, IPv4 in the first four bytes. */
struct host {
    int family;
    uint8_t bytes[16];
    uint16_t port;
};

static bool
read_port(const char *text, uint16_t *port)
{
    unsigned value = 0;

    if (*text == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') {
            return false;
        }
        value = value * 10 + (unsigned)(*text - '0');
        if (value > UINT16_MAX) {
            return false;
        }
    }
    *port = (uint16_t)value;
    return true;
}

static bool
parse(const char *text, struct host *host)
{
    char name[MESH_ADDRESS_MAX];
    const char *colon = strrchr(text, ':');
    size_t len = colon != NULL ? (size_t)(colon - text) : 0;

    memset(host, 0, sizeof *host);
    if (len == 0 || len >= sizeof name || !read_port(colon + 1, &host->port)) {
        return false;
    }
    memcpy(name, text, len);
    name[len] = '\0';
    if (name[0] == '[' && name[len - 1] == ']') {
        name[len - 1] = '\0';
        host->family = AF_INET6;
        return inet_pton(AF_INET6, name + 1, host->bytes) == 1;
    }
    host->family = AF_INET;
    return inet_pton(AF_INET, name, host->bytes) == 1;
}

static void
print(const struct host *host, char out[MESH_ADDRESS_MAX])
{
    char name[INET6_ADDRSTRLEN];

    CHECK(inet_ntop(host->family, host->bytes, name, sizeof name) != NULL);
    (void)snprintf(out, MESH_ADDRESS_MAX,
                   host->family == AF_INET6 ? "[%s]:%u" : "%s:%u", name,
                   (unsigned)host->port);
}

static bool
is_loopback(const struct host *host)
{
    static const uint8_t six[16] = {[15] = 1};

    return host->family == AF_INET ? host->bytes[0] == 127
                                   : memcmp(host->bytes, six, sizeof six) == 0;
}

bool
link_address_read(const char *text, char out[MESH_ADDRESS_MAX])
{
    struct host host;

    CHECK(text != NULL);
    if (!parse(text, &host)) {
        return false;
    }
    print(&host, out);
    return true;
}

bool
link_address_loopback(const char *address)
{
    struct host host;

    return parse(address, &host) && is_loopback(&host);
}

bool
link_address_wildcard(const char *address)
{
    static const uint8_t none[16];
    struct host host;

    return parse(address, &host) && memcmp(host.bytes, none, sizeof none) == 0;
}

uint16_t
link_address_port(const char *address)
{
    struct host host;

    CHECK(parse(address, &host));
    return host.port;
}

void
link_address_with_port(char address[MESH_ADDRESS_MAX], uint16_t port)
{
    struct host host;

    CHECK(parse(address, &host));
    host.port = port;
    print(&host, address);
}

void
link_address_to_loopback(char address[MESH_ADDRESS_MAX])
{
    struct host host;

    CHECK(parse(address, &host));
    memset(host.bytes, 0, sizeof host.bytes);
    if (host.family == AF_INET) {
        host.bytes[0] = 127;
        host.bytes[3] = 1;
    } else {
        host.bytes[15] = 1;
    }
    print(&host, address);
}

bool
link_address_same_host(const char *a, const char *b)
{
    struct host one;
    struct host other;

    if (!parse(a, &one) || !parse(b, &other)) {
        return false;
    }
    if (is_loopback(&one) && is_loopback(&other)) {
        return true;
    }
    return one.family == other.family &&
           memcmp(one.bytes, other.bytes, sizeof one.bytes) == 0;
}

/* IPv4 within IPv6 is IPv4. */
static void
set_six(struct host *host, const uint8_t six[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    bool four = memcmp(six, mapped, sizeof mapped) == 0;

    host->family = four ? AF_INET : AF_INET6;
    memcpy(host->bytes, six + (four ? 12 : 0), four ? 4 : 16);
}

void
link_address_of_sockaddr(const struct sockaddr_storage *from,
                         char out[MESH_ADDRESS_MAX])
{
    struct host host = {.family = AF_INET};

    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)from;
        memcpy(host.bytes, &in->sin_addr, 4);
        host.port = ntohs(in->sin_port);
    } else if (from->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)from;
        set_six(&host, in->sin6_addr.s6_addr);
        host.port = ntohs(in->sin6_port);
    } else {
        (void)snprintf(out, MESH_ADDRESS_MAX, "unknown");
        return;
    }
    print(&host, out);
}

void
link_address_to_sockaddr(const char *address, struct sockaddr_storage *out)
{
    struct host host;

    CHECK(parse(address, &host));
    memset(out, 0, sizeof *out);
    if (host.family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)out;
        in->sin_family = AF_INET;
        in->sin_port = htons(host.port);
        memcpy(&in->sin_addr, host.bytes, 4);
    } else {
        struct sockaddr_in6 *in = (struct sockaddr_in6 *)out;
        in->sin6_family = AF_INET6;
        in->sin6_port = htons(host.port);
        memcpy(&in->sin6_addr, host.bytes, 16);
    }
}
