/*
 * The door of index/: who holds which prefix.
 *
 * Keys name prefixes, belief (a radix tree) remembers which workers probably
 * hold them. Pure: no clock, socket, thread or randomness inside.
 */
#ifndef INDEX_INDEX_H
#define INDEX_INDEX_H

#include "index/key.h"   /* IWYU pragma: export */
#include "index/radix.h" /* IWYU pragma: export */

#endif
