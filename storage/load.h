/*
 * Reads snapshots. A file is accepted if its root is intact, of this cluster
 * and of a known format, and if each part has the size and digest that the root
 * gives. Any other file is refused with a reason.
 *
 * Role: core over storage_io. Owns: the root it read. Thread: one owner.
 * Errors: named outcomes.
 */
#ifndef STORAGE_LOAD_H
#define STORAGE_LOAD_H

#include "storage/root.h"

struct storage_load {
    struct storage_io *io;
    struct storage_root root;
    char file[STORAGE_NAME_MAX];
};

/* What one look at a file found. */
struct storage_report {
    enum storage_outcome outcome;
    char reason[160]; /* a clear line; "" when the outcome is 0 */
    char file[STORAGE_NAME_MAX];
    uint32_t major;
    uint32_t minor;
    uint64_t generation;
    uint64_t number;
    uint64_t taken_ms;
    uint64_t blocks;
    uint64_t ledger_blocks;
    uint32_t streams;
    uint32_t parts;
    uint64_t bytes;      /* of all parts */
    uint64_t file_bytes; /* size of the file */
    char cluster[STORAGE_TEXT_MAX];
    char node[STORAGE_TEXT_MAX];
};

/*
 * Opens a file and reads its root; cluster NULL accepts every cluster. After 0
 * the caller must call storage_load_close(). Fills the report in either case.
 */
enum storage_outcome storage_load_open(struct storage_load *load,
                                       struct storage_io *io, const char *name,
                                       const char *cluster,
                                       struct storage_report *report)
    MUST_CHECK;

/* Opens the file once more, where the process that had it open may have died.
 * 0, or the disk's outcome: no part can be read. */
enum storage_outcome storage_load_again(const struct storage_load *load)
    MUST_CHECK;

/* Frees the root and closes the file. */
void storage_load_close(struct storage_load *load);

/* Reads the bytes of a row's part, borrowed until the next call. 0: they have
 * the row's size and digest; else STORAGE_E_CORRUPT or the disk's outcome. */
enum storage_outcome storage_load_row(const struct storage_load *load,
                                      const struct storage_row *row,
                                      struct slice *bytes) MUST_CHECK;

/* The same by kind and number; STORAGE_E_MISSING if the snapshot has no such
 * part. */
enum storage_outcome storage_load_part(const struct storage_load *load,
                                       enum storage_kind kind, uint32_t number,
                                       struct slice *bytes) MUST_CHECK;

/* Opens a file, reads every part of it, and closes it. The outcome is in the
 * report. If the disk maps files, a damaged file may kill the process: see
 * apart.h. */
void storage_verify(struct storage_io *io, const char *name,
                    const char *cluster, struct storage_report *report);

#endif
