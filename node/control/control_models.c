/* Models' own files: read, published, and given back when nobody uses them. */
#include "node/control/control_models.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "node/base/log.h"
#include "node/local/local_differ.h"
#include "node/local/local_load.h"
#include "node/local/local_samples.h"
#include "node/text/prom_out.h"

#define RENEW_US UINT64_C(10000000) /* a prompt of each way is compared */
#define SHARE_US UINT64_C(1000000)  /* distrust is told and heard */

static const struct local_table *
table_now(const struct control_models *models)
{
    return publish_get(&models->node->local);
}

/* A model is freed after lanes can no longer find it (its tables are gone), none
 * of them uses it, and each has passed a point since. */
static void
free_model(struct qsbr_node *retired)
{
    local_model_free(local_model_of(retired));
}

static void
free_table(struct qsbr_node *retired)
{
    struct local_table *table = (struct local_table *)retired; /* its first */
    struct control_models *models = table->owner;

    CHECK(models->tables_waiting != 0);
    models->tables_waiting--;
    free(table); /* not its models */
}

static void
say(const struct local_table *before, const struct local_table *table)
{
    for (uint32_t i = 0; i < table->count; i++) {
        const struct local_model *model = table->model[i];
        const char *why = local_model_why(model);
        if (local_table_has(before, model)) {
            continue;
        }
        if (why[0] == '\0') {
            LOG_INFO("model_files_read", KV("model", local_model_name(model)),
                     KV("files", local_model_place(model)),
                     KV("bytes", local_model_bytes(model)));
        } else {
            LOG_WARNING("model_files_not_understood",
                        KV("model", local_model_name(model)),
                        KV("files", local_model_place(model)), KV("why", why),
                        KV("hint", "engines are asked for its tokens"));
        }
    }
    if (table->left_off != 0) {
        LOG_WARNING("models_left_off", KV("models", table->left_off),
                    KV("most", LOCAL_MODELS_MAX),
                    KV("hint", "engines are asked for the tokens of the "
                               "others: name those that matter in models"));
    }
}

static void
say_unread(const char *dir, int error)
{
    LOG_WARNING("tokens_dir_unread", KV("dir", dir), KV_FAULT("error", error),
                KV("hint", "engines are asked for tokens"));
}

static void ON_CONTROL
publish(struct control_models *models, struct local_table *table,
        const char *dir)
{
    struct node_shared *node = models->node;
    struct local_table *before =
        (struct local_table *)(uintptr_t)table_now(models);

    say(before, table);
    if (table->dir_error < 0) {
        say_unread(dir, table->dir_error);
    }
    publish_set(&node->local, table);
    for (uint32_t i = 0; before != NULL && i < before->count; i++) {
        struct local_model *model = before->model[i];
        if (!local_table_has(table, model)) {
            CHECK(models->dying_count < 2 * LOCAL_MODELS_MAX);
            models->dying[models->dying_count++] = model;
        }
    }
    if (before != NULL) {
        before->owner = models;
        models->tables_waiting++;
        qsbr_retire(&node->qsbr, &before->retired, free_table);
    }
}

void
control_models_start(struct control_models *models, struct node_shared *node,
                     uv_loop_t *loop)
{
    struct local_table *table = NULL;

    *models = (struct control_models){.node = node, .loop = loop};
    int error = local_load(&node->config->tokens, NULL, &table);
    if (error < 0) {
        say_unread(node->config->tokens.dir, error);
    } else {
        publish(models, table, node->config->tokens.dir);
    }
}

static void
on_work(uv_work_t *work)
{
    struct control_models *models = work->data;

    /* Only control replaces the table, and it waits for this. */
    models->error =
        local_load(&models->wanted, table_now(models), &models->fresh);
}

static void on_worked(uv_work_t *work, int status);

/* Not while lanes hold so many models of before that these might not fit. */
static bool ON_CONTROL
begin(struct control_models *models)
{
    models->again = false;
    if (models->dying_count > LOCAL_MODELS_MAX) {
        LOG_WARNING(
            "models_still_used", KV("models", models->dying_count),
            KV("hint", "requests still use files read before, so they were "
                       "not read again: reload once more in a while"));
        return false;
    }
    models->wanted = models->next;
    models->work.data = models;
    models->fresh = NULL;
    models->working =
        uv_queue_work(models->loop, &models->work, on_work, on_worked) == 0;
    if (!models->working) {
        say_unread(models->next.dir, -ENOMEM);
    }
    return models->working;
}

