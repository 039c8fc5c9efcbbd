/*
 * Decides which of two epochs a stream keeps when a peer is in another one. The
 * epochs' numbers decide, with five exceptions. A node whose reading leads keeps
 * its epoch, proves that its process lives, and gives way to proof alone. A
 * replica that knows more waits a while for readers that could go on in its
 * epoch. A reading that knows less gives way to an epoch of the same process that
 * goes on. Of two partial epochs of one process the one with more blocks stays. A
 * part stays for a while beside a complete epoch that nobody reads and that ends
 * before it.
 * gossip.h has the reasons.
 */
#include "gossip/gossip_internal.h"
#include "index/base/mutant.h"

/* How often a reading proves itself against the same epoch, and how many
 * judge_ms it has for one proof before that of another counts. */
#define PROOFS 20U

/* The same while the stream is contested: two processes take turns soon, and
 * one that is dead does not displace the one that lives. */
#define PROOFS_CONTESTED 3U

/* How many judge_ms a state is kept for readers at most, however many epochs
 * challenge it in turn. */
#define TURNS 6U

bool
gossip_print_at(const struct gossip_stream *s, uint64_t pos, uint32_t *print)
{
    uint32_t at = pos == 0 ? 0 : delta_log_after(&s->log, pos - 1);
    struct codec_body body;

    if (at >= s->log.count || delta_log_entry_at(&s->log, at)->pos != pos) {
        /* The log begins behind it. */
        bool named = s->names.known && s->names.pos == pos;
        bool read = gossip_leads(s) && s->reading.print_pos == pos;
        *print = read ? s->reading.print : (uint32_t)s->names.print;
        if (!read && !named && gossip_leads(s) && !s->prints.unproved &&
            (pos & GOSSIP_PART_LAST) == GOSSIP_PART_LAST) {
            return gossip_prints_at(&s->prints, pos >> 8, print);
        }
        return (read || named) && pos != 0;
    }
    const struct delta_log_entry *entry = delta_log_entry_at(&s->log, at);
    const uint8_t *bytes = s->log.bytes + entry->at;
    bool sound = codec_get_body(
        (struct codec_in){.at = bytes, .end = bytes + entry->len}, &body);
    CHECK(sound);
    *print = body.fingerprint;
    return true;
}

/* Whether the epoch is higher than the stream's, by the numbers alone. */
static bool
is_above(const struct gossip_stream *s, struct gossip_epoch epoch)
{
    return epoch.no > s->epoch.no ||
           (epoch.no == s->epoch.no && epoch.id > s->epoch.id);
}

/* Keeps the epoch, under a number above this one, so that peers in a rival epoch
 * follow. */
static void
raise_above(struct gossip *g, struct gossip_stream *s, uint64_t peer,
            uint32_t no)
{
    uint64_t wait_us = gossip_us(g->config.question_ms);

    CHECK(no <= s->no_max);
    if ((s->raised_us != 0 && g->now_us - s->raised_us < wait_us) ||
        no >= GOSSIP_NO_MAX) {
        return;
    }
    s->raised_us = g->now_us;
    s->epoch.no = no + 1;
    s->no_max = s->epoch.no > s->no_max ? s->epoch.no : s->no_max;
    g->stats.epochs_raised++;
    if (gossip_peer_at(g, peer) != GOSSIP_PEER_NONE) {
        gossip_vector_send(g, peer, true);
    }
}

/* Notes the rival and when it was first met. True: just now. */
static bool
meet_rival(struct gossip *g, struct gossip_stream *s,
           const struct gossip_met *met)
{
    uint64_t awake_us = gossip_awake(g);
    uint64_t since_us = awake_us - s->rival.since_us;
    bool any = s->rival.epoch.no != 0;
    bool first = s->rival.epoch.id != met->epoch.id || !any;
    bool turn = any && since_us < TURNS * gossip_us(g->config.judge_ms);

    if (first) {
        s->rival = (struct gossip_rival){
            .since_us = awake_us,
            .turns_us = turn ? s->rival.turns_us : awake_us,
            .pos = s->pos,
        };
    }
    s->rival.epoch = met->epoch;
    s->rival.peer = met->peer;
    return first;
}

