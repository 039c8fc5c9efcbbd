/* What breaks, how often, and how it is mended. */

#include "chaos/sim/sim_request_internal.h"
#include "chaos/sim/sim_roster_internal.h"
#include "chaos/sim/sim_router_internal.h"

#define PAUSE_LONG_MS 120000U
#define DAY_S         UINT64_C(86400)

static const struct {
    const char *name;
    const char *help;
} kinds[] = {
#define SIM_FAULT_ROW(NAME, name, help) {#name, help},
    SIM_FAULTS(SIM_FAULT_ROW)
#undef SIM_FAULT_ROW
};

const char *
sim_fault_name(enum sim_fault fault)
{
    return kinds[fault].name;
}

const char *
sim_fault_help(enum sim_fault fault)
{
    return kinds[fault].help;
}

bool
sim_may_break(struct sim_world *w, enum sim_fault fault)
{
    if (w->faults_count >= w->options.faults_max) {
        return false;
    }
    w->faults_count++;
    w->result->faults[fault]++;
    return true;
}

/* Drawing */

static void
draw_events(struct sim_world *w)
{
    struct rng *rng = &w->draw;
    uint32_t drop = 1 + sim_below(rng, 80);
    uint32_t repeat = 1 + sim_below(rng, 80);
    uint32_t reply = 1 + sim_below(rng, 150);
    uint32_t roll = 4 + sim_below(rng, 60);

    w->drop_permille = sim_has(w, SIM_DROP) ? drop : 0;
    w->repeat_permille = sim_has(w, SIM_REPEAT) ? repeat : 0;
    w->reply_permille = sim_has(w, SIM_REPLY) ? reply : 0;
    w->hole_permille = 2 + sim_below(rng, 10);
    for (uint32_t i = 0; i < SIM_ENGINES_MAX; i++) {
        bool replays = sim_below(rng, 8) != 0;
        w->engines[i].has_replay = replays;
        w->engines[i].replay_max = sim_has(w, SIM_ROLL) ? roll : 100000;
    }
}

/* Each class is present or not; classes that allow fewer promises are rare. */
void
sim_chaos_draw(struct sim_world *w)
{
    struct rng *rng = &w->draw;
    uint64_t seldom = UINT64_C(1) << SIM_HOLE | UINT64_C(1) << SIM_DATAGRAM |
                      UINT64_C(1) << SIM_LIMIT | UINT64_C(1) << SIM_QUEUE |
                      UINT64_C(1) << SIM_STREAM | UINT64_C(1) << SIM_SCALE |
                      UINT64_C(1) << SIM_SPEED;
    uint32_t busy = 1 + sim_below(rng, 4); /* of 6 */
    struct rng later;

    rng_init(&later, rng_mix(w->options.seed ^ 0x6c61));
    for (uint32_t i = 0; i < SIM_FAULT_KINDS; i++) {
        struct rng *from = i < SIM_FAULTS_LATER ? rng : &later;
        uint32_t odds = (seldom >> i & 1) != 0 ? 1 : busy;
        bool on =
            sim_below(from, 6) < (i == SIM_REQUEST || i == SIM_ROLL ? 4 : odds);
        w->rate_ms[i] = 200 + sim_below(from, 3000);
        rng_init(&w->chaos[i], rng_mix(w->options.seed) + i);
        if (on && (w->options.faults >> i & 1) != 0) {
            w->faults |= UINT64_C(1) << i;
        }
    }
    uint32_t jitter = sim_below(rng, 60);
    uint32_t loss = sim_below(rng, 200);
    w->delay_us = 100 + sim_below(rng, 3000);
    w->jitter_us = sim_has(w, SIM_JITTER) ? jitter * 1000 : 300;
    w->loss_permille = loss;
    draw_events(w);
}

void
sim_chaos_begin(struct sim_world *w)
{
    for (uint32_t i = 0; i < SIM_FAULT_KINDS; i++) {
        if (sim_has(w, (enum sim_fault)i)) {
            sim_add(
                w,
                w->time.now_us +
                    (1 + sim_below(&w->chaos[i], UINT64_C(2) * w->rate_ms[i])) *
                        SIM_MS,
                SIM_EV_CHAOS, i, 0);
        }
    }
}

/* Each of the faults */

