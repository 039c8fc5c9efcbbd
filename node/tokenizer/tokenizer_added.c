/*
 * Added tokens: looked for in the text before the model sees it, those that are
 * `normalized` in the normalised text, the others in the text as it is. At each
 * place the longest one counts, as in the library's automaton.
 *
 * The tokens of a set are sorted by their bytes; those of one first byte are
 * searched by halves, byte by byte, so a place costs no more than the longest
 * token's length times the log of their number.
 */
#include <stdlib.h>
#include <string.h>

#include "node/tokenizer/tokenizer_internal.h"

#define ADDED_MAX ((uint32_t)1 << 18)

static bool
token_load(struct tok_load *load, struct slice object,
           struct added_token *token)
{
    if (!tok_member_text(load, object, "content", &token->text)) {
        return tok_fail(load, "added_tokens: one without content");
    }
    if (token->text.len > TOKENIZER_TOKEN_MAX) {
        return tok_fail(load, "added_tokens: one is too long");
    }
    token->single_word = tok_member_bool(load, object, "single_word", false);
    token->lstrip = tok_member_bool(load, object, "lstrip", false);
    token->rstrip = tok_member_bool(load, object, "rstrip", false);
    token->normalized = tok_member_bool(load, object, "normalized", true);
    token->special = tok_member_bool(load, object, "special", false);
    return !load->failed;
}

/* What finds the tokens that the file had before. */
struct placing {
    struct slice *texts; /* of all tokens, in the file's order */
    struct vocab names;  /* over them */
    uint32_t *ids;       /* of each of them */
    uint32_t *places;    /* by id: one more than its place among tokens, or 0 */
    uint32_t count;
    uint32_t next; /* the next free id */
};

/* Gives the token its id as the library does: that of a token of the same text,
 * the model's, or the next free one; the file's own is not asked. A token of the
 * same id is replaced. */
static void
token_place(struct tokenizer *t, struct placing *placing,
            struct added_token *token)
{
    struct added *added = &t->added;

    if (token->text.len == 0) {
        return;
    }
    uint32_t same = vocab_find(&placing->names, token->text);
    uint32_t id = same != TOK_NONE ? placing->ids[same]
                                   : vocab_find(&t->vocab, token->text);
    if (id == TOK_NONE) {
        id = placing->next++;
    }
    token->id = id;
    token->matched = token->text;
    placing->ids[placing->count] = id;
    placing->texts[placing->count] = token->text;
    vocab_put(&placing->names, placing->count++);
    if (placing->places[id] == 0) {
        placing->places[id] = ++added->count;
    }
    added->tokens[placing->places[id] - 1] = *token;
}

/* Room for so many tokens. */
static bool
placing_make(struct tok_load *load, uint32_t count, struct placing *placing)
{
    struct tokenizer *t = load->t;

    *placing = (struct placing){.next = t->vocab.count};
    placing->names.ids_end = count;
    placing->texts = tok_alloc_many(load, count + 1, sizeof *placing->texts);
    placing->ids = tok_alloc_many(load, count + 1, sizeof *placing->ids);
    t->added.tokens = tok_alloc_many(load, count + 1, sizeof *t->added.tokens);
    if (load->failed || !vocab_index(load, &placing->names, placing->texts)) {
        return false;
    }
    placing->places =
        calloc((size_t)t->vocab.ids_end + count + 1, sizeof *placing->places);
    return placing->places != NULL || tok_fail(load, "out of memory");
}

bool
added_load(struct tok_load *load, struct slice tokens)
{
    struct placing placing;
    struct json_walk walk;
    struct slice value;
    uint32_t count = 0;

    if (!json_walk_open(&walk, tokens) || walk.object) {
        return tok_fail(load, "added_tokens is no array");
    }
    while (json_walk_next(&walk, NULL, NULL, &value)) {
        count++;
    }
    if (count > ADDED_MAX) {
        return tok_fail(load, "added_tokens: more than %u", ADDED_MAX);
    }
    if (!placing_make(load, count, &placing) ||
        !json_walk_open(&walk, tokens)) {
        return false;
    }
    while (json_walk_next(&walk, NULL, NULL, &value)) {
        struct added_token token = {.id = TOK_NONE};
        if (!token_load(load, value, &token)) {
            break;
        }
        token_place(load->t, &placing, &token);
    }
    free(placing.places);
    return !load->failed;
}

