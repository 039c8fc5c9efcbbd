/* Orders to misbehave: taken from JSON, used up request by request. */
#include "chaos/engine/engine_fault_internal.h"

#include "chaos/engine/engine_json_internal.h"

#define STALL_MAX_MS 60000
#define NO_EXIT      UINT32_MAX

void
engine_faults_init(struct engine_faults *faults)
{
    *faults = (struct engine_faults){.health_status = 200,
                                     .fail_status = 500,
                                     .event_tokens = 1,
                                     .events = 1,
                                     .replay_hole_every = 2};
}

/* One member: where it is stored and which values are valid. */
struct order {
    struct slice key;
    uint32_t *value;
    uint32_t min;
    uint32_t max;
    const char *why;
};

/* 0, ENGINE_JSON_E_ABSENT, or ENGINE_JSON_E_OTHER. */
static int
obey(struct slice object, const struct order *order)
{
    uint64_t number;
    int r = engine_json_uint(object, order->key, order->max, &number);

    if (r != 0) {
        return r;
    }
    *order->value = (uint32_t)number;
    return number >= order->min ? 0 : ENGINE_JSON_E_OTHER;
}

static int
obey_all(struct slice object, const struct order *orders, size_t count,
         const char **why)
{
    for (size_t i = 0; i < count; i++) {
        CHECK(orders[i].min <= orders[i].max);
        if (obey(object, &orders[i]) == ENGINE_JSON_E_OTHER) {
            *why = orders[i].why;
            return ENGINE_FAULT_E_BAD;
        }
    }
    return 0;
}

/* What concerns the events. */
static int
obey_events(struct slice object, struct engine_faults *f,
            struct engine_fault_orders *orders, const char **why)
{
    const struct order known[] = {
        {SLICE("events"), &f->events, 0, 1, "events: 0 or 1"},
        {SLICE("events_stalled"), &f->events_stalled, 0, 1,
         "events_stalled: 0 or 1"},
        {SLICE("events_stall_ms"), &orders->events_stall_ms, 1, STALL_MAX_MS,
         "events_stall_ms: 1 to 60000"},
        {SLICE("event_drop_count"), &f->event_drop_count, 0, UINT32_MAX,
         "event_drop_count: a count"},
        {SLICE("replay_mute_count"), &f->replay_mute_count, 0, UINT32_MAX,
         "replay_mute_count: a count"},
        {SLICE("replay_hole_every"), &f->replay_hole_every, 1, UINT32_MAX,
         "replay_hole_every: a number, 1 or more"},
        {SLICE("replay_hole_count"), &f->replay_hole_count, 0, UINT32_MAX,
         "replay_hole_count: a count"},
        {SLICE("replay_noend_count"), &f->replay_noend_count, 0, UINT32_MAX,
         "replay_noend_count: a count"},
        {SLICE("restart"), &orders->restart, 0, 1, "restart: 0 or 1"},
    };

    return obey_all(object, known, sizeof(known) / sizeof(known[0]), why);
}

int
engine_faults_order(struct engine_faults *faults, struct slice object,
                    struct engine_fault_orders *orders, const char **why)
{
    struct engine_faults f = *faults;
    const struct order known[] = {
        {SLICE("health"), &f.health_status, 200, 599,
         "health: a status, 200 to 599"},
        {SLICE("fail_status"), &f.fail_status, 400, 599,
         "fail_status: a status, 400 to 599"},
        {SLICE("fail_count"), &f.fail_count, 0, UINT32_MAX,
         "fail_count: a count"},
        {SLICE("hang_count"), &f.hang_count, 0, UINT32_MAX,
         "hang_count: a count"},
        {SLICE("die_after_tokens"), &f.die_after_tokens, 0, UINT32_MAX - 1,
         "die_after_tokens: a count"},
        {SLICE("die_count"), &f.die_count, 0, UINT32_MAX, "die_count: a count"},
        {SLICE("event_tokens"), &f.event_tokens, 1, ENGINE_EVENT_TOKENS,
         "event_tokens: 1 to 16"},
        {SLICE("marked"), &f.marked, 0, 1, "marked: 0 or 1"},
        {SLICE("stall_ms"), &orders->stall_ms, 1, STALL_MAX_MS,
         "stall_ms: 1 to 60000"},
        {SLICE("speed_percent"), &orders->speed_percent, 1, 1000000,
         "speed_percent: 1 to 1000000"},
        {SLICE("exit"), &orders->exit_code, 0, 255, "exit: a code, 0 to 255"},
    };

    *orders = (struct engine_fault_orders){.exit_code = NO_EXIT};
    int r = obey_all(object, known, sizeof(known) / sizeof(known[0]), why);
    if (r == 0) {
        r = obey_events(object, &f, orders, why);
    }
    if (r != 0) {
        return r;
    }
    CHECK(f.events <= 1 && f.events_stalled <= 1 && f.replay_hole_every >= 1);
    orders->has_exit = orders->exit_code != NO_EXIT;
    f.events_stalled |= orders->events_stall_ms != 0;
    *faults = f;
    return 0;
}

static bool
use_up(uint32_t *count)
{
    if (*count == 0) {
        return false;
    }
    *count -= *count != ENGINE_FAULT_FOREVER;
    return true;
}

struct engine_fate
engine_faults_draw(struct engine_faults *faults, bool marked)
{
    struct engine_fate fate = {.die_after_tokens = ENGINE_FAULT_NEVER};

    CHECK(faults->health_status >= 200 && faults->fail_status >= 400);
    if (faults->marked != 0 && !marked) {
        return fate;
    }
    if (use_up(&faults->hang_count)) {
        fate.hang = true;
    } else if (use_up(&faults->fail_count)) {
        fate.fail_status = faults->fail_status;
    } else if (use_up(&faults->die_count)) {
        fate.die_after_tokens = faults->die_after_tokens;
    }
    return fate;
}

bool
engine_faults_drop_event(struct engine_faults *faults)
{
    return use_up(&faults->event_drop_count);
}

struct engine_replay_fate
engine_faults_draw_replay(struct engine_faults *faults)
{
    struct engine_replay_fate fate = {.mute = false};

    if (use_up(&faults->replay_hole_count)) {
        fate.hole_every = faults->replay_hole_every;
    }
    fate.endless = use_up(&faults->replay_noend_count);
    fate.mute = use_up(&faults->replay_mute_count);
    return fate;
}

void
engine_faults_show(const struct engine_faults *faults, struct buf *out)
{
    buf_printf(out,
               "{\"health\":%u,\"fail_status\":%u,\"fail_count\":%u,"
               "\"hang_count\":%u,\"die_after_tokens\":%u,\"die_count\":%u,"
               "\"event_tokens\":%u,\"marked\":%u,",
               faults->health_status, faults->fail_status, faults->fail_count,
               faults->hang_count, faults->die_after_tokens, faults->die_count,
               faults->event_tokens, faults->marked);
    buf_printf(out,
               "\"events\":%u,\"events_stalled\":%u,"
               "\"event_drop_count\":%u,\"replay_mute_count\":%u,"
               "\"replay_hole_every\":%u,\"replay_hole_count\":%u,"
               "\"replay_noend_count\":%u}",
               faults->events, faults->events_stalled, faults->event_drop_count,
               faults->replay_mute_count, faults->replay_hole_every,
               faults->replay_hole_count, faults->replay_noend_count);
}
