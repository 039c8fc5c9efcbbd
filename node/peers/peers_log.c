/* Log lines about members, names and refused connections; rate-limited by kind.
 * */
#include "node/peers/peers_log_internal.h"

#include <time.h>

#include "node/base/log.h"

static const enum log_level member_levels[MEMBER_EVENTS] = {
    [MEMBER_JOINED] = LOG_LEVEL_INFO,     [MEMBER_SUSPECTED] = LOG_LEVEL_INFO,
    [MEMBER_CLEARED] = LOG_LEVEL_INFO,    [MEMBER_DIED] = LOG_LEVEL_WARNING,
    [MEMBER_DEPARTED] = LOG_LEVEL_INFO,   [MEMBER_REPLACED] = LOG_LEVEL_INFO,
    [MEMBER_REFUTED] = LOG_LEVEL_INFO,    [MEMBER_PLACED] = LOG_LEVEL_INFO,
    [MEMBER_REFUSED] = LOG_LEVEL_WARNING, [MEMBER_DUPLICATE] = LOG_LEVEL_ERROR,
    [MEMBER_FULL] = LOG_LEVEL_WARNING,
};

/* What an operator may do about it; NULL: nothing. */
static const char *
member_hint_text(enum member_event event)
{
    return event == MEMBER_DUPLICATE
               ? "another living node has this name and keeps it: give each "
                 "node a name of its own (--name)"
           : event == MEMBER_REFUSED
               ? "its name is in use, so it was told to stop"
           : event == MEMBER_FULL ? "there is no room for further members"
                                  : NULL;
}

void
peers_log_member(enum member_event event, const struct member_update *about)
{
    static struct log_site sites[MEMBER_EVENTS];
    const char *hint = member_hint_text(event);
    const struct log_field fields[] = {
        KV("event", member_event_name(event)),
        KV("member", (const char *)about->name),
        KV("address", (const char *)about->address),
        KV("incarnation", about->incarnation),
        KV("hint", hint != NULL ? hint : ""),
    };
    size_t count = sizeof fields / sizeof fields[0];

    CHECK(event < MEMBER_EVENTS);
    if (log_enabled(member_levels[event])) {
        log_write(&sites[event], member_levels[event], fields,
                  hint != NULL ? count : count - 1);
    }
}

void
peers_log_news(const struct discover_out *news)
{
    const char *outcome = discover_outcome_name(news->outcome);

    if (news->outcome == DISCOVER_FOUND) {
        LOG_INFO("discovery", KV("name", news->name), KV("outcome", outcome));
    } else {
        LOG_WARNING("discovery", KV("name", news->name), KV("outcome", outcome),
                    KV("hint", "this node knows the members it had; the name "
                               "is looked up again"));
    }
}

void
peers_log_refused(enum mesh_refusal reason, const char *from, const char *what,
                  uint64_t count)
{
    static struct log_site sites[MESH_REFUSALS];
    const struct log_field fields[] = {
        KV("event", "mesh_refused"),
        KV("reason", mesh_refusal_name(reason)),
        KV("from", from),
        KV("what", what),
        KV("count", count),
    };
    /* Our own hello came back: a peer's address is our own. */
    enum log_level level =
        reason == MESH_REFUSED_SELF ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARNING;

    CHECK(reason < MESH_REFUSALS);
    if (log_enabled(level)) {
        log_write(&sites[reason], level, fields,
                  sizeof fields / sizeof fields[0]);
    }
}

void
peers_log_certificate(enum mesh_certificate what, int64_t expiry_s,
                      const char *why)
{
    char ends[32] = "never";
    time_t at = (time_t)expiry_s;
    struct tm when;

    if (expiry_s != INT64_MAX && gmtime_r(&at, &when) != NULL) {
        (void)strftime(ends, sizeof ends, "%Y-%m-%dT%H:%M:%SZ", &when);
    }
    switch (what) {
    case MESH_CERTIFICATE_LOADED:
        LOG_INFO("mesh_certificate_loaded", KV("ends", (const char *)ends));
        return;
    case MESH_CERTIFICATE_BAD:
        LOG_ERROR("mesh_certificate_bad", KV("reason", why),
                  KV("hint", "the one before it stays in use"),
                  KV("ends", (const char *)ends));
        return;
    case MESH_SECRET_BAD:
        LOG_ERROR("mesh_secret_bad", KV("reason", why),
                  KV("hint", "the one before it stays in use"));
        return;
    case MESH_CERTIFICATE_ENDS:
        LOG_WARNING("mesh_certificate_ends", KV("ends", (const char *)ends),
                    KV("hint", "replace the files: they are read again"));
        return;
    case MESH_CERTIFICATE_ENDED:
        LOG_ERROR("mesh_certificate_ended", KV("ends", (const char *)ends),
                  KV("hint", "other nodes refuse new connections of this one"));
        return;
    }
}
