/* Warnings about workers' events: which are silent, and which are not used. */
#include "node/base/log.h"
#include "node/ingest/ingest_internal.h"

/* A worker may have no events: everything it was asked is in its cache, or was
 * too short for a block. */
static bool
is_silent(const struct ingest *ingest, uint32_t worker, uint32_t rank,
          uint64_t now_us)
{
    uint64_t limit_us =
        ingest->node->config->events.silence_ms * UINT64_C(1000);
    const struct intake_numbers *n =
        intake_numbers(ingest->intake, worker, rank);
    uint64_t heard_us = n != NULL ? counter_read(&n->last_message_us) : now_us;
    const struct ingest_worker *w = &ingest->workers[worker];
    bool computed = rank < INGEST_RANKS_MAX && (w->computed >> rank & 1) != 0;

    return now_us - heard_us > limit_us &&
           (heard_us == 0 ? w->filled : computed);
}

static const char *
why_silent(const struct kv_counters *kv)
{
    if (counter_read(&kv->connects) == 0) {
        return "there is no answer at its events address: kvasir doctor tries "
               "it";
    }
    if (counter_read(&kv->other_topic) != 0) {
        return "its KV events have another topic than the worker's topic= here";
    }
    return "it serves requests and publishes no KV events; see its "
           "--kv-events-config";
}

/* A worker that serves requests but sends no events is misconfigured. */
static void
warn_of_silence(struct ingest *ingest, uint32_t worker, uint64_t now_us)
{
    struct ingest_worker *w = &ingest->workers[worker];
    uint64_t limit_us =
        ingest->node->config->events.silence_ms * UINT64_C(1000);
    uint64_t requests =
        counter_read(&ingest->node->board->counters[worker].requests);

    if (w->link != NULL) {
        return; /* a sidecar's silence is its link's business */
    }
    if (w->warned_us == 0) {
        w->warned_us = now_us; /* it may have only just come */
        w->requests = requests;
    }
    if (now_us - w->warned_us < limit_us) {
        return;
    }
    for (uint32_t rank = 0; rank < w->ranks && requests != w->requests;
         rank++) {
        if (is_silent(ingest, worker, rank, now_us)) {
            const struct intake_numbers *n =
                intake_numbers(ingest->intake, worker, rank);
            LOG_WARNING("events_silent", KV("worker", w->id), KV("rank", rank),
                        KV("requests", requests - w->requests),
                        KV("hint", why_silent(&n->kv)));
        }
    }
    w->warned_us = now_us;
    w->requests = requests;
    w->computed = 0;
    w->filled = false;
}

/* Why a worker's streams count for less than they could; said when it begins
 * and when it ends. */
static void
say_change(const struct ingest_worker *w, const char *what, bool now,
           const char *hint)
{
    if (now) {
        LOG_WARNING("events_unused", KV("worker", w->id), KV("reason", what),
                    KV("hint", hint));
    } else {
        LOG_INFO("events_used", KV("worker", w->id), KV("after", what));
    }
}

/* Of a worker's streams, whether one is so. */
struct unused {
    bool contested;
    bool left_out;
    bool unruled;
    bool lost;
};

static void
say_changes(struct ingest_worker *w, const struct unused *now)
{
    if (w->contested != now->contested) {
        say_change(w, "contested", now->contested,
                   "it restarted too often: do two engines share the "
                   "address? Its requests are routed by their text");
    }
    if (w->left_out != now->left_out) {
        say_change(w, "kind of blocks", now->left_out,
                   "over 4 kinds in the fleet, by size and by the tokens that "
                   "drafts look ahead: its requests are routed by their "
                   "text; give the engines one block size");
    }
    if (w->unruled != now->unruled) {
        say_change(w, "kind of cache", now->unruled,
                   "its model keeps more than full attention and sliding "
                   "windows of one size: its requests are routed by their "
                   "text, and nothing is to be done");
    }
    if (w->lost != now->lost) {
        say_change(w, "events lost here", now->lost,
                   "mirror.bytes_max is reached (then raise it), or events "
                   "make no sense: "
                   "it is read again");
    }
    w->contested = now->contested;
    w->left_out = now->left_out;
    w->unruled = now->unruled;
    w->lost = now->lost;
}

/* The mirror writer lists streams by worker. */
static void ON_CONTROL
watch_streams(struct ingest *ingest)
{
    struct mirror_writer_status s;

    for (uint32_t at = 0; mirror_writer_status(ingest->writer, at, &s);) {
        uint32_t worker = s.worker;
        struct unused now = {.contested = false};
        do {
            now.contested |= s.contested;
            now.left_out |= s.left_out;
            now.unruled |= s.unruled;
            now.lost |= s.lost;
            at++;
        } while (mirror_writer_status(ingest->writer, at, &s) &&
                 s.worker == worker);
        say_changes(&ingest->workers[worker], &now);
    }
}

void
ingest_watch(struct ingest *ingest, uint64_t now_us)
{
    for (uint32_t worker = 0; worker < WORKERS_MAX; worker++) {
        if (ingest->workers[worker].present) {
            warn_of_silence(ingest, worker, now_us);
        }
    }
    watch_streams(ingest);
}