void
gossip_rival_outdone(const struct gossip *g, struct gossip_stream *s)
{
    if (s->rival.epoch.no != 0 && !is_above(s, s->rival.epoch)) {
        s->rival.since_us = gossip_awake(g);
        s->rival.turns_us = s->rival.since_us;
    }
}

void
gossip_rival_drop_peer(struct gossip *g, uint64_t peer)
{
    CHECK(peer != 0);
    for (uint32_t i = 0; i < g->streams_count; i++) {
        struct gossip_stream *s = g->streams[i];
        if (s->rival.peer == peer) { /* whom it can tell what it knows */
            s->rival = (struct gossip_rival){0};
        }
    }
}

static bool
is_known_for(const struct gossip *g, const struct gossip_stream *s, uint32_t ms)
{
    return gossip_awake(g) - s->rival.since_us >= gossip_us(ms);
}

static bool
is_overdue(const struct gossip *g, const struct gossip_stream *s)
{
    return is_known_for(g, s, g->config.judge_ms);
}

/* The intake was asked for proof, and gave none although it had the time: many
 * times that of an answer, because answers are lost, and only while this
 * process ran. */
static bool
is_unproved(const struct gossip *g, const struct gossip_stream *s)
{
    return s->asked == GOSSIP_ASKED_PROVE && s->answered != s->ask &&
           gossip_awake(g) - s->asked_us >=
               PROOFS * gossip_us(g->config.judge_ms);
}

/* Asks the intake for proof that the reading's process lives; one question at a
 * time, and again where none came. */
static void
challenge(struct gossip *g, struct gossip_stream *s, bool certain)
{
    s->rival.certain |= certain;
    if (s->answered == s->ask) {
        s->rival.proofs++;
    } else if (!is_unproved(g, s)) {
        return;
    }
    gossip_reread(g, s, GOSSIP_ASKED_PROVE, "another epoch is higher");
}

/* Whether a reader of the rival has proved since he was asked that its process
 * lives; asks. */
static bool
is_proved(struct gossip *g, struct gossip_stream *s)
{
    struct gossip_rival *rival = &s->rival;

    CHECK(rival->epoch.no != 0);
    if (!rival->proved &&
        (rival->doubted_us == 0 || gossip_awake(g) - rival->doubted_us >=
                                       gossip_us(g->config.judge_ms))) {
        rival->doubted_us = gossip_awake(g);
        gossip_who_doubt(g, s, rival->epoch.id);
    }
    return rival->proved;
}

/* Whether a reading that leads gives way to the rival: our own proof does not
 * come in time, or cannot, as the connection is broken, and theirs does. If
 * nobody gives one, both epochs stay: an engine may stand still as well as be
 * gone. */
static bool
is_outproved(struct gossip *g, struct gossip_stream *s)
{
    s->late |= is_unproved(g, s);
    return (s->late || !s->reading.live) && is_proved(g, s);
}

void
gossip_rival_proved(struct gossip *g, struct gossip_stream *s)
{
    s->late = false;
    s->rival.proved = false;
    s->rival.doubted_us = 0;
    if (s->doubted) {
        s->doubted = false;
        gossip_who_proved(g, s);
    }
    if (s->rival.epoch.no != 0 && is_above(s, s->rival.epoch) &&
        (s->rival.certain || is_overdue(g, s))) {
        raise_above(g, s, s->rival.peer, s->no_max);
    }
}

void
gossip_rival_shown(struct gossip *g, struct gossip_stream *s, uint64_t peer,
                   uint64_t id)
{
    struct gossip_rival *rival = &s->rival;

    CHECK(peer != 0);
    if (rival->epoch.no != 0 && rival->epoch.id == id &&
        rival->doubted_us != 0 && !rival->proved) {
        rival->proved = true;
        gossip_vector_send(g, peer, true); /* to meet it again */
    }
}

static void
tell(struct gossip *g, uint64_t peer)
{
    if (peer != 0 && gossip_peer_at(g, peer) != GOSSIP_PEER_NONE) {
        gossip_vector_send(g, peer, false);
    }
}

/* How long a complete epoch is kept for readers: with the names a reader can go
 * on in it, once it hears us. */
