/* A worker as lines of key=value, written and read by the configuration's table. */
#include "node/fleet/roster_spec_internal.h"

#include <string.h>

#include "node/config/config_schema.h"

/* Beside the table's keys; nodes before this one skip it. */
#define LEFT "left"

/* Longer than any value: its bound is that of a spec. */
#define VALUE_BYTES_MAX ROSTER_SPEC_MAX

static bool
travels(const struct config_key *key, bool secrets)
{
    return strcmp(key->name, "id") != 0 &&
           (secrets || key->type != CONFIG_SECRET);
}

static void
put_key(const struct config_key *key, const struct config_worker *worker,
        struct buf *out)
{
    struct buf value;

    buf_init(&value, VALUE_BYTES_MAX);
    config_value_print(key, worker, &value);
    if (value.failed) {
        out->failed = true;
    } else if (!slice_equal(buf_slice(&value), slice_of(key->fallback))) {
        buf_add_text(out, key->name);
        buf_add_text(out, "=");
        buf_add_slice(out, buf_slice(&value));
        buf_add_text(out, "\n");
    }
    buf_fini(&value);
}

void
roster_spec_put(const struct config_worker *worker, bool secrets,
                struct buf *out)
{
    struct config_worker named = *worker;

    CHECK(worker->url.host[0] != '\0');
    named.ranks = named.ranks != 0 ? named.ranks : 1;
    named.bootstrap_port = named.bootstrap_port != 0 ? named.bootstrap_port
                                                     : CONFIG_BOOTSTRAP_PORT;
    for (size_t i = 0; i < config_schema_worker.count; i++) {
        const struct config_key *key = &config_schema_worker.keys[i];
        if (travels(key, secrets)) {
            put_key(key, &named, out);
        }
    }
    if (worker->left) {
        buf_add_text(out, LEFT "=1\n");
    }
}

int
roster_spec_get(const char *id, struct slice spec, bool secrets,
                struct config_worker *worker, struct config_errors *errors)
{
    uint32_t before = errors->count;
    char from[CONFIG_TEXT_MAX];

    CHECK(id != NULL && worker != NULL);
    memset(worker, 0, sizeof *worker);
    config_schema_defaults(&config_schema_worker, worker);
    (void)config_worker_set(worker, SLICE("id"), slice_of(id), "roster",
                            errors);
    while (spec.len != 0) {
        struct slice value = slice_take(&spec, '\n');
        struct slice name = slice_take(&value, '=');
        const struct config_key *key =
            config_schema_find(&config_schema_worker, name);
        worker->left = worker->left || slice_equal(name, SLICE(LEFT));
        if (key != NULL && travels(key, secrets)) {
            (void)config_worker_set(worker, name, value, "roster", errors);
        }
    }
    /* In a list it stands in place of a url, here beside it. */
    memcpy(from, worker->from, sizeof from);
    worker->from[0] = '\0';
    int outcome = errors->count == before
                      ? config_worker_end(worker, "roster", errors)
                      : CONFIG_E_INVALID;
    memcpy(worker->from, from, sizeof from);
    return outcome;
}
