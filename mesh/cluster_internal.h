/*
 * The inside of cluster.h, shared by its files; README.md says what each file
 * does.
 *
 * Members are copied into rows when an event says that they changed. Peers,
 * ranks and the claims that count follow from rows and links; they are computed
 * anew from both when either changes, not step by step. So the same rows and
 * links make the same peers and ranks, in whatever order links and members come
 * and go.
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
#define CLUSTER_HINTS_TURN 16U /* handed to the membership at once */
#define CLUSTER_HINTS_US   UINT64_C(250000)
#define CLUSTER_CLAIMS_US  UINT64_C(3000000)
#define CLUSTER_CTL_BYTES  4096U /* longer frames of the roster go by bulk */
#define CLUSTER_BODY_MAX   ((size_t)256 << 10) /* of link.h */

enum cluster_body { /* the first byte of a body */
    CLUSTER_BODY_MEMBER = 1,
    CLUSTER_BODY_GOSSIP,
    CLUSTER_BODY_ROSTER,
    CLUSTER_BODY_CLAIMS,
};

/* A member, as the membership last reported it. */
struct cluster_row {
    struct member_id id;
    uint64_t name_hash; /* owner_name() */
    struct island_path island;
    enum member_state state;
    bool self;
    char name[MEMBER_NAME_MAX];
    char address[MEMBER_ADDRESS_MAX];
    char label[MEMBER_ISLAND_MAX]; /* of its island */
};

struct cluster_link {
    char address[MEMBER_ADDRESS_MAX]; /* empty: the slot is free */
    uint64_t session;
    bool fresh; /* came up since peers were last computed */
};

/* A peer that is up for gossip and the roster. */
struct cluster_peer {
    uint64_t session; /* 0: the slot is free */
    uint64_t away;    /* of it, as gossip was told */
    bool suspect;
    bool owed; /* must be sent our claims */
    char address[MEMBER_ADDRESS_MAX];
};

/* The workers that a member cannot reach. */
struct cluster_claims {
    uint64_t session; /* 0: the slot is free */
    uint64_t version;
    uint32_t count;
    uint64_t *workers; /* in rising order */
};

struct cluster_worker {
    uint64_t id;
    struct island_path island;
    uint32_t ranks;
    bool unable;  /* this node cannot reach it */
    bool reading; /* as CLUSTER_READ said last */
    bool unread;  /* no node can, as gossip was told */
    struct owner owner;
    uint32_t rank;    /* as gossip was told */
    uint64_t primary; /* as gossip was told */
};

/* A member's event, which is reported before anything else. */
struct cluster_notice {
    enum cluster_out_kind kind;
    char address[MEMBER_ADDRESS_MAX];
};

struct cluster {
    struct cluster_config config;
    uint64_t self; /* this node's session */
    uint64_t born_us;
    uint64_t now_us;
    bool left;   /* or refused: nothing is accepted any more */
    bool silent; /* refused: nothing is sent either */
    bool joins;  /* there are joins to look at */
    bool ticked;
    bool looks;      /* discovery may have outputs */
    bool claims_due; /* some peer is owed our claims */
    bool dirty;      /* peers and ranks must be computed anew */
    struct member_table *members;
    struct gossip *gossip;
    struct roster *roster;
    struct discover discover;

    struct cluster_row rows[MEMBERS_MAX];
    uint32_t rows_count;
    uint32_t counted; /* rows that are alive or suspect */
    struct cluster_link links[CLUSTER_LINKS_MAX];
    struct cluster_peer peers[MEMBERS_MAX];
    bool met; /* some peer was up at some time */

    struct cluster_worker *workers; /* in rising order of ids */
    uint32_t workers_count;
    uint32_t workers_size;
    uint32_t handing;       /* workers that are being handed over */
    uint64_t owners_due_us; /* the earliest deadline of a hand-over */
    uint32_t reads_at;      /* workers before this index were reported */
    uint64_t seen_at_add;   /* vectors compared when the last worker was
                               added */

    struct cluster_claims claims[MEMBERS_MAX];
    uint64_t version; /* of our own claims; 0: there never were any */
    uint64_t claims_us;
    uint8_t *claims_bytes; /* of the frame being handed out */

