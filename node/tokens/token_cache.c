/*
 * The cache of tokenised conversations: finds the longest turn that is known,
 * takes in new ones, and makes room by dropping the coldest lines.
 */
#include "node/tokens/token_cache.h"

#include <errno.h>
#include <stdlib.h>

#include "index/index.h"
#include "node/tokens/token_cache_line_internal.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tokens are hashed as they lie in memory");

#define BUCKETS_MIN 64U

static struct turn **
bucket_of(const struct token_cache *cache, uint64_t name)
{
    return &cache->buckets[name & (cache->buckets_count - 1)];
}

static struct turn *
find_turn(const struct token_cache *cache, uint64_t name)
{
    struct turn *turn = *bucket_of(cache, name);

    while (turn != NULL && turn->name != name) {
        turn = turn->next_hashed;
    }
    return turn;
}

int
token_cache_new(struct token_cache **out, size_t bytes_max)
{
    struct token_cache *cache = calloc(1, sizeof(*cache));
    struct turn **buckets = calloc(BUCKETS_MIN, sizeof(struct turn *));

    *out = NULL;
    if (cache == NULL || buckets == NULL || uv_mutex_init(&cache->lock) != 0) {
        free(cache);
        free(buckets);
        return -ENOMEM;
    }
    cache->bytes_max = bytes_max;
    cache->buckets = buckets;
    cache->buckets_count = BUCKETS_MIN;
    cache->stats.bytes = sizeof(*cache) + BUCKETS_MIN * sizeof(struct turn *);
    *out = cache;
    return 0;
}

void
token_cache_free(struct token_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    while (cache->warmest != NULL) {
        token_line_drop(cache, cache->warmest);
    }
    uv_mutex_destroy(&cache->lock);
    free(cache->buckets);
    free(cache);
}

/* Doubles the buckets, if memory and the bound allow it; otherwise chains of
 * turns just get longer. */
static void
grow(struct token_cache *cache)
{
    size_t size = cache->buckets_count * sizeof(struct turn *);
    struct turn **old = cache->buckets;
    size_t count = cache->buckets_count;
    struct turn **buckets;

    CHECK(count != 0 && (count & (count - 1)) == 0);
    if (cache->stats.turns < count ||
        cache->stats.bytes + 2 * size > cache->bytes_max) {
        return;
    }
    buckets = calloc(2 * count, sizeof(struct turn *));
    if (buckets == NULL) {
        return;
    }
    cache->buckets = buckets;
    cache->buckets_count = 2 * count;
    cache->stats.bytes += size;
    for (size_t i = 0; i < count; i++) {
        while (old[i] != NULL) {
            struct turn *turn = old[i];
            struct turn **to = bucket_of(cache, turn->name);
            old[i] = turn->next_hashed;
            turn->next_hashed = *to;
            *to = turn;
        }
    }
    free(old);
    CHECK(cache->stats.bytes <= cache->bytes_max);
}

/* Where the line has that block size, or groups_count. */
static uint32_t
group_of(const struct line *line, uint32_t grain)
{
    uint32_t g = 0;

    while (g < line->groups_count && line->grains[g] != grain) {
        g++;
    }
    return g;
}

/* Whether it knows of blocks of each size; an earlier turn (not `last`) of
 * any at all. */
static bool
is_useful(const struct turn *turn, const uint32_t *grains,
          uint32_t grains_count, bool last)
{
    uint32_t blocks = 0;

    for (uint32_t i = 0; i < grains_count; i++) {
        uint32_t g = group_of(turn->line, grains[i]);
        if (g == turn->line->groups_count) {
            return false;
        }
        blocks += turn->count[g];
    }
    return blocks != 0 || (last && turn->whole);
}

/* Bytes of the turn's text that its blocks cover: those at its end in no full
 * block count too, but not those that a later turn showed to differ. */
static uint32_t
covered(const struct turn *turn)
{
    uint64_t tokens = 0;

    if (turn->whole || turn->tokens == 0) {
        return turn->bytes;
    }
    for (uint32_t g = 0; g < turn->line->groups_count; g++) {
        uint64_t t =
            (uint64_t)turn->count[g] * shape_tokens(turn->line->grains[g]);
        tokens = t > tokens ? t : tokens;
    }
    CHECK(tokens <= turn->tokens);
    return (uint32_t)(turn->bytes * tokens / turn->tokens);
}

