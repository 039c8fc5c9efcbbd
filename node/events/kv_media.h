/*
 * What multimodal items set a block of an engine's cache apart, as one number.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: none. Errors: none. Source:
 * vLLM's extra keys: an item's identifier, and where its placeholder begins,
 * for each item that reaches into the block.
 */
#ifndef NODE_KV_MEDIA_H
#define NODE_KV_MEDIA_H

#include <stdint.h>

/*
 * Adds one item to the digest of a block's media; media: of the items before it
 * (0: none). identifier: key_digest() of its name, as the engine gives it;
 * offset: where it begins, counted from the block's first token. Never 0; goes
 * into key_next_apart().
 */
uint64_t kv_media_place(uint64_t media, uint64_t identifier, int64_t offset);

#endif
