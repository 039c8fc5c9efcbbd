/* Asks workers for the tokens of a tiny chat. */
#include "node/control/renderers.h"

#include <string.h>

#include "index/base/check.h"
#include "node/base/log.h"
#include "node/ingest/ingest.h"

#define SILENT_US UINT64_C(10000000) /* until one that failed is asked again */
#define DEPTH_MAX 8U
#define SPANS_MAX 8U

/* No model: an engine takes its own. */
static const char tiny[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}";

const char *
renderer_name(enum renderer renderer)
{
    switch (renderer) {
    case RENDERER_EXACT:
        return "exact";
    case RENDERER_TOKENIZER:
        return "tokenizer";
    case RENDERER_NONE:
        return "none";
    case RENDERER_UNKNOWN:
        break;
    }
    return "unknown";
}

static const char *
hint_of(enum renderer renderer, enum engine_kind kind)
{
    if (renderer == RENDERER_EXACT) {
        return "predictions of its chats are exact";
    }
    if (kind == ENGINE_VLLM) {
        return "predictions of its chats are exact with vLLM's flag "
               "--enable-scale-out";
    }
    return renderer == RENDERER_NONE
               ? "without the model's own files (tokens.dir) its prompts of "
                 "text are placed by their text"
               : "without the model's own files (tokens.dir) chats with "
                 "options that it does not tokenize are predicted wrongly";
}

/* Its operator may want to know. */
static void
tell(const struct renderers *r, enum renderer renderer)
{
    LOG_INFO("renderer", KV("worker", r->id),
             KV("tells_tokens", renderer_name(renderer)),
             KV("hint", hint_of(renderer, r->kind)));
}

static void
note(struct renderers *r, const struct token_answer *answer)
{
    struct renderers_worker *w = &r->worker[r->slot];
    enum renderer before =
        w->generation == r->generation ? w->renderer : RENDERER_UNKNOWN;

    *w = (struct renderers_worker){
        .generation = r->generation,
        .renderer = before,
        .again_us = r->now_us + RENDERERS_AGAIN_US,
    };
    switch (answer->outcome) {
    case TOKEN_OK:
        w->renderer = answer->rendered ? RENDERER_EXACT : RENDERER_TOKENIZER;
        break;
    case TOKEN_UNABLE:
    case TOKEN_REFUSED:
        w->renderer = RENDERER_NONE;
        break;
    case TOKEN_FAILED:
        w->again_us = r->now_us + SILENT_US;
        break;
    }
    if (w->renderer != before) {
        tell(r, w->renderer);
    }
}

static void
on_answer(void *context, const struct token_answer *answer)
{
    struct renderers *r = context;

    role_is_control();
    r->question = NULL;
    note(r, answer);
}

static bool ON_CONTROL
is_due(const struct renderers *r, const struct fleet_worker *worker)
{
    const struct renderers_worker *w = &r->worker[worker->slot];

    return ingest_has_events(worker) &&
           renderers_of(r, worker) != RENDERER_EXACT &&
           (w->generation != worker->generation || r->now_us >= w->again_us) &&
           token_ask_able(r->ask, worker, SCAN_API_CHAT);
}

static void
ask(struct renderers *r, const struct fleet_worker *worker)
{
    struct scan_limits limits = {.depth_max = DEPTH_MAX,
                                 .spans_max = SPANS_MAX};
    struct scan_span spans[SPANS_MAX];
    struct scan scan = {.spans = spans, .api = SCAN_API_CHAT};

    CHECK(scan_body(tiny, sizeof(tiny) - 1, &limits, &scan) == 0);
    r->slot = worker->slot;
    r->generation = worker->generation;
    r->kind = worker->kind;
    memcpy(r->id, worker->id, sizeof(r->id));
    if (token_ask_start(r->ask, &r->question, worker, SLICE(tiny), &scan, r,
                        on_answer) != 0) {
        r->question = NULL; /* busy, or no memory: with the next look */
    }
}

void
renderers_look(struct renderers *r, const struct fleet_view *view,
               uint64_t now_us)
{
    r->now_us = now_us;
    if (r->ask == NULL || r->question != NULL) {
        return;
    }
    WORKER_SET_EACH (slot, &view->eligible) {
        if (is_due(r, view->worker[slot])) {
            ask(r, view->worker[slot]);
            return;
        }
    }
}

enum renderer
renderers_of(const struct renderers *r, const struct fleet_worker *worker)
{
    const struct renderers_worker *w = &r->worker[worker->slot];

    CHECK(worker->slot < WORKERS_MAX);
    return w->generation == worker->generation ? w->renderer : RENDERER_UNKNOWN;
}
