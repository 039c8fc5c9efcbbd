/* Two pages of metrics as lines of text. */
#include <stdio.h>
#include <string.h>

#include "index/base/check.h"
#include "node/cli/top_internal.h"

/* Values that both pages have, and their differences. */
struct pair {
    const struct top_sample *before; /* NULL: nothing to compare with */
    const struct top_sample *now;
    double seconds;
};

bool
top_comparable(const struct top_sample *before, const struct top_sample *now)
{
    const struct top_figure *then = &before->number[TOP_UPTIME];
    const struct top_figure *here = &now->number[TOP_UPTIME];

    return now->at_us > before->at_us && strcmp(before->node, now->node) == 0 &&
           then->known == here->known && here->value >= then->value &&
           now->number[TOP_REQUESTS].value >=
               before->number[TOP_REQUESTS].value;
}

/* By how much a number grew. */
static struct top_figure
grown(const struct pair *pair, enum top_number number)
{
    const struct top_figure *now = &pair->now->number[number];

    if (pair->before == NULL || !now->known ||
        !pair->before->number[number].known) {
        return (struct top_figure){.known = false};
    }
    return (struct top_figure){
        .value = now->value - pair->before->number[number].value,
        .known = true};
}

/* The worker on the page before, or NULL. */
static const struct top_worker *
earlier(const struct pair *pair, const struct top_worker *worker)
{
    for (uint32_t i = 0;
         pair->before != NULL && i < pair->before->workers_count; i++) {
        if (strcmp(pair->before->workers[i].id, worker->id) == 0) {
            return &pair->before->workers[i];
        }
    }
    return NULL;
}

static struct top_figure
worker_grown(const struct pair *pair, const struct top_worker *worker,
             enum top_worker_number number)
{
    const struct top_worker *before = earlier(pair, worker);

    if (before == NULL || !worker->number[number].known ||
        worker->number[number].value < before->number[number].value) {
        return (struct top_figure){.known = false};
    }
    return (struct top_figure){
        .value = worker->number[number].value - before->number[number].value,
        .known = true};
}

static struct top_figure
per_second(const struct pair *pair, struct top_figure figure)
{
    figure.value = pair->seconds > 0 ? figure.value / pair->seconds : 0;
    return figure;
}

static struct top_figure
part_of(struct top_figure part, struct top_figure whole)
{
    if (!part.known || !whole.known || whole.value <= 0) {
        return (struct top_figure){.known = false};
    }
    return (struct top_figure){.value = part.value / whole.value,
                               .known = true};
}

/* Figures as text */

#define FIGURE_ROOM 32

static const char *
count_text(struct top_figure figure, char out[FIGURE_ROOM])
{
    double value = figure.value;

    if (!figure.known) {
        (void)strcpy(out, "-");
    } else if (value >= 10e6) {
        (void)snprintf(out, FIGURE_ROOM, "%.1fM", value / 1e6);
    } else if (value >= 100e3) {
        (void)snprintf(out, FIGURE_ROOM, "%.0fk", value / 1e3);
    } else {
        (void)snprintf(out, FIGURE_ROOM, "%.0f", value);
    }
    return out;
}

static const char *
rate_text(struct top_figure figure, char out[FIGURE_ROOM])
{
    if (figure.known && figure.value < 100) {
        (void)snprintf(out, FIGURE_ROOM, "%.1f", figure.value);
        return out;
    }
    return count_text(figure, out);
}

static const char *
share_text(struct top_figure figure, char out[FIGURE_ROOM])
{
    if (!figure.known) {
        return strcpy(out, "-");
    }
    (void)snprintf(out, FIGURE_ROOM, "%.1f%%", 100 * figure.value);
    return out;
}

static const char *
time_text(struct top_figure us, char out[FIGURE_ROOM])
{
    double value = us.value;

    if (!us.known) {
        return strcpy(out, "-");
    }
    if (value < 1000) {
        (void)snprintf(out, FIGURE_ROOM, "%.0fus", value);
    } else if (value < 100e3) {
        (void)snprintf(out, FIGURE_ROOM, "%.1fms", value / 1e3);
    } else if (value < 1e6) {
        (void)snprintf(out, FIGURE_ROOM, "%.0fms", value / 1e3);
    } else {
        (void)snprintf(out, FIGURE_ROOM, "%.2fs", value / 1e6);
    }
    return out;
}

