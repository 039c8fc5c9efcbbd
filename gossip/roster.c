/* The door of the roster: operations, peers, time and outputs. */
#include "gossip/roster.h"

#include <errno.h>
#include <stdlib.h>

#include "gossip/roster_internal.h"

#define PLACE_NONE UINT32_MAX

struct roster_config
roster_config_default(void)
{
    return (struct roster_config){
        .entries_max = 1024,
        .peers_max = ROSTER_PEERS_MAX,
        .frame_bytes = 64 * 1024,
        .summary_ms = 1000,
        .jitter_ms = 200,
        .tombstone_ms = 24U * 3600 * 1000,
        .contradict_ms = 5000,
    };
}

static void
schedule(struct roster *roster)
{
    const struct roster_config *config = &roster->config;

    roster->summary_us =
        roster->now_us +
        (uint64_t)(config->summary_ms - config->jitter_ms) * 1000 +
        rng_below(&roster->rng, (uint64_t)config->jitter_ms * 2000 + 1);
    CHECK(roster->summary_us >= roster->now_us);
}

int
roster_new(struct roster **out, const struct roster_config *config,
           uint64_t now_us, uint64_t seed)
{
    struct roster *roster = calloc(1, sizeof *roster);

    CHECK(config->entries_max > 0 && config->peers_max > 0 &&
          config->peers_max <= ROSTER_PEERS_MAX);
    CHECK(config->frame_bytes >= ROSTER_ENTRY_BYTES + 128);
    CHECK(config->jitter_ms <= config->summary_ms && config->summary_ms > 0 &&
          config->tombstone_ms > 0);
    if (roster == NULL) {
        return -ENOMEM;
    }
    roster->config = *config;
    roster->now_us = now_us;
    roster->rows_due_us = UINT64_MAX;
    rng_init(&roster->rng, seed);
    schedule(roster);
    roster->rows = calloc(config->entries_max, sizeof(struct roster_row *));
    roster->frame = malloc(config->frame_bytes);
    if (roster->rows == NULL || roster->frame == NULL) {
        roster_free(roster);
        return -ENOMEM;
    }
    *out = roster;
    return 0;
}

void
roster_free(struct roster *roster)
{
    if (roster == NULL) {
        return;
    }
    for (uint32_t i = 0; i < roster->count; i++) {
        free(roster->rows[i]->spec);
        free(roster->rows[i]->own);
        free(roster->rows[i]);
    }
    free(roster->rows);
    free(roster->frame);
    free(roster);
}

void
roster_at_time(struct roster *roster, uint64_t now_us)
{
    roster->now_us = now_us > roster->now_us ? now_us : roster->now_us;
}

/* Operations */

int
roster_say(struct roster *roster, const struct roster_entry *entry)
{
    int outcome = roster_rows_merge(roster, entry, 0);

    if (outcome != 0) {
        roster->stats.full += outcome == ROSTER_E_FULL;
        return outcome;
    }
    struct roster_row *row = roster_row_find(roster, entry->id);
    CHECK(row != NULL);
    row->owed = roster->up;
    for (uint32_t i = 0; i < roster->config.peers_max; i++) {
        roster->peers[i].owed |= roster->peers[i].id != 0;
    }
    return 0;
}

/* The same as an operation: newer than what there is, by that step. */
static int
say_next(struct roster *roster, struct roster_entry *entry, uint64_t step)
{
    const struct roster_row *row = roster_row_find(roster, entry->id);
    uint64_t last = row == NULL || roster_is_configured(row->version)
                        ? ROSTER_OPERATION
                        : row->version;

    CHECK(step != 0);
    if (last > UINT64_MAX - step) {
        return ROSTER_E_FULL;
    }
    entry->version = last + step;
    entry->age_ms = 0;
    CHECK(entry->version > ROSTER_OPERATION);
    return roster_say(roster, entry);
}

