#include "node/follow/follow_reach.h"

#include "index/base/check.h"

void
follow_reach_want(struct follow_reach *reach, bool on)
{
    reach->wanted = on;
    reach->takes = reach->takes && on;
}

void
follow_reach_look(struct follow_reach *reach, enum follow_reach_seen seen,
                  uint64_t now_us)
{
    if (seen != reach->seen ||
        now_us - reach->looked_us > FOLLOW_REACH_SLEPT_US) {
        reach->seen_us = now_us;
    }
    reach->seen = seen;
    reach->looked_us = now_us;
    reach->failed = false;
}

/* The source is to be another one, or none. */
static bool
is_to_close(const struct follow_reach *reach)
{
    return reach->open && !reach->takes && (reach->wanted || !reach->unable);
}

static bool
has_been(const struct follow_reach *reach, enum follow_reach_seen seen,
         uint32_t ms, uint64_t now_us)
{
    return reach->seen == seen &&
           now_us - reach->seen_us >= ms * UINT64_C(1000);
}

enum follow_reach_step
follow_reach_next(struct follow_reach *reach,
                  const struct follow_reach_config *config, uint64_t now_us)
{
    uint32_t able_ms = reach->wanted ? 0 : config->able_ms;

    CHECK(!reach->takes || (reach->open && reach->wanted));
    if (!reach->failed && is_to_close(reach)) {
        return FOLLOW_REACH_CLOSE;
    }
    if (!reach->failed && !reach->open && (reach->wanted || reach->unable)) {
        return FOLLOW_REACH_OPEN;
    }
    if (reach->unable && reach->open &&
        has_been(reach, FOLLOW_REACH_REACHED, able_ms, now_us)) {
        reach->unable = false;
        return FOLLOW_REACH_SAY_ABLE;
    }
    if (!reach->unable && reach->wanted &&
        has_been(reach, FOLLOW_REACH_NOT, config->unable_ms, now_us)) {
        reach->unable = true;
        return FOLLOW_REACH_SAY_UNABLE;
    }
    return FOLLOW_REACH_NOTHING;
}

void
follow_reach_opened(struct follow_reach *reach, int outcome)
{
    CHECK(!reach->open);
    reach->failed = outcome != 0;
    reach->open = outcome == 0;
    reach->takes = reach->open && reach->wanted;
}

void
follow_reach_closed(struct follow_reach *reach, int outcome)
{
    CHECK(reach->open && !reach->takes);
    reach->failed = outcome != 0;
    reach->open = outcome != 0;
    if (!reach->open) {
        reach->seen = FOLLOW_REACH_UNKNOWN; /* of the one that was */
    }
}
