#include "index/base/words.h"

#include <stdlib.h>

#define ROOM_MIN 512

void
words_init(struct words *words, size_t words_max)
{
    *words = (struct words){.words_max = words_max};
}

void
words_fini(struct words *words)
{
    free(words->word);
    words_init(words, words->words_max);
}

void
words_clear(struct words *words)
{
    words->count = 0;
    words->failed = false;
}

static bool
grow(struct words *words, size_t least)
{
    size_t room = words->room + words->room / 2;

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
    if (!words->failed && n <= words->words_max - words->count &&
        n > words->room - words->count) {
        (void)grow(words, words->count + n);
    }
}

uint64_t *
words_add(struct words *words, size_t n)
{
    if (words->failed || n > words->words_max - words->count ||
        (n > words->room - words->count && !grow(words, words->count + n))) {
        words->failed = true;
        return NULL;
    }
    words->count += n;
    return words->word + (words->count - n);
}
