/*
 * The inside of simulated disks, shared by their files: sim_snapshot.c takes
 * snapshots, sim_snapshot_ledger.c the ledger's half of them,
 * sim_snapshot_load.c starts from them, sim_snapshot_break.c breaks disks.
 *
 * Role: core, private to the simulator. Thread: one owner.
 */
#ifndef CHAOS_SIM_SNAPSHOT_INTERNAL_H
#define CHAOS_SIM_SNAPSHOT_INTERNAL_H

#include "chaos/sim/sim_world_internal.h"

#define SIM_CLUSTER "sim"

/* A state that was cut: fingerprints, computed from the pages of the index. */
struct sim_saved {
    uint64_t print[SIM_STREAMS]; /* 0: the stream is not in it */
    bool names[SIM_STREAMS]; /* the ledger has it, and where its reading is */
    uint64_t roster;
};

/* Where a reading is, in a ledger. */
struct sim_held {
    struct decoder_position *at; /* NULL: not known */
    uint64_t cut;
};

/* A node's disk, which outlives it, and its snapshots. */
struct sim_store {
    struct storage_io *io;
    struct storage_io *backup; /* an earlier copy of the disk */
    bool lies;
    bool tears; /* lies until the power goes, which is soon */
    bool full;
    bool honest;         /* it did all that it said since the last start */
    bool foreign;        /* the next start is another cluster's */
    uint64_t kept;       /* the last snapshot that is on it for certain */
    uint64_t newest;     /* the last snapshot of any life here */
    uint32_t jobs_to_go; /* until the power goes; 0: it does not */
    /* Of this life. */
    struct storage_cut *cut;
    struct storage_disk *queue;
    struct storage_take take;
    uint64_t armed_us; /* the next turn */
    bool working;      /* an SIM_EV_DISK is on its way */
    uint64_t finish_us;
    uint64_t away_ms; /* after the goodbye */
    uint64_t told_taken;
    uint64_t told_failed;
    bool loaded[SIM_STREAMS]; /* as seen last */
    struct sim_world *world;  /* for what wakes us */
    uint32_t node;
    struct storage_twin *twin;             /* the ledger's half */
    bool cutting;                          /* an SIM_EV_LEDGER is on its way */
    struct sim_held position[SIM_STREAMS]; /* as last reported */
    struct sim_held resume[SIM_STREAMS];   /* to be gone on from */
};

struct sim_stores {
    struct rng rng;
    struct storage_take_config take;
    struct storage_limits limits;
    uint32_t turn_us;        /* between two turns of a cut */
    uint32_t job_us;         /* a turn of the disk, at most */
    uint32_t jobs;           /* done in it */
    struct sim_saved *saved; /* by number - 1 */
    uint64_t saved_count;
    uint64_t saved_size;
    struct sim_store store[SIM_NODES_MAX];
};

static inline struct sim_store *
sim_store_of(struct sim_world *w, uint32_t node)
{
    return w->stores == NULL ? NULL : &w->stores->store[node];
}

/* sim_snapshot.c: a stream with all that its slot of the mirror holds, as a
 * number that is not 0. */
uint64_t sim_snapshot_print(struct sim_world *w, uint32_t node,
                            const struct storage_stream *stream);
/* The next turn is that far away, at most. */
void sim_snapshot_arm(struct sim_world *w, uint32_t node, uint64_t after_us);

/* sim_snapshot_ledger.c */
/* A process starts: its ledger can be cut for snapshots. */
void sim_ledger_begin(struct sim_world *w, uint32_t node);
/* It ends; what it had is freed. */
void sim_ledger_end(struct sim_world *w, uint32_t node);
/* One turn of the cut, on the thread of the intake. */
void sim_ledger_turn(struct sim_world *w, uint32_t node);
/* Adds to a stream where its reading was at the cut. */
void sim_ledger_position(struct sim_world *w, uint32_t node, uint32_t engine,
                         struct storage_stream *stream);
/* A snapshot's data about a reading is kept until the engine is read. */
void sim_ledger_restore(struct sim_world *w, uint32_t node, uint32_t engine,
                        const struct storage_stream *stream);

#endif
