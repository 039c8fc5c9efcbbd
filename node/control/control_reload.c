/* Reads the configuration again, and has everybody take over what changed. */
#include "node/control/control_reload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "node/base/log.h"
#include "node/config/config_diff.h"
#include "node/config/config_scale.h"
#include "node/control/control_content.h"
#include "node/control/control_keys.h"
#include "node/control/control_roster.h"
#include "node/control/control_sources.h"
#include "node/control/control_tls.h"
#include "node/control/control_warn.h"

#define NAMES_MAX LOG_VALUE_MAX

struct control_reload {
    const struct config_sources *sources;
    struct config now; /* in force: taken over, or of the start */
    struct config wanted;
    bool empty; /* its file was, before it was read or after */
    struct config_diff diff;
};

static int
copy_workers(const struct config *from, struct config *to)
{
    size_t bytes = from->workers_count * sizeof(*from->workers);

    to->workers = malloc(bytes != 0 ? bytes : 1);
    if (to->workers == NULL) {
        to->workers_count = 0;
        return -ENOMEM;
    }
    if (bytes != 0) {
        memcpy(to->workers, from->workers, bytes);
    }
    to->workers_count = from->workers_count;
    return 0;
}

int
control_reload_new(struct control_reload **out,
                   const struct config_sources *sources,
                   const struct config *now)
{
    struct control_reload *reload = calloc(1, sizeof(*reload));

    *out = NULL;
    if (reload == NULL) {
        return -ENOMEM;
    }
    reload->sources = sources;
    reload->now = *now;
    if (copy_workers(now, &reload->now) < 0) {
        free(reload);
        return -ENOMEM;
    }
    *out = reload;
    return 0;
}

void
control_reload_free(struct control_reload *reload)
{
    if (reload != NULL) {
        config_fini(&reload->now);
        free(reload);
    }
}

/* What a node does not do any more cannot be had back (node/base/confine.h). */
static int
check_programs(const struct confined *confined, const struct config *wanted,
               struct config_errors *errors)
{
    if ((confined->files || confined->calls) &&
        config_scale_runs(&wanted->scale)) {
        buf_add_text(&errors->text,
                     "scale.command, scale.pools: this node began without "
                     "programs and runs none (sandbox); restart it\n");
        errors->count++;
        return RELOAD_E_INVALID;
    }
    return 0;
}

/* A pipe, `-c <(command)` as well, gave what it had: read again it is empty, or
 * nobody writes to it and the node stands still. */
static bool
is_read_once(const char *file)
{
    struct stat about;

    return strcmp(file, "-") == 0 ||
           (stat(file, &about) == 0 && S_ISFIFO(about.st_mode));
}

static bool
is_empty(const char *file)
{
    struct stat about;

    return file != NULL && stat(file, &about) == 0 && S_ISREG(about.st_mode) &&
           about.st_size == 0;
}

/* A file that is being written is empty for a moment: no key of it counts as
 * taken back then, nor any worker. */
static int
check_empty(const struct control_reload *reload, struct config_errors *errors)
{
    const struct config_diff *diff = &reload->diff;

    if (!reload->empty ||
        diff->live_count + diff->restart_count + diff->workers_count == 0) {
        return 0;
    }
    buf_printf(&errors->text,
               "%s: is empty; a comment is enough, if it is meant to be\n",
               reload->sources->file);
    errors->count++;
    return RELOAD_E_INVALID;
}

/* What is wanted, or why not. */
static int
read_again(struct control_reload *reload, struct config_errors *errors)
{
    const char *file = reload->sources->file;

    if (file != NULL && is_read_once(file)) {
        config_init(&reload->wanted);
        buf_printf(&errors->text,
                   "%s: cannot be read again; restart the node\n",
                   strcmp(file, "-") == 0 ? "stdin" : file);
        errors->count++;
        return RELOAD_E_INVALID;
    }
    reload->empty = is_empty(file);
    int outcome = config_load(reload->sources, &reload->wanted, errors);
    reload->empty = reload->empty || is_empty(file);
    return outcome == 0 ? 0 : RELOAD_E_INVALID;
}

