/*
 * The command line of kvasir-load, by flags.h.
 *
 * Role: core. Owns: nothing; texts are those of argv. Thread: any.
 * Limits: LOAD_REQUESTS_MAX. Errors: one line of text.
 */
#ifndef CHAOS_LOAD_OPTIONS_INTERNAL_H
#define CHAOS_LOAD_OPTIONS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chaos/load/load_script_internal.h"
#include "index/base/buf.h"
#include "index/base/check.h"
#include "node/node.h"

#define LOAD_RETRIES_MAX  16
#define LOAD_REQUESTS_MAX 10000000 /* conversations times turns */

struct load_options {
    struct url url; /* what is loaded; requests go to URL/v1/chat/completions */
    const char *model;
    uint64_t users;
    uint64_t conversations;
    uint64_t turns;
    uint64_t groups;
    uint64_t system_bytes;
    uint64_t user_bytes;
    uint64_t max_tokens;
    uint64_t think_ms;
    uint64_t timeout_ms;
    uint64_t connect_ms;
    uint64_t retries;
    struct url resolver; /* port 0: the system's */
    uint64_t seed;
    bool json;
    bool help;
};

/* Fills options from their defaults and the flags. 0, or FLAGS_E_BAD and one
 * line, without newline, in fault. */
int load_options_parse(struct load_options *options, char **argv, char *fault,
                       size_t fault_size) MUST_CHECK;

/* The manual. */
void load_options_help(struct buf *out);

/* What is to be said. */
struct load_script load_options_script(const struct load_options *options);

#endif
