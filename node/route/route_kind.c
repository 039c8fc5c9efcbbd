/*
 * Which requests are forwarded, and which of them have a prompt.
 *
 * What engines offer for their administration (adapters, profiles, caches,
 * sleeping) is in part under /v1/, and grows with each of their releases. So
 * this is a list of what is forwarded, and nothing else is.
 */
#include "node/route/route.h"

#include <string.h>

/* Each changes nothing at the engine but its cache. */
static const struct slice inference_paths[] = {
    {"/v1/chat/completions", 20},
    {"/v1/completions", 15},
    {"/v1/responses", 13},
    {"/v1/embeddings", 14},
    {"/v1/messages", 12},
    {"/v1/messages/count_tokens", 25},
    {"/tokenize", 9},
    {"/v1/tokenize", 12},
    {"/detokenize", 11},
    {"/v1/detokenize", 14},
    {"/v1/rerank", 10},
    {"/v2/rerank", 10},
    {"/rerank", 7},
    {"/v1/score", 9},
    {"/score", 6},
    {"/v1/classify", 12},
    {"/classify", 9},
    {"/v1/pooling", 11},
    {"/pooling", 8},
    {"/v1/moderations", 15},
    {"/v1/decisions", 13},
    {"/v1/audio/transcriptions", 24},
    {"/v1/audio/translations", 22},
    {"/v1/audio/speech", 16},
    {"/v1/images/generations", 22},
    {"/v1/images/edits", 16},
    {"/v1/responses/*", 15}, /* what a client stored, by its id */
};

static bool
is_local(struct slice path)
{
    return slice_equal(path, SLICE("/health")) ||
           slice_equal(path, SLICE("/ready")) ||
           slice_equal(path, SLICE("/v1/models")) ||
           slice_begins(path, SLICE("/v1/models/"));
}

static bool
ends_with(struct slice s, struct slice end)
{
    return s.len >= end.len &&
           slice_equal_nocase((struct slice){s.ptr + s.len - end.len, end.len},
                              end);
}

/* An engine may read JSON whatever its type is said to be (llama.cpp), or of any
 * such type (FastAPI): where only JSON makes sense, all but forms is taken for it. */
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
    if (route_api(head) != SCAN_API_OTHER) {
        return !slice_equal_nocase(media, SLICE("multipart/form-data"));
    }
    /* The last is what curl -d sends with every body. */
    return slice_equal_nocase(media, SLICE("application/json")) ||
           ends_with(media, SLICE("+json")) ||
           slice_equal_nocase(media,
                              SLICE("application/x-www-form-urlencoded"));
}

/* A dot segment, an escape or an empty segment could mean another path to the
 * engine than it does here; no path of inference needs one. */
static bool
climbs(struct slice path)
{
    return path.ptr == NULL || memmem(path.ptr, path.len, "/.", 2) != NULL ||
           memmem(path.ptr, path.len, "//", 2) != NULL ||
           memchr(path.ptr, '%', path.len) != NULL;
}

/* rule: a path, or with a * at its end all that begin so. */
static bool
matches(struct slice path, struct slice rule)
{
    if (rule.len == 0 || rule.ptr[rule.len - 1] != '*') {
        return slice_equal(path, rule);
    }
    rule.len--;
    return path.len > rule.len && slice_begins(path, rule) && !climbs(path);
}

static bool
is_forwarded(struct slice path, struct slice more)
{
    size_t count = sizeof(inference_paths) / sizeof(*inference_paths);

    for (size_t i = 0; i < count; i++) {
        if (matches(path, inference_paths[i])) {
            return true;
        }
    }
    while (more.len != 0) {
        if (matches(path, slice_take(&more, ' '))) {
            return true;
        }
    }
    return false;
}

static bool
says(struct slice text, struct slice word)
{
    return memmem(text.ptr, text.len, word.ptr, word.len) != NULL;
}

/* vLLM's /pause leaves the cache alone when it is told to. */
static bool
keeps_cache(const struct http_head *head)
{
    return slice_equal(head->path, SLICE("/pause")) &&
           (says(head->target, SLICE("mode=keep")) ||
            says(head->target, SLICE("clear_cache=false")) ||
            says(head->target, SLICE("clear_cache=False")) ||
            says(head->target, SLICE("clear_cache=0")));
}

bool
route_clears_cache(const struct http_head *head)
{
    static const struct slice paths[] = {
        {"/reset_prefix_cache", 19},
        {"/sleep", 6},
        {"/pause", 6},
        {"/flush_cache", 12},
        {"/release_memory_occupation", 26},
        {"/release_kv_cache_memory", 24},
        {"/update_weights_from_*", 22}, /* SGLang's, unless told not to */
    };

    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        if (matches(head->path, paths[i])) {
            return (head->method_id == HTTP_POST ||
                    head->method_id == HTTP_GET) &&
                   !keeps_cache(head);
        }
    }
    return false;
}

enum route_kind
route_kind_of(const struct http_head *head, const char *more)
{
    if (is_local(head->path)) {
        return ROUTE_LOCAL;
    }
    if (!is_forwarded(head->path, slice_of(more))) {
        return ROUTE_UNKNOWN;
    }
    return head->method_id == HTTP_POST && head->body != HTTP_BODY_NONE &&
                   is_json(head)
               ? ROUTE_PROMPT
               : ROUTE_PLAIN;
}
