/* Counts what NNG refused before a connection existed. */
#include <string.h>

#include "mesh/link_internal.h"

/*
 * NNG does not report connections that fail before they carry messages, but it
 * counts them, in socket > listener > these.
 */
static bool
is_refusal(const char *name)
{
    static const char *const names[] = {"auth", "proto", "other", "reject"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static uint64_t
sum_listener(nng_stat *listener)
{
    uint64_t sum = 0;

    for (nng_stat *stat = nng_stat_child(listener); stat != NULL;
         stat = nng_stat_next(stat)) {
        sum += is_refusal(nng_stat_name(stat)) ? nng_stat_value(stat) : 0;
    }
    return sum;
}

/* nng_stat_find_listener() returns the first listener, whichever is asked for.
 * NNG's tree of statistics is shallow. */
static uint64_t
sum_refused(nng_stat *stat, uint64_t id) /* NOLINT(misc-no-recursion) */
{
    uint64_t sum = 0;

    for (; stat != NULL; stat = nng_stat_next(stat)) {
        nng_stat *child = nng_stat_child(stat);
        bool ours = false;
        if (strcmp(nng_stat_name(stat), "listener") == 0) {
            for (nng_stat *s = child; s != NULL; s = nng_stat_next(s)) {
                ours = ours || (strcmp(nng_stat_name(s), "id") == 0 &&
                                nng_stat_value(s) == id);
            }
        }
        sum += ours ? sum_listener(stat) : sum_refused(child, id);
    }
    return sum;
}

void
link_transport_poll(struct mesh_link *link)
{
    nng_stat *root;

    if (nng_stats_get(&root) != 0) {
        return;
    }
    uint64_t sum = sum_refused(root, (uint64_t)nng_listener_id(link->listener));
    nng_stats_free(root);
    if (sum > link->transport_refused) {
        uint64_t count = sum - link->transport_refused;
        link->transport_refused = sum;
        link->stats.refused[MESH_REFUSED_TRANSPORT] += count;
        link->sink.refused(link->sink.context, MESH_REFUSED_TRANSPORT,
                           "unknown",
                           link->tls ? "no handshake, or no certificate of us"
                                     : "not a peer's connection",
                           count);
    }
}
