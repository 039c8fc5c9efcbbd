/* What a real JSON library reads as the ids of a renderer's answer, this reads
 * too, where both can read it. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/check.h"
#include "node/tokens/token_ask_ids_internal.h"
#include "node/tokens/token_media.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The array that is meant; NULL: none. */
static json_t *
meant(json_t *doc)
{
    json_t *object = json_is_array(doc) ? json_array_get(doc, 0) : doc;
    json_t *list = json_object_get(object, "token_ids");
    json_t *first = json_array_get(list, 0);

    return json_is_array(first) ? first : list;
}

static void
agree(json_t *doc, int outcome, const struct token_ids *ids)
{
    json_t *list = meant(doc);
    json_t *item;
    size_t i;

    CHECK(outcome != TOKEN_IDS_E_NONE || !json_is_array(list));
    if (outcome != 0) {
        return;
    }
    CHECK(json_is_array(list) && json_array_size(list) == ids->count);
    json_array_foreach(list, i, item)
    {
        CHECK(json_is_integer(item) && json_integer_value(item) == ids->ids[i]);
    }
}

/* What is said of pictures is in order, or nothing. */
static void
read_media(struct slice json)
{
    static struct token_media media;
    int outcome = token_media_read(&media, json);

    CHECK(outcome == 0 || media.count == 0);
    for (uint32_t i = 1; i < media.count; i++) {
        CHECK((uint64_t)media.item[i - 1].at + media.item[i - 1].len <=
              media.item[i].at);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct token_ids ids;
    char *copy = malloc(size + (size == 0)); /* ends with the text */
    json_error_t error;

    CHECK(copy != NULL);
    memcpy(copy, data, size);
    int outcome = token_ids_read(&ids, (struct slice){.ptr = copy, .len = size},
                                 SLICE("token_ids"));
    read_media((struct slice){.ptr = copy, .len = size});
    json_t *doc = json_loadb(copy, size, JSON_REJECT_DUPLICATES, &error);
    if (doc != NULL) {
        agree(doc, outcome, &ids);
    }
    json_decref(doc);
    free(copy);
    return 0;
}
