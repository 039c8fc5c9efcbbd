/* Reads what a request says, at once or in pieces. */
#include <errno.h>
#include <stdlib.h>

#include "index/base/check.h"
#include "node/keys/keys_check.h"
#include "node/route/route.h"
#include "node/route/route_needs.h"
#include "node/scan/scan_form.h"

/* Pictures have names where a renderer tells them, and only in chats of any API;
 * in others the text is looked up, where each picture has its own digest. Of
 * several prompts the first counts, of ids that are truncated only the engine
 * knows which ones stay, and a prompt that goes on with what an engine has stored
 * is known to nobody else. */
static bool
has_tokens(const struct scan *scan)
{
    bool is_responses = scan->api == SCAN_API_RESPONSES;
    bool is_embeddings = scan->api == SCAN_API_EMBEDDINGS;

    if (scan->api == SCAN_API_OTHER || scan->spans_truncated || scan->apart ||
        scan->prompt_is_input != (is_responses || is_embeddings)) {
        return false;
    }
    if (is_responses) {
        return !scan->stateful &&
               (scan->shape == SCAN_MESSAGES || scan->shape == SCAN_STRING);
    }
    if (is_embeddings && (scan->truncated || scan->shape == SCAN_MESSAGES)) {
        return false;
    }
    switch (scan->shape) {
    case SCAN_MESSAGES:
    case SCAN_STRING:
    case SCAN_STRINGS:
        return true;
    case SCAN_ID_LIST:
    case SCAN_ID_LISTS:
        return !scan->truncated;
    case SCAN_NO_PROMPT:
        break;
    }
    return false;
}

static void
find_model(struct route_scratch *scratch, const char *body)
{
    const struct scan_text *model = &scratch->scan.model;

    scratch->model = (struct slice){.ptr = NULL, .len = 0};
    if (!model->present) {
        return;
    }
    scratch->model = (struct slice){.ptr = body + model->at, .len = model->len};
    if (model->escaped && model->len <= sizeof(scratch->model_text)) {
        scratch->model.len =
            scan_unescape(body + model->at, model->len, scratch->model_text);
        scratch->model.ptr = scratch->model_text;
    }
}

/* What a string of the body stands for. One that is longer than any engine takes
 * stands for itself, as it is written: never for none. */
static struct slice
given_text(const struct scan_text *text, const char *body,
           char room[ROUTE_TEXT_MAX])
{
    struct slice given = {.ptr = NULL, .len = 0};

    if (text->present) {
        given = (struct slice){.ptr = body + text->at, .len = text->len};
    }
    if (text->escaped && given.len <= ROUTE_TEXT_MAX) {
        given.len = scan_unescape(given.ptr, given.len, room);
        given.ptr = room;
    }
    return given;
}

/* An isolated tenant's prompts have its salt in their keys, whatever engine gets
 * them. */
static void
set_salt(struct route_scratch *scratch, const char *body)
{
    char room[ROUTE_TEXT_MAX];
    uint64_t digest;

    scratch->salt[0] = '\0';
    if (scratch->isolation != NULL && scratch->isolation->strict) {
        struct slice given = given_text(&scratch->scan.salt, body, room);
        if (given.len >
            ROUTE_TEXT_MAX) { /* HMAC is slow for what a body may hold */
            digest = key_digest(given);
            given = (struct slice){(const char *)&digest, sizeof(digest)};
        }
        keys_cache_salt(scratch->isolation, given, scratch->salt);
    }
    scratch->blocks.salt = slice_of(scratch->salt);
}

/* The scratch's scan is the body's, with that outcome: all but its keys. */
static int
take_scan(struct route_scratch *scratch, struct slice body, int outcome)
{
    scratch->body_len = body.len;
    scratch->by_tokens = outcome == 0 && has_tokens(&scratch->scan);
    scratch->prompts = outcome == 0;
    token_match_forget(&scratch->tokens);
    scratch->tokens.cold = scratch->scan.rescored;
    if (outcome != 0) {
        return ROUTE_E_SYNTAX;
    }
    find_model(scratch, body.ptr);
    set_salt(scratch, body.ptr);
    route_look_at_text(scratch, body.ptr);
    return 0;
}

