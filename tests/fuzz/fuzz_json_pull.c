/* What jansson takes, this takes, depth aside; what this takes has balanced
 * tokens, and strings that fit where they came from. A model list read from
 * it is sorted. */
#include <jansson.h>

#include "index/base/check.h"
#include "node/fleet/engine_models.h"
#include "node/text/json_pull.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool
walk(struct slice text, bool *too_deep)
{
    struct json_pull pull;
    char copy[256];
    enum pull_token token;
    int open = 0;

    json_pull_init(&pull, text);
    while ((token = json_pull_next(&pull)) > PULL_END) {
        open += token == PULL_OBJECT || token == PULL_ARRAY;
        open -= token == PULL_OBJECT_END || token == PULL_ARRAY_END;
        CHECK(open == (int)pull.depth);
        if (token == PULL_KEY || token == PULL_STRING) {
            int len = json_pull_copy(&pull, copy, sizeof copy);
            CHECK(len <= (int)pull.text.len);
            CHECK(len < 0 ||
                  json_pull_is(&pull, (struct slice){copy, (size_t)len}));
        }
    }
    CHECK(token == PULL_BAD || open == 0);
    CHECK(pull.at <= text.len + 8);
    *too_deep = token == PULL_BAD && pull.depth == JSON_PULL_DEPTH_MAX;
    return token == PULL_END;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = {.ptr = (const char *)data, .len = size};
    struct engine_models models;
    bool too_deep;
    bool taken = walk(text, &too_deep);
    json_t *theirs =
        json_loadb(text.ptr, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

    /* jansson takes a NUL byte for the end of its input. */
    bool comparable = size == 0 || memchr(data, 0, size) == NULL;
    CHECK(theirs == NULL || taken || too_deep || !comparable);
    json_decref(theirs);
    if (engine_models_read(text, &models) == 0) {
        CHECK(taken);
        for (size_t i = 1; i < models.count; i++) {
            CHECK(slice_compare(models.model[i - 1].name,
                                models.model[i].name) < 0);
        }
    }
    engine_models_fini(&models);
    return 0;
}
