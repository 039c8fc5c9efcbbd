/*
 * The inside of cluster.h, shared by its files: what each does is said in
 * README.md.
 *
 * Members are copied into rows when an event says that they changed, and what
 * follows from rows and links (peers, ranks, claims that count) is worked out
 * anew from both when one of them changed, instead of step by step: whatever
 * the order in which links and members come and go, the same rows and links
 * make the same peers and ranks.
 *
 * Role: core. Thread: the one owner.
 */
#ifndef MESH_CLUSTER_INTERNAL_H
#define MESH_CLUSTER_INTERNAL_H

#include "index/base/rng.h"
#include "mesh/cluster.h"
#include "mesh/member_codec.h"
#include "mesh/owner.h"

#define CLUSTER_LINKS_MAX  128U
#define CLUSTER_HINTS_MAX  DISCOVER_ADDRESSES_MAX
#define CLUSTER_HINTS_TURN 16U /* that the membership takes at once */
#define CLUSTER_HINTS_US   UINT64_C(250000)
#define CLUSTER_CLAIMS_US  UINT64_C(3000000)
#define CLUSTER_CTL_BYTES  4096U /* longer frames of the roster go by bulk */
#define CLUSTER_BODY_MAX   ((size_t)256 << 10) /* of link.h */
#define CLUSTER_NOBODY     UINT32_MAX

enum cluster_body { /* the first byte of one */
    CLUSTER_BODY_MEMBER = 1,
    CLUSTER_BODY_GOSSIP,
    CLUSTER_BODY_ROSTER,
    CLUSTER_BODY_CLAIMS,
};

/* A member as it was told last. */
struct cluster_row {
    struct member_id id;
    uint64_t name_hash; /* owner_name() */
    enum member_state state;
    bool self;
    char name[MEMBER_NAME_MAX];
    char address[MEMBER_ADDRESS_MAX];
};

struct cluster_link {
    char address[MEMBER_ADDRESS_MAX]; /* empty: the place is free */
    uint64_t session;
    bool fresh; /* came up since peers were looked at last */
};

/* Who is up for gossip and the roster. */
struct cluster_peer {
    uint64_t session; /* 0: the place is free */
    bool suspect;
    bool owed; /* is to be sent our claims */
    char address[MEMBER_ADDRESS_MAX];
};

/* Which workers a member says it cannot reach. */
struct cluster_claims {
    uint64_t session; /* 0: the place is free */
    uint64_t version;
    uint32_t count;
    uint64_t *workers; /* rising */
};

struct cluster_worker {
    uint64_t id;
    uint32_t ranks;
    bool unable;  /* us */
    bool reading; /* as told by CLUSTER_READ */
    bool unread;  /* nobody can, as gossip was told */
    struct owner owner;
    uint32_t rank;    /* as gossip was told */
    uint64_t primary; /* the same */
};

/* What is told before anything else: of a member's event. */
struct cluster_notice {
    enum cluster_out_kind kind;
    char address[MEMBER_ADDRESS_MAX];
};

struct cluster {
    struct cluster_config config;
    uint64_t self; /* session */
    uint64_t born_us;
    uint64_t now_us;
    bool left;   /* or refused: nothing goes in any more */
    bool silent; /* refused: nothing comes out either */
    bool joins;  /* there is somewhere to look */
    bool ticked;
    bool looks;      /* discovery may have outputs */
    bool claims_due; /* some peer is owed ours */
    bool dirty;      /* rows, peers and ranks are to be worked out */
    struct member_table *members;
    struct gossip *gossip;
    struct roster *roster;
    struct discover discover;

    struct cluster_row rows[MEMBERS_MAX];
    uint32_t rows_count;
    uint32_t counted; /* rows that are alive or suspect */
    struct cluster_link links[CLUSTER_LINKS_MAX];
    struct cluster_peer peers[MEMBERS_MAX];
    bool met; /* a peer was up, ever */

    struct cluster_worker *workers; /* rising by id */
    uint32_t workers_count;
    uint32_t workers_size;
    uint32_t handing;       /* of them, being handed over */
    uint64_t owners_due_us; /* the earliest of their deadlines */
    uint32_t reads_at;      /* those before were told of */
    uint64_t seen_at_add;   /* vectors compared when a worker came last */

    struct cluster_claims claims[MEMBERS_MAX];
    uint64_t version; /* of our own; 0: never any */
    uint64_t claims_us;
    uint8_t *claims_bytes; /* of the frame that is handed out */

