/* Builds the tree of a YAML document from the events of libyaml. */
#include "node/config/config_yaml_internal.h"

#include <stdlib.h>
#include <yaml.h>

#include "node/config/config_error_internal.h"

struct reader {
    struct config_yaml *yaml;
    struct config_errors *errors;
    const char *file;
    struct slice bytes;
    uint32_t depth;
    uint32_t open[CONFIG_YAML_DEPTH_MAX]; /* collections being read */
    uint32_t last[CONFIG_YAML_DEPTH_MAX]; /* their last child, or 0 */
    bool ended;                           /* the one document */
};

static void
tell(struct reader *r, const yaml_mark_t *mark, const char *what)
{
    struct config_place place = {.source = r->file,
                                 .line = (uint32_t)mark->line + 1,
                                 .column = (uint32_t)mark->column + 1};

    config_error(r->errors, &place, "%s", what);
}

/* A fault after which nothing can be read. */
static void
fault(struct reader *r, const yaml_mark_t *mark, const char *what)
{
    tell(r, mark, what);
    r->yaml->whole = false;
}

/* Adds a node after the last child of the innermost collection; 0: no room, and
 * the fault is reported. */
static uint32_t
add_node(struct reader *r, enum config_yaml_kind kind, const yaml_mark_t *mark)
{
    struct config_yaml *yaml = r->yaml;
    uint32_t at = yaml->count;

    CHECK(at != 0 && at <= yaml->size && r->depth <= CONFIG_YAML_DEPTH_MAX);
    if (at == CONFIG_YAML_NODES_MAX) {
        fault(r, mark, "more than any configuration holds; reading stops");
        return 0;
    }
    if (at == yaml->size) {
        uint32_t size = yaml->size * 2;
        struct config_yaml_node *grown =
            realloc(yaml->nodes, size * sizeof *grown);
        if (grown == NULL) {
            fault(r, mark, "out of memory");
            return 0;
        }
        yaml->nodes = grown;
        yaml->size = size;
    }
    yaml->count++;
    yaml->nodes[at] =
        (struct config_yaml_node){.kind = kind,
                                  .line = (uint32_t)mark->line + 1,
                                  .column = (uint32_t)mark->column + 1};
    if (r->depth == 0) {
        yaml->root = at;
        return at;
    }
    uint32_t previous = r->last[r->depth - 1];
    if (previous != 0) {
        yaml->nodes[previous].next = at;
    } else {
        yaml->nodes[r->open[r->depth - 1]].first = at;
    }
    r->last[r->depth - 1] = at;
    return at;
}

static void
open_collection(struct reader *r, enum config_yaml_kind kind,
                const yaml_mark_t *mark)
{
    if (r->depth == CONFIG_YAML_DEPTH_MAX) {
        fault(r, mark, "nested deeper than any key; reading stops");
        return;
    }
    uint32_t at = add_node(r, kind, mark);
    if (at != 0) {
        r->open[r->depth] = at;
        r->last[r->depth] = 0;
        r->depth++;
    }
}

static bool
is_null(const yaml_event_t *event)
{
    struct slice text = {(const char *)event->data.scalar.value,
                         event->data.scalar.length};

    return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (text.len == 0 || slice_equal(text, SLICE("~")) ||
            slice_equal(text, SLICE("null")));
}

static void
add_scalar(struct reader *r, const yaml_event_t *event)
{
    struct config_yaml *yaml = r->yaml;
    uint32_t at =
        add_node(r, is_null(event) ? CONFIG_YAML_NULL : CONFIG_YAML_SCALAR,
                 &event->start_mark);

    if (at == 0) {
        return;
    }
    yaml->nodes[at].text_at = (uint32_t)yaml->text.len;
    yaml->nodes[at].text_len = (uint32_t)event->data.scalar.length;
    buf_add(&yaml->text, event->data.scalar.value, event->data.scalar.length);
    if (yaml->text.failed) {
        fault(r, &event->start_mark, "out of memory");
    }
}

/* Anchors and tags are faults, but reading continues after them. */
static void
refuse_properties(struct reader *r, const yaml_event_t *event,
                  const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (anchor != NULL) {
        tell(r, &event->start_mark, "anchors are not supported");
    }
    if (tag != NULL) {
        tell(r, &event->start_mark, "tags are not supported");
    }
}

static void
take_event(struct reader *r, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (r->ended) {
            fault(r, &event->start_mark, "a second document, expected one");
        }
        break;
    case YAML_DOCUMENT_END_EVENT:
        r->ended = true;
        break;
    case YAML_ALIAS_EVENT:
        tell(r, &event->start_mark, "aliases are not supported");
        (void)add_node(r, CONFIG_YAML_REFUSED, &event->start_mark);
        break;
    case YAML_SCALAR_EVENT:
        refuse_properties(r, event, event->data.scalar.anchor,
                          event->data.scalar.tag);
        add_scalar(r, event);
        break;
    case YAML_SEQUENCE_START_EVENT:
        refuse_properties(r, event, event->data.sequence_start.anchor,
                          event->data.sequence_start.tag);
        open_collection(r, CONFIG_YAML_LIST, &event->start_mark);
        break;
    case YAML_MAPPING_START_EVENT:
        refuse_properties(r, event, event->data.mapping_start.anchor,
                          event->data.mapping_start.tag);
        open_collection(r, CONFIG_YAML_MAPPING, &event->start_mark);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        CHECK(r->depth > 0);
        r->depth--;
        break;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
        break;
    }
}

