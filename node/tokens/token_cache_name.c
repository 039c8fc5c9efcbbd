/*
 * Names a conversation: a scanned body becomes a chain of keys, one for each
 * message. Every name covers all that comes before it.
 */
#include "index/index.h"
#include "node/tokens/token_cache.h"

/* What is hashed at once: large, as each start costs; the same for every
 * spelling of a text. */
#define CHUNK_BYTES 4096U

/* Kept at either end of a conversation of too many messages. */
#define ENDS (CONVERSATION_MAX / 2)

/* Kinds of items beside those of enum scan_span_kind. */
#define ITEM_MODEL  0x100U
#define ITEM_OPTION 0x200U /* and which one */

struct namer {
    const char *body;
    uint64_t key;
    uint64_t bytes; /* of text so far */
};

static void
add_key(struct namer *c, const void *bytes, size_t size)
{
    CHECK(size <= CHUNK_BYTES);
    c->key = key_next(c->key, bytes, size);
}

static size_t
add_plain(struct namer *c, const char *text, size_t len)
{
    size_t left = len;

    for (; left >= CHUNK_BYTES; left -= CHUNK_BYTES) {
        add_key(c, text, CHUNK_BYTES);
        text += CHUNK_BYTES;
    }
    if (left != 0) {
        add_key(c, text, left);
    }
    return len;
}

/* The same keys as add_plain() of what raw stands for, whose length it
 * returns. */
static size_t
add_escaped(struct namer *c, struct slice raw)
{
    char open[CHUNK_BYTES];
    char room[SCAN_PIECE_BYTES];
    size_t filled = 0;
    size_t len = 0;

    while (raw.len != 0) {
        struct slice piece = scan_unescape_next(&raw, room);
        len += piece.len;
        while (piece.len != 0) {
            size_t free_bytes = CHUNK_BYTES - filled;
            CHECK_SLOW(filled < CHUNK_BYTES);
            size_t take = piece.len < free_bytes ? piece.len : free_bytes;
            memcpy(open + filled, piece.ptr, take);
            piece.ptr += take;
            piece.len -= take;
            filled += take;
            if (filled == CHUNK_BYTES) {
                add_key(c, open, CHUNK_BYTES);
                filled = 0;
            }
        }
    }
    if (filled != 0) {
        add_key(c, open, filled);
    }
    return len;
}

/* One item: its bytes, then its kind and length, so that no two different
 * rows of items run together. Its length is returned. */
static size_t
add_item(struct namer *c, uint32_t kind, uint32_t at, uint32_t len,
         bool escaped)
{
    const char *raw = c->body + at;
    size_t size = escaped
                      ? add_escaped(c, (struct slice){.ptr = raw, .len = len})
                      : add_plain(c, raw, len);
    uint64_t mark[2] = {kind, size};

    add_key(c, mark, sizeof(mark));
    return size;
}

static void
add_head(struct namer *c, const struct scan *scan)
{
    const struct scan_text *model = &scan->model;

    (void)add_item(c, ITEM_MODEL + (uint32_t)scan->api, model->at, model->len,
                   model->escaped);
    for (unsigned i = 0; i < SCAN_OPTIONS; i++) {
        const struct scan_text *option = &scan->options[i];
        if (option->present) {
            (void)add_item(c, ITEM_OPTION + i, option->at, option->len, false);
        }
    }
}

static void
add_span(struct namer *c, const struct scan_span *span)
{
    size_t size = add_item(c, span->kind, span->at, span->len, span->escaped);

    c->bytes += span->kind != SCAN_MEDIA ? size : 0;
    CHECK_SLOW(c->bytes <= UINT32_MAX);
}

/* The name of all that was added is that of the first `done` of `all`
 * messages. */
static void
keep(struct conversation *out, const struct namer *c, uint32_t done,
     uint32_t all)
{
    if (done > ENDS && all - done >= ENDS) {
        return; /* somewhere in the middle */
    }
    CHECK(done <= all && out->count < CONVERSATION_MAX);
    out->keys[out->count] = c->key;
    out->bytes[out->count] = (uint32_t)c->bytes;
    out->count++;
    CHECK_SLOW(out->count < 2 ||
               out->bytes[out->count - 1] >= out->bytes[out->count - 2]);
}

static uint32_t
count_messages(const struct scan *scan)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < scan->spans_count; i++) {
        count += scan->spans[i].kind == SCAN_ROLE;
    }
    CHECK_SLOW(count <= scan->spans_count);
    return count;
}

void
conversation_name(struct conversation *conversation, const char *body,
                  const struct scan *scan, uint64_t root)
{
    struct namer c = {.body = body, .key = root};
    bool text = scan->shape == SCAN_STRING || scan->shape == SCAN_STRINGS;
    uint32_t all = text ? 1 : count_messages(scan);
    uint32_t done = 0;

    CHECK(body != NULL || scan->spans_count == 0);
    conversation->count = 0;
    if (scan->spans_truncated || (!text && scan->shape != SCAN_MESSAGES)) {
        return;
    }
    add_head(&c, scan);
    for (uint32_t i = 0; i < scan->spans_count; i++) {
        if (!text && scan->spans[i].kind == SCAN_ROLE && done++ != 0) {
            keep(conversation, &c, done - 1, all);
        }
        add_span(&c, &scan->spans[i]);
    }
    if (scan->truncated) {
        conversation->count = 0; /* an earlier turn begins elsewhere */
    }
    if (all != 0) {
        keep(conversation, &c, all, all);
    }
    CHECK(conversation->count <= CONVERSATION_MAX);
}
