/*
 * The table by which a configuration is read, checked, printed and documented.
 *
 * A key is `name` at the top or `section.name`; a second, smaller table has the
 * keys of one worker. A value is stored at the key's offset, in the form that
 * its type gives. Defaults are written as in the file and read by the same
 * parser.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: CONFIG_KEYS_MAX. Errors:
 * none; the parser says whether a text is a value.
 */
#ifndef NODE_CONFIG_SCHEMA_H
#define NODE_CONFIG_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/config/config.h"

#define CONFIG_KEYS_MAX     256
#define CONFIG_KEY_NAME_MAX 48 /* with its NUL */

enum config_type {
    CONFIG_COUNT,    /* uint32_t */
    CONFIG_SIZE,     /* uint64_t bytes: 512, 64KiB, 1MiB, 2GiB */
    CONFIG_DURATION, /* uint32_t ms: 250ms, 10s, 5m, 1h */
    CONFIG_RATIO,    /* uint32_t permille: 0.3, 1.5, 0.985 */
    CONFIG_CHOICE,   /* uint32_t, the index into choices */
    CONFIG_LABEL,    /* char[CONFIG_LABEL_MAX] of letters, digits, ._:@-[] */
    CONFIG_ISLAND,   /* char[CONFIG_LABEL_MAX]: labels between slashes, a/b/c */
    CONFIG_SECRET,   /* char[CONFIG_SECRET_MAX], printable, no space */
    CONFIG_TEXT,     /* char[CONFIG_TEXT_MAX], printable, no space, #"\ */
    CONFIG_PATH,     /* char[URL_PATH_MAX], /a/b */
    CONFIG_FILE,     /* char[CONFIG_FILE_MAX], a file of this machine */
    CONFIG_PATHS,    /* char[CONFIG_PATHS_MAX], /a /b between blanks */
    CONFIG_NAMES,    /* char[CONFIG_NAMES_MAX]: up to CONFIG_NAMES_COUNT names
                        between blanks, each of at most max bytes */
    CONFIG_LISTEN,   /* struct url: 0.0.0.0:8080 */
    CONFIG_WEB,      /* struct url: http://HOST[:PORT][/PATH], or https:// */
    CONFIG_TCP,      /* struct url: tcp://HOST:PORT, nats:// */
    CONFIG_PLACES,   /* struct config_joins: joins between blanks */
    CONFIG_STATUSES, /* struct config_statuses: 500,502; none */
    CONFIG_RANGES,   /* struct ranges: ADDRESS/BITS between blanks, or none */
    CONFIG_MODELS, /* struct config_models: NAME=PATH between blanks, or none */
    CONFIG_ALIASES, /* struct config_aliases: NAME=MODEL between blanks, or
                       none */
    CONFIG_SLOS,    /* struct config_slos: NAME=500ms/50ms between blanks, or
                       none */
    CONFIG_RATE,    /* struct limits_rate: 600/min, or none */
    CONFIG_LIMITS,  /* struct config_model_limits: NAME=tokens:9000/min between
                       blanks, or none */
    CONFIG_ORIGINS, /* char[CONFIG_ORIGINS_MAX], https://HOST between blanks,
                       or * */
    CONFIG_SAMPLE,  /* uint32_t: off (0), errors (UINT32_MAX), all (1), or
                       1/N (N) */
    CONFIG_CHOICES, /* struct config_choices: NAME=CHOICE between blanks, or
                       none */
    CONFIG_LINKS, /* struct config_links: ISLAND~ISLAND=80ms between blanks, or
                       none */
    CONFIG_POOLS, /* struct config_scale_pools: NAME,KEY=VALUE,... between
                     blanks, or none */
};

struct config_key {
    const char *name;
    enum config_type type;
    size_t offset; /* into struct config, config_worker, config_scale_pool */
    const char *fallback; /* the default as text; "": absent */
    uint64_t min;         /* in the stored unit */
    uint64_t max;
    const char *const *choices; /* CONFIG_CHOICE: names, then NULL */
    const char *doc;            /* one sentence */
};

struct config_section {
    const char *name;
    const char *doc;
};

struct config_schema {
    const struct config_key *keys; /* sections together, in printed order */
    size_t count;
};

extern const struct config_schema config_schema_node;
extern const struct config_schema config_schema_pool; /* of scale.pools */
#define CONFIG_POOL_WORKER 8 /* the row of its worker, the last one */
extern const struct config_schema config_schema_worker;
#define CONFIG_WORKER_URL  0  /* the row of its url */
#define CONFIG_WORKER_FROM 13 /* of its from */

/* The sections of the node's keys, in their order; NULL when at is too high. */
const struct config_section *config_schema_section(size_t at);

/* The key with exactly this name ("section.key"), or NULL. */
const struct config_key *config_schema_find(const struct config_schema *schema,
                                            struct slice name);

/* The same by section (empty: at the top) and last part. */
const struct config_key *
config_schema_find_in(const struct config_schema *schema, struct slice section,
                      struct slice last);

/* The part of a key's name after its section. Points into the name. */
const char *config_key_last(const struct config_key *key);

/* Whether its name means something else at the top of a file (`admin` is an
 * address, `workers` a list). Its keys may then be written there with their
 * whole names, and are printed so. */
bool config_section_is_flat(struct slice name);

/* The section of a key's name; empty at the top. Points into the name. */
struct slice config_key_section(const struct config_key *key);

/* KVASIR_SECTION_NAME into out; returns out. */
const char *config_key_environment(const struct config_key *key,
                                   char out[CONFIG_KEY_NAME_MAX + 8]);

/*
 * Reads text as a value of the key and stores it in `into` (the struct that
 * the schema is of). False: it is none, or out of bounds, and `into` is
 * unchanged.
 */
bool config_value_set(const struct config_key *key, struct slice text,
                      void *into) MUST_CHECK;

/* Stores the value that `from` has, or that it has none, in `into`. */
void config_value_copy(const struct config_key *key, const void *from,
                       void *into);

/* Appends the stored value as text that config_value_set() reads back. */
void config_value_print(const struct config_key *key, const void *from,
                        struct buf *out);

/* The stored number of a count, size, duration, ratio or choice, in the stored
 * unit. */
uint64_t config_value_number(const struct config_key *key, const void *from);

/* Appends what a value of the key looks like, "a size from 1KiB to 4GiB". With
 * an empty text for the reference; with a text that config_value_set() refused,
 * it says what was expected instead, with an example. */
void config_value_describe(const struct config_key *key, struct slice text,
                           struct buf *out);

/* The word for it in help texts: SIZE, DURATION, ... Static text. */
const char *config_type_word(enum config_type type);

/* Stores every key's default in `into`, the struct that the schema is of. */
void config_schema_defaults(const struct config_schema *schema, void *into);

#endif
