/* A page of metrics, as far as `kvasir top` wants it. */
#include <stdio.h>
#include <string.h>

#include "node/cli/top_internal.h"
#include "node/text/promtext.h"

static const struct {
    struct slice series;
    struct slice label; /* empty: any */
    struct slice value;
} numbers[] = {
#define NUMBER(NAME, series, label, value, how) \
    {SLICE(series), SLICE(label), SLICE(value)},
    TOP_NUMBERS(NUMBER)
#undef NUMBER
};

#define WORKER_SERIES(NAME, series, how) SLICE(series),
static const struct slice worker_numbers[] = {
    TOP_WORKER_NUMBERS(WORKER_SERIES)};
#undef WORKER_SERIES

#define SERIES(NAME, series) SLICE(series),

static const struct slice members[] = {TOP_MEMBERS(SERIES)};
#undef SERIES

static const struct slice times[] = {
#define BUCKETS(NAME, series) SLICE(series "_bucket"),
    TOP_TIMES(BUCKETS)
#undef BUCKETS
};

/* Its place in the table, or count. */
static uint32_t
find(const struct slice *table, uint32_t count, struct slice name)
{
    uint32_t at = 0;

    while (at < count && !slice_equal(table[at], name)) {
        at++;
    }
    return at;
}

/* Nothing in a name may move the cursor. */
void
top_copy_name(char out[TOP_ID_MAX], struct slice name)
{
    size_t len = name.len < TOP_ID_MAX ? name.len : TOP_ID_MAX - 1;

    for (size_t i = 0; i < len; i++) {
        out[i] = name.ptr[i] >= ' ' && name.ptr[i] <= '~' ? name.ptr[i] : '?';
    }
    out[len] = '\0';
}

static void
add(struct top_figure *figure, double value)
{
    figure->value += value;
    figure->known = true;
}

/* A page has all workers in each family, in the same order. */
struct top_worker *
top_worker_of(struct top_sample *sample, const char *name)
{
    for (uint32_t i = 0; i < sample->workers_count; i++) {
        if (strcmp(sample->workers[i].id, name) == 0) {
            return &sample->workers[i];
        }
    }
    if (sample->workers_count == TOP_WORKERS_MAX) {
        return NULL;
    }
    struct top_worker *worker = &sample->workers[sample->workers_count++];
    (void)snprintf(worker->id, sizeof(worker->id), "%s", name);
    return worker;
}

static void
read_worker(struct top_sample *sample, uint32_t which,
            const struct promtext_sample *line, double value)
{
    char name[TOP_ID_MAX];
    struct slice id;

    if (!promtext_label(line, SLICE("worker"), &id)) {
        return;
    }
    top_copy_name(name, id);
    struct top_worker *worker = top_worker_of(sample, name);
    if (worker != NULL) {
        add(&worker->number[which], value);
    } else if (which == TOP_ELIGIBLE) {
        sample->workers_left++;
    }
}

/* Whether it is one of the numbers, or of several. */
static bool
read_number(struct top_sample *sample, const struct promtext_sample *line,
            double value)
{
    bool found = false;

    for (uint32_t i = 0; i < TOP_NUMBERS_COUNT; i++) {
        struct slice text;
        if (!slice_equal(numbers[i].series, line->name)) {
            continue;
        }
        found = true;
        if (numbers[i].label.len == 0 ||
            (promtext_label(line, numbers[i].label, &text) &&
             slice_equal(text, numbers[i].value))) {
            add(&sample->number[i], value);
        }
    }
    return found;
}

static void
read_other(struct top_sample *sample, const struct promtext_sample *line,
           double value)
{
    uint32_t time = find(times, TOP_TIMES_COUNT, line->name);
    struct slice text;

    if (time < TOP_TIMES_COUNT) {
        uint32_t at = sample->buckets_count[time]++;
        sample->buckets[time][at % TOP_BUCKETS] += value;
    } else if (slice_equal(line->name, SLICE("kvasir_mesh_members"))) {
        uint32_t state = TOP_MEMBERS_COUNT;
        if (promtext_label(line, SLICE("state"), &text)) {
            state = find(members, TOP_MEMBERS_COUNT, text);
        }
        if (state < TOP_MEMBERS_COUNT) {
            add(&sample->members[state], value);
        }
    } else if (slice_equal(line->name, SLICE("kvasir_info"))) {
        if (promtext_label(line, SLICE("node"), &text)) {
            top_copy_name(sample->node, text);
        }
        if (promtext_label(line, SLICE("version"), &text)) {
            top_copy_name(sample->version, text);
        }
    }
}

void
top_read(struct top_sample *sample, struct slice metrics, uint64_t at_us)
{
    struct promtext walk = promtext_of(metrics);
    struct promtext_sample line;
    double value;

    memset(sample, 0, sizeof(*sample));
    sample->at_us = at_us;
    while (promtext_next(&walk, &line)) {
        if (!promtext_number(&line, &value)) {
            continue;
        }
        if (read_number(sample, &line, value)) {
            continue;
        }
        uint32_t at = find(worker_numbers, TOP_WORKER_NUMBERS_COUNT, line.name);
        if (at < TOP_WORKER_NUMBERS_COUNT) {
            read_worker(sample, at, &line, value);
        } else {
            read_other(sample, &line, value);
        }
    }
}
