/* Ends of real requests, counted as a replay counts simulated ones. */
#include "chaos/replay/replay_count.h"

#include <errno.h>
#include <stdlib.h>

#include "index/base/ascii.h"

struct replay_counted {
    uint64_t ttft_us; /* these three of answered requests */
    uint64_t whole_us;
    uint64_t itl_us; /* UINT64_MAX: fewer than two tokens */
    uint64_t sent_us;
    uint64_t end_us;
    uint32_t worker; /* row of stats.workers; LOAD_WORKERS_MAX: not told */
    bool answered;
    bool is_short;
};

int
replay_count_init(struct replay_count *count, const struct replay_setup *setup,
                  const struct replay_load *load)
{
    CHECK(load->count > 0);
    *count = (struct replay_count){
        .load = load,
        .first_us = UINT64_MAX,
        .slo_ttft_ms = setup->slo_ttft_ms,
        .slo_itl_ms = setup->slo_itl_ms,
        .short_len = setup->short_len,
    };
    if (load_stats_init(&count->stats, load->count) != 0) {
        return -ENOMEM;
    }
    count->counted = calloc(load->count, sizeof(*count->counted));
    count->scratch = calloc(load->count, 2 * sizeof(*count->scratch));
    if (count->counted == NULL || count->scratch == NULL) {
        replay_count_fini(count);
        return -ENOMEM;
    }
    return 0;
}

void
replay_count_fini(struct replay_count *count)
{
    load_stats_fini(&count->stats);
    free(count->counted);
    free(count->scratch);
    *count = (struct replay_count){.load = NULL};
}

void
replay_count_sent(struct replay_count *count)
{
    load_stats_send(&count->stats);
    count->result.sent++;
}

/* "HELD/ALL", two counts; false: it is not. */
static bool
read_overlap(struct slice text, uint64_t *held, uint64_t *all)
{
    uint64_t number[2] = {0, 0};
    unsigned digits[2] = {0, 0};
    unsigned which = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '/' && which == 0) {
            which = 1;
        } else if (!ascii_is_digit(c) || ++digits[which] > 9) {
            return false;
        } else {
            number[which] = number[which] * 10 + (uint64_t)(c - '0');
        }
    }
    *held = number[0];
    *all = number[1];
    return digits[0] > 0 && digits[1] > 0;
}

static void
add_promise(struct replay_count *count, struct slice overlap, uint64_t prompt)
{
    uint64_t held;
    uint64_t all;

    if (!read_overlap(overlap, &held, &all) || all == 0) {
        return;
    }
    count->told++;
    count->result.promised_tokens +=
        held < all ? prompt * held / all : prompt; /* all: as many, or texts */
}

static void
add_mode(struct replay_result *result, struct slice mode)
{
    if (slice_equal(mode, SLICE("affinity"))) {
        result->modes[REPLAY_MODE_AFFINITY]++;
    } else if (slice_equal(mode, SLICE("balance"))) {
        result->modes[REPLAY_MODE_BALANCE]++;
    } else if (mode.len > 0) {
        result->modes[REPLAY_MODE_POLICY]++;
    }
}

/* What the answer says of itself, no more cached than there was. */
static struct load_usage
usage_of(const struct replay_count *count, const struct replay_end *end)
{
    struct load_usage usage = end->usage;

    if (!end->has_usage) {
        usage = (struct load_usage){
            .prompt_tokens = count->load->requests[end->number].prompt_tokens,
            .completion_tokens = end->chunks};
    }
    if (usage.cached_tokens > usage.prompt_tokens) {
        usage.cached_tokens = usage.prompt_tokens;
    }
    return usage;
}

static void
add_answer(struct replay_count *count, const struct replay_end *end,
           const struct load_usage *usage, struct replay_counted *counted)
{
    struct replay_result *result = &count->result;
    const struct replay_request *r = &count->load->requests[end->number];
    uint64_t first_us = end->first_us != 0 ? end->first_us : end->end_us;
    uint64_t last_us = end->last_us != 0 ? end->last_us : end->end_us;
    uint64_t gaps = usage->completion_tokens;

    CHECK(end->due_us <= first_us && first_us <= last_us);
    gaps -= gaps > 0;
    counted->answered = true;
    counted->is_short =
        (uint64_t)r->prompt_tokens + r->output_tokens <= count->short_len;
    counted->ttft_us = first_us - end->due_us;
    counted->whole_us = last_us - end->due_us;
    counted->itl_us = gaps > 0 ? (last_us - first_us) / gaps : UINT64_MAX;
    result->finished++;
    result->prompt_tokens += usage->prompt_tokens;
    result->cached_tokens += usage->cached_tokens;
    result->output_tokens += usage->completion_tokens;
    result->within_slo +=
        counted->ttft_us <= count->slo_ttft_ms * UINT64_C(1000) &&
        (gaps == 0 || counted->itl_us <= count->slo_itl_ms * UINT64_C(1000));
    add_promise(count, end->overlap, usage->prompt_tokens);
    add_mode(result, end->mode);
    count->last_us = last_us > count->last_us ? last_us : count->last_us;
    if (counted->worker < LOAD_WORKERS_MAX) {
        count->computed[counted->worker] += usage->prompt_tokens -
                                            usage->cached_tokens +
                                            usage->completion_tokens;
    }
}

