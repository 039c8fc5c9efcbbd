/* A configuration as YAML, and the schema as reference and help. */
#include <string.h>

#include "node/config/config_diff.h"
#include "node/config/config_schema.h"
#include "node/config/config_words_internal.h"

static bool
is_text(enum config_type type)
{
    return type >= CONFIG_LABEL;
}

#define LINE_WIDTH 79

/* A quoted text behind what its line has already. Lists of words that do not
 * fit go on in further lines, which YAML reads as blanks. */
static void
print_quoted(struct slice text, bool list, size_t used, struct buf *out)
{
    if (!list || used + text.len + 2 <= LINE_WIDTH) {
        buf_printf(out, "\"%.*s\"", (int)text.len, text.ptr);
        return;
    }
    buf_add_text(out, "\"");
    for (bool first = true; text.len != 0; first = false) {
        struct slice word = slice_take(&text, ' ');
        bool fits = used + word.len + 2 <= LINE_WIDTH;
        buf_add_text(out, first ? "" : fits ? " " : "\n    ");
        buf_add_slice(out, word);
        used = (first || fits ? used : 4) + word.len + 1;
    }
    buf_add_text(out, "\"");
}

/* `key: value`, nothing when the value is absent or secret; true if so. The
 * first of a section has its heading before it. */
static bool
print_pair(const struct config_key *key, const char *name, const void *from,
           const char *indent, struct slice *heading, struct buf *out)
{
    struct buf value;

    buf_init(&value, (size_t)64 << 10);
    config_value_print(key, from, &value);
    out->failed = out->failed || value.failed;
    bool shown = value.len != 0 && key->type != CONFIG_SECRET;
    if (shown) {
        if (heading->len != 0) {
            buf_printf(out, "%.*s:\n", (int)heading->len, heading->ptr);
            heading->len = 0;
        }
        buf_printf(out, "%s%s: ", indent, name);
        if (is_text(key->type)) {
            print_quoted(buf_slice(&value), key->type >= CONFIG_PATHS,
                         strlen(indent) + strlen(name) + 2, out);
        } else {
            buf_add_slice(out, buf_slice(&value));
        }
    }
    buf_fini(&value);
    return shown;
}

static void
print_workers(const struct config *config, struct buf *out)
{
    struct slice heading = SLICE("workers");

    for (uint32_t i = 0; i < config->workers_count; i++) {
        const char *indent = "  - ";
        for (size_t k = 0; k < config_schema_worker.count; k++) {
            const struct config_key *key = &config_schema_worker.keys[k];
            if (print_pair(key, key->name, &config->workers[i], indent,
                           &heading, out)) {
                buf_add_text(out, "\n");
                indent = "    ";
            }
        }
    }
}

void
config_print(const struct config *config, struct buf *out)
{
    struct slice section = {.len = 0};
    struct slice heading = {.len = 0};

    for (size_t i = 0; i < config_schema_node.count; i++) {
        const struct config_key *key = &config_schema_node.keys[i];
        struct slice own = config_key_section(key);
        bool flat = config_section_is_flat(own);
        if (!slice_equal(own, section)) {
            heading = (struct slice){.ptr = own.ptr, .len = flat ? 0 : own.len};
        }
        section = own;
        if (print_pair(key, flat ? key->name : config_key_last(key), config,
                       own.len != 0 && !flat ? "  " : "", &heading, out)) {
            buf_add_text(out, "\n");
        }
    }
    print_workers(config, out);
}

/* text in lines of at most LINE_WIDTH, each behind `indent` spaces. */
static void
print_wrapped(struct slice text, size_t indent, struct buf *out)
{
    size_t used = 0; /* of the current line; 0: none begun */

    while (text.len != 0) {
        struct slice word = slice_take(&text, ' ');
        if (used == 0 || used + 1 + word.len > LINE_WIDTH) {
            buf_printf(out, "%s%*s", used != 0 ? "\n" : "", (int)indent, "");
            used = indent;
        } else {
            buf_add_text(out, " ");
            used++;
        }
        buf_add_slice(out, word);
        used += word.len;
    }
    buf_add_text(out, "\n");
}

static void
print_reference_row(const struct config_key *key, const char *variable,
                    bool live, struct buf *out)
{
    struct buf line;

    buf_init(&line, 1024);
    config_value_describe(key, SLICE(""), &line);
    if (key->fallback[0] != '\0') {
        buf_printf(&line, "; default %s", key->fallback);
    }
    if (live) {
        buf_add_text(&line, "; a reload applies it");
    }
    buf_printf(out, "%s\n", key->name);
    print_wrapped(buf_slice(&line), 4, out);
    if (variable != NULL) {
        buf_printf(out, "    %s, --%s\n", variable, key->name);
    }
    print_wrapped(slice_of(key->doc), 4, out);
    out->failed = out->failed || line.failed;
    buf_fini(&line);
}

static void
print_heading(struct slice section, struct buf *out)
{
    const struct config_section *at;

    for (size_t i = 0; (at = config_schema_section(i)) != NULL; i++) {
        if (slice_equal(slice_of(at->name), section)) {
            buf_printf(out, "\n# %s: %s\n", at->name, at->doc);
        }
    }
}

/* The words of one table: each, and what there is to say of it. */
static void
print_words(const char *heading, const struct config_word *(*get)(size_t at),
            struct buf *out)
{
    const struct config_word *word;

    buf_add_text(out, heading);
    for (size_t i = 0; (word = get(i)) != NULL; i++) {
        buf_printf(out, "  %s\n", word->word);
        print_wrapped(slice_of(word->meaning), 6, out);
    }
}

void
config_print_reference(struct buf *out)
{
    struct slice section = {.len = 0};

    print_words("# keys to tune first\n", config_words_first, out);
    buf_add_text(out, "\n# all keys\n");
    for (size_t i = 0; i < config_schema_node.count; i++) {
        const struct config_key *key = &config_schema_node.keys[i];
        char variable[CONFIG_KEY_NAME_MAX + 8];
        if (!slice_equal(config_key_section(key), section)) {
            section = config_key_section(key);
            print_heading(section, out);
        }
        print_reference_row(key, config_key_environment(key, variable),
                            config_key_is_live(key), out);
    }
    buf_add_text(
        out, "\n# workers: a list; each is a mapping of the keys below, "
             "or URL[,KEY=VALUE]...\n"
             "# KVASIR_WORKERS (blanks between them) or --worker (once for "
             "each) replaces\n# the whole list; a reload applies all of it\n");
    for (size_t i = 0; i < config_schema_worker.count; i++) {
        print_reference_row(&config_schema_worker.keys[i], NULL, false, out);
    }
    buf_add_text(out, "\n# scale.pools: the keys of NAME[,KEY=VALUE]...\n");
    for (size_t i = 0; i < config_schema_pool.count; i++) {
        print_reference_row(&config_schema_pool.keys[i], NULL, false, out);
    }
    print_words("\n# words\n", config_words_meaning, out);
}

void
config_print_flags(struct buf *out)
{
    for (size_t i = 0; i < config_schema_node.count; i++) {
        const struct config_key *key = &config_schema_node.keys[i];
        buf_printf(out, "  --%s %s", key->name, config_type_word(key->type));
        if (key->fallback[0] != '\0') {
            buf_printf(out, " [%s]", key->fallback);
        }
        buf_add_text(out, "\n");
        print_wrapped(slice_of(key->doc), 6, out);
    }
}
