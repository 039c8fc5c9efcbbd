/*
 * Pre-tokenizers: each stage of a file cuts the pieces of the one before, and
 * some write them anew. The common case, one pattern and then byte-level, goes
 * word by word without a list of pieces in between.
 */
#include <stdlib.h>
#include <string.h>

#include "node/tokenizer/tokenizer_internal.h"
#include "node/tokenizer/tokenizer_words_internal.h"

/* A stage at work: from pieces of `in`, to pieces of `out`. */
struct cutting {
    struct tokenizer_scratch *s;
    const struct pre_stage *stage;
    struct slice text; /* where the pieces are */
    struct tok_pieces *out;
    struct tok_piece piece; /* the one being cut */
    /* How SplitDelimiterBehavior folds: the piece that may grow. */
    bool open;
    bool previous; /* the last run was a match */
    size_t start, end;
};

static void
add_piece(struct tokenizer_scratch *s, struct tok_pieces *pieces, size_t start,
          size_t end, bool first)
{
    if (start == end) {
        return;
    }
    if (pieces->count == pieces->room) {
        size_t room = pieces->room == 0 ? 256 : pieces->room * 2;
        void *more = realloc(pieces->ptr, room * sizeof pieces->ptr[0]);
        if (more == NULL) {
            tok_fault(s, TOKENIZER_E_MEMORY);
            return;
        }
        pieces->ptr = more;
        pieces->room = room;
    }
    pieces->ptr[pieces->count++] =
        (struct tok_piece){(uint32_t)start, (uint32_t)(end - start), first};
}

static void
put(struct cutting *cut, size_t start, size_t end)
{
    add_piece(cut->s, cut->out, start, end,
              cut->piece.first && start == cut->piece.start);
}

static void
close_open(struct cutting *cut)
{
    if (cut->open) {
        put(cut, cut->start, cut->end);
    }
    cut->open = false;
}

/* Opens a piece that the next run may join. */
static void
open_piece(struct cutting *cut, size_t start, size_t end)
{
    close_open(cut);
    cut->open = true;
    cut->start = start;
    cut->end = end;
}

/* A run of the piece, in order: a match of the stage's pattern, or not. For
 * TOK_SPLIT_WITH_NEXT see split_with_next(). */
static void
run(struct cutting *cut, size_t start, size_t end, bool match)
{
    match = match != cut->stage->invert;
    switch (cut->stage->split) {
    case TOK_SPLIT_ISOLATED:
        put(cut, start, end);
        break;
    case TOK_SPLIT_REMOVED:
        if (!match) {
            put(cut, start, end);
        }
        break;
    case TOK_SPLIT_CONTIGUOUS:
        if (cut->open && match == cut->previous) {
            cut->end = end;
        } else {
            open_piece(cut, start, end);
        }
        break;
    case TOK_SPLIT_WITH_PREVIOUS:
        if (cut->open && match && !cut->previous) {
            cut->end = end;
        } else {
            open_piece(cut, start, end);
        }
        break;
    case TOK_SPLIT_WITH_NEXT:
        /* From the end backwards, a match joins the run after it when that is
         * no match: a match waits for the next run. */
        if (cut->open && cut->previous && !match) {
            cut->end = end;
        } else {
            open_piece(cut, start, end);
        }
        break;
    }
    cut->previous = match;
}

static void
begin(struct cutting *cut, struct tok_piece piece)
{
    cut->piece = piece;
    cut->open = false;
    cut->previous = false;
}

static struct slice
piece_text(const struct cutting *cut)
{
    return (struct slice){.ptr = cut->text.ptr + cut->piece.start,
                          .len = cut->piece.len};
}

static void
cut_by_scan(struct cutting *cut, tok_scan *scan)
{
    const struct tok_classes *classes = cut->s->tokenizer->classes;
    struct slice text = piece_text(cut);

    for (size_t at = 0; at < text.len;) {
        size_t end = scan(classes, text, at);
        run(cut, cut->piece.start + at, cut->piece.start + end, true);
        at = end;
    }
}

