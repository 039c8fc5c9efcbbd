#include <string.h>

#include "gossip/roster_internal.h"

enum {
    FRAME_SUMMARY = 1, /* u64 digest */
    FRAME_ENTRIES,     /* u8 flags, then entries, each after its length */
};

enum {
    ENTRIES_ASK = 1, /* send me yours */
};

enum {
    ENTRY_REMOVED = 1, /* no spec; its age in ms follows */
                       /* ... so does that of what a configuration says */
    ENTRY_DRAINING = 2,
};

void
roster_put_said(struct codec_out *out, const struct roster_entry *entry)
{
    size_t id_len = strlen(entry->id);

    codec_put_u8(out, (uint8_t)((entry->removed ? ENTRY_REMOVED : 0) |
                                (entry->draining ? ENTRY_DRAINING : 0)));
    codec_put_varint(out, entry->version);
    codec_put_varint(out, id_len);
    codec_put_bytes(out, entry->id, id_len);
    codec_put_varint(out, entry->spec.len);
    codec_put_bytes(out, entry->spec.ptr, entry->spec.len);
}

void
roster_put_entry(struct codec_out *out, const struct roster_entry *entry)
{
    uint8_t bytes[ROSTER_ENTRY_BYTES];
    struct codec_out part = {.bytes = bytes, .max = sizeof bytes};

    roster_put_said(&part, entry);
    if (entry->removed || roster_is_configured(entry->version)) {
        codec_put_varint(&part, entry->age_ms);
    }
    CHECK(!part.failed);
    codec_put_varint(out, part.len);
    codec_put_bytes(out, bytes, part.len);
}

bool
roster_get_entry(struct codec_in *in, char id[ROSTER_ID_MAX],
                 struct roster_entry *entry)
{
    struct codec_in part = codec_get_part(in, codec_get_varint(in));
    uint8_t flags = codec_get_u8(&part);

    *entry = (struct roster_entry){
        .id = id,
        .version = codec_get_varint(&part),
        .removed = (flags & ENTRY_REMOVED) != 0,
        .draining = (flags & ENTRY_DRAINING) != 0,
    };
    uint32_t id_len = codec_get_count(&part, ROSTER_ID_MAX - 1);
    struct codec_in text = codec_get_part(&part, id_len);
    uint32_t spec_len = codec_get_count(&part, ROSTER_SPEC_MAX);
    struct codec_in spec = codec_get_part(&part, spec_len);
    if (entry->removed) {
        entry->age_ms = codec_get_count(&part, UINT32_MAX);
    } else if (roster_is_configured(entry->version)) {
        entry->age_ms = codec_left(&part) > 0
                            ? codec_get_count(&part, UINT32_MAX)
                            : UINT32_MAX; /* of a node that does not say */
    }
    if (part.failed || memchr(text.at, 0, id_len) != NULL) {
        in->failed = true;
        return false;
    }
    memcpy(id, text.at, id_len);
    id[id_len] = 0;
    if (spec_len > 0) {
        entry->spec =
            (struct slice){.ptr = (const char *)spec.at, .len = spec_len};
    }
    in->failed = roster_entry_check(entry) != 0;
    return !in->failed;
}

/* Out */

static uint64_t
bit(uint32_t at)
{
    return UINT64_C(1) << at;
}

static size_t
put_summary(struct roster *roster, struct codec_out *out, uint32_t at)
{
    roster->peers[at].summary = false;
    codec_put_u8(out, FRAME_SUMMARY);
    codec_put_u64(out, roster_digest(roster));
    return out->len;
}

