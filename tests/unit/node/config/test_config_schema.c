#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "node/config/config_schema.h"
#include "node/config/config_words_internal.h"

static void
set_and_read_back(const struct config_schema *schema,
                  const struct config_key *key, uint64_t value)
{
    static union {
        struct config node;
        struct config_worker worker;
        char bytes[sizeof(struct config) + sizeof(struct config_worker)];
    } first, second;
    struct buf text;
    struct buf again;
    uint32_t narrow = (uint32_t)value;

    config_schema_defaults(schema, &first);
    second = first;
    if (key->type == CONFIG_SIZE) {
        memcpy(first.bytes + key->offset, &value, sizeof value);
    } else {
        memcpy(first.bytes + key->offset, &narrow, sizeof narrow);
    }
    buf_init(&text, 1024);
    buf_init(&again, 1024);
    config_value_print(key, &first, &text);
    cr_assert(config_value_set(key, buf_slice(&text), &second), "%s: %.*s",
              key->name, (int)text.len, text.ptr);
    cr_assert_eq(config_value_number(key, &second), value, "%s", key->name);
    config_value_print(key, &second, &again);
    cr_assert(slice_equal(buf_slice(&text), buf_slice(&again)));
    buf_fini(&text);
    buf_fini(&again);
}

static void
try_bounds(const struct config_schema *schema)
{
    for (size_t i = 0; i < schema->count; i++) {
        const struct config_key *key = &schema->keys[i];
        if (key->type < CONFIG_CHOICE) {
            set_and_read_back(schema, key, key->min);
            set_and_read_back(schema, key, key->max);
            set_and_read_back(schema, key, (key->min + key->max) / 2);
        }
        bool chooses = key->type == CONFIG_CHOICE;
        for (size_t c = 0; chooses && key->choices[c] != NULL; c++) {
            set_and_read_back(schema, key, c);
        }
    }
}

Test(node_config_schema, both_bounds_of_each_key_are_values_of_it)
{
    try_bounds(&config_schema_node);
    try_bounds(&config_schema_pool);
    try_bounds(&config_schema_worker);
}

Test(node_config_schema, no_two_keys_share_a_name_a_variable_or_a_place)
{
    const struct config_schema *schema = &config_schema_node;

    for (size_t i = 0; i < schema->count; i++) {
        for (size_t j = 0; j < i; j++) {
            char a[CONFIG_KEY_NAME_MAX + 8];
            char b[CONFIG_KEY_NAME_MAX + 8];
            cr_assert_str_neq(schema->keys[i].name, schema->keys[j].name);
            cr_assert_neq(schema->keys[i].offset, schema->keys[j].offset);
            cr_assert_str_neq(config_key_environment(&schema->keys[i], a),
                              config_key_environment(&schema->keys[j], b));
        }
    }
}

Test(node_config_schema, sections_stand_together_and_all_are_known)
{
    const struct config_schema *schema = &config_schema_node;
    struct slice last = {.len = 0};
    size_t at = 0;

    for (size_t i = 0; i < schema->count; i++) {
        struct slice section = config_key_section(&schema->keys[i]);
        if (!slice_equal(section, last)) {
            cr_assert_not_null(config_schema_section(at));
            cr_assert(slice_equal(slice_of(config_schema_section(at)->name),
                                  section));
            last = section;
            at++;
        }
    }
    cr_assert_null(config_schema_section(at));
}

Test(node_config_schema, the_reference_names_every_key_and_variable)
{
    struct buf out;

    buf_init(&out, 256 * 1024);
    config_print_reference(&out);
    for (size_t i = 0; i < config_schema_node.count; i++) {
        const struct config_key *key = &config_schema_node.keys[i];
        char text[2 * CONFIG_KEY_NAME_MAX];
        (void)config_key_environment(key, text);
        cr_assert_not_null(
            memmem(out.ptr, out.len, key->name, strlen(key->name)));
        cr_assert_not_null(memmem(out.ptr, out.len, text, strlen(text)));
    }
    cr_assert(!out.failed);
    buf_fini(&out);
}

static bool
has(const struct buf *out, const char *text)
{
    return memmem(out->ptr, out->len, text, strlen(text)) != NULL;
}

