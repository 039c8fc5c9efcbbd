/* Values of configuration keys: from text, and back to text. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "node/config/config_aliases_internal.h"
#include "node/config/config_choices_internal.h"
#include "node/config/config_joins_internal.h"
#include "node/config/config_limits_internal.h"
#include "node/config/config_links_internal.h"
#include "node/config/config_models_internal.h"
#include "node/config/config_pools_internal.h"
#include "node/config/config_schema.h"
#include "node/config/config_slos_internal.h"
#include "node/config/config_value_internal.h"
#include "node/http/http_cors.h"

struct unit {
    const char *name;
    uint64_t factor; /* stored units in one of this */
};

/* Largest first, as they are printed. */
static const struct unit size_units[] = {
    {"GiB", UINT64_C(1) << 30},
    {"MiB", UINT64_C(1) << 20},
    {"KiB", UINT64_C(1) << 10},
    {"", 1},
    {"B", 1},
    {NULL, 0},
};

/* Taken as well, and never printed. */
static const struct unit decimal_units[] = {
    {"GB", UINT64_C(1000000000)},
    {"MB", UINT64_C(1000000)},
    {"KB", UINT64_C(1000)},
    {"kB", UINT64_C(1000)},
    {NULL, 0},
};

static const struct unit duration_units[] = {
    {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}, {NULL, 0},
};

static const struct unit no_units[] = {{"", 1}, {NULL, 0}};

static const struct unit *
units_of(enum config_type type)
{
    CHECK(type <= CONFIG_RATIO);
    return type == CONFIG_SIZE       ? size_units
           : type == CONFIG_DURATION ? duration_units
                                     : no_units;
}

/* Decimal digits at the start of *text, without a needless leading zero. */
static bool
take_digits(struct slice *text, uint64_t *value)
{
    size_t at = 0;
    uint64_t sum = 0;

    while (at < text->len && text->ptr[at] >= '0' && text->ptr[at] <= '9') {
        uint64_t digit = (uint64_t)(text->ptr[at] - '0');
        if (sum > (UINT64_MAX - digit) / 10) {
            return false;
        }
        sum = sum * 10 + digit;
        at++;
    }
    if (at == 0 || (at > 1 && text->ptr[0] == '0')) {
        return false;
    }
    *value = sum;
    slice_skip(text, at);
    return true;
}

/* NULL: none of them. */
static const struct unit *
find_unit(const struct unit *units, struct slice name)
{
    while (units->name != NULL && !slice_equal(name, slice_of(units->name))) {
        units++;
    }
    return units->name != NULL ? units : NULL;
}

/* A whole number and one of the type's units. */
static bool
parse_number(enum config_type type, struct slice text, uint64_t *value)
{
    uint64_t number;

    if (!take_digits(&text, &number)) {
        return false;
    }
    if (number == 0 && text.len == 0) {
        *value = 0; /* zero needs no unit */
        return true;
    }
    const struct unit *unit = find_unit(units_of(type), text);
    if (unit == NULL && type == CONFIG_SIZE) {
        unit = find_unit(decimal_units, text);
    }
    if (unit == NULL) {
        return false;
    }
    *value = number * unit->factor;
    return number <= UINT64_MAX / unit->factor;
}

bool
config_duration_read(struct slice text, uint64_t *ms)
{
    return parse_number(CONFIG_DURATION, text, ms);
}

bool
config_list_begin(struct slice text, struct slice *left)
{
    text = slice_trim(text);
    *left = slice_equal(text, SLICE("none")) ? (struct slice){0} : text;
    return text.len != 0;
}

bool
config_list_next(struct slice *left, struct slice *one)
{
    do {
        *one = slice_take(left, ' ');
    } while (one->len == 0 && left->len != 0);
    return one->len != 0;
}

/* A decimal with at most three places, in permille. */
static bool
parse_ratio(struct slice text, uint64_t *value)
{
    uint64_t whole;
    uint64_t part = 0;
    uint64_t place = 100;

    if (!take_digits(&text, &whole) || whole > UINT32_MAX) {
        return false;
    }
    if (text.len == 1 || text.len > 4 ||
        (text.len != 0 && text.ptr[0] != '.')) {
        return false;
    }
    for (size_t i = 1; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') {
            return false;
        }
        part += place * (uint64_t)(text.ptr[i] - '0');
        place /= 10;
    }
    *value = whole * 1000 + part;
    return true;
}

