/*
 * This node's own readings of engines: whether a reading leads its stream or
 * follows the leader, and when a follower takes over.
 */
#include "gossip/gossip_internal.h"
#include "index/base/mutant.h"

void
gossip_reread(struct gossip *g, struct gossip_stream *s, enum gossip_asked why,
              const char *reason)
{
    CHECK(why != GOSSIP_ASKED_NOT && reason != NULL);
    CHECK(!s->removed && s->answered <= s->ask);
    s->ask++;
    s->asked = why;
    s->asked_us = gossip_awake(g);
    s->asked_of = s->epoch.id;
    s->reread = reason;
    s->reading.off_since_us = 0;
    if (why == GOSSIP_ASKED_HEAL) {
        s->resumed_us = 0; /* another one may go on from the same names */
    }
    g->stats.rereads++;
    gossip_ready(g, s);
}

/* The state is wrong: the node that leads reads again, unless it has a part, and a
 * peer has a better one; any other node transfers the state of `from` (0: of the
 * next peer that shows to have it). */
void
gossip_heal(struct gossip *g, struct gossip_stream *s, uint64_t from)
{
    CHECK(!s->removed && from != g->self);
    if (s->healed_us != 0 &&
        g->now_us - s->healed_us < gossip_us(g->config.heal_ms)) {
        return;
    }
    s->healed_us = g->now_us;
    if (gossip_leads(s) && (s->complete || from == 0)) {
        gossip_reread(g, s, GOSSIP_ASKED_HEAL, "digests differ");
    } else if (from != 0) {
        gossip_transfer_start(g, s, from);
    }
}

static void
mint(struct gossip *g, struct gossip_stream *s, uint64_t id, bool whole,
     const char *reason)
{
    uint32_t no = s->no_max < GOSSIP_NO_MAX ? s->no_max + 1 : GOSSIP_NO_MAX;

    if (s->rival.epoch.id == id && s->rival.epoch.no > s->epoch.no) {
        no = s->rival.epoch.no; /* the epoch that was met before */
    }
    s->reading.id = id;
    g->stats.epochs_minted++;
    gossip_stream_begin(g, s, (struct gossip_epoch){.no = no, .id = id}, whole,
                        reason);
    CHECK(gossip_leads(s));
}

/* True: the reading is of the stream's epoch, and continues at the replica's
 * position. */
static bool
join(struct gossip_stream *s)
{
    struct gossip_reading *reading = &s->reading;
    bool broken = s->epoch.id == gossip_broken_id(reading->process);

    CHECK(reading->any);
    if (s->epoch.no == 0 || (!broken && s->epoch.id != reading->process)) {
        return false;
    }
    reading->id = s->epoch.id;
    reading->tolerant = broken || !reading->whole;
    reading->lost = reading->lost && !broken;
    reading->off_since_us = 0;
    return true;
}

/* How far the epoch goes whatever other nodes have: to the position that was
 * read here and can be read again. */
uint64_t
gossip_local_known(const struct gossip_stream *s)
{
    return gossip_leads(s) && s->reading.from_start ? s->reading.pos : 0;
}

void
gossip_local_met(struct gossip *g, struct gossip_stream *s)
{
    struct gossip_reading *reading = &s->reading;

    reading->differs = false;
    reading->off_since_us = 0;
    if (!reading->any) {
        return;
    }
    if (join(s)) {
        /* The node that began the epoch may never read as far as we did. */
        gossip_stream_known(g, s, reading->lost ? 0 : reading->pos);
        return;
    }
    reading->id = reading->process;
    reading->tolerant = false;
    if (reading->whole) {
        gossip_reread(g, s, GOSSIP_ASKED_JUDGE, "another epoch won");
    }
}

static bool
is_alone(const struct gossip *g)
{
    if (g->awaits) {
        return false;
    }
    for (uint32_t i = 0; i < g->config.peers_max; i++) {
        if (g->peers[i].id != 0) {
            return false;
        }
    }
    return true;
}

