/* What changed in a ledger, as words: runs of ops of one kind. */
#include <string.h>

#include "index/names.h"

size_t
names_op_words(uint64_t op)
{
    size_t count = names_op_count(op);

    switch (names_op_kind(op)) {
    case NAMES_ENTER:
        return count == 0 ? 0 : 1 + 2 * count + names_op_has_parent(op);
    case NAMES_COPIES:
        return count == 0 || names_op_copies(op) == 0 ? 0 : 1 + count;
    case NAMES_LEAVE:
        return count == 0 ? 0 : 1 + count;
    case NAMES_READER:
        return count > NAMES_READER_MAX ? 0 : 1 + count;
    case NAMES_KINDS:
        break;
    }
    return 0;
}

void
names_said_clear(struct names_said *said)
{
    words_clear(&said->words);
    said->last = 0;
}

/* The last op, or 0. */
static uint64_t
last_op(const struct names_said *said)
{
    CHECK_SLOW(said->words.count == 0 || said->last < said->words.count);
    return said->words.count == 0 ? 0 : said->words.word[said->last];
}

/* Adds n words to a run of that op: the last one, or a new one, which then has
 * `first` words more, in front. */
static uint64_t *
add(struct names_said *said, uint64_t op, bool joins, size_t n)
{
    struct words *words = &said->words;
    size_t head = words->count;
    uint64_t *at = words_add(words, joins ? n : n + 1);

    if (at == NULL) {
        return NULL;
    }
    if (joins) {
        words->word[said->last] += (uint64_t)1 << 32;
        return at;
    }
    said->last = head;
    *at = op;
    return at + 1;
}

/* Whether the run may have one more. */
static bool
has_room(uint64_t op)
{
    return names_op_count(op) < UINT32_MAX;
}

void
names_say_enter(struct names_said *said, const struct names_block *block)
{
    const struct words *words = &said->words;
    uint64_t last = last_op(said);
    bool joins = words->count > 0 && names_op_kind(last) == NAMES_ENTER &&
                 has_room(last) && block->has_parent &&
                 words->word[words->count - 1] == block->parent;
    bool leads = !joins && block->has_parent;
    uint64_t *at = add(said, names_op(NAMES_ENTER, block->has_parent, 0, 1),
                       joins, leads ? 3 : 2);

    if (at != NULL) {
        if (leads) {
            *at++ = block->parent;
        }
        at[0] = block->name;
        at[1] = block->key;
    }
}

static void
say_one(struct names_said *said, uint64_t op, uint64_t name)
{
    uint64_t last = last_op(said);
    bool joins = said->words.count > 0 && has_room(last) &&
                 (last & UINT32_MAX) == (op & UINT32_MAX);
    uint64_t *at = add(said, op, joins, 1);

    if (at != NULL) {
        *at = name;
    }
}

void
names_say_copies(struct names_said *said, uint64_t name, uint32_t copies)
{
    CHECK(copies != 0);
    say_one(said, names_op(NAMES_COPIES, false, copies, 1), name);
}

/* Copies that were said of a name that leaves now are of no use. */
static void
unsay_copies(struct names_said *said, uint64_t name)
{
    struct words *words = &said->words;
    uint64_t last = last_op(said);

    if (words->count == 0 || words->failed ||
        names_op_kind(last) != NAMES_COPIES ||
        words->word[words->count - 1] != name) {
        return;
    }
    words->count--;
    words->word[said->last] =
        names_op_count(last) > 1
            ? last - ((uint64_t)1 << 32)
            : names_op(NAMES_LEAVE, false, 0, 0); /* and one follows now */
}

void
names_say_leave(struct names_said *said, uint64_t name)
{
    unsay_copies(said, name);
    say_one(said, names_op(NAMES_LEAVE, false, 0, 1), name);
}

void
names_say_reader(struct names_said *said, const uint64_t *words, uint32_t count)
{
    CHECK(count <= NAMES_READER_MAX);
    uint64_t *at =
        add(said, names_op(NAMES_READER, false, 0, count), false, count);

    if (at != NULL && count > 0) {
        memcpy(at, words, count * sizeof *words);
    }
}

/* ---- parts ---- */

/* Takes `take` of the op's count from `from` on. Returns the words written. */
static size_t
put_part(const uint64_t *op, size_t from, size_t take, uint64_t *into)
{
    bool enters = names_op_kind(*op) == NAMES_ENTER;
    size_t each = enters ? 2 : 1;
    const uint64_t *first = op + 1 + names_op_has_parent(*op) + from * each;
    bool has_parent = enters && (from > 0 || names_op_has_parent(*op));
    size_t used = 0;

    into[used++] = names_op(names_op_kind(*op), has_parent,
                            names_op_copies(*op), (uint32_t)take);
    if (has_parent) {
        into[used++] = first[-1]; /* the key before */
    }
    memcpy(into + used, first, take * each * sizeof *into);
    return used + take * each;
}

size_t
names_take(const uint64_t *words, size_t count, struct names_at *at,
           uint64_t *into, size_t max)
{
    size_t used = 0;

    CHECK(at->at <= count);
    while (at->at < count) {
        uint64_t op = words[at->at];
        bool enters = names_op_kind(op) == NAMES_ENTER;
        size_t left = names_op_count(op) - at->in_op;
        size_t head =
            enters && (at->in_op > 0 || names_op_has_parent(op)) ? 2 : 1;
        size_t room =
            max - used > head ? (max - used - head) / (enters ? 2 : 1) : 0;
        size_t take = left < room ? left : room;

        if (take < left && (take == 0 || names_op_kind(op) == NAMES_READER)) {
            break;
        }
        used += put_part(words + at->at, at->in_op, take, into + used);
        at->in_op += take;
        if (at->in_op == names_op_count(op)) {
            at->at += names_op_words(op);
            at->in_op = 0;
        }
    }
    CHECK(used <= max && at->at <= count);
    return used;
}