static bool
find_choice(const struct config_key *key, struct slice text, uint64_t *value)
{
    CHECK(key->choices != NULL);
    for (size_t i = 0; key->choices[i] != NULL; i++) {
        if (slice_equal(text, slice_of(key->choices[i]))) {
            *value = i;
            return true;
        }
    }
    return false;
}

/* Other names of choices: as half of all programs call it, and what YAML 1.1,
 * and so Helm, makes of a bare on and off. */
static bool
parse_choice(const struct config_key *key, struct slice text, uint64_t *value)
{
    static const char *const same[][2] = {
        {"warn", "warning"}, {"true", "on"},   {"false", "off"},
        {"on", "true"},      {"off", "false"},
    };

    bool found = find_choice(key, text, value);
    for (size_t i = 0; !found && i < sizeof same / sizeof same[0]; i++) {
        found = slice_equal(text, slice_of(same[i][0])) &&
                find_choice(key, slice_of(same[i][1]), value);
    }
    return found;
}

static bool
is_label_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("._:@-[]", c) != NULL);
}

static bool
is_char_of(enum config_type type, char c)
{
    if (type == CONFIG_LABEL) {
        return is_label_char(c);
    }
    bool printable = c > ' ' && c < 0x7F;
    return printable && (type == CONFIG_SECRET || strchr("#\"\\", c) == NULL);
}

static bool
is_text_of(enum config_type type, struct slice text)
{
    if (text.len == 0 || (type == CONFIG_PATH && text.ptr[0] != '/')) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (!is_char_of(type, text.ptr[i])) {
            return false;
        }
    }
    return true;
}

/* Each begins with a slash, and has a star at its end or nowhere. */
static bool
is_paths(struct slice text)
{
    while (text.len != 0) {
        struct slice path = slice_take(&text, ' ');
        const char *star =
            path.len != 0 ? memchr(path.ptr, '*', path.len) : NULL;
        if (!is_text_of(CONFIG_PATH, path) ||
            (star != NULL && star != path.ptr + path.len - 1)) {
            return false;
        }
    }
    return true;
}

static bool
is_names(struct slice text, uint64_t len_max)
{
    uint32_t count = 0;

    while (text.len != 0) {
        struct slice name = slice_take(&text, ' ');
        if (name.len == 0 || name.len > len_max ||
            !is_text_of(CONFIG_LABEL, name) || ++count > CONFIG_NAMES_COUNT) {
            return false;
        }
    }
    return count != 0;
}

/* Labels between slashes. */
static bool
is_island(struct slice text)
{
    bool good = text.len != 0 && text.ptr[text.len - 1] != '/';

    while (good && text.len != 0) {
        good = is_text_of(CONFIG_LABEL, slice_take(&text, '/'));
    }
    return good;
}

bool
config_island_read(struct slice text, char to[CONFIG_LABEL_MAX])
{
    bool good = text.len < CONFIG_LABEL_MAX && is_island(text);

    if (good) {
        memcpy(to, text.ptr, text.len);
        to[text.len] = '\0';
    }
    return good;
}

/* Of what is stored; of a text with its NUL. */
static size_t
value_size(enum config_type type)
{
    static const size_t sizes[] = {
        [CONFIG_COUNT] = sizeof(uint32_t),
        [CONFIG_SIZE] = sizeof(uint64_t),
        [CONFIG_DURATION] = sizeof(uint32_t),
        [CONFIG_RATIO] = sizeof(uint32_t),
        [CONFIG_CHOICE] = sizeof(uint32_t),
        [CONFIG_LABEL] = CONFIG_LABEL_MAX,
        [CONFIG_ISLAND] = CONFIG_LABEL_MAX,
        [CONFIG_SECRET] = CONFIG_SECRET_MAX,
        [CONFIG_TEXT] = CONFIG_TEXT_MAX,
        [CONFIG_PATH] = URL_PATH_MAX,
        [CONFIG_FILE] = CONFIG_FILE_MAX,
        [CONFIG_PATHS] = CONFIG_PATHS_MAX,
        [CONFIG_NAMES] = CONFIG_NAMES_MAX,
        [CONFIG_LISTEN] = sizeof(struct url),
        [CONFIG_WEB] = sizeof(struct url),
        [CONFIG_TCP] = sizeof(struct url),
        [CONFIG_PLACES] = sizeof(struct config_joins),
        [CONFIG_STATUSES] = sizeof(struct config_statuses),
        [CONFIG_RANGES] = sizeof(struct ranges),
        [CONFIG_MODELS] = sizeof(struct config_models),
        [CONFIG_ALIASES] = sizeof(struct config_aliases),
        [CONFIG_SLOS] = sizeof(struct config_slos),
        [CONFIG_RATE] = sizeof(struct limits_rate),
        [CONFIG_LIMITS] = sizeof(struct config_model_limits),
        [CONFIG_ORIGINS] = CONFIG_ORIGINS_MAX,
        [CONFIG_SAMPLE] = sizeof(uint32_t),
        [CONFIG_CHOICES] = sizeof(struct config_choices),
        [CONFIG_LINKS] = sizeof(struct config_links),
        [CONFIG_POOLS] = sizeof(struct config_scale_pools),
    };

    CHECK(type < sizeof sizes / sizeof *sizes && sizes[type] != 0);
    return sizes[type];
}

