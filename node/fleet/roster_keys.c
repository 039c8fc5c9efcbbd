/* API keys by worker, in a table of fixed size. */
#include "node/fleet/roster_keys_internal.h"

#include <string.h>

/* Where the key of that id is, or WORKERS_MAX; of "": a free place. */
static uint32_t
find(const struct roster_keys *keys, const char *id)
{
    uint32_t at = 0;

    CHECK(id != NULL);
    while (at < WORKERS_MAX && strcmp(keys->key[at].id, id) != 0) {
        at++;
    }
    return at;
}

bool
roster_keys_keep(struct roster_keys *keys, const struct config_worker *worker)
{
    uint32_t at = find(keys, worker->id);

    CHECK(worker->id[0] != '\0' && worker->api_key[0] != '\0');
    at = at < WORKERS_MAX ? at : find(keys, "");
    if (at == WORKERS_MAX) {
        return false;
    }
    memcpy(keys->key[at].id, worker->id, sizeof worker->id);
    memcpy(keys->key[at].api_key, worker->api_key, sizeof worker->api_key);
    keys->key[at].url = worker->url;
    keys->key[at].sse = worker->sse;
    return true;
}

static bool
same(const struct url *a, const struct url *b)
{
    return url_equal(a, b) && a->tls == b->tls;
}

bool
roster_keys_suit(const struct url *url, const struct url *sse,
                 const struct config_worker *worker)
{
    return worker->from[0] == '\0' ||
           (same(url, &worker->url) && same(sse, &worker->sse));
}

bool
roster_keys_give(const struct roster_keys *keys, struct config_worker *worker)
{
    uint32_t at = find(keys, worker->id);

    CHECK(worker->id[0] != '\0');
    if (at == WORKERS_MAX ||
        !roster_keys_suit(&keys->key[at].url, &keys->key[at].sse, worker)) {
        return false;
    }
    memcpy(worker->api_key, keys->key[at].api_key, sizeof worker->api_key);
    return true;
}

void
roster_keys_forget(struct roster_keys *keys, const char *id)
{
    uint32_t at = find(keys, id);

    CHECK(id[0] != '\0');
    if (at < WORKERS_MAX) {
        memset(&keys->key[at], 0, sizeof keys->key[at]);
    }
}
