/*
 * Reading a snapshot's root and parts, each against its digest.
 */
#include "storage/load.h"

#include <stdio.h>

#include "index/base/mutant.h"
#include "index/index.h"

static void
describe(struct storage_report *report, const struct storage_root *root)
{
    CHECK(root->rows_count <= STORAGE_ROWS_MAX);
    report->generation = root->generation;
    report->number = root->number;
    report->taken_ms = root->taken_ms;
    report->blocks = root->blocks;
    report->ledger_blocks = root->ledger_blocks;
    report->streams = root->streams;
    report->parts = root->rows_count;
    memcpy(report->cluster, root->cluster, sizeof report->cluster);
    memcpy(report->node, root->node, sizeof report->node);
    for (uint32_t i = 0; i < root->rows_count; i++) {
        report->bytes += root->rows[i].size;
    }
}

static void
explain(struct storage_report *report, enum storage_outcome outcome,
        const char *what, const char *cluster)
{
    size_t size = sizeof report->reason;

    CHECK(outcome < STORAGE_OUTCOMES);
    report->outcome = outcome;
    if (outcome == STORAGE_E_VERSION) {
        (void)snprintf(report->reason, size,
                       "format version %u.%u, this program knows %u.%u",
                       report->major, report->minor, STORAGE_MAJOR,
                       STORAGE_MINOR);
    } else if (outcome == STORAGE_E_FOREIGN) {
        (void)snprintf(report->reason, size,
                       "of cluster \"%.48s\", this one is \"%.48s\"",
                       report->cluster, cluster);
    } else if (outcome != STORAGE_OK) {
        (void)snprintf(report->reason, size, "%s: %s", what,
                       storage_outcome_name(outcome));
    }
}

static enum storage_outcome
read_root(struct storage_load *load, struct storage_report *report)
{
    struct slice bytes;
    enum storage_outcome rc =
        load->io->ops->get(load->io, STORAGE_ROOT_KEY, &bytes);

    if (rc == STORAGE_OK) {
        rc = storage_root_decode(&load->root, bytes);
        report->major = load->root.major;
        report->minor = load->root.minor;
    } else if (rc == STORAGE_E_MISSING) {
        rc = STORAGE_E_EMPTY;
    }
    if (rc == STORAGE_OK) {
        describe(report, &load->root);
    }
    return rc;
}

enum storage_outcome
storage_load_open(struct storage_load *load, struct storage_io *io,
                  const char *name, const char *cluster,
                  struct storage_report *report)
{
    const char *what = "file";

    CHECK(io != NULL && name != NULL);
    *load = (struct storage_load){.io = io};
    *report = (struct storage_report){0};
    (void)snprintf(report->file, sizeof report->file, "%s", name);
    memcpy(load->file, report->file, sizeof load->file);
    enum storage_outcome rc = io->ops->open(io, name);
    if (rc == STORAGE_OK) {
        report->file_bytes = io->ops->size(io);
        what = "root";
        rc = read_root(load, report);
        if (rc == STORAGE_OK && cluster != NULL &&
            strcmp(load->root.cluster, cluster) != 0 && !MUTANT(ANY_CLUSTER)) {
            rc = STORAGE_E_FOREIGN;
        }
        if (rc != STORAGE_OK) {
            storage_load_close(load);
        }
    }
    explain(report, rc, what, cluster);
    return rc;
}

enum storage_outcome
storage_load_again(const struct storage_load *load)
{
    CHECK(load->file[0] != '\0');
    load->io->ops->close(load->io);
    return load->io->ops->open(load->io, load->file);
}

void
storage_load_close(struct storage_load *load)
{
    CHECK(load->io != NULL);
    storage_root_fini(&load->root);
    load->io->ops->close(load->io);
}

/* The parts of a kind are read one after the other. */
static void
expect_next(const struct storage_load *load, const struct storage_row *row)
{
    struct storage_io *io = load->io;
    const struct storage_row *next = row + 1;

    CHECK(row >= load->root.rows &&
          row < load->root.rows + load->root.rows_count);
    if (io->ops->expect != NULL &&
        next < load->root.rows + load->root.rows_count &&
        storage_key_kind(next->key) == storage_key_kind(row->key)) {
        io->ops->expect(io, next->key);
    }
}

enum storage_outcome
storage_load_row(const struct storage_load *load, const struct storage_row *row,
                 struct slice *bytes)
{
    enum storage_outcome rc = load->io->ops->get(load->io, row->key, bytes);

    expect_next(load, row);
    if (rc == STORAGE_E_MISSING) { /* the root says that it is there */
        return STORAGE_E_CORRUPT;
    }
    if (rc == STORAGE_OK && !MUTANT(UNVERIFIED) &&
        (bytes->len != row->size || key_digest(*bytes) != row->digest)) {
        return STORAGE_E_CORRUPT;
    }
    return rc;
}

enum storage_outcome
storage_load_part(const struct storage_load *load, enum storage_kind kind,
                  uint32_t number, struct slice *bytes)
{
    const struct storage_row *row =
        storage_root_find(&load->root, kind, number);

    CHECK(kind > 0 && kind < STORAGE_KINDS);
    return row == NULL ? STORAGE_E_MISSING : storage_load_row(load, row, bytes);
}

void
storage_verify(struct storage_io *io, const char *name, const char *cluster,
               struct storage_report *report)
{
    struct storage_load load;
    char what[48];

    if (storage_load_open(&load, io, name, cluster, report) != STORAGE_OK) {
        return;
    }
    for (uint32_t i = 0; i < load.root.rows_count; i++) {
        struct slice bytes;
        uint64_t key = load.root.rows[i].key;
        enum storage_outcome rc =
            storage_load_row(&load, &load.root.rows[i], &bytes);
        if (rc != STORAGE_OK) {
            (void)snprintf(what, sizeof what, "part %u/%u",
                           storage_key_kind(key), storage_key_number(key));
            explain(report, rc, what, cluster);
            break;
        }
    }
    storage_load_close(&load);
}
