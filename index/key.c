/*
 * Chained keys by XXH3.
 */
#include "index/key.h"

#include <xxhash.h>

#include "index/base/check.h"
#include "index/base/rng.h"
#include "index/shape.h"

/* Lengths go in first, so that no two different triples run together. */
uint64_t
key_root(struct slice model, struct slice lora, struct slice salt)
{
    uint64_t lens[3] = {model.len, lora.len, salt.len};
    uint64_t hash = XXH3_64bits(lens, sizeof(lens));

    CHECK_SLOW(model.ptr != NULL || model.len == 0);
    hash = XXH3_64bits_withSeed(model.ptr, model.len, hash);
    hash = XXH3_64bits_withSeed(lora.ptr, lora.len, hash);
    return XXH3_64bits_withSeed(salt.ptr, salt.len, hash);
}

uint64_t
key_token_root(struct slice lora, struct slice salt)
{
    return key_root(SLICE("\xff tokens"), lora, salt); /* no model's name */
}

uint64_t
key_next(uint64_t parent, const void *block, size_t size)
{
    CHECK_SLOW(block != NULL || size == 0);
    return XXH3_64bits_withSeed(block, size, parent);
}

uint64_t
key_next_apart(uint64_t parent, uint64_t extra, const void *block, size_t size)
{
    uint64_t seed = extra == 0 ? parent : rng_mix(parent ^ rng_mix(extra));

    CHECK_SLOW(block != NULL || size == 0);
    return XXH3_64bits_withSeed(block, size, seed);
}

uint64_t
key_ahead(uint64_t extra, const uint32_t *tokens, uint32_t count)
{
    if (count == 0) {
        return extra;
    }
    uint64_t apart = XXH3_64bits_withSeed(tokens, count * sizeof(*tokens),
                                          ~extra); /* no block's key */

    return apart != 0 ? apart : 1;
}

uint64_t
key_in_window(uint64_t key, uint32_t number)
{
    return key_next_apart(key, KEY_WINDOW, &number, sizeof(number));
}

uint64_t
key_chain(uint64_t parent, const void *blocks, size_t count, size_t size_bytes,
          uint64_t *keys)
{
    const unsigned char *at = blocks;

    CHECK_SLOW(count == 0 || (blocks != NULL && keys != NULL));
    for (size_t i = 0; i < count; i++) {
        parent = XXH3_64bits_withSeed(at, size_bytes, parent);
        keys[i] = parent;
        at += size_bytes;
    }
    return parent;
}

void
key_chain_grain(uint64_t parent, const uint32_t *tokens, size_t count,
                uint32_t grain, uint64_t *keys)
{
    size_t size = shape_tokens(grain);
    uint32_t ahead = shape_ahead(grain);

    CHECK_SLOW(count == 0 || (tokens != NULL && keys != NULL));
    if (ahead == 0) {
        (void)key_chain(parent, tokens, count, size * sizeof(*tokens), keys);
        return;
    }
    for (size_t i = 0; i < count; i++, tokens += size) {
        parent = key_next_apart(parent, key_ahead(0, tokens + size, ahead),
                                tokens, size * sizeof(*tokens));
        keys[i] = parent;
    }
}

uint64_t
key_digest(struct slice bytes)
{
    CHECK_SLOW(bytes.ptr != NULL || bytes.len == 0);
    return XXH3_64bits(bytes.ptr, bytes.len);
}

struct key_wide
key_wide_digest(struct slice bytes, uint64_t seed)
{
    CHECK_SLOW(bytes.ptr != NULL || bytes.len == 0);
    XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.ptr, bytes.len, seed);
    return (struct key_wide){.low = hash.low64, .high = hash.high64};
}
