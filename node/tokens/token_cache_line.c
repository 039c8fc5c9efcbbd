/*
 * Lines of keys: filling them, their order of use, and what becomes of their
 * turns when a line grows or goes.
 */
#include "node/tokens/token_cache_line_internal.h"

#include <stdlib.h>

#include "index/index.h"

void
token_line_shape(struct line *shape, uint32_t count, const uint32_t *grains,
                 uint32_t grains_count)
{
    CHECK(grains_count <= MIRROR_GROUPS_MAX);
    *shape = (struct line){.groups_count = grains_count};
    for (uint32_t g = 0; g < grains_count; g++) {
        CHECK(shape_tokens(grains[g]) != 0);
        shape->grains[g] = grains[g];
        shape->count[g] = shape_blocks(grains[g], count);
    }
}

size_t
token_line_size(const struct line *line)
{
    size_t keys = 0;

    for (uint32_t g = 0; g < line->groups_count; g++) {
        keys += line->count[g];
    }
    return sizeof(*line) + keys * sizeof(line->keys[0]);
}

bool
token_line_same_grains(const struct line *a, const struct line *b)
{
    return a->groups_count == b->groups_count &&
           memcmp(a->grains, b->grains,
                  a->groups_count * sizeof(a->grains[0])) == 0;
}

void
token_line_fill(struct line *line, uint64_t root,
                const struct token_text *prompt)
{
    uint64_t *keys = line->keys;

    CHECK(line->groups_count <= MIRROR_GROUPS_MAX);
    for (uint32_t g = 0; g < line->groups_count; g++) {
        token_media_chain(prompt->media, root, prompt->tokens, line->count[g],
                          line->grains[g], keys);
        keys += line->count[g];
    }
}

static void
unlink_line(struct token_cache *cache, struct line *line)
{
    CHECK(cache->warmest != NULL && cache->coldest != NULL);
    *(line->warmer != NULL ? &line->warmer->colder : &cache->warmest) =
        line->colder;
    *(line->colder != NULL ? &line->colder->warmer : &cache->coldest) =
        line->warmer;
    CHECK((cache->warmest == NULL) == (cache->coldest == NULL));
}

static void
link_line(struct token_cache *cache, struct line *line)
{
    line->warmer = NULL;
    line->colder = cache->warmest;
    *(line->colder != NULL ? &line->colder->warmer : &cache->coldest) = line;
    cache->warmest = line;
    CHECK(cache->warmest == line && cache->coldest != NULL);
}

void
token_line_enter(struct token_cache *cache, struct line *line)
{
    link_line(cache, line);
    cache->stats.lines++;
    cache->stats.bytes += token_line_size(line);
}

void
token_line_touch(struct token_cache *cache, struct line *line)
{
    CHECK(cache->warmest != NULL && line->turns_count > 0);
    if (cache->warmest != line) {
        unlink_line(cache, line);
        link_line(cache, line);
    }
}

/* Removes a line that no turn names any more. */
static void
free_line(struct token_cache *cache, struct line *line)
{
    CHECK(line->turns == NULL && line->turns_count == 0);
    CHECK(cache->stats.lines > 0);
    unlink_line(cache, line);
    cache->stats.lines--;
    cache->stats.bytes -= token_line_size(line);
    CHECK((cache->stats.lines == 0) == (cache->warmest == NULL));
    free(line);
}

/* Takes a turn out of the table and frees it. Its line is not told. */
static void
free_turn(struct token_cache *cache, struct turn *turn)
{
    struct turn **at = &cache->buckets[turn->name & (cache->buckets_count - 1)];

    while (*at != turn) {
        CHECK(*at != NULL);
        at = &(*at)->next_hashed;
    }
    *at = turn->next_hashed;
    CHECK(cache->stats.turns > 0 && cache->stats.bytes >= sizeof(*turn));
    cache->stats.turns--;
    cache->stats.bytes -= sizeof(*turn);
    free(turn);
}

void
token_line_forget(struct token_cache *cache, struct turn *turn)
{
    struct line *line = turn->line;
    struct turn **at = &line->turns;

    CHECK(line->turns_count > 0);
    while (*at != turn) {
        CHECK(*at != NULL);
        at = &(*at)->next;
    }
    *at = turn->next;
    line->turns_count--;
    free_turn(cache, turn);
    if (line->turns == NULL) {
        free_line(cache, line);
    }
}

void
token_line_drop(struct token_cache *cache, struct line *line)
{
    while (line->turns != NULL) {
        struct turn *turn = line->turns;
        line->turns = turn->next;
        line->turns_count--;
        free_turn(cache, turn);
    }
    CHECK(line->turns_count == 0);
    free_line(cache, line);
}

/* How many keys of a group two lines have in common, from the first. */
static uint32_t
shared(const struct line *a, const struct line *b, uint32_t group)
{
    const uint64_t *x = token_line_keys(a, group);
    const uint64_t *y = token_line_keys(b, group);
    uint32_t low = 0;
    uint32_t high = a->count[group];

    CHECK(group < a->groups_count && group < b->groups_count);
    high = b->count[group] < high ? b->count[group] : high;
    while (low < high) { /* each key names all before it: halve */
        uint32_t middle = low + (high - low) / 2;
        if (x[middle] == y[middle]) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    CHECK(low <= a->count[group] && low <= b->count[group]);
    return low;
}

void
token_line_merge(struct token_cache *cache, struct line *line,
                 struct line *from)
{
    uint32_t common[MIRROR_GROUPS_MAX] = {0};

    CHECK(line != from && token_line_same_grains(line, from));
    for (uint32_t g = 0; g < line->groups_count; g++) {
        common[g] = shared(line, from, g);
    }
    while (from->turns != NULL) {
        struct turn *turn = from->turns;
        from->turns = turn->next;
        turn->next = line->turns;
        turn->line = line;
        line->turns = turn;
        for (uint32_t g = 0; g < line->groups_count; g++) {
            if (turn->count[g] > common[g]) {
                turn->count[g] = common[g];
                turn->whole = false;
            }
        }
    }
    line->turns_count += from->turns_count;
    from->turns_count = 0;
    CHECK(line->turns_count > 0 && line->turns != NULL);
    free_line(cache, from);
}
