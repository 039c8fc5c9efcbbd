/*
 * The roster's frames: a kind, then msgpack maps (index/base/pack.h).
 *
 *   summary  d, the digest
 *   entries  ask, whether the peer should send its own entries; then a map for
 *            each entry: id, v version, rm removed, dr draining, spec, age (in
 *            ms, of a removal or of a configured entry)
 *
 * The kind is a byte that msgpack reads as a number. False and empty values may
 * be left out. A map without an id belongs to a later version and is skipped.
 */
#include <string.h>

#include "gossip/roster_internal.h"
#include "index/base/pack.h"

enum {
    FRAME_SUMMARY = 1,
    FRAME_ENTRIES,
};

enum { /* in digests */
    ENTRY_REMOVED = 1,
    ENTRY_DRAINING = 2,
};

void
roster_put_said(struct codec_out *out, const struct roster_entry *entry)
{
    size_t id_len = strlen(entry->id);

    CHECK(id_len < ROSTER_ID_MAX && entry->spec.len <= ROSTER_SPEC_MAX);
    codec_put_u8(out, (uint8_t)((entry->removed ? ENTRY_REMOVED : 0) |
                                (entry->draining ? ENTRY_DRAINING : 0)));
    codec_put_varint(out, entry->version);
    codec_put_varint(out, id_len);
    codec_put_bytes(out, entry->id, id_len);
    codec_put_varint(out, entry->spec.len);
    codec_put_bytes(out, entry->spec.ptr, entry->spec.len);
}

static void
put_entry(struct buf *out, const struct roster_entry *entry)
{
    CHECK(out->size - out->len >= ROSTER_ENTRY_BYTES);
    struct pack_map map = pack_open(out);

    pack_put_text(&map, "id", slice_of(entry->id));
    pack_put_uint(&map, "v", entry->version);
    if (entry->removed) {
        pack_put_flag(&map, "rm", true);
    }
    if (entry->draining) {
        pack_put_flag(&map, "dr", true);
    }
    if (entry->spec.len > 0) {
        pack_put_bytes(&map, "spec", entry->spec);
    }
    if (entry->removed || roster_is_configured(entry->version)) {
        pack_put_uint(&map, "age", entry->age_ms);
    }
    pack_close(&map);
    CHECK(!out->failed);
}

/* A configured entry whose sender gives no age counts as the oldest. */
static uint32_t
get_age(struct unpack *in, const struct roster_entry *entry)
{
    if (entry->removed || unpack_has(in, "age")) {
        return (uint32_t)unpack_uint(in, "age", UINT32_MAX);
    }
    return roster_is_configured(entry->version) ? UINT32_MAX : 0;
}

/* Reads and checks the entry in the open map: its id is copied to `id`, its
 * spec borrowed from the frame. False: `failed` is set. */
static bool
get_entry(struct unpack *in, char id[ROSTER_ID_MAX], struct roster_entry *entry)
{
    struct slice text = unpack_text(in, "id", ROSTER_ID_MAX - 1);

    *entry = (struct roster_entry){
        .id = id,
        .version = unpack_uint(in, "v", UINT64_MAX),
        .removed = unpack_flag(in, "rm"),
        .draining = unpack_flag(in, "dr"),
        .spec = unpack_bytes(in, "spec", ROSTER_SPEC_MAX),
    };
    if (entry->removed || roster_is_configured(entry->version)) {
        entry->age_ms = get_age(in, entry);
    }
    if (in->failed || memchr(text.ptr, 0, text.len) != NULL) {
        in->failed = true;
        return false;
    }
    memcpy(id, text.ptr, text.len);
    id[text.len] = 0;
    in->failed = roster_entry_check(entry) != 0;
    return !in->failed;
}

/* Out */

static uint64_t
bit(uint32_t at)
{
    CHECK(at < ROSTER_PEERS_MAX);
    return UINT64_C(1) << at;
}

static void
put_kind(struct buf *out, uint8_t kind)
{
    buf_add(out, &kind, 1);
}

static void
put_summary(struct roster *roster, struct buf *out, uint32_t at)
{
    CHECK(roster->peers[at].summary);
    roster->peers[at].summary = false;
    put_kind(out, FRAME_SUMMARY);
    struct pack_map map = pack_open(out);
    pack_put_uint(&map, "d", roster_digest(roster));
    pack_close(&map);
}

