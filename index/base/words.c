/*
 * A growing run of 64-bit words: appending within a bound.
 */
#include "index/base/words.h"

#include <stdlib.h>

#include "index/base/check.h"

#define ROOM_MIN 512

/* What is true of a run of words between two calls. */
static bool
words_sound(const struct words *words)
{
    return words->count <= words->room && words->room <= words->words_max &&
           (words->room == 0) == (words->word == NULL);
}

void
words_init(struct words *words, size_t words_max)
{
    *words = (struct words){.words_max = words_max};
}

void
words_fini(struct words *words)
{
    CHECK(words_sound(words));
    free(words->word);
    words_init(words, words->words_max);
}

void
words_clear(struct words *words)
{
    CHECK_SLOW(words_sound(words));
    words->count = 0;
    words->failed = false;
}

static bool
grow(struct words *words, size_t least)
{
    size_t room = words->room + words->room / 2;

    CHECK(least > words->room);
    room = room < ROOM_MIN ? ROOM_MIN : room;
    room = room < least ? least : room;
    room = room > words->words_max ? words->words_max : room;
    if (room < least) {
        return false;
    }
    uint64_t *more = realloc(words->word, room * sizeof(uint64_t));
    if (more == NULL) {
        return false;
    }
    words->word = more;
    words->room = room;
    return true;
}

void
words_reserve(struct words *words, size_t n)
{
    CHECK_SLOW(words_sound(words));
    if (!words->failed && n <= words->words_max - words->count &&
        n > words->room - words->count) {
        (void)grow(words, words->count + n);
    }
}

uint64_t *
words_add(struct words *words, size_t n)
{
    CHECK_SLOW(words_sound(words));
    if (words->failed || n > words->words_max - words->count ||
        (n > words->room - words->count && !grow(words, words->count + n))) {
        words->failed = true;
        return NULL;
    }
    words->count += n;
    return words->word + (words->count - n);
}