static const char *
age_text(struct top_figure seconds, char out[FIGURE_ROOM])
{
    uint64_t s = (uint64_t)seconds.value;

    if (!seconds.known) {
        (void)strcpy(out, "-");
    } else if (s < 60) {
        (void)snprintf(out, FIGURE_ROOM, "%us", (unsigned)s);
    } else if (s < 3600) {
        (void)snprintf(out, FIGURE_ROOM, "%um%02us", (unsigned)(s / 60),
                       (unsigned)(s % 60));
    } else if (s < 86400) {
        (void)snprintf(out, FIGURE_ROOM, "%uh%02um", (unsigned)(s / 3600),
                       (unsigned)(s / 60 % 60));
    } else {
        (void)snprintf(out, FIGURE_ROOM, "%ud%02uh", (unsigned)(s / 86400),
                       (unsigned)(s / 3600 % 24));
    }
    return out;
}

/* Of histograms with buckets like ours, one or several: none has not begun. */
static bool
has_times(const struct top_sample *sample, enum top_time time)
{
    return sample->buckets_count[time] % TOP_BUCKETS == 0;
}

/* The time within which that part of the requests between the pages was done:
 * as far as buckets tell, even within each. */
static struct top_figure
quantile(const struct pair *pair, enum top_time time, double part)
{
    struct top_figure none = {.known = false};
    double below = 0;

    if (pair->before == NULL || !has_times(pair->now, time) ||
        !has_times(pair->before, time)) {
        return none;
    }
    const double *now = pair->now->buckets[time];
    const double *before = pair->before->buckets[time];
    double all = now[TOP_BUCKETS - 1] - before[TOP_BUCKETS - 1];
    if (all <= 0) {
        return none;
    }
    for (uint32_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
        double up_to = now[i] - before[i];
        double from = i > 0 ? (double)histogram_bound_us[i - 1] : 0;
        if (up_to >= part * all && up_to > below) {
            double within = (part * all - below) / (up_to - below);
            return (struct top_figure){
                .value = from + within * ((double)histogram_bound_us[i] - from),
                .known = true};
        }
        below = up_to;
    }
    return (struct top_figure){
        .value = (double)histogram_bound_us[HISTOGRAM_BOUNDS - 1],
        .known = true};
}

/* Lines; the most important figures come first: narrow terminals truncate. */

static void
put_head(const struct pair *pair, struct buf *out)
{
    const struct top_sample *now = pair->now;
    char text[4][FIGURE_ROOM];

    buf_printf(out, "kvasir %s  node %s  %s  up %s",
               now->version[0] != '\0' ? now->version : "-",
               now->node[0] != '\0' ? now->node : "-",
               !now->number[TOP_READY].known       ? "-"
               : now->number[TOP_READY].value != 0 ? "ready"
                                                   : "NOT READY",
               age_text(now->number[TOP_UPTIME], text[0]));
    if (now->number[TOP_SNAPSHOT_AGE].known) {
        buf_printf(
            out, "  snapshot %s old%s",
            age_text(now->number[TOP_SNAPSHOT_AGE], text[0]),
            now->number[TOP_SNAPSHOT_FAILING].value != 0 ? ", FAILING" : "");
    }
    buf_printf(out, "\nmesh      %s alive  %s suspect  %s dead  %s left\n",
               count_text(now->members[TOP_ALIVE], text[0]),
               count_text(now->members[TOP_SUSPECT], text[1]),
               count_text(now->members[TOP_DEAD], text[2]),
               count_text(now->members[TOP_LEFT], text[3]));
}

static void
put_known(const struct pair *pair, struct buf *out)
{
    const struct top_figure *now = pair->now->number;
    char text[5][FIGURE_ROOM];

    buf_printf(out,
               "streams   %s followed  %s stale  %s batches behind   blocks %s "
               "exact  %s believed\n",
               count_text(now[TOP_STREAMS], text[0]),
               count_text(now[TOP_STREAMS_STALE], text[1]),
               count_text(now[TOP_BATCHES_BEHIND], text[2]),
               count_text(now[TOP_MIRROR_BLOCKS], text[3]),
               count_text(now[TOP_BELIEF_BLOCKS], text[4]));
}

