/* Command lines: the walk over arguments, and values out of them. */
#include "node/base/flags.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/text/quote.h"
#include "node/text/typo.h"
#include "node/text/url.h"

#define MANUAL_BYTES_MAX 65536

/* The walk over the arguments. */
struct walk {
    const struct flags *flags;
    char *const *argv;       /* the next argument */
    bool operands_only;      /* "--" was seen */
    const struct flag *flag; /* the last one */
    const char *value;       /* NULL: a switch */
    char *fault;
    size_t fault_size;
};

enum {
    WALK_END = 0,
    WALK_FLAG = 2, /* or FLAGS_E_BAD */
};

__attribute__((format(printf, 2, 3))) static int
bad(struct walk *walk, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    (void)vsnprintf(walk->fault, walk->fault_size, format, list);
    va_end(list);
    return FLAGS_E_BAD;
}

static bool
is_option(const struct flag *flag)
{
    return flag->kind != FLAG_OPERAND;
}

static const struct flag *
find_name(const struct flags *flags, struct slice name)
{
    for (size_t i = 0; i < flags->count; i++) {
        const struct flag *flag = &flags->table[i];
        if (is_option(flag) && slice_equal(slice_of(flag->name), name)) {
            return flag;
        }
    }
    return NULL;
}

static const struct flag *
find_operand(const struct flags *flags)
{
    for (size_t i = 0; i < flags->count; i++) {
        if (!is_option(&flags->table[i])) {
            return &flags->table[i];
        }
    }
    return NULL;
}

static int
unknown(struct walk *walk, struct slice name, const char *dashes)
{
    const struct flags *flags = walk->flags;
    char quoted[QUOTE_ROOM];
    struct typo typo = {.best = NULL};

    for (size_t i = 0; i < flags->count; i++) {
        if (is_option(&flags->table[i])) {
            typo_offer(&typo, name, flags->table[i].name);
        }
    }
    (void)quote_text(name, quoted);
    quoted[strlen(quoted) - 1] = '\0'; /* without the quotes */
    return bad(walk, "unknown option %s%s%s%s%s (see --help)", dashes,
               quoted + 1, typo.best != NULL ? ", did you mean --" : "",
               typo.best != NULL ? typo.best : "",
               typo.best != NULL ? "?" : "");
}

/* The value of walk->flag: the text joined to it, or the next argument. */
static int
take_value(struct walk *walk, const char *joined)
{
    const char *name = walk->flag->name;

    if (walk->flag->kind == FLAG_SWITCH) {
        walk->value = NULL;
        return joined == NULL ? WALK_FLAG
                              : bad(walk, "--%s takes no value", name);
    }
    if (joined == NULL && *walk->argv == NULL) {
        return bad(walk, "--%s needs a value", name);
    }
    walk->value = joined != NULL ? joined : *walk->argv++;
    return WALK_FLAG;
}

static int
take_long(struct walk *walk, const char *text)
{
    const char *equals = strchr(text, '=');
    struct slice name = {
        text, equals != NULL ? (size_t)(equals - text) : strlen(text)};

    walk->flag = find_name(walk->flags, name);
    if (walk->flag == NULL) {
        return unknown(walk, name, "--");
    }
    return take_value(walk, equals != NULL ? equals + 1 : NULL);
}

static int
take_short(struct walk *walk, const char *text)
{
    for (size_t i = 0; i < walk->flags->count; i++) {
        if (walk->flags->table[i].letter == text[0]) {
            walk->flag = &walk->flags->table[i];
            return take_value(walk, text[1] != '\0' ? text + 1 : NULL);
        }
    }
    return unknown(walk, slice_of(text), "-");
}

static int
next(struct walk *walk)
{
    if (!walk->operands_only && *walk->argv != NULL &&
        strcmp(*walk->argv, "--") == 0) {
        walk->operands_only = true;
        walk->argv++;
    }
    if (*walk->argv == NULL) {
        return WALK_END;
    }
    const char *text = *walk->argv++;
    if (walk->operands_only || text[0] != '-' || text[1] == '\0') {
        walk->flag = find_operand(walk->flags);
        walk->value = text;
        return walk->flag != NULL ? WALK_FLAG
                                  : bad(walk, "takes no operand: %s", text);
    }
    return text[1] == '-' ? take_long(walk, text + 2)
                          : take_short(walk, text + 1);
}

/* Values */

