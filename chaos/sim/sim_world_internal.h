/*
 * The inside of the simulator, shared by its files: sim.c draws a world, runs
 * its events and ends it; sim_engine.c has engines and the truth about them,
 * sim_net.c the links, sim_node.c a node, sim_intake.c its readers of engines,
 * sim_snapshot*.c its disk, sim_chaos.c what breaks, sim_check.c and
 * sim_known.c what must hold.
 *
 * Role: core, private to the simulator. Thread: one owner.
 */
#ifndef CHAOS_SIM_WORLD_INTERNAL_H
#define CHAOS_SIM_WORLD_INTERNAL_H

#include <string.h>

#include "chaos/base/virtual_time.h"
#include "chaos/engine/engine_events.h"
#include "chaos/sim/sim.h"
#include "index/base/qsbr.h"
#include "index/base/ring.h"
#include "mesh/mesh.h"
#include "node/node.h"

#define SIM_MS            UINT64_C(1000)
#define SIM_NEVER         UINT64_MAX
#define SIM_BLOCK_TOKENS  4U
#define SIM_TRUTH_SLOTS   1024U /* a power of two, over twice the blocks */
#define SIM_ADDRESS_BYTES 32U
#define SIM_STREAMS       SIM_ENGINES_MAX
#define SIM_SAID_MAX      4U
#define SIM_CTL_FRAMES    256U
#define SIM_MIRROR_BYTES  ((size_t)64 << 20)
#define SIM_LEDGER_BYTES  ((size_t)64 << 20)
#define SIM_SCRIPT_MS     2000U /* until all are together, and it begins */

enum sim_event {
    SIM_EV_NODE,     /* who: node, what: life; its cluster is due */
    SIM_EV_WORK,     /* who: node, what: life */
    SIM_EV_START,    /* who: node */
    SIM_EV_FRAME,    /* who: pipe, what: channel */
    SIM_EV_DATAGRAM, /* what: slot of a frame */
    SIM_EV_DIAL,     /* who: pipe, what: its dial number */
    SIM_EV_UP,       /* who: pipe, what: slot of a link */
    SIM_EV_DOWN,     /* who: pipe, what: session that went */
    SIM_EV_SILENT,   /* who: pipe, what: session */
    SIM_EV_RESUME,   /* who: node, what: life */
    SIM_EV_ANSWER,   /* who: node, what: slot of a lookup */
    SIM_EV_ITEMS,    /* who: node, what: life */
    SIM_EV_ENGINE,   /* who: engine */
    SIM_EV_REQUEST,  /* who: engine */
    SIM_EV_CONNECT,  /* who: reader, what: its socket */
    SIM_EV_HANGUP,   /* who: reader, what: its socket */
    SIM_EV_LIVE,     /* who: reader, what: slot of a message */
    SIM_EV_ASK,      /* who: reader, what: slot of a message */
    SIM_EV_REPLY,    /* who: reader, what: slot of a message */
    SIM_EV_READER,   /* who: reader, what: life; its stream is due */
    SIM_EV_REREAD,   /* who: reader, what: ask */
    SIM_EV_CHAOS,    /* who: enum sim_fault */
    SIM_EV_MEND,     /* who: node * SIM_ENGINES_MAX + engine */
    SIM_EV_SCRIPT,   /* who: line of the script */
    SIM_EV_ROUTER,   /* who: node, what: life; fleet or hints are due */
    SIM_EV_FACTS,    /* who: node, what: life */
    SIM_EV_PROBE,    /* who: node | engine << 8 | kind << 16, what: life */
    SIM_EV_CLIENT,   /* the next request */
    SIM_EV_FLIGHT,   /* who: slot | step << 16, what: see sim_request.c */
    SIM_EV_TAKE,     /* who: node, what: life; a turn of its snapshots */
    SIM_EV_DISK,     /* who: node, what: life; a turn of its disk */
    SIM_EV_LEDGER,   /* who: node, what: life; a turn of its ledger's cut */
    SIM_EV_DESK,     /* who: node, what: life; its limits or queue are due */
    SIM_EV_TENANT,   /* who: SIM_TENANT_*, or one that is open */
    SIM_EV_SCALE,    /* who: a call for an engine */
    SIM_EV_KINDS,
};

