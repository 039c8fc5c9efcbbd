/*
 * The few numbers a router wants from an engine's metrics, under the names
 * that vLLM, SGLang, TensorRT-LLM, llama.cpp and TGI give them, now and in older
 * releases.
 *
 * Names are matched whole. Counts are summed over an engine's series (data
 * parallel ranks); usage is averaged over them, since a request may go to any
 * rank. Where an engine exports a number under its old and its new name, the
 * new one alone counts. Absent is not zero.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: none. Errors: none.
 */
#ifndef NODE_ENGINE_METRICS_H
#define NODE_ENGINE_METRICS_H

#include <stdbool.h>

#include "index/base/slice.h"
#include "node/view/fleet_view.h"

struct engine_number {
    bool known;
    double value;
};

struct engine_metrics {
    enum engine_kind kind;         /* by the prefix of the names */
    struct engine_number running;  /* requests */
    struct engine_number waiting;  /* requests */
    struct engine_number kv_usage; /* 0..1 of the KV cache */
    struct engine_number capacity; /* tokens the KV cache holds */
    struct engine_number block;    /* tokens of one block */
};

/* Reads a Prometheus text exposition: any bytes, borrowed for the call. *metrics
 * is always filled; kind is ENGINE_OTHER where no known name came. */
void engine_metrics_read(struct slice text, struct engine_metrics *metrics);

/*
 * The same of what llama.cpp's server answers to GET /slots (it has metrics only
 * when told to): a JSON array with an object for each slot. Slots that work run
 * a request each; what they have room for (n_ctx) is the capacity, where slots
 * may share it (--kv-unified) at most that.
 */
void engine_slots_read(struct slice json, struct engine_metrics *metrics);

#endif
