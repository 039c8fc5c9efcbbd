/* What a picker answers. */
#include "node/extproc/extproc.h"
#include "node/extproc/grpc.h"
#include "node/extproc/pb_internal.h"

/* ProcessingResponse; its parts have their own numbers before these. */
#define RESPONSE_IMMEDIATE 7
#define RESPONSE_METADATA  8

/* CommonResponse */
#define COMMON_HEADERS     2
#define COMMON_BODY        3
#define COMMON_CLEAR_ROUTE 5

/* BodyMutation */
#define BODY_WHOLE 1
#define BODY_PIECE 3

/* HeaderValueOption.append_action: in place of what is there */
#define OVERWRITE 2

/* Field numbers and types that take one byte. */
#define TAG_BYTES(field) ((char)((field) << 3 | PB_BYTES))

_Static_assert(EXTPROC_RESPONSE_TRAILERS == RESPONSE_IMMEDIATE - 1,
               "parts are numbered as their answers are");

static void
put_set(struct buf *out, const struct extproc_header *set, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        size_t option = pb_begin(out, 1);
        size_t header = pb_begin(out, 1);
        pb_put_bytes(out, 1, set[i].name);
        pb_put_bytes(out, 3, set[i].value);
        pb_end(out, header);
        pb_put_number(out, 3, OVERWRITE);
        pb_end(out, option);
    }
}

static const struct extproc_header *
endpoint_header(const struct extproc_change *change,
                struct extproc_header *header)
{
    *header = (struct extproc_header){
        .name = SLICE(EXTPROC_ENDPOINT),
        .value = change->endpoints,
    };
    return header;
}

static void
put_change(struct buf *out, const struct extproc_change *change)
{
    struct extproc_header endpoint;
    size_t headers = pb_begin(out, COMMON_HEADERS);

    if (change->endpoints.len != 0) {
        put_set(out, endpoint_header(change, &endpoint), 1);
    }
    put_set(out, change->set, change->set_count);
    for (uint32_t i = 0; i < change->remove_count; i++) {
        pb_put_bytes(out, 2, change->remove[i]);
    }
    pb_end(out, headers);
}

/* A field of a Struct: {key: value}, its value to be written. */
struct member {
    size_t entry;
    size_t value;
};

static struct member
begin_member(struct buf *out, struct slice key)
{
    struct member member;

    member.entry = pb_begin(out, 1);
    pb_put_bytes(out, 1, key);
    member.value = pb_begin(out, 2);
    return member;
}

static void
end_member(struct buf *out, struct member member)
{
    pb_end(out, member.value);
    pb_end(out, member.entry);
}

static void
put_metadata(struct buf *out, struct slice endpoints)
{
    size_t all = pb_begin(out, RESPONSE_METADATA);
    struct member space = begin_member(out, SLICE(EXTPROC_SPACE));
    size_t fields = pb_begin(out, 5);
    struct member key = begin_member(out, SLICE(EXTPROC_ENDPOINT));

    pb_put_bytes(out, 3, endpoints);
    end_member(out, key);
    pb_end(out, fields);
    end_member(out, space);
    pb_end(out, all);
}

static void
put_common(struct buf *out, enum extproc_part part,
           const struct extproc_change *change, const struct slice *body)
{
    size_t message = grpc_begin(out);
    size_t of_part = pb_begin(out, part);
    size_t common = pb_begin(out, 1);

    if (change != NULL) {
        put_change(out, change);
    }
    if (body != NULL) {
        size_t mutation = pb_begin(out, COMMON_BODY);
        pb_put_bytes(out, BODY_WHOLE, *body);
        pb_end(out, mutation);
    }
    if (change != NULL) {
        pb_put_number(out, COMMON_CLEAR_ROUTE, 1);
    }
    pb_end(out, common);
    pb_end(out, of_part);
    if (change != NULL && change->endpoints.len != 0) {
        put_metadata(out, change->endpoints);
    }
    grpc_end(out, message);
}

void
extproc_put_headers(struct buf *out, enum extproc_part part,
                    const struct extproc_change *change)
{
    put_common(out, part, change, NULL);
}

void
extproc_put_body(struct buf *out, enum extproc_part part,
                 const struct extproc_change *change, const struct slice *body)
{
    put_common(out, part, change, body);
}

/* Lengths from the inside out, so that the bytes are copied once. */
void
extproc_put_piece(struct buf *out, enum extproc_part part, struct slice bytes,
                  bool ends)
{
    /* ProcessingResponse, BodyResponse, CommonResponse, BodyMutation. */
    const char tags[] = {TAG_BYTES(part), TAG_BYTES(1), TAG_BYTES(COMMON_BODY),
                         TAG_BYTES(BODY_PIECE)};
    size_t sizes[sizeof tags];
    size_t size = 1 + pb_varint_size(bytes.len) + bytes.len + (ends ? 2U : 0U);
    size_t message = grpc_begin(out);

    for (size_t i = sizeof tags; i-- > 0;) {
        sizes[i] = size;
        size += 1 + pb_varint_size(size);
    }
    for (size_t i = 0; i < sizeof tags; i++) {
        buf_add(out, &tags[i], 1);
        pb_put_varint(out, sizes[i]);
    }
    pb_put_bytes(out, 1, bytes);
    if (ends) {
        pb_put_number(out, 2, 1);
    }
    CHECK(out->failed || out->len - message == size);
    grpc_end(out, message);
}

void
extproc_put_trailers(struct buf *out, enum extproc_part part)
{
    size_t message = grpc_begin(out);

    pb_end(out, pb_begin(out, part));
    grpc_end(out, message);
}

void
extproc_put_immediate(struct buf *out, unsigned status,
                      const struct extproc_header *set, uint32_t set_count,
                      struct slice body)
{
    size_t message = grpc_begin(out);
    size_t immediate = pb_begin(out, RESPONSE_IMMEDIATE);
    size_t code = pb_begin(out, 1);

    pb_put_number(out, 1, status);
    pb_end(out, code);
    size_t headers = pb_begin(out, 2);
    put_set(out, set, set_count);
    pb_end(out, headers);
    pb_put_bytes(out, 3, body);
    pb_end(out, immediate);
    grpc_end(out, message);
}
