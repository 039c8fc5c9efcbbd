/* Views for lanes: built from the slots and published; replaced ones are
 * retired. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "node/fleet/fleet.h"
#include "node/fleet/fleet_slot_internal.h"

/* One name that one worker lists. */
struct listing {
    const struct engine_model *model;
    uint32_t slot;
};

static int
compare_listings(const void *left, const void *right)
{
    const struct listing *a = left;
    const struct listing *b = right;

    int order = slice_compare(a->model->name, b->model->name);

    return order != 0 ? order : (a->slot > b->slot) - (a->slot < b->slot);
}

static void
free_table(struct qsbr_node *node)
{
    /* retire is the first member of what is retired here, as below. */
    fleet_table_free((struct fleet_models_table *)(void *)node);
}

void
fleet_table_free(struct fleet_models_table *table)
{
    if (table != NULL) {
        free(table->bytes);
        free(table);
    }
}

static void
free_record(struct qsbr_node *node)
{
    struct fleet_record *record = (struct fleet_record *)(void *)node;

    CHECK(*record->alive > 0);
    (*record->alive)--;
    free(record);
}

static void
free_published(struct qsbr_node *node)
{
    struct fleet_published *published = (struct fleet_published *)(void *)node;

    CHECK(published->view.version > published->fleet->freed_version);
    published->fleet->freed_version = published->view.version;
    free(published);
}

static bool
lists_models(const struct fleet_slot *s)
{
    return s->state == SLOT_PRESENT && s->models_state == MODELS_KNOWN;
}

static size_t
bytes_of(const struct engine_model *model)
{
    size_t bytes = model->name.len;

    for (unsigned i = 0; i < MODEL_FACTS; i++) {
        bytes += model->fact[i].len;
    }
    return bytes;
}

static size_t
collect(const struct fleet *fleet, struct listing *list, size_t *bytes)
{
    size_t count = 0;

    WORKER_SET_EACH (slot, &fleet->present) {
        const struct fleet_slot *s = &fleet->slot[slot];
        CHECK(s->models.count == 0 || s->models.model != NULL);
        for (size_t i = 0; lists_models(s) && i < s->models.count; i++) {
            const struct engine_model *model = &s->models.model[i];
            if (list != NULL) {
                list[count] = (struct listing){model, slot};
            }
            *bytes += bytes_of(model);
            count++;
        }
    }
    return count;
}

static struct slice
copy(struct slice text, char **bytes)
{
    char *to = *bytes;

    if (text.len != 0) {
        memcpy(to, text.ptr, text.len);
    }
    *bytes += text.len;
    return (struct slice){.ptr = to, .len = text.len};
}

/* A model as the first worker that lists it tells it. */
static void
describe(struct fleet_model *out, const struct engine_model *model,
         char **bytes)
{
    *out = (struct fleet_model){.name = copy(model->name, bytes),
                                .created = model->created,
                                .adapter = true,
                                .own_at = model->own_at};
    for (unsigned i = 0; i < MODEL_FACTS; i++) {
        out->fact[i] = copy(model->fact[i], bytes);
    }
}

/* Merges the sorted listings of one name each into one entry each. */
static void
merge(struct fleet_models_table *table, const struct listing *list,
      size_t count)
{
    struct fleet_model *last = NULL;
    char *bytes = table->bytes;

    CHECK(table->models.count == 0 && bytes != NULL);
    for (size_t i = 0; i < count; i++) {
        const struct engine_model *model = list[i].model;
        if (last == NULL || !slice_equal(last->name, model->name)) {
            last = &table->list[table->models.count++];
            describe(last, model, &bytes);
        }
        worker_set_add(&last->workers, list[i].slot);
        last->adapter = last->adapter && model->adapter;
        last->own_at =
            model->own_at < last->own_at ? model->own_at : last->own_at;
    }
    CHECK(table->models.count <= count);
}

static struct fleet_models_table *
build_table(const struct fleet *fleet)
{
    size_t bytes = 0;
    size_t count = collect(fleet, NULL, &bytes);
    struct listing *list = calloc(count + 1, sizeof *list);
    struct fleet_models_table *table =
        calloc(1, sizeof *table + count * sizeof *table->list);

    if (list == NULL || table == NULL) {
        goto fail;
    }
    table->bytes = malloc(bytes + 1);
    if (table->bytes == NULL) {
        goto fail;
    }
    size_t listed = collect(fleet, list, &bytes);
    CHECK(listed == count);
    qsort(list, count, sizeof *list, compare_listings);
    merge(table, list, count);
    table->models.model = table->list;
    free(list);
    return table;
fail:
    free(list);
    free(table);
    return NULL;
}

/* Gives each slot an up-to-date record; the old ones are kept until no
 * published view has them. */
static bool
renew_records(struct fleet *fleet)
{
    WORKER_SET_EACH (slot, &fleet->present) {
        struct fleet_slot *s = &fleet->slot[slot];
        if (!s->record_outdated) {
            continue;
        }
        struct fleet_record *record = calloc(1, sizeof *record);
        if (record == NULL) {
            return false;
        }
        CHECK(s->state == SLOT_PRESENT && s->record != NULL);
        record->alive = &s->records_alive;
        record->worker = s->now;
        s->records_alive++;
        s->record->next_outdated = fleet->outdated;
        fleet->outdated = s->record;
        s->record = record;
        s->record_outdated = false;
    }
    return true;
}

