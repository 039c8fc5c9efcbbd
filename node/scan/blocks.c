/*
 * From the spans of a prompt to blocks of canonical bytes and their keys.
 */
#include "node/scan/blocks.h"

#include <stdbool.h>

#include "index/base/check.h"
#include "index/index.h"
#include "node/scan/billing.h"

#define PREFIX_BYTES 256U /* of each message that rendezvous looks at */

/* Bytes that JSON text holds only escaped, so no message can fake them. */
#define MARK_ROLE  0x1e
#define MARK_TEXT  0x1f
#define MARK_MEDIA 0x1d
#define MARK_TOOLS 0x1c

/* A picture, a sound or a file is known by the digest of what it is. To the
 * engine it is hundreds of tokens, so it counts as much as a KiB of text. */
#define MEDIA_WORDS 128U

static bool
is_full(const struct blocks_cut *c)
{
    CHECK_SLOW(c->blocks->count <= c->blocks->blocks_max);
    return c->blocks->count == c->blocks->blocks_max;
}

/* Closes as many blocks as the bytes are long enough for, in place: no copy. How
 * many bytes those have. */
static size_t
close_blocks(struct blocks_cut *c, const void *bytes, size_t len)
{
    struct blocks *blocks = c->blocks;
    const char *at = bytes;
    uint32_t size = blocks->block_bytes;
    uint32_t count = blocks->count;
    uint64_t parent = c->parent;

    for (; len >= size && count < blocks->blocks_max; len -= size) {
        parent = key_next(parent, at, size);
        blocks->keys[count++] = parent;
        at += size;
    }
    blocks->count = count;
    c->parent = parent;
    return (size_t)(at - (const char *)bytes);
}

static void
feed(struct blocks_cut *c, const char *bytes, size_t len)
{
    size_t size = c->blocks->block_bytes;

    CHECK_SLOW(c->filled < size);
    while (len != 0 && !is_full(c)) {
        if (c->filled == 0 && len >= size) {
            size_t closed = close_blocks(c, bytes, len);
            bytes += closed;
            len -= closed;
            continue;
        }
        size_t take = size - c->filled < len ? size - c->filled : len;
        memcpy(c->open + c->filled, bytes, take);
        c->filled += (uint32_t)take;
        bytes += take;
        len -= take;
        if (c->filled == size) {
            (void)close_blocks(c, c->open, size);
            c->filled = 0;
        }
    }
    CHECK_SLOW(c->filled < size);
}

static void
feed_mark(struct blocks_cut *c, char mark)
{
    feed(c, &mark, 1);
}

/* [1, 22, 333]: the scanner has checked that it is an array of numbers. */
static void
feed_ids(struct blocks_cut *c, const char *raw, size_t len)
{
    uint32_t id = c->id;
    bool in_id = c->in_id;

    CHECK_SLOW(raw != NULL);
    for (size_t i = 0; i < len && !is_full(c); i++) {
        if (raw[i] >= '0' && raw[i] <= '9') {
            id = id * 10 + (uint32_t)(raw[i] - '0');
            in_id = true;
        } else if (in_id) {
            unsigned char four[4] = {
                (unsigned char)id, (unsigned char)(id >> 8),
                (unsigned char)(id >> 16), (unsigned char)(id >> 24)};
            feed(c, (const char *)four, sizeof(four));
            id = 0;
            in_id = false;
        }
    }
    c->id = id;
    c->in_id = in_id;
}

/* A text as it stands in the body, without the line for billing. Where an engine
 * leaves that in, such a conversation is best off at one worker all the same. */
static struct slice
text_of_span(const char *body, const struct scan_span *span)
{
    struct slice text = {.ptr = body + span->at, .len = span->len};
    const char *end = NULL;

    if (span->kind != SCAN_TEXT || !billing_begins(text)) {
        return text;
    }
    end = memmem(text.ptr, text.len, "\\n", 2);
    text.len = end != NULL ? (size_t)(text.ptr + text.len - end) - 2 : 0;
    text.ptr += span->len - text.len;
    return text;
}

static void
begin_span(struct blocks_cut *c, const struct scan_span *span)
{
    c->left = text_of_span(c->body, span);
    c->begun = true;
    switch ((enum scan_span_kind)span->kind) {
    case SCAN_ROLE:
        feed_mark(c, MARK_ROLE);
        return;
    case SCAN_TOOLS:
        feed_mark(c, MARK_TOOLS);
        return;
    case SCAN_MEDIA: {
        uint64_t digest = key_digest(c->left);
        feed_mark(c, MARK_MEDIA);
        for (unsigned i = 0; i < MEDIA_WORDS; i++) {
            feed(c, (const char *)&digest, sizeof(digest));
        }
        c->left.len = 0;
        return;
    }
    case SCAN_TEXT:
    case SCAN_IDS:
        return;
    }
    CHECK(false && "a known kind of span");
}

