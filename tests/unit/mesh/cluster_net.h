/*
 * Whole nodes on virtual time: clusters, the links between them, a DNS name,
 * engines, and a reader wherever CLUSTER_READ says so. The network loses,
 * delays, doubles and severs; hosts die, pause, restart and are severed from
 * engines. Everything from one seed, in steps of a millisecond.
 *
 * Links are as link.h's: up when both can reach each other and one of them
 * dialled, silent ones down after 10 s or when doubted; bulk is refused while
 * they are down. After each call into a cluster its invariants are checked.
 */
#ifndef TESTS_UNIT_MESH_CLUSTER_NET_H
#define TESTS_UNIT_MESH_CLUSTER_NET_H

#include "index/base/rng.h"
#include "mesh/mesh.h"

#define NET_HOSTS   8U
#define NET_WORKERS 6U
#define NET_RANKS   2U
#define NET_KEYS    128U
#define NET_BATCHES 16384U
#define NET_LOOKUPS 8U
#define NET_NEVER   UINT64_MAX

/* One batch stores or removes one key. */
struct net_batch {
    uint64_t at_us;
    uint16_t key;
    bool stores;
};

/* The process that runs now, of one stream. */
struct net_engine {
    uint64_t process;
    uint32_t count;
    struct net_batch *batches;
    bool held[NET_KEYS];
};

struct net_reader {
    bool begun;
    uint64_t process;
    uint64_t begin_us; /* when it is connected; 0: does not try */
    uint32_t next;
    uint64_t ask;
    bool live;
};

struct net_replica {
    uint64_t name;
    bool held[NET_KEYS];
    uint32_t resets;
    uint32_t applied;
    bool complete;
    bool stale;
};

struct net_host {
    struct cluster *cluster; /* NULL: nobody lives here */
    uint64_t session;
    uint64_t born_us;
    uint64_t paused_until_us; /* 0: runs */
    char name[MEMBER_NAME_MAX];
    char address[MEMBER_ADDRESS_MAX];
    bool reads[NET_WORKERS];
    bool engine_severed[NET_WORKERS];
    uint64_t unable_us[NET_WORKERS]; /* is to say so then; 0: reaches it */
    bool says_unable[NET_WORKERS];
    bool knows[NET_WORKERS]; /* the roster said so */
    bool draining[NET_WORKERS];
    struct net_reader reader[NET_WORKERS][NET_RANKS];
    struct net_replica replica[NET_WORKERS][NET_RANKS];
    bool told[NET_WORKERS];        /* of the roster's last word, */
    bool removed[NET_WORKERS];     /* ... and what that is */
    uint64_t lookups[NET_LOOKUPS]; /* tickets */
    uint64_t lookup_us[NET_LOOKUPS];
    enum cluster_ready ready;
    uint64_t ready_us; /* when that was told */
    uint32_t events[MEMBER_EVENTS];
    uint32_t drops, doubts;
};

struct net_pair { /* what one host's shell knows of a link */
    bool dialled;
    bool doubted;
    uint64_t session; /* 0: down */
    uint64_t broken_us;
    uint64_t retry_us;
};

struct net_frame {
    uint64_t at_us;
    uint32_t from, to;
    uint64_t from_session, to_session; /* 0: whoever is there */
    uint8_t *bytes;
    size_t len;
};

struct net {
    struct rng rng;
    uint64_t now_us;
    struct cluster_config config;
    uint32_t loss_permille;
    uint32_t double_permille;
    uint32_t delay_us;
    uint32_t jitter_us;
    uint32_t batch_ms;   /* each stream publishes that often; 0: never */
    uint32_t connect_ms; /* until an engine is read; 0: 5 to 30 */
    uint32_t workers;    /* that there are engines of */
    uint32_t ranks;      /* of each */
    bool configured[NET_HOSTS][NET_WORKERS]; /* by the host's own file */
    uint32_t dns; /* bit i: the name has host i's address */
    bool joins;   /* hosts look the name up */
    const char *host_island[NET_HOSTS]; /* NULL: none is told */
    const char *worker_island[NET_WORKERS];
    bool severed[NET_HOSTS][NET_HOSTS]; /* from, to */
    struct net_host host[NET_HOSTS];
    struct net_pair pair[NET_HOSTS][NET_HOSTS];
    struct net_engine engine[NET_WORKERS][NET_RANKS];
    struct net_frame *flight;
    uint32_t flight_count, flight_size;
    uint64_t frames, bytes;
    uint64_t bulk_refused;
    uint64_t lag_max_us; /* a batch, from published to applied somewhere */
    void (*failed)(const char *reason);
    void (*tap)(uint32_t to, const struct net_frame *frame); /* or NULL */
};

/* Defaults: 0.5 ms of delay, all hosts in DNS and looking, one worker of one
 * rank, configured nowhere, a batch each 5 ms. */
void net_init(struct net *net, uint64_t seed);
void net_fini(struct net *net);

void net_start(struct net *net, uint32_t host);
/* Hosts 0..count-1, with all workers configured on each. */
void net_mesh(struct net *net, uint32_t count, uint32_t workers);
void net_crash(struct net *net, uint32_t host);
void net_leave(struct net *net, uint32_t host);
void net_pause(struct net *net, uint32_t host, uint64_t ms);
/* Bits of hosts: severed from each other. */
void net_split(struct net *net, uint32_t one, uint32_t other);
void net_heal(struct net *net);
void net_engine_restart(struct net *net, uint32_t worker);

/* The engine's id of worker i in the roster is "w<i>". */
uint64_t net_worker_id(uint32_t worker);
/* After calls on a host's cluster from outside. Workers come and go once there
 * are no outputs left, as in a shell that puts off what it is asked for. */
void net_pull(struct net *net, uint32_t host);

void net_step(struct net *net);
void net_run(struct net *net, uint64_t ms);

/* Conditions; each is asked after every millisecond until it holds. */
typedef bool net_condition(struct net *net);
/* How many ms until it held, or NET_NEVER. */
uint64_t net_until(struct net *net, net_condition *holds, uint64_t limit_ms);

/* All living hosts count exactly each other. */
bool net_all_met(struct net *net);
/* All living hosts that know a worker have its engines' state, and say so. */
bool net_all_equal(struct net *net);
/* Each worker is read by min(replicas, able) of the living, and nobody else. */
bool net_all_read(struct net *net);

uint32_t net_readers(const struct net *net, uint32_t worker); /* bits */
uint32_t net_living(const struct net *net);
/* The host that is of this rank for a worker, as host `by` sees it. */
uint32_t net_ranked(struct net *net, uint32_t by, uint32_t worker,
                    uint32_t rank);
struct gossip_stats net_gossip(const struct net *net, uint32_t host);
bool net_status(const struct net *net, uint32_t host, uint32_t worker,
                struct gossip_status *status);
/* Where everybody is. */
void net_print(struct net *net);

#endif
