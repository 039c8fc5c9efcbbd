/*
 * Parts of values: what config_value.c does for config_describe.c.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: none. Errors: see each.
 */
#ifndef NODE_CONFIG_VALUE_INTERNAL_H
#define NODE_CONFIG_VALUE_INTERNAL_H

#include "node/config/config_schema.h"

/* Reads text as the url of a CONFIG_LISTEN, CONFIG_WEB or CONFIG_TCP. NULL, or
 * what was expected (static text), and *url is undefined. */
const char *config_url_parse(enum config_type type, struct slice text,
                             struct url *url) MUST_CHECK;

/* Reads a duration. False: it is none. */
bool config_duration_read(struct slice text, uint64_t *ms) MUST_CHECK;

/* Reads labels between slashes. False: these are none, or too long, and *to is
 * unchanged. */
bool config_island_read(struct slice text, char to[CONFIG_LABEL_MAX])
    MUST_CHECK;

/* Begins a list whose entries stand between spaces; `none` has none. False: there
 * is no text. */
bool config_list_begin(struct slice text, struct slice *left) MUST_CHECK;

/* Takes the next entry. False: there is none. */
bool config_list_next(struct slice *left, struct slice *one) MUST_CHECK;

/* Appends a stored number (CONFIG_COUNT to CONFIG_RATIO) in the largest unit
 * that leaves it whole. */
void config_number_print(enum config_type type, uint64_t value,
                         struct buf *out);

/* Copies text and a NUL. False: it is empty or too long, or has a blank, what is
 * not ASCII, or one of `banned`. */
bool config_put_plain(char *to, size_t room, struct slice text,
                      const char *banned) MUST_CHECK;

#endif