/* Engines */

/* What an engine holds after a batch; its bytes. */
struct sim_batch {
    uint64_t count;
    uint64_t xor_keys;
    char *bytes; /* NULL: a hole, published to nobody */
    size_t len;
};

struct sim_process {
    struct sim_batch *batches; /* by seq */
    uint32_t count;
    uint32_t size;
    uint64_t id; /* its name as an epoch; 0: nothing published yet */
    bool gapped; /* a batch is missing for good, somewhere */
    bool lost;   /* nobody can learn all that it holds any more */
};

#define SIM_PROMPT_BLOCKS 9U
#define SIM_PROMPT_TOKENS ((SIM_PROMPT_BLOCKS + 2) * SIM_BLOCK_TOKENS)

/* What a request says: a family's beginning, and then its own words. */
struct sim_prompt {
    uint32_t family;
    uint32_t own;    /* from this block on */
    uint64_t number; /* makes those words */
    uint32_t len;    /* tokens */
    uint32_t output_len;
};

/* A block that the engine holds: its name there, and what it is to us. */
struct sim_truth {
    uint64_t name;
    uint64_t key;
    uint32_t copies; /* 0: free */
};

struct sim_engine {
    struct engine engine;
    struct engine_batch batch;
    struct event_stream stream;
    char id[16];
    bool has_replay;
    uint32_t replay_max; /* batches that it keeps */
    uint64_t armed_us;
    struct sim_truth truth[SIM_TRUTH_SLOTS];
    uint64_t count; /* blocks held */
    uint64_t xor_keys;
    struct sim_process *processes;
    uint32_t processes_count;
    double clock_s; /* its wall clock is that far off */
    uint64_t idle_until_us;
    uint64_t drawn; /* request numbers */
};

static inline struct sim_process *
sim_living(struct sim_engine *engine)
{
    return &engine->processes[engine->processes_count - 1];
}

/* Links */

struct sim_frame {
    struct sim_frame *next;
    uint64_t ready_us;
    uint64_t sent_us;
    uint64_t from; /* session */
    uint32_t pipe;
    uint32_t len;
    uint8_t bytes[];
};

struct sim_channel {
    struct sim_frame *first;
    struct sim_frame *last;
    uint32_t count;
    uint64_t last_us; /* when the last one that was queued is there */
    bool armed;
};

/* From one node to another, as the sender knows it. */
struct sim_pipe {
    bool known; /* dials */
    bool up;
    bool lagging;     /* bulk overflowed */
    uint64_t session; /* of who is there */
    uint64_t dials;
    struct sim_channel channels[MESH_CHANNELS];
};

/* Nodes */

struct sim_reader {
    bool on;
    struct decoder decoder;
    struct kv_counters counters;
    uint64_t socket; /* number of the event socket; rises */
    bool connected;
    uint32_t process; /* connected to */
    uint64_t live_us; /* when the last message is there */
    uint64_t replay;  /* number of the replay socket; rises */
    bool replaying;
    uint64_t armed_us;
};

struct sim_stream {
    struct ingest_reach reach;
    uint32_t number; /* how many sources it had */
    struct ingest_rank rank;
    /* What was seen last, for what must not go back. */
    struct gossip_epoch epoch;
    uint64_t pos;
    uint32_t begins; /* readings that began */
    uint32_t known;  /* batches of the living process: all is known that came of
                        them; 0: not all */
    uint32_t knew;   /* begins + 1 when the reading led a complete epoch of the
                        living process; 0: it did not */
};