static bool
set_number(char *at, const struct flag *flag, const char *value)
{
    char *end;
    double number;

    CHECK(flag->min <= flag->max);
    errno = 0;
    number = strtod(value, &end);
    if (errno != 0 || end == value || *end != '\0' || !isfinite(number) ||
        number < flag->min || number > flag->max) {
        return false;
    }
    if (flag->kind == FLAG_REAL) {
        memcpy(at, &number, sizeof(number));
        return true;
    }
    uint64_t count = (uint64_t)number;
    memcpy(at, &count, sizeof(count));
    return (double)count == number;
}

/* Fit to stand in headers, JSON and metrics without escapes. */
static bool
is_plain(const char *text)
{
    const char *c = text;

    while (*c > ' ' && *c < 0x7f && *c != '"' && *c != '\\') {
        c++;
    }
    return *c == '\0' && c != text && c - text <= FLAGS_TEXT_MAX;
}

static bool
is_address(const char *text)
{
    struct in6_addr unused;

    return inet_pton(AF_INET, text, &unused) == 1 ||
           inet_pton(AF_INET6, text, &unused) == 1;
}

static bool
set_once(char *at, const char *value)
{
    const char *before;

    memcpy(&before, at, sizeof(before));
    memcpy(at, &value, sizeof(value));
    return before == NULL;
}

/* Adds an item of one or two texts. */
static bool
add_item(char *options, const struct flag *flag, const char *const *texts,
         size_t texts_count)
{
    size_t bytes = texts_count * sizeof(texts[0]);
    uint32_t count;

    CHECK(flag->count_at != flag->at && flag->max >= 1);
    memcpy(&count, options + flag->count_at, sizeof(count));
    if (count >= (uint32_t)flag->max) {
        return false;
    }
    memcpy(options + flag->at + count * bytes, texts, bytes);
    count++;
    memcpy(options + flag->count_at, &count, sizeof(count));
    return true;
}

static bool
set_url(char *at, const char *value)
{
    struct url url;

    if (url_parse_http(slice_of(value), &url) != NULL) {
        return false;
    }
    memcpy(at, &url, sizeof(url));
    return true;
}

static bool
set_server(char *at, const char *value)
{
    struct url url;

    if (url_parse_peer(slice_of(value), &url) != NULL ||
        !is_address(url.host)) {
        return false;
    }
    memcpy(at, &url, sizeof(url));
    return true;
}

/* Which of "one|another" the word is. */
static bool
set_choice(char *at, const char *words, const char *value)
{
    size_t len = strlen(value);

    for (uint32_t i = 0;; i++) {
        size_t word_len = strcspn(words, "|");
        if (word_len == len && memcmp(words, value, len) == 0) {
            memcpy(at, &i, sizeof(i));
            return true;
        }
        if (words[word_len] == '\0') {
            return false;
        }
        words += word_len + 1;
    }
}

static bool
set(char *options, const struct flag *flag, const char *value)
{
    char *at = options + flag->at;
    static const bool yes = true;

    switch (flag->kind) {
    case FLAG_ANY:
        return set_once(at, value);
    case FLAG_PAIR:
        return add_item(options, flag, (const char *[]){flag->name, value}, 2);
    case FLAG_TEXT:
        memcpy(at, &value, sizeof(value));
        return is_plain(value);
    case FLAG_LIST:
        return is_plain(value) && add_item(options, flag, &value, 1);
    case FLAG_OPERAND:
        return add_item(options, flag, &value, 1);
    case FLAG_HOST:
        memcpy(at, &value, sizeof(value));
        return is_address(value);
    case FLAG_URL:
        return set_url(at, value);
    case FLAG_SERVER:
        return set_server(at, value);
    case FLAG_COUNT:
    case FLAG_REAL:
        return set_number(at, flag, value);
    case FLAG_CHOICE:
        return set_choice(at, flag->value, value);
    case FLAG_SWITCH:
        memcpy(at, &yes, sizeof(yes));
        return true;
    }
    return false;
}

