/*
 * Streams, workers and members as bytes, and back.
 */
#include "storage/record.h"

#include "storage/bytes_internal.h"

enum {
    STREAM_COMPLETE = 1,
    STREAM_PARTIAL = 2,
    STREAM_NAMED = 4, /* fields follow that older files lack */
};

/* The length is not known before the fields are written. */
static size_t
begin(struct buf *out)
{
    size_t at = out->len;

    put_u32(out, 0);
    return at;
}

static void
end(struct buf *out, size_t at)
{
    if (out->failed) {
        return;
    }
    CHECK(at + sizeof(uint32_t) <= out->len);
    uint32_t len = (uint32_t)(out->len - at - sizeof(len));
    for (unsigned i = 0; i < sizeof(len); i++) {
        out->ptr[at + i] = (char)(uint8_t)(len >> (8 * i));
    }
}

void
storage_put_stream(struct buf *out, const struct storage_stream *stream)
{
    size_t at = begin(out);

    CHECK(stream->reading.len <= STORAGE_OPAQUE_MAX);
    put_u64(out, stream->name.worker);
    put_u32(out, stream->name.rank);
    put_u32(out, stream->slot);
    put_u32(out, stream->ledger);
    put_u32(out, stream->epoch_no);
    put_u64(out, stream->epoch_id);
    put_u64(out, stream->epoch_name);
    put_u64(out, stream->pos);
    put_u32(out, stream->holes);
    put_u32(out, stream->block_tokens);
    put_u32(out, (stream->complete ? STREAM_COMPLETE : 0U) |
                     (stream->partial ? STREAM_PARTIAL : 0U) |
                     (stream->named ? STREAM_NAMED : 0U));
    put_u64(out, stream->blocks);
    put_u64(out, stream->digest);
    put_u64(out, stream->ledger_blocks);
    put_text(out, stream->reading);
    if (stream->named) {
        put_u64(out, stream->names_print);
        put_u64(out, stream->names_count);
        put_u64(out, stream->names_digest);
    }
    end(out, at);
}

void
storage_put_worker(struct buf *out, const struct storage_worker *worker)
{
    size_t at = begin(out);

    CHECK(worker->spec.len <= STORAGE_OPAQUE_MAX);
    put_text(out, worker->id);
    put_u64(out, worker->version);
    put_u32(out, (worker->removed ? 1U : 0U) | (worker->draining ? 2U : 0U));
    put_text(out, worker->spec);
    put_u32(out, worker->age_ms);
    end(out, at);
}

void
storage_put_member(struct buf *out, const struct storage_member *member)
{
    size_t at = begin(out);

    put_text(out, member->name);
    put_text(out, member->address);
    end(out, at);
}

/* ---- and back ---- */

struct storage_records
storage_records(struct slice bytes)
{
    return (struct storage_records){.at = bytes.ptr, .left = bytes.len};
}

/* The fields of the next record; false at the end. */
static bool
next(struct storage_records *in, struct bytes_in *fields)
{
    struct bytes_in all = {.at = in->at, .left = in->left};

    if (in->failed || in->left == 0) {
        return false;
    }
    struct slice record = get_text(&all);
    *fields = (struct bytes_in){.at = record.ptr, .left = record.len};
    in->at = all.at;
    in->left = all.left;
    in->failed = all.failed;
    return !in->failed;
}

static struct slice
get_opaque(struct bytes_in *in)
{
    struct slice text = get_text(in);

    in->failed = in->failed || text.len > STORAGE_OPAQUE_MAX;
    return text;
}

static bool
whole(struct storage_records *in, const struct bytes_in *fields)
{
    in->failed = fields->failed;
    return !in->failed;
}

bool
storage_get_stream(struct storage_records *in, struct storage_stream *stream)
{
    struct bytes_in fields;

    if (!next(in, &fields)) {
        return false;
    }
    *stream = (struct storage_stream){.name = {.worker = get_u64(&fields)}};
    stream->name.rank = get_u32(&fields);
    stream->slot = get_u32(&fields);
    stream->ledger = get_u32(&fields);
    stream->epoch_no = get_u32(&fields);
    stream->epoch_id = get_u64(&fields);
    stream->epoch_name = get_u64(&fields);
    stream->pos = get_u64(&fields);
    stream->holes = get_u32(&fields);
    stream->block_tokens = get_u32(&fields);
    uint32_t flags = get_u32(&fields);
    stream->complete = (flags & STREAM_COMPLETE) != 0;
    stream->partial = (flags & STREAM_PARTIAL) != 0;
    stream->blocks = get_u64(&fields);
    stream->digest = get_u64(&fields);
    stream->ledger_blocks = get_u64(&fields);
    stream->reading = get_opaque(&fields);
    stream->named = (flags & STREAM_NAMED) != 0;
    if (stream->named) {
        stream->names_print = get_u64(&fields);
        stream->names_count = get_u64(&fields);
        stream->names_digest = get_u64(&fields);
    }
    return whole(in, &fields);
}

bool
storage_get_worker(struct storage_records *in, struct storage_worker *worker)
{
    struct bytes_in fields;

    if (!next(in, &fields)) {
        return false;
    }
    *worker = (struct storage_worker){.id = get_opaque(&fields)};
    worker->version = get_u64(&fields);
    uint32_t flags = get_u32(&fields);
    worker->removed = (flags & 1) != 0;
    worker->draining = (flags & 2) != 0;
    worker->spec = get_opaque(&fields);
    worker->age_ms = fields.left == 0 ? 0 : get_u32(&fields);
    return whole(in, &fields);
}

bool
storage_get_member(struct storage_records *in, struct storage_member *member)
{
    struct bytes_in fields;

    if (!next(in, &fields)) {
        return false;
    }
    *member = (struct storage_member){.name = get_opaque(&fields)};
    member->address = get_opaque(&fields);
    return whole(in, &fields);
}
