/*
 * Writes JSON (RFC 8259) into a buffer; it cannot write anything else.
 *
 * The writer sets the commas, CHECKs nesting and the order of keys and values,
 * and escapes text of any bytes to valid UTF-8 (json_text.h). If the buffer is
 * full, buf->failed is set and the document is incomplete.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: JSON_OUT_DEPTH_MAX.
 */
#ifndef NODE_JSON_OUT_H
#define NODE_JSON_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/slice.h"

#define JSON_OUT_DEPTH_MAX 32

struct json_out {
    struct buf *buf;
    uint32_t depth;
    uint32_t objects; /* bit d: the container at depth d is an object */
    bool comma;       /* the next member needs one before it */
    bool keyed;       /* a key was written, its value is due */
};

/* Starts a document at the end of buf, which is borrowed. */
void json_out_init(struct json_out *json, struct buf *buf);

/* Opens or closes a container; each begin has its end, at most
 * JSON_OUT_DEPTH_MAX are open. Inside an object each value needs its key. */
void json_out_object_begin(struct json_out *json);
void json_out_object_end(struct json_out *json);
void json_out_array_begin(struct json_out *json);
void json_out_array_end(struct json_out *json);

/* The name of the object's next member; its value must follow. */
void json_out_key(struct json_out *json, const char *key);

/* One value. Text is escaped and may be any bytes; integers are exact in all
 * 64 bits, also where a reader's doubles are not. */
void json_out_text(struct json_out *json, const char *text);
void json_out_slice(struct json_out *json, struct slice text);
void json_out_uint(struct json_out *json, uint64_t number);
void json_out_bool(struct json_out *json, bool truth);
void json_out_null(struct json_out *json);
/* Thousandths as a decimal fraction: 1234 becomes 1.234, 5 becomes 0.005. */
void json_out_milli(struct json_out *json, uint64_t thousandths);

/* A key and its value in one call. */
void json_out_put_text(struct json_out *json, const char *key,
                       const char *text);
void json_out_put_slice(struct json_out *json, const char *key,
                        struct slice text);
/* value: one JSON value, of a document that json_pull.h has read. */
void json_out_put_raw(struct json_out *json, const char *key,
                      struct slice value);
void json_out_put_uint(struct json_out *json, const char *key, uint64_t number);
void json_out_put_bool(struct json_out *json, const char *key, bool truth);
void json_out_put_milli(struct json_out *json, const char *key,
                        uint64_t thousandths);

#endif
