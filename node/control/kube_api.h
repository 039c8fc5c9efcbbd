/*
 * Asks the API server of Kubernetes: as configured (kubernetes.api), or as a pod is
 * told, with the token and the CA of kubernetes.dir, which are read each time.
 *
 * Role: shell. Owns: nothing. Thread: control. Limits: a token of 8 KiB, a target of
 * 2 KiB. Errors: as below.
 */
#ifndef NODE_CONTROL_KUBE_API_H
#define NODE_CONTROL_KUBE_API_H

#include <uv.h>

#include "index/base/slice.h"
#include "node/config/config.h"
#include "node/http/httpc.h"

/* /apis/GROUP/namespaces/SPACE/REST */
struct kube_api_place {
    const char *group;  /* with its version */
    struct slice space; /* "": that of the pod */
    const char *rest;   /* may have a query */
};

/* Starts a request; its method, body, times and what takes the answer are the
 * caller's. A body is JSON. NULL and *call as httpc_start() has it, or why that
 * cannot be: static text. */
const char *kube_api_start(const struct config_kubernetes *config,
                           uv_loop_t *loop, const struct kube_api_place *place,
                           struct httpc_request *request, struct httpc **call)
    MUST_CHECK;

#endif