struct sim_node {
    bool up;
    uint64_t life; /* number of this process in the world */
    struct member_id id;
    char name[16];
    char address[SIM_ADDRESS_BYTES];
    int64_t clock_us;   /* added to the world's */
    uint64_t paused_us; /* until then; 0: it runs */
    uint64_t turn_us;   /* the intake's last sign of life, own clock */
    uint64_t born_us;
    uint64_t armed_us;
    struct sim_world *world;
    struct hub *hub;
    struct cluster *cluster; /* the hub's */
    enum cluster_ready ready;
    struct qsbr qsbr;
    struct publish view;
    struct mirror *mirror;
    struct mirror_writer *writer;
    struct ingest_streams *ingest;
    struct sim_stream streams[SIM_STREAMS];
    struct ring items;
    bool items_armed;
    bool working; /* an SIM_EV_WORK is on its way */
    uint64_t looked_us;
    struct decoder_tools tools;
    struct sim_reader readers[SIM_ENGINES_MAX];
    bool severed[SIM_ENGINES_MAX]; /* from an engine */
    uint64_t steps;
    struct sim_router *router; /* sim_router_internal.h; NULL: no requests */
};

/* Things in flight that a number in an event stands for. */
struct sim_message {
    uint64_t socket;
    uint32_t process;
    uint32_t seq;
    uint32_t until; /* REPLY: seqs up to this one */
    uint32_t lost;  /* REPLY: this one is not there; UINT32_MAX */
    bool end;       /* REPLY: then the end marker */
};

/* The newest that was said of a worker of the roster. */
struct sim_said {
    uint64_t version; /* 0: nothing */
    uint32_t node;
    uint64_t life; /* of that node */
    bool removed;
    bool tie; /* another node said something else at this version */
};

struct sim_world {
    struct sim_options options;
    struct sim_result *result;
    struct virtual_time time;
    struct rng rng;  /* traffic, delays: what is always there */
    struct rng draw; /* seeds of cores */
    struct rng chaos[SIM_FAULT_KINDS];
    uint64_t faults; /* that this world has */
    uint32_t rate_ms[SIM_FAULT_KINDS];
    uint64_t faults_count;
    bool quiet; /* healed: nothing breaks any more */
    bool failed;

    uint32_t nodes_count;
    uint32_t engines_count;
    struct cluster_config config;
    uint32_t delay_us;
    uint32_t jitter_us;
    uint32_t loss_permille;
    uint32_t bulk_frames;
    uint32_t drop_permille;
    uint32_t repeat_permille;
    uint32_t reply_permille;
    uint32_t hole_permille;
    uint32_t request_ms;
    uint32_t engine_blocks;
    uint32_t page_words; /* of states that are transferred */
    bool same_names;     /* engines name blocks alike, over restarts, too */
    uint64_t chaos_end_us;
    uint64_t traffic_end_us;
    struct sim_stores *stores; /* NULL: nodes have no disks */
    uint64_t disturbed_us;     /* when links were last not as they should be */

    struct sim_node nodes[SIM_NODES_MAX];
    struct sim_engine engines[SIM_ENGINES_MAX];
    struct sim_pipe pipes[SIM_NODES_MAX][SIM_NODES_MAX];
    bool severed[SIM_NODES_MAX][SIM_NODES_MAX];
    uint64_t severed_us[SIM_NODES_MAX][SIM_NODES_MAX]; /* since */
    uint32_t slow_us[SIM_NODES_MAX]; /* a frame takes longer there */
    uint64_t lives;
    struct sim_said said[SIM_SAID_MAX];
    struct sim_requests *requests; /* sim_request_internal.h; NULL: none */
    struct sim_tenants *tenants;   /* sim_tenants_internal.h; NULL: none */
    struct sim_streams *streams;   /* sim_streams_internal.h; NULL: none */
    struct sim_scale *scale;       /* sim_scale_internal.h; NULL: none */
    struct sim_speed *speeds;      /* sim_speed_internal.h; NULL: none */

    /* In flight; free slots are a stack. */
    struct sim_message *messages;
    uint32_t messages_size;
    uint32_t *messages_free;
    uint32_t messages_free_count;
    struct sim_frame **datagrams;
    uint32_t datagrams_size;
    uint32_t *datagrams_free;
    uint32_t datagrams_free_count;
    struct kv_reader *decoder;
    struct buf payload;
};

