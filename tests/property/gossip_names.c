/* The names that the world's engines give their blocks. */
#include <string.h>

#include "gossip_world.h"

uint64_t
world_key_of(uint32_t stream, uint32_t key)
{
    return rng_mix((uint64_t)stream << 32 | (key + 1));
}

static uint64_t
name_of(uint32_t stream, uint32_t key)
{
    return ~world_key_of(stream, key);
}

static uint16_t
copies_of(uint8_t tiers)
{
    uint16_t copies = 0;

    for (uint32_t tier = 0; tier < TIERS; tier++) {
        copies |= (uint16_t)((tiers >> tier & 1) << (4 * tier));
    }
    return copies;
}

void
world_say_names(struct event_record *record, uint32_t stream,
                const struct world_set *before, const struct world_set *after)
{
    struct names_said said = {.last = 0};

    words_init(&said.words, (size_t)3 * WORLD_KEYS);
    for (uint32_t i = 0; i < WORLD_KEYS; i++) {
        uint16_t copies = copies_of(after->tiers[i]);
        struct names_block block = {.name = name_of(stream, i),
                                    .key = world_key_of(stream, i)};
        if (copies != 0 && before->tiers[i] == 0) {
            names_say_enter(&said, &block);
        }
        if (copies != 0 && after->tiers[i] != before->tiers[i] &&
            (copies != NAMES_PLAIN || before->tiers[i] != 0)) {
            names_say_copies(&said, block.name, copies);
        }
        if (copies == 0 && before->tiers[i] != 0) {
            names_say_leave(&said, block.name);
        }
    }
    record->names_count = EVENT_NAMED | (uint32_t)said.words.count;
    if (said.words.count > 0) {
        memcpy(record->words + record->words_count, said.words.word,
               said.words.count * sizeof *said.words.word);
    }
    words_fini(&said.words);
}

uint64_t
world_names_digest(uint32_t stream, const struct world_set *set)
{
    uint64_t digest = 0;

    for (uint32_t i = 0; i < WORLD_KEYS; i++) {
        struct names_block block = {.name = name_of(stream, i),
                                    .key = world_key_of(stream, i),
                                    .copies = copies_of(set->tiers[i])};
        digest ^= block.copies != 0 ? names_block_digest(&block) : 0;
    }
    return digest;
}
