/*
 * A consistent cut: parts, the journal beside them, and the facts of the end.
 */
#include "storage/cut.h"

#include <endian.h>
#include <stdlib.h>

#include "index/base/mutant.h"
#include "storage/bytes_internal.h"

#define CHUNK_WORDS   ((size_t)1 << 19) /* of a journal that goes to disk */
#define JOURNAL_WORDS ((size_t)1 << 24) /* between two turns, at most */
#define IMAGE_WORDS   ((size_t)1 << 29)
#define WATCHES       2U                /* the mirror's and the ledger's */
#define JOURNALS      3U                /* ... and that of names */
#define NAMES_WORDS   ((size_t)1 << 13) /* of one page */
#define RESTS         5U
#define BELIEF_WORDS  ((size_t)1 << 13) /* of one page */
#define PIECE_LINES   1024U /* of the mirror: STORAGE_PIECE_BYTES, about */

enum phase {
    PHASE_IDLE,
    PHASE_WALK,
    PHASE_WALKED,
    PHASE_REST, /* what the end left to be pulled */
    PHASE_DONE, /* waits for the disk's word */
};

/* The mirror's, the ledger's; of names the journal alone. */
struct side {
    struct watch watch;
    struct words journal;
    enum storage_kind kind;
    enum storage_kind journal_kind;
    uint32_t at;  /* the next part to look at */
    bool reading; /* in pieces, and not through yet: the part before `at` */
    struct mirror_reading read;
    struct words image;
    uint32_t chunks; /* of the journal, pulled so far */
};

struct storage_cut {
    struct storage_source source;
    struct side side[JOURNALS];
    enum phase phase;
    struct radix_pages *belief; /* NULL: no more of it */
    uint32_t belief_pages;
    bool names; /* there are more pages of them */
    uint32_t names_at;
    uint32_t names_part;
    uint32_t names_pages;
    struct buf rest[RESTS];
    uint32_t rest_at;
};

static const enum storage_kind rest_kinds[RESTS] = {
    STORAGE_STREAMS, STORAGE_ROSTER, STORAGE_MEMBERS, STORAGE_BELIEF_WORKERS,
    STORAGE_LEARNED};

/* It keeps journals of what changes meanwhile. */
static bool
cut_walks(const struct storage_cut *cut)
{
    return cut->phase == PHASE_WALK || cut->phase == PHASE_WALKED;
}

/* What is true of a cut between two calls: it keeps journals from the begin to
 * the end, and reads belief before it is walked. */
static bool
cut_sound(const struct storage_cut *cut)
{
    bool walks = cut_walks(cut);

    for (uint32_t i = 0; i < JOURNALS; i++) {
        if ((cut->side[i].watch.journal != NULL) != walks ||
            (cut->side[i].reading && !walks)) {
            return false;
        }
    }
    return (cut->belief == NULL && !cut->names) || cut->phase == PHASE_WALK;
}

static void
watch_names(struct storage_cut *cut, bool on)
{
    const struct storage_naming *names = &cut->source.names;

    if (names->watch != NULL) {
        names->watch(names->context, on ? &cut->side[WATCHES].journal : NULL);
    }
}

static bool
side_init(struct side *side, uint32_t parts_max, enum storage_kind kind,
          enum storage_kind journal_kind)
{
    CHECK(parts_max > 0);
    side->kind = kind;
    side->journal_kind = journal_kind;
    side->watch.parts_max = parts_max;
    side->watch.dirty = calloc(parts_max, sizeof(bool));
    words_init(&side->journal, JOURNAL_WORDS);
    words_init(&side->image, IMAGE_WORDS);
    return side->watch.dirty != NULL;
}

static void
mark_all(struct storage_cut *cut)
{
    CHECK(cut->side[0].watch.dirty != NULL && cut->side[1].watch.dirty != NULL);
    for (uint32_t i = 0; i < WATCHES; i++) {
        memset(cut->side[i].watch.dirty, 1,
               cut->side[i].watch.parts_max * sizeof(bool));
    }
}