/* Notes whether the reading could go on in the epoch that is left. */
static void
leave(struct gossip_stream *s)
{
    const struct gossip_left *known = gossip_left_of(s, s->epoch.id);
    bool tried = s->resumed_id == s->epoch.id && s->resumed_us != 0;
    struct gossip_left left = {.id = s->epoch.id, .times = 1};
    uint32_t at =
        known != NULL ? (uint32_t)(known - s->left) : s->lefts++ % GOSSIP_LEFT;

    if (known != NULL) {
        left = *known;
        left.times = tried && s->resumed_pos > left.pos ? 0 : left.times + 1;
    }
    if (tried && s->resumed_pos > left.pos) {
        left.pos = s->resumed_pos;
    }
    s->left[at] = left;
}

/* No node reads better: mints an epoch for this reading. */
static void
take_over(struct gossip *g, struct gossip_stream *s)
{
    bool same = s->epoch.id == s->reading.process && s->epoch.no != 0;
    uint64_t id =
        same ? gossip_broken_id(s->reading.process) : s->reading.process;

    CHECK(s->reading.any);
    leave(s);
    s->reading.tolerant = same || !s->reading.whole;
    mint(g, s, id, s->reading.whole, "taken over");
}

bool
gossip_local_can_resume(const struct gossip *g, const struct gossip_stream *s)
{
    const struct gossip_reading *reading = &s->reading;
    struct gossip_names names;

    return reading->any && !reading->whole && !reading->differs &&
           !gossip_leads(s) && s->answered == s->ask && !gossip_is_torn(s) &&
           !s->lost && !MUTANT(NO_RESUME) && gossip_names(g, s->name, &names) &&
           s->names.pos <= s->pos;
}

/*
 * A partial reading of what may be the epoch's process can go on from the
 * names, once for each position. must: however lately that was tried.
 */
static bool
resume(struct gossip *g, struct gossip_stream *s, bool must)
{
    bool same = s->resumed_id == s->epoch.id && s->resumed_us != 0;
    bool tried = same && s->resumed_pos == gossip_names_pos(s);

    if (must && !tried && gossip_names_pos(s) <= s->pos) {
        gossip_names_back(g, s); /* newer ones would come too late */
    }
    if (tried || !gossip_local_can_resume(g, s) ||
        (!must && gossip_names_wanted(g, s))) {
        return false;
    }
    if (same && !must &&
        gossip_awake(g) - s->resumed_us < gossip_us(g->config.heal_ms)) {
        return false;
    }
    s->level_tries = same ? s->level_tries : 0;
    s->resumed_id = s->epoch.id;
    s->resumed_pos = s->names.pos;
    s->resumed_us = gossip_awake(g);
    s->resumes = true;
    s->resuming = true;
    g->stats.resumes++;
    gossip_ready(g, s);
    return true;
}

void
gossip_local_named(struct gossip *g, struct gossip_stream *s)
{
    (void)resume(g, s, false);
}

/* A follower, the replica and the names are at one position, so the replay
 * reaches back to it now. Later, when the leader is gone, it may not. A try that
 * was too early is made good here, a few times in each epoch. */
static bool
can_lead(const struct gossip *g, const struct gossip_stream *s)
{
    bool same = s->resumed_id == s->epoch.id && s->resumed_us != 0;
    bool tried = same && (s->resumed_pos == s->names.pos ||
                          s->level_tries >= GOSSIP_RETURNS);

    return !tried && s->reading.pos == s->pos && s->names.pos == s->pos &&
           gossip_local_can_resume(g, s);
}

/* Until when, by gossip_awake(), a reading has the time to go on from the names
 * that it was told; 0: none is expected to. */
static uint64_t
resumes_until(const struct gossip *g, const struct gossip_stream *s)
{
    return s->resuming && !s->reading.differs
               ? s->resumed_us + gossip_us(g->config.judge_ms)
               : 0;
}

