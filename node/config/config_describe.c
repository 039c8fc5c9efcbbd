/* What values of configuration keys look like, in messages and in the reference. */
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

static void
describe_range(const struct config_key *key, const char *what, bool example,
               struct buf *out)
{
    buf_printf(out, "%s from ", what);
    config_number_print(key->type, key->min, out);
    buf_add_text(out, " to ");
    config_number_print(key->type, key->max, out);
    if (example && key->type != CONFIG_COUNT) {
        buf_printf(out, " such as %s", key->fallback);
    }
}

static void
describe_choice(const struct config_key *key, struct buf *out)
{
    for (size_t i = 0; key->choices[i] != NULL; i++) {
        bool last = key->choices[i + 1] == NULL;
        buf_printf(out, "%s%s",
                   i == 0 ? ""
                   : last ? " or "
                          : ", ",
                   key->choices[i]);
    }
}

/* Of the types that say so themselves. */
static const char *
want_of(enum config_type type, struct slice text)
{
    static const char *(*const wants[])(struct slice text) = {
        [CONFIG_PLACES] = config_joins_want,
        [CONFIG_RANGES] = ranges_want,
        [CONFIG_MODELS] = config_models_want,
        [CONFIG_ALIASES] = config_aliases_want,
        [CONFIG_SLOS] = config_slos_want,
        [CONFIG_LIMITS] = config_limits_want,
        [CONFIG_LINKS] = config_links_want,
        [CONFIG_POOLS] = config_pools_want,
    };

    if (type < sizeof wants / sizeof *wants && wants[type] != NULL) {
        return wants[type](text);
    }
    return type == CONFIG_PATHS
               ? "paths such as /v1/files /v1/files/* between blanks"
           : type == CONFIG_ORIGINS
               ? "origins such as https://chat.example between blanks, or *"
           : type == CONFIG_ISLAND
               ? "at most 63 letters, digits and ._:@-[], in parts between "
                 "slashes such as aws/eu-west-1/a"
           : type == CONFIG_SAMPLE
               ? "off, errors, all, or 1/N with N from 1 to 1000000"
               : LIMITS_RATE_WANT;
}

_Static_assert(CONFIG_LABEL_MAX == 64, "as the text says");

static void
describe_number(const struct config_key *key, bool example, struct buf *out)
{
    const char *what = key->type == CONFIG_COUNT      ? "a number"
                       : key->type == CONFIG_SIZE     ? "a size"
                       : key->type == CONFIG_DURATION ? "a duration"
                                                      : "a decimal of at most "
                                                        "three places";

    describe_range(key, what, example, out);
}

void
config_value_describe(const struct config_key *key, struct slice text,
                      struct buf *out)
{
    struct url unused;

    switch (key->type) {
    case CONFIG_COUNT:
    case CONFIG_SIZE:
    case CONFIG_DURATION:
    case CONFIG_RATIO:
        describe_number(key, text.len != 0, out);
        break;
    case CONFIG_CHOICE:
        describe_choice(key, out);
        break;
    case CONFIG_LABEL:
        buf_printf(out, "at most %d letters, digits and ._:@-[]",
                   CONFIG_LABEL_MAX - 1);
        break;
    case CONFIG_SECRET:
    case CONFIG_TEXT:
        buf_printf(out, "at most %d printable characters without spaces",
                   CONFIG_TEXT_MAX - 1);
        break;
    case CONFIG_PATH:
        buf_printf(out, "a path such as %s", key->fallback);
        break;
    case CONFIG_FILE:
        buf_printf(out,
                   "a path of at most %d characters, without blanks and "
                   "#\"\\",
                   CONFIG_FILE_MAX - 1);
        break;
    case CONFIG_NAMES:
        buf_printf(out,
                   "1 to %u names of letters, digits and ._:@-[] between "
                   "blanks, each of at most %u bytes",
                   CONFIG_NAMES_COUNT, (unsigned)key->max);
        break;
    case CONFIG_LISTEN:
    case CONFIG_WEB:
    case CONFIG_TCP:
        buf_add_text(out, config_url_parse(key->type, text, &unused));
        break;
    case CONFIG_STATUSES:
        buf_printf(out, "statuses from 400 to 599 such as %s, or none",
                   key->fallback);
        break;
    case CONFIG_PLACES:
    case CONFIG_ISLAND:
    case CONFIG_SAMPLE:
    case CONFIG_PATHS:
    case CONFIG_ORIGINS:
    case CONFIG_RANGES:
    case CONFIG_MODELS:
    case CONFIG_ALIASES:
    case CONFIG_SLOS:
    case CONFIG_LIMITS:
    case CONFIG_LINKS:
    case CONFIG_POOLS:
    case CONFIG_RATE:
        buf_add_text(out, want_of(key->type, text));
        break;
    case CONFIG_CHOICES:
        buf_add_text(out, config_choices_want(key->choices, text));
        break;
    }
}

const char *
config_type_word(enum config_type type)
{
    static const char *const words[] = {
        [CONFIG_COUNT] = "N",           [CONFIG_SIZE] = "SIZE",
        [CONFIG_DURATION] = "DURATION", [CONFIG_RATIO] = "DECIMAL",
        [CONFIG_CHOICE] = "CHOICE",     [CONFIG_LABEL] = "NAME",
        [CONFIG_SECRET] = "SECRET",     [CONFIG_PATH] = "PATH",
        [CONFIG_FILE] = "FILE",         [CONFIG_PLACES] = "PLACES",
        [CONFIG_STATUSES] = "STATUSES", [CONFIG_LISTEN] = "IP:PORT",
        [CONFIG_WEB] = "URL",           [CONFIG_TCP] = "URL",
        [CONFIG_RANGES] = "RANGES",     [CONFIG_PATHS] = "PATHS",
        [CONFIG_NAMES] = "NAMES",       [CONFIG_MODELS] = "MODELS",
        [CONFIG_TEXT] = "TEXT",         [CONFIG_RATE] = "RATE",
        [CONFIG_ALIASES] = "ALIASES",   [CONFIG_ORIGINS] = "ORIGINS",
        [CONFIG_SLOS] = "SLOS",         [CONFIG_CHOICES] = "CHOICES",
        [CONFIG_SAMPLE] = "SHARE",      [CONFIG_ISLAND] = "ISLAND",
        [CONFIG_LINKS] = "LINKS",       [CONFIG_LIMITS] = "LIMITS",
        [CONFIG_POOLS] = "POOLS",
    };

    CHECK(type < sizeof words / sizeof words[0]);
    return words[type];
}
