/* The tables of a status that grow with the fleet: workers, and their streams.
 * Of many, those that are well and alike have one row. */
#include <stdio.h>

#include "node/cli/status_internal.h"

/* What a worker holds by its events, and how they are: the worst of its
 * ranks'. */
static double
held_by_events(const struct json_value *root, struct slice worker,
               struct slice *state)
{
    uint32_t count;
    const struct json_value *rows = status_list(root, "events", &count);
    double blocks = 0;

    *state = SLICE("none");
    for (uint32_t i = 0; i < count; i++) {
        if (!slice_equal(status_text(&rows[i], "worker"), worker)) {
            continue;
        }
        blocks += status_number(&rows[i], "blocks");
        if (slice_equal(*state, SLICE("none")) ||
            slice_equal(*state, SLICE("live"))) {
            *state = status_text(&rows[i], "state");
        }
    }
    return blocks;
}

/* A worker, or several that are alike: their sums, and the fullest cache. */
struct worker_row {
    uint32_t count;
    struct slice id; /* of the first one */
    struct slice state;
    struct slice events;
    double here;
    double all;
    double waiting;
    double kv_usage;
    double blocks;
};

static struct worker_row
read_worker(const struct json_value *root, const struct json_value *w)
{
    struct worker_row row = {.count = 1,
                             .id = status_text(w, "id"),
                             .state = status_text(w, "state"),
                             .here = status_number(w, "inflight"),
                             .waiting = status_number(w, "waiting"),
                             .kv_usage = status_number(w, "kv_usage")};

    row.blocks = held_by_events(root, row.id, &row.events);
    if (slice_equal(row.events, SLICE("none"))) {
        row.blocks = status_number(w, "belief_blocks");
    }
    row.all = row.here + status_number(w, "inflight_peers") +
              status_number(w, "inflight_foreign");
    return row;
}

static void
join_worker(struct worker_row *row, const struct worker_row *other)
{
    row->count += other->count;
    row->here += other->here;
    row->all += other->all;
    row->waiting += other->waiting;
    row->blocks += other->blocks;
    row->kv_usage =
        other->kv_usage > row->kv_usage ? other->kv_usage : row->kv_usage;
}

/* The cell that says whose row it is. */
static void
put_whose(struct buf *out, struct slice id, uint32_t count, const char *what)
{
    char text[32];

    if (count > 1) {
        (void)snprintf(text, sizeof text, "%u %s", count, what);
        id = slice_of(text);
    }
    status_put_cell(out, id, 26);
}

static void
put_worker(struct buf *out, const struct worker_row *row)
{
    put_whose(out, row->id, row->count, "workers");
    status_put_cell(out, row->state, 10);
    buf_printf(out, "%5.0f %5.0f %5.0f %3.0f%% %8.0f ", row->here, row->all,
               row->waiting, 100 * row->kv_usage, row->blocks);
    status_put(out, row->events);
    buf_add_text(out, "\n");
}

static void
put_left(struct buf *out, uint32_t count)
{
    if (count != 0) {
        buf_printf(out, "and %u more: --json\n", count);
    }
}

/* Adds the row to those alike, or as one of its own. False: there is no room. */
static bool
add_worker(struct worker_row kinds[STATUS_ROWS_MAX], uint32_t *count,
           const struct worker_row *row, bool alone)
{
    uint32_t at = alone ? *count : 0;

    CHECK(*count <= STATUS_ROWS_MAX);
    while (at < *count && !(slice_equal(kinds[at].state, row->state) &&
                            slice_equal(kinds[at].events, row->events))) {
        at++;
    }
    if (at < *count) {
        join_worker(&kinds[at], row);
    } else if (at < STATUS_ROWS_MAX) {
        kinds[(*count)++] = *row;
    }
    return at < STATUS_ROWS_MAX;
}

