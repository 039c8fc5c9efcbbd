/* What the way to each island costs, and how many requests went there. */
#include "node/control/control_islands.h"

#include <inttypes.h>
#include <string.h>

#include "node/text/prom_out.h"

/* Counts are of one island of this node: of another one they begin again. */
static void
be_at(struct control_islands *islands, const char *name)
{
    if (strcmp(islands->from, name) != 0) {
        memset(islands, 0, sizeof(*islands));
        memcpy(islands->from, name, strlen(name) + 1);
    }
}

static void
shorten(struct speed_slo *slo, uint32_t away_us)
{
    if (slo->ttft_us != 0) {
        slo->ttft_us = slo->ttft_us > away_us ? slo->ttft_us - away_us : 1;
    }
}

void
control_islands_look(struct control_islands *islands,
                     const struct config_island *config,
                     const struct fleet *fleet, struct fleet_board *board,
                     const struct speed *speed, struct speed_slo *slo)
{
    const struct fleet_view *view = fleet_view_get(board);
    uint32_t round_us[WORKERS_MAX] = {0};
    struct island_cost cost[WORKERS_MAX];

    be_at(islands, config->name);
    fleet_rounds(fleet, round_us);
    bool any = island_costs(config, view, round_us, cost);
    island_tell(board, view, speed, cost, any);
    WORKER_SET_EACH (slot, &view->present) {
        shorten(&slo[slot], cost[slot].away_us);
    }
}

void
control_islands_take(struct control_islands *islands,
                     const struct fleet_worker *worker)
{
    uint32_t at = 0;

    CHECK(islands->count <= CONTROL_ISLANDS_MAX);
    if (islands->from[0] == '\0') {
        return;
    }
    while (at < islands->count &&
           strcmp(islands->island[at].to, worker->island) != 0) {
        at++;
    }
    if (at == CONTROL_ISLANDS_MAX) {
        islands->others++;
        return;
    }
    if (at == islands->count) {
        memcpy(islands->island[at].to, worker->island, CONFIG_LABEL_MAX);
        islands->count++;
    }
    islands->island[at].requests++;
}

bool
control_islands_crosses(const struct config_island *config, const char *island)
{
    return config->name[0] != '\0' && island[0] != '\0' &&
           strcmp(config->name, island) != 0;
}

void
control_islands_put_worker(const struct fleet_board *board, uint32_t slot,
                           struct json_out *json)
{
    if (gauge_read(&board->linked) != 0) {
        json_out_put_milli(json, "link_ms", gauge_read(&board->link_us[slot]));
        json_out_put_uint(json, "link_tokens",
                          gauge_read(&board->link_tokens[slot]));
    }
}

static void
put_ends(const char *name, const char *from, const char *to, struct buf *out)
{
    buf_printf(out, "%s{from=\"", name);
    prom_out_label(out, from);
    buf_add_text(out, "\",to=\"");
    prom_out_label(out, to);
    buf_add_text(out, "\"} ");
}

/* Whether no earlier worker is of the same island. */
static bool
is_first(const struct fleet_view *view, uint32_t slot)
{
    WORKER_SET_EACH (other, &view->present) {
        if (strcmp(view->worker[other]->island, view->worker[slot]->island) ==
            0) {
            return other == slot;
        }
    }
    return false;
}

static void
put_links(const struct control_islands *islands,
          const struct fleet_board *board, struct buf *out)
{
    static const char name[] = "kvasir_island_link_seconds";
    const struct fleet_view *view = fleet_view_get(board);

    prom_out_head(out, name, "gauge",
                  "What the way from this node's island to another one costs a "
                  "request, by island.links or as measured");
    WORKER_SET_EACH (slot, &view->present) {
        if (view->worker[slot]->island[0] != '\0' && is_first(view, slot)) {
            uint32_t us = gauge_read(&board->link_us[slot]);
            put_ends(name, islands->from, view->worker[slot]->island, out);
            buf_printf(out, "%" PRIu32 ".%06" PRIu32 "\n", us / 1000000,
                       us % 1000000);
        }
    }
}

void
control_islands_put_metrics(const struct control_islands *islands,
                            const struct fleet_board *board, struct buf *out)
{
    static const char name[] = "kvasir_island_requests_total";

    if (islands->from[0] == '\0') {
        return;
    }
    prom_out_head(out, name, "counter",
                  "Requests of this node by the island of the worker that had "
                  "them last; where the ends differ, they crossed");
    for (uint32_t i = 0; i < islands->count; i++) {
        put_ends(name, islands->from, islands->island[i].to, out);
        buf_printf(out, "%" PRIu64 "\n", islands->island[i].requests);
    }
    if (islands->others != 0) {
        put_ends(name, islands->from, "(others)", out);
        buf_printf(out, "%" PRIu64 "\n", islands->others);
    }
    put_links(islands, board, out);
}
