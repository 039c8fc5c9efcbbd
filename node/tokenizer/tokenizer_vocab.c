/* A vocabulary: an open hash table over the bytes of its tokens. */
#include <stdlib.h>
#include <string.h>

#include "node/tokenizer/tokenizer_internal.h"

struct vocab_entry {
    struct slice token;
    uint32_t id;
};

struct vocab_list {
    struct vocab_entry *entries;
    size_t count;
    size_t room;
    uint32_t ids_end;
};

static bool
list_add(struct vocab_list *list, struct slice token, uint32_t id)
{
    if (list->count == list->room) {
        size_t room = list->room == 0 ? 4096 : list->room * 2;
        void *more = realloc(list->entries, room * sizeof list->entries[0]);
        if (more == NULL) {
            return false;
        }
        list->entries = more;
        list->room = room;
    }
    list->entries[list->count++] = (struct vocab_entry){token, id};
    if (id >= list->ids_end) {
        list->ids_end = id + 1;
    }
    return true;
}

/* Reads the members into the list; their text goes to `at`. */
static bool
read_members(struct tok_load *load, struct slice object,
             struct vocab_list *list, char *at)
{
    struct json_walk walk;
    struct slice key = {.ptr = NULL};
    struct slice value;
    bool escaped = false;

    if (!json_walk_open(&walk, object) || !walk.object) {
        return tok_fail(load, "vocab is no object");
    }
    while (json_walk_next(&walk, &key, &escaped, &value)) {
        uint64_t id = 0;
        size_t len = key.len;
        char shown[TOK_SHOWN + 4];

        if (!tok_uint(value, TOKENIZER_VOCAB_MAX - 1, &id)) {
            return tok_fail(load, "vocab: %s is no id of a token",
                            tok_show(value, shown));
        }
        if (escaped) {
            len = json_unescape(key, at);
        } else if (len > 0) {
            memcpy(at, key.ptr, len);
        }
        if (len > TOKENIZER_TOKEN_MAX) { /* half a surrogate pair, too */
            return tok_fail(load, "vocab: a token is too long or broken: %s",
                            tok_show(key, shown));
        }
        struct slice token = {.ptr = at, .len = len};
        if (list->count >= TOKENIZER_VOCAB_MAX ||
            !list_add(list, token, (uint32_t)id)) {
            return tok_fail(load, "vocab: too many tokens");
        }
        at += len;
    }
    return true;
}

bool
vocab_load(struct tok_load *load, struct slice object)
{
    struct vocab_list list = {.entries = NULL};
    struct vocab *vocab = &load->t->vocab;
    char *text = tok_alloc(load, object.len + 1);
    bool good = text != NULL && read_members(load, object, &list, text);

    if (good) {
        vocab->tokens =
            tok_alloc_many(load, list.ids_end + 1, sizeof vocab->tokens[0]);
        good = vocab->tokens != NULL;
    }
    for (size_t i = 0; good && i < list.count; i++) {
        struct slice *token = &vocab->tokens[list.entries[i].id];
        good = token->ptr == NULL ||
               tok_fail(load, "vocab: two tokens have the id %u",
                        list.entries[i].id);
        *token = list.entries[i].token;
    }
    if (good) {
        vocab->ids_end = list.ids_end;
        good = vocab_index(load, vocab, vocab->tokens);
    }
    free(list.entries);
    return good;
}

bool
vocab_make(struct tok_load *load, struct slice *tokens, uint32_t ids_end)
{
    load->t->vocab.tokens = tokens;
    load->t->vocab.ids_end = ids_end;
    return vocab_index(load, &load->t->vocab, tokens);
}

/* The slot of a token, or the free one where it belongs. */
static struct vocab_slot *
slot_of(const struct vocab *vocab, struct slice token, uint64_t hash)
{
    uint32_t tag = (uint32_t)(hash >> 32);

    for (uint64_t at = hash & vocab->mask;; at = (at + 1) & vocab->mask) {
        struct vocab_slot *slot = &vocab->slots[at];
        if (slot->id == TOK_NONE ||
            (slot->hash == tag && slice_equal(vocab->keys[slot->id], token))) {
            return slot;
        }
    }
}

void
vocab_put(struct vocab *vocab, uint32_t id)
{
    struct slice key = vocab->keys[id];
    uint64_t hash = tok_hash(key.ptr, key.len);
    struct vocab_slot *slot = slot_of(vocab, key, hash);

    vocab->count += slot->id == TOK_NONE;
    *slot = (struct vocab_slot){(uint32_t)(hash >> 32), id};
}

bool
vocab_index(struct tok_load *load, struct vocab *vocab,
            const struct slice *keys)
{
    uint64_t size = 64;

    while (size < (uint64_t)vocab->ids_end * 2) {
        size *= 2;
    }
    if (vocab->slots == NULL) {
        vocab->slots = tok_alloc_many(load, size, sizeof vocab->slots[0]);
    }
    if (vocab->slots == NULL) {
        return false;
    }
    memset(vocab->slots, 0xff, size * sizeof vocab->slots[0]);
    vocab->mask = size - 1;
    vocab->keys = keys;
    vocab->count = 0;
    for (uint32_t id = 0; id < vocab->ids_end; id++) {
        if (keys[id].ptr != NULL) {
            vocab_put(vocab, id);
        }
    }
    return true;
}

uint32_t
vocab_find(const struct vocab *vocab, struct slice token)
{
    if (vocab->slots == NULL) {
        return TOK_NONE;
    }
    return slot_of(vocab, token, tok_hash(token.ptr, token.len))->id;
}