static uint32_t
patience_ms(const struct gossip *g, const struct gossip_stream *s)
{
    bool named = gossip_names_pos(s) != 0;

    return named ? 3 * g->config.judge_ms : g->config.judge_ms / 2;
}

/* Whether so long is not over, and rivals that take turns had less in all. */
static bool
may_wait(const struct gossip *g, const struct gossip_stream *s, uint32_t ms)
{
    return !is_known_for(g, s, ms) && gossip_awake(g) - s->rival.turns_us <
                                          TURNS * gossip_us(g->config.judge_ms);
}

/* Notes the rival, and says what is known here to readers that may go on in it,
 * for so long. True: it is not over. */
static bool
waits_for_readers(struct gossip *g, struct gossip_stream *s,
                  const struct gossip_met *met, uint32_t ms)
{
    (void)meet_rival(g, s, met);
    if (!s->rival.told) {
        s->rival.told = true;
        tell(g, met->peer);
        if (s->primary != met->peer) {
            tell(g, s->primary);
        }
    }
    return may_wait(g, s, ms);
}

/* Asks for the vector of who told of the rival by records alone, which do not say
 * how much it knows. True: it may come still. */
static bool
waits_for_vector(struct gossip *g, struct gossip_stream *s,
                 const struct gossip_met *met)
{
    bool good = gossip_peer_at(g, met->peer) != GOSSIP_PEER_NONE;

    if (meet_rival(g, s, met) && good) {
        g->vector_of = met->peer;
    }
    return may_wait(g, s, g->config.judge_ms / 2);
}

/* Whether the reading that leads gives way to a higher epoch. certain: it is
 * known to be of another process. */
static bool
yields_to_proof(struct gossip *g, struct gossip_stream *s,
                const struct gossip_met *met, bool certain)
{
    uint32_t most =
        gossip_is_contested(s, g->now_us) ? PROOFS_CONTESTED : PROOFS;

    (void)meet_rival(g, s, met);
    /* Both prove it: two processes, or one under two ids. */
    if (is_outproved(g, s) || s->rival.proofs >= most) {
        return true;
    }
    challenge(g, s, certain);
    return false;
}

/* Whether the batch at the peer's position was read here, too, or is in the log. */
static bool
agrees(const struct gossip_stream *s, const struct gossip_met *met)
{
    uint32_t print = 0;

    return met->has_print && gossip_print_at(s, met->pos, &print) &&
           print == met->print;
}

bool
gossip_rival_is_same(const struct gossip_stream *s,
                     const struct gossip_met *met)
{
    bool quiet = s->reset == NULL && s->direct == NULL && s->told == s->pos &&
                 (s->pos & GOSSIP_PART_LAST) == GOSSIP_PART_LAST;

    return s->complete && met->complete && !s->lost && !gossip_is_torn(s) &&
           quiet && met->pos <= s->pos && agrees(s, met);
}

/* Whether the peer's replica has more blocks than this one. */
static bool
has_more(const struct gossip_stream *s, const struct gossip_met *met)
{
    return met->counts && s->digest_known && met->count > s->digest_count;
}

/* Whether the peer's replica has fewer. */
static bool
has_less(const struct gossip_stream *s, const struct gossip_met *met)
{
    return met->counts && s->digest_known && met->count < s->digest_count;
}

/* Whether an epoch gives way to one that may know less. It does not while this
 * node has a reading of it that may live, nor while another reader may still
 * join it. */
static bool
yields_to_less(struct gossip *g, struct gossip_stream *s,
               const struct gossip_met *met)
{
    CHECK(!met->whole);
    if (s->pos == 0 || gossip_is_torn(s)) {
        return true;
    }
    if (gossip_leads(s)) {
        (void)meet_rival(g, s, met);
        /* Of one process, and we keep up: what proves theirs proves ours. */
        bool same = s->reading.live && agrees(s, met);
        if (same || !is_outproved(g, s)) {
            challenge(g, s, true);
            return false;
        }
    }
    return !waits_for_readers(g, s, met, patience_ms(g, s));
}

/* The same of a part that this node has, and does not read: it is kept for a
 * while if it is known to be the larger one of the same process. Where records
 * alone tell of the other one, its vector is waited for. */
