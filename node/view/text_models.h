/*
 * Bytes of a token (text_ratio.h) by model, as tokenizers differ: learned here,
 * heard of other nodes, kept over restarts, and read by lanes.
 *
 * A model's row has what this node's own requests taught, which is what it tells
 * peers and keeps; and the same together with what peers have told of theirs,
 * which is what counts. Peers' parts are taken anew with each pass and never
 * passed on, so it does not matter how often, in which order or through whom they
 * come. A node that has just begun thus estimates as its peers do.
 *
 * Where nobody knows a model's text of a kind, the mean over all models counts.
 * Rows are made for models that workers list or that have answered, and stay as
 * long as the process; beyond TEXT_MODELS_MAX there is that mean alone. What is
 * kept are rows of models that this life has seen.
 *
 * The rows also carry what else is known by model, told to peers and read by lanes:
 * the tuned threshold between pools (pool_tune.h). It is not kept: the mix is.
 *
 * Role: core. Owns: nothing. Thread: control; lanes read the board. Limits:
 * TEXT_MODELS_MAX. Errors: bytes that are none are left out.
 */
#ifndef NODE_TEXT_MODELS_H
#define NODE_TEXT_MODELS_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/counter.h"
#include "index/base/slice.h"
#include "node/view/pool_tune.h"
#include "node/view/text_ratio.h"

#define TEXT_MODELS_MAX 32U

struct text_model {
    char name[FACT_MODEL_MAX]; /* shortened to fit */
    uint64_t digest;           /* of that; 0: of all models together */
    bool seen;                 /* in this life */
    struct text_ratio own;
    struct text_ratio all; /* with peers' */
    struct pool_told pool; /* what this node has found */
    uint64_t pool_judged_us;
    bool pool_told;          /* peers know of something */
    uint32_t pool_threshold; /* that counts: theirs, too; 0: none */
};

/* All zero is an empty one. */
struct text_models {
    struct text_model any; /* all models together */
    struct text_model model[TEXT_MODELS_MAX];
    uint32_t count;
};

/* What lanes read, all zero at first: thousandths of a byte for a token; 0: not
 * learned. */
struct text_board {
    struct gauge any[TEXT_KINDS];
    struct {
        struct counter digest; /* 0: none, nor behind it */
        struct gauge milli[TEXT_KINDS];
        struct gauge pool; /* tuned threshold; 0: none */
    } model[TEXT_MODELS_MAX];
};

/* The model's row, made if there is none; NULL: it names none, or there is no
 * room. */
struct text_model *text_models_row(struct text_models *models,
                                   struct slice model);

/* A request is over (a FACT_DECISION). */
void text_models_take(struct text_models *models,
                      const struct fact_decision *fact);

/* Has lanes read what counts now. */
void text_models_publish(const struct text_models *models,
                         struct text_board *board);

/* Thousandths of a byte for a token of that model's text; on any thread. */
uint32_t text_board_milli(const struct text_board *board, struct slice model,
                          enum text_kind kind);

/* The tuned threshold of that model's pools; 0: none; on any thread. */
uint32_t text_board_pool(const struct text_board *board, struct slice model);

/* Appends what is kept, for text_models_load(). */
void text_models_save(const struct text_models *models, struct buf *out);

/* Fills empty rows with what was saved. False: the bytes end in something else,
 * and what came before it counts. */
bool text_models_load(struct text_models *models, struct slice bytes)
    MUST_CHECK;

#endif
