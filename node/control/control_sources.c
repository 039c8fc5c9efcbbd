/* Looks at the sources of workers: lookups, files, notices of files, time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/base/log.h"
#include "node/control/control_sources_internal.h"

#define LOOKUP_TIMEOUT_MS 2000U
#define SETTLE_US         UINT64_C(50000) /* after a notice of a file */
#define DNS_MISSED        2U /* answers of DNS may be partial for a moment */
#define FILE_MISSED       1U /* those of files, and of an API server, are not */

static void ON_CONTROL set_timer(struct control_sources *sources);

/* The end of a look */

static void
begin_next(struct control_source *source)
{
    struct control_sources *sources = source->control->sources;
    uint64_t us = (uint64_t)sources->interval_ms * 1000;

    /* Not all nodes, and not all names, at one moment. */
    source->due_us =
        control_now_us() + us - rng_below(&source->control->rng, us / 10 + 1);
}

/* Its outcome, which is told in the log when it changes. */
static void
note(struct control_source *source, enum source_outcome outcome,
     const char *why)
{
    bool news = outcome != source->outcome || strcmp(why, source->why) != 0;

    source->outcome = outcome;
    source->looks[outcome]++;
    (void)snprintf(source->why, sizeof source->why, "%s", why);
    if (outcome == SOURCE_GOOD) {
        source->good_us = control_now_us();
        if (news) {
            LOG_INFO("worker_source_good", KV("from", source->like.from),
                     KV("workers", source->list_count));
        }
    } else if (news) {
        LOG_WARNING(
            "worker_source_not_good", KV("from", source->like.from),
            KV("outcome", source_outcome_name(outcome)), KV("why", source->why),
            KV("kept", source->list_count),
            KV("hint",
               "its last good list stays in force: mend what why names"));
    }
    begin_next(source);
}

/* Nothing new: whoever left before may be gone by now. */
void
source_end_badly(struct control_source *source, enum source_outcome outcome,
                 const char *why)
{
    CHECK(outcome != SOURCE_GOOD);
    note(source, outcome, why);
    source_follow(source);
}

void
source_end_unchanged(struct control_source *source)
{
    source->looks[SOURCE_GOOD]++;
    source->good_us = control_now_us();
    begin_next(source);
    source_follow(source);
}

void
source_soon(struct control_source *source, uint64_t after_us)
{
    uint64_t now_us = control_now_us();

    CHECK(source->round.ticket == 0 && !source_kube_is_looking(source));
    if (after_us < UINT64_MAX - now_us && now_us + after_us < source->due_us) {
        source->due_us = now_us + after_us;
    }
    set_timer(source->control->sources);
}

/* Takes over the list, which was allocated. */
static void ON_CONTROL
end_well(struct control_source *source, struct config_worker *list,
         uint32_t count, bool whole)
{
    source_listed(&source->core, source->list, source->list_count, list, count,
                  whole);
    free(source->list);
    source->list = list;
    source->list_count = count;
    note(source, SOURCE_GOOD, "");
    source_follow(source);
}

/* Files */

static void ON_CONTROL
read_file(struct control_source *source)
{
    struct config_errors errors;
    struct config config;

    config_errors_init(&errors);
    config_init(&config);
    config_read_workers(&config, source->like.from, source->path, &errors);
    if (errors.count == 0) {
        struct config_worker *list = config.workers;
        uint32_t count = config.workers_count;
        config.workers = NULL;
        config.workers_count = 0;
        end_well(source, list, count, true);
    } else {
        struct slice rest = {errors.text.ptr, errors.text.len};
        struct slice line = slice_take(&rest, '\n');
        char why[SOURCE_WHY_MAX];
        (void)snprintf(why, sizeof why, "%.*s", (int)line.len,
                       line.len != 0 ? line.ptr : "");
        source_end_badly(source, SOURCE_FAILED, why);
    }
    config_fini(&config);
    config_errors_fini(&errors);
}

/* The file itself, or what it is a link into: Kubernetes exchanges ..data. */
static bool
is_about(const struct control_source *source, const char *name)
{
    return name == NULL || strncmp(name, "..", 2) == 0 ||
           strcmp(name, strrchr(source->path, '/') + 1) == 0;
}

static void
on_notice(uv_fs_event_t *event, const char *name, int events, int status)
{
    struct source_watch *watch = event->data;
    struct control_source *source = watch->source;

    (void)events;
    if (source == NULL || status != 0 || !is_about(source, name)) {
        return;
    }
    role_is_control();
    /* The first of several counts: others do not put it off. */
    source_soon(source, SETTLE_US);
}