struct storage_cut *
storage_cut_new(const struct storage_source *source)
{
    struct storage_cut *cut = calloc(1, sizeof(*cut));

    CHECK(source->mirror != NULL || source->ledger != NULL);
    if (cut == NULL) {
        return NULL;
    }
    bool made = side_init(&cut->side[0], mirror_parts(), STORAGE_MIRROR,
                          STORAGE_MIRROR_JOURNAL);
    made = side_init(&cut->side[1], LEDGER_PARTS_MAX, STORAGE_LEDGER,
                     STORAGE_LEDGER_JOURNAL) &&
           made;
    made = side_init(&cut->side[WATCHES], 1, STORAGE_NAMES,
                     STORAGE_NAMES_JOURNAL) &&
           made;
    for (uint32_t i = 0; i < RESTS; i++) {
        buf_init(&cut->rest[i], (size_t)256 << 20);
    }
    if (!made) {
        storage_cut_free(cut);
        return NULL;
    }
    cut->source = *source;
    if (source->piece_lines == 0) {
        cut->source.piece_lines = PIECE_LINES;
    }
    mark_all(cut);
    if (source->mirror != NULL) {
        mirror_watch(source->mirror, &cut->side[0].watch);
    }
    if (source->ledger != NULL) {
        ledger_watch(source->ledger, &cut->side[1].watch);
    }
    return cut;
}

void
storage_cut_free(struct storage_cut *cut)
{
    if (cut == NULL) {
        return;
    }
    if (cut->source.mirror != NULL) {
        mirror_watch(cut->source.mirror, NULL);
    }
    if (cut->source.ledger != NULL) {
        ledger_watch(cut->source.ledger, NULL);
    }
    if (cut_walks(cut)) {
        watch_names(cut, false);
    }
    for (uint32_t i = 0; i < JOURNALS; i++) {
        free(cut->side[i].watch.dirty);
        words_fini(&cut->side[i].journal);
        words_fini(&cut->side[i].image);
    }
    for (uint32_t i = 0; i < RESTS; i++) {
        buf_fini(&cut->rest[i]);
    }
    radix_pages_free(cut->belief);
    free(cut);
}

void
storage_cut_begin(struct storage_cut *cut, bool whole)
{
    CHECK(cut->phase == PHASE_IDLE && cut_sound(cut));
    if (whole) {
        mark_all(cut);
    }
    for (uint32_t i = 0; i < JOURNALS; i++) {
        struct side *side = &cut->side[i];
        side->at = 0;
        side->chunks = 0;
        words_clear(&side->journal);
        side->watch.journal = &side->journal;
    }
    watch_names(cut, true);
    cut->names = cut->source.names.table != NULL;
    cut->names_at = 0;
    cut->names_part = 0;
    cut->names_pages = 0;
    cut->belief_pages = 0;
    cut->belief =
        cut->source.radix == NULL ? NULL : radix_pages_new(cut->source.radix);
    cut->phase = PHASE_WALK;
}

void
storage_cut_cancel(struct storage_cut *cut)
{
    if (cut->phase == PHASE_IDLE) {
        return;
    }
    for (uint32_t i = 0; i < JOURNALS; i++) {
        cut->side[i].watch.journal = NULL;
        words_fini(&cut->side[i].journal);
        words_fini(&cut->side[i].image);
        cut->side[i].reading = false;
    }
    watch_names(cut, false);
    cut->names = false;
    radix_pages_free(cut->belief);
    cut->belief = NULL;
    mark_all(cut);
    cut->phase = PHASE_IDLE;
    CHECK(cut_sound(cut));
}

bool
storage_cut_runs(const struct storage_cut *cut)
{
    return cut->phase != PHASE_IDLE;
}

void
storage_cut_done(struct storage_cut *cut, bool committed)
{
    if (!committed) {
        storage_cut_cancel(cut);
        return;
    }
    CHECK(cut->phase == PHASE_DONE);
    cut->phase = PHASE_IDLE;
}

static uint32_t
parts_of(const struct storage_cut *cut, const struct side *side)
{
    if (side->kind == STORAGE_MIRROR) {
        return cut->source.mirror == NULL ? 0 : mirror_parts();
    }
    return cut->source.ledger == NULL ? 0 : ledger_parts(cut->source.ledger);
}

uint32_t
storage_cut_changed(const struct storage_cut *cut, uint32_t *parts)
{
    uint32_t changed = 0;

    *parts = 0;
    for (uint32_t s = 0; s < WATCHES; s++) {
        uint32_t count = parts_of(cut, &cut->side[s]);
        *parts += count;
        for (uint32_t i = 0; i < count; i++) {
            changed += cut->side[s].watch.dirty[i];
        }
    }
    return changed;
}

/* ---- parts ---- */