/* How many tokens so many bytes may be, going by those of the turn. */
static uint32_t
estimate(const struct turn *turn, uint32_t bytes)
{
    uint64_t tokens = turn->tokens;

    if (bytes <= turn->bytes) {
        return turn->tokens;
    }
    if (turn->bytes != 0) {
        tokens = tokens * bytes / turn->bytes;
    }
    return tokens < UINT32_MAX ? (uint32_t)tokens : UINT32_MAX;
}

static void
answer(const struct turn *turn, const uint32_t *grains, uint32_t grains_count,
       const struct token_room *room, struct token_prompt *prompt)
{
    const struct line *line = turn->line;
    uint64_t *to = room->keys;

    CHECK(grains_count <= MIRROR_GROUPS_MAX);
    prompt->covered_bytes = covered(turn);
    prompt->groups_count = grains_count;
    for (uint32_t i = 0; i < grains_count; i++) {
        uint32_t g = group_of(line, grains[i]);
        CHECK(g < line->groups_count); /* is_useful() */
        uint32_t count = turn->count[g];
        if (count > room->count_max) {
            count = room->count_max;
            prompt->whole = false;
        }
        memcpy(to, token_line_keys(line, g), count * sizeof(*to));
        prompt->groups[i] = (struct token_blocks){
            .grain = grains[i], .count = count, .keys = to};
        to += count;
    }
    CHECK(prompt->covered_bytes <= turn->bytes);
}

static bool
find_longest(struct token_cache *cache, const struct conversation *conversation,
             const uint32_t *grains, uint32_t grains_count,
             const struct token_room *room, struct token_prompt *prompt)
{
    uint32_t count = conversation->count;

    CHECK(count <= CONVERSATION_MAX && grains_count <= MIRROR_GROUPS_MAX);
    for (uint32_t i = count; i-- > 0;) {
        const struct turn *turn = find_turn(cache, conversation->keys[i]);
        bool last = i + 1 == count;
        if (turn == NULL || !is_useful(turn, grains, grains_count, last)) {
            continue;
        }
        *prompt = (struct token_prompt){.whole = last && turn->whole,
                                        .name = turn->name};
        prompt->tokens = estimate(turn, conversation->bytes[count - 1]);
        answer(turn, grains, grains_count, room, prompt);
        token_line_touch(cache, turn->line);
        cache->stats.whole += prompt->whole;
        cache->stats.prefix += !prompt->whole;
        return true;
    }
    cache->stats.missed++;
    return false;
}

bool
token_cache_find(struct token_cache *cache,
                 const struct conversation *conversation,
                 const uint32_t *grains, uint32_t grains_count,
                 const struct token_room *room, struct token_prompt *prompt)
{
    uv_mutex_lock(&cache->lock);
    bool found =
        find_longest(cache, conversation, grains, grains_count, room, prompt);
    uv_mutex_unlock(&cache->lock);
    return found;
}

/*
 * The line of the longest earlier turn, if the new one can go on with it: it
 * has the same grains, and no turn that is longer still.
 */
static struct line *
line_to_extend(const struct token_cache *cache,
               const struct conversation *conversation,
               const struct line *fresh)
{
    struct turn *turn = NULL;

    CHECK(conversation->count != 0);
    for (uint32_t i = conversation->count - 1; i-- > 0 && turn == NULL;) {
        turn = find_turn(cache, conversation->keys[i]);
    }
    if (turn == NULL || !token_line_same_grains(turn->line, fresh)) {
        return NULL;
    }
    for (struct turn *t = turn->line->turns; t != NULL; t = t->next) {
        if (t->bytes > turn->bytes) {
            return NULL;
        }
    }
    CHECK(turn->line->turns_count > 0);
    return turn->line;
}

