/* The gate of a stream: its epoch, and which record follows on. */
#include "gossip/gossip_internal.h"
#include "index/base/mutant.h"

/* Forgets the applied state and keeps the rest. */
static void
empty(struct gossip *g, struct gossip_stream *s, const char *reason)
{
    CHECK(reason != NULL && s->epoch.no != 0);
    gossip_transfer_stop(g, s);
    gossip_direct_drop(s);
    s->pos = 0;
    s->told = 0;
    s->settle = 0;
    s->complete = s->whole;
    s->holes = 0;
    s->lost = false;
    s->digest_known = false;
    s->pull.open = false;
    s->reset = reason;
    gossip_ready(g, s);
    CHECK(!s->transfer.active && s->direct == NULL && !gossip_is_torn(s));
}

void
gossip_stream_flipped(const struct gossip *g, struct gossip_stream *s)
{
    if (s->epoch.no != 0 && s->pos != 0) {
        s->flips_us[s->flips % (GOSSIP_FLIPS_MAX + 1)] = g->now_us;
        s->flips++;
    }
}

/* What belongs to an epoch, and not to its state. */
static void
enter(struct gossip_stream *s, struct gossip_epoch epoch, bool whole)
{
    CHECK(epoch.no != 0 && (s->epoch.no == 0 || epoch.id != s->epoch.id));
    CHECK(epoch.no <= GOSSIP_NO_MAX && !s->removed);
    s->epoch = epoch;
    s->no_max = epoch.no > s->no_max ? epoch.no : s->no_max;
    s->whole = whole;
    s->resets = 0;
    s->known = 0;
    s->ahead = 0;
    s->pushed = 0;
    s->primary_pos = 0;
    s->lag_us = 0;
    s->rival = (struct gossip_rival){0};
    s->late = false;
    s->doubted = false;
    s->before.pos = 0;
}

void
gossip_stream_begin(struct gossip *g, struct gossip_stream *s,
                    struct gossip_epoch epoch, bool whole, const char *reason)
{
    enter(s, epoch, whole);
    s->epoch_name = epoch.id;
    s->block_tokens = 0;
    delta_log_restart(&s->log, 0);
    empty(g, s, reason);
    gossip_names_begin(g, s);
    gossip_stream_moved(g, s);
    gossip_wake_at(g, g->now_us);
    CHECK(s->epoch.no <= s->no_max && s->log.count == 0 && s->told <= s->pos);
}

/* Moves to an epoch whose state is what is held. Records of before are no longer
 * told: who read them may have known less. */
static void
move(struct gossip *g, struct gossip_stream *s, struct gossip_epoch epoch,
     bool whole)
{
    CHECK(s->complete && s->told == s->pos && s->direct == NULL);
    gossip_transfer_stop(g, s);
    enter(s, epoch, whole);
    s->pushed = s->pos;
    s->pull.open = false;
    delta_log_restart(&s->log, s->pos);
    gossip_names_moved(g, s);
    gossip_stream_moved(g, s);
    gossip_wake_at(g, g->now_us);
}

void
gossip_stream_reset(struct gossip *g, struct gossip_stream *s,
                    const char *reason)
{
    uint64_t known = s->known > s->pos ? s->known : s->pos;

    CHECK(s->epoch.no != 0);
    CHECK(!s->removed);
    s->resets++;
    s->epoch_name = rng_mix(s->epoch.id ^ rng_mix(s->resets));
    empty(g, s, reason);
    gossip_stream_known(g, s, known);
}

/* Who leaves an epoch for a better one of a lower number takes that one's
 * number above its own, so that all who followed the number follow again. */
static struct gossip_epoch
above(const struct gossip_stream *s, struct gossip_epoch epoch)
{
    bool lower = epoch.no < s->epoch.no ||
                 (epoch.no == s->epoch.no && epoch.id < s->epoch.id);

    if (s->epoch.no != 0 && lower && s->no_max < GOSSIP_NO_MAX) {
        epoch.no = s->no_max + 1;
    }
    return epoch;
}

