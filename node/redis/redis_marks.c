/* Marks of what was cleared. */
#include "node/redis/redis_marks.h"

#include <stdio.h>
#include <string.h>

#define MARKS "kvasir:1:cleared"
#define ALL   "all"

static void
put_fields(uint64_t tenant, uint64_t model, struct redis_marks_text *text)
{
    text->tenant[0] = 't';
    text->model[0] = 'm';
    text->both[0] = 'b';
    *redis_hex(tenant, text->tenant + 1) = '\0';
    *redis_hex(model, text->model + 1) = '\0';
    *redis_hex(model, redis_hex(tenant, text->both + 1)) = '\0';
}

static struct slice
put_mark(const uint8_t nonce[REDIS_NONCE_BYTES], struct redis_marks_text *text)
{
    for (unsigned i = 0; i < REDIS_NONCE_BYTES; i++) {
        (void)snprintf(text->mark + 2 * (size_t)i, 3, "%02x", nonce[i]);
    }
    return slice_of(text->mark);
}

void
redis_marks_ask(const struct answers_key *key, struct redis_marks_text *text,
                struct slice words[REDIS_MARKS_ASK])
{
    put_fields(key->tenant, key->model, text);
    words[0] = SLICE("HMGET");
    words[1] = SLICE(MARKS);
    words[2] = SLICE(ALL);
    words[3] = slice_of(text->tenant);
    words[4] = slice_of(text->model);
    words[5] = slice_of(text->both);
}

bool
redis_marks_read(const struct resp *reply, uint64_t *digest)
{
    char all[4 * (REDIS_MARK_MAX + 1)];
    size_t len = 0;

    if (reply->item.kind != RESP_LIST || reply->count != 4 ||
        reply->items[0].kind != RESP_BYTES) {
        return false;
    }
    for (unsigned i = 0; i < 4; i++) {
        struct slice mark = reply->items[i].bytes;
        if ((reply->items[i].kind != RESP_BYTES &&
             reply->items[i].kind != RESP_NOTHING) ||
            mark.len > REDIS_MARK_MAX) {
            return false;
        }
        if (mark.len != 0) {
            memcpy(all + len, mark.ptr, mark.len);
        }
        len += mark.len;
        all[len++] = '\n';
    }
    *digest = key_digest((struct slice){all, len});
    return true;
}

void
redis_marks_begin(const uint8_t nonce[REDIS_NONCE_BYTES],
                  struct redis_marks_text *text,
                  struct slice words[REDIS_MARKS_SET])
{
    words[0] = SLICE("HSETNX");
    words[1] = SLICE(MARKS);
    words[2] = SLICE(ALL);
    words[3] = put_mark(nonce, text);
}

unsigned
redis_marks_clear(const struct answers_which *which,
                  const uint8_t nonce[REDIS_NONCE_BYTES],
                  struct redis_marks_text *text,
                  struct slice words[REDIS_MARKS_SET])
{
    bool all = !which->tenants && !which->models;

    put_fields(which->tenant, which->model, text);
    words[0] = all ? SLICE("DEL") : SLICE("HSET");
    words[1] = SLICE(MARKS);
    words[2] = slice_of(!which->tenants ? text->model
                        : which->models ? text->both
                                        : text->tenant);
    words[3] = put_mark(nonce, text);
    return all ? 2 : 4;
}
