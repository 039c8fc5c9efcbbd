/* Each allocation of the KV events' path fails in turn: an event is lost and
 * counted, the batch goes on. */
#include <criterion/criterion.h>

#include <errno.h>

#include "node/events/kv_apply_internal.h"
#include "tests/unit/failing_alloc.h"
#include "tests/unit/node/events/kv_batch.h"

static struct kv_batch batch;
static uint64_t words[KV_APPLY_WORDS(KV_BATCH_BYTES)];
static struct kv_counters counters;

/* A root of many blocks with media, a child of it, a removal, a clear. */
static void
write_batch(void)
{
    put_envelope(&batch, 3);
    put_stored_map(&batch, 1, 1, 40, 0, 1, 2);
    put_text(&batch, "extra_keys");
    put_array(&batch, 40);
    for (unsigned i = 0; i < 40; i++) {
        put_array(&batch, 1);
        put_text(&batch, "thing");
    }
    put_stored(&batch, 0, 100, 80, 40, 1, 2);
    put_removed_map(&batch, 1, 100, 60);
    put_text(&batch, "remaining_copy_counts");
    put_uints(&batch, 0, 60);
}

/* -ENOMEM when the reader could not be had. */
static int
read_all(struct ledger *ledger, uint32_t stream)
{
    struct kv_reader *reader;
    struct kv_apply apply = {.rank = -1};
    struct event_words out = {.words = words,
                              .max = sizeof words / sizeof *words};
    int rc = kv_reader_new(&reader, &KV_LIMITS_DEFAULT);

    if (rc != 0) {
        return rc;
    }
    cr_assert_eq(kv_reader_begin(reader, kv_batch_slice(&batch)), 0);
    rc = kv_apply(&apply, reader, ledger, stream, &counters, &out);
    cr_assert(event_check(words, out.count));
    kv_reader_free(reader);
    return rc;
}

Test(node_kv_wire_memory, an_event_without_memory_is_dropped_and_no_damage)
{
    struct ledger_limits limits = {.bytes_max = (size_t)16 << 20};
    struct ledger *ledger;
    uint32_t stream;
    const char *reason;

    write_batch();
    cr_assert_eq(ledger_new(&ledger, &limits), 0);
    cr_assert_eq(ledger_open(ledger, &stream), 0);
    for (uint64_t n = 0; failing_alloc_after(n); n++) {
        uint64_t dropped = counter_read(&counters.drop_full);
        int rc = read_all(ledger, stream);
        bool lost = counter_read(&counters.drop_full) != dropped;
        cr_assert(rc == 0 || rc == -ENOMEM, "n %d rc %d", (int)n, rc);
        cr_assert(rc != 0 || lost || ledger_blocks(ledger, stream) >= 60);
        cr_assert(ledger_check(ledger, &reason), "%s", reason);
    }
    failing_alloc_stop();
    cr_assert_gt(counter_read(&counters.drop_full), 3);
    ledger_free(ledger);
}
