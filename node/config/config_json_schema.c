/*
 * The table of keys as a JSON schema (draft 7) of the configuration file: what
 * editors complete and check, and what manual pages are made of.
 */
#include "node/config/config_diff.h"
#include "node/config/config_schema.h"
#include "node/text/json_out.h"

#define SIZE_PATTERN     "^(0|[1-9][0-9]*(B|[KMG]iB|[kKMG]B)?)$"
#define RATE_PATTERN     "^(none|[1-9][0-9]*/(s|min|h))$"
#define SAMPLE_PATTERN   "^(off|errors|all|1/[1-9][0-9]*)$"
#define DURATION_PATTERN "^(0|[1-9][0-9]*(ms|s|m|h))$"

static void
put_type(struct json_out *json, const char *first, const char *second)
{
    json_out_key(json, "type");
    if (second == NULL) {
        json_out_text(json, first);
        return;
    }
    json_out_array_begin(json);
    json_out_text(json, first);
    json_out_text(json, second);
    json_out_array_end(json);
}

/* Thousandths for a ratio, as they are for a count. */
static void
put_number(struct json_out *json, const char *name,
           const struct config_key *key, uint64_t value)
{
    if (key->type == CONFIG_RATIO) {
        json_out_put_milli(json, name, value);
    } else {
        json_out_put_uint(json, name, value);
    }
}

static void
put_bounds(struct json_out *json, const struct config_key *key)
{
    put_number(json, "minimum", key, key->min);
    put_number(json, "maximum", key, key->max);
}

/* YAML reads a bare false or true as a truth, not as a word. */
static bool
is_truth(const struct config_key *key)
{
    return key->type == CONFIG_CHOICE &&
           slice_equal(slice_of(key->choices[0]), SLICE("false"));
}

static void
put_choices(struct json_out *json, const struct config_key *key)
{
    bool truths = is_truth(key);

    json_out_key(json, "enum");
    json_out_array_begin(json);
    for (size_t i = 0; key->choices[i] != NULL; i++) {
        if (truths) {
            json_out_bool(json, i == 1);
        } else {
            json_out_text(json, key->choices[i]);
        }
    }
    json_out_array_end(json);
}

/* One text, or a list of what it has between blanks. */
static void
put_list(struct json_out *json)
{
    put_type(json, "string", "array");
    json_out_key(json, "items");
    json_out_object_begin(json);
    put_type(json, "string", NULL);
    json_out_object_end(json);
}

/* One text, or a list of texts and mappings. */
static void
put_models(struct json_out *json)
{
    static const char *const keys[] = {"name", "path", "template"};

    put_type(json, "string", "array");
    json_out_key(json, "items");
    json_out_object_begin(json);
    put_type(json, "string", "object");
    json_out_key(json, "properties");
    json_out_object_begin(json);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_out_key(json, keys[i]);
        json_out_object_begin(json);
        put_type(json, "string", NULL);
        json_out_object_end(json);
    }
    json_out_key(json, "content");
    json_out_object_begin(json);
    json_out_put_raw(json, "enum", SLICE("[\"auto\",\"string\",\"parts\"]"));
    json_out_object_end(json);
    json_out_object_end(json);
    json_out_put_raw(json, "required", SLICE("[\"name\",\"path\"]"));
    json_out_put_raw(json, "additionalProperties", SLICE("false"));
    json_out_object_end(json);
}

/* The same of aliases. */
static void
put_aliases(struct json_out *json)
{
    put_type(json, "string", "array");
    json_out_key(json, "items");
    json_out_object_begin(json);
    put_type(json, "string", "object");
    json_out_put_raw(
        json, "properties",
        SLICE("{\"name\":{\"type\":\"string\"},"
              "\"to\":{\"type\":[\"string\",\"array\",\"object\"]},"
              "\"fallback\":{\"type\":[\"string\",\"array\"]}}"));
    json_out_put_raw(json, "required", SLICE("[\"name\",\"to\"]"));
    json_out_put_raw(json, "additionalProperties", SLICE("false"));
    json_out_object_end(json);
}

static void
put_value(struct json_out *json, const struct config_key *key)
{
    switch (key->type) {
    case CONFIG_COUNT:
    case CONFIG_RATIO:
        put_type(json, key->type == CONFIG_COUNT ? "integer" : "number", NULL);
        put_bounds(json, key);
        break;
    case CONFIG_SIZE:
        put_type(json, "integer", "string");
        json_out_put_text(json, "pattern", SIZE_PATTERN);
        break;
    case CONFIG_DURATION:
        put_type(json, "integer", "string");
        json_out_put_uint(json, "maximum", 0); /* else it has a unit */
        json_out_put_text(json, "pattern", DURATION_PATTERN);
        break;
    case CONFIG_CHOICE:
        put_choices(json, key);
        break;
    case CONFIG_PLACES:
    case CONFIG_RANGES:
    case CONFIG_CHOICES:
        put_list(json);
        break;
    case CONFIG_MODELS:
        put_models(json);
        break;
    case CONFIG_ALIASES:
        put_aliases(json);
        break;
    case CONFIG_STATUSES:
        put_type(json, "integer", "string");
        break;
    case CONFIG_SAMPLE:
        put_type(json, "string", NULL);
        json_out_put_text(json, "pattern", SAMPLE_PATTERN);
        break;
    case CONFIG_RATE:
        put_type(json, "string", NULL);
        json_out_put_text(json, "pattern", RATE_PATTERN);
        break;
    case CONFIG_FILE:
        put_type(json, "string", NULL);
        json_out_put_text(json, "format", "path");
        break;
    case CONFIG_LABEL:
    case CONFIG_ISLAND:
    case CONFIG_SECRET:
    case CONFIG_TEXT:
    case CONFIG_PATH:
    case CONFIG_PATHS:
    case CONFIG_NAMES:
    case CONFIG_ORIGINS:
    case CONFIG_LISTEN:
    case CONFIG_WEB:
    case CONFIG_TCP:
    case CONFIG_SLOS:
    case CONFIG_LIMITS:
    case CONFIG_LINKS:
    case CONFIG_POOLS:
        put_type(json, "string", NULL);
        break;
    }
}

