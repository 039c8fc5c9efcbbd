/*
 * What this node's configuration says about workers, and when the node
 * contradicts its peers because of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gossip/roster_internal.h"

static bool
says_own(const struct roster_row *row)
{
    struct slice own = {.ptr = row->own, .len = row->own_len};
    struct slice spec = {.ptr = row->spec, .len = row->spec_len};

    return slice_equal(own, spec);
}

void
roster_contradict(struct roster *roster, struct roster_row *row)
{
    int64_t margin_us = (int64_t)roster->config.contradict_ms * 1000;
    struct roster_entry entry = {
        .id = row->id,
        .version = row->version + 1,
        .spec = {.ptr = row->own, .len = row->own_len},
    };

    CHECK(row->own != NULL || row->bids == 0);
    /* A peer's version may be the last there is: one more would be 0. */
    if (row->bids == 0 || row->version >= ROSTER_OPERATION - 1 ||
        says_own(row) || row->own_us - row->since_us <= margin_us) {
        return;
    }
    entry.age_ms = roster_age_ms(roster, row->own_us);
    if (roster_say(roster, &entry) != 0) {
        return; /* no memory: tries again when a peer next tells of it */
    }
    row->bids--;
    roster->stats.contradicted++;
}

/* Stores in the row what the configuration says of its worker. */
static int
keep(struct roster *roster, struct roster_row *row, struct slice spec)
{
    CHECK(row != NULL && spec.len <= ROSTER_SPEC_MAX);
    char *own = malloc(spec.len + 1);

    if (own == NULL) {
        return -ENOMEM;
    }
    if (spec.len > 0) {
        memcpy(own, spec.ptr, spec.len);
    }
    free(row->own);
    row->own = own;
    row->own_len = spec.len;
    row->own_us = (int64_t)roster->now_us;
    row->bids = ROSTER_BIDS;
    return 0;
}

int
roster_configure(struct roster *roster, const char *id, struct slice spec,
                 uint64_t now_us)
{
    struct roster_entry entry = {.id = id, .version = 1, .spec = spec};
    int outcome = roster_entry_check(&entry);

    roster_at_time(roster, now_us);
    if (outcome == 0) {
        outcome = roster_say(roster, &entry);
    }
    if (outcome != 0 && outcome != ROSTER_IS_SAME &&
        outcome != ROSTER_IS_OLDER) {
        return outcome;
    }
    struct roster_row *row = roster_row_find(roster, id);
    outcome = keep(roster, row, spec);
    if (outcome == 0) {
        roster_contradict(roster, row);
    }
    return outcome;
}
