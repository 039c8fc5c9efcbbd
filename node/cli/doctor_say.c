/* A worker's page: a line for each thing that was tried, and under what is
 * missing how to get it. */
#include "node/cli/doctor_internal.h"

#include <inttypes.h>
#include <string.h>

#define EVENTS_CONFIG                                       \
    "--kv-events-config '{\"enable_kv_cache_events\":true," \
    "\"publisher\":\"zmq\",\"endpoint\":\"tcp://*:5557\","  \
    "\"replay_endpoint\":\"tcp://*:5657\"}'"
#define EVENTS_KEYS "events=tcp://HOST:5557,replay=tcp://HOST:5657"

struct page {
    struct buf *out;
    uint32_t missing;
};

static void
good(struct page *page, const char *what)
{
    buf_printf(page->out, "  ok       %-8s ", what);
}

static void
missing(struct page *page, const char *what)
{
    page->missing++;
    buf_printf(page->out, "  MISSING  %-8s ", what);
}

/* The engine cannot, or need not, and nothing is to be done. */
static void
without(struct page *page, const char *what)
{
    buf_printf(page->out, "  -        %-8s ", what);
}

static void
hint(struct page *page, const char *text)
{
    buf_printf(page->out, "             %s\n", text);
}

/* "no answer: refused", "404". */
static void
add_answer(struct page *page, const struct doctor_answer *answer)
{
    if (answer->failure[0] != '\0') {
        buf_printf(page->out, "no answer (%s)\n", answer->failure);
    } else {
        buf_printf(page->out, "the answer is %u\n", answer->status);
    }
}

static void
say_health(struct page *page, const struct doctor_found *found)
{
    if (doctor_is_well(&found->health)) {
        good(page, "health");
        buf_printf(page->out, "GET %s answers %u\n", found->health_path,
                   found->health.status);
        return;
    }
    if (found->health.status == 404 && doctor_is_well(&found->models)) {
        good(page, "health");
        buf_printf(page->out, "GET /v1/models answers; %s is not there\n",
                   found->health_path);
        return;
    }
    missing(page, "health");
    buf_printf(page->out, "GET %s: ", found->health_path);
    add_answer(page, &found->health);
    hint(page,
         found->health.failure[0] != '\0'
             ? "no request goes there: is the engine up, and its url right?"
             : "no request goes there: health.path names another path");
}

static void
say_models(struct page *page, const struct doctor_found *found)
{
    if (found->models_count != 0) {
        good(page, "models");
        buf_printf(page->out, "%zu, the first is %s\n", found->models_count,
                   found->model);
        return;
    }
    missing(page, "models");
    buf_add_text(page->out, "GET /v1/models: ");
    if (doctor_is_well(&found->models)) {
        buf_add_text(page->out, "the answer names none\n");
    } else {
        add_answer(page, &found->models);
    }
    hint(page, "requests for any model are sent there");
}

static void
say_metrics(struct page *page, const struct doctor_found *found)
{
    const struct engine_metrics *load = &found->load;

    if (load->running.known && load->waiting.known && load->kv_usage.known) {
        good(page, "metrics");
        buf_add_text(page->out, "load, requests that wait, use of the cache\n");
        return;
    }
    if (load->running.known) {
        without(page, "metrics");
        buf_printf(page->out, "load, but not %s%s\n",
                   load->waiting.known ? "" : "what waits, nor ",
                   load->kv_usage.known ? "" : "how full the cache is");
        return;
    }
    missing(page, "metrics");
    if (doctor_is_well(&found->metrics)) {
        buf_add_text(page->out, "GET /metrics has nothing that is known\n");
    } else {
        buf_add_text(page->out, "GET /metrics: ");
        add_answer(page, &found->metrics);
    }
    hint(page, found->kind == ENGINE_SGLANG
                   ? "start the engine with --enable-metrics"
               : found->kind == ENGINE_LLAMACPP
                   ? "start the engine with --metrics"
                   : "without them a worker's load is what this mesh sent it");
}

static void
say_usage(struct page *page, const struct doctor_found *found)
{
    if (!found->generation.asked) {
        return;
    }
    if (!doctor_is_well(&found->generation)) {
        missing(page, "answers");
        buf_add_text(page->out, "to a prompt of its own: ");
        add_answer(page, &found->generation);
        if (found->generation.status == 401) {
            hint(page, "the worker wants a key: api_key=KEY");
        }
        return;
    }
    if (found->usage.cached_known) {
        good(page, "usage");
        buf_printf(page->out,
                   "%" PRIu32 " of %" PRIu32 " tokens of the same prompt were "
                   "cached\n",
                   found->usage.cached_tokens, found->usage.prompt_tokens);
        return;
    }
    if (found->kind != ENGINE_VLLM && found->kind != ENGINE_SGLANG) {
        without(page, "usage");
        buf_add_text(page->out, "answers do not say how much was cached\n");
        return;
    }
    missing(page, "usage");
    buf_add_text(page->out, "answers do not say how much was cached, so no\n");
    hint(page, "prediction can be compared with what the engine found:");
    hint(page, found->kind == ENGINE_VLLM
                   ? "start it with --enable-prompt-tokens-details"
                   : "start it with --enable-cache-report");
}