static void
feed_escaped(struct blocks_cut *c)
{
    char room[SCAN_PIECE_BYTES];
    struct slice piece = scan_unescape_next(&c->left, room);

    feed(c, piece.ptr, piece.len);
}

static void
feed_plain(struct blocks_cut *c, bool ids)
{
    size_t len = c->left.len < SCAN_RUN_BYTES ? c->left.len : SCAN_RUN_BYTES;

    if (ids) {
        feed_ids(c, c->left.ptr, len);
    } else {
        feed(c, c->left.ptr, len);
    }
    c->left.ptr += len;
    c->left.len -= len;
}

static void
end_span(struct blocks_cut *c, const struct scan_span *span)
{
    if (span->kind == SCAN_ROLE || span->kind == SCAN_TOOLS) {
        feed_mark(c, MARK_TEXT);
    }
    c->begun = false;
    c->span++;
}

static struct slice
head_of(const char *body, const struct scan_span *span)
{
    struct slice text = text_of_span(body, span);

    text.len = text.len < PREFIX_BYTES ? text.len : PREFIX_BYTES;
    return text;
}

static bool
is_role(const char *body, const struct scan_span *span, struct slice role)
{
    return slice_equal((struct slice){.ptr = body + span->at, .len = span->len},
                       role);
}

/*
 * Rendezvous needs one key for a conversation that later turns keep: the
 * opening of the first system and of the first user message, as spelt.
 */
static uint64_t
prefix_of(const char *body, const struct scan *scan, uint64_t root)
{
    bool want_system = true;
    bool want_user = true;
    bool take = scan->shape != SCAN_MESSAGES;
    uint64_t key = root;

    for (uint32_t i = 0; i < scan->spans_count && (want_user || take); i++) {
        const struct scan_span *span = &scan->spans[i];
        if (span->kind == SCAN_ROLE) {
            bool system = is_role(body, span, SLICE("system")) ||
                          is_role(body, span, SLICE("developer"));
            bool user = is_role(body, span, SLICE("user"));
            take = (system && want_system) || (user && want_user);
            want_system = want_system && !system;
            want_user = want_user && !user;
        } else if (take && span->kind != SCAN_TOOLS) {
            struct slice head = head_of(body, span);
            take = head.len == 0 && span->len != 0; /* the next text, then */
            key = take ? key : key_next(key, head.ptr, head.len);
            want_user = want_user && scan->shape == SCAN_MESSAGES;
        }
    }
    return key;
}

static struct slice
text_of(const char *body, const struct scan_text *text)
{
    if (!text->present) {
        return (struct slice){.ptr = NULL, .len = 0};
    }
    return (struct slice){.ptr = body + text->at, .len = text->len};
}

void
blocks_begin(struct blocks_cut *c, struct blocks *blocks, const char *body,
             const struct scan *scan)
{
    CHECK(blocks->block_bytes >= BLOCKS_BYTES_MIN &&
          blocks->block_bytes <= BLOCKS_BYTES_MAX);
    CHECK(blocks->blocks_max == 0 || blocks->keys != NULL);
    struct slice salt =
        blocks->salt.len != 0 ? blocks->salt : text_of(body, &scan->salt);
    blocks->root =
        key_root(text_of(body, &scan->model), text_of(body, &scan->lora), salt);
    blocks->prefix_key = prefix_of(body, scan, blocks->root);
    blocks->count = 0;
    c->blocks = blocks;
    c->body = body;
    c->scan = scan;
    c->parent = blocks->root;
    c->span = 0;
    c->begun = false;
    c->in_id = false;
    c->id = 0;
    c->filled = 0;
}

bool
blocks_more(struct blocks_cut *c, size_t bytes)
{
    size_t fed = 0;

    while (c->span < c->scan->spans_count && !is_full(c)) {
        const struct scan_span *span = &c->scan->spans[c->span];
        if (fed >= bytes) {
            return false;
        }
        size_t before = c->begun ? c->left.len : span->len;
        if (!c->begun) {
            begin_span(c, span);
        }
        if (span->escaped) {
            feed_escaped(c);
        } else {
            feed_plain(c, span->kind == SCAN_IDS);
        }
        fed += before - c->left.len;
        if (c->left.len == 0) {
            end_span(c, span);
        }
    }
    CHECK_SLOW(c->blocks->count <= c->blocks->blocks_max);
    return true;
}

void
blocks_split(struct blocks *blocks, const char *body, const struct scan *scan)
{
    struct blocks_cut c;

    blocks_begin(&c, blocks, body, scan);
    CHECK(blocks_more(&c, SIZE_MAX));
}
