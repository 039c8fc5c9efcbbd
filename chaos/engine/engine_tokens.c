/* The stand-in tokenizer: text to ids and back. */
#include "chaos/engine/engine_tokens_internal.h"

#include <stdlib.h>

#include "index/base/check.h"
#include "index/base/rng.h"

#define WORD         UINT32_C(0x40000000)
#define WORD_SYMBOLS 6
#define SYMBOL_SPACE 27
#define RAW_BYTES    3
#define FIRST_IDS    256

static const char *const special_names[ENGINE_SPECIAL_COUNT] = {
    "<|end|>",  "<|system|>", "<|user|>",  "<|assistant|>",
    "<|tool|>", "<|role|>",   "<|tools|>", "<|media|>",
};

/* Each one token: a space, which a message's first word goes without, and at
 * most five letters. */
static const char *const words[] = {
    " the",   " a",    " of",   " and",   " to",    " in",    " is",
    " that",  " it",   " for",  " as",    " with",  " on",    " by",
    " this",  " from", " at",   " or",    " which", " one",   " all",
    " there", " what", " so",   " out",   " about", " more",  " when",
    " than",  " only", " its",  " time",  " may",   " like",  " then",
    " first", " any",  " now",  " these", " two",   " other", " some",
    " could", " our",  " into", " most",  " new",   " made",  " over",
    " after", " also", " well", " many",  " must",  " such",  " where",
    " much",  " way",  " down", " point", " world", " still", " state",
    " cache",
};

void
engine_ids_init(struct engine_ids *ids, size_t max)
{
    *ids = (struct engine_ids){.max = max};
}

void
engine_ids_fini(struct engine_ids *ids)
{
    free(ids->ids);
    *ids = (struct engine_ids){.ids = NULL};
}

static bool
grow(struct engine_ids *ids)
{
    size_t size = ids->size != 0 ? ids->size * 2 : FIRST_IDS;

    CHECK(!ids->failed && ids->count < ids->max);
    uint32_t *grown = realloc(ids->ids, size * sizeof(*grown));
    if (grown == NULL) {
        ids->failed = true;
        return false;
    }
    ids->ids = grown;
    ids->size = size;
    return true;
}

void
engine_ids_add(struct engine_ids *ids, uint32_t id)
{
    if (ids->failed || ids->count == ids->max ||
        (ids->count == ids->size && !grow(ids))) {
        ids->failed = true;
        return;
    }
    CHECK(ids->count < ids->size && ids->count < ids->max);
    ids->ids[ids->count++] = id;
}

static bool
is_letter(char c)
{
    return c >= 'a' && c <= 'z';
}

/* A word starts here: a letter, or a space and a letter. */
static bool
is_word(struct slice text, size_t at)
{
    return is_letter(text.ptr[at]) ||
           (text.ptr[at] == ' ' && at + 1 < text.len &&
            is_letter(text.ptr[at + 1]));
}

/* The token that starts at `at`; moves it past. */
static uint32_t
next_word(struct slice text, size_t *at)
{
    uint32_t id = 0;
    unsigned n = 0;

    do {
        char c = text.ptr[(*at)++];
        uint32_t symbol =
            c == ' ' ? SYMBOL_SPACE : (uint32_t)(unsigned char)c - 'a' + 1;
        id |= symbol << (5 * n++);
    } while (n < WORD_SYMBOLS && *at < text.len && is_letter(text.ptr[*at]));
    return WORD | id;
}

static uint32_t
next_raw(struct slice text, size_t *at)
{
    uint32_t id = 0;
    uint32_t n = 0;

    do {
        id = id << 8 | (unsigned char)text.ptr[(*at)++];
        n++;
    } while (n < RAW_BYTES && *at < text.len && !is_word(text, *at));
    return n << 24 | id;
}

void
engine_ids_add_text(struct engine_ids *ids, struct slice text)
{
    size_t at = 0;

    while (at < text.len && !ids->failed) {
        engine_ids_add(ids, is_word(text, at) ? next_word(text, &at)
                                              : next_raw(text, &at));
    }
}

static const char symbols[SYMBOL_SPACE + 1] = "\0abcdefghijklmnopqrstuvwxyz ";

static size_t
word_text(uint32_t id, char *out)
{
    size_t n = 0;

    for (uint32_t left = id & ~WORD; left != 0; left >>= 5) {
        uint32_t symbol = left & 31;
        if (symbol == 0 || symbol > SYMBOL_SPACE) {
            return 0;
        }
        CHECK(n < WORD_SYMBOLS);
        out[n++] = symbols[symbol];
    }
    return n;
}

size_t
engine_token_text(uint32_t id, char out[ENGINE_TOKEN_BYTES_MAX])
{
    uint32_t raw = id >> 24;

    if (id < ENGINE_SPECIAL_COUNT) {
        size_t len = strlen(special_names[id]);
        CHECK(len <= ENGINE_TOKEN_BYTES_MAX);
        memcpy(out, special_names[id], len);
        return len;
    }
    if (id >= WORD && id < 2 * WORD) {
        return word_text(id, out);
    }
    if (raw == 0 || raw > RAW_BYTES) {
        return 0;
    }
    for (uint32_t i = 0; i < raw; i++) {
        out[i] = (char)(unsigned char)(id >> (8 * (raw - 1 - i)));
    }
    return raw;
}

void
engine_ids_add_reply(struct engine_ids *ids, uint64_t prompt_hash,
                     uint32_t count, bool spaced)
{
    uint64_t words_count = sizeof(words) / sizeof(words[0]);

    for (uint32_t i = 0; i < count && !ids->failed; i++) {
        const char *word = words[rng_mix(prompt_hash + i) % words_count];
        bool begins = i == 0 && !spaced;
        struct slice piece = slice_of(begins ? word + 1 : word);
        size_t at = 0;
        engine_ids_add(ids, next_word(piece, &at));
        CHECK(at == piece.len);
    }
}
