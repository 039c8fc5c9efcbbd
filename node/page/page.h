/*
 * The files of the admin port's page. They are in the binary: embed.py writes
 * them out as C.
 *
 * Role: core. Owns: static bytes. Thread: any. Limits: none. Errors: none.
 */
#ifndef NODE_PAGE_H
#define NODE_PAGE_H

#include <stddef.h>

#include "index/base/slice.h"

struct page_file {
    struct slice path; /* "/", "/page/main.js" */
    const char *content_type;
    struct slice body;
};

extern const struct page_file page_files[];
extern const size_t page_files_count;

/* The file of a path, or NULL. */
const struct page_file *page_find(struct slice path);

#endif
