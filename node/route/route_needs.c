/* Tokens that a request may need. */
#include "node/route/route_needs.h"

#include "node/limits/limits_rate.h"

#define BYTES_PER_ID 6U   /* of a list of tokens */
#define PIECE_BYTES  512U /* of a text that is looked at */

/* bytes_milli: what makes a token of text, in thousandths of a byte. */
static uint64_t
prompt_of(const struct route_scratch *scratch, size_t body_len,
          uint32_t bytes_milli)
{
    const struct scan *scan = &scratch->scan;
    uint64_t bytes = 0;
    uint64_t tokens = 0;

    if (scratch->tokens.known) { /* of several prompts the first one's */
        return (uint64_t)scratch->tokens.prompt.tokens * scan->prompts;
    }
    if (scan->spans_truncated) {
        return (uint64_t)body_len * 1000 / bytes_milli;
    }
    for (uint32_t i = 0; i < scan->spans_count; i++) {
        const struct scan_span *span = &scan->spans[i];
        if (span->kind == SCAN_IDS) {
            tokens += span->len / BYTES_PER_ID;
        } else if (span->kind != SCAN_MEDIA) {
            bytes += span->len;
        }
    }
    return (tokens + bytes * 1000 / bytes_milli) * scan->prompts;
}

static uint64_t
answer_of(const struct scan *scan)
{
    uint64_t answer = ELECT_REQUEST_TOKENS;

    if (scan->api == SCAN_API_EMBEDDINGS || scan->api == SCAN_API_OTHER) {
        return 0;
    }
    if (scan->has_max_tokens && scan->max_tokens >= 0) {
        uint64_t asked = (uint64_t)scan->max_tokens;
        answer = asked < LIMITS_AMOUNT_MAX ? asked : LIMITS_AMOUNT_MAX;
    }
    uint64_t times = (uint64_t)scan->n * scan->prompts;
    uint64_t most = 2 * (uint64_t)LIMITS_AMOUNT_MAX; /* more than any limit */
    return answer != 0 && times > most / answer ? most : answer * times;
}

void
route_look_at_text(struct route_scratch *scratch, const char *body)
{
    const struct scan *scan = &scratch->scan;
    const struct scan_span *longest = NULL;
    bool plain = !scan->spans_truncated && !scan->media && !scan->truncated &&
                 !scan->stateful && scan->prompts == 1;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < scan->spans_count; i++) {
        const struct scan_span *span = &scan->spans[i];
        if (span->kind == SCAN_TEXT || span->kind == SCAN_TOOLS) {
            bytes += span->len;
            longest =
                longest == NULL || span->len > longest->len ? span : longest;
        } else if (span->kind != SCAN_ROLE) {
            plain = false; /* ids, media */
        }
    }
    scratch->text_bytes = plain ? (uint32_t)bytes : 0;
    scratch->text_kind = TEXT_PROSE;
    if (longest != NULL) {
        uint32_t len = longest->len < PIECE_BYTES ? longest->len : PIECE_BYTES;
        scratch->text_kind = text_kind_of((struct slice){
            .ptr = body + longest->at + (longest->len - len) / 2, .len = len});
    }
}

struct route_needs
route_needs(const struct route_scratch *scratch, size_t body_len)
{
    return (struct route_needs){
        .prompt = prompt_of(scratch, body_len, TEXT_RATIO_START_MILLI),
        .counted = scratch->tokens.known && scratch->tokens.prompt.whole &&
                   scratch->scan.prompts == 1,
        .answer = answer_of(&scratch->scan),
    };
}

struct pools_need
route_length(const struct route_scratch *scratch,
             const struct route_world *world)
{
    const struct scan *scan = &scratch->scan;
    struct pools_need need = {.known = false,
                              .bytes_milli = TEXT_RATIO_START_MILLI};

    if (!scratch->prompts || scan->prompts != 1 || scan->truncated ||
        scan->stateful || scan->shape == SCAN_NO_PROMPT ||
        scan->api == SCAN_API_EMBEDDINGS || scan->api == SCAN_API_OTHER) {
        return need;
    }
    need.known = true;
    if (world->text != NULL) {
        need.bytes_milli =
            text_board_milli(world->text, scratch->model, scratch->text_kind);
    }
    need.prompt = prompt_of(scratch, scratch->body_len, need.bytes_milli);
    need.counted = scratch->tokens.known && scratch->tokens.prompt.whole;
    if (scan->has_max_tokens && scan->max_tokens > 0) {
        uint64_t asked = (uint64_t)scan->max_tokens;
        need.answer = asked < LIMITS_AMOUNT_MAX ? asked : LIMITS_AMOUNT_MAX;
    }
    return need;
}

void
route_threshold(struct route_scratch *scratch, const struct route_world *world)
{
    const struct elect_config *elect = world->elect;
    uint32_t tuned = 0;

    if (elect->pool_tune && elect->pool_threshold != 0 && world->text != NULL &&
        world->view->tells_len && world->view->same_len == 0) {
        tuned = text_board_pool(world->text, scratch->model);
    }
    scratch->pools.tuned = tuned != 0;
    scratch->pools.threshold = tuned != 0 ? tuned : elect->pool_threshold;
}
