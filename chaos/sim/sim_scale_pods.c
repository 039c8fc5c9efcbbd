/* Engines that are pods of a StatefulSet, which is imitated. */
#include <stdio.h>

#include "chaos/sim/sim_scale_internal.h"

void
sim_pods_key(uint32_t number, char key[SCALE_KEY_MAX])
{
    (void)snprintf(key, SCALE_KEY_MAX, "pod-%u", number);
}

bool
sim_pods_known(const struct sim_world *w, uint32_t node,
               const struct sim_made *made)
{
    const struct roster *roster = cluster_roster(w->nodes[node].cluster);
    struct scale_record record;
    struct roster_entry entry;

    for (uint32_t at = 0; roster_get(roster, at, &entry); at++) {
        if (scale_job_key(entry.id) != NULL && !entry.removed &&
            scale_record_get(entry.spec, &record) &&
            record.number == made->number) {
            return true;
        }
    }
    return false;
}

static bool
is_nobodys(const struct sim_world *w, const struct sim_made *made)
{
    bool known = false;

    for (uint32_t i = 0; i < w->nodes_count && !known; i++) {
        known = w->nodes[i].up && sim_pods_known(w, i, made);
    }
    return !known;
}

/* Calls */

static void
set(struct sim_world *w, const struct sim_scale_call *c)
{
    struct sim_scale *s = w->scale;
    char key[SCALE_KEY_MAX];

    s->version++;
    for (uint32_t n = c->replicas; n < s->replicas; n++) {
        sim_pods_key(n, key);
        sim_scale_end_engine(w, sim_scale_find(s, key), c);
    }
    for (uint32_t n = s->replicas; n < c->replicas; n++) {
        sim_pods_key(n, key);
        struct sim_made *made = sim_scale_make(w, key, true);
        made->number = n;
        made->lost = is_nobodys(w, made);
    }
    s->replicas = c->replicas;
}

void
sim_pods_arrive(struct sim_world *w, struct sim_scale_call *c)
{
    struct sim_scale *s = w->scale;

    c->well = !c->put || c->version == s->version;
    if (!c->put) {
        c->replicas = s->replicas;
        c->version = s->version;
    } else if (c->well) {
        set(w, c);
    }
}

bool
sim_pods_go_on(struct sim_scale_call *c)
{
    struct kube_scale scale = {.replicas = c->replicas};

    if (!c->well || c->put) {
        return false;
    }
    enum kube_scale_do what = kube_scale_next(&scale, c->provision, c->number);
    c->replicas = scale.replicas;
    c->put = what == KUBE_SCALE_SET;
    c->well = what == KUBE_SCALE_DONE;
    return c->put;
}

/* What the call was about is so still. */
bool
sim_pods_holds(const struct sim_scale *s, const struct sim_scale_call *c,
               const struct scale_job *job)
{
    const struct scale_seat *seat = &s->seat[c->node];

    return scale_pods_of(seat->job, seat->count, "", c->number) == job &&
           (c->provision || !scale_pods_waits(seat->job, seat->count, job));
}

/* A node's turn */

static void
forget(struct sim_world *w, uint32_t node, const struct scale_job *job)
{
    const struct scale_seat *seat = &w->scale->seat[node];
    struct roster *roster = cluster_roster(w->nodes[node].cluster);
    const struct scale_job *other =
        scale_pods_of(seat->job, seat->count, "", job->record.number);
    uint64_t now = sim_now(w, node);

    if (other->record.state < SCALE_DRAINS && job->record.worker[0] != '\0') {
        CHECK(roster_drain(roster, job->record.worker, false, now) >= 0);
    }
    CHECK(scale_seat_forget(job, w->nodes[node].cluster, now) >= 0);
}

enum scale_do
sim_pods_next(struct sim_world *w, uint32_t node, const struct scale_job *job,
              const struct scale_facts *facts, enum scale_do what)
{
    const struct scale_seat *seat = &w->scale->seat[node];

    switch (scale_pods_next(seat->job, seat->count, job, facts, facts->ready)) {
    case SCALE_POD_KEEP:
        return what;
    case SCALE_POD_BACK:
        return SCALE_DO_WORK;
    case SCALE_POD_STAY:
        return SCALE_DO_NOTHING;
    case SCALE_POD_FORGET:
    default:
        forget(w, node, job);
        return SCALE_DO_NOTHING;
    }
}

bool
sim_pods_gap(struct sim_world *w, uint32_t node)
{
    const struct scale_seat *seat = &w->scale->seat[node];
    const struct scale_job *above = scale_pods_gap(seat->job, seat->count, "");

    return above != NULL &&
           scale_seat_facts(seat, w->nodes[node].cluster, above,
                            w->nodes_count / 2 + 1, sim_now(w, node))
               .kept;
}

void
sim_pods_begin_exam(struct sim_world *w)
{
    struct sim_scale *s = w->scale;
    struct sim_scale_call all = {.replicas = s->replicas};

    for (uint32_t m = 0; m < s->made_count; m++) {
        s->made[m].there_us = w->time.now_us;
    }
    for (bool nobodys = true; nobodys && all.replicas > 0;) {
        char key[SCALE_KEY_MAX];
        sim_pods_key(all.replicas - 1, key);
        nobodys = sim_scale_find(s, key)->lost &&
                  !sim_pods_known(w, 0, sim_scale_find(s, key));
        all.replicas -= nobodys;
    }
    if (all.replicas != s->replicas) {
        set(w, &all);
    }
}
