/*
 * Request bodies for bench_scan: made up from a seed, of a wanted size, like
 * those that clients send. Compact JSON unless said otherwise.
 */
#ifndef BENCH_SCAN_BODIES_H
#define BENCH_SCAN_BODIES_H

#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"

enum scan_body_kind {
    BODY_CHAT,    /* English, some line feeds and quotes */
    BODY_CHINESE, /* the same in Chinese, as UTF-8 */
    BODY_ESCAPED, /* ... and as \uXXXX */
    BODY_TOOLS,   /* a short question and many tool schemas */
    BODY_SPACED,  /* tools as Python's json.dumps writes them */
    BODY_IDS,     /* completion with token ids */
};

/* Appends a body of about size bytes. */
void scan_body_make(struct buf *buf, enum scan_body_kind kind, size_t size,
                    uint64_t seed);

#endif
