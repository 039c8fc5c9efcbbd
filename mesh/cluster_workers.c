/* Which node reads which worker's events, and how a worker is handed over. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mesh/cluster_internal.h"

/* The worker's index, or where it would be inserted. */
static uint32_t
place_of(const struct cluster *c, uint64_t id)
{
    uint32_t low = 0;
    uint32_t high = c->workers_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (c->workers[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    CHECK(low <= c->workers_count);
    return low;
}

struct cluster_worker *
cluster_worker_of(const struct cluster *c, uint64_t id)
{
    uint32_t at = place_of(c, id);

    return at < c->workers_count && c->workers[at].id == id ? &c->workers[at]
                                                            : NULL;
}

/* Writes the readers' rows, in order of rank. */
static uint32_t
rank_rows(const struct cluster *c, uint64_t worker,
          const struct cluster_row *ranked[MEMBERS_MAX])
{
    static const struct cluster_worker unknown = {.id = 0};
    struct event_stream stream = {.worker =
                                      worker}; /* rank 0 stands for all ranks */
    const struct cluster_worker *w = cluster_worker_of(c, worker);
    struct owner_member members[MEMBERS_MAX];
    uint32_t rows[MEMBERS_MAX];
    uint32_t order[MEMBERS_MAX];
    uint32_t count = 0;

    w = w != NULL ? w : &unknown;
    for (uint32_t i = 0; i < c->rows_count; i++) {
        const struct cluster_row *row = &c->rows[i];
        if (cluster_row_counts(row)) {
            rows[count] = i;
            members[count++] = (struct owner_member){
                .name = row->name_hash,
                .near = island_path_shared(&row->island, &w->island),
                .unable = cluster_claims_say(c, row->id.word[0], worker),
            };
        }
    }
    uint32_t wanted =
        count <= c->config.replicas_all ? count : c->config.replicas;
    uint32_t len = owner_rank(&stream, members, count, order, wanted);

    CHECK(count <= c->counted && len <= wanted);
    for (uint32_t i = 0; i < len; i++) {
        ranked[i] = &c->rows[rows[order[i]]];
    }
    return len;
}

uint32_t
cluster_readers(const struct cluster *c, uint64_t worker, const char **names,
                uint32_t max)
{
    const struct cluster_row *ranked[MEMBERS_MAX];
    uint32_t count = rank_rows(c, worker, ranked);

    CHECK(names != NULL || max == 0);
    for (uint32_t i = 0; i < count && i < max; i++) {
        names[i] = ranked[i]->name;
    }
    return count;
}

/* Tells gossip. A reader that is no longer in the ranks goes on reading, and
 * gossip decides what it pushes. */
static void
tell_role(struct cluster *c, struct cluster_worker *w, uint32_t rank,
          uint64_t primary)
{
    CHECK(w->ranks > 0);
    CHECK(rank < MEMBERS_MAX || rank == OWNER_NO_RANK);
    CHECK(primary != c->self);
    if (w->rank == rank && w->primary == primary) {
        return;
    }
    w->rank = rank;
    w->primary = primary;
    for (uint32_t i = 0; i < w->ranks; i++) {
        gossip_role(c->gossip,
                    (struct event_stream){.worker = w->id, .rank = i}, rank,
                    primary, c->now_us);
    }
}

/* All members that count say that they cannot reach it. */
static bool
nobody_can(const struct cluster *c, uint64_t worker)
{
    for (uint32_t i = 0; i < c->rows_count; i++) {
        const struct cluster_row *row = &c->rows[i];
        if (cluster_row_counts(row) &&
            !cluster_claims_say(c, row->id.word[0], worker)) {
            return false;
        }
    }
    return true;
}

static void
tell_unread(struct cluster *c, struct cluster_worker *w, bool unread)
{
    CHECK(w->ranks > 0);
    for (uint32_t i = 0; i < w->ranks && w->unread != unread; i++) {
        gossip_unread(c->gossip,
                      (struct event_stream){.worker = w->id, .rank = i}, unread,
                      c->now_us);
    }
    w->unread = unread;
}

static bool
first_is_suspect(const struct cluster *c, const struct cluster_worker *w)
{
    const struct cluster_row *row =
        w->primary != 0 ? cluster_row_of(c, w->primary) : NULL;

    return row != NULL && row->state == MEMBER_SUSPECT;
}

static struct owner_view
view_of(const struct cluster *c, const struct cluster_worker *w)
{
    return (struct owner_view){.rank = w->rank,
                               .first_unwell = first_is_suspect(c, w)};
}

/* The deltas of all its streams come from the member that is first. */
static bool
heard_first(const struct cluster *c, const struct cluster_worker *w)
{
    CHECK(w->ranks > 0);
    for (uint32_t i = 0; i < w->ranks; i++) {
        if (!gossip_primary_heard(
                c->gossip, (struct event_stream){.worker = w->id, .rank = i})) {
            return false;
        }
    }
    return true;
}

static void
update(struct cluster *c, struct cluster_worker *w)
{
    struct owner_view view = view_of(c, w);

    (void)owner_update(&w->owner, &view, c->config.hand_over_ms, c->now_us);
    if (w->owner.handing_over && heard_first(c, w)) {
        (void)owner_heard_first(&w->owner, &view);
    }
}

/* Counts the workers being handed over, and finds the earliest deadline. */
static void
count_handing(struct cluster *c)
{
    c->handing = 0;
    c->owners_due_us = UINT64_MAX;
    c->reads_at = 0;
    for (uint32_t i = 0; i < c->workers_count; i++) {
        uint64_t due_us = owner_deadline(&c->workers[i].owner);

        c->handing += c->workers[i].owner.handing_over;
        c->owners_due_us =
            due_us < c->owners_due_us ? due_us : c->owners_due_us;
    }
    CHECK(c->handing <= c->workers_count);
    CHECK((c->handing > 0) == (c->owners_due_us != UINT64_MAX));
}

static void
rank_one(struct cluster *c, struct cluster_worker *w)
{
    const struct cluster_row *ranked[MEMBERS_MAX];
    uint32_t count = rank_rows(c, w->id, ranked);
    uint32_t mine = OWNER_NO_RANK;

    CHECK(!c->left);
    for (uint32_t i = 0; i < count; i++) {
        mine = ranked[i]->self ? i : mine;
    }
    bool other = count > 0 && !ranked[0]->self;
    tell_role(c, w, mine, other ? ranked[0]->id.word[0] : 0);
    tell_unread(c, w, count > 0 && nobody_can(c, w->id));
    update(c, w);
}

void
cluster_workers_rank(struct cluster *c)
{
    for (uint32_t i = 0; i < c->workers_count; i++) {
        rank_one(c, &c->workers[i]);
    }
    count_handing(c);
}

void
cluster_workers_tick(struct cluster *c)
{
    CHECK(!c->left);
    if (c->now_us < c->owners_due_us) {
        return;
    }
    for (uint32_t i = 0; i < c->workers_count; i++) {
        if (c->workers[i].owner.handing_over) {
            update(c, &c->workers[i]);
        }
    }
    count_handing(c);
}

/* Deltas arrived: some of the first readers may have pushed. */
void
cluster_workers_heard(struct cluster *c)
{
    bool any = false;

    CHECK(c->handing > 0);
    for (uint32_t i = 0; i < c->workers_count && c->handing > 0; i++) {
        struct cluster_worker *w = &c->workers[i];
        if (w->owner.handing_over && heard_first(c, w)) {
            struct owner_view view = view_of(c, w);
            (void)owner_heard_first(&w->owner, &view);
            any = true;
        }
    }
    if (any) {
        count_handing(c);
    }
}

bool
cluster_reads_next(struct cluster *c, struct cluster_out *out)
{
    CHECK(c->reads_at <= c->workers_count);
    CHECK(c->stats.reads_ended <= c->stats.reads_begun);
    for (; c->reads_at < c->workers_count; c->reads_at++) {
        struct cluster_worker *w = &c->workers[c->reads_at];
        bool reads = w->owner.role != OWNER_NONE;

        if (reads != w->reading) {
            w->reading = reads;
            c->stats.reads_begun += reads;
            c->stats.reads_ended += !reads;
            *out = (struct cluster_out){
                .kind = CLUSTER_READ, .worker = w->id, .on = reads};
            return true;
        }
    }
    return false;
}

/* The set of workers */

static bool
grow(struct cluster *c)
{
    uint32_t size = c->workers_size > 0 ? c->workers_size * 2 : 16;

    CHECK(c->workers_count <= c->workers_size);
    if (c->workers_count < c->workers_size) {
        return true;
    }
    struct cluster_worker *workers =
        realloc(c->workers, size * sizeof *c->workers);
    if (workers == NULL) {
        return false;
    }
    c->workers = workers;
    c->workers_size = size;
    return true;
}

static void
remove_streams(struct cluster *c, uint64_t worker, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        gossip_stream_remove(c->gossip,
                             (struct event_stream){.worker = worker, .rank = i},
                             c->now_us);
    }
}

/* Adds the streams of ranks from..to-1; when one fails, none of them. */
static int
add_streams(struct cluster *c, uint64_t worker, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        int rc = gossip_stream_add(
            c->gossip, (struct event_stream){.worker = worker, .rank = i},
            c->now_us);
        if (rc != 0) {
            remove_streams(c, worker, from, i);
            return rc;
        }
    }
    return 0;
}