static bool
yields_part_to_less(struct gossip *g, struct gossip_stream *s,
                    const struct gossip_met *met)
{
    if (s->pos == 0 || gossip_is_torn(s) || !s->digest_known) {
        return true;
    }
    bool smaller = s->rival.epoch.id == met->epoch.id && s->rival.smaller;
    if (met->records && !smaller) {
        return !waits_for_vector(g, s, met);
    }
    if (!met->records && (!has_less(s, met) || !agrees(s, met))) {
        return true;
    }
    bool waits = waits_for_readers(g, s, met, g->config.judge_ms);
    s->rival.smaller = true; /* records do not end that */
    return !waits;
}

/* Whether this node's readings had the batch at that position: from there on the
 * engine may repeat. What records told says nothing of that. */
static bool
had_batch(const struct gossip_stream *s, uint64_t pos, uint32_t *print)
{
    return (pos & GOSSIP_PART_LAST) == GOSSIP_PART_LAST &&
           gossip_prints_at(&s->prints, pos >> 8, print);
}

/* The epoch is of the same process, and is read on in, or goes as far as ours, or
 * this node's reading may go on in it from the peer's names, if it had their
 * batch, too: before its first one the engine repeats nothing. A state that is
 * complete is given up for a reader only that has come as far. A takeover that
 * ended it showed that without a living reader it leads nowhere. */
static bool
goes_on(const struct gossip_stream *s, const struct gossip_met *met)
{
    const struct gossip_left *left = gossip_left_of(s, met->epoch.id);
    /* The prints may be another process's: one more try shows that. */
    uint32_t times = s->prints.unproved ? 1 : GOSSIP_RETURNS;
    uint32_t print = 0;
    bool open =
        left == NULL || (met->names > left->pos && left->times <= times);
    bool named = met->names != 0 && had_batch(s, met->names, &print) &&
                 print == met->names_print && s->reading.any && open &&
                 !s->complete;
    bool known = s->rival.epoch.no != 0 && s->rival.epoch.id == met->epoch.id;
    bool reads = met->lives &&
                 (!s->complete || met->pos >= (known ? s->rival.pos : s->pos));

    return named ||
           (agrees(s, met) && (reads || (left == NULL && met->pos == s->pos)));
}

/* Whether this node's partial reading gives way to an epoch that knows more. To
 * one of the same process it does, whatever the number, if that epoch goes as
 * far or if the peer reads on in it. This node cannot read on in it, because its
 * reading does not know the names of earlier blocks. */
static bool
yields_to_more(struct gossip *g, struct gossip_stream *s,
               const struct gossip_met *met)
{
    uint32_t print;
    bool known = met->has_print && gossip_print_at(s, met->pos, &print);

    CHECK(!s->whole);
    if (goes_on(s, met)) {
        return true;
    }
    if (!is_above(s, met->epoch)) {
        return false;
    }
    (void)meet_rival(g, s, met);
    if (s->pos == 0 || is_outproved(g, s)) {
        return true;
    }
    challenge(g, s, known);
    return false;
}

/* Both epochs are partial. Of one process the one with more blocks stays. Of two
 * processes, or where nothing shows which they are of, this node's reading gives
 * way to proof. Where records alone tell of the other one, its vector is waited
 * for. */
static bool
yields_to_part(struct gossip *g, struct gossip_stream *s,
               const struct gossip_met *met)
{
    uint32_t print = 0;
    bool known = met->has_print && gossip_print_at(s, met->pos, &print);

    CHECK(!s->whole && !met->whole);
    if (s->pos == 0) {
        return true;
    }
    bool waits = waits_for_vector(g, s, met);
    if (!known || print != met->print) {
        return yields_to_proof(g, s, met, known);
    }
    if (!met->counts || !s->digest_known) {
        return !waits;
    }
    if (s->digest_count <= met->count || s->rival.proofs++ >= PROOFS) {
        return true;
    }
    /* Not above a complete one of which nobody is heard just now. */
    raise_above(g, s, met->peer, met->epoch.no);
    return false;
}

/* The epoch is of the same process, goes less far than ours, and nobody reads on
 * in it, as far as is known. */
static bool
is_behind(const struct gossip_stream *s, const struct gossip_met *met)
{
    return !met->lives && met->pos < s->pos && agrees(s, met);
}