/* What would be in force: some keys as they are wanted, some as they were. Both
 * sides were checked, this mixture was not. */
static int
mix(struct control_reload *reload, struct config *mixed,
    struct config_errors *errors)
{
    *mixed = reload->now;
    mixed->workers = NULL;
    mixed->workers_count = 0;
    config_diff_take(&reload->diff, &reload->wanted, mixed);
    config_check(mixed, errors);
    return errors->count == 0 ? 0 : RELOAD_E_INVALID;
}

/* Workers */

struct told {
    struct json_out *json; /* or NULL */
    uint32_t count;
};

static void
tell_worker(struct told *told, const char *id)
{
    told->count++;
    if (told->json != NULL) {
        json_out_text(told->json, id);
    }
}

static void
begin_list(struct told *told, const char *name)
{
    told->count = 0;
    if (told->json != NULL) {
        json_out_key(told->json, name);
        json_out_array_begin(told->json);
    }
}

static void
end_list(struct told *told)
{
    if (told->json != NULL) {
        json_out_array_end(told->json);
    }
}

struct fates {
    bool drained[CONFIG_WORKERS_MAX]; /* before it left */
    bool refused[CONFIG_WORKERS_MAX];
    bool full;        /* no slot was free */
    uint32_t leaving; /* slots that nobody waits for, still used by who left */
};

/* Whether a slot is still used by requests to a worker that has left, and nobody
 * else waits for it. */
static bool ON_CONTROL
awaits_slot(const struct control *control, struct fates *fates)
{
    struct fleet_status status;

    for (uint32_t slot = 0; slot < WORKERS_MAX && !fates->full; slot++) {
        fates->leaving += !fleet_status(control->fleet, slot, &status);
    }
    fates->full = true;
    if (fates->leaving == 0) {
        return false;
    }
    fates->leaving--;
    return true;
}

/* As an operator would: the latest word counts, whoever has the worker now. Of
 * several nodes with the same news, the first one tells the others. */
static bool ON_CONTROL
put_worker(struct control *control, const struct config_worker *worker,
           struct fates *fates)
{
    if (control_roster_has(control, worker)) {
        return true;
    }
    int outcome = control_roster_put(control, worker);

    if (outcome == FLEET_E_FULL && awaits_slot(control, fates)) {
        outcome = control_roster_renew(control, worker);
    }
    if (outcome != 0) {
        LOG_WARNING(
            "worker_refused", KV("worker", worker->id), KV("outcome", outcome),
            KV("hint", "another worker has its url, workers.deny denies it, or "
                       "workers.slots are all taken: mend that and reload"));
    }
    return outcome == 0;
}

/* Whether the list itself names it, and not as before. */
static bool
is_news(const struct control_reload *reload, uint32_t at)
{
    return reload->wanted.workers[at].from[0] == '\0' &&
           reload->diff.worker[at] != CONFIG_WORKER_SAME;
}

/* All leave before any comes back: one may come to where another one was. */
static void ON_CONTROL
make_way(struct control *control, struct fates *fates)
{
    const struct control_reload *reload = control->reload;

    for (uint32_t i = 0; i < reload->wanted.workers_count; i++) {
        const struct config_worker *worker = &reload->wanted.workers[i];
        struct slice id = slice_of(worker->id);
        if (is_news(reload, i) && !control_roster_has(control, worker)) {
            fates->drained[i] = control_roster_drains(control, id);
            (void)!control_roster_remove(control, id);
        }
    }
}

static void ON_CONTROL
remove_workers(struct control *control, struct told *told)
{
    struct control_reload *reload = control->reload;

    begin_list(told, "removed");
    for (uint32_t i = 0; i < reload->now.workers_count; i++) {
        const char *id = reload->now.workers[i].id;
        if (reload->diff.gone[i] && reload->now.workers[i].from[0] == '\0' &&
            control_roster_remove(control, slice_of(id))) {
            tell_worker(told, id);
        }
    }
    end_list(told);
}

