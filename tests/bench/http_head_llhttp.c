/* llhttp's callbacks, which gather names and values into one table. */
#include "tests/bench/http_head_llhttp.h"

#include <llhttp.h>

#include "index/base/slice.h"

#define HEADERS_MAX 96

static struct {
    struct slice target;
    struct slice names[HEADERS_MAX];
    struct slice values[HEADERS_MAX];
    size_t count;
} seen;

static int
on_url(llhttp_t *parser, const char *at, size_t len)
{
    (void)parser;
    seen.target = (struct slice){.ptr = at, .len = len};
    return 0;
}

static int
on_name(llhttp_t *parser, const char *at, size_t len)
{
    (void)parser;
    seen.names[seen.count] = (struct slice){.ptr = at, .len = len};
    return 0;
}

static int
on_value(llhttp_t *parser, const char *at, size_t len)
{
    (void)parser;
    seen.values[seen.count] = (struct slice){.ptr = at, .len = len};
    seen.count++;
    return seen.count == HEADERS_MAX ? -1 : 0;
}

static int
on_headers_complete(llhttp_t *parser)
{
    (void)parser;
    return HPE_PAUSED;
}

size_t
bench_http_head_llhttp(const char *bytes, size_t len)
{
    static const llhttp_settings_t settings = {
        .on_url = on_url,
        .on_header_field = on_name,
        .on_header_value = on_value,
        .on_headers_complete = on_headers_complete,
    };
    llhttp_t parser;

    seen.count = 0;
    llhttp_init(&parser, HTTP_REQUEST, &settings);
    if (llhttp_execute(&parser, bytes, len) != HPE_PAUSED) {
        return 0;
    }
    return seen.count;
}