void
replay_count_end(struct replay_count *count, const struct replay_end *end)
{
    CHECK(end->number < count->load->count);
    CHECK(count->counted_count < count->load->count);
    CHECK(end->due_us <= end->sent_us && end->sent_us <= end->end_us);
    struct load_usage usage = usage_of(count, end);
    struct load_end told = {
        .outcome = end->outcome,
        .worker = end->worker,
        .node = end->node,
        .at_us = end->end_us,
        .has_first = end->first_us != 0,
        .first_us = end->first_us != 0 ? end->first_us - end->due_us : 0,
        .whole_us = end->end_us - end->due_us,
        .usage = usage,
    };
    struct replay_counted *counted = &count->counted[count->counted_count++];

    load_stats_end(&count->stats, &told);
    *counted = (struct replay_counted){
        .sent_us = end->sent_us,
        .end_us = end->end_us,
        .worker = end->worker.len == 0
                      ? LOAD_WORKERS_MAX
                      : load_table_row(&count->stats.workers, end->worker),
    };
    count->first_us =
        end->due_us < count->first_us ? end->due_us : count->first_us;
    if (end->outcome == LOAD_ANSWERED) {
        add_answer(count, end, &usage, counted);
    }
}

enum which {
    TTFT,
    TTFT_SHORT,
    TTFT_LONG,
    WHOLE,
    ITL,
};

/* These times of answered requests, in scratch. */
static struct load_times
pick(struct replay_count *count, enum which which)
{
    struct load_times times = {.us = count->scratch};

    for (uint32_t i = 0; i < count->counted_count; i++) {
        const struct replay_counted *c = &count->counted[i];
        bool wanted = c->answered;
        uint64_t us = c->ttft_us;
        switch (which) {
        case TTFT:
            break;
        case TTFT_SHORT:
        case TTFT_LONG:
            wanted = wanted && c->is_short == (which == TTFT_SHORT);
            break;
        case WHOLE:
            us = c->whole_us;
            break;
        case ITL:
            us = c->itl_us;
            wanted = wanted && us != UINT64_MAX;
            break;
        }
        if (wanted) {
            times.us[times.count++] = us;
        }
    }
    return times;
}

static int
compare(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;

    return (*x > *y) - (*x < *y);
}

/* Most requests between sending and end at one worker. Begins are odd, so that
 * of one moment ends come first. */
static uint32_t
most_open(struct replay_count *count, uint32_t worker)
{
    uint32_t marks = 0;
    uint32_t open = 0;
    uint32_t most = 0;

    for (uint32_t i = 0; i < count->counted_count; i++) {
        const struct replay_counted *c = &count->counted[i];
        if (c->worker == worker && c->end_us > c->sent_us) {
            count->scratch[marks++] = c->sent_us << 1 | 1;
            count->scratch[marks++] = c->end_us << 1;
        }
    }
    qsort(count->scratch, marks, sizeof(*count->scratch), compare);
    for (uint32_t i = 0; i < marks; i++) {
        open = (count->scratch[i] & 1) != 0 ? open + 1 : open - 1;
        most = open > most ? open : most;
    }
    CHECK(open == 0);
    return most;
}

static void
judge_balance(struct replay_count *count, uint32_t engines,
              struct replay_result *result)
{
    uint32_t seen = count->stats.workers.count;
    uint64_t most = 0;
    uint64_t sum = 0;

    engines = engines > seen ? engines : seen;
    for (uint32_t i = 0; i < seen; i++) {
        uint32_t open = most_open(count, i);
        result->peak = open > result->peak ? open : result->peak;
        most = count->computed[i] > most ? count->computed[i] : most;
        sum += count->computed[i];
    }
    if (sum > 0) {
        result->imbalance_permille = (uint32_t)(most * engines * 1000 / sum);
    }
    CHECK(most <= sum);
}

void
replay_count_result(struct replay_count *count, uint32_t engines,
                    struct replay_result *result)
{
    CHECK(count->counted_count == count->stats.sent);
    struct replay_result *sums = &count->result;
    struct load_times times = pick(count, TTFT);

    sums->ttft_p50_us = load_times_at(&times, 500);
    sums->ttft_p90_us = load_times_at(&times, 900);
    sums->ttft_p99_us = load_times_at(&times, 990);
    times = pick(count, WHOLE);
    sums->whole_p50_us = load_times_at(&times, 500);
    sums->whole_p99_us = load_times_at(&times, 990);
    times = pick(count, ITL);
    sums->itl_p50_us = load_times_at(&times, 500);
    sums->itl_p99_us = load_times_at(&times, 990);
    for (unsigned i = 0; i < 2; i++) {
        times = pick(count, i == 0 ? TTFT_SHORT : TTFT_LONG);
        sums->pool[i].finished = times.count;
        sums->pool[i].ttft_p50_us = load_times_at(&times, 500);
        sums->pool[i].ttft_p99_us = load_times_at(&times, 990);
    }
    if (sums->finished > 0) {
        sums->took_us = count->last_us - count->first_us;
    }
    judge_balance(count, engines, sums);
    load_stats_sort(&count->stats);
    *result = *sums;
}
