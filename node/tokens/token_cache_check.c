/* The invariants of the cache, for tests: what holds between any two calls. */
#include "index/index.h"
#include "node/tokens/token_cache_line_internal.h"

static const char *
turn_fault(const struct token_cache *cache, const struct turn *turn,
           const struct line *line)
{
    const struct turn *at =
        cache->buckets[turn->name & (cache->buckets_count - 1)];

    while (at != NULL && at->name != turn->name) {
        at = at->next_hashed;
    }
    if (at != turn) {
        return "a turn is not where its name leads";
    }
    if (turn->line != line) {
        return "a turn is on another line";
    }
    for (uint32_t g = 0; g < line->groups_count; g++) {
        if (turn->count[g] > line->count[g]) {
            return "a turn is longer than its line";
        }
        if (turn->whole &&
            turn->count[g] != shape_blocks(line->grains[g], turn->tokens)) {
            return "a whole turn lacks blocks";
        }
    }
    return NULL;
}

static const char *
line_fault(const struct token_cache *cache, const struct line *line,
           struct token_cache_stats *sum)
{
    uint32_t turns = 0;

    sum->lines++;
    sum->bytes += token_line_size(line);
    if (line->colder != NULL ? line->colder->warmer != line
                             : cache->coldest != line) {
        return "the order of use is broken";
    }
    for (const struct turn *t = line->turns; t != NULL; t = t->next) {
        const char *fault = turn_fault(cache, t, line);
        if (fault != NULL) {
            return fault;
        }
        turns++;
        sum->turns++;
        sum->bytes += sizeof(*t);
    }
    return turns == 0                   ? "a line without a turn"
           : turns != line->turns_count ? "a line miscounts its turns"
                                        : NULL;
}

static size_t
hashed_turns(const struct token_cache *cache)
{
    size_t count = 0;

    for (size_t i = 0; i < cache->buckets_count; i++) {
        for (const struct turn *t = cache->buckets[i]; t != NULL;
             t = t->next_hashed) {
            count++;
        }
    }
    return count;
}

bool
token_cache_check(const struct token_cache *cache, const char **reason)
{
    size_t fixed =
        sizeof(*cache) + cache->buckets_count * sizeof(struct turn *);
    struct token_cache_stats sum = {.bytes = fixed};
    const char *fault = NULL;

    for (const struct line *line = cache->warmest;
         line != NULL && fault == NULL; line = line->colder) {
        fault = line_fault(cache, line, &sum);
    }
    if (fault == NULL &&
        (sum.lines != cache->stats.lines || sum.turns != cache->stats.turns ||
         sum.turns != hashed_turns(cache))) {
        fault = "turns or lines are miscounted";
    }
    if (fault == NULL && sum.bytes != cache->stats.bytes) {
        fault = "bytes are miscounted";
    }
    if (fault == NULL && sum.bytes > cache->bytes_max && sum.bytes > fixed) {
        fault = "over the bound";
    }
    *reason = fault;
    return fault == NULL;
}
