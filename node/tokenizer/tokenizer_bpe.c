/*
 * Byte pair encoding of one word: its symbols (bytes or characters) merge,
 * the pair of the smallest rank first and the leftmost of equals, until no pair
 * is left that merges. Short words look for the smallest rank by going through
 * all of them, long ones keep a heap, so that a word of n bytes costs n log n.
 * Before that, words are parted where no merge can be: tokenizer_bpe_gaps.c.
 */
#include <stdlib.h>
#include <string.h>

#include "node/tokenizer/tokenizer_internal.h"

#define SHORT_MAX 48
#define PIECE_MAX 15 /* what is not longer is not looked through for gaps */

struct bpe_symbol {
    uint32_t id;
    uint32_t prev; /* TOK_NONE: none */
    uint32_t next;
    bool gone; /* merged into the one before */
};

struct bpe_heap_entry {
    uint32_t rank;
    uint32_t at; /* index of the left symbol */
    uint32_t id; /* what the pair becomes */
};

static inline uint64_t
pair_hash(uint32_t left, uint32_t right)
{
    uint64_t pair = (uint64_t)left << 32 | right;

    pair *= UINT64_C(0x9e3779b97f4a7c15);
    return pair ^ pair >> 29;
}

static inline struct bpe_pair
merge_of(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    uint64_t at = pair_hash(left, right) & bpe->merges_mask;

    for (;; at = (at + 1) & bpe->merges_mask) {
        const struct bpe_merge *merge = &bpe->merges[at];
        if (merge->left == left && merge->right == right) {
            return (struct bpe_pair){merge->rank, merge->id};
        }
        if (merge->right == TOK_NONE) {
            return (struct bpe_pair){TOK_NONE, TOK_NONE};
        }
    }
}

bool
bpe_merges_room(struct tok_load *load, size_t count)
{
    struct bpe *bpe = &load->t->bpe;
    uint64_t size = 64;

    while (size < count * 2) {
        size *= 2;
    }
    bpe->merges = tok_alloc_many(load, size, sizeof bpe->merges[0]);
    if (bpe->merges == NULL) {
        return false;
    }
    memset(bpe->merges, 0xff, size * sizeof bpe->merges[0]);
    bpe->merges_mask = size - 1;
    return true;
}

void
bpe_merge_set(struct bpe *bpe, struct bpe_merge merge)
{
    uint64_t at = pair_hash(merge.left, merge.right) & bpe->merges_mask;

    for (;; at = (at + 1) & bpe->merges_mask) {
        struct bpe_merge *slot = &bpe->merges[at];
        if (slot->right == TOK_NONE ||
            (slot->left == merge.left && slot->right == merge.right)) {
            *slot = merge;
            return;
        }
    }
}

/* Merges at most SHORT_MAX symbols in place; how many are left. */
static size_t
merge_short(const struct bpe *bpe, uint32_t *ids, size_t count)
{
    struct bpe_pair pairs[SHORT_MAX];

    for (size_t i = 0; i + 1 < count; i++) {
        pairs[i] = merge_of(bpe, ids[i], ids[i + 1]);
    }
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++) {
            best = pairs[i].rank < pairs[best].rank ? i : best;
        }
        if (pairs[best].rank == TOK_NONE) {
            break;
        }
        ids[best] = pairs[best].id;
        count--;
        memmove(ids + best + 1, ids + best + 2,
                (count - best - 1) * sizeof ids[0]);
        if (best + 1 < count) {
            memmove(pairs + best + 1, pairs + best + 2,
                    (count - best - 2) * sizeof pairs[0]);
            pairs[best] = merge_of(bpe, ids[best], ids[best + 1]);
        }
        if (best > 0) {
            pairs[best - 1] = merge_of(bpe, ids[best - 1], ids[best]);
        }
    }
    return count;
}

static inline bool
heap_less(struct bpe_heap_entry a, struct bpe_heap_entry b)
{
    return a.rank < b.rank || (a.rank == b.rank && a.at < b.at);
}

static void
heap_push(struct bpe_heap_entry *heap, size_t *count,
          struct bpe_heap_entry entry)
{
    size_t at = (*count)++;

    while (at > 0 && heap_less(entry, heap[(at - 1) / 4])) {
        heap[at] = heap[(at - 1) / 4];
        at = (at - 1) / 4;
    }
    heap[at] = entry;
}

static struct bpe_heap_entry
heap_pop(struct bpe_heap_entry *heap, size_t *count)
{
    struct bpe_heap_entry top = heap[0];
    struct bpe_heap_entry last = heap[--*count];
    size_t at = 0;

    for (;;) {
        size_t child = at * 4 + 1;
        size_t end = child + 4 < *count ? child + 4 : *count;
        size_t best = child;
        if (child >= *count) {
            break;
        }
        for (size_t i = child + 1; i < end; i++) {
            best = heap_less(heap[i], heap[best]) ? i : best;
        }
        if (!heap_less(heap[best], last)) {
            break;
        }
        heap[at] = heap[best];
        at = best;
    }
    heap[at] = last;
    return top;
}

