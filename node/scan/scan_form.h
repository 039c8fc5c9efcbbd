/*
 * The model that a form names: multipart/form-data (RFC 7578), in which files
 * of sound and images are sent to engines.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: the first SCAN_FORM_PARTS_MAX
 * parts are looked at. Errors: none; what is no form names no model.
 */
#ifndef NODE_SCAN_FORM_H
#define NODE_SCAN_FORM_H

#include <stddef.h>

#include "index/base/slice.h"

#define SCAN_FORM_PARTS_MAX 64

/* The value of the field `model`, within the body; empty when there is none. A
 * body that is not a form (it would begin with its boundary) has none. */
struct slice scan_form_model(struct slice body);

#endif