/* The count of ranks changed: tells gossip the roles again. */
static int
change_ranks(struct cluster *c, struct cluster_worker *w, uint32_t ranks)
{
    int rc = add_streams(c, w->id, w->ranks, ranks);

    CHECK(ranks > 0 && ranks != w->ranks);
    if (rc != 0) {
        return rc;
    }
    remove_streams(c, w->id, ranks, w->ranks);
    w->ranks = ranks;
    uint32_t rank = w->rank;
    w->rank = OWNER_NO_RANK - 1;
    tell_role(c, w, rank, w->primary);
    bool unread = w->unread;
    w->unread = false;
    tell_unread(c, w, unread);
    return 0;
}

static uint64_t
seen(const struct cluster *c)
{
    struct gossip_stats stats;

    gossip_stats(c->gossip, &stats);
    return stats.vectors_in + stats.summaries_equal;
}

void
cluster_worker_told(struct cluster *c, const struct roster_entry *entry)
{
    CHECK(entry != NULL);
    if (!entry->removed) {
        c->seen_at_add = seen(c);
    }
}

/* A worker that is known is told of again. */
static int
change(struct cluster *c, struct cluster_worker *w, uint32_t ranks,
       const struct island_path *island)
{
    bool moved = memcmp(&w->island, island, sizeof *island) != 0;
    int rc = w->ranks != ranks ? change_ranks(c, w, ranks) : 0;

    w->island = *island;
    if (moved && !c->left) {
        rank_one(c, w);
        count_handing(c);
    }
    return rc;
}

