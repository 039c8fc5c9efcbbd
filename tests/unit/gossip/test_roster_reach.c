/* A version that is out of reach is none, and holds up nothing else. */
#include <criterion/criterion.h>

#include "gossip/roster.h"

/* Who starts later knows no version of that worker, and hears of it from all who
 * went along with a peer's leaps: the other workers must not be lost on it. */
Test(roster_reach, a_version_out_of_reach_hides_no_other_worker)
{
    /* entries: "w" with the last version there is, and "x" with an operator's */
    static const char frame[] =
        "\2\x80\x83\xa2id\xa1w\xa1v\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xa4spec"
        "\xc4\1s\x83\xa2id\xa1x\xa1v\xcf\0\0\0\1\0\0\0\1\xa4spec\xc4\1t";
    struct roster_config config = roster_config_default();
    struct roster_entry entry;
    struct roster *roster;

    cr_assert_eq(roster_new(&roster, &config, 1000000, 1), 0);
    cr_assert_eq(roster_peer_up(roster, 7, 1000000), 0);
    cr_assert_eq(roster_recv(roster, 7, (const uint8_t *)frame,
                             sizeof frame - 1, 1000000),
                 ROSTER_E_BAD);
    cr_assert(roster_find(roster, "x", &entry));
    cr_assert(slice_equal(entry.spec, slice_of("t")));
    cr_assert_not(roster_find(roster, "w", &entry));
    roster_free(roster);
}