static bool
is_resuming(const struct gossip *g, const struct gossip_stream *s)
{
    return resumes_until(g, s) > gossip_awake(g);
}

static void
judge(struct gossip *g, struct gossip_stream *s, enum gossip_asked answers,
      const struct gossip_reading *before)
{
    struct gossip_reading *reading = &s->reading;
    /* Counts only against the epoch that had no better reader, not against an
     * epoch that arrived later. */
    bool takes = answers == GOSSIP_ASKED_TAKE && s->asked_of == s->epoch.id;
    bool joins = s->epoch.id == gossip_broken_id(reading->process) ||
                 (s->epoch.id == reading->process && !before->lost);
    bool led = before->any && !before->lost && before->id == s->epoch.id;

    CHECK(reading->any && s->answered <= s->ask);
    if (takes && !joins) {
        if (before->differs) {
            gossip_stream_flipped(g, s);
        } else if (resume(g, s, true)) {
            return; /* the names came while this was being read */
        }
        take_over(g, s);
    } else if (join(s)) {
        if (answers != GOSSIP_ASKED_NOT ? answers == GOSSIP_ASKED_HEAL || takes
                                        : led) {
            /* The reading counts, and the state that was built before does
             * not. */
            gossip_stream_reset(g, s, "read again");
            gossip_names_begin(g, s);
            delta_log_restart(&s->log, 0);
        } else if (reading->whole && !s->names.known && s->names.peer == 0) {
            gossip_names_begin(g, s); /* all of them are about to be read */
        }
    } else if (s->answered != s->ask) {
        return; /* begun before the question: proves nothing */
    } else if (s->lost && !reading->whole && !gossip_rebuild(g, s, "lost") &&
               !is_alone(g)) {
        gossip_stream_reset(g, s, "lost");
    } else if (reading->whole ||
               (is_alone(g) && !is_resuming(g, s) && !resume(g, s, true))) {
        gossip_stream_flipped(g, s);
        reading->tolerant = !reading->whole;
        mint(g, s, reading->process, reading->whole,
             s->epoch.no == 0 ? "first process" : "another process");
    }
}

void
gossip_local_begin(struct gossip *g, struct event_stream stream,
                   uint64_t process, bool whole, uint64_t ask, uint64_t now_us)
{
    struct gossip_stream *s = gossip_find(g, stream);

    g->now_us = now_us;
    if (s == NULL) {
        return;
    }
    struct gossip_reading before = s->reading;
    enum gossip_asked answers = GOSSIP_ASKED_NOT;
    if (ask == s->ask && s->answered != s->ask) {
        answers = s->asked;
        s->answered = s->ask;
        s->asked = GOSSIP_ASKED_NOT;
    }
    /* A partial reading that begins by itself is no answer to the names, which
     * may be on their way still: gossip_local_resume() comes first. */
    s->resuming = s->resuming && !whole && answers == GOSSIP_ASKED_NOT;
    gossip_prints_begin(&s->prints);
    s->reading = (struct gossip_reading){
        .any = true,
        .live = before.live,
        .whole = whole,
        .from_start = whole,
        .process = process,
        .id = process,
    };
    judge(g, s, answers, &before);
    if (answers == GOSSIP_ASKED_PROVE && gossip_leads(s)) {
        gossip_rival_proved(g, s);
    }
    (void)resume(g, s, false);
    gossip_wake_at(g, now_us);
}

void
gossip_local_proved(struct gossip *g, struct event_stream stream, uint64_t ask,
                    uint64_t now_us)
{
    struct gossip_stream *s = gossip_find(g, stream);

    g->now_us = now_us;
    if (s == NULL || ask != s->ask || s->answered == s->ask ||
        s->asked != GOSSIP_ASKED_PROVE) {
        return;
    }
    s->answered = s->ask;
    s->asked = GOSSIP_ASKED_NOT;
    if (gossip_leads(s)) {
        gossip_rival_proved(g, s);
    }
    gossip_wake_at(g, now_us);
}

