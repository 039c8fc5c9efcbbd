#include "node/scan_walk.h"

struct scan_text
walk_string(struct walk *w, uint32_t at)
{
    const struct scan_blocks *b = &w->blocks;
    struct token close = walk_token(w);

    if (close.kind == 0) {
        return (struct scan_text){.present = false};
    }
    uint64_t below = (UINT64_C(1) << (close.at - b->at)) - 1;
    uint64_t slashes = b->slashes & below;
    size_t slash = slashes != 0 ? b->at + 64 - (size_t)__builtin_clzll(slashes)
                                : b->slash_before;
    return (struct scan_text){.at = at + 1,
                              .len = close.at - at - 1,
                              .present = true,
                              .escaped = slash > at + 1};
}

uint32_t
walk_leave(struct walk *w, int32_t level)
{
    struct scan_blocks *b = &w->blocks;

    for (;;) {
        uint64_t left = b->tokens & (b->opens | b->closes);
        for (; left != 0; left &= left - 1) {
            uint64_t bit = left & (0 - left);
            level += (b->opens & bit) != 0 ? 1 : -1;
            if (level == 0) {
                b->tokens &= ~(bit | (bit - 1));
                w->taken = (uint32_t)(b->at + (size_t)__builtin_ctzll(bit));
                return w->taken + 1;
            }
        }
        int32_t outside = b->depth - level;
        if (!w->kernel->advance(b, outside)) {
            return (uint32_t)b->end;
        }
        level = b->depth - outside - __builtin_popcountll(b->opens) +
                __builtin_popcountll(b->closes);
    }
}

uint32_t
walk_skip(struct walk *w, struct token t)
{
    switch (t.kind) {
    case '"':
        return walk_token(w).at + 1;
    case '{':
    case '[':
        return walk_leave(w, 1);
    default:
        return t.at;
    }
}

struct scan_text
walk_text(struct walk *w, struct token t)
{
    if (t.kind == '"') {
        return walk_string(w, t.at);
    }
    walk_skip(w, t);
    return (struct scan_text){.present = false};
}

struct scan_text
walk_raw(struct walk *w, struct token t)
{
    if (t.kind != '{' && t.kind != '[') {
        walk_skip(w, t);
        return (struct scan_text){.present = false};
    }
    struct token first = walk_token(w);
    if (!walk_open(first)) {
        return (struct scan_text){.present = false};
    }
    walk_skip(w, first);
    return (struct scan_text){
        .at = t.at, .len = walk_leave(w, 1) - t.at, .present = true};
}

void
walk_push(struct walk *w, enum scan_span_kind kind, struct scan_text text)
{
    if (!text.present || w->spans_cut) {
        return;
    }
    if (w->spans_count == w->spans_max) {
        w->spans_cut = true;
        return;
    }
    w->spans[w->spans_count++] = (struct scan_span){
        .at = text.at,
        .len = text.len,
        .kind = (uint8_t)kind,
        .escaped = text.escaped,
    };
}

struct slice
walk_name(const struct walk *w, struct scan_text text, struct scan_name *name)
{
    const char *raw = w->blocks.body + text.at;

    if (!text.escaped) {
        return (struct slice){.ptr = raw, .len = text.len};
    }
    if (text.len > sizeof(name->room)) {
        return (struct slice){.ptr = NULL, .len = 0};
    }
    return (struct slice){.ptr = name->room,
                          .len = scan_unescape(raw, text.len, name->room)};
}
