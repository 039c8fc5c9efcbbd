/*
 * The fields of a form: multipart/form-data (RFC 7578).
 *
 * Role: core. Owns: nothing; values point into the body. Thread: any. Limits:
 * none. Errors: what is no form has no fields.
 */
#ifndef CHAOS_ENGINE_FORM_INTERNAL_H
#define CHAOS_ENGINE_FORM_INTERNAL_H

#include "index/base/slice.h"

/* The value of the first field of that name; ptr is NULL: there is none. */
struct slice engine_form_field(struct slice body, const char *name);

#endif
