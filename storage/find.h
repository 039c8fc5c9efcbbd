/*
 * Chooses the file of a directory to start from: the newest one that verifies.
 * A file that does not verify is set aside under another name, with a reason; a
 * bounded number of those are kept.
 *
 * Role: shell (it verifies in a child). Owns: nothing. Thread: one owner.
 */
#ifndef STORAGE_FIND_H
#define STORAGE_FIND_H

#include "storage/load.h"
#include "storage/save.h"

struct storage_find {
    struct storage_report chosen;  /* when found */
    struct storage_report refused; /* the newest file that was refused */
    uint32_t refusals;             /* files that were set aside, or that could
                                      not be moved (the reason says so) */
    bool found;
    uint64_t generation; /* for the file of this process's life */
};

#define STORAGE_VERIFY_S 60U

/* timeout_s 0: verifies in this process. 0 or why the directory could not be
 * read. */
enum storage_outcome storage_find(struct storage_io *io, const char *cluster,
                                  const struct storage_limits *limits,
                                  unsigned timeout_s, struct storage_find *find)
    MUST_CHECK;

/* Sets aside a file that verified but could not be loaded; it is kept under
 * another name. Returns the outcome of the renaming. */
enum storage_outcome storage_set_aside(struct storage_io *io,
                                       const struct storage_limits *limits,
                                       const char *name);

/* The next generation, for a process that looks at no earlier file. */
enum storage_outcome storage_next_generation(struct storage_io *io,
                                             uint64_t *generation) MUST_CHECK;

/* The newest snapshot file of a directory whose generation is below *below;
 * *below becomes its generation. Changes nothing on disk. STORAGE_E_MISSING
 * when there is none. */
enum storage_outcome storage_newest(struct storage_io *io, uint64_t *below,
                                    char name[STORAGE_NAME_MAX]) MUST_CHECK;

#endif
