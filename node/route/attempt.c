/* What an attempt counts on the board, and which prefixes control is told of. */
#include "node/route/attempt_internal.h"

#include <string.h>

#include "index/base/mutant.h"

void
attempt_begin(struct route_choice *choice, uint64_t unread,
              const struct attempt_counts *counts)
{
    CHECK(choice->lease.taken);
    fleet_lease_queue(&choice->lease, counts->board, unread);
    if (choice->ranked) {
        CHECK_SLOW(choice->best.slot < WORKERS_MAX);
        gauge_add(&counts->rank_inflight[choice->best.slot], 1);
    }
}

static uint32_t
at_most(uint32_t count)
{
    return count < FACT_KEYS_MAX ? count : FACT_KEYS_MAX;
}

/* Blocks of text that are not to be expected of the chosen worker: those that
 * it is known to hold, if they were counted; all where tokens are expected. */
static uint32_t
held_of(const struct route_choice *choice, const struct route_scratch *scratch,
        uint32_t count)
{
    uint32_t held = scratch->tokens.known ? 0 : choice->elect.overlap;

    return choice->placed || held > count ? count : held;
}

uint32_t
attempt_prefixes(const struct route_choice *choice,
                 const struct route_scratch *scratch, bool text,
                 struct attempt_prefix prefixes[2])
{
    const struct token_match_rank *best = &choice->best;

    CHECK_SLOW(choice->lease.taken && choice->lease.slot < WORKERS_MAX);
    prefixes[0] = (struct attempt_prefix){
        .kind = FACT_LEARN,
        .slot = choice->lease.slot,
        .generation = choice->lease.generation,
        .count = text ? at_most(scratch->blocks.count) : 0,
        .root = scratch->blocks.root,
        .keys = scratch->blocks.keys,
    };
    prefixes[0].held = held_of(choice, scratch, prefixes[0].count);
    if (!choice->placed) {
        return 1;
    }
    const struct token_blocks *tokens =
        token_match_blocks(&scratch->tokens, best->grain);
    uint32_t stored = token_match_stored(&scratch->tokens, best);
    CHECK(tokens != NULL && stored <= tokens->count);
    if (tokens->count == stored) {
        return 1;
    }
    prefixes[1] = (struct attempt_prefix){
        .kind = FACT_EXPECT,
        .slot = best->slot,
        .generation = choice->lease.generation,
        .owner = choice->lease.slot,
        .from = stored,
        .count = at_most(tokens->count - stored),
        .keys = tokens->keys + stored,
    };
    if (prefixes[1].count < FACT_KEYS_MAX) {
        prefixes[1].end = token_match_end(&scratch->tokens, best);
    }
    return 2;
}

bool
attempt_decided(const struct route_choice *choice,
                const struct route_scratch *scratch,
                struct attempt_prefix *prefix)
{
    const struct token_match *match = &scratch->tokens;

    CHECK_SLOW(choice->lease.taken && choice->lease.slot < WORKERS_MAX);
    if (!choice->placed) {
        return false;
    }
    const struct token_blocks *tokens =
        token_match_blocks(match, choice->best.grain);
    CHECK(tokens != NULL && tokens->count <= match->depth_max);
    *prefix = (struct attempt_prefix){
        .kind = FACT_DECIDED,
        .slot = choice->best.slot,
        .generation = choice->lease.generation,
        .owner = choice->lease.slot,
        .keys = match->order_keys,
        .count = at_most(decided_told(tokens->keys, tokens->count,
                                      shape_tokens(tokens->grain),
                                      match->longest, match->order_keys)),
    };
    return prefix->count != 0;
}

bool
attempt_session(const struct route_choice *choice,
                const struct route_scratch *scratch,
                struct attempt_prefix *prefix)
{
    const struct session_choice *session = &choice->session;

    if (scratch->session.mode == SESSION_BOUND) {
        return false; /* who has it, an answer tells: dispatch_stores() */
    }
    CHECK_SLOW(choice->lease.taken && session->blocks <= SESSION_MOVES_MAX);
    *prefix = (struct attempt_prefix){
        .kind = FACT_SESSION,
        .slot = choice->lease.slot,
        .generation = choice->lease.generation,
        .count = session->blocks,
        .held = session->blocks <= scratch->session.depth &&
                        session->outcome == SESSION_KEPT
                    ? session->blocks
                    : 0,
        .root = SESSION_ROOT,
        .keys = scratch->session.keys,
    };
    return prefix->count != 0;
}

void
attempt_prefix_write(const struct attempt_prefix *prefix,
                     struct fact_learn *fact)
{
    uint32_t count = prefix->count + (prefix->end != 0);

    CHECK(count <= FACT_KEYS_MAX);
    CHECK_SLOW(prefix->count == 0 || prefix->keys != NULL);
    *fact = (struct fact_learn){
        .kind = prefix->kind,
        .slot = prefix->slot,
        .generation = prefix->generation,
        .count = count,
        .owner = prefix->owner,
        .from = prefix->from,
        .held = prefix->held,
        .root = prefix->root,
        .ticket = prefix->ticket,
    };
    memcpy(fact->keys, prefix->keys, prefix->count * sizeof(*prefix->keys));
    if (prefix->end != 0) {
        fact->keys[prefix->count] = prefix->end;
    }
}

void
attempt_fail(struct route_choice *choice, const struct attempt_counts *counts,
             struct worker_set *tried, bool blamed)
{
    uint32_t slot = choice->lease.slot;

    CHECK(choice->lease.taken);
    if (blamed) {
        counter_add(&counts->board->counters[slot].failures, 1);
    }
    fleet_lease_answered(&choice->lease, counts->board);
    fleet_lease_began(&choice->lease, counts->board);
    if (!MUTANT(TRIED_AGAIN)) {
        worker_set_add(tried, slot);
    }
    attempt_end(choice, counts);
}

void
attempt_end(struct route_choice *choice, const struct attempt_counts *counts)
{
    if (MUTANT(NEVER_DOWN) && choice->lease.queued_tokens != 0) {
        return; /* given up before an answer */
    }
    if (MUTANT(TWICE_DOWN) && choice->lease.taken) {
        struct fleet_lease again = choice->lease;
        fleet_lease_leave(&again, counts->board);
    }
    fleet_lease_leave(&choice->lease, counts->board);
    if (choice->ranked) {
        CHECK_SLOW(gauge_read(&counts->rank_inflight[choice->best.slot]) > 0);
        choice->ranked = false;
        gauge_add(&counts->rank_inflight[choice->best.slot], -1);
    }
    CHECK_SLOW(!choice->lease.taken && !choice->ranked);
}
