/* Samples of a worker as rows of bits, and back. */
#include "node/view/speed_told.h"

#include "index/base/check.h"

#define ROW_CLASSES  6U
#define HALF_CLASSES 3U

#define COUNT_BITS  3U
#define TIME_BITS   11U
#define NUMBER_BITS 7U
#define CLASS_BITS  (COUNT_BITS + TIME_BITS + NUMBER_BITS)

#define TIME_STEP   8  /* of a mean's 1/256 */
#define NUMBER_STEP 64 /* likewise */
#define COUNTS      5U /* SPEED_FLOOR times 1, 2, 4, 8, 16 */

_Static_assert(SPEED_TOLD_ROWS *ROW_CLASSES >= SPEED_CLASSES + SPEED_STEPS,
               "a place for each class");
_Static_assert(SPEED_COUNT_MAX == SPEED_FLOOR << (COUNTS - 1),
               "a number for each count");
_Static_assert(SPEED_CLASSES == ROW_CLASSES, "prompts' have their own row");

static uint32_t
rounded(int16_t value, int32_t step, uint32_t bits)
{
    uint32_t most = (1U << bits) - 1;

    CHECK(value >= 0 && step > 0);
    uint32_t steps = (uint32_t)((value + step / 2) / step);
    return steps < most ? steps : most;
}

static uint64_t
pack(const struct speed_mean *mean)
{
    uint64_t count = 0;

    if (mean->count < SPEED_FLOOR) {
        return 0;
    }
    while (count < COUNTS && mean->count >= SPEED_FLOOR << count) {
        count++;
    }
    return count |
           (uint64_t)rounded(mean->time, TIME_STEP, TIME_BITS) << COUNT_BITS |
           (uint64_t)rounded(mean->number, NUMBER_STEP, NUMBER_BITS)
               << (COUNT_BITS + TIME_BITS);
}

static struct speed_mean
unpack(uint64_t bits)
{
    uint32_t count = bits & ((1U << COUNT_BITS) - 1);
    uint32_t time = bits >> COUNT_BITS & ((1U << TIME_BITS) - 1);
    uint32_t number =
        bits >> (COUNT_BITS + TIME_BITS) & ((1U << NUMBER_BITS) - 1);

    if (count == 0 || count > COUNTS) {
        return (struct speed_mean){.count = 0};
    }
    return (struct speed_mean){
        .time = (int16_t)(time * TIME_STEP),
        .number = (int16_t)(number * NUMBER_STEP),
        .count = (uint16_t)(SPEED_FLOOR << (count - 1)),
    };
}

struct speed_row
speed_told(const struct speed_worker *worker, uint32_t row)
{
    uint64_t half[2] = {0};
    uint32_t first = row * ROW_CLASSES;

    CHECK(row < SPEED_TOLD_ROWS);
    for (uint32_t i = 0; i < ROW_CLASSES; i++) {
        if (first + i < SPEED_CLASSES + SPEED_STEPS) {
            half[i / HALF_CLASSES] |= pack(&worker->of[first + i])
                                      << i % HALF_CLASSES * CLASS_BITS;
        }
    }
    return (struct speed_row){.first = half[0], .second = half[1]};
}

/* The mean of both, by their samples. */
static int16_t
mean_of(int16_t left, uint32_t lefts, int16_t right, uint32_t rights)
{
    int64_t sum = (int64_t)left * lefts + (int64_t)right * rights;

    CHECK(lefts + rights > 0);
    return (int16_t)(sum / (int64_t)(lefts + rights));
}

void
speed_join(struct speed_worker *worker, uint32_t row,
           const struct speed_row *told)
{
    const uint64_t half[2] = {told->first, told->second};
    uint32_t first = row * ROW_CLASSES;

    CHECK(row < SPEED_TOLD_ROWS);
    for (uint32_t i = 0; i < ROW_CLASSES; i++) {
        struct speed_mean more =
            unpack(half[i / HALF_CLASSES] >> i % HALF_CLASSES * CLASS_BITS);
        if (more.count == 0 || first + i >= SPEED_CLASSES + SPEED_STEPS) {
            continue;
        }
        struct speed_mean *of = &worker->of[first + i];
        CHECK(of->count < UINT16_MAX - SPEED_COUNT_MAX);
        of->time = mean_of(of->time, of->count, more.time, more.count);
        of->number = mean_of(of->number, of->count, more.number, more.count);
        of->count = (uint16_t)(of->count + more.count);
    }
}
