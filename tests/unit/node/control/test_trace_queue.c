#include <criterion/criterion.h>
#include <string.h>

#include "node/control/trace_queue.h"

#define S UINT64_C(1000000)

static struct trace_queue queue;

static void
open_queue(void)
{
    trace_queue_init(&queue, 64);
}

static void
close_queue(void)
{
    trace_queue_fini(&queue);
}

TestSuite(node_trace_queue, .init = open_queue, .fini = close_queue);

static bool
is_sent(const char *spans, uint64_t now_us)
{
    cr_assert(trace_queue_due(&queue, now_us));
    struct slice body = trace_queue_take(&queue, "n1");
    cr_assert_not(trace_queue_due(&queue, now_us + 60 * S)); /* one at a time */
    char text[1024];
    cr_assert_lt(body.len, sizeof(text));
    memcpy(text, body.ptr, body.len);
    text[body.len] = '\0';
    return strstr(text, spans) != NULL;
}

Test(node_trace_queue, what_came_within_a_pause_goes_together)
{
    cr_assert_not(trace_queue_due(&queue, 9 * S));
    trace_queue_add(&queue, SLICE("{1}"), 1);
    cr_assert(is_sent("\"spans\":[{1}]}", 0));
    trace_queue_add(&queue, SLICE("{2},{3}"), 2);
    trace_queue_sent(&queue, 0, S);
    trace_queue_add(&queue, SLICE("{4}"), 1);
    cr_assert_not(trace_queue_due(&queue, S + TRACE_PAUSE_US - 1));
    cr_assert(is_sent("\"spans\":[{2},{3},{4}]}", S + TRACE_PAUSE_US));
    trace_queue_sent(&queue, 1, 3 * S);
    cr_assert_eq(queue.sent, 3);
    cr_assert_eq(queue.dropped, 1);
    cr_assert_not(trace_queue_due(&queue, 9 * S));
}

Test(node_trace_queue, what_has_no_room_is_dropped_and_what_was_there_stays)
{
    static const char large[] = "{0123456789012345678901234567890123456789}";

    trace_queue_add(&queue, slice_of(large), 2);
    trace_queue_add(&queue, slice_of(large), 3);
    trace_queue_add(&queue, SLICE("{1}"), 1);
    cr_assert_eq(queue.dropped, 3);
    cr_assert_eq(queue.count, 3);
    cr_assert(is_sent("6789},{1}]", 0));
}

Test(node_trace_queue, half_of_the_room_is_sent_before_its_time)
{
    trace_queue_add(&queue, SLICE("{1}"), 1);
    cr_assert(is_sent("{1}", 0));
    trace_queue_sent(&queue, 0, 0);
    trace_queue_add(&queue, SLICE("{0123456789012345678901}"), 1);
    cr_assert_not(trace_queue_due(&queue, 1));
    trace_queue_add(&queue, SLICE("{0123456}"), 1);
    cr_assert(trace_queue_due(&queue, 1));
}

Test(node_trace_queue, what_failed_is_sent_again_later_and_later_and_given_up)
{
    uint64_t now_us = 0;

    trace_queue_add(&queue, SLICE("{1},{2}"), 2);
    for (uint32_t i = 0; i < TRACE_TRIES; i++) {
        cr_assert(is_sent("[{1},{2}]", now_us));
        trace_queue_failed(&queue, true, now_us);
        cr_assert_eq(queue.dropped, i + 1 < TRACE_TRIES ? 0 : 2);
        cr_assert_not(
            trace_queue_due(&queue, now_us + (TRACE_PAUSE_US << i) - 1));
        now_us += TRACE_PAUSE_US << i;
    }
    cr_assert_eq(queue.failures, TRACE_TRIES);
    cr_assert_not(trace_queue_due(&queue, now_us));
    trace_queue_add(&queue, SLICE("{3}"), 1);
    cr_assert(is_sent("[{3}]", now_us));
    trace_queue_failed(&queue, false, now_us); /* it is not for later */
    cr_assert_eq(queue.dropped, 3);
    cr_assert_eq(queue.sent, 0);
}
