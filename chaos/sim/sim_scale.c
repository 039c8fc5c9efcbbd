/* Engines that nodes ask for and give back, and what makes them. */
#include "chaos/sim/sim_scale_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURN_US    UINT64_C(150000)
#define TIMEOUT_US UINT64_C(1000000)
#define YOUNG_US \
    UINT64_C(5000000) /* what it had before may be believed still */
#define EXAM_US UINT64_C(25000000)
#define POLL_US (50 * SIM_MS)

static const struct scale_times times = {.provision_ms = SIM_PROVISION_MS,
                                         .drain_ms = 300};

static const char *const pools[] = {"cheap", "dear"};

static uint32_t
quorum_of(const struct sim_world *w)
{
    return w->nodes_count / 2 + 1;
}

static void
worker_of(const char *key, char id[SCALE_WORKER_MAX])
{
    (void)snprintf(id, SCALE_WORKER_MAX, "w%s", key);
}

struct sim_made *
sim_scale_find(struct sim_scale *s, const char *key)
{
    for (uint32_t i = 0; i < s->made_count; i++) {
        if (strcmp(s->made[i].key, key) == 0) {
            return &s->made[i];
        }
    }
    return NULL;
}

/* Whether a node's list has the job. */
static bool
knows(const struct sim_world *w, uint32_t node, const char *key)
{
    char id[ROSTER_ID_MAX];
    struct roster_entry entry;

    (void)snprintf(id, sizeof id, SCALE_JOB_PREFIX "%s", key);
    return roster_find(cluster_roster(w->nodes[node].cluster), id, &entry) &&
           !entry.removed;
}

/* ... that of an engine. */
static bool
knows_made(const struct sim_world *w, uint32_t node,
           const struct sim_made *made)
{
    return w->scale->pods ? sim_pods_known(w, node, made)
                          : knows(w, node, made->key);
}

/* How many nodes know of an engine's job, but for one. */
static uint32_t
count_knowing(const struct sim_world *w, const struct sim_made *made,
              uint32_t but)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < w->nodes_count; i++) {
        count += i != but && w->nodes[i].up && knows_made(w, i, made);
    }
    return count;
}

/* The key of a job's engine. */
static void
key_of(const struct sim_scale *s, const struct scale_job *job,
       char key[SCALE_KEY_MAX])
{
    if (s->pods) {
        sim_pods_key(job->record.number, key);
    } else {
        memcpy(key, job->key, SCALE_KEY_MAX);
    }
}

/* Bits of the nodes that are members as this one sees it, whatever their state. */
static uint32_t
known_to(const struct sim_world *w, uint32_t node)
{
    const struct member_table *members =
        cluster_members(w->nodes[node].cluster);
    struct member_info member;
    uint32_t bits = 0;

    for (uint32_t at = 0; member_get(members, at, &member); at++) {
        for (uint32_t i = 0; i < w->nodes_count; i++) {
            bool same = strcmp(member.update.name, w->nodes[i].name) == 0;
            bits |= (uint32_t)same << i;
        }
    }
    return bits;
}

/* Calls */

/* How long a call is on its way, or an answer; some are late, and may come after
 * those of the next node that acts. */
static uint64_t
way_us(struct sim_world *w)
{
    struct rng *rng = &w->scale->rng;
    bool late = !w->quiet && rng_below(rng, 6) == 0;

    return 1 + rng_below(rng, late ? 6000000 : 300000);
}

static void
call(struct sim_world *w, uint32_t node, struct scale_job *job, bool provision)
{
    struct sim_scale *s = w->scale;
    uint32_t at = 0;
    uint32_t lack = 0;

    while (at < SIM_SCALE_CALLS && s->call[at].used) {
        at++;
    }
    if (at == SIM_SCALE_CALLS || s->made_count + 8 > SIM_MADE_MAX ||
        (s->pods &&
         !sim_pods_holds(s,
                         &(struct sim_scale_call){.node = node,
                                                  .provision = provision,
                                                  .number = job->record.number},
                         job))) {
        return;
    }
    for (uint32_t i = 0; i < w->nodes_count; i++) {
        bool old =
            w->nodes[i].up && w->nodes[i].born_us + YOUNG_US < w->time.now_us;
        lack += old && !knows(w, i, job->key);
    }
    if (lack > w->nodes_count - quorum_of(w)) {
        sim_fail(w, "too few nodes know of an engine that is asked for", node,
                 UINT32_MAX);
    }
    scale_job_called(job);
    struct sim_scale_call *c = &s->call[at];
    *c = (struct sim_scale_call){
        .used = true,
        .provision = provision,
        .barren = s->barren && strcmp(job->record.pool, pools[0]) == 0,
        .node = node,
        .life = w->nodes[node].life,
        .epoch = s->seat[node].lease.own.epoch,
        .begun_us = w->time.now_us,
        .number = job->record.number,
        .known = known_to(w, node)};
    memcpy(c->key, job->key, sizeof c->key);
    bool lost = !w->quiet && rng_below(&s->rng, 8) == 0;
    c->answered = lost;
    sim_add(w, w->time.now_us + (lost ? TIMEOUT_US : way_us(w)), SIM_EV_SCALE,
            at, 0);
    sim_trace(w, provision ? "provision" : "terminate", node, c->epoch);
}

