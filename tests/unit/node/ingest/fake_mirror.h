/*
 * A mirror that is small, naive and can be told to fail: linked in place of
 * the real one where a test is about its callers.
 *
 * It stands in for all of index/mirror.h that the mirror writer uses. A closed slot is
 * free again after the next mirror_work(); nothing is shared with readers.
 */
#ifndef TESTS_UNIT_NODE_FAKE_MIRROR_H
#define TESTS_UNIT_NODE_FAKE_MIRROR_H

#include "index/base/publish.h"
#include "index/mirror.h"

#define FAKE_KEYS_MAX 4096 /* of one slot */

enum fake_slot_state {
    FAKE_FREE,
    FAKE_OPEN,
    FAKE_SWEEPING,
};

struct fake_slot {
    enum fake_slot_state state;
    uint32_t count;
    uint32_t holes; /* of the last record */
    uint64_t key[FAKE_KEYS_MAX];
    uint8_t tiers[FAKE_KEYS_MAX]; /* bit per tier */
};

struct mirror {
    uint32_t slots_max;         /* of WORKERS_MAX */
    int apply_outcome;          /* of the next mirror_apply()s */
    const struct publish *view; /* no slot in it is closed; NULL: whatever */
    struct fake_slot slot[WORKERS_MAX];
};

/* Static memory, all free. */
struct mirror *fake_mirror(void);

/* The tiers that an open slot holds a key in, a bit each. */
uint8_t fake_mirror_tiers(const struct mirror *mirror, uint32_t slot,
                          uint64_t key);

#endif
