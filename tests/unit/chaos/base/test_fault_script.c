#include <criterion/criterion.h>
#include <string.h>

#include "chaos/base/fault_script.h"

static struct fault_script script;
static struct fault_error error;

static bool
reads(const char *text)
{
    return fault_script_read(&script, slice_of(text), &error);
}

/* Refused there, with these words. */
static void
refused(const char *text, uint32_t line, uint32_t column, const char *what)
{
    cr_assert(!reads(text), "read: %s", text);
    cr_assert_str_eq(error.what, what);
    cr_assert_eq(error.line, line, "line %u of %s", error.line, text);
    cr_assert_eq(error.column, column, "column %u of %s", error.column, text);
}

#define HEAD "nodes 3\nengines 2\n"

Test(chaos_fault_script, twenty_nodes_for_a_day)
{
    cr_assert(reads("nodes 20\nengines 1\nat 1s sever n10 n20\nat 86400s end"),
              "%u:%u: %s", error.line, error.column, error.what);
    cr_assert_eq(script.events[0].argument[0], 9);
    cr_assert_eq(script.events[0].argument[1], 19);
}

Test(chaos_fault_script, all_that_can_be_done_is_read)
{
    cr_assert(reads("# all of it\n\n" HEAD "at 1s sever n1 n3\n"
                    "at 1.5s mute n2 n3   # one way\n"
                    "at 1500ms loss 20%\r\n"
                    "at 1.75s delay 80ms 40ms\n"
                    "\tat 2s heal\n"
                    "at 2s kill n2\n"
                    "at 3s start n2\n"
                    "at 3s stop n1\n"
                    "at 4s pause n3 2.05s\n"
                    "at 5s restart e2\n"
                    "at 5s end"),
              "%u:%u: %s", error.line, error.column, error.what);
    cr_assert_eq(script.nodes, 3);
    cr_assert_eq(script.engines, 2);
    cr_assert_eq(script.events_count, 11);
    static const struct fault_event events[] = {
        {1000, FAULT_SEVER, {0, 2}},    {1500, FAULT_MUTE, {1, 2}},
        {1500, FAULT_LOSS, {20, 0}},    {1750, FAULT_DELAY, {80, 40}},
        {2000, FAULT_HEAL, {0, 0}},     {2000, FAULT_KILL, {1, 0}},
        {3000, FAULT_START, {1, 0}},    {3000, FAULT_STOP, {0, 0}},
        {4000, FAULT_PAUSE, {2, 2050}}, {5000, FAULT_RESTART, {1, 0}},
        {5000, FAULT_END, {0, 0}},
    };
    for (size_t i = 0; i < 11; i++) {
        const struct fault_event *is = &script.events[i];
        cr_assert_eq(is->at_ms, events[i].at_ms, "time of %zu", i);
        cr_assert_eq(is->verb, events[i].verb, "verb of %zu", i);
        cr_assert_eq(is->argument[0], events[i].argument[0], "first of %zu", i);
        cr_assert_eq(is->argument[1], events[i].argument[1], "second of %zu",
                     i);
    }
}

Test(chaos_fault_script, what_is_put_is_the_same_script)
{
    struct buf out;

    cr_assert(reads("nodes 2\nengines 1\nat 1.005s kill n2\nat 2s  loss 100%\n"
                    "at 2s delay 1s 10ms\nat 10m") == false);
    cr_assert(reads("nodes 2\nengines 1\nreplay 9\nat 1.005s kill n2\n"
                    "at 2s  loss 100%\nat 2s miss n2 e1\n"
                    "at 2s delay 1s 10ms\nat 600s end\n"));
    buf_init(&out, 4096);
    fault_script_put(&script, &out);
    buf_add(&out, "", 1);
    cr_assert_str_eq(out.ptr,
                     "nodes 2\nengines 1\nreplay 9\nat 1005ms kill n2\n"
                     "at 2000ms loss 100%\n"
                     "at 2000ms miss n2 e1\n"
                     "at 2000ms delay 1000ms 10ms\n"
                     "at 600000ms end\n");
    buf_fini(&out);
}