static struct top_figure
sum(struct top_figure a, struct top_figure b)
{
    return (struct top_figure){.value = a.value + b.value,
                               .known = a.known && b.known};
}

static void
put_requests(const struct pair *pair, struct buf *out)
{
    struct top_figure affinity = grown(pair, TOP_AFFINITY);
    struct top_figure session = grown(pair, TOP_SESSION);
    struct top_figure placed = sum(affinity, grown(pair, TOP_BALANCE));
    struct top_figure refused =
        sum(grown(pair, TOP_OVERLOAD), grown(pair, TOP_NO_WORKER));
    char text[5][FIGURE_ROOM];

    if (session.known) { /* nodes that know of no sessions place none */
        placed = sum(placed, session);
    }
    buf_printf(out,
               "requests  %s/s  %s in flight  %s clients  affinity %s  "
               "session %s\n",
               rate_text(per_second(pair, grown(pair, TOP_REQUESTS)), text[0]),
               count_text(pair->now->number[TOP_INFLIGHT], text[1]),
               count_text(pair->now->number[TOP_CONNECTIONS], text[2]),
               share_text(part_of(affinity, placed), text[3]),
               share_text(part_of(session, placed), text[4]));
    buf_printf(
        out,
        "trouble   failed %s/s  severed %s/s  refused %s/s  retried %s/s  "
        "cancelled %s/s\n",
        rate_text(per_second(pair, grown(pair, TOP_FAILED)), text[0]),
        rate_text(per_second(pair, grown(pair, TOP_SEVERED)), text[1]),
        rate_text(per_second(pair, refused), text[2]),
        rate_text(per_second(pair, grown(pair, TOP_RETRIES)), text[3]),
        rate_text(per_second(pair, grown(pair, TOP_CANCELLED)), text[4]));
}

static void
put_times(const struct pair *pair, struct buf *out)
{
    static const char *const names[] = {"route", "first token", "whole"};
    struct top_figure prompt = grown(pair, TOP_PROMPT_TOKENS);
    char text[2][FIGURE_ROOM];

    buf_printf(
        out, "prompts   %s of %s tokens/s cached\n",
        share_text(part_of(grown(pair, TOP_CACHED_TOKENS), prompt), text[0]),
        rate_text(per_second(pair, prompt), text[1]));
    buf_add_text(out, "p50/p99  ");
    for (uint32_t i = 0; i < TOP_TIMES_COUNT; i++) {
        enum top_time time = (enum top_time)i;
        buf_printf(out, "%s %s %s / %s", i > 0 ? "  " : "", names[i],
                   time_text(quantile(pair, time, 0.50), text[0]),
                   time_text(quantile(pair, time, 0.99), text[1]));
    }
    buf_add_text(out, "\n");
}

static int
id_width(const struct top_sample *now)
{
    size_t width = sizeof("WORKER") - 1;

    for (uint32_t i = 0; i < now->workers_count; i++) {
        size_t len = strlen(now->workers[i].id);
        width = len > width ? len : width;
    }
    return (int)width;
}

/* What runs and waits at an engine beyond what the mesh has open there, of one
 * moment: a node, which looks twice, may tell less of it (kvasir status). */
static struct top_figure
foreign_of(const struct top_figure *n)
{
    double there = n[TOP_RUNNING].value + n[TOP_WAITING].value;
    double ours = n[TOP_MINE].value + n[TOP_PEERS].value;

    return (struct top_figure){.value = there > ours ? there - ours : 0,
                               .known = n[TOP_MINE].known};
}

static void
put_worker(const struct pair *pair, const struct top_worker *worker, int width,
           struct buf *out)
{
    const struct top_figure *n = worker->number;
    struct top_figure kv = n[TOP_KV_USAGE];
    struct top_figure blocks =
        n[TOP_HELD_BLOCKS].known ? n[TOP_HELD_BLOCKS] : n[TOP_BELIEVED_BLOCKS];
    struct top_figure failed = worker_grown(pair, worker, TOP_WORKER_FAILURES);
    struct top_figure foreign = foreign_of(n);
    char text[6][FIGURE_ROOM];

