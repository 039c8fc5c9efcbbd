/*
 * Rules' example sentences, and the centres of their vectors: whose a message is
 * nearest to.
 *
 * Role: core. Owns: texts and centres. Thread: examples by one owner; once they are
 * all there, centres by one writer and any number of readers. Limits:
 * CONTENT_EXAMPLES_MAX. Errors: named outcomes, -ENOMEM.
 */
#ifndef NODE_CONTENT_LIKE_INTERNAL_H
#define NODE_CONTENT_LIKE_INTERNAL_H

#include "index/base/publish.h"
#include "node/content/content.h"

struct content_likes {
    uint32_t count;
    struct {
        uint32_t rule;
        uint32_t len;
        char *text;
    } example[CONTENT_EXAMPLES_MAX]; /* by rising rule */
    struct publish centres; /* struct content_centres; NULL: not known yet */
};

/* One more example of that rule, which is none before the last one's. 0,
 * CONTENT_E_FULL, -ENOMEM. */
int content_likes_add(struct content_likes *likes, uint32_t rule,
                      struct slice text) MUST_CHECK;

void content_likes_fini(struct content_likes *likes);

/* Whether that rule has examples. */
bool content_likes_has(const struct content_likes *likes, uint32_t rule);

/* As content_set_vectors(). */
int content_likes_set(struct content_likes *likes,
                      struct text_vector *const *vectors) MUST_CHECK;

/* The rule, of those of the bits, whose centre is nearest, and the cosine in
 * thousandths; CONTENT_RULES_MAX: none. The centres are known. */
uint32_t content_likes_nearest(const struct content_likes *likes,
                               const struct text_vector *vector, uint64_t rules,
                               uint32_t *permille);

#endif