Test(node_config_schema, the_reference_says_what_to_tune_and_what_words_mean)
{
    const struct config_word *word;
    const struct config_word *before = NULL;
    struct buf out;

    buf_init(&out, 256 * 1024);
    config_print_reference(&out);
    for (size_t i = 0; (word = config_words_first(i)) != NULL; i++) {
        char line[CONFIG_KEY_NAME_MAX + 8];
        cr_assert_not_null(
            config_schema_find(&config_schema_node, slice_of(word->word)),
            "%s is no key", word->word);
        (void)snprintf(line, sizeof line, "\n  %s\n", word->word);
        cr_assert(has(&out, line));
    }
    cr_assert_eq(config_words_first(4) != NULL, true);
    cr_assert_null(config_words_first(5));
    for (size_t i = 0; (word = config_words_meaning(i)) != NULL; i++) {
        cr_assert(before == NULL || strcmp(before->word, word->word) < 0,
                  "%s is not at its place", word->word);
        cr_assert(has(&out, word->word));
        before = word;
    }
    cr_assert_not_null(before);
    buf_fini(&out);
}

Test(node_config_schema, help_and_reference_fit_a_terminal)
{
    struct buf out;

    buf_init(&out, 256 * 1024);
    config_print_reference(&out);
    config_print_flags(&out);
    size_t width = 0;
    for (size_t i = 0; i < out.len; i++) {
        width = out.ptr[i] == '\n' ? 0 : width + 1;
        cr_assert_lt(width, 80);
    }
    buf_fini(&out);
}

/* What is in force after this text for retries.statuses; "": it is refused. */
static const char *
statuses_of(const char *text)
{
    static struct config config;
    static char printed[1024];
    const struct config_key *key =
        config_schema_find(&config_schema_node, SLICE("retries.statuses"));
    struct buf out;

    cr_assert_not_null(key);
    memset(&config, 0, sizeof config);
    if (!config_value_set(key, slice_of(text), &config)) {
        return "";
    }
    buf_init(&out, sizeof printed);
    config_value_print(key, &config, &out);
    memcpy(printed, out.ptr, out.len);
    printed[out.len] = '\0';
    buf_fini(&out);
    return printed;
}

Test(node_config_schema, statuses_are_a_list_in_order_or_none)
{
    static const char *const bad[] = {"",         "5",       "50x", "500,",
                                      "500, 502", "399",     "600", ",500",
                                      "5000",     "500;501", "-50"};

    cr_assert_str_eq(statuses_of("503,500,429"), "429,500,503");
    cr_assert_str_eq(statuses_of("400,599"), "400,599");
    cr_assert_str_eq(statuses_of("none"), "none");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_str_eq(statuses_of(bad[i]), "", "%s", bad[i]);
    }
}

Test(node_config_schema, a_share_of_requests_is_read_and_printed)
{
    const struct config_key *key =
        config_schema_find(&config_schema_node, SLICE("log.requests"));
    static const struct {
        const char *text;
        uint32_t value;
        const char *printed;
    } cases[] = {
        {"off", CONFIG_LOG_OFF, "off"},
        {"errors", CONFIG_LOG_ERRORS, "errors"},
        {"all", 1, "all"},
        {"1/1", 1, "all"},
        {"1/1000000", 1000000, "1/1000000"},
    };
    static const char *const bad[] = {"",    "on",    "1/0",  "1/",
                                      "2/3", "1/1.5", "1/-1", "1/1000001"};
    struct config read;
    struct buf out;

    config_init(&read);
    buf_init(&out, 256);
    cr_assert_not_null(key);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        buf_clear(&out);
        cr_assert(config_value_set(key, slice_of(cases[i].text), &read));
        cr_assert_eq(read.log.requests, cases[i].value, "%s", cases[i].text);
        config_value_print(key, &read, &out);
        cr_assert(slice_equal(buf_slice(&out), slice_of(cases[i].printed)));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_not(config_value_set(key, slice_of(bad[i]), &read), "%s",
                      bad[i]);
        cr_assert_eq(read.log.requests, 1000000, "it is unchanged");
    }
    buf_fini(&out);
    config_fini(&read);
}
