#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/wire/wire.h"

#define MS UINT64_C(1000)

static const char *const names[] = {"a", "b", "c"};
static struct wire *wire;

static void
set_up(void)
{
    wire = malloc(sizeof(*wire));
    cr_assert_not_null(wire);
    cr_assert_eq(wire_init(wire, names, 3, 1, 0), 0);
}

static void
tear_down(void)
{
    wire_fini(wire);
    free(wire);
}

TestSuite(chaos_wire, .init = set_up, .fini = tear_down);

enum {
    EVERYONE = 0xff
};

/* A frame of host `from`, at its port, to host `to`. */
static void
send_frame(uint8_t from, uint8_t to, uint8_t body, uint64_t now_us)
{
    uint8_t bytes[WIRE_PREFIX_BYTES + 64] = {0};
    uint8_t *frame = bytes + WIRE_PREFIX_BYTES;

    memset(frame, to == EVERYONE ? 0xff : 0, 6);
    if (to != EVERYONE) {
        frame[0] = 2;
        frame[5] = to;
    }
    frame[6] = 2;
    frame[11] = from;
    frame[14] = body;
    wire_recv(wire, from, bytes, sizeof(bytes), now_us);
}

/* "PORT:BODY" of each frame that is due. */
static const char *
due(uint64_t now_us)
{
    static char text[4096];
    const struct wire_frame *frame;
    size_t len = 0;

    text[0] = '\0';
    while ((frame = wire_next_out(wire, now_us)) != NULL) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s:%u",
                                len > 0 ? " " : "", names[frame->to],
                                frame->bytes[WIRE_PREFIX_BYTES + 14]);
        cr_assert_lt(len, sizeof(text));
    }
    return text;
}

/* Each host is heard once. */
static void
introduce(void)
{
    for (uint8_t i = 0; i < 3; i++) {
        send_frame(i, EVERYONE, 0, 0);
    }
    (void)due(0);
}

Test(chaos_wire, a_host_never_heard_is_looked_for_at_all_ports)
{
    send_frame(0, 1, 7, 0);
    cr_assert_str_eq(due(0), "b:7 c:7");
}

Test(chaos_wire, a_host_once_heard_gets_its_frames_alone)
{
    introduce();
    send_frame(0, 1, 7, 0);
    send_frame(0, 2, 8, 0);
    cr_assert_str_eq(due(0), "b:7 c:8");
    send_frame(0, EVERYONE, 9, 0);
    cr_assert_str_eq(due(0), "b:9 c:9");
}

Test(chaos_wire, what_a_way_carries_is_counted_in_bytes)
{
    wire->link[0][2].severed = true;
    send_frame(0, EVERYONE, 0, 0);
    send_frame(1, 0, 0, 0);
    send_frame(0, 1, 0, 0);
    cr_assert_eq(wire->carried[0][1], 128);
    cr_assert_eq(wire->carried[0][2], 0);
    cr_assert_eq(wire->carried[1][0], 64);
}

Test(chaos_wire, a_delay_is_kept_to_the_microsecond)
{
    introduce();
    wire->link[0][1].delay_us = 10 * MS;
    send_frame(0, 1, 7, 5 * MS);
    cr_assert_eq(wire_deadline(wire), 15 * MS);
    cr_assert_str_eq(due(15 * MS - 1), "");
    cr_assert_str_eq(due(15 * MS), "b:7");
    cr_assert_eq(wire_deadline(wire), UINT64_MAX);
}

Test(chaos_wire, a_link_without_jitter_keeps_the_order)
{
    introduce();
    wire->link[0][1].delay_us = MS;
    for (uint8_t i = 1; i <= 5; i++) {
        send_frame(0, 1, i, i / 3);
    }
    cr_assert_str_eq(due(2 * MS), "b:1 b:2 b:3 b:4 b:5");
}

