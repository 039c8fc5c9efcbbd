/* What a gateway says. */
#include "node/extproc/extproc.h"

#include "node/extproc/pb_internal.h"

/* ProcessingRequest */
#define REQUEST_METADATA 8
#define REQUEST_OBSERVES 10
#define REQUEST_CONFIG   11

/* A HeaderMap: nothing but headers counts. */
static bool
take_header(struct pb *map, struct extproc_header *out)
{
    struct pb_field field;

    while (pb_next(map, &field)) {
        if (!pb_is_bytes(&field, 1)) {
            continue;
        }
        struct pb value = pb_over(field.bytes);
        *out = (struct extproc_header){.name = {NULL, 0}};
        while (pb_next(&value, &field)) {
            if (pb_is_bytes(&field, 1)) {
                out->name = field.bytes;
            } else if (pb_is_bytes(&field, 3) ||
                       (pb_is_bytes(&field, 2) && out->value.len == 0)) {
                out->value = field.bytes; /* as bytes, or as text */
            }
        }
        map->bad = value.bad;
        return !value.bad;
    }
    return false;
}

bool
extproc_header(struct slice *rest, struct extproc_header *out)
{
    struct pb map = pb_over(*rest);
    bool found = take_header(&map, out);

    *rest = map.rest;
    return found;
}

struct slice
extproc_header_find(struct slice headers, const char *name)
{
    struct extproc_header header;

    while (extproc_header(&headers, &header)) {
        if (slice_equal(header.name, slice_of(name))) {
            return header.value;
        }
    }
    return (struct slice){NULL, 0};
}

/* HttpHeaders, and HttpTrailers, which have no end. */
static bool
read_headers(struct slice message, struct extproc_message *out)
{
    struct pb pb = pb_over(message);
    struct pb_field field;
    struct extproc_header header;

    while (pb_next(&pb, &field)) {
        if (pb_is_bytes(&field, 1)) {
            out->headers = field.bytes;
        } else if (pb_is_varint(&field, 3)) {
            out->ends = field.value != 0;
        }
    }
    struct pb map = pb_over(out->headers);
    while (take_header(&map, &header)) {
    }
    return !pb.bad && !map.bad;
}

static bool
read_body(struct slice message, struct extproc_message *out)
{
    struct pb pb = pb_over(message);
    struct pb_field field;

    while (pb_next(&pb, &field)) {
        if (pb_is_bytes(&field, 1)) {
            out->body = field.bytes;
        } else if (pb_is_varint(&field, 2)) {
            out->ends = field.value != 0;
        }
    }
    return !pb.bad;
}

static bool
read_config(struct slice message, struct extproc_message *out)
{
    struct pb pb = pb_over(message);
    struct pb_field field;

    out->modes = true;
    while (pb_next(&pb, &field)) {
        if (pb_is_varint(&field, 1)) {
            out->request_mode = field.value;
        } else if (pb_is_varint(&field, 2)) {
            out->response_mode = field.value;
        }
    }
    return !pb.bad;
}

/* One of the parts; the last one counts, as in every union. */
static bool
read_part(const struct pb_field *field, struct extproc_message *out)
{
    out->part = (enum extproc_part)(field->number - 1);
    out->ends = false;
    out->headers = (struct slice){NULL, 0};
    out->body = (struct slice){NULL, 0};
    if (out->part == EXTPROC_REQUEST_BODY ||
        out->part == EXTPROC_RESPONSE_BODY) {
        return read_body(field->bytes, out);
    }
    return read_headers(field->bytes, out);
}

int
extproc_read(struct slice message, struct extproc_message *out)
{
    struct pb pb = pb_over(message);
    struct pb_field field;

    *out = (struct extproc_message){.part = EXTPROC_NOTHING};
    while (pb_next(&pb, &field)) {
        bool good = true;
        if (field.type == PB_BYTES && field.number >= 2 && field.number <= 7) {
            good = read_part(&field, out);
        } else if (pb_is_bytes(&field, REQUEST_METADATA)) {
            out->metadata = field.bytes;
        } else if (pb_is_varint(&field, REQUEST_OBSERVES)) {
            out->observes = field.value != 0;
        } else if (pb_is_bytes(&field, REQUEST_CONFIG)) {
            good = read_config(field.bytes, out);
        }
        if (!good) {
            return EXTPROC_E_BAD;
        }
    }
    return pb.bad ? EXTPROC_E_BAD : 0;
}

/* Metadata */

/* Of a map from texts to messages, in that field, the message of a key. */
static bool
find_in_map(struct slice message, const char *key, struct slice *out)
{
    struct pb pb = pb_over(message);
    struct pb_field field;

    while (pb_next(&pb, &field)) {
        if (!pb_is_bytes(&field, 1)) {
            continue;
        }
        struct pb entry = pb_over(field.bytes);
        struct slice name = {NULL, 0};
        struct slice value = {NULL, 0};
        while (pb_next(&entry, &field)) {
            if (pb_is_bytes(&field, 1)) {
                name = field.bytes;
            } else if (pb_is_bytes(&field, 2)) {
                value = field.bytes;
            }
        }
        if (!entry.bad && slice_equal(name, slice_of(key))) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* A google.protobuf.Value: its text, or the list that it is. */
static bool
find_value(struct slice message, uint32_t number, struct slice *out)
{
    struct pb pb = pb_over(message);
    struct pb_field field;

    while (pb_next(&pb, &field)) {
        if (pb_is_bytes(&field, number)) {
            *out = field.bytes;
            return true;
        }
    }
    return false;
}

bool
extproc_texts_find(struct slice metadata, const char *space, const char *key,
                   struct extproc_texts *out)
{
    struct slice fields;
    struct slice value;

    *out = (struct extproc_texts){.list = true};
    if (!find_in_map(metadata, space, &fields) ||
        !find_in_map(fields, key, &value)) {
        return false;
    }
    if (!find_value(value, 6, &out->rest)) { /* a list, which may be empty */
        out->list = false;
        (void)find_value(value, 3, &out->rest); /* one of nothing otherwise */
    }
    return true;
}

bool
extproc_texts_next(struct extproc_texts *texts, struct slice *text)
{
    if (!texts->list) {
        while (texts->rest.len != 0) {
            *text = slice_trim(slice_take(&texts->rest, ','));
            if (text->len != 0) {
                return true;
            }
        }
        return false;
    }
    struct pb pb = pb_over(texts->rest);
    struct pb_field field;
    while (pb_next(&pb, &field)) {
        texts->rest = pb.rest;
        if (pb_is_bytes(&field, 1) && find_value(field.bytes, 3, text)) {
            *text = slice_trim(*text);
            return true;
        }
    }
    texts->rest = (struct slice){NULL, 0};
    return false;
}