/* The words become the part's; false: they failed. */
static bool
take_words(struct words *words, enum storage_kind kind, uint32_t number,
           struct storage_part *part)
{
    CHECK(kind > 0 && kind < STORAGE_KINDS);
    if (words->failed) {
        return false;
    }
    for (size_t i = 0; i < words->count; i++) {
        words->word[i] = htole64(words->word[i]);
    }
    *part = (struct storage_part){.kind = kind,
                                  .number = number,
                                  .bytes = (char *)words->word,
                                  .len = words->count * sizeof(uint64_t)};
    *words = (struct words){.words_max = words->words_max};
    return true;
}

static enum storage_step
step_of(bool made)
{
    return made ? STORAGE_STEP_PART : STORAGE_STEP_FAILED;
}

static enum storage_step
pull_journal(struct side *side, struct storage_part *part)
{
    uint64_t bytes = (uint64_t)(side->chunks + 1) * CHUNK_WORDS * 8;

    CHECK(side->journal.failed || side->journal.count > 0);
    if (bytes > STORAGE_JOURNAL_BYTES_MAX) {
        return STORAGE_STEP_FAILED;
    }
    return step_of(
        take_words(&side->journal, side->journal_kind, side->chunks++, part));
}

/* Reads on in a part; true: there is more of it. */
static bool
image(const struct storage_cut *cut, struct side *side, uint32_t number)
{
    CHECK(number < parts_of(cut, side));
    if (side->kind == STORAGE_MIRROR) {
        return mirror_image(cut->source.mirror, number, cut->source.piece_lines,
                            &side->read, &side->image);
    }
    ledger_image(cut->source.ledger, number, &side->image);
    return false;
}

/* The next part that changed; false: there is none. What changes in it from
 * here on is for the next snapshot, too. */
static bool
next_image(const struct storage_cut *cut, struct side *side)
{
    uint32_t count = parts_of(cut, side);

    CHECK(!side->reading);
    while (side->at < count && !side->watch.dirty[side->at]) {
        side->at++;
    }
    if (side->at >= count) {
        return false;
    }
    side->watch.dirty[side->at++] = false;
    side->read = (struct mirror_reading){0};
    words_clear(&side->image);
    return true;
}

static enum storage_step
pull_image(struct storage_cut *cut, struct side *side,
           struct storage_part *part)
{
    CHECK(!side->reading || side->at > 0);
    if (!side->reading && !next_image(cut, side)) {
        return STORAGE_STEP_WALKED;
    }
    side->reading = image(cut, side, side->at - 1);
    if (side->reading) {
        return STORAGE_STEP_MORE;
    }
    return step_of(take_words(&side->image, side->kind, side->at - 1, part));
}

static enum storage_step
pull_belief(struct storage_cut *cut, struct storage_part *part)
{
    struct words out;

    CHECK(cut->belief != NULL);
    words_init(&out, IMAGE_WORDS);
    if (!radix_pages_next(cut->belief, &out, BELIEF_WORDS)) {
        radix_pages_free(cut->belief);
        cut->belief = NULL;
    }
    bool made = take_words(&out, STORAGE_BELIEF, cut->belief_pages++, part);
    words_fini(&out);
    return step_of(made);
}

/*
 * A page of one table. A table that is lost or begins anew between two of its
 * pages says so in the journal. If a stream is removed meanwhile, another one may
 * be passed over: its names are not whole, which restoring notices.
 */
static enum storage_step
pull_names(struct storage_cut *cut, struct storage_part *part)
{
    const struct storage_naming *names = &cut->source.names;
    const struct names *table = NULL;
    struct event_stream stream;
    struct words out;

    CHECK(cut->names && cut->names_part < NAMES_PARTS);
    if (!names->table(names->context, cut->names_at, &stream, &table)) {
        cut->names = false;
        return STORAGE_STEP_MORE;
    }
    words_init(&out, IMAGE_WORDS);
    if (table != NULL) {
        names_copy_page(table, stream, &cut->names_part, NAMES_WORDS, &out);
    }
    if (table == NULL || cut->names_part == NAMES_PARTS) {
        cut->names_at++;
        cut->names_part = 0;
    }
    if (out.count == 0 && !out.failed) {
        return STORAGE_STEP_MORE;
    }
    bool made = take_words(&out, STORAGE_NAMES, cut->names_pages++, part);
    words_fini(&out);
    return step_of(made);
}