static void
cut_by_regex(struct cutting *cut, const struct tok_regex *regex)
{
    struct tok_find find = tok_find_in(piece_text(cut));
    size_t base = cut->piece.start;
    size_t taken = 0;
    int found = 0;

    while ((found = tok_find_next(&find, regex, cut->s->matcher)) == 1) {
        if (taken != find.start) {
            run(cut, base + taken, base + find.start, false);
        }
        run(cut, base + find.start, base + find.end, true);
        taken = find.end;
    }
    if (found < 0) {
        tok_fault(cut->s, TOKENIZER_E_WORK);
    }
    if (taken != find.text.len) {
        run(cut, base + taken, base + find.text.len, false);
    }
}

static void
cut_by_text(struct cutting *cut, struct slice find)
{
    struct slice text = piece_text(cut);
    size_t taken = 0;

    while (find.len > 0 && taken < text.len) {
        const char *found =
            memmem(text.ptr + taken, text.len - taken, find.ptr, find.len);
        if (found == NULL) {
            break;
        }
        size_t at = (size_t)(found - text.ptr);
        if (at > taken) {
            run(cut, cut->piece.start + taken, cut->piece.start + at, false);
        }
        taken = at + find.len;
        run(cut, cut->piece.start + at, cut->piece.start + taken, true);
    }
    if (taken < text.len) {
        run(cut, cut->piece.start + taken, cut->piece.start + text.len, false);
    }
}

/* Digits are numbers of Unicode 17 in the library, patterns of 16. */
static bool
is_later_number(const char *text)
{
    uint32_t c = utf8_read(text);

    return (c >= 0x11de0 && c <= 0x11de9) || (c >= 0x16ff4 && c <= 0x16ff6);
}

/* Each character of the flag is a match by itself. */
static void
cut_by_class(struct cutting *cut, uint8_t flag)
{
    const struct tok_classes *classes = cut->s->tokenizer->classes;
    struct slice text = piece_text(cut);
    size_t taken = 0;

    for (size_t at = 0, len = 0; at < text.len; at += len) {
        len = utf8_len((uint8_t)text.ptr[at]);
        if ((tok_class_at(classes, text.ptr + at) & flag) != 0 ||
            (len == 4 && flag == TOK_NUMBER &&
             is_later_number(text.ptr + at))) {
            if (at > taken) {
                run(cut, cut->piece.start + taken, cut->piece.start + at,
                    false);
            }
            run(cut, cut->piece.start + at, cut->piece.start + at + len, true);
            taken = at + len;
        }
    }
    if (taken < text.len) {
        run(cut, cut->piece.start + taken, cut->piece.start + text.len, false);
    }
}

/* \w+|[^\w\s]+, which keeps the matches alone. */
static void
cut_words(struct cutting *cut)
{
    const struct tok_classes *classes = cut->s->tokenizer->classes;
    struct slice text = piece_text(cut);
    size_t start = 0;
    int kind = 0; /* of the run: 0 spaces, 1 words, 2 others */

    for (size_t at = 0; at < text.len; at += utf8_len((uint8_t)text.ptr[at])) {
        uint8_t class = tok_class_at(classes, text.ptr + at);
        int now = (class & TOK_WORD) ? 1 : (class & TOK_SPACE) ? 0 : 2;
        if (now != kind) {
            if (kind != 0) {
                put(cut, cut->piece.start + start, cut->piece.start + at);
            }
            start = at;
            kind = now;
        }
    }
    if (kind != 0) {
        put(cut, cut->piece.start + start, cut->piece.start + text.len);
    }
}

/* BERT: spaces go, punctuation stands alone. */
static void
cut_bert(struct cutting *cut)
{
    const struct tok_classes *classes = cut->s->tokenizer->classes;
    struct slice text = piece_text(cut);
    size_t base = cut->piece.start;
    size_t taken = 0;

    for (size_t at = 0, len = 0; at < text.len; at += len) {
        uint8_t class = tok_class_at(classes, text.ptr + at);
        len = utf8_len((uint8_t)text.ptr[at]);
        if ((class & (TOK_SPACE | TOK_PUNCT)) != 0) {
            put(cut, base + taken, base + at);
            if ((class & TOK_SPACE) == 0) {
                put(cut, base + at, base + at + len);
            }
            taken = at + len;
        }
    }
    put(cut, base + taken, base + text.len);
}

