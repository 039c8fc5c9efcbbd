/* A fault script, played in the simulator. */
#include <string.h>

#include "chaos/base/fault_script.h"
#include "chaos/sim/sim_world_internal.h"

#define LOSS_PERCENT_MAX 90U /* links are given up on otherwise */

/* The class of faults that it counts as. */
static enum sim_fault
kind_of(enum fault_verb verb)
{
    static const enum sim_fault kinds[FAULT_VERB_KINDS] = {
        [FAULT_SEVER] = SIM_PARTITION, [FAULT_MUTE] = SIM_ONEWAY,
        [FAULT_MISS] = SIM_SEVER,      [FAULT_LOSS] = SIM_LOSS,
        [FAULT_DELAY] = SIM_JITTER,    [FAULT_HEAL] = SIM_PARTITION,
        [FAULT_KILL] = SIM_CRASH,      [FAULT_STOP] = SIM_LEAVE,
        [FAULT_START] = SIM_CRASH,     [FAULT_PAUSE] = SIM_PAUSE,
        [FAULT_RESTART] = SIM_RESTART,
    };

    return kinds[verb];
}

void
sim_options_script(struct sim_options *options,
                   const struct fault_script *script)
{
    options->script = script;
    options->faults = 0;
    options->nodes = script->nodes;
    options->engines = script->engines;
    options->chaos_ms =
        SIM_SCRIPT_MS + script->events[script->events_count - 1].at_ms + 1;
}

void
sim_script_begin(struct sim_world *w)
{
    const struct fault_script *script = w->options.script;

    for (uint32_t i = 0; script->events[i].verb != FAULT_END; i++) {
        uint64_t at_ms = SIM_SCRIPT_MS + script->events[i].at_ms;
        sim_add(w, w->time.now_us + at_ms * SIM_MS, SIM_EV_SCRIPT, i, 0);
        /* What is promised depends on what may happen. */
        w->faults |= 1U << kind_of(script->events[i].verb);
    }
    for (uint32_t i = 0; i < w->engines_count && script->replay != 0; i++) {
        w->engines[i].replay_max = script->replay;
        w->faults |= UINT64_C(1) << SIM_ROLL;
    }
    w->loss_permille = 0;
}

/* A node reaches an engine no more, until links are healed. */
static void
miss_engine(struct sim_world *w, const struct fault_event *event)
{
    uint32_t node = event->argument[0];
    uint32_t engine = event->argument[1];

    w->nodes[node].severed[engine] = true;
    sim_intake_break(w, node, engine, 1000 * SIM_MS);
    w->disturbed_us = w->time.now_us;
}

static void
set_links(struct sim_world *w, const struct fault_event *event)
{
    uint32_t a = event->argument[0];
    uint32_t b = event->argument[1];

    switch ((int)event->verb) {
    case FAULT_SEVER:
        sim_net_sever(w, b, a, true);
        sim_net_sever(w, a, b, true);
        break;
    case FAULT_MUTE:
        sim_net_sever(w, a, b, true);
        break;
    case FAULT_LOSS:
        w->loss_permille = (a < LOSS_PERCENT_MAX ? a : LOSS_PERCENT_MAX) * 10;
        break;
    case FAULT_DELAY:
        w->delay_us = (a - b) * SIM_MS;
        w->jitter_us = UINT64_C(2) * b * SIM_MS;
        break;
    default:
        CHECK(false);
    }
    w->disturbed_us = w->time.now_us;
}

static void
heal_links(struct sim_world *w)
{
    for (uint32_t a = 0; a < w->nodes_count; a++) {
        for (uint32_t b = 0; b < w->nodes_count; b++) {
            sim_net_sever(w, a, b, false);
        }
        memset(w->nodes[a].severed, 0, sizeof w->nodes[a].severed);
    }
    w->loss_permille = 0;
    w->jitter_us = 300;
    w->disturbed_us = w->time.now_us;
}

/* The script says which nodes run, but a shrunk script omits lines. */
static void
hurt_node(struct sim_world *w, const struct fault_event *event)
{
    uint32_t who = event->argument[0];

    if (event->verb == FAULT_START) {
        if (!w->nodes[who].up) {
            sim_node_start(w, who);
        }
    } else if (!sim_runs(w, who)) {
        return;
    } else if (event->verb == FAULT_PAUSE) {
        sim_node_pause(w, who, event->argument[1]);
    } else {
        if (event->verb == FAULT_STOP) {
            role_is_control();
            hub_leave(w->nodes[who].hub, sim_now(w, who));
        }
        sim_node_kill(w, who);
    }
}

void
sim_script_event(struct sim_world *w, uint32_t number)
{
    const struct fault_event *event = &w->options.script->events[number];

    if (w->quiet || !sim_may_break(w, kind_of(event->verb))) {
        return;
    }
    sim_trace(w, "script", number, event->at_ms);
    switch (event->verb) {
    case FAULT_SEVER:
    case FAULT_MUTE:
    case FAULT_LOSS:
    case FAULT_DELAY:
        set_links(w, event);
        break;
    case FAULT_MISS:
        miss_engine(w, event);
        break;
    case FAULT_HEAL:
        heal_links(w);
        break;
    case FAULT_KILL:
    case FAULT_STOP:
    case FAULT_START:
    case FAULT_PAUSE:
        hurt_node(w, event);
        break;
    case FAULT_RESTART:
        sim_engine_restart(w, event->argument[0], false);
        break;
    case FAULT_END:
        break;
    case FAULT_VERB_KINDS:
        CHECK(false);
    }
}
