/*
 * What two questions must have in common before their vectors may say that they
 * ask the same: an embedding hardly tells 3 apples from 4, or "is" from "is not",
 * and an answer does.
 *
 * Guarded are, in the order in which they come:
 *   - numbers, in digits or words ("1,000" is 1000, "two" is 2), and all that is
 *     written with a digit in it (5kg, v2, 10:30);
 *   - signs of money, arithmetic and notation, brackets among them, and emoji;
 *   - words that say no ("don't" is "do not"), and words that have an opposite or
 *     a place in an order (more, before, first, only, without, increase, ...), ask
 *     (who, when, ...), or say what to do with a text (summarize, compare, ...);
 *   - names: words with a capital letter that are no usual word of a sentence's
 *     beginning, words that begin with a letter beyond ASCII, and single letters;
 *   - what stands between quotes or backticks, byte for byte.
 * Two texts with the same digest have the same of these. Everything else is left
 * to their vectors. The lists are English: texts in other languages are not for
 * this (content_language_of()).
 *
 * Role: core. Owns: nothing. Thread: any. Limits: none. Errors: none.
 */
#ifndef NODE_ANSWERS_GUARD_H
#define NODE_ANSWERS_GUARD_H

#include <stdint.h>

#include "index/base/slice.h"

/* The digest of what is guarded in a text, UTF-8. */
uint64_t answers_guard(struct slice text);

#endif
