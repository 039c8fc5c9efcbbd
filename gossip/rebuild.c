/*
 * A stream's state from the engine's names for its blocks. The names are as
 * good as the state: what is held is what has a name. So whoever loses a state
 * and has the names needs neither a peer nor the engine, whose replay may be
 * shorter than what was known.
 *
 * All of it is queued at once, 8 bytes for each block and tier.
 */
#include "gossip/gossip_internal.h"

#define PAGE_BLOCKS (CODEC_WORDS_MAX / TIERS - 1)

_Static_assert(PAGE_BLOCKS * sizeof(struct names_block) <= GOSSIP_NAMES_BUILD,
               "a page of names is put together there");

/* The STOREs of these blocks, as words. */
static uint32_t
put_words(const struct names_block *blocks, uint32_t count, uint64_t *words)
{
    uint32_t used = 0;

    for (uint32_t tier = 0; tier < TIERS; tier++) {
        uint32_t most = names_copies_most((enum tier)tier);
        uint32_t at = used++;
        for (uint32_t i = 0; i < count; i++) {
            if ((blocks[i].copies >> names_copies_shift((enum tier)tier) &
                 most) != 0) {
                words[used++] = blocks[i].key;
            }
        }
        uint32_t held = used - at - 1;
        words[at] = event_op(EVENT_STORE, (enum tier)tier, held);
        used = held > 0 ? used : at;
    }
    CHECK(used <= CODEC_WORDS_MAX);
    return used;
}

static bool
add(struct gossip *g, struct gossip_stream *s, uint32_t holes, uint32_t count)
{
    const struct event_record head = {.holes = holes,
                                      .block_tokens = s->block_tokens};
    struct codec_out out = {.bytes = g->build.bytes, .max = g->build.max};

    codec_put_body(&out, &head, g->record->words, count, 0, 0);
    CHECK(!out.failed);
    return gossip_direct_add(g, s, 0, out.bytes, (uint32_t)out.len);
}

/* Queues all that has a name. False: no memory. */
static bool
add_all(struct gossip *g, struct gossip_stream *s, uint32_t holes)
{
    struct names_block *blocks = (void *)g->names_build;
    uint64_t cursor = 0;

    while (cursor != NAMES_END) {
        uint32_t count =
            names_page(&s->names.table, cursor, blocks, PAGE_BLOCKS, &cursor);
        count = put_words(blocks, count, g->record->words);
        if (!add(g, s, holes, count)) {
            return false;
        }
    }
    return true;
}

/* The log's records after the names would make it complete by themselves. */
static bool
clears_since(const struct gossip_stream *s, uint64_t pos)
{
    struct codec_body body = {.clears = false};

    for (uint32_t i = delta_log_after(&s->log, pos);
         i < s->log.count && !body.clears; i++) {
        const struct delta_log_entry *entry = delta_log_entry_at(&s->log, i);
        const uint8_t *bytes = s->log.bytes + entry->at;
        bool sound = codec_get_body(
            (struct codec_in){.at = bytes, .end = bytes + entry->len}, &body);
        CHECK(sound);
    }
    return body.clears;
}

static bool
build(struct gossip *g, struct gossip_stream *s, const char *reason,
      bool complete, uint32_t holes)
{
    uint64_t pos = gossip_names_pos(s);

    CHECK(pos != 0);
    gossip_names_back(g, s);
    gossip_stream_reset(g, s, reason);
    s->pos = pos;
    if (!add_all(g, s, holes)) {
        gossip_stream_reset(g, s, reason);
        return false;
    }
    s->complete = complete;
    s->holes = holes;
    if (!delta_log_covers(&s->log, pos)) {
        delta_log_restart(&s->log, pos);
    }
    gossip_stream_moved(g, s);
    return true;
}

static bool
is_level(const struct gossip_stream *s)
{
    return gossip_names_pos(s) == s->told && s->told == s->pos;
}

/* Where records followed, they are in the log. */
static bool
can_rebuild(const struct gossip_stream *s)
{
    uint64_t pos = gossip_names_pos(s);

    return pos != 0 && pos <= s->told && !gossip_is_torn(s) &&
           (is_level(s) || delta_log_covers(&s->log, pos));
}

/* Whether the state was complete as of the names. */
static bool
was_complete(const struct gossip_stream *s)
{
    return s->complete &&
           (is_level(s) || !clears_since(s, gossip_names_pos(s)));
}

bool
gossip_rebuild(struct gossip *g, struct gossip_stream *s, const char *reason)
{
    CHECK(!s->removed && s->epoch.no != 0);
    return can_rebuild(s) &&
           build(g, s, reason, was_complete(s),
                 is_level(s) ? s->holes : EVENT_HOLES_UNKNOWN);
}

void
gossip_rebuild_note(struct gossip_stream *s)
{
    if (can_rebuild(s)) {
        s->before.pos = gossip_names_pos(s);
        s->before.complete = was_complete(s);
    }
}

void
gossip_rebuild_back(struct gossip *g, struct gossip_stream *s,
                    const char *reason)
{
    uint64_t pos = s->before.pos;

    CHECK(!s->removed && s->epoch.no != 0);
    if (pos == 0 || pos != gossip_names_pos(s) ||
        !build(g, s, reason, s->before.complete, EVENT_HOLES_UNKNOWN)) {
        gossip_stream_reset(g, s, reason);
    }
}
