/*
 * The models an engine says it serves: GET /v1/models.
 *
 * Reads {"data":[{"id":...,"owned_by":...,"parent":...},...]} as vLLM, SGLang
 * and other OpenAI-compatible servers give it. A LoRA adapter is an entry like
 * others whose parent, the model it stands on, is not null. SGLang answers one
 * that is asked for by its name with the base model, and is asked for it as
 * PARENT:NAME, so that is a name, too.
 *
 * Role: core. Owns: a list owns its names and facts. Thread: any.
 * Limits: ENGINE_MODELS_MAX names of ENGINE_MODEL_NAME_MAX bytes; what is over
 * is left out and counted. Errors: named outcomes, -ENOMEM.
 */
#ifndef NODE_ENGINE_MODELS_H
#define NODE_ENGINE_MODELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/view/fleet_view.h"

#define ENGINE_MODELS_MAX     1024 /* an adapter of SGLang's has two names */
#define ENGINE_MODEL_NAME_MAX 256  /* bytes */
#define ENGINE_MODEL_FACT_MAX 512  /* bytes; a longer fact is left out */

struct engine_model {
    struct slice name;
    struct slice fact[MODEL_FACTS]; /* JSON; empty: not told, or no scalar */
    uint64_t created;               /* 0: not told */
    bool adapter;                   /* every entry of that name has a parent */
    /* Its own name begins there: at 0, behind PARENT:, or at the end where the
     * name means the base model. */
    uint32_t own_at;
};

struct engine_models {
    enum engine_kind kind; /* by owned_by */
    size_t count;
    struct engine_model *model; /* by slice_compare() of the name, none twice */
    char *bytes;                /* the names' and facts' */
    uint64_t left_out;          /* over a limit */
};

enum {
    ENGINE_MODELS_E_BAD = 1, /* not a model list; *models is empty */
};

/* Reads any bytes, borrowed for the call. 0, ENGINE_MODELS_E_BAD, or -ENOMEM. In
 * every case *models is the caller's to engine_models_fini(); unless 0 it is
 * empty. */
int engine_models_read(struct slice body, struct engine_models *models)
    MUST_CHECK;

/* Frees the list; *models is empty again. */
void engine_models_fini(struct engine_models *models);

/* Whether both have the same names and facts, with the same ones as adapters.
 * left_out, kind and created do not count: vLLM takes the time of the question
 * for the latter. */
bool engine_models_equal(const struct engine_models *a,
                         const struct engine_models *b);

#endif
