/* Which rule's examples a message is nearest to. */
#include "node/content/content_like_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(CONTENT_RULES_MAX <= 64, "bits of rules");

const char *
content_like_name(enum content_like like)
{
    static const char *const names[CONTENT_LIKES] = {
        "unasked", "wanted", "known", "loading",
        "late",    "failed", "away",  "tenant",
    };

    CHECK(like < CONTENT_LIKES);
    return names[like];
}

struct content_centres {
    struct text_vector *of[CONTENT_RULES_MAX]; /* NULL: it has no examples */
};

int
content_likes_add(struct content_likes *likes, uint32_t rule, struct slice text)
{
    uint32_t at = likes->count;

    CHECK(rule < CONTENT_RULES_MAX && text.len > 0);
    CHECK(at == 0 || likes->example[at - 1].rule <= rule);
    if (at == CONTENT_EXAMPLES_MAX || text.len > CONTENT_EXAMPLE_BYTES) {
        return CONTENT_E_FULL;
    }
    likes->example[at].text = malloc(text.len);
    if (likes->example[at].text == NULL) {
        return -ENOMEM;
    }
    memcpy(likes->example[at].text, text.ptr, text.len);
    likes->example[at].len = (uint32_t)text.len;
    likes->example[at].rule = rule;
    likes->count++;
    return 0;
}

static void
free_centres(struct content_centres *centres)
{
    for (uint32_t i = 0; centres != NULL && i < CONTENT_RULES_MAX; i++) {
        free(centres->of[i]);
    }
    free(centres);
}

void
content_likes_fini(struct content_likes *likes)
{
    for (uint32_t i = 0; i < likes->count; i++) {
        free(likes->example[i].text);
    }
    free_centres(
        (struct content_centres *)(uintptr_t)publish_get(&likes->centres));
}

bool
content_likes_has(const struct content_likes *likes, uint32_t rule)
{
    for (uint32_t i = 0; i < likes->count; i++) {
        if (likes->example[i].rule == rule) {
            return true;
        }
    }
    return false;
}

int
content_likes_set(struct content_likes *likes,
                  struct text_vector *const *vectors)
{
    struct content_centres *centres = calloc(1, sizeof *centres);
    uint32_t from = 0;
    int outcome = centres != NULL ? 0 : -ENOMEM;

    CHECK(likes->count > 0 && publish_get(&likes->centres) == NULL);
    while (outcome == 0 && from < likes->count) {
        uint32_t rule = likes->example[from].rule;
        uint32_t to = from;
        while (to < likes->count && likes->example[to].rule == rule) {
            to++;
        }
        outcome =
            text_vector_mean(vectors + from, to - from, &centres->of[rule]);
        from = to;
    }
    if (outcome == 0) {
        publish_set(&likes->centres, centres);
    } else {
        free_centres(centres);
    }
    return outcome;
}

uint32_t
content_likes_nearest(const struct content_likes *likes,
                      const struct text_vector *vector, uint64_t rules,
                      uint32_t *permille)
{
    const struct content_centres *centres = publish_get(&likes->centres);
    uint32_t nearest = CONTENT_RULES_MAX;

    CHECK(centres != NULL);
    *permille = 0;
    for (uint32_t i = 0; i < CONTENT_RULES_MAX; i++) {
        uint32_t cosine = centres->of[i] != NULL && (rules >> i & 1) != 0
                              ? text_vector_cosine(centres->of[i], vector)
                              : 0;
        if (cosine > *permille) {
            nearest = i;
            *permille = cosine;
        }
    }
    return nearest;
}
