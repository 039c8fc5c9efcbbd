/* JSON as lines and tables for a terminal. */
#include "node/text/json_show.h"

#include <inttypes.h>
#include <string.h>

#include "node/text/json_pull.h"
#include "node/text/json_text.h"

#define KEY_WIDTH   12   /* of the names of top-level lines */
#define SCRATCH_MAX 4096 /* of a value before it is shortened to a cell */

struct column {
    struct slice name;
    uint32_t width; /* characters of its widest value; 0: none has any */
    bool text;      /* some value is no number: flush left */
};

struct table {
    struct column column[JSON_SHOW_COLUMNS_MAX];
    uint32_t count;
};

/* A short text of whole characters. */
struct cell {
    char bytes[JSON_SHOW_CELL_MAX];
    uint32_t len;
    uint32_t width; /* characters */
    bool number;
};

/* The names on the way from a value to a scalar inside it. */
struct path {
    struct slice name[JSON_PULL_DEPTH_MAX];
    uint32_t depth;
};

static bool
is_size(struct slice name)
{
    return slice_ends(name, SLICE("bytes")) ||
           slice_ends(name, SLICE("bytes_max"));
}

static void
put_char(struct buf *out, struct slice one)
{
    bool c1 = one.len == 2 && (unsigned char)one.ptr[0] == 0xC2 &&
              (unsigned char)one.ptr[1] < 0xA0;

    buf_add_slice(out, c1 || one.ptr[0] == 0x7F ? SLICE("?") : one);
}

/* text comes from json_pull, so it is UTF-8. */
static void
put_text(struct buf *out, struct slice text)
{
    while (text.len != 0) {
        size_t len = json_text_char(text);
        CHECK(len != 0);
        put_char(out, slice_take_len(&text, len));
    }
}

/* A number of bytes in the largest unit that leaves one before the point. */
static void
put_size(struct buf *out, uint64_t size)
{
    static const char *const units[] = {"B",   "KiB", "MiB", "GiB",
                                        "TiB", "PiB", "EiB"};
    unsigned unit = 0;
    uint64_t tenths = size * 10;

    if (size > UINT64_MAX / 10 || size < 1024) {
        buf_printf(out, "%" PRIu64 "B", size);
        return;
    }
    while (tenths >= 10240) {
        tenths /= 1024;
        unit++;
    }
    buf_printf(out, "%" PRIu64 ".%" PRIu64 "%s", tenths / 10, tenths % 10,
               units[unit]);
}

/* The scalar that was just read, as the value of `name`. */
static void
put_scalar(struct buf *out, const struct json_pull *pull, enum pull_token token,
           struct slice name)
{
    uint64_t size;

    if (token == PULL_TRUE || token == PULL_FALSE) {
        buf_add_text(out, token == PULL_TRUE ? "yes" : "no");
    } else if (token == PULL_NUMBER && is_size(name) &&
               json_pull_uint(pull, UINT64_MAX, &size)) {
        put_size(out, size);
    } else if (token == PULL_STRING || token == PULL_NUMBER) {
        put_text(out, pull->text);
    }
}

static void
put_path(struct buf *out, const struct path *path)
{
    bool any = false;

    for (uint32_t i = 0; i < path->depth; i++) {
        if (path->name[i].len != 0) {
            buf_add_text(out, any ? "." : "");
            put_text(out, path->name[i]);
            any = true;
        }
    }
    buf_add_text(out, any ? "=" : "");
}

/* The whole value that `token` begins, flat: a=1, b.c=2, or x, y. */
static void
put_value(struct buf *out, struct json_pull *pull, enum pull_token token,
          struct slice name, const char *separator)
{
    struct path path = {.depth = 0};
    size_t start = out->len;

    for (;;) {
        switch (token) {
        case PULL_OBJECT:
        case PULL_ARRAY:
            CHECK(path.depth < JSON_PULL_DEPTH_MAX);
            path.name[path.depth++] = (struct slice){.len = 0};
            break;
        case PULL_OBJECT_END:
        case PULL_ARRAY_END:
            CHECK(path.depth > 0);
            path.depth--;
            break;
        case PULL_KEY:
            CHECK(path.depth > 0);
            path.name[path.depth - 1] = pull->text;
            name = pull->text;
            break;
        case PULL_STRING:
        case PULL_NUMBER:
        case PULL_TRUE:
        case PULL_FALSE:
        case PULL_NULL:
            buf_add_text(out, out->len != start ? separator : "");
            put_path(out, &path);
            put_scalar(out, pull, token, name);
            break;
        case PULL_END:
        case PULL_BAD:
            return;
        }
        if (path.depth == 0) {
            return;
        }
        token = json_pull_next(pull);
    }
}

/* As much of text as a cell holds. */
static void
fill_cell(struct cell *cell, struct slice text)
{
    cell->len = 0;
    cell->width = 0;
    while (text.len != 0) {
        size_t len = json_text_char(text);
        CHECK(len != 0);
        if (cell->len + len > sizeof cell->bytes - 3) {
            memcpy(cell->bytes + cell->len, "...", 3);
            cell->len += 3;
            cell->width += 3;
            return;
        }
        memcpy(cell->bytes + cell->len, text.ptr, len);
        cell->len += (uint32_t)len;
        cell->width++;
        slice_skip(&text, len);
    }
}