static void
part(struct sim_world *w, struct rng *rng)
{
    uint32_t groups = sim_below(rng, UINT64_C(1) << w->nodes_count);
    bool heals = sim_below(rng, 3) == 0;

    for (uint32_t a = 0; a < w->nodes_count; a++) {
        for (uint32_t b = 0; b < w->nodes_count; b++) {
            bool apart = (groups >> a & 1) != (groups >> b & 1);
            sim_net_sever(w, a, b, apart && !heals && a != b);
        }
    }
}

static void
sever_one_way(struct sim_world *w, struct rng *rng)
{
    uint32_t a = sim_below(rng, w->nodes_count);
    uint32_t b = sim_below(rng, w->nodes_count);

    if (a != b) {
        sim_net_sever(w, a, b, !w->severed[a][b]);
    }
}

static void
pause_node(struct sim_world *w, struct rng *rng, uint32_t node)
{
    bool is_long = sim_below(rng, 40) == 0;
    uint64_t ms = 1 + rng_below(rng, is_long ? PAUSE_LONG_MS : 6000);

    if (sim_runs(w, node)) {
        sim_node_pause(w, node, ms);
    }
}

static void
stop_node(struct sim_world *w, struct rng *rng, uint32_t node, bool politely)
{
    uint64_t away_ms = 20 + rng_below(rng, 3000);

    if (!sim_runs(w, node)) {
        return;
    }
    if (politely) {
        if (sim_snapshot_finish(w, node, away_ms)) {
            sim_node_leave(w, node, away_ms);
        }
        return;
    }
    sim_node_kill(w, node);
    sim_add(w, w->time.now_us + away_ms * SIM_MS, SIM_EV_START, node, 0);
}

static void
jump_by(struct sim_world *w, uint32_t node, uint64_t ms)
{
    struct sim_node *n = &w->nodes[node];

    n->clock_us += (int64_t)(ms * SIM_MS);
    n->armed_us = w->time.now_us;
    sim_add(w, w->time.now_us, SIM_EV_NODE, node, n->life);
    for (uint32_t i = 0; i < w->engines_count; i++) {
        sim_add(w, w->time.now_us, SIM_EV_READER, sim_reader_of(node, i),
                n->life);
    }
    sim_router_jump(w, node);
    sim_request_jump(w, node);
}

static void
jump(struct sim_world *w, struct rng *rng, uint32_t node)
{
    uint64_t most_ms = sim_below(rng, 3) == 0 ? 600000 : 5000;

    if (sim_runs(w, node)) {
        jump_by(w, node, 1 + rng_below(rng, most_ms));
    }
}

/* Moves a node's clock, which never goes back, or an engine's wall clock, which
 * may. Nodes decide by no wall clock. */
static void
jump_a_day(struct sim_world *w, struct rng *rng, uint32_t node)
{
    struct sim_engine *engine = &w->engines[sim_below(rng, w->engines_count)];
    bool ahead = sim_below(rng, 2) == 0;

    if (sim_below(rng, 2) == 0) {
        engine->clock_s += ahead ? DAY_S : -(double)DAY_S;
    } else if (sim_runs(w, node)) {
        jump_by(w, node, DAY_S * 1000);
    }
}

static void
sever_engine(struct sim_world *w, struct rng *rng, uint32_t node)
{
    uint32_t engine = sim_below(rng, w->engines_count);
    uint64_t ms = 100 + rng_below(rng, 8000);

    w->nodes[node].severed[engine] = true;
    sim_intake_break(w, node, engine, (1 + rng_below(rng, 2000)) * SIM_MS);
    sim_add(w, w->time.now_us + ms * SIM_MS, SIM_EV_MEND,
            sim_reader_of(node, engine), 0);
}

static void
break_engine(struct sim_world *w, enum sim_fault fault)
{
    struct rng *rng = &w->chaos[fault];
    uint32_t engine = sim_below(rng, w->engines_count);

    if (fault == SIM_RESTART) {
        sim_engine_restart(w, engine, sim_below(rng, 3) == 0);
    } else {
        sim_engine_clear(w, engine);
    }
}

static void
lose(struct sim_world *w, struct rng *rng, uint32_t node)
{
    uint32_t engine = sim_below(rng, w->engines_count);

    role_is_control();
    hub_local_lost(w->nodes[node].hub, w->engines[engine].stream,
                   sim_now(w, node));
    sim_node_pull(w, node);
}

