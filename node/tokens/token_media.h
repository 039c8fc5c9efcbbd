/*
 * Pictures and the like in a prompt of tokens: their placeholders are the same
 * tokens for every picture, so engines also name a block by the items that reach
 * into it. A renderer tells what each item is called and where it is; with that
 * the keys of such blocks are those of the engine's events.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: TOKEN_MEDIA_MAX items. Errors:
 * named outcomes. Source: vLLM's renderer (`features` of its answer), and
 * its rule for extra keys (kv_media.h).
 */
#ifndef NODE_TOKEN_MEDIA_H
#define NODE_TOKEN_MEDIA_H

#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"

#define TOKEN_MEDIA_MAX 64U

struct token_medium {
    uint64_t identifier; /* key_digest() of its name */
    uint32_t at;         /* first token of its placeholder */
    uint32_t len;        /* 1 or more tokens */
};

/* In the order of `at`; none reaches into another. */
struct token_media {
    uint32_t count;
    struct token_medium item[TOKEN_MEDIA_MAX];
};

enum {
    TOKEN_MEDIA_E_NONE = 1, /* the answer has no `features` */
    TOKEN_MEDIA_E_BAD,      /* they make no sense, or are too many */
};

/* Reads a renderer's answer: an object, or an array whose first element it is.
 * json is borrowed for the call. 0 and *out, or an outcome and *out has none. */
int token_media_read(struct token_media *out, struct slice json) MUST_CHECK;

/* Keys of count blocks of tokens below root, as key_chain(), each set apart by
 * the items that reach into it and by the tokens that the grain (index/shape.h)
 * looks ahead at: these stand behind the last block. media: NULL is none. */
void token_media_chain(const struct token_media *media, uint64_t root,
                       const uint32_t *tokens, uint32_t count, uint32_t grain,
                       uint64_t *keys);

#endif
