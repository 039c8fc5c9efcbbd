/* The admin port's guard: token, Host, Origin, Content-Type. */
#include "node/control/admin_guard.h"

#include <arpa/inet.h>
#include <string.h>

#define HOST_MAX 256

/* The host of HOST[:PORT] or [IPV6][:PORT], without brackets and a last dot. */
static bool
take_host(struct slice text, char host[HOST_MAX])
{
    bool bracketed = text.len != 0 && text.ptr[0] == '[';
    const char *end = memchr(text.ptr, bracketed ? ']' : ':', text.len);

    if (bracketed) {
        text.ptr++;
        text.len = end != NULL ? (size_t)(end - text.ptr) : 0;
    } else if (end != NULL) {
        text.len = (size_t)(end - text.ptr);
    }
    if (text.len > 1 && text.ptr[text.len - 1] == '.') {
        text.len--;
    }
    if (text.len == 0 || text.len >= HOST_MAX) {
        return false;
    }
    memcpy(host, text.ptr, text.len);
    host[text.len] = '\0';
    return true;
}

static bool
is_address(const char *host)
{
    unsigned char bytes[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, host, bytes) == 1 ||
           inet_pton(AF_INET6, host, bytes) == 1;
}

/* An address cannot be rebound; other names than these can. */
static bool
is_own_host(const struct http_head *head, const char *name)
{
    const struct http_header *header = http_head_find(head, HTTP_FIELD_HOST);
    char host[HOST_MAX];

    if (header == NULL) {
        return true; /* HTTP/1.0: no browser */
    }
    return take_host(header->value, host) &&
           (is_address(host) ||
            slice_equal_nocase(slice_of(host), SLICE("localhost")) ||
            slice_equal_nocase(slice_of(host), slice_of(name)));
}

/* Whether an origin, http://HOST[:PORT], is what Host says. */
static bool
is_same(struct slice origin, struct slice host)
{
    static const struct slice schemes[] = {{"http://", 7}, {"https://", 8}};

    for (size_t i = 0; i < 2; i++) {
        struct slice start = {origin.ptr, schemes[i].len};
        if (origin.len > start.len && slice_equal_nocase(start, schemes[i])) {
            struct slice rest = {origin.ptr + start.len,
                                 origin.len - start.len};
            return slice_equal_nocase(rest, host);
        }
    }
    return false;
}

static bool
has_foreign_origin(const struct http_head *head)
{
    const struct http_header *host = http_head_find(head, HTTP_FIELD_HOST);

    for (size_t i = 0; i < head->headers_count; i++) {
        const struct http_header *header = &head->headers[i];
        if (slice_equal_nocase(header->name, SLICE("Origin")) &&
            (host == NULL || !is_same(header->value, host->value))) {
            return true;
        }
    }
    return false;
}

/* Without a body nothing need be said of its type. */
static bool
is_json(const struct http_head *head, bool has_body)
{
    const struct http_header *header =
        http_head_find(head, HTTP_FIELD_CONTENT_TYPE);
    uint32_t bit = UINT32_C(1) << HTTP_FIELD_CONTENT_TYPE;

    if (header == NULL) {
        return !has_body;
    }
    struct slice rest = header->value;
    struct slice type = slice_trim(slice_take(&rest, ';'));
    return (head->fields_repeated & bit) == 0 &&
           slice_equal_nocase(type, SLICE("application/json"));
}

static bool
announces(const struct http_head *head)
{
    return head->method_id == HTTP_POST &&
           slice_equal(head->path, SLICE("/admin/workers"));
}

static bool
refuse(struct admin_refusal *refusal, unsigned status, const char *code,
       const char *message)
{
    *refusal = (struct admin_refusal){status, code, message};
    return false;
}

bool
admin_guard_admits(const struct admin_guard *guard,
                   const struct http_head *head, bool has_body,
                   const struct http_token **token,
                   struct admin_refusal *refusal)
{
    bool reads = head->method_id == HTTP_GET || head->method_id == HTTP_HEAD;

    *token = NULL;
    if (has_foreign_origin(head)) {
        return refuse(refusal, 403, "origin_refused",
                      "the admin port answers no pages of other origins");
    }
    if (guard->tokens != NULL) {
        *token = http_tokens_find(guard->tokens, head);
        if (*token == NULL) {
            return refuse(refusal, 401, "token_required",
                          "the admin port wants Authorization: Bearer TOKEN, "
                          "a token of admin.token_file");
        }
        if ((*token)->joins && !announces(head)) {
            return refuse(refusal, 403, "token_joins_only",
                          "this token is an engine's: POST /admin/workers "
                          "with a ttl is all that it may");
        }
    } else if (!is_own_host(head, guard->name)) {
        return refuse(refusal, 403, "host_refused",
                      "without a token, the admin port is asked by its "
                      "address, as localhost, or by the node's name");
    }
    if (!reads && !is_json(head, has_body)) {
        return refuse(refusal, 415, "json_expected",
                      "expected Content-Type: application/json");
    }
    return true;
}
