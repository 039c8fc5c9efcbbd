/* A node's lease and its jobs, over the mesh's list of workers. */
#include "node/peers/scale_seat.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void
id_of(const char *key, char id[ROSTER_ID_MAX])
{
    (void)snprintf(id, ROSTER_ID_MAX, SCALE_JOB_PREFIX "%s", key);
}

void
scale_seat_init(struct scale_seat *seat, const char *name, uint32_t lease_us,
                uint64_t now_us)
{
    *seat = (struct scale_seat){.count = 0};
    scale_lease_init(&seat->lease, owner_name(name), lease_us, now_us);
}

/* Jobs */

struct scale_job *
scale_seat_find(struct scale_seat *seat, const char *key)
{
    for (uint32_t i = 0; i < seat->count; i++) {
        if (strcmp(seat->job[i].key, key) == 0) {
            return &seat->job[i];
        }
    }
    return NULL;
}

struct scale_job *
scale_seat_find_worker(struct scale_seat *seat, const char *worker)
{
    for (uint32_t i = 0; i < seat->count && worker[0] != '\0'; i++) {
        if (strcmp(seat->job[i].record.worker, worker) == 0) {
            return &seat->job[i];
        }
    }
    return NULL;
}

struct scale_job *
scale_seat_find_draining(struct scale_seat *seat, const char *model)
{
    for (uint32_t i = 0; i < seat->count; i++) {
        if (seat->job[i].record.state == SCALE_DRAINS && seat->job[i].worked &&
            strcmp(seat->job[i].record.model, model) == 0) {
            return &seat->job[i];
        }
    }
    return NULL;
}

struct scale_job *
scale_seat_find_last(struct scale_seat *seat, const char *pool)
{
    struct scale_job *last = NULL;

    for (uint32_t i = 0; i < seat->count; i++) {
        struct scale_job *job = &seat->job[i];
        if (strcmp(job->record.pool, pool) != 0) {
            continue;
        }
        bool after = last == NULL || job->record.number > last->record.number ||
                     (job->record.number == last->record.number &&
                      last->record.worker[0] == '\0');
        last = after ? job : last;
    }
    return last;
}

static uint32_t
free_number(const struct scale_seat *seat, const char *pool)
{
    bool taken[SCALE_JOBS_MAX + 1] = {false};
    uint32_t number = 0;

    for (uint32_t i = 0; i < seat->count; i++) {
        uint32_t other = seat->job[i].record.number;
        if (strcmp(seat->job[i].record.pool, pool) != 0) {
            continue;
        }
        taken[other < SCALE_JOBS_MAX ? other : SCALE_JOBS_MAX] = true;
    }
    while (taken[number] && number < SCALE_JOBS_MAX) {
        number++;
    }
    return number;
}

uint32_t
scale_seat_coming(const struct scale_seat *seat, const char *model)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < seat->count; i++) {
        const struct scale_job *job = &seat->job[i];
        count += scale_job_is_coming(job) &&
                 (model == NULL || strcmp(job->record.model, model) == 0);
    }
    return count;
}

uint32_t
scale_seat_count(const struct scale_seat *seat, const char *model,
                 const char *pool)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < seat->count; i++) {
        const struct scale_job *job = &seat->job[i];
        bool stays = scale_job_is_coming(job) ||
                     (job->record.state == SCALE_WORKS && !job->goes);
        count += stays && strcmp(job->record.pool, pool) == 0 &&
                 (model == NULL || strcmp(job->record.model, model) == 0);
    }
    return count;
}

struct scale_record_of
scale_seat_record_of(const struct scale_seat *seat, const char *pool)
{
    for (uint32_t i = 0; i < seat->records; i++) {
        if (strcmp(seat->record[i].pool, pool) == 0) {
            return seat->record[i].record;
        }
    }
    return (struct scale_record_of){.missed = 0};
}