static void
on_watch_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void
unwatch(struct control_source *source)
{
    if (source->watch != NULL) {
        source->watch->source = NULL;
        uv_close((uv_handle_t *)&source->watch->event, on_watch_closed);
        source->watch = NULL;
    }
}

/* Without notices the file is still read again every workers.resolve. */
static void
watch(struct control_source *source)
{
    struct source_watch *fresh = calloc(1, sizeof *fresh);
    char folder[CONFIG_TEXT_MAX];
    const char *slash = strrchr(source->path, '/');
    int error = -ENOMEM;

    CHECK(slash != NULL && source->watch == NULL);
    if (fresh == NULL) {
        return;
    }
    (void)snprintf(folder, sizeof folder, "%.*s",
                   (int)(slash != source->path ? slash - source->path : 1),
                   source->path);
    (void)uv_fs_event_init(&source->control->loop, &fresh->event);
    fresh->event.data = fresh;
    fresh->source = source;
    source->watch = fresh;
    error = uv_fs_event_start(&fresh->event, on_notice, folder, 0);
    if (error != 0) {
        LOG_WARNING("worker_source_unwatched", KV("from", source->like.from),
                    KV_FAULT("error", error),
                    KV("hint", "changes are seen after workers.resolve"));
        unwatch(source);
    }
}

/* Names */

/* The addresses of the last round as workers. */
void
source_end_round(struct control_source *source)
{
    const struct source_round *round = &source->round;
    uint32_t count = 0;
    struct config_worker *list = calloc(round->found_count, sizeof *list);

    CHECK(round->found_count > 0);
    if (list == NULL) {
        source_end_badly(source, SOURCE_FAILED, "out of memory");
        return;
    }
    for (uint32_t i = 0; i < round->found_count; i++) {
        count += source_worker(&source->like, round->found[i].host,
                               round->found[i].port, &list[count]);
    }
    end_well(source, list, count, !round->cut);
}

static bool
ask(struct control_source *source, enum discover_kind kind, const char *name)
{
    struct control_sources *sources = source->control->sources;
    struct discover_out wanted = {
        .kind = DISCOVER_OUT_RESOLVE,
        .lookup = kind,
        .ticket = ++sources->tickets,
        .name = name,
    };

    source->round.ticket = wanted.ticket;
    if (sources->resolve == NULL ||
        resolve_ask(sources->resolve, &wanted) != 0) {
        source->round.ticket = 0;
        return false;
    }
    return true;
}

void
source_found(struct source_round *round, const struct discover_ip *ip,
             uint16_t port)
{
    char text[DISCOVER_ADDRESS_MAX];
    struct url url;

    if (!discover_format(ip, port, text) ||
        url_parse_peer(slice_of(text), &url) != NULL) {
        return; /* nobody can be there */
    }
    for (uint32_t i = 0; i < round->found_count; i++) {
        if (round->found[i].port == port &&
            strcmp(round->found[i].host, url.host) == 0) {
            return;
        }
    }
    if (round->found_count == WORKERS_MAX) {
        round->cut = true;
        return;
    }
    struct source_address *found = &round->found[round->found_count++];
    found->port = port;
    (void)snprintf(found->host, sizeof found->host, "%.*s",
                   (int)sizeof found->host - 1, url.host);
}

static void
add_ips(struct source_round *round, const struct discover_answer *answer,
        uint16_t port)
{
    bool any_v4 = false;

    for (size_t i = 0; i < answer->ips_count; i++) {
        any_v4 = any_v4 || answer->ips[i].size == 4;
    }
    for (size_t i = 0; i < answer->ips_count; i++) {
        if (!any_v4 || answer->ips[i].size == 4) {
            source_found(round, &answer->ips[i], port);
        }
    }
    round->cut = round->cut || answer->ips_count == DISCOVER_IPS_MAX;
    round->half = round->half || answer->half;
}

static void
add_targets(struct source_round *round, const struct discover_answer *answer)
{
    for (size_t i = 0; i < answer->targets_count; i++) {
        char name[DISCOVER_NAME_MAX];
        const struct discover_target *target = &answer->targets[i];
        if (target->port != 0 &&
            discover_name_read(slice_of(target->name), name)) {
            round->targets[round->targets_count++] = *target;
        }
    }
    round->cut = round->cut || answer->targets_count == DISCOVER_TARGETS_MAX;
}