/* Those that are not as they were. Draining goes on. */
static void ON_CONTROL
put_workers(struct control *control, enum config_worker_change what,
            struct told *told, struct fates *fates)
{
    struct control_reload *reload = control->reload;

    for (uint32_t i = 0; i < reload->wanted.workers_count; i++) {
        const struct config_worker *worker = &reload->wanted.workers[i];
        if (!is_news(reload, i) || reload->diff.worker[i] != what) {
            continue;
        }
        fates->refused[i] = !put_worker(control, worker, fates);
        if (!fates->refused[i]) {
            tell_worker(told, worker->id);
        }
        if (fates->drained[i]) {
            (void)!control_roster_drain(control, slice_of(worker->id), true);
        }
    }
}

/* They are not in force: the next reload takes them for new. */
static void
forget_refused(struct control_reload *reload,
               const bool refused[CONFIG_WORKERS_MAX])
{
    struct config *wanted = &reload->wanted;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < wanted->workers_count; i++) {
        if (!refused[i]) {
            wanted->workers[kept++] = wanted->workers[i];
        }
    }
    wanted->workers_count = kept;
}

static void ON_CONTROL
apply_workers(struct control *control, struct json_out *json)
{
    struct control_reload *reload = control->reload;
    struct told told = {.json = json};
    struct fates fates = {.drained = {false}};

    if (json != NULL) {
        json_out_key(json, "workers");
        json_out_object_begin(json);
    }
    remove_workers(control, &told);
    make_way(control, &fates);
    begin_list(&told, "changed");
    put_workers(control, CONFIG_WORKER_CHANGED, &told, &fates);
    end_list(&told);
    begin_list(&told, "added");
    put_workers(control, CONFIG_WORKER_ADDED, &told, &fates);
    end_list(&told);
    begin_list(&told, "refused");
    for (uint32_t i = 0; i < reload->wanted.workers_count; i++) {
        if (fates.refused[i]) {
            tell_worker(&told, reload->wanted.workers[i].id);
        }
    }
    end_list(&told);
    if (json != NULL) {
        json_out_object_end(json);
    }
    forget_refused(reload, fates.refused);
}

/* Keys */

/* The names of the changed keys that are live, or of those that are not. */
static void
tell_keys(const struct config_diff *diff, bool live, const char *name,
          struct json_out *json, struct buf *text)
{
    struct told told = {.json = json};

    begin_list(&told, name);
    for (size_t i = 0; i < config_schema_node.count; i++) {
        const struct config_key *key = &config_schema_node.keys[i];
        if (diff->changed[i] && config_key_is_live(key) == live) {
            buf_printf(text, "%s%s", text->len != 0 ? " " : "", key->name);
            tell_worker(&told, key->name);
        }
    }
    end_list(&told);
}

static void
say(const struct control_reload *reload, struct json_out *json)
{
    struct buf applied;
    struct buf restart;

    buf_init(&applied, (size_t)64 << 10);
    buf_init(&restart, (size_t)64 << 10);
    tell_keys(&reload->diff, true, "applied", json, &applied);
    tell_keys(&reload->diff, false, "restart", json, &restart);
    LOG_INFO("reloaded", KV("keys", buf_slice(&applied)),
             KV("workers", reload->diff.workers_count));
    if (restart.len != 0) {
        LOG_WARNING(
            "reload_needs_restart", KV("keys", buf_slice(&restart)),
            KV("hint",
               "the rest is in force; these keys are with the next start"));
    }
    buf_fini(&applied);
    buf_fini(&restart);
}

/* Models' files are read on a thread, so the answer says which, and the log what
 * became of those that changed. */
static void ON_CONTROL
read_models(struct control *control, const struct config *mixed,
            struct json_out *json)
{
    bool begun = control_models_reload(&control->models, mixed);

    if (json != NULL) {
        json_out_key(json, "model_files");
        json_out_array_begin(json);
        if (begun) {
            control_models_put_files(&mixed->tokens, json);
        }
        json_out_array_end(json);
    }
}

