/* The status line. */
#include "node/http/http_parse_internal.h"
#include "node/http/http_text_internal.h"

/* " " and three digits, 100 to 599. */
static int
read_status(struct http_parse *parse)
{
    const char *at = parse->at;
    unsigned status = 0;

    for (size_t i = 0; i < 4; i++) {
        if (at + i == parse->end) {
            return HTTP_E_MORE;
        }
        if (i == 0 ? at[i] != ' ' : !http_text_is(at[i], HTTP_TEXT_DIGIT)) {
            return http_parse_bad(parse, at + i, "a status code was expected");
        }
        if (i != 0) {
            status = status * 10 + (unsigned)(at[i] - '0');
        }
    }
    if (status < 100 || status > 599) {
        return http_parse_bad(parse, at + 1,
                              "the status code is not between 100 and 599");
    }
    parse->head->status = status;
    parse->at = at + 4;
    return 0;
}

/* The space before an empty reason is often left out; no harm in that. */
static int
read_reason(struct http_parse *parse)
{
    const char *at = parse->at;
    const char *stop;

    if (at == parse->end) {
        return HTTP_E_MORE;
    }
    if (*at == '\r') {
        return http_parse_line_end(parse);
    }
    if (*at != ' ') {
        return http_parse_bad(parse, at, "a status code was expected");
    }
    at++;
    stop = http_text_field_end(at, parse->end);
    parse->head->reason = (struct slice){.ptr = at, .len = (size_t)(stop - at)};
    parse->at = stop;
    return http_parse_line_end(parse);
}

int
http_parse_status_line(struct http_parse *parse)
{
    CHECK(parse->response && parse->at == parse->start);
    int outcome = http_parse_version(parse);

    if (outcome == 0) {
        outcome = read_status(parse);
    }
    if (outcome == 0) {
        outcome = read_reason(parse);
    }
    return outcome;
}
