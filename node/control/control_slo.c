/* How the answers keep the SLO. */
#include "node/control/control_slo.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "node/text/prom_out.h"

/* The mean time between two tokens; 0: the answer has no two, or how many is not
 * known. */
static uint64_t
step_us(const struct fact_decision *fact)
{
    return fact->completion_tokens > 1 &&
                   fact->duration_us > fact->first_token_us
               ? (fact->duration_us - fact->first_token_us) /
                     (fact->completion_tokens - 1)
               : 0;
}

static struct speed_slo
slo_of(const struct config_slo *config, struct slice model)
{
    uint32_t ttft_ms = config->ttft_ms;
    uint32_t itl_ms = config->itl_ms;

    CHECK(config->models.count <= CONFIG_MODELS_MAX);
    for (uint32_t i = 0; i < config->models.count; i++) {
        const struct config_slo_model *own = &config->models.model[i];
        if (slice_equal(model, slice_of(own->name))) {
            ttft_ms = own->ttft_ms;
            itl_ms = own->itl_ms;
        }
    }
    return (struct speed_slo){.ttft_us = ttft_ms * UINT64_C(1000),
                              .itl_us = itl_ms * UINT64_C(1000)};
}

static uint64_t
stricter(uint64_t a, uint64_t b)
{
    return b == 0 || (a != 0 && a < b) ? a : b;
}

void
control_slo_list(const struct config_slo *config, const struct fleet_view *view,
                 struct speed_slo *slo)
{
    struct worker_set left = view->present; /* that list no model */

    memset(slo, 0, WORKERS_MAX * sizeof(*slo));
    for (size_t i = 0; i < view->models->count; i++) {
        const struct fleet_model *model = &view->models->model[i];
        struct speed_slo own = slo_of(config, model->name);
        if (model->adapter && own.ttft_us == 0 && own.itl_us == 0) {
            continue;
        }
        WORKER_SET_EACH (slot, &model->workers) {
            slo[slot].ttft_us = stricter(slo[slot].ttft_us, own.ttft_us);
            slo[slot].itl_us = stricter(slo[slot].itl_us, own.itl_us);
        }
        left = worker_set_minus(&left, &model->workers);
    }
    WORKER_SET_EACH (slot, &left) {
        slo[slot] = slo_of(config, SLICE(""));
    }
}

#define REST "other"

static struct control_slo_model *
row_of(struct control_slo *counts, const char *model)
{
    struct control_slo_model *rest = &counts->model[CONTROL_SLO_MODELS];

    for (uint32_t i = 0; i < counts->count; i++) {
        if (strcmp(counts->model[i].name, model) == 0) {
            return &counts->model[i];
        }
    }
    if (counts->count == CONTROL_SLO_MODELS || strcmp(model, REST) == 0) {
        return rest; /* one row of that name */
    }
    struct control_slo_model *row = &counts->model[counts->count++];
    (void)snprintf(row->name, sizeof row->name, "%s", model);
    return row;
}

/* The rows of all that had streams, then that of the rest; NULL: no more. */
static const struct control_slo_model *
row_at(const struct control_slo *counts, uint32_t at)
{
    return at < counts->count    ? &counts->model[at]
           : at == counts->count ? &counts->model[CONTROL_SLO_MODELS]
                                 : NULL;
}

static const char *
name_of(const struct control_slo *counts, const struct control_slo_model *row)
{
    return row == &counts->model[CONTROL_SLO_MODELS] ? REST : row->name;
}

