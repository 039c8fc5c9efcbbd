/* Writes the msgpack of a batch by hand. */
#include "tests/bench/stored_batch.h"

#include <string.h>

#include "index/base/check.h"
#include "index/key.h"

#define TOKENS (STORED_BATCH_BLOCKS * STORED_BATCH_TOKENS)

static void
put(struct stored_batch *batch, unsigned first, uint64_t value, unsigned width)
{
    batch->bytes[batch->len++] = (unsigned char)first;
    for (unsigned i = width; i > 0; i--) {
        batch->bytes[batch->len++] = (unsigned char)(value >> (8 * (i - 1)));
    }
}

static void
put_text(struct stored_batch *batch, const char *text)
{
    size_t len = strlen(text);

    put(batch, 0xa0 + (unsigned)len, 0, 0);
    memcpy(batch->bytes + batch->len, text, len);
    batch->len += len;
}

static void
put_tokens(struct stored_batch *batch, struct rng *rng)
{
    uint32_t tokens[TOKENS]; /* as keys want them, on a little-endian machine */

    put_text(batch, "token_ids");
    put(batch, 0xdc, TOKENS, 2);
    for (unsigned i = 0; i < TOKENS; i++) {
        tokens[i] = 256 + (uint32_t)rng_below(rng, 65000);
        put(batch, 0xcd, tokens[i], 2);
    }
    (void)key_chain(key_token_root(SLICE(""), SLICE("")), tokens,
                    STORED_BATCH_BLOCKS, STORED_BATCH_TOKENS * sizeof tokens[0],
                    batch->keys);
}

void
stored_batch_fill(struct stored_batch *batch, struct rng *rng)
{
    put(batch, 0x93, 0, 0);
    put(batch, 0xcb, rng_next(rng) >> 4, 8);
    put(batch, 0x91, 0, 0);
    put(batch, 0x86, 0, 0);
    put_text(batch, "type");
    put_text(batch, "BlockStored");
    put_text(batch, "block_hashes");
    put(batch, 0x90 + STORED_BATCH_BLOCKS, 0, 0);
    for (unsigned i = 0; i < STORED_BATCH_BLOCKS; i++) {
        put(batch, 0xcf, rng_next(rng), 8);
    }
    put_text(batch, "parent_block_hash");
    put(batch, 0xc0, 0, 0);
    put_tokens(batch, rng);
    put_text(batch, "block_size");
    put(batch, STORED_BATCH_TOKENS, 0, 0);
    put_text(batch, "lora_id");
    put(batch, 0xc0, 0, 0);
    put(batch, 0, 0, 0);
    CHECK(batch->len <= STORED_BATCH_BYTES);
}
