/* What names workers while a node runs: a worker of the list with a `from`. */
#include "node/config/config_from_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "index/base/ascii.h"
#include "node/config/config_schema.h"
#include "node/text/quote.h"

#define WANT_FROM                             \
    "dns:NAME:PORT, srv:NAME, file:/PATH or " \
    "kube:[NAMESPACE:]LABEL=VALUE:PORT, "     \
    "a name and no address"

static const char file_prefix[] = "file:";

bool
config_from_is(struct slice text)
{
    static const struct slice starts[] = {
        {"dns:", 4}, {"srv:", 4}, {"file:", 5}, {"kube:", 5}};

    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        struct slice start = {text.ptr, starts[i].len};
        if (text.len >= start.len && slice_equal(start, starts[i])) {
            return true;
        }
    }
    return false;
}

enum config_from
config_from(const struct config_worker *worker, struct discover_join *join,
            const char **path)
{
    size_t prefix = sizeof file_prefix - 1;
    struct slice text = slice_of(worker->from);
    struct discover_join scratch;
    struct config_kube kube;

    if (!config_from_is(text)) {
        return CONFIG_FROM_NONE;
    }
    if (text.ptr[0] == 'k') {
        return config_from_kube(worker, &kube) ? CONFIG_FROM_KUBE
                                               : CONFIG_FROM_NONE;
    }
    if (strncmp(worker->from, file_prefix, prefix) == 0) {
        if (path != NULL) {
            *path = worker->from + prefix;
        }
        return worker->from[prefix] == '/' ? CONFIG_FROM_FILE
                                           : CONFIG_FROM_NONE;
    }
    join = join != NULL ? join : &scratch;
    return discover_parse(text, join) == NULL && join->kind != DISCOVER_ADDRESS
               ? CONFIG_FROM_DNS
               : CONFIG_FROM_NONE;
}

/* Its id is what `from` says, as far as ids may say it. */
static void
name_it(struct config_worker *source)
{
    size_t len = strlen(source->from);
    size_t kept = CONFIG_LABEL_MAX - 1;
    uint64_t hash = 14695981039346656037U; /* FNV-1a: equal on all nodes */

    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ (unsigned char)source->from[i]) * 1099511628211U;
        if (i < kept) {
            char c = source->from[i];
            bool fits = ascii_is_digit(c) || strchr("._:@-", c) != NULL ||
                        (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z');
            source->id[i] = fits ? c : '_';
        }
    }
    source->id[len < kept ? len : kept] = '\0';
    if (len > kept) {
        (void)snprintf(source->id + kept - 17, 18, "-%016" PRIx64, hash);
    }
}

/* A file says all of its workers itself. */
static const char *
said_beside(const struct config_worker *worker)
{
    struct buf value;
    const char *said = NULL;

    buf_init(&value, 4096);
    for (size_t i = 0; i < config_schema_worker.count && said == NULL; i++) {
        const struct config_key *key = &config_schema_worker.keys[i];
        buf_clear(&value);
        config_value_print(key, worker, &value);
        if (strcmp(key->name, "id") != 0 && i != CONFIG_WORKER_FROM &&
            !slice_equal(buf_slice(&value), slice_of(key->fallback))) {
            said = key->name;
        }
    }
    buf_fini(&value);
    return said;
}

static bool
is_each(const struct url *url)
{
    return strcmp(url->host, CONFIG_EACH_HOST) == 0;
}

int
config_from_end(struct config_worker *worker, const struct config_place *place,
                struct config_errors *errors)
{
    enum config_from kind = config_from(worker, NULL, NULL);
    char quoted[QUOTE_ROOM];

    CHECK(worker->from[0] != '\0');
    if (worker->url.host[0] != '\0') {
        config_error(errors, place, "a worker has a url or a from, not both");
    } else if (kind == CONFIG_FROM_NONE) {
        config_error(errors, place, "from: expected " WANT_FROM ", not %s",
                     quote_text(slice_of(worker->from), quoted));
    } else if (worker->sse.host[0] != '\0') {
        config_error(errors, place,
                     "sse: each worker has its own, so it "
                     "cannot stand beside from");
    } else if ((worker->events.host[0] != '\0' && !is_each(&worker->events)) ||
               (worker->replay.host[0] != '\0' && !is_each(&worker->replay))) {
        config_error(errors, place,
                     "beside from, events and replay are "
                     "tcp://*:PORT: the host is each worker's");
    } else if (kind == CONFIG_FROM_FILE && said_beside(worker) != NULL) {
        config_error(errors, place, "%s: the file says it, of each worker",
                     said_beside(worker));
    } else {
        if (worker->id[0] == '\0') {
            name_it(worker);
        }
        return 0;
    }
    return CONFIG_E_INVALID;
}

bool
config_from_lacks(const struct config_worker *worker,
                  const struct config_place *place,
                  struct config_errors *errors)
{
    if (is_each(&worker->events) || is_each(&worker->replay)) {
        config_error(errors, place,
                     "tcp://*:PORT is for workers with a from: "
                     "this one has a host, tcp://HOST:PORT");
        return false;
    }
    return true;
}
