/* traceparent, from text and back. */
#include "node/http/http_trace.h"

#include <string.h>

#include "index/base/ascii.h"

#define KNOWN_FLAGS 0x03U /* sampled, and of level 2: random */

/* Lower case alone, as the specification wants. False: these are no digits. */
static bool
take_hex(const char *text, uint8_t *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        int high = ascii_hex(text[2 * i]);
        int low = ascii_hex(text[2 * i + 1]);
        bool upper = (text[2 * i] >= 'A' && text[2 * i] <= 'F') ||
                     (text[2 * i + 1] >= 'A' && text[2 * i + 1] <= 'F');
        if (high < 0 || low < 0 || upper) {
            return false;
        }
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool
is_zero(const uint8_t *bytes, size_t count)
{
    uint8_t any = 0;

    for (size_t i = 0; i < count; i++) {
        any |= bytes[i];
    }
    return any == 0;
}

bool
http_trace_read(struct slice value, struct http_trace *trace)
{
    const char *at = value.ptr;
    uint8_t version;

    if (value.len < HTTP_TRACE_TEXT - 1 || !take_hex(at, &version, 1) ||
        version == 0xFF || at[2] != '-' || at[35] != '-' || at[52] != '-' ||
        !take_hex(at + 3, trace->trace, 16) ||
        !take_hex(at + 36, trace->span, 8) ||
        !take_hex(at + 53, &trace->flags, 1)) {
        return false;
    }
    trace->flags &= KNOWN_FLAGS;
    if (value.len != HTTP_TRACE_TEXT - 1 &&
        (version == 0 || at[HTTP_TRACE_TEXT - 1] != '-')) {
        return false;
    }
    return !is_zero(trace->trace, 16) && !is_zero(trace->span, 8);
}

static char *
put_hex(char *out, const uint8_t *bytes, size_t count)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < count; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    return out;
}

const char *
http_trace_text(const struct http_trace *trace, char out[HTTP_TRACE_TEXT])
{
    char *at = out;

    memcpy(at, "00-", 3);
    at = put_hex(at + 3, trace->trace, 16);
    *at++ = '-';
    at = put_hex(at, trace->span, 8);
    *at++ = '-';
    at = put_hex(at, &trace->flags, 1);
    *at = '\0';
    CHECK(at == out + HTTP_TRACE_TEXT - 1);
    return out;
}
