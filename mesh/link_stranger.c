/*
 * Which inbound connections may stay that have yet to show that they are a
 * peer's.
 */
#include <string.h>

#include "mesh/link_wire_internal.h"

#define STRANGE_PART 2U /* of the inlets, for strangers of one kind */
#define STRANGE_HOST 8U /* likewise, for one host that no peer has */

/* The length of an address without its port. */
static size_t
host_len(const char *address)
{
    const char *colon = strrchr(address, ':');

    return colon != NULL ? (size_t)(colon - address) : strlen(address);
}

static bool
same_host(const char *a, const char *b)
{
    size_t len = host_len(a);

    return host_len(b) == len && memcmp(a, b, len) == 0;
}

/* It has yet to show that it is a peer's. */
static bool
is_strange(const struct wire *wire)
{
    return wire->server && wire->state != WIRE_CLOSED &&
           (wire->inlet == NULL || wire->inlet->peer == NULL);
}

/* Whether no peer has this host, as far as we know. */
static bool
is_far_host(const struct mesh_link *link, const char *address)
{
    bool found = false;

    for (uint32_t i = 0; i < link->peers_count && !found; i++) {
        found = same_host(link->peers[i]->address, address);
    }
    for (const struct wire *at = link->wires; at != NULL && !found;
         at = at->next) {
        found = at->inlet != NULL && at->inlet->peer != NULL &&
                same_host(at->remote, address);
    }
    return !found;
}

/* The oldest stranger from far hosts gives way to the latest one: who has a
 * hello to say takes milliseconds, and who has none would keep its place for
 * hello_ms. A host with many strangers makes room for its own ones. */
static void
bound_far_hosts(const struct wire *wire)
{
    struct mesh_link *link = wire->link;
    struct wire *oldest = NULL; /* the list begins with the latest */
    struct wire *oldest_same = NULL;
    uint32_t all = 0;
    uint32_t same = 0;

    for (struct wire *at = link->wires; at != NULL; at = at->next) {
        if (!is_strange(at) || !at->far_host) {
            continue;
        }
        all++;
        oldest = at;
        if (same_host(at->remote, wire->remote)) {
            same++;
            oldest_same = at;
        }
    }
    oldest = same > link->inlets_max / STRANGE_HOST  ? oldest_same
             : all > link->inlets_max / STRANGE_PART ? oldest
                                                     : NULL;
    if (oldest != NULL) {
        link_count_refused_pipe(link);
        wire_close(oldest);
    }
}

/* Whether there is room for an inbound connection that has yet to show that it
 * is a peer's. All of them have as many places as the inlets. A host of peers
 * has a part of these: more than enough for all peers if they run there. All
 * far hosts together have the same part, so that they never shut a peer out. */
static bool
has_place(const struct wire *wire)
{
    const struct mesh_link *link = wire->link;
    uint32_t all = 0;
    uint32_t same = 0;

    for (const struct wire *at = link->wires; at != NULL; at = at->next) {
        if (is_strange(at)) {
            all++;
            same += same_host(at->remote, wire->remote);
        }
    }
    return all <= link->inlets_max && same <= link->inlets_max / STRANGE_PART;
}

bool
stranger_has_place(struct wire *wire)
{
    wire->far_host = is_far_host(wire->link, wire->remote);
    if (wire->far_host) {
        bound_far_hosts(wire);
    }
    return has_place(wire);
}