/* A node sends requests there still, as far as it knows. */
static bool
is_used(const struct sim_world *w, uint32_t node, const char *key)
{
    char id[SCALE_WORKER_MAX];
    struct roster_entry entry;

    worker_of(key, id);
    return roster_find(cluster_roster(w->nodes[node].cluster), id, &entry) &&
           !entry.removed && !entry.draining;
}

void
sim_scale_end_engine(struct sim_world *w, struct sim_made *made,
                     const struct sim_scale_call *c)
{
    for (uint32_t i = 0; i < w->nodes_count && made->runs; i++) {
        bool old = w->nodes[i].up && w->nodes[i].born_us < c->begun_us &&
                   (c->known >> i & 1) != 0;
        if (old && is_used(w, i, made->key)) {
            sim_fail(w, "an engine ends that a node has not seen drain", i,
                     UINT32_MAX);
        }
    }
    sim_saw(w, SIM_SAW_GIVEN_BACK, made->runs);
    made->ended += made->runs;
    w->scale->rule.over += made->runs;
    made->runs = false;
}

struct sim_made *
sim_scale_make(struct sim_world *w, const char *key, bool runs)
{
    struct sim_scale *s = w->scale;
    struct sim_made *made = sim_scale_find(s, key);

    if (made == NULL) {
        CHECK(s->made_count < SIM_MADE_MAX);
        made = &s->made[s->made_count++];
        (void)snprintf(made->key, sizeof made->key, "%s", key);
    }
    bool never = !w->quiet && rng_below(&s->rng, 8) == 0;
    made->runs = runs;
    made->blind = 0;
    s->rule.made += runs;
    made->there_us =
        never ? SIM_NEVER : w->time.now_us + rng_below(&s->rng, 1500000);
    sim_saw(w, SIM_SAW_MADE, runs);
    return made;
}

/* A key that was ended is not made again. */
static void
arrive(struct sim_world *w, struct sim_scale_call *c)
{
    struct sim_scale *s = w->scale;
    struct sim_made *made = sim_scale_find(s, c->key);

    if (s->compares && c->epoch < s->epoch) {
        sim_saw(w, SIM_SAW_CUT_OFF, 1);
        return;
    }
    s->epoch = c->epoch > s->epoch ? c->epoch : s->epoch;
    c->well = true;
    if (made == NULL) {
        made = sim_scale_make(w, c->key, c->provision);
        made->there_us = c->barren ? SIM_NEVER : made->there_us;
        made->lost = count_knowing(w, made, UINT32_MAX) == 0;
    } else if (!c->provision) {
        sim_scale_end_engine(w, made, c);
    }
    c->named = c->provision && made->runs && made->there_us <= w->time.now_us;
}

static void
take_in(struct sim_world *w, const struct sim_scale_call *c,
        struct scale_job *job)
{
    struct sim_scale *s = w->scale;
    struct sim_node *n = &w->nodes[c->node];
    struct scale_seat *seat = &s->seat[c->node];
    struct roster *roster = cluster_roster(n->cluster);
    uint64_t now = sim_now(w, c->node);
    struct scale_record record = job->record;

    if (!scale_seat_acts(seat, now)) {
        return;
    }
    if (s->pods && !sim_pods_holds(s, c, job)) {
        return;
    }
    if (record.state == SCALE_ENDS && !c->provision) {
        if (record.worker[0] != '\0') {
            CHECK(roster_remove(roster, record.worker, now) >= 0);
        }
        CHECK(scale_seat_forget(job, n->cluster, now) >= 0);
    } else if (record.state == SCALE_ASKED &&
               (c->named || (s->pods && c->provision))) {
        char key[SCALE_KEY_MAX];
        key_of(s, job, key);
        record.state = SCALE_COMES;
        worker_of(key, record.worker);
        CHECK(roster_put(roster, record.worker, SLICE("spec"), now) == 0);
        CHECK(scale_seat_say(seat, n->cluster, job->key, &record, now) == 0);
    }
}

