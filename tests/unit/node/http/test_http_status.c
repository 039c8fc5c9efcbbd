#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "node/http/http_status.h"

Test(node_http_status, a_status_has_its_reason_and_its_code)
{
    cr_assert_str_eq(http_status_reason(413), "Content Too Large");
    cr_assert_str_eq(http_status_code(413), "body_too_large");
    cr_assert_str_eq(http_status_reason(299), "Status");
    cr_assert_str_eq(http_status_code(599), "error");
}

static void
expect(unsigned status, const char *wanted)
{
    char out[HTTP_ERROR_ROOM];
    struct slice body = http_error_body(status, "a_code", "no \"x\"\n", out);

    cr_assert(slice_equal(body, slice_of(wanted)), "%.*s", (int)body.len,
              body.ptr);
}

Test(node_http_status, an_error_is_one_that_clients_of_openai_read)
{
    expect(400, "{\"error\":{\"message\":\"no \\\"x\\\"\\n\",\"type\":"
                "\"invalid_request_error\",\"code\":\"a_code\"}}");
    expect(404, "{\"error\":{\"message\":\"no \\\"x\\\"\\n\",\"type\":"
                "\"not_found_error\",\"code\":\"a_code\"}}");
    expect(502, "{\"error\":{\"message\":\"no \\\"x\\\"\\n\",\"type\":"
                "\"server_error\",\"code\":\"a_code\"}}");
}

Test(node_http_status, a_long_message_ends_at_the_bound)
{
    static char message[4 * HTTP_ERROR_MESSAGE_MAX];
    char out[HTTP_ERROR_ROOM];

    memset(message, '\n', sizeof message - 1);
    struct slice body = http_error_body(500, "x", message, out);
    cr_assert_leq(body.len, sizeof out);
    cr_assert_eq(body.ptr[body.len - 1], '}');
    cr_assert_not_null(memmem(body.ptr, body.len, "\\n\",\"type\"", 10));
}

Test(node_http_status, an_error_is_one_that_clients_of_anthropic_read)
{
    char out[HTTP_ERROR_ROOM];
    static const struct {
        unsigned status;
        const char *type;
    } wanted[] = {
        {400, "invalid_request_error"}, {401, "authentication_error"},
        {404, "not_found_error"},       {413, "request_too_large"},
        {429, "rate_limit_error"},      {500, "api_error"},
        {503, "overloaded_error"},      {504, "timeout_error"},
    };

    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        char text[160];
        struct slice body =
            http_error_anthropic(wanted[i].status, "no \"x\"\n", out);
        (void)snprintf(text, sizeof text,
                       "{\"type\":\"error\",\"error\":{\"type\":\"%s\","
                       "\"message\":\"no \\\"x\\\"\\n\"}}",
                       wanted[i].type);
        cr_expect(slice_equal(body, slice_of(text)), "%.*s", (int)body.len,
                  body.ptr);
    }
}