static void
on_worked(uv_work_t *work, int status)
{
    struct control_models *models = work->data;

    role_is_control();
    models->working = false;
    if (models->closed || status != 0) {
        local_table_free(models->fresh, table_now(models));
    } else if (models->error < 0) {
        say_unread(models->wanted.dir, models->error);
    } else {
        publish(models, models->fresh, models->wanted.dir);
    }
    models->fresh = NULL;
    if (models->again && !models->closed) {
        (void)begin(models);
    }
}

void
control_models_sweep(struct control_models *models)
{
    uint32_t kept = 0;

    if (models->tables_waiting != 0) {
        return;
    }
    for (uint32_t i = 0; i < models->dying_count; i++) {
        struct local_model *model = models->dying[i];
        if (local_model_is_held(model)) {
            models->dying[kept++] = model;
        } else {
            qsbr_retire(&models->node->qsbr, local_model_retired(model),
                        free_model);
        }
    }
    models->dying_count = kept;
}

static void
switch_off(struct local_model *model, const struct local_verdict *verdict)
{
    if (!local_model_distrust(model, verdict->way)) {
        return;
    }
    LOG_ERROR("tokens_differ", KV("model", local_model_name(model)),
              KV("way", local_way_name(verdict->way)),
              KV("prompts", LOCAL_DIFFER_MAX),
              KV("hint",
                 "an engine stored blocks of other tokens than were made here: "
                 "engines are asked for these prompts from now on; compare the "
                 "files with the engine's, and its flags"));
    if (local_model_pay_difference(model, verdict->way)) {
        local_differ_log(model, verdict->way, verdict->at, verdict->from,
                         verdict->ours, verdict->ours_count, verdict->theirs,
                         verdict->theirs_count);
    }
}

/* Several names may stand for one model's files. */
static void
judge(const struct local_table *table, const struct local_verdict *verdict)
{
    for (uint32_t i = 0; table != NULL && i < table->count; i++) {
        struct local_model *model = table->model[i];
        if (local_model_version(model) == verdict->model_version &&
            !local_model_compared(model, verdict->way, verdict->likeness)) {
            switch_off(model, verdict);
        }
    }
}

void
control_models_judge(struct control_models *models, uint64_t now_us)
{
    const struct local_table *table = table_now(models);
    struct local_verdict verdict;

    while (local_samples_judge(models->node->local_samples, now_us, &verdict)) {
        judge(table, &verdict);
    }
    if (now_us - models->renewed_us < RENEW_US) {
        return;
    }
    models->renewed_us = now_us;
    for (uint32_t i = 0; table != NULL && i < table->count; i++) {
        local_model_renew(table->model[i]);
    }
}

static void
share_distrust(struct local_model *model, enum local_way way,
               struct hints *hints, uint64_t now_us)
{
    uint64_t version = local_model_version(model);

    if (local_model_found_distrust(model, way)) {
        hints_tell_distrust(hints, version, (uint32_t)way, now_us);
    } else if (local_model_can(model, way) &&
               hints_hears_distrust(hints, version, (uint32_t)way) &&
               local_model_hear_distrust(model, way)) {
        LOG_ERROR(
            "tokens_differ_at_peer", KV("model", local_model_name(model)),
            KV("way", local_way_name(way)),
            KV("hint", "engines are asked for these prompts from now on; the "
                       "peer's log has the first difference"));
    }
}

void
control_models_compare(struct control_models *models, struct hints *hints,
                       uint64_t now_us)
{
    const struct local_table *table = table_now(models);
    uint32_t differ;

    if (now_us - models->shared_us >= SHARE_US) {
        models->shared_us = now_us;
        for (uint32_t i = 0; table != NULL && i < table->count; i++) {
            for (int way = 0; way < LOCAL_WAYS; way++) {
                share_distrust(table->model[i], (enum local_way)way, hints,
                               now_us);
            }
        }
    }

    hints_set_files(hints, local_table_version(table));
    differ = hints_files_differ(hints);
    if (differ != models->differ && differ != 0) {
        LOG_WARNING(
            "model_files_differ", KV("peers", differ),
            KV("hint", "the same prompt may have other tokens there; give all "
                       "nodes the same files"));
    } else if (differ != models->differ) {
        LOG_INFO("model_files_agree");
    }
    models->differ = differ;
}

bool
control_models_reload(struct control_models *models,
                      const struct config *config)
{
    models->next = config->tokens;
    if (models->working) {
        models->again = true;
        return true;
    }
    return begin(models);
}

void
control_models_put_files(const struct config_tokens *tokens,
                         struct json_out *json)
{
    if (tokens->dir[0] != '\0') {
        json_out_text(json, tokens->dir);
    }
    for (uint32_t i = 0; i < tokens->models.count; i++) {
        const struct config_model *model = &tokens->models.model[i];
        json_out_text(json, model->path);
        if (model->template[0] != '\0') {
            json_out_text(json, model->template);
        }
    }
}

