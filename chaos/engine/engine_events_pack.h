/*
 * Writes msgpack, each number in its shortest form, as engines do.
 *
 * Role: core. Owns: nothing; the buffer is the caller's. Thread: one owner.
 * Limits: the buffer's; lengths below 2^32. Errors: the buffer's `failed`.
 */
#ifndef CHAOS_ENGINE_EVENTS_PACK_H
#define CHAOS_ENGINE_EVENTS_PACK_H

#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/slice.h"

void engine_pack_nil(struct buf *out);

void engine_pack_uint(struct buf *out, uint64_t number);

void engine_pack_int(struct buf *out, int64_t number);

/* Always as 64 bits. */
void engine_pack_real(struct buf *out, double number);

/* A str; the bytes should be UTF-8. */
void engine_pack_text(struct buf *out, struct slice text);

/* A bin. */
void engine_pack_bytes(struct buf *out, struct slice bytes);

/* The heads; count elements, or count pairs, must follow. */
void engine_pack_array(struct buf *out, uint32_t count);
void engine_pack_map(struct buf *out, uint32_t count);

#endif