void
status_put_workers(struct buf *out, const struct json_value *root)
{
    uint32_t count;
    const struct json_value *rows = status_list(root, "workers", &count);
    struct worker_row kinds[STATUS_ROWS_MAX];
    bool many = count > STATUS_ROWS_MAX;
    uint32_t shown = 0;
    uint32_t left = 0;

    buf_add_text(out, count != 0
                          ? "\nWORKER                     STATE       HERE   "
                            "ALL  WAIT   KV   BLOCKS EVENTS\n"
                          : "");
    for (unsigned turn = many ? 0 : 1; turn < 2; turn++) {
        for (uint32_t i = 0; i < count; i++) {
            bool alone = !many || !status_flag(&rows[i], "eligible");
            if (alone == (turn == 1)) {
                struct worker_row row = read_worker(root, &rows[i]);
                left += !add_worker(kinds, &shown, &row, alone);
            }
        }
    }
    for (uint32_t i = 0; i < shown; i++) {
        put_worker(out, &kinds[i]);
    }
    put_left(out, left);
}

/* A rank's stream, or several: their sum, and the longest lag. */
struct stream_row {
    uint32_t count;
    struct slice worker; /* of the first one */
    struct slice state;
    struct slice readers;
    double rank;
    double lag;
    double blocks;
};

static struct stream_row
read_stream(const struct json_value *stream)
{
    return (struct stream_row){.count = 1,
                               .worker = status_text(stream, "worker"),
                               .state = status_text(stream, "state"),
                               .readers = status_text(stream, "readers"),
                               .rank = status_number(stream, "rank"),
                               .lag = status_number(stream, "lag"),
                               .blocks = status_number(stream, "blocks")};
}

/* As add_worker(). */
static bool
add_stream(struct stream_row kinds[STATUS_ROWS_MAX], uint32_t *count,
           const struct stream_row *row, bool alone)
{
    uint32_t at = alone ? *count : 0;

    CHECK(*count <= STATUS_ROWS_MAX);
    while (at < *count && !(slice_equal(kinds[at].state, row->state) &&
                            slice_equal(kinds[at].readers, row->readers))) {
        at++;
    }
    if (at < *count) {
        kinds[at].count++;
        kinds[at].blocks += row->blocks;
        kinds[at].lag = row->lag > kinds[at].lag ? row->lag : kinds[at].lag;
    } else if (at < STATUS_ROWS_MAX) {
        kinds[(*count)++] = *row;
    }
    return at < STATUS_ROWS_MAX;
}

static void
put_stream(struct buf *out, const struct stream_row *row)
{
    put_whose(out, row->worker, row->count, "ranks");
    if (row->count > 1) {
        buf_printf(out, "%4s ", "");
    } else {
        buf_printf(out, "%4.0f ", row->rank);
    }
    status_put_cell(out, row->state, 9);
    buf_printf(out, "%5.0f %8.0f ", row->lag, row->blocks);
    status_put(out, row->readers);
    buf_add_text(out, "\n");
}

void
status_put_streams(struct buf *out, const struct json_value *root)
{
    uint32_t members;
    uint32_t count;
    const struct json_value *rows = status_list(root, "streams", &count);
    struct stream_row kinds[STATUS_ROWS_MAX];
    bool many = count > STATUS_ROWS_MAX;
    uint32_t shown = 0;
    uint32_t left = 0;

    (void)status_list(root, "members", &members);
    if (members < 2 || count == 0) {
        return;
    }
    buf_add_text(out, "\nEVENTS OF                  RANK STATE       LAG   "
                      "BLOCKS READ BY\n");
    for (unsigned turn = many ? 0 : 1; turn < 2; turn++) {
        for (uint32_t i = 0; i < count; i++) {
            struct stream_row row = read_stream(&rows[i]);
            bool alone = !many || !slice_equal(row.state, SLICE("complete"));
            if (alone == (turn == 1)) {
                left += !add_stream(kinds, &shown, &row, alone);
            }
        }
    }
    for (uint32_t i = 0; i < shown; i++) {
        put_stream(out, &kinds[i]);
    }
    put_left(out, left);
}