void
control_models_stop(struct control_models *models)
{
    models->closed = true;
    if (models->working) {
        (void)uv_cancel((uv_req_t *)&models->work);
    }
}

void
control_models_fini(struct control_models *models)
{
    struct local_table *table =
        models->node != NULL
            ? (struct local_table *)(uintptr_t)table_now(models)
            : NULL;

    CHECK(!models->working);
    for (uint32_t i = 0; i < models->dying_count; i++) {
        local_model_free(models->dying[i]);
    }
    models->dying_count = 0;
    if (models->node != NULL) {
        publish_set(&models->node->local, NULL);
    }
    local_table_free(table, NULL);
}

static const struct {
    const char *name;
    const char *help;   /* NULL: the family before goes on */
    size_t at;          /* of a struct counter in struct local_counts */
    uint64_t per;       /* of the counter make 1; 0: one */
    const char *result; /* a further label, or NULL */
} families[] = {
    {"kvasir_model_tokens_local_total", "Prompts tokenised by this node",
     offsetof(struct local_counts, answered)},
    {"kvasir_model_tokens_failed_total",
     "Prompts that the model's files did not do for",
     offsetof(struct local_counts, refused)},
    {"kvasir_model_tokens_asked_total",
     "Prompts that an engine was asked about although there are files",
     offsetof(struct local_counts, asked)},
    {"kvasir_model_tokens_wrong_total",
     "Prompts whose tokens an engine counted otherwise",
     offsetof(struct local_counts, wrong)},
    {"kvasir_model_tokens_compared_total",
     "Prompts compared with the blocks that an engine stored: of the same "
     "tokens (agreed), or of others (differed)",
     offsetof(struct local_counts, agreed), .result = ",result=\"agreed\""},
    {"kvasir_model_tokens_compared_total", NULL,
     offsetof(struct local_counts, differed), .result = ",result=\"differed\""},
    {"kvasir_model_tokens_seconds_total",
     "Time that tokenising took, waits for a thread included",
     offsetof(struct local_counts, busy_us), 1000000},
};

void
control_models_put_metrics(const struct control_models *models, struct buf *out)
{
    const struct local_table *table = table_now(models);

    prom_out_single(out, "kvasir_model_files_differ", "gauge",
                    "Peers whose models' files are not those of this node",
                    models->differ);
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        if (families[f].help != NULL) {
            prom_out_head(out, families[f].name, "counter", families[f].help);
        }
        for (uint32_t i = 0; table != NULL && i < table->count; i++) {
            const char *counts =
                (const char *)local_model_counts(table->model[i]);
            buf_printf(out, "%s{model=\"", families[f].name);
            prom_out_label(out, local_model_name(table->model[i]));
            buf_printf(out, "\"%s}",
                       families[f].result != NULL ? families[f].result : "");
            prom_out_value(
                out, counter_read((const void *)(counts + families[f].at)),
                families[f].per != 0 ? families[f].per : 1);
        }
    }
}

/* Each way with what is done for it. */
static void
put_ways(const struct local_model *model, struct json_out *json)
{
    json_out_key(json, "ways");
    json_out_object_begin(json);
    for (int way = 0; way < LOCAL_WAYS; way++) {
        json_out_put_text(
            json, local_way_name((enum local_way)way),
            local_model_can(model, (enum local_way)way) ? "local" : "engine");
    }
    json_out_object_end(json);
}

void
control_models_put(const struct control_models *models, struct json_out *json)
{
    const struct local_table *table = table_now(models);

    json_out_array_begin(json);
    for (uint32_t i = 0; table != NULL && i < table->count; i++) {
        struct local_model *model = table->model[i];
        const struct local_counts *counts = local_model_counts(model);
        char version[17];
        (void)snprintf(version, sizeof version, "%016llx",
                       (unsigned long long)local_model_version(model));
        json_out_object_begin(json);
        json_out_put_text(json, "model", local_model_name(model));
        json_out_put_text(json, "files", local_model_place(model));
        json_out_put_text(json, "version", version);
        json_out_put_text(json, "why", local_model_why(model));
        put_ways(model, json);
        json_out_put_uint(json, "answered", counter_read(&counts->answered));
        json_out_put_uint(json, "refused", counter_read(&counts->refused));
        json_out_put_uint(json, "asked", counter_read(&counts->asked));
        json_out_put_uint(json, "wrong", counter_read(&counts->wrong));
        json_out_put_uint(json, "agreed", counter_read(&counts->agreed));
        json_out_put_uint(json, "differed", counter_read(&counts->differed));
        json_out_put_uint(json, "busy_us", counter_read(&counts->busy_us));
        json_out_object_end(json);
    }
    json_out_array_end(json);
}