static void
cut_lengths(struct cutting *cut)
{
    struct slice text = piece_text(cut);
    size_t start = 0;
    size_t characters = 0;

    for (size_t at = 0; at < text.len;) {
        at += utf8_len((uint8_t)text.ptr[at]);
        if (++characters == cut->stage->length || at == text.len) {
            put(cut, cut->piece.start + start, cut->piece.start + at);
            start = at;
            characters = 0;
        }
    }
}

static void
cut_piece(struct cutting *cut, struct tok_piece piece)
{
    tok_scan *scan = NULL;

    begin(cut, piece);
    switch (cut->stage->kind) {
    case PRE_BYTE_LEVEL:
        cut_by_scan(cut, scan_gpt2);
        break;
    case PRE_SPLIT_REGEX:
        scan = tok_regex_scan(cut->stage->regex);
        if (scan != NULL) {
            cut_by_scan(cut, scan);
        } else {
            cut_by_regex(cut, cut->stage->regex);
        }
        break;
    case PRE_SPLIT_TEXT:
    case PRE_METASPACE:
        cut_by_text(cut, cut->stage->text);
        break;
    case PRE_DIGITS:
        cut_by_class(cut, TOK_NUMBER);
        break;
    case PRE_PUNCTUATION:
        cut_by_class(cut, TOK_PUNCT);
        break;
    case PRE_WHITESPACE_SPLIT:
        cut_by_class(cut, TOK_SPACE);
        break;
    case PRE_WHITESPACE:
        cut_words(cut);
        break;
    case PRE_BERT:
        cut_bert(cut);
        break;
    case PRE_FIXED_LENGTH:
        cut_lengths(cut);
        break;
    }
    close_open(cut);
}

/* Writes the pieces anew before they are cut: a metaspace for each space, and
 * one in front; a space in front of byte-level words. */
static void
write_spaces(const struct pre_stage *stage, struct slice text, bool first,
             struct buf *out)
{
    bool metaspace = stage->kind == PRE_METASPACE;
    struct slice mark = metaspace ? stage->text : SLICE(" ");
    bool starts = slice_begins(text, mark) ||
                  (metaspace && text.len > 0 && text.ptr[0] == ' ');
    bool wanted = metaspace ? stage->prepend == METASPACE_ALWAYS ||
                                  (stage->prepend == METASPACE_FIRST && first)
                            : stage->prefix_space;

    if (wanted && !starts) {
        buf_add_slice(out, mark);
    }
    if (!metaspace) {
        buf_add_slice(out, text);
        return;
    }
    while (text.len > 0) {
        const char *space = memchr(text.ptr, ' ', text.len);
        size_t before = space != NULL ? (size_t)(space - text.ptr) : text.len;
        buf_add(out, text.ptr, before);
        if (space == NULL) {
            break;
        }
        buf_add_slice(out, mark);
        slice_skip(&text, before + 1);
    }
}

static void
write_bytes(struct slice text, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        char character[4];
        size_t len =
            utf8_write(byte_level_char((uint8_t)text.ptr[i]), character);
        buf_add(out, character, len);
    }
}

/* Rewrites all pieces into s->pre[which]. */
static struct slice
rewrite(struct tokenizer_scratch *s, const struct pre_stage *stage, bool bytes,
        struct slice text, struct tok_pieces *pieces, unsigned which)
{
    struct buf *out = &s->pre[which];

    buf_clear(out);
    for (size_t i = 0; i < pieces->count; i++) {
        struct tok_piece *piece = &pieces->ptr[i];
        struct slice part = {.ptr = text.ptr + piece->start, .len = piece->len};
        size_t start = out->len;
        if (bytes) {
            write_bytes(part, out);
        } else {
            write_spaces(stage, part, piece->first, out);
        }
        piece->start = (uint32_t)start;
        piece->len = (uint32_t)(out->len - start);
    }
    if (out->failed) {
        tok_fault(s, TOKENIZER_E_LONG);
        pieces->count = 0;
    }
    return buf_slice(out);
}

