/*
 * The models whose own files this node has: read when it starts and when its
 * configuration is read again, and published to lanes.
 *
 * Role: shell. Owns: the published table and models that lanes still use though
 * they are in it no more. Thread: control; files are read on another one, but
 * for the first time, which comes before the lanes. Limits: LOCAL_MODELS_MAX.
 * Errors: lines in the log; engines are asked instead.
 */
#ifndef NODE_CONTROL_MODELS_H
#define NODE_CONTROL_MODELS_H

#include <uv.h>

#include "index/base/role.h"
#include "node/config/config.h"
#include "node/local/local_table.h"
#include "node/peers/hints.h"
#include "node/route/shared.h"
#include "node/text/json_out.h"

struct control_models {
    struct node_shared *node;
    uv_loop_t *loop;
    uv_work_t work;
    bool working;
    bool again;                /* the configuration was read again meanwhile */
    bool closed;               /* nothing is published any more */
    struct config_tokens next; /* what is to be read next */
    struct config_tokens wanted; /* what work reads */
    struct local_table *fresh;   /* what work has made */
    int error;
    uint64_t renewed_us; /* when prompts were last asked to be compared again */
    uint64_t shared_us;  /* when distrust was last told and heard */
    uint32_t differ;     /* peers with other files, as last said */
    uint32_t tables_waiting; /* replaced, and perhaps still looked at */
    uint32_t dying_count;    /* models that nobody finds any more */
    struct local_model *dying[2 * LOCAL_MODELS_MAX];
};

/* Reads the files of node->config, and publishes what there is. */
void control_models_start(struct control_models *models,
                          struct node_shared *node, uv_loop_t *loop) ON_CONTROL;

/* Reads those of another configuration, on a thread; the lanes take it over when
 * it is done. False: not now, too many models are still used. */
bool control_models_reload(struct control_models *models,
                           const struct config *config) ON_CONTROL MUST_CHECK;

/* Where that reads: a list of folders and files. */
void control_models_put_files(const struct config_tokens *tokens,
                              struct json_out *json);

/* Frees what no lane uses any more; now and then. */
void control_models_sweep(struct control_models *models) ON_CONTROL;

/* What became of prompts whose tokens were compared with engines' blocks: a way
 * whose tokens differ is switched off, loudly. Now and then. */
void control_models_judge(struct control_models *models, uint64_t now_us)
    ON_CONTROL;

/* Tells peers which files there are, and the log when some have others; tells
 * them which ways an engine switched off, and switches those off that they
 * tell. */
void control_models_compare(struct control_models *models, struct hints *hints,
                            uint64_t now_us) ON_CONTROL;

/* Publishes nothing more; the loop runs on until the thread is done. */
void control_models_stop(struct control_models *models) ON_CONTROL;

/* After the lanes and the loop. */
void control_models_fini(struct control_models *models);

/* What was done for each model, for /metrics. */
void control_models_put_metrics(const struct control_models *models,
                                struct buf *out) ON_CONTROL;

/* The models, for /admin/status: a list of objects. */
void control_models_put(const struct control_models *models,
                        struct json_out *json) ON_CONTROL;

#endif
