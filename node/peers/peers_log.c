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
               ? "its name is in use, so it was told to stop: give it a name "
                 "of its own (--name)"
           : event == MEMBER_FULL
               ? "a mesh has 64 living members at most: this one stays out "
                 "until one leaves"
           : event == MEMBER_DIED
               ? "if nobody stopped it, look at its log, its machine and the "
                 "network to it; others do its work, and it is taken in again "
                 "once it answers"
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
                               "is looked up again. Does a name of mesh.join "
                               "resolve on this machine?"));
    }
}

static const char *
refusal_hint(enum mesh_refusal reason)
{
    static const char *const hints[MESH_REFUSALS] = {
        [MESH_REFUSED_GARBAGE] =
            "does something else than a node connect to mesh.listen? Let only "
            "nodes reach that port",
        [MESH_REFUSED_VERSION] =
            "bring both nodes to the same version: deploy/CHANGELOG.md says "
            "which ones can be mixed",
        [MESH_REFUSED_CLUSTER] =
            "mesh.cluster differs there: mend it, or the name that leads from "
            "one mesh to the other",
        [MESH_REFUSED_HELLO] =
            "does something else than a node connect to mesh.listen? If it is "
            "a node, look at its version and its log",
        [MESH_REFUSED_SELF] = "this node's own address: nothing is wrong",
        [MESH_REFUSED_ADDRESS] =
            "mesh.advertise of that node must be an address that it connects "
            "from, or give the mesh TLS or a secret",
        [MESH_REFUSED_SEQUENCE] =
            "it connects anew by itself; if this goes on, do two processes "
            "share that address?",
        [MESH_REFUSED_SILENT] =
            "it hangs, or the network lost it; it is dialled again by itself",
        [MESH_REFUSED_PEERS] = "a mesh has 64 nodes at most: stop some",
        [MESH_REFUSED_PIPES] =
            "who opens so many connections to mesh.listen? Let only nodes "
            "reach that port",
        [MESH_REFUSED_TRANSPORT] =
            "have both nodes mesh.tls_* of one authority, with "
            "mesh.tls_server_name in both certificates, or the same "
            "mesh.secret_file? deploy/README.md: a node is not in the mesh",
    };

    CHECK(hints[reason] != NULL);
    return hints[reason];
}

void
peers_log_refused(enum mesh_refusal reason, const char *from, const char *what,
                  uint64_t count)
{
    static struct log_site sites[MESH_REFUSALS];

    CHECK(reason < MESH_REFUSALS);
    const struct log_field fields[] = {
        KV("event", "mesh_refused"),
        KV("reason", mesh_refusal_name(reason)),
        KV("from", from),
        KV("what", what),
        KV("count", count),
        KV("hint", refusal_hint(reason)),
    };
    /* Our own hello came back: a peer's address is our own. */
    enum log_level level =
        reason == MESH_REFUSED_SELF ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARNING;

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
                  KV("hint", "the one before it stays in use: mend the files "
                             "of mesh.tls_*, they are read again"),
                  KV("ends", (const char *)ends));
        return;
    case MESH_SECRET_BAD:
        LOG_ERROR("mesh_secret_bad", KV("reason", why),
                  KV("hint", "the one before it stays in use: mend the file "
                             "mesh.secret_file, it is read again"));
        return;
    case MESH_CERTIFICATE_ENDS:
        LOG_WARNING(
            "mesh_certificate_ends", KV("ends", (const char *)ends),
            KV("hint", "replace the files of mesh.tls_*: they are read again"));
        return;
    case MESH_CERTIFICATE_ENDED:
        LOG_ERROR(
            "mesh_certificate_ended", KV("ends", (const char *)ends),
            KV("hint", "other nodes refuse new connections of this one: "
                       "replace the files of mesh.tls_*, they are read again"));
        return;
    }
}
