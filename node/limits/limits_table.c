/* The limits of a node. */
#include "node/limits/limits_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"

#define NONE UINT32_MAX

struct limits_table {
    uint32_t count;
    uint64_t seed;
    struct limits_rule rule[LIMITS_RULES_MAX];
    struct limits_gate gate[LIMITS_RULES_MAX];
    struct limits_meter meter[LIMITS_RULES_MAX];
};

/* The gates of a tenant's requests for one model, or all. */
struct row {
    uint32_t tenant;
    uint32_t len;
    bool begins; /* all that begin so */
    char model[LIMITS_NAME_MAX];
    struct limits_gate *gate[LIMITS_OFS];
};

struct limits_view {
    struct qsbr_node retired; /* first */
    uint32_t count;
    uint32_t first[LIMITS_EVERYBODY + 2]; /* rows of a tenant: up to the next
                                             one's first */
    struct row row[];
};

int
limits_table_new(struct limits_table **out, uint64_t seed)
{
    *out = calloc(1, sizeof(**out)); /* what is not used is not touched */
    if (*out != NULL) {
        (*out)->seed = seed;
    }
    return *out != NULL ? 0 : -ENOMEM;
}

void
limits_table_free(struct limits_table *table)
{
    free(table);
}

/* Rules */

static uint64_t
mix_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++) {
        hash = rng_mix(hash ^ (unsigned char)*text);
    }
    return rng_mix(hash ^ UINT64_C(0x100)); /* no byte */
}

static uint64_t
identity_of(const struct limits_want *want)
{
    uint64_t hash = UINT64_C(0x6c696d6974730000) | want->of;

    return mix_text(mix_text(hash, want->name), want->model);
}

static uint32_t
find(const struct limits_table *table, const struct limits_want *want)
{
    for (uint32_t i = 0; i < table->count; i++) {
        const struct limits_rule *rule = &table->rule[i];
        if (rule->tenant == want->tenant && rule->of == want->of &&
            strcmp(rule->model, want->model) == 0) {
            return i;
        }
    }
    return NONE;
}

static void
put_in_force(struct limits_table *table, uint32_t at,
             const struct limits_rate *rate)
{
    struct limits_rule *rule = &table->rule[at];

    if (rate->amount == 0 && rule->rate.amount != 0) {
        rule->base = limits_meter_tell(&table->meter[at]).spent;
        /* Nobody looks at it any more, and some may wait for it. */
        counter_set(&table->gate[at].open, UINT64_MAX);
        counter_set(&table->gate[at].most, UINT64_MAX);
    }
    rule->rate = *rate;
    limits_meter_set(
        &table->meter[at], rate->amount,
        rate->amount != 0 ? rate->window_ms : table->meter[at].window_ms);
}

void
limits_table_take(struct limits_table *table, const struct limits_want *want,
                  uint32_t count, uint64_t now_us)
{
    const struct limits_rate none = {.amount = 0};
    bool wanted[LIMITS_RULES_MAX] = {false};

    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = find(table, &want[i]);
        if (at == NONE) {
            CHECK(table->count < LIMITS_RULES_MAX);
            at = table->count++;
            struct limits_rule *rule = &table->rule[at];
            *rule = (struct limits_rule){.identity = identity_of(&want[i]),
                                         .tenant = want[i].tenant,
                                         .of = want[i].of};
            memcpy(rule->model, want[i].model, strlen(want[i].model) + 1);
            limits_meter_init(&table->meter[at], 0, want[i].rate.window_ms,
                              now_us, table->seed ^ rule->identity);
        }
        wanted[at] = true;
        put_in_force(table, at, &want[i].rate);
    }
    for (uint32_t at = 0; at < table->count; at++) {
        if (!wanted[at]) {
            put_in_force(table, at, &none);
        }
    }
}

uint32_t
limits_table_count(const struct limits_table *table)
{
    return table->count;
}

const struct limits_rule *
limits_table_rule(const struct limits_table *table, uint32_t at)
{
    CHECK(at < table->count);
    return &table->rule[at];
}

struct limits_gate *
limits_table_gate(struct limits_table *table, uint32_t at)
{
    CHECK(at < table->count);
    return &table->gate[at];
}

struct limits_meter *
limits_table_meter(struct limits_table *table, uint32_t at)
{
    CHECK(at < table->count);
    return &table->meter[at];
}

uint32_t
limits_table_of(const struct limits_table *table,
                const struct limits_gate *gate)
{
    CHECK(gate >= table->gate && gate < table->gate + table->count);
    return (uint32_t)(gate - table->gate);
}

