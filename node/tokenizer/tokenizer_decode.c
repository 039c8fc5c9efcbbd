/* From ids to text: the tokens of the ids, passed through the stages of the
 * file's decoder. */
#include <string.h>

#include "node/tokenizer/tokenizer_internal.h"

/* Tokens in work: their text one after the other, and where each ends. */
struct decode_list {
    struct buf text;
    struct buf ends; /* size_t */
};

struct decode_work {
    struct tok_matcher *matcher;
    bool failed;
};

static void
list_init(struct decode_list *list, size_t max)
{
    buf_init(&list->text, max);
    buf_init(&list->ends, max < SIZE_MAX / 16 ? max * 8 + 64 : max);
}

static void
list_fini(struct decode_list *list)
{
    buf_fini(&list->text);
    buf_fini(&list->ends);
}

static size_t
list_count(const struct decode_list *list)
{
    return list->ends.len / sizeof(size_t);
}

static void
list_close(struct decode_list *list)
{
    buf_add(&list->ends, &list->text.len, sizeof list->text.len);
}

static struct slice
list_at(const struct decode_list *list, size_t i)
{
    size_t start = 0;
    size_t end = 0;

    if (i > 0) {
        memcpy(&start, list->ends.ptr + (i - 1) * sizeof start, sizeof start);
    }
    memcpy(&end, list->ends.ptr + i * sizeof end, sizeof end);
    return (struct slice){.ptr = list->text.ptr + start, .len = end - start};
}

/* Appends bytes with U+FFFD for what is broken. */
static void
put_lossy(struct slice bytes, struct buf *out)
{
    while (bytes.len > 0) {
        size_t good = utf8_valid(bytes);
        buf_add(out, bytes.ptr, good);
        slice_skip(&bytes, good);
        if (bytes.len > 0) {
            size_t bad = utf8_broken(bytes);
            buf_add_text(out, "\xef\xbf\xbd");
            slice_skip(&bytes, bad);
        }
    }
}

static void
put_bytes(struct slice token, struct buf *out)
{
    size_t before = out->len;

    for (size_t at = 0; at < token.len;
         at += utf8_len((uint8_t)token.ptr[at])) {
        int byte = byte_level_byte(utf8_read(token.ptr + at));
        char c = (char)byte;
        if (byte < 0) { /* the token is not byte-level: as it is */
            out->len = before;
            buf_add_slice(out, token);
            return;
        }
        buf_add(out, &c, 1);
    }
}

static void
byte_level(const struct decode_list *in, bool raw, struct decode_list *out)
{
    struct buf bytes;

    buf_init(&bytes, out->text.max_bytes);
    for (size_t i = 0; i < list_count(in); i++) {
        if (raw) {
            buf_add_slice(&bytes, list_at(in, i));
        } else {
            put_bytes(list_at(in, i), &bytes);
        }
    }
    put_lossy(buf_slice(&bytes), &out->text);
    list_close(out);
    out->text.failed = out->text.failed || bytes.failed;
    buf_fini(&bytes);
}

static void
replace(struct decode_work *work, const struct decode_stage *stage,
        struct slice token, struct buf *out)
{
    struct tok_find find = tok_find_in(token);
    size_t taken = 0;
    int found = 0;

    if (stage->regex == NULL) {
        while (token.len > 0) {
            const char *at =
                memmem(token.ptr, token.len, stage->find.ptr, stage->find.len);
            size_t before = at != NULL ? (size_t)(at - token.ptr) : token.len;
            buf_add(out, token.ptr, before);
            if (at == NULL) {
                return;
            }
            buf_add_slice(out, stage->text);
            slice_skip(&token, before + stage->find.len);
        }
        return;
    }
    while (token.len > 0 &&
           (found = tok_find_next(&find, stage->regex, work->matcher)) == 1) {
        buf_add(out, token.ptr + taken, find.start - taken);
        buf_add_slice(out, stage->text);
        taken = find.end;
    }
    work->failed = work->failed || found < 0;
    buf_add(out, token.ptr + taken, token.len - taken);
}

