/* Bytes of a token: from the rows to gossip, and back. */
#include "node/peers/hints_text.h"

#define TEXT_SALT UINT64_C(0x746f6b656e627974) /* "tokenbyt" */
#define POOL_SALT UINT64_C(0x7468726573686f6c) /* "threshol" */

static uint64_t
text_identity(uint64_t digest, unsigned kind)
{
    return rng_mix(rng_mix(digest ^ TEXT_SALT) + kind);
}

/* Nothing is told of a kind that there never was. */
static void
tell(struct hints *hints, uint64_t identity, const struct text_told *told,
     uint64_t now_us)
{
    struct gossip_gauge gauge = {.inflight = told->weight,
                                 .blocks = told->mean_milli,
                                 .queued_tokens = told->apart_milli};

    if (told->weight != 0 &&
        !gossip_gauge_set(hints->gossip, identity, &gauge, now_us)) {
        hints->stats.gauges_failed++;
    }
}

static void
hear(const struct hints *hints, uint64_t identity, struct text_ratio *all,
     unsigned kind)
{
    for (uint32_t place = 0; place < GOSSIP_PEERS_MAX; place++) {
        struct gossip_gauge_peer peer;
        if (!gossip_gauge_of(hints->gossip, place, identity, &peer)) {
            continue;
        }
        uint64_t apart = peer.gauge.queued_tokens;
        struct text_told told = {
            .weight = peer.gauge.inflight,
            .mean_milli = peer.gauge.blocks,
            .apart_milli = apart < UINT32_MAX ? (uint32_t)apart : UINT32_MAX};
        text_ratio_join(all, (enum text_kind)kind, &told);
    }
}

void
hints_share_text(struct hints *hints, struct text_model *row, uint64_t now_us)
{
    row->all = row->own;
    for (unsigned kind = 0; kind < TEXT_KINDS && hints->gossip != NULL;
         kind++) {
        uint64_t identity = text_identity(row->digest, kind);
        struct text_told own = text_ratio_told(&row->own, (enum text_kind)kind);
        tell(hints, identity, &own, now_us);
        hear(hints, identity, &row->all, kind);
    }
}

/* What was told once is taken back, too. */
static void
tell_pool(struct hints *hints, uint64_t identity, struct text_model *row,
          uint64_t now_us)
{
    struct gossip_gauge gauge = {.inflight = row->pool.weight,
                                 .blocks = row->pool.threshold};

    if (row->pool.threshold == 0 && !row->pool_told) {
        return;
    }
    if (gossip_gauge_set(hints->gossip, identity, &gauge, now_us)) {
        row->pool_told = row->pool.threshold != 0;
    } else {
        hints->stats.gauges_failed++;
    }
}

void
hints_share_pool(struct hints *hints, struct text_model *row, uint64_t now_us)
{
    struct pool_told told[GOSSIP_PEERS_MAX + 1] = {row->pool};
    uint64_t identity = rng_mix(row->digest ^ POOL_SALT);
    uint32_t count = 1;

    if (hints->gossip != NULL) {
        tell_pool(hints, identity, row, now_us);
        for (uint32_t place = 0; place < GOSSIP_PEERS_MAX; place++) {
            struct gossip_gauge_peer peer;
            if (gossip_gauge_of(hints->gossip, place, identity, &peer) &&
                peer.gauge.blocks <= POOL_TOKENS_MAX) {
                told[count++] =
                    (struct pool_told){.threshold = peer.gauge.blocks,
                                       .weight = peer.gauge.inflight};
            }
        }
    }
    row->pool_threshold = pool_tune_agree(told, count);
}