Test(chaos_fault_script, what_is_wrong_is_told_with_its_place)
{
    refused("at 1s end\n", 1, 1, "nodes and engines come first");
    refused("engines 2\n", 1, 1, "nodes come first");
    refused("nodes 21\n", 1, 7, "not a number in range");
    refused("nodes 0\n", 1, 7, "not a number in range");
    refused("nodes\n", 1, 6, "not a number in range");
    refused("nodes 3\nnodes 3\n", 2, 1, "given before");
    refused("nodes 3 4\n", 1, 9, "one word too many");
    refused(HEAD "in 1s end\n", 3, 1,
            "a line begins with nodes, engines, replay or at");
    refused(HEAD "at\n", 3, 3, "a word is missing");
    refused(HEAD "at 1s\n", 3, 6, "a word is missing");
    refused(HEAD "at 1 end\n", 3, 4, "not a time, such as 1.5s or 80ms");
    refused(HEAD "at 1.s end\n", 3, 4, "not a time, such as 1.5s or 80ms");
    refused(HEAD "at 1.5ms end\n", 3, 4, "not a time, such as 1.5s or 80ms");
    refused(HEAD "at 1.0005s end\n", 3, 4, "not a time, such as 1.5s or 80ms");
    refused(HEAD "at 99999999s end\n", 3, 4,
            "not a time, such as 1.5s or 80ms");
    refused(HEAD "at 86400.001s end\n", 3, 4, "longer than a day");
    refused("replay 8\n", 1, 1, "nodes and engines come first");
    refused(HEAD "replay 0\n", 3, 8, "not a number in range");
    refused(HEAD "at 1s end\nreplay 8\n", 4, 1, "given before");
    refused(HEAD "at 1s miss n1 n2\n", 3, 15, "no such engine");
    refused(HEAD "at 1s burn n1\n", 3, 7, "unknown action");
    refused(HEAD "at 1s kill n4\n", 3, 12, "no such node");
    refused(HEAD "at 1s kill e1\n", 3, 12, "no such node");
    refused(HEAD "at 1s kill n03\n", 3, 12, "no such node");
    refused("nodes 20\nengines 2\nat 1s kill n21\n", 3, 12, "no such node");
    refused(HEAD "at 1s restart e3\n", 3, 15, "no such engine");
    refused(HEAD "at 1s kill n1 n2\n", 3, 15, "one word too many");
    refused(HEAD "at 1s loss 101%\n", 3, 12, "not a percentage, such as 20%");
    refused(HEAD "at 1s loss 20\n", 3, 12, "not a percentage, such as 20%");
    refused(HEAD "at 2s heal\nat 1s end\n", 4, 4,
            "the time is before the line above");
    refused(HEAD "at 2s end\nat 3s heal\n", 4, 1, "the script has ended");
    refused(HEAD "at 2s heal\n", 4, 1, "the script does not end");
    refused("", 1, 1, "the script does not end");
}

Test(chaos_fault_script, what_cannot_be_is_refused)
{
    refused(HEAD "at 1s kill n1\nat 2s kill n1\n", 4, 7,
            "the node does not run");
    refused(HEAD "at 1s kill n1\nat 2s pause n1 1s\n", 4, 7,
            "the node does not run");
    refused(HEAD "at 1s start n1\n", 3, 7, "the node runs already");
    refused(HEAD "at 1s pause n1 2s\nat 2s stop n1\n", 4, 7,
            "the node is paused then");
    refused(HEAD "at 1s sever n2 n2\n", 3, 7, "the same node twice");
    refused(HEAD "at 1s delay 10ms 20ms\n", 3, 7,
            "the variation exceeds the delay");
    cr_assert(reads(HEAD "at 1s pause n1 2s\nat 3s stop n1\nat 3s end\n"));
}

Test(chaos_fault_script, too_much_is_refused)
{
    static char text[FAULT_TEXT_MAX + 2];
    size_t len = strlen(HEAD);

    memset(text, ' ', FAULT_TEXT_MAX + 1);
    refused(text, 1, 1, "more than 16 KiB");
    memcpy(text, HEAD, len);
    for (unsigned i = 0; i <= FAULT_EVENTS_MAX; i++) {
        memcpy(text + len, "at 1s heal\n", 11);
        len += 11;
    }
    text[len] = '\0';
    refused(text, FAULT_EVENTS_MAX + 3, 1, "too many lines");
}