static enum source_outcome
outcome_of(enum discover_outcome outcome)
{
    return outcome == DISCOVER_FOUND     ? SOURCE_GOOD
           : outcome == DISCOVER_ABSENT  ? SOURCE_ABSENT
           : outcome == DISCOVER_TIMEOUT ? SOURCE_TIMEOUT
                                         : SOURCE_FAILED;
}

static bool
lists_v4(const struct control_source *source)
{
    bool found = false;

    for (uint32_t i = 0; i < source->list_count && !found; i++) {
        found = strchr(source->list[i].url.host, ':') == NULL;
    }
    return found;
}

/* The next target, or the end of the round. Engines that have both families
 * would be exchanged for themselves by another name, and back. */
static void ON_CONTROL
go_on(struct control_source *source)
{
    struct source_round *round = &source->round;

    if (round->target_at < round->targets_count) {
        if (!ask(source, DISCOVER_HOST,
                 round->targets[round->target_at].name)) {
            source_end_badly(source, SOURCE_FAILED, "no lookup is free");
        }
        return;
    }
    if (round->found_count == 0) {
        source_end_badly(source, SOURCE_ABSENT, "it has no address");
        return;
    }
    if (round->half && lists_v4(source)) {
        source_end_badly(source, SOURCE_FAILED,
                         "no DNS server tells its IPv4 addresses");
        return;
    }
    source_end_round(source);
}

static void ON_CONTROL
take_answer(struct control_source *source, const struct discover_answer *answer)
{
    struct source_round *round = &source->round;
    bool of_target = round->target_at < round->targets_count;
    bool absent_target = of_target && answer->outcome == DISCOVER_ABSENT;

    round->ticket = 0;
    if (answer->outcome != DISCOVER_FOUND && !absent_target) {
        source_end_badly(source, outcome_of(answer->outcome),
                         answer->outcome == DISCOVER_ABSENT
                             ? "no such name, or no addresses"
                         : answer->outcome == DISCOVER_TIMEOUT
                             ? "no DNS server answered in time"
                             : "DNS servers refuse or fail");
        return;
    }
    if (source->join.kind == DISCOVER_SERVICE && !of_target) {
        add_targets(round, answer);
    } else if (of_target) {
        add_ips(round, answer, round->targets[round->target_at].port);
        round->target_at++;
    } else {
        add_ips(round, answer, source->join.port);
    }
    go_on(source);
}

static void
on_answered(void *context, const struct discover_answer *answer)
{
    struct control_sources *sources = context;

    role_is_control();
    for (uint32_t i = 0; i < sources->count; i++) {
        if (sources->source[i]->round.ticket == answer->ticket) {
            take_answer(sources->source[i], answer);
            break;
        }
    }
    set_timer(sources);
}

static void ON_CONTROL
look_up(struct control_source *source)
{
    struct source_round *round = &source->round;

    round->cut = false;
    round->half = false;
    round->targets_count = 0;
    round->target_at = 0;
    round->found_count = 0;
    if (!ask(source, source->join.kind, source->join.name)) {
        source_end_badly(source, SOURCE_FAILED, "no lookup is free");
    }
}

/* Time */

static bool
is_looking(const struct control_source *source)
{
    return source->round.ticket != 0 || source_kube_is_looking(source);
}

static void
on_timer(uv_timer_t *timer)
{
    struct control_sources *sources = timer->data;
    uint64_t now_us = control_now_us();

    role_is_control();
    for (uint32_t i = 0; i < sources->count; i++) {
        struct control_source *source = sources->source[i];
        if (is_looking(source) || source->due_us > now_us) {
            continue;
        }
        source->due_us = UINT64_MAX; /* until the look has ended */
        if (source->kind == CONFIG_FROM_FILE) {
            read_file(source);
        } else if (source->kind == CONFIG_FROM_KUBE) {
            source_kube_look(source);
        } else {
            look_up(source);
        }
    }
    set_timer(sources);
}

static void
set_timer(struct control_sources *sources)
{
    uint64_t now_us = control_now_us();
    uint64_t due_us = UINT64_MAX;

    for (uint32_t i = 0; i < sources->count; i++) {
        due_us = sources->source[i]->due_us < due_us
                     ? sources->source[i]->due_us
                     : due_us;
    }
    if (due_us == UINT64_MAX) {
        (void)uv_timer_stop(&sources->timer);
        return;
    }
    uint64_t ms = due_us > now_us ? (due_us - now_us + 999) / 1000 : 0;
    (void)uv_timer_start(&sources->timer, on_timer, ms, 0);
}

/* Which there are */

