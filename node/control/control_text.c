/* What is known by model, between requests, peers and lanes. */
#include "node/control/control_text.h"

#include <inttypes.h>

#include "node/base/log.h"
#include "node/peers/hints_text.h"
#include "node/text/prom_out.h"

void
control_text_pass(struct text_models *models, struct hints *hints,
                  const struct fleet_view *view, struct text_board *board,
                  uint64_t now_us)
{
    for (size_t i = 0; i < view->models->count; i++) {
        (void)text_models_row(models, view->models->model[i].name);
    }
    hints_share_text(hints, &models->any, now_us);
    for (uint32_t i = 0; i < models->count; i++) {
        hints_share_text(hints, &models->model[i], now_us);
    }
    text_models_publish(models, board);
}

/* As node/route/route_pools.h has it, of all that are there, well or not: the
 * longest are the long ones. Ranks are engines. */
static struct pool_engines
engines_of(const struct fleet_view *view, const struct text_model *row)
{
    struct worker_set set = fleet_view_find_model(view, slice_of(row->name));
    struct pool_engines engines = {.shorter = 0};
    uint32_t longest = 0;

    WORKER_SET_EACH (slot, &set) { /* 0, not told, is the longest */
        uint32_t len = view->max_len[slot] - 1;
        longest = len > longest ? len : longest;
    }
    WORKER_SET_EACH (slot, &set) {
        uint32_t len = view->max_len[slot];
        uint32_t ranks = view->worker[slot]->ranks;
        if (len - 1 == longest) {
            engines.longer += ranks;
        } else {
            engines.shorter += ranks;
            engines.short_len =
                len > engines.short_len ? len : engines.short_len;
        }
    }
    return engines;
}

static void
judge(struct text_model *row, const struct mix *mix,
      const struct fleet_view *view, uint64_t now_us)
{
    struct pool_engines engines = engines_of(view, row);

    if (engines.shorter == 0) {
        row->pool = (struct pool_told){.threshold = 0};
    } else if (row->pool.threshold == 0 ||
               now_us - row->pool_judged_us >= CONTROL_POOLS_US) {
        struct pool_budgets budgets = mix_budgets(mix, slice_of(row->name));
        row->pool = pool_tune_judge(&budgets, &engines, &row->pool);
        row->pool_judged_us = now_us;
    }
}

void
control_text_tune(struct text_models *models, bool on, const struct mix *mix,
                  struct hints *hints, const struct fleet_view *view,
                  uint64_t now_us)
{
    for (uint32_t i = 0; i < models->count; i++) {
        struct text_model *row = &models->model[i];
        uint32_t before = row->pool_threshold;
        if (on) {
            judge(row, mix, view, now_us);
        } else {
            row->pool = (struct pool_told){.threshold = 0};
        }
        hints_share_pool(hints, row, now_us);
        row->pool_threshold = on ? row->pool_threshold : 0;
        if (row->pool_threshold != before) {
            LOG_INFO("pool_threshold", KV("model", row->name),
                     KV("tokens", row->pool_threshold), KV("before", before),
                     KV("here", row->pool.threshold));
        }
    }
}

/* Of a model, the kinds of which something is known; of all together all. */
static void
put_row(const struct text_model *row, bool whole, struct buf *out)
{
    for (unsigned kind = 0; kind < TEXT_KINDS; kind++) {
        uint32_t milli = text_ratio_milli(&row->all, (enum text_kind)kind);
        if (!whole && row->all.of[kind].left <= 0) {
            continue;
        }
        buf_add_text(out, "kvasir_text_bytes_per_token{model=\"");
        prom_out_label(out, row->name);
        buf_printf(out, "\",kind=\"%s\"} %" PRIu32 ".%03" PRIu32 "\n",
                   text_kind_name((enum text_kind)kind), milli / 1000,
                   milli % 1000);
    }
}

void
control_text_put_metrics(const struct text_models *models, struct buf *out)
{
    prom_out_head(
        out, "kvasir_text_bytes_per_token", "gauge",
        "Bytes of a prompt's text that are taken for a token, by model (empty: "
        "of others) and kind of text: learned from usage, 4 at first");
    put_row(&models->any, true, out);
    for (uint32_t i = 0; i < models->count; i++) {
        put_row(&models->model[i], false, out);
    }
    prom_out_head(out, "kvasir_pool_threshold_tokens", "gauge",
                  "Threshold between a model's pools, where policy.pool_tune "
                  "has found one");
    for (uint32_t i = 0; i < models->count; i++) {
        const struct text_model *row = &models->model[i];
        if (row->pool_threshold != 0) {
            buf_add_text(out, "kvasir_pool_threshold_tokens{model=\"");
            prom_out_label(out, row->name);
            buf_printf(out, "\"} %" PRIu32 "\n", row->pool_threshold);
        }
    }
}