/* Says what was expected instead of the value just read. */
static int
refuse(struct walk *walk)
{
    const struct flag *flag = walk->flag;
    const char *wanted = "";
    char quoted[QUOTE_ROOM];

    (void)quote_text(slice_of(walk->value), quoted);
    switch (flag->kind) {
    case FLAG_COUNT:
    case FLAG_REAL:
        return bad(walk, "--%s: expected a%s number from %g to %.0f, not %s",
                   flag->name, flag->kind == FLAG_COUNT ? " whole" : "",
                   flag->min, flag->max, quoted);
    case FLAG_HOST:
        wanted = "an IP address";
        break;
    case FLAG_URL:
        wanted = "http://HOST[:PORT][/PATH]";
        break;
    case FLAG_SERVER:
        wanted = "IP:PORT";
        break;
    case FLAG_CHOICE:
        wanted = flag->value;
        break;
    case FLAG_TEXT:
        wanted = "a plain name";
        break;
    case FLAG_LIST:
        return bad(walk, "--%s: expected up to %.0f plain names, not %s",
                   flag->name, flag->max, quoted);
    case FLAG_OPERAND:
        return bad(walk, "one operand too many: %s", quoted);
    case FLAG_PAIR:
        return bad(walk, "--%s is one option too many", flag->name);
    case FLAG_ANY:
        return bad(walk, "--%s appears twice", flag->name);
    case FLAG_SWITCH: /* cannot fail */
        break;
    }
    return bad(walk, "--%s: expected %s, not %s", flag->name, wanted, quoted);
}

static void
set_presets(const struct flags *flags, char *options)
{
    for (size_t i = 0; i < flags->count; i++) {
        const struct flag *flag = &flags->table[i];
        if (flag->preset == NULL || flag->kind == FLAG_LIST) {
            continue;
        }
        CHECK(set(options, flag, flag->preset));
    }
}

int
flags_parse(const struct flags *flags, void *options, char *const *argv,
            char *fault, size_t fault_size)
{
    struct walk walk = {.flags = flags, .argv = argv};
    int outcome;

    CHECK(fault != NULL && fault_size != 0);
    walk.fault = fault;
    walk.fault_size = fault_size;
    set_presets(flags, options);
    while ((outcome = next(&walk)) == WALK_FLAG) {
        if (!set(options, walk.flag, walk.value)) {
            return refuse(&walk);
        }
    }
    return outcome;
}

/* The manual */

#define HELP_WIDTH  80U
#define HELP_INDENT 28U

/* The default, behind a text that ends at that column; where it does not fit, on
 * lines of its own, which end at commas. */
static void
put_preset(const char *preset, size_t column, struct buf *out)
{
    if (column + strlen(preset) + 3 <= HELP_WIDTH) {
        buf_printf(out, " (%s)", preset);
        return;
    }
    buf_printf(out, "\n%*s(", (int)HELP_INDENT, "");
    column = HELP_INDENT + 1;
    while (*preset != '\0') {
        size_t len = strcspn(preset, ",");
        len += preset[len] == ',';
        if (column + len + 1 > HELP_WIDTH && column > HELP_INDENT + 1) {
            buf_printf(out, "\n%*s", (int)HELP_INDENT + 1, "");
            column = HELP_INDENT + 1;
        }
        buf_add(out, preset, len);
        column += len;
        preset += len;
    }
    buf_add_text(out, ")");
}

static void
help_flag(const struct flag *flag, struct buf *out)
{
    char left[64];
    const char *line = flag->help;

    (void)snprintf(left, sizeof(left), "--%s %s", flag->name,
                   flag->kind == FLAG_CHOICE ? "WORD"
                   : flag->value != NULL     ? flag->value
                                             : "");
    if (flag->kind == FLAG_CHOICE) {
        buf_printf(out, "  %-24s  %s:\n", left, flag->value);
        left[0] = '\0';
    }
    while (line != NULL) {
        const char *end = strchr(line, '\n');
        int len = (int)(end != NULL ? (size_t)(end - line) : strlen(line));
        buf_printf(out, "  %-24s  %.*s", left, len, line);
        left[0] = '\0';
        if (end == NULL && flag->preset != NULL) {
            put_preset(flag->preset, HELP_INDENT + (size_t)len, out);
        }
        buf_add_text(out, "\n");
        line = end != NULL ? end + 1 : NULL;
    }
}

void
flags_help(const struct flags *flags, struct buf *out)
{
    for (size_t i = 0; i < flags->count; i++) {
        if (is_option(&flags->table[i])) {
            help_flag(&flags->table[i], out);
        }
    }
}

bool
flags_print(void (*help)(struct buf *out))
{
    struct buf out;

    buf_init(&out, MANUAL_BYTES_MAX);
    help(&out);
    bool done = !out.failed && fwrite(out.ptr, 1, out.len, stdout) == out.len &&
                fflush(stdout) == 0;
    buf_fini(&out);
    return done;
}
