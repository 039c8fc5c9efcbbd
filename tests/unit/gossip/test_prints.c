/* Fingerprints of the batches that were read. */
#include <criterion/criterion.h>

#include "gossip/gossip_internal.h"

static struct gossip_prints prints;

static void
teardown(void)
{
    gossip_prints_fini(&prints);
}

TestSuite(gossip_prints, .fini = teardown);

static void
add(uint64_t from, uint64_t to, uint32_t process)
{
    for (uint64_t seq = from; seq < to; seq++) {
        gossip_prints_add(&prints, seq, (uint32_t)seq * 7 + process);
    }
}

static bool
has(uint64_t seq, uint32_t process)
{
    uint32_t print = 0;

    return gossip_prints_at(&prints, seq, &print) &&
           print == (uint32_t)seq * 7 + process;
}

Test(gossip_prints, they_are_those_of_the_last_batches)
{
    cr_assert_not(has(0, 1));
    add(100, 100 + GOSSIP_PRINTS, 1);
    cr_assert(has(100, 1));
    add(100 + GOSSIP_PRINTS, 110 + GOSSIP_PRINTS, 1);
    cr_assert_not(has(109, 1));
    cr_assert(has(110, 1));
    cr_assert(has(109 + GOSSIP_PRINTS, 1));
    cr_assert_not(has(110 + GOSSIP_PRINTS, 1));
}

Test(gossip_prints, a_reading_of_the_same_process_adds_to_them)
{
    add(0, 50, 1);
    gossip_prints_begin(&prints);
    add(30, 60, 1);
    cr_assert(has(0, 1));
    cr_assert(has(59, 1));
}

Test(gossip_prints, those_of_another_process_are_gone)
{
    add(0, 50, 1);
    gossip_prints_begin(&prints);
    add(30, 31, 2);
    cr_assert_not(has(29, 1));
    cr_assert_not(has(31, 1));
    cr_assert(has(30, 2));
    gossip_prints_begin(&prints);
    add(31, 32, 2); /* it follows on, but nothing shows that it is the same */
    cr_assert_not(has(30, 2));
    cr_assert(has(31, 2));
}

Test(gossip_prints, a_batch_that_is_missing_begins_them_anew)
{
    add(0, 50, 1);
    add(51, 60, 1);
    cr_assert_not(has(49, 1));
    cr_assert(has(51, 1));
}
