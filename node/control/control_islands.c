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
                     const struct control_islands_world *world,
                     struct fleet_board *board, struct speed_slo *slo)
{
    const struct fleet_view *view = fleet_view_get(board);
    uint32_t round_us[WORKERS_MAX] = {0};
    struct island_cost cost[WORKERS_MAX];

    be_at(islands, world->config->name);
    fleet_rounds(world->fleet, round_us);
    bool any = island_costs(world->config, view, round_us, cost);
    any = island_pay(world->config, view, islands->usual_bytes,
                     world->engine_milli, cost) ||
          any;
    island_tell(board, view, world->speed, cost, any);
    WORKER_SET_EACH (slot, &view->present) {
        shorten(&slo[slot], cost[slot].away_us);
    }
}

/* A mean of the last ones, each of which counts for a 32nd. */
static void
note_bytes(struct control_islands *islands, uint64_t bytes)
{
    uint64_t usual = islands->usual_bytes;

    islands->usual_bytes = usual == 0 ? bytes : usual - usual / 32 + bytes / 32;
}

void
control_islands_take(struct control_islands *islands,
                     const struct fleet_worker *worker, uint64_t bytes)
{
    uint32_t at = 0;

    CHECK(islands->count <= CONTROL_ISLANDS_MAX);
    if (islands->from[0] == '\0') {
        return;
    }
    note_bytes(islands, bytes);
    while (at < islands->count &&
           strcmp(islands->island[at].to, worker->island) != 0) {
        at++;
    }
    if (at == CONTROL_ISLANDS_MAX) {
        islands->others++;
        islands->others_bytes += bytes;
        return;
    }
    if (at == islands->count) {
        memcpy(islands->island[at].to, worker->island, CONFIG_LABEL_MAX);
        islands->count++;
    }
    islands->island[at].requests++;
    islands->island[at].bytes += bytes;
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
        json_out_put_milli(json, "link_paid_ms",
                           gauge_read(&board->paid_us[slot]));
        json_out_put_uint(json, "link_tokens",
                          gauge_read(&board->link_tokens[slot]));
    }
}

void
control_islands_put_sums(const struct control_islands *islands,
                         struct json_out *json)
{
    uint64_t all = islands->others;
    uint64_t left = islands->others;

    for (uint32_t i = 0; i < islands->count; i++) {
        const struct control_island *island = &islands->island[i];
        bool stayed = strcmp(island->to, islands->from) == 0;
        all += island->requests;
        left += stayed || island->to[0] == '\0' ? 0 : island->requests;
    }
    json_out_put_uint(json, "island_requests", all);
    json_out_put_uint(json, "island_crossed", left);
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

/* Of each island that requests went to, one of its two counts. */
static void
put_counts(const struct control_islands *islands, const char *name, bool bytes,
           struct buf *out)
{
    uint64_t others = bytes ? islands->others_bytes : islands->others;

    for (uint32_t i = 0; i < islands->count; i++) {
        const struct control_island *island = &islands->island[i];
        put_ends(name, islands->from, island->to, out);
        buf_printf(out, "%" PRIu64 "\n",
                   bytes ? island->bytes : island->requests);
    }
    if (islands->others != 0) {
        put_ends(name, islands->from, "(others)", out);
        buf_printf(out, "%" PRIu64 "\n", others);
    }
}

void
control_islands_put_metrics(const struct control_islands *islands,
                            const struct fleet_board *board, struct buf *out)
{
    static const char requests[] = "kvasir_island_requests_total";
    static const char bytes[] = "kvasir_island_bytes_total";

    if (islands->from[0] == '\0') {
        return;
    }
    prom_out_head(out, requests, "counter",
                  "Requests of this node by the island of the worker that had "
                  "them last; where the ends differ, they crossed");
    put_counts(islands, requests, false, out);
    prom_out_head(out, bytes, "counter",
                  "Bytes of these requests' bodies and of their answers");
    put_counts(islands, bytes, true, out);
    put_links(islands, board, out);
}
