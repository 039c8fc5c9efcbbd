/* Methods of texts that cut, join and pad. */
#include "node/template/template_method_internal.h"

/* A growing list of texts. */
struct pieces {
    struct json_value *items;
    size_t len;
    size_t size;
    uint8_t mark;
};

static void
add_piece(struct tpl_run *run, struct pieces *pieces, struct slice piece)
{
    if (pieces->len == pieces->size) {
        size_t size = pieces->size * 2 + 8;
        struct json_value *grown = tpl_take_values(run, size);
        if (pieces->len > 0) {
            memcpy(grown, pieces->items, pieces->len * sizeof *grown);
        }
        pieces->items = grown;
        pieces->size = size;
    }
    pieces->items[pieces->len] = json_tree_text(piece);
    pieces->items[pieces->len++].mark = pieces->mark;
}

static struct json_value
list_of(const struct pieces *pieces)
{
    return tpl_array(JSON_ARRAY, pieces->items, pieces->len);
}

/* A text argument; fails on others. */
static struct slice
text_of(struct tpl_run *run, struct json_value value)
{
    if (value.kind != JSON_STRING) {
        tpl_fail_type(run, "expected a string", value);
    }
    return tpl_slice(value);
}

/* An integer argument, or its default. */
static int64_t
int_of(struct tpl_run *run, const struct json_value *value, int64_t preset)
{
    return value != NULL ? tpl_index(run, *value) : preset;
}

static struct json_value
marked(struct tpl_run *run, struct json_value self, struct slice text)
{
    struct json_value value = tpl_text(run, text);

    value.mark = self.mark & TPL_MARK_SAFE;
    return value;
}

/* --- split */

static void
split_space(struct tpl_run *run, struct slice text, int64_t max,
            struct pieces *out)
{
    text = tpl_text_lstrip(text);
    while (text.len > 0) {
        size_t at = 0;
        size_t end = 0;
        if (max-- == 0) {
            add_piece(run, out, text);
            return;
        }
        while (at < text.len) {
            end = at;
            if (tpl_text_is_space(tpl_text_next(text, &at))) {
                break;
            }
            end = at;
        }
        add_piece(run, out, (struct slice){text.ptr, end});
        text = tpl_text_lstrip((struct slice){text.ptr + end, text.len - end});
    }
}

/* From the right; the pieces come last first. */
static void
rsplit_space(struct tpl_run *run, struct slice text, int64_t max,
             struct pieces *out)
{
    text = tpl_text_rstrip(text);
    while (text.len > 0) {
        size_t from = text.len;
        if (max-- == 0) {
            add_piece(run, out, text);
            return;
        }
        while (from > 0) {
            size_t at = from - tpl_text_before(text, from);
            size_t before = at;
            if (tpl_text_is_space(tpl_text_next(text, &at))) {
                break;
            }
            from = before;
        }
        add_piece(run, out, (struct slice){text.ptr + from, text.len - from});
        text = tpl_text_rstrip((struct slice){text.ptr, from});
    }
}

static void
split_by(struct tpl_run *run, struct slice text, struct slice by, int64_t max,
         struct pieces *out)
{
    for (;;) {
        size_t at = max-- == 0 ? SIZE_MAX : tpl_text_find(text, by, 0);
        if (at == SIZE_MAX) {
            add_piece(run, out, text);
            return;
        }
        add_piece(run, out, (struct slice){text.ptr, at});
        slice_skip(&text, at + by.len);
    }
}

static void
rsplit_by(struct tpl_run *run, struct slice text, struct slice by, int64_t max,
          struct pieces *out)
{
    for (;;) {
        size_t at = max-- == 0 ? SIZE_MAX : tpl_text_rfind(text, by, text.len);
        if (at == SIZE_MAX) {
            add_piece(run, out, text);
            return;
        }
        add_piece(
            run, out,
            (struct slice){text.ptr + at + by.len, text.len - at - by.len});
        text.len = at;
    }
}

/* The separator, or an empty text for white space. */
static struct slice
separator(struct tpl_run *run, const struct json_value *given)
{
    struct slice by = {NULL, 0};

    if (given != NULL && given->kind != JSON_NULL) {
        by = text_of(run, *given);
        if (by.len == 0) {
            tpl_fail(run, "empty separator");
        }
    }
    return by;
}

TPL_STR_METHOD(split)
{
    struct pieces out = {.mark = self.mark & TPL_MARK_SAFE};
    struct slice by = separator(run, params[0]);
    int64_t max = int_of(run, params[1], -1);

    tpl_step(run, self.len / 64);
    if (by.len > 0) {
        split_by(run, tpl_slice(self), by, max, &out);
    } else {
        split_space(run, tpl_slice(self), max, &out);
    }
    return list_of(&out);
}

