/* The cache of answers, as operators see it. */
#include "node/control/control_cache.h"

#include "node/answers/answers.h"
#include "node/answers/answers_rule.h"
#include "node/content/content.h"
#include "node/redis/redis_refusal.h"
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

#define AT(member) offsetof(struct metrics_lane, answer_cache_shared_##member)
static const size_t refused_at[REDIS_REFUSALS] = {
    [REDIS_FULL] = AT(full),           [REDIS_READ_ONLY] = AT(read_only),
    [REDIS_PASSWORD] = AT(password),   [REDIS_RIGHTS] = AT(rights),
    [REDIS_OTHER] = AT(refused_other),
};

/* A counter of all lanes, by its offset in their metrics. */
static uint64_t
sum_of(const struct node_shared *node, size_t at)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < node->lanes_count; i++) {
        const char *metrics = (const char *)&node->lanes[i].metrics;
        sum +=
            counter_read((const struct counter *)(const void *)(metrics + at));
    }
    return sum;
}

/* Answers that it refused, by why. */
static void
put_refused(const struct node_shared *node, struct json_out *json)
{
    json_out_key(json, "refused");
    json_out_object_begin(json);
    for (int i = 0; i < REDIS_REFUSALS; i++) {
        json_out_put_uint(json, redis_refusal_name((enum redis_refusal)i),
                          sum_of(node, refused_at[i]));
    }
    json_out_object_end(json);
}

static void
put_redis(const struct node_shared *node, struct json_out *json)
{
    if (node->redis == NULL) {
        return;
    }
    json_out_key(json, "redis");
    json_out_object_begin(json);
    json_out_put_text(json, "url", node->config->answer_cache.redis);
    json_out_put_uint(json, "connections", node->lanes_count);
    json_out_put_uint(json, "open", count_open(node));
    json_out_put_uint(json, "hits", sum_of(node, AT(hits)));
    json_out_put_uint(json, "sent", sum_of(node, AT(sent)));
    put_refused(node, json);
    json_out_object_end(json);
}
#undef AT

/* Whether a request that is none of this node's memory would ask Redis. What
 * Redis has of it is not known here without waiting, and its name depends on
 * fields of the request's head, too. */
static void
explain_redis(const struct node_shared *node, enum answers_pass pass,
              struct json_out *json)
{
    uint64_t open = count_open(node);

    if (node->redis == NULL) {
        return;
    }
    json_out_key(json, "redis");
    json_out_object_begin(json);
    json_out_put_bool(json, "asks", pass == ANSWERS_MAY && open != 0);
    json_out_put_text(json, "why_not",
                      pass != ANSWERS_MAY ? answers_pass_name(pass)
                      : open == 0         ? "away"
                                          : "");
    json_out_put_uint(json, "connections", node->lanes_count);
    json_out_put_uint(json, "open", open);
    json_out_put_text(json, "holds", "unknown: explain does not ask it");
    json_out_object_end(json);
}

static bool
is_semantic(const struct node_shared *node)
{
    return node->config->answer_cache.semantic_model[0] != '\0';
}

static void
put_semantic(const struct node_shared *node, const struct answers_stats *stats,
             struct json_out *json)
{
    const struct answers_asked *asked = answers_asked(node->answers);

    if (!is_semantic(node)) {
        return;
    }
    json_out_key(json, "semantic");
    json_out_object_begin(json);
    json_out_put_text(json, "model", node->config->answer_cache.semantic_model);
    json_out_put_uint(json, "vectors", stats->vectors);
    json_out_put_uint(json, "bytes", stats->vector_bytes);
    json_out_put_uint(json, "hits", counter_read(&asked->alike));
    json_out_put_uint(json, "guarded", counter_read(&asked->guarded));
    json_out_put_uint(json, "misses", counter_read(&asked->unlike));
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
    put_semantic(node, &stats, json);
    json_out_object_end(json);
}

/* As resembling_read() does. */
static enum answers_unlike
judge_semantic(const struct control *control, const char *residency,
               struct slice body)
{
    const struct keys_isolation *isolation = control->explain.isolation;
    const struct named *named = &control->alias.named;
    char room[ANSWERS_QUESTION_MAX];
    struct slice raw;

    if (!keys_may_embed(isolation, residency)) {
        return ANSWERS_UNLIKE_TENANT;
    }
    if (named->judged && named->verdict.semantic_permille > 1000) {
        return ANSWERS_UNLIKE_RULE;
    }
    enum answers_unlike unlike =
        answers_judge_question(&control->explain.scan, body, &raw);
    if (unlike != ANSWERS_UNLIKE_MAY) {
        return unlike;
    }
    struct slice text = {room, scan_unescape(raw.ptr, raw.len, room)};
    return content_language_of(text) == CONTENT_EN ? ANSWERS_UNLIKE_MAY
                                                   : ANSWERS_UNLIKE_LANGUAGE;
}

/* Whether the request may get the answer to a question like its own. */
static void
explain_semantic(const struct control *control, const char *residency,
                 struct slice body, struct json_out *json)
{
    enum answers_unlike unlike = judge_semantic(control, residency, body);

    json_out_key(json, "semantic");
    json_out_object_begin(json);
    json_out_put_bool(json, "may", unlike == ANSWERS_UNLIKE_MAY);
    json_out_put_text(json, "why_not", answers_unlike_name(unlike));
    json_out_object_end(json);
}

void
control_cache_explain(struct control *control, const char *residency,
                      struct slice body, struct json_out *json)
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
    explain_redis(node, pass, json);
    if (is_semantic(node) && pass == ANSWERS_MAY) {
        explain_semantic(control, residency, body, json);
    }
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

/* With answer_cache.semantic_model. */
struct semantic {
    uint64_t alike, guarded, unlike, late, failed, away;
};

#define AT(member) offsetof(struct semantic, member)
static const struct prom_row semantic_rows[] = {
    PROM_FAMILY("semantic", "result",
                "Requests that might get the answer to a question like theirs"),
    PROM_OF("hit", AT(alike), "they did"),
    PROM_OF("guarded", AT(guarded),
            "there was one near enough with other numbers, names or the like"),
    PROM_OF("miss", AT(unlike), "no question was near enough"),
    PROM_OF("late", AT(late), "their vector did not come in time"),
    PROM_OF("failed", AT(failed), "an engine did not tell their vector"),
    PROM_OF("away", AT(away),
            "no engine was asked: none serves the model, or too many calls "
            "were open or had failed"),
};
#undef AT

static void
put_semantic_metrics(const struct node_shared *node,
                     const struct answers_stats *stats, struct buf *out)
{
    const struct answers_asked *asked = answers_asked(node->answers);
    struct semantic now = {
        .alike = counter_read(&asked->alike),
        .guarded = counter_read(&asked->guarded),
        .unlike = counter_read(&asked->unlike),
        .late = counter_read(&asked->late),
        .failed = counter_read(&asked->failed),
        .away = counter_read(&asked->away),
    };

    prom_out_single(out, "kvasir_answer_cache_vectors", "gauge",
                    "Questions whose answers are found by their vectors",
                    stats->vectors);
    prom_out_single(out, "kvasir_answer_cache_vector_bytes", "gauge",
                    "Memory of the vectors of questions", stats->vector_bytes);
    prom_out_rows(out, "kvasir_answer_cache", semantic_rows,
                  sizeof semantic_rows / sizeof *semantic_rows, &now);
}

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
    if (is_semantic(node)) {
        put_semantic_metrics(node, &s, out);
    }
}