/* The greatest length that the worker's models have; 0: not told. */
static uint32_t
longest_of(const struct fleet_slot *s)
{
    uint32_t longest = 0;

    for (size_t i = 0; lists_models(s) && i < s->models.count; i++) {
        struct slice text = s->models.model[i].fact[MODEL_MAX_MODEL_LEN];
        uint64_t len = 0;
        for (size_t at = 0; at < text.len && len <= UINT32_MAX; at++) {
            if (text.ptr[at] < '0' || text.ptr[at] > '9') {
                len = 0; /* null, or no whole number */
                break;
            }
            len = len * 10 + (uint64_t)(text.ptr[at] - '0');
        }
        if (len <= UINT32_MAX && len > longest) {
            longest = (uint32_t)len;
        }
    }
    return longest;
}

static void
fill_role(struct fleet_view *view, const struct fleet_worker *worker)
{
    if (worker->role == CONFIG_ROLE_BOTH || !engine_kind_splits(worker->kind)) {
        return;
    }
    worker_set_add(
        worker->role == CONFIG_ROLE_PREFILL ? &view->prefill : &view->decode,
        worker->slot);
    if (worker->kind == ENGINE_SGLANG) {
        worker_set_add(&view->bound, worker->slot);
    }
}

static void
fill_worker(struct fleet_view *view, const struct fleet_slot *s, uint32_t slot)
{
    CHECK(s->state == SLOT_PRESENT && !s->record_outdated);
    CHECK(s->record != NULL && s->records_alive > 0);
    view->worker[slot] = &s->record->worker;
    view->identity[slot] = s->now.identity;
    view->max_len[slot] = longest_of(s);
    if (worker_set_empty(&view->present)) {
        view->same_len = view->max_len[slot];
    } else if (view->same_len != view->max_len[slot]) {
        view->same_len = 0;
    }
    view->tells_len = view->tells_len || view->max_len[slot] != 0;
    worker_set_add(&view->present, slot);
    fill_role(view, &s->record->worker);
    if (s->healthy) {
        worker_set_add(&view->healthy, slot);
    }
    if (s->draining) {
        worker_set_add(&view->draining, slot);
    }
    if (s->breaker.state == BREAKER_OPEN) {
        worker_set_add(&view->open, slot);
    }
    if (breaker_watches(&s->breaker)) {
        worker_set_add(&view->watched, slot);
    }
    if (s->models_state != MODELS_KNOWN) {
        worker_set_add(&view->any_model, slot);
    }
    if (fleet_slot_able(s) && s->breaker.state == BREAKER_CLOSED) {
        worker_set_add(&view->eligible, slot);
    }
    if (fleet_slot_able(s) && s->breaker.state == BREAKER_HALF_OPEN) {
        worker_set_add(&view->trial, slot);
    }
    if (fleet_slot_able(s) && s->breaker.state != BREAKER_CLOSED) {
        worker_set_add(&view->ejected, slot);
    }
    if (fleet_slot_doubted(s)) {
        worker_set_add(&view->suspect, slot);
    }
}

static struct fleet_published *
build_view(struct fleet *fleet, const struct fleet_models_table *table)
{
    struct fleet_published *published = calloc(1, sizeof *published);

    if (published == NULL) {
        return NULL;
    }
    published->fleet = fleet;
    published->view.version =
        fleet->published != NULL ? fleet->published->view.version + 1 : 1;
    published->view.models = &table->models;
    WORKER_SET_EACH (slot, &fleet->present) {
        fill_worker(&published->view, &fleet->slot[slot], slot);
    }
    return published;
}

/* No new reader can reach what is retired here. */
static void
retire_replaced(struct fleet *fleet, struct fleet_published *published,
                struct fleet_models_table *table)
{
    if (published != NULL) {
        qsbr_retire(fleet->qsbr, &published->retire, free_published);
    }
    if (table != NULL) {
        qsbr_retire(fleet->qsbr, &table->retire, free_table);
    }
    WORKER_SET_EACH (slot, &fleet->leaving) {
        struct fleet_slot *s = &fleet->slot[slot];
        CHECK(s->state == SLOT_LEAVING);
        if (s->record != NULL) {
            s->record->next_outdated = fleet->outdated;
            fleet->outdated = s->record;
            s->record = NULL;
        }
    }
    while (fleet->outdated != NULL) {
        struct fleet_record *record = fleet->outdated;
        fleet->outdated = record->next_outdated;
        qsbr_retire(fleet->qsbr, &record->retire, free_record);
    }
}

int
fleet_publish(struct fleet *fleet)
{
    struct fleet_models_table *table = fleet->table;
    struct fleet_published *before = fleet->published;

    CHECK(table != NULL || fleet->table_changed);
    if (fleet->table_changed) {
        table = build_table(fleet);
        if (table == NULL) {
            return -ENOMEM;
        }
    }
    struct fleet_published *published =
        renew_records(fleet) ? build_view(fleet, table) : NULL;
    if (published == NULL) {
        if (table != fleet->table) {
            fleet_table_free(table);
        }
        return -ENOMEM;
    }
    struct fleet_models_table *table_before =
        table != fleet->table ? fleet->table : NULL;
    CHECK(published->view.version > fleet->freed_version);
    publish_set(&fleet->board.view, &published->view);
    fleet->published = published;
    fleet->table = table;
    fleet->table_changed = false;
    fleet->view_changed = false;
    fleet->view_told = false;
    retire_replaced(fleet, before, table_before);
    return 0;
}