/* sim.c */
/* Schedules an event at a moment that is not before now. */
void sim_add(struct sim_world *w, uint64_t at_us, enum sim_event kind,
             uint32_t who, uint64_t what);
/* Something that must hold does not: the run ends after this event. The
 * first one counts. engine: UINT32_MAX when it is about none. */
void sim_fail(struct sim_world *w, const char *what, uint32_t node,
              uint32_t engine);
/* Runs events until a moment, or until something is found. */
void sim_run_until(struct sim_world *w, uint64_t until_us);
/* Prints a line, if the run is traced. */
void sim_trace(struct sim_world *w, const char *what, uint32_t who,
               uint64_t number);
/* Adds to the hash that tells two runs of one seed apart. */
void sim_hash(struct sim_world *w, uint64_t number);

static inline uint32_t
sim_below(struct rng *rng, uint64_t bound)
{
    return (uint32_t)rng_below(rng, bound);
}

static inline bool
sim_chance(struct rng *rng, uint32_t permille)
{
    return permille > 0 && rng_below(rng, 1000) < permille;
}

static inline bool
sim_has(const struct sim_world *w, enum sim_fault fault)
{
    return (w->faults >> fault & 1) != 0;
}

static inline void
sim_saw(struct sim_world *w, enum sim_sometimes what, uint64_t times)
{
    w->result->saw[what] += times;
}

/* False: that was one too many. Else it is counted. */
bool sim_may_break(struct sim_world *w, enum sim_fault fault);

/* sim_engine.c */
/* Draws what the engine publishes, and starts its first process. */
void sim_engine_start(struct sim_world *w, uint32_t engine);
/* Frees everything of it. */
void sim_engine_end(struct sim_engine *engine);
/* Another process at the same address, with an empty cache. idle: clients
 * leave it alone for a while, so it stays silent. */
void sim_engine_restart(struct sim_world *w, uint32_t engine, bool idle);
/* It drops its cache, and says so. */
void sim_engine_clear(struct sim_world *w, uint32_t engine);
/* Its model is due: steps it, and publishes what has changed. */
void sim_engine_due(struct sim_world *w, uint32_t engine);
/* A request comes from outside the mesh. */
void sim_engine_request(struct sim_world *w, uint32_t engine);
/* False: it has no room. */
/* A request comes from a node. False: it has no room. *ticket names it in
 * the model. */
bool sim_engine_submit(struct sim_world *w, uint32_t engine,
                       const struct engine_request *request, uint64_t *ticket);
/* Draws a prompt; those of near numbers share prefixes. */
void sim_prompt_draw(struct rng *rng, uint64_t number,
                     struct sim_prompt *prompt);
/* Its tokens, prompt->len of them. */
void sim_prompt_tokens(const struct sim_prompt *prompt, uint32_t *tokens);
/* Seals the open batch, records the truth at it, and publishes it. */
void sim_engine_flush(struct sim_world *w, uint32_t engine);
/* The oldest batch that is replayed. */
uint32_t sim_engine_low(const struct sim_engine *engine, uint32_t process);
/* Which process an epoch's name stands for: its index, or UINT32_MAX. */
uint32_t sim_engine_process(const struct sim_engine *engine, uint64_t id);
/* Whether its living process has this block cached, by our key. */
bool sim_engine_holds(const struct sim_engine *engine, uint64_t key);

/* sim_known.c */
/* The engine published, or repeats less than before. */
void sim_known_changed(struct sim_world *w, uint32_t engine);
/* The node's process ended, or lost what it had. */
void sim_known_gone(struct sim_world *w, uint32_t node);
/* What the node says of the engine now. */
void sim_known_look(struct sim_world *w, uint32_t node, uint32_t engine,
                    const struct gossip_status *s);

/* sim_net.c */
/* Puts what a cluster sends on its way, or loses it. */
void sim_send(struct sim_world *w, uint32_t from,
              const struct cluster_out *out);
