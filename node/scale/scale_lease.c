/* Which node acts: votes that bind for a time. */
#include "node/scale/scale_lease.h"

#include <stddef.h>

#include "index/base/check.h"
#include "index/base/mutant.h"

void
scale_lease_init(struct scale_lease *lease, uint64_t self, uint32_t lease_us,
                 uint64_t now_us)
{
    CHECK(self != 0 && lease_us != 0);
    *lease = (struct scale_lease){
        .self = self, .now_us = now_us, .bound_us = lease_us};
}

static bool
is_holder(const struct scale_lease *lease)
{
    return lease->own.holder == lease->self;
}

/* Takes the time that passed off what still binds. */
static void
pass(struct scale_lease *lease, uint32_t lease_us, uint64_t now_us)
{
    uint64_t gap_us = now_us - lease->now_us;
    uint64_t most_us = lease_us / 5;

    CHECK(now_us >= lease->now_us);
    gap_us = gap_us < most_us ? gap_us : most_us;
    lease->bound_us -= gap_us < lease->bound_us ? gap_us : lease->bound_us;
    lease->now_us = now_us;
}

static void
vote(struct scale_lease *lease, const struct scale_word *word,
     uint32_t lease_us)
{
    lease->own = *word;
    lease->bound_us = lease_us;
}

/* Repeats the holder's newest round. */
static void
follow(struct scale_lease *lease, const struct scale_turn *turn)
{
    for (uint32_t i = 0; i < turn->count; i++) {
        const struct scale_voter *voter = &turn->voters[i];
        const struct scale_word *word = &voter->word;
        bool newer =
            word->epoch > lease->own.epoch ||
            (word->epoch == lease->own.epoch && word->round > lease->own.round);
        if (voter->name == lease->own.holder && word->holder == voter->name &&
            newer) {
            vote(lease, word, turn->lease_us);
        }
    }
}

/* Whoever asks in the highest epoch that is known and was not voted in; of
 * several the first by name. */
static const struct scale_word *
find_asking(const struct scale_lease *lease, const struct scale_turn *turn)
{
    const struct scale_word *best = NULL;

    for (uint32_t i = 0; i < turn->count; i++) {
        const struct scale_word *word = &turn->voters[i].word;
        bool asks = word->holder == turn->voters[i].name &&
                    word->holder != lease->self &&
                    word->epoch > lease->own.epoch &&
                    word->epoch >= lease->seen;
        if (asks && (best == NULL || word->holder < best->holder)) {
            best = word;
        }
    }
    return best;
}

/* Until when a voter's word lets this node act; 0: it does not. */
static uint64_t
good_until(const struct scale_lease *lease, const struct scale_word *word,
           uint32_t lease_us)
{
    bool ours =
        word->holder == lease->self && word->epoch == lease->own.epoch &&
        word->round <= lease->own.round &&
        lease->own.round - word->round < SCALE_ROUNDS && word->round != 0;

    return ours ? lease->told_us[word->round % SCALE_ROUNDS] + lease_us : 0;
}

/* Whether the name has come already, with as much or more. */
static bool
is_double(const struct scale_turn *turn, const uint64_t *until, uint32_t at)
{
    for (uint32_t i = 0; i < turn->count; i++) {
        if (i != at && turn->voters[i].name == turn->voters[at].name &&
            (until[i] > until[at] || (until[i] == until[at] && i < at))) {
            return true;
        }
    }
    return false;
}

/* How many others let it act at least until then. */
static uint32_t
count_from(const uint64_t *until, uint32_t count, uint64_t least)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < count; i++) {
        found += until[i] != 0 && until[i] >= least;
    }
    return found;
}

/* The latest time until which a quorum lets it act. */
static void
count_votes(struct scale_lease *lease, const struct scale_turn *turn)
{
    uint64_t until[SCALE_VOTERS_MAX];
    uint32_t others = MUTANT(MINORITY) ? 0 : turn->quorum - 1;

    for (uint32_t i = 0; i < turn->count; i++) {
        until[i] =
            turn->voters[i].name == lease->self
                ? 0
                : good_until(lease, &turn->voters[i].word, turn->lease_us);
    }
    for (uint32_t i = 0; i < turn->count; i++) {
        until[i] = is_double(turn, until, i) ? 0 : until[i];
    }
    if (others == 0) {
        lease->until_us = lease->now_us + turn->lease_us;
    }
    for (uint32_t i = 0; i < turn->count && others != 0; i++) {
        if (until[i] > lease->until_us &&
            count_from(until, turn->count, until[i]) >= others) {
            lease->until_us = until[i];
        }
    }
}

/* Tells a new round. */
static void
go_on(struct scale_lease *lease, const struct scale_turn *turn)
{
    struct scale_word word = lease->own;

    word.round++;
    vote(lease, &word, turn->lease_us);
    lease->told_us[word.round % SCALE_ROUNDS] = lease->now_us;
}

static void
begin(struct scale_lease *lease, const struct scale_turn *turn)
{
    uint32_t epoch =
        lease->seen + 1 > turn->wall_s ? lease->seen + 1 : turn->wall_s;

    lease->own = (struct scale_word){.holder = lease->self, .epoch = epoch};
    lease->seen = epoch;
    lease->rest_us = lease->now_us + turn->lease_us;
    go_on(lease, turn);
}

/* Gives up what a quorum does not follow. */
static void
step_down(struct scale_lease *lease, const struct scale_turn *turn)
{
    lease->own.holder = 0;
    lease->own.round = 0;
    lease->bound_us = 0;
    lease->rest_us = lease->now_us + turn->lease_us;
}

static void
hold(struct scale_lease *lease, const struct scale_turn *turn)
{
    count_votes(lease, turn);
    bool acts = scale_lease_acts(lease, lease->now_us);

    if (!acts && lease->now_us >= lease->rest_us) {
        step_down(lease, turn);
    } else {
        go_on(lease, turn);
    }
}

void
scale_lease_turn(struct scale_lease *lease, const struct scale_turn *turn,
                 uint64_t now_us)
{
    CHECK(turn->quorum != 0 && turn->count <= SCALE_VOTERS_MAX);
    pass(lease, turn->lease_us, now_us);
    for (uint32_t i = 0; i < turn->count; i++) {
        uint32_t epoch = turn->voters[i].word.epoch;
        lease->seen = epoch > lease->seen ? epoch : lease->seen;
    }
    if (is_holder(lease)) {
        hold(lease, turn);
        return;
    }
    if (lease->own.holder != 0) {
        follow(lease, turn);
    }
    if (lease->bound_us != 0) {
        return;
    }
    const struct scale_word *asking = find_asking(lease, turn);
    if (asking != NULL) {
        vote(lease, asking, turn->lease_us);
    } else if (turn->first && now_us >= lease->rest_us) {
        begin(lease, turn);
    } else {
        lease->own.holder = 0;
        lease->own.round = 0;
    }
}

bool
scale_voters_know(const struct scale_voter *voters, uint32_t count,
                  uint64_t digest, uint32_t quorum)
{
    uint32_t know = 1;

    for (uint32_t i = 0; i < count; i++) {
        bool again = false;
        for (uint32_t j = 0; j < i; j++) {
            again = again || (voters[j].name == voters[i].name &&
                              voters[j].digest == digest);
        }
        know += !again && voters[i].digest == digest;
    }
    return know >= quorum;
}
