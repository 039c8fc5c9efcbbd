/* The invariants of gossip, for tests and simulations. */
#include "gossip/gossip_internal.h"

static bool
check_stream(const struct gossip *g, const struct gossip_stream *s,
             const char **reason)
{
    const struct {
        bool holds;
        const char *what;
    } rules[] = {
        {s->epoch.no <= s->no_max, "an epoch above all that were seen"},
        {s->epoch.no != 0 || s->pos == 0, "a position without an epoch"},
        {s->told <= s->pos || s->reset != NULL, "told more than there is"},
        {!s->transfer.begun || s->transfer.active, "torn for ever"},
        {!s->transfer.active || !s->removed, "a removed stream transfers"},
        {s->behind_us == 0 || s->pos < s->known, "behind nothing"},
        {s->look_us != 0 || (s->behind_us == 0 && s->torn_us == 0),
         "what is missing is forgotten"},
        {!s->pull.open || s->pull.due_us >= s->behind_us || s->behind_us == 0,
         "a question is overdue"},
        {s->answered <= s->ask, "an answer without a question"},
        {s->direct != NULL || s->direct_end == &s->direct,
         "the records to apply do not end"},
        {s->ready || (s->reset == NULL && s->direct == NULL),
         "outputs that nobody is told of"},
    };

    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (!rules[i].holds) {
            *reason = rules[i].what;
            return false;
        }
    }
    return delta_log_check(&s->log, &g->store, reason);
}

bool
gossip_check(const struct gossip *g, const char **reason)
{
    size_t log_bytes = 0;
    uint32_t transfers = 0;

    for (uint32_t i = 0; i < g->streams_count; i++) {
        const struct gossip_stream *s = g->streams[i];
        if (!check_stream(g, s, reason)) {
            return false;
        }
        log_bytes += s->log.bytes_size +
                     s->log.entries_size * sizeof(struct delta_log_entry);
        transfers += s->transfer.active;
    }
    if (log_bytes != g->store.bytes) {
        *reason = "the logs' bytes are not what is counted";
        return false;
    }
    if (transfers != g->transfers || transfers > g->config.transfers_max) {
        *reason = "transfers are not what is counted";
        return false;
    }
    if (g->sends_count > g->config.sends_max) {
        *reason = "too many frames wait";
        return false;
    }
    return true;
}