TPL_STR_METHOD(rsplit)
{
    struct pieces out = {.mark = self.mark & TPL_MARK_SAFE};
    struct slice by = separator(run, params[0]);
    int64_t max = int_of(run, params[1], -1);

    tpl_step(run, self.len / 64);
    if (by.len > 0) {
        rsplit_by(run, tpl_slice(self), by, max, &out);
    } else {
        rsplit_space(run, tpl_slice(self), max, &out);
    }
    for (size_t i = 0; i < out.len / 2; i++) {
        struct json_value swap = out.items[i];
        out.items[i] = out.items[out.len - 1 - i];
        out.items[out.len - 1 - i] = swap;
    }
    return list_of(&out);
}

TPL_STR_METHOD(splitlines)
{
    struct pieces out = {.mark = self.mark & TPL_MARK_SAFE};
    struct slice rest = tpl_slice(self);
    bool keep = params[0] != NULL && tpl_truth(*params[0]);

    tpl_step(run, self.len / 64);
    while (rest.len > 0) {
        struct slice with_end;
        struct slice line = tpl_text_line(&rest, &with_end);
        add_piece(run, &out, keep ? with_end : line);
    }
    return list_of(&out);
}

static struct json_value
three(struct tpl_run *run, struct slice a, struct slice b, struct slice c)
{
    struct json_value *items = tpl_take_values(run, 3);

    items[0] = json_tree_text(a);
    items[1] = json_tree_text(b);
    items[2] = json_tree_text(c);
    return tpl_array(TPL_V_TUPLE, items, 3);
}

static struct json_value
parted(struct tpl_run *run, struct json_value self, struct json_value by,
       bool right)
{
    struct slice text = tpl_slice(self);
    struct slice mid = text_of(run, by);
    struct slice none = {text.ptr, 0};
    size_t at = 0;

    if (mid.len == 0) {
        tpl_fail(run, "empty separator");
    }
    at = right ? tpl_text_rfind(text, mid, text.len)
               : tpl_text_find(text, mid, 0);
    if (at == SIZE_MAX) {
        return right ? three(run, none, none, text)
                     : three(run, text, none, none);
    }
    return three(
        run, (struct slice){text.ptr, at}, mid,
        (struct slice){text.ptr + at + mid.len, text.len - at - mid.len});
}

TPL_STR_METHOD(partition)
{
    return parted(run, self, *params[0], false);
}

TPL_STR_METHOD(rpartition)
{
    return parted(run, self, *params[0], true);
}

/* --- join, replace */

TPL_STR_METHOD(join)
{
    size_t from = run->out->len;
    struct tpl_walk walk;
    struct json_value item;
    bool first = true;

    tpl_walk_start(run, &walk, *params[0]);
    while (tpl_walk_next(run, &walk, &item)) {
        struct slice text = text_of(run, item);
        tpl_step(run, 1 + text.len / 64);
        if (!first) {
            buf_add_slice(run->out, tpl_slice(self));
        }
        buf_add_slice(run->out, text);
        tpl_check_out(run);
        first = false;
    }
    return marked(run, self, tpl_caught(run, from));
}

/* With an empty old text: new around every character. */
static void
replace_empty(struct tpl_run *run, struct slice text, struct slice new,
              int64_t count)
{
    size_t at = 0;

    while (count != 0) {
        size_t from = at;
        buf_add_slice(run->out, new);
        tpl_check_out(run);
        count--;
        if (at == text.len) {
            return;
        }
        (void)tpl_text_next(text, &at);
        buf_add(run->out, text.ptr + from, at - from);
    }
    buf_add(run->out, text.ptr + at, text.len - at);
}

struct slice
tpl_replace(struct tpl_run *run, struct slice text, struct slice old,
            struct slice new, int64_t count)
{
    size_t from = run->out->len;

    tpl_step(run, text.len / 64);
    if (old.len == 0) {
        replace_empty(run, text, new, count);
        return tpl_caught(run, from);
    }
    if (count == 0 || tpl_text_find(text, old, 0) == SIZE_MAX) {
        return text;
    }
    for (; count != 0; count--) {
        size_t at = tpl_text_find(text, old, 0);
        if (at == SIZE_MAX) {
            break;
        }
        buf_add(run->out, text.ptr, at);
        buf_add_slice(run->out, new);
        slice_skip(&text, at + old.len);
        tpl_check_out(run);
    }
    buf_add_slice(run->out, text);
    return tpl_caught(run, from);
}