static struct control_source *
find_source(const struct control_sources *sources, const char *from)
{
    for (uint32_t i = 0; i < sources->count; i++) {
        if (strcmp(sources->source[i]->like.from, from) == 0) {
            return sources->source[i];
        }
    }
    return NULL;
}

static void ON_CONTROL
drop(struct control_source *source)
{
    unwatch(source);
    source_kube_close(source);
    source_fini(&source->core);
    free(source->list);
    free(source);
}

static int ON_CONTROL
add(struct control_sources *sources, const struct config_worker *like)
{
    struct control_source *source = calloc(1, sizeof *source);

    CHECK(sources->count < CONFIG_SOURCES_MAX);
    if (source == NULL) {
        return -ENOMEM;
    }
    source->control = sources->control;
    source->like = *like;
    source->kind = config_from(&source->like, &source->join, &source->path);
    CHECK(source->kind != CONFIG_FROM_NONE);
    if (source_init(&source->core, source->kind == CONFIG_FROM_DNS
                                       ? DNS_MISSED
                                       : FILE_MISSED) != 0 ||
        (source->kind == CONFIG_FROM_KUBE && source_kube_open(source) != 0)) {
        drop(source);
        return -ENOMEM;
    }
    sources->source[sources->count++] = source;
    if (source->kind == CONFIG_FROM_FILE) {
        watch(source);
    }
    return 0;
}

/* Lookups are not begun before somebody needs them. */
static int
open_resolve(struct control_sources *sources)
{
    struct resolve_owner owner = {.context = sources, .answered = on_answered};
    struct resolve_config config = {
        .timeout_ms = LOOKUP_TIMEOUT_MS,
        .server = &sources->control->node->config->mesh.resolver};
    bool wanted = false;

    for (uint32_t i = 0; i < sources->count; i++) {
        wanted = wanted || sources->source[i]->kind == CONFIG_FROM_DNS;
    }
    return wanted && sources->resolve == NULL
               ? resolve_new(&sources->resolve, &sources->control->loop,
                             &config, &owner)
               : 0;
}

/* Those of the configuration that there are not yet; all are looked at now. */
static int ON_CONTROL
take_config(struct control_sources *sources, const struct config *config)
{
    int error = 0;

    sources->interval_ms = config->workers_resolve_ms;
    for (uint32_t i = 0; i < config->workers_count && error == 0; i++) {
        const struct config_worker *like = &config->workers[i];
        struct control_source *there = find_source(sources, like->from);
        if (like->from[0] != '\0' && there != NULL) {
            there->like = *like; /* path is into it, and is the same */
            source_kube_renew(there);
        } else if (like->from[0] != '\0') {
            error = add(sources, like);
        }
    }
    if (error == 0) {
        error = open_resolve(sources);
    }
    for (uint32_t i = 0; i < sources->count; i++) {
        if (!is_looking(sources->source[i])) {
            sources->source[i]->due_us = 0;
        }
    }
    set_timer(sources);
    return error;
}

int
control_sources_open(struct control *control)
{
    struct control_sources *sources = calloc(1, sizeof *sources);

    if (sources == NULL) {
        return -ENOMEM;
    }
    sources->control = control;
    (void)uv_timer_init(&control->loop, &sources->timer); /* cannot fail */
    sources->timer.data = sources;
    control->sources = sources;
    return take_config(sources, control->node->config);
}

static void
on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void
control_sources_close(struct control *control)
{
    struct control_sources *sources = control->sources;

    if (sources == NULL) {
        return;
    }
    control->sources = NULL;
    resolve_free(sources->resolve);
    for (uint32_t i = 0; i < sources->count; i++) {
        drop(sources->source[i]);
    }
    uv_close((uv_handle_t *)&sources->timer, on_timer_closed);
}

static bool
has(const struct config *config, const char *from)
{
    for (uint32_t i = 0; i < config->workers_count; i++) {
        if (strcmp(config->workers[i].from, from) == 0) {
            return true;
        }
    }
    return false;
}

void
control_sources_reload(struct control *control, const struct config *config)
{
    struct control_sources *sources = control->sources;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < sources->count; i++) {
        struct control_source *source = sources->source[i];
        if (has(config, source->like.from)) {
            sources->source[kept++] = source;
        } else {
            source_remove_all(source);
            drop(source);
        }
    }
    sources->count = kept;
    if (take_config(sources, config) != 0) {
        LOG_WARNING("worker_sources_incomplete", KV("why", "out of memory"),
                    KV("hint", "reload again once there is memory"));
    }
}
