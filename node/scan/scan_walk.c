/*
 * Going from token to token, and past values that nobody asks about.
 */
#include "node/scan/scan_walk_internal.h"

#include <string.h>

void
walk_init(struct walk *w, struct slice body, size_t at, uint32_t depth_max)
{
    CHECK(at <= body.len);
    scan_blocks_init(&w->blocks, body.ptr, at, body.len, depth_max);
    w->body = body.ptr;
    w->frame = 0;
    w->at = at;
    w->tokens = 0;
    w->taken = (uint32_t)at;
    CHECK(w->blocks.end == body.len);
}

bool
walk_block(struct walk *w, int32_t depth)
{
    const struct scan_window *window = &w->blocks.window;
    const struct scan_frames *f = &window->frames;

    for (w->frame++;; w->frame = 0) {
        for (; w->frame < f->count; w->frame++) {
            if (f->lowest[w->frame] <= depth && f->tokens[w->frame] != 0) {
                w->at = window->at + (size_t)f->block[w->frame] * SCAN_BLOCK;
                w->tokens = f->tokens[w->frame];
                w->slash = window->slash[f->block[w->frame]];
                CHECK_SLOW(w->at < w->blocks.end);
                return true;
            }
        }
        if (!w->kernel->read(&w->blocks)) {
            w->frame = 0;
            w->tokens = 0;
            return false;
        }
    }
}

bool
walk_slashed(const struct walk *w, size_t from, size_t close)
{
    const struct scan_window *window = &w->blocks.window;
    size_t last = (close - window->at) / SCAN_BLOCK;
    uint64_t between = (UINT64_C(1) << last) - 1;
    uint64_t slash = w->slash & ((UINT64_C(1) << (close - w->at)) - 1);

    CHECK_SLOW(from <= close && close >= window->at);
    if (from < window->at) {
        return (slash | window->carried | (window->slashed & between)) != 0;
    }
    size_t first = (from - window->at) / SCAN_BLOCK;
    if (first < last) {
        slash |= window->slash[first] >> (from - window->at) % SCAN_BLOCK;
    }
    between &= UINT64_MAX << first << 1;
    return (slash | (window->slashed & between)) != 0;
}

uint32_t
walk_leave(struct walk *w)
{
    const struct scan_frames *f = &w->blocks.window.frames;
    int32_t level = 1;

    for (;;) {
        uint64_t open = f->open[w->frame];
        uint64_t left = w->tokens & (open | f->close[w->frame]);
        for (; left != 0; left &= left - 1) {
            uint64_t bit = left & (0 - left);
            level += (open & bit) != 0 ? 1 : -1;
            if (level == 0) {
                w->tokens &= ~(bit | (bit - 1));
                w->taken = (uint32_t)(w->at + (size_t)__builtin_ctzll(bit));
                return w->taken + 1;
            }
        }
        int32_t outside = f->depth[w->frame] - level;
        if (!walk_block(w, outside)) {
            return (uint32_t)w->blocks.end;
        }
        level = f->depth[w->frame] - outside -
                __builtin_popcountll(f->open[w->frame]) +
                __builtin_popcountll(f->close[w->frame]);
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
        return walk_leave(w);
    default:
        return t.at;
    }
}

struct scan_text
walk_raw(struct walk *w, struct token t)
{
    CHECK_SLOW(t.kind == 0 || t.at < w->blocks.end);
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
        .at = t.at, .len = walk_leave(w) - t.at, .present = true};
}

/* The offset after the scalar at `at`: the grammar lets only these follow. */
static uint32_t
scalar_end(const struct walk *w, uint32_t at)
{
    CHECK_SLOW(at <= w->blocks.end);
    while (at < w->blocks.end && memchr(",]} \t\r\n", w->body[at], 7) == NULL) {
        at++;
    }
    return at;
}

struct scan_text
walk_value(struct walk *w, struct token t)
{
    bool scalar = t.kind != '"' && t.kind != '{' && t.kind != '[';
    uint32_t end = walk_skip(w, t);

    if (t.kind == 0) {
        return (struct scan_text){.present = false};
    }
    end = scalar ? scalar_end(w, t.at) : end;
    return (struct scan_text){.at = t.at, .len = end - t.at, .present = true};
}

struct slice
walk_unescaped(struct slice text, struct scan_name *name)
{
    CHECK_SLOW(text.ptr != NULL);
    if (text.len > sizeof(name->room)) {
        return (struct slice){.ptr = NULL, .len = 0};
    }
    return (struct slice){.ptr = name->room,
                          .len = scan_unescape(text.ptr, text.len, name->room)};
}
