/* WordPiece: the longest token from the left, again and again; a word that
 * cannot be made of tokens is unknown as a whole. WordLevel: whole words. */

#include "node/tokenizer/tokenizer_internal.h"

#define CHARS_MAX 4096 /* of a word; a search costs their square */

bool
wordpiece_load(struct tok_load *load, const struct tok_model_parts *parts)
{
    struct tokenizer *t = load->t;
    struct slice model = parts->rest;
    struct slice unk = {.ptr = NULL};

    if (parts->vocab.ptr == NULL || !vocab_load(load, parts->vocab)) {
        return tok_fail(load, "model: no vocab");
    }
    if (!tok_member_text(load, model, "unk_token", &unk)) {
        return tok_fail(load, "model: no unk_token");
    }
    t->wordpiece.unk = vocab_find(&t->vocab, unk);
    if (t->model == TOK_WORDPIECE) {
        if (!tok_member_text(load, model, "continuing_subword_prefix",
                             &t->wordpiece.prefix)) {
            return tok_fail(load, "model: no continuing_subword_prefix");
        }
        t->wordpiece.chars_max =
            tok_member_uint(load, model, "max_input_chars_per_word", 100);
        if (t->wordpiece.chars_max > CHARS_MAX ||
            t->wordpiece.prefix.len > TOKENIZER_TOKEN_MAX) {
            return tok_fail(load, "model: max_input_chars_per_word or the "
                                  "prefix is too large");
        }
    }
    return !load->failed;
}

static void
unknown(struct tokenizer_scratch *s)
{
    if (s->tokenizer->wordpiece.unk == TOK_NONE) {
        tok_fault(s, TOKENIZER_E_UNKNOWN);
    } else {
        tok_emit(s, s->tokenizer->wordpiece.unk);
    }
}

/* The longest token at word[at], moved past it; TOK_NONE: there is none. */
static uint32_t
longest(struct tokenizer_scratch *s, struct slice word, size_t *at)
{
    const struct tokenizer *t = s->tokenizer;
    struct slice prefix = t->wordpiece.prefix;
    struct slice part = {.ptr = word.ptr, .len = word.len};

    if (*at > 0) {
        buf_clear(&s->word);
        buf_add_slice(&s->word, prefix);
        buf_add(&s->word, word.ptr + *at, word.len - *at);
        part = buf_slice(&s->word);
        if (s->word.failed) {
            tok_fault(s, TOKENIZER_E_MEMORY);
            return TOK_NONE;
        }
    } else {
        prefix.len = 0;
    }
    while (part.len > prefix.len) {
        uint32_t id = vocab_find(&t->vocab, part);
        if (id != TOK_NONE) {
            *at += part.len - prefix.len;
            return id;
        }
        part.len = utf8_back(part.ptr, part.len);
    }
    return TOK_NONE;
}

static void
pieces(struct tokenizer_scratch *s, struct slice word)
{
    size_t before = s->ids->count;
    size_t characters = 0;

    for (size_t i = 0; i < word.len; i++) {
        characters += ((uint8_t)word.ptr[i] & 0xc0) != 0x80;
    }
    if (characters > s->tokenizer->wordpiece.chars_max) {
        unknown(s);
        return;
    }
    for (size_t at = 0; at < word.len && s->fault == TOKENIZER_OK;) {
        uint32_t id = longest(s, word, &at);
        if (id == TOK_NONE) {
            s->ids->count = before;
            unknown(s);
            return;
        }
        tok_emit(s, id);
    }
}

void
wordpiece_word(struct tokenizer_scratch *s, struct slice word)
{
    if (s->tokenizer->model == TOK_WORDPIECE) {
        pieces(s, word);
        return;
    }
    uint32_t id = vocab_find(&s->tokenizer->vocab, word);
    if (id != TOK_NONE) {
        tok_emit(s, id);
    } else {
        unknown(s);
    }
}