static void
answer(struct sim_world *w, const struct sim_scale_call *c)
{
    struct sim_node *n = &w->nodes[c->node];
    struct scale_job *job = scale_seat_find(&w->scale->seat[c->node], c->key);

    if (job == NULL || !job->calling) {
        return;
    }
    if (c->well) {
        take_in(w, c, job);
    }
    scale_job_answered(job, c->well, sim_now(w, c->node));
    sim_node_pull(w, (uint32_t)(n - w->nodes));
}

void
sim_scale_event(struct sim_world *w, const struct virtual_event *event)
{
    struct sim_scale *s = w->scale;
    struct sim_scale_call *c = &s->call[event->who];
    bool alive = w->nodes[c->node].up && w->nodes[c->node].life == c->life;

    CHECK(c->used);
    if (!c->answered) {
        (s->pods ? sim_pods_arrive : arrive)(w, c);
        c->answered = true;
        bool lost = !w->quiet && rng_below(&s->rng, 8) == 0;
        c->well = c->well && !lost;
        sim_add(w, w->time.now_us + (lost ? TIMEOUT_US : way_us(w)),
                SIM_EV_SCALE, event->who, 0);
    } else if (alive && !sim_runs(w, c->node)) {
        sim_add(w, w->nodes[c->node].paused_us + 1, SIM_EV_SCALE, event->who,
                0);
    } else if (alive && s->pods && sim_pods_go_on(c)) {
        c->answered = false;
        sim_add(w, w->time.now_us + way_us(w), SIM_EV_SCALE, event->who, 0);
    } else {
        c->used = false;
        if (alive) {
            answer(w, c);
        }
    }
}

/* A node's turn */

static void
say_state(struct sim_world *w, uint32_t node, struct scale_job *job,
          enum scale_state state)
{
    struct scale_record record = job->record;

    record.state = state;
    CHECK(scale_seat_say(&w->scale->seat[node], w->nodes[node].cluster,
                         job->key, &record, sim_now(w, node)) == 0);
}

static void
drain(struct sim_world *w, uint32_t node, const struct scale_job *job,
      bool draining)
{
    CHECK(roster_drain(cluster_roster(w->nodes[node].cluster),
                       job->record.worker, draining, sim_now(w, node)) >= 0);
}

static void
carry_on(struct sim_world *w, uint32_t node, struct scale_job *job,
         enum scale_do what)
{
    switch (what) {
    case SCALE_DO_NOTHING:
        break;
    case SCALE_DO_PROVISION:
    case SCALE_DO_TERMINATE:
        call(w, node, job, what == SCALE_DO_PROVISION);
        break;
    case SCALE_DO_WORK:
        say_state(w, node, job, SCALE_WORKS);
        drain(w, node, job, false);
        break;
    case SCALE_DO_DRAIN:
        if (job->record.state != SCALE_ENDS) {
            say_state(w, node, job, SCALE_DRAINS);
        }
        drain(w, node, job, true);
        break;
    case SCALE_DO_END:
        say_state(w, node, job, SCALE_ENDS);
        break;
    }
}

static uint32_t
count_working(const struct scale_seat *seat)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < seat->count; i++) {
        count += seat->job[i].record.state == SCALE_WORKS;
    }
    return count;
}

/* The name of the pool that is asked. */
static const char *
buy(struct sim_world *w, uint32_t node)
{
    const struct sim_scale *s = w->scale;
    const struct scale_seat *seat = &s->seat[node];
    struct scale_market market = {.pools = s->pools,
                                  .places = 1,
                                  .within_us = SCALE_ANY_WAY,
                                  .money_milli = SCALE_MONEY_NO_END,
                                  .provision_ms = times.provision_ms,
                                  .now_us = sim_now(w, node)};
    uint32_t at = 0;

    for (uint32_t i = 0; i < s->pools; i++) {
        market.pool[i] = (struct scale_pool){
            .engines = scale_seat_count(seat, NULL, pools[i]),
            .max = i == 0 ? 2 : UINT32_MAX,
            .price_milli = i,
            .record = scale_seat_record_of(seat, pools[i])};
    }
    if (s->pools == 0) {
        return "";
    }
    CHECK(scale_market_buy(&market, &at));
    return pools[at];
}

