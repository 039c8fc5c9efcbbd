/*
 * The names of a record (index/names.h) as bytes: the field CODEC_FIELD_NAMES
 * behind a body's ops.
 *
 *   u32     upper half of the batch's fingerprint
 *   ops     varint (count << 4 | keys known << 3 | has parent << 2 | kind), then
 *     ENTER   [the parent's key], [varint: keys that are passed over], names of
 *             8 bytes, and keys unless they are known: those of the record's
 *             STOREs, in their order
 *     COPIES  varint of copies, names
 *     LEAVE   names
 *     READER  words of 8 bytes
 *
 * So a block that is stored costs the 8 bytes of its name, and a run of them
 * some ten more.
 */
#include "gossip/codec_internal.h"

#define KEYS_KNOWN 8U
#define HAS_PARENT 4U
#define HEAD_ROOM  40U /* of an op, with a parent and a name */

/* Walks the keys of a record's STOREs. */
struct walk {
    const uint64_t *words;
    uint32_t count;
    uint32_t at;
    uint32_t left; /* keys of the op that `at` is in */
};

static bool
next_key(struct walk *walk, uint64_t *key)
{
    while (walk->left == 0 && walk->at < walk->count) {
        uint64_t op = walk->words[walk->at++];
        uint32_t keys = event_op_count(op);
        CHECK_SLOW(keys <= walk->count - walk->at);
        if (event_op_kind(op) == EVENT_STORE) {
            walk->left = keys;
        } else {
            walk->at += keys;
        }
    }
    if (walk->left == 0) {
        return false;
    }
    walk->left--;
    *key = walk->words[walk->at++];
    return true;
}

/* ---- out ---- */

static size_t
room_of(const struct codec_out *out)
{
    CHECK(out->len <= out->max);
    return out->max - out->len;
}

static void
put_head(struct codec_out *out, enum names_kind kind, uint32_t flags,
         uint32_t count)
{
    codec_put_varint(out, (uint64_t)count << 4 | flags | (uint64_t)kind);
}

/* One run of blocks, from the one that `from` is at on. */
struct run {
    const uint64_t *pairs; /* name, key; the first one */
    uint32_t left;
    bool has_parent;
    uint64_t parent;
};

static struct run
run_of(const struct codec_names *from)
{
    uint64_t op = from->words[from->at];
    const uint64_t *pairs =
        from->words + from->at + 1 + names_op_has_parent(op);
    struct run run = {.pairs = pairs + 2 * (size_t)from->in_op,
                      .left = names_op_count(op) - from->in_op};

    CHECK(names_op_kind(op) == NAMES_ENTER && run.left > 0);
    run.has_parent = from->in_op > 0 || names_op_has_parent(op);
    if (run.has_parent) {
        run.parent = from->in_op > 0 ? run.pairs[-1] : pairs[-1];
    }
    return run;
}

/* How many keys of the run come next among the record's, after *skip others;
 * the walk is behind them then. 0: the first one is not there. */
static uint32_t
match(struct walk *walk, const struct run *run, uint32_t most, uint32_t *skip)
{
    struct walk probe = *walk;
    uint64_t key;
    uint32_t count = 0;

    for (*skip = 0;; (*skip)++) {
        if (!next_key(&probe, &key)) {
            return 0;
        }
        if (key == run->pairs[1]) {
            break;
        }
    }
    do {
        *walk = probe;
        count++;
    } while (count < most && next_key(&probe, &key) &&
             key == run->pairs[2 * (size_t)count + 1]);
    return count;
}

/* Returns how many blocks were put; 0: they are for the next part. */
static uint32_t
put_enter(struct codec_out *out, const struct codec_names *from,
          struct walk *walk, bool last)
{
    struct run run = run_of(from);
    size_t room = (room_of(out) - HEAD_ROOM) / 8;
    uint32_t most = run.left < room ? run.left : (uint32_t)room;
    uint32_t skip;
    uint32_t count = match(walk, &run, most, &skip);
    bool known = count > 0;

    if (!known) {
        count = most < room / 2 ? most : (uint32_t)(room / 2);
        count = last ? count : 0;
    }
    if (count == 0) {
        return 0;
    }
    put_head(out, NAMES_ENTER,
             (known ? KEYS_KNOWN : 0) | (run.has_parent ? HAS_PARENT : 0),
             count);
    if (run.has_parent) {
        codec_put_u64(out, run.parent);
    }
    if (known) {
        codec_put_varint(out, skip);
    }
    for (size_t i = 0; i < count; i++) {
        codec_put_u64(out, run.pairs[2 * i]);
    }
    for (size_t i = 0; i < count && !known; i++) {
        codec_put_u64(out, run.pairs[2 * i + 1]);
    }
    return count;
}

