/*
 * An index that goes on changing, for property_storage: engines' streams whose
 * ledger may run ahead of the mirror, as on two threads, with what was told
 * between them; each change is remembered, so that it can be read once more, as
 * from an engine's replay.
 */
#ifndef TESTS_PROPERTY_STORAGE_WORLD_H
#define TESTS_PROPERTY_STORAGE_WORLD_H

#include "index/base/qsbr.h"
#include "index/base/rng.h"
#include "index/index.h"
#include "storage/storage.h"

#define STREAMS  6U
#define RECENT   512U
#define RUN_MAX  12U
#define TOKENS   4U
#define OPS_MAX  1024U /* that one stream's replay has */
#define TOLD_MAX 64U   /* between ledger and mirror */

enum op_kind {
    OP_STORE,
    OP_REMOVE,
    OP_PLACE,
};

/* One batch of an engine. */
struct op {
    uint64_t pos;
    enum op_kind kind;
    enum tier tier;
    bool has_parent;
    uint64_t parent;
    uint32_t count;
    uint64_t hashes[RUN_MAX];
    uint32_t tokens[RUN_MAX * TOKENS];
    uint64_t print; /* of what the ledger told of it */
};

/* What the ledger said, on its way to the mirror. */
struct told {
    uint32_t stream;
    bool begins; /* a new process; no words */
    uint32_t epoch_no;
    uint64_t pos;
    uint32_t holes;
    uint32_t count;
    uint64_t words[RUN_MAX + 2];
};

/* The ledger's end of a stream. */
struct ahead {
    uint32_t stream; /* of the ledger */
    uint32_t epoch_no;
    uint64_t pos;
    struct op ops[OPS_MAX]; /* by pos */
};

struct world {
    struct rng rng;
    struct qsbr qsbr;
    struct mirror *mirror;
    struct ledger *ledger;
    bool apart;                            /* the mirror lags behind */
    struct storage_stream stream[STREAMS]; /* as the mirror has it */
    struct ahead ahead[STREAMS];
    uint64_t recent[STREAMS][RECENT];
    struct told told[TOLD_MAX];
    uint64_t told_count; /* since ever */
    uint64_t applied;    /* of these */
};

void world_fail(const char *what);

void world_new(struct world *w);
void world_free(struct world *w);

/* A process that has said nothing yet, on both sides. */
void world_open(struct world *w, uint32_t i);

/* Something happens; what was told may be applied, or not yet. */
void world_change(struct world *w);
/* One that was told. */
void world_apply(struct world *w);

/* The stream's ledger is at `from` and the mirror at its pos: what lies between
 * is read once more, tells the same, and is dropped. */
void world_catch_up(struct world *w, uint32_t i);

/* What a stream holds, as a number: in the mirror; in the ledger, names, keys,
 * copies and how they hang together. */
uint64_t world_mirror_print(const struct world *w, uint32_t i);
uint64_t world_ledger_print(const struct world *w, uint32_t stream);

/* Tidies the ledger and looks at both for faults. */
void world_check(struct world *w);

#endif
