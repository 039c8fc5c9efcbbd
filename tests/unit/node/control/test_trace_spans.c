#include <criterion/criterion.h>
#include <string.h>

#include "index/base/worker_set.h"
#include "node/control/trace_spans.h"

static struct fact_request fact;
static char text[65536];

/* What a request with two steps at one worker is as spans. */
static uint32_t
put(void)
{
    const struct trace_names names = {.tenant = "t", .worker = "last"};
    struct buf out;

    buf_init(&out, sizeof(text) - 1);
    uint32_t count = trace_spans_put(&fact, &names, &out);
    cr_assert_not(out.failed);
    memcpy(text, out.ptr, out.len);
    text[out.len] = '\0';
    buf_fini(&out);
    return count;
}

static void
add_step(enum fact_step_kind kind, uint32_t attempt)
{
    uint32_t at = fact.trace.steps_count++;

    fact.trace.step[at] = (struct fact_step){
        .kind = kind, .attempt = attempt, .begun_us = at, .ended_us = at + 1};
}

static void
begin(void)
{
    fact = (struct fact_request){
        .kind = FACT_REQUEST,
        .end = "done",
        .origin = {.trace = {0x0A, 0xF7}, .span = {1, 0xFF}},
        .decision = {.slot = WORKER_NONE, .status = 200, .duration_us = 7},
        .trace = {.sampled = true, .begun_ns = UINT64_C(18000000000000000000)},
    };
}

TestSuite(node_trace_spans, .init = begin);

static uint32_t
count_of(const char *what)
{
    uint32_t count = 0;

    for (const char *at = text; (at = strstr(at, what)) != NULL; at++) {
        count++;
    }
    return count;
}

Test(node_trace_spans, numbers_of_64_bits_are_decimal_text_and_ids_hexadecimal)
{
    cr_assert_eq(put(), 1);
    cr_assert_eq(count_of("\"traceId\":\"0af70000000000000000000000000000\""),
                 1);
    cr_assert_eq(count_of("\"spanId\":\"01ff000000000000\""), 1);
    cr_assert_eq(count_of("parentSpanId"), 0); /* the trace begins here */
    cr_assert_eq(count_of("\"startTimeUnixNano\":\"18000000000000000000\""), 1);
    cr_assert_eq(count_of("\"endTimeUnixNano\":\"18000000000000007000\""), 1);
    cr_assert_eq(count_of("{\"key\":\"http.response.status_code\",\"value\":{"
                          "\"intValue\":\"200\"}}"),
                 1);
    cr_assert_eq(count_of("kvasir.mode"), 0); /* it went nowhere */
}

Test(node_trace_spans, each_step_is_below_the_request_and_has_an_id_of_its_own)
{
    fact.trace.parent[7] = 9;
    for (uint32_t i = 0; i < FACT_STEPS_MAX; i++) {
        add_step(FACT_STEP_ELECT, 0);
    }
    cr_assert_eq(put(), FACT_STEPS_MAX + 1);
    cr_assert_eq(count_of("\"parentSpanId\":\"0000000000000009\""), 1);
    cr_assert_eq(count_of("\"parentSpanId\":\"01ff000000000000\""),
                 FACT_STEPS_MAX);
    const char *at = text;
    for (uint32_t i = 0; i <= FACT_STEPS_MAX; i++) {
        char id[30];
        at = strstr(at, "\"spanId\":");
        cr_assert_not_null(at);
        memcpy(id, at, sizeof(id) - 1);
        id[sizeof(id) - 1] = '\0';
        cr_assert_eq(count_of(id), 1);
        at++;
    }
}

Test(node_trace_spans, an_attempt_says_where_it_was_and_what_came_of_it)
{
    fact.failed_count = 1;
    fact.failed[0] =
        (struct fact_failed){.why = "answered", .status = 500, .worker = "bad"};
    add_step(FACT_STEP_ATTEMPT, 0); /* over a connection that was dead */
    add_step(FACT_STEP_ATTEMPT, 0);
    add_step(FACT_STEP_ELECT, 1);
    add_step(FACT_STEP_ATTEMPT, 1);
    cr_assert_eq(put(), 5);
    cr_assert_eq(count_of("\"sent again\""), 1);
    cr_assert_eq(count_of("\"kvasir.worker\",\"value\":{\"stringValue\":"
                          "\"bad\"}"),
                 2);
    cr_assert_eq(count_of("\"status\":{\"code\":2,\"message\":\"answered\"}"),
                 1);
    cr_assert_eq(count_of("\"intValue\":\"500\""), 1);
    cr_assert_eq(count_of("\"kvasir.worker\",\"value\":{\"stringValue\":"
                          "\"last\"}"),
                 2); /* the request's own, and the last attempt's */
}