static uint32_t
put_plain(struct codec_out *out, const struct codec_names *from)
{
    uint64_t op = from->words[from->at];
    enum names_kind kind = names_op_kind(op);
    uint32_t left = names_op_count(op) - from->in_op;
    size_t room = (room_of(out) - HEAD_ROOM) / 8;
    uint32_t count = left < room ? left : (uint32_t)room;

    if (kind == NAMES_READER && count < left) {
        return 0; /* it is not parted */
    }
    put_head(out, kind, 0, count);
    if (kind == NAMES_COPIES) {
        codec_put_varint(out, names_op_copies(op));
    }
    for (uint32_t i = 0; i < count; i++) {
        codec_put_u64(out, from->words[from->at + 1 + from->in_op + i]);
    }
    return count;
}

void
codec_put_names(struct codec_out *out, struct codec_names *from,
                const uint64_t *words, uint32_t count, bool last,
                uint64_t fingerprint)
{
    struct walk walk = {.words = words, .count = count};

    CHECK(from->at <= from->count && out->max - out->len > HEAD_ROOM);
    codec_put_u32(out, (uint32_t)(fingerprint >> 32));
    while (from->at < from->count && room_of(out) > (size_t)2 * HEAD_ROOM) {
        uint64_t op = from->words[from->at];
        bool enters = names_op_kind(op) == NAMES_ENTER;
        uint32_t put =
            enters ? put_enter(out, from, &walk, last) : put_plain(out, from);
        from->in_op += put;
        if (from->in_op < names_op_count(op)) {
            break;
        }
        from->at += (uint32_t)names_op_words(op);
        from->in_op = 0;
    }
    CHECK(!out->failed && from->at <= from->count);
}

/* ---- in ---- */

static bool
get_enter(struct codec_in *in, struct walk *walk, uint32_t flags,
          uint32_t count, uint64_t *to)
{
    bool known = (flags & KEYS_KNOWN) != 0;
    uint64_t key;

    if ((flags & HAS_PARENT) != 0) {
        *to++ = codec_get_u64(in);
    }
    for (uint64_t skip = known ? codec_get_varint(in) : 0; skip > 0; skip--) {
        if (!next_key(walk, &key)) {
            return false;
        }
    }
    for (size_t i = 0; i < count; i++) {
        to[2 * i] = codec_get_u64(in);
    }
    for (size_t i = 0; i < count; i++) {
        if (!known) {
            to[2 * i + 1] = codec_get_u64(in);
        } else if (!next_key(walk, &to[2 * i + 1])) {
            return false;
        }
    }
    return true;
}

static bool
get_op(struct codec_in *in, struct walk *walk, struct words *into)
{
    uint64_t head = codec_get_varint(in);
    enum names_kind kind = (enum names_kind)(head & 3);
    uint32_t copies = 0;

    if (kind == NAMES_COPIES) {
        copies = codec_get_count(in, NAMES_COPIES_MAX);
    }
    /* No more than there are bytes for. */
    if (in->failed || head >> 4 > codec_left(in) / 8) {
        return false;
    }
    uint32_t count = (uint32_t)(head >> 4);
    bool has_parent = kind == NAMES_ENTER && (head & HAS_PARENT) != 0;
    uint64_t op = names_op(kind, has_parent, copies, count);
    size_t len = names_op_words(op);
    uint64_t *to = len == 0 ? NULL : words_add(into, len);
    if (to == NULL) {
        return false;
    }
    *to++ = op;
    if (kind == NAMES_ENTER) {
        return get_enter(in, walk, (uint32_t)(head & 15), count, to) &&
               !in->failed;
    }
    for (uint32_t i = 0; i < count; i++) {
        to[i] = codec_get_u64(in);
    }
    return !in->failed;
}

bool
codec_get_names(const struct codec_body *body, const uint64_t *words,
                struct words *into, uint64_t *fingerprint)
{
    struct codec_in in = body->names;
    struct walk walk = {.words = words, .count = body->words_count};

    CHECK(body->has_names && !in.failed);
    *fingerprint = (uint64_t)codec_get_u32(&in) << 32 | body->fingerprint;
    while (codec_left(&in) > 0 && !in.failed) {
        if (!get_op(&in, &walk, into)) {
            return false;
        }
    }
    return !in.failed;
}