static bool
stage_cuts(const struct pre_stage *stage)
{
    return stage->kind == PRE_BYTE_LEVEL  ? stage->words
           : stage->kind == PRE_METASPACE ? stage->pieces
                                          : true;
}

/* All stages, over lists of pieces. */
static void
run_stages(struct tokenizer_scratch *s, struct slice text, bool first)
{
    const struct tokenizer *t = s->tokenizer;
    struct tok_pieces *in = &s->pieces[0];
    struct tok_pieces *out = &s->pieces[1];
    unsigned which = 0;

    in->count = 0;
    add_piece(s, in, 0, text.len, first);
    for (size_t i = 0; i < t->pres_count && s->fault == TOKENIZER_OK; i++) {
        const struct pre_stage *stage = &t->pres[i];
        bool bytes = stage->kind == PRE_BYTE_LEVEL;
        if (stage->kind == PRE_METASPACE || (bytes && stage->prefix_space)) {
            text = rewrite(s, stage, false, text, in, which);
            which ^= 1;
        }
        if (stage_cuts(stage)) {
            struct cutting cut = {
                .s = s, .stage = stage, .text = text, .out = out};
            out->count = 0;
            for (size_t k = 0; k < in->count; k++) {
                cut_piece(&cut, in->ptr[k]);
            }
            struct tok_pieces *swap = in;
            in = out;
            out = swap;
        }
        if (bytes && !(t->model == TOK_BPE && t->bpe.folded)) {
            text = rewrite(s, stage, true, text, in, which);
            which ^= 1;
        }
    }
    for (size_t i = 0; i < in->count && s->fault == TOKENIZER_OK; i++) {
        model_word(s, (struct slice){.ptr = text.ptr + in->ptr[i].start,
                                     .len = in->ptr[i].len});
    }
}

static bool
isolates(const struct pre_stage *stage)
{
    return stage->kind == PRE_SPLIT_REGEX &&
           (stage->split == TOK_SPLIT_ISOLATED ||
            (stage->split == TOK_SPLIT_REMOVED && stage->invert));
}

/* Whether these are DeepSeek's three cuts. */
static bool
is_deepseek(const struct pre_stage *stages, size_t count)
{
    bool is = count == TOK_DEEPSEEK_PARTS;

    for (unsigned i = 0; is && i < count; i++) {
        is = stages[i].kind == PRE_SPLIT_REGEX &&
             stages[i].split == TOK_SPLIT_ISOLATED &&
             tok_regex_deepseek(stages[i].regex) == i + 1;
    }
    return is;
}

/* The scanner when isolating cuts by known patterns are all that happens to the
 * text before a folded BPE. */
static tok_scan *
only_scan(const struct tokenizer *t)
{
    const struct pre_stage *stage = &t->pres[0];
    const struct pre_stage *last = &t->pres[t->pres_count - 1];

    if (t->model != TOK_BPE || !t->bpe.folded || last->prefix_space) {
        return NULL;
    }
    if (t->pres_count == 1 && stage->kind == PRE_BYTE_LEVEL) {
        return stage->words ? scan_gpt2 : NULL;
    }
    bool bytes = last->kind == PRE_BYTE_LEVEL && !last->words;
    size_t cuts = t->pres_count - bytes;
    if (is_deepseek(stage, cuts)) {
        return scan_deepseek;
    }
    return cuts == 1 && isolates(stage) ? tok_regex_scan(stage->regex) : NULL;
}

void
pre_run(struct tokenizer_scratch *s, struct slice text, bool first)
{
    const struct tokenizer *t = s->tokenizer;
    tok_scan *scan = NULL;

    if (text.len == 0) {
        return;
    }
    if (t->pres_count == 0) {
        model_word(s, text);
        return;
    }
    scan = only_scan(t);
    if (scan != NULL) {
        s->kernel->run(s, text, scan);
    } else {
        run_stages(s, text, first);
    }
}
