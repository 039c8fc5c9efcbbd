/*
 * Why an answer ended: what engines say as finish_reason.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: none. Errors: none.
 */
#ifndef NODE_TEXT_FINISH_H
#define NODE_TEXT_FINISH_H

#include "index/base/slice.h"

/* The engine gave the answer up: what there is of it is not all. */
static inline bool
finish_gives_up(struct slice reason)
{
    return slice_equal(reason, SLICE("abort")) ||
           slice_equal(reason, SLICE("error")) ||
           slice_equal(reason, SLICE("cancelled"));
}

#endif