uint64_t
gossip_pos_after(uint64_t seq)
{
    return gossip_pos(seq, GOSSIP_PART_LAST);
}

/* The intake goes on from the names of this epoch. It may call the process
 * otherwise: as a reader did who knew all of it since a CLEAR. */
static bool
was_handed(const struct gossip_stream *s, uint64_t process, uint64_t seq)
{
    return s->resuming && s->epoch.no != 0 && s->resumed_id == s->epoch.id &&
           s->resumed_pos == gossip_pos(seq, GOSSIP_PART_LAST) &&
           s->epoch.id != gossip_broken_id(process);
}

void
gossip_local_resume(struct gossip *g, struct event_stream stream,
                    uint64_t process, bool whole, uint64_t seq, uint64_t now_us)
{
    struct gossip_stream *s = gossip_find(g, stream);

    g->now_us = now_us;
    if (s == NULL || seq >= GOSSIP_SEQ_MAX) {
        return;
    }
    if (was_handed(s, process, seq)) {
        process = s->epoch.id;
        whole = whole || (s->whole && s->complete);
    }
    s->resuming = false;
    gossip_prints_begin(&s->prints);
    s->reading = (struct gossip_reading){
        .any = true,
        .live = s->reading.live,
        .whole = whole,
        .from_start = whole,
        .process = process,
        .id = process,
        .pos = gossip_pos(seq, GOSSIP_PART_LAST),
    };
    gossip_local_met(g, s);
    gossip_wake_at(g, now_us);
}

void
gossip_local_gap(struct gossip *g, struct event_stream stream, uint64_t now_us)
{
    struct gossip_stream *s = gossip_find(g, stream);

    g->now_us = now_us;
    if (s == NULL || !s->reading.any) {
        return;
    }
    s->reading.whole = false;
    s->reading.gap = true;
    s->reading.lost |= !s->reading.tolerant; /* peers' logs may have it */
    s->reading.split = false;
    s->reading.part = 0;
    gossip_ready(g, s);
}

void
gossip_local_live(struct gossip *g, struct event_stream stream, bool live,
                  uint64_t now_us)
{
    struct gossip_stream *s = gossip_find(g, stream);

    g->now_us = now_us;
    if (s != NULL) {
        s->reading.live = live;
        s->reading.off_since_us = 0;
        gossip_wake_at(g, now_us);
        gossip_ready(g, s);
    }
}

void
gossip_local_end(struct gossip *g, struct event_stream stream, uint64_t now_us)
{
    struct gossip_stream *s = gossip_find(g, stream);

    g->now_us = now_us;
    if (s != NULL) {
        s->led = gossip_leads(s) ? s->epoch.id : s->led;
        s->reading = (struct gossip_reading){0};
        s->answered = s->ask;
        s->asked = GOSSIP_ASKED_NOT;
        s->resuming = false;
        s->resumed_us = 0; /* another reading may go on from the same names */
        s->reread = NULL;
        s->late = false;
        s->doubted = false;
        s->lag_us = 0;
    }
}

/* When the next peer is asked for its state in place of the lost one. */
static uint64_t
obtain_at(const struct gossip *g, const struct gossip_stream *s)
{
    bool asks = s->transfer.active || s->transfer.wanted;

    if (!s->lost || asks || s->answered != s->ask) {
        return UINT64_MAX;
    }
    return s->transfer.again_us > g->now_us ? s->transfer.again_us : g->now_us;
}

/* Asks the next peer for its state. What is here is kept meanwhile: it may be
 * right, and be more than can be had again. Only if no peer has the state, the
 * engine is read again by who leads; who does not builds it from the names. */
