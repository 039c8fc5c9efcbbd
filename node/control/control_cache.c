/* The cache of answers, as operators see it. */
#include "node/control/control_cache.h"

#include <stdio.h>

#include "node/answers/answers.h"
#include "node/answers/answers_rule.h"
#include "node/base/log.h"
#include "node/control/admin_access.h"
#include "node/text/json_pull.h"
#include "node/text/prom_out.h"

void
control_cache_put(struct control *control, struct json_out *json)
{
    const struct node_shared *node = control->node;
    struct answers_stats stats;
    uint64_t hits = 0;
    uint64_t misses = 0;

    if (node->answers == NULL) {
        return;
    }
    for (uint32_t i = 0; i < node->lanes_count; i++) {
        const struct metrics_lane *m = &node->lanes[i].metrics;
        hits += counter_read(&m->answer_cache_hits);
        misses += counter_read(&m->answer_cache_misses);
    }
    answers_stats(node->answers, &stats);
    json_out_key(json, "answer_cache");
    json_out_object_begin(json);
    json_out_put_uint(json, "answers", stats.entries);
    json_out_put_uint(json, "bytes", stats.bytes);
    json_out_put_uint(json, "bytes_max", node->config->answer_cache.bytes_max);
    json_out_put_uint(json, "flights", stats.flights);
    json_out_put_uint(json, "hits", hits);
    json_out_put_uint(json, "misses", misses);
    json_out_put_uint(json, "evicted", stats.evicted);
    json_out_object_end(json);
}

void
control_cache_explain(struct control *control, struct slice body,
                      struct json_out *json)
{
    const struct node_shared *node = control->node;
    const struct node_live *live = publish_get(&node->live);
    struct key_wide name;

    if (node->answers == NULL) {
        return;
    }
    enum answers_pass pass = answers_judge(&control->explain.scan, body,
                                           live->answer_cache.seeded != 0,
                                           answers_seed(node->answers), &name);
    json_out_key(json, "answer_cache");
    json_out_object_begin(json);
    json_out_put_bool(json, "may", pass == ANSWERS_MAY);
    json_out_put_text(json, "why_not", answers_pass_name(pass));
    json_out_object_end(json);
}

#define AT(member) offsetof(struct answers_stats, member)
static const struct prom_row rows[] = {
    PROM_ONE("stored", AT(stored), "Answers that were kept"),
    PROM_FAMILY("removed", "reason", "Answers that were kept and are no more"),
    PROM_OF("evicted", AT(evicted), "they gave way to others"),
    PROM_OF("expired", AT(expired), "they were too old when asked for"),
    PROM_OF("cleared", AT(cleared), "they were cleared, or asked for anew"),
    PROM_ONE("refused", AT(refused), "Answers for which there was no memory"),
};
#undef AT

void
control_cache_put_metrics(const struct node_shared *node, struct buf *out)
{
    struct answers_stats s;

    if (node->answers == NULL) {
        return;
    }
    answers_stats(node->answers, &s);
    prom_out_single(out, "kvasir_answer_cache_bytes", "gauge",
                    "Memory of the answers that are kept", s.bytes);
    prom_out_single(out, "kvasir_answer_cache_answers", "gauge",
                    "Answers that are kept", s.entries);
    prom_out_single(out, "kvasir_answer_cache_flights", "gauge",
                    "Requests whose answer will be kept, if it is a good one",
                    s.flights);
    prom_out_rows(out, "kvasir_answer_cache", rows, sizeof rows / sizeof *rows,
                  &s);
}

/* {"tenant":NAME,"model":NAME}, both or either; or nothing. */
static bool
read_which(struct slice body, struct answers_which *which)
{
    struct json_pull pull;
    enum pull_token token;
    char name[CONFIG_MODEL_NAME_MAX];

    if (body.len == 0) {
        return true;
    }
    json_pull_init(&pull, body);
    if (json_pull_next(&pull) != PULL_OBJECT) {
        return false;
    }
    while ((token = json_pull_next(&pull)) == PULL_KEY) {
        bool tenant = json_pull_is(&pull, SLICE("tenant"));
        bool model = json_pull_is(&pull, SLICE("model"));
        if (tenant == model || json_pull_next(&pull) != PULL_STRING ||
            json_pull_copy(&pull, name, sizeof(name)) < 0) {
            return false;
        }
        uint64_t hash = key_digest(slice_of(name));
        which->tenants = which->tenants || tenant;
        which->models = which->models || model;
        *(tenant ? &which->tenant : &which->model) = hash;
    }
    return token == PULL_OBJECT_END && json_pull_next(&pull) == PULL_END;
}

void
control_cache_clear(struct control *control, struct httpd_request *request)
{
    struct answers *cache = control->node->answers;
    struct answers_which which = {.tenants = false};
    char text[64];

    if (cache == NULL) {
        httpd_error(request, 404, "no_answer_cache",
                    "this node keeps no answers: answer_cache.bytes_max is 0");
        return;
    }
    if (!read_which(httpd_body(request), &which)) {
        httpd_error(request, 400, "bad_request",
                    "expected nothing, or {\"tenant\": NAME, \"model\": NAME} "
                    "with both or either");
        return;
    }
    admin_access_log(&control->access, request, SLICE(""), NULL);
    uint32_t cleared = answers_clear(cache, &which);
    uint32_t told = hints_tell_clear(&control->hints, &control->clears, &which,
                                     control_now_us(control));
    (void)snprintf(text, sizeof(text), "{\"cleared\":%u,\"peers_told\":%u}\n",
                   (unsigned)cleared, (unsigned)told);
    httpd_answer(request, 200, "application/json", SLICE(""), slice_of(text));
}

void
control_cache_hear(struct control *control)
{
    struct hints_clears_heard heard;

    while (hints_hear_clear(&control->hints, &control->clears, &heard)) {
        const char *by =
            cluster_peer_name(control_cluster(control), heard.peer);
        uint32_t cleared = answers_clear(control->node->answers, &heard.which);
        LOG_INFO("answers_cleared", KV("by", by != NULL ? by : ""),
                 KV("answers", cleared));
    }
}
