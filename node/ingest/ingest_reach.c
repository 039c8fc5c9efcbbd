/* Decides whether a source is opened, closed, or announced as out of reach. */
#include "node/ingest/ingest_reach.h"

#include "index/base/check.h"

void
ingest_reach_want(struct ingest_reach *reach, bool on)
{
    CHECK(!reach->takes || (reach->open && reach->wanted));
    reach->wanted = on;
    reach->takes = reach->takes && on;
}

void
ingest_reach_look(struct ingest_reach *reach, enum ingest_reach_seen seen,
                  uint64_t now_us)
{
    CHECK(seen <= INGEST_REACH_REACHED);
    CHECK(!reach->takes || (reach->open && reach->wanted));
    if (seen != reach->seen ||
        now_us - reach->looked_us > INGEST_REACH_SLEPT_US) {
        reach->seen_us = now_us;
    }
    reach->seen = seen;
    reach->looked_us = now_us;
    reach->failed = false;
}

/* The source must be closed, with or without a successor. */
static bool
is_to_close(const struct ingest_reach *reach)
{
    return reach->open && !reach->takes && (reach->wanted || !reach->unable);
}

static bool
has_been(const struct ingest_reach *reach, enum ingest_reach_seen seen,
         uint32_t ms, uint64_t now_us)
{
    return reach->seen == seen &&
           now_us - reach->seen_us >= ms * UINT64_C(1000);
}

enum ingest_reach_step
ingest_reach_next(struct ingest_reach *reach,
                  const struct ingest_reach_config *config, uint64_t now_us)
{
    uint32_t able_ms = reach->wanted ? 0 : config->able_ms;

    CHECK(!reach->takes || (reach->open && reach->wanted));
    if (!reach->failed && is_to_close(reach)) {
        return INGEST_REACH_CLOSE;
    }
    if (!reach->failed && !reach->open && (reach->wanted || reach->unable)) {
        return INGEST_REACH_OPEN;
    }
    if (reach->unable && reach->open &&
        has_been(reach, INGEST_REACH_REACHED, able_ms, now_us)) {
        reach->unable = false;
        return INGEST_REACH_SAY_ABLE;
    }
    if (!reach->unable && reach->wanted &&
        has_been(reach, INGEST_REACH_NOT, config->unable_ms, now_us)) {
        reach->unable = true;
        return INGEST_REACH_SAY_UNABLE;
    }
    return INGEST_REACH_NOTHING;
}

void
ingest_reach_opened(struct ingest_reach *reach, int outcome)
{
    CHECK(!reach->open && !reach->takes);
    CHECK(reach->wanted || reach->unable);
    reach->failed = outcome != 0;
    reach->open = outcome == 0;
    reach->takes = reach->open && reach->wanted;
    if (reach->open) {
        reach->seen = INGEST_REACH_UNKNOWN; /* not of the time without it */
    }
}

void
ingest_reach_closed(struct ingest_reach *reach, int outcome)
{
    CHECK(reach->open && !reach->takes);
    reach->failed = outcome != 0;
    reach->open = outcome != 0;
    if (!reach->open) {
        reach->seen = INGEST_REACH_UNKNOWN; /* of the one that was */
    }
}
