/* How many engines a group should have. */
#include "node/scale/scale.h"

#include <math.h>
#include <string.h>

#include "index/base/check.h"

const char *
scale_why_name(enum scale_why why)
{
    static const char *const names[] = {
        [SCALE_FITS] = "fits",
        [SCALE_UNKNOWN] = "unknown",
        [SCALE_REQUESTS] = "requests",
        [SCALE_QUEUE] = "queue",
        [SCALE_KV] = "kv",
        [SCALE_SLO] = "slo",
        [SCALE_WAIT] = "wait",
        [SCALE_SHED] = "shed",
        [SCALE_TREND_UP] = "trend",
        [SCALE_LEAST] = "least",
        [SCALE_MOST] = "most",
        [SCALE_BUDGET] = "budget",
        [SCALE_ROOM] = "pools",
        [SCALE_COMING] = "coming",
        [SCALE_IDLE] = "idle",
        [SCALE_COOLS] = "cools",
    };

    CHECK(why < SCALE_WHYS);
    return names[why];
}

static uint32_t
bounded(uint64_t need)
{
    return need < SCALE_NEED_MAX ? (uint32_t)need : SCALE_NEED_MAX;
}

/* Raises the need to this one, for that reason. */
static void
raise_to(struct scale_choice *choice, uint64_t need, enum scale_why why)
{
    if (bounded(need) > choice->need_milli) {
        choice->need_milli = bounded(need);
        choice->why = why;
    }
}

/* Whether requests wait that have not just come. */
static bool
has_queue(const struct scale_signals *s)
{
    return (uint64_t)s->waiting + s->queued > s->ready;
}

/* Whether these engines could take no more. */
static bool
is_full(const struct scale_signals *s)
{
    return has_queue(s) || (s->capacity != 0 &&
                            s->requests >= (uint64_t)s->capacity * s->ready);
}

static void
weigh(const struct scale_config *config, const struct scale_signals *s,
      struct scale_choice *choice)
{
    uint64_t asked = (uint64_t)s->requests + s->queued;
    uint64_t running = s->requests > s->waiting ? s->requests - s->waiting : 1;

    CHECK(s->ready > 0 && config->target_permille > 0);
    if (s->capacity != 0) {
        raise_to(choice,
                 asked * 1000 * 1000 / s->capacity / config->target_permille,
                 SCALE_REQUESTS);
    }
    if (has_queue(s)) {
        raise_to(choice, s->ready * asked * 1000 / running, SCALE_QUEUE);
    }
    raise_to(choice, (uint64_t)s->ready * s->kv_permille * 1000 / SCALE_KV_FULL,
             SCALE_KV);
}

static void
remember(struct scale_group *group, const struct scale_signals *s,
         uint32_t need_milli, uint64_t now_us)
{
    group->sample[group->next] = (struct scale_sample){.at_us = now_us,
                                                       .need_milli = need_milli,
                                                       .answers = s->answers,
                                                       .late = s->late};
    group->next = (group->next + 1) % SCALE_SAMPLES;
    group->samples += group->samples < SCALE_SAMPLES;
}

/* Whether so many first tokens were late, with these engines, that it is no
 * chance. */
static bool
is_slow(const struct scale_group *group, uint64_t now_us, uint64_t wait_us)
{
    uint64_t come_us = group->asked_us != 0 ? group->asked_us + wait_us : 0;
    uint64_t from_us =
        come_us > group->changed_us ? come_us : group->changed_us;
    uint64_t answers = 0;
    uint64_t late = 0;

    for (uint32_t i = 0; i < group->samples; i++) {
        const struct scale_sample *sample = &group->sample[i];
        bool counts =
            sample->at_us >= from_us && now_us - sample->at_us <= wait_us;
        answers += counts ? sample->answers : 0;
        late += counts ? sample->late : 0;
    }
    return late >= SCALE_LATE_LEAST && late * 1000 > answers * SCALE_LATE;
}

/* One more than there are, where what they were measured by does not show
 * it. */
static void
want_more(const struct scale_group *group, const struct scale_config *config,
          const struct scale_signals *s, uint64_t now_us,
          struct scale_choice *choice)
{
    uint64_t more = (s->ready + UINT64_C(1)) * 1000;

    if (is_slow(group, now_us, config->provision_ms * UINT64_C(1000))) {
        raise_to(choice, more, SCALE_SLO);
    }
    if (s->waited_ms != 0 && s->wait_most_ms != 0 &&
        s->waited_ms >= s->wait_most_ms / 2) {
        raise_to(choice, more, SCALE_WAIT);
    }
    if (s->shed > 0 && is_full(s)) {
        raise_to(choice, more, SCALE_SHED);
    }
}

/* What the line of least squares through the samples says for so long after the
 * last one, less what chance may have made of its slope; 0: there is no rising
 * line. */
static uint64_t
forecast(const struct scale_group *group, uint64_t now_us, uint32_t ahead_ms)
{
    double n = group->samples;
    double sum_t = 0;
    double sum_y = 0;
    double sum_tt = 0;
    double sum_ty = 0;
    double sum_yy = 0;

    if (group->samples < SCALE_SAMPLES) {
        return 0;
    }
    for (uint32_t i = 0; i < group->samples; i++) {
        const struct scale_sample *sample = &group->sample[i];
        double t = (double)(now_us - sample->at_us) * -1e-3; /* ms, to now */
        double y = sample->need_milli;
        sum_t += t;
        sum_y += y;
        sum_tt += t * t;
        sum_ty += t * y;
        sum_yy += y * y;
    }
    double spread = n * sum_tt - sum_t * sum_t;
    if (spread <= 0) {
        return 0;
    }
    double slope = (n * sum_ty - sum_t * sum_y) / spread;
    double left = n * sum_yy - sum_y * sum_y - slope * slope * spread;
    slope -= SCALE_SURE * sqrt(left > 0 ? left / (n - 2) / spread : 0);
    double then = (sum_y - slope * sum_t) / n + slope * ahead_ms;
    return slope > 0 && then > 0 ? bounded((uint64_t)then) : 0;
}

