/*
 * Patterns (PCRE2) that clients' texts are held against, bounded in steps.
 *
 * Role: core. Owns: a regex its code, a matcher its stack. Thread: a regex any,
 * a matcher one. Limits: CONTENT_STEPS_MAX for one look.
 */
#ifndef NODE_CONTENT_REGEX_INTERNAL_H
#define NODE_CONTENT_REGEX_INTERNAL_H

#include "node/content/content.h"

struct content_regex;
struct content_matcher;

/* 0 and *out, CONTENT_E_BAD and why, or -ENOMEM. */
int content_regex_new(struct slice pattern, struct content_regex **out,
                      char why[CONTENT_WHY_MAX]) MUST_CHECK;
void content_regex_free(struct content_regex *regex); /* NULL is fine */

struct content_matcher *content_matcher_new(void) MUST_CHECK;
void content_matcher_free(struct content_matcher *matcher); /* the same */

/* Where the pattern is first found in a well-formed text: 1 and *found; 0: it
 * is not; -1: it takes too many steps. */
int content_regex_find(const struct content_regex *regex,
                       struct content_matcher *matcher, struct slice text,
                       struct slice *found) MUST_CHECK;

#endif