void
config_value_copy(const struct config_key *key, const void *from, void *into)
{
    memcpy((char *)into + key->offset, (const char *)from + key->offset,
           value_size(key->type));
}

static bool
set_text(const struct config_key *key, struct slice text, char *to)
{
    bool good = key->type == CONFIG_PATHS     ? text.len != 0 && is_paths(text)
                : key->type == CONFIG_NAMES   ? is_names(text, key->max)
                : key->type == CONFIG_ORIGINS ? http_cors_is_list(text)
                                              : is_text_of(key->type, text);

    if (text.len >= value_size(key->type) || !good) {
        return false;
    }
    memcpy(to, text.ptr, text.len);
    to[text.len] = '\0';
    return true;
}

/* The tcp: url of each worker, which url.h does not know. */
static const char *
parse_each(struct slice text, size_t start, struct url *url)
{
    char named[32];
    int len = snprintf(named, sizeof named, "tcp://each:%.*s",
                       (int)(text.len - start), text.ptr + start);
    struct slice tried = {named, (size_t)len};
    const char *want =
        len < (int)sizeof named ? url_parse_tcp(tried, url) : "tcp://*:PORT";

    memcpy(url->host, CONFIG_EACH_HOST, sizeof CONFIG_EACH_HOST);
    return want;
}

const char *
config_url_parse(enum config_type type, struct slice text, struct url *url)
{
    struct slice each = SLICE("tcp://" CONFIG_EACH_HOST ":");

    CHECK(type == CONFIG_LISTEN || type == CONFIG_WEB || type == CONFIG_TCP);
    if (type == CONFIG_TCP && text.len > each.len &&
        memcmp(text.ptr, each.ptr, each.len) == 0) {
        return parse_each(text, each.len, url);
    }
    return type == CONFIG_LISTEN ? url_parse_listen(text, url)
           : type == CONFIG_WEB  ? url_parse_web(text, url)
                                 : url_parse_events(text, url);
}

static bool
set_url(const struct config_key *key, struct slice text, void *to)
{
    struct url url;
    const char *want = config_url_parse(key->type, text, &url);

    if (want == NULL) {
        memcpy(to, &url, sizeof url);
    }
    return want == NULL;
}

/* Replaces the places that are there. */
static bool
set_joins(struct slice text, struct config_joins *joins)
{
    struct config_joins read = {.count = 0};

    if (text.len == 0 || config_joins_add(&read, text) != NULL) {
        return false;
    }
    *joins = read;
    return true;
}

/* 500,502 or none. */
static bool
set_statuses(struct slice text, struct config_statuses *statuses)
{
    struct config_statuses read = {.bits = {0}};
    bool none = slice_equal(text, SLICE("none"));

    for (size_t at = 0; !none; at += 4) {
        unsigned status = 0;
        for (size_t i = 0; i < 3; i++) {
            char c = at + i < text.len ? text.ptr[at + i] : '\0';
            if (c < '0' || c > '9') {
                return false;
            }
            status = status * 10 + (unsigned)(c - '0');
        }
        if (status < 400 || status > 599) {
            return false;
        }
        read.bits[(status - 400) / 64] |= UINT64_C(1) << (status - 400) % 64;
        if (at + 3 == text.len) {
            break;
        }
        if (text.ptr[at + 3] != ',') {
            return false;
        }
    }
    *statuses = read;
    return true;
}

static void
print_statuses(const struct config_statuses *statuses, struct buf *out)
{
    const char *between = "";

    for (unsigned status = 400; status < 600; status++) {
        if (config_statuses_has(statuses, status)) {
            buf_printf(out, "%s%u", between, status);
            between = ",";
        }
    }
    if (*between == '\0') {
        buf_add_text(out, "none");
    }
}

