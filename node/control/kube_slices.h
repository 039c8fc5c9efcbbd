/*
 * EndpointSlices as the API server of Kubernetes tells them (discovery.k8s.io/v1,
 * JSON): a list of them, and the events of a watch.
 *
 * Of a list each endpoint's first address counts, which stands for its pod,
 * where the endpoint is ready (absent: it is). Of one that has slices of both
 * families, as a dual stack does, those of IPv4 alone: one engine is not to be
 * two workers.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: WORKERS_MAX addresses,
 * KUBE_TREE_BYTES of memory while it reads. Errors: outcomes.
 */
#ifndef NODE_KUBE_SLICES_H
#define NODE_KUBE_SLICES_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "index/base/worker_set.h"
#include "mesh/mesh.h"

#define KUBE_TREE_BYTES  ((size_t)64 << 20)
#define KUBE_VERSION_MAX 64

struct kube_address {
    struct discover_ip ip;
    uint16_t port;
};

struct kube_list {
    char version[KUBE_VERSION_MAX]; /* resourceVersion: a watch begins there */
    bool cut;                       /* there are more than there is room for */
    uint32_t slices;                /* that the list has */
    uint32_t count;
    struct kube_address found[WORKERS_MAX];
};

/* Reads an EndpointSliceList. port: the name of a slice's port, or a number.
 * False: it is none. */
bool kube_slices_read(struct slice json, struct slice port,
                      struct kube_list *list) MUST_CHECK;

enum kube_event {
    KUBE_CHANGED,  /* a slice was added, changed or deleted */
    KUBE_BOOKMARK, /* nothing was, up to *version */
    KUBE_GONE,     /* the watch cannot go on: list again */
};

/* Reads a line of a watch; what is no event is KUBE_GONE. */
enum kube_event kube_event_read(struct slice line,
                                char version[KUBE_VERSION_MAX]);

#endif
