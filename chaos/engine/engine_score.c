/*
 * Texts compared, as vLLM answers it: /rerank (of Jina's and Cohere's clients)
 * and /score. How well a document suits a query is the share of the query's
 * tokens that are in it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "chaos/engine/engine_http_internal.h"
#include "chaos/engine/engine_json_internal.h"

#define DOCUMENTS_MAX 1024

/* A pair of texts. */
struct pair {
    uint32_t index;
    struct slice document; /* raw JSON of its text */
    double score;
};

struct ranking {
    struct engine_server *server;
    struct engine_ids query;
    struct engine_ids document;
    struct pair pairs[DOCUMENTS_MAX];
    uint32_t count;
    uint64_t tokens; /* of all pairs */
};

/* The text of a document: a string, or the member `text` of an object. Raw;
 * empty: it has none. */
static struct slice
text_of(struct slice raw)
{
    struct slice text = raw.len != 0 && raw.ptr[0] == '{'
                            ? engine_json_raw(raw, SLICE("text"))
                            : raw;

    return engine_json_inside(text).ptr != NULL ? text : SLICE("");
}

/* raw: within the body. */
static void
tokenize(struct engine_server *s, struct slice raw, struct engine_ids *ids)
{
    struct slice inside = engine_json_inside(raw);
    struct scan_text text = {
        .at = (uint32_t)(inside.ptr - s->prompt.body.ptr),
        .len = (uint32_t)inside.len,
        .present = true,
        .escaped = memchr(inside.ptr, '\\', inside.len) != NULL,
    };

    ids->count = 0;
    engine_ids_add_text(ids, engine_prompt_text(&s->prompt, text));
}

static bool
holds(const struct engine_ids *ids, uint32_t id)
{
    for (size_t i = 0; i < ids->count; i++) {
        if (ids->ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* One pair more; both texts are raw strings. */
static void
compare(struct ranking *r, struct slice query, struct slice document)
{
    uint32_t found = 0;

    tokenize(r->server, query, &r->query);
    tokenize(r->server, document, &r->document);
    for (size_t i = 0; i < r->query.count; i++) {
        found += holds(&r->document, r->query.ids[i]);
    }
    r->pairs[r->count] = (struct pair){
        .index = r->count,
        .document = document,
        .score = r->query.count > 0 ? found / (double)r->query.count : 0,
    };
    r->count++;
    r->tokens += r->query.count + r->document.count;
}

/* The next of a list, or the one text that stands for each. False: none. */
static bool
next_text(struct slice raw, struct json_pull *items, struct slice *text)
{
    if (raw.len != 0 && raw.ptr[0] == '[' && !engine_json_next(items, &raw)) {
        return false;
    }
    *text = text_of(raw);
    return text->len != 0;
}

/* A query, or as many as documents. Why that is invalid, or NULL. */
static const char *
compare_all(struct ranking *r, struct slice queries, struct slice documents)
{
    struct json_pull left = {.depth = 0};
    struct json_pull right;
    struct slice query;
    struct slice document;
    bool one = text_of(queries).len != 0;

    if (!engine_json_items(&right, documents)) {
        return "the documents must be a list of texts";
    }
    if (!one && !engine_json_items(&left, queries)) {
        return "the query must be a text";
    }
    while (next_text(documents, &right, &document)) {
        if (r->count == DOCUMENTS_MAX) {
            return "too many documents";
        }
        if (!next_text(queries, &left, &query)) {
            return "there must be one query, or as many as documents";
        }
        compare(r, query, document);
    }
    if (right.depth != 0) {
        return "each document must be a text";
    }
    if (!one && next_text(queries, &left, &query)) {
        return "there must be one query, or as many as documents";
    }
    return r->count != 0 ? NULL : "there are no documents";
}

static int
by_score(const void *a, const void *b)
{
    const struct pair *left = a;
    const struct pair *right = b;

    if (left->score != right->score) {
        return left->score > right->score ? -1 : 1;
    }
    return left->index < right->index ? -1 : 1;
}

static void
put_reranked(struct ranking *r, const char *model, uint64_t top)
{
    struct buf *out = &r->server->out;

    qsort(r->pairs, r->count, sizeof(*r->pairs), by_score);
    buf_printf(out,
               "{\"id\":\"rerank-%016" PRIx64
               "\",\"model\":\"%s\",\"usage\":{\"prompt_tokens\":%" PRIu64
               ",\"total_tokens\":%" PRIu64 "},\"results\":[",
               r->server->next_number++, model, r->tokens, r->tokens);
    for (uint32_t i = 0; i < r->count && i < top; i++) {
        const struct pair *pair = &r->pairs[i];
        buf_printf(out,
                   "%s{\"index\":%u,\"document\":{\"text\":", i > 0 ? "," : "",
                   pair->index);
        buf_add_slice(out, pair->document);
        buf_printf(out, "},\"relevance_score\":%.9g}", pair->score);
    }
    buf_add_text(out, "]}");
}

static void
put_scored(struct ranking *r, const char *model)
{
    struct buf *out = &r->server->out;

    buf_printf(out,
               "{\"id\":\"score-%016" PRIx64
               "\",\"object\":\"list\",\"created\":%" PRIu64
               ",\"model\":\"%s\",\"data\":[",
               r->server->next_number++, (uint64_t)time(NULL), model);
    for (uint32_t i = 0; i < r->count; i++) {
        buf_printf(out, "%s{\"index\":%u,\"object\":\"score\",\"score\":%.9g}",
                   i > 0 ? "," : "", i, r->pairs[i].score);
    }
    buf_printf(out,
               "],\"usage\":{\"prompt_tokens\":%" PRIu64
               ",\"total_tokens\":%" PRIu64 "}}",
               r->tokens, r->tokens);
}

/* Both answers; rerank: the first, sorted, and of those the best top. */
static void
answer(struct engine_server *s, struct httpd_request *request, bool rerank)
{
    struct slice body = httpd_body(request);
    struct slice queries =
        engine_json_raw(body, rerank ? SLICE("query") : SLICE("text_1"));
    struct slice documents =
        engine_json_raw(body, rerank ? SLICE("documents") : SLICE("text_2"));
    uint64_t top = 0;
    uint32_t model;

    if (!engine_server_scan(s, request, SCAN_API_OTHER) ||
        !engine_server_find_model(s, request, &model)) {
        return;
    }
    struct ranking *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        httpd_error(request, 500, "internal_error", "out of memory");
        return;
    }
    r->server = s;
    engine_ids_init(&r->query, ENGINE_BODY_BYTES_MAX);
    engine_ids_init(&r->document, ENGINE_BODY_BYTES_MAX);
    const char *why = compare_all(r, queries, documents);
    s->out.failed |= r->query.failed || r->document.failed;
    if (engine_json_uint(body, SLICE("top_n"), UINT32_MAX, &top) != 0 ||
        top == 0) {
        top = DOCUMENTS_MAX;
    }
    if (why != NULL) {
        httpd_error(request, 400, "bad_request", why);
    } else {
        if (rerank) {
            put_reranked(r, s->options->models[model], top);
        } else {
            put_scored(r, s->options->models[model]);
        }
        engine_server_answer(s, request, "application/json");
    }
    engine_ids_fini(&r->query);
    engine_ids_fini(&r->document);
    free(r);
}

void
engine_post_rerank(struct engine_server *s, struct httpd_request *request)
{
    answer(s, request, true);
}

void
engine_post_score(struct engine_server *s, struct httpd_request *request)
{
    answer(s, request, false);
}
