/* Cross-origin requests: who may, and what their browsers are told. */
#include "node/http/http_cors.h"

#include <string.h>

/* A name of one of our own, or of OpenAI's or Anthropic's limits, as clients
 * read them. */
#define EXPOSED                                                              \
    "x-request-id, retry-after, x-kvasir-node, x-kvasir-worker, "            \
    "x-kvasir-model, x-kvasir-mode, x-kvasir-overlap, x-kvasir-source, "     \
    "x-ratelimit-limit-requests, x-ratelimit-remaining-requests, "           \
    "x-ratelimit-reset-requests, x-ratelimit-limit-tokens, "                 \
    "x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens, "               \
    "anthropic-ratelimit-requests-limit, "                                   \
    "anthropic-ratelimit-requests-remaining, "                               \
    "anthropic-ratelimit-requests-reset, anthropic-ratelimit-tokens-limit, " \
    "anthropic-ratelimit-tokens-remaining, anthropic-ratelimit-tokens-reset"

#define ASKED_METHOD SLICE("access-control-request-method")
#define ASKED_NAMES  SLICE("access-control-request-headers")

#define MAX_AGE_S \
    "600" /* how long a browser asks no more; a reload counts then */

static bool
is_host_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || (c != '\0' && strchr("-._:[]", c) != NULL);
}

/* Pages of extensions and of desktop programs have schemes of their own. */
static bool
is_origin(struct slice origin)
{
    const char *mark =
        origin.len != 0 ? memmem(origin.ptr, origin.len, "://", 3) : NULL;

    if (mark == NULL || mark == origin.ptr) {
        return false;
    }
    for (const char *at = origin.ptr; at < mark; at++) {
        if ((*at < 'a' || *at > 'z') && *at != '-' && *at != '+') {
            return false;
        }
    }
    const char *end = origin.ptr + origin.len;
    for (const char *at = mark + 3; at < end; at++) {
        if (!is_host_char(*at)) {
            return false;
        }
    }
    return end > mark + 3;
}

bool
http_cors_is_list(struct slice origins)
{
    if (slice_equal(origins, SLICE("*"))) {
        return true;
    }
    bool some = origins.len != 0;
    while (origins.len != 0) {
        if (!is_origin(slice_take(&origins, ' '))) {
            return false;
        }
    }
    return some;
}

struct slice
http_cors_find(struct slice origins, struct slice origin)
{
    if (slice_equal(origins, SLICE("*"))) {
        return origins;
    }
    while (origins.len != 0) {
        struct slice one = slice_take(&origins, ' ');
        if (slice_equal_nocase(one, origin)) {
            return one;
        }
    }
    return SLICE("");
}

bool
http_cors_is_preflight(const struct http_head *head)
{
    return head->method_id == HTTP_OPTIONS &&
           http_head_find(head, HTTP_FIELD_ORIGIN) != NULL &&
           http_head_find_name(head, ASKED_METHOD) != NULL;
}

static void
add_origin(struct buf *out, struct slice allowed)
{
    if (!slice_equal(allowed, SLICE("*"))) {
        buf_add_text(out, "Vary: Origin\r\n");
    }
    if (allowed.len != 0) {
        buf_add_text(out, "Access-Control-Allow-Origin: ");
        buf_add_slice(out, allowed);
        buf_add_text(out, "\r\n");
    }
}

void
http_cors_add(struct buf *out, struct slice allowed)
{
    add_origin(out, allowed);
    if (allowed.len != 0) {
        buf_add_text(out, "Access-Control-Expose-Headers: " EXPOSED "\r\n");
    }
}

/* The page may send any field: which ones mean something is for the node and
 * the engines to say. A star would do for most browsers, but covers no
 * Authorization. */
void
http_cors_add_preflight(struct buf *out, struct slice allowed,
                        const struct http_head *head)
{
    const struct http_header *names = http_head_find_name(head, ASKED_NAMES);

    add_origin(out, allowed);
    if (allowed.len == 0) {
        return;
    }
    buf_add_text(out, "Access-Control-Allow-Methods: GET, POST, DELETE\r\n");
    if (names != NULL && names->value.len != 0 &&
        names->value.len <= HTTP_CORS_ASKED_MAX) {
        buf_add_text(out, "Access-Control-Allow-Headers: ");
        buf_add_slice(out, names->value);
        buf_add_text(out, "\r\n");
    }
    buf_add_text(out, "Access-Control-Max-Age: " MAX_AGE_S "\r\n");
}

bool
http_cors_is_field(struct slice name)
{
    struct slice prefix = SLICE("access-control-");

    return name.len > prefix.len &&
           slice_equal_nocase((struct slice){name.ptr, prefix.len}, prefix);
}
