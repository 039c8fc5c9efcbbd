/*
 * Which file of a directory to start from: the newest that verifies. What
 * does not is set aside under another name, with a reason, and some of those
 * are kept.
 *
 * Role: shell (it verifies in a child). Owns: nothing. Thread: one owner.
 */
#ifndef STORAGE_FIND_H
#define STORAGE_FIND_H

#include "storage/load.h"
#include "storage/save.h"

struct storage_find {
    struct storage_report chosen;  /* when found */
    struct storage_report refused; /* the newest that was not */
    uint32_t refusals;             /* files set aside, or left where they are
                                      (which the reason says) */
    bool found;
    uint64_t generation; /* for the file of this life */
};

#define STORAGE_VERIFY_S 60U

/* timeout_s 0: verifies in this process. 0 or why the directory could not be
 * read. */
enum storage_outcome storage_find(struct storage_io *io, const char *cluster,
                                  const struct storage_limits *limits,
                                  unsigned timeout_s, struct storage_find *find)
    MUST_CHECK;

/* A file that verified and could not be loaded: kept under another name, like
 * one that did not verify. The renaming's outcome. */
enum storage_outcome storage_set_aside(struct storage_io *io,
                                       const struct storage_limits *limits,
                                       const char *name);

/* For the file of a life that looks at none of those before it. */
enum storage_outcome storage_next_generation(struct storage_io *io,
                                             uint64_t *generation) MUST_CHECK;

/* The newest snapshot file of a directory among those of generations below
 * *below, which becomes its own; changing nothing. STORAGE_E_MISSING when there
 * is none. */
enum storage_outcome storage_newest(struct storage_io *io, uint64_t *below,
                                    char name[STORAGE_NAME_MAX]) MUST_CHECK;

#endif
