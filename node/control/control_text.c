/* Bytes of a token, between requests, peers and lanes. */
#include "node/control/control_text.h"

#include <inttypes.h>

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
}