struct limits_told
limits_table_tell(const struct limits_table *table, uint32_t at)
{
    CHECK(at < table->count);
    struct limits_told told = limits_meter_tell(&table->meter[at]);

    if (table->rule[at].rate.amount == 0) {
        return (struct limits_told){.spent = 0};
    }
    told.spent -= table->rule[at].base;
    return told;
}

/* Views */

/* The row of that tenant and model, which is made if there is none. */
static struct row *
row_of(struct limits_view *view, const struct limits_want *want)
{
    size_t len = strlen(want->model);
    bool begins = len != 0 && want->model[len - 1] == '*';

    CHECK(len < LIMITS_NAME_MAX && want->tenant <= LIMITS_EVERYBODY);
    len -= begins;
    for (uint32_t i = 0; i < view->count; i++) {
        struct row *row = &view->row[i];
        if (row->tenant == want->tenant && row->begins == begins &&
            row->len == len && memcmp(row->model, want->model, len) == 0) {
            return row;
        }
    }
    struct row *row = &view->row[view->count++];
    *row = (struct row){
        .tenant = want->tenant, .len = (uint32_t)len, .begins = begins};
    memcpy(row->model, want->model, len);
    return row;
}

static void
add_rows(struct limits_view *view, const struct limits_table *table,
         const struct limits_want *want, uint32_t count, uint32_t tenant,
         uint32_t *fresh)
{
    struct limits_gate *gates = (struct limits_gate *)(uintptr_t)table->gate;

    view->first[tenant] = view->count;
    for (uint32_t i = 0; i < count; i++) {
        if (want[i].tenant == tenant) {
            CHECK(want[i].rate.amount != 0);
            row_of(view, &want[i])->gate[want[i].of] = &gates[fresh[i]];
        }
    }
}

int
limits_table_plan(const struct limits_table *table,
                  const struct limits_want *want, uint32_t count,
                  struct limits_view **out)
{
    uint32_t place[LIMITS_RULES_MAX];
    uint32_t next = table->count;

    *out = NULL;
    if (count > LIMITS_RULES_MAX) {
        return LIMITS_E_FULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        place[i] = find(table, &want[i]);
        place[i] = place[i] != NONE ? place[i] : next++;
    }
    if (next > LIMITS_RULES_MAX) {
        return LIMITS_E_FULL;
    }
    struct limits_view *view =
        calloc(1, sizeof(*view) + count * sizeof(view->row[0]));
    if (view == NULL) {
        return -ENOMEM;
    }
    for (uint32_t tenant = 0; tenant <= LIMITS_EVERYBODY; tenant++) {
        add_rows(view, table, want, count, tenant, place);
    }
    view->first[LIMITS_EVERYBODY + 1] = view->count;
    *out = view;
    return 0;
}

static bool
fits(const struct row *row, struct slice model)
{
    if (row->begins && model.len > row->len) {
        model.len = row->len;
    }
    return model.len == row->len &&
           (model.len == 0 || memcmp(row->model, model.ptr, model.len) == 0);
}

/* Those of a tenant, or of everybody, for that model. */
static bool
find_model(const struct limits_view *view, uint32_t tenant, struct slice model,
           struct limits_gate *found[LIMITS_OFS])
{
    for (uint32_t i = view->first[tenant]; i < view->first[tenant + 1]; i++) {
        const struct row *row = &view->row[i];
        if ((row->len != 0 || row->begins) && fits(row, model)) {
            memcpy(found, row->gate, sizeof(row->gate));
            return true;
        }
    }
    return false;
}

static bool
find_all(const struct limits_view *view, uint32_t tenant,
         struct limits_gate *found[LIMITS_OFS])
{
    for (uint32_t i = view->first[tenant]; i < view->first[tenant + 1]; i++) {
        const struct row *row = &view->row[i];
        if (row->len == 0 && !row->begins) {
            memcpy(found, row->gate, sizeof(row->gate));
            return true;
        }
    }
    return false;
}

bool
limits_view_find(const struct limits_view *view, uint32_t tenant,
                 struct slice model, struct limits_gates *found)
{
    CHECK(tenant < LIMITS_TENANTS_MAX);
    memset(found, 0, sizeof(*found));
    bool all = find_all(view, tenant, found->at[LIMITS_TENANT]);
    bool own = find_model(view, tenant, model, found->at[LIMITS_TENANT_MODEL]);
    bool any =
        find_model(view, LIMITS_EVERYBODY, model, found->at[LIMITS_MODEL]);

    return all || own || any;
}

bool
limits_view_any(const struct limits_view *view)
{
    return view->count != 0;
}

void
limits_view_free(struct limits_view *view)
{
    free(view);
}

struct qsbr_node *
limits_view_retired(struct limits_view *view)
{
    return &view->retired;
}

void
limits_view_free_retired(struct qsbr_node *retired)
{
    limits_view_free((struct limits_view *)(void *)retired); /* its first */
}
