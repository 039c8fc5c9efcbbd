/* The known word that is nearest to a misspelt one. */
#include "node/text/typo.h"

#include "index/base/check.h"

static size_t
least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Three rows of the usual matrix; row[2] is the one being filled. */
static size_t
distance_of(struct slice a, struct slice b)
{
    size_t row[3][TYPO_WORD_MAX + 1] = {{0}};

    CHECK(a.len <= TYPO_WORD_MAX && b.len <= TYPO_WORD_MAX);
    for (size_t j = 0; j <= b.len; j++) {
        row[1][j] = j;
    }
    for (size_t i = 1; i <= a.len; i++) {
        row[2][0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t same = a.ptr[i - 1] == b.ptr[j - 1] ? 0 : 1;
            size_t d = least(row[1][j] + 1, row[2][j - 1] + 1);
            d = least(d, row[1][j - 1] + same);
            if (i > 1 && j > 1 && a.ptr[i - 1] == b.ptr[j - 2] &&
                a.ptr[i - 2] == b.ptr[j - 1]) {
                d = least(d, row[0][j - 2] + 1);
            }
            row[2][j] = d;
        }
        memcpy(row[0], row[1], sizeof row[0]);
        memcpy(row[1], row[2], sizeof row[1]);
    }
    return row[1][b.len];
}

void
typo_offer(struct typo *typo, struct slice word, const char *candidate)
{
    struct slice other = slice_of(candidate);
    size_t near = 1 + least(word.len, other.len) / 4;

    if (word.len > TYPO_WORD_MAX || other.len > TYPO_WORD_MAX || word.len < 2) {
        return;
    }
    size_t distance = distance_of(word, other);
    if (distance <= near && distance < other.len &&
        (typo->best == NULL || distance < typo->distance)) {
        *typo = (struct typo){.best = candidate, .distance = distance};
    }
}