static struct scale_record_of *
find_record(struct scale_seat *seat, const char *pool)
{
    uint32_t at = 0;
    uint32_t oldest = 0;

    while (at < seat->records && strcmp(seat->record[at].pool, pool) != 0) {
        oldest = seat->record[at].record.missed_us <
                         seat->record[oldest].record.missed_us
                     ? at
                     : oldest;
        at++;
    }
    if (at == seat->records) {
        at = at < SCALE_POOLS_MAX ? seat->records++ : oldest;
        seat->record[at] = (struct scale_seat_record){.record = {.missed = 0}};
        (void)snprintf(seat->record[at].pool, SCALE_POOL_MAX, "%s", pool);
    }
    return &seat->record[at].record;
}

/* An engine comes no more: it did, or was given up. */
static void
note_outcome(struct scale_seat *seat, const struct scale_job *job,
             uint64_t now_us)
{
    struct scale_record_of *record = find_record(seat, job->record.pool);

    if (job->record.state == SCALE_WORKS) {
        scale_record_came(record);
    } else {
        scale_record_missed(record, now_us);
    }
}

static bool
was_ended(const struct scale_seat *seat, const char *key)
{
    bool found = false;

    for (uint32_t i = 0; i < SCALE_ENDED_MAX && !found; i++) {
        found = strcmp(seat->ended[i], key) == 0;
    }
    return found;
}

static void
note_end(struct scale_seat *seat, const char key[SCALE_KEY_MAX])
{
    if (!was_ended(seat, key)) {
        uint32_t at = seat->ended_next++ % SCALE_ENDED_MAX;
        memcpy(seat->ended[at], key, SCALE_KEY_MAX);
    }
}

static void
hear(struct scale_seat *seat, const char *key,
     const struct scale_record *record, uint64_t now_us)
{
    struct scale_job *job = scale_seat_find(seat, key);
    struct scale_lease *lease = &seat->lease;
    bool back =
        job == NULL && was_ended(seat, key) && record->state != SCALE_ENDS;

    if (job == NULL && seat->count == SCALE_JOBS_MAX) {
        seat->left_out++;
        return;
    }
    if (job == NULL) {
        job = &seat->job[seat->count++];
        *job = (struct scale_job){.calling = false};
        (void)snprintf(job->key, sizeof job->key, "%s", key);
    }
    lease->seen = record->epoch > lease->seen ? record->epoch : lease->seen;
    bool comes = job->since_us != 0 && scale_job_is_coming(job);
    scale_job_heard(job, record, now_us);
    if (comes && !scale_job_is_coming(job)) {
        note_outcome(seat, job, now_us);
    }
    if (back) { /* the same on all nodes that know of its end */
        job->record.state = SCALE_ENDS;
        job->record.epoch++;
        job->undone = true;
    }
}

static int
put(struct cluster *cluster, const char *key, const struct scale_record *record,
    uint64_t now_us)
{
    char bytes[SCALE_RECORD_MAX];
    struct buf spec = buf_over(bytes, sizeof bytes);
    char id[ROSTER_ID_MAX];

    id_of(key, id);
    scale_record_put(record, &spec);
    return spec.failed ? ROSTER_E_SIZE
                       : roster_put(cluster_roster(cluster), id,
                                    buf_slice(&spec), now_us);
}

/* Puts the later record again where the list has an earlier one. */
static void
mend(struct scale_seat *seat, struct cluster *cluster, uint64_t now_us)
{
    for (uint32_t i = 0; i < seat->count; i++) {
        struct scale_job *job = &seat->job[i];
        if (job->undone && put(cluster, job->key, &job->record, now_us) == 0) {
            job->undone = false;
        }
    }
}

/* What was never told is not taken back. */
void
scale_seat_reach(struct scale_job *job, struct cluster *cluster, bool ready,
                 uint64_t now_us)
{
    const char *worker = job->record.worker;

    if (worker[0] != '\0' && (ready || job->told) &&
        scale_words_tell_reach(cluster, worker, ready, now_us)) {
        job->told = ready;
    }
}

