/* The JSON writer: commas, nesting and escapes, so that callers cannot get
 * them wrong. */
#include "node/text/json_out.h"

#include <inttypes.h>

#include "index/base/check.h"
#include "node/text/json_text.h"

void
json_out_init(struct json_out *json, struct buf *buf)
{
    *json = (struct json_out){.buf = buf};
}

static bool
in_object(const struct json_out *json)
{
    return json->depth != 0 && (json->objects >> (json->depth - 1) & 1) != 0;
}

/* What must stand before a value. */
static void
before_value(struct json_out *json)
{
    CHECK(!in_object(json) || json->keyed);
    CHECK(json->depth != 0 || !json->comma); /* one document, one value */
    if (json->comma && !json->keyed) {
        buf_add(json->buf, ",", 1);
    }
    json->keyed = false;
    json->comma = true;
}

static void
begin(struct json_out *json, const char *bracket, bool object)
{
    before_value(json);
    CHECK(json->depth < JSON_OUT_DEPTH_MAX);
    buf_add(json->buf, bracket, 1);
    uint32_t bit = UINT32_C(1) << json->depth;
    json->objects = object ? json->objects | bit : json->objects & ~bit;
    json->depth++;
    json->comma = false;
    CHECK(json->depth <= JSON_OUT_DEPTH_MAX && !json->keyed);
}

static void
end(struct json_out *json, const char *bracket, bool object)
{
    CHECK(json->depth != 0 && in_object(json) == object && !json->keyed);
    buf_add(json->buf, bracket, 1);
    json->depth--;
    json->comma = true;
}

void
json_out_object_begin(struct json_out *json)
{
    begin(json, "{", true);
}

void
json_out_object_end(struct json_out *json)
{
    end(json, "}", true);
}

void
json_out_array_begin(struct json_out *json)
{
    begin(json, "[", false);
}

void
json_out_array_end(struct json_out *json)
{
    end(json, "]", false);
}

static void
quote(struct json_out *json, struct slice text)
{
    char piece[256];

    buf_add(json->buf, "\"", 1);
    while (text.len != 0) {
        size_t n = json_text_escape(&text, piece, sizeof(piece));
        CHECK(n > 0 && n <= sizeof(piece));
        buf_add(json->buf, piece, n);
    }
    buf_add(json->buf, "\"", 1);
}

void
json_out_key(struct json_out *json, const char *key)
{
    CHECK(in_object(json) && !json->keyed);
    if (json->comma) {
        buf_add(json->buf, ",", 1);
    }
    quote(json, slice_of(key));
    buf_add(json->buf, ":", 1);
    json->keyed = true;
}

void
json_out_slice(struct json_out *json, struct slice text)
{
    before_value(json);
    quote(json, text);
}

void
json_out_text(struct json_out *json, const char *text)
{
    json_out_slice(json, slice_of(text));
}

void
json_out_uint(struct json_out *json, uint64_t number)
{
    before_value(json);
    buf_printf(json->buf, "%" PRIu64, number);
}

void
json_out_bool(struct json_out *json, bool truth)
{
    before_value(json);
    buf_add_text(json->buf, truth ? "true" : "false");
}

void
json_out_null(struct json_out *json)
{
    before_value(json);
    buf_add_text(json->buf, "null");
}

void
json_out_milli(struct json_out *json, uint64_t thousandths)
{
    before_value(json);
    buf_printf(json->buf, "%" PRIu64 ".%03u", thousandths / 1000,
               (unsigned)(thousandths % 1000));
}

void
json_out_put_text(struct json_out *json, const char *key, const char *text)
{
    json_out_key(json, key);
    json_out_text(json, text);
}

void
json_out_put_slice(struct json_out *json, const char *key, struct slice text)
{
    json_out_key(json, key);
    json_out_slice(json, text);
}

void
json_out_put_raw(struct json_out *json, const char *key, struct slice value)
{
    CHECK(value.len != 0);
    json_out_key(json, key);
    before_value(json);
    buf_add_slice(json->buf, value);
}

void
json_out_put_uint(struct json_out *json, const char *key, uint64_t number)
{
    json_out_key(json, key);
    json_out_uint(json, number);
}

void
json_out_put_bool(struct json_out *json, const char *key, bool truth)
{
    json_out_key(json, key);
    json_out_bool(json, truth);
}

void
json_out_put_milli(struct json_out *json, const char *key, uint64_t thousandths)
{
    json_out_key(json, key);
    json_out_milli(json, thousandths);
}
