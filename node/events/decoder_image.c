/*
 * A reading as bytes: numbers of 8 bytes, little endian, in this order.
 *   version
 *   flags          IMAGE_*
 *   the stream     process, first_seq, first_fingerprint, next_seq, count,
 *                  fingerprints
 *   what it knows  grain, group, KV_GROUPS_MAX groups, count, lone blocks, words of
 *                  `dropped`
 *   a batch that did not fit: seq, fingerprint
 * Another order or meaning is another version, and an image of a version that
 * is not known is not used.
 *
 * Names go with words that say less: version, flags, process, first_seq,
 * first_fingerprint, grain, group, groups, lone blocks. What was
 * dropped on purpose is not among them: whoever goes on from there takes blocks
 * behind unknown ones for such, for a while (kv_apply.full).
 */

#include "node/events/decoder.h"

#define VERSION 4U
#define DROPPED (KV_DROPPED_BITS / 64)
#define NUMBERS_MAX \
    (13U + KV_STREAM_FINGERPRINTS + KV_GROUPS_MAX + KV_LONE_MAX + DROPPED)

_Static_assert(NUMBERS_MAX * 8 <= DECODER_BYTES_MAX, "an image has its room");

enum {
    IMAGE_COMPLETE = 1,
    IMAGE_UNREAD = 2,
    IMAGE_WHOLE = 4,
    IMAGE_GAP = 8,
    IMAGE_GROUP = 16,
    IMAGE_FULL = 32,
    IMAGE_SIZED = 64,
    IMAGE_UNRULED = 128,
};

/* ---- out ---- */

static void
put(struct buf *out, uint64_t number)
{
    uint8_t bytes[8];

    for (unsigned i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(number >> (8 * i));
    }
    buf_add(out, bytes, sizeof bytes);
}

static uint64_t
flags_of(const struct decoder *decoder, const struct kv_stream_image *stream)
{
    const struct kv_apply *apply = &decoder->apply;

    return (stream->complete ? IMAGE_COMPLETE : 0U) |
           (stream->unread ? IMAGE_UNREAD : 0U) |
           (decoder->whole ? IMAGE_WHOLE : 0U) |
           (decoder->gap ? IMAGE_GAP : 0U) |
           (apply->has_group ? IMAGE_GROUP : 0U) |
           (apply->full > 0 ? IMAGE_FULL : 0U) |
           (apply->is_size_proven ? IMAGE_SIZED : 0U) |
           (apply->unruled ? IMAGE_UNRULED : 0U);
}

#define GROUP_TOKENS_SHIFT 8
#define GROUP_WINDOW_SHIFT 32

static uint64_t
group_number(const struct kv_group *group)
{
    CHECK(group->block_tokens <= SHAPE_TOKENS_MAX);
    return (uint64_t)group->kind |
           (uint64_t)group->block_tokens << GROUP_TOKENS_SHIFT |
           (uint64_t)group->window << GROUP_WINDOW_SHIFT;
}

static void
put_apply(struct buf *out, const struct kv_apply *apply)
{
    CHECK(apply->lone_count <= KV_LONE_MAX);
    put(out, shape_grain_of(apply->block_tokens, apply->ahead));
    put(out, apply->group);
    for (uint32_t i = 0; i < KV_GROUPS_MAX; i++) {
        put(out, group_number(&apply->groups[i]));
    }
    put(out, apply->lone_count);
    for (uint32_t i = 0; i < apply->lone_count; i++) {
        put(out, apply->lone[i]);
    }
    for (uint32_t i = 0; i < DROPPED; i++) {
        put(out, apply->dropped[i]);
    }
}