static void
obtain(struct gossip *g, struct gossip_stream *s)
{
    CHECK(s->lost && !s->transfer.active && s->epoch.no != 0);
    while (s->lost_peer < g->peers_high) {
        uint64_t peer = g->peers[s->lost_peer++].id;
        if (peer != 0) {
            gossip_transfer_start(g, s, peer);
            return;
        }
    }
    s->lost_peer = 0;
    if (gossip_leads(s) && s->reading.live) {
        gossip_reread(g, s, GOSSIP_ASKED_HEAL, "lost");
    } else if (!gossip_rebuild(g, s, "lost")) {
        gossip_stream_reset(g, s, "lost");
    }
}

static void
doubt(struct gossip *g, struct gossip_stream *s)
{
    s->lost = true;
    s->lost_peer = 0;
    if (g->now_us >= obtain_at(g, s)) {
        obtain(g, s);
    }
}

void
gossip_local_doubted(struct gossip *g, struct event_stream stream,
                     uint64_t now_us)
{
    struct gossip_stream *s = gossip_find(g, stream);

    g->now_us = now_us;
    if (s == NULL || s->epoch.no == 0) {
        return;
    }
    if (s->transfer.begun) {
        gossip_rebuild_back(g, s, "lost");
    } else {
        doubt(g, s);
    }
}

void
gossip_local_lost(struct gossip *g, struct event_stream stream, uint64_t now_us)
{
    struct gossip_stream *s = gossip_find(g, stream);

    g->now_us = now_us;
    if (s == NULL || s->epoch.no == 0 || gossip_rebuild(g, s, "lost")) {
        return;
    }
    if (!gossip_leads(s) || !s->reading.live || s->transfer.begun) {
        gossip_rebuild_back(g, s, "lost");
    } else {
        doubt(g, s);
    }
}

/* A digest covers the records that were handed out, not those that wait. */
void
gossip_digest(struct gossip *g, struct event_stream stream, uint64_t count,
              uint64_t xor_keys)
{
    struct gossip_stream *s = gossip_find(g, stream);

    if (s != NULL) {
        s->digest_known = true;
        s->digest_pos = s->told;
        s->digest_count = count;
        s->digest_xor = xor_keys;
    }
}

/* Time */

/* Without peers there is no better reader to wait for. */
static uint64_t
judge_after_us(const struct gossip *g)
{
    return is_alone(g) ? 0 : gossip_us(g->config.judge_ms);
}

static bool
is_judged(const struct gossip_stream *s)
{
    return s->reading.any && s->reading.live && s->answered == s->ask;
}

/* The reading and the replica are at different positions from now on. */
static void
begin_off(struct gossip *g, struct gossip_stream *s)
{
    struct gossip_reading *reading = &s->reading;

    CHECK(reading->any && !gossip_leads(s));
    reading->off_since_us = gossip_awake(g);
    reading->off_mark = reading->pos > s->pos ? reading->pos : s->pos;
    reading->off_pos = reading->pos;
    reading->off_replica = s->pos;
    reading->who_asked = false;
    reading->who_lives = false;
}

/* Whether the two positions differ, and the one behind has not reached the
 * point where the one ahead was. */
static bool
is_off(struct gossip *g, struct gossip_stream *s)
{
    struct gossip_reading *reading = &s->reading;
    uint64_t ahead = reading->pos > s->pos ? reading->pos : s->pos;
    uint64_t behind = reading->pos > s->pos ? s->pos : reading->pos;

    if (s->epoch.no != 0 && ahead == behind) {
        reading->off_since_us = 0;
        return false;
    }
    if (reading->off_since_us == 0 ||
        (s->epoch.no != 0 && behind >= reading->off_mark)) {
        begin_off(g, s);
    }
    return true;
}

/*
 * The epoch has a living reader, and nothing shows that this node knows more.
 * When the engine is silent, two readers that both began in the middle have
 * heard different amounts, and either of them will do.
 */
