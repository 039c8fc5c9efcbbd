/* Engines that come and go in a replay. */
#include "chaos/replay/replay_scale.h"

#include "chaos/replay/replay_flow_internal.h"

static const char *const scaler_names[] = {
    [REPLAY_SCALE_FIXED] = "fixed",
    [REPLAY_SCALE_RULE] = "rule",
    [REPLAY_SCALE_QUEUE] = "queue",
};

bool
replay_scaler_find(struct slice name, enum replay_scaler *by)
{
    for (unsigned i = 0; i < REPLAY_SCALERS; i++) {
        if (slice_equal(name, slice_of(scaler_names[i]))) {
            *by = (enum replay_scaler)i;
            return true;
        }
    }
    return false;
}

static void
serve(struct replay_world *world, uint32_t engine, bool on)
{
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        replay_node_serve(&world->nodes[i], engine, on);
    }
    if (on) {
        worker_set_add(&world->fleet.on, engine);
    } else {
        worker_set_remove(&world->fleet.on, engine);
    }
}

void
replay_scale_begin(struct replay_world *world)
{
    struct replay_fleet *fleet = &world->fleet;

    *fleet = (struct replay_fleet){.next = world->setup.begin};
    CHECK(fleet->next > 0 && fleet->next <= world->setup.engines);
    for (uint32_t i = 0; i < world->setup.engines; i++) {
        serve(world, i, i < fleet->next);
    }
    world->result.scaled.most = fleet->next;
}

/* What is paid for. */
static uint32_t
paid(const struct replay_fleet *fleet)
{
    return worker_set_count(&fleet->on) + worker_set_count(&fleet->coming) +
           worker_set_count(&fleet->drains);
}

static void
note_change(struct replay_world *world, int way)
{
    struct replay_fleet *fleet = &world->fleet;
    struct replay_scaled *scaled = &world->result.scaled;
    uint32_t now = paid(fleet);

    scaled->changes++;
    scaled->turns += fleet->way != 0 && fleet->way != way;
    fleet->way = way;
    scaled->most = now > scaled->most ? now : scaled->most;
}

static struct scale_signals
measure(const struct replay_world *world)
{
    const struct replay_fleet *fleet = &world->fleet;
    struct scale_signals s = {
        .ready = worker_set_count(&fleet->on),
        .answers = fleet->answers,
        .late = fleet->late,
        .room = SCALE_ANY_ROOM,
    };
    uint64_t kv = 0;

    s.engines = s.ready;
    WORKER_SET_EACH (slot, &fleet->on) {
        const struct replay_engine *e = &world->engines[slot];
        struct engine_stats stats;
        engine_stats(&e->engine, &stats);
        s.requests += e->open;
        s.waiting += stats.waiting;
        kv += stats.held_blocks * UINT64_C(1000) / e->engine.pool.count;
    }
    CHECK(s.ready > 0);
    s.kv_permille = (uint32_t)(kv / s.ready);
    s.capacity = replay_node_capacity(&world->nodes[0], &fleet->on);
    return s;
}

static uint32_t
by_queue(struct replay_world *world, const struct scale_signals *s,
         uint64_t now_us)
{
    const struct scale_config *rule = &world->setup.rule;
    struct replay_fleet *fleet = &world->fleet;
    uint64_t wait_us = rule->provision_ms * UINT64_C(1000);

    if (s->waiting > s->engines) {
        fleet->idle_us = 0;
    } else if (fleet->idle_us == 0) {
        fleet->idle_us = now_us;
    }
    if (s->waiting > s->engines && s->engines < rule->max &&
        (fleet->asked_us == 0 || now_us - fleet->asked_us >= wait_us)) {
        fleet->asked_us = now_us;
        return s->engines + 1;
    }
    if (fleet->idle_us != 0 && s->engines > rule->min &&
        now_us - fleet->idle_us >= rule->cool_down_ms * UINT64_C(1000)) {
        fleet->idle_us = now_us;
        return s->engines - 1;
    }
    return s->engines;
}

static uint32_t
by_rule(struct replay_world *world, const struct scale_signals *s,
        uint64_t now_us)
{
    struct scale_choice choice;

    scale_look(&world->fleet.group, &world->setup.rule, s, now_us, &choice);
    return choice.desired;
}

static int
ask_for(struct replay_world *world, uint32_t count)
{
    struct replay_fleet *fleet = &world->fleet;
    int error = 0;

    while (count-- > 0 && fleet->next < world->setup.engines && error == 0) {
        uint32_t engine = fleet->next++;
        worker_set_add(&fleet->coming, engine);
        fleet->since_us[engine] = replay_now(world);
        note_change(world, 1);
        error = replay_schedule(
            world,
            replay_now(world) + world->setup.rule.provision_ms * UINT64_C(1000),
            KIND_COMES, engine, 0);
    }
    return error;
}

static void
let_go(struct replay_world *world)
{
    struct replay_fleet *fleet = &world->fleet;
    struct scale_engine engines[WORKERS_MAX];
    uint32_t slots[WORKERS_MAX];
    size_t count = 0;

    WORKER_SET_EACH (slot, &fleet->on) {
        struct engine_stats stats;
        engine_stats(&world->engines[slot].engine, &stats);
        slots[count] = slot;
        engines[count++] = (struct scale_engine){
            .id = world->nodes[0].workers[slot].id,
            .blocks = stats.cached_blocks,
            .requests = world->engines[slot].open,
        };
    }
    CHECK(count > 1);
    uint32_t victim = slots[scale_victim(engines, count)];
    serve(world, victim, false);
    worker_set_add(&fleet->drains, victim);
    note_change(world, -1);
}

/* Those that drained are gone. */
static void
forget_drained(struct replay_world *world)
{
    struct replay_fleet *fleet = &world->fleet;
    struct worker_set drains = fleet->drains;

    WORKER_SET_EACH (slot, &drains) {
        if (world->engines[slot].open == 0) {
            worker_set_remove(&fleet->drains, slot);
            world->result.scaled.engine_us +=
                replay_now(world) - fleet->since_us[slot];
        }
    }
}

int
replay_scale_look(struct replay_world *world)
{
    struct replay_fleet *fleet = &world->fleet;
    uint64_t now_us = replay_now(world);
    int error = 0;

    forget_drained(world);
    struct scale_signals s = measure(world);
    uint32_t coming = worker_set_count(&fleet->coming);
    uint32_t desired = world->setup.scaler == REPLAY_SCALE_RULE
                           ? by_rule(world, &s, now_us)
                           : by_queue(world, &s, now_us);
    if (desired > s.engines + coming) {
        error = ask_for(world, desired - s.engines - coming);
    } else if (desired < s.engines && coming == 0) {
        let_go(world);
    }
    fleet->answers = 0;
    fleet->late = 0;
    return error != 0 || world->left == 0
               ? error
               : replay_schedule(world, now_us + REPLAY_SCALE_US, KIND_SCALE, 0,
                                 0);
}

void
replay_scale_comes(struct replay_world *world, uint32_t engine)
{
    CHECK(worker_set_has(&world->fleet.coming, engine));
    worker_set_remove(&world->fleet.coming, engine);
    serve(world, engine, true);
}

void
replay_scale_end(struct replay_world *world)
{
    const struct replay_fleet *fleet = &world->fleet;
    struct worker_set left = worker_set_or(&fleet->on, &fleet->drains);

    left = worker_set_or(&left, &fleet->coming);
    WORKER_SET_EACH (slot, &left) {
        uint64_t since_us = fleet->since_us[slot];
        world->result.scaled.engine_us +=
            world->last_us > since_us ? world->last_us - since_us : 0;
    }
}