/* As many of the rows owed as the frame takes. */
static size_t
put_entries(struct roster *roster, struct codec_out *out, uint32_t at)
{
    struct roster_peer *peer = &roster->peers[at];
    uint32_t entries = 0;
    bool more = false;

    codec_put_u8(out, FRAME_ENTRIES);
    codec_put_u8(out, 0);
    for (uint32_t i = 0; i < roster->count; i++) {
        struct roster_row *row = roster->rows[i];
        if ((row->owed & bit(at)) == 0) {
            continue;
        }
        if (out->max - out->len < ROSTER_ENTRY_BYTES) {
            more = true;
            break;
        }
        struct roster_entry entry = roster_row_entry(roster, row);
        roster_put_entry(out, &entry);
        row->owed &= ~bit(at);
        entries++;
    }
    peer->owed = more;
    if (!more && peer->ask) {
        out->bytes[1] |= ENTRIES_ASK;
        peer->ask = false;
        return out->len;
    }
    return entries > 0 ? out->len : 0;
}

size_t
roster_frame_next(struct roster *roster, uint32_t at)
{
    const struct roster_peer *peer = &roster->peers[at];
    struct codec_out out = {.bytes = roster->frame,
                            .max = roster->config.frame_bytes};
    size_t len = 0;

    if (peer->summary) {
        len = put_summary(roster, &out, at);
    } else if (peer->owed || peer->ask) {
        len = put_entries(roster, &out, at);
    }
    CHECK(!out.failed);
    return len;
}

/* In */

static void
owe(struct roster *roster, uint32_t at, struct roster_row *row)
{
    row->owed |= bit(at);
    roster->peers[at].owed = true;
}

static void
owe_all(struct roster *roster, uint32_t at)
{
    for (uint32_t i = 0; i < roster->count; i++) {
        if (!roster->rows[i]->faded) {
            owe(roster, at, roster->rows[i]);
        }
    }
}

/* What the peer knows as well is not sent to it, what it has not heard is. */
static void
take_entry(struct roster *roster, uint32_t at, const struct roster_entry *entry)
{
    int outcome = roster_rows_merge(roster, entry, roster->peers[at].id);

    roster->stats.merged += outcome == 0;
    roster->stats.stale +=
        outcome == ROSTER_IS_SAME || outcome == ROSTER_IS_OLDER;
    roster->stats.full += outcome == ROSTER_E_FULL;
    roster->stats.no_memory += outcome < 0;
    if (outcome == 0 || outcome == ROSTER_IS_SAME) {
        struct roster_row *row = roster_row_find(roster, entry->id);
        row->owed &= ~bit(at);
        roster_contradict(roster, row);
    } else if (outcome == ROSTER_IS_OLDER) {
        owe(roster, at, roster_row_find(roster, entry->id));
    }
}

static int
take_entries(struct roster *roster, uint32_t at, struct codec_in in)
{
    char id[ROSTER_ID_MAX];
    struct roster_entry entry;
    uint8_t flags = codec_get_u8(&in);

    if (!in.failed && (flags & ENTRIES_ASK) != 0) {
        owe_all(roster, at);
    }
    while (!in.failed && codec_left(&in) > 0) {
        if (roster_get_entry(&in, id, &entry)) {
            take_entry(roster, at, &entry);
        }
    }
    return in.failed ? ROSTER_E_BAD : 0;
}

static int
take_summary(struct roster *roster, uint32_t at, struct codec_in in)
{
    uint64_t digest = codec_get_u64(&in);

    if (in.failed) {
        return ROSTER_E_BAD;
    }
    if (digest == roster_digest(roster)) {
        roster->stats.summaries_equal++;
        return 0;
    }
    roster->stats.summaries_differ++;
    owe_all(roster, at);
    roster->peers[at].ask = true;
    return 0;
}

int
roster_frame_take(struct roster *roster, uint32_t at, struct codec_in in)
{
    uint8_t kind = codec_get_u8(&in);

    if (in.failed) {
        return ROSTER_E_BAD;
    }
    switch (kind) {
    case FRAME_SUMMARY:
        return take_summary(roster, at, in);
    case FRAME_ENTRIES:
        return take_entries(roster, at, in);
    default: /* of a later version */
        roster->stats.frames_unknown++;
        return 0;
    }
}
