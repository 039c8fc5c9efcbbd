#include <criterion/criterion.h>

#include "chaos/replay/replay_heard.h"

#define NODES 3U

static struct replay_heard heard;
static struct worker_set readers[WORKERS_MAX];
static const uint64_t key = 77;

/* Nodes 0 and 1 read all engines' events, node 2 none. */
static void
open_with(uint32_t engines, uint32_t nodes)
{
    for (uint32_t i = 0; i < engines; i++) {
        worker_set_clear(&readers[i]);
        worker_set_add(&readers[i], 0);
        if (nodes > 1) {
            worker_set_add(&readers[i], 1);
        }
    }
    cr_assert_eq(replay_heard_init(&heard, readers, engines, nodes), 0);
}

static void
tell(uint32_t engine, enum event_kind kind, bool to_readers)
{
    uint64_t words[] = {event_op(kind, TIER_DEVICE, 1), key};

    cr_assert(replay_heard_apply(&heard, engine, words, 2, to_readers));
}

static bool
knows(uint32_t node, uint32_t engine)
{
    const struct mirror *mirror = replay_heard_mirror(&heard, node);
    uint32_t slot = replay_heard_slot(&heard, node, engine);
    struct mirror_match match;
    struct worker_set asked;

    worker_set_clear(&asked);
    worker_set_add(&asked, slot);
    mirror_match(mirror, &asked, &key, 1, &match);
    return match.best == 1;
}

/* Whoever hears later knows what was true before, in both directions. */
static void
hear_later(uint32_t engine)
{
    const char *reason;

    tell(engine, EVENT_STORE, true);
    cr_assert(knows(0, engine) && knows(1, engine) && !knows(2, engine));
    tell(engine, EVENT_STORE, false);
    cr_assert(knows(0, engine) && knows(1, engine) && knows(2, engine));
    tell(engine, EVENT_REMOVE, true);
    cr_assert(!knows(0, engine) && !knows(1, engine) && knows(2, engine));
    cr_assert(replay_heard_check(&heard, &reason), "%s", reason);
    tell(engine, EVENT_REMOVE, false);
    cr_assert(!knows(2, engine));
}

Test(chaos_replay_heard, who_does_not_read_knows_later)
{
    open_with(2, NODES);
    cr_assert_eq(heard.mirrors_count, 1);
    hear_later(1);
    tell(0, EVENT_STORE, true);
    cr_assert(knows(0, 0) && !knows(0, 1) && !knows(2, 0));
    replay_heard_fini(&heard);
}

Test(chaos_replay_heard, too_many_engines_give_each_node_a_mirror)
{
    open_with(WORKERS_MAX / 2 + 1, NODES);
    cr_assert_eq(heard.mirrors_count, NODES);
    hear_later(WORKERS_MAX / 2);
    replay_heard_fini(&heard);
}

Test(chaos_replay_heard, where_all_read_there_is_one_slot_for_each)
{
    open_with(WORKERS_MAX, 2);
    cr_assert_eq(heard.mirrors_count, 1);
    tell(WORKERS_MAX - 1, EVENT_STORE, true);
    cr_assert(knows(0, WORKERS_MAX - 1) && knows(1, WORKERS_MAX - 1));
    replay_heard_fini(&heard);
}
