/* What is known of workers' event streams, for status and metrics. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "node/control/admin.h"
#include "node/ingest/ingest.h"
#include "node/text/prom_out.h"

/* JSON */

static void
put_accuracy(struct json_out *json, const struct accuracy *a)
{
    json_out_key(json, "accuracy");
    json_out_object_begin(json);
    json_out_put_uint(json, "answers", a->answers);
    json_out_put_uint(json, "exact", a->exact);
    json_out_put_uint(json, "over", a->over);
    json_out_put_uint(json, "under", a->under);
    json_out_put_uint(json, "over_tokens", a->over_tokens);
    json_out_put_uint(json, "under_tokens", a->under_tokens);
    json_out_put_uint(json, "more", a->more);
    json_out_put_bool(json, "wrong", a->wrong);
    json_out_object_end(json);
}

static void
put_counters(struct json_out *json, const struct kv_counters *kv)
{
    json_out_key(json, "counters");
    json_out_object_begin(json);
#define PUT(name, help)                                          \
    if (counter_read(&kv->name) != 0) {                          \
        json_out_put_uint(json, #name, counter_read(&kv->name)); \
    }
    KV_COUNTERS(PUT)
#undef PUT
    json_out_object_end(json);
}

static void
put_stream(struct control *control, struct json_out *json,
           const struct mirror_writer_status *s)
{
    const struct intake_numbers *numbers =
        intake_numbers(ingest_intake(control->ingest), s->worker, s->rank);
    char epoch[17]; /* a reader's doubles would lose some of its 64 bits */

    json_out_object_begin(json);
    json_out_put_uint(json, "rank", s->rank);
    json_out_put_text(json, "state", kv_stream_state_name(s->state));
    (void)snprintf(epoch, sizeof epoch, "%016" PRIx64, s->epoch);
    json_out_put_text(json, "epoch", epoch);
    json_out_put_uint(json, "seq", s->seq >> 8); /* of a position */
    json_out_put_uint(json, "blocks", s->blocks);
    json_out_put_uint(json, "holes", s->holes);
    json_out_put_uint(json, "block_tokens", s->block_tokens);
    json_out_put_uint(json, "lookahead_tokens", shape_ahead(s->shape));
    json_out_put_uint(json, "window_groups", shape_windows(s->shape));
    json_out_put_uint(
        json, "window_blocks",
        shape_windows(s->shape) != 0 ? shape_window(s->shape) : 0);
    json_out_put_bool(json, "recomputes_last_block", s->recomputes);
    json_out_put_milli(json, "trust", s->trust_permille);
    json_out_put_bool(json, "indexed", s->slot != WORKER_NONE);
    json_out_put_bool(json, "used", s->in_view);
    json_out_put_bool(json, "lost", s->lost);
    json_out_put_bool(json, "contested", s->contested);
    json_out_put_bool(json, "left_out", s->left_out);
    json_out_put_bool(json, "unruled", s->unruled);
    put_accuracy(json, &s->accuracy);
    if (numbers != NULL) {
        put_counters(json, &numbers->kv);
    }
    json_out_object_end(json);
}

/* Where a name leads that its socket of events or replays has. */
static void ON_CONTROL
put_name(const struct control *control, struct json_out *json, uint32_t worker,
         enum intake_place place)
{
    const struct ingest_name *name =
        ingest_name_of(control->ingest, worker, place);

    if (name->state != INGEST_NAME_NONE) {
        json_out_key(json,
                     place == INTAKE_EVENTS ? "events_name" : "replay_name");
        json_out_object_begin(json);
        json_out_put_text(json, "state", ingest_name_state_name(name->state));
        json_out_put_text(json, "address", name->address);
        json_out_object_end(json);
    }
}

void
admin_put_streams(struct control *control, struct json_out *json,
                  uint32_t worker)
{
    struct mirror_writer_status status;

    put_name(control, json, worker, INTAKE_EVENTS);
    put_name(control, json, worker, INTAKE_REPLAY);
    json_out_key(json, "events");
    json_out_array_begin(json);
    for (uint32_t at = 0;
         mirror_writer_status(ingest_writer(control->ingest), at, &status) &&
         status.worker <= worker;
         at++) {
        if (status.worker == worker) {
            put_stream(control, json, &status);
        }
    }
    json_out_array_end(json);
}

void
admin_put_stream_rows(struct control *control, struct json_out *json)
{
    const struct fleet_view *view = fleet_view_get(control->node->board);
    struct mirror_writer_status s;

    json_out_array_begin(json);
    for (uint32_t at = 0;
         mirror_writer_status(ingest_writer(control->ingest), at, &s); at++) {
        if (view->worker[s.worker] == NULL) {
            continue; /* removed since the view was published */
        }
        json_out_object_begin(json);
        json_out_put_text(json, "worker", view->worker[s.worker]->id);
        json_out_put_uint(json, "rank", s.rank);
        json_out_put_text(json, "state", kv_stream_state_name(s.state));
        json_out_put_bool(json, "used", s.in_view);
        json_out_put_uint(json, "seq", s.seq >> 8);
        json_out_put_uint(json, "blocks", s.blocks);
        json_out_put_uint(json, "block_tokens", s.block_tokens);
        json_out_put_milli(json, "trust", s.trust_permille);
        json_out_put_uint(json, "answers", s.accuracy.answers);
        json_out_put_uint(json, "exact", s.accuracy.exact);
        json_out_put_uint(json, "over", s.accuracy.over);
        json_out_put_uint(json, "under", s.accuracy.under);
        json_out_put_uint(json, "more", s.accuracy.more);
        json_out_object_end(json);
    }
    json_out_array_end(json);
}

static void
put_ledger(struct control *control, struct json_out *json)
{
    struct ledger_stats s;

    intake_ledger_stats(ingest_intake(control->ingest), &s);
    json_out_key(json, "ledger");
    json_out_object_begin(json);
    json_out_put_uint(json, "bytes", s.bytes);
    json_out_put_uint(json, "bytes_max",
                      control->node->config->mirror.ledger_bytes_max);
    json_out_put_uint(json, "names", s.names);
    json_out_put_uint(json, "blocks", s.blocks);
    json_out_put_uint(json, "copies", s.copies);
    json_out_object_end(json);
}

static void
put_expected(const struct control *control, struct json_out *json,
             const char *key, const struct expectations *expectations)
{
    struct expectations_stats e;

    expectations_stats(expectations, &e);
    json_out_key(json, key);
    json_out_object_begin(json);
    json_out_put_uint(json, "bytes", e.bytes);
    json_out_put_uint(json, "bytes_max",
                      control->node->config->mirror.expected_bytes_max);
    json_out_put_uint(json, "blocks", e.blocks);
    json_out_put_uint(json, "added", e.added);
    json_out_put_uint(json, "confirmed", e.confirmed);
    json_out_put_uint(json, "given_up", e.given_up);
    json_out_put_uint(json, "refused", e.refused);
    json_out_put_uint(json, "proved", e.proved);
    json_out_put_uint(json, "disproved", e.disproved);
    json_out_object_end(json);
}

void
admin_put_mirror(struct control *control, struct json_out *json)
{
    struct mirror_stats m;

    mirror_stats(control->node->mirror, &m);
    json_out_key(json, "mirror");
    json_out_object_begin(json);
    json_out_put_uint(json, "bytes", m.bytes);
    json_out_put_uint(json, "bytes_max",
                      control->node->config->mirror.bytes_max);
    json_out_put_uint(json, "blocks", m.blocks);
    json_out_put_uint(json, "holder_blocks", m.holder_blocks);
    json_out_put_uint(json, "tiered_blocks", m.tiered_blocks);
    json_out_put_uint(json, "stored", m.stored);
    json_out_put_uint(json, "removed", m.removed);
    json_out_put_uint(json, "refused", m.refused);
    json_out_put_uint(json, "slots_open", m.open);
    json_out_put_uint(json, "slots_sweeping", m.sweeping);
    json_out_object_end(json);
    put_ledger(control, json);
    put_expected(control, json, "expected", control->node->expectations);
    put_expected(control, json, "expected_text",
                 control->node->text_expectations);
}

/* Metrics */

/* One number of a stream. */
struct stream_family {
    const char *name;
    const char *type;
    const char *help;
    uint64_t (*value)(const struct mirror_writer_status *status);
};

/* clang-format off */
#define VALUE(name, number)                                         \
    static uint64_t name(const struct mirror_writer_status *s)      \
    {                                                               \
        return number;                                              \
    }

VALUE(live, s->state == KV_STREAM_LIVE)
VALUE(blocks, s->blocks)
VALUE(answers, s->accuracy.answers)
VALUE(exact, s->accuracy.exact)
#undef VALUE
/* clang-format on */

static const struct stream_family stream_families[] = {
    {"kvasir_events_live", "gauge",
     "1 while everything since the engine's start is known", live},
    {"kvasir_mirror_worker_blocks", "gauge", "Blocks the rank holds", blocks},
    {"kvasir_accuracy_answers_total", "counter",
     "Answers whose cached tokens were compared with the prediction", answers},
    {"kvasir_accuracy_exact_total", "counter",
     "Compared answers that were as predicted, or a block apart", exact},
};

static void
put_series(struct control *control, struct buf *out, const char *name,
           const struct mirror_writer_status *status, uint64_t value)
{
    const struct fleet_view *view = fleet_view_get(control->node->board);
    const struct fleet_worker *worker = view->worker[status->worker];

    if (worker != NULL) {
        buf_printf(out, "%s{worker=\"", name);
        prom_out_label(out, worker->id);
        buf_printf(out, "\",rank=\"%" PRIu32 "\"}", status->rank);
        prom_out_value(out, value, 1);
    }
}

static void ON_CONTROL
put_families(struct control *control, struct buf *out)
{
    const struct mirror_writer *writer = ingest_writer(control->ingest);
    struct mirror_writer_status status;

    for (size_t i = 0; i < sizeof(stream_families) / sizeof(*stream_families);
         i++) {
        const struct stream_family *f = &stream_families[i];
        prom_out_head(out, f->name, f->type, f->help);
        for (uint32_t at = 0; mirror_writer_status(writer, at, &status); at++) {
            put_series(control, out, f->name, &status, f->value(&status));
        }
    }
}

/* By worker they are in `/admin/workers`. */
static void ON_CONTROL
put_doubts(struct control *control, struct buf *out)
{
    const struct mirror_writer *writer = ingest_writer(control->ingest);
    struct mirror_writer_status status;
    uint64_t partial = 0;
    uint64_t doubted = 0;

    for (uint32_t at = 0; mirror_writer_status(writer, at, &status); at++) {
        partial += status.state == KV_STREAM_PARTIAL;
        doubted += status.trust_permille < 1000;
    }
    prom_out_single(out, "kvasir_events_partial", "gauge",
                    "Streams that are followed, but of what their engines "
                    "stored before not all is known",
                    partial);
    prom_out_single(out, "kvasir_mirror_doubted", "gauge",
                    "Streams whose mirror is not trusted all the way", doubted);
}

#define DROP "drop_" /* begins the names of reasons to drop an event */

struct counter_row {
    const char *name;
    const char *help;
    size_t at;
};

/* Counters of events; those of dropped ones are one family, by reason. */
static void
put_totals(struct buf *out, const char *prefix, const struct counter_row *rows,
           const uint64_t *total, size_t count)
{
    char name[64];

    for (size_t i = 0; i < count; i++) {
        if (strncmp(rows[i].name, DROP, sizeof DROP - 1) != 0) {
            (void)snprintf(name, sizeof name, "%s_%s_total", prefix,
                           rows[i].name);
            prom_out_single(out, name, "counter", rows[i].help, total[i]);
        }
    }
    (void)snprintf(name, sizeof name, "%s_dropped_total", prefix);
    prom_out_head(out, name, "counter",
                  "Events dropped, by what was wrong with them");
    for (size_t i = 0; i < count; i++) {
        if (strncmp(rows[i].name, DROP, sizeof DROP - 1) == 0) {
            buf_printf(out, "%s{reason=\"%s\"}", name,
                       rows[i].name + sizeof DROP - 1);
            prom_out_value(out, total[i], 1);
        }
    }
}

/* Of all streams of the intake. */
static void ON_CONTROL
put_intake(struct control *control, struct buf *out)
{
#define ROW(name, help) {#name, help, offsetof(struct kv_counters, name)},
    static const struct counter_row counters[] = {KV_COUNTERS(ROW)};
#undef ROW
    const size_t count = sizeof counters / sizeof counters[0];
    const struct intake *intake = ingest_intake(control->ingest);
    uint64_t total[sizeof counters / sizeof counters[0]];

    for (size_t i = 0; i < count; i++) {
        total[i] = intake_total(intake, counters[i].at);
    }
    put_totals(out, "kvasir_events", counters, total, count);
}

#define PUT_ROWS(out, prefix, rows, stats) \
    prom_out_rows(out, prefix, rows, sizeof(rows) / sizeof(rows)[0], stats)

#define AT(member) offsetof(struct mirror_writer_stats, member)
static const struct prom_row writer_rows[] = {
    PROM_ONE("records", AT(records), "Records of events applied"),
    PROM_FAMILY("dropped", "reason", "Records dropped"),
    PROM_OF("unknown", AT(dropped_unknown), "of no stream"),
    PROM_OF("epoch", AT(dropped_epoch), "of a lower epoch"),
    PROM_OF("old", AT(dropped_old), "they were there already"),
    PROM_OF("malformed", AT(dropped_bad), "they make no sense"),
    PROM_OF("lost", AT(dropped_lost), "their stream is to be read again"),
    PROM_FAMILY("truncated", "reason", "Records truncated"),
    PROM_OF("full", AT(full), "mirror.bytes_max"),
    PROM_OF("memory", AT(no_memory), "there was none"),
    PROM_ONE("no_slot", AT(no_slot),
             "Times that a stream found no slot of the mirror"),
    PROM_ONE("rereads", AT(rereads),
             "Streams read again because records were lost"),
};
#undef AT

static void
put_dropped(struct buf *out, const char *name, const char *by,
            const struct expectations_stats *e)
{
    buf_printf(out,
               "%s{by=\"%s\",reason=\"given_up\"} %" PRIu64 "\n"
               "%s{by=\"%s\",reason=\"refused\"} %" PRIu64 "\n",
               name, by, (uint64_t)e->given_up, name, by, (uint64_t)e->refused);
}

static void ON_CONTROL
put_writer(struct control *control, struct buf *out)
{
    struct mirror_writer_stats f;

    mirror_writer_stats(ingest_writer(control->ingest), &f);
    PUT_ROWS(out, "kvasir_mirror_writer", writer_rows, &f);
    prom_out_single(out, "kvasir_mirror_writer_contested", "gauge",
                    "Streams whose process keeps changing", f.contested);
    prom_out_single(out, "kvasir_mirror_writer_left_out", "gauge",
                    "Streams left out: over four kinds of blocks in "
                    "the fleet, by size and look-ahead of drafts",
                    f.left_out);
}

/* Of blocks by their tokens, and by their text where those are not known. */
static void
put_expectations(struct control *control, struct buf *out)
{
    static const char blocks[] = "kvasir_expected_blocks";
    static const char dropped[] = "kvasir_expected_dropped_total";
    struct expectations_stats e;
    struct expectations_stats text;

    expectations_stats(control->node->expectations, &e);
    expectations_stats(control->node->text_expectations, &text);
    prom_out_head(out, blocks, "gauge",
                  "Blocks sent to engines and not heard of yet (tokens), or of "
                  "requests that are not answered yet (text)");
    buf_printf(out, "%s{by=\"tokens\"} %" PRIu64 "\n", blocks,
               (uint64_t)e.blocks);
    buf_printf(out, "%s{by=\"text\"} %" PRIu64 "\n", blocks,
               (uint64_t)text.blocks);
    prom_out_head(out, dropped, "counter",
                  "Expected blocks given up (not heard of in time) or refused "
                  "(without room)");
    put_dropped(out, dropped, "tokens", &e);
    put_dropped(out, dropped, "text", &text);
    prom_out_single(out, "kvasir_proved_total", "counter",
                    "Blocks that answers proved where events are missing",
                    e.proved);
    prom_out_single(out, "kvasir_disproved_total", "counter",
                    "Proved blocks that an answer did not find", e.disproved);
}

static void
put_memory(struct control *control, struct buf *out)
{
    struct mirror_stats m;
    struct ledger_stats l;

    mirror_stats(control->node->mirror, &m);
    intake_ledger_stats(ingest_intake(control->ingest), &l);
    prom_out_single(out, "kvasir_mirror_bytes", "gauge", "Memory of the mirror",
                    m.bytes);
    prom_out_single(out, "kvasir_mirror_blocks", "gauge",
                    "Distinct blocks that some engine holds", m.blocks);
    prom_out_single(out, "kvasir_mirror_holder_blocks", "gauge",
                    "Pairs of rank and block", m.holder_blocks);
    prom_out_single(out, "kvasir_mirror_refused_total", "counter",
                    "Blocks left out because of mirror.bytes_max", m.refused);
    prom_out_single(out, "kvasir_ledger_bytes", "gauge",
                    "Memory for engines' block names", l.bytes);
    prom_out_single(out, "kvasir_ledger_names", "gauge",
                    "Names of blocks that are known", l.names);
}

/* Of all sidecars. */
static void ON_CONTROL
put_sse(struct control *control, struct buf *out)
{
#define ROW(name, help) {#name, help, offsetof(struct kv_sse_stats, name)},
    static const struct counter_row counters[] = {KV_SSE_COUNTERS(ROW)};
#undef ROW
    const size_t count = sizeof counters / sizeof counters[0];
    const struct fleet_view *view = fleet_view_get(control->node->board);
    uint64_t total[sizeof counters / sizeof counters[0]] = {0};

    WORKER_SET_EACH (slot, &view->present) {
        const struct kv_sse_stats *stats =
            ingest_sse_stats(control->ingest, slot);
        for (size_t i = 0; stats != NULL && i < count; i++) {
            uint64_t value;
            memcpy(&value, (const char *)stats + counters[i].at, sizeof value);
            total[i] += value;
        }
    }
    put_totals(out, "kvasir_sse", counters, total, count);
}

void
admin_put_event_metrics(struct control *control, struct buf *out)
{
    put_families(control, out);
    put_doubts(control, out);
    put_intake(control, out);
    put_sse(control, out);
    put_writer(control, out);
    put_expectations(control, out);
    put_memory(control, out);
}
