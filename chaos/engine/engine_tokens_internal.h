/*
 * A stand-in tokenizer: bytes to ids and back, without a vocabulary.
 *
 * What a router and a cache see of a tokenizer is kept: ids depend on the text
 * alone; English comes to nearly 4 bytes per token, code, digits and other
 * scripts to 2 or 3; a longer text with the same beginning has the same
 * tokens, but for the last two of the shorter one; and text that the engine
 * generated is split into the same ids again when a client sends it back.
 *
 * An id holds its bytes, so ids decode to exactly the text they came from:
 *
 *   0x00000000..0x000000FF  specials (roles, end); no text yields them
 *   0x01000000..0x03FFFFFF  1 to 3 bytes, the count in the top byte
 *   0x40000000..0x7FFFFFFF  up to 6 symbols of 5 bits: an optional space, then
 *                           letters a-z
 *
 * All fit a signed 32-bit integer; other numbers are foreign ids, which an
 * engine may be sent and which decode to nothing.
 *
 * Role: core. Owns: struct engine_ids its memory. Thread: any, one owner per
 * struct. Limits: engine_ids.max. Errors: sticky `failed`.
 */
#ifndef CHAOS_ENGINE_TOKENS_INTERNAL_H
#define CHAOS_ENGINE_TOKENS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/slice.h"

enum engine_special {
    ENGINE_SPECIAL_END = 0, /* of a message */
    ENGINE_SPECIAL_SYSTEM,
    ENGINE_SPECIAL_USER,
    ENGINE_SPECIAL_ASSISTANT,
    ENGINE_SPECIAL_TOOL,  /* a tool's answer */
    ENGINE_SPECIAL_ROLE,  /* a role of another name, which follows */
    ENGINE_SPECIAL_TOOLS, /* the tools' descriptions */
    ENGINE_SPECIAL_MEDIA, /* an image, a sound; its digest follows */
    ENGINE_SPECIAL_COUNT,
};

/* A growing list of ids. After the first that does not fit (over max, or out
 * of memory) `failed` is set and nothing more is added. */
struct engine_ids {
    uint32_t *ids;
    size_t count;
    size_t size; /* allocated */
    size_t max;
    bool failed;
};

/* Allocates nothing yet. */
void engine_ids_init(struct engine_ids *ids, size_t max);

/* Frees the ids. */
void engine_ids_fini(struct engine_ids *ids);

/* Appends one id; ids->failed when it does not fit. */
void engine_ids_add(struct engine_ids *ids, uint32_t id);

/* Appends the tokens of a text. */
void engine_ids_add_text(struct engine_ids *ids, struct slice text);

/* The most bytes that engine_token_text() writes. */
#define ENGINE_TOKEN_BYTES_MAX 16

/* The bytes of one id, not NUL-terminated; returns how many (0: foreign).
 * Specials give their name: "<|user|>". */
size_t engine_token_text(uint32_t id, char out[ENGINE_TOKEN_BYTES_MAX]);

/*
 * Appends count ids of a reply: English-looking words, chosen by the hash of
 * the prompt, one token each. spaced: begin with a space (a completion that
 * goes on in the middle of a text) or without (a message).
 */
void engine_ids_add_reply(struct engine_ids *ids, uint64_t prompt_hash,
                          uint32_t count, bool spaced);

#endif
