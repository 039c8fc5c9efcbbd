#include "node/route.h"

#include <errno.h>
#include <stdlib.h>

#include "index/base/check.h"

/* Engine paths beyond /v1/ that carry prompts and change nothing there. */
static const struct slice prompt_paths[] = {
    {"/v1/chat/completions", 20},
    {"/v1/completions", 15},
    {"/v1/responses", 13},
    {"/v1/embeddings", 14},
    {"/v1/messages", 12},
    {"/tokenize", 9},
    {"/v1/tokenize", 12},
    {"/detokenize", 11},
    {"/v1/rerank", 10},
    {"/v2/rerank", 10},
    {"/rerank", 7},
    {"/v1/score", 9},
    {"/score", 6},
    {"/classify", 9},
    {"/pooling", 8},
};

int
route_scratch_init(struct route_scratch *scratch, const struct config *config)
{
    *scratch = (struct route_scratch){
        .limits = {.depth_max = config->limits.json_depth_max,
                   .spans_max = config->limits.spans_max},
        .blocks = {.block_bytes = config->belief.block_bytes,
                   .blocks_max = config->belief.depth_max},
    };
    scratch->scan.spans =
        calloc(config->limits.spans_max, sizeof(*scratch->scan.spans));
    scratch->blocks.keys =
        calloc(config->belief.depth_max, sizeof(*scratch->blocks.keys));
    if (scratch->scan.spans == NULL || scratch->blocks.keys == NULL) {
        route_scratch_fini(scratch);
        return -ENOMEM;
    }
    return 0;
}

void
route_scratch_fini(struct route_scratch *scratch)
{
    free(scratch->scan.spans);
    free(scratch->blocks.keys);
    scratch->scan.spans = NULL;
    scratch->blocks.keys = NULL;
}

static bool
starts_with(struct slice s, struct slice prefix)
{
    return s.len >= prefix.len && memcmp(s.ptr, prefix.ptr, prefix.len) == 0;
}

static bool
is_local(struct slice path)
{
    return slice_equal(path, SLICE("/health")) ||
           slice_equal(path, SLICE("/ready")) ||
           slice_equal(path, SLICE("/v1/models")) ||
           starts_with(path, SLICE("/v1/models/"));
}

static bool
is_json(const struct http_head *head)
{
    const struct http_header *type =
        http_head_find(head, HTTP_FIELD_CONTENT_TYPE);

    if (type == NULL) {
        return true; /* forgotten; the scanner will tell */
    }
    const char *end = memchr(type->value.ptr, ';', type->value.len);
    struct slice media = type->value;
    if (end != NULL) {
        media.len = (size_t)(end - media.ptr);
    }
    media = slice_trim(media);
    /* The second is what curl -d says of every body it is given. */
    return slice_equal_nocase(media, SLICE("application/json")) ||
           slice_equal_nocase(media,
                              SLICE("application/x-www-form-urlencoded"));
}

/* A dot segment or an escape could mean another path to the engine than it
 * does here; no path under /v1/ needs either. */
static bool
climbs(struct slice path)
{
    return memmem(path.ptr, path.len, "/.", 2) != NULL ||
           memchr(path.ptr, '%', path.len) != NULL;
}

enum route_kind
route_kind_of(const struct http_head *head)
{
    struct slice path = head->path;

    if (is_local(path)) {
        return ROUTE_LOCAL;
    }
    for (size_t i = 0; i < sizeof(prompt_paths) / sizeof(*prompt_paths); i++) {
        if (slice_equal(path, prompt_paths[i])) {
            return head->method_id == HTTP_POST && is_json(head) ? ROUTE_PROMPT
                                                                 : ROUTE_PLAIN;
        }
    }
    if (!starts_with(path, SLICE("/v1/")) || climbs(path)) {
        return ROUTE_UNKNOWN;
    }
    return head->method_id == HTTP_POST && head->body != HTTP_BODY_NONE &&
                   is_json(head)
               ? ROUTE_PROMPT
               : ROUTE_PLAIN;
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

int
route_read(struct route_scratch *scratch, struct slice body)
{
    struct scan_span *spans = scratch->scan.spans;
    int outcome =
        scan_body(body.ptr, body.len, &scratch->limits, &scratch->scan);

    CHECK(scratch->scan.spans == spans);
    scratch->scanned = outcome == 0;
    if (outcome != 0) {
        return ROUTE_E_SYNTAX;
    }
    find_model(scratch, body.ptr);
    blocks_cut(&scratch->blocks, body.ptr, &scratch->scan);
    return 0;
}

void
route_read_nothing(struct route_scratch *scratch)
{
    scratch->scanned = false;
    scratch->model = (struct slice){.ptr = NULL, .len = 0};
    scratch->blocks.count = 0;
    scratch->blocks.prefix_key = 0;
    scratch->blocks.root = 0;
}

int
route_input(struct route_scratch *scratch, const struct fleet_view *view,
            const struct fleet_board *board, const struct radix *belief,
            const struct worker_set *tried, struct elect_input *input)
{
    const struct blocks *blocks = &scratch->blocks;
    struct worker_set serves = fleet_view_find_model(view, scratch->model);
    struct worker_set may = fleet_view_candidates(view, board);
    struct worker_set able = worker_set_and(&may, &serves);

    *input = (struct elect_input){
        .candidates = worker_set_minus(&able, tried),
        .load = scratch->load,
        .kv_usage = scratch->kv_usage,
        .total_blocks = blocks->count,
        .prefix_key = blocks->prefix_key,
        .identity = view->identity,
    };
    fleet_board_loads(board, &input->candidates, scratch->load,
                      scratch->kv_usage);
    if (worker_set_empty(&serves) && !worker_set_empty(&view->present)) {
        return ROUTE_E_NO_MODEL;
    }
    if (worker_set_empty(&input->candidates)) {
        return ROUTE_E_NO_WORKER;
    }
    if (blocks->count != 0) {
        radix_match(belief, blocks->root, blocks->keys, blocks->count,
                    &scratch->match);
        input->match = &scratch->match;
    }
    return 0;
}

int
route_elect(struct route_scratch *scratch, const struct elect_config *config,
            const struct fleet_view *view, struct fleet_board *board,
            const struct radix *belief, const struct worker_set *tried,
            struct rng *rng, struct route_choice *choice)
{
    struct elect_input input;
    int outcome = route_input(scratch, view, board, belief, tried, &input);

    if (outcome != 0) {
        return outcome;
    }
    for (;;) {
        elect_pick(config, &scratch->elect, &input, rng, &choice->elect);
        if (choice->elect.worker == WORKER_NONE) {
            return ROUTE_E_NO_WORKER;
        }
        if (fleet_seat_take(&choice->seat, board, view, choice->elect.worker)) {
            return 0;
        }
        worker_set_remove(&input.candidates, choice->elect.worker);
    }
}
