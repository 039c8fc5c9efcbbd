/*
 * One request head through llhttp in strict mode, name and value of each
 * header kept, as a user of it would. Returns how many headers there are.
 *
 * Owns: nothing. Thread: one at a time.
 */
#ifndef TESTS_BENCH_HTTP_HEAD_LLHTTP_H
#define TESTS_BENCH_HTTP_HEAD_LLHTTP_H

#include <stddef.h>

size_t bench_http_head_llhttp(const char *bytes, size_t len);

#endif
