/*
 * The other parsers that bench_scan runs: each reads what a router needs
 * (model, stream, max_tokens, the text of all messages, the raw tools) and
 * gives the bytes of text it saw, so that the work can be compared. 0: it
 * could not.
 *
 * Those of simdjson want SCAN_PADDING readable bytes behind the body; raw
 * leaves the text as written, as spans do; the others unescape it. Its parser
 * is made once and reused, as its manual advises.
 */
#ifndef BENCH_SCAN_RIVALS_H
#define BENCH_SCAN_RIVALS_H

#include <stddef.h>

#define SCAN_PADDING 64

#ifdef __cplusplus
extern "C" {
#endif

size_t rival_simdjson_raw(const char *body, size_t len);
size_t rival_simdjson_text(const char *body, size_t len);
size_t rival_simdjson_dom(const char *body, size_t len);

/* Which of its kernels runs. */
const char *rival_simdjson_name(void);

#ifdef __cplusplus
}
#endif

#endif