enum control_slo_kept
control_slo_take(struct control_slo *counts, const struct config_slo *config,
                 const struct fact_decision *fact)
{
    struct speed_slo slo = slo_of(config, slice_of(fact->model));
    bool first = slo.ttft_us != 0 && fact->first_token_us > slo.ttft_us;
    bool steps = slo.itl_us != 0 && step_us(fact) > slo.itl_us;

    if (!fact->stream || fact->status != 200 || fact->first_token_us == 0 ||
        fact->cancelled || fact->severed) {
        return CONTROL_SLO_NOT_JUDGED;
    }
    struct control_slo_model *row = row_of(counts, fact->model);
    histogram_add(&row->ttft, fact->first_token_us);
    if (fact->completion_tokens > 1) {
        histogram_add(&row->itl, step_us(fact));
    }
    if (slo.ttft_us == 0 && slo.itl_us == 0) {
        return CONTROL_SLO_NOT_JUDGED;
    }
    row->streams[first && steps ? CONTROL_SLO_BOTH_MISSED
                 : first        ? CONTROL_SLO_TTFT_MISSED
                 : steps        ? CONTROL_SLO_ITL_MISSED
                                : CONTROL_SLO_MET]++;
    return slo.ttft_us == 0 ? CONTROL_SLO_NOT_JUDGED
           : first          ? CONTROL_SLO_LATE
                            : CONTROL_SLO_IN_TIME;
}

static void
put_bound(struct json_out *json, const char *name, uint32_t bound)
{
    json_out_key(json, name);
    if (bound == SPEED_ANY) {
        json_out_null(json);
    } else {
        json_out_uint(json, bound);
    }
}

void
control_slo_put_worker(const struct fleet_board *board, uint32_t slot,
                       struct json_out *json)
{
    if (gauge_read(&board->slo) != 0) {
        put_bound(json, "slo_tokens", gauge_read(&board->slo_tokens[slot]));
        put_bound(json, "slo_requests", gauge_read(&board->slo_requests[slot]));
    }
}

static void
put_label(const char *model, struct buf *out)
{
    buf_add_text(out, "model=\"");
    prom_out_label(out, model);
    buf_add(out, "\"", 1);
}

static void
put_streams(const struct control_slo *counts, struct buf *out)
{
    static const char name[] = "kvasir_slo_streams_total";
    static const char *const outcomes[CONTROL_SLO_OUTCOMES] = {
        [CONTROL_SLO_MET] = "met",
        [CONTROL_SLO_TTFT_MISSED] = "ttft_missed",
        [CONTROL_SLO_ITL_MISSED] = "itl_missed",
        [CONTROL_SLO_BOTH_MISSED] = "both_missed",
    };
    const struct control_slo_model *row;

    prom_out_head(out, name, "counter",
                  "Whole streams of models with an SLO, by what they kept: "
                  "met, ttft_missed (they began after slo.ttft), itl_missed "
                  "(tokens further apart than slo.itl), both_missed");
    for (uint32_t i = 0; (row = row_at(counts, i)) != NULL; i++) {
        for (unsigned o = 0; o < CONTROL_SLO_OUTCOMES; o++) {
            buf_printf(out, "%s{", name);
            put_label(name_of(counts, row), out);
            buf_printf(out, ",outcome=\"%s\"} %" PRIu64 "\n", outcomes[o],
                       row->streams[o]);
        }
    }
}

/* Of models that have it. */
static void
put_times(const struct control_slo *counts, size_t member, const char *name,
          const char *help, struct buf *out)
{
    const struct control_slo_model *row;

    prom_out_head(out, name, "histogram", help);
    for (uint32_t i = 0; (row = row_at(counts, i)) != NULL; i++) {
        const struct histogram *h =
            (const struct histogram *)(const void *)((const char *)row +
                                                     member);
        char text[2 * FACT_MODEL_MAX + 16];
        struct buf label = buf_over(text, sizeof text - 1);
        if (histogram_count(h) != 0) {
            put_label(name_of(counts, row), &label);
            CHECK(!label.failed);
            text[label.len] = '\0';
            histogram_print_series(h, name, text, out);
        }
    }
}

void
control_slo_put_metrics(const struct control_slo *counts, struct buf *out)
{
    put_streams(counts, out);
    put_times(counts, offsetof(struct control_slo_model, ttft),
              "kvasir_model_time_to_first_token_seconds",
              "Request whole to the first bytes of a whole stream's body, by "
              "model; the models after the first 16 are `other`",
              out);
    put_times(counts, offsetof(struct control_slo_model, itl),
              "kvasir_model_inter_token_latency_seconds",
              "Between two tokens of a whole stream, its mean, by model, "
              "likewise",
              out);
}
