/*
 * A name for what a JSON body says, however it is written: the order of an
 * object's members and blanks between tokens do not count, everything else does.
 * Strings and numbers count as they are written ("\u0041" is not "A", 1.0 not
 * 1), so two spellings of one value may have two names; two values never have
 * one, up to the chance of 128 bits, for whoever does not know the seed.
 *
 * An object's members are sorted by their keys. An object with a key twice, or
 * with escapes in a key, has no name: what an engine reads there depends on the
 * order.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: JSON_PULL_DEPTH_MAX,
 * ANSWERS_MEMBERS_MAX of open objects. Errors: false.
 */
#ifndef NODE_ANSWERS_FORM_H
#define NODE_ANSWERS_FORM_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "index/index.h"

#define ANSWERS_MEMBERS_MAX 256U /* of all objects that are open at a time */

struct answers_form {
    struct key_wide name;
    struct key_wide kin; /* with a hole: of all but the text in it */
    bool holed;          /* the hole was found, once */
    bool seeded;         /* its `seed` is a number */
    bool unstored;       /* its `store` is false */
    bool searches;       /* it has web_search_options, which are not null */
};

/* Reads a whole document around a hole: a string of the body, between its quotes,
 * that the kin does not count and the name does. A hole of no bytes is none. False:
 * it is no JSON object, or one without a name. */
bool answers_form_read_around(struct slice body, struct slice hole,
                              uint64_t seed, struct answers_form *form)
    MUST_CHECK;

/* The name of what name stands for and of more beside it. */
struct key_wide answers_form_add(struct key_wide name, struct slice more,
                                 uint64_t seed);

#endif
