/* POST /admin/workers: a JSON object with the keys of one worker, and a ttl if
 * the engine announces itself. */
#include <stdio.h>

#include "node/config/config_access.h"
#include "node/control/admin.h"
#include "node/control/control_announced.h"
#include "node/control/control_roster.h"
#include "node/text/json_pull.h"

#define VALUE_MAX 512U

/* Errors come as lines; an answer has room for the first. */
static void
first_line(const struct config_errors *errors, char fault[ADMIN_FAULT_MAX])
{
    struct slice rest = {errors->text.ptr, errors->text.len};
    struct slice line = slice_take(&rest, '\n');

    (void)snprintf(fault, ADMIN_FAULT_MAX, "%.*s", (int)line.len,
                   line.len != 0 ? line.ptr : "");
}

/* One line, as the configuration's are. */
static bool
refuse_member(struct config_errors *errors, const char *key, const char *why)
{
    buf_printf(&errors->text, "worker: %s: %s\n", key, why);
    errors->count++;
    return false;
}

static bool
take_ttl(struct slice text, uint32_t *ttl_ms, struct config_errors *errors)
{
    if (*ttl_ms != 0) {
        return refuse_member(errors, "ttl", "appears twice");
    }
    return control_announced_ttl(text, ttl_ms) ||
           refuse_member(errors, "ttl", "expected a duration from 1s to 1h");
}

/* One member of the object: true while all is well. */
static bool
take_member(struct json_pull *pull, struct config_worker *worker,
            uint32_t *ttl_ms, uint64_t *seen, struct config_errors *errors)
{
    char key[64];
    char value[VALUE_MAX];
    int key_len = json_pull_copy(pull, key, sizeof(key));
    enum pull_token token = json_pull_next(pull);
    int value_len = token == PULL_STRING || token == PULL_NUMBER
                        ? json_pull_copy(pull, value, sizeof(value))
                        : -1;

    if (key_len < 0) {
        return refuse_member(errors, "a key",
                             "expected one of at most 63 bytes");
    }
    if (value_len < 0) {
        return refuse_member(errors, key,
                             "expected a text of at most 511 bytes");
    }
    struct slice name = {.ptr = key, .len = (size_t)key_len};
    struct slice text = {.ptr = value, .len = (size_t)value_len};
    if (slice_equal(name, SLICE("ttl"))) {
        return take_ttl(text, ttl_ms, errors);
    }
    (void)config_worker_set_once(worker, name, text, "worker", seen, errors);
    return errors->count == 0;
}

static bool
read_worker(struct slice body, struct config_worker *worker, uint32_t *ttl_ms,
            struct config_errors *errors)
{
    struct json_pull pull;
    enum pull_token token;
    uint64_t seen = 0;

    json_pull_init(&pull, body);
    if (json_pull_next(&pull) != PULL_OBJECT) {
        return false;
    }
    while ((token = json_pull_next(&pull)) == PULL_KEY) {
        if (!take_member(&pull, worker, ttl_ms, &seen, errors)) {
            return false;
        }
    }
    return token == PULL_OBJECT_END && json_pull_next(&pull) == PULL_END &&
           config_worker_end(worker, "worker", errors) == 0;
}

static unsigned ON_CONTROL
add(struct control *control, const struct config_worker *worker,
    uint32_t ttl_ms, char fault[ADMIN_FAULT_MAX])
{
    const struct ranges *deny = &control->node->config->workers_deny;

    if (worker->url.host[0] == '\0') {
        (void)snprintf(fault, ADMIN_FAULT_MAX,
                       "what names other workers belongs into the "
                       "configuration");
        return 400;
    }
    if (config_access_denies(deny, worker, fault)) {
        return 403;
    }
    if (control->access.joins && ttl_ms == 0) {
        (void)snprintf(fault, ADMIN_FAULT_MAX,
                       "an engine's token (join) wants a ttl, from 1s to 1h");
        return 403;
    }
    int outcome = ttl_ms != 0 ? control_announce(control, worker, ttl_ms)
                              : control_roster_put(control, worker);
    switch (outcome) {
    case 0:
        return 0;
    case FLEET_E_DUPLICATE_ID:
        (void)snprintf(fault, ADMIN_FAULT_MAX,
                       "a worker with this id is present");
        return 409;
    case FLEET_E_DUPLICATE_URL:
        (void)snprintf(fault, ADMIN_FAULT_MAX,
                       "a worker with this url is present");
        return 409;
    case FLEET_E_FULL:
        (void)snprintf(fault, ADMIN_FAULT_MAX, "all %u slots are taken",
                       WORKERS_MAX);
        return 503;
    default:
        (void)snprintf(fault, ADMIN_FAULT_MAX, "out of memory");
        return 503;
    }
}

unsigned
admin_add_worker(struct control *control, struct slice body,
                 char id[CONFIG_LABEL_MAX], uint32_t *ttl_ms,
                 char fault[ADMIN_FAULT_MAX])
{
    struct config_errors errors;
    struct config_worker worker = {.ranks = 1,
                                   .bootstrap_port = CONFIG_BOOTSTRAP_PORT};
    unsigned status = 400;

    *ttl_ms = 0;
    config_errors_init(&errors);
    if (read_worker(body, &worker, ttl_ms, &errors)) {
        status = add(control, &worker, *ttl_ms, fault);
    } else if (errors.count != 0) {
        first_line(&errors, fault);
    } else {
        (void)snprintf(fault, ADMIN_FAULT_MAX,
                       "expected a JSON object of strings: url, and perhaps "
                       "id, events, replay, island, pool, role, ttl");
    }
    memcpy(id, worker.id, sizeof worker.id);
    config_errors_fini(&errors);
    return status;
}
