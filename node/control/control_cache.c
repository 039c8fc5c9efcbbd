/* The cache of answers, as operators see it. */
#include "node/control/control_cache.h"

#include "node/answers/answers.h"
#include "node/answers/answers_rule.h"
#include "node/text/prom_out.h"

/* Of the connection of each lane: how many there are and are open. */
static uint64_t
count_open(const struct node_shared *node)
{
    uint64_t open = 0;

    for (uint32_t i = 0; i < node->lanes_count; i++) {
        open += gauge_read(&node->lanes[i].redis_open) != 0;
    }
    return open;
}

static void
put_redis(const struct node_shared *node, struct json_out *json)
{
    uint64_t hits = 0;

    if (node->redis == NULL) {
        return;
    }
    for (uint32_t i = 0; i < node->lanes_count; i++) {
        hits += counter_read(&node->lanes[i].metrics.answer_cache_shared_hits);
    }
    json_out_key(json, "redis");
    json_out_object_begin(json);
    json_out_put_text(json, "url", node->config->answer_cache.redis);
    json_out_put_uint(json, "connections", node->lanes_count);
    json_out_put_uint(json, "open", count_open(node));
    json_out_put_uint(json, "hits", hits);
    json_out_object_end(json);
}

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
    put_redis(node, json);
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
    if (node->redis != NULL) {
        prom_out_single(out, "kvasir_answer_cache_shared_connections", "gauge",
                        "Lanes whose connection to answer_cache.redis is open",
                        count_open(node));
    }
    prom_out_rows(out, "kvasir_answer_cache", rows, sizeof rows / sizeof *rows,
                  &s);
}
