/*
 * The scale sub-resource of a StatefulSet: how many pods there should be, and what
 * that says of the pod of one number. Pods are numbered from 0, and the one with
 * the highest number goes first.
 *
 * A pod is asked for, or given back, by moving replicas by what is known to be
 * right, and only where nobody changed the StatefulSet since it was read
 * (resourceVersion). So a call that comes again changes nothing more, and one of
 * a node that was cut off fails rather than end what is in use.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: fields as below. Errors: as
 * below.
 */
#ifndef NODE_CONTROL_KUBE_SCALE_H
#define NODE_CONTROL_KUBE_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"

#define KUBE_SCALE_NAME_MAX 256U /* with its NUL */

struct kube_scale {
    char space[KUBE_SCALE_NAME_MAX];
    char name[KUBE_SCALE_NAME_MAX];
    char version[KUBE_SCALE_NAME_MAX]; /* resourceVersion */
    uint32_t replicas;
};

/* Reads a Scale of autoscaling/v1. False: it is none. */
bool kube_scale_read(struct slice json, struct kube_scale *scale) MUST_CHECK;

enum kube_scale_do {
    KUBE_SCALE_DONE, /* the pod is asked for; it is gone, or goes */
    KUBE_SCALE_SET,  /* replicas is to be set */
    KUBE_SCALE_MORE, /* there are more pods than are known of: none may end */
};

/* What is to be done for the pod of that number to be there, or to end. */
enum kube_scale_do kube_scale_next(struct kube_scale *scale, bool provision,
                                   uint32_t number);

/* The same as JSON. */
void kube_scale_put(const struct kube_scale *scale, struct buf *out);

#endif