/* What the list has no more is forgotten. */
static void
read_list(struct scale_seat *seat, struct cluster *cluster, uint64_t now_us)
{
    const struct roster *roster = cluster_roster(cluster);
    struct roster_entry entry;
    struct scale_record record;
    char id[ROSTER_ID_MAX];
    uint32_t kept = 0;

    seat->left_out = 0;
    for (uint32_t i = 0; i < seat->count; i++) {
        id_of(seat->job[i].key, id);
        if (roster_find(roster, id, &entry) && !entry.removed) {
            seat->job[kept++] = seat->job[i];
        } else {
            scale_seat_reach(&seat->job[i], cluster, false, now_us);
            note_end(seat, seat->job[i].key);
        }
    }
    seat->count = kept;
    for (uint32_t at = 0; roster_get(roster, at, &entry); at++) {
        const char *key = scale_job_key(entry.id);
        if (key != NULL && !entry.removed &&
            scale_record_get(entry.spec, &record)) {
            hear(seat, key, &record, now_us);
        }
    }
}

void
scale_seat_turn(struct scale_seat *seat, struct cluster *cluster,
                const struct scale_voting *voting, uint64_t now_us)
{
    struct scale_turn turn = {.voters = seat->words.voter,
                              .quorum = voting->quorum,
                              .lease_us = voting->lease_us,
                              .wall_s = voting->wall_s};

    scale_words_hear(cluster, &seat->words);
    turn.count = seat->words.count;
    turn.first = seat->words.first;
    scale_lease_turn(&seat->lease, &turn, now_us);
    scale_words_tell(cluster, &seat->lease.own, now_us);
    read_list(seat, cluster, now_us);
    mend(seat, cluster, now_us);
}

void
scale_seat_stop(struct scale_seat *seat, struct cluster *cluster,
                uint64_t now_us)
{
    const struct scale_word none = {.holder = 0};

    for (uint32_t i = 0; i < seat->count; i++) {
        scale_seat_reach(&seat->job[i], cluster, false, now_us);
    }
    seat->count = 0;
    scale_words_tell(cluster, &none, now_us);
}

/* What was said in this turn is not known to anybody yet. */
struct scale_facts
scale_seat_facts(const struct scale_seat *seat, struct cluster *cluster,
                 const struct scale_job *job, uint32_t quorum, uint64_t now_us)
{
    const struct roster *roster = cluster_roster(cluster);
    const struct scale_words *words = &seat->words;
    const char *worker = job->record.worker;
    bool same = words->digest == roster_digest(roster);
    struct roster_entry entry;
    bool there = worker[0] != '\0' && roster_find(roster, worker, &entry) &&
                 !entry.removed;

    return (struct scale_facts){
        .acts = scale_seat_acts(seat, now_us),
        .kept = same && scale_voters_know(words->voter, words->count,
                                          words->digest, quorum),
        .all_know = same && words->all_know,
        .there = there,
        .drains = there && entry.draining,
        .reached = there && scale_words_hear_reach(cluster, worker),
    };
}

int
scale_seat_say(struct scale_seat *seat, struct cluster *cluster,
               const char *key, const struct scale_record *record,
               uint64_t now_us)
{
    struct scale_record said = *record;
    uint32_t epoch = seat->lease.own.epoch;

    said.epoch = epoch > said.epoch ? epoch : said.epoch;
    int outcome = put(cluster, key, &said, now_us);
    if (outcome == 0) {
        hear(seat, key, &said, now_us);
    }
    return outcome;
}

int
scale_seat_ask(struct scale_seat *seat, struct cluster *cluster,
               const struct scale_order *order, char key[SCALE_KEY_MAX],
               uint64_t now_us)
{
    struct scale_record record = {.state = SCALE_ASKED,
                                  .number = free_number(seat, order->pool)};

    if (seat->count == SCALE_JOBS_MAX) {
        return ROSTER_E_FULL;
    }
    if (seat->made_epoch != seat->lease.own.epoch) {
        seat->made_epoch = seat->lease.own.epoch;
        seat->made = 0;
    }
    (void)snprintf(key, SCALE_KEY_MAX, "%" PRIu32 "-%" PRIu32,
                   seat->lease.own.epoch, ++seat->made);
    (void)snprintf(record.model, sizeof record.model, "%s", order->model);
    (void)snprintf(record.pool, sizeof record.pool, "%s", order->pool);
    return scale_seat_say(seat, cluster, key, &record, now_us);
}

int
scale_seat_forget(const struct scale_job *job, struct cluster *cluster,
                  uint64_t now_us)
{
    char id[ROSTER_ID_MAX];

    id_of(job->key, id);
    return roster_remove(cluster_roster(cluster), id, now_us);
}