    /* None: no series. */
    failed.known = worker_grown(pair, worker, TOP_WORKER_REQUESTS).known;
    buf_printf(
        out, "%-*s %-5s %6s %6s %5s %5s", width, worker->id,
        !n[TOP_ELIGIBLE].known       ? "-"
        : n[TOP_ELIGIBLE].value != 0 ? "yes"
                                     : "NO",
        rate_text(
            per_second(pair, worker_grown(pair, worker, TOP_WORKER_REQUESTS)),
            text[0]),
        rate_text(per_second(pair, failed), text[1]),
        count_text(n[TOP_MINE], text[2]), count_text(n[TOP_PEERS], text[3]));
    buf_printf(out, " %4s %4s %6s %7s %5s %7s\n",
               count_text(n[TOP_RUNNING], text[0]),
               count_text(n[TOP_WAITING], text[1]), share_text(kv, text[2]),
               count_text(blocks, text[3]), count_text(foreign, text[4]),
               count_text(n[TOP_QUEUED_TOKENS], text[5]));
}

/* Where not all have room, those that take no requests come first. */
static void
put_rows(const struct pair *pair, uint32_t shown, int width, struct buf *out)
{
    const struct top_sample *now = pair->now;
    bool all = shown == now->workers_count;

    CHECK(shown <= now->workers_count);
    for (unsigned turn = all ? 1 : 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < now->workers_count && shown > 0; i++) {
            const struct top_worker *worker = &now->workers[i];
            const struct top_figure *takes = &worker->number[TOP_ELIGIBLE];
            bool first = takes->known && takes->value == 0;
            if (all || first == (turn == 0)) {
                put_worker(pair, worker, width, out);
                shown--;
            }
        }
    }
}

static void
put_workers(const struct pair *pair, uint32_t lines, struct buf *out)
{
    const struct top_sample *now = pair->now;
    uint32_t all = now->workers_count + now->workers_left;
    uint32_t shown = now->workers_count;
    int width = id_width(now);

    if (lines != 0 && all + 1 > lines) {
        shown = lines > 2 ? lines - 2 : 0;
        shown = shown < now->workers_count ? shown : now->workers_count;
    }
    buf_printf(out, "%-*s %-5s %6s %6s %5s %5s", width, "WORKER", "TAKES",
               "REQ/S", "FAIL/S", "MINE", "PEERS");
    buf_printf(out, " %4s %4s %6s %7s %5s %7s\n", "RUN", "WAIT", "KV", "BLOCKS",
               "OTHER", "QUEUED");
    put_rows(pair, shown, width, out);
    if (shown < all) {
        buf_printf(out, "... and %u more\n", (unsigned)(all - shown));
    }
}

/* Truncates each line to that many characters. */
static void
truncate_lines(struct slice text, uint32_t columns, struct buf *out)
{
    while (text.len != 0) {
        struct slice line = slice_take(&text, '\n');
        line.len = columns != 0 && line.len > columns ? columns : line.len;
        buf_add_slice(out, line);
        buf_add_text(out, "\n");
    }
}

void
top_show(const struct top_sample *before, const struct top_sample *now,
         const struct top_room *room, struct buf *out)
{
    enum {
        HEAD_LINES = 8
    };
    struct pair pair = {.now = now};
    struct buf text;

    CHECK(before != now);
    if (before != NULL && top_comparable(before, now)) {
        pair.before = before;
        pair.seconds = (double)(now->at_us - before->at_us) / 1e6;
    }
    buf_init(&text, out->max_bytes);
    put_head(&pair, &text);
    put_known(&pair, &text);
    put_requests(&pair, &text);
    put_times(&pair, &text);
    buf_add_text(&text, "\n");
    put_workers(&pair,
                room->lines == 0           ? 0
                : room->lines > HEAD_LINES ? room->lines - HEAD_LINES
                                           : 1,
                &text);
    truncate_lines(buf_slice(&text), room->columns, out);
    out->failed = out->failed || text.failed;
    buf_fini(&text);
}
