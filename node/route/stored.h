/*
 * What clients store at a worker, and name by its id afterwards: Responses,
 * files, batches. Only the worker that made such a thing has it.
 *
 *   /v1/responses  /v1/files  /v1/batches            make one, or list them
 *   /v1/responses/ID[/...]  and so on                are about one
 *   previous_response_id, input_file_id              go on with one, in a body
 *
 * An answer on these paths says which it made: "id" at its beginning, and of
 * batches "output_file_id" and "error_file_id". Belief remembers under its
 * tenant where an id is, as it does of sessions (session.h: SESSION_BOUND): so
 * all nodes know, and a restart does not forget. An id that nobody knows is
 * asked of one worker after the other (dispatch.h).
 *
 * Role: core. Owns: nothing. Thread: any. Limits: STORED_WATCH_BYTES of an
 * answer are looked at; ids of STORED_ID_MAX bytes. Errors: none.
 */
#ifndef NODE_STORED_H
#define NODE_STORED_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/slice.h"
#include "node/scan/scan.h"

#define STORED_WATCH_BYTES 2048U
#define STORED_ID_MAX      128U

enum stored_name {
    STORED_ID,
    STORED_OUTPUT_FILE,
    STORED_ERROR_FILE,
    STORED_NAMES,
};

/* Whether requests for that path make, or are about, what a worker stores. */
bool stored_is_path(struct slice path);

/* The id in such a path; empty: there is none. */
struct slice stored_path_id(struct slice path);

/* The id in a body that was scanned; empty: there is none. */
struct slice stored_body_id(const struct scan *scan, struct slice body);

/* A tenant's id as belief knows it; never 0. tenant: a hash of its name. */
uint64_t stored_key(uint64_t tenant, struct slice id);

/* Follows an answer. All zero begins one. */
struct stored_watch {
    uint32_t len;
    uint32_t seen; /* a bit for each name that was found */
    char text[STORED_WATCH_BYTES];
};

/* The next bytes of it, with whatever frames them. */
void stored_watch_give(struct stored_watch *watch, struct slice bytes);

/* The next id that was not found before, good until more is given; empty: none
 * so far. */
struct slice stored_watch_next(struct stored_watch *watch);

#endif