/* The workers that are wanted are in force now; frees the others. */
static void
keep(struct control_reload *reload, const struct config *mixed)
{
    struct config before = reload->now;

    reload->now = *mixed;
    reload->now.workers = reload->wanted.workers;
    reload->now.workers_count = reload->wanted.workers_count;
    reload->wanted.workers = NULL;
    reload->wanted.workers_count = 0;
    config_fini(&before);
}

static void ON_CONTROL
apply(struct control *control, const struct config *mixed,
      struct json_out *json)
{
    struct control_reload *reload = control->reload;

    log_set((enum log_level)mixed->log.level,
            (enum log_format)mixed->log.format);
    fleet_configure(control->fleet, &mixed->health, &mixed->breaker);
    control_limit_workers(control, mixed);
    probe_poke(control->probe);
    if (json != NULL) {
        json_out_object_begin(json);
    }
    say(reload, json);
    read_models(control, mixed, json);
    roster_apply_use(control->workers, &reload->wanted);
    apply_workers(control, json);
    if (json != NULL) {
        json_out_object_end(json);
    }
    keep(reload, mixed);
    roster_apply_use(control->workers, &reload->now);
    control_sources_reload(control, &reload->now);
    control->reloaded(control->owner);
}

static void ON_CONTROL
publish_keys(struct control *control, struct keys *keys)
{
    const struct keys *before = publish_get(&control->node->keys);
    bool isolated = before != NULL && keys_isolates(before);

    control_keys_publish(control->node, keys);
    if (!isolated) {
        control_warn_of_sharing(control);
    }
}

int
control_reload(struct control *control, struct json_out *json,
               struct config_errors *errors)
{
    struct control_reload *reload = control->reload;
    struct config mixed;
    struct keys *keys = NULL;
    struct keys_jwks *jwks = NULL;
    struct content *content = NULL;
    struct control_tls tls = {.clients = NULL};
    struct control_limits_plan limits = {.view = NULL};

    config_errors_init(errors);
    int outcome = read_again(reload, errors);
    if (outcome == 0) {
        outcome =
            check_programs(&control->node->confined, &reload->wanted, errors);
    }
    if (outcome == 0) {
        config_diff(&reload->now, &reload->wanted, &reload->diff);
        outcome = check_empty(reload, errors);
    }
    if (outcome == 0) {
        outcome = mix(reload, &mixed, errors);
    }
    if (outcome == 0 && control_tls_read(control->node, &tls, errors) != 0) {
        outcome = RELOAD_E_INVALID;
    }
    if (outcome == 0 && control_keys_read(control->node, &keys, errors) != 0) {
        outcome = RELOAD_E_INVALID;
    }
    if (outcome == 0 &&
        control_content_read(control->node, &content, errors) != 0) {
        outcome = RELOAD_E_INVALID;
    }
    if (outcome == 0 && control_jwt_read(control->node, &jwks, errors) != 0) {
        outcome = RELOAD_E_INVALID;
    }
    if (outcome == 0 && control_limits_read(&control->limits, &mixed, keys,
                                            &limits, errors) != 0) {
        outcome = RELOAD_E_INVALID;
    }
    if (outcome == 0) {
        outcome = shared_publish(control->node, &mixed);
    }
    if (outcome == 0) {
        publish_keys(control, keys);
        control_content_publish(control->node, content);
        control_likeness_begin(control, content);
        control_jwt_publish(&control->jwt, jwks);
        control_jwt_again(&control->jwt);
        control_limits_publish(&control->limits, &limits, control_now_us());
        control_tls_publish(control->node, &tls);
        control_use_tls(control);
        apply(control, &mixed, json);
    } else {
        control_limits_drop(&limits);
        keys_free(keys);
        content_free(content);
        keys_jwks_free(jwks);
        control_tls_free(&tls);
        LOG_WARNING(
            "reload_refused", KV("errors", errors->count),
            KV("first", buf_slice(&errors->text)),
            KV("hint",
               "nothing was changed: kvasir check -c FILE shows every error"));
    }
    config_fini(&reload->wanted);
    return outcome;
}
