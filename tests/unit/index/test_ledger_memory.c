/* Every allocation of the ledger failing once: an answer each time, nothing
 * changed, nothing lost. */
#include <criterion/criterion.h>
#include <errno.h>

#include "index/index.h"
#include "tests/unit/failing_alloc.h"

#define RUN 300

static uint64_t words[RUN + 1];
static uint64_t hashes[RUN];
static uint32_t tokens[RUN];

/* A run that succeeds, or changes nothing and succeeds when asked again. */
static void
store(struct ledger *ledger, uint32_t stream, enum tier tier, uint64_t first)
{
    struct event_words out = {.words = words, .max = RUN + 1};
    struct ledger_done done;
    struct ledger_stats before;
    struct ledger_stats after;

    for (uint32_t i = 0; i < RUN; i++) {
        hashes[i] = first + i;
        tokens[i] = (uint32_t)(first + i);
    }
    struct ledger_run run = {.root = 1,
                             .hashes = hashes,
                             .count = RUN,
                             .block_tokens = 1,
                             .tokens = tokens,
                             .tier = tier};
    ledger_stats(ledger, &before);
    int rc = ledger_store(ledger, stream, &run, &out, &done);
    if (rc != 0) {
        cr_assert_eq(rc, -ENOMEM);
        cr_assert_eq(out.count, 0);
        ledger_stats(ledger, &after);
        cr_assert_eq(after.names, before.names);
        cr_assert_eq(after.blocks, before.blocks);
        cr_assert_eq(ledger_store(ledger, stream, &run, &out, &done), 0);
    }
}

static void
all_paths(void)
{
    struct ledger_limits limits = {.bytes_max = (size_t)8 << 20};
    struct ledger *ledger;
    const char *reason;
    uint32_t stream[5];
    int rc = ledger_new(&ledger, &limits);

    if (rc != 0) {
        cr_assert_eq(rc, -ENOMEM);
        return;
    }
    for (uint32_t i = 0; i < 5; i++) {
        cr_assert_eq(ledger_open(ledger, &stream[i]), 0);
        store(ledger, stream[i], TIER_DEVICE, 1);
        store(ledger, stream[i], TIER_HOST, 1000 + i * 1000);
        store(ledger, stream[i], TIER_HOST, 1);
    }
    ledger_close(ledger, stream[0]);
    while (ledger_work(ledger, 1000)) {
    }
    cr_assert(ledger_check(ledger, &reason), "%s", reason);
    ledger_free(ledger);
}

Test(ledger_memory, each_allocation_may_fail)
{
    uint64_t n = 0;

    for (; failing_alloc_after(n); n++) {
        all_paths();
    }
    failing_alloc_stop();
    cr_assert_gt(n, 10);
}