int
roster_load(struct roster *roster, const struct roster_entry *entry,
            uint64_t now_us)
{
    CHECK(entry != NULL);
    int outcome = roster_entry_check(entry);

    roster_at_time(roster, now_us);
    if (outcome == 0) {
        outcome = roster_rows_merge(roster, entry, 0);
    }
    if (outcome == 0) {
        roster_contradict(roster, roster_row_find(roster, entry->id));
    }
    return outcome == ROSTER_IS_SAME || outcome == ROSTER_IS_OLDER ? 0
                                                                   : outcome;
}

static int
put(struct roster *roster, const char *id, struct slice spec, bool renews,
    uint64_t now_us)
{
    struct roster_entry entry = {
        .id = id, .version = ROSTER_OPERATION + 1, .spec = spec};
    int outcome = roster_entry_check(&entry);

    roster_at_time(roster, now_us);
    if (outcome != 0) {
        return outcome;
    }
    const struct roster_row *row = roster_row_find(roster, id);
    entry.draining = renews && row != NULL && row->draining;
    if (row != NULL && !row->removed && row->draining == entry.draining &&
        slice_equal(spec,
                    (struct slice){.ptr = row->spec, .len = row->spec_len})) {
        return 0;
    }
    return say_next(roster, &entry, renews ? 1 : ROSTER_WORD);
}

int
roster_put(struct roster *roster, const char *id, struct slice spec,
           uint64_t now_us)
{
    return put(roster, id, spec, false, now_us);
}

int
roster_renew(struct roster *roster, const char *id, struct slice spec,
             uint64_t now_us)
{
    return put(roster, id, spec, true, now_us);
}

int
roster_drain(struct roster *roster, const char *id, bool draining,
             uint64_t now_us)
{
    const struct roster_row *row = roster_row_find(roster, id);

    roster_at_time(roster, now_us);
    if (row == NULL || row->removed || row->draining == draining) {
        return 0;
    }
    struct roster_entry entry = roster_row_entry(roster, row);
    entry.draining = draining;
    return say_next(roster, &entry, ROSTER_WORD);
}

int
roster_remove(struct roster *roster, const char *id, uint64_t now_us)
{
    const struct roster_row *row = roster_row_find(roster, id);
    struct roster_entry entry = {.id = id, .removed = true};

    roster_at_time(roster, now_us);
    return row == NULL || row->removed ? 0
                                       : say_next(roster, &entry, ROSTER_WORD);
}

/* Peers */

static uint32_t
place_of(const struct roster *roster, uint64_t peer)
{
    for (uint32_t i = 0; i < roster->config.peers_max; i++) {
        if (roster->peers[i].id == peer) {
            return i;
        }
    }
    return PLACE_NONE;
}

int
roster_peer_up(struct roster *roster, uint64_t peer, uint64_t now_us)
{
    CHECK(peer != 0);
    uint32_t at = place_of(roster, peer);

    roster_at_time(roster, now_us);
    if (at == PLACE_NONE) {
        at = place_of(roster, 0);
    }
    if (at == PLACE_NONE) {
        return ROSTER_E_FULL;
    }
    if (roster->up == 0) {
        schedule(roster);
    }
    CHECK(at < roster->config.peers_max);
    roster->peers[at].id = peer;
    roster->peers[at].summary = true;
    roster->up |= UINT64_C(1) << at;
    return 0;
}

void
roster_peer_down(struct roster *roster, uint64_t peer)
{
    CHECK(peer != 0);
    uint32_t at = place_of(roster, peer);

    if (at == PLACE_NONE) {
        return;
    }
    roster->peers[at] = (struct roster_peer){0};
    roster->up &= ~(UINT64_C(1) << at);
    CHECK(place_of(roster, peer) == PLACE_NONE);
    for (uint32_t i = 0; i < roster->count; i++) {
        roster->rows[i]->owed &= roster->up;
    }
}