static void
adopt(struct gossip *g, struct gossip_stream *s, const struct gossip_met *met)
{
    struct gossip_epoch epoch = met->epoch;

    if (s->whole && met->whole && epoch.id != gossip_broken_id(s->epoch.id) &&
        s->epoch.id != gossip_broken_id(epoch.id)) {
        gossip_stream_flipped(g, s);
    }
    gossip_stream_begin(g, s, above(s, epoch), met->whole, "a peer's epoch");
}

/* Numbers rise by one, some times a second at most: a leap is no peer's that
 * makes sense, and there may be no number above it. */
static bool
is_in_reach(const struct gossip_stream *s, uint32_t no)
{
    return no != 0 && no <= GOSSIP_NO_MAX &&
           (s->no_max == 0 || no <= s->no_max ||
            no - s->no_max <= GOSSIP_NO_LEAP);
}

bool
gossip_stream_meet(struct gossip *g, struct gossip_stream *s,
                   const struct gossip_met *met)
{
    struct gossip_epoch epoch = met->epoch;

    CHECK(!s->removed && s->epoch.no <= s->no_max);
    if (!is_in_reach(s, epoch.no)) {
        return false;
    }
    s->no_max = epoch.no > s->no_max ? epoch.no : s->no_max;
    if (s->epoch.no != 0 && epoch.id == s->epoch.id) {
        if (epoch.no > s->epoch.no) {
            s->epoch.no = epoch.no;
            gossip_rival_outdone(g, s);
        }
        return true;
    }
    if (!gossip_rival_wins(g, s, met)) {
        return false;
    }
    g->stats.epochs_adopted++;
    if (s->epoch.no != 0 && gossip_rival_is_same(s, met)) {
        move(g, s, above(s, epoch), met->whole);
    } else {
        adopt(g, s, met);
    }
    gossip_local_met(g, s);
    return true;
}

bool
gossip_stream_follow(struct gossip *g, struct gossip_stream *s, uint64_t id)
{
    struct gossip_met met = {.epoch = s->rival.epoch};

    if (met.epoch.id != id || !gossip_rival_is_awaited(s)) {
        return false;
    }
    g->stats.epochs_adopted++;
    adopt(g, s, &met);
    gossip_local_met(g, s);
    CHECK(s->epoch.id == id && s->pos == 0);
    return true;
}

/* Compares the replica's position with what is known to exist. */
void
gossip_stream_moved(struct gossip *g, struct gossip_stream *s)
{
    bool behind = s->pos < s->known;
    bool torn = gossip_is_torn(s);

    s->log.keep = s->pos;
    s->behind_us = !behind ? 0 : s->behind_us != 0 ? s->behind_us : g->now_us;
    s->torn_us = !torn ? 0 : s->torn_us != 0 ? s->torn_us : g->now_us;
    if (!behind && !torn) {
        s->look_us = 0;
    } else if (s->look_us == 0) {
        s->look_us = g->now_us + gossip_us(g->config.stale_ms);
        gossip_wake_at(g, s->look_us);
    }
    gossip_ready(g, s);
    CHECK(s->behind_us == 0 || s->pos < s->known);
}

void
gossip_stream_known(struct gossip *g, struct gossip_stream *s, uint64_t pos)
{
    s->known = pos > s->known ? pos : s->known;
    gossip_stream_moved(g, s);
    CHECK(s->known >= pos);
}

/* This record brought the replica to pos. */
void
gossip_stream_applied(struct gossip_stream *s, const struct codec_body *body,
                      uint64_t pos)
{
    CHECK(pos > s->pos);
    s->pos = MUTANT(TOO_NEW) ? pos + 256 : pos;
    if ((body->flags & CODEC_GAP) != 0 && !MUTANT(STILL_WHOLE)) {
        s->complete = false;
    }
    if (body->clears) {
        s->complete = true;
    }
    s->holes = body->holes;
    s->ahead = body->ahead > s->ahead ? body->ahead : s->ahead;
    s->known = s->ahead > s->known ? s->ahead : s->known;
    if (body->block_tokens != 0) {
        s->block_tokens = body->block_tokens;
    }
    CHECK(s->told <= s->pos);
}

static bool
take_direct(struct gossip *g, struct gossip_stream *s, uint64_t pos,
            struct codec_in in)
{
    struct codec_body body;
    bool sound = codec_get_body(in, &body);

