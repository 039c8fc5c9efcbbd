#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/wire/wire.h"

static const char *const names[] = {"n1", "n2", "dns"};
static struct wire *wire;
static struct buf answer;

static void
set_up(void)
{
    wire = malloc(sizeof(*wire));
    cr_assert_not_null(wire);
    cr_assert_eq(wire_init(wire, names, 3, 1, 0), 0);
    buf_init(&answer, 4096);
}

static void
tear_down(void)
{
    buf_fini(&answer);
    wire_fini(wire);
    free(wire);
}

TestSuite(chaos_wire_command, .init = set_up, .fini = tear_down);

static const char *
say(const char *text)
{
    buf_clear(&answer);
    wire_command(wire, slice_of(text), &answer);
    buf_add(&answer, "", 1);
    return answer.ptr;
}

static bool
is_ok(const char *text)
{
    return strncmp(say(text), "ok ", 3) == 0;
}

Test(chaos_wire_command, sets_what_is_said_and_leaves_the_rest)
{
    cr_assert(is_ok("link n1 dns delay_us=1000 jitter_us=200"));
    cr_assert(is_ok("link n1 dns loss_permille=20 duplicate_permille=3\n"));
    const struct wire_link *link = &wire->link[0][2];
    cr_assert_eq(link->delay_us, 1000);
    cr_assert_eq(link->jitter_us, 200);
    cr_assert_eq(link->loss_permille, 20);
    cr_assert_eq(link->duplicate_permille, 3);
    cr_assert(!link->severed);
    cr_assert_eq(wire->link[2][0].delay_us, 0);
}

Test(chaos_wire_command, bytes_of_ways_are_added_up)
{
    wire->carried[0][1] = 100;
    wire->carried[1][0] = 20;
    wire->carried[2][0] = 3;
    cr_assert_not_null(strstr(say("bytes n1 n2\nbytes n2 n1"), " bytes=120"));
    cr_assert_not_null(strstr(say("bytes * n1"), " bytes=23"));
    cr_assert_not_null(strstr(say("counts"), " bytes=0"));
    cr_assert(!is_ok("bytes n1 nobody"));
}

Test(chaos_wire_command, a_star_stands_for_all_ports)
{
    cr_assert(is_ok("link * n2 severed=1"));
    cr_assert(wire->link[0][1].severed && wire->link[2][1].severed);
    cr_assert(!wire->link[1][0].severed && !wire->link[0][2].severed);
    cr_assert(is_ok("link * * severed=0"));
    cr_assert(!wire->link[0][1].severed);
}

Test(chaos_wire_command, several_lines_are_done_all_or_none)
{
    cr_assert(is_ok("link n1 n2 severed=1\nlink n2 n1 severed=1"));
    cr_assert_str_eq(say("reset\nlink n1 n9 severed=1"),
                     "no: no such port: n9");
    cr_assert(wire->link[0][1].severed && wire->link[1][0].severed);
    cr_assert(is_ok("reset"));
    cr_assert(!wire->link[0][1].severed && !wire->link[1][0].severed);
}

Test(chaos_wire_command, what_is_not_understood_is_named)
{
    cr_assert_str_eq(say("unplug n1"), "no: no such command: unplug");
    cr_assert_str_eq(say("link n1"), "no: no such port: ");
    cr_assert_str_eq(say("link n1 n2 severed=2"),
                     "no: no such setting: severed=2");
    cr_assert_str_eq(say("link n1 n2 loss_permille=1001"),
                     "no: no such setting: loss_permille=1001");
    cr_assert_str_eq(say("link n1 n2 delay_us="),
                     "no: no such setting: delay_us=");
    cr_assert_str_eq(say("link n1 n2 delay_us=-1"),
                     "no: no such setting: delay_us=-1");
    cr_assert_str_eq(say("link n1 n2 speed=1"), "no: no such setting: speed=1");
}

Test(chaos_wire_command, every_answer_tells_the_counts)
{
    wire->counts = (struct wire_counts){1, 2, 3, 4, 5, 6};
    cr_assert_str_eq(
        say("counts"),
        "ok passed=1 lost=2 severed=3 duplicated=4 full=5 odd=6 bytes=0");
}
