/*
 * Command lines: parsing and the manual both come from one table of flags, so
 * they cannot differ.
 *
 * A flag is --name VALUE or --name=VALUE, and with a letter also -n VALUE or
 * -nVALUE; a switch has no value. An argument that begins with no dash is an
 * operand, and so is everything after "--". Names must be complete: an
 * abbreviation would break with the next release. If a flag is given twice the
 * last one counts, except for lists, which grow.
 *
 * Role: core (flags_print() is shell). Owns: nothing; texts are those of argv.
 * Thread: any. Limits: FLAGS_TEXT_MAX, FLAGS_FAULT_MAX. Errors: one line of
 * text, without a newline.
 */
#ifndef NODE_FLAGS_H
#define NODE_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"

#define FLAGS_TEXT_MAX  256 /* bytes of a name */
#define FLAGS_FAULT_MAX 256 /* bytes of a fault, with its NUL */

enum flag_kind {
    FLAG_ANY,     /* const char *: any text, given once */
    FLAG_PAIR,    /* struct { const char *name, *value; }[max]: any text, as
                    often as it is given; a table may have many of these at one
                    place */
    FLAG_TEXT,    /* const char *: fit for headers, JSON, metrics as it is */
    FLAG_LIST,    /* const char *[max]: texts, as often as it is given */
    FLAG_HOST,    /* const char *: an IP address */
    FLAG_URL,     /* struct url: http://HOST[:PORT][/PATH] */
    FLAG_SERVER,  /* struct url: IP:PORT, IPv6 in brackets */
    FLAG_COUNT,   /* uint64_t */
    FLAG_REAL,    /* double */
    FLAG_CHOICE,  /* uint32_t: which of the words of `value`, "one|another" */
    FLAG_SWITCH,  /* bool: true when given; it has no value */
    FLAG_OPERAND, /* const char *[max]: arguments that are no flags */
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
    size_t count_at;    /* of a kind with [max]: offset of its uint32_t count */
    char letter;        /* the short form, or '\0': none */
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
 * argv. argv begins with the first argument (not the program's name) and ends
 * with NULL; its texts are borrowed. 0, or FLAGS_E_BAD and one line in fault.
 * The caller fills in presets of lists.
 */
int flags_parse(const struct flags *flags, void *options, char *const *argv,
                char *fault, size_t fault_size) MUST_CHECK;

/* Appends the flags with their meaning and default, a line or more for each. */
void flags_help(const struct flags *flags, struct buf *out);

/* Prints what help() writes to stdout; false: that failed. */
bool flags_print(void (*help)(struct buf *out)) MUST_CHECK;

#endif