    char hints[CLUSTER_HINTS_MAX][MEMBER_ADDRESS_MAX];
    uint32_t hints_first;
    uint32_t hints_count;
    uint32_t hints_left; /* in this turn */
    uint64_t hints_us;   /* when the next turn is */

    enum cluster_ready ready;
    enum cluster_ready told;

    struct cluster_notice notices[2];
    uint32_t notices_count;
    struct cluster_notice lent;
    struct member_out pulled;
    struct member_message message;   /* the message just received */
    uint8_t bytes[MEMBER_CODEC_MAX]; /* of the message being handed out */
    struct cluster_stats stats;
};

/* The member is alive or suspect. */
static inline bool
cluster_row_counts(const struct cluster_row *row)
{
    return row->state == MEMBER_ALIVE || row->state == MEMBER_SUSPECT;
}

/* cluster_peers.c: members, links, and who is a peer */

/* Copies the members again. */
void cluster_rows_load(struct cluster *c);

/* Computes the peers anew, and tells gossip and the roster. */
void cluster_peers_sync(struct cluster *c);

/* The member of that session, or NULL. */
const struct cluster_row *cluster_row_of(const struct cluster *c,
                                         uint64_t session);

/* The peer of that session, or NULL; session is not 0. */
struct cluster_peer *cluster_peer_of(struct cluster *c, uint64_t session);

/* The session of the process at the other end of the link to an address; 0: the
 * link is not up. */
uint64_t cluster_link_session(const struct cluster *c, const char *address);

/* Handles a member's event: links to doubt or drop, rows to copy again. */
void cluster_member_event(struct cluster *c, enum member_event event,
                          const struct member_update *about);

/* cluster_workers.c: who reads what */

/* Computes anew who reads which worker, and tells gossip. */
void cluster_workers_rank(struct cluster *c);

/* Ends hand-overs that are due. */
void cluster_workers_tick(struct cluster *c);

/* A frame of gossip arrived: it may end a hand-over. */
void cluster_workers_heard(struct cluster *c);

/* The worker of that identity, or NULL. */
struct cluster_worker *cluster_worker_of(const struct cluster *c, uint64_t id);

/* A worker may be added soon, so vectors compared so far do not cover it. */
void cluster_worker_told(struct cluster *c, const struct roster_entry *entry);

/* The next CLUSTER_READ; false: none. */
bool cluster_reads_next(struct cluster *c, struct cluster_out *out);

/* cluster_claims.c: who cannot reach which workers */

/* Whether that process (it may be this node) says that it cannot reach the
 * worker. */
bool cluster_claims_say(const struct cluster *c, uint64_t session,
                        uint64_t worker);

/* Bytes that this node's own claims take at most. */
static inline size_t
cluster_claims_size(const struct gossip_config *config)
{
    return 32 + (size_t)config->streams_max * 8;
}

/* Takes a member's claims: 0, CLUSTER_E_BAD or CLUSTER_E_STRANGER. */
int cluster_claims_recv(struct cluster *c, uint64_t session, struct slice tail);

/* Our claims changed: all peers are owed them. */
void cluster_claims_changed(struct cluster *c);

/* Sends our claims to all peers again every CLUSTER_CLAIMS_US. */
void cluster_claims_tick(struct cluster *c);

/* The next frame of our claims; false: no peer is owed one. */
bool cluster_claims_next(struct cluster *c, struct cluster_out *out);

/* Drops the claims of members that are gone. */
void cluster_claims_prune(struct cluster *c);

/* Frees the memory of all claims. */
void cluster_claims_fini(struct cluster *c);

/* cluster.c: computes anew what follows from members and links */
void cluster_refresh(struct cluster *c);

/* cluster_ready.c */

/* Decides anew whether this node has caught up. */
void cluster_ready_update(struct cluster *c);

/* When cluster_ready_update() may change its answer by time alone; UINT64_MAX:
 * never. */
uint64_t cluster_ready_deadline(const struct cluster *c);

/* cluster_out.c: hints wait for their turn */

/* Keeps an address for the membership. An address that waits already is
 * ignored, and so is one beyond the bound. */
void cluster_hint_put(struct cluster *c, const char *address);

/* True: some hints were handed over. */
bool cluster_hints_turn(struct cluster *c);

/* When the next hints must be handed over; UINT64_MAX: none wait. */
uint64_t cluster_hints_deadline(const struct cluster *c);

#endif
