/* Stores named values, or says what was expected and what may have been
 * meant. */
#include "node/config/config_apply_internal.h"

#include <stdlib.h>
#include <string.h>

#include "node/config/config_from_internal.h"
#include "node/config/config_joins_internal.h"
#include "node/text/quote.h"
#include "node/text/typo.h"

/* TensorRT-LLM's events over HTTP; why nodes read none there. */
#define DRAINED_PATH "/kv_cache_events"
#define DRAINED_WHY                                                     \
    DRAINED_PATH " tells each event once, to whoever asks first, so "   \
                 "nodes would take them from each other; the engine's " \
                 "ZeroMQ stream, events=tcp://HOST:PORT, tells all"

static bool
is_drained(struct slice text)
{
    struct slice path = SLICE(DRAINED_PATH);

    return text.len != 0 &&
           memmem(text.ptr, text.len, path.ptr, path.len) != NULL;
}

void
config_apply_value(const struct config_key *key, struct slice text,
                   const struct config_place *place, void *into,
                   struct config_errors *errors)
{
    char quoted[QUOTE_ROOM];
    struct typo typo = {.best = NULL};
    struct buf want;

    CHECK(place->source != NULL);
    if (config_value_set(key, text, into)) {
        return;
    }
    if (key->type == CONFIG_TCP && is_drained(text)) {
        config_error(errors, place, "%s: " DRAINED_WHY, key->name);
        return;
    }
    buf_init(&want, 512);
    config_value_describe(key, text, &want);
    for (size_t i = 0; key->choices != NULL && key->choices[i] != NULL; i++) {
        typo_offer(&typo, text, key->choices[i]);
    }
    config_error(errors, place, "%s: expected %.*s, not %s%s%s%s", key->name,
                 (int)want.len, want.ptr,
                 key->type == CONFIG_SECRET ? "this" : quote_text(text, quoted),
                 typo.best != NULL ? " (did you mean " : "",
                 typo.best != NULL ? typo.best : "",
                 typo.best != NULL ? "?)" : "");
    buf_fini(&want);
}

void
config_apply_place(const struct config_key *key, struct slice text,
                   const struct config_place *place, struct config_joins *joins,
                   struct config_errors *errors)
{
    const char *want = config_joins_add(joins, text);
    char quoted[QUOTE_ROOM];

    CHECK(key->type == CONFIG_PLACES);
    if (want != NULL) {
        config_error(errors, place, "%s: expected %s, not %s", key->name, want,
                     quote_text(text, quoted));
    }
}

static void
offer_top(struct typo *typo, struct slice name)
{
    const struct config_section *section;

    for (size_t i = 0; (section = config_schema_section(i)) != NULL; i++) {
        typo_offer(typo, name, section->name);
    }
    typo_offer(typo, name, "workers");
}

/* The full name that was probably meant, or NULL. */
static const char *
probably_meant(const struct config_schema *schema, struct slice section,
               struct slice name)
{
    struct typo typo = {.best = NULL};
    const char *elsewhere = NULL;

    for (size_t i = 0; i < schema->count; i++) {
        const struct config_key *key = &schema->keys[i];
        if (slice_equal(config_key_section(key), section)) {
            typo_offer(&typo, name, config_key_last(key));
        } else if (slice_equal(slice_of(config_key_last(key)), name)) {
            elsewhere = key->name;
        }
    }
    if (section.len == 0 && schema == &config_schema_node) {
        offer_top(&typo, name);
    }
    if (typo.best == NULL) {
        return elsewhere;
    }
    const struct config_key *key =
        config_schema_find_in(schema, section, slice_of(typo.best));
    return key != NULL ? key->name : typo.best;
}

void
config_apply_unknown(const struct config_schema *schema, struct slice section,
                     struct slice name, const struct config_place *place,
                     struct config_errors *errors)
{
    char quoted[QUOTE_ROOM];
    const char *meant = config_errors_open(errors)
                            ? probably_meant(schema, section, name)
                            : NULL;

    config_error(errors, place, "unknown key %s%s%.*s%s%s%s",
                 quote_text(name, quoted), section.len != 0 ? " in " : "",
                 (int)section.len, section.len != 0 ? section.ptr : "",
                 meant != NULL ? ", did you mean " : "",
                 meant != NULL ? meant : "", meant != NULL ? "?" : "");
}

static bool
is_repeated(const struct config *config, const struct config_worker *worker,
            const struct config_place *place, struct config_errors *errors)
{
    char text[URL_TEXT_MAX];

    uint32_t sources = 0;

    for (uint32_t i = 0; i < config->workers_count; i++) {
        const struct config_worker *other = &config->workers[i];
        sources += other->from[0] != '\0';
        if (worker->url.host[0] != '\0' &&
            url_equal(&other->url, &worker->url)) {
            config_error(errors, place, "two workers have the url %s%s%s",
                         url_scheme(&worker->url),
                         url_authority(&worker->url, text), worker->url.path);
            return true;
        }
        if (strcmp(other->id, worker->id) == 0) {
            config_error(errors, place, "two workers have the id %s",
                         worker->id);
            return true;
        }
        if (worker->from[0] != '\0' && strcmp(other->from, worker->from) == 0) {
            config_error(errors, place, "%s appears twice", worker->from);
            return true;
        }
    }
    if (worker->from[0] != '\0' && sources == CONFIG_SOURCES_MAX) {
        config_error(errors, place, "more than %d workers with from",
                     CONFIG_SOURCES_MAX);
        return true;
    }
    return false;
}

void
config_apply_worker(struct config *config, const struct config_worker *worker,
                    const struct config_place *place,
                    struct config_errors *errors)
{
    uint32_t count = config->workers_count;