/* Engines that there may be; and what bounds them. */
static uint32_t
most_of(const struct scale_config *config, const struct scale_signals *s,
        enum scale_why *why)
{
    uint64_t bought = (uint64_t)s->engines + s->room;

    *why = bought >= config->max ? SCALE_MOST
           : s->poor             ? SCALE_BUDGET
                                 : SCALE_ROOM;
    return bought < config->max ? (uint32_t)bought : config->max;
}

static void
look_up(struct scale_group *group, const struct scale_config *config,
        const struct scale_signals *s, uint32_t wanted, uint64_t now_us,
        struct scale_choice *choice)
{
    enum scale_why bound;
    uint32_t most = most_of(config, s, &bound);
    uint64_t wait_us = config->provision_ms * UINT64_C(1000);
    bool waits = group->asked_us != 0 && now_us - group->asked_us < wait_us;

    CHECK(wanted > s->engines);
    if (most <= s->engines) {
        choice->why = bound;
        return;
    }
    if (waits) { /* what was asked for is still wanted, and no more */
        choice->desired = group->asked > s->engines ? group->asked : s->engines;
        choice->desired = choice->desired < most ? choice->desired : most;
        choice->why = SCALE_COMING;
        return;
    }
    wanted =
        wanted < s->engines + config->step ? wanted : s->engines + config->step;
    choice->desired = wanted < most ? wanted : most;
    group->asked_us = now_us;
    group->asked = choice->desired;
}

/* Whether one fewer is enough, and has been for long enough. */
static void
look_down(struct scale_group *group, const struct scale_config *config,
          const struct scale_signals *s, uint64_t now_us,
          struct scale_choice *choice)
{
    uint64_t wait_us = config->cool_down_ms * UINT64_C(1000);
    uint64_t fewer = s->engines > 0 ? s->engines - 1 : 0;

    bool unmeasured = s->capacity == 0 && !group->kv_seen && s->requests > 0;

    choice->why = SCALE_FITS;
    if (unmeasured || s->engines <= config->min || s->ready < s->engines ||
        choice->soon_milli > fewer * SCALE_SPARE) {
        group->spare_since_us = 0;
        return;
    }
    if (group->spare_since_us == 0) {
        group->spare_since_us = now_us;
    }
    bool recent =
        group->changed_us != 0 && now_us - group->changed_us < wait_us;
    if (recent || now_us - group->spare_since_us < wait_us) {
        choice->why = SCALE_COOLS;
        return;
    }
    choice->desired = (uint32_t)fewer;
    choice->why = SCALE_IDLE;
}

void
scale_look(struct scale_group *group, const struct scale_config *config,
           const struct scale_signals *signals, uint64_t now_us,
           struct scale_choice *choice)
{
    const struct scale_signals *s = signals;

    CHECK(config->min <= config->max && config->step > 0);
    CHECK(s->ready <= s->engines);
    *choice = (struct scale_choice){.desired = s->engines, .why = SCALE_FITS};
    if (group->engines != s->engines) {
        group->changed_us = group->samples > 0 ? now_us : 0;
        group->engines = s->engines;
    }
    if (s->engines < config->min) {
        uint32_t most = most_of(config, s, &choice->why);
        choice->desired = config->min < most ? config->min : most;
        choice->why = choice->desired > s->engines ? SCALE_LEAST : choice->why;
        return;
    }
    if (s->ready == 0) {
        choice->why = SCALE_UNKNOWN;
        return;
    }
    group->kv_seen = group->kv_seen || s->kv_permille > 0;
    weigh(config, s, choice);
    remember(group, s, choice->need_milli, now_us);
    uint64_t then = forecast(group, now_us, config->provision_ms);
    uint64_t twice = choice->need_milli * UINT64_C(2);
    want_more(group, config, s, now_us, choice);
    then = then < twice ? then : twice;
    choice->soon_milli = choice->need_milli;
    if (then > choice->need_milli) {
        choice->soon_milli = bounded(then);
    }
    uint32_t wanted = (choice->soon_milli + 999) / 1000;
    if (wanted <= s->engines) {
        look_down(group, config, s, now_us, choice);
        return;
    }
    group->spare_since_us = 0;
    if ((choice->need_milli + 999) / 1000 <= s->engines) {
        choice->why = SCALE_TREND_UP;
    }
    look_up(group, config, s, wanted, now_us, choice);
}

/* Of two that hold little. */
static bool
goes_before(const struct scale_engine *a, const struct scale_engine *b)
{
    if (a->price_milli != b->price_milli) {
        return a->price_milli > b->price_milli;
    }
    if (a->blocks != b->blocks) {
        return a->blocks < b->blocks;
    }
    if (a->requests != b->requests) {
        return a->requests < b->requests;
    }
    return strcmp(a->id, b->id) > 0;
}

size_t
scale_victim(const struct scale_engine *engines, size_t count)
{
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    size_t victim = count;

    CHECK(count > 0);
    for (size_t i = 0; i < count; i++) {
        uint64_t blocks = engines[i].blocks;
        least = blocks < least ? blocks : least;
        most = blocks > most ? blocks : most;
    }
    uint64_t little = least + most * SCALE_NEAR / 1000;
    for (size_t i = 0; i < count; i++) {
        if (engines[i].blocks <= little &&
            (victim == count || goes_before(&engines[i], &engines[victim]))) {
            victim = i;
        }
    }
    CHECK(victim < count);
    return victim;
}