bool
decoder_image(const struct decoder *decoder, struct buf *out)
{
    struct kv_stream_image stream;

    if (!kv_stream_image(decoder->stream, &stream)) {
        return false;
    }
    CHECK(stream.fingerprints_count > 0 &&
          stream.fingerprints_count <= KV_STREAM_FINGERPRINTS);
    put(out, VERSION);
    put(out, flags_of(decoder, &stream));
    put(out, stream.process);
    put(out, stream.first_seq);
    put(out, stream.first_fingerprint);
    put(out, stream.next_seq);
    put(out, stream.fingerprints_count);
    for (uint32_t i = 0; i < stream.fingerprints_count; i++) {
        put(out, stream.fingerprints[i]);
    }
    put_apply(out, &decoder->apply);
    put(out, decoder->unfit_seq);
    put(out, decoder->unfit_fingerprint);
    return !out->failed;
}

/* ---- with names ---- */

#define READER_LONE  (7U + KV_GROUPS_MAX) /* where lone blocks begin */
#define READER_WORDS (READER_LONE + KV_LONE_MAX)

_Static_assert(READER_WORDS <= NAMES_READER_MAX, "a reader has its room");

uint32_t
decoder_reader(const struct decoder *decoder, uint64_t *words)
{
    const struct kv_apply *apply = &decoder->apply;
    struct kv_stream_image stream;
    uint32_t count = 0;

    if (decoder->doubted || !kv_stream_origin(decoder->stream, &stream)) {
        return 0;
    }
    words[count++] = VERSION;
    words[count++] = flags_of(decoder, &stream) & ~(uint64_t)IMAGE_FULL;
    words[count++] = stream.process;
    words[count++] = stream.first_seq;
    words[count++] = stream.first_fingerprint;
    words[count++] = shape_grain_of(apply->block_tokens, apply->ahead);
    words[count++] = apply->group;
    for (uint32_t i = 0; i < KV_GROUPS_MAX; i++) {
        words[count++] = group_number(&apply->groups[i]);
    }
    CHECK(count == READER_LONE);
    for (uint32_t i = 0; i < apply->lone_count && !apply->is_size_proven; i++) {
        words[count++] = apply->lone[i];
    }
    CHECK(count <= READER_WORDS);
    return count;
}

bool
decoder_image_of(const uint64_t *words, uint32_t count, uint64_t seq,
                 uint64_t fingerprint, struct buf *out)
{
    if (count < READER_LONE || count > READER_WORDS || words[0] != VERSION ||
        seq >= UINT64_MAX - 1 || words[3] > seq) {
        return false;
    }
    put(out, VERSION);
    put(out, words[1] | IMAGE_FULL);
    put(out, words[2]);
    put(out, words[3]);
    put(out, words[4]);
    put(out, seq + 1);
    put(out, 1);
    put(out, fingerprint);
    put(out, words[5]);
    put(out, words[6]);
    for (uint32_t i = 7; i < READER_LONE; i++) {
        put(out, words[i]);
    }
    put(out, count - READER_LONE);
    for (uint32_t i = READER_LONE; i < count; i++) {
        put(out, words[i]);
    }
    for (uint32_t i = 0; i < DROPPED; i++) {
        put(out, 0);
    }
    put(out, 0);
    put(out, 0);
    return !out->failed;
}

/* ---- and back ---- */

struct image {
    uint64_t flags;
    struct kv_stream_image stream;
    struct kv_apply apply;
    uint64_t unfit_seq;
    uint64_t unfit_fingerprint;
};

struct in {
    const uint8_t *at;
    size_t left;
    bool failed;
};

static uint64_t
get(struct in *in)
{
    uint64_t number = 0;

    if (in->left < sizeof number) {
        in->failed = true;
        in->left = 0;
        return 0;
    }
    for (unsigned i = 0; i < sizeof number; i++) {
        number |= (uint64_t)in->at[i] << (8 * i);
    }
    in->at += sizeof number;
    in->left -= sizeof number;
    return number;
}

/* Reads a number that is at most `max`. */
static uint64_t
get_below(struct in *in, uint64_t max)
{
    uint64_t number = get(in);

    in->failed = in->failed || number > max;
    return in->failed ? 0 : number;
}