/* An event of links: a frame or a dial arrives, a link comes or goes. */
void sim_net_event(struct sim_world *w, const struct virtual_event *event);
/* A node tries to connect to another one. */
void sim_net_dial(struct sim_world *w, uint32_t from, uint32_t to);
/* A node believes that a link is dead: ends it if it is. */
void sim_net_doubt(struct sim_world *w, uint32_t from, const char *address);
/* A node ends its link to an address, whatever its state. */
void sim_net_drop(struct sim_world *w, uint32_t from, const char *address);
/* One direction is severed, or works again. */
void sim_net_sever(struct sim_world *w, uint32_t from, uint32_t to,
                   bool severed);
/* A process is gone: peers that can hear of it do. What it sent is still on
 * its way. */
void sim_net_gone(struct sim_world *w, uint32_t node);
/* A process stands still: its connections stay, and say nothing. */
void sim_net_silence(struct sim_world *w, uint32_t node);
/* Frees the frames under way. */
void sim_net_fini(struct sim_world *w);
/* Which node has this address; UINT32_MAX: none. */
uint32_t sim_net_node(const struct sim_world *w, const char *address);

/* sim_node.c */
/* Starts a process, from its disk if it has one. */
void sim_node_start(struct sim_world *w, uint32_t node);
/* Ends the process at once, and schedules its restart. */
void sim_node_kill(struct sim_world *w, uint32_t node);
/* Says goodbye, ends, and is started again. */
void sim_node_leave(struct sim_world *w, uint32_t node, uint64_t away_ms);
/* The end of a node's turn: what was said in it goes out, and it is checked. */
void sim_node_pull(struct sim_world *w, uint32_t node);
/* SIM_EV_NODE, SIM_EV_WORK and the like, of a process that runs. */
void sim_node_event(struct sim_world *w, const struct virtual_event *event);
/* The process stands still for so long. */
void sim_node_pause(struct sim_world *w, uint32_t node, uint64_t ms);
/* Control takes what its readings have handed over. */
void sim_node_items(struct sim_world *w, uint32_t node);
/* A reading has handed something over: control is to look, soon. */
void sim_node_want(struct sim_world *w, uint32_t node);
/* Adds the process's statistics to what the run has seen, before it ends. */
void sim_node_count(struct sim_world *w, uint32_t node);

static inline bool
sim_runs(const struct sim_world *w, uint32_t node)
{
    return w->nodes[node].up && w->nodes[node].paused_us == 0;
}

/* A node's own clock. */
static inline uint64_t
sim_now(const struct sim_world *w, uint32_t node)
{
    return w->time.now_us + (uint64_t)w->nodes[node].clock_us;
}

/* sim_intake.c */
static inline uint32_t
sim_reader_of(uint32_t node, uint32_t engine)
{
    return node * SIM_ENGINES_MAX + engine;
}

/* The cluster wants this engine read here, or no longer. */
void sim_intake_read(struct sim_world *w, uint32_t node, uint32_t engine,
                     bool on);
/* Ends the reading, with its sockets. */
void sim_intake_stop(struct sim_world *w, uint32_t node, uint32_t engine);
/* A look at the source, once a second. */
void sim_intake_look(struct sim_world *w, uint32_t node, uint32_t engine);
/* Gossip asks to read again from the start; ask is the number of the
 * question. */
void sim_intake_reread(struct sim_world *w, uint32_t node, uint32_t engine,
                       uint64_t ask, bool prove);
/* The reading may go on from the names that gossip has. */
void sim_intake_hand(struct sim_world *w, uint32_t node, uint32_t engine);

/* A piece of that, of whichever engine is next. True: there is more to do. */
bool sim_intake_hand_work(struct sim_world *w, uint32_t node);
/* An event of sockets between engines and readers. */
void sim_intake_event(struct sim_world *w, const struct virtual_event *event);
/* A batch goes to all connected readers, or is lost on the way. */
void sim_intake_publish(struct sim_world *w, uint32_t engine, uint32_t seq);
/* The event socket's connection is gone; the reader hears of it. */
void sim_intake_break(struct sim_world *w, uint32_t node, uint32_t engine,
                      uint64_t after_us);

