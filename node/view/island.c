/* Where workers are, and what the way there costs. */
#include "node/view/island.h"

#include "index/base/check.h"

bool
island_within(struct slice label, struct slice prefix)
{
    return prefix.len != 0 && slice_begins(label, prefix) &&
           (label.len == prefix.len || label.ptr[prefix.len] == '/');
}

bool
island_in_any(struct slice label, struct slice prefixes)
{
    bool in = false;

    while (!in && prefixes.len != 0) {
        in = island_within(label, slice_take(&prefixes, ' '));
    }
    return in;
}

struct worker_set
island_residents(const struct fleet_view *view, const struct worker_set *set,
                 struct slice prefixes)
{
    struct worker_set in;

    worker_set_clear(&in);
    WORKER_SET_EACH (slot, set) {
        const struct fleet_worker *worker = view->worker[slot];
        if (worker != NULL &&
            island_in_any(slice_of(worker->island), prefixes)) {
            worker_set_add(&in, slot);
        }
    }
    return in;
}

const struct config_link *
island_link(const struct config_links *links, struct slice a, struct slice b)
{
    const struct config_link *found = NULL;
    size_t longest = 0;

    CHECK(links->count <= CONFIG_LINKS_MAX);
    for (uint32_t i = 0; i < links->count; i++) {
        struct slice from = slice_of(links->link[i].from);
        struct slice to = slice_of(links->link[i].to);
        bool there = island_within(a, from) && island_within(b, to);
        bool back = island_within(b, from) && island_within(a, to);
        if ((there || back) && from.len + to.len > longest) {
            longest = from.len + to.len;
            found = &links->link[i];
        }
    }
    return found;
}

uint32_t
island_link_us(const struct config_links *links, struct slice a, struct slice b)
{
    const struct config_link *link = island_link(links, a, b);

    return link == NULL || link->measured ? UINT32_MAX
                                          : link->ms * UINT32_C(1000);
}

static struct slice
label_of(const struct fleet_view *view, uint32_t slot)
{
    return slice_of(view->worker[slot]->island);
}

/* The first present worker of the same label. */
static uint32_t
first_of(const struct fleet_view *view, uint32_t slot)
{
    WORKER_SET_EACH (other, &view->present) {
        if (slice_equal(label_of(view, other), label_of(view, slot))) {
            return other;
        }
    }
    CHECK(false);
    return slot;
}

static uint32_t
less(uint32_t round_us, uint32_t than_us)
{
    return round_us != 0 && round_us < than_us ? round_us : than_us;
}

/* What is measured to an island, by its first worker; UINT32_MAX: nothing.
 * Returns the same of the node's own. */
static uint32_t
least_rounds(const struct config_island *island, const struct fleet_view *view,
             const uint32_t *round_us, const uint32_t *first, uint32_t *least)
{
    struct slice name = slice_of(island->name);
    uint32_t own = UINT32_MAX;

    memset(least, 0xff, WORKERS_MAX * sizeof(*least));
    WORKER_SET_EACH (slot, &view->present) {
        least[first[slot]] = less(round_us[slot], least[first[slot]]);
        if (slice_equal(label_of(view, slot), name)) {
            own = less(round_us[slot], own);
        }
    }
    return own != UINT32_MAX ? own : 0;
}

static struct island_cost
cost_of(const struct config_island *island, struct slice theirs,
        uint32_t least_us, uint32_t own_us)
{
    struct slice ours = slice_of(island->name);
    struct island_cost cost = {0};

    if (theirs.len == 0 || slice_equal(theirs, ours)) {
        return cost;
    }
    if (least_us != UINT32_MAX && least_us > own_us) {
        cost.away_us = least_us - own_us;
    }
    cost.crosses = !island_within(ours, theirs) && !island_within(theirs, ours);
    cost.link_us = island_link_us(&island->links, ours, theirs);
    if (cost.link_us == UINT32_MAX) {
        cost.link_us = cost.crosses ? cost.away_us : 0;
    }
    return cost;
}

