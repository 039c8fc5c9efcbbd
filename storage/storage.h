/*
 * The door of storage/: what survives a restart.
 *
 * A snapshot is cut out of the index (cut.h) on the control thread, and its
 * other half on that of the ledger (twin.h); it goes over a bounded queue to
 * the disk thread (disk.h), which saves it (save.h) through a port (io.h) into
 * LMDB (lmdb_io.h), which a process of its own has open (keeper.h). A start finds the newest file that is whole (find.h),
 * reads it (load.h, record.h) and fills the index (restore.h).
 */
#ifndef STORAGE_STORAGE_H
#define STORAGE_STORAGE_H

#include "storage/apart.h"    /* IWYU pragma: export */
#include "storage/beside.h"   /* IWYU pragma: export */
#include "storage/cut.h"      /* IWYU pragma: export */
#include "storage/disk.h"     /* IWYU pragma: export */
#include "storage/find.h"     /* IWYU pragma: export */
#include "storage/io.h"       /* IWYU pragma: export */
#include "storage/keeper.h"   /* IWYU pragma: export */
#include "storage/lmdb_io.h"  /* IWYU pragma: export */
#include "storage/load.h"     /* IWYU pragma: export */
#include "storage/record.h"   /* IWYU pragma: export */
#include "storage/restore.h"  /* IWYU pragma: export */
#include "storage/save.h"     /* IWYU pragma: export */
#include "storage/sim_disk.h" /* IWYU pragma: export */
#include "storage/take.h"     /* IWYU pragma: export */
#include "storage/twin.h"     /* IWYU pragma: export */

#endif