/* As many as are wanted, and more; one goes at a time. */
static void
wish(struct sim_world *w, uint32_t node, uint32_t more)
{
    struct sim_scale *s = w->scale;
    struct scale_seat *seat = &s->seat[node];
    uint32_t engines = count_working(seat) + scale_seat_coming(seat, NULL);
    char key[SCALE_KEY_MAX];

    if (engines < s->desired || more != 0) {
        struct scale_job *back = scale_seat_find_draining(seat, "m");
        if (back != NULL && more == 0) {
            carry_on(w, node, back, SCALE_DO_WORK);
        } else {
            const struct scale_order order = {.model = "m",
                                              .pool = buy(w, node)};
            CHECK(scale_seat_ask(seat, w->nodes[node].cluster, &order, key,
                                 sim_now(w, node)) == 0);
        }
    }
    for (uint32_t i = 0; i < seat->count && engines > s->desired; i++) {
        bool may = !s->pods || &seat->job[i] == scale_seat_find_last(seat, "");
        if (may && seat->job[i].record.state == SCALE_WORKS) {
            seat->job[i].goes = true;
            break;
        }
    }
}

static void
carry_all_on(struct sim_world *w, uint32_t node)
{
    struct sim_scale *s = w->scale;
    struct scale_seat *seat = &s->seat[node];
    uint64_t now = sim_now(w, node);

    for (uint32_t i = 0; i < seat->count && !w->failed; i++) {
        struct scale_job *job = &seat->job[i];
        char key[SCALE_KEY_MAX];
        key_of(s, job, key);
        const struct sim_made *made = sim_scale_find(s, key);
        bool ready = made != NULL && made->runs &&
                     made->there_us <= w->time.now_us &&
                     (made->blind >> node & 1) == 0;
        scale_seat_reach(job, w->nodes[node].cluster, ready, now);
        struct scale_facts facts = scale_seat_facts(
            seat, w->nodes[node].cluster, job, quorum_of(w), now);
        facts.ready = ready;
        facts.reaches = true; /* some engine that nobody asked for */
        facts.idle = rng_below(&s->rng, 20) != 0 || !facts.ready;
        enum scale_do what = scale_job_next(job, &facts, &times, now);
        carry_on(w, node, job,
                 s->pods ? sim_pods_next(w, node, job, &facts, what) : what);
    }
    if (s->rule.on) {
        sim_rule_look(w, node);
    }
    if (scale_seat_acts(seat, now)) {
        wish(w, node, s->pods && sim_pods_gap(w, node) ? 1 : 0);
    }
}

static void
check_one_acts(struct sim_world *w)
{
    uint32_t acting = 0;

    for (uint32_t i = 0; i < w->nodes_count; i++) {
        acting += w->nodes[i].up &&
                  scale_seat_acts(&w->scale->seat[i], sim_now(w, i));
    }
    if (acting > 1) {
        sim_fail(w, "two nodes act on how many engines there are", 0,
                 UINT32_MAX);
    }
}

/* Some nodes reach some engines no more, or all do:*/
static void
look_away(struct sim_world *w)
{
    struct sim_scale *s = w->scale;

    s->sees_us = w->time.now_us + (1 + rng_below(&s->rng, 6000)) * SIM_MS;
    for (uint32_t m = 0; m < s->made_count; m++) {
        s->made[m].blind =
            rng_below(&s->rng, 2) == 0 ? 0 : (uint32_t)rng_next(&s->rng);
    }
}

void
sim_scale_turn(struct sim_world *w, uint32_t node)
{
    struct sim_scale *s = w->scale;

    if (s == NULL || w->time.now_us < s->turned_us[node] + TURN_US) {
        return;
    }
    s->turned_us[node] = w->time.now_us;
    if (w->time.now_us >= s->moves_us && !s->exam) {
        s->desired = 1 + (uint32_t)rng_below(&s->rng, 4);
        s->moves_us = w->time.now_us + (1 + rng_below(&s->rng, 2000)) * SIM_MS;
    }
    if (w->time.now_us >= s->sees_us && !s->exam) {
        look_away(w);
    }
    const struct scale_voting voting = {
        .quorum = quorum_of(w),
        .lease_us = SIM_SCALE_LEASE_US,
        .wall_s = (uint32_t)(w->time.now_us / 1000000),
    };
    scale_seat_turn(&s->seat[node], w->nodes[node].cluster, &voting,
                    sim_now(w, node));
    check_one_acts(w);
    if (!w->quiet || s->exam) {
        carry_all_on(w, node);
    }
}

