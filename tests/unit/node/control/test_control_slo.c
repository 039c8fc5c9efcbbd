#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "node/control/control_slo.h"

static const struct config_slo slo = {
    .ttft_ms = 500,
    .itl_ms = 50,
    .models = {.count = 2,
               .model = {{.name = "quick", .ttft_ms = 100},
                         {.name = "batch", .ttft_ms = 0}}}};

/* First token after half a second, 20 tokens more in a second. */
static struct fact_decision
just_in_time(void)
{
    return (struct fact_decision){.stream = true,
                                  .status = 200,
                                  .completion_tokens = 21,
                                  .first_token_us = 500000,
                                  .duration_us = 1500000};
}

static bool
counted(const struct fact_decision *fact, uint64_t met, uint64_t ttft,
        uint64_t itl)
{
    static struct control_slo counts;
    const uint64_t *n = counts.model[0].streams;

    memset(&counts, 0, sizeof counts);
    control_slo_take(&counts, &slo, fact);
    return n[CONTROL_SLO_MET] == met &&
           n[CONTROL_SLO_TTFT_MISSED] + n[CONTROL_SLO_BOTH_MISSED] == ttft &&
           n[CONTROL_SLO_ITL_MISSED] + n[CONTROL_SLO_BOTH_MISSED] == itl;
}

Test(node_control_slo, an_answer_keeps_both_times_or_says_which_it_missed)
{
    struct fact_decision fact = just_in_time();

    cr_assert(counted(&fact, 1, 0, 0));
    fact.duration_us += 20;
    cr_assert(counted(&fact, 0, 0, 1));
    fact.first_token_us++;
    fact.duration_us += 20;
    cr_assert(counted(&fact, 0, 1, 1));
    fact.completion_tokens = 0; /* not told: its steps are not judged */
    cr_assert(counted(&fact, 0, 1, 0));
    fact.completion_tokens = 1;
    cr_assert(counted(&fact, 0, 1, 0));
}

Test(node_control_slo, a_model_may_have_times_of_its_own)
{
    struct fact_decision fact = just_in_time();

    memcpy(fact.model, "quick", 6);
    fact.duration_us += 900000; /* any between tokens will do */
    cr_assert(counted(&fact, 0, 1, 0));
    fact.first_token_us = 100000;
    cr_assert(counted(&fact, 1, 0, 0));
    memcpy(fact.model, "batch", 6);
    cr_assert(counted(&fact, 0, 0, 0));
}

Test(node_control_slo, a_worker_keeps_the_stricter_times_of_its_models)
{
    static struct fleet_view view;
    static const struct fleet_model list[] = {
        {.name = {.ptr = "batch", .len = 5}, .workers = {{017}}},
        {.name = {.ptr = "other", .len = 5}, .workers = {{02}}},
        {.name = {.ptr = "quick", .len = 5}, .workers = {{06}}},
    };
    const struct fleet_models models = {.count = 3, .model = list};
    static struct speed_slo of[WORKERS_MAX];

    view.models = &models;
    view.present.word[0] = 037; /* the fifth lists none */
    of[9].ttft_us = 1;
    control_slo_list(&slo, &view, of);
    cr_assert_eq(of[0].ttft_us, 0);
    cr_assert_eq(of[1].ttft_us, 100000);
    cr_assert_eq(of[1].itl_us, 50000);
    cr_assert_eq(of[2].ttft_us, 100000);
    cr_assert_eq(of[2].itl_us, 0);
    cr_assert_eq(of[4].ttft_us, 500000);
    cr_assert_eq(of[4].itl_us, 50000);
    cr_assert_eq(of[9].ttft_us, 0);
}

Test(node_control_slo, it_says_how_a_first_token_was)
{
    struct control_slo counts = {0};
    struct fact_decision fact = just_in_time();
    struct config_slo steps_alone = slo;

    cr_assert_eq(control_slo_take(&counts, &slo, &fact), CONTROL_SLO_IN_TIME);
    fact.duration_us += 900000; /* late steps are no late first token */
    cr_assert_eq(control_slo_take(&counts, &slo, &fact), CONTROL_SLO_IN_TIME);
    fact.first_token_us++;
    cr_assert_eq(control_slo_take(&counts, &slo, &fact), CONTROL_SLO_LATE);
    steps_alone.ttft_ms = 0;
    cr_assert_eq(control_slo_take(&counts, &steps_alone, &fact),
                 CONTROL_SLO_NOT_JUDGED);
    fact.severed = true;
    cr_assert_eq(control_slo_take(&counts, &slo, &fact),
                 CONTROL_SLO_NOT_JUDGED);
}

Test(node_control_slo, only_whole_streams_are_judged)
{
    struct fact_decision facts[5];
    struct control_slo counts = {0};
    const struct config_slo none = {0};

    for (size_t i = 0; i < 5; i++) {
        facts[i] = just_in_time();
    }
    facts[0].stream = false;
    facts[1].status = 500;
    facts[2].first_token_us = 0;
    facts[3].cancelled = true;
    facts[4].severed = true;
    for (size_t i = 0; i < 5; i++) {
        cr_assert(counted(&facts[i], 0, 0, 0), "%zu", i);
    }
    facts[0] = just_in_time();
    control_slo_take(&counts, &none, &facts[0]);
    cr_assert_eq(counts.model[0].streams[CONTROL_SLO_MET], 0);
    cr_assert_eq(histogram_count(&counts.model[0].ttft), 1);
}

/* Whether the metrics have such a piece. */
static bool
tells(const struct control_slo *counts, const char *piece)
{
    struct buf out;

    buf_init(&out, 1 << 20);
    control_slo_put_metrics(counts, &out);
    buf_add(&out, "", 1);
    cr_assert_not(out.failed);
    bool found = strstr(out.ptr, piece) != NULL;
    buf_fini(&out);
    return found;
}

Test(node_control_slo, metrics_tell_counts)
{
    static struct control_slo counts;
    struct fact_decision fact = just_in_time();

    memcpy(fact.model, "quick", 6);
    control_slo_take(&counts, &slo, &fact);
    cr_assert(tells(&counts, "kvasir_slo_streams_total{model=\"quick\","
                             "outcome=\"ttft_missed\"} 1\n"));
    cr_assert(tells(&counts, "{model=\"quick\",outcome=\"met\"} 0\n"));
    cr_assert(tells(&counts, "kvasir_model_time_to_first_token_seconds_count{"
                             "model=\"quick\"} 1\n"));
    cr_assert(tells(&counts, "kvasir_model_inter_token_latency_seconds_sum{"
                             "model=\"quick\"} 0.050000\n"));
}

/* A model that is called as the rest are is one of them: one series has one
 * name. */
Test(node_control_slo, models_beyond_the_bound_are_counted_together)
{
    static struct control_slo counts;
    struct fact_decision fact = just_in_time();

    memcpy(fact.model, "other", 6);
    control_slo_take(&counts, &slo, &fact);
    cr_assert_eq(counts.count, 0);
    for (unsigned i = 0; i < CONTROL_SLO_MODELS + 3; i++) {
        (void)snprintf(fact.model, sizeof fact.model, "m%u", i);
        control_slo_take(&counts, &slo, &fact);
        control_slo_take(&counts, &slo, &fact);
    }
    cr_assert_eq(counts.count, CONTROL_SLO_MODELS);
    cr_assert(tells(&counts, "{model=\"m15\",outcome=\"met\"} 2\n"));
    cr_assert(tells(&counts, "{model=\"other\",outcome=\"met\"} 7\n"));
    cr_assert_not(tells(&counts, "m16"));
}
