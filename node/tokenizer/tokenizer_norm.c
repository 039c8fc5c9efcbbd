/* Normalisers: each stage of a file writes the text anew, or leaves it. */
#include <string.h>
#include <utf8proc.h>

#include "node/tokenizer/tokenizer_internal.h"

static void
put_character(struct buf *out, uint32_t c)
{
    char *at = buf_reserve(out, 4);

    if (at != NULL) {
        out->len += utf8_write(c, at);
    }
}

static void
put_lower(struct buf *out, uint32_t c)
{
    if (c == 0x130) { /* the one capital that becomes two characters */
        buf_add_text(out, "i\xcc\x87");
    } else {
        put_character(out, norm_lower(c));
    }
}

static void
lowercase(struct slice text, struct buf *out)
{
    for (size_t at = 0; at < text.len; at += utf8_len((uint8_t)text.ptr[at])) {
        put_lower(out, utf8_read(text.ptr + at));
    }
}

/* Keeps what `drop` does not name; *first is cleared when the start goes. */
static void
filter(struct slice text, bool (*drop)(uint32_t), bool *first, struct buf *out)
{
    for (size_t at = 0, len = 0; at < text.len; at += len) {
        len = utf8_len((uint8_t)text.ptr[at]);
        if (!drop(utf8_read(text.ptr + at))) {
            buf_add(out, text.ptr + at, len);
        } else if (at == 0) {
            *first = false;
        }
    }
}

/* What stands for a match; *first is cleared when the start goes. */
static void
put_instead(const struct norm_stage *stage, bool *first, struct buf *out)
{
    buf_add_slice(out, stage->text);
    *first = *first && out->len > 0;
}

static void
replace_text(const struct norm_stage *stage, struct slice text, bool *first,
             struct buf *out)
{
    while (text.len > 0) {
        const char *found =
            memmem(text.ptr, text.len, stage->find.ptr, stage->find.len);
        size_t before = found != NULL ? (size_t)(found - text.ptr) : text.len;
        buf_add(out, text.ptr, before);
        if (found == NULL) {
            break;
        }
        put_instead(stage, first, out);
        slice_skip(&text, before + stage->find.len);
    }
}

static void
replace_regex(struct tokenizer_scratch *s, const struct norm_stage *stage,
              struct slice text, bool *first, struct buf *out)
{
    struct tok_find find = tok_find_in(text);
    size_t taken = 0;
    int found = 0;

    while (text.len > 0 &&
           (found = tok_find_next(&find, stage->regex, s->matcher)) == 1) {
        buf_add(out, text.ptr + taken, find.start - taken);
        if (find.start < find.end) {
            put_instead(stage, first, out);
        } else {
            buf_add_slice(out, stage->text);
        }
        taken = find.end;
    }
    if (found < 0) {
        tok_fault(s, TOKENIZER_E_WORK);
    }
    buf_add(out, text.ptr + taken, text.len - taken);
}

static struct slice
strip(const struct tok_classes *classes, const struct norm_stage *stage,
      struct slice text, bool *first)
{
    while (stage->left && text.len > 0 &&
           (tok_class_at(classes, text.ptr) & TOK_SPACE) != 0) {
        size_t len = utf8_len((uint8_t)text.ptr[0]);
        text.ptr += len;
        text.len -= len;
        *first = false;
    }
    while (stage->right && text.len > 0) {
        size_t back = utf8_back(text.ptr, text.len);
        if ((tok_class_at(classes, text.ptr + back) & TOK_SPACE) == 0) {
            break;
        }
        text.len = back;
    }
    return text;
}

/* Control and other characters that BERT drops. */
static bool
bert_drops(uint32_t c)
{
    return c == 0 || c == 0xfffd ||
           (c != '\t' && c != '\n' && c != '\r' && bert_is_other(c));
}

