/* The message that is looked at. */
#include "node/content/content_text_internal.h"

#include <string.h>

/* The spans of one message. */
struct part {
    uint32_t from, to;
};

/* The user's message that is wanted; without one, all of the prompt. */
static struct part
find_message(const struct content_asked *asked, enum content_look look)
{
    const struct scan *scan = asked->scan;
    struct part part = {0, scan->spans_count};
    bool found = false;

    for (uint32_t i = 0; i < scan->spans_count; i++) {
        const struct scan_span *span = &scan->spans[i];
        struct slice role = {asked->body.ptr + span->at, span->len};
        if (span->kind != SCAN_ROLE) {
            continue;
        }
        if (found && part.to > i) {
            part.to = i; /* the next message begins */
        }
        if (slice_equal(role, SLICE("user")) &&
            (!found || look == CONTENT_LAST)) {
            part = (struct part){i + 1, scan->spans_count};
            found = true;
        }
    }
    return part;
}

struct writing {
    char *room;
    size_t len;
    bool full;
};

/* Appends as much as fits, whole characters alone. */
static void
add_piece(struct writing *out, struct slice piece)
{
    size_t fits = CONTENT_TEXT_MAX - out->len;

    out->full = piece.len > fits;
    if (!out->full) {
        fits = piece.len;
    }
    while (out->full && fits > 0 &&
           ((uint8_t)piece.ptr[fits] & 0xC0U) == 0x80U) {
        fits--;
    }
    memcpy(out->room + out->len, piece.ptr, fits);
    out->len += fits;
}

static void
add_span(struct writing *out, struct slice raw, bool escaped)
{
    char piece[SCAN_PIECE_BYTES];

    if (!escaped) {
        add_piece(out, raw);
        return;
    }
    while (raw.len != 0 && !out->full) {
        add_piece(out, scan_unescape_next(&raw, piece));
    }
}

struct slice
content_text(const struct content_asked *asked, enum content_look look,
             char room[CONTENT_TEXT_MAX])
{
    struct part part = find_message(asked, look);
    struct writing out = {.room = room};

    for (uint32_t i = part.from; i < part.to && !out.full; i++) {
        const struct scan_span *span = &asked->scan->spans[i];
        struct slice raw = {asked->body.ptr + span->at, span->len};
        if (span->kind == SCAN_TEXT) {
            add_span(&out, raw, span->escaped);
            if (!out.full) {
                add_piece(&out, SLICE("\n"));
            }
        }
    }
    return (struct slice){room, out.len};
}

uint64_t
content_text_bytes(const struct scan *scan)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < scan->spans_count; i++) {
        bytes += scan->spans[i].kind == SCAN_TEXT ? scan->spans[i].len : 0;
    }
    return bytes;
}