/* Nodes */

void
sim_scale_node_start(struct sim_world *w, uint32_t node)
{
    if (w->scale != NULL) {
        scale_seat_init(&w->scale->seat[node], w->nodes[node].name,
                        SIM_SCALE_LEASE_US, sim_now(w, node));
        sim_rule_forget(w->scale, node);
        w->scale->turned_us[node] = w->time.now_us;
    }
}

/* Before its list goes. */
void
sim_scale_node_gone(struct sim_world *w, uint32_t node)
{
    struct sim_scale *s = w->scale;

    for (uint32_t m = 0; s != NULL && m < s->made_count; m++) {
        s->made[m].lost =
            s->made[m].lost || (knows_made(w, node, &s->made[m]) &&
                                count_knowing(w, &s->made[m], node) == 0);
    }
}

/* The world */

void
sim_scale_begin(struct sim_world *w)
{
    if (!sim_has(w, SIM_SCALE)) {
        return;
    }
    w->scale = calloc(1, sizeof *w->scale);
    CHECK(w->scale != NULL);
    rng_init(&w->scale->rng, rng_mix(w->options.seed ^ 0x7363616c));
    sim_rule_begin(w->scale, w->options.seed);
    w->scale->compares = rng_below(&w->scale->rng, 2) == 0;
    w->scale->pods = rng_below(&w->scale->rng, 3) == 0;
    uint64_t kind = rng_mix(w->options.seed ^ 0x706f6f6c);
    w->scale->pools = (kind & 1) != 0 && !w->scale->pods ? 2 : 0;
    w->scale->barren = w->scale->pools != 0 && (kind & 2) != 0;
    w->config.roster.entries_max = 1024;
    w->faults &=
        ~(UINT64_C(1) << SIM_DAY); /* the list forgets who was removed */
}

void
sim_scale_end(struct sim_world *w)
{
    free(w->scale);
    w->scale = NULL;
}

/* The exam */

/* Engines of a node that work, and take nothing. */
static uint32_t
count_drained(struct sim_world *w, uint32_t node)
{
    struct scale_seat *seat = &w->scale->seat[node];
    uint32_t count = 0;

    for (uint32_t i = 0; i < seat->count; i++) {
        struct scale_facts facts =
            scale_seat_facts(seat, w->nodes[node].cluster, &seat->job[i],
                             quorum_of(w), sim_now(w, node));
        count += seat->job[i].record.state == SCALE_WORKS && facts.drains;
    }
    return count;
}

/* Until as many engines as are wanted run and work, and no other; NULL: so it
 * is. A pod without a job gets one below others, and the last one goes then. */
const char *
sim_scale_judge(struct sim_world *w)
{
    struct sim_scale *s = w->scale;
    uint32_t running = 0;
    uint32_t acting = 0;

    for (uint32_t i = 0; i < w->nodes_count; i++) {
        if (!sim_runs(w, i)) {
            return "a node does not run";
        }
        acting += scale_seat_acts(&s->seat[i], sim_now(w, i));
    }
    if (acting != 1) {
        return "nobody acts on how many engines there are";
    }
    for (uint32_t m = 0; m < s->made_count; m++) {
        const struct sim_made *made = &s->made[m];
        bool known = knows_made(w, 0, made);
        if (made->runs && !known && !made->lost) {
            return "an engine runs that no node knows";
        }
        running += made->runs && known;
    }
    for (uint32_t i = 0; i < w->nodes_count; i++) {
        const struct scale_seat *seat = &s->seat[i];
        if (count_drained(w, i) != 0) {
            return "an engine works and drains";
        }
        if (s->pods && scale_pods_gap(seat->job, seat->count, "") != NULL) {
            return "a pod below one that came has no job";
        }
        if (count_working(seat) != s->desired || seat->count != s->desired ||
            running != s->desired) {
            return "there are not as many engines as are wanted";
        }
    }
    return sim_check_agreed(w);
}

/* Each node looks once before anything is judged: from the end of the faults to
 * the exam none did. */
static void
want(struct sim_world *w, uint32_t desired)
{
    uint64_t until_us = w->time.now_us + EXAM_US;
    const char *why;

    w->scale->desired = desired;
    sim_run_until(w, w->time.now_us + 2 * TURN_US);
    do {
        sim_run_until(w, w->time.now_us + POLL_US);
        why = w->failed ? NULL : sim_scale_judge(w);
    } while (why != NULL && w->time.now_us < until_us);
    if (why != NULL) {
        sim_fail(w, why, 0, UINT32_MAX);
    }
}