bool
island_costs(const struct config_island *island, const struct fleet_view *view,
             const uint32_t *round_us, struct island_cost *cost)
{
    uint32_t first[WORKERS_MAX];
    uint32_t least[WORKERS_MAX];
    bool any = false;

    memset(cost, 0, WORKERS_MAX * sizeof(*cost));
    if (island->name[0] == '\0') {
        return false;
    }
    WORKER_SET_EACH (slot, &view->present) {
        first[slot] = first_of(view, slot);
    }
    uint32_t own_us = least_rounds(island, view, round_us, first, least);
    WORKER_SET_EACH (slot, &view->present) {
        cost[slot] = first[slot] != slot ? cost[first[slot]]
                                         : cost_of(island, label_of(view, slot),
                                                   least[slot], own_us);
        any = any || cost[slot].crosses || cost[slot].link_us != 0 ||
              cost[slot].away_us != 0;
    }
    return any;
}

/* bytes * price of a GB, by the price of an engine's us. */
static uint32_t
paid_us(uint64_t bytes, uint32_t price_milli, uint32_t engine_milli)
{
    uint64_t most = UINT64_C(1) << 34;
    uint64_t us =
        (bytes < most ? bytes : most) * price_milli / 10 * 36 / engine_milli;

    return us < UINT32_MAX / 2 ? (uint32_t)us : UINT32_MAX / 2;
}

bool
island_pay(const struct config_island *island, const struct fleet_view *view,
           uint64_t bytes, uint32_t engine_milli, struct island_cost *cost)
{
    struct slice ours = slice_of(island->name);
    bool any = false;

    if (ours.len == 0 || engine_milli == 0) {
        return false;
    }
    WORKER_SET_EACH (slot, &view->present) {
        struct slice theirs = label_of(view, slot);
        const struct config_link *link =
            slice_equal(ours, theirs)
                ? NULL
                : island_link(&island->links, ours, theirs);
        cost[slot].paid_us =
            link != NULL ? paid_us(bytes, link->price_milli, engine_milli) : 0;
        any = any || cost[slot].paid_us != 0;
    }
    return any;
}

/* Prompt tokens a second of a usual worker of the set. */
static uint32_t
usual_rate(const struct speed *speed, const struct worker_set *set)
{
    uint64_t sum = 0;
    uint32_t count = 0;

    WORKER_SET_EACH (slot, set) {
        uint32_t rate = speed_rate(speed, slot);
        sum += rate;
        count += rate != 0;
    }
    return count != 0 ? (uint32_t)(sum / count) : ISLAND_RATE;
}

static uint32_t
tokens_of(uint64_t us, uint32_t rate)
{
    uint64_t tokens = us * rate / 1000000;

    return tokens < ISLAND_TOKENS_MAX ? (uint32_t)tokens : ISLAND_TOKENS_MAX;
}

void
island_tell(struct fleet_board *board, const struct fleet_view *view,
            const struct speed *speed, const struct island_cost *cost, bool any)
{
    struct worker_set kin[WORKERS_MAX];
    bool was = gauge_read(&board->linked) != 0;

    if (!any && !was) {
        return;
    }
    fleet_view_kin(view, kin);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        uint32_t rate =
            worker_set_empty(&kin[i]) ? 0 : usual_rate(speed, &kin[i]);
        WORKER_SET_EACH (slot, &kin[i]) {
            gauge_set(&board->link_us[slot], (int32_t)cost[slot].link_us);
            gauge_set(&board->away_us[slot], (int32_t)cost[slot].away_us);
            gauge_set(&board->paid_us[slot], (int32_t)cost[slot].paid_us);
            gauge_set(&board->crosses[slot], cost[slot].crosses);
            uint64_t us = (uint64_t)cost[slot].link_us + cost[slot].paid_us;
            gauge_set(&board->link_tokens[slot], (int32_t)tokens_of(us, rate));
        }
    }
    gauge_set(&board->linked, any ? 1 : 0);
}

bool
island_aside(const struct fleet_board *board,
             const struct worker_set *candidates, const uint32_t *more,
             uint32_t *aside)
{
    uint32_t least = UINT32_MAX;
    uint32_t most = 0;

    if (gauge_read(&board->linked) == 0) {
        return false;
    }
    WORKER_SET_EACH (slot, candidates) {
        uint32_t tokens = gauge_read(&board->link_tokens[slot]);
        least = tokens < least ? tokens : least;
        most = tokens > most ? tokens : most;
        aside[slot] = tokens;
    }
    if (least >= most) {
        return false;
    }
    WORKER_SET_EACH (slot, candidates) {
        aside[slot] = aside[slot] - least + (more != NULL ? more[slot] : 0);
    }
    return true;
}