static int
scan(struct route_scratch *scratch, struct slice body, enum scan_api api)
{
    struct scan_span *spans = scratch->scan.spans;

    scratch->scan.api = api;
    int outcome =
        scan_body(body.ptr, body.len, &scratch->limits, &scratch->scan);
    CHECK(scratch->scan.spans == spans);
    return take_scan(scratch, body, outcome);
}

int
route_read(struct route_scratch *scratch, struct slice body, enum scan_api api)
{
    int outcome = scan(scratch, body, api);

    if (outcome == 0) {
        blocks_split(&scratch->blocks, body.ptr, &scratch->scan);
    }
    return outcome;
}

/* In pieces */

int
route_ahead_init(struct route_ahead *ahead, const struct config *config)
{
    ahead->scan.spans =
        calloc(config->limits.spans_max, sizeof(*ahead->scan.spans));
    ahead->blocks = (struct blocks){
        .keys = calloc(config->belief.depth_max, sizeof(*ahead->blocks.keys)),
        .block_bytes = config->belief.block_bytes,
        .blocks_max = config->belief.depth_max,
    };
    if (ahead->scan.spans == NULL || ahead->blocks.keys == NULL) {
        route_ahead_fini(ahead);
        return -ENOMEM;
    }
    return 0;
}

void
route_ahead_fini(struct route_ahead *ahead)
{
    free(ahead->scan.spans);
    free(ahead->blocks.keys);
    ahead->scan.spans = NULL;
    ahead->blocks.keys = NULL;
}

/* What was read goes over with its memory. */
static void
swap(struct route_ahead *ahead, struct route_scratch *scratch)
{
    struct scan scan = ahead->scan;
    struct blocks blocks = ahead->blocks;

    CHECK(blocks.blocks_max == scratch->blocks.blocks_max);
    ahead->scan = scratch->scan;
    ahead->blocks = scratch->blocks;
    scratch->scan = scan;
    scratch->blocks = blocks;
}

int
route_ahead_begin(struct route_ahead *ahead, struct route_scratch *scratch,
                  struct slice body, enum scan_api api)
{
    int outcome = scan(scratch, body, api);

    if (outcome == 0) {
        swap(ahead, scratch);
        ahead->body_len = body.len;
        blocks_begin(&ahead->cut, &ahead->blocks, body.ptr, &ahead->scan);
    }
    return outcome;
}

bool
route_ahead_more(struct route_ahead *ahead, size_t bytes)
{
    return blocks_more(&ahead->cut, bytes);
}

void
route_ahead_take(struct route_ahead *ahead, struct route_scratch *scratch,
                 struct slice body)
{
    CHECK(ahead->cut.body == body.ptr && ahead->body_len == body.len);
    ahead->cut.body = NULL; /* once */
    swap(ahead, scratch);
    CHECK(take_scan(scratch, body, 0) == 0);
}

void
route_read_nothing(struct route_scratch *scratch)
{
    scratch->by_tokens = false;
    scratch->prompts = false;
    scratch->text_bytes = 0;
    scratch->text_kind = TEXT_PROSE;
    scratch->salt[0] = '\0';
    token_match_forget(&scratch->tokens);
    scratch->model = (struct slice){.ptr = NULL, .len = 0};
    scratch->blocks.count = 0;
    scratch->blocks.prefix_key = 0;
    scratch->blocks.root = 0;
}

void
route_read_form(struct route_scratch *scratch, struct slice body)
{
    route_read_nothing(scratch);
    scratch->model = scan_form_model(body);
}

struct slice
route_adapter(const struct route_scratch *scratch, const char *body,
              char room[ROUTE_TEXT_MAX])
{
    return given_text(&scratch->scan.lora, body, room);
}

uint64_t
route_token_root(const struct route_scratch *scratch, const char *body,
                 const struct fleet_view *view)
{
    char rooms[2][ROUTE_TEXT_MAX];
    struct slice salt = scratch->salt[0] != '\0'
                            ? slice_of(scratch->salt)
                            : given_text(&scratch->scan.salt, body, rooms[0]);
    struct slice lora = route_adapter(scratch, body, rooms[1]);
    struct slice named = fleet_view_adapter(view, scratch->model);

    /* Only SGLang reads lora_path, and takes the adapter of BASE:ADAPTER first. */
    return key_token_root(named.len != 0 ? named : lora, salt);
}
