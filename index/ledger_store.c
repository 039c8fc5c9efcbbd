/*
 * Storing a run. First all its blocks are looked up and all room is claimed;
 * then the run is entered, which cannot fail. Blocks are looked up in groups,
 * so that the cache misses of a group overlap.
 */
#include "index/key.h"
#include "index/ledger_internal.h"

#define SMALL_RUN   8 /* blocks that are compared pair by pair */
#define REF_PLANNED (UINT32_C(1) << 31) /* the entry is only being planned */

struct plan {
    struct ledger *l;
    const struct ledger_run *run;
    uint32_t stream;
    uint32_t planned; /* blocks looked up */
    uint32_t parent;  /* entry before the first block */
    uint64_t *keys;   /* of the blocks */
    uint32_t *refs;   /* their entries */
};

/* The memory for the refs of a run and for the table that finds names that
 * occur twice. */
static uint32_t
table_len(uint32_t count)
{
    uint32_t len = 1;

    CHECK(count <= UINT32_MAX / 4);
    while (count > SMALL_RUN && len < count * 2) {
        len *= 2;
    }
    return len;
}

static int
scratch_reserve(struct ledger *l, uint32_t count)
{
    size_t len = (size_t)count + table_len(count);

    CHECK(count > 0);
    if (len <= l->scratch_len) {
        return 0;
    }
    len += len / 2;
    uint32_t *scratch = ledger_take(l, len * sizeof(uint32_t));
    if (scratch == NULL) {
        return l->refusal;
    }
    ledger_give(l, l->scratch, l->scratch_len * sizeof(uint32_t));
    l->scratch = scratch;
    l->scratch_len = len;
    return 0;
}

static bool
twice_small(const struct ledger_run *run)
{
    CHECK(run->count <= SMALL_RUN);
    for (uint32_t i = 1; i < run->count; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (run->hashes[i] == run->hashes[k]) {
                return true;
            }
        }
    }
    return false;
}

static bool
twice_large(const struct ledger_run *run, uint32_t *table, uint32_t len)
{
    CHECK((len & (len - 1)) == 0 && len > run->count);
    for (uint32_t i = 0; i < len; i++) {
        table[i] = 0;
    }
    for (uint32_t i = 0; i < run->count; i++) {
        uint32_t at = (uint32_t)rng_mix(run->hashes[i]) & (len - 1);
        while (table[at] != 0) {
            if (run->hashes[table[at] - 1] == run->hashes[i]) {
                return true;
            }
            at = (at + 1) & (len - 1);
        }
        table[at] = i + 1;
    }
    return false;
}

/* Whether a name occurs twice in the run, its parent included. */
static bool
twice(const struct plan *plan)
{
    const struct ledger_run *run = plan->run;

    for (uint32_t i = 0; run->has_parent && i < run->count; i++) {
        if (run->hashes[i] == run->parent) {
            return true;
        }
    }
    if (run->count <= SMALL_RUN) {
        return twice_small(run);
    }
    return twice_large(run, plan->refs + run->count, table_len(run->count));
}

/* The entry that the stream holds under the name; otherwise the one with this
 * name, key and parent that other streams hold; otherwise REF_NONE. */
static uint32_t
find(const struct plan *plan, uint64_t name, uint64_t key, uint32_t parent)
{
    const struct ledger *l = plan->l;
    struct name_walk walk = name_walk(&l->names, name);
    uint32_t ref;
    uint32_t same = REF_NONE;

    CHECK((parent & REF_PLANNED) == 0 || (parent & REF_MASK) != REF_NONE);
    while ((ref = name_next(&walk)) != REF_NONE) {
        const struct entry *entry = entry_at(l, ref);
        if (entry->name == name) {
            if (holders_has(l, entry->holders, plan->stream)) {
                return ref;
            }
            if (entry->key == key && (parent & REF_PLANNED) == 0 &&
                ledger_parent(l, entry) == parent) {
                same = ref;
            }
        }
    }
    return same;
}

