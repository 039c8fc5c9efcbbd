/* Parses and formats joins and addresses. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "mesh/discover.h"

#include "index/base/ascii.h"

#define WANT_JOIN "HOST:PORT, dns:NAME:PORT or srv:NAME"
#define WANT_PORT WANT_JOIN " (SRV names begin with an underscore)"
#define WANT_IP   WANT_JOIN " (no node can be reached at this address)"

#define LABEL_MAX 63 /* RFC 1035 */
#define NAME_LEN  253

/* Underscores are allowed: SRV names and names of containers have them. */
static bool
is_name(char c)
{
    return ascii_is_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '_';
}

bool
discover_name_read(struct slice text, char *out)
{
    size_t label = 0;
    size_t len = text.len;

    CHECK(out != NULL && (text.ptr != NULL || text.len == 0));
    if (len > 0 && text.ptr[len - 1] == '.') {
        len--; /* an absolute name; the dot is kept */
    }
    if (len == 0 || len > NAME_LEN || text.ptr[0] == '-') {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        char c = ascii_lower(text.ptr[i]);
        bool dot = c == '.';
        if (dot ? label == 0 : label == LABEL_MAX || !is_name(c)) {
            return false;
        }
        label = dot ? 0 : label + 1;
        out[i] = c;
    }
    out[text.len] = '\0';
    return true;
}

static bool
is_mapped(const struct discover_ip *ip)
{
    static const uint8_t prefix[12] = {[10] = 0xFF, [11] = 0xFF};

    return ip->size == 16 && memcmp(ip->bytes, prefix, sizeof prefix) == 0;
}

static bool
format_v4(const uint8_t *bytes, uint16_t port, char *out)
{
    static const uint8_t broadcast[4] = {255, 255, 255, 255};
    bool multicast = bytes[0] >= 224 && bytes[0] < 240;

    CHECK(port != 0);
    /* Beyond multicast, 240.0.0.0/4 is reserved, and pods of clouds have it. */
    if (bytes[0] == 0 || multicast ||
        memcmp(bytes, broadcast, sizeof broadcast) == 0) {
        return false;
    }
    (void)snprintf(out, DISCOVER_ADDRESS_MAX, "%u.%u.%u.%u:%u", bytes[0],
                   bytes[1], bytes[2], bytes[3], port);
    return true;
}

static bool
format_v6(const uint8_t *bytes, uint16_t port, char *out)
{
    static const uint8_t unspecified[16];
    char text[INET6_ADDRSTRLEN];

    CHECK(port != 0);
    if (bytes[0] == 0xFF || (bytes[0] == 0xFE && (bytes[1] & 0xC0) == 0x80) ||
        memcmp(bytes, unspecified, sizeof unspecified) == 0) {
        return false;
    }
    CHECK(inet_ntop(AF_INET6, bytes, text, sizeof text) != NULL);
    (void)snprintf(out, DISCOVER_ADDRESS_MAX, "[%s]:%u", text, port);
    return true;
}

bool
discover_format(const struct discover_ip *ip, uint16_t port, char *out)
{
    CHECK(ip != NULL && out != NULL);
    if (port == 0 || (ip->size != 4 && ip->size != 16)) {
        return false;
    }
    if (ip->size == 4 || is_mapped(ip)) {
        return format_v4(ip->bytes + ip->size - 4, port, out);
    }
    return format_v6(ip->bytes, port, out);
}

static bool
read_port(struct slice text, uint16_t *port)
{
    uint32_t value = 0;

    if (text.len == 0 || text.len > 5) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (!ascii_is_digit(text.ptr[i])) {
            return false;
        }
        value = value * 10 + (uint32_t)(text.ptr[i] - '0');
    }
    *port = (uint16_t)value;
    return value > 0 && value <= UINT16_MAX;
}

/* Parses an address; its size is 0 if text is none. */
static struct discover_ip
read_ip(struct slice text, bool v6)
{
    struct discover_ip ip = {0};
    char host[INET6_ADDRSTRLEN];

    if (text.len >= sizeof host || memchr(text.ptr, '\0', text.len) != NULL) {
        return ip;
    }
    memcpy(host, text.ptr, text.len);
    host[text.len] = '\0';
    if (inet_pton(v6 ? AF_INET6 : AF_INET, host, ip.bytes) == 1) {
        ip.size = v6 ? 16 : 4;
    }
    return ip;
}

static const char *
read_address(struct slice host, bool v6, struct discover_join *join)
{
    struct discover_ip ip = read_ip(host, v6);
    uint16_t port = join->port;

    CHECK(join->port != 0);
    if (ip.size == 0) {
        return WANT_JOIN;
    }
    join->kind = DISCOVER_ADDRESS;
    join->port = 0;
    return discover_format(&ip, port, join->name) ? NULL : WANT_IP;
}

/* Only digits and dots: it is an address or invalid. */
static bool
is_numeric(struct slice host)
{
    for (size_t i = 0; i < host.len; i++) {
        if (!ascii_is_digit(host.ptr[i]) && host.ptr[i] != '.') {
            return false;
        }
    }
    return true;
}

static const char *
read_host(struct slice text, size_t colon, struct discover_join *join)
{
    struct slice host = {text.ptr, colon};
    struct slice port = {text.ptr + colon + 1, text.len - colon - 1};
    bool bracketed = colon > 1 && host.ptr[0] == '[';

    CHECK(colon < text.len && text.ptr[colon] == ':');
    if (!read_port(port, &join->port)) {
        return WANT_JOIN;
    }
    if (bracketed && host.ptr[colon - 1] == ']') {
        return read_address((struct slice){host.ptr + 1, colon - 2}, true,
                            join);
    }
    if (is_numeric(host)) {
        return read_address(host, false, join);
    }
    join->kind = DISCOVER_HOST;
    return discover_name_read(host, join->name) ? NULL : WANT_JOIN;
}

const char *
discover_parse(struct slice text, struct discover_join *join)
{
    CHECK(join != NULL && (text.ptr != NULL || text.len == 0));
    *join = (struct discover_join){.kind = DISCOVER_SERVICE};
    if (slice_skip_nocase(&text, SLICE("srv:"))) {
        return discover_name_read(text, join->name) ? NULL : WANT_JOIN;
    }
    bool dns = slice_skip_nocase(&text, SLICE("dns:"));
    size_t colon = text.len;

    while (colon > 0 && text.ptr[colon - 1] != ':') {
        colon--;
    }
    if (colon > 0) {
        return read_host(text, colon - 1, join);
    }
    if (!dns || text.len == 0 || text.ptr[0] != '_') {
        return dns ? WANT_PORT : WANT_JOIN;
    }
    return discover_name_read(text, join->name) ? NULL : WANT_JOIN;
}
