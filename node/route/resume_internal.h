/* What the two halves of resume.h share. */
#ifndef NODE_RESUME_INTERNAL_H
#define NODE_RESUME_INTERNAL_H

#include "node/route/resume.h"

/* Whether a template may cut off the end of this text: white space, or half of
 * a character; raw bytes of a JSON string. */
bool resume_ends_loose(struct slice raw);

/* The bytes that one character takes at the begin of a raw JSON string. */
size_t resume_char_len(struct slice raw);

#endif