int
cluster_worker_add(struct cluster *c, uint64_t worker, uint32_t ranks,
                   const struct island_path *island, uint64_t now_us)
{
    struct cluster_worker *known = cluster_worker_of(c, worker);

    CHECK(ranks > 0 && island != NULL);
    c->now_us = now_us > c->now_us ? now_us : c->now_us;
    if (known != NULL) {
        return change(c, known, ranks, island);
    }
    if (!grow(c)) {
        return -ENOMEM;
    }
    int rc = add_streams(c, worker, 0, ranks);
    if (rc != 0) {
        return rc;
    }
    uint32_t at = place_of(c, worker);
    struct cluster_worker *w = &c->workers[at];

    CHECK(c->workers_count < c->workers_size);
    CHECK(at == c->workers_count || w->id > worker);
    memmove(w + 1, w, (c->workers_count - at) * sizeof *w);
    *w = (struct cluster_worker){
        .id = worker, .island = *island, .ranks = ranks, .rank = OWNER_NO_RANK};
    c->workers_count++;
    c->seen_at_add = seen(c);
    if (!c->left) {
        rank_one(c, w);
    }
    count_handing(c);
    return 0;
}

void
cluster_worker_remove(struct cluster *c, uint64_t worker, uint64_t now_us)
{
    struct cluster_worker *w = cluster_worker_of(c, worker);

    CHECK(now_us != UINT64_MAX);
    c->now_us = now_us > c->now_us ? now_us : c->now_us;
    if (w == NULL) {
        return;
    }
    bool unable = w->unable;

    remove_streams(c, worker, 0, w->ranks);
    memmove(w, w + 1,
            (size_t)(c->workers + c->workers_count - (w + 1)) * sizeof *w);
    c->workers_count--;
    count_handing(c);
    if (unable) {
        cluster_claims_changed(c);
    }
}

void
cluster_unable(struct cluster *c, uint64_t worker, bool unable, uint64_t now_us)
{
    struct cluster_worker *w = cluster_worker_of(c, worker);

    CHECK(now_us != UINT64_MAX);
    c->now_us = now_us > c->now_us ? now_us : c->now_us;
    if (w == NULL || w->unable == unable || c->left) {
        return;
    }
    w->unable = unable;
    cluster_claims_changed(c);
    rank_one(c, w);
    count_handing(c);
}