/* Of tokens that the normaliser makes equal the last one here counts: the first
 * special one of the file, or else the first. */
static int
by_bytes(const void *a, const void *b)
{
    const struct added_token *const *left = a;
    const struct added_token *const *right = b;
    int order = slice_compare((*left)->matched, (*right)->matched);

    order = order != 0 ? order : (*left)->special - (*right)->special;
    return order != 0 ? order : (*left < *right) - (*left > *right);
}

static bool
set_make(struct tok_load *load, struct added_set *set, bool normalized)
{
    const struct added *added = &load->t->added;

    set->tokens = tok_alloc_many(load, added->count + 1, sizeof(void *));
    if (set->tokens == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < added->count; i++) {
        const struct added_token *token = &added->tokens[i];
        if (token->normalized == normalized && token->matched.len > 0) {
            set->tokens[set->count++] = token;
        }
    }
    qsort(set->tokens, set->count, sizeof set->tokens[0], by_bytes);
    for (uint32_t i = set->count; i > 0; i--) {
        set->starts[(uint8_t)set->tokens[i - 1]->matched.ptr[0]] = true;
    }
    set->one_start = set->count > 0;
    for (uint32_t i = 1; i < set->count; i++) {
        set->one_start = set->one_start && set->tokens[i]->matched.ptr[0] ==
                                               set->tokens[0]->matched.ptr[0];
    }
    uint32_t at = 0;
    for (unsigned byte = 0; byte < 257; byte++) {
        while (at < set->count &&
               (uint8_t)set->tokens[at]->matched.ptr[0] < byte) {
            at++;
        }
        set->first[byte] = at;
    }
    return true;
}

static bool
is_word_at(const struct tokenizer *t, struct slice text, size_t at)
{
    return at < text.len &&
           (tok_class_at(t->classes, text.ptr + at) & TOK_WORD) != 0;
}

bool
added_finish(struct tok_load *load)
{
    struct tokenizer *t = load->t;
    struct tokenizer_scratch *s = tokenizer_scratch_new(t);
    bool single_words = false;
    bool good = s != NULL;

    for (uint32_t i = 0; good && i < t->added.count; i++) {
        struct added_token *token = &t->added.tokens[i];
        bool first = true;
        if (token->normalized && t->norms_count > 0) {
            tok_scratch_bound(s, token->text.len);
            token->matched = tok_copy(load, norm_run(s, token->text, &first));
            good = token->matched.ptr != NULL && s->fault == TOKENIZER_OK &&
                   token->matched.len <= TOKENIZER_TOKEN_MAX;
        }
        single_words = single_words || token->single_word;
    }
    for (uint32_t i = 0; good && i < t->added.count; i++) {
        struct added_token *token = &t->added.tokens[i];
        token->cut = !token->normalized && !token->rstrip &&
                     !token->single_word &&
                     !(single_words &&
                       is_word_at(t, token->text,
                                  utf8_back(token->text.ptr, token->text.len)));
    }
    tokenizer_scratch_free(s);
    if (!good) {
        return tok_fail(load, "added_tokens: one is too long when it is "
                              "normalised, or out of memory");
    }
    return set_make(load, &t->added.raw, false) &&
           set_make(load, &t->added.normalized, true);
}

/* The longest token of the set at text[at], or NULL: narrows the run of those
 * that agree with the text, one byte at a time. */
