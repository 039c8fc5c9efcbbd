/*
 * Names of outcomes, and transactions whose first failure sticks.
 */
#include "storage/io.h"

const char *
storage_outcome_name(enum storage_outcome outcome)
{
    static const char *const names[] = {
        [STORAGE_OK] = "ok",
        [STORAGE_E_FULL] = "disk full",
        [STORAGE_E_IO] = "disk failed",
        [STORAGE_E_CORRUPT] = "corrupt",
        [STORAGE_E_MISSING] = "missing",
        [STORAGE_E_BUSY] = "in use by another process",
        [STORAGE_E_DENIED] = "permission denied",
        [STORAGE_E_READONLY] = "read-only file system",
        [STORAGE_E_NOT_DIR] = "not a directory",
        [STORAGE_E_GONE] = "the directory is gone",
        [STORAGE_E_KEEPER] = "the process that has the file open died",
        [STORAGE_E_MEMORY] = "out of memory",
        [STORAGE_E_FOREIGN] = "of another cluster",
        [STORAGE_E_VERSION] = "of an unknown format version",
        [STORAGE_E_EMPTY] = "without a snapshot",
        [STORAGE_E_LIMIT] = "larger than this node's limits",
    };

    CHECK(outcome < STORAGE_OUTCOMES);
    return names[outcome];
}

void
storage_io_free(struct storage_io *io)
{
    if (io != NULL) {
        io->ops->free(io);
    }
}

void
storage_txn_begin(struct storage_txn *txn, struct storage_io *io)
{
    CHECK(io != NULL);
    *txn = (struct storage_txn){.io = io};
    txn->failed = io->ops->begin(io);
    txn->open = txn->failed == STORAGE_OK;
}

void
storage_txn_put(struct storage_txn *txn, uint64_t key, struct slice bytes)
{
    CHECK(txn->failed != STORAGE_OK || txn->open);
    if (txn->failed == STORAGE_OK) {
        txn->failed = txn->io->ops->put(txn->io, key, bytes);
        txn->bytes += bytes.len;
    }
}

void
storage_txn_drop(struct storage_txn *txn, uint64_t key)
{
    CHECK(txn->failed != STORAGE_OK || txn->open);
    if (txn->failed == STORAGE_OK) {
        enum storage_outcome rc = txn->io->ops->drop(txn->io, key);
        txn->failed = rc == STORAGE_E_MISSING ? STORAGE_OK : rc;
    }
}

enum storage_outcome
storage_txn_commit(struct storage_txn *txn)
{
    if (txn->failed != STORAGE_OK) {
        storage_txn_abort(txn);
        return txn->failed;
    }
    CHECK(txn->open);
    txn->open = false;
    txn->failed = txn->io->ops->commit(txn->io);
    return txn->failed;
}

void
storage_txn_abort(struct storage_txn *txn)
{
    if (txn->open) {
        txn->open = false;
        txn->io->ops->abort(txn->io);
    }
    CHECK(!txn->open);
}
