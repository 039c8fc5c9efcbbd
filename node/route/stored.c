/* Ids of what workers store: in paths, in bodies and in answers. */
#include "node/route/stored.h"

#include <string.h>

#include "index/index.h"

static const struct slice paths[] = {
    {"/v1/responses", 13},
    {"/v1/files", 9},
    {"/v1/batches", 11},
};

/* What follows one of the paths; ptr NULL: it is none of them. */
static struct slice
rest_of(struct slice path)
{
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        size_t len = paths[i].len;
        if (slice_begins(path, paths[i]) &&
            (path.len == len || path.ptr[len] == '/')) {
            return (struct slice){path.ptr + len, path.len - len};
        }
    }
    return (struct slice){NULL, 0};
}

bool
stored_is_path(struct slice path)
{
    return rest_of(path).ptr != NULL;
}

static struct slice
bounded(struct slice id)
{
    return id.len <= STORED_ID_MAX ? id : SLICE("");
}

struct slice
stored_path_id(struct slice path)
{
    struct slice rest = rest_of(path);

    if (rest.len == 0) {
        return SLICE("");
    }
    (void)slice_take(&rest, '/');
    return bounded(slice_take(&rest, '/'));
}

struct slice
stored_body_id(const struct scan *scan, struct slice body)
{
    static const enum scan_option names[] = {SCAN_PREVIOUS_RESPONSE_ID,
                                             SCAN_INPUT_FILE_ID};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct scan_text *raw = &scan->options[names[i]];
        if (raw->present && raw->len > 2 && body.ptr[raw->at] == '"') {
            return bounded(
                (struct slice){body.ptr + raw->at + 1, raw->len - 2});
        }
    }
    return SLICE("");
}

uint64_t
stored_key(uint64_t tenant, struct slice id)
{
    struct slice owner = {(const char *)&tenant, sizeof(tenant)};
    uint64_t key = key_root(SLICE("\x01stored"), owner, id);

    return key != 0 ? key : 1;
}

/* Answers */

void
stored_watch_give(struct stored_watch *watch, struct slice bytes)
{
    size_t room = sizeof(watch->text) - watch->len;
    size_t len = bytes.len < room ? bytes.len : room;

    if (len != 0) {
        memcpy(watch->text + watch->len, bytes.ptr, len);
        watch->len += (uint32_t)len;
    }
}

static bool
is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* The string behind a member's name, once all of it is there. Within another
 * string the name's quotes would be escaped. */
static struct slice
value_of(const struct stored_watch *watch, struct slice name)
{
    const char *end = watch->text + watch->len;
    const char *at = watch->text;

    while ((at = memmem(at, (size_t)(end - at), name.ptr, name.len)) != NULL) {
        at += name.len;
        while (at < end && (is_space(*at) || *at == ':')) {
            at++;
        }
        const char *stop =
            at < end ? memchr(at + 1, '"', (size_t)(end - at - 1)) : NULL;
        if (stop != NULL && *at == '"' && stop > at + 1) {
            return bounded((struct slice){at + 1, (size_t)(stop - at - 1)});
        }
    }
    return SLICE("");
}

struct slice
stored_watch_next(struct stored_watch *watch)
{
    static const struct slice names[STORED_NAMES] = {
        [STORED_ID] = {"\"id\"", 4},
        [STORED_OUTPUT_FILE] = {"\"output_file_id\"", 16},
        [STORED_ERROR_FILE] = {"\"error_file_id\"", 15},
    };

    for (unsigned i = 0; i < STORED_NAMES; i++) {
        if ((watch->seen & 1U << i) != 0) {
            continue;
        }
        struct slice id = value_of(watch, names[i]);
        if (id.len != 0) {
            watch->seen |= 1U << i;
            return id;
        }
    }
    return SLICE("");
}
