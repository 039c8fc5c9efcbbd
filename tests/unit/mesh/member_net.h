/*
 * A mesh of members on virtual time, over a network that loses, delays,
 * doubles and severs. Every message goes through the wire format.
 *
 * A host is an address; on it lives a process or none. After each call into a
 * member its invariants are checked.
 */
#ifndef TESTS_UNIT_MESH_MEMBER_NET_H
#define TESTS_UNIT_MESH_MEMBER_NET_H

#include "index/base/rng.h"
#include "mesh/mesh.h"

#define NET_HOSTS  72U
#define NET_EVENTS 4096U
#define NET_MS     UINT64_C(1000)
#define NET_S      UINT64_C(1000000)

struct net_event {
    uint64_t at_us;
    uint32_t host;
    enum member_event event;
    struct member_update about;
};

struct net_host {
    struct member_table *table; /* NULL: nobody lives here */
    struct member_id id;
    char name[MEMBER_NAME_MAX];
    char address[MEMBER_ADDRESS_MAX];
    uint64_t paused_until_us; /* 0: runs */
    uint64_t born_us;
    uint32_t events[MEMBER_EVENTS]; /* by kind, of the process there now */
};

struct net {
    struct rng rng;
    uint64_t now_us;
    uint64_t next_id;
    struct member_config config;
    uint32_t loss_permille;
    uint32_t double_permille;
    uint64_t delay_us;                  /* at least */
    uint64_t jitter_us;                 /* and up to this more */
    bool severed[NET_HOSTS][NET_HOSTS]; /* from, to */
    struct net_host host[NET_HOSTS];
    struct net_event log[NET_EVENTS]; /* the last ones */
    uint64_t log_count;
    struct net_packet *heap;
    size_t heap_len;
    size_t heap_size;
    uint64_t order; /* of packets with equal times */
    uint64_t messages;
    uint64_t bytes;
    uint32_t kinds[MEMBER_KINDS];
    void (*failed)(const char *reason); /* an invariant is broken */
};

void net_init(struct net *net, uint64_t seed);
void net_fini(struct net *net);

/* A process begins on an empty host, under this name (NULL: the host's own),
 * knowing the address of another host (NET_HOSTS: nobody's). */
void net_start(struct net *net, uint32_t host, const char *name,
               uint32_t seed_host);

/* A host, if someone lives there, hears where another one is. */
void net_hint(struct net *net, uint32_t host, uint32_t where);

/* Hosts 0..count-1 begin, each knowing host 0, and get `settle_us` to meet. */
void net_mesh(struct net *net, uint32_t count, uint64_t settle_us);

/* It ends at once; nobody is told. */
void net_crash(struct net *net, uint32_t host);

/* It says goodbye and ends. */
void net_leave(struct net *net, uint32_t host);

/* It does not run for a while; what is sent to it waits. */
void net_pause(struct net *net, uint32_t host, uint64_t span_us);

/* Packets between the two sets of hosts (bit i: host i) are lost, or not. */
void net_sever(struct net *net, uint64_t from, uint64_t to, bool severed);
void net_split(struct net *net, uint64_t one, uint64_t other);
void net_heal(struct net *net);

/* The others' links to a host break, as when a process dies. */
void net_links(struct net *net, uint32_t host, bool up);

void net_run(struct net *net, uint64_t span_us);

/* Runs until all living hosts see exactly each other, but no longer than
 * span_us. How long that took, or UINT64_MAX. */
uint64_t net_converge(struct net *net, uint64_t span_us);

/* Runs until nobody counts that process in any more. As above. */
uint64_t net_excluded(struct net *net, struct member_id id, uint64_t span_us);

/* What a host thinks of a name; false: nothing. */
bool net_sees(const struct net *net, uint32_t host, const char *name,
              struct member_info *info);

/* Its state there, or -1. */
int net_state(const struct net *net, uint32_t host, const char *name);

/* Hands a message to a host as if it came over the network now. */
void net_deliver(struct net *net, uint32_t host,
                 const struct member_message *message);

/* How many events of a kind there were, at all hosts or (host < NET_HOSTS) at
 * one, ever or (name not NULL) about this name. Of the last NET_EVENTS. */
uint32_t net_count(const struct net *net, uint32_t host,
                   enum member_event event, const char *name);

#endif