/* Whether a part that this node has, and does not read, stays for now beside a
 * complete epoch that nobody reads: it goes on where that one ended, and has more
 * by now. A reader may still go on in the complete one, or come to the part. */
static bool
keeps_part(struct gossip *g, struct gossip_stream *s,
           const struct gossip_met *met)
{
    bool empty = met->pos == 0 && met->counts;

    if (met->lives || s->pos == 0 || gossip_is_torn(s)) {
        return false;
    }
    return (empty || is_behind(s, met)) && has_less(s, met) &&
           waits_for_readers(g, s, met, 3 * g->config.judge_ms);
}

/* Whether this node's complete state stays for now: nobody is known to read the
 * other one, or this node has just read its own, and may know better than who
 * reads the other one, as long as that reader proves nothing. */
static bool
doubts_rival(struct gossip *g, struct gossip_stream *s,
             const struct gossip_met *met)
{
    bool answers =
        met->from_start && s->rival.asked && s->rival.epoch.id == met->epoch.id;
    bool doubts = !answers && (!met->lives || s->led == s->epoch.id);

    return doubts && s->pos != 0 && gossip_names_fresh(s) &&
           waits_for_readers(g, s, met, patience_ms(g, s)) &&
           !(met->lives && is_proved(g, s));
}

/* Whether this node's state stays until the other one begins to arrive, for which
 * it asks. This node leads neither epoch, so if the peer dies before, nobody may
 * be left who knows either. An epoch that is whole is another process's. */
static bool
awaits_state(struct gossip *g, struct gossip_stream *s,
             const struct gossip_met *met)
{
    if (met->whole || met->from_start || s->pos == 0 || gossip_is_torn(s) ||
        s->lost || gossip_rival_is_same(s, met)) {
        return false;
    }
    (void)meet_rival(g, s, met);
    if (!may_wait(g, s, 4 * g->config.judge_ms)) {
        return false;
    }
    gossip_pull_rival(g, s);
    return true;
}

/* Whether a node that does not lead its own epoch goes over to a higher one that is
 * complete. mine: so is its own. */
static bool
follows(struct gossip *g, struct gossip_stream *s, const struct gossip_met *met,
        bool mine)
{
    if (!mine) {
        return !keeps_part(g, s, met);
    }
    if (is_behind(s, met)) {
        raise_above(g, s, met->peer, s->no_max); /* who is there follows */
        return false;
    }
    return !doubts_rival(g, s, met) && !awaits_state(g, s, met);
}

bool
gossip_rival_is_awaited(const struct gossip_stream *s)
{
    return s->rival.epoch.no != 0 && is_above(s, s->rival.epoch) &&
           !gossip_leads(s);
}

bool
gossip_rival_wins(struct gossip *g, struct gossip_stream *s,
                  const struct gossip_met *met)
{
    bool leads = gossip_leads(s);

    CHECK(!s->removed && met->epoch.no != 0);
    if (s->epoch.no == 0 || MUTANT(NUMBERS_WIN)) {
        return is_above(s, met->epoch);
    }
    bool mine = s->whole || s->complete; /* all of its process is known */
    bool theirs = met->whole || met->complete;
    if (leads && !mine && theirs) {
        return yields_to_more(g, s, met);
    }
    if (s->reading.any && !mine && theirs && met->names != 0 &&
        goes_on(s, met)) {
        return true;
    }
    /* To a part that a takeover ended only with a reader: it leads nowhere. */
    if (s->reading.any && !mine && !theirs && has_more(s, met) &&
        (met->lives || gossip_left_of(s, met->epoch.id) == NULL) &&
        goes_on(s, met)) {
        return true;
    }
    if (!is_above(s, met->epoch)) {
        return false;
    }
    if (!theirs) {
        return mine    ? yields_to_less(g, s, met)
               : leads ? yields_to_part(g, s, met)
                       : yields_part_to_less(g, s, met);
    }
    if (!leads) {
        return follows(g, s, met, mine);
    }
    if (!mine || (!s->whole && goes_on(s, met))) {
        return true;
    }
    /* Two processes, or one that the peer's epoch does not go on with: ours must
     * prove that it lives. */
    return yields_to_proof(g, s, met, true);
}