TPL_STR_METHOD(replace)
{
    return marked(
        run, self,
        tpl_replace(run, tpl_slice(self), text_of(run, *params[0]),
                    text_of(run, *params[1]), int_of(run, params[2], -1)));
}

/* --- strip */

static struct json_value
stripped(struct tpl_run *run, struct json_value self,
         const struct json_value *chars, bool left, bool right)
{
    struct slice text = tpl_slice(self);

    if (chars == NULL || chars->kind == JSON_NULL) {
        text = left ? tpl_text_lstrip(text) : text;
        text = right ? tpl_text_rstrip(text) : text;
    } else {
        struct slice set = text_of(run, *chars);
        tpl_step(run, set.len);
        text = left ? tpl_text_lstrip_of(text, set) : text;
        text = right ? tpl_text_rstrip_of(text, set) : text;
    }
    return marked(run, self, text);
}

TPL_STR_METHOD(strip)
{
    return stripped(run, self, params[0], true, true);
}

TPL_STR_METHOD(lstrip)
{
    return stripped(run, self, params[0], true, false);
}

TPL_STR_METHOD(rstrip)
{
    return stripped(run, self, params[0], false, true);
}

TPL_STR_METHOD(removeprefix)
{
    struct slice text = tpl_slice(self);
    struct slice what = text_of(run, *params[0]);

    (void)slice_skip_text(&text, what);
    return marked(run, self, text);
}

TPL_STR_METHOD(removesuffix)
{
    struct slice text = tpl_slice(self);
    struct slice what = text_of(run, *params[0]);

    if (slice_ends(text, what)) {
        text.len -= what.len;
    }
    return marked(run, self, text);
}

/* --- padding */

static void
pad(struct tpl_run *run, struct slice fill, int64_t n)
{
    tpl_step(run, n > 0 ? (uint64_t)n / 16 : 0);
    for (; n > 0; n--) {
        buf_add_slice(run->out, fill);
    }
    tpl_check_out(run);
}

static struct json_value
padded(struct tpl_run *run, struct json_value self, int64_t left, int64_t right,
       const struct json_value *fill)
{
    size_t from = run->out->len;
    struct slice with = SLICE(" ");

    if (fill != NULL) {
        with = text_of(run, *fill);
        if (tpl_text_count(with) != 1) {
            tpl_fail(run, "the fill character must be one character long");
        }
    }
    pad(run, with, left);
    buf_add_slice(run->out, tpl_slice(self));
    pad(run, with, right);
    return marked(run, self, tpl_caught(run, from));
}

/* How many characters are missing to a width. */
static int64_t
missing(struct tpl_run *run, struct json_value self, struct json_value width)
{
    int64_t len = (int64_t)tpl_text_count(tpl_slice(self));
    int64_t wanted = tpl_index(run, width);

    return wanted > len ? wanted - len : 0;
}

TPL_STR_METHOD(ljust)
{
    return padded(run, self, 0, missing(run, self, *params[0]), params[1]);
}

TPL_STR_METHOD(rjust)
{
    return padded(run, self, missing(run, self, *params[0]), 0, params[1]);
}

TPL_STR_METHOD(center)
{
    int64_t n = missing(run, self, *params[0]);
    int64_t width = tpl_index(run, *params[0]);
    int64_t left = n / 2 + (n & width & 1);

    return padded(run, self, left, n - left, params[1]);
}

TPL_STR_METHOD(zfill)
{
    struct slice text = tpl_slice(self);
    int64_t n = missing(run, self, *params[0]);
    size_t from = run->out->len;
    bool sign = text.len > 0 && (text.ptr[0] == '-' || text.ptr[0] == '+');

    buf_add(run->out, text.ptr, sign);
    pad(run, SLICE("0"), n);
    buf_add(run->out, text.ptr + sign, text.len - sign);
    return marked(run, self, tpl_caught(run, from));
}

TPL_STR_METHOD(expandtabs)
{
    struct slice text = tpl_slice(self);
    size_t from = run->out->len;
    int64_t size = int_of(run, params[0], 8);
    int64_t column = 0;

    for (size_t at = 0; at < text.len;) {
        size_t start = at;
        uint32_t c = tpl_text_next(text, &at);
        if (c == '\t') {
            int64_t n = size > 0 ? size - column % size : 0;
            pad(run, SLICE(" "), n);
            column += n;
            continue;
        }
        buf_add(run->out, text.ptr + start, at - start);
        column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    return marked(run, self, tpl_caught(run, from));
}