static bool
set_number(const struct config_key *key, uint64_t value, void *to)
{
    uint32_t narrow = (uint32_t)value;

    if (key->type != CONFIG_CHOICE && (value < key->min || value > key->max)) {
        return false;
    }
    if (key->type == CONFIG_SIZE) {
        memcpy(to, &value, sizeof value);
        return true;
    }
    CHECK(value == narrow);
    memcpy(to, &narrow, sizeof narrow);
    return true;
}

static const struct {
    struct slice word;
    uint32_t value;
} samples[] = {{{"off", 3}, 0}, {{"errors", 6}, UINT32_MAX}, {{"all", 3}, 1}};

#define SAMPLES (sizeof samples / sizeof samples[0])

static bool
set_sample(const struct config_key *key, struct slice text, void *to)
{
    struct slice part = {text.ptr, 2};
    uint64_t every = 0;
    bool good = false;

    if (slice_equal(text, SLICE("false"))) {
        text = SLICE("off"); /* as parse_choice() */
    }
    for (size_t i = 0; i < SAMPLES; i++) {
        if (slice_equal(text, samples[i].word)) {
            memcpy(to, &samples[i].value, sizeof samples[i].value);
            return true;
        }
    }
    if (text.len > 2 && slice_equal(part, SLICE("1/"))) {
        part = (struct slice){text.ptr + 2, text.len - 2};
        good = parse_number(CONFIG_COUNT, part, &every) && every >= key->min &&
               every <= key->max;
    }
    uint32_t narrow = (uint32_t)every;
    if (good) {
        memcpy(to, &narrow, sizeof narrow);
    }
    return good;
}

static void
print_sample(const void *at, struct buf *out)
{
    uint32_t value;

    memcpy(&value, at, sizeof value);
    for (size_t i = 0; i < SAMPLES; i++) {
        if (value == samples[i].value) {
            buf_add_slice(out, samples[i].word);
            return;
        }
    }
    buf_printf(out, "1/%" PRIu32, value);
}

bool
config_value_set(const struct config_key *key, struct slice text, void *into)
{
    char *to = (char *)into + key->offset;
    uint64_t value;

    switch (key->type) {
    case CONFIG_COUNT:
    case CONFIG_SIZE:
    case CONFIG_DURATION:
        return parse_number(key->type, text, &value) &&
               set_number(key, value, to);
    case CONFIG_RATIO:
        return parse_ratio(text, &value) && set_number(key, value, to);
    case CONFIG_CHOICE:
        return parse_choice(key, text, &value) && set_number(key, value, to);
    case CONFIG_LABEL:
    case CONFIG_SECRET:
    case CONFIG_TEXT:
    case CONFIG_PATH:
    case CONFIG_FILE:
    case CONFIG_PATHS:
    case CONFIG_NAMES:
    case CONFIG_ORIGINS:
        return set_text(key, text, to);
    case CONFIG_ISLAND:
        return config_island_read(text, to);
    case CONFIG_LISTEN:
    case CONFIG_WEB:
    case CONFIG_TCP:
        return set_url(key, text, to);
    case CONFIG_PLACES:
        return set_joins(text, (void *)to);
    case CONFIG_STATUSES:
        return set_statuses(text, (void *)to);
    case CONFIG_RANGES:
        return ranges_parse(text, (void *)to) == NULL;
    case CONFIG_MODELS:
        return config_models_read(text, (void *)to) == NULL;
    case CONFIG_ALIASES:
        return config_aliases_read(text, (void *)to) == NULL;
    case CONFIG_LIMITS:
        return config_limits_read(text, (void *)to) == NULL;
    case CONFIG_SLOS:
        return config_slos_read(text, (void *)to) == NULL;
    case CONFIG_CHOICES:
        return config_choices_read(key->choices, text, (void *)to) == NULL;
    case CONFIG_LINKS:
        return config_links_read(text, (void *)to) == NULL;
    case CONFIG_POOLS:
        return config_pools_read(text, (void *)to) == NULL;
    case CONFIG_SAMPLE:
        return set_sample(key, text, to);
    case CONFIG_RATE:
        return limits_rate_read(text, (void *)to);
    }
    return false;
}

