/*
 * Planted bugs: what a checker must find, or it checks nothing.
 *
 * A build with -DKVASIR_MUTANTS (chaos/kvasir-sim-mutants, of tests alone) has
 * them, and at most one is on. In every other build MUTANT() is false and
 * leaves no trace.
 *
 * Role: core. Owns: which one is on. Thread: set before anything runs.
 */
#ifndef INDEX_BASE_MUTANT_H
#define INDEX_BASE_MUTANT_H

/* X(NAME, name, what is wrong) */
#define MUTANTS(X)                                                             \
    X(OVER_GAP, over_gap, "records are applied over a gap")                    \
    X(KEEP_OLD, keep_old, "a new epoch does not forget the old one's blocks")  \
    X(NO_REFUTE, no_refute, "a suspected member does not refute")              \
    X(TOO_NEW, too_new, "the version vector is one batch too new")             \
    X(NO_REMOVE, no_remove, "removals are dropped")                            \
    X(TRUST_LIVE, trust_live, "a new connection is taken for the old process") \
    X(NO_CLEAR, no_clear, "a cleared cache is not told")                       \
    X(STILL_WHOLE, still_whole, "a gap leaves an epoch complete")              \
    X(TRIED_AGAIN, tried_again, "a worker that failed is tried again")         \
    X(NEVER_DOWN, never_down, "who gave up early is never counted down")       \
    X(TWICE_DOWN, twice_down, "a request is counted down twice")               \
    X(SAVED_NEW, saved_new, "a snapshot's position is one batch too new")      \
    X(NO_JOURNAL, no_journal, "changes during a cut are not saved")            \
    X(UNVERIFIED, unverified, "a snapshot is loaded as it is found")           \
    X(ANY_CLUSTER, any_cluster, "a foreign snapshot is loaded")                \
    X(KEEP_LOADED, keep_loaded, "what was loaded of a dead process stays")     \
    X(TRUST_LOADED, trust_loaded, "what was loaded is believed at once")       \
    X(BATCH_TWICE, batch_twice, "a batch that comes twice is applied twice")   \
    X(EXPECT_STAYS, expect_stays, "an expectation is never taken back")        \
    X(TRIAL_STAYS, trial_stays, "a trial is never over")                       \
    X(NEVER_HALF, never_half, "an open circuit never tries again")             \
    X(LAST_TOKEN, last_token, "the last token is taken for cached")            \
    X(NO_SWEEP, no_sweep, "a closed slot is never swept")                      \
    X(ANY_MAJOR, any_major, "another major version is taken for this one")     \
    X(NO_TOMBSTONE, no_tombstone, "a removed worker leaves no trace")          \
    X(READ_NEW, read_new, "a saved reading's position is one batch too new")   \
    X(TOO_LONG, too_long, "a record is kept that no frame has room for")       \
    X(NUMBERS_WIN, numbers_win,                                                \
      "the higher epoch wins, however little it knows")                        \
    X(NO_RESUME, no_resume,                                                    \
      "names that were handed over are not gone on from")                      \
    X(GOODBYE_FIRST, goodbye_first,                                            \
      "a node leaves before it has pushed its last records")                   \
    X(DEAF_LIMIT, deaf_limit, "what peers let through is not counted")         \
    X(OPEN_STAYS, open_stays, "what a lost node had open stays open")          \
    X(ALL_FREE, all_free, "each node takes all of a limit that is free")       \
    X(KEEPS_PLACE, keeps_place, "who hangs up waits on in the queue")          \
    X(NO_DEADLINE, no_deadline, "who waits is placed after its deadline")      \
    X(PLACE_TWICE, place_twice, "a place that was given is given again")       \
    X(NO_WEIGHTS, no_weights, "turns do not look at weights")                  \
    X(LATER_STARVES, later_starves, "later classes get no part")               \
    X(SAID_TWICE, said_twice, "what has to come again goes to the client")     \
    X(BY_EVENTS, by_events, "an event of a stream counts as one token")        \
    X(GIVES_UP, gives_up, "a stream whose engine ended goes on nowhere")       \
    X(MINORITY, minority, "a node acts on engines without a quorum")           \
    X(NOT_KEPT, not_kept, "an engine is asked for before others know it")      \
    X(NOT_SEEN, not_seen, "an engine ends that a node has not seen drain")     \
    X(SEES_ALONE, sees_alone, "an engine is lost that other nodes reach")      \
    X(UNSETTLED, unsettled, "a state is whole without what came meanwhile")

enum mutant {
    MUTANT_NONE,
#define MUTANT_ENUM(NAME, name, help) MUTANT_##NAME,
    MUTANTS(MUTANT_ENUM)
#undef MUTANT_ENUM
    MUTANT_KINDS,
};

#ifdef KVASIR_MUTANTS
extern enum mutant mutant_on;
#define MUTANT(NAME) (mutant_on == MUTANT_##NAME)
#else
#define MUTANT(NAME) false
#endif

#endif
