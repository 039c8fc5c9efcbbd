/* Counts the time of engines that announce themselves. */
#include "node/control/control_announced.h"

#include <stdio.h>
#include <string.h>

#include "node/base/log.h"
#include "node/config/config_schema.h"
#include "node/control/control.h"
#include "node/control/control_roster.h"

#define LOOK_US   UINT64_C(200000)
#define ANNOUNCED "announced:"

static struct control_lease *
find(struct control_announced *announced, const char *id)
{
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        if (strcmp(announced->lease[i].id, id) == 0) {
            return &announced->lease[i];
        }
    }
    return NULL;
}

bool
control_announced_ttl(struct slice text, uint32_t *ttl_ms)
{
    static const struct config_key key = {
        .name = "ttl", .type = CONFIG_DURATION, .min = 1000, .max = 3600000};

    return config_value_set(&key, text, ttl_ms);
}

/* What an announced worker's `from` says. False: it was not announced. */
static bool
read_from(const struct config_worker *worker, uint32_t *ttl_ms,
          const char **node)
{
    struct slice rest = slice_of(worker->from);

    if (!slice_skip_text(&rest, SLICE(ANNOUNCED))) {
        return false;
    }
    struct slice ttl = slice_take(&rest, ':');
    *node = rest.ptr;
    return rest.len != 0 && control_announced_ttl(ttl, ttl_ms);
}

/* Its time begins now. There are as many places as workers. */
static void
begin(struct control *control, const char *id, uint32_t ttl_ms)
{
    struct control_announced *announced = &control->announced;
    struct control_lease *lease = find(announced, id);

    lease = lease != NULL ? lease : find(announced, "");
    if (lease != NULL) {
        (void)snprintf(lease->id, sizeof lease->id, "%s", id);
        lease->due_us = control_now_us() + (uint64_t)ttl_ms * 1000;
    }
}

int
control_announce(struct control *control, const struct config_worker *worker,
                 uint32_t ttl_ms)
{
    uint32_t slot = fleet_find(control->fleet, slice_of(worker->id));
    struct config_worker named = *worker;
    struct fleet_status status;
    const char *node;
    uint32_t before_ms;
    int outcome = 0;

    CHECK(worker->id[0] != '\0' && ttl_ms != 0);
    (void)snprintf(named.from, sizeof named.from, ANNOUNCED "%ums:%s", ttl_ms,
                   control->node->config->name);
    if (slot == WORKER_NONE || !fleet_status(control->fleet, slot, &status)) {
        outcome = control_roster_put(control, &named);
    } else if (!read_from(status.config, &before_ms, &node)) {
        return FLEET_E_DUPLICATE_ID;
    } else if (!control_roster_has(control, &named)) {
        outcome = control_roster_renew(control, &named);
    }
    if (outcome == 0) {
        begin(control, named.id, ttl_ms);
    }
    return outcome;
}

/* That node counts: it is a member, and did not say goodbye. A dead one may be
 * alive behind a cut, and hear its engines all the time. */
static bool
counts(const struct control *control, const char *node)
{
    const struct member_table *members =
        cluster_members(control_cluster(control));
    struct member_info member;

    for (uint32_t at = 0; member_get(members, at, &member); at++) {
        if (strcmp(member.update.name, node) == 0) {
            return member.update.state != MEMBER_LEFT;
        }
    }
    return false;
}

static void ON_CONTROL
look_at(struct control *control, const struct config_worker *worker,
        uint64_t now_us)
{
    struct control_lease *lease = find(&control->announced, worker->id);
    char id[CONFIG_LABEL_MAX];
    const char *node;
    uint32_t ttl_ms;

    if (!read_from(worker, &ttl_ms, &node)) {
        return;
    }
    bool ours = strcmp(node, control->node->config->name) == 0;

    if (!ours && counts(control, node)) {
        if (lease != NULL) {
            lease->id[0] = '\0';
        }
        return;
    }
    if (lease == NULL) {
        begin(control, worker->id, ttl_ms);
        return;
    }
    if (now_us >= lease->due_us) {
        LOG_INFO("worker_silent", KV("worker", worker->id),
                 KV("ttl_ms", ttl_ms));
        memcpy(id, worker->id, sizeof id);
        lease->id[0] = '\0';
        (void)!control_roster_remove(control, slice_of(id));
    }
}

/* Of workers that are gone. */
static void
forget(struct control *control)
{
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        struct control_lease *lease = &control->announced.lease[i];
        if (lease->id[0] != '\0' &&
            fleet_find(control->fleet, slice_of(lease->id)) == WORKER_NONE) {
            lease->id[0] = '\0';
        }
    }
}

void
control_announced_look(struct control *control)
{
    uint64_t now_us = control_now_us();
    struct fleet_status status;

    if (now_us < control->announced.looked_us + LOOK_US) {
        return;
    }
    control->announced.looked_us = now_us;
    forget(control);
    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        if (fleet_status(control->fleet, slot, &status)) {
            look_at(control, status.config, now_us);
        }
    }
}
