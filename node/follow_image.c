/* What a snapshot has of the streams: taken, and put back. */
#include "node/follow_inner.h"

bool
follow_image(const struct follow *follow, uint32_t at,
             struct follow_image *image, bool *more)
{
    struct feed_status feed;
    struct gossip_status gossip;

    *more = feed_status(follow->feed, at, &feed);
    if (!*more || feed.slot == WORKER_NONE || feed.lost || feed.contested) {
        return false;
    }
    const struct followed *f = &follow->workers[feed.worker];
    if (!f->present || f->generation != feed.generation ||
        !gossip_status_of(follow->owner.gossip, follow_stream(f, feed.rank),
                          &gossip)) {
        return false;
    }
    *image = (struct follow_image){
        .name = gossip.stream,
        .epoch = gossip.epoch,
        .pos = gossip.pos,
        .complete = gossip.complete,
        .feed = {.slot = feed.slot,
                 .epoch = feed.epoch,
                 .seq = gossip.pos,
                 .holes = feed.holes,
                 .block_tokens = feed.block_tokens},
    };
    return gossip.epoch.no != 0 && !gossip.torn;
}

bool
follow_restore(struct follow *follow, const struct follow_image *image)
{
    struct followed *f = follow_find(follow, image->name.worker);

    if (f == NULL || image->name.rank >= f->ranks) {
        return false;
    }
    struct feed_id id = {f->worker->slot, f->generation, image->name.rank};
    struct feed_restored feed = image->feed;
    feed.epoch = image->epoch.id; /* as gossip_load() names it */
    feed.seq = image->pos;
    if (!feed_restore(follow->feed, &id, &feed)) {
        return false;
    }
    struct follow_rank *rank = &f->rank[image->name.rank];
    rank->known = true;
    rank->loaded = true;
    rank->complete = image->complete;
    gossip_load(follow->owner.gossip, image->name, image->epoch, image->pos,
                image->complete);
    gossip_load_sizes(follow->owner.gossip, image->name, feed.holes,
                      feed.block_tokens);
    gossip_digest(follow->owner.gossip, image->name,
                  mirror_slot_blocks(follow->node->mirror, feed.slot),
                  mirror_slot_digest(follow->node->mirror, feed.slot));
    return true;
}
