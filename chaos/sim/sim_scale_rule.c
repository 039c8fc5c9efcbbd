/* The rule of how many engines there should be, in the exam: a load that swings
 * about a number, nodes that die, islands that are cut from each other. */
#include "chaos/sim/sim_scale_internal.h"

#define POLL_US  (50 * SIM_MS)
#define RISE_US  UINT64_C(40000000)
#define CAPACITY 10U
#define SWING    2U

/* As in life, the time that the rule gives an engine is longer than what it
 * remembers: else what rose is counted twice. */
static const struct scale_config rule = {.min = 1,
                                         .max = 6,
                                         .target_permille = 800,
                                         .step = 2,
                                         .provision_ms = 2 * SIM_PROVISION_MS,
                                         .cool_down_ms = 1500};

void
sim_rule_begin(struct sim_scale *s, uint64_t seed)
{
    rng_init(&s->rule.rng, rng_mix(seed ^ 0x72756c65));
    s->rule.examined = rng_below(&s->rule.rng, 3) == 0; /* it takes long */
}

void
sim_rule_forget(struct sim_scale *s, uint32_t node)
{
    s->rule.group[node] = (struct scale_group){.samples = 0};
}

void
sim_rule_look(struct sim_world *w, uint32_t node)
{
    struct sim_scale *s = w->scale;
    const struct scale_seat *seat = &s->seat[node];
    uint32_t noise = (uint32_t)rng_below(&s->rule.rng, 2 * SWING + 1);
    struct scale_signals signals = {.engines = scale_seat_coming(seat, NULL),
                                    .requests = s->rule.load + noise - SWING,
                                    .capacity = CAPACITY,
                                    .room = SCALE_ANY_ROOM};
    struct scale_choice choice;

    for (uint32_t i = 0; i < seat->count; i++) {
        bool works = seat->job[i].record.state == SCALE_WORKS;
        signals.engines += works;
        signals.ready += works && seat->job[i].told;
    }
    scale_look(&s->rule.group[node], &rule, &signals, sim_now(w, node),
               &choice);
    if (scale_seat_acts(seat, sim_now(w, node))) {
        s->desired = choice.desired;
    }
}

/* The exam */

/* Of two islands: the nodes with even numbers, and the others. */
static void
cut(struct sim_world *w, bool apart)
{
    struct sim_scale *s = w->scale;
    uint32_t odd = 0xAAAAAAAA;

    for (uint32_t a = 0; a < w->nodes_count; a++) {
        for (uint32_t b = 0; b < w->nodes_count; b++) {
            sim_net_sever(w, a, b, apart && a % 2 != b % 2);
        }
    }
    for (uint32_t m = 0; m < s->made_count; m++) {
        s->made[m].blind = !apart ? 0 : m % 2 == 0 ? odd : ~odd;
    }
    w->disturbed_us = w->time.now_us;
}

/* Until the rule wants so many, and so many there are. */
static void
settle_at(struct sim_world *w, uint32_t load, uint32_t engines)
{
    struct sim_scale *s = w->scale;
    uint64_t until_us = w->time.now_us + RISE_US;
    const char *why;

    s->rule.load = load;
    do {
        sim_run_until(w, w->time.now_us + POLL_US);
        why = w->failed               ? NULL
              : s->desired != engines ? "the rule wants another number"
                                      : sim_scale_judge(w);
    } while (why != NULL && w->time.now_us < until_us);
    if (why != NULL) {
        sim_fail(w, why, 0, UINT32_MAX);
    }
}

/* Nothing comes and nothing goes meanwhile. */
static void
hold(struct sim_world *w, uint64_t ms, const char *what)
{
    struct sim_scale *s = w->scale;
    uint32_t made = s->rule.made;
    uint32_t over = s->rule.over;

    sim_run_until(w, w->time.now_us + ms * SIM_MS);
    if (!w->failed && (s->rule.made != made || s->rule.over != over)) {
        sim_fail(w, what, 0, UINT32_MAX);
    }
}

static void
kill_actor(struct sim_world *w)
{
    uint32_t actor = 0;

    while (actor < w->nodes_count &&
           !scale_seat_acts(&w->scale->seat[actor], sim_now(w, actor))) {
        actor++;
    }
    if (!w->failed && actor < w->nodes_count) {
        sim_node_kill(w, actor);
        sim_add(w, w->time.now_us + 2000 * SIM_MS, SIM_EV_START, actor, 0);
    }
}

/* The islands are apart for longer than an engine may be lost: the side that
 * acts has others instead of those that it does not reach, and once together
 * there are as many as are wanted. */
static void
cut_for_long(struct sim_world *w, uint32_t load, uint32_t engines)
{
    cut(w, true);
    sim_run_until(w, w->time.now_us + 4 * SIM_PROVISION_MS * SIM_MS);
    cut(w, false);
    if (!w->failed) {
        settle_at(w, load, engines);
    }
}

void
sim_rule_exam(struct sim_world *w)
{
    struct sim_scale *s = w->scale;
    uint32_t load = 16; /* two could just do it, and more than two are wanted */

    s->rule.on = true;
    settle_at(w, 4, 1);
    s->rule.load = load;
    sim_run_until(w, w->time.now_us + rng_below(&s->rule.rng, 3000000));
    kill_actor(w);
    settle_at(w, load, 3);
    hold(w, 8000, "engines come and go though nothing changes");
    kill_actor(w);
    hold(w, 6000, "engines come and go because the node that acts is another");
    cut(w, true);
    hold(w, SIM_PROVISION_MS / 2, "engines come and go for a short cut");
    cut(w, false);
    settle_at(w, load, 3);
    hold(w, 6000, "engines come and go after a short cut");
    cut_for_long(w, load, 3);
    hold(w, 6000, "engines come and go after a long cut");
    settle_at(w, 4, 1);
    hold(w, 6000, "engines come and go once the load is gone");
    s->rule.on = false;
}
