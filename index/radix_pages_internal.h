/*
 * The words of belief in a snapshot, shared by who writes and who reads them.
 *
 * Role: core, private. Owns: nothing. Thread: any.
 */
#ifndef INDEX_RADIX_PAGES_INTERNAL_H
#define INDEX_RADIX_PAGES_INTERNAL_H

#include "index/radix.h"

#define PAGE_EDGE        UINT64_C(1)
#define PAGE_ROOT        UINT64_C(2)
#define PAGE_LEAF        UINT64_C(3)
#define PAGE_KIND        UINT64_C(15)
#define PAGE_PRIORITY    8
#define PAGE_WORKER      16
#define PAGE_COUNT_SHIFT 32

#endif
