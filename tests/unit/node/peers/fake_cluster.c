/* The functions of mesh/cluster.h, which note each call. */
#include "fake_cluster.h"

#include <criterion/criterion.h>

#include "mesh/member_internal.h"

static struct cluster the_cluster;

struct cluster *
fake_cluster(void)
{
    the_cluster = (struct cluster){.deadline_us = UINT64_MAX};
    return &the_cluster;
}

void
fake_cluster_push(struct cluster *cluster, const struct cluster_out *out)
{
    cr_assert_lt(cluster->outs_count, FAKE_OUTS_MAX);
    cluster->outs[cluster->outs_count++] = *out;
}

uint32_t
fake_cluster_calls(const struct cluster *cluster, enum fake_call_kind kind)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < cluster->calls_count; i++) {
        count += cluster->calls[i].kind == kind;
    }
    return count;
}

static void
note(struct cluster *cluster, enum fake_call_kind kind, uint64_t subject,
     uint64_t number)
{
    cr_assert_lt(cluster->calls_count, FAKE_CALLS_MAX);
    cluster->calls[cluster->calls_count++] =
        (struct fake_call){.kind = kind,
                           .subject = subject,
                           .number = number,
                           .early = cluster->outs_first != cluster->outs_count};
}

struct cluster_config
cluster_config_default(void)
{
    return (struct cluster_config){.replicas = 7};
}

int
cluster_new(struct cluster **out, const struct cluster_config *config,
            const struct member_self *self, uint64_t now_us, uint64_t seed)
{
    (void)now_us;
    (void)seed;
    the_cluster.config = *config;
    the_cluster.self = *self;
    note(&the_cluster, FAKE_NEW, 0, 0);
    *out = &the_cluster;
    return 0;
}

void
cluster_free(struct cluster *cluster)
{
    (void)cluster;
}

int
cluster_join(struct cluster *cluster, const struct discover_join *join,
             uint64_t now_us)
{
    (void)cluster;
    (void)join;
    (void)now_us;
    return 0;
}

int
cluster_worker_add(struct cluster *cluster, uint64_t worker, uint32_t ranks,
                   const struct island_path *island, uint64_t now_us)
{
    (void)now_us;
    (void)island;
    note(cluster, FAKE_ADD, worker, ranks);
    return cluster->add_outcome;
}

void
cluster_worker_remove(struct cluster *cluster, uint64_t worker, uint64_t now_us)
{
    (void)now_us;
    note(cluster, FAKE_REMOVE, worker, 0);
}

void
cluster_unable(struct cluster *cluster, uint64_t worker, bool unable,
               uint64_t now_us)
{
    (void)now_us;
    note(cluster, FAKE_UNABLE, worker, unable);
}

void
cluster_link_up(struct cluster *cluster, const char *address, uint64_t session,
                uint64_t now_us)
{
    (void)cluster;
    (void)address;
    (void)session;
    (void)now_us;
}

void
cluster_link_down(struct cluster *cluster, const char *address, uint64_t now_us)
{
    (void)cluster;
    (void)address;
    (void)now_us;
}

int
cluster_recv(struct cluster *cluster, uint64_t session, struct slice body,
             uint64_t now_us)
{
    (void)cluster;
    (void)session;
    (void)body;
    (void)now_us;
    return 0;
}

void
cluster_answered(struct cluster *cluster, const struct discover_answer *answer,
                 uint64_t now_us)
{
    (void)now_us;
    note(cluster, FAKE_ANSWERED, answer->ticket, answer->outcome);
}

void
cluster_leave(struct cluster *cluster, uint64_t now_us)
{
    (void)now_us;
    note(cluster, FAKE_LEAVE, 0, 0);
}

void
cluster_tick(struct cluster *cluster, uint64_t now_us)
{
    (void)now_us;
    cluster->deadline_us = UINT64_MAX;
    note(cluster, FAKE_TICK, 0, 0);
}

uint64_t
cluster_deadline(const struct cluster *cluster)
{
    if (cluster->deadline_asks != NULL) {
        (*cluster->deadline_asks)++;
    }
    return cluster->deadline_us;
}

bool
cluster_next_out(struct cluster *cluster, struct cluster_out *out)
{
    if (cluster->outs_first == cluster->outs_count) {
        return false;
    }
    *out = cluster->outs[cluster->outs_first++];
    return true;
}

const struct member_table *
cluster_members(const struct cluster *cluster)
{
    static const struct member_table nobody;

    (void)cluster;
    return &nobody;
}

struct gossip *
cluster_gossip(struct cluster *cluster)
{
    (void)cluster;
    return NULL;
}

const char *
cluster_ready_name(enum cluster_ready ready)
{
    (void)ready;
    return "ready";
}
