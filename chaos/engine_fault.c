#include "chaos/engine_fault.h"

#include "chaos/engine_json.h"

#define STALL_MAX_MS 60000

void
engine_faults_init(struct engine_faults *faults)
{
    *faults = (struct engine_faults){.health_status = 200, .fail_status = 500};
}

/* One member: where it goes and what it may be. */
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
        {SLICE("stall_ms"), &orders->stall_ms, 1, STALL_MAX_MS,
         "stall_ms: 1 to 60000"},
        {SLICE("speed_percent"), &orders->speed_percent, 1, 1000000,
         "speed_percent: 1 to 1000000"},
        {SLICE("exit"), &orders->exit_code, 0, 255, "exit: a code, 0 to 255"},
    };

    *orders = (struct engine_fault_orders){.stall_ms = 0};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        int r = obey(object, &known[i]);
        if (r == ENGINE_JSON_E_OTHER) {
            *why = known[i].why;
            return ENGINE_FAULT_E_BAD;
        }
        if (r == 0 && known[i].value == &orders->exit_code) {
            orders->has_exit = true;
        }
    }
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
engine_faults_draw(struct engine_faults *faults)
{
    struct engine_fate fate = {.die_after_tokens = ENGINE_FAULT_NEVER};

    if (use_up(&faults->hang_count)) {
        fate.hang = true;
    } else if (use_up(&faults->fail_count)) {
        fate.fail_status = faults->fail_status;
    } else if (use_up(&faults->die_count)) {
        fate.die_after_tokens = faults->die_after_tokens;
    }
    return fate;
}

void
engine_faults_show(const struct engine_faults *faults, struct buf *out)
{
    buf_printf(out,
               "{\"health\":%u,\"fail_status\":%u,\"fail_count\":%u,"
               "\"hang_count\":%u,\"die_after_tokens\":%u,\"die_count\":%u}",
               faults->health_status, faults->fail_status, faults->fail_count,
               faults->hang_count, faults->die_after_tokens, faults->die_count);
}
