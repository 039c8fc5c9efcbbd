/* The door of the cluster: inputs, and when the next tick is due. */
#include "mesh/cluster.h"

#include <errno.h>
#include <stdlib.h>

#include "index/base/mutant.h"
#include "mesh/cluster_internal.h"

_Static_assert(OWNER_NO_RANK == GOSSIP_RANK_NONE, "one word for no rank");

struct cluster_config
cluster_config_default(void)
{
    struct cluster_config config = {
        .member = member_config_default(),
        .discover = discover_config_default(),
        .gossip = gossip_config_default(),
        .roster = roster_config_default(),
        .replicas = 2,
        .replicas_all = 2,
        .hand_over_ms = 5000,
        .alone_ms = 5000,
        .ready_ms = 30000,
    };

    config.gossip.frame_bytes = (uint32_t)CLUSTER_BODY_MAX - 64;
    return config;
}

static int
make_parts(struct cluster *c, const struct member_self *self, uint64_t seed)
{
    const struct cluster_config *config = &c->config;
    int rc = member_new(&c->members, &config->member, self, c->now_us,
                        rng_mix(seed));

    CHECK(c->self != 0 && c->gossip == NULL && c->roster == NULL);
    if (rc == 0) {
        rc = gossip_new(&c->gossip, &config->gossip, c->self, c->now_us,
                        rng_mix(seed + 1));
    }
    if (rc == 0) {
        rc = roster_new(&c->roster, &config->roster, c->now_us,
                        rng_mix(seed + 2));
    }
    discover_init(&c->discover, &config->discover, c->now_us,
                  rng_mix(seed + 3));
    c->claims_bytes = malloc(cluster_claims_size(&config->gossip));
    return c->claims_bytes == NULL ? -ENOMEM : rc;
}

int
cluster_new(struct cluster **out, const struct cluster_config *config,
            const struct member_self *self, uint64_t now_us, uint64_t seed)
{
    struct cluster *c = calloc(1, sizeof *c);

    CHECK(config->replicas > 0 && self->id.word[0] != 0);
    CHECK(out != NULL && now_us != UINT64_MAX);
    CHECK(config->gossip.frame_bytes < CLUSTER_BODY_MAX &&
          config->roster.frame_bytes < CLUSTER_BODY_MAX);
    if (c == NULL) {
        return -ENOMEM;
    }
    c->config = *config;
    c->self = self->id.word[0];
    c->born_us = now_us;
    c->now_us = now_us;
    c->owners_due_us = UINT64_MAX;
    int rc = make_parts(c, self, seed);
    if (rc != 0) {
        cluster_free(c);
        return rc;
    }
    cluster_rows_load(c);
    *out = c;
    return 0;
}

void
cluster_free(struct cluster *c)
{
    if (c == NULL) {
        return;
    }
    cluster_claims_fini(c);
    member_free(c->members);
    gossip_free(c->gossip);
    roster_free(c->roster);
    free(c->workers);
    free(c);
}

/* Sets the time, which never goes back. */
static void
pass(struct cluster *c, uint64_t now_us)
{
    CHECK(now_us != UINT64_MAX);
    c->now_us = now_us > c->now_us ? now_us : c->now_us;
}

int
cluster_join(struct cluster *c, const struct discover_join *join,
             uint64_t now_us)
{
    CHECK(join != NULL);
    pass(c, now_us);
    int rc = discover_add(&c->discover, join, c->now_us);
    c->joins |= rc == 0;
    c->looks = true;
    gossip_await(c->gossip, c->joins, c->now_us);
    return rc;
}

void
cluster_hint(struct cluster *c, const char *address, uint64_t now_us)
{
    CHECK(address != NULL);
    pass(c, now_us);
    c->joins = true;
    cluster_hint_put(c, address);
}

void
cluster_refresh(struct cluster *c)
{
    uint32_t before = c->counted;

    CHECK(!c->left);
    c->dirty = false;
    cluster_rows_load(c);
    cluster_claims_prune(c);
    cluster_peers_sync(c);
    cluster_workers_rank(c);
    CHECK(!c->dirty && c->counted >= 1); /* this node counts */
    if (c->counted != before) {
        discover_members(&c->discover, c->counted, c->now_us);
    }
}

/* A message must come from the process at the other end of its link; anything
 * else is a lie. */
static int
recv_member(struct cluster *c, uint64_t session, struct slice tail)
{
    int rc =
        member_codec_read((const uint8_t *)tail.ptr, tail.len, &c->message);

    CHECK(session != 0 && session != c->self);
    if (rc == MEMBER_CODEC_UNKNOWN) {
        return CLUSTER_E_UNKNOWN;
    }
    if (rc != 0 || c->message.from.id.word[0] != session) {
        return CLUSTER_E_BAD;
    }
    member_recv(c->members, &c->message, c->now_us);
    return 0;
}