/* sim_snapshot.c: disks, and what nodes save. */
/* Draws whether nodes have disks, and of which kind. */
void sim_snapshot_draw(struct sim_world *w);
/* Frees all disks. */
void sim_snapshot_end(struct sim_world *w);
/* Before a goodbye: true, or the node leaves later. */
bool sim_snapshot_finish(struct sim_world *w, uint32_t node, uint64_t away_ms);
/* Its process ends. */
void sim_snapshot_stop(struct sim_world *w, uint32_t node);
/* A turn of a cut, of the disk, or of the ledger is due. */
void sim_snapshot_event(struct sim_world *w, const struct virtual_event *event);
/* sim_snapshot_ledger.c. True: the item was about a snapshot alone. */
bool sim_snapshot_item(struct sim_world *w, uint32_t node,
                       const struct intake_item *item);
/* A reading ends. */
void sim_snapshot_unread(struct sim_world *w, uint32_t node, uint32_t engine);
/* A new reading goes on from where an earlier life had it. */
void sim_snapshot_resume(struct sim_world *w, uint32_t node, uint32_t engine,
                         struct decoder *decoder);
/* sim_snapshot_load.c: a new process, before anything is told it. */
void sim_snapshot_start(struct sim_world *w, uint32_t node);
/* What was loaded must not be believed before it was caught up with. */
void sim_snapshot_check(struct sim_world *w, uint32_t node);
/* The node was told how a stream stands: what was loaded may have been caught up
 * with, if only until its next item. */
void sim_snapshot_told(struct sim_world *w, uint32_t node, uint32_t engine);
/* A stream begins anew there. */
void sim_snapshot_reset(struct sim_world *w, uint32_t node, uint32_t engine,
                        struct gossip_epoch epoch);
/* sim_snapshot_break.c */
/* A fault of disks happens to a node. */
void sim_snapshot_break(struct sim_world *w, enum sim_fault fault,
                        uint32_t node);
/* Disks work again. */
void sim_snapshot_heal(struct sim_world *w);

/* sim_chaos.c */
/* Draws which classes of faults there are, and how often. */
void sim_chaos_draw(struct sim_world *w);
/* Schedules the first fault of each class. */
void sim_chaos_begin(struct sim_world *w);
/* A fault of this class happens, and the next one is scheduled. */
void sim_chaos_event(struct sim_world *w, enum sim_fault fault);
/* Everything is repaired; nothing breaks from now on. */
void sim_chaos_heal(struct sim_world *w);

/* sim_script.c. Schedules all lines of the script; there is one. */
void sim_script_begin(struct sim_world *w);
/* Plays one line. */
void sim_script_event(struct sim_world *w, uint32_t number);

/* sim_check.c */
/* What must hold of a node after each of its steps. */
void sim_check_node(struct sim_world *w, uint32_t node);

/* It has said goodbye. */
void sim_check_left(struct sim_world *w, uint32_t node);
/* What must hold of an event of membership. */
void sim_check_member(struct sim_world *w, uint32_t node,
                      const struct cluster_out *out);
/* NULL: all agree; else why not. */
const char *sim_check_agreed(struct sim_world *w);
/* Prints where everybody is, if the run is traced. */
void sim_check_print(struct sim_world *w);
/* What must hold at the end: invariants of all structures, and no block
 * credited that its engine does not hold. */
void sim_check_all(struct sim_world *w);
/* The names that gossip keeps of a complete stream are those of the ledger of a
 * reading that leads. */
void sim_names_check(struct sim_world *w, uint32_t node, uint32_t engine);
/* All nodes know of the engine what it holds: at quiet, if nothing was lost
 * for good. */
bool sim_check_is_whole(const struct sim_world *w, uint32_t engine);

#endif