static bool
is_chinese(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

/* Cleaned, and with spaces around Chinese characters. */
static void
bert_clean(const struct tok_classes *classes, const struct norm_stage *stage,
           struct slice text, bool *first, struct buf *out)
{
    for (size_t at = 0; at < text.len; at += utf8_len((uint8_t)text.ptr[at])) {
        uint32_t c = utf8_read(text.ptr + at);
        if (stage->clean && bert_drops(c)) {
            *first = *first && at > 0;
            continue;
        }
        if (stage->clean && (tok_class(classes, c) & TOK_SPACE) != 0) {
            c = ' ';
        }
        bool chinese = stage->chinese && is_chinese(c);
        buf_add_text(out, chinese ? " " : "");
        put_character(out, c);
        buf_add_text(out, chinese ? " " : "");
    }
}

static void
bert(struct tokenizer_scratch *s, const struct norm_stage *stage,
     struct slice text, bool *first, struct buf *out)
{
    struct buf *a = &s->pre[0]; /* free while a text is normalised */
    struct buf *b = &s->pre[1];

    buf_clear(a);
    bert_clean(s->tokenizer->classes, stage, text, first, a);
    if (stage->accents) {
        buf_clear(b);
        norm_unicode(s, buf_slice(a), NORM_NFD, b);
        buf_clear(a);
        filter(buf_slice(b), bert_is_nonspacing, first, a);
    }
    if (stage->lowercase) {
        lowercase(buf_slice(a), out);
    } else {
        buf_add_slice(out, buf_slice(a));
    }
    out->failed = out->failed || a->failed || b->failed;
}

static bool
nmt_drops(uint32_t c)
{
    return (c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) ||
           c == 0x7f || c == 0x8f || c == 0x9f;
}

static void
nmt(struct slice text, bool *first, struct buf *out)
{
    for (size_t at = 0; at < text.len; at += utf8_len((uint8_t)text.ptr[at])) {
        uint32_t c = utf8_read(text.ptr + at);
        bool space = c == 9 || c == 0xa || c == 0xc || c == 0xd ||
                     c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
                     c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff ||
                     c == 0xfffd;
        if (!nmt_drops(c)) {
            put_character(out, space ? ' ' : c);
        } else if (at == 0) {
            *first = false;
        }
    }
}

static void
byte_level(struct slice text, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        put_character(out, byte_level_char((uint8_t)text.ptr[i]));
    }
}

/* Whether the stage leaves this text as it is; asked before it is copied. */
static bool
leaves(const struct tokenizer *t, const struct norm_stage *stage,
       struct slice text)
{
    switch (stage->kind) {
    case NORM_NFC:
        return norm_is_nfc(t->classes, text);
    case NORM_REPLACE:
        return stage->regex == NULL &&
               memmem(text.ptr, text.len, stage->find.ptr, stage->find.len) ==
                   NULL;
    case NORM_PREPEND:
        return text.len == 0;
    case NORM_STRIP: /* never copies */
    case NORM_NFD:
    case NORM_NFKC:
    case NORM_NFKD:
    case NORM_LOWERCASE:
    case NORM_STRIP_ACCENTS:
    case NORM_BERT:
    case NORM_CHARSMAP:
    case NORM_NMT:
    case NORM_BYTE_LEVEL:
        return false;
    }
    return false;
}

static void
run_stage(struct tokenizer_scratch *s, const struct norm_stage *stage,
          struct slice text, bool *first, struct buf *out)
{
    switch (stage->kind) {
    case NORM_NFC:
    case NORM_NFD:
    case NORM_NFKC:
    case NORM_NFKD:
        norm_unicode(s, text, stage->kind, out);
        break;
    case NORM_PREPEND:
        buf_add_slice(out, stage->text);
        buf_add_slice(out, text);
        break;
    case NORM_REPLACE:
        if (stage->regex != NULL) {
            replace_regex(s, stage, text, first, out);
        } else {
            replace_text(stage, text, first, out);
        }
        break;
    case NORM_LOWERCASE:
        lowercase(text, out);
        break;
    case NORM_STRIP_ACCENTS:
        filter(text, norm_is_mark, first, out);
        break;
    case NORM_BERT:
        bert(s, stage, text, first, out);
        break;
    case NORM_CHARSMAP:
        norm_charsmap(stage, text, out);
        break;
    case NORM_NMT:
        nmt(text, first, out);
        break;
    case NORM_BYTE_LEVEL:
        byte_level(text, out);
        break;
    case NORM_STRIP:
        CHECK(false);
        break;
    }
}

/* The vowels am of Thai and Lao: NFKD makes a mark and a letter of them, the
 * only characters of which a mark goes first and something stays. When accents
 * are stripped, the letter still stands at the start. */
static bool
starts_with_am(struct slice text)
{
    return text.len >= 3 && (memcmp(text.ptr, "\xe0\xb8\xb3", 3) == 0 ||
                             memcmp(text.ptr, "\xe0\xba\xb3", 3) == 0);
}

struct slice
norm_run(struct tokenizer_scratch *s, struct slice text, bool *first)
{
    const struct tokenizer *t = s->tokenizer;
    bool am_first = *first && starts_with_am(text);
    unsigned which = 0;

    for (size_t i = 0; i < t->norms_count && s->fault == TOKENIZER_OK; i++) {
        const struct norm_stage *stage = &t->norms[i];
        struct buf *out = &s->norm[which];
        if (stage->kind == NORM_STRIP) {
            text = strip(t->classes, stage, text, first);
            continue;
        }
        if (leaves(t, stage, text)) {
            continue;
        }
        buf_clear(out);
        run_stage(s, stage, text, first, out);
        if (stage->kind == NORM_STRIP_ACCENTS && am_first) {
            *first = true;
        }
        if (out->failed) {
            tok_fault(s, TOKENIZER_E_LONG);
        }
        text = buf_slice(out);
        which ^= 1;
    }
    return text;
}