static enum storage_step
walk(struct storage_cut *cut, struct storage_part *part)
{
    CHECK(cut->phase == PHASE_WALK || cut->phase == PHASE_WALKED);
    for (uint32_t i = 0; i < JOURNALS; i++) {
        struct side *side = &cut->side[i];
        if (side->journal.failed || side->journal.count >= CHUNK_WORDS) {
            return pull_journal(side, part);
        }
    }
    for (uint32_t i = 0; i < WATCHES; i++) {
        enum storage_step step = pull_image(cut, &cut->side[i], part);
        if (step != STORAGE_STEP_WALKED) {
            return step;
        }
    }
    if (cut->names) {
        return pull_names(cut, part);
    }
    if (cut->belief != NULL) {
        return pull_belief(cut, part);
    }
    cut->phase = PHASE_WALKED;
    return STORAGE_STEP_WALKED;
}

static enum storage_step
pull_rest(struct storage_cut *cut, struct storage_part *part)
{
    CHECK(cut->phase == PHASE_REST);
    for (uint32_t i = 0; i < JOURNALS; i++) {
        if (!MUTANT(NO_JOURNAL) &&
            (cut->side[i].journal.failed || cut->side[i].journal.count > 0)) {
            return pull_journal(&cut->side[i], part);
        }
    }
    if (cut->rest_at < RESTS) {
        struct buf *buf = &cut->rest[cut->rest_at];
        bool made = !buf->failed;
        *part = (struct storage_part){.kind = rest_kinds[cut->rest_at++],
                                      .bytes = buf->ptr,
                                      .len = buf->len};
        if (made) {
            buf_init(buf, buf->max_bytes);
        }
        return step_of(made);
    }
    cut->phase = PHASE_DONE;
    return STORAGE_STEP_DONE;
}

enum storage_step
storage_cut_next(struct storage_cut *cut, struct storage_part *part)
{
    enum storage_step step = STORAGE_STEP_DONE;

    CHECK(cut->phase != PHASE_IDLE && cut_sound(cut));
    CHECK(part != NULL);
    *part = (struct storage_part){0};
    switch (cut->phase) {
    case PHASE_WALK:
    case PHASE_WALKED: /* the end may be long in coming */
        step = walk(cut, part);
        break;
    case PHASE_REST:
        step = pull_rest(cut, part);
        break;
    case PHASE_IDLE:
    case PHASE_DONE:
    default:
        break;
    }
    if (step == STORAGE_STEP_FAILED) {
        *part = (struct storage_part){0};
        storage_cut_cancel(cut);
    }
    return step;
}

/* ---- the end ---- */

static void
put_streams(struct storage_cut *cut, const struct storage_facts *facts,
            struct storage_about *about)
{
    CHECK(facts->streams_count == 0 || facts->streams != NULL);
    for (uint32_t i = 0; i < facts->streams_count; i++) {
        struct storage_stream stream = facts->streams[i];
        if (stream.slot != STORAGE_NONE) {
            stream.blocks = mirror_slot_blocks(cut->source.mirror, stream.slot);
            stream.digest = mirror_slot_digest(cut->source.mirror, stream.slot);
        }
        if (stream.ledger != STORAGE_NONE && cut->source.ledger != NULL) {
            stream.ledger_blocks =
                ledger_blocks(cut->source.ledger, stream.ledger);
        }
        about->blocks += stream.blocks;
        about->ledger_blocks += stream.ledger_blocks;
        storage_put_stream(&cut->rest[0], &stream);
    }
    about->streams = facts->streams_count;
}

void
storage_cut_end(struct storage_cut *cut, const struct storage_facts *facts,
                struct storage_about *about)
{
    CHECK(cut->phase == PHASE_WALKED);
    CHECK(cut->source.mirror == NULL || (facts != NULL && about != NULL));
    for (uint32_t i = 0; i < JOURNALS; i++) {
        cut->side[i].watch.journal = NULL;
    }
    watch_names(cut, false);
    for (uint32_t i = 0; i < RESTS; i++) {
        buf_clear(&cut->rest[i]);
    }
    cut->rest_at = cut->source.mirror == NULL ? RESTS : 0;
    cut->phase = PHASE_REST;
    CHECK(cut_sound(cut));
    if (cut->source.mirror == NULL) {
        return;
    }
    about->blocks = 0;
    about->ledger_blocks = 0;
    put_streams(cut, facts, about);
    for (uint32_t i = 0; i < facts->workers_count; i++) {
        storage_put_worker(&cut->rest[1], &facts->workers[i]);
    }
    for (uint32_t i = 0; i < facts->members_count; i++) {
        storage_put_member(&cut->rest[2], &facts->members[i]);
    }
    for (uint32_t i = 0; facts->belief_workers != NULL && i < WORKERS_MAX;
         i++) {
        put_u64(&cut->rest[3], facts->belief_workers[i]);
    }
    buf_add_slice(&cut->rest[4], facts->learned);
}