/* Claims room for a new entry of the i-th block below parent, and names it. */
static bool
claim_new(const struct plan *plan, uint32_t i, uint32_t parent, uint32_t *ref)
{
    struct ledger *l = plan->l;

    CHECK(ref != NULL);
    if (parent != REF_NONE && (parent & REF_PLANNED) == 0 &&
        !ledger_kids_claim(l, parent, plan->stream)) {
        return false;
    }
    if (!ledger_pool_claim(l, &l->entries)) {
        return false;
    }
    uint32_t fresh = ledger_pool_take(&l->entries);
    *entry_at(l, fresh) =
        (struct entry){.name = plan->run->hashes[i], .key = plan->keys[i]};
    if (!ledger_names_insert(l, fresh)) {
        ledger_pool_give(&l->entries, fresh);
        return false;
    }
    *ref = fresh | REF_PLANNED;
    return true;
}

/* Claims room for the stream to hold an entry that others know. */
static bool
claim_joining(const struct plan *plan, uint32_t ref)
{
    struct ledger *l = plan->l;
    const struct entry *entry = entry_at(l, ref);

    CHECK(!holders_has(l, entry->holders, plan->stream));
    if ((entry->link & LINK_COUNTED) != 0 &&
        !ledger_kids_claim(l, entry->link & REF_MASK, plan->stream)) {
        return false;
    }
    return !holders_tight(entry->holders) || ledger_pool_claim(l, &l->sets);
}

static int
plan_block(struct plan *plan, uint32_t i, uint32_t parent)
{
    struct ledger *l = plan->l;
    uint32_t ref = find(plan, plan->run->hashes[i], plan->keys[i], parent);
    bool held = ref != REF_NONE &&
                holders_has(l, entry_at(l, ref)->holders, plan->stream);
    bool room = true;

    CHECK(i == plan->planned);
    if (held && entry_at(l, ref)->key != plan->keys[i]) {
        return LEDGER_E_CONFLICT;
    }
    if (ref == REF_NONE) {
        room = claim_new(plan, i, parent, &ref);
        if (!room) {
            return l->refusal;
        }
    } else if (!held) {
        room = claim_joining(plan, ref);
    }
    plan->refs[i] = ref;
    plan->planned = i + 1;
    if (room && (held || plan->run->tier != TIER_DEVICE)) {
        room = ledger_copies_claim(l, ref & REF_MASK, plan->stream);
    }
    return room ? 0 : l->refusal;
}

static uint64_t
block_key(const struct ledger_run *run, uint32_t i, uint64_t parent)
{
    CHECK(i < run->count);
    return key_next_apart(parent, run->extras == NULL ? 0 : run->extras[i],
                          run->tokens + (size_t)i * run->block_tokens,
                          (size_t)run->block_tokens * sizeof(uint32_t));
}

static int
plan_run(struct plan *plan)
{
    const struct ledger_run *run = plan->run;
    uint64_t key = run->root;
    uint32_t parent = plan->parent;

    CHECK(plan->planned == 0);
    if (run->has_parent) {
        key = entry_at(plan->l, parent)->key;
    }
    for (uint32_t i = 0; i < run->count; i++) {
        if (i % NAMES_GROUP == 0 && run->count > 1) {
            uint32_t left = run->count - i;
            ledger_prefetch(plan->l, run->hashes + i,
                            left < NAMES_GROUP ? left : NAMES_GROUP);
        }
        key = block_key(run, i, key);
        plan->keys[i] = key;
        int rc = plan_block(plan, i, parent);
        if (rc != 0) {
            return rc;
        }
        parent = plan->refs[i];
    }
    return 0;
}

static void
unclaim(struct plan *plan)
{
    struct ledger *l = plan->l;

    l->sets.claimed = 0;
    ledger_rows_unclaim(&l->copies);
    ledger_rows_unclaim(&l->kids);
}

static void
drop_plan(struct plan *plan)
{
    CHECK(plan->planned <= plan->run->count);
    for (uint32_t i = plan->planned; i-- > 0;) {
        if ((plan->refs[i] & REF_PLANNED) != 0) {
            uint32_t ref = plan->refs[i] & REF_MASK;
            ledger_names_remove(plan->l, ref);
            ledger_pool_give(&plan->l->entries, ref);
        }
    }
    unclaim(plan);
}

/* Adds a copy. True when the block was not in the tier before. */
static bool
add_copy(struct ledger *l, uint32_t ref, uint32_t stream, enum tier tier)
{
    uint32_t copies = ledger_copies(l, ref, stream);
    uint32_t count = copies_in(copies, tier);

    CHECK_SLOW(tier < TIERS);
    if (count < names_copies_most(tier)) {
        ledger_copies_set(l, ref, stream, copies_with(copies, tier, count + 1));
    }
    return count == 0;
}