static void
get_stream(struct in *in, uint64_t flags, struct kv_stream_image *stream)
{
    stream->complete = (flags & IMAGE_COMPLETE) != 0;
    stream->unread = (flags & IMAGE_UNREAD) != 0;
    stream->process = get(in);
    stream->first_seq = get(in);
    stream->first_fingerprint = get(in);
    stream->next_seq = get_below(in, UINT64_MAX - 1);
    stream->fingerprints_count =
        (uint32_t)get_below(in, KV_STREAM_FINGERPRINTS);
    for (uint32_t i = 0; i < stream->fingerprints_count; i++) {
        stream->fingerprints[i] = get(in);
    }
    in->failed = in->failed || stream->fingerprints_count == 0 ||
                 stream->next_seq <= stream->first_seq;
}

static void
get_group(struct in *in, struct kv_apply *apply, struct kv_group *group)
{
    uint64_t number = get(in);
    uint64_t kind = number & ((1U << GROUP_TOKENS_SHIFT) - 1);
    uint64_t tokens = (uint32_t)number >> GROUP_TOKENS_SHIFT;

    if (kind > KV_GROUP_OTHER || tokens > SHAPE_TOKENS_MAX) {
        in->failed = true;
        return;
    }
    *group =
        (struct kv_group){.kind = (enum kv_group_kind)kind,
                          .window = (uint32_t)(number >> GROUP_WINDOW_SHIFT),
                          .block_tokens = (uint32_t)tokens};
    apply->has_windows |= group->kind == KV_GROUP_WINDOW;
}

static void
get_apply(struct in *in, uint64_t flags, struct kv_apply *apply)
{
    apply->has_group = (flags & IMAGE_GROUP) != 0;
    apply->full = (flags & IMAGE_FULL) != 0 ? KV_FULL_EVENTS : 0;
    apply->is_size_proven = (flags & IMAGE_SIZED) != 0;
    apply->unruled = (flags & IMAGE_UNRULED) != 0;
    uint32_t grain = (uint32_t)get_below(in, SHAPE_GRAIN_MAX);
    apply->block_tokens = shape_tokens(grain);
    apply->ahead = shape_ahead_kind(grain);
    apply->group = (uint32_t)get_below(in, UINT32_MAX);
    for (uint32_t i = 0; i < KV_GROUPS_MAX; i++) {
        get_group(in, apply, &apply->groups[i]);
    }
    apply->lone_count = (uint8_t)get_below(in, KV_LONE_MAX);
    for (uint32_t i = 0; i < apply->lone_count; i++) {
        apply->lone[i] = get(in);
    }
    for (uint32_t i = 0; i < DROPPED; i++) {
        apply->dropped[i] = get(in);
    }
}

static bool
read_image(struct slice bytes, struct image *image)
{
    struct in in = {.at = (const uint8_t *)bytes.ptr, .left = bytes.len};

    *image = (struct image){0};
    if (get(&in) != VERSION) {
        return false;
    }
    image->flags = get(&in);
    get_stream(&in, image->flags, &image->stream);
    get_apply(&in, image->flags, &image->apply);
    image->unfit_seq = get(&in);
    image->unfit_fingerprint = get(&in);
    return !in.failed && in.left == 0;
}

bool
decoder_image_check(struct slice bytes, uint64_t *seq)
{
    struct image image;
    bool good = read_image(bytes, &image);

    *seq = good ? image.stream.next_seq - 1 : 0;
    return good;
}

bool
decoder_resume(struct decoder *decoder, uint32_t ledger_stream,
               struct slice bytes)
{
    struct image image;

    CHECK(decoder->stream != NULL && !decoder->has_ledger);
    decoder->has_ledger = true;
    decoder->ledger_stream = ledger_stream;
    if (!read_image(bytes, &image) ||
        !kv_stream_resume(decoder->stream, &image.stream)) {
        return false;
    }
    decoder->process = image.stream.process;
    decoder->whole = (image.flags & IMAGE_WHOLE) != 0;
    decoder->gap = (image.flags & IMAGE_GAP) != 0;
    image.apply.rank = decoder->apply.rank;
    decoder->apply = image.apply;
    decoder->unfit_seq = image.unfit_seq;
    decoder->unfit_fingerprint = image.unfit_fingerprint;
    return true;
}