    CHECK(sound && codec_left(&in) <= UINT32_MAX);
    CHECK(pos > s->pos && !s->transfer.begun);
    uint64_t before = s->pos;
    s->pos = pos; /* handed out with the record */
    if (!gossip_direct_add(g, s, pos, in.at, (uint32_t)codec_left(&in))) {
        s->pos = before;
        return false;
    }
    s->pos = before;
    gossip_stream_applied(s, &body, pos);
    gossip_stream_moved(g, s);
    return true;
}

/* The log is full of records that were not pulled yet: applies them past the
 * log. */
static bool
spill(struct gossip *g, struct gossip_stream *s)
{
    uint64_t high = s->log.high;

    while (s->pos < high) {
        const struct delta_log_entry *entry =
            delta_log_entry_at(&s->log, delta_log_after(&s->log, s->pos));
        const uint8_t *bytes = s->log.bytes + entry->at;
        struct codec_in in = {.at = bytes, .end = bytes + entry->len};
        if (!take_direct(g, s, entry->pos, in)) {
            return false;
        }
        g->stats.log_spills++;
    }
    CHECK(s->pos >= high);
    return true;
}

static enum gossip_took
append(struct gossip *g, struct gossip_stream *s, uint64_t pos,
       struct codec_in body)
{
    uint32_t len = (uint32_t)codec_left(&body);

    CHECK(pos > s->pos && pos > s->log.high);
    if (!delta_log_append(&s->log, &g->store, s->pos, pos, body.at, len)) {
        if (s->transfer.begun || !spill(g, s)) {
            gossip_stream_known(g, s, pos);
            return GOSSIP_TOOK_GAP;
        }
        if (!delta_log_append(&s->log, &g->store, s->pos, pos, body.at, len)) {
            g->stats.log_spills++;
            if (!take_direct(g, s, pos, body)) {
                gossip_stream_known(g, s, pos);
                return GOSSIP_TOOK_GAP;
            }
            delta_log_restart(&s->log, pos);
        }
    }
    gossip_stream_known(g, s, pos);
    return GOSSIP_TOOK;
}

static void
compare_prints(struct gossip *g, const struct gossip_stream *s, uint64_t pos,
               struct codec_in in)
{
    uint32_t at = pos == 0 ? 0 : delta_log_after(&s->log, pos - 1);
    struct codec_body known;
    struct codec_body body;

    if (at >= s->log.count || delta_log_entry_at(&s->log, at)->pos != pos) {
        return;
    }
    const struct delta_log_entry *entry = delta_log_entry_at(&s->log, at);
    const uint8_t *bytes = s->log.bytes + entry->at;
    bool sound =
        codec_get_body(in, &body) &&
        codec_get_body(
            (struct codec_in){.at = bytes, .end = bytes + entry->len}, &known);
    CHECK(sound);
    g->stats.fingerprint_conflicts += known.fingerprint != body.fingerprint;
}

/* The gate: takes a sound record of the stream's epoch that covers (prev, pos],
 * if it follows on. */
enum gossip_took
gossip_stream_take(struct gossip *g, struct gossip_stream *s, uint64_t prev,
                   uint64_t pos, struct codec_in body)
{
    bool covered = delta_log_covers(&s->log, s->pos);

    CHECK(prev < pos && s->epoch.no != 0);
    CHECK(!s->removed && !body.failed);
    if (pos <= s->pos || (covered && pos <= s->log.high)) {
        g->stats.dropped_old++;
        compare_prints(g, s, pos, body);
        return GOSSIP_TOOK_OLD;
    }
    if (covered && prev <= s->log.high) {
        return append(g, s, pos, body);
    }
    if (!s->transfer.begun && (prev <= s->pos || MUTANT(OVER_GAP))) {
        if (pos <= s->log.high && s->pos < s->log.low) {
            /* The state is being rebuilt below a log that is still good. */
            return take_direct(g, s, pos, body) ? GOSSIP_TOOK : GOSSIP_TOOK_GAP;
        }
        delta_log_restart(&s->log, s->pos);
        return append(g, s, pos, body);
    }
    g->stats.gaps++;
    gossip_stream_known(g, s, pos);
    return GOSSIP_TOOK_GAP;
}
