/* Which workers are whose for a while. */
#include "node/view/turns.h"

#include "index/base/check.h"

void
turns_heard(struct turns *turns, bool known)
{
    CHECK(turns->apart <= TURNS_APART);
    if (known) {
        turns->apart = 0;
    } else if (turns->apart < TURNS_APART) {
        turns->apart++;
    }
}

/* How many of the set come before the slot's worker. */
static uint32_t
before(const struct fleet_view *view, const struct worker_set *set,
       uint32_t slot)
{
    uint32_t count = 0;

    CHECK(worker_set_has(set, slot));
    WORKER_SET_EACH (other, set) {
        count += view->identity[other] < view->identity[slot];
    }
    return count;
}

/* This node's workers of the moment. */
static struct worker_set
mine(const struct turns_made *of, const struct fleet_view *view)
{
    struct worker_set kin[WORKERS_MAX];
    struct worker_set out = {{0}};

    CHECK(of->place.number < of->place.nodes);
    fleet_view_kin(view, kin);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        WORKER_SET_EACH (slot, &kin[i]) {
            if ((before(view, &kin[i], slot) + of->period) % of->place.nodes ==
                of->place.number) {
                worker_set_add(&out, slot);
            }
        }
    }
    return out;
}

static bool
same(const struct turns_made *a, const struct turns_made *b)
{
    return a->place.number == b->place.number &&
           a->place.nodes == b->place.nodes && a->version == b->version &&
           a->period == b->period;
}

void
turns_put(struct turns *turns, const struct turns_place *place,
          const struct fleet_view *view, uint64_t wall_ms,
          struct fleet_board *board)
{
    struct turns_made now = {.place = *place,
                             .version = view->version,
                             .period = wall_ms / TURNS_MS};

    if (place->nodes > 1 && !same(&now, &turns->made)) {
        struct worker_set set = mine(&now, view);
        fleet_board_turn_set(board, &set);
    }
    turns->made = now;
    moment_put(&board->moment, place->number, place->nodes);
    gauge_set(&board->turn, place->nodes < 2             ? FLEET_NO_TURN
                            : turns->apart < TURNS_APART ? FLEET_TURN_HELD
                                                         : FLEET_TURN_ALL);
}