static const struct added_token *
longest_at(const struct added_set *set, struct slice text, size_t at)
{
    const struct added_token *found = NULL;
    uint8_t lead = (uint8_t)text.ptr[at];
    uint32_t low = set->first[lead];
    uint32_t high = set->first[lead + 1];

    for (size_t len = 1; low < high; len++) {
        while (low < high && set->tokens[low]->matched.len == len) {
            found = set->tokens[low++]; /* the shortest sorts first */
        }
        if (low == high || at + len == text.len) {
            break;
        }
        uint8_t next = (uint8_t)text.ptr[at + len];
        uint32_t from = low;
        uint32_t to = high;
        while (from < to) { /* the first whose byte is not below */
            uint32_t middle = from + (to - from) / 2;
            if ((uint8_t)set->tokens[middle]->matched.ptr[len] < next) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        low = from;
        to = high;
        while (from < to) { /* the first whose byte is above */
            uint32_t middle = from + (to - from) / 2;
            if ((uint8_t)set->tokens[middle]->matched.ptr[len] <= next) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        high = from;
    }
    return found;
}

/* Whether a token that must be a word by itself is one. */
static bool
stands_alone(const struct tokenizer *t, struct slice text, size_t start,
             size_t end)
{
    return !(start > 0 && is_word_at(t, text, utf8_back(text.ptr, start))) &&
           !is_word_at(t, text, end);
}

static size_t
space_before(const struct tokenizer *t, struct slice text, size_t taken,
             size_t at)
{
    while (at > taken) {
        size_t back = utf8_back(text.ptr, at);
        if ((tok_class_at(t->classes, text.ptr + back) & TOK_SPACE) == 0) {
            return at;
        }
        at = back;
    }
    return at;
}

static size_t
space_after(const struct tokenizer *t, struct slice text, size_t at)
{
    while (at < text.len &&
           (tok_class_at(t->classes, text.ptr + at) & TOK_SPACE) != 0) {
        at += utf8_len((uint8_t)text.ptr[at]);
    }
    return at;
}

/* The next place from text[at] on where a token may begin. */
static inline size_t
next_start(const struct added_set *set, struct slice text, size_t at)
{
    if (set->one_start) {
        const char *found = memchr(
            text.ptr + at, set->tokens[0]->matched.ptr[0], text.len - at);
        return found != NULL ? (size_t)(found - text.ptr) : text.len;
    }
    while (at < text.len && !set->starts[(uint8_t)text.ptr[at]]) {
        at++;
    }
    return at;
}

bool
added_next(const struct tokenizer *t, const struct added_set *set,
           struct slice text, size_t *at, size_t taken,
           struct added_match *match)
{
    if (set->count == 0) {
        return false;
    }
    for (size_t i = next_start(set, text, *at); i < text.len;
         i = next_start(set, text, i + 1)) {
        const struct added_token *token = longest_at(set, text, i);
        if (token == NULL) {
            continue;
        }
        size_t end = i + token->matched.len;
        *at = end;
        if (token->single_word && !stands_alone(t, text, i, end)) {
            i = end - 1;
            continue;
        }
        match->token = token;
        match->start = i;
        match->end = token->rstrip ? space_after(t, text, end) : end;
        if (token->lstrip) {
            match->start = i > taken ? space_before(t, text, taken, i) : taken;
        }
        if (match->start < match->end) {
            return true;
        }
        i = end - 1; /* the token before took all of it: the library drops it */
    }
    *at = text.len;
    return false;
}

size_t
tokenizer_cut(const struct tokenizer *t, struct slice text, size_t limit)
{
    struct slice part = {.ptr = text.ptr,
                         .len = limit < text.len ? limit : text.len};
    struct added_match match;

    while (part.len > 0 && part.len < text.len &&
           ((uint8_t)text.ptr[part.len] & 0xc0) == 0x80) {
        part.len--;
    }
    if (utf8_valid(part) != part.len) {
        return 0;
    }
    size_t at = 0;
    size_t taken = 0;
    size_t cut = 0;

    while (added_next(t, &t->added.raw, part, &at, taken, &match)) {
        /* A longer token might begin here were the text not cut off. */
        bool whole = match.end + TOKENIZER_TOKEN_MAX <= part.len ||
                     part.len == text.len ||
                     longest_at(&t->added.raw, text,
                                at - match.token->matched.len) == match.token;
        if (match.token->cut && match.start >= taken && whole) {
            cut = at;
        }
        taken = match.end;
    }
    return cut;
}
