/* The last batches by number, in a ring. */
#include "chaos/engine/engine_events_log_internal.h"

#include <errno.h>
#include <stdlib.h>

static struct engine_events_entry *
entry(const struct engine_events_log *log, uint64_t seq)
{
    return &log->entries[seq % log->steps_max];
}

static void
drop_oldest(struct engine_events_log *log)
{
    struct engine_events_entry *e = entry(log, log->first_seq++);

    CHECK(log->first_seq <= log->next_seq && e->len <= log->bytes);
    log->bytes -= e->len;
    free(e->bytes);
    *e = (struct engine_events_entry){.bytes = NULL};
}

int
engine_events_log_init(struct engine_events_log *log, uint32_t steps_max,
                       size_t bytes_max)
{
    CHECK(steps_max > 0);
    *log = (struct engine_events_log){
        .entries = calloc(steps_max, sizeof(*log->entries)),
        .steps_max = steps_max,
        .bytes_max = bytes_max,
    };
    return log->entries != NULL ? 0 : -ENOMEM;
}

void
engine_events_log_fini(struct engine_events_log *log)
{
    engine_events_log_clear(log);
    free(log->entries);
    log->entries = NULL;
}

uint64_t
engine_events_log_push(struct engine_events_log *log, struct slice payload)
{
    uint64_t seq = log->next_seq;

    while (log->first_seq < seq && (seq - log->first_seq >= log->steps_max ||
                                    payload.len > log->bytes_max - log->bytes ||
                                    log->bytes > log->bytes_max)) {
        drop_oldest(log);
    }
    CHECK(seq - log->first_seq < log->steps_max);
    log->next_seq++;
    struct engine_events_entry *e = entry(log, seq);
    e->bytes = payload.len > 0 ? malloc(payload.len) : NULL;
    if (e->bytes != NULL) {
        memcpy(e->bytes, payload.ptr, payload.len);
        e->len = payload.len;
        log->bytes += payload.len;
    }
    return seq;
}

bool
engine_events_log_find(const struct engine_events_log *log, uint64_t seq,
                       struct slice *payload)
{
    if (seq < log->first_seq || seq >= log->next_seq ||
        entry(log, seq)->bytes == NULL) {
        return false;
    }
    *payload = (struct slice){entry(log, seq)->bytes, entry(log, seq)->len};
    return true;
}

void
engine_events_log_clear(struct engine_events_log *log)
{
    while (log->first_seq < log->next_seq) {
        drop_oldest(log);
    }
    CHECK(log->bytes == 0);
    log->first_seq = 0;
    log->next_seq = 0;
}