static void
break_node(struct sim_world *w, enum sim_fault fault, uint32_t node)
{
    struct rng *rng = &w->chaos[fault];

    switch ((int)fault) {
    case SIM_SLOW:
        w->slow_us[node] = w->slow_us[node] != 0 ? 0 : sim_below(rng, 80000);
        w->disturbed_us = w->time.now_us;
        break;
    case SIM_PAUSE:
        pause_node(w, rng, node);
        break;
    case SIM_CRASH:
    case SIM_LEAVE:
        stop_node(w, rng, node, fault == SIM_LEAVE);
        break;
    case SIM_CLOCK:
        jump(w, rng, node);
        break;
    case SIM_DAY:
        jump_a_day(w, rng, node);
        break;
    case SIM_BREAK:
        sim_intake_break(w, node, sim_below(rng, w->engines_count), 0);
        break;
    case SIM_SEVER:
        sever_engine(w, rng, node);
        break;
    case SIM_LOST:
        if (sim_runs(w, node)) {
            lose(w, rng, node);
        }
        break;
    case SIM_ROSTER:
        sim_roster_change(w, rng, node);
        break;
    case SIM_DISK_FULL:
    case SIM_DISK_TEAR:
    case SIM_DISK_STALE:
    case SIM_DISK_LIE:
    case SIM_DISK_SWAP:
        sim_snapshot_break(w, fault, node);
        break;
    default:
        break;
    }
}

/* Those that are rolled at each message are not events. */
static bool
is_event(enum sim_fault fault)
{
    const uint64_t others =
        UINT64_C(1) << SIM_LOSS | UINT64_C(1) << SIM_DATAGRAM |
        UINT64_C(1) << SIM_JITTER | UINT64_C(1) << SIM_DNS |
        UINT64_C(1) << SIM_DROP | UINT64_C(1) << SIM_REPEAT |
        UINT64_C(1) << SIM_ROLL | UINT64_C(1) << SIM_REPLY |
        UINT64_C(1) << SIM_HOLE | UINT64_C(1) << SIM_REQUEST |
        UINT64_C(1) << SIM_SICK | UINT64_C(1) << SIM_SKEW |
        UINT64_C(1) << SIM_LIE | UINT64_C(1) << SIM_LIMIT |
        UINT64_C(1) << SIM_QUEUE | UINT64_C(1) << SIM_STREAM |
        UINT64_C(1) << SIM_SCALE | UINT64_C(1) << SIM_SPEED |
        UINT64_C(1) << SIM_ISLAND;

    return (others >> fault & 1) == 0;
}

void
sim_chaos_event(struct sim_world *w, enum sim_fault fault)
{
    struct rng *rng = &w->chaos[fault];

    if (w->quiet || w->time.now_us >= w->chaos_end_us || !is_event(fault) ||
        !sim_may_break(w, fault)) {
        return;
    }
    sim_trace(w, sim_fault_name(fault), 0, w->faults_count);
    if (fault == SIM_PARTITION) {
        part(w, rng);
    } else if (fault == SIM_ONEWAY) {
        sever_one_way(w, rng);
    } else if (fault == SIM_RESTART || fault == SIM_CLEAR) {
        break_engine(w, fault);
    } else {
        break_node(w, fault, sim_below(rng, w->nodes_count));
    }
    sim_add(w,
            w->time.now_us +
                (1 + sim_below(rng, UINT64_C(2) * w->rate_ms[fault])) * SIM_MS,
            SIM_EV_CHAOS, fault, 0);
}

void
sim_chaos_heal(struct sim_world *w)
{
    sim_trace(w, "heal", 0, 0);
    w->quiet = true;
    w->jitter_us = 300;
    w->loss_permille = 0;
    w->disturbed_us = w->time.now_us;
    memset(w->slow_us, 0, sizeof w->slow_us);
    sim_snapshot_heal(w);
    for (uint32_t a = 0; a < w->nodes_count; a++) {
        memset(w->nodes[a].severed, 0, sizeof w->nodes[a].severed);
        for (uint32_t b = 0; b < w->nodes_count; b++) {
            sim_net_sever(w, a, b, false);
        }
        if (!w->nodes[a].up) {
            sim_node_start(w, a);
        }
    }
}
