/* Counts answers against predictions, and decides when a mirror is read again. */
#include "node/view/accuracy.h"

#include "index/base/check.h"

static uint32_t
answers_needed(const struct accuracy_config *config)
{
    uint32_t least = config->answers_min;

    least = least < ACCURACY_WINDOW ? least : ACCURACY_WINDOW;
    return least > 0 ? least : 1;
}

/* Counts the answer; whether it is wrong. */
static bool
count(struct accuracy *accuracy, const struct accuracy_answer *answer)
{
    uint32_t predicted = answer->predicted_tokens;
    uint32_t cached = answer->cached_tokens;
    bool over = predicted > cached;
    uint32_t apart = over ? predicted - cached : cached - predicted;

    CHECK(answer->block_tokens != 0);
    accuracy->answers++;
    if (apart <= answer->block_tokens) {
        accuracy->exact++;
        return false;
    }
    if (over) {
        accuracy->over++;
        accuracy->over_tokens += apart;
    } else {
        accuracy->under++;
        accuracy->under_tokens += apart;
    }
    CHECK(accuracy->exact + accuracy->over + accuracy->under ==
          accuracy->answers);
    return true;
}

static bool
window_is_wrong(const struct accuracy *accuracy,
                const struct accuracy_config *config)
{
    uint32_t wrong = (uint32_t)__builtin_popcountll(accuracy->wrong_bits);

    CHECK(accuracy->window_count <= ACCURACY_WINDOW);
    CHECK(wrong <= accuracy->window_count);
    return wrong > 0 &&
           (uint64_t)wrong * 1000 >=
               (uint64_t)config->wrong_permille * accuracy->window_count;
}

/* The least time between the last re-read and the next one. */
static uint64_t
wait_us(const struct accuracy *accuracy, const struct accuracy_config *config)
{
    uint32_t doublings = accuracy->rereads > 0 ? accuracy->rereads - 1 : 0;

    doublings = doublings < ACCURACY_DOUBLINGS ? doublings : ACCURACY_DOUBLINGS;
    return ((uint64_t)config->reread_ms * 1000) << doublings;
}

static bool
reread_is_due(struct accuracy *accuracy, const struct accuracy_config *config,
              uint64_t now_us)
{
    if (accuracy->reread_at_us != 0 &&
        now_us - accuracy->reread_at_us < wait_us(accuracy, config)) {
        return false;
    }
    accuracy->rereads++;
    accuracy->reread_at_us = now_us > 0 ? now_us : 1;
    return true;
}

/* What the answer tells of the last block. */
static void
note_last_block(struct accuracy *accuracy, const struct accuracy_answer *answer)
{
    uint32_t predicted = answer->predicted_tokens;
    uint32_t cached = answer->cached_tokens;
    uint32_t less = accuracy->recomputes ? predicted : cached;
    uint32_t more = accuracy->recomputes ? cached : predicted;

    if (more > less && more - less == answer->block_tokens) {
        accuracy->apart_run++;
    } else if (predicted == cached && predicted != 0) {
        accuracy->apart_run = 0;
    }
    if (accuracy->apart_run == ACCURACY_RUN) {
        accuracy->recomputes = !accuracy->recomputes;
        accuracy->apart_run = 0;
    }
    CHECK(accuracy->apart_run < ACCURACY_RUN);
}

bool
accuracy_note(struct accuracy *accuracy, const struct accuracy_config *config,
              const struct accuracy_answer *answer, uint64_t now_us)
{
    CHECK(accuracy->window_count <= ACCURACY_WINDOW);
    if (answer->block_tokens == 0 ||
        answer->prompt_tokens < answer->block_tokens) {
        return false;
    }
    bool wrong = count(accuracy, answer);
    note_last_block(accuracy, answer);
    accuracy->wrong_bits = accuracy->wrong_bits << 1 | (wrong ? 1U : 0U);
    accuracy->window_count += accuracy->window_count < ACCURACY_WINDOW;
    if (accuracy->window_count < answers_needed(config)) {
        return false;
    }
    accuracy->wrong = window_is_wrong(accuracy, config);
    if (!accuracy->wrong) {
        accuracy->rereads = 0;
        return false;
    }
    return reread_is_due(accuracy, config, now_us);
}

bool
accuracy_note_partial(struct accuracy *accuracy,
                      const struct accuracy_answer *answer)
{
    if (answer->block_tokens == 0 ||
        answer->prompt_tokens < answer->block_tokens) {
        return false;
    }
    /* A difference of a block is none, as in count(). */
    bool more =
        answer->cached_tokens > answer->predicted_tokens &&
        answer->cached_tokens - answer->predicted_tokens > answer->block_tokens;
    accuracy->more += more;
    accuracy->more_bits = accuracy->more_bits << 1 | (more ? 1U : 0U);
    accuracy->more_count += accuracy->more_count < ACCURACY_WINDOW;
    CHECK(accuracy->more_count <= ACCURACY_WINDOW);
    return more;
}

uint32_t
accuracy_partial_trust(const struct accuracy *accuracy,
                       const struct accuracy_config *config,
                       uint32_t least_permille)
{
    uint32_t more = (uint32_t)__builtin_popcountll(accuracy->more_bits);
    uint32_t most = ACCURACY_PARTIAL;

    CHECK(more <= accuracy->more_count);
    if (least_permille >= most) {
        return most;
    }
    if (accuracy->more_count < answers_needed(config)) {
        return least_permille;
    }
    uint32_t eighths = (accuracy->more_count - more) * 8 / accuracy->more_count;
    return least_permille + (most - least_permille) * eighths / 8;
}

void
accuracy_reread(struct accuracy *accuracy)
{
    accuracy->wrong_bits = 0;
    accuracy->window_count = 0;
    accuracy->more_bits = 0;
    accuracy->more_count = 0;
}

uint32_t
accuracy_trust(const struct accuracy *accuracy,
               const struct accuracy_config *config)
{
    CHECK(config->discount_permille <= 1000);
    return accuracy->wrong ? config->discount_permille : 1000;
}