static void
push_pair(const struct bpe *bpe, const struct bpe_work *work, size_t *count,
          uint32_t left, uint32_t right)
{
    struct bpe_pair pair =
        merge_of(bpe, work->symbols[left].id, work->symbols[right].id);

    if (pair.rank != TOK_NONE) {
        heap_push(work->heap, count,
                  (struct bpe_heap_entry){pair.rank, left, pair.id});
    }
}

/* Merges the pair that the entry names, unless it is gone by now. */
static void
merge_entry(const struct bpe *bpe, const struct bpe_work *work, size_t *count,
            struct bpe_heap_entry entry)
{
    struct bpe_symbol *left = &work->symbols[entry.at];

    if (left->gone || left->next == TOK_NONE) {
        return;
    }
    struct bpe_symbol *right = &work->symbols[left->next];
    if (merge_of(bpe, left->id, right->id).id != entry.id) {
        return;
    }
    left->id = entry.id;
    left->next = right->next;
    right->gone = true;
    if (left->next != TOK_NONE) {
        work->symbols[left->next].prev = entry.at;
        push_pair(bpe, work, count, entry.at, left->next);
    }
    if (left->prev != TOK_NONE) {
        push_pair(bpe, work, count, left->prev, entry.at);
    }
}

/* Merges any number of symbols, which work holds. */
static void
merge_long(const struct bpe *bpe, const struct bpe_work *work, size_t symbols)
{
    size_t count = 0;

    for (uint32_t i = 0; i + 1 < symbols; i++) {
        push_pair(bpe, work, &count, i, i + 1);
    }
    while (count > 0) {
        merge_entry(bpe, work, &count, heap_pop(work->heap, &count));
    }
}

/* Room for a word of n symbols. Each merge takes one entry off the heap and
 * puts at most two on it. */
static bool
work_room(struct bpe_work *work, size_t n)
{
    if (n <= work->room) {
        return true;
    }
    size_t room = n + n / 2 + 64;
    void *symbols = realloc(work->symbols, room * sizeof work->symbols[0]);
    if (symbols == NULL) {
        return false;
    }
    work->symbols = symbols;
    void *heap = realloc(work->heap, 2 * room * sizeof work->heap[0]);
    if (heap == NULL) {
        return false;
    }
    work->heap = heap;
    work->room = room;
    return true;
}

static void
emit_short(struct tokenizer_scratch *s, uint32_t *ids, size_t count)
{
    tok_emit_many(s, ids, merge_short(&s->tokenizer->bpe, ids, count));
}

static void
emit_long(struct tokenizer_scratch *s, size_t count)
{
    const struct bpe_work *work = &s->bpe;

    for (size_t i = 0; i < count; i++) {
        struct bpe_symbol *symbol = &work->symbols[i];
        symbol->prev = i > 0 ? (uint32_t)i - 1 : TOK_NONE;
        symbol->next = i + 1 < count ? (uint32_t)i + 1 : TOK_NONE;
        symbol->gone = false;
    }
    merge_long(&s->tokenizer->bpe, work, count);
    for (size_t i = 0; i < count; i++) {
        if (!work->symbols[i].gone) {
            tok_emit(s, work->symbols[i].id);
        }
    }
}

/*
 * A character's bytes may be taken for its token when nothing else than they
 * could merge with one of them before the token is there, and nothing could merge
 * with the token earlier than it is there:
 * - its bytes alone become it (chars, which bpe_find_chars made);
 * - each merge that it takes part in has a later rank than those that make it
 *   (the same): so whatever is merged meanwhile elsewhere in the word would also
 *   be next, were the token there from the start;
 * - no merge joins a part of it with its neighbour (bpe_parts, for each place).
 */

/* Merges the three bytes of a character: their token, and the latest rank. */
static uint32_t
char_token(const struct bpe *bpe, uint32_t c, uint32_t *rank)
{
    char bytes[4];
    uint32_t id[3];

    (void)utf8_write(c, bytes);
    for (size_t i = 0; i < 3; i++) {
        id[i] = bpe->byte_id[(uint8_t)bytes[i]];
    }
    struct bpe_pair first = merge_of(bpe, id[0], id[1]);
    struct bpe_pair second = merge_of(bpe, id[1], id[2]);
    struct bpe_pair last = {TOK_NONE, TOK_NONE};
    if (first.rank != TOK_NONE && first.rank <= second.rank) {
        last = merge_of(bpe, first.id, id[2]);
    } else if (second.rank != TOK_NONE) {
        last = merge_of(bpe, id[0], second.id);
        first = second;
    }
    *rank = last.rank > first.rank ? last.rank : first.rank;
    return last.id;
}