/* Makes room for size more bytes, taking that line last. */
static bool
make_room(struct token_cache *cache, size_t size, struct line *last)
{
    size_t fixed =
        sizeof(*cache) + cache->buckets_count * sizeof(struct turn *);

    if (size > cache->bytes_max || fixed > cache->bytes_max - size) {
        return false;
    }
    if (last != NULL) {
        token_line_touch(cache, last);
    }
    while (cache->stats.bytes > cache->bytes_max - size) {
        CHECK(cache->coldest != NULL);
        cache->stats.evicted += cache->coldest->turns_count;
        token_line_drop(cache, cache->coldest);
    }
    CHECK(cache->stats.bytes + size <= cache->bytes_max);
    return true;
}

/* Allocates a line of that shape and a turn, neither in the cache yet. False:
 * out of memory, or they would never fit. */
static bool
allocate(const struct token_cache *cache, const struct line *shape,
         struct line **line, struct turn **turn)
{
    size_t size = token_line_size(shape);
    bool fits = size < cache->bytes_max;

    *line = fits ? malloc(size) : NULL;
    *turn = fits ? malloc(sizeof(**turn)) : NULL;
    if (*line == NULL || *turn == NULL) {
        free(*line);
        free(*turn);
        return false;
    }
    memcpy(*line, shape, sizeof(*shape));
    return true;
}

static void
enter(struct token_cache *cache, struct turn *turn, struct line *line)
{
    struct turn **bucket = bucket_of(cache, turn->name);

    CHECK(turn->line == NULL && find_turn(cache, turn->name) == NULL);
    turn->next_hashed = *bucket;
    *bucket = turn;
    turn->next = line->turns;
    turn->line = line;
    line->turns = turn;
    line->turns_count++;
    cache->stats.turns++;
    cache->stats.bytes += sizeof(*turn);
    CHECK(cache->stats.turns >= cache->stats.lines);
}

/* Puts a filled line with one turn into the cache. False: there is no room. */
static bool
link_turn(struct token_cache *cache, const struct conversation *conversation,
          struct line *line, struct turn *turn)
{
    struct line *before = line_to_extend(cache, conversation, line);

    if (!make_room(cache, token_line_size(line) + sizeof(*turn), before)) {
        return false;
    }
    struct turn *old = find_turn(cache, turn->name);
    if (old != NULL) {
        token_line_forget(cache, old);
    }
    before = line_to_extend(cache, conversation, line);
    token_line_enter(cache, line);
    enter(cache, turn, line);
    if (before != NULL) {
        token_line_merge(cache, line, before);
    }
    grow(cache);
    CHECK(cache->stats.bytes <= cache->bytes_max);
    CHECK_SLOW(find_turn(cache, turn->name) == turn);
    return true;
}

void
token_cache_add(struct token_cache *cache,
                const struct conversation *conversation, uint64_t root,
                const struct token_text *prompt, const uint32_t *grains,
                uint32_t grains_count)
{
    struct line shape;
    struct line *line;
    struct turn *turn;
    uint32_t last = conversation->count - 1;

    CHECK(grains_count <= MIRROR_GROUPS_MAX);
    CHECK(conversation->count <= CONVERSATION_MAX);
    if (conversation->count == 0 || grains_count == 0) {
        return;
    }
    token_line_shape(&shape, prompt->count, grains, grains_count);
    bool made = allocate(cache, &shape, &line, &turn);
    if (made) {
        *turn = (struct turn){.name = conversation->keys[last],
                              .bytes = conversation->bytes[last],
                              .tokens = prompt->count,
                              .whole = true};
        memcpy(turn->count, shape.count, sizeof(turn->count));
        token_line_fill(line, root, prompt);
    }
    uv_mutex_lock(&cache->lock);
    bool kept = made && link_turn(cache, conversation, line, turn);
    cache->stats.refused += !kept;
    uv_mutex_unlock(&cache->lock);
    if (made && !kept) {
        free(line);
        free(turn);
    }
}

void
token_cache_forget(struct token_cache *cache, uint64_t name)
{
    uv_mutex_lock(&cache->lock);
    struct turn *turn = find_turn(cache, name);
    if (turn != NULL) {
        token_line_drop(cache, turn->line);
    }
    CHECK_SLOW(find_turn(cache, name) == NULL);
    uv_mutex_unlock(&cache->lock);
}

void
token_cache_stats(struct token_cache *cache, struct token_cache_stats *stats)
{
    uv_mutex_lock(&cache->lock);
    *stats = cache->stats;
    uv_mutex_unlock(&cache->lock);
}
