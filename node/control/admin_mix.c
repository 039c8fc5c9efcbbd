/* /admin/mix. */
#include <stdlib.h>
#include <string.h>

#include "node/control/admin.h"
#include "node/keys/keys.h"
#include "node/text/prom_out.h"

_Static_assert(KEYS_NAME_MAX <= MIX_TENANT_MAX, "room for a tenant's name");

/* A row of fewer requests says nothing. */
#define REQUESTS_LEAST 0.5

static uint64_t
milli(double number)
{
    return (uint64_t)(number * 1000 + 0.5);
}

static void
put_name(struct json_out *json, const char *key, const char *name, bool others)
{
    json_out_key(json, key);
    if (others) {
        json_out_null(json);
    } else {
        json_out_text(json, name);
    }
}

/* The newest first; those before the first request are left out. */
static void
put_hours(const struct mix *mix, const struct mix_row *row,
          struct json_out *json)
{
    uint32_t count = MIX_HOURS;

    while (count > 0 && mix_hour(mix, row, count - 1) == 0) {
        count--;
    }
    json_out_key(json, "hours");
    json_out_array_begin(json);
    for (uint32_t i = 0; i < count; i++) {
        json_out_uint(json, mix_hour(mix, row, i));
    }
    json_out_array_end(json);
}

static void
put_lengths(const struct mix_row *row, struct json_out *json)
{
    json_out_key(json, "lengths");
    json_out_array_begin(json);
    for (uint32_t i = 0; i < MIX_CELLS; i++) {
        const struct mix_sum *cell = &row->cell[i];
        if (milli(cell->requests) > 0) {
            json_out_array_begin(json);
            json_out_milli(json, milli(cell->prompt / cell->requests));
            json_out_milli(json, milli(cell->answer / cell->requests));
            json_out_milli(json, milli(cell->requests));
            json_out_array_end(json);
        }
    }
    json_out_array_end(json);
}

/* Of those that came with this budget, the work that they were. */
static void
put_budgets(const struct pool_budgets *budgets, struct json_out *json)
{
    json_out_key(json, "budgets");
    json_out_array_begin(json);
    for (uint32_t i = 0; i < POOL_BUDGETS; i++) {
        if (milli(budgets->requests[i]) > 0) {
            json_out_array_begin(json);
            json_out_uint(json, pool_budget_upto(i));
            json_out_milli(json, milli(budgets->requests[i]));
            json_out_milli(json, milli(budgets->work[i]));
            json_out_array_end(json);
        }
    }
    json_out_array_end(json);
}

static void
put_row(const struct mix *mix, const struct mix_row *row, bool others,
        struct json_out *json)
{
    struct mix_sum sum = mix_sum(row);
    double span_s = mix_span_s(mix);

    json_out_object_begin(json);
    put_name(json, "model", row->model, others);
    put_name(json, "tenant", row->tenant, others);
    json_out_put_milli(json, "requests", milli(row->requests));
    json_out_put_milli(json, "requests_per_s",
                       span_s > 0 ? milli(row->requests / span_s) : 0);
    json_out_put_milli(
        json, "counted_share",
        milli(sum.requests < row->requests ? sum.requests / row->requests : 1));
    json_out_put_milli(json, "cached_share",
                       row->judged > 0 ? milli(row->cached / row->judged) : 0);
    json_out_put_uint(json, "longest", mix_longest(row));
    put_hours(mix, row, json);
    put_lengths(row, json);
    put_budgets(&row->budgets, json);
    json_out_object_end(json);
}

static int
by_name(const void *a, const void *b)
{
    const struct mix_row *const *left = a;
    const struct mix_row *const *right = b;
    int model = strcmp((*left)->model, (*right)->model);

    return model != 0 ? model : strcmp((*left)->tenant, (*right)->tenant);
}

void
admin_put_mix(struct control *control, struct json_out *json)
{
    struct mix *mix = control->mix;
    const struct mix_row *rows[MIX_ROWS_MAX + 1];
    uint32_t count = 0;

    mix_pass(mix, snapshot_wall_ms());
    for (uint32_t i = 0; i < MIX_ROWS_MAX; i++) {
        rows[count] = &mix->row[i];
        count += mix->row[i].used && mix->row[i].requests >= REQUESTS_LEAST;
    }
    qsort(rows, count, sizeof(rows[0]), by_name);
    rows[count] = &mix->row[MIX_ROWS_MAX];
    count += rows[count]->requests >= REQUESTS_LEAST;
    json_out_object_begin(json);
    json_out_put_text(json, "node", control->node->config->name);
    json_out_put_uint(json, "hour", mix->now_ms / MIX_HOUR_MS);
    json_out_put_milli(json, "span_s", milli(mix_span_s(mix)));
    json_out_put_uint(json, "half_life_s", MIX_HALF_MS / 1000);
    json_out_key(json, "rows");
    json_out_array_begin(json);
    for (uint32_t i = 0; i < count; i++) {
        put_row(mix, rows[i], rows[i] == &mix->row[MIX_ROWS_MAX], json);
    }
    json_out_array_end(json);
    json_out_object_end(json);
}

void
admin_put_mix_metrics(const struct control *control, struct buf *out)
{
    prom_out_single(out, "kvasir_mix_other_total", "counter",
                    "Requests of models and tenants that /admin/mix has no row "
                    "of its own for",
                    control->mix->beyond);
}