int
roster_recv(struct roster *roster, uint64_t peer, const uint8_t *bytes,
            size_t len, uint64_t now_us)
{
    uint32_t at = peer != 0 ? place_of(roster, peer) : PLACE_NONE;

    CHECK(bytes != NULL || len == 0);
    roster_at_time(roster, now_us);
    roster->stats.frames_in++;
    roster->stats.bytes_in += len;
    if (at == PLACE_NONE) {
        roster->stats.frames_stranger++;
        return ROSTER_E_STRANGER;
    }
    int outcome =
        roster_frame_take(roster, at, (struct slice){(const char *)bytes, len});
    roster->stats.frames_bad += outcome == ROSTER_E_BAD;
    return outcome;
}

/* Time */

static void
summarise(struct roster *roster)
{
    uint32_t peers = 0;

    for (uint32_t i = 0; i < roster->config.peers_max; i++) {
        peers += roster->peers[i].id != 0;
    }
    CHECK(peers > 0);
    uint64_t nth = rng_below(&roster->rng, peers);
    for (uint32_t i = 0; i < roster->config.peers_max; i++) {
        if (roster->peers[i].id != 0 && nth-- == 0) {
            roster->peers[i].summary = true;
            return;
        }
    }
}

void
roster_tick(struct roster *roster, uint64_t now_us)
{
    roster_at_time(roster, now_us);
    roster_rows_tick(roster);
    if (roster->up != 0 && roster->now_us >= roster->summary_us) {
        summarise(roster);
        schedule(roster);
    }
}

uint64_t
roster_deadline(const struct roster *roster)
{
    return roster->up != 0 && roster->summary_us < roster->rows_due_us
               ? roster->summary_us
               : roster->rows_due_us;
}

/* What comes out */

static bool
out_changed(struct roster *roster, struct roster_out *out)
{
    for (uint32_t i = 0; roster->untold > 0 && i < roster->count; i++) {
        struct roster_row *row = roster->rows[i];
        if (!row->told) {
            row->told = true;
            roster->untold--;
            *out = (struct roster_out){.kind = ROSTER_CHANGED,
                                       .entry = roster_row_entry(roster, row)};
            return true;
        }
    }
    CHECK(roster->untold == 0);
    return false;
}

bool
roster_next_out(struct roster *roster, struct roster_out *out)
{
    CHECK(out != NULL && roster->count <= roster->config.entries_max);
    if (out_changed(roster, out)) {
        return true;
    }
    for (uint32_t i = 0; i < roster->config.peers_max; i++) {
        size_t len =
            roster->peers[i].id != 0 ? roster_frame_next(roster, i) : 0;
        if (len > 0) {
            CHECK(len <= roster->config.frame_bytes);
            *out = (struct roster_out){.kind = ROSTER_SEND,
                                       .peer = roster->peers[i].id,
                                       .bytes = roster->frame,
                                       .len = len};
            roster->stats.frames_out++;
            roster->stats.bytes_out += len;
            return true;
        }
    }
    return false;
}

bool
roster_get(const struct roster *roster, uint32_t at, struct roster_entry *entry)
{
    CHECK(entry != NULL);
    if (at >= roster->count) {
        return false;
    }
    *entry = roster_row_entry(roster, roster->rows[at]);
    return true;
}

bool
roster_find(const struct roster *roster, const char *id,
            struct roster_entry *entry)
{
    const struct roster_row *row = roster_row_find(roster, id);

    if (row != NULL) {
        *entry = roster_row_entry(roster, row);
    }
    return row != NULL;
}

void
roster_stats(const struct roster *roster, struct roster_stats *stats)
{
    *stats = roster->stats;
    stats->entries = roster->count;
    stats->removed = 0;
    for (uint32_t i = 0; i < roster->count; i++) {
        stats->removed += roster->rows[i]->removed;
    }
    CHECK(stats->removed <= stats->entries);
}