    CHECK(count <= CONFIG_WORKERS_MAX);
    CHECK((worker->url.host[0] != '\0') != (worker->from[0] != '\0'));
    CHECK(worker->id[0] != '\0');
    if (is_repeated(config, worker, place, errors)) {
        return;
    }
    if (count == CONFIG_WORKERS_MAX) {
        config_error(errors, place, "more than %u workers", CONFIG_WORKERS_MAX);
        return;
    }
    struct config_worker *grown =
        realloc(config->workers, (count + 1) * sizeof *grown);
    if (grown == NULL) {
        config_error(errors, place, "out of memory");
        return;
    }
    config->workers = grown;
    config->workers[count] = *worker;
    config->workers_count = count + 1;
}

void
config_apply_no_workers(struct config *config)
{
    free(config->workers);
    config->workers = NULL;
    config->workers_count = 0;
}

int
config_worker_set(struct config_worker *worker, struct slice key,
                  struct slice value, const char *where,
                  struct config_errors *errors)
{
    struct config_place place = {.source = where};
    uint32_t before = errors->count;
    const struct config_key *found =
        config_schema_find(&config_schema_worker, key);

    if (found != NULL) {
        config_apply_value(found, value, &place, worker, errors);
    } else {
        config_apply_unknown(&config_schema_worker, SLICE(""), key, &place,
                             errors);
    }
    return errors->count == before ? 0 : CONFIG_E_INVALID;
}

int
config_worker_set_once(struct config_worker *worker, struct slice key,
                       struct slice value, const char *where, uint64_t *seen,
                       struct config_errors *errors)
{
    const struct config_key *found =
        config_schema_find(&config_schema_worker, key);

    if (found != NULL) {
        uint64_t bit = UINT64_C(1) << (found - config_schema_worker.keys);
        if ((*seen & bit) != 0) {
            config_fault(errors, where, "%s appears twice", found->name);
            return CONFIG_E_INVALID;
        }
        *seen |= bit;
    }
    return config_worker_set(worker, key, value, where, errors);
}

/* Clients are given http://HOST:PORT/v1, but requests have that in their own
 * paths. What is left is read alike when it comes back from a peer. */
static void
take_off_v1(struct url *url)
{
    struct slice path = slice_of(url->path);
    size_t before;

    do {
        before = path.len;
        if (path.len >= 3 && memcmp(path.ptr + path.len - 3, "/v1", 3) == 0) {
            path.len -= 3;
        } else if (path.len != 0 && path.ptr[path.len - 1] == '/') {
            path.len--;
        }
    } while (path.len != before);
    url->path[path.len] = '\0';
}

/* What is wrong with its sources of events, or NULL. */
static const char *
events_fault(const struct config_worker *worker)
{
    bool nats = url_is_nats(&worker->events);

    if (worker->replay.host[0] != '\0' && worker->events.host[0] == '\0') {
        return "replay repeats events: a worker with replay needs events, "
               "tcp://HOST:PORT";
    }
    if (worker->replay.host[0] != '\0' &&
        (url_is_nats(&worker->replay) != nats ||
         worker->replay.tls != worker->events.tls)) {
        return "events and replay are both tcp://, both nats:// or both tls://";
    }
    if (nats && worker->topic[0] != '\0') {
        return "topic is of ZeroMQ: events by NATS have a subject";
    }
    return is_drained(slice_of(worker->sse.path)) ? "sse: " DRAINED_WHY : NULL;
}

int
config_worker_end(struct config_worker *worker, const char *where,
                  struct config_errors *errors)
{
    struct config_place place = {.source = where};
    char authority[URL_TEXT_MAX];

    if (worker->url.host[0] == '\0' && worker->from[0] == '\0') {
        config_error(errors, &place, "a worker needs a url, http://HOST:PORT");
        return CONFIG_E_INVALID;
    }
    const char *fault = events_fault(worker);
    if (fault != NULL) {
        config_error(errors, &place, "%s", fault);
        return CONFIG_E_INVALID;
    }
    if (worker->from[0] != '\0') {
        return config_from_end(worker, &place, errors);
    }
    if (!config_from_lacks(worker, &place, errors)) {
        return CONFIG_E_INVALID;
    }
    take_off_v1(&worker->url);
    if (worker->id[0] != '\0') {
        return 0;
    }
    size_t len = strlen(url_authority(&worker->url, authority));
    if (len >= sizeof worker->id) {
        config_error(errors, &place,
                     "a worker with so long a host name needs an id");
        return CONFIG_E_INVALID;
    }
    memcpy(worker->id, authority, len + 1);
    return 0;
}

int
config_parse_worker(struct slice text, const char *where,
                    struct config_worker *worker, struct config_errors *errors)
{
    uint32_t before = errors->count;
    char quoted[QUOTE_ROOM];
    uint64_t seen = UINT64_C(1) << CONFIG_WORKER_URL;

    *worker = (struct config_worker){.ranks = 1,
                                     .bootstrap_port = CONFIG_BOOTSTRAP_PORT};
    struct slice first = slice_take(&text, ',');
    (void)config_worker_set(
        worker, config_from_is(first) ? SLICE("from") : SLICE("url"), first,
        where, errors);
    while (text.len != 0 && errors->count == before) {
        struct slice value = slice_take(&text, ',');
        struct slice name = slice_take(&value, '=');
        if (value.ptr == NULL) {
            config_fault(errors, where, "expected KEY=VALUE, not %s",
                         quote_text(name, quoted));
        } else {
            (void)config_worker_set_once(worker, name, value, where, &seen,
                                         errors);
        }
    }
    return errors->count == before ? config_worker_end(worker, where, errors)
                                   : CONFIG_E_INVALID;
}
