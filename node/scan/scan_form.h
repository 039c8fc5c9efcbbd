/*
 * The model that a form names: multipart/form-data (RFC 7578), in which files
 * of sound and images are sent to engines.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: the first SCAN_FORM_PARTS_MAX
 * parts are looked at; a form of more has no sole model. Errors: none; what is no form names no model.
 */
#ifndef NODE_SCAN_FORM_H
#define NODE_SCAN_FORM_H

#include <stddef.h>

#include "index/base/slice.h"

#define SCAN_FORM_PARTS_MAX 64

/* The value of the field `model`, within the body; empty when there is none. A
 * body that is not a form (it would begin with its boundary) has none. */
struct slice scan_form_model(struct slice body);

/*
 * The same where every reader of forms is sure to find the same: the body is
 * whole, the boundary is the one that Content-Type (its value) names, exactly
 * one part is named model and is no file, and each part's lines are
 *
 *   Content-Disposition: form-data; name="NAME"[; filename="FILE"]
 *   Content-Type: ...                                       (or none)
 *
 * in any order, with no escapes in NAME. Empty where that is not so. It reads
 * the whole body.
 */
struct slice scan_form_sole_model(struct slice content_type, struct slice body);

#endif
