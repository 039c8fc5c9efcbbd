/*
 * Single members of small JSON objects: what the router's scanner has no use
 * for, the engine's own endpoints need (`tokens`, `add_generation_prompt`, the
 * orders of POST /chaos). Of a key that comes twice the last one counts.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: JSON_PULL_DEPTH_MAX.
 * Errors: named outcomes; what is not JSON is as if absent.
 */
#ifndef CHAOS_ENGINE_JSON_INTERNAL_H
#define CHAOS_ENGINE_JSON_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chaos/engine/engine_tokens_internal.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/node.h"

enum {
    ENGINE_JSON_E_ABSENT = 1, /* no such member */
    ENGINE_JSON_E_OTHER,      /* it is there, but something else */
};

/* A member that is an integer from 0 to max. 0 and *number, or the above. */
int engine_json_uint(struct slice object, struct slice key, uint64_t max,
                     uint64_t *number) MUST_CHECK;

/* The member if it is a bool, else preset. */
bool engine_json_bool(struct slice object, struct slice key, bool preset);

/* Whether a member is this text, unescaped. */
bool engine_json_is_text(struct slice object, struct slice key,
                         struct slice text);

/* Appends a member that is an array of integers, each from 0 to UINT32_MAX.
 * 0, or the above: then some of them may have been appended. */
int engine_json_ids(struct slice object, struct slice key,
                    struct engine_ids *ids) MUST_CHECK;

/* The same for an array by itself. False: it is anything else. */
bool engine_json_id_array(struct slice array, struct engine_ids *ids);

/*
 * Values by their raw bytes, which point into the document: a member, and the
 * first name in an object. Empty: there is none.
 */
struct slice engine_json_raw(struct slice object, struct slice key);
struct slice engine_json_first_key(struct slice object);

/* The items of an array, one by one. False: it is none, or there are no more. */
bool engine_json_items(struct json_pull *items, struct slice array);
bool engine_json_next(struct json_pull *items, struct slice *item) MUST_CHECK;

/* What is between a raw string's quotes; ptr is NULL: it is no string. */
struct slice engine_json_inside(struct slice raw);

#endif