uint64_t
config_value_number(const struct config_key *key, const void *from)
{
    const char *at = (const char *)from + key->offset;
    uint64_t wide;
    uint32_t narrow;

    CHECK(key->type <= CONFIG_CHOICE);
    if (key->type == CONFIG_SIZE) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    memcpy(&narrow, at, sizeof narrow);
    return narrow;
}

static void
print_ratio(uint64_t value, struct buf *out)
{
    char text[32];
    int len = snprintf(text, sizeof text, "%" PRIu64 ".%03" PRIu64,
                       value / 1000, value % 1000);

    CHECK(len > 0 && (size_t)len < sizeof text);
    while (text[len - 1] == '0') {
        len--;
    }
    buf_add(out, text, (size_t)(text[len - 1] == '.' ? len - 1 : len));
}

void
config_number_print(enum config_type type, uint64_t value, struct buf *out)
{
    const struct unit *unit = units_of(type);

    if (type == CONFIG_RATIO) {
        print_ratio(value, out);
        return;
    }
    while (unit->factor != 1 && (value == 0 || value % unit->factor != 0)) {
        unit++;
    }
    buf_printf(out, "%" PRIu64 "%s", value / unit->factor,
               value != 0 ? unit->name : "");
}

static void
print_ranges(const struct ranges *ranges, struct buf *out)
{
    char text[RANGE_TEXT_MAX];

    for (uint32_t i = 0; i < ranges->count; i++) {
        buf_printf(out, "%s%s", i != 0 ? " " : "",
                   range_text(&ranges->range[i], text));
    }
    if (ranges->count == 0) {
        buf_add_text(out, "none");
    }
}

static void
print_url(enum config_type type, const char *at, struct buf *out)
{
    char text[URL_TEXT_MAX];
    struct url url;

    memcpy(&url, at, sizeof url);
    if (url.host[0] != '\0') {
        buf_printf(out, "%s%s%s",
                   type == CONFIG_LISTEN ? ""
                   : type == CONFIG_TCP  ? url_events_scheme(&url)
                                         : url_scheme(&url),
                   url_authority(&url, text), url.path);
    }
}

void
config_value_print(const struct config_key *key, const void *from,
                   struct buf *out)
{
    const char *at = (const char *)from + key->offset;

    switch (key->type) {
    case CONFIG_COUNT:
    case CONFIG_SIZE:
    case CONFIG_DURATION:
    case CONFIG_RATIO:
        config_number_print(key->type, config_value_number(key, from), out);
        break;
    case CONFIG_CHOICE:
        buf_add_text(out, key->choices[config_value_number(key, from)]);
        break;
    case CONFIG_LABEL:
    case CONFIG_ISLAND:
    case CONFIG_SECRET:
    case CONFIG_TEXT:
    case CONFIG_PATH:
    case CONFIG_FILE:
    case CONFIG_PATHS:
    case CONFIG_NAMES:
    case CONFIG_ORIGINS:
        buf_add_text(out, at);
        break;
    case CONFIG_LISTEN:
    case CONFIG_WEB:
    case CONFIG_TCP:
        print_url(key->type, at, out);
        break;
    case CONFIG_PLACES:
        config_joins_print((const void *)at, out);
        break;
    case CONFIG_STATUSES:
        print_statuses((const void *)at, out);
        break;
    case CONFIG_RANGES:
        print_ranges((const void *)at, out);
        break;
    case CONFIG_MODELS:
        config_models_print((const void *)at, out);
        break;
    case CONFIG_ALIASES:
        config_aliases_print((const void *)at, out);
        break;
    case CONFIG_LIMITS:
        config_limits_print((const void *)at, out);
        break;
    case CONFIG_SLOS:
        config_slos_print((const void *)at, out);
        break;
    case CONFIG_CHOICES:
        config_choices_print(key->choices, (const void *)at, out);
        break;
    case CONFIG_LINKS:
        config_links_print((const void *)at, out);
        break;
    case CONFIG_POOLS:
        config_pools_print((const void *)at, out);
        break;
    case CONFIG_SAMPLE:
        print_sample((const void *)at, out);
        break;
    case CONFIG_RATE:
        limits_rate_print((const void *)at, out);
        break;
    }
}

bool
config_put_plain(char *to, size_t room, struct slice text, const char *banned)
{
    if (text.len == 0 || text.len >= room) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c <= ' ' || c >= 0x7F || strchr(banned, c) != NULL) {
            return false;
        }
    }
    memcpy(to, text.ptr, text.len);
    to[text.len] = '\0';
    return true;
}
