/*
 * Of a request the message that is looked at.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: CONTENT_TEXT_MAX.
 */
#ifndef NODE_CONTENT_TEXT_INTERNAL_H
#define NODE_CONTENT_TEXT_INTERNAL_H

#include "node/content/content.h"

/* The user's first or last message, unescaped, as far as it fits into room; of
 * a prompt without messages, the prompt. Well-formed, except that half a
 * surrogate pair is U+FFFD. */
struct slice content_text(const struct content_asked *asked,
                          enum content_look look, char room[CONTENT_TEXT_MAX]);

/* Bytes of all texts of the prompt, as they stand in the body. */
uint64_t content_text_bytes(const struct scan *scan);

#endif