static int
recv_gossip(struct cluster *c, uint64_t session, struct slice tail)
{
    int rc = gossip_recv(c->gossip, session, (const uint8_t *)tail.ptr,
                         tail.len, c->now_us);

    CHECK(c->handing <= c->workers_count);
    if (rc == GOSSIP_E_STRANGER) {
        return CLUSTER_E_STRANGER;
    }
    if (c->handing > 0) {
        cluster_workers_heard(c);
    }
    return rc == GOSSIP_E_BAD ? CLUSTER_E_BAD : 0;
}

static int
recv_roster(struct cluster *c, uint64_t session, struct slice tail)
{
    int rc = roster_recv(c->roster, session, (const uint8_t *)tail.ptr,
                         tail.len, c->now_us);

    return rc == ROSTER_E_STRANGER ? CLUSTER_E_STRANGER
           : rc == ROSTER_E_BAD    ? CLUSTER_E_BAD
                                   : 0;
}

static int
dispatch(struct cluster *c, uint64_t session, uint8_t kind, struct slice tail)
{
    CHECK(!c->left && session != 0 && session != c->self);
    switch (kind) {
    case CLUSTER_BODY_MEMBER:
        return recv_member(c, session, tail);
    case CLUSTER_BODY_GOSSIP:
        return recv_gossip(c, session, tail);
    case CLUSTER_BODY_ROSTER:
        return recv_roster(c, session, tail);
    case CLUSTER_BODY_CLAIMS:
        return cluster_claims_recv(c, session, tail);
    default:
        return CLUSTER_E_UNKNOWN;
    }
}

int
cluster_recv(struct cluster *c, uint64_t session, struct slice body,
             uint64_t now_us)
{
    CHECK(body.ptr != NULL || body.len == 0);
    if (c->left) {
        return 0;
    }
    pass(c, now_us);
    c->stats.frames_in++;
    int rc = CLUSTER_E_BAD;
    if (body.len > 0 && session != 0 && session != c->self) {
        struct slice tail = {.ptr = body.ptr + 1, .len = body.len - 1};
        rc = dispatch(c, session, (uint8_t)body.ptr[0], tail);
    }
    c->stats.frames_bad += rc == CLUSTER_E_BAD;
    c->stats.frames_stranger += rc == CLUSTER_E_STRANGER;
    c->stats.frames_unknown += rc == CLUSTER_E_UNKNOWN;
    return rc;
}

void
cluster_answered(struct cluster *c, const struct discover_answer *answer,
                 uint64_t now_us)
{
    CHECK(answer != NULL);
    pass(c, now_us);
    discover_answered(&c->discover, answer, c->now_us);
    c->looks = true;
}

void
cluster_leave(struct cluster *c, uint64_t now_us)
{
    if (!c->left) {
        pass(c, now_us);
        if (!MUTANT(GOODBYE_FIRST)) {
            gossip_flush(c->gossip, c->now_us);
        }
        c->left = true;
        member_leave(c->members, c->now_us);
    }
}

void
cluster_tick(struct cluster *c, uint64_t now_us)
{
    if (c->left) {
        return;
    }
    pass(c, now_us);
    c->ticked = true;
    if (c->now_us >= member_deadline(c->members)) {
        member_tick(c->members, c->now_us);
    }
    if (c->now_us >= discover_deadline(&c->discover)) {
        discover_tick(&c->discover, c->now_us);
        c->looks = true;
    }
    gossip_tick(c->gossip, c->now_us);
    if (c->now_us >= roster_deadline(c->roster)) {
        roster_tick(c->roster, c->now_us);
    }
    cluster_workers_tick(c);
    cluster_claims_tick(c);
}

static uint64_t
earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t
cluster_deadline(const struct cluster *c)
{
    CHECK(c->rows_count <= MEMBERS_MAX && c->workers_count <= c->workers_size);
    if (c->left) {
        return UINT64_MAX;
    }
    uint64_t at =
        earlier(member_deadline(c->members), gossip_deadline(c->gossip));

    at = earlier(at, discover_deadline(&c->discover));
    at = earlier(at, roster_deadline(c->roster));
    at = earlier(at, earlier(c->owners_due_us, cluster_hints_deadline(c)));
    at = earlier(at, cluster_ready_deadline(c));
    return c->version != 0 ? earlier(at, c->claims_us) : at;
}

struct gossip *
cluster_gossip(struct cluster *c)
{
    CHECK(c->gossip != NULL);
    return c->gossip;
}

struct roster *
cluster_roster(struct cluster *c)
{
    CHECK(c->roster != NULL);
    return c->roster;
}

const struct member_table *
cluster_members(const struct cluster *c)
{
    CHECK(c->members != NULL);
    return c->members;
}

const struct discover *
cluster_discover(const struct cluster *c)
{
    return &c->discover;
}

void
cluster_stats(const struct cluster *c, struct cluster_stats *stats)
{
    CHECK(stats != NULL);
    *stats = c->stats;
    stats->reading = 0;
    for (uint32_t i = 0; i < c->workers_count; i++) {
        stats->reading += c->workers[i].reading;
    }
    CHECK(stats->reading <= c->workers_count);
}