/* Each engine is reached by some node, and not by all: all stay. */
static void
reach_some(struct sim_world *w)
{
    struct sim_scale *s = w->scale;
    uint32_t all = (UINT32_C(1) << w->nodes_count) - 1;
    uint32_t made = s->made_count;
    uint32_t ran = 0;
    uint32_t run = 0;

    for (uint32_t m = 0; m < s->made_count; m++) {
        uint32_t sees = (uint32_t)rng_below(&s->rng, w->nodes_count);
        s->made[m].blind = all & ~(UINT32_C(1) << sees);
        ran += s->made[m].runs;
    }
    sim_run_until(w, w->time.now_us + 2 * SIM_PROVISION_MS * SIM_MS);
    for (uint32_t m = 0; m < s->made_count; m++) {
        run += s->made[m].runs;
    }
    if (!w->failed && (run != ran || s->made_count != made)) {
        sim_fail(w, "an engine is lost that some node reaches", 0, UINT32_MAX);
    }
}

/* No node reaches one any more: it ends, and another one comes. A pod may have
 * another one above it by then: it is well again. */
static void
reach_none(struct sim_world *w)
{
    struct sim_scale *s = w->scale;
    uint64_t until_us = w->time.now_us + EXAM_US;
    struct sim_made *gone = NULL;

    for (uint32_t m = 0; m < s->made_count; m++) {
        struct sim_made *made = &s->made[m];
        bool known = made->runs && knows_made(w, 0, made);
        bool instead = gone == NULL || (s->pods ? made->number > gone->number
                                                : rng_below(&s->rng, 2) == 0);
        made->blind = 0;
        gone = known && instead ? made : gone;
    }
    if (gone == NULL || w->failed) {
        return;
    }
    if (s->pods) {
        gone->blind = UINT32_MAX;
        sim_run_until(w, w->time.now_us + 2 * SIM_PROVISION_MS * SIM_MS);
        gone->blind = 0;
        want(w, 3);
        return;
    }
    uint32_t ended = gone->ended;
    gone->blind = UINT32_MAX;
    while (!w->failed && gone->ended == ended && w->time.now_us < until_us) {
        sim_run_until(w, w->time.now_us + POLL_US);
    }
    if (!w->failed && gone->ended == ended) {
        sim_fail(w, "an engine stays that no node reaches", 0, UINT32_MAX);
    }
    want(w, 3);
}

/* An operator drains the one that is left: it ends, and another one comes. */
static void
drain_by_hand(struct sim_world *w)
{
    struct sim_scale *s = w->scale;
    uint32_t over = s->rule.over;
    uint64_t until_us = w->time.now_us + 4 * EXAM_US; /* it is idle by luck */

    for (uint32_t i = 0; i < s->seat[0].count; i++) {
        drain(w, 0, &s->seat[0].job[i], true);
    }
    while (!w->failed && s->rule.over == over && w->time.now_us < until_us) {
        sim_run_until(w, w->time.now_us + POLL_US);
    }
    if (!w->failed && s->rule.over == over) {
        sim_fail(w, "an engine stays that an operator drained", 0, UINT32_MAX);
    }
    want(w, 1);
}

void
sim_scale_exam(struct sim_world *w)
{
    struct sim_scale *s = w->scale;
    uint32_t actor = 0;

    if (s == NULL || w->failed) {
        return;
    }
    s->exam = true;
    for (uint32_t m = 0; m < s->made_count; m++) {
        s->made[m].blind = 0;
    }
    if (s->pods) {
        sim_pods_begin_exam(w);
    }
    want(w, 3);
    if (!w->failed) {
        reach_some(w);
    }
    if (!w->failed) {
        reach_none(w);
    }
    s->desired = 1;
    sim_run_until(w, w->time.now_us + rng_below(&s->rng, 4000000));
    while (!w->failed && actor < w->nodes_count &&
           !scale_seat_acts(&s->seat[actor], sim_now(w, actor))) {
        actor++;
    }
    if (!w->failed && actor < w->nodes_count) {
        sim_node_kill(w, actor);
        sim_add(w, w->time.now_us + 2000 * SIM_MS, SIM_EV_START, actor, 0);
    }
    want(w, 1);
    if (!w->failed) {
        drain_by_hand(w);
    }
    if (!w->failed && s->rule.examined) {
        sim_rule_exam(w);
    }
    s->exam = false;
}