/* Engines whose caches can be followed. */
static bool
tells_events(const struct doctor_found *found)
{
    return found->worker->events.host[0] != '\0' ||
           found->worker->sse.host[0] != '\0' || found->kind == ENGINE_VLLM ||
           found->kind == ENGINE_SGLANG || found->kind == ENGINE_TRTLLM;
}

static void
say_tokens(struct page *page, const struct doctor_found *found)
{
    if (!tells_events(found)) {
        return; /* they would be of no use */
    }
    if (found->files != NULL) {
        good(page, "tokens");
        buf_printf(page->out, "made here, by %s\n", found->files);
    } else if (doctor_is_well(&found->renderer)) {
        good(page, "tokens");
        buf_add_text(page->out, "asked of the engine's renderer\n");
        hint(page, "faster: the model's own files in tokens.dir");
    } else if (found->renderer.asked) {
        missing(page, "tokens");
        buf_add_text(page->out,
                     doctor_is_well(&found->tokenizer)
                         ? "asked of /tokenize, which is not exact for chats\n"
                         : "nobody tells those of a prompt\n");
        hint(page, "give the node the model's own files: tokens.dir");
        if (found->kind == ENGINE_VLLM) {
            hint(page, "or start the engine with --enable-scale-out");
        }
    }
}

static void
say_no_events(struct page *page, const struct doctor_found *found)
{
    if (!tells_events(found)) {
        without(page, "events");
        buf_add_text(page->out, "placed by the texts that were sent there\n");
        return;
    }
    missing(page, "events");
    buf_add_text(page->out, "its cache is guessed, as none are configured\n");
    if (found->kind != ENGINE_TRTLLM) {
        hint(page, "start the engine with " EVENTS_CONFIG);
    }
    hint(page, "and name them: --worker http://HOST:PORT," EVENTS_KEYS);
}

static void
say_replay(struct page *page, const struct doctor_found *found)
{
    bool nats = url_is_nats(&found->worker->events);

    if (found->worker->sse.host[0] != '\0') {
        return;
    }
    if (found->events.replied) {
        good(page, "replay");
        buf_add_text(page->out, "what was missed can be asked for\n");
        return;
    }
    missing(page, "replay");
    if (found->worker->replay.host[0] == '\0') {
        buf_add_text(page->out, "a lost event is lost for good\n");
        hint(page, nats ? "a JetStream stream of the subject; worker: "
                          "replay=nats://HOST:4222/STREAM"
                        : "engine: replay_endpoint; worker: "
                          "replay=tcp://HOST:5657");
    } else {
        buf_add_text(page->out, "no answer\n");
        hint(page,
             nats
                 ? "does the stream keep the subject, and do its messages "
                   "have a Nats-Msg-Id?"
                 : "is the port right, and replay_endpoint set in the engine?");
    }
}

static void
say_events(struct page *page, const struct doctor_found *found)
{
    const struct doctor_events *e = &found->events;

    if (found->worker->sse.host[0] != '\0') {
        without(page, "events");
        buf_add_text(page->out, "from a sidecar (sse=), which is not tried\n");
        return;
    }
    if (found->worker->events.host[0] == '\0') {
        say_no_events(page, found);
        return;
    }
    if (e->blocks != 0 && !e->unruled) {
        good(page, "events");
        buf_printf(page->out,
                   "it told of %" PRIu64 " blocks of %" PRIu32 " tokens\n",
                   e->blocks, e->block_tokens);
    } else {
        missing(page, "events");
        if (e->denied[0] != '\0') {
            buf_printf(page->out, "%s\n", e->denied);
        } else if (e->unruled) {
            buf_add_text(page->out,
                         "this model's kind of cache is not known here\n");
            hint(page, "its requests are placed by text");
        } else if (e->state == KV_STREAM_CONNECTING) {
            buf_add_text(page->out, "no connection\n");
            hint(page, url_is_nats(&found->worker->events)
                           ? "is the port right, and events.nats_login?"
                           : "is the port right, and the publisher on?");
        } else if (e->messages == 0) {
            buf_add_text(page->out, "none came, though a prompt was stored\n");
            hint(page, url_is_nats(&found->worker->events)
                           ? "does a publisher (deploy/nats_events.py) run, "
                             "and is the subject right?"
                           : "vllm: enable_kv_cache_events, "
                             "--enable-prefix-caching; topic");
        } else {
            buf_printf(page->out,
                       "%" PRIu64 " messages, %" PRIu64 " events in them said "
                       "nothing\n",
                       e->messages, e->dropped);
            hint(page, "kvasir_events_dropped_total of a running node say why");
        }
    }
    say_replay(page, found);
}

uint32_t
doctor_say(const struct doctor_found *found, struct buf *out)
{
    struct page page = {.out = out};
    char authority[URL_TEXT_MAX];

    const struct config_worker *worker = found->worker;
    bool is_named =
        strcmp(worker->id, url_authority(&worker->url, authority)) != 0;

    buf_printf(out, "%s%s%s%s%s", is_named ? worker->id : "",
               is_named ? "  " : "", url_scheme(&worker->url), authority,
               worker->url.path);
    if (found->kind != ENGINE_OTHER) {
        buf_printf(out, "  %s", engine_kind_name(found->kind));
    }
    buf_add_text(out, "\n");
    say_health(&page, found);
    if (found->models.asked) {
        say_models(&page, found);
        say_metrics(&page, found);
        say_usage(&page, found);
        say_tokens(&page, found);
        say_events(&page, found);
    }
    return page.missing;
}