static void
put_ask(struct buf *out, bool ask)
{
    struct pack_map map = pack_open(out);

    pack_put_flag(&map, "ask", ask);
    pack_close(&map);
}

/* Writes the rows that are owed to the peer, as many as fit. True: all of
 * them. */
static bool
put_rows(struct roster *roster, struct buf *out, uint32_t at)
{
    CHECK((roster->up & bit(at)) != 0);
    for (uint32_t i = 0; i < roster->count; i++) {
        struct roster_row *row = roster->rows[i];
        if ((row->owed & bit(at)) == 0) {
            continue;
        }
        if (out->size - out->len < ROSTER_ENTRY_BYTES) {
            return false;
        }
        struct roster_entry entry = roster_row_entry(roster, row);
        put_entry(out, &entry);
        row->owed &= ~bit(at);
    }
    return true;
}

/* Sets `ask` in the last frame of the owed rows. */
static void
put_entries(struct roster *roster, struct buf *out, uint32_t at)
{
    struct roster_peer *peer = &roster->peers[at];

    put_kind(out, FRAME_ENTRIES);
    size_t head = out->len;
    put_ask(out, false);
    size_t rows = out->len;
    peer->owed = !put_rows(roster, out, at);
    if (!peer->owed && peer->ask) {
        struct buf again = buf_over(out->ptr + head, rows - head);
        put_ask(&again, true); /* has the same size */
        CHECK(again.len == rows - head);
        peer->ask = false;
    } else if (out->len == rows) {
        out->len = 0; /* the rows are gone: nothing to send */
    }
}

size_t
roster_frame_next(struct roster *roster, uint32_t at)
{
    CHECK((roster->up & bit(at)) != 0);
    const struct roster_peer *peer = &roster->peers[at];
    struct buf out = buf_over(roster->frame, roster->config.frame_bytes);

    if (peer->summary) {
        put_summary(roster, &out, at);
    } else if (peer->owed || peer->ask) {
        put_entries(roster, &out, at);
    }
    CHECK(!out.failed);
    return out.len;
}

/* In */

static void
owe(struct roster *roster, uint32_t at, struct roster_row *row)
{
    CHECK(row != NULL && (roster->up & bit(at)) != 0);
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

/* An entry that the peer knows as well is not sent to it; an entry that it
 * lacks is. False: the entry makes no sense. */
static bool
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
        CHECK(row != NULL);
        row->owed &= ~bit(at);
        roster_contradict(roster, row);
    } else if (outcome == ROSTER_IS_OLDER) {
        owe(roster, at, roster_row_find(roster, entry->id));
    }
    return outcome != ROSTER_E_BAD;
}

static int
take_entries(struct roster *roster, uint32_t at, struct unpack *in)
{
    char id[ROSTER_ID_MAX];
    struct roster_entry entry;
    bool sense = true;

    if (unpack_flag(in, "ask")) {
        owe_all(roster, at);
    }
    while (unpack_next(in)) {
        if (unpack_has(in, "id") && get_entry(in, id, &entry)) {
            sense = take_entry(roster, at, &entry) && sense;
        }
    }
    return in->failed || !sense ? ROSTER_E_BAD : 0;
}

static int
take_summary(struct roster *roster, uint32_t at, struct unpack *in)
{
    uint64_t digest = unpack_uint(in, "d", UINT64_MAX);

    if (in->failed || !unpack_has(in, "d")) {
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
roster_frame_take(struct roster *roster, uint32_t at, struct slice bytes)
{
    struct unpack in;

    CHECK((roster->up & bit(at)) != 0);
    if (bytes.len == 0) {
        return ROSTER_E_BAD;
    }
    uint8_t kind = (uint8_t)bytes.ptr[0];
    if (kind != FRAME_SUMMARY &&
        kind != FRAME_ENTRIES) { /* from a later version */
        roster->stats.frames_unknown++;
        return 0;
    }
    unpack_init(&in, (struct slice){bytes.ptr + 1, bytes.len - 1});
    if (!unpack_next(&in)) {
        return ROSTER_E_BAD;
    }
    return kind == FRAME_SUMMARY ? take_summary(roster, at, &in)
                                 : take_entries(roster, at, &in);
}
