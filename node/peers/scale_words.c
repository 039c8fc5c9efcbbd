/* Words for the lease: to gossip, and back. */
#include "node/peers/scale_words.h"

#include <string.h>

#include "index/base/rng.h"

#define WORD_ROW   UINT64_C(0x7363616c6577) /* "scalew": holder, epoch, round */
#define DIGEST_ROW UINT64_C(0x7363616c6564) /* "scaled" */
#define REACH_SALT UINT64_C(0x72656163680000) /* "reach" */

_Static_assert(SCALE_VOTERS_MAX >= GOSSIP_PEERS_MAX, "a place for each peer");

static uint64_t
reach_row(const char *worker)
{
    return rng_mix(key_digest(slice_of(worker)) ^ REACH_SALT);
}

void
scale_words_tell(struct cluster *cluster, const struct scale_word *word,
                 uint64_t now_us)
{
    struct gossip *gossip = cluster_gossip(cluster);
    const struct gossip_gauge rows[2] = {
        {.inflight = word->round,
         .blocks = word->epoch,
         .queued_tokens = word->holder},
        {.queued_tokens = roster_digest(cluster_roster(cluster))},
    };

    (void)gossip_gauge_set(gossip, WORD_ROW, &rows[0], now_us);
    (void)gossip_gauge_set(gossip, DIGEST_ROW, &rows[1], now_us);
}

bool
scale_words_tell_reach(struct cluster *cluster, const char *worker,
                       bool reaches, uint64_t now_us)
{
    const struct gossip_gauge row = {.inflight = reaches};

    return gossip_gauge_set(cluster_gossip(cluster), reach_row(worker), &row,
                            now_us);
}

bool
scale_words_hear_reach(struct cluster *cluster, const char *worker)
{
    return gossip_gauge_others(cluster_gossip(cluster), reach_row(worker))
               .inflight != 0;
}

static void
hear_voters(struct cluster *cluster, struct scale_words *words)
{
    struct gossip *gossip = cluster_gossip(cluster);
    struct gossip_gauge_peer word;
    struct gossip_gauge_peer digest;

    for (uint32_t place = 0; place < GOSSIP_PEERS_MAX; place++) {
        if (!gossip_gauge_of(gossip, place, WORD_ROW, &word) || !word.told ||
            !gossip_gauge_of(gossip, place, DIGEST_ROW, &digest)) {
            continue;
        }
        const char *name = cluster_peer_name(cluster, word.peer);
        if (name == NULL) {
            continue;
        }
        words->voter[words->count++] = (struct scale_voter){
            .name = owner_name(name),
            .digest = digest.gauge.queued_tokens,
            .word = {.holder = word.gauge.queued_tokens,
                     .epoch = word.gauge.blocks,
                     .round = word.gauge.inflight},
        };
    }
}

static bool
knows(const struct scale_words *words, uint64_t name)
{
    for (uint32_t i = 0; i < words->count; i++) {
        if (words->voter[i].name == name &&
            words->voter[i].digest == words->digest) {
            return true;
        }
    }
    return false;
}

void
scale_words_hear(struct cluster *cluster, struct scale_words *words)
{
    const struct event_stream seat = {.worker = key_digest(SLICE("scale"))};
    const struct member_table *members = cluster_members(cluster);
    struct member_info member;
    uint64_t most = 0;

    *words = (struct scale_words){
        .digest = roster_digest(cluster_roster(cluster)), .all_know = true};
    hear_voters(cluster, words);
    for (uint32_t at = 0; member_get(members, at, &member); at++) {
        uint64_t name = owner_name(member.update.name);
        uint64_t weight = owner_weight(name, &seat);
        bool lives = member.update.state == MEMBER_ALIVE ||
                     member.update.state == MEMBER_SUSPECT;
        if (lives && (words->actor[0] == '\0' || weight > most)) {
            most = weight;
            words->first = member.self;
            memcpy(words->actor, member.update.name, sizeof words->actor);
        }
        if (!member.self && member.update.state != MEMBER_LEFT) {
            words->all_know = words->all_know && knows(words, name);
        }
    }
}
