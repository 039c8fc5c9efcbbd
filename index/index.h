/*
 * The door of index/: who holds which prefix.
 *
 * Keys name prefixes. The mirror knows from engines' events which workers
 * hold them, fed through the ledger, which turns engines' names into keys;
 * belief (a radix tree) remembers which workers probably do. Pure: no clock,
 * socket, thread or randomness inside.
 */
#ifndef INDEX_INDEX_H
#define INDEX_INDEX_H

#include "index/event.h"  /* IWYU pragma: export */
#include "index/key.h"    /* IWYU pragma: export */
#include "index/ledger.h" /* IWYU pragma: export */
#include "index/mirror.h" /* IWYU pragma: export */
#include "index/names.h"  /* IWYU pragma: export */
#include "index/radix.h"  /* IWYU pragma: export */
#include "index/shape.h"  /* IWYU pragma: export */
#include "index/watch.h"  /* IWYU pragma: export */

#endif