/* Words of characters: nothing is to be merged. */
static void
name_chars(struct tokenizer *t)
{
    char text[4];

    for (uint32_t i = 0; i < BPE_CHARS; i++) {
        (void)utf8_write(BPE_CHARS_FIRST + i, text);
        t->bpe.chars[i] =
            vocab_find(&t->vocab, (struct slice){.ptr = text, .len = 3});
    }
}

bool
bpe_find_chars(struct tok_load *load)
{
    struct bpe *bpe = &load->t->bpe;
    size_t count = load->t->vocab.ids_end;

    bpe->chars = tok_alloc_many(load, BPE_CHARS, sizeof bpe->chars[0]);
    if (bpe->chars == NULL) {
        return false;
    }
    if (!bpe->folded) {
        name_chars(load->t);
        return true;
    }
    uint32_t *earliest = malloc((count + 1) * sizeof *earliest);
    if (earliest == NULL) {
        return false;
    }
    memset(earliest, 0xff, (count + 1) * sizeof *earliest);
    for (uint64_t i = 0; i <= bpe->merges_mask; i++) {
        struct bpe_merge m = bpe->merges[i];
        if (m.right != TOK_NONE) {
            earliest[m.left] =
                m.rank < earliest[m.left] ? m.rank : earliest[m.left];
            earliest[m.right] =
                m.rank < earliest[m.right] ? m.rank : earliest[m.right];
        }
    }
    for (uint32_t i = 0; i < BPE_CHARS; i++) {
        uint32_t rank = 0;
        uint32_t id = char_token(bpe, BPE_CHARS_FIRST + i, &rank);
        bpe->chars[i] = id != TOK_NONE && earliest[id] > rank ? id : TOK_NONE;
    }
    free(earliest);
    return true;
}

/* The token of the character that three bytes are, or TOK_NONE. */
static inline uint32_t
char_at(const struct bpe *bpe, const char *bytes)
{
    bool three = ((uint8_t)bytes[0] & 0xf0) == 0xe0 &&
                 ((uint8_t)bytes[1] & 0xc0) == 0x80 &&
                 ((uint8_t)bytes[2] & 0xc0) == 0x80;
    uint32_t c = three ? utf8_read(bytes) - BPE_CHARS_FIRST : TOK_NONE;

    return c < BPE_CHARS ? bpe->chars[c] : TOK_NONE;
}

/* The tokens of a piece that is nothing but such characters: how many, or 0. */
static size_t
chars_of(const struct bpe *bpe, struct slice piece, uint32_t *ids)
{
    size_t count = 0;

    for (size_t at = 0; at < piece.len; at += 3) {
        if (piece.len - at < 3 ||
            (ids[count++] = char_at(bpe, piece.ptr + at)) == TOK_NONE ||
            (at > 0 && bpe_parts(bpe, (uint8_t)piece.ptr[at - 1],
                                 (uint8_t)piece.ptr[at]))) {
            return 0;
        }
    }
    return count;
}

static void character_piece(struct tokenizer_scratch *s, struct slice word);

void
bpe_piece(struct tokenizer_scratch *s, struct slice piece)
{
    const struct bpe *bpe = &s->tokenizer->bpe;
    const uint8_t *bytes = (const uint8_t *)piece.ptr;
    uint32_t ids[SHORT_MAX];

    if (bpe->gaps.bridges != NULL && bytes[0] >= 0xe0 &&
        piece.len <= (size_t)3 * SHORT_MAX) {
        size_t count = chars_of(bpe, piece, ids);
        if (count > 0) {
            emit_short(s, ids, count);
            return;
        }
    }
    if (!bpe->folded) {
        character_piece(s, piece);
        return;
    }
    if (piece.len <= SHORT_MAX) {
        for (size_t i = 0; i < piece.len; i++) {
            ids[i] = bpe->byte_id[bytes[i]];
        }
        emit_short(s, ids, piece.len);
        return;
    }
    if (!work_room(&s->bpe, piece.len)) {
        tok_fault(s, TOKENIZER_E_MEMORY);
        return;
    }
    for (size_t i = 0; i < piece.len; i++) {
        s->bpe.symbols[i].id = bpe->byte_id[bytes[i]];
    }
    emit_long(s, piece.len);
}

/* What lies between two gaps. */
static void
gap_piece(struct tokenizer_scratch *s, struct slice piece)
{
    if (piece.len == 3) {
        uint32_t id = char_at(&s->tokenizer->bpe, piece.ptr);
        if (LIKELY(id != TOK_NONE)) {
            tok_emit(s, id);
            return;
        }
    }
    cache_piece(s, piece);
}