static uint32_t
column_of(struct table *table, struct slice name)
{
    uint32_t i = 0;

    while (i < table->count && !slice_equal(table->column[i].name, name)) {
        i++;
    }
    if (i == table->count && i < JSON_SHOW_COLUMNS_MAX) {
        table->column[table->count++] = (struct column){.name = name};
    }
    return i;
}

/* Reads one row into cells, adding columns to the table as they appear. */
static void
read_row(struct json_pull *pull, struct table *table, struct cell *cells,
         struct buf *scratch)
{
    for (uint32_t i = 0; i < JSON_SHOW_COLUMNS_MAX; i++) {
        cells[i].len = 0;
        cells[i].width = 0;
    }
    while (json_pull_next(pull) == PULL_KEY) {
        struct slice name = pull->text;
        uint32_t at = column_of(table, name);
        enum pull_token token = json_pull_next(pull);
        buf_clear(scratch);
        put_value(scratch, pull, token, name, ",");
        if (at < JSON_SHOW_COLUMNS_MAX) {
            fill_cell(&cells[at], buf_slice(scratch));
            cells[at].number = token == PULL_NUMBER;
        }
    }
}

static void
widen(struct table *table, const struct cell *cells)
{
    for (uint32_t i = 0; i < table->count; i++) {
        struct column *column = &table->column[i];
        if (cells[i].width > column->width) {
            column->width = cells[i].width;
        }
        column->text = column->text || (cells[i].len != 0 && !cells[i].number);
    }
}

static void
put_spaces(struct buf *out, size_t count)
{
    buf_printf(out, "%*s", (int)count, "");
}

static void
put_row(struct buf *out, const struct table *table, const struct cell *cells)
{
    size_t owed = 2; /* blanks due before the next text */

    for (uint32_t i = 0; i < table->count; i++) {
        const struct column *column = &table->column[i];
        const struct cell *cell = &cells[i];
        if (column->width == 0) {
            continue;
        }
        CHECK(cell->width <= column->width);
        size_t pad = column->width - cell->width;
        put_spaces(out, cell->len != 0 ? owed + (column->text ? 0 : pad) : 0);
        buf_add(out, cell->bytes, cell->len);
        owed = cell->len == 0 ? owed + column->width : (column->text ? pad : 0);
        owed += 2;
    }
    buf_add_text(out, "\n");
}

static void
put_header(struct buf *out, struct table *table, struct buf *scratch)
{
    struct cell cells[JSON_SHOW_COLUMNS_MAX];

    for (uint32_t i = 0; i < table->count; i++) {
        struct column *column = &table->column[i];
        buf_clear(scratch);
        put_text(scratch, column->name);
        fill_cell(&cells[i], buf_slice(scratch));
        for (uint32_t k = 0; k < cells[i].len; k++) {
            char c = cells[i].bytes[k];
            cells[i].bytes[k] = c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
        }
        if (column->width != 0 && column->width < cells[i].width) {
            column->width = cells[i].width;
        }
    }
    put_row(out, table, cells);
}

/* A list of objects; pull stands behind its opening bracket. */
static void
put_table(struct buf *out, struct json_pull *pull, struct buf *scratch)
{
    struct table table = {.count = 0};
    struct cell cells[JSON_SHOW_COLUMNS_MAX];
    struct json_pull again = *pull;

    while (json_pull_next(&again) == PULL_OBJECT) {
        read_row(&again, &table, cells, scratch);
        widen(&table, cells);
    }
    put_header(out, &table, scratch);
    while (json_pull_next(pull) == PULL_OBJECT) {
        read_row(pull, &table, cells, scratch);
        put_row(out, &table, cells);
    }
}

/* Is this a list of nothing but objects, and at least one? */
static bool
is_table(struct json_pull pull)
{
    enum pull_token token;
    bool any = false;

    while ((token = json_pull_next(&pull)) == PULL_OBJECT) {
        any = true;
        if (!json_pull_skip(&pull)) {
            return false;
        }
    }
    return any && token == PULL_ARRAY_END;
}

static void
put_member(struct buf *out, struct json_pull *pull, struct buf *scratch)
{
    struct slice name = pull->text;
    enum pull_token token = json_pull_next(pull);

    put_text(out, name);
    if (token == PULL_ARRAY && is_table(*pull)) {
        buf_add_text(out, "\n");
        put_table(out, pull, scratch);
        return;
    }
    put_spaces(out, name.len < KEY_WIDTH ? KEY_WIDTH - name.len : 0);
    buf_add_text(out, "  ");
    size_t start = out->len;
    put_value(out, pull, token, name, token == PULL_OBJECT ? "  " : ", ");
    buf_add_text(out, out->len == start ? "none\n" : "\n");
}

static bool
is_object(struct slice json)
{
    struct json_pull pull;

    json_pull_init(&pull, json);
    return json_pull_next(&pull) == PULL_OBJECT && json_pull_skip(&pull) &&
           json_pull_next(&pull) == PULL_END;
}

int
json_show(struct slice json, struct buf *out)
{
    struct json_pull pull;
    struct buf scratch;

    if (!is_object(json)) {
        return JSON_SHOW_E_BAD;
    }
    buf_init(&scratch, SCRATCH_MAX);
    if (buf_reserve(&scratch, SCRATCH_MAX) == NULL) {
        out->failed = true;
        return 0;
    }
    json_pull_init(&pull, json);
    enum pull_token token = json_pull_next(&pull);
    CHECK(token == PULL_OBJECT);
    while (json_pull_next(&pull) == PULL_KEY) {
        put_member(out, &pull, &scratch);
    }
    buf_fini(&scratch);
    return 0;
}