static bool
is_led(const struct gossip_stream *s)
{
    const struct gossip_reading *reading = &s->reading;

    CHECK(reading->who_asked || !reading->who_lives);
    return reading->who_lives &&
           (reading->pos == reading->off_pos || s->pos != reading->off_replica);
}

/* What a peer has of the epoch is on its way: records, the state, the names. */
static bool
is_coming(const struct gossip *g, const struct gossip_stream *s)
{
    return s->pos < s->known || gossip_is_torn(s) || s->transfer.active ||
           s->names.peer != 0 || gossip_names_wanted(g, s) ||
           (s->names.again_us > g->now_us && !gossip_names_fresh(s));
}

/* How long a follower is off before it takes over. */
static uint64_t
patience_us(const struct gossip *g, const struct gossip_stream *s)
{
    return judge_after_us(g) * (is_coming(g, s) ? 3 : 1);
}

/* Judges a follower: true when no other node reads better. */
static bool
is_best(struct gossip *g, struct gossip_stream *s)
{
    struct gossip_reading *reading = &s->reading;
    uint64_t judge_us = judge_after_us(g);

    CHECK(is_judged(s) && !gossip_leads(s));
    if (reading->differs) {
        return true;
    }
    if (!is_off(g, s)) {
        return false;
    }
    uint64_t off_us = gossip_awake(g) - reading->off_since_us;
    if (off_us >= judge_us && is_led(s)) {
        begin_off(g, s);
        return false;
    }
    if (off_us >= judge_us / 2 && !reading->who_asked) {
        reading->who_asked = true;
        gossip_who_ask(g, s);
    }
    return off_us >= patience_us(g, s);
}

uint64_t
gossip_local_timer(const struct gossip *g, const struct gossip_stream *s)
{
    uint64_t judge_us = judge_after_us(g);

    if (!is_judged(s) || gossip_leads(s) || s->lost) {
        return obtain_at(g, s);
    }
    if (s->reading.differs) {
        return g->now_us;
    }
    if (is_resuming(g, s)) {
        return gossip_awake_due(g, resumes_until(g, s));
    }
    if (can_lead(g, s)) {
        return g->now_us;
    }
    if (s->reading.off_since_us != 0 && s->reading.who_asked) {
        uint64_t due_us =
            gossip_awake_due(g, s->reading.off_since_us + patience_us(g, s));
        uint64_t look_us = g->now_us + gossip_us(g->config.question_ms);
        return due_us < look_us ? due_us : look_us; /* it may not come */
    }
    if (s->reading.off_since_us != 0) {
        return gossip_awake_due(g, s->reading.off_since_us + judge_us / 2);
    }
    return s->reading.pos != s->pos ? g->now_us : UINT64_MAX;
}

void
gossip_local_tick(struct gossip *g, struct gossip_stream *s)
{
    CHECK(!s->removed && s->answered <= s->ask);
    if (g->now_us >= obtain_at(g, s)) {
        obtain(g, s);
    }
    if (!is_judged(s)) {
        return;
    }
    if (gossip_leads(s)) {
        uint64_t judge_us = judge_after_us(g);
        uint64_t since_us = s->torn_us != 0 ? s->torn_us : s->behind_us;
        if (since_us != 0 && !s->transfer.active &&
            g->now_us - since_us >= 2 * judge_us) {
            gossip_heal(g, s, 0);
        }
        return;
    }
    if (is_resuming(g, s) || s->lost) {
        return;
    }
    if (can_lead(g, s) && resume(g, s, true)) {
        s->level_tries++;
        return;
    }
    if (!is_best(g, s)) {
        return;
    }
    if (resume(g, s, true)) {
        begin_off(g, s);
    } else {
        g->stats.takeovers++;
        gossip_reread(g, s, GOSSIP_ASKED_TAKE,
                      s->reading.differs ? "peers say what it did not"
                                         : "no better reader");
    }
}
