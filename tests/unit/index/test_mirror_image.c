/* Copies of a mirror that changes while it is read, piece by piece. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "index/base/rng.h"
#include "index/mirror.h"

#define SLOTS  3U
#define BLOCKS 6000U /* of each, in the beginning */
#define BYTES  ((size_t)64 << 20)
#define IMAGES ((size_t)1 << 24)
#define PARTS  256U

static struct qsbr qsbr;
static struct mirror *mirror;
static struct mirror *copy;
static uint32_t slot[SLOTS];
static struct watch watch;
static struct words journal;
static struct rng rng;
static uint32_t between_pieces = 5; /* changes */

/* What a reader went through. */
struct reading {
    uint32_t pieces;
    uint32_t begun_anew;
};

static void
setup(void)
{
    struct mirror_limits limits = {.bytes_max = BYTES};

    qsbr_init(&qsbr);
    rng_init(&rng, 1);
    words_init(&journal, IMAGES);
    cr_assert_eq(mirror_new(&mirror, &limits, &qsbr), 0);
    cr_assert_eq(mirror_new(&copy, &limits, &qsbr), 0);
    cr_assert_eq(mirror_parts(), PARTS);
    watch = (struct watch){.dirty = calloc(PARTS, sizeof(bool)),
                           .parts_max = PARTS};
    mirror_watch(mirror, &watch);
    for (uint32_t i = 0; i < SLOTS; i++) {
        cr_assert_eq(mirror_open(mirror, &slot[i]), 0);
    }
}

static void
teardown(void)
{
    const char *reason;

    cr_expect(mirror_check(mirror, &reason), "%s", reason);
    cr_expect(mirror_check(copy, &reason), "%s", reason);
    mirror_free(mirror);
    mirror_free(copy);
    qsbr_fini(&qsbr);
    words_fini(&journal);
    free(watch.dirty);
}

TestSuite(index_mirror_image, .init = setup, .fini = teardown);

static void
say(uint32_t to, enum event_kind kind, enum tier tier, uint64_t key)
{
    uint64_t record[] = {event_op(kind, tier, 1), key};

    cr_assert_eq(mirror_apply(mirror, to, record, 2, 0), 0);
}

static uint64_t
key_of(uint64_t number)
{
    return rng_mix(number % (BLOCKS * 4));
}

static void
change(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        enum tier tier = rng_below(&rng, 10) == 0 ? TIER_HOST : TIER_DEVICE;
        enum event_kind kind =
            rng_below(&rng, 3) == 0 ? EVENT_REMOVE : EVENT_STORE;
        say(slot[rng_below(&rng, SLOTS)], kind, tier,
            key_of(rng_next(&rng) >> 1));
    }
    (void)mirror_work(mirror, 64);
    (void)qsbr_reclaim(&qsbr);
}

static void
fill(void)
{
    for (uint64_t i = 0; i < BLOCKS; i++) {
        for (uint32_t s = 0; s < SLOTS; s++) {
            say(slot[s], EVENT_STORE, TIER_DEVICE, key_of(i * SLOTS + s % 2));
        }
    }
}

static void
read_part(uint32_t part, uint32_t lines, struct words *out,
          struct reading *reading)
{
    struct mirror_reading at = {0};
    size_t had = 0;
    bool more = true;

    while (more) {
        more = mirror_image(mirror, part, lines, &at, out);
        reading->pieces++;
        reading->begun_anew += out->count < had;
        had = out->count;
        change(between_pieces);
    }
    cr_assert_not(out->failed);
}

/* All parts, one after another, and the journal, into the copy. */
static struct reading
read_all(uint32_t lines)
{
    static struct words parts[PARTS];
    struct watch_slots slots = {.live = {.word = {0}}};
    struct reading reading = {0};

    watch.journal = &journal;
    for (uint32_t i = 0; i < PARTS; i++) {
        words_init(&parts[i], IMAGES);
        read_part(i, lines, &parts[i], &reading);
    }
    watch.journal = NULL;
    for (uint32_t i = 0; i < SLOTS; i++) {
        worker_set_add(&slots.live, slot[i]);
        cr_assert_eq(mirror_open_at(copy, slot[i]), 0);
    }
    slots.kept = slots.live;
    for (uint32_t i = 0; i < PARTS; i++) {
        cr_assert_eq(mirror_load(copy, parts[i].word, parts[i].count, &slots),
                     0);
        words_fini(&parts[i]);
    }
    cr_assert_eq(mirror_load_journal(copy, journal.word, journal.count, &slots),
                 0);
    return reading;
}

static void
cr_same(void)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        cr_assert_eq(mirror_slot_blocks(copy, slot[i]),
                     mirror_slot_blocks(mirror, slot[i]));
        cr_assert_eq(mirror_slot_digest(copy, slot[i]),
                     mirror_slot_digest(mirror, slot[i]));
    }
}

Test(index_mirror_image, pieces_and_the_journal_are_the_state_at_its_end)
{
    fill();
    struct reading reading = read_all(2);

    cr_assert_gt(reading.pieces, 2 * PARTS);
    cr_same();
}

Test(index_mirror_image, a_part_whose_table_was_replaced_is_begun_anew)
{
    /* Small tables, which grow as they are read. */
    change(200);
    between_pieces = 300;
    struct reading reading = read_all(1);

    cr_assert_gt(reading.begun_anew, 0);
    cr_same();
}

Test(index_mirror_image, a_part_in_one_piece_is_all_of_it)
{
    fill();
    struct reading reading = read_all(UINT32_MAX);

    cr_assert_eq(reading.pieces, PARTS);
    cr_same();
}

/* As images have it since the first version: six slots in the head, seven in a
 * bitmap, whatever tables have. */
Test(index_mirror_image, the_form_of_images_stays)
{
    struct watch_slots slots = {.live = {.word = {0}}};
    uint64_t key[] = {1, 2};
    uint64_t image[4 + WORKER_WORDS] = {key[0], 6, key[1],
                                        7 | (uint64_t)WORKER_WORDS << 32, 0x7F};

    for (uint32_t i = 0; i < 7; i++) {
        cr_assert_eq(mirror_open_at(copy, i), 0);
        worker_set_add(&slots.live, i);
        image[1] |= i < 6 ? (uint64_t)i << (4 + 10 * i) : 0;
    }
    slots.kept = slots.live;
    cr_assert_eq(mirror_load(copy, image, 4 + WORKER_WORDS, &slots), 0);
    for (uint32_t i = 0; i < 7; i++) {
        cr_assert_eq(mirror_slot_blocks(copy, i), i < 6 ? 2 : 1);
    }
    for (uint32_t k = 0; k < 2; k++) {
        struct mirror_reading at = {0};
        struct words out;
        uint64_t hash = key[k] * 0x9E3779B97F4A7C15U;
        words_init(&out, IMAGES);
        cr_assert_not(
            mirror_image(copy, (uint32_t)(hash >> 56), UINT32_MAX, &at, &out));
        cr_assert_eq(out.count, k == 0 ? 2 : 2 + WORKER_WORDS);
        cr_assert_arr_eq(out.word, &image[2 * k], out.count * sizeof(uint64_t));
        words_fini(&out);
    }
}
