/* Ranges of addresses: from text, back to text, and the search. */
#include "node/text/ranges.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "index/base/ascii.h"

#define V4_BITS 96 /* of a mapped IPv4 address before its own */

static const char want[] =
    "none, or ranges of addresses such as 169.254.0.0/16 between blanks";

static void
map_v4(const uint8_t v4[4], uint8_t out[16])
{
    memset(out, 0, 10);
    out[10] = out[11] = 0xFF;
    memcpy(out + 12, v4, 4);
}

/* False: it is no address. *mapped: it is one of IPv4. */
static bool
read_address(const char *host, uint8_t out[16], bool *mapped)
{
    uint8_t v4[4];

    *mapped = inet_pton(AF_INET, host, v4) == 1;
    if (*mapped) {
        map_v4(v4, out);
    }
    return *mapped || inet_pton(AF_INET6, host, out) == 1;
}

/* Digits of at most max; without any, max. */
static bool
read_bits(struct slice text, uint32_t max, uint32_t *bits)
{
    uint32_t value = 0;

    if (text.ptr == NULL) {
        *bits = max;
        return true;
    }
    for (size_t i = 0; i < text.len && i < 4; i++) {
        if (!ascii_is_digit(text.ptr[i])) {
            return false;
        }
        value = value * 10 + (uint32_t)(text.ptr[i] - '0');
    }
    *bits = value;
    return text.len != 0 && text.len < 4 && value <= max;
}

static bool
bit_of(const uint8_t bytes[16], uint32_t at)
{
    return (bytes[at / 8] >> (7 - at % 8) & 1) != 0;
}

/* A range has no bits set behind its length: 10.0.0.1/8 is a mistake. */
static bool
read_range(struct slice word, struct range *range)
{
    char host[INET6_ADDRSTRLEN];
    struct slice address = slice_take(&word, '/');
    uint32_t bits;
    bool mapped;

    if (address.len == 0 || address.len >= sizeof host) {
        return false;
    }
    memcpy(host, address.ptr, address.len);
    host[address.len] = '\0';
    if (!read_address(host, range->bytes, &mapped) ||
        !read_bits(word, mapped ? 32 : 128, &bits)) {
        return false;
    }
    range->bits = (uint8_t)(bits + (mapped ? V4_BITS : 0));
    for (uint32_t i = range->bits; i < 128; i++) {
        if (bit_of(range->bytes, i)) {
            return false;
        }
    }
    return true;
}

const char *
ranges_parse(struct slice text, struct ranges *ranges)
{
    struct ranges read = {.count = 0};
    struct slice word = slice_take_word(&text);

    if (slice_equal(word, SLICE("none")) && slice_take_word(&text).len == 0) {
        *ranges = read;
        return NULL;
    }
    for (; word.len != 0; word = slice_take_word(&text)) {
        if (read.count == RANGES_MAX) {
            return "at most 32 ranges of addresses";
        }
        if (!read_range(word, &read.range[read.count])) {
            return want;
        }
        read.count++;
    }
    if (read.count == 0) {
        return want;
    }
    *ranges = read;
    return NULL;
}

const char *
ranges_want(struct slice text)
{
    struct ranges scratch;
    const char *fault = text.len != 0 ? ranges_parse(text, &scratch) : NULL;

    return fault != NULL ? fault : want;
}

_Static_assert(RANGES_MAX == 32, "as the text says");

static bool
holds(const struct range *range, const uint8_t bytes[16])
{
    uint32_t whole = range->bits / 8;
    uint32_t rest = range->bits % 8;
    uint8_t mask = (uint8_t)(0xFF << (8 - rest));

    return memcmp(range->bytes, bytes, whole) == 0 &&
           (rest == 0 || range->bytes[whole] == (bytes[whole] & mask));
}

static const struct range *
find(const struct ranges *ranges, const uint8_t bytes[16])
{
    CHECK(ranges->count <= RANGES_MAX);
    for (uint32_t i = 0; i < ranges->count; i++) {
        if (holds(&ranges->range[i], bytes)) {
            return &ranges->range[i];
        }
    }
    return NULL;
}

const struct range *
ranges_find(const struct ranges *ranges, const struct sockaddr *address)
{
    uint8_t bytes[16];
    uint8_t v4[4];

    if (address->sa_family == AF_INET) {
        memcpy(v4,
               &((const struct sockaddr_in *)(const void *)address)->sin_addr,
               sizeof v4);
        map_v4(v4, bytes);
    } else if (address->sa_family == AF_INET6) {
        memcpy(bytes,
               &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr,
               sizeof bytes);
    } else {
        return NULL;
    }
    return find(ranges, bytes);
}

const struct range *
ranges_find_host(const struct ranges *ranges, const char *host)
{
    uint8_t bytes[16];
    bool mapped;

    return read_address(host, bytes, &mapped) ? find(ranges, bytes) : NULL;
}

const char *
range_text(const struct range *range, char out[RANGE_TEXT_MAX])
{
    uint8_t v4[4] = {0};
    uint8_t mapped[16];
    char host[INET6_ADDRSTRLEN] = "";

    map_v4(v4, mapped);
    if (range->bits >= V4_BITS && memcmp(range->bytes, mapped, 12) == 0) {
        (void)inet_ntop(AF_INET, range->bytes + 12, host, sizeof host);
        (void)snprintf(out, RANGE_TEXT_MAX, "%s/%u", host,
                       range->bits - (unsigned)V4_BITS);
        return out;
    }
    (void)inet_ntop(AF_INET6, range->bytes, host, sizeof host);
    (void)snprintf(out, RANGE_TEXT_MAX, "%s/%u", host, (unsigned)range->bits);
    return out;
}
