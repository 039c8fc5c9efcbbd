/*
 * Answers by gzip (RFC 1952), for clients that take them (RFC 9110, 12.5.3).
 *
 * Role: core. Owns: nothing. Thread: any. Limits: those of the buffer.
 * Errors: false, and the answer goes as it is.
 */
#ifndef NODE_HTTP_GZIP_H
#define NODE_HTTP_GZIP_H

#include <stdbool.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/http/http_head.h"

/* Whether Accept-Encoding names gzip, and not with a weight of 0. Only the
 * first header of that name counts. */
bool http_gzip_is_wanted(const struct http_head *head) MUST_CHECK;

/* Appends the text, made small at the least cost. False: there was no room or no
 * memory, and out is as it was but that it may have failed. */
bool http_gzip_add(struct buf *out, struct slice text) MUST_CHECK;

#endif
