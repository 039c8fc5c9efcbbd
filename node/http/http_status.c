/* What a status is called, and the JSON that says what went wrong. */
#include "node/http/http_status.h"

#include <stdio.h>

#include "index/base/check.h"
#include "node/text/json_text.h"

static const struct status_name {
    unsigned status;
    const char *reason;
    const char *code; /* of the answers that the server gives itself */
} status_names[] = {
    {200, "OK", "ok"},
    {201, "Created", "created"},
    {202, "Accepted", "accepted"},
    {204, "No Content", "no_content"},
    {304, "Not Modified", "not_modified"},
    {400, "Bad Request", "bad_request"},
    {401, "Unauthorized", "unauthorized"},
    {403, "Forbidden", "forbidden"},
    {404, "Not Found", "not_found"},
    {405, "Method Not Allowed", "method_not_allowed"},
    {408, "Request Timeout", "request_timeout"},
    {409, "Conflict", "conflict"},
    {411, "Length Required", "length_required"},
    {413, "Content Too Large", "body_too_large"},
    {414, "URI Too Long", "target_too_long"},
    {415, "Unsupported Media Type", "unsupported_media_type"},
    {417, "Expectation Failed", "expectation_failed"},
    {422, "Unprocessable Content", "unprocessable"},
    {429, "Too Many Requests", "too_many_requests"},
    {431, "Request Header Fields Too Large", "headers_too_large"},
    {500, "Internal Server Error", "internal_error"},
    {501, "Not Implemented", "not_implemented"},
    {502, "Bad Gateway", "bad_gateway"},
    {503, "Service Unavailable", "unavailable"},
    {504, "Gateway Timeout", "gateway_timeout"},
    {505, "HTTP Version Not Supported", "version_not_supported"},
};

static const struct status_name *
name_of(unsigned status)
{
    static const struct status_name unknown = {0, "Status", "error"};

    for (size_t i = 0; i < sizeof(status_names) / sizeof(*status_names); i++) {
        if (status_names[i].status == status) {
            return &status_names[i];
        }
    }
    return &unknown;
}

/* The types that OpenAI's clients know. */
static const char *
error_type(unsigned status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    default:
        return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

/* Those that Anthropic's clients know. */
static const char *
anthropic_type(unsigned status)
{
    switch (status) {
    case 413:
        return "request_too_large";
    case 503:
    case 529:
        return "overloaded_error";
    case 504:
        return "timeout_error";
    default:
        return status >= 500 ? "api_error" : error_type(status);
    }
}

const char *
http_status_reason(unsigned status)
{
    return name_of(status)->reason;
}

const char *
http_status_code(unsigned status)
{
    return name_of(status)->code;
}

struct slice
http_error_body(unsigned status, const char *code, const char *message,
                char out[HTTP_ERROR_ROOM])
{
    char text[HTTP_ERROR_MESSAGE_MAX];
    struct slice left = slice_of(message);
    size_t len = json_text_escape(&left, text, sizeof(text));
    int size = snprintf(out, HTTP_ERROR_ROOM,
                        "{\"error\":{\"message\":\"%.*s\",\"type\":\"%s\","
                        "\"code\":\"%s\"}}",
                        (int)len, text, error_type(status), code);

    CHECK(status >= 400 && size > 0 && size < HTTP_ERROR_ROOM);
    return (struct slice){.ptr = out, .len = (size_t)size};
}

struct slice
http_error_anthropic(unsigned status, const char *message,
                     char out[HTTP_ERROR_ROOM])
{
    char text[HTTP_ERROR_MESSAGE_MAX];
    struct slice left = slice_of(message);
    size_t len = json_text_escape(&left, text, sizeof(text));
    int size = snprintf(out, HTTP_ERROR_ROOM,
                        "{\"type\":\"error\",\"error\":{\"type\":\"%s\","
                        "\"message\":\"%.*s\"}}",
                        anthropic_type(status), (int)len, text);

    CHECK(status >= 400 && size > 0 && size < HTTP_ERROR_ROOM);
    return (struct slice){.ptr = out, .len = (size_t)size};
}

void
http_method_message(const struct http_head *head, const char *allowed,
                    char out[HTTP_ERROR_MESSAGE_MAX])
{
    int method = (int)(head->method.len < 32 ? head->method.len : 32);
    int path = (int)(head->path.len < 256 ? head->path.len : 256);

    (void)snprintf(out, HTTP_ERROR_MESSAGE_MAX,
                   "%.*s %.*s is not served; this path takes %s", method,
                   head->method.ptr, path, head->path.ptr, allowed);
}