    char hints[CLUSTER_HINTS_MAX][MEMBER_ADDRESS_MAX];
    uint32_t hints_first;
    uint32_t hints_count;
    uint32_t hints_left; /* of this turn */
    uint64_t hints_us;   /* the next one */

    enum cluster_ready ready;
    enum cluster_ready told;

    struct cluster_notice notices[2];
    uint32_t notices_count;
    struct cluster_notice lent;
    struct member_out pulled;
    struct member_message message;   /* that came */
    uint8_t bytes[MEMBER_CODEC_MAX]; /* of the message that is handed out */
    struct cluster_stats stats;
};

/* The member is alive or suspect. */
static inline bool
cluster_row_counts(const struct cluster_row *row)
{
    return row->state == MEMBER_ALIVE || row->state == MEMBER_SUSPECT;
}

/* cluster_peers.c: members, links, and who is a peer */

/* Copies the members anew. */
void cluster_rows_load(struct cluster *c);

/* Works out anew who is a peer, and tells gossip and the roster. */
void cluster_peers_sync(struct cluster *c);

/* The member of that session, or NULL. */
const struct cluster_row *cluster_row_of(const struct cluster *c,
                                         uint64_t session);

/* The peer of that session, or NULL; session is not 0. */
struct cluster_peer *cluster_peer_of(struct cluster *c, uint64_t session);

/* The session of the process that the link to an address reaches; 0: no link is
 * up. */
uint64_t cluster_link_session(const struct cluster *c, const char *address);

/* Takes in what the membership says: links to doubt or drop, rows to renew. */
void cluster_member_event(struct cluster *c, enum member_event event,
                          const struct member_update *about);

/* cluster_workers.c: who reads what */

/* Works out anew who reads which worker, and tells gossip. */
void cluster_workers_rank(struct cluster *c);

/* Ends hand-overs whose time is up. */
void cluster_workers_tick(struct cluster *c);

/* A frame of gossip came: a hand-over may be over. */
void cluster_workers_heard(struct cluster *c);

/* The worker of that identity, or NULL. */
struct cluster_worker *cluster_worker_of(const struct cluster *c, uint64_t id);

/* A worker may be added soon: what was compared so far says nothing of it. */
void cluster_worker_told(struct cluster *c, const struct roster_entry *entry);

/* The next CLUSTER_READ; false: none. */
bool cluster_reads_next(struct cluster *c, struct cluster_out *out);

/* cluster_claims.c: who cannot reach which workers */

/* Whether that process, ourselves included, says that it cannot reach the
 * worker. */
bool cluster_claims_say(const struct cluster *c, uint64_t session,
                        uint64_t worker);

/* Bytes that our own claims take at most. */
static inline size_t
cluster_claims_size(const struct gossip_config *config)
{
    return 32 + (size_t)config->streams_max * 8;
}

/* Claims of a member: 0, CLUSTER_E_BAD or CLUSTER_E_STRANGER. */
int cluster_claims_recv(struct cluster *c, uint64_t session, struct slice tail);

/* Ours changed: all peers are owed them. */
void cluster_claims_changed(struct cluster *c);

/* Repeats ours to all peers every CLUSTER_CLAIMS_US. */
void cluster_claims_tick(struct cluster *c);

/* The next frame of our claims; false: nobody is owed one. */
bool cluster_claims_next(struct cluster *c, struct cluster_out *out);

/* Those of who is gone are dropped. */
void cluster_claims_prune(struct cluster *c);

/* Gives the memory of all claims back. */
void cluster_claims_fini(struct cluster *c);

/* cluster.c: everything that follows from members and links */
void cluster_refresh(struct cluster *c);

/* cluster_ready.c */

/* Works out anew whether this node has caught up. */
void cluster_ready_update(struct cluster *c);

/* When cluster_ready_update() may change by time alone; UINT64_MAX: never. */
uint64_t cluster_ready_deadline(const struct cluster *c);

/* cluster_out.c: hints wait for their turn */

/* Keeps an address for the membership; one that waits already, and one too
 * many, is ignored. */
void cluster_hint_put(struct cluster *c, const char *address);

/* True: some were handed over. */
bool cluster_hints_turn(struct cluster *c);

/* When the next hints are to be handed over; UINT64_MAX: none wait. */
uint64_t cluster_hints_deadline(const struct cluster *c);

#endif