/* What lies between two gaps merges by itself. */
static void
parted_word(struct tokenizer_scratch *s, struct slice word)
{
    const struct bpe *bpe = &s->tokenizer->bpe;

    if (word.len <= PIECE_MAX || bpe->gaps.bridges == NULL) {
        bpe_piece(s, word);
        return;
    }
    for (size_t at = 0, end = 0; at < word.len; at = end) {
        end = bpe_gap(bpe, word, at);
        struct slice piece = {.ptr = word.ptr + at, .len = end - at};
        if (piece.len < word.len) {
            gap_piece(s, piece);
        } else {
            bpe_piece(s, piece);
        }
    }
}

/* What a character becomes before anything merges: its token, its bytes'
 * tokens, or the unknown one, which is held back for the next to join it. */
struct symbol_list {
    struct tokenizer_scratch *s;
    struct bpe_symbol *symbols;
    size_t count;
    uint32_t unk; /* held back; TOK_NONE: nothing is */
};

static void
list_unknown(struct symbol_list *list)
{
    const struct bpe *bpe = &list->s->tokenizer->bpe;

    if (!bpe->has_unk) {
        return; /* the library drops it */
    }
    if (list->unk != TOK_NONE && !bpe->fuse_unk) {
        list->symbols[list->count++].id = list->unk;
    }
    if (bpe->unk == TOK_NONE) {
        tok_fault(list->s, TOKENIZER_E_UNKNOWN);
    }
    list->unk = bpe->unk;
}

static void
list_character(struct symbol_list *list, struct slice character)
{
    const struct tokenizer *t = list->s->tokenizer;
    uint8_t lead = (uint8_t)character.ptr[0];
    uint32_t id = character.len == 1 && lead < 128
                      ? t->bpe.byte_id[lead]
                      : vocab_find(&t->vocab, character);

    if (id != TOK_NONE) {
        if (list->unk != TOK_NONE) {
            list->symbols[list->count++].id = list->unk;
            list->unk = TOK_NONE;
        }
        list->symbols[list->count++].id = id;
        return;
    }
    bool bytes = t->bpe.byte_fallback;
    for (size_t i = 0; i < character.len; i++) {
        bytes = bytes && t->bpe.fallback[(uint8_t)character.ptr[i]] != TOK_NONE;
    }
    if (!bytes) {
        list_unknown(list);
        return;
    }
    for (size_t i = 0; i < character.len; i++) {
        list->symbols[list->count++].id =
            t->bpe.fallback[(uint8_t)character.ptr[i]];
    }
}

/* A character with what the file puts before and after it. */
static void
list_affixed(struct symbol_list *list, struct slice word, size_t at, size_t len)
{
    const struct bpe *bpe = &list->s->tokenizer->bpe;
    struct buf *buf = &list->s->word;

    buf_clear(buf);
    if (at > 0) {
        buf_add_slice(buf, bpe->prefix);
    }
    buf_add(buf, word.ptr + at, len);
    if (at + len == word.len) {
        buf_add_slice(buf, bpe->suffix);
    }
    if (buf->failed) {
        tok_fault(list->s, TOKENIZER_E_MEMORY);
        return;
    }
    list_character(list, buf_slice(buf));
}

/* A word of characters, or a piece of one. */
static void
character_piece(struct tokenizer_scratch *s, struct slice word)
{
    const struct bpe *bpe = &s->tokenizer->bpe;
    size_t affixes = bpe->prefix.len + bpe->suffix.len;
    uint32_t ids[SHORT_MAX];

    if (!work_room(&s->bpe, word.len * (1 + affixes) + 1)) {
        tok_fault(s, TOKENIZER_E_MEMORY);
        return;
    }
    struct symbol_list list = {
        .s = s, .symbols = s->bpe.symbols, .unk = TOK_NONE};
    for (size_t at = 0, len = 0; at < word.len; at += len) {
        len = utf8_len((uint8_t)word.ptr[at]);
        if (affixes > 0) {
            list_affixed(&list, word, at, len);
        } else {
            list_character(&list,
                           (struct slice){.ptr = word.ptr + at, .len = len});
        }
    }
    if (list.unk != TOK_NONE) {
        list.symbols[list.count++].id = list.unk;
    }
    if (list.count > SHORT_MAX) {
        emit_long(s, list.count);
        return;
    }
    for (size_t i = 0; i < list.count; i++) {
        ids[i] = list.symbols[i].id;
    }
    emit_short(s, ids, list.count);
}

void
bpe_word(struct tokenizer_scratch *s, struct slice word)
{
    const struct tokenizer *t = s->tokenizer;

    if (t->bpe.whole_word) {
        uint32_t id = vocab_find(&t->vocab, word);
        if (id != TOK_NONE) {
            tok_emit(s, id);
            return;
        }
    }
    parted_word(s, word);
}