static int
hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The byte of <0x..>, or -1. */
static int
byte_of(struct slice token)
{
    if (token.len != 6 || memcmp(token.ptr, "<0x", 3) != 0 ||
        token.ptr[5] != '>') {
        return -1;
    }
    int high = hex_digit(token.ptr[3]);
    int low = hex_digit(token.ptr[4]);
    if (high < 0 && token.ptr[3] == '+' && low >= 0) {
        return low; /* Rust reads a sign */
    }
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Bytes in a row become their text, or one U+FFFD each. */
static void
flush_bytes(struct buf *bytes, struct decode_list *out)
{
    if (utf8_valid(buf_slice(bytes)) == bytes->len) {
        if (bytes->len > 0) {
            buf_add_slice(&out->text, buf_slice(bytes));
            list_close(out);
        }
    } else {
        for (size_t i = 0; i < bytes->len; i++) {
            buf_add_text(&out->text, "\xef\xbf\xbd");
            list_close(out);
        }
    }
    buf_clear(bytes);
}

static void
byte_fallback(const struct decode_list *in, struct decode_list *out)
{
    struct buf bytes;

    buf_init(&bytes, out->text.max_bytes);
    for (size_t i = 0; i < list_count(in); i++) {
        struct slice token = list_at(in, i);
        int byte = byte_of(token);
        char c = (char)byte;
        if (byte >= 0) {
            buf_add(&bytes, &c, 1);
            continue;
        }
        flush_bytes(&bytes, out);
        buf_add_slice(&out->text, token);
        list_close(out);
    }
    flush_bytes(&bytes, out);
    buf_fini(&bytes);
}

static void
strip(const struct decode_stage *stage, struct slice token, struct buf *out)
{
    for (size_t i = 0; i < stage->start && slice_skip_text(&token, stage->text);
         i++) {
    }
    for (size_t i = 0; i < stage->stop && slice_ends(token, stage->text); i++) {
        token.len -= stage->text.len;
    }
    buf_add_slice(out, token);
}

static void
metaspace(const struct decode_stage *stage, struct slice token, bool first,
          struct buf *out)
{
    while (token.len > 0) {
        size_t len = utf8_len((uint8_t)token.ptr[0]);
        struct slice character = {.ptr = token.ptr, .len = len};
        if (!slice_equal(character, stage->text)) {
            buf_add_slice(out, character);
        } else if (!first || stage->keep_first) {
            buf_add_text(out, " ");
        }
        slice_skip(&token, len);
    }
}

static void
put_replaced(struct slice text, const char *from, const char *to,
             struct buf *out)
{
    size_t len = strlen(from);

    while (text.len > 0) {
        const char *at = memmem(text.ptr, text.len, from, len);
        size_t before = at != NULL ? (size_t)(at - text.ptr) : text.len;
        buf_add(out, text.ptr, before);
        if (at == NULL) {
            return;
        }
        buf_add_text(out, to);
        slice_skip(&text, before + len);
    }
}

/* The spaces that English does not have, in the library's order. */
static void
clean_up(struct slice text, struct buf *out)
{
    static const char *const pairs[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    struct buf steps[2];
    unsigned which = 0;

    buf_init(&steps[0], out->max_bytes);
    buf_init(&steps[1], out->max_bytes);
    buf_add_slice(&steps[0], text);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        buf_clear(&steps[which ^ 1]);
        put_replaced(buf_slice(&steps[which]), pairs[i][0], pairs[i][1],
                     &steps[which ^ 1]);
        which ^= 1;
    }
    buf_add_slice(out, buf_slice(&steps[which]));
    buf_fini(&steps[0]);
    buf_fini(&steps[1]);
}

static void
wordpiece(const struct decode_stage *stage, struct slice token, bool first,
          struct buf *out)
{
    struct buf word;

    buf_init(&word, out->max_bytes);
    if (!first && !slice_skip_text(&token, stage->find)) {
        buf_add_text(&word, " ");
    }
    buf_add_slice(&word, token);
    if (stage->cleanup) {
        clean_up(buf_slice(&word), out);
    } else {
        buf_add_slice(out, buf_slice(&word));
    }
    out->failed = out->failed || word.failed;
    buf_fini(&word);
}

/* Stages that turn each token into one. */
static void
run_each(struct decode_work *work, const struct decode_stage *stage,
         const struct decode_list *in, struct decode_list *out)
{
    size_t count = list_count(in);

    for (size_t i = 0; i < count; i++) {
        struct slice token = list_at(in, i);
        if (stage->kind == DECODE_REPLACE) {
            replace(work, stage, token, &out->text);
        } else if (stage->kind == DECODE_STRIP) {
            strip(stage, token, &out->text);
        } else if (stage->kind == DECODE_METASPACE) {
            metaspace(stage, token, i == 0, &out->text);
        } else if (stage->kind == DECODE_WORDPIECE) {
            wordpiece(stage, token, i == 0, &out->text);
        } else {
            struct decode_stage suffix = *stage;
            suffix.text = i + 1 == count ? SLICE("") : SLICE(" ");
            replace(work, &suffix, token, &out->text);
        }
        list_close(out);
    }
}

static void
run_stage(struct decode_work *work, const struct decode_stage *stage,
          const struct decode_list *in, struct decode_list *out)
{
    switch (stage->kind) {
    case DECODE_BYTE_LEVEL:
    case DECODE_RAW:
        byte_level(in, stage->kind == DECODE_RAW, out);
        break;
    case DECODE_BYTE_FALLBACK:
        byte_fallback(in, out);
        break;
    case DECODE_FUSE:
        buf_add_slice(&out->text, buf_slice(&in->text));
        list_close(out);
        break;
    case DECODE_REPLACE:
    case DECODE_STRIP:
    case DECODE_METASPACE:
    case DECODE_WORDPIECE:
    case DECODE_BPE:
        run_each(work, stage, in, out);
        break;
    }
}

static void
list_tokens(const struct tokenizer *t, const uint32_t *ids, size_t count,
            bool skip_special, struct decode_list *list)
{
    for (size_t i = 0; i < count; i++) {
        if (ids[i] >= t->ids_end || t->shown[ids[i]].ptr == NULL ||
            (skip_special && t->special[ids[i]])) {
            continue;
        }
        if (t->decode_joins && list->ends.len > 0) {
            buf_add_text(&list->text, " ");
        }
        buf_add_slice(&list->text, t->shown[ids[i]]);
        list_close(list);
    }
}

bool
tokenizer_decode(const struct tokenizer *t, const uint32_t *ids, size_t count,
                 bool skip_special, struct buf *out)
{
    struct decode_list lists[2];
    struct decode_work work = {.matcher = tok_matcher_new()};
    unsigned which = 0;
    size_t max = out->max_bytes < TOKENIZER_TEXT_MAX ? out->max_bytes
                                                     : TOKENIZER_TEXT_MAX;

    list_init(&lists[0], max);
    list_init(&lists[1], max);
    list_tokens(t, ids, count, skip_special, &lists[0]);
    work.failed = work.matcher == NULL;
    for (size_t i = 0; i < t->decodes_count && !work.failed; i++) {
        struct decode_list *to = &lists[which ^ 1];
        buf_clear(&to->text);
        buf_clear(&to->ends);
        run_stage(&work, &t->decodes[i], &lists[which], to);
        work.failed = work.failed || to->text.failed || to->ends.failed;
        which ^= 1;
    }
    work.failed = work.failed || lists[which].text.failed;
    if (!work.failed) {
        buf_add_slice(out, buf_slice(&lists[which].text));
    }
    list_fini(&lists[0]);
    list_fini(&lists[1]);
    tok_matcher_free(work.matcher);
    return !work.failed && !out->failed;
}