/* Numbers and truths are written in JSON as they are here. */
static void
put_default(struct json_out *json, const struct config_key *key)
{
    if (key->fallback[0] == '\0') {
        return;
    }
    if (key->type == CONFIG_COUNT || key->type == CONFIG_RATIO ||
        is_truth(key)) {
        json_out_put_raw(json, "default", slice_of(key->fallback));
    } else {
        json_out_put_text(json, "default", key->fallback);
    }
}

/* The bounds are in the text, too: a pattern does not show them. */
static void
put_key(struct json_out *json, const struct config_key *key, bool live)
{
    struct buf text;

    buf_init(&text, 4096);
    buf_printf(&text, "%s Value: ", key->doc);
    config_value_describe(key, SLICE(""), &text);
    buf_add_text(&text, live ? ". A reload applies it." : ".");
    json->buf->failed = json->buf->failed || text.failed;
    json_out_object_begin(json);
    put_value(json, key);
    put_default(json, key);
    json_out_put_slice(json, "description", buf_slice(&text));
    json_out_object_end(json);
    buf_fini(&text);
}

static void
begin_object(struct json_out *json, const char *description)
{
    json_out_object_begin(json);
    put_type(json, "object", NULL);
    json_out_put_text(json, "description", description);
    json_out_put_bool(json, "additionalProperties", false);
    json_out_key(json, "properties");
    json_out_object_begin(json);
}

static void
end_object(struct json_out *json)
{
    json_out_object_end(json);
    json_out_object_end(json);
}

static void
put_sections(struct json_out *json)
{
    const struct config_section *section;

    for (size_t i = 0; (section = config_schema_section(i)) != NULL; i++) {
        if (config_section_is_flat(slice_of(section->name))) {
            continue;
        }
        json_out_key(json, section->name);
        begin_object(json, section->doc);
        for (size_t k = 0; k < config_schema_node.count; k++) {
            const struct config_key *key = &config_schema_node.keys[k];
            if (slice_equal(config_key_section(key), slice_of(section->name))) {
                json_out_key(json, config_key_last(key));
                put_key(json, key, config_key_is_live(key));
            }
        }
        end_object(json);
    }
}

static void
put_workers(struct json_out *json)
{
    json_out_key(json, "workers");
    json_out_object_begin(json);
    put_type(json, "array", NULL);
    json_out_put_text(json, "description",
                      "The engines: mappings, or texts URL[,KEY=VALUE]...");
    json_out_key(json, "items");
    json_out_object_begin(json);
    json_out_key(json, "anyOf");
    json_out_array_begin(json);
    json_out_object_begin(json);
    put_type(json, "string", NULL);
    json_out_object_end(json);
    begin_object(json, "one engine");
    for (size_t i = 0; i < config_schema_worker.count; i++) {
        json_out_key(json, config_schema_worker.keys[i].name);
        put_key(json, &config_schema_worker.keys[i], true);
    }
    end_object(json);
    json_out_array_end(json);
    json_out_object_end(json);
    json_out_object_end(json);
}

/* What a text of scale.pools is made of: for manuals. */
static void
put_pool(struct json_out *json)
{
    json_out_key(json, "definitions");
    json_out_object_begin(json);
    json_out_key(json, "pool");
    begin_object(json, "NAME[,KEY=VALUE]... of scale.pools");
    for (size_t i = 0; i < config_schema_pool.count; i++) {
        json_out_key(json, config_schema_pool.keys[i].name);
        put_key(json, &config_schema_pool.keys[i], true);
    }
    end_object(json);
    json_out_object_end(json);
}

void
config_print_schema(struct buf *out)
{
    struct json_out json;

    json_out_init(&json, out);
    json_out_object_begin(&json);
    json_out_put_text(&json, "$schema",
                      "http://json-schema.org/draft-07/schema#");
    json_out_put_text(&json, "title", "configuration of a Kvasir node");
    put_type(&json, "object", NULL);
    json_out_put_bool(&json, "additionalProperties", false);
    json_out_key(&json, "properties");
    json_out_object_begin(&json);
    for (size_t i = 0; i < config_schema_node.count; i++) {
        const struct config_key *key = &config_schema_node.keys[i];
        struct slice section = config_key_section(key);
        if (section.len == 0 || config_section_is_flat(section)) {
            json_out_key(&json, key->name);
            put_key(&json, key, config_key_is_live(key));
        }
    }
    put_sections(&json);
    put_workers(&json);
    json_out_object_end(&json);
    put_pool(&json);
    json_out_object_end(&json);
    buf_add_text(out, "\n");
}
