/* What nodes of the world tell of their replicas, and the names that engines
 * give their blocks. */
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

static uint32_t
copies_of(uint8_t tiers)
{
    uint32_t copies = 0;

    for (enum tier tier = 0; tier < TIERS; tier++) {
        copies |= ((uint32_t)tiers >> tier & 1U) << names_copies_shift(tier);
    }
    return copies;
}

void
world_say_names(struct event_record *record, uint32_t stream,
                const struct world_set *before,
                const struct world_reader *reader)
{
    const struct world_set *after = &reader->known;
    const uint64_t self[2] = {reader->id, !reader->partial};
    struct names_said said = {.last = 0};

    words_init(&said.words, (size_t)3 * WORLD_KEYS + 3);
    names_say_reader(&said, self, 2);
    for (uint32_t i = 0; i < WORLD_KEYS; i++) {
        uint32_t copies = copies_of(after->tiers[i]);
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

void
world_hand(struct world *world, struct world_node *node, uint32_t stream)
{
    struct world_reader *reader = &node->reader[stream];
    struct gossip_names names;

    if (!reader->begun ||
        !gossip_names(node->g, world->engines[stream].name, &names)) {
        return;
    }
    reader->hand_us =
        world->now_us + (1 + rng_below(&world->rng, 30)) * WORLD_MS;
    reader->hand = (struct world_hand){.id = names.table->reader[0],
                                       .whole = names.table->reader[1] != 0,
                                       .seq = names.seq,
                                       .print = names.fingerprint};
    for (uint32_t i = 0; i < WORLD_KEYS; i++) {
        const struct names_block *block =
            names_find(names.table, name_of(stream, i));
        for (uint32_t tier = 0; tier < TIERS && block != NULL; tier++) {
            reader->hand.known.tiers[i] |=
                (uint8_t)((block->copies >> names_copies_shift(tier) & 1)
                          << tier);
        }
    }
}

void
world_tell_digest(struct world *world, struct world_node *node, uint32_t stream)
{
    uint64_t count = 0;
    uint64_t xor_keys = 0;

    for (uint32_t i = 0; i < WORLD_KEYS; i++) {
        if (node->replica[stream].set.tiers[i] != 0) {
            count++;
            xor_keys ^= rng_mix(world_key_of(stream, i));
        }
    }
    gossip_digest(node->g, world->engines[stream].name, count, xor_keys);
}

void
world_export_page(struct world *world, struct world_node *node,
                  const struct gossip_out *out)
{
    uint32_t stream = world_stream_of(world, out->stream);
    uint64_t storage[128];
    struct event_words words = {.words = storage, .max = 128};
    uint64_t at = out->cursor;

    if (rng_below(&world->rng, 50) == 0) {
        gossip_exported(node->g, out->token, NULL, 0, 0, world->now_us);
        return;
    }
    for (; at < WORLD_KEYS && at < out->cursor + 20; at++) {
        uint8_t tiers = node->replica[stream].set.tiers[at];
        for (uint32_t tier = 0; tier < TIERS; tier++) {
            if ((tiers >> tier & 1) != 0) {
                *event_words_add(&words, EVENT_STORE, (enum tier)tier, 1) =
                    world_key_of(stream, (uint32_t)at);
            }
        }
    }
    gossip_exported(node->g, out->token, storage, words.count,
                    at == WORLD_KEYS ? GOSSIP_CURSOR_END : at, world->now_us);
}