Test(chaos_wire, jitter_stays_within_its_bounds_and_uses_them)
{
    introduce();
    wire->link[0][1] = (struct wire_link){.delay_us = 10, .jitter_us = 2};
    unsigned seen[16] = {0};
    for (uint64_t now = 0; now < 100000; now += 100) {
        send_frame(0, 1, 1, now);
        uint64_t after = wire_deadline(wire) - now;
        cr_assert(after >= 8 && after <= 12);
        seen[after]++;
        cr_assert_str_eq(due(now + 12), "b:1");
    }
    for (unsigned i = 8; i <= 12; i++) {
        cr_assert_gt(seen[i], 100);
    }
}

Test(chaos_wire, one_direction_is_severed_alone)
{
    introduce();
    wire->link[0][1].severed = true;
    send_frame(0, 1, 7, 0);
    send_frame(1, 0, 8, 0);
    cr_assert_str_eq(due(0), "a:8");
    cr_assert_eq(wire->counts.severed, 1);
}

static unsigned
count_passed(unsigned sent)
{
    unsigned passed = 0;

    for (unsigned i = 0; i < sent; i++) {
        send_frame(0, 1, 1, 0);
        while (wire_next_out(wire, 0) != NULL) {
            passed++;
        }
    }
    return passed;
}

Test(chaos_wire, as_many_are_lost_and_repeated_as_was_said)
{
    introduce();
    wire->link[0][1].loss_permille = 200;
    unsigned passed = count_passed(10000);
    cr_assert(passed > 7800 && passed < 8200, "%u", passed);
    cr_assert_eq(wire->counts.lost, 10000 - passed);

    wire->link[0][1] = (struct wire_link){.duplicate_permille = 100};
    passed = count_passed(10000);
    cr_assert(passed > 10900 && passed < 11100, "%u", passed);
    cr_assert_eq(wire->counts.duplicated, passed - 10000);

    wire->link[0][1] = (struct wire_link){.loss_permille = 1000};
    cr_assert_eq(count_passed(1000), 0);
}

Test(chaos_wire, one_seed_makes_one_story)
{
    uint64_t story[2] = {0};

    for (unsigned round = 0; round < 2; round++) {
        tear_down();
        set_up();
        introduce();
        wire->link[0][1] = (struct wire_link){.delay_us = 50,
                                              .jitter_us = 50,
                                              .loss_permille = 300,
                                              .duplicate_permille = 300};
        for (uint64_t now = 0; now < 2000; now++) {
            const struct wire_frame *frame;
            send_frame(0, 1, (uint8_t)now, now);
            while ((frame = wire_next_out(wire, now)) != NULL) {
                story[round] =
                    rng_mix(story[round] ^
                            frame->bytes[WIRE_PREFIX_BYTES + 14] ^ now << 8);
            }
        }
    }
    cr_assert_eq(story[0], story[1]);
    cr_assert_neq(story[0], 0);
}

Test(chaos_wire, what_finds_no_room_is_dropped_and_counted)
{
    introduce();
    wire->link[0][1].delay_us = MS;
    for (unsigned i = 0; i < WIRE_FRAMES_MAX + 5; i++) {
        send_frame(0, 1, 1, 0);
    }
    cr_assert_eq(wire->counts.full, 5);
    unsigned passed = 0;
    while (wire_next_out(wire, MS) != NULL) {
        passed++;
    }
    cr_assert_eq(passed, WIRE_FRAMES_MAX);
    send_frame(0, 1, 2, 2 * MS);
    cr_assert_str_eq(due(3 * MS), "b:2");
}

Test(chaos_wire, frames_of_odd_sizes_are_dropped_and_counted)
{
    static const uint8_t bytes[WIRE_FRAME_BYTES_MAX + 1];

    wire_recv(wire, 0, bytes, WIRE_PREFIX_BYTES + 13, 0);
    wire_recv(wire, 0, bytes, sizeof(bytes), 0);
    cr_assert_eq(wire->counts.odd, 2);
    cr_assert_str_eq(due(0), "");
    wire_recv(wire, 0, bytes, WIRE_FRAME_BYTES_MAX, 0);
    cr_assert_eq(wire->counts.odd, 2);
}