/* Does the line of mark start with a tab? libyaml only says "found character
 * that cannot start any token" then. */
static bool
is_tab_indent(const struct reader *r, const yaml_mark_t *mark)
{
    struct slice rest = r->bytes;

    for (size_t line = 0; line < mark->line && rest.len != 0; line++) {
        (void)slice_take(&rest, '\n');
    }
    while (rest.len != 0 && rest.ptr[0] == ' ') {
        rest.ptr++;
        rest.len--;
    }
    return rest.len != 0 && rest.ptr[0] == '\t';
}

static void
syntax_fault(struct reader *r, const yaml_parser_t *parser)
{
    yaml_mark_t mark = parser->problem_mark;
    char what[160];

    if (parser->error == YAML_READER_ERROR) {
        (void)snprintf(what, sizeof what, "not a text file: %s at byte %zu",
                       parser->problem, parser->problem_offset);
        mark = parser->mark;
    } else if (is_tab_indent(r, &mark)) {
        (void)snprintf(what, sizeof what, "a tab, indent with spaces");
    } else {
        (void)snprintf(
            what, sizeof what, "not YAML: %s%s%s",
            parser->context != NULL ? parser->context : "",
            parser->context != NULL ? ", " : "",
            parser->problem != NULL ? parser->problem : "out of memory");
    }
    fault(r, &mark, what);
}

static void
read_events(struct reader *r, yaml_parser_t *parser)
{
    bool done = false;

    while (!done && r->yaml->whole) {
        yaml_event_t event;
        if (yaml_parser_parse(parser, &event) == 0) {
            syntax_fault(r, parser);
            return;
        }
        done = event.type == YAML_STREAM_END_EVENT;
        take_event(r, &event);
        yaml_event_delete(&event);
    }
}

void
config_yaml_read(struct config_yaml *yaml, const char *file, struct slice bytes,
                 struct config_errors *errors)
{
    struct reader r = {
        .yaml = yaml, .errors = errors, .file = file, .bytes = bytes};
    yaml_parser_t parser;

    *yaml = (struct config_yaml){.count = 1, .size = 64, .whole = true};
    /* An escape such as \P is two bytes and yields three. */
    buf_init(&yaml->text, 2 * CONFIG_FILE_BYTES_MAX);
    if (bytes.len > CONFIG_FILE_BYTES_MAX) {
        config_fault(errors, file, "over %zu bytes", CONFIG_FILE_BYTES_MAX);
        yaml->whole = false;
        return;
    }
    yaml->nodes = calloc(yaml->size, sizeof *yaml->nodes);
    if (yaml->nodes == NULL || yaml_parser_initialize(&parser) == 0) {
        config_fault(errors, file, "out of memory");
        yaml->whole = false;
        return;
    }
    /* libyaml takes a byte order mark for none once the encoding is set. */
    if (bytes.len >= 3 && memcmp(bytes.ptr, "\xEF\xBB\xBF", 3) == 0) {
        bytes = (struct slice){bytes.ptr + 3, bytes.len - 3};
        r.bytes = bytes;
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)bytes.ptr,
                                 bytes.len);
    read_events(&r, &parser);
    yaml_parser_delete(&parser);
}

void
config_yaml_fini(struct config_yaml *yaml)
{
    free(yaml->nodes);
    buf_fini(&yaml->text);
    *yaml = (struct config_yaml){.count = 0};
}

const struct config_yaml_node *
config_yaml_node(const struct config_yaml *yaml, uint32_t at)
{
    CHECK(at != 0 && at < yaml->count);
    return &yaml->nodes[at];
}

struct slice
config_yaml_text(const struct config_yaml *yaml,
                 const struct config_yaml_node *node)
{
    CHECK((size_t)node->text_at + node->text_len <= yaml->text.len);
    if (node->kind != CONFIG_YAML_SCALAR || node->text_len == 0) {
        return SLICE("");
    }
    return (struct slice){.ptr = yaml->text.ptr + node->text_at,
                          .len = node->text_len};
}

const char *
config_yaml_kind_text(enum config_yaml_kind kind)
{
    switch (kind) {
    case CONFIG_YAML_NULL:
        return "nothing";
    case CONFIG_YAML_LIST:
        return "a list";
    case CONFIG_YAML_MAPPING:
        return "a mapping";
    case CONFIG_YAML_REFUSED:
        return "an alias";
    case CONFIG_YAML_SCALAR:
        break;
    }
    return "text";
}
