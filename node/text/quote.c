/* Foreign text inside a message, on one line. */
#include "node/text/quote.h"

#include <string.h>

#include "index/base/check.h"
#include "node/text/json_text.h"

const char *
quote_text(struct slice text, char out[QUOTE_ROOM])
{
    struct slice rest = text;
    size_t len = 0;

    out[len++] = '"';
    len += json_text_escape(&rest, out + len, QUOTE_MAX);
    if (rest.len != 0) {
        memcpy(out + len, "...", 3);
        len += 3;
    }
    out[len++] = '"';
    CHECK(len < QUOTE_ROOM);
    out[len] = '\0';
    return out;
}
