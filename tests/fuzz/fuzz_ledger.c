/* The ledger fed with arbitrary runs, removals, closes and work: nothing an
 * engine may say breaks it, and the words it answers are whole. */
#include <string.h>

#include "index/index.h"
#include "tests/fuzz/bytes.h"

#define STREAMS 5
#define RUN_MAX 40

static struct ledger *ledger;
static uint32_t stream[STREAMS];
static uint64_t words[RUN_MAX + 1];
static uint64_t hashes[RUN_MAX];
static uint32_t tokens[RUN_MAX * 2];
static uint64_t extras[RUN_MAX];
static uint32_t remaining[RUN_MAX];

static uint32_t
fill(struct input *in)
{
    uint8_t how = take(in);
    uint32_t count = how % RUN_MAX;
    uint8_t base = take(in);

    for (uint32_t i = 0; i < count; i++) {
        hashes[i] = how >= 128 ? base + i : take(in) % 64;
        tokens[2 * i] = (uint32_t)hashes[i] % 8;
        tokens[2 * i + 1] = how >= 192 ? take(in) % 2 : 0;
        extras[i] = base == 7 ? take(in) % 2 : 0;
        remaining[i] = base % 5;
    }
    return count;
}

static void
store(struct input *in, uint32_t which, struct event_words *out)
{
    uint8_t how = take(in);
    uint64_t parent = take(in) % 64;
    uint32_t count = fill(in);
    struct ledger_done done;
    struct ledger_run run = {.has_parent = how % 2 == 1,
                             .parent = parent,
                             .root = how / 2 % 3,
                             .hashes = hashes,
                             .count = count,
                             .block_tokens = 1 + how / 8 % 2,
                             .tokens = tokens,
                             .extras = how / 16 % 2 == 1 ? extras : NULL,
                             .tier = (enum tier)(how / 32 % TIERS)};
    int rc = ledger_store(ledger, which, &run, out, &done);

    CHECK(rc <= LEDGER_E_FULL);
    CHECK(done.changed + done.duplicates == (rc == 0 ? count : 0));
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        uint64_t room[2];
        struct event_words more = {.words = room, .max = 2};
        int placed =
            ledger_place(ledger, which, hashes[i], run.tier, &more, &done);
        CHECK(placed == LEDGER_E_FULL || (placed == 0 && more.count == 0));
    }
}

static void
step(struct input *in)
{
    uint8_t op = take(in);
    uint32_t which = op / 16 % STREAMS;
    struct event_words out = {.words = words, .max = RUN_MAX + 1};
    struct ledger_done done;
    uint32_t count = 0;

    switch (op % 16) {
    case 0:
        ledger_close(ledger, stream[which]);
        CHECK(ledger_open(ledger, &stream[which]) == 0);
        break;
    case 1:
        (void)ledger_work(ledger, take(in));
        break;
    case 2:
        (void)ledger_place(ledger, stream[which], take(in) % 64,
                           (enum tier)(take(in) % TIERS), &out, &done);
        break;
    case 3:
    case 4:
    case 5:
    case 6:
    case 7:
        count = fill(in);
        ledger_remove(ledger, stream[which], hashes, count,
                      op % 16 == 3 ? remaining : NULL,
                      (enum tier)(op / 80 % TIERS), &out, &done);
        CHECK(done.changed + done.duplicates + done.unknown == count);
        break;
    default:
        store(in, stream[which], &out);
    }
    CHECK(!out.failed && event_check(out.words, out.count));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.data = data, .left = size};
    struct ledger_limits limits = {.bytes_max =
                                       170000 + (size_t)take(&in) * 1024};
    const char *reason;

    if (ledger_new(&ledger, &limits) != 0) {
        return 0;
    }
    for (uint32_t i = 0; i < STREAMS; i++) {
        CHECK(ledger_open(ledger, &stream[i]) == 0);
    }
    for (uint32_t steps = 1; in.left > 0; steps++) {
        step(&in);
        if (steps % 64 == 0) {
            CHECK(ledger_check(ledger, &reason));
        }
    }
    CHECK(ledger_check(ledger, &reason));
    ledger_free(ledger);
    return 0;
}
