/*
 * Command lines of the programs here: one table of flags, from which parsing
 * and the manual both come, so that they cannot differ.
 *
 * A flag is `--name value` or `--name=value`; a switch is `--name`. Of a flag
 * given twice the last one counts, but for lists, which grow.
 *
 * Role: core. Owns: nothing; texts are those of argv. Thread: any.
 * Limits: FLAGS_TEXT_MAX. Errors: one line of text.
 */
#ifndef CHAOS_FLAGS_H
#define CHAOS_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"

#define FLAGS_TEXT_MAX 128 /* bytes of a name */

enum flag_kind {
    FLAG_TEXT,   /* const char *: fit for headers, JSON, metrics as it is */
    FLAG_LIST,   /* const char *[max]: texts, as often as it is given */
    FLAG_HOST,   /* const char *: an IP address */
    FLAG_URL,    /* struct url: http://HOST[:PORT][/PATH] */
    FLAG_SERVER, /* struct url: IPv4:PORT */
    FLAG_COUNT,  /* uint64_t */
    FLAG_REAL,   /* double */
    FLAG_CHOICE, /* uint32_t: which of the words of `value`, "one|another" */
    FLAG_SWITCH, /* bool: true when given; it has no value */
};

struct flag {
    const char *name; /* without the dashes */
    enum flag_kind kind;
    size_t at; /* offset of the member in the options */
    double min;
    double max;
    const char *value;  /* how the manual names it; NULL for a switch */
    const char *preset; /* the default, as it would be written, or NULL */
    const char *help;   /* further lines behind newlines */
    size_t count_at;    /* FLAG_LIST: offset of its uint32_t count */
};

struct flags {
    const struct flag *table;
    size_t count;
};

enum {
    FLAGS_E_BAD = 1, /* fault says why */
};

/*
 * Fills *options, which the caller has zeroed, from the presets and then from
 * argv[1] and on, whose texts it points to. 0, or FLAGS_E_BAD and one line,
 * without newline, in fault. Presets of lists are the caller's.
 */
int flags_parse(const struct flags *flags, void *options, char **argv,
                char *fault, size_t fault_size) MUST_CHECK;

/* The flags with their meaning and default, a line or more for each. */
void flags_help(const struct flags *flags, struct buf *out);

/* Prints one manual to stdout; false: that failed. */
bool flags_print(void (*help)(struct buf *out));

#endif
