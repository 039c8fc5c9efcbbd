/* A body has the same name with blanks around its tokens; any answer is whole or
 * not, and neither reads what is not there. */
#include <stdlib.h>
#include <string.h>

#include "index/base/check.h"
#include "node/answers/answers_rule.h"
#include "node/text/json_pull.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The same document, token by token, with a blank before each; NULL: none. */
static char *
spread(struct slice body, size_t *len)
{
    char *out = malloc(4 * body.len + 16);
    struct json_pull pull;
    enum pull_token token;
    size_t before = 0;

    CHECK(out != NULL);
    *len = 0;
    json_pull_init(&pull, body);
    while ((token = json_pull_next(&pull)) > PULL_END) {
        out[(*len)++] = '\n';
        memcpy(out + *len, body.ptr + before, pull.at - before);
        *len += pull.at - before;
        before = pull.at;
    }
    return out;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum scan_api apis[] = {SCAN_API_CHAT, SCAN_API_RESPONSES,
                                         SCAN_API_MESSAGES,
                                         SCAN_API_EMBEDDINGS};
    char *copy = malloc(size + 1); /* so that a byte too many is found */
    struct answers_form form;
    struct answers_form again;

    CHECK(copy != NULL);
    if (size != 0) {
        memcpy(copy, data, size);
    }
    struct slice body = {copy, size};
    if (answers_form_read_around(body, SLICE(""), 1, &form)) {
        size_t len;
        char *other = spread(body, &len);
        CHECK(answers_form_read_around((struct slice){other, len}, SLICE(""), 1,
                                       &again));
        CHECK(memcmp(&form.name, &again.name, sizeof(form.name)) == 0);
        CHECK(form.seeded == again.seeded && form.searches == again.searches);
        free(other);
    }
    for (unsigned i = 0; i < sizeof(apis) / sizeof(*apis); i++) {
        (void)answers_is_whole(apis[i], false, body);
        (void)answers_is_whole(apis[i], true, body);
    }
    struct answers_control control = {.no_store = false};
    answers_control_read(body, &control);
    free(copy);
    return 0;
}