/* The i-th block's entry, hung below its parent when it was planned. */
static uint32_t
make(struct plan *plan, uint32_t i)
{
    uint32_t ref = plan->refs[i] & REF_MASK;

    CHECK(i < plan->planned);
    if ((plan->refs[i] & REF_PLANNED) != 0) {
        uint32_t parent = i == 0 ? plan->parent : plan->refs[i - 1];
        ledger_kids_add(plan->l, parent & REF_MASK, ref);
        ledger_tell_block(plan->l, ref, parent & REF_MASK);
    }
    return ref;
}

/* Enters a block. True when that is news for a reader. */
static bool
enter_block(struct plan *plan, uint32_t i)
{
    struct ledger *l = plan->l;
    uint32_t ref = make(plan, i);
    enum tier tier = plan->run->tier;

    CHECK(ref != REF_NONE);
    if (holders_has(l, entry_at(l, ref)->holders, plan->stream)) {
        return add_copy(l, ref, plan->stream, tier);
    }
    ledger_enter(l, ref, plan->stream);
    if (tier != TIER_DEVICE) { /* where it is now, once */
        ledger_copies_set(l, ref, plan->stream, copies_with(0, tier, 1));
    }
    return true;
}

static void
enter_run(struct plan *plan, struct event_words *out, struct ledger_done *done)
{
    const struct ledger_run *run = plan->run;

    CHECK(plan->planned == run->count);
    for (uint32_t i = 0; i < run->count; i++) {
        uint64_t key = plan->keys[i];
        if (enter_block(plan, i)) {
            plan->keys[done->changed++] = key;
        }
    }
    done->duplicates = run->count - done->changed;
    if (done->changed > 0) {
        uint64_t *to =
            event_words_add(out, EVENT_STORE, run->tier, done->changed);
        CHECK(to != NULL);
        for (uint32_t i = 0; to != plan->keys && i < done->changed; i++) {
            to[i] = plan->keys[i];
        }
    }
    unclaim(plan);
}

int
ledger_store(struct ledger *ledger, uint32_t stream,
             const struct ledger_run *run, struct event_words *out,
             struct ledger_done *done)
{
    struct plan plan = {.l = ledger, .run = run, .stream = stream};

    CHECK(stream < LEDGER_STREAMS_MAX);
    CHECK(ledger->stream[stream].state == STREAM_OPEN);
    CHECK(run->tier < TIERS && run->block_tokens > 0);
    CHECK(!out->failed && out->max - out->count > run->count);
    CHECK(run->count == 0 || (run->hashes != NULL && run->tokens != NULL));
    *done = (struct ledger_done){0};
    if (run->count == 0) {
        return 0;
    }
    if (run->has_parent) {
        plan.parent = ledger_held(ledger, stream, run->parent);
        if (plan.parent == REF_NONE) {
            return LEDGER_E_PARENT;
        }
    }
    int rc = scratch_reserve(ledger, run->count);
    if (rc != 0) {
        return rc;
    }
    plan.keys = out->words + out->count + 1;
    plan.refs = ledger->scratch;
    if (!run->distinct && twice(&plan)) {
        return LEDGER_E_CONFLICT;
    }
    rc = plan_run(&plan);
    if (rc != 0) {
        drop_plan(&plan);
        return rc;
    }
    enter_run(&plan, out, done);
    return 0;
}

int
ledger_place(struct ledger *ledger, uint32_t stream, uint64_t hash,
             enum tier tier, struct event_words *out, struct ledger_done *done)
{
    CHECK(stream < LEDGER_STREAMS_MAX && tier < TIERS);
    CHECK(ledger->stream[stream].state == STREAM_OPEN);
    CHECK(!out->failed && out->max - out->count >= 2);
    *done = (struct ledger_done){0};
    uint32_t ref = ledger_held(ledger, stream, hash);
    if (ref == REF_NONE) {
        return LEDGER_E_UNKNOWN;
    }
    if (!ledger_copies_claim(ledger, ref, stream)) {
        return ledger->refusal;
    }
    if (add_copy(ledger, ref, stream, tier)) {
        *event_words_add(out, EVENT_STORE, tier, 1) =
            entry_at(ledger, ref)->key;
        done->changed = 1;
    } else {
        done->duplicates = 1;
    }
    ledger_rows_unclaim(&ledger->copies);
    return 0;
}
